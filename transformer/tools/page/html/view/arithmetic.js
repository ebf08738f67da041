// One attention unfolded: every matrix on the way from the embeddings to the layer's output, with this sentence's numbers.

import { SIDES, attentions } from "./attention.js";
import { clear, find, make, percent, radios } from "./dom.js";
import { drawNumbers, shorter } from "./numbers.js";
import { visible } from "./sentence.js";
import { data, latest, translator } from "./state.js";
import { rich, text } from "./texts.js";

// The stages in their order: the matrices that the translator traces, each with its symbol, and the equation over them
// (a template of the page with the same name). A model has those of its own kind only.
const STAGES = [
  ["embedding", { embedding: "√d · E", positions: "PE" }],
  ["states", { input: "X", normalized: "LayerNorm(X)" }],
  ["projections", { query: "Q", key: "K", value: "V" }],
  ["transformed", { transformed: "Q W" }],
  ["rotary", { rotated_query: "R Q", rotated_key: "R K" }],
  ["product", { product: "Q Kᵀ" }],
  ["scale", { scaled: "Q Kᵀ / √dₖ" }],
  ["bias", { biased: "+ B" }],
  ["mask", { masked: "mask" }],
  ["softmax", { weights: "A" }],
  ["sum", { head: "A V" }],
  ["output", { output: "MultiHead" }],
  ["add norm", { sum: "X + MultiHead", norm: "LayerNorm" }],
  ["feed forward", { feed_activated: "act(x W₁)", feed_output: "FFN", feed_sum: "x + FFN", feed_norm: "LayerNorm" }],
];

// What a matrix is called instead where the stage is of another kind (`stageIn`).
const SYMBOLS = {
  "product additive": { product: "S" },
  "product concat": { product: "S" },
  "feed forward swiglu": { feed_activated: "act(x G) ⊙ x W₁" },
};

// Which attention, layer and head is unfolded, and the pair of pieces that is followed through all matrices.
export const unfolded = { attention: "cross", layer: 0, head: 0 };
const pair = { query: 0, key: 0 };
const askTrace = latest();

function chooseUnfolded() {
  const names = attentions();
  if (!names.includes(unfolded.attention)) unfolded.attention = names[0];
  const layers = data.attention[unfolded.attention];
  unfolded.layer = Math.min(unfolded.layer, layers.length - 1);
  unfolded.head = Math.min(unfolded.head, layers[unfolded.layer].length - 1);
  const choose = name => value => {
    unfolded[name] = value;
    drawArithmetic();
  };
  const numbered = list => list.map((_, at) => [at, String(at + 1)]);
  radios(find("unfold-attention"), "unfold-attention", names.map(name => [name, text(`attention ${name}`)]), unfolded.attention, choose("attention"));
  radios(find("unfold-layer"), "unfold-layer", numbered(layers), unfolded.layer, choose("layer"));
  radios(find("unfold-head"), "unfold-head", numbered(layers[unfolded.layer]), unfolded.head, choose("head"));
}

export async function drawArithmetic() {
  chooseUnfolded();
  // The same translation once more, piece by piece, to its end.
  const { languages, target_ids } = data;
  const explanation = await askTrace(data.text, { languages, prefix: target_ids.slice(1), trace: { ...unfolded } });
  if (!explanation) return;
  const { trace } = explanation;
  const matrices = new Map(trace.steps.map(matrix => [matrix.name, matrix]));
  const { queries, keys } = SIDES[unfolded.attention];
  const names = {
    queries: (queries === "target" ? data.target.slice(0, -1) : data.source).map(visible),
    keys: (keys === "target" ? data.target.slice(0, -1) : data.source).map(visible),
  };
  pair.query = Math.min(pair.query, names.queries.length - 1);
  pair.key = Math.min(pair.key, names.keys.length - 1);
  const figures = [];
  const pick = ({ rows, columns }) => (row, column) => {
    pair[rows === "keys" ? "key" : "query"] = row;
    if (columns === "keys") pair.key = column;
    follow(matrices, names, figures);
  };
  const figure = (matrix, symbol) => {
    const columnNames = matrix.columns === "keys" ? names.keys : null;
    const drawn = drawNumbers({ ...matrix, symbol, rowNames: names[matrix.rows], columnNames, isShare: matrix.name === "weights" }, pick(matrix));
    figures.push({ ...drawn, matrix });
    return drawn.element;
  };
  const stages = STAGES.map(([stage, symbols]) => {
    const kind = stageIn(stage), present = Object.entries({ ...symbols, ...SYMBOLS[kind] }).filter(([name]) => matrices.has(name));
    return present.length && make("li", {},
      make("h3", {}, text(`stage ${stage}`)),
      make("div", { className: "equation" }, find(`equation ${kind}`)?.content.cloneNode(true) ?? ""),
      make("p", { className: "small" }, ...rich(`about ${kind}`)),
      make("div", { className: "figures" }, ...present.map(([name, symbol]) => figure(matrices.get(name), symbol))));
  });
  clear(find("stages"), ...stages.filter(Boolean));
  figures.forEach(({ paint }) => paint());
  follow(matrices, names, figures);
}

// A stage as it is in this model, whose equation and text may be others: “product additive”.
function stageIn(stage) {
  const { norm, positions, encoder, decoder, feed_forward } = translator.about.model;
  const { score } = { encoder: encoder.self_attention, decoder: decoder.self_attention, cross: decoder.cross_attention }[unfolded.attention];
  const kind = {
    embedding: { sinusoidal: "sinusoidal", learned: "" }[positions] ?? "alone",
    projections: score === "concat" ? "concat" : "",
    product: ["additive", "concat"].includes(score) ? score : "",
    "add norm": norm === "pre" ? "pre" : "",
    "feed forward": feed_forward.activation === "swiglu" ? "swiglu" : "",
  }[stage];
  return kind ? `${stage} ${kind}` : stage;
}

// Frames the pair in every matrix and writes how its number comes about.
function follow(matrices, names, figures) {
  for (const { mark, matrix } of figures) {
    mark(matrix.rows === "keys" ? pair.key : pair.query, matrix.columns === "keys" ? pair.key : null);
  }
  const value = name => matrices.has(name) ? matrices.get(name).values[pair.query * names.keys.length + pair.key] : undefined;
  const [product, scaled, biased, masked, share] = ["product", "scaled", "biased", "masked", "weights"].map(value);
  const steps = [
    [text("chain product"), shorter(product)],
    scaled === undefined ? null : [text("chain scale"), shorter(scaled)],
    biased === undefined ? null : [text("chain bias"), shorter(biased)],
    masked === undefined ? null : [text("chain mask"), shorter(masked)],
    ["softmax", share ? percent(share) : "0%"],  // what is masked has no share at all
  ].filter(Boolean);
  clear(find("chain"), make("b", {}, text("chain", { query: names.queries[pair.query], key: names.keys[pair.key] })), " ",
    ...steps.flatMap(([name, number], at) => [at ? " → " : "", make("span", {}, `${name} `, make("b", {}, number))]));
}
