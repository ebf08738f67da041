// The panel where a piece is pointed at and what it attended to lights up.

import { drawAlignment } from "./alignment.js";
import { SIDES, attentions, canAsk, lights, shown } from "./attention.js";
import { clear, find, percent, radios } from "./dom.js";
import { drawLayersAndHeads, markInMatrices } from "./heads.js";
import { drawReadout } from "./readout.js";
import { drawLegend, drawPieces, listenTo } from "./sentence.js";
import { data } from "./state.js";
import { rich, text } from "./texts.js";

// A piece is a place: which side, which position. A held one stays when the pointer leaves.
let held = { side: "target", position: 1 };
let pointed = null;

function drawChoiceOfAttention() {
  const options = attentions().map(name => [name, text(`attention ${name}`)]);
  radios(find("attention"), "attention", options, shown.attention, name => {
    shown.attention = name;
    drawAttentionPanel();
  });
  clear(find("meaning"), ...rich(`meaning ${shown.attention}`));
}

function drawLights(current, lit) {
  const { queries, keys } = SIDES[shown.attention];
  for (const side of ["source", "target"]) {
    find(side).classList.toggle("idle", side !== queries && side !== keys);
    for (const button of find(side).querySelectorAll(".piece")) {
      const position = Number(button.dataset.position);
      const share = side === lit.side ? lit.shares[position] ?? null : null;
      button.style.setProperty("--share", share ?? 0);
      button.querySelector("small").textContent = share >= 0.005 ? percent(share) : "";
      button.classList.toggle("current", side === current.side && position === current.position);
      button.disabled = !canAsk(side, position);
      button.setAttribute("aria-pressed", side === held.side && position === held.position);
      button.tabIndex = -1;
    }
    // One stop of the tab key a sentence; the arrows walk within.
    const stop = find(side).querySelector('[aria-pressed="true"]:enabled') ?? find(side).querySelector(".piece:enabled");
    if (stop) stop.tabIndex = 0;
  }
}

function drawPointed() {
  const current = pointed ?? held, lit = lights(current);
  drawLights(current, lit);
  markInMatrices(current);
  drawReadout(current, lit);
}

export function drawAttentionPanel() {
  if (!attentions().includes(shown.attention)) shown.attention = attentions()[0];
  const { queries } = SIDES[shown.attention];
  held.position = Math.min(held.position, data[held.side].length - 1);
  if (!canAsk(held.side, held.position)) held = { side: queries, position: queries === "target" ? 1 : 0 };
  pointed = null;
  for (const side of ["source", "target"]) {
    drawPieces(find(side), data[side]);
    find(side).lang = find(`${side}-words`).lang = data.languages[side === "source" ? 0 : 1];
  }
  drawChoiceOfAttention();
  drawLegend(find("legend"), [...data.source, ...data.target]);
  drawLayersAndHeads(drawAttentionPanel);
  drawPointed();
  drawAlignment();
}

for (const side of ["source", "target"]) {
  const place = position => (position === null ? null : { side, position });
  listenTo(find(side), position => { pointed = place(position); drawPointed(); },
    position => { held = place(position); drawPointed(); });
}
