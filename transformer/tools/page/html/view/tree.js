// The hypotheses as a tree: a column a step, a line from each beginning to what goes on from it.

import { clear, find, make } from "./dom.js";
import { visible } from "./sentence.js";
import { data, force } from "./state.js";
import { text } from "./texts.js";

let grown = Infinity;  // how many steps of the tree are shown

// A node of each column: its piece, the place of its parent in the column before, and what became of it.
function treeOfHypotheses() {
  const columns = [], places = [new Map([["", 0]])];
  data.hypotheses.forEach(({ pieces }, rank) => pieces.forEach((piece, step) => {
    columns[step] ??= [];
    places[step + 1] ??= new Map();
    const path = pieces.slice(0, step + 1), key = path.join("\n");
    if (!places[step + 1].has(key)) {
      places[step + 1].set(key, columns[step].length);
      const parent = places[step].get(path.slice(0, -1).join("\n"));
      columns[step].push({ piece, parent, kept: true, best: rank === 0, finished: step === pieces.length - 1 });
    }
  }));
  return columns;
}

// The candidates that the beam looked at: `origin` and `place` are places in the beam before and after the step.
function treeOfBeam() {
  const best = data.hypotheses[0].pieces, columns = [];
  for (const { candidates } of data.tree) {
    const before = columns.at(-1), step = columns.length;
    columns.push(candidates.map(({ origin, id, piece, score, total, place, hypothesis }) => {
      const parent = before ? before.findIndex(node => node.place === origin) : 0;
      const finished = hypothesis !== null, kept = place !== null || finished;
      const onBest = kept && (!before || before[parent].best) && piece === best[step];
      return { id, piece, score, total, place, parent, kept, finished, best: onBest };
    }));
  }
  return columns;
}

// The ids from the first step to the node at a place of a column.
function idsUpTo(columns, step, at) {
  const { id, parent } = columns[step][at];
  return step ? [...idsUpTo(columns, step - 1, parent), id] : [id];
}

export function drawTree() {
  const all = data.tree ? treeOfBeam() : treeOfHypotheses();
  const slider = find("grown");
  slider.max = all.length;
  slider.value = Math.min(grown, all.length);
  find("tree-part").hidden = data.hypotheses.length < 2 && !data.tree;
  find("grown-count").textContent = text("step of", { step: slider.value, count: all.length });
  const columns = all.slice(0, Number(slider.value));
  const node = (candidate, step, at) => {
    const state = candidate.best ? "best" : candidate.finished ? "finished" : candidate.kept ? "kept" : "dropped";
    const note = candidate.score === undefined ? "" : candidate.score.toFixed(2);
    const canForce = force && candidate.id !== undefined && candidate.piece !== "</s>";
    const button = make(canForce ? "button" : "span", { className: `node ${state}` },
      make("b", {}, visible(candidate.piece)), make("small", {}, note));
    if (canForce) {
      button.tabIndex = -1;
      button.addEventListener("click", () => force(idsUpTo(columns, step, at)));
    }
    if (candidate.total !== undefined) {
      button.title = text("node", { logp: candidate.total.toFixed(3), score: candidate.score.toFixed(3) });
    }
    return button;
  };
  const root = make("div", { className: "column" }, make("span", { className: "node best" }, make("b", {}, "<s>")));
  clear(find("columns"), root, ...columns.map((column, step) =>
    make("div", { className: "column" }, ...column.map((candidate, at) => node(candidate, step, at)))));
  const nodes = nodesToForce().flat();
  if (nodes.length) (nodes.find(button => button === document.activeElement) ?? nodes[0]).tabIndex = 0;
  drawLines(columns);
}

const nodesToForce = () => [...find("columns").children].map(column => [...column.querySelectorAll("button")]);

// The tree is one stop of the tab key; the arrow keys walk through it.
find("columns").addEventListener("keydown", event => {
  const [right, down] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key] ?? [];
  if (right === undefined) return;
  event.preventDefault();
  const columns = nodesToForce(), at = columns.findIndex(column => column.includes(event.target));
  const column = columns[at + right] ?? [], place = columns[at].indexOf(event.target) + down;
  column[Math.min(place, column.length - 1)]?.focus();
});
find("columns").addEventListener("focusin", event => {
  for (const button of nodesToForce().flat()) button.tabIndex = button === event.target ? 0 : -1;
});

function drawLines(columns) {
  const svg = find("lines"), boxes = [...find("columns").children].map(column => [...column.children]);
  svg.setAttribute("width", find("columns").scrollWidth);
  svg.setAttribute("height", find("columns").scrollHeight);
  const lines = columns.flatMap((column, step) => column.map((candidate, at) => {
    const from = boxes[step][candidate.parent], to = boxes[step + 1][at];
    const [x1, y1] = [from.offsetLeft + from.offsetWidth, from.offsetTop + from.offsetHeight / 2];
    const [x2, y2] = [to.offsetLeft, to.offsetTop + to.offsetHeight / 2];
    const line = document.createElementNS(svg.namespaceURI, "path");
    line.setAttribute("d", `M${x1} ${y1} C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`);
    line.setAttribute("class", candidate.best ? "best" : candidate.kept || candidate.finished ? "kept" : "dropped");
    return line;
  }));
  clear(svg, ...lines);
}

const STEP_SECONDS = 0.7;
let growing = null;  // the timer, while the tree grows by itself

// A tree that is shown whole is so for the next sentence, too.
function growTo(step) {
  const whole = step >= Number(find("grown").max);
  if (whole) clearInterval(growing);
  grown = whole ? Infinity : step;
  drawTree();
}

find("grown").addEventListener("input", event => {
  clearInterval(growing);
  growTo(Number(event.target.value));
});
find("grow").addEventListener("click", () => {
  clearInterval(growing);
  growTo(1);
  growing = setInterval(() => {
    growTo(grown + 1);
    find("tree").scrollLeft = find("tree").scrollWidth;
  }, 1000 * STEP_SECONDS);
});
