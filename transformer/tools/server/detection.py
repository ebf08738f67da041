"""Which of the languages that are served a text is in."""

from collections import Counter
from collections.abc import Collection

from transformer.data.clean import normal_form
from transformer.data.languages import FREQUENT_WORDS, HAN, KANA, base_language, expected_script, scripts

HAN_PER_KANA = 10  # how many others stand beside a kana at most in a Japanese text


def detect(text: str, languages: Collection[str]) -> list[tuple[str, float]]:
    """How likely each of `languages` is, from 0 to 100, the likeliest first.

    That is the share of the letters that are of its script (of the commonest one, if we know none), divided among the
    languages of one script by their frequent words (half a word more, so that none is ruled out), or Japanese and
    Chinese by kana. Of a language whose frequent words we do not know, every tenth word counts as one. No other
    language is considered.
    """
    text = normal_form("NFKC", text)  # an accent by itself is no end of a word
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
