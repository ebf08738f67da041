// Text in, translation out: tokenizer, model and search put together, as in transformer/inference/translator.py.

import { BOS, EOS, PAD, Tokenizer } from "./tokenizer.js";
import { SPACES } from "./clean.js";
import { Change } from "./change.js";
import { Record } from "./record.js";
import { Remembered } from "./remembered.js";
import { isFaulty, withoutRepeats } from "./repetition.js";
import { DEFAULTS, generator, maxLength, search } from "./search.js";
import { Transformer } from "./model.js";
import { logSoftmax, rowsOf, softmax } from "./matrix.js";
import { splitSentences } from "./sentences.js";

const trimmed = text => text.replace(new RegExp(`^[${SPACES}]+|[${SPACES}]+$`, "gu"), "");

export class Translator {
  // Takes what `unpack` (weights.js) gives.
  constructor({ languages, directions = [], space = " ", tokenizer, model, parameters, precision, length_penalty = 1, length_ratio = 2, keeps_letterless = true, alignment = null, tensors }) {
    this.model = new Transformer(model, tensors);
    this.remembered = new Remembered();
    this.source = new Tokenizer(tensors["tokenizer.source"].values, tokenizer.tag);
    // One vocabulary of both languages is in the file once.
    this.target = new Tokenizer((tensors["tokenizer.target"] ?? tensors["tokenizer.source"]).values);
    // All that the model has learned, if they are several: { languages, tag, space }.
    this.directions = directions;
    // What stands between two sentences of the target language.
    this.space = space;
    this.about = { languages, directions: directions.map(one => one.languages), tokenizer: this.source.kind, precision, model, length_penalty, length_ratio, keeps_letterless, alignment, max_tokens: model.max_length - 1, pieces: this.source.vocabulary.ids.size };
    this.about.size = { parameters, dim: model.dim, encoder_layers: model.encoder.layers, decoder_layers: model.decoder.layers };
  }

  // The same with other weights of its model.
  withWeights(tensors) {
    const other = Object.assign(Object.create(Translator.prototype), this);
    return Object.assign(other, { model: new Transformer(this.about.model, tensors), remembered: new Remembered() });
  }

  // Yields what is found so far, after every step: { text, pieces, ids }. Returns { text, pieces, ids, score,
  // log_probability, sentences }, of each sentence { source, text, pieces, ids, score, log_probability, attention, cut }.
  *translate(text, options) {
    if (this.isKept(text)) return { text: trimmed(text), pieces: [], ids: [], score: 0, log_probability: 0, sentences: [] };
    const found = yield* this.findEach(text, options, this.about.max_tokens);
    const sentences = found.map(({ text, ids, hypotheses: [{ score, log_probability }], read, cut }) =>
      ({ source: text, ...this.show(ids), score, log_probability, attention: read().attention, cut }));
    const sum = name => sentences.reduce((total, sentence) => total + sentence[name], 0);
    return { ...this.join(found), score: sum("score"), log_probability: sum("log_probability"), sentences };
  }

  // Of a model of several directions: the tag of a target language, before the source, asks for one of them.
  turnTo(languages = this.about.languages) {
    if (!this.directions.length) return;
    const direction = this.directions.find(one => String(one.languages) === String(languages));
    if (!direction) throw new Error(`This model has not learned ${languages.join(" → ")}.`);
    this.source.prefix = direction.tag === null ? [] : [direction.tag];
    this.space = direction.space;
  }

  // Whether a text stays as it is: it has no letter.
  isKept(text) {
    return this.about.keeps_letterless && /\S/u.test(text) && !/\p{L}/u.test(text);
  }

  // The sentences of a text that have tokens, each with what stands before its translation, and behind the last one: also
  // sentences that stay as they are, unless all do. Lines stay lines.
  sentences(text) {
    const all = text.split("\n").flatMap((line, row) => splitSentences(line).map(sentence => ({ text: sentence, row })));
    const sentences = all.filter(sentence => this.source.encode(sentence.text).length), allKept = this.isKept(text);
    const before = at => (at ? "\n".repeat(sentences[at].row - sentences[at - 1].row) || this.space : "");
    const translated = [];
    let kept = "";
    for (const [at, { text }] of sentences.entries()) {
      kept += before(at);
      if (!allKept && this.isKept(text)) {
        kept += trimmed(text);
      } else {
        translated.push({ text, before: kept, after: "" });
        kept = "";
      }
    }
    if (translated.length) translated.at(-1).after = kept;
    return translated;
  }

  // The translations of sentences, { before, ids, after } each, as one text.
  join(parts) {
    const shown = parts.map(({ before, ids, after = "" }) => ({ before, after, ...this.show(ids) }));
    return {
      text: shown.map(one => one.before + one.text + one.after).join(""),
      pieces: shown.flatMap(one => one.pieces), ids: shown.flatMap(one => one.ids),
    };
  }

  // What `find` finds for each sentence of a text: a model has mostly learned from single ones. `prefix` is of the one at
  // the index `sentence`, or of the last. `remembered` has the translations of earlier texts (see remembered.js): with it,
  // sentences other than that one come without what else `find` gives.
  *findEach(text, { sentence = 0, prefix = [], ...options }, limit, remembered = null) {
    this.turnTo(options.languages);
    const sentences = this.sentences(text), chosen = Math.min(sentence, sentences.length - 1), found = [];
    for (const [at, { text, before, after }] of sentences.entries()) {
      const settings = { ...options, prefix: at === chosen ? prefix ?? [] : [] };
      const known = at !== chosen && remembered?.get(text, settings);
      if (known) {
        found.push({ before, after, ...known });
        continue;
      }
      const steps = this.find(text, settings, limit);
      let progress = steps.next();
      for (; !progress.done; progress = steps.next()) yield this.join([...found, { before, ids: progress.value }]);
      found.push({ before, after, ids: progress.value.hypotheses[0].ids, ...progress.value });
      remembered?.set(text, settings, found.at(-1));
    }
    return found;
  }

  // Searches for the translation of one sentence; `read` reads the best hypothesis. More than `limit` tokens are cut off.
  *find(text, { modify = {}, trace = null, languages, ...options }, limit) {
    this.turnTo(languages);  // another call may have turned to other languages
    // Null, as in configs/search/beam.yaml, means the model's own.
    const length_penalty = options.length_penalty ?? this.about.length_penalty;
    const length_ratio = options.length_ratio ?? this.about.length_ratio;
    const settings = { ...DEFAULTS, ...options, length_penalty, length_ratio }, change = new Change(modify);
    if (modify.shuffle !== undefined) text = shuffled(text, modify.shuffle);
    const { ids, cut } = this.encode(text, limit - (modify.padding ?? 0));
    const source = [...ids, EOS, ...Array(modify.padding ?? 0).fill(PAD)], record = new Record(trace);
    const memory = this.model.encode(source, { change, record });
    const longest = Math.min(limit, maxLength(settings, ids.length));
    settings.seed = mixed(settings.seed, ids);
    const searched = one => search(rows => this.step(rows, memory, change), this.model.emptyCache(), longest, one);
    let { hypotheses, tree } = yield* searched(settings);
    const isCut = hypotheses[0].ids.length >= longest;
    if (settings.no_repeat === null && isFaulty(names(this.source, ids), this.show(hypotheses[0].ids), isCut)) {
      const again = yield* searched(withoutRepeats(settings, this.target.kind));
      if (this.show(again.hypotheses[0].ids).text) ({ hypotheses, tree } = again);
    }
    const read = () => this.read(source, hypotheses[0].ids, memory, { change, record });
    return { text, cut, settings, hypotheses, tree, read };
  }

  show(ids) {
    // Bytes may spell a line end, but a translation is one line.
    return { text: this.target.decode(ids).replace(/[\r\n]+/g, " "), pieces: names(this.target, ids), ids: [...ids] };
  }

  // Ids of the text; of one with too many, those of the longest beginning, to the end of a word, that has few enough.
  encode(text, limit) {
    const ids = this.source.encode(text);
    if (ids.length <= limit) return { ids, cut: null };
    const ends = [...text.matchAll(/\S+/gu)].map(word => word.index + word[0].length);
    const fits = end => this.source.encode(text.slice(0, end)).length <= limit;
    // The first word alone may be too long: then it is cut between any two letters.
    const places = fits(ends[0]) ? ends : [...text].map(letter => letter.length).map((length => end => (length += end))(0));
    let fitting = 0, tooLong = places.length;
    while (tooLong - fitting > 1) {
      const middle = (fitting + tooLong) >> 1;
      if (fits(places[middle])) fitting = middle; else tooLong = middle;
    }
    const at = places[fitting];
    return { ids: this.source.encode(text.slice(0, at)), cut: { tokens: ids.length, limit, at } };
  }

  // Of each hypothesis: the log-probabilities of its next id, and its cache with the newest position in it.
  step(rows, memory, change) {
    let states, caches;
    if (change.causal) {
      // Several hypotheses may go on from one cache: each gets a list of its own, of the same keys and values.
      caches = rows.map(({ state }) => state.map(layer => [...layer]));
      const newest = rows.map(({ ids }, row) => ({ id: ids.at(-1), position: ids.length - 1, cache: caches[row] }));
      states = rowsOf(this.model.decode(newest, memory, { change }), this.model.config.dim);
    } else {
      // Without the causal mask a new token changes the states of all before it: they are computed anew.
      caches = rows.map(() => null);
      states = rows.map(({ ids }) => rowsOf(this.decodeAll(ids, memory, { change }), this.model.config.dim).at(-1));
    }
    return { logProbs: states.map(state => logSoftmax(this.model.logits(state))), states: caches };
  }

  decodeAll(inputs, memory, run) {
    const cache = this.model.emptyCache();
    return this.model.decode(inputs.map((id, position) => ({ id, position, cache })), memory, run);
  }

  // One pass over a whole translation, all positions at once. Row t of the decoder's attentions and of the logits is about
  // the id after `inputs[t]`. The record has that of the encoder already.
  read(source, ids, memory, { change, record }) {
    const inputs = [BOS, ...ids], { encoder, decoder } = this.model.config;
    const rows = states => rowsOf(this.model.logits(states), this.target.pieces.length);
    const logits = rows(this.decodeAll(inputs, memory, { change, record }));
    const weights = (attention, { layers }, config, queries, keys) => Array.from({ length: config ? layers : 0 },
      (_, layer) => record.weights(attention, layer, config.heads, queries.length, keys.length));
    const attention = {
      encoder: weights("encoder", encoder, encoder.self_attention, source, source),
      decoder: weights("decoder", decoder, decoder.self_attention, inputs, inputs),
      cross: weights("cross", decoder, decoder.cross_attention, inputs, source),
    };
    // What each decoder layer would write, were it the last: read only where it is asked for.
    const layers = () => record.states.map(states => rows(this.model.normalized(states)).map(softmax));
    return { source, inputs, attention, logits, layers, probabilities: logits.map(softmax), trace: record.trace && { ...record.trace, steps: record.steps() } };
  }
}

export const names = (tokenizer, ids) => ids.map(id => tokenizer.pieces[id]);

// A seed of its own for each source, so that the sentences of a text are drawn independently (FNV-1a).
const mixed = (seed, ids) => ids.reduce((hash, id) => Math.imul(hash ^ id, 0x01000193) >>> 0, seed ^ 0x811c9dc5);

// The words of a text in another order, the same for the same seed (Fisher and Yates).
function shuffled(text, seed) {
  const words = text.split(/\s+/u).filter(Boolean), random = generator(seed);
  for (let last = words.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [words[last], words[other]] = [words[other], words[last]];
  }
  return words.join(" ");
}
