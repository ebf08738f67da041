// Recognizes a translation that repeats itself, or is empty: it is searched again, without repeats. The same rules as
// transformer/inference/repetition.py.

// Of the pieces of a translation that is searched again, no sequence of so many comes twice.
const NO_REPEAT = 3, NO_REPEAT_OF_LETTERS = 15;
// A translation may say something so many times in a row, or so many times as often as its source says something.
const MAX_TIMES = 3;

// How many times, at most, a sequence stands in a row; one without a letter does not count.
function timesInARow(pieces) {
  const hasLetter = pieces.map(piece => /\p{L}/u.test(piece));
  let times = 1;
  for (let length = 1; 2 * length <= pieces.length; length++) {
    let run = 0;  // so many pieces before the one at `end` are those that stand `length` earlier
    for (let end = length; end <= pieces.length; end++) {
      if (end < pieces.length && pieces[end] === pieces[end - length]) {
        run++;
        continue;
      }
      const start = end - length - run;
      if (run && hasLetter.slice(start, start + length).some(Boolean)) times = Math.max(times, 1 + Math.floor(run / length));
      run = 0;
    }
  }
  return times;
}

// How many sequences of NO_REPEAT pieces have come before.
function repeats(pieces) {
  const sequences = pieces.slice(NO_REPEAT - 1).map((_, start) => JSON.stringify(pieces.slice(start, start + NO_REPEAT)));
  return sequences.length - new Set(sequences).size;
}

// Whether a translation of a source, both in pieces, is empty, says something over and over that its source does not, or
// was cut at its limit and repeats more than its source does.
export function isFaulty(source, { text, pieces }, isCut) {
  if (!text || (isCut && repeats(pieces) > repeats(source))) return true;
  const times = timesInARow(pieces);
  return times > MAX_TIMES && times > MAX_TIMES * timesInARow(source);
}

// The search for what came out faulty, written with a vocabulary of this kind.
export const withoutRepeats = (settings, kind) =>
  ({ ...settings, no_repeat: kind === "char" ? NO_REPEAT_OF_LETTERS : NO_REPEAT, min_length: Math.max(1, settings.min_length) });
