// Finding a good target, one token at a time, given only `step(rows)`, which knows the model: each row is a hypothesis
// { ids, state }; the answer has for each row the log-probabilities of the next id, and the state that includes the row's
// newest one. The searches are generators: they pause after every step, so that the caller can show how far they are, or
// stop. The same rules as transformer/inference/search.py.
//
// A hypothesis has at least min_length tokens and at most max_length, its end not counted. Its score is
// log-probability / length^length_penalty, with the end counted. `prefix` holds ids that it must begin with.

import { BOS, EOS } from "./tokenizer.js";
import { logSoftmax, softmax } from "./matrix.js";

const SEARCHES = ["greedy", "beam", "sampling"];
export const DEFAULTS = {
  method: "greedy", beam: 5, patience: 1, length_penalty: 1, min_length: 0, max_length: 1024, length_ratio: 2, length_extra: 20,
  temperature: 1, top_k: 0, top_p: 1, seed: 1, prefix: [], no_repeat: null,
};

// The largest number of tokens of a hypothesis for a source of so many, without its end. Python rounds halves to even.
export function maxLength({ length_ratio, length_extra, max_length, min_length }, sourceLength) {
  const exact = length_ratio * sourceLength, rounded = Math.round(exact) - (exact % 1 === 0.5 && Math.round(exact) % 2 ? 1 : 0);
  return Math.max(1, min_length, Math.min(max_length, rounded + length_extra));
}

// Returns { hypotheses, tree }: hypotheses { ids, score, log_probability }, best first. Yields ids so far.
export function* search(step, state, limit, settings) {
  if (!SEARCHES.includes(settings.method)) {
    throw new Error(`method=${settings.method} is not allowed; choose one of ${SEARCHES.join(", ")}`);
  }
  if (!(Number.isInteger(settings.beam) && settings.beam >= 1)) {
    throw new Error(`beam=${settings.beam} must be a whole number, at least 1`);
  }
  if (settings.method === "beam") return yield* beamSearch(step, state, limit, settings);
  const random = generator(settings.seed);
  const choose = settings.method === "greedy" ? largest : logProbs => sample(logProbs, random(), settings);
  return yield* generate(step, state, limit, settings, choose);
}

function* generate(step, state, limit, settings, choose) {
  const ids = [];
  let total = 0;
  for (;;) {
    const { logProbs: [logProbs], states } = step([{ ids: [BOS, ...ids], state }]);
    state = states[0];
    restrict(logProbs, ids, limit, settings);
    const id = choose(logProbs);
    total += logProbs[id];
    if (id === EOS) return { hypotheses: [finished(ids, total, settings)], tree: null };
    ids.push(id);
    yield ids;
  }
}

// Every step takes the 2 × beam best continuations. Those among the first `beam` that end become hypotheses; the best
// `beam` that do not end stay in the beam. The search goes on until there are `beam` × `patience` hypotheses: a longer one
// may have a better score than the first.
function* beamSearch(step, state, limit, settings) {
  const { beam, patience, length_penalty } = settings, hypotheses = [], tree = [];
  let rows = [{ ids: [], state, total: 0 }];
  for (let position = 0; ; position++) {
    const { logProbs, states } = step(rows.map(row => ({ ids: [BOS, ...row.ids], state: row.state })));
    logProbs.forEach((row, at) => restrict(row, rows[at].ids, limit, settings));
    const candidates = bestContinuations(logProbs, rows, 2 * beam);
    candidates.forEach((candidate, rank) => {
      if (candidate.id !== EOS || rank >= beam) return;
      candidate.hypothesis = finished(rows[candidate.origin].ids, candidate.total, settings);
      hypotheses.push(candidate.hypothesis);
    });
    const kept = candidates.filter(candidate => candidate.id !== EOS).slice(0, beam);
    kept.forEach((candidate, place) => { candidate.place = place; });
    tree.push({ position, candidates: candidates.map(one => ({ ...one, score: one.total / (position + 1) ** length_penalty })) });
    if (hypotheses.length >= Math.floor(beam * patience + 0.5) || !kept.length) break;
    rows = kept.map(({ origin, id, total }) => ({ ids: [...rows[origin].ids, id], state: states[origin], total }));
    yield rows[0].ids;
  }
  return { hypotheses: hypotheses.sort((a, b) => b.score - a.score).slice(0, beam), tree };
}

const finished = (ids, total, { length_penalty }) =>
  ({ ids: [...ids], score: total / (ids.length + 1) ** length_penalty, log_probability: total });

// What must not follow these ids gets the probability 0: all but the next id of a prefix, all but the end at the limit, the
// end of a hypothesis that is too short, what ends a sequence of `no_repeat` ids that is there already.
function restrict(logProbs, ids, limit, { prefix, min_length, no_repeat }) {
  const position = ids.length, only = position < prefix.length ? prefix[position] : position >= limit ? EOS : null;
  if (only !== null) {
    logProbs.forEach((_, id) => { if (id !== only) logProbs[id] = -Infinity; });
    return;
  }
  if (position < min_length) logProbs[EOS] = -Infinity;
  if (!no_repeat) return;
  const newest = ids.slice(position - no_repeat + 1);
  for (let end = no_repeat - 1; end < position; end++) {
    const start = end - no_repeat + 1;
    if (newest.every((id, at) => ids[start + at] === id)) logProbs[ids[end]] = -Infinity;
  }
}

// The candidates with the largest sums, largest first.
function bestContinuations(logProbs, rows, count) {
  const best = [];
  rows.forEach(({ total }, origin) => {
    for (let id = 0; id < logProbs[origin].length; id++) {
      const sum = total + logProbs[origin][id];
      if (sum === -Infinity || (best.length === count && sum <= best[count - 1].total)) continue;
      let at = best.length;
      while (at > 0 && best[at - 1].total < sum) at--;
      best.splice(at, 0, { origin, id, total: sum, logProb: logProbs[origin][id], place: null, hypothesis: null });
      if (best.length > count) best.pop();
    }
  });
  return best;
}

function largest(logProbs) {
  let best = 0;
  for (let id = 1; id < logProbs.length; id++) if (logProbs[id] > logProbs[best]) best = id;
  return best;
}

// Draws from softmax(log-probabilities / temperature), cut to the `top_k` most probable ids and to the smallest set of them
// that holds a share of `top_p` (Holtzman et al. 2020). `draw` lies between 0 and 1.
function sample(logProbs, draw, { temperature, top_k, top_p }) {
  const ids = [...logProbs.keys()].sort((a, b) => logProbs[b] - logProbs[a]).slice(0, top_k || undefined);
  const shares = softmax(Float32Array.from(ids, id => logProbs[id] / temperature));
  // An id stays while those before it hold less than top_p: the first always stays.
  let held = 0;
  const stay = shares.filter(share => ((held += share), held - share < top_p));
  let rest = draw * stay.reduce((a, b) => a + b, 0);
  const chosen = stay.findIndex(share => (rest -= share) < 0);
  return ids[chosen < 0 ? 0 : chosen];
}

// Random numbers from a seed (mulberry32, by Tommy Ettinger).
export function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}
