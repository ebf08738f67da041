// One translation as the page shows it: the same structure that transformer/tools/page/explanation.py makes, of one sentence
// of a text. All sentences are translated.

import { EOS } from "./tokenizer.js";
import { names } from "./translator.js";

// There are layers × heads × tokens² weights to show.
export const MAX_SHOWN = 200;
const NEXT_BEST = 5;

// Yields as `translate` does. Returns null for a text without tokens. `tree` asks for the steps of the beam, `sentence` is
// the index of the sentence; a larger one than there are means the last.
export function* explain(translator, text, { tree = false, ...options }) {
  const { about, source: sourceTokenizer, target: targetTokenizer } = translator;
  const all = yield* translator.findEach(text, options, Math.min(MAX_SHOWN, about.max_tokens), translator.remembered);
  if (!all.length) return null;
  const sentence = Math.min(options.sentence ?? 0, all.length - 1), found = all[sentence];
  const { hypotheses, settings } = found, reading = found.read(), layers = reading.layers(), ids = [...found.ids, EOS], target = [...reading.inputs, EOS];
  return {
    text: found.text,
    translation: translator.show(found.ids).text,
    sentence,
    sentences: all.map(({ text, ids, cut }) =>
      ({ text, translation: translator.show(ids).text, cut, unknown: sourceTokenizer.unknown(text) })),
    full_translation: translator.join(all).text,
    languages: options.languages ?? about.languages,
    source: names(sourceTokenizer, reading.source),
    source_ids: reading.source,
    target: names(targetTokenizer, target),
    target_ids: target,
    attention: {
      encoder: thousandths(reading.attention.encoder),
      // What a step could not see is left out.
      decoder: thousandths(reading.attention.decoder, options.modify?.causal !== false),
      cross: thousandths(reading.attention.cross),
    },
    alignment: about.alignment,
    steps: ids.map((id, at) => ({
      probability: reading.probabilities[at][id], next_best: nextBest(reading.probabilities[at], id, targetTokenizer),
      layers: layers.map(probabilities => likeliest(probabilities[at], targetTokenizer)),
    })),
    hypotheses: hypotheses.map(({ ids, score, log_probability }) => ({
      text: translator.show(ids).text, score, log_probability, length: ids.length + 1, pieces: names(targetTokenizer, [...ids, EOS]),
    })),
    search: { method: settings.method, length_penalty: settings.length_penalty, beam: settings.beam },
    model: { ...about.size },
    tree: tree && found.tree ? found.tree.map(step => drawn(step, hypotheses, targetTokenizer)) : null,
    trace: reading.trace,
  };
}

// Weights to three decimals, as integers.
function thousandths(layers, causal = false) {
  const rounded = (row, query) => Array.from(causal ? row.subarray(0, query + 1) : row, weight => Math.round(weight * 1000));
  return layers.map(heads => heads.map(head => head.map(rounded)));
}

// The most probable ids that were not chosen: [piece, probability, id].
function nextBest(probabilities, chosen, tokenizer) {
  const ids = [...probabilities.keys()].filter(id => id !== chosen).sort((a, b) => probabilities[b] - probabilities[a]);
  return ids.slice(0, NEXT_BEST).map(id => [tokenizer.pieces[id], probabilities[id], id]);
}

function likeliest(probabilities, tokenizer) {
  const id = probabilities.indexOf(probabilities.reduce((a, b) => Math.max(a, b)));
  return [tokenizer.pieces[id], probabilities[id]];
}

// One step of the beam. `hypothesis` says which of the hypotheses a candidate became.
function drawn({ position, candidates }, hypotheses, tokenizer) {
  return {
    position,
    candidates: candidates.map(({ origin, id, logProb, total, score, place, hypothesis }) => ({
      origin, id, piece: tokenizer.pieces[id], probability: Math.exp(logProb), total, score, place,
      hypothesis: hypothesis && hypotheses.includes(hypothesis) ? hypotheses.indexOf(hypothesis) : null,
    })),
  };
}
