// The file of a SentencePiece model: a protocol buffer, of which these few fields matter (sentencepiece_model.proto).

export const TYPE = { NORMAL: 1, UNKNOWN: 2, CONTROL: 3, USER_DEFINED: 4, BYTE: 6 };

export const encoder = new TextEncoder();
// A byte order mark is a character like any other here.
export const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export function readSentencePiece(bytes) {
  const model = { pieces: [], trainer: {}, normalizer: {} };
  for (const [field, value] of fields(bytes)) {
    if (field === 1) model.pieces.push(readPiece(value));
    if (field === 2) model.trainer = Object.fromEntries(fields(value));
    if (field === 3) model.normalizer = Object.fromEntries(fields(value));
  }
  const { trainer, normalizer } = model, kinds = { 1: "unigram", 2: "bpe", 3: "word", 4: "char" };
  return {
    pieces: model.pieces,
    kind: kinds[trainer[3] ?? 1],
    byteFallback: Boolean(trainer[35] ?? 0),
    charsmap: normalizer[2] ?? new Uint8Array(0),
  };
}

function readPiece(bytes) {
  const piece = { text: "", score: 0, type: TYPE.NORMAL };
  for (const [field, value] of fields(bytes)) {
    if (field === 1) piece.text = decoder.decode(value);
    if (field === 2) piece.score = new DataView(value.buffer, value.byteOffset).getFloat32(0, true);
    if (field === 3) piece.type = value;
  }
  return piece;
}

// The fields of a message, [number, value]: integers as numbers, all others as bytes.
function* fields(bytes) {
  let at = 0;
  const integer = () => {
    // Seven bits a byte, the lowest first; the highest bit of a byte says that another follows.
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      value += (bytes[at] & 127) * factor;
      if (bytes[at++] < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = integer(), field = Math.floor(tag / 8), type = tag % 8;
    if (type === 0) {
      yield [field, integer()];
      continue;
    }
    const length = type === 2 ? integer() : type === 5 ? 4 : 8;
    yield [field, bytes.subarray(at, at + length)];
    at += length;
  }
}
