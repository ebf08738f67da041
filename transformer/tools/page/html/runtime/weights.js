// The weights as they lie in the page: base64 of a gzip file, which ends with its own length and checksum, so that the
// browser finds any damage. In it:
//
//   4 bytes    the length of the description, lowest byte first
//   the description, JSON: languages, model, tokenizers, precision, length penalty, and the name, type, shape and place of every tensor
//   the tensors' bytes, one after the other
//
// A tensor of type int8 holds one float32 for each of its rows (the scale), then all rows: weight = scale · integer.

// The description, and the tensors by name: { shape, values }. Errors are keys of texts/: “error weights”.
export async function unpack(base64) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("browser");
  }
  let bytes;
  try {
    const stream = new Blob([fromBase64(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
    bytes = await new Response(stream).arrayBuffer();
  } catch {
    throw new Error("weights");
  }
  const start = 4 + new DataView(bytes).getUint32(0, true);
  const description = JSON.parse(new TextDecoder().decode(bytes.slice(4, start)));
  const tensors = {};
  for (const { name, type, shape, offset, length } of description.tensors) {
    // A slice, as numbers of 4 bytes must begin at a multiple of 4.
    tensors[name] = { shape, values: READERS[type](bytes.slice(start + offset, start + offset + length), shape) };
  }
  return { ...description, tensors };
}

function fromBase64(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

const READERS = {
  uint8: bytes => new Uint8Array(bytes),
  float32: bytes => new Float32Array(bytes),
  float16: bytes => Float32Array.from(new Uint16Array(bytes), half => FROM_HALF[half]),
  int8: (bytes, shape) => {
    const columns = shape.at(-1), rows = bytes.byteLength / (columns + 4), values = new Float32Array(rows * columns);
    const scales = new Float32Array(bytes, 0, rows), integers = new Int8Array(bytes, 4 * rows);
    for (let row = 0; row < rows; row++) {
      for (let i = row * columns; i < (row + 1) * columns; i++) values[i] = scales[row] * integers[i];
    }
    return values;
  },
};

// All float16 numbers: a sign, 5 bits of exponent and 10 of fraction (IEEE 754). The export refuses infinities.
const FROM_HALF = Float32Array.from({ length: 2 ** 16 }, (_, half) => {
  const sign = half & 0x8000 ? -1 : 1, exponent = (half >> 10) & 31, fraction = (half & 1023) / 1024;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
});
