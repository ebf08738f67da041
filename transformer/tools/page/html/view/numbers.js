// A matrix of real numbers as a picture, with the number under the pointer below it.

import { make } from "./dom.js";
import { isolated, text } from "./texts.js";

const CELL = 22;  // pixels a side, where rows and columns are both pieces
const ROW = 15;  // pixels, in matrices of many numbers a piece, as wide as fits in
const WIDEST = 330;

export const shorter = number => (number === -Infinity ? "−∞" : number.toFixed(Math.abs(number) >= 100 ? 1 : 3).replace("-", "−"));

// `matrix` is { symbol, shape, values, rowNames, columnNames } with names for the columns where they are pieces.
// `onPick(row, column)` is called for a click, a tap or an arrow key. Returns the element and `mark(row, column)`, which
// frames a cell, or a whole row where the column is null.
export function drawNumbers(matrix, onPick) {
  const { symbol, shape: [rows, columns], values, rowNames, columnNames } = matrix;
  const width = columnNames ? CELL : Math.max(1, Math.min(6, Math.floor(WIDEST / columns)));
  const height = columnNames ? CELL : ROW;
  const canvas = make("canvas", { width: columns, height: rows });
  const frame = make("i", { className: "frame" }), below = make("output", {}, " ");
  const picture = make("div", { className: "numbers", tabIndex: 0, role: "application", aria: { label: text("matrix", { symbol, rows, columns }) } }, canvas, frame);
  picture.style.setProperty("--width", `${columns * width}px`);
  picture.style.setProperty("--height", `${rows * height}px`);

  let at = { row: 0, column: 0 };
  const describe = ({ row, column }) => {
    const piece = `“${isolated(rowNames[row])}”`, number = shorter(values[row * columns + column]);
    // Pieces by name; positions and dimensions from 0, as in the equations.
    below.textContent = columnNames ? `${symbol} [${piece}, “${isolated(columnNames[column])}”] = ${number}` : `${symbol} [${row}, ${column}] = ${number} (${piece})`;
  };
  const mark = (row, column) => {
    at = { row, column: column ?? at.column };
    frame.style.setProperty("inset", `${(100 * row) / rows}% auto auto ${column === null ? 0 : (100 * column) / columns}%`);
    frame.style.setProperty("width", column === null ? "100%" : `${100 / columns}%`);
    frame.style.setProperty("height", `${100 / rows}%`);
    describe(at);
  };
  const under = event => {
    const box = canvas.getBoundingClientRect();
    const place = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    return {
      row: place((event.clientY - box.top) / box.height, rows),
      column: place((event.clientX - box.left) / box.width, columns),
    };
  };
  picture.addEventListener("pointermove", event => describe(under(event)));
  picture.addEventListener("pointerleave", () => describe(at));
  picture.addEventListener("click", event => {
    at = under(event);
    onPick(at.row, at.column);
  });
  picture.addEventListener("keydown", event => {
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [];
    if (down === undefined) return;
    event.preventDefault();
    at = { row: Math.max(0, Math.min(rows - 1, at.row + down)), column: Math.max(0, Math.min(columns - 1, at.column + right)) };
    onPick(at.row, at.column);
    describe(at);
  });

  const names = (list, className) => make("div", { className, ariaHidden: "true" }, ...list.map(name => make("span", {}, name)));
  const corner = make("div"), top = columnNames ? names(columnNames, "column-names") : make("div");
  const element = make("figure", { className: columnNames ? "pairs" : "vectors" },
    make("figcaption", {}, make("b", {}, symbol), ` ${rows} × ${columns}`),
    make("div", { className: "scroll" }, make("div", { className: "labeled" }, corner, top, names(rowNames, "row-names"), picture)),
    below);
  return { element, mark, paint: () => paintNumbers(canvas, matrix) };
}

// Negative numbers blue, positive ones orange, the stronger the larger; shares as in the sentences; masked ones gray.
function paintNumbers(canvas, { shape: [rows, columns], values, isShare }) {
  const style = getComputedStyle(canvas), pen = canvas.getContext("2d");
  const [positive, negative, hidden] = ["color", "outlineColor", "borderTopColor"].map(name => style[name]);
  const largest = isShare ? 1 : values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 1e-9);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const value = values[row * columns + column];
      pen.fillStyle = value === -Infinity ? hidden : value < 0 ? negative : positive;
      pen.globalAlpha = value === -Infinity ? 1 : Math.sqrt(Math.abs(value) / largest);
      pen.fillRect(column, row, 1, 1);
    }
  }
}
