// What if? The same sentence with parts of the model switched off, beside the translation as it was.

import { unitsOf } from "./alignment.js";
import { attentions } from "./attention.js";
import { clear, find, make, percent, type } from "./dom.js";
import { searchOptions } from "./search_options.js";
import { visible } from "./sentence.js";
import { data, latest, opening, translator } from "./state.js";
import { text } from "./texts.js";

const SWITCHES = ["positions", "scale", "causal", "cross"];
// The padding symbols that are looked at; and the order of the words in the sentences of tools/page/examples.py.
const PADDING = 4, SEED = 1;

// What is switched off, as the translator takes it (see runtime/change.js), or changed in the source.
const nothingOff = () => ({ heads: [], layers: [], off: new Set(), padding: 0, shuffle: null });
let change = nothingOff();
const askChanged = latest(), askAgain = latest();

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
  const padding = toggle(text("off padding"), change.padding > 0, on => { change.padding = on ? PADDING : 0; });
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

// The places, in one list and in the other, of a longest common subsequence.
function common(one, other) {
  const longest = Array.from({ length: one.length + 1 }, () => new Array(other.length + 1).fill(0));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      longest[i][j] = one[i] === other[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const places = [];
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    if (one[i] === other[j]) places.push([i++, j++]);
    else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  }
  return places;
}

// Marks what is in `pieces` and not in `others`.
function markDifferences(pieces, others) {
  const same = new Set(common(pieces, others).map(([at]) => at));
  return pieces.flatMap((piece, at) => [at && /^▁(?!⁀)/.test(piece) ? " " : "", make(same.has(at) ? "span" : "mark", {}, visible(piece))]);
}

// What became of the words: “book” becomes “house”.
function changedWords(before, after) {
  const [one, other] = [before, after].map(unitsOf), spelled = (pieces, words) => pieces
    .slice(words[0].positions[0], words.at(-1).positions.at(-1) + 1).join("").replace(/▁⁀/g, "").replaceAll("▁", " ").trim();
  const same = common(...[one, other].map(words => words.map(word => word.text)));
  const changes = [];
  let i = 0, j = 0;
  for (const [endOfOne, endOfOther] of [...same, [one.length, other.length]]) {
    const gone = one.slice(i, endOfOne), added = other.slice(j, endOfOther);
    const values = { from: gone.length && spelled(before, gone), to: added.length && spelled(after, added) };
    if (gone.length || added.length) changes.push(text(gone.length ? added.length ? "becomes" : "gone" : "added", values));
    [i, j] = [endOfOne + 1, endOfOther + 1];
  }
  return changes;
}

// What is left out or changed, by the names of texts/.
function switchedOff() {
  const { heads, layers, off, padding, shuffle } = change;
  return [...off, ...(padding ? ["padding"] : []), ...(shuffle ? ["shuffle"] : []), ...(heads.length ? ["heads"] : []),
    ...(layers.length ? ["layers"] : [])];
}

// As the search found it: without the causal mask a reading of the whole translation has other probabilities.
const meanProbability = ({ hypotheses: [{ log_probability, length }] }) => Math.exp(log_probability / length);
const exact = share => `${(100 * share).toFixed(1)}%`;

// The two translations side by side, with their probabilities; where the source was shuffled, the order it had; and what
// the model with the changes thinks of the translation as it was.
async function compare() {
  const modify = modification(), names = switchedOff(), { languages, target_ids } = data;
  drawOffers(names);
  const [after, again] = await Promise.all([
    askChanged(data.text, { ...searchOptions(), modify }),
    askAgain(data.text, { languages, prefix: target_ids.slice(1), modify }),
  ]);
  if (!after || !again) return;
  const pieces = explanation => explanation.target.slice(1, -1);
  const side = (name, one, other) => {
    clear(find(`${name}-text`), ...markDifferences(pieces(one), pieces(other)));
    [find(`${name}-source`).lang, find(`${name}-text`).lang] = data.languages;
    find(`${name}-score`).textContent = text("mean probability", { share: percent(meanProbability(one)) });
    find(`${name}-source`).textContent = one.text;
  };
  side("before", data, after);
  side("after", after, data);
  const changes = changedWords(pieces(data), pieces(after));
  find("verdict").textContent = names.length ? [
    text(changes.length ? "verdict changed" : "verdict same", { changes: changes.join("; ") }),
    text("verdict probability", { before: exact(meanProbability(data)), after: exact(meanProbability(again)) }),
    ...names.map(name => text(`without ${name}`)),
  ].join(" ") : text("verdict none");
}

// For what is switched off a sentence where that matters, if the export has found one in this language.
function drawOffers(names) {
  const offers = String(data.languages) === String(translator.about.languages) ? opening.what_if ?? {} : {};
  const offered = names.filter(name => name !== "heads" && name in offers);
  clear(find("where"), ...offered.map(name => {
    const button = make("button", { type: "button", className: "plain" }, text("where", { name: text(`off ${name}`) }));
    button.addEventListener("click", () => showOffer(name, offers[name]));
    return button;
  }));
  find("where-head").hidden = !offers.heads;
}

// Leaves out this part alone.
export function switchOff(name, head = null) {
  change = nothingOff();
  if (head) change.heads = [head];
  else if (name === "padding") change.padding = PADDING;
  else if (name === "shuffle") change.shuffle = SEED;
  else change.off.add(name);
}

function showOffer(name, { text: sentence, head }) {
  switchOff(name, head);
  type(sentence);
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

find("where-head").addEventListener("click", () => showOffer("heads", opening.what_if.heads));
