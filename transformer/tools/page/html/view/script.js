// Whether a text is in another script than its language, by the rule of transformer/data/languages.py.

const CHINESE = ["Han", "Hiragana", "Katakana"];  // Japanese counts as one with it
const NAMES = { Hans: CHINESE, Hant: CHINESE, Hani: CHINESE, Jpan: CHINESE, Kore: ["Hangul"] };
const MIN_LETTERS = 5, MIN_SHARE = 0.15, WEIGHT = 4;
const classOf = names => new RegExp(`[${names.map(name => `\\p{Script=${name}}`).join("")}]`, "u");
const SYLLABLE = classOf([...CHINESE, "Hangul"]);

export function isInAnotherScript(text, language) {
  let expected;
  try {
    const { script } = new Intl.Locale(language.replaceAll("_", "-")).maximize();
    expected = classOf(NAMES[script] ?? [script]);
  } catch {
    return false;  // the browser knows no such language
  }
  const letters = text.match(/\p{L}/gu) ?? [];
  const weigh = list => list.reduce((sum, letter) => sum + (SYLLABLE.test(letter) ? WEIGHT : 1), 0);
  return weigh(letters) >= MIN_LETTERS && weigh(letters.filter(letter => expected.test(letter))) < MIN_SHARE * weigh(letters);
}
