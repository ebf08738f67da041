// A guided tour of seven stations, from pieces to search. Each has two sentences, its equation with the numbers of the sentence
// that is typed, one thing to do, and its place in the whole Transformer. A page with snapshots has an eighth: training.

import { wordLinks } from "./alignment.js";
import { attentions, mean, shown } from "./attention.js";
import { unfolded } from "./arithmetic.js";
import { clear, find, make, percent, radios, type } from "./dom.js";
import { shorter } from "./numbers.js";
import { choicesOf } from "./readout.js";
import { visible } from "./sentence.js";
import { data, latest, translator } from "./state.js";
import { language, rich, text } from "./texts.js";
import { switchOff } from "./what_if.js";

// The panel of each station, and the part that "What if?" can leave out there.
const STATIONS = {
  pieces: { panel: "attention" },
  vectors: { panel: "arithmetic", without: "positions" },
  encoder: { panel: "attention", without: "scale" },
  decoder: { panel: "stepwise", without: "causal" },
  cross: { panel: "attention", without: "cross" },
  probabilities: { panel: "stepwise" },
  search: { panel: "search" },
  training: { panel: "attention" },
};

let station = null;  // null: no tour
let openPanel = null;
const askScore = latest();

const present = () => Object.keys(STATIONS).filter(name => ({
  cross: attentions().includes("cross"), training: !find("training").hidden,
}[name] ?? true));

const quoted = piece => `“${visible(piece)}”`;

// The equation of each station with the numbers of this sentence. For the encoder the translator is asked: a promise.
const EQUATIONS = {
  pieces: () => data.source.map((piece, at) => `${quoted(piece)} ${data.source_ids[at]}`).join(" · "),

  vectors() {
    const { dim, positions } = translator.about.model;
    if (positions !== "sinusoidal") return "";
    const pos = Math.min(1, data.source.length - 1), term = i => pos / 10000 ** ((2 * i) / dim);
    const line = (name, function_, i, dimension) => `PE(${pos}, ${dimension}) = ${name}(${pos} / 10000^(${2 * i}/${dim})) = ${shorter(function_(term(i)))}`;
    return `${quoted(data.source[pos])}: ${[line("sin", Math.sin, 0, 0), line("cos", Math.cos, 0, 1), line("sin", Math.sin, 1, 2)].join(" · ")}`;
  },

  async encoder() {
    const query = Math.min(1, data.source.length - 1), { languages, target_ids, source, attention } = data;
    const row = attention.encoder[0][0][query], key = row.indexOf(Math.max(...row));
    const traced = await askScore(data.text, { languages, prefix: target_ids.slice(1), trace: { attention: "encoder", layer: 0, head: 0 } });
    if (!traced) return null;
    const value = name => traced.trace.steps.find(matrix => matrix.name === name)?.values[query * source.length + key];
    const [product, scaled] = [value("product"), value("scaled")];
    const { score } = translator.about.model.encoder.self_attention, isProduct = ["dot", "scaled_dot"].includes(score);
    const steps = [
      `${isProduct ? "q · k" : text("chain product")} = ${shorter(product)}`, scaled === undefined ? "" : `÷ √${keyWidth()} = ${shorter(scaled)}`, `softmax ${percent(value("weights"))}`,
    ];
    return `${text("chain", { query: visible(source[query]), key: visible(source[key]) })} ${steps.filter(Boolean).join(" → ")}`;
  },

  decoder() {
    const step = Math.min(3, data.steps.length), heads = data.attention.decoder.flat();
    const shares = heads[0][step - 1].map((_, key) => `${quoted(data.target[key])} ${percent(mean(heads.map(head => head[step - 1][key])))}`);
    return text("tour step sees", { step, seen: shares.join(" · "), hidden: data.steps.length - step });
  },

  cross: () => wordLinks().map(([target, source]) => `“${target}” ← “${source}”`).join(" · "),

  probabilities() {
    const step = Math.min(2, data.steps.length), likeliest = choicesOf(step - 1).slice(0, 3);
    const listed = likeliest.map(({ label, share }) => `${quoted(label)} ${percent(share)}`).join(" · ");
    return text("tour step writes", { step, listed });
  },

  search() {
    const [{ log_probability, length, score }] = data.hypotheses, { length_penalty } = data.search;
    return `${text("score column")} = ${shorter(log_probability)} / ${length}^${length_penalty} = ${shorter(score)}`;
  },

  training: () => find("trained-log").textContent,
};

const keyWidth = () => {
  const { dim, encoder: { self_attention: { heads, head_dim } } } = translator.about.model;
  return head_dim ?? dim / heads;
};

// What the texts name: sizes of this model.
function sizes() {
  const { dim, positions } = translator.about.model, counted = number => number.toLocaleString(language);
  return { pieces: data.source.length, vocabulary: counted(translator.about.pieces), dim, positions, width: keyWidth() };
}

// A station as it is in this model, whose text may be another.
function textKey() {
  const { positions, encoder: { self_attention: { score } } } = translator.about.model;
  const kind = {
    vectors: { sinusoidal: "", learned: "learned" }[positions] ?? "alone",
    encoder: score === "scaled_dot" ? "" : "other",
  }[station];
  return kind ? `${station} ${kind}` : station;
}

export async function drawTour() {
  if (!station || !data) return;
  const names = present(), at = names.indexOf(station), { without } = STATIONS[station];
  const named = names.map((name, at) => [name, `${at + 1} ${text(`station ${name}`)}`]);
  radios(find("stations"), "stations", named, station, goTo);
  find("station-title").textContent = named[at][1];
  clear(find("station-about"), ...rich(`tour ${textKey()}`, sizes()));
  clear(find("station-do"), make("b", {}, text("tour do")), " ", ...rich(`tour do ${station}`));
  find("station-back").disabled = at === 0;
  find("station-next").disabled = at === names.length - 1;
  find("station-without").hidden = !without;
  if (without) find("station-without").textContent = text("tour without", { name: text(`off ${without}`) });
  for (const part of find("map").querySelectorAll("[data-station]")) part.classList.toggle("here", part.dataset.station === station);
  for (const side of ["encoder", "decoder"]) find(`map-${side}`).textContent = `${translator.about.size[`${side}_layers`]} ×`;
  const drawn = station, numbers = await EQUATIONS[station]();
  if (station === drawn && numbers !== null) find("station-numbers").textContent = numbers;
}

function goTo(name) {
  station = name;
  find("tour").hidden = !name;
  find("tour-start").hidden = Boolean(name);
  if (!name) return;
  find("station-numbers").textContent = "";
  if (!find("forced").hidden) type(find("input").value);  // a piece that was forced at the station before
  if (name in data.attention) Object.assign(shown, { attention: name, layer: "mean", head: "mean" });
  if (name === "vectors") Object.assign(unfolded, { attention: "encoder", layer: 0, head: 0 });
  openPanel(STATIONS[name].panel);
}

// Starts with the panels of `showPanel(name)`.
export function startTour(showPanel) {
  openPanel = showPanel;
  const move = steps => {
    const names = present();
    goTo(names[names.indexOf(station) + steps]);
    find("station-title").focus();
  };
  find("tour-start").hidden = false;
  find("tour-start").addEventListener("click", () => {
    if (!data || find("panels").hidden) return;  // no sentence
    goTo("pieces");
    find("station-title").focus();
  });
  find("tour-end").addEventListener("click", () => {
    goTo(null);
    find("tour-start").focus();
  });
  find("station-back").addEventListener("click", () => move(-1));
  find("station-next").addEventListener("click", () => move(1));
  find("station-without").addEventListener("click", () => {
    switchOff(STATIONS[station].without);
    openPanel("what-if");
    find("tabs").scrollIntoView();
  });
}
