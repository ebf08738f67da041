// What if? The same sentence with parts of the model switched off, beside the translation as it was.

import { attentions } from "./attention.js";
import { clear, find, make, percent } from "./dom.js";
import { searchOptions } from "./search_options.js";
import { visible } from "./sentence.js";
import { data, latest, translator } from "./state.js";
import { text } from "./texts.js";

const SWITCHES = ["positions", "scale", "causal", "cross"];

// What is switched off, as the translator takes it (see runtime/change.js), or changed in the source.
const nothingOff = () => ({ heads: [], layers: [], off: new Set(), padding: 0, shuffle: null });
let change = nothingOff();
const askChanged = latest();

function modification() {
  const { heads, layers, off, padding, shuffle } = change;
  const switched = Object.fromEntries([...off].map(name => [name, false]));
  return { heads, layers, ...switched, ...(padding && { padding }), ...(shuffle && { shuffle }) };
}

function toggle(label, checked, onChange) {
  const input = make("input", { type: "checkbox", checked });
  input.addEventListener("change", () => {
    onChange(input.checked);
    compare();
  });
  return make("label", { className: "switch" }, input, make("span", {}, label));
}

function drawSwitches() {
  const { cross_attention: cross } = translator.about.model.decoder;
  const simple = SWITCHES.filter(name => name !== "cross" || cross).map(name =>
    toggle(text(`off ${name}`), change.off.has(name), on => on ? change.off.add(name) : change.off.delete(name)));
  const padding = toggle(text("off padding"), change.padding > 0, on => { change.padding = on ? 4 : 0; });
  const shuffle = toggle(text("off shuffle"), change.shuffle !== null, on => { change.shuffle = on ? 1 + Math.floor(Math.random() * 1e6) : null; });
  clear(find("switches"), ...simple, padding, shuffle);
}

// A row a layer: the layer itself, then the heads of its attentions. Checked is switched on.
function drawParts() {
  const toggled = (list, part, on) => {
    const same = other => Object.entries(part).every(([name, value]) => other[name] === value);
    const rest = list.filter(other => !same(other));
    return on ? rest : [...rest, part];
  };
  const has = (list, part) => toggled(list, part, true).length !== list.length;
  const head = part => {
    const label = text("head of", { attention: text(`attention ${part.attention}`), layer: part.layer + 1, head: part.head + 1 });
    const element = toggle(String(part.head + 1), !has(change.heads, part), on => { change.heads = toggled(change.heads, part, on); });
    element.firstChild.setAttribute("aria-label", label);
    return element;
  };
  const row = (side, layer) => {
    const part = { side, layer };
    const kinds = side === "encoder" ? ["encoder"] : attentions().filter(name => name !== "encoder");
    return make("tr", {},
      make("th", { scope: "row" }, toggle(text(`switch ${side}`, { n: layer + 1 }), !has(change.layers, part), on => { change.layers = toggled(change.layers, part, on); })),
      make("td", {}, ...kinds.map(attention => make("span", { className: "heads" }, make("span", { className: "quiet" }, text(`heads ${attention}`)),
        ...data.attention[attention][layer].map((_, at) => head({ attention, layer, head: at }))))));
  };
  const rows = ["encoder", "decoder"].flatMap(side => data.attention[side].map((_, layer) => row(side, layer)));
  clear(find("parts"), make("tbody", {}, ...rows));
}

// Marks what is in `pieces` and not in `others`, by a longest common subsequence.
function markDifferences(pieces, others) {
  const longest = Array.from({ length: pieces.length + 1 }, () => new Array(others.length + 1).fill(0));
  for (let i = pieces.length - 1; i >= 0; i--) {
    for (let j = others.length - 1; j >= 0; j--) {
      longest[i][j] = pieces[i] === others[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const same = [];
  for (let i = 0, j = 0; i < pieces.length && j < others.length;) {
    if (pieces[i] === others[j]) {
      same[i++] = true;
      j++;
    } else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  }
  return pieces.flatMap((piece, at) => [at && /^▁(?!⁀)/.test(piece) ? " " : "", make(same[at] ? "span" : "mark", {}, visible(piece))]);
}

// The two translations side by side, with their log-probabilities; and where the source was shuffled, the order it had.
async function compare() {
  const after = await askChanged(data.text, { ...searchOptions(), modify: modification() });
  if (!after) return;
  const pieces = explanation => explanation.target.slice(1, -1);
  const side = (name, one, other) => {
    // As the search found them: without the causal mask a reading of the whole translation has other probabilities.
    const [{ log_probability, length }] = one.hypotheses;
    clear(find(`${name}-text`), ...markDifferences(pieces(one), pieces(other)));
    [find(`${name}-source`).lang, find(`${name}-text`).lang] = data.languages;
    find(`${name}-score`).textContent = text("mean probability", { share: percent(Math.exp(log_probability / length)) });
    find(`${name}-source`).textContent = one.text;
  };
  side("before", data, after);
  side("after", after, data);
  const verdict = text(pieces(after).join("\n") === pieces(data).join("\n") ? "unchanged" : "changed");
  const { off, padding, shuffle } = change, leftOut = [...off, ...(padding ? ["padding"] : []), ...(shuffle ? ["shuffle"] : [])];
  find("verdict").textContent = [verdict, ...leftOut.map(name => text(`without ${name}`))].join(" ");
}

export function drawWhatIf() {
  drawSwitches();
  drawParts();
  compare();
}

find("all-on").addEventListener("click", () => {
  change = nothingOff();
  drawWhatIf();
});
