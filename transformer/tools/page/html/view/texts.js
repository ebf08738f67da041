// Every word of the page, in the reader's language: one table each (texts/*.json), inlined by Python.

import { clear, find, make, radios } from "./dom.js";

const TEXTS = JSON.parse(find("texts").textContent);

export let language = (navigator.languages ?? [navigator.language])
  .map(tag => tag.slice(0, 2))
  .find(tag => tag in TEXTS) ?? "en";

const RIGHT_TO_LEFT = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Nko}\p{Script=Syriac}\p{Script=Thaana}]/u;

// A value within a text. Between these marks, one from right to left leaves the numbers around it in their order.
export const isolated = value => (RIGHT_TO_LEFT.test(value) ? `\u2068${value}\u2069` : value);
const fill = (pattern, values) => pattern.replace(/\{(\w+)\}/g, (_, name) => isolated(values[name]));

export const isText = key => key in TEXTS[language];

// The text of a key; {name} in it stands for a value.
export function text(key, values = {}) {
  if (!isText(key)) throw new Error(`no text “${key}” in ${language}`);
  return fill(TEXTS[language][key], values);
}

// The same as nodes, where *words* are terms explained here and `words` stand as the model sees them. The marks are
// looked for before values are filled in: a value may contain them.
export function rich(key, values = {}) {
  return TEXTS[language][key].split(/(\*[^*]+\*|`[^`]+`)/).filter(Boolean).map(part => {
    if (/^\*.+\*$/.test(part)) return make("dfn", {}, fill(part.slice(1, -1), values));
    if (/^`.+`$/.test(part)) return make("code", {}, fill(part.slice(1, -1), values));
    return fill(part, values);
  });
}

// What the frame says: elements name their text by data-text, and an attribute of theirs by data-label.
export function writeTexts() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-text]")) clear(element, ...rich(element.dataset.text));
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", text(element.dataset.label));
  }
}

export function drawLanguages(onChange) {
  const names = Object.entries(TEXTS).map(([tag, table]) => [tag, make("span", { lang: tag }, table.language)]);
  radios(find("language"), "language", names, language, tag => {
    language = tag;
    writeTexts();
    onChange();
  });
}
