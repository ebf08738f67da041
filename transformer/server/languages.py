"""Which of the languages that are served a text is in."""

from collections import Counter
from collections.abc import Collection

from transformer.data.languages import FREQUENT_WORDS, base_language, expected_script, scripts


def _script(code: str) -> str:
    return expected_script(code) or ""


def detect(text: str, languages: Collection[str]) -> list[tuple[str, float]]:
    """How much speaks for each of `languages`, from 0 to 100, the likeliest first.

    That is the share of the letters that are of its script, divided among the languages of one script by their
    frequent words (each counts half a word more, so that none is ruled out). No other language is thought of.
    """
    letters = scripts(text)
    words = Counter("".join(mark if mark.isalpha() else " " for mark in text.lower()).split())
    weights = {one: 0.5 + sum(words[word] for word in FREQUENT_WORDS.get(base_language(one), ())) for one in languages}
    confidences = {}
    for language, weight in weights.items():
        script = _script(language)
        rivals = sum(other for one, other in weights.items() if _script(one) == script)
        confidences[language] = round(100 * letters[script] / max(1, letters.total()) * weight / rivals, 1)
    return sorted(confidences.items(), key=lambda pair: -pair[1])
