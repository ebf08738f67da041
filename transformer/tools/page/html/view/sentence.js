// A sentence as a row of pieces to point at.

import { clear, make, walkWithArrows } from "./dom.js";
import { rich, text } from "./texts.js";

const SPECIAL = ["<s>", "</s>", "<unk>", "<pad>"];

// What is no text: special symbols, and the language to translate into, before the source ("<2en>").
export const isControl = piece => SPECIAL.includes(piece) || /^<2.+>$/.test(piece);

// The letters of the text alone decide which way a sentence runs.
export const textDirection = piece => (isControl(piece) ? { dir: "ltr" } : {});

// Pieces carry marks of the tokenizer: ▁ where a word begins, ⁀ where one goes on.
export const visible = piece => piece.replace(/^▁?⁀?/, "") || piece;
const named = piece => (SPECIAL.includes(piece) ? text(`special ${piece}`) : visible(piece));

// A piece in a list of pieces: the mark stays, in a quieter color, for "s" and "▁s" are two.
export const marked = piece => {
  const [, mark, rest] = /^(▁?)(.*)$/s.exec(piece);
  return mark && rest ? make("bdi", {}, make("span", { className: "mark" }, mark), rest) : make("bdi", {}, piece);
};

// Draws the pieces into `row`, those of one word side by side; `row` is to listen by `listenTo`.
export function drawPieces(row, pieces) {
  const words = [];
  pieces.forEach((piece, position) => {
    const button = make("button", { type: "button", className: "piece", dataset: { position }, ...textDirection(piece) });
    if (SPECIAL.includes(piece)) {
      button.classList.add("special");
      button.title = named(piece);
      // Its name is read, not the marks.
      button.append(make("b", { ariaHidden: "true" }, piece), make("span", { className: "read" }, named(piece)));
    } else {
      button.append(make("b", {}, visible(piece)));
    }
    button.append(" ", make("small"));
    const previous = pieces[position - 1];
    const starts = !previous || SPECIAL.includes(piece) || SPECIAL.includes(previous) || /^▁(?!⁀)/.test(piece);
    if (starts) words.push(make("span", { className: "word" }));
    words.at(-1).append(button);
  });
  clear(row, ...words);
}

// Calls `onPoint(position or null)` while a pointer is over a piece, `onHold(position)` for a click, a tap or focus.
export function listenTo(row, onPoint, onHold) {
  const position = event => {
    const button = event.target.closest(".piece:enabled");
    return button ? Number(button.dataset.position) : null;
  };
  row.addEventListener("pointerover", event => {
    if (event.pointerType === "mouse") onPoint(position(event));  // a finger that scrolls points at nothing
  });
  row.addEventListener("pointerleave", () => onPoint(null));
  for (const kind of ["click", "focusin"]) {
    row.addEventListener(kind, event => {
      if (position(event) === null) return;
      if (kind === "focusin") onPoint(null);
      onHold(position(event));
    });
  }
  walkWithArrows(row, ".piece:enabled");
}

// The special symbols that occur, explained where they first appear.
export function drawLegend(element, pieces) {
  const keys = SPECIAL.filter(symbol => pieces.includes(symbol)).map(symbol => `about ${symbol}`);
  if (pieces.some(piece => piece.startsWith("▁"))) keys.push("about ▁");
  clear(element, ...keys.flatMap(key => [make("span", {}, ...rich(key)), " "]));
}
