import { decoder, encoder } from "./sentencepiece.js";

// How SentencePiece normalizes a text before it is segmented: NFKC with some rules of its own, from a table in the model
// (the "precompiled charsmap"); spaces become ▁, one before each word.
//
// The table is a trie of all byte sequences that are replaced, as a double array (Aoe 1989), with the library Darts:
// element `at ^ byte` is the child of the node `at`, if the label that stands in it is that byte.

export const SPACE = "▁";

export class Normalizer {
  // `keep` are symbols that stay as they are (a tag of a language).
  constructor(charsmap, keep) {
    this.keep = keep.map(symbol => encoder.encode(symbol)).sort((a, b) => b.length - a.length);
    const size = charsmap.length && new DataView(charsmap.buffer, charsmap.byteOffset).getUint32(0, true);
    this.trie = new Uint32Array(charsmap.slice(4, 4 + size).buffer);
    this.replacements = charsmap.slice(4 + size);  // texts, each ended by a zero
  }

  normalize(text) {
    const bytes = encoder.encode(text);
    let normalized = "", afterSpace = true;
    for (let at = 0; at < bytes.length; ) {
      const [replacement, length] = this.next(bytes, at);
      at += length;
      // Spaces at the start, and all but one of several, are left out.
      const part = afterSpace ? replacement.replace(/^ +/, "") : replacement;
      normalized += part;
      if (part) afterSpace = part.endsWith(" ");
    }
    normalized = normalized.replaceAll(" ", SPACE).replace(/▁+$/, "");
    return normalized && SPACE + normalized;
  }

  // What the longest rule that fits at this place makes of the text, or the next character; and how many bytes it takes.
  next(bytes, at) {
    for (const symbol of this.keep) {
      if (symbol.every((byte, i) => bytes[at + i] === byte)) return [decoder.decode(symbol), symbol.length];
    }
    const [length, value] = this.longestRule(bytes, at);
    if (length) {
      const end = this.replacements.indexOf(0, value);
      return [decoder.decode(this.replacements.subarray(value, end)), length];
    }
    let end = at + 1;
    while ((bytes[end] & 0xc0) === 0x80) end++;  // the other bytes of a character
    return [decoder.decode(bytes.subarray(at, end)), end - at];
  }

  longestRule(bytes, at) {
    // An element: a label (8 bits), whether a value stands there, and how far away the children are (22 bits).
    const childrenOf = unit => (unit >>> 10) << ((unit & 0x200) >>> 6);
    let found = [0, 0], node = this.trie.length ? childrenOf(this.trie[0]) : 0;
    for (let i = at; i < bytes.length && this.trie.length; i++) {
      node ^= bytes[i];
      const unit = this.trie[node];
      if ((unit & 0x800000ff) >>> 0 !== bytes[i]) break;
      node ^= childrenOf(unit);
      if (unit & 0x100) found = [i + 1 - at, this.trie[node] & 0x7fffffff];
    }
    return found;
  }
}
