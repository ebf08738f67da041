// Every word of the page, in the reader's language: one table each (texts/*.json), inlined by Python.

import { clear, find, make, radios } from "./dom.js";

const TEXTS = JSON.parse(find("texts").textContent);

export let language = (navigator.languages ?? [navigator.language])
  .map(tag => tag.slice(0, 2))
  .find(tag => tag in TEXTS) ?? "en";

// The text of a key; {name} in it stands for a value.
export function text(key, values = {}) {
  if (!(key in TEXTS[language])) throw new Error(`no text “${key}” in ${language}`);
  return TEXTS[language][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// The same as nodes, where *words* are terms explained here and `words` stand as the model sees them. The marks are
// looked for before values are filled in: a value may contain them.
export function rich(key, values = {}) {
  return TEXTS[language][key].split(/(\*[^*]+\*|`[^`]+`)/).filter(Boolean).map(part => {
    const filled = string => string.replace(/\{(\w+)\}/g, (_, name) => values[name]);
    if (/^\*.+\*$/.test(part)) return make("dfn", {}, filled(part.slice(1, -1)));
    if (/^`.+`$/.test(part)) return make("code", {}, filled(part.slice(1, -1)));
    return filled(part);
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
