// What stands on top of the page, and the panels below it, of which one is in view.

import { drawArithmetic } from "./arithmetic.js";
import { drawAttentionPanel } from "./attention_panel.js";
import { drawTranslation } from "./confidence.js";
import { find, walkWithArrows } from "./dom.js";
import { drawSearch } from "./search.js";
import { data, opening, setData } from "./state.js";
import { drawStepwise } from "./stepwise.js";
import { language, text } from "./texts.js";
import { drawTour } from "./tour.js";
import { drawTree } from "./tree.js";
import { drawWhatIf } from "./what_if.js";

const PANELS = { attention: drawAttentionPanel, stepwise: drawStepwise, search: drawSearch, arithmetic: drawArithmetic,
  "what-if": drawWhatIf };
let panel = "attention";

// What is translated, and by which model: both are known before there is a text.
export function drawHeading([source, target], model) {
  find("languages").textContent = text("languages", { source: languageName(source), target: languageName(target) });
  const parameters = model.parameters.toLocaleString(language);
  find("model").textContent = text(model.name ? "model" : "model unnamed", { ...model, parameters });
}

function drawTop() {
  const [source, target] = data.languages;
  document.title = opening.title ?? `${data.text} → ${data.translation}`;
  drawHeading(data.languages, data.model);
  // Of a text of several sentences the panels show one, and the top the whole translation.
  find("source-text").textContent = data.text || text("nothing");
  drawTranslation((data.full_translation ?? data.translation) || text("nothing"));
  [find("source-text").lang, find("target-text").lang] = [source, target];
}

// “German” for de, in the reader's language, and the tag itself where it is none that the browser knows.
export function languageName(tag) {
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(tag);
  } catch {
    return tag;
  }
}

function drawTabs() {
  const tabs = Object.keys(PANELS).filter(name => !find(`tab-${name}`).hidden);
  for (const name of tabs) {
    find(`tab-${name}`).setAttribute("aria-selected", name === panel);
    find(`tab-${name}`).tabIndex = name === panel ? 0 : -1;
    find(`panel-${name}`).hidden = name !== panel;
  }
}

// Only the panel in view is drawn: others are when they come into view.
export function draw() {
  if (!data || find("panels").hidden) return;  // hidden where there is no text: `data` is of the one before
  drawTop();
  drawTabs();
  PANELS[panel]();
  drawTour();
}

export function show(explanation) {
  setData(explanation);
  draw();
}

export function showPanel(name) {
  panel = name;
  draw();
}

for (const name of Object.keys(PANELS)) {
  for (const kind of ["click", "focus"]) {
    find(`tab-${name}`).addEventListener(kind, () => panel !== name && showPanel(name));
  }
}
walkWithArrows(find("tabs"), "[role=tab]:not([hidden])");
addEventListener("resize", () => panel === "search" && drawTree());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
