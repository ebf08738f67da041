// The arithmetic of a Transformer on plain numbers: a matrix is a Float32Array that holds its rows one after the other.

// x Wᵀ + b, as torch.nn.Linear: `weight` has one row per output. Nearly all of a translation's time is spent here, so that
// eight inputs are taken at once: their columns are added to all outputs in one walk.
export function linear(x, { weight, bias }) {
  const [outputs, inputs] = weight.shape, count = x.length / inputs, y = new Float32Array(count * outputs);
  const columns = (weight.columns ??= transposed(weight)), padded = new Float32Array(columns.length / outputs);
  for (let row = 0; row < count; row++) {
    const sums = y.subarray(row * outputs, (row + 1) * outputs);
    if (bias) sums.set(bias.values);
    padded.set(x.subarray(row * inputs, (row + 1) * inputs));
    for (let i = 0; i < inputs; i += 8) {
      const x0 = padded[i], x1 = padded[i + 1], x2 = padded[i + 2], x3 = padded[i + 3];
      const x4 = padded[i + 4], x5 = padded[i + 5], x6 = padded[i + 6], x7 = padded[i + 7];
      const c0 = i * outputs, c1 = c0 + outputs, c2 = c1 + outputs, c3 = c2 + outputs;
      const c4 = c3 + outputs, c5 = c4 + outputs, c6 = c5 + outputs, c7 = c6 + outputs;
      for (let o = 0; o < outputs; o++) {
        sums[o] += x0 * columns[c0 + o] + x1 * columns[c1 + o] + x2 * columns[c2 + o] + x3 * columns[c3 + o] +
          x4 * columns[c4 + o] + x5 * columns[c5 + o] + x6 * columns[c6 + o] + x7 * columns[c7 + o];
      }
    }
  }
  return y;
}

// A weight column by column, with columns of zeros up to a multiple of eight.
function transposed({ shape: [outputs, inputs], values }) {
  const columns = new Float32Array(outputs * 8 * Math.ceil(inputs / 8));
  for (let o = 0; o < outputs; o++) {
    for (let i = 0; i < inputs; i++) columns[i * outputs + o] = values[o * inputs + i];
  }
  return columns;
}

export const add = (a, b) => a.map((value, i) => value + b[i]);

// The rows of a matrix, as views of it.
export function rowsOf(x, width) {
  return Array.from({ length: x.length / width }, (_, row) => x.subarray(row * width, (row + 1) * width));
}

// Each row with mean 0 and variance 1, then scaled and shifted as trained (Ba et al. 2016; torch.nn.LayerNorm).
export function layerNorm(x, { weight, bias }) {
  const dim = weight.values.length, y = new Float32Array(x.length);
  for (let start = 0; start < x.length; start += dim) {
    let mean = 0, variance = 0;
    for (let i = 0; i < dim; i++) mean += x[start + i] / dim;
    for (let i = 0; i < dim; i++) variance += (x[start + i] - mean) ** 2 / dim;
    const scale = 1 / Math.sqrt(variance + 1e-5);
    for (let i = 0; i < dim; i++) y[start + i] = (x[start + i] - mean) * scale * weight.values[i] + bias.values[i];
  }
  return y;
}

// exp(x) / Σ exp(x). The largest entry is subtracted first, so that no exponential overflows.
export function softmax(x) {
  const largest = x.reduce((a, b) => Math.max(a, b), -Infinity), y = x.map(value => Math.exp(value - largest));
  const sum = y.reduce((a, b) => a + b, 0);
  return y.map(value => value / sum);
}

// log softmax(x), in place of log(softmax(x)), which loses small probabilities to rounding.
export function logSoftmax(x) {
  let largest = -Infinity, sum = 0;
  for (let i = 0; i < x.length; i++) if (x[i] > largest) largest = x[i];
  for (let i = 0; i < x.length; i++) sum += Math.exp(x[i] - largest);
  const shift = largest + Math.log(sum);
  return x.map(value => value - shift);
}

const relu = x => Math.max(0, x);
const silu = x => x / (1 + Math.exp(-x));
const gelu = x => (x * (1 + erf(x / Math.SQRT2))) / 2;

// Correct to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26).
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

// What is applied between the two projections of the feed-forward network; swiglu multiplies silu(gate) by the inner.
export const ACTIVATIONS = { relu, gelu, silu, swiglu: silu };
