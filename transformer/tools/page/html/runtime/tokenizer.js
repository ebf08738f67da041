// Text ↔ ids, exactly as SentencePiece does it: read `sentencepiece`, `normalizer` and `segmentation` first.

import { encoder, readSentencePiece, TYPE } from "./sentencepiece.js";
import { clean, JOINER, SPACES } from "./clean.js";
import { Normalizer, SPACE } from "./normalizer.js";
import { SEGMENTATIONS } from "./segmentation.js";

export const PAD = 0, UNK = 1, BOS = 2, EOS = 3;
// What words are made of (marks are accents, and vowels of Hindi).
const WORD = String.raw`\p{L}\p{M}\p{N}_`;
const JOINTS = new RegExp(`(?<=[${WORD}])(?=[^${WORD}${SPACES}])|(?<=[^${WORD}${SPACES}])(?=[^${SPACES}])`, "gu");
const ONLY_SPACES = new RegExp(`^[${SPACES}]*$`, "u"), OUTER_SPACES = new RegExp(`^[${SPACES}]+|[${SPACES}]+$`, "gu");

const byteName = byte => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;

// The text that bytes spell; one that is no part of a character is shown as �.
function spelled(bytes) {
  let text = "";
  for (let at = 0, length; at < bytes.length; at += length) {
    const character = [1, 2, 3, 4].map(length => strict(bytes.slice(at, at + length))).find(character => character !== null);
    text += character ?? "\ufffd";
    length = character ? encoder.encode(character).length : 1;
  }
  return text;
}

function strict(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(new Uint8Array(bytes));
  } catch {
    return null;
  }
}

export class Tokenizer {
  // `tag` is the id that asks a model of several directions for one of them; null: none.
  constructor(bytes, tag = null) {
    const { pieces, kind, byteFallback, charsmap } = readSentencePiece(bytes);
    this.kind = kind;
    this.byteFallback = byteFallback;
    this.prefix = tag === null ? [] : [tag];
    this.pieces = pieces.map(piece => piece.text);
    this.types = pieces.map(piece => piece.type);
    const normal = pieces.filter(piece => piece.type === TYPE.NORMAL);
    const userDefined = pieces.filter(piece => piece.type === TYPE.USER_DEFINED).map(piece => piece.text);
    this.vocabulary = {
      // Special symbols and bytes are never found in a text.
      ids: new Map(pieces.flatMap(({ text, type }, id) => (type === TYPE.NORMAL || type === TYPE.USER_DEFINED ? [[text, id]] : []))),
      scores: pieces.map(piece => piece.score),
      types: this.types,
      userDefined: userDefined.sort((a, b) => b.length - a.length),
      longest: pieces.reduce((most, { text }) => Math.max(most, [...text].length), 0),
      unknownScore: Math.fround(normal.reduce((least, piece) => Math.min(least, piece.score), Infinity) - 10),
    };
    this.bytes = new Map(pieces.flatMap(({ text, type }, id) => (type === TYPE.BYTE ? [[text, id]] : [])));
    this.normalizer = new Normalizer(charsmap, userDefined);
  }

  // The pieces of a text, those that the vocabulary lacks among them; none for a text of spaces.
  cut(text) {
    if (ONLY_SPACES.test(text)) return [];
    // Of a word tokenizer, JOINER stands before punctuation that follows without a space.
    const cleaned = clean(text), prepared = this.kind === "word" ? cleaned.replace(JOINTS, ` ${JOINER}`) : cleaned;
    const normalized = this.normalizer.normalize(prepared);
    return normalized ? SEGMENTATIONS[this.kind](normalized, this.vocabulary) : [];
  }

  // What the vocabulary lacks of a text, each once: characters, or whole words of a word tokenizer.
  unknown(text) {
    const lacking = this.byteFallback ? [] : this.cut(text).filter(piece => !this.vocabulary.ids.has(piece));
    const words = lacking.flatMap(piece => piece.split(SPACE)).filter(Boolean);
    return [...new Set(this.kind === "word" ? words : words.join(""))];
  }

  // Ids without begin and end symbol; none for a text of spaces.
  encode(text) {
    const pieces = this.cut(text), ids = [];
    if (!pieces.length) return [];
    for (const piece of pieces) {
      const id = this.vocabulary.ids.get(piece) ?? UNK;
      if (id === UNK && this.byteFallback) {
        for (const byte of encoder.encode(piece)) ids.push(this.bytes.get(byteName(byte)) ?? UNK);
      } else if (id !== UNK || ids.at(-1) !== UNK) {
        ids.push(id);  // neighbors that are unknown are one unknown
      }
    }
    return [...this.prefix, ...ids];
  }

  // The text of ids. Special symbols give none, but for an unknown, which is shown as ⁇.
  decode(ids) {
    let text = "", bytes = [];
    const flush = () => {
      text += spelled(bytes);
      bytes = [];
    };
    for (const id of ids.filter(id => ![PAD, BOS, EOS].includes(id))) {
      if (this.types[id] === TYPE.BYTE) {
        bytes.push(parseInt(this.pieces[id].slice(3, 5), 16));
        continue;
      }
      flush();
      if (this.types[id] === TYPE.CONTROL) continue;
      // The space before the first word was no part of the text.
      const piece = text ? this.pieces[id] : this.pieces[id].replace(new RegExp(`^${SPACE}`), "");
      text += id === UNK ? " ⁇ " : piece.replaceAll(SPACE, " ");
    }
    flush();
    if (this.kind !== "word") return text;
    // An unknown word spelled in bytes has the mark of a space among them; ⁇ stands between spaces of its own.
    return text.replaceAll(SPACE, " ").replace(OUTER_SPACES, "").replace(new RegExp(` *${JOINER}`, "gu"), "");
  }
}
