// Starts the page, once all of it is there.

import { startTranslator } from "../runtime/client.js";
import { find } from "./dom.js";
import { draw, show } from "./panels.js";
import { drawLanguages, writeTexts } from "./texts.js";

function start() {
  const explanation = find("explanation"), status = find("status");
  if (find("runtime")) startTranslator().then(() => status.remove(), error => { status.textContent = error.message; });
  else status.remove();
  writeTexts();
  drawLanguages(draw);
  if (explanation) show(JSON.parse(explanation.textContent));
}

addEventListener("DOMContentLoaded", start);
