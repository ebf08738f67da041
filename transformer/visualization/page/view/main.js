// Starts the page, once all of it is there.

import { find } from "./dom.js";
import { draw, show } from "./panels.js";
import { drawLanguages, writeTexts } from "./texts.js";

function start() {
  const explanation = find("explanation");
  find("status").remove();
  writeTexts();
  drawLanguages(draw);
  if (explanation) show(JSON.parse(explanation.textContent));
}

addEventListener("DOMContentLoaded", start);
