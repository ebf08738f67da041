// How SentencePiece cuts a normalized text into pieces: one function for each kind of model. Each takes the text and the
// vocabulary, and returns pieces; one that the vocabulary does not have is unknown.

import { TYPE } from "./sentencepiece.js";
import { SPACE } from "./normalizer.js";

// The characters of a text; a symbol that the user defined (a tag of a language) counts as one.
function characters(text, { userDefined }) {
  const found = [];
  for (let at = 0; at < text.length; at += found.at(-1).length) {
    const symbol = userDefined.find(symbol => text.startsWith(symbol, at));
    found.push(symbol ?? String.fromCodePoint(text.codePointAt(at)));
  }
  return found;
}

// Words begin with ▁.
const words = text => text.split(new RegExp(`(?=${SPACE})`, "u"));

// Byte-pair encoding (Sennrich et al. 2016): of all neighbors that together are a piece, the pair that was learned first is
// merged, the leftmost one of several, again and again. No piece reaches beyond a word.
function bpe(text, vocabulary) {
  return words(text).flatMap(word => mergeNeighbors(characters(word, vocabulary), vocabulary));
}

function mergeNeighbors(pieces, { ids, scores, userDefined }) {
  // Earlier merges have the higher scores.
  const scoreOf = at => {
    if (userDefined.includes(pieces[at]) || userDefined.includes(pieces[at + 1])) return -Infinity;
    return scores[ids.get(pieces[at] + pieces[at + 1])] ?? -Infinity;
  };
  const pairs = pieces.slice(1).map((_, at) => scoreOf(at));
  for (;;) {
    const best = pairs.reduce((best, score, at) => (score > (pairs[best] ?? -Infinity) ? at : best), -1);
    if (best < 0) return pieces;
    pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
    pairs.splice(best, 1);
    if (best > 0) pairs[best - 1] = scoreOf(best - 1);
    if (best < pairs.length) pairs[best] = scoreOf(best);
  }
}

// The unigram language model (Kudo 2018): the segmentation whose pieces' log-probabilities have the largest sum, found by
// Viterbi's algorithm: the best one that ends at each place extends the best one that ends where its last piece begins.
function unigram(text, { ids, scores, types, longest, unknownScore }) {
  const letters = [...text], best = letters.map(() => null);
  const sumUntil = end => (end ? best[end - 1].sum : 0);
  for (let start = 0; start < letters.length; start++) {
    const extend = (end, sum) => {
      // Sums are rounded to float32, as there: among equals the first stays.
      if (!best[end - 1] || sum > best[end - 1].sum) best[end - 1] = { start, sum: Math.fround(sum) };
    };
    let piece = "", known = false;
    for (let end = start + 1; end <= Math.min(letters.length, start + longest); end++) {
      piece += letters[end - 1];
      const id = ids.get(piece);
      if (id === undefined) continue;
      // A symbol that the user defined always wins.
      extend(end, sumUntil(start) + (types[id] === TYPE.USER_DEFINED ? -0.1 : scores[id]));
      known ||= end === start + 1;
    }
    if (!known) extend(start + 1, Math.fround(sumUntil(start) + unknownScore));
  }
  const pieces = [];
  for (let end = letters.length; end > 0; end = best[end - 1].start) {
    pieces.unshift(letters.slice(best[end - 1].start, end).join(""));
  }
  return pieces;
}

export const SEGMENTATIONS = { bpe, unigram, word: words, char: characters };
