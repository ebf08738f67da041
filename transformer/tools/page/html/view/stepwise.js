// One step at a time: what the decoder has when it chooses a piece, and what the causal mask hides from it.

import { mean } from "./attention.js";
import { clear, find, make, percent } from "./dom.js";
import { bars, choicesOf, forceAt, whyLess } from "./readout.js";
import { textDirection, visible } from "./sentence.js";
import { data, force } from "./state.js";
import { text } from "./texts.js";

let reached = 1;  // the steps done and the one being looked at

function goToStep(step) {
  reached = Math.max(1, Math.min(step, data.steps.length));
  drawStepwise();
}

// Rows are steps, columns the decoder's inputs. A row's weights are those of decoder self-attention, the mean of all.
function drawMask() {
  const inputs = data.target.slice(0, data.steps.length), heads = data.attention.decoder.flat();
  const row = step => {
    const cells = inputs.map((_, key) => {
      const masked = heads[0][step][key] === undefined;
      const cell = make("td", { className: masked ? "masked" : "" });
      if (!masked && step < reached) {
        const share = mean(heads.map(matrix => matrix[step][key]));
        cell.style.setProperty("--share", share);
        cell.textContent = Math.round(share * 100);
      }
      return cell;
    });
    const classes = [step === reached - 1 ? "current" : "", step < reached ? "" : "later"].join(" ");
    return make("tr", { className: classes }, make("th", { scope: "row" }, visible(data.target[step + 1])), ...cells);
  };
  const head = make("tr", {}, make("td"), ...inputs.map((piece, at) =>
    make("th", { scope: "col", className: at < reached ? "" : "later" }, make("span", {}, visible(piece)))));
  clear(find("mask"), make("thead", {}, head), make("tbody", {}, ...inputs.map((_, step) => row(step))));
}

// What each decoder layer would write at this step, were it the last; marked where it is what was written.
function drawLayers(at) {
  const { layers } = data.steps[at], written = data.target[at + 1];
  clear(find("step-layers"), ...layers.map(([piece, share], layer) => {
    const [bar] = bars([{ label: piece, share, chosen: piece === written }]);
    bar.prepend(make("span", { className: "quiet" }, text("layer n", { n: layer + 1 })));
    return bar;
  }));
}

export function drawStepwise() {
  reached = Math.min(reached, data.steps.length);
  const at = reached - 1, inputs = data.target.slice(0, reached);
  clear(find("so-far"), ...inputs.map(piece => make("span", { className: "done", ...textDirection(piece) }, visible(piece))),
    make("span", { className: "next" }, "?"));
  find("so-far").lang = data.languages[1];
  find("step-count").textContent = text("step of", { step: reached, count: data.steps.length });
  find("step-first").disabled = find("step-back").disabled = reached === 1;
  find("step-next").disabled = reached === data.steps.length;
  clear(find("step-choices"), ...bars(choicesOf(at), force && (id => forceAt(at, id))));
  find("step-why").textContent = whyLess(at)
    || text("step takes", { piece: visible(data.target[reached]), share: percent(data.steps[at].probability) });
  drawLayers(at);
  drawMask();
}

find("step-first").addEventListener("click", () => goToStep(1));
find("step-back").addEventListener("click", () => goToStep(reached - 1));
find("step-next").addEventListener("click", () => goToStep(reached + 1));
