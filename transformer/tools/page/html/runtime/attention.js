// Attention: every query looks at every key that is visible to it and takes a weighted mean of their values
// (Vaswani et al. 2017, section 3.2). One class, three uses: in the encoder, in the decoder, and from one to the other.
//
//   heads(Q, K, V) = softmax(mask(scale · Q Kᵀ + bias)) V        output = [head 1, …, head h] W^O

import { linear, rowsOf, softmax } from "./matrix.js";

export class MultiHeadAttention {
  // `parameters(name)` gives the weight and bias of a part. `config` is one AttentionConfig of the model's configuration.
  constructor(dim, config, parameters, rotates) {
    this.heads = config.heads;
    this.headDim = config.head_dim ?? dim / config.heads;
    this.valueDim = config.value_dim ?? dim / config.heads;
    this.score = config.score;
    this.scale = config.score === "scaled_dot" ? this.headDim ** -0.5 : 1;
    this.rotates = rotates;
    for (const part of ["query", "key", "value", "output"]) this[part] = parameters(part);
    this.scoreWeight = parameters("score").weight?.values;
  }

  // What the states at these positions offer to those who look: for each a key and a value, all heads side by side.
  keysValues(states, positions, look) {
    const width = this.heads * this.headDim, keys = linear(states, this.key), values = linear(states, this.value);
    look?.head("key", keys, this.heads, this.headDim, "keys");
    look?.head("value", values, this.heads, this.valueDim, "keys");
    if (this.rotates && positions) {
      this.rotate(keys, positions);
      look?.head("rotated_key", keys, this.heads, this.headDim, "keys");
    }
    const valueRows = rowsOf(values, this.heads * this.valueDim);
    return rowsOf(keys, width).map((key, at) => ({ key, value: valueRows[at] }));
  }

  queries(states, count, positions, look) {
    let queries = this.score === "concat" ? this.constantQueries(count) : linear(states, this.query);
    look?.head("query", queries, this.heads, this.headDim, "queries");
    if (this.score === "bilinear") {
      queries = this.transform(queries);
      look?.head("transformed", queries, this.heads, this.headDim, "queries");
    }
    if (this.rotates && positions) {
      this.rotate(queries, positions);
      look?.head("rotated_query", queries, this.heads, this.headDim, "queries");
    }
    return rowsOf(queries, this.heads * this.headDim);
  }

  // Each row of states looks at its own list of keys and values, `lists[row]`. `visible(row, key)` is the mask, and
  // `bias(row, key, head)` is added to the scores. `off` holds the heads that are switched off. `look` (see record.js)
  // is shown what happens.
  forward(states, lists, { positions = null, visible = null, bias = null, scaled = true, off = [], look = null } = {}) {
    const queries = this.queries(states, lists.length, positions, look);
    const mixed = new Float32Array(lists.length * this.heads * this.valueDim);
    for (let head = 0; head < this.heads; head++) {
      for (let row = 0; row < lists.length; row++) {
        const product = Float32Array.from(lists[row], ({ key }) => this.compare(queries[row], key, head));
        const scores = scaled && this.scale !== 1 ? product.map(score => score * this.scale) : product;
        const biased = bias ? scores.map((score, key) => score + bias(row, key, head)) : scores;
        const masked = visible ? biased.map((score, key) => (visible(row, key) ? score : -Infinity)) : biased;
        const weights = softmax(masked);
        look?.row(head, { product, scaled: scores, biased, masked, weights });
        if (off.includes(head)) continue;
        const start = (row * this.heads + head) * this.valueDim, first = head * this.valueDim;
        lists[row].forEach(({ value }, key) => {
          for (let i = 0; i < this.valueDim; i++) mixed[start + i] += weights[key] * value[first + i];
        });
      }
    }
    look?.head("head", mixed, this.heads, this.valueDim, "queries");
    return linear(mixed, this.output);
  }

  // One number for a query and a key: qᵀk, or vᵀ tanh(q + k) (additive, Bahdanau et al. 2015).
  compare(query, key, head) {
    let sum = 0;
    if (this.score === "additive") {
      for (let i = head * this.headDim; i < (head + 1) * this.headDim; i++) sum += this.scoreWeight[i] * Math.tanh(query[i] + key[i]);
    } else {
      for (let i = head * this.headDim; i < (head + 1) * this.headDim; i++) sum += query[i] * key[i];
    }
    return sum;
  }

  // w · [q ; k]: the query's half cancels in the softmax, and the key's half is a query that is the same everywhere.
  constantQueries(count) {
    const width = this.heads * this.headDim, queries = new Float32Array(count * width);
    for (let row = 0; row < count; row++) queries.set(this.query.weight.values, row * width);
    return queries;
  }

  // qᵀW with one W per head (Luong et al. 2015, "general").
  transform(queries) {
    const dim = this.headDim, transformed = new Float32Array(queries.length);
    for (let start = 0; start < queries.length; start += dim) {
      const first = ((start / dim) % this.heads) * dim * dim;
      for (let i = 0; i < dim; i++) {
        for (let j = 0; j < dim; j++) transformed[start + j] += queries[start + i] * this.scoreWeight[first + i * dim + j];
      }
    }
    return transformed;
  }

  // Rotates, in place, each pair of entries by an angle that grows with the position (Su et al. 2021).
  rotate(vectors, positions) {
    const dim = this.headDim, width = this.heads * dim;
    for (let start = 0; start < vectors.length; start += 2) {
      const angle = positions[Math.floor(start / width)] * 10000 ** (-(start % dim) / dim);
      const cosine = Math.cos(angle), sine = Math.sin(angle), even = vectors[start], odd = vectors[start + 1];
      vectors[start] = even * cosine - odd * sine;
      vectors[start + 1] = even * sine + odd * cosine;
    }
  }
}
