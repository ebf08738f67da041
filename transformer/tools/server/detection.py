"""Finds out which of the served languages a text has."""

from collections import Counter
from collections.abc import Collection

from transformer.data.clean import normal_form
from transformer.data.languages import FREQUENT_WORDS, HAN, KANA, base_language, expected_script, scripts

HAN_PER_KANA = 10  # a Japanese text has at most this number of other characters for each kana


def detect(text: str, languages: Collection[str]) -> list[tuple[str, float]]:
    """How likely each of `languages` is, from 0 to 100, the most likely first.

    A language gets the share of the letters that have its script (the most common script, if its own is not known).
    Languages with the same script divide this share by their frequent words in the text (plus half a word, so that none
    is excluded), or by kana for Japanese and Chinese. If the frequent words of a language are not known, every tenth
    word counts as one. Other languages are not considered.
    """
    text = normal_form("NFKC", text)  # so that a separate accent does not end a word
    letters = scripts(text)
    commonest = max(letters, key=letters.__getitem__, default="")
    script = {one: expected_script(one) or commonest for one in languages}
    words = Counter("".join(mark if mark.isalpha() else " " for mark in text.lower()).split())
    kana = len(KANA.findall(text))
    weights = {}
    for one in languages:
        if script[one] == HAN:
            weights[one] = 0.5 + (kana if base_language(one) == "ja" else (letters[HAN] - kana) / HAN_PER_KANA)
        elif frequent := FREQUENT_WORDS.get(base_language(one)):
            weights[one] = 0.5 + sum(words[word] for word in frequent)
        else:
            weights[one] = 0.1 * max(1, words.total())
    confidences = {}
    for one, weight in weights.items():
        rivals = sum(other for rival, other in weights.items() if script[rival] == script[one])
        confidences[one] = round(100 * letters[script[one]] / max(1, letters.total()) * weight / rivals, 1)
    return sorted(confidences.items(), key=lambda pair: -pair[1])
