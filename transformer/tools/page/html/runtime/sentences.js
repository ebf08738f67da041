// A text cut into its sentences, by the rules of transformer/inference/long_text.py.

import { SPACES } from "./clean.js";

// What ends a sentence, with the quotes and brackets that close behind it. Chinese and Japanese need no space, but there
// a sentence mostly goes on behind a quote.
const ENDS = new RegExp(String.raw`[.!?…؟۔।։።။។]["'”’»)\]]*[${SPACES}]+|[。！？](?!["”’」』）])[${SPACES}]*`, "gu");
// How many characters are looked at before and behind such a mark.
const AROUND = 20;
// Words with a period that mostly stand within a sentence.
const ABBREVIATIONS = new Set((
  "Abb Abs Art Bd Capt Co Col Corp Dept Dipl Dr Dra Fig Fr Gen Gov Hr Inc Ing Jr Lt Ltd Maj Mio Mlle Mme Mr Mrs Ms " +
  "Nr Prof Rep Rev Sen Sept Sgt Sr Sra Srta St Str Tel approx bzw ca evtl geb ggf inkl lt usw vgl vs").split(" "));
// How long a word before a period is, at most, for a number behind it to belong to it (Art. 5, pp. 12, geb. 1904).
const SHORT = 3;

// Whether a sentence does not end at this mark: it goes on in lower case, or with a period after a letter, a small number,
// a Roman one or an abbreviation (z. B., 3. Mai, Friedrich II., Dr.), or between a short word and a number.
function goesOn(before, mark, after) {
  const [following] = /[\p{L}\p{N}_]/u.exec(after) ?? [""], [word] = /[\p{L}\p{N}_]*$/u.exec(before);
  const isNumbered = /^\p{Nd}/u.test(after) && /[^\p{Nd}]/u.test(word) && [...word].length <= SHORT;
  const isShort = /^(?:.|\p{Nd}{2}|[IVX]+)$/u.test(word) || isNumbered || ABBREVIATIONS.has(word);
  return (mark[0] === "." && isShort) || /\p{Lowercase}/u.test(following);
}

// The sentences of a text, with the spaces that follow them.
export function splitSentences(text) {
  const sentences = [];
  let start = 0;
  for (const { 0: mark, index } of text.matchAll(ENDS)) {
    const end = index + mark.length, before = text.slice(Math.max(start, index - AROUND), index);
    // A character may be two units of a string, and Python counts characters.
    const after = [...text.slice(end, end + 2 * AROUND)].slice(0, AROUND).join("");
    if (!after || goesOn(before, mark, after)) continue;
    sentences.push(text.slice(start, end));
    start = end;
  }
  return [...sentences, text.slice(start)];
}
