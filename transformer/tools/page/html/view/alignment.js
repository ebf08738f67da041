// The words of source and translation, with a line from each word of the translation to the one that it comes from: the
// links of transformer/inference/word_alignment.py, from its weights to three decimals: where two are nearly equal, another word
// may be linked.

import { clear, find, make } from "./dom.js";
import { isControl } from "./sentence.js";
import { data } from "./state.js";
import { text } from "./texts.js";

// The words that the pieces make up, each with the positions of its pieces; what is no part of the text is left out.
export function wordsOf(pieces) {
  const words = [];
  let starts = true;
  pieces.forEach((piece, position) => {
    if (isControl(piece) && piece !== "<unk>") return;
    const rest = piece.replace(/^▁/, "");
    starts = (starts || rest !== piece || piece === "<unk>") && !rest.startsWith("⁀");
    if (!words.length || (starts && words.at(-1).text)) words.push({ text: "", positions: [] });
    words.at(-1).text += rest.replace(/^⁀/, "");
    words.at(-1).positions.push(position);
    if (rest) starts = piece === "<unk>";
  });
  return words.filter(word => word.text);
}

// Thai, Lao, Burmese, Khmer, Japanese and Chinese, as in transformer/data/words.py: written without spaces.
const WITHOUT_SPACES = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17d3\u17e0-\u17e9\u3040-\u30ff\u3400-\u9fff]/;

// The words, and of one that is written without spaces each piece.
export const unitsOf = pieces => wordsOf(pieces).flatMap(word => !WITHOUT_SPACES.test(word.text) ? [word] : word.positions
  .map(position => ({ text: pieces[position].replace(/^▁?⁀?/, ""), positions: [position] })).filter(piece => piece.text));

// The index of the source word for each target word: the one whose pieces have the largest weight together.
function linksOf(source, target) {
  const { cross } = data.attention;
  // Where nothing was measured: the last layer, of three or more the one before.
  const usual = { layer: cross.length > 2 ? cross.length - 1 : cross.length, head: null, shifted: false };
  const { layer, head, shifted } = data.alignment ?? usual;
  const heads = head === null ? cross[layer - 1] : [cross[layer - 1][head - 1]];
  const sum = numbers => numbers.reduce((total, number) => total + number, 0);
  const weight = (from, to) => sum(to.positions.flatMap(position => heads.flatMap(rows =>
    from.positions.map(key => rows[shifted ? position : position - 1][key]))));
  return target.map(to => {
    const weights = source.map(from => weight(from, to));
    return weights.indexOf(Math.max(...weights));
  });
}

// Each word of the translation with the word that it comes from; none where there is no cross-attention.
export function wordLinks() {
  const [source, target] = [unitsOf(data.source), unitsOf(data.target)];
  if (!data.attention.cross.length || !source.length) return [];
  return linksOf(source, target).map((from, to) => [target[to].text, source[from].text]);
}

export function drawAlignment() {
  const [source, target] = [unitsOf(data.source), unitsOf(data.target)];
  find("alignment-part").hidden = !data.attention.cross.length || !source.length || !target.length;
  if (find("alignment-part").hidden) return;
  const links = linksOf(source, target), svg = find("links");
  clear(find("source-words"), ...source.map(word => make("span", {}, word.text)));
  clear(find("target-words"), ...target.map((word, at) => make("span", {}, word.text,
    make("span", { className: "read" }, text("alignment from", { word: source[links[at]].text })))));
  const [above, below] = ["source", "target"].map(side => [...find(`${side}-words`).children]);
  const middle = word => word.offsetLeft + word.offsetWidth / 2;
  svg.setAttribute("width", Math.max(...[above, below].map(words => Math.max(...words.map(word => word.offsetLeft + word.offsetWidth)))));
  svg.setAttribute("height", below[0].offsetTop);
  clear(svg, ...links.map((from, to) => {
    const line = document.createElementNS(svg.namespaceURI, "line");
    const ends = { x1: middle(above[from]), y1: above[from].offsetTop + above[from].offsetHeight, x2: middle(below[to]), y2: below[to].offsetTop };
    for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
    line.dataset.link = `${from}-${to}`;
    return line;
  }));
}
