"""Recognizes the language of a text by its letters and most frequent words, well enough to notice swapped columns."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from transformer.printing import shortened

if TYPE_CHECKING:
    from langcodes import Language

# The languages of a corpus are recognized from this number of pairs: more than enough, and read in a second or two.
LANGUAGE_SAMPLE = 5000
# The three scripts of Japanese and that of Chinese count as one.
HAN = "CJK"
KANA = re.compile("[ぁ-ゖァ-ヺ]")  # letters that only Japanese has


@cache
def marks() -> str:
    """All marks (an accent by itself, a vowel of Hindi, a point of Arabic), as a class of a regular expression. A mark
    belongs to the letter before it, but Python's \\w does not match it."""
    codes = [code for code in range(0x110000) if unicodedata.category(chr(code))[0] == "M"]
    runs = (list(run) for _, run in groupby(enumerate(codes), lambda place: place[1] - place[0]))
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)


@cache
def script(character: str) -> str:
    """The script of a letter: the first word of its Unicode name."""
    name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return HAN if name in ("HIRAGANA", "KATAKANA") else name


# The names of scripts in Unicode's names of letters, if CLDR has another name.
UNICODE_NAMES = dict.fromkeys(("Hans", "Hant", "Hani", "Jpan"), HAN) | {"Kore": "HANGUL", "Hang": "HANGUL"}
UNICODE_NAMES |= {"Beng": "BENGALI", "Orya": "ORIYA"}
# Words that are frequent in one of these languages and rare in the others.
FREQUENT_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the of and to is that it was for with you are this have be on",
        "de": "der das und ist nicht ein ich zu mit den sie auf eine im sich von",
        "fr": "le les des est une et pas dans pour qui vous je du au ce avec",
        "es": "el los una es por con las del para no más su está muy pero",
        "it": "il di che per un non sono della con gli del anche ho più alla",
        "pt": "não uma os para com em dos mais ao você um",
        "nl": "het een van niet ik dat zijn voor met je op ook maar hij naar er",
        "pl": "nie się na jest że jak ale po co czy tak od jego",
        "cs": "se že je jsem není jako by ale si tak pro jeho už co",
        "sv": "och att det som är en inte på jag för av med den till var ett",
        "da": "og det er en ikke på jeg til som af med den var et han de",
        "fi": "ja on ei se että hän oli mutta en niin minä kun joka ovat olen ole",
        "hu": "az és nem hogy egy van ez meg csak volt már ha mint",
        "tr": "bir ve bu ne için çok da de ben var mi değil sen gibi ile",
    }.items()
}
# The script of a text with fewer letters is not checked.
MIN_LETTERS = 5
# A text is in another script if a smaller share of its letters has the expected script: names and formulas may also be
# in other scripts. A syllable counts more than a letter of an alphabet.
MIN_SHARE, SYLLABLES, WEIGHT = 0.15, (HAN, "HANGUL"), 4
# A text is in another language if it has at least MIN_WORDS different frequent words of that language, and MIN_RATIO
# times as many as of its own language.
MIN_WORDS, MIN_RATIO = 3, 4


def scripts(text: str) -> Counter[str]:
    """The number of letters of each script."""
    if text.isascii():
        return Counter({"LATIN": count} if (count := sum(map(str.isalpha, text))) else {})
    return Counter(script(character) for character in text if character.isalpha())


def weighted(letters: Counter[str]) -> Counter[str]:
    """Letters of each script; a character for a syllable or a word counts as several."""
    return Counter({name: count * (WEIGHT if name in SYLLABLES else 1) for name, count in letters.items()})


@cache
def known_language(code: str) -> "Language | None":
    """The data of CLDR for a code of ISO 639, with or without script and region; None if no language has this code."""
    from langcodes import Language, LanguageTagError

    try:
        language = Language.get(code)
    except LanguageTagError:
        return None
    return language if Language.make(language.language).is_valid() else None


def base_language(code: str) -> str:
    """The language of a code, without script and region, in two letters if possible: zh for zh-TW and zho_Hant."""
    if language := known_language(code):
        return str(language.prefer_macrolanguage().language)
    return code.lower().replace("_", "-").partition("-")[0]


def expected_script(code: str) -> str | None:
    """The script in a code, or else the usual one of its language; None if no language has this code."""
    from langcodes import Language

    language = known_language(code)
    subtag = language and language.prefer_macrolanguage().maximize().script
    if not subtag:
        return None
    return UNICODE_NAMES.get(subtag) or Language.make(script=subtag).script_name().split()[0].upper()


def space_between_sentences(code: str) -> str:
    """The space between two sentences of a language, if it has one."""
    return "" if expected_script(code) == HAN else " "


def name_of(code: str) -> str:
    """A language's name in English; the code itself if no language has it."""
    from langcodes import Language

    return Language.make(base_language(code)).language_name() if known_language(code) else code


def language_of_country(code: str) -> str | None:
    """The language of most people in a country: zh for cn; None if no country has this code."""
    from langcodes import Language

    country = Language.make(territory=code.upper())
    is_named = len(code) == 2 and not country.territory_name().startswith(("Unknown Region", "Private use"))
    return str(country.maximize().language) if is_named else None


def code_meant(code: str) -> str | None:
    """The code of the language that was probably meant by a name or a country's code (Deutsch, cn, jp); None if the
    text is already the code of a language, or if nothing fits."""
    from langcodes import find

    if known_language(code) or len(code) < 4:
        return None if known_language(code) else language_of_country(code)
    try:
        return str(find(code).language)
    except LookupError:
        return None


def commonest_script(texts: Iterable[str]) -> str | None:
    """The script of most letters; None for texts without letters."""
    letters = weighted(sum(map(scripts, texts), Counter()))
    return max(letters, key=letters.__getitem__, default=None)


def looks_like(texts: Iterable[str], language: str) -> str | None:
    """None if texts look like `language`; else what they look like: a script (`LATIN script`) or a language code.

    Languages are recognized by their scripts, and those of FREQUENT_WORDS also by their words. For other languages, and
    for texts that are too short, the answer is None.
    """
    letters: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for text in texts:
        letters.update(scripts(text))
        words.update("".join(mark if mark.isalpha() else " " for mark in text.lower()).split())
    code, letters = base_language(language), weighted(letters)
    expected = expected_script(language)
    if expected and letters.total() >= MIN_LETTERS and letters[expected] < MIN_SHARE * letters.total():
        [(script, _)] = letters.most_common(1)
        return f"{script} script"
    if code not in FREQUENT_WORDS or expected != expected_script(code):  # in another script it has other words
        return None
    counts = {other: sum(words[word] for word in frequent) for other, frequent in FREQUENT_WORDS.items()}
    likeliest = max(counts, key=lambda other: counts[other])
    different = len(FREQUENT_WORDS[likeliest] & words.keys())  # "no, no, no" counts as one word
    return likeliest if different >= MIN_WORDS and counts[likeliest] >= MIN_RATIO * counts[code] else None


def _example(texts: Iterable[str]) -> str:
    return shortened(next((text for text in texts if sum(map(str.isalpha, text)) >= MIN_LETTERS), ""))


def _meant(code: str, seen: str) -> str:
    """Suggests the language of a country with this code, if it is written in the script that was seen."""
    language = language_of_country(code)
    return f" (did you mean {language}?)" if language and f"{expected_script(language)} script" == seen else ""


def language_faults(pairs: Iterable[tuple[str, str]], languages: tuple[str, str]) -> tuple[bool, list[str]]:
    """Whether source and target are swapped, and a line about each side with the wrong language."""
    sides = list(zip(*pairs, strict=True))
    if not sides:
        return False, []
    other_languages = [looks_like(texts, language) for texts, language in zip(sides, languages, strict=True)]
    is_swapped = all(other_languages) and not any(map(looks_like, sides, reversed(languages)))
    names = ("data.source_language", "data.target_language")
    faults = [
        f"{name}={language}{_meant(language, seen)}, but its sentences look like {seen}: {_example(texts)}"
        for name, language, seen, texts in zip(names, languages, other_languages, sides, strict=True)
        if seen
    ]
    return is_swapped, faults
