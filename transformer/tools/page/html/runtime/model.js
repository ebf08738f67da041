// The encoder-decoder Transformer (Vaswani et al. 2017, figure 1), for one sentence at a time and without training: no
// batches, no padding, no dropout. Read `matrix` and `attention` first.

import { ACTIVATIONS, add, layerNorm, linear } from "./matrix.js";
import { MultiHeadAttention } from "./attention.js";

// A run may change the model (see `change.js`), and what happens in it may be recorded (`record.js`).
const AS_TRAINED = { change: null, record: null };

export class Transformer {
  // `config` is the ModelConfig as in a run's config.yaml, `tensors` the weights by the names that PyTorch gives them.
  constructor(config, tensors) {
    this.config = config;
    const parameters = prefix => part => ({
      weight: tensors[`${prefix}${part}.weight`], bias: tensors[`${prefix}${part}.bias`],
    });
    const source = tensors["encoder.embedding.tokens.weight"];
    // What is tied is in the file once, under its first name.
    const target = tensors["decoder.embedding.tokens.weight"] ?? source;
    this.output = { weight: tensors["output.weight"] ?? target, bias: tensors["output.bias"] };
    this.encoder = new Side("encoder", config, source, tensors, parameters);
    this.decoder = new Side("decoder", config, target, tensors, parameters);
  }

  // The states of the source, and for each layer of the decoder the keys and values that it looks at.
  encode(ids, run = AS_TRAINED) {
    const encoder = this.encoder, positions = ids.map((_, at) => at);
    let states = encoder.embed(ids, positions, run, run.record?.embedding("encoder"));
    encoder.layers.forEach((layer, index) => {
      if (run.change?.skips("encoder", index)) return;
      states = layer.forward(states, run, { positions, own: keysValues => positions.map(() => keysValues) });
    });
    states = encoder.norm ? layerNorm(states, encoder.norm) : states;
    return this.decoder.layers.map(({ cross }, index) => cross?.keysValues(states, null, run.record?.look("cross", index)) ?? []);
  }

  // The states of target tokens, each row { id, position, cache }. Rows of one target share its cache, in which keys and
  // values are appended, layer by layer; rows of different hypotheses have each their own.
  decode(rows, memory, run = AS_TRAINED) {
    const decoder = this.decoder, positions = rows.map(row => row.position);
    let states = decoder.embed(rows.map(row => row.id), positions, run, run.record?.embedding("decoder"));
    decoder.layers.forEach((layer, index) => {
      if (run.change?.skips("decoder", index)) return run.record?.states.push(states);
      const own = keysValues => rows.map(({ cache, position }, row) => {
        cache[index][position] = keysValues[row];
        return cache[index];
      });
      // The causal mask: no position sees a later one.
      const visible = run.change?.causal === false ? undefined : (row, key) => key <= positions[row];
      states = layer.forward(states, run, { positions, own, visible, memory: memory[index] });
      run.record?.states.push(states);
    });
    return this.normalized(states);
  }

  // The states of the decoder's last layer as the output takes them.
  normalized(states) {
    return this.decoder.norm ? layerNorm(states, this.decoder.norm) : states;
  }

  emptyCache() {
    return this.decoder.layers.map(() => []);
  }

  logits(states) {
    return linear(states, this.output);
  }
}

// The encoder or the decoder: embeddings, layers, and after pre-norm layers a last norm.
class Side {
  constructor(name, config, tokens, tensors, parameters) {
    Object.assign(this, { config, tokens, table: tensors[`${name}.embedding.positions.table`] });
    this.norm = config.norm === "pre" ? parameters(`${name}.`)("norm") : null;
    this.layers = Array.from({ length: config[name].layers }, (_, index) => new Layer(name, index, config, parameters));
  }

  // The embeddings of the ids, scaled by √dim, plus their positions (sections 3.4 and 3.5).
  embed(ids, positions, run, look) {
    const { dim } = this.config, scale = Math.sqrt(dim), embedded = new Float32Array(ids.length * dim);
    ids.forEach((id, row) => {
      for (let i = 0; i < dim; i++) embedded[row * dim + i] = this.tokens.values[id * dim + i] * scale;
    });
    const added = run.change?.positions === false ? null : this.positions(positions);
    look?.matrix("embedding", embedded, dim);
    if (!added) return embedded;
    look?.matrix("positions", added, dim);
    return add(embedded, added);
  }

  positions(positions) {
    const { dim, positions: kind } = this.config, vectors = new Float32Array(positions.length * dim);
    if (kind !== "sinusoidal" && kind !== "learned") return null;
    positions.forEach((position, row) => {
      for (let i = 0; i < dim; i++) {
        vectors[row * dim + i] = kind === "learned" ? this.table.values[position * dim + i] : sinusoid(position, i, dim);
      }
    });
    return vectors;
  }
}

// PE(pos, 2i) = sin(pos / 10000^(2i/dim)), PE(pos, 2i+1) = cos(the same).
function sinusoid(position, i, dim) {
  const angle = position * 10000 ** (-(i - (i % 2)) / dim);
  return i % 2 ? Math.cos(angle) : Math.sin(angle);
}

// A layer of the encoder, or of the decoder, which may have cross-attention: sublayers, each in an "Add & Norm".
class Layer {
  constructor(side, index, config, parameters) {
    const prefix = `${side}.layers.${index}.`, part = parameters(prefix), attention = config[side].self_attention;
    Object.assign(this, { side, index, config });
    this.self = new MultiHeadAttention(config.dim, attention, parameters(`${prefix}self_attention.`), config.positions === "rotary");
    const cross = side === "decoder" && config.decoder.cross_attention;
    this.cross = cross ? new MultiHeadAttention(config.dim, cross, parameters(`${prefix}cross_attention.`), false) : null;
    this.norms = { self: part("add_norm_self.norm"), cross: part("add_norm_cross.norm"), feed: part("add_norm_feed.norm") };
    this.feed = { inner: part("feed_forward.inner"), gate: part("feed_forward.gate"), outer: part("feed_forward.outer") };
  }

  // `own(keysValues)` gives the keys and values that each row may look at, once those of all rows are known.
  forward(states, { change, record }, { positions, own, visible, memory }) {
    const name = this.side, { index } = this;
    const look = record?.look(name, index), lookCross = this.cross && record?.look("cross", index);
    const placed = change?.positions === false ? null : positions;
    const bias = placed && this.config.positions === "alibi" ? alibi(this.self.heads, positions) : null;
    states = this.addNorm(states, this.norms.self, look, "", x => {
      const lists = own(this.self.keysValues(x, placed, look));
      const off = change?.headsOff(name, index);
      return this.self.forward(x, lists, { positions: placed, visible, bias, scaled: change?.scale !== false, off, look });
    });
    if (this.cross && change?.cross !== false) {
      states = this.addNorm(states, this.norms.cross, lookCross, "", x => {
        const off = change?.headsOff("cross", index);
        return this.cross.forward(x, positions.map(() => memory), { scaled: change?.scale !== false, off, look: lookCross });
      });
    }
    const lookFeed = lookCross?.trace ? lookCross : look;
    return this.addNorm(states, this.norms.feed, lookFeed, "feed_", x => this.feedForward(x, lookFeed));
  }

  // post: norm(x + sublayer(x)), as in the paper; pre: x + sublayer(norm(x)).
  addNorm(states, norm, look, prefix, sublayer) {
    const { dim } = this.config, pre = this.config.norm === "pre";
    look?.matrix(`${prefix}input`, states, dim);
    // A cross-attention with concat scores has no norm before it, as its query has no effect.
    const input = pre && norm.weight ? layerNorm(states, norm) : states;
    if (input !== states) look?.matrix(`${prefix}normalized`, input, dim);
    const output = sublayer(input);
    look?.matrix(`${prefix}output`, output, dim);
    const sum = add(states, output);
    look?.matrix(`${prefix}sum`, sum, dim);
    if (pre) return sum;
    const normalized = layerNorm(sum, norm);
    look?.matrix(`${prefix}norm`, normalized, dim);
    return normalized;
  }

  // FFN(x) = act(x W₁ + b₁) W₂ + b₂; with swiglu the activated gate multiplies the inner states (Shazeer 2020).
  feedForward(states, look) {
    const { inner, gate, outer } = this.feed, { dim, activation } = this.config.feed_forward;
    let hidden = linear(states, inner);
    look?.matrix("feed_inner", hidden, dim);
    const activate = ACTIVATIONS[activation];
    if (gate.weight) {
      const gates = linear(states, gate);
      hidden = hidden.map((value, i) => activate(gates[i]) * value);
    } else {
      hidden = hidden.map(activate);
    }
    look?.matrix("feed_activated", hidden, dim);
    return linear(hidden, outer);
  }
}

// Lowers the score of a key in proportion to its distance, in head h of n with the slope 2^(-8h/n) (Press et al. 2022).
function alibi(heads, positions) {
  return (row, key, head) => -(2 ** ((-8 * (head + 1)) / heads)) * Math.abs(positions[row] - key);
}
