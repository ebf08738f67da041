"""What language a text is in, as far as its letters and most frequent words tell: enough to notice swapped columns."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import chain

from transformer.data.printable import shortened

# Pairs from which the languages of a corpus are recognized: more than enough, and read in a second or two.
LANGUAGE_SAMPLE = 5000
# Japanese has three scripts, which count as one with that of Chinese.
HAN = "CJK"


@cache
def script(character: str) -> str:
    """The script of a letter: the first word of its Unicode name."""
    name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return HAN if name in ("HIRAGANA", "KATAKANA") else name


SCRIPTS = {
    language: script
    for script, languages in {
        "LATIN": "af az ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lt lv ms mt nb nl nn no pl pt ro "
        "sk sl sq sv sw tl tr uz vi",
        "CYRILLIC": "be bg kk ky mk mn ru tg uk",
        HAN: "ja yue zh",
        "ARABIC": "ar fa ug ur",
        "DEVANAGARI": "hi mr ne sa",
        "GREEK": "el",
        "HANGUL": "ko",
        "HEBREW": "he yi",
        "THAI": "th",
        "ARMENIAN": "hy",
        "GEORGIAN": "ka",
        "BENGALI": "bn",
        "TAMIL": "ta",
        "TELUGU": "te",
    }.items()
    for language in languages.split()
}
NAMES = dict(
    pair.split(":")
    for pair in (
        "af:Afrikaans ar:Arabic az:Azerbaijani be:Belarusian bg:Bulgarian bn:Bengali ca:Catalan cs:Czech cy:Welsh "
        "da:Danish de:German el:Greek en:English eo:Esperanto es:Spanish et:Estonian eu:Basque fa:Persian fi:Finnish "
        "fr:French ga:Irish gl:Galician he:Hebrew hi:Hindi hr:Croatian hu:Hungarian hy:Armenian id:Indonesian "
        "is:Icelandic it:Italian ja:Japanese ka:Georgian kk:Kazakh ko:Korean ky:Kyrgyz la:Latin lt:Lithuanian "
        "lv:Latvian mk:Macedonian mn:Mongolian mr:Marathi ms:Malay nb:Norwegian ne:Nepali nl:Dutch no:Norwegian "
        "pl:Polish pt:Portuguese ro:Romanian ru:Russian sk:Slovak sl:Slovenian sq:Albanian sr:Serbian sv:Swedish "
        "sw:Swahili ta:Tamil te:Telugu tg:Tajik th:Thai tr:Turkish uk:Ukrainian ur:Urdu uz:Uzbek vi:Vietnamese "
        "yi:Yiddish zh:Chinese"
    ).split()
)
CODES = {name.lower(): code for code, name in NAMES.items()}
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
# The script of a text with fewer letters is not looked at.
MIN_LETTERS = 5
# A text is in another script if a smaller share of its letters is of the expected one: names and formulas are in other
# scripts too. A syllable counts for more than a letter of an alphabet.
MIN_SHARE, SYLLABLES, WEIGHT = 0.15, (HAN, "HANGUL"), 4
# A text is in another language if it has so many different ones of that language's frequent words, and so many times as
# many as of its own language's.
MIN_WORDS, MIN_RATIO = 3, 4


def scripts(text: str) -> Counter[str]:
    """The number of letters of each script."""
    if text.isascii():
        return Counter({"LATIN": count} if (count := sum(map(str.isalpha, text))) else {})
    return Counter(script(character) for character in text if character.isalpha())


def weighted(letters: Counter[str]) -> Counter[str]:
    """Letters of each script, where a character that stands for a syllable or a word counts as several."""
    return Counter({name: count * (WEIGHT if name in SYLLABLES else 1) for name, count in letters.items()})


def base_language(code: str) -> str:
    """The language of a code without script and region: zh of zh_Hant and zh-TW."""
    return code.lower().replace("_", "-").partition("-")[0]


def space_between_sentences(code: str) -> str:
    """What stands between two sentences of a language."""
    return "" if SCRIPTS.get(base_language(code)) == HAN else " "


def name_of(code: str) -> str:
    """A language's name in English; its code where we have none."""
    return NAMES.get(base_language(code), code)


def looks_like(texts: Iterable[str], language: str) -> str | None:
    """What texts look like if that is not `language`: a script (`LATIN script`) or a language code; None if they fit.

    Languages are told apart by their scripts, and those of FREQUENT_WORDS by these; of any other language, and of a
    text too short to tell, the answer is None.
    """
    letters: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for text in texts:
        letters.update(scripts(text))
        words.update("".join(mark if mark.isalpha() else " " for mark in text.lower()).split())
    code, letters = base_language(language), weighted(letters)
    expected = SCRIPTS.get(code)
    if expected and letters.total() >= MIN_LETTERS and letters[expected] < MIN_SHARE * letters.total():
        [(script, _)] = letters.most_common(1)
        return f"{script} script"
    if code not in FREQUENT_WORDS:
        return None
    counts = {other: sum(words[word] for word in frequent) for other, frequent in FREQUENT_WORDS.items()}
    likeliest = max(counts, key=lambda other: counts[other])
    different = len(FREQUENT_WORDS[likeliest] & words.keys())  # "no, no, no" is one word
    return likeliest if different >= MIN_WORDS and counts[likeliest] >= MIN_RATIO * counts[code] else None


def _example(texts: Iterable[str]) -> str:
    text = next(text for text in chain(texts, [""]) if sum(map(str.isalpha, text)) >= MIN_LETTERS or not text)
    return shortened(text)


def language_faults(pairs: Iterable[tuple[str, str]], languages: tuple[str, str]) -> tuple[bool, list[str]]:
    """Whether source and target are swapped, and what is wrong with each side, ready to be printed."""
    sides = list(zip(*pairs, strict=True))
    if not sides:
        return False, []
    other_languages = [looks_like(texts, language) for texts, language in zip(sides, languages, strict=True)]
    is_swapped = all(other_languages) and not any(map(looks_like, sides, reversed(languages)))
    names = ("data.source_language", "data.target_language")
    faults = [
        f"{name}={language}, but its sentences look like {seen}: {_example(texts)}"
        for name, language, seen, texts in zip(names, languages, other_languages, sides, strict=True)
        if seen
    ]
    return is_swapped, faults
