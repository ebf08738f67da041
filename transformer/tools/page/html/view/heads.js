// All heads of a layer at a glance: each a small matrix, one pixel a pair of query (row) and key (column).

import { SIDES, mean, shown } from "./attention.js";
import { find, make, radios } from "./dom.js";
import { data } from "./state.js";
import { text } from "./texts.js";

function drawMatrix(canvas, weights) {
  canvas.height = weights.length;
  canvas.width = Math.max(...weights.map(row => row.length));
  const pen = canvas.getContext("2d"), style = getComputedStyle(canvas);
  weights.forEach((row, y) => {
    for (let x = 0; x < canvas.width; x++) {
      const hidden = row[x] === undefined;  // by the causal mask
      pen.fillStyle = hidden ? style.borderTopColor : style.color;
      // The root spreads the small shares apart, as in the sentences.
      pen.globalAlpha = hidden ? 0.45 : Math.sqrt(row[x]);
      pen.fillRect(x, y, 1, 1);
    }
  });
}

function meanMatrix(list) {
  return list[0].map((row, query) => row.map((_, key) => mean(list.map(matrix => matrix[query][key]))));
}

// The choice of a layer and a head. A mean over layers exists only of all heads: head 1 of one layer has nothing to do
// with head 1 of another.
export function drawLayersAndHeads(onChoose) {
  const layers = data.attention[shown.attention];
  if (shown.layer !== "mean" && shown.layer >= layers.length) shown.layer = "mean";
  if (shown.layer === "mean" || shown.head >= layers[shown.layer].length) shown.head = "mean";
  const numbers = layers.map((_, at) => [at, String(at + 1)]);
  radios(find("layer"), "layer", [["mean", text("all layers")], ...numbers], shown.layer, layer => {
    shown.layer = layer;
    onChoose();
  });
  const heads = shown.layer === "mean" ? [] : layers[shown.layer];
  const all = shown.layer === "mean" ? layers.flat() : heads;
  const pictures = [["mean", text("mean"), meanMatrix(all)]];
  heads.forEach((matrix, at) => pictures.push([at, String(at + 1), meanMatrix([matrix])]));
  const options = pictures.map(([value, label]) => [value, make("span", { className: "matrix" }, make("canvas")), label]);
  radios(find("head"), "head", options, shown.head, head => {
    shown.head = head;
    onChoose();
  });
  // Only now, in the page, do the canvases have colors.
  find("head").querySelectorAll("canvas").forEach((canvas, at) => drawMatrix(canvas, pictures[at][2]));
}

// A frame around the row or column of the small matrices that the sentences show.
export function markInMatrices({ side, position }) {
  const { queries } = SIDES[shown.attention], layers = data.attention[shown.attention];
  const row = side === queries;
  const at = row && side === "target" ? position - 1 : position;
  const count = row ? layers[0][0].length : layers[0][0].at(-1).length;
  for (const matrix of document.querySelectorAll("#head .matrix")) {
    matrix.classList.toggle("by-row", row);
    matrix.style.setProperty("--from", at / count);
    matrix.style.setProperty("--size", 1 / count);
  }
}
