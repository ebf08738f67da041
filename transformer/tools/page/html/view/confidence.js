// How sure the model is of each word: transformer/inference/confidence.py, from the probabilities of the steps. Words of the
// translation that have little are underlined, and named below it with their number.

import { wordsOf } from "./alignment.js";
import { clear, find, make, percent } from "./dom.js";
import { data } from "./state.js";
import { text } from "./texts.js";

const UNSURE = 0.5, MAX_NAMED_UNSURE = 8;

// The words of the sentence that is shown, each with the place of its first letter in the whole translation and the
// geometric mean of its pieces' probabilities; none where the text has other words than its pieces.
function wordsWithConfidence(whole) {
  const words = wordsOf(data.target), written = [...data.translation.matchAll(/[^ ]+/g)];
  if (words.length !== written.length) return [];
  const earlier = (data.sentences ?? []).slice(0, data.sentence).reduce((length, { translation }) => length + translation.length, 0);
  const start = whole.indexOf(data.translation, earlier);
  return words.map(({ positions }, at) => {
    const total = positions.reduce((sum, position) => sum + Math.log(data.steps[position - 1].probability), 0);
    return { word: written[at][0], start: start + written[at].index, confidence: Math.exp(total / positions.length) };
  });
}

export function drawTranslation(whole) {
  const unsure = wordsWithConfidence(whole).filter(({ confidence }) => confidence < UNSURE);
  let end = 0;
  const parts = unsure.flatMap(({ word, start, confidence }) => {
    const before = whole.slice(end, start);
    end = start + word.length;
    return [before, make("u", { title: text("unsure title", { share: percent(confidence) }) }, word)];
  });
  clear(find("target-text"), ...parts, whole.slice(end));
  const named = unsure.slice(0, MAX_NAMED_UNSURE).map(({ word, confidence }) => text("unsure word", { word, share: percent(confidence) }));
  const words = [...named, ...(unsure.length > named.length ? ["…"] : [])].join(", ");
  find("unsure").hidden = !unsure.length;
  find("unsure").textContent = unsure.length ? text("unsure", { words }) : "";
}
