// What a text becomes before it is segmented, as transformer/data/clean.py says it, which explains each rule.

// Spaces as Python knows them.
export const SPACES = String.raw`\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;
export const SPACE_MARK = "▁", JOINER = "⁀";
const MAX_MARKS = 30;
const MEANINGLESS = String.raw`\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u17b4\u17b5\u180e\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\u{e0001}`;
const DIRECTIONS = String.raw`\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069`;
const VARIATIONS = String.raw`\ufe00-\ufe0f`, IDEOGRAPHIC_VARIATIONS = String.raw`\u{e0100}-\u{e01ef}`;
const MONGOLIAN_VARIATIONS = String.raw`\u180b-\u180d\u180f`, TAGS = String.raw`\u{e0020}-\u{e007f}`;
const UNSPACED = String.raw`\u0e00-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f`;
const JOINING = String.raw`\u0600-\u07ff\u0860-\u0dff\u0f00-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc` + UNSPACED;
const MONGOLIAN = String.raw`\u1800-\u18af`, HAN = String.raw`\u2e80-\u2fff\u3400-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}`;
const BLACK_FLAG = "🏴", KEYCAP = "\u20e3";

const matching = characters => new RegExp(`[${characters}]`, "u");
const RIGHT_TO_LEFT = matching(String.raw`\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}`);
const CLASS = String.raw`${MEANINGLESS}\u200b-\u200d${DIRECTIONS}${VARIATIONS}${IDEOGRAPHIC_VARIATIONS}` +
  MONGOLIAN_VARIATIONS + TAGS;
const INVISIBLE = new RegExp(`([^${CLASS}]?)([${CLASS}]+)(?=(.?))`, "gsu");
const LONG_RUNS = new RegExp(String.raw`(\p{M}{${MAX_MARKS}})\p{M}+`, "gu");
const SPACE_RUNS = new RegExp(`[${SPACES}]+`, "gu"), OUTER = /^ | $/gu;

// For each kind of invisible character, whether it says something between two visible ones.
const isSymbol = /\p{S}/u, isMark = /[\p{S}\p{P}]/u, isWord = /[\p{L}\p{M}\p{N}]/u;
const MEANING = [
  ["\\u200c", before => matching(JOINING).test(before)],
  ["\\u200d", (before, after) => matching(JOINING).test(before) || (isSymbol.test(before) && isSymbol.test(after))],
  ["\\u200b", before => matching(UNSPACED).test(before)],
  [DIRECTIONS, (before, after, rightToLeft) => rightToLeft && !(isWord.test(before) && isWord.test(after))],
  [VARIATIONS, (before, after) => isMark.test(before) || after === KEYCAP],
  [IDEOGRAPHIC_VARIATIONS, before => matching(HAN).test(before)],
  [MONGOLIAN_VARIATIONS, before => matching(MONGOLIAN).test(before)],
  [TAGS, before => before === BLACK_FLAG],
].map(([characters, says]) => [matching(characters), says]);

function withoutMeaningless(text) {
  const rightToLeft = RIGHT_TO_LEFT.test(text);
  return text.replace(INVISIBLE, (_, before, run, after) => {
    const kept = [...run].slice(0, MAX_MARKS).filter(mark =>
      MEANING.some(([kind, says]) => kind.test(mark) && says(before, after, rightToLeft)));
    return before + kept.join("");
  });
}

export function clean(text) {
  const composed = withoutMeaningless(text).replace(LONG_RUNS, "$1").normalize("NFC");
  return composed.replaceAll(SPACE_MARK, "_").replaceAll(JOINER, "‿").replace(SPACE_RUNS, " ").replace(OUTER, "");
}
