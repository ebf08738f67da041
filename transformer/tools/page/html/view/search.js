// What the search did: its hypotheses, and every step of the best one.

import { clear, find, make, percent } from "./dom.js";
import { marked } from "./sentence.js";
import { data } from "./state.js";
import { rich, text } from "./texts.js";
import { drawTree } from "./tree.js";

function drawScoring() {
  const { method, length_penalty } = data.search;
  const score = method === "beam" ? [...rich("score"), make("sup", {}, length_penalty), ". ", ...rich("score reads")] : [];
  clear(find("scoring"), ...rich(`search ${method}`, data.search), " ", ...score);
}

function drawHypotheses() {
  const rows = data.hypotheses.map((hypothesis, at) => make("tr", { className: at ? "" : "current" },
    make("td", { className: "number" }, at + 1),
    make("td", { dir: "auto", lang: data.languages[1] }, hypothesis.text || text("nothing")),
    make("td", { className: "number" }, hypothesis.log_probability.toFixed(3)),
    make("td", { className: "number" }, hypothesis.length),
    make("td", { className: "number" }, hypothesis.score.toFixed(4))));
  clear(find("hypotheses").tBodies[0], ...rows);
}

function drawSteps() {
  const token = ([piece, share]) => make("span", { className: "token" }, marked(piece), " ", make("em", {}, percent(share)));
  const rows = data.steps.map((step, at) => make("tr", {},
    make("td", { className: "number" }, at + 1),
    make("td", {}, make("strong", {}, marked(data.target[at + 1]))),
    make("td", { className: "number" }, percent(step.probability)),
    make("td", {}, ...step.next_best.map(token))));
  clear(find("steps").tBodies[0], ...rows);
}

export function drawSearch() {
  drawScoring();
  drawHypotheses();
  drawTree();
  drawSteps();
}
