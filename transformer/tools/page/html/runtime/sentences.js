// A text cut into its sentences, by the rules of transformer/inference/long_text.py.

import { SPACES } from "./tokenizer.js";

// What ends a sentence, with the quotes and brackets that close behind it. Chinese and Japanese need no space, but there
// a sentence mostly goes on behind a quote.
const ENDS = new RegExp(String.raw`[.!?…؟۔।։።။។]["'”’»)\]]*[${SPACES}]+|[。！？](?!["”’」』）])[${SPACES}]*`, "gu");
// How many characters are looked at before and behind such a mark.
const AROUND = 20;
// Words with a period that mostly stand within a sentence.
const ABBREVIATIONS = new Set((
  "Abs Bd Co Corp Dept Dr Fr Gen Hr Inc Jr Ltd Mio Mlle Mme Mr Mrs Ms Nr Prof Sgt Sr St Str Tel approx bzw ca evtl " +
  "ggf inkl lt usw vgl vs").split(" "));

// Whether a sentence does not end at this mark: it goes on in lower case, or with a period after a letter, a small number
// or an abbreviation (z. B., 3. Mai, Dr.).
function goesOn(before, mark, after) {
  const [following] = /[\p{L}\p{N}_]/u.exec(after) ?? [""], [word] = /[\p{L}\p{N}_]*$/u.exec(before);
  const isShort = /^(?:.|\p{Nd}{2})$/u.test(word) || ABBREVIATIONS.has(word);
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
