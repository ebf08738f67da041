// Starts the page, once all of it is there.

import { startTranslator } from "../runtime/client.js";
import { find } from "./dom.js";
import { drawHistory, startHistory } from "./history.js";
import { drawOptions, startLive } from "./live.js";
import { draw, show } from "./panels.js";
import { drawLanguages, text, writeTexts } from "./texts.js";

async function start() {
  const read = id => find(id) && JSON.parse(find(id).textContent);
  const explanation = read("explanation");
  writeTexts();
  drawLanguages(() => {
    draw();
    drawOptions();
    drawHistory();
  });
  find("panels").hidden = !explanation;
  if (explanation) show(explanation);
  find("status").hidden = true;
  if (!find("runtime")) return;
  try {
    find("notice").textContent = text("starting");
    startLive(await startTranslator(), read("opening"));
    startHistory(read("history"));
  } catch (error) {
    find("notice").textContent = "";
    find("status").textContent = error.message;
    find("status").hidden = false;
  }
}

addEventListener("DOMContentLoaded", start);
