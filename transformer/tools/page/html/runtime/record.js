// What is written down of one run of the model: all attention weights, the decoder's states, and of one attention, if asked for, every matrix
// on the way from the embeddings to the layer's output.

import { rowsOf } from "./matrix.js";

// Which side of the model the queries of an attention are on.
const SIDES = { encoder: "encoder", decoder: "decoder", cross: "decoder" };

export class Record {
  // `trace` is { attention, layer, head }, counted from 0, or null.
  constructor(trace = null) {
    this.trace = trace;
    this.looks = {};
    this.matrices = new Map();
    this.states = [];  // that each decoder layer gives
  }

  // What an attention is shown to; its weights are asked for by the same name.
  look(attention, layer) {
    const { trace, looks } = this, traced = trace?.attention === attention && trace.layer === layer;
    return (looks[`${attention} ${layer}`] ??= new Look(traced ? { ...trace, matrices: this.matrices } : null));
  }

  embedding(side) {
    return this.trace && SIDES[this.trace.attention] === side ? this.look(this.trace.attention, this.trace.layer) : null;
  }

  // The matrices of the traced attention, in the order of their computation.
  steps() {
    return [...this.matrices.values()].map(({ name, rows, columns, list }) => {
      const values = new Float32Array(list.length * list[0].length);
      list.forEach((row, at) => values.set(row, at * row.length));
      return { name, shape: [list.length, list[0].length], values, rows, columns };
    });
  }

  // Weights of one layer, [head][query][key]; zeros where the layer was left out.
  weights(attention, layer, heads, queries, keys) {
    const { weights } = this.look(attention, layer);
    return Array.from({ length: heads }, (_, head) => weights[head] ?? Array.from({ length: queries }, () => new Float32Array(keys)));
  }
}

class Look {
  constructor(trace) {
    this.trace = trace;
    this.weights = [];
  }

  // A matrix of the traced layer, one row a token.
  matrix(name, values, width) {
    for (const row of rowsOf(values, width)) this.add(name, row, "queries", "dim");
  }

  // Of a matrix with all heads side by side, each of that width, the part of the traced one.
  head(name, values, heads, width, rows) {
    const first = this.trace?.head * width;
    for (const row of rowsOf(values, heads * width)) this.add(name, row.subarray(first, first + width), rows, "dim");
  }

  // One query's way from scores to weights. A stage that changes nothing is left out.
  row(head, stages) {
    (this.weights[head] ??= []).push(stages.weights);
    if (head !== this.trace?.head) return;
    Object.entries(stages).forEach(([name, values], at, all) => {
      if (values !== all[at - 1]?.[1]) this.add(name, values, "queries", "keys");
    });
  }

  add(name, row, rows, columns) {
    if (!this.trace) return;
    const { matrices } = this.trace;
    if (!matrices.has(name)) matrices.set(name, { name, rows, columns, list: [] });
    matrices.get(name).list.push(row.slice());  // a copy: the original may be changed in place
  }
}
