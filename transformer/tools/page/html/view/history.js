// Training over time: the page translates with the weights of an earlier step, which is marked on the curves of the loss.

import { clear, find, make } from "./dom.js";
import { translate } from "./live.js";
import { translator } from "./state.js";
import { language, text } from "./texts.js";

// { steps, finished, curves } as tools/page/history.py says; null where the page has no snapshots.
let history = null;
const LOSSES = ["training", "validation"];
const WIDTH = 360, HEIGHT = 110, LEFT = 34, BOTTOM = 18, TOP = 8, RIGHT = 12;

// The step that is chosen; the last place of the slider is the model that training has left.
const isFinished = () => find("trained").valueAsNumber === history.steps.length;
const chosen = () => (isFinished() ? history.finished : history.steps[find("trained").valueAsNumber]);
const counted = number => number.toLocaleString(language);

// What was logged last up to a step: [step, value].
const lastOf = (curve, step) => (history.curves[curve] ?? []).filter(point => point[0] <= step).at(-1);

function drawCurves() {
  const svg = find("curves"), curves = LOSSES.map(name => [name, history.curves[name] ?? []]).filter(([, points]) => points.length);
  const points = curves.flatMap(([, points]) => points), values = points.map(([, value]) => value);
  find("curves-part").hidden = !points.length;
  if (!points.length) return;
  const last = Math.max(history.finished ?? 0, ...points.map(([step]) => step)), [low, high] = [Math.min(...values), Math.max(...values)];
  const x = step => LEFT + (step / last) * (WIDTH - LEFT - RIGHT);
  const y = value => TOP + ((high - value) / (high - low || 1)) * (HEIGHT - TOP - BOTTOM);
  const draw = (tag, attributes, content = "") => {
    const element = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = content;
    return element;
  };
  const label = (content, attributes) => draw("text", attributes, content), floor = HEIGHT - BOTTOM;
  const marked = chosen();
  clear(svg,
    draw("path", { class: "axis", d: `M${LEFT} ${TOP}V${floor}H${WIDTH - RIGHT}` }),
    label(high.toFixed(1), { x: LEFT - 5, y: TOP + 7, "text-anchor": "end" }), label(low.toFixed(1), { x: LEFT - 5, y: floor, "text-anchor": "end" }),
    label("0", { x: LEFT, y: HEIGHT - 4, "text-anchor": "middle" }), label(counted(last), { x: WIDTH - RIGHT, y: HEIGHT - 4, "text-anchor": "end" }),
    ...[...history.steps, history.finished].filter(step => step !== null).map(step => draw("circle", { cx: x(step), cy: floor, r: 2 })),
    ...curves.map(([name, points]) => draw("polyline", { class: name, points: points.map(([step, value]) => `${x(step)},${y(value)}`).join(" ") })),
    ...(history.curves.validation ?? []).map(([step, value]) => draw("circle", { class: "validation", cx: x(step), cy: y(value), r: 2 })),
    ...(marked === null ? [] : [draw("path", { class: "marked", d: `M${x(marked)} ${TOP}V${floor}` })]));
  svg.setAttribute("aria-label", text("curves label", { high: high.toFixed(2), low: low.toFixed(2), last: counted(last) }));
  clear(find("curves-legend"), ...curves.map(([name]) => make("span", { className: name }, text(`loss ${name}`))));
}

// What the log says of the chosen step.
function logged() {
  const step = chosen(), [training, validation, bleu] = [...LOSSES, "bleu"].map(name => step === null ? undefined : lastOf(name, step));
  return [
    training && text("logged training", { loss: training[1].toFixed(2), step: counted(training[0]) }),
    validation && bleu && text("logged validation", { loss: validation[1].toFixed(2), bleu: bleu[1].toFixed(1), step: counted(validation[0]) }),
  ].filter(Boolean).join(" ");
}

export function drawHistory() {
  if (!history) return;
  const step = chosen(), values = { step: step === null ? "" : counted(step) };
  const name = isFinished() ? text(step === null ? "trained whole" : "trained best", values) : text(step ? "trained step" : "trained nothing", values);
  find("trained-step").textContent = name;
  find("trained").setAttribute("aria-valuetext", name);
  find("trained-log").textContent = logged();
  drawCurves();
}

export function startHistory(read) {
  history = read;
  find("training").hidden = !history;
  if (!history) return;
  find("trained").max = find("trained").value = history.steps.length;
  find("trained").addEventListener("input", () => {
    translator.goTo(isFinished() ? null : chosen());
    drawHistory();
    translate();
  });
  drawHistory();
}
