// Starts the page, once all of it is there.

import { startTranslator } from "../runtime/client.js";
import { find } from "./dom.js";
import { drawHistory, startHistory } from "./history.js";
import { drawOptions, startLive } from "./live.js";
import { draw, show, showPanel } from "./panels.js";
import { setOpening } from "./state.js";
import { drawLanguages, isText, text, writeTexts } from "./texts.js";
import { startTour } from "./tour.js";

async function start() {
  const read = id => find(id) && JSON.parse(find(id).textContent);
  const explanation = read("explanation"), opening = read("opening") ?? {}, heading = document.querySelector("h1");
  setOpening(opening);
  if (opening.title) {
    document.title = heading.textContent = opening.title;
    heading.removeAttribute("data-text");
  }
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
    startLive(await startTranslator());
    startHistory(read("history"));
    startTour(showPanel);
  } catch (error) {
    find("notice").textContent = "";
    find("status").textContent = error.message;
    find("status").hidden = false;
    const key = `error ${error.message}`;
    if (!isText(key)) return;
    find("status").dataset.text = key;  // in every language that is chosen
    writeTexts();
  }
}

addEventListener("DOMContentLoaded", start);
