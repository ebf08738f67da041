// The weights of the three attentions, as the page's data has them: layer, head, query, key, in thousandths.

import { data } from "./state.js";

// Who asks (queries) and who is looked at (keys).
export const SIDES = {
  cross: { queries: "target", keys: "source" },
  decoder: { queries: "target", keys: "target" },
  encoder: { queries: "source", keys: "source" },
};

// What is looked at: layer and head are numbers, or the mean of all heads of a layer ("mean"), or of all layers too.
export const shown = { attention: "cross", layer: "mean", head: "mean" };

export const attentions = () => Object.keys(SIDES).filter(name => data.attention[name].length);  // there may be no cross

export function matrices() {
  const layers = data.attention[shown.attention];
  if (shown.layer === "mean") return layers.flat();
  return shown.head === "mean" ? layers[shown.layer] : [layers[shown.layer][shown.head]];
}

export const mean = numbers => numbers.reduce((sum, number) => sum + number, 0) / numbers.length / 1000;

// The share of each key for one query, and of one key for each query, in the attention shown.
const rowOf = query => matrices()[0][query].map((_, key) => mean(matrices().map(matrix => matrix[query][key])));
const columnOf = key => matrices()[0].map((_, query) => mean(matrices().map(matrix => matrix[query][key] ?? 0)));

// What lights up for a piece: a side and one share for each position. A piece of the translation stands for the step
// that produced it: its query is at the position before.
export function lights({ side, position }) {
  const { queries, keys } = SIDES[shown.attention];
  if (side !== queries) return { side: queries, shares: [null, ...columnOf(position)] };
  return { side: keys, shares: rowOf(side === "target" ? position - 1 : position) };
}

export function canAsk(side, position) {
  const { queries, keys } = SIDES[shown.attention];
  if (side !== queries && (side !== keys || shown.attention !== "cross")) return false;
  return side === "source" || position > 0;  // nothing produced the begin symbol
}
