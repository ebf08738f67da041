// Beside the sentences: what the piece pointed at looked at, what could have stood in its place, and why it does not.

import { SIDES, shown } from "./attention.js";
import { clear, find, make, percent } from "./dom.js";
import { marked, visible } from "./sentence.js";
import { data, force } from "./state.js";
import { text } from "./texts.js";

export function bars(shares, onChoose = null) {
  return shares.map(({ label, share, chosen = false, id }) => {
    const bar = make("i");
    bar.style.setProperty("--share", share);
    const name = onChoose && !chosen && label !== "</s>"
      ? make("button", { type: "button", title: text("force title", { piece: visible(label) }) }, marked(label))
      : marked(label);
    name.addEventListener("click", () => name.matches("button") && onChoose(id));
    return make("li", { className: chosen ? "chosen" : "" }, name, make("span", {}, bar), make("span", {}, percent(share)));
  });
}

// The pieces of step `at`, counted from 0: the chosen one and the next best, likeliest first.
export function choicesOf(at) {
  const step = data.steps[at];
  const chosen = { label: data.target[at + 1], share: step.probability, chosen: true };
  const others = step.next_best.map(([label, share, id]) => ({ label, share, id }));
  return [chosen, ...others].sort((a, b) => b.share - a.share);
}

// Why the search took this piece though another was likelier; "" where none was.
export function whyLess(at) {
  const [best] = choicesOf(at), chosen = data.target[at + 1], { method } = data.search;
  if (best.chosen) return "";
  if (at < (data.forced ?? 0)) return text("why forced", { piece: visible(chosen), other: visible(best.label) });
  if (method !== "beam") return text(`why ${method}`, { other: visible(best.label) });
  const begins = (pieces, prefix) => prefix.every((piece, place) => pieces[place] === piece);
  const prefix = [...data.target.slice(1, at + 1), best.label];
  const rival = data.hypotheses.find(({ pieces }) => begins(pieces, prefix));
  const values = {
    other: visible(best.label), chosen: visible(chosen), otherShare: percent(best.share),
    share: percent(data.steps[at].probability), score: data.hypotheses[0].score.toFixed(3),
  };
  if (!rival) return text("why beam dropped", values);
  return text("why beam rival", { ...values, rival: rival.text, rivalScore: rival.score.toFixed(3) });
}

// Puts a piece at a step, behind the pieces that stand before it.
export const forceAt = (at, id) => force([...data.target_ids.slice(1, at + 1), id]);

export function drawReadout(current, lit) {
  const { side, position } = current, { queries } = SIDES[shown.attention];
  const piece = data[side][position], step = side === "target" ? data.steps[position - 1] : null;
  const values = { piece: visible(piece), count: step ? data.steps.length : data[side].length };
  find("readout-title").textContent = step
    ? text("readout step", { ...values, step: position })
    : text("readout source", { ...values, position: position + 1 });
  const layer = shown.layer === "mean" ? text("mean of all") : text("layer n", { n: shown.layer + 1 });
  const head = shown.layer === "mean" ? "" : shown.head === "mean" ? text("mean of heads") : text("head n", { n: shown.head + 1 });
  find("readout-what").textContent = [text(`attention ${shown.attention}`), layer, head].filter(Boolean).join(" · ");
  find("shares-title").textContent = text(side === queries ? "looked at" : "looked by");
  const ranked = lit.shares
    .map((share, at) => ({ label: visible(data[lit.side][at]), share }))
    .filter(({ share }) => share !== null)
    .sort((a, b) => b.share - a.share);
  clear(find("shares"), ...bars(ranked.slice(0, 5)));
  find("choices-part").hidden = !step;
  if (!step) return;
  clear(find("choices"), ...bars(choicesOf(position - 1), force && (id => forceAt(position - 1, id))));
  find("why").textContent = whyLess(position - 1);
}
