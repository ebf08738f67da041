"""What language a text is in, as far as its letters and most frequent words tell: enough to notice swapped columns."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import groupby

from transformer.printing import shortened

# Pairs from which the languages of a corpus are recognized: more than enough, and read in a second or two.
LANGUAGE_SAMPLE = 5000
# Japanese has three scripts, which count as one with that of Chinese.
HAN = "CJK"


@cache
def marks() -> str:
    """All marks (an accent by itself, a vowel of Hindi, a point of Arabic), as a class of a regular expression names
    them. A mark belongs to the letter before it, which Python's \\w does not know."""
    codes = [code for code in range(0x110000) if unicodedata.category(chr(code))[0] == "M"]
    runs = (list(run) for _, run in groupby(enumerate(codes), lambda place: place[1] - place[0]))
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)


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
        "LAO": "lo",
        "KHMER": "km",
        "MYANMAR": "my",
        "ARMENIAN": "hy",
        "GEORGIAN": "ka",
        "BENGALI": "bn",
        "TAMIL": "ta",
        "TELUGU": "te",
    }.items()
    for language in languages.split()
}
# The subtag of a script, which may follow the language in a code: sr_Latn, zh-Hant.
SCRIPT_SUBTAGS = dict(
    pair.split(":")
    for pair in (
        f"arab:ARABIC armn:ARMENIAN beng:BENGALI cyrl:CYRILLIC deva:DEVANAGARI geor:GEORGIAN grek:GREEK hang:HANGUL "
        f"hani:{HAN} hans:{HAN} hant:{HAN} hebr:HEBREW jpan:{HAN} khmr:KHMER kore:HANGUL laoo:LAO latn:LATIN "
        f"mymr:MYANMAR taml:TAMIL telu:TELUGU thai:THAI"
    ).split()
)
# Codes of ISO 639-3, as Tatoeba and FLORES write them, for those that have two letters.
TWO_LETTERS = dict(
    pair.split(":")
    for pair in (
        "afr:af ara:ar arb:ar aze:az azj:az bel:be ben:bn bul:bg cat:ca ces:cs cmn:zh cym:cy dan:da deu:de ekk:et "
        "ell:el eng:en epo:eo est:et eus:eu fas:fa fin:fi fra:fr gle:ga glg:gl heb:he hin:hi hrv:hr hun:hu hye:hy "
        "ind:id isl:is ita:it jpn:ja kat:ka kaz:kk khk:mn khm:km kir:ky kor:ko lao:lo lat:la lav:lv lit:lt lvs:lv "
        "mal:ml mar:mr mkd:mk mon:mn msa:ms mya:my nep:ne nld:nl nob:nb nno:nn nor:no npi:ne pes:fa pol:pl por:pt "
        "ron:ro rus:ru san:sa slk:sk slv:sl spa:es sqi:sq srp:sr swa:sw swe:sv swh:sw tam:ta tat:tt tel:te tgk:tg "
        "tgl:tl tha:th tur:tr uig:ug ukr:uk urd:ur uzb:uz uzn:uz vie:vi ydd:yi yid:yi zho:zh zsm:ms"
    ).split()
)
NAMES = dict(
    pair.split(":")
    for pair in (
        "af:Afrikaans ar:Arabic az:Azerbaijani be:Belarusian bg:Bulgarian bn:Bengali ca:Catalan cs:Czech cy:Welsh "
        "da:Danish de:German el:Greek en:English eo:Esperanto es:Spanish et:Estonian eu:Basque fa:Persian "
        "fi:Finnish fr:French ga:Irish gl:Galician he:Hebrew hi:Hindi hr:Croatian hu:Hungarian hy:Armenian "
        "id:Indonesian is:Icelandic it:Italian ja:Japanese ka:Georgian kk:Kazakh km:Khmer ko:Korean ky:Kyrgyz "
        "la:Latin lo:Lao lt:Lithuanian lv:Latvian mk:Macedonian mn:Mongolian mr:Marathi ms:Malay my:Burmese "
        "nb:Norwegian ne:Nepali nl:Dutch no:Norwegian pl:Polish pt:Portuguese ro:Romanian ru:Russian sk:Slovak "
        "sl:Slovenian sq:Albanian sr:Serbian sv:Swedish sw:Swahili ta:Tamil te:Telugu tg:Tajik th:Thai tr:Turkish "
        "uk:Ukrainian ur:Urdu uz:Uzbek vi:Vietnamese yi:Yiddish zh:Chinese"
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
    """The language of a code without script and region, in two letters where it has them: zh of zh-TW and zho_Hant."""
    language = code.lower().replace("_", "-").partition("-")[0]
    return TWO_LETTERS.get(language, language)


def expected_script(code: str) -> str | None:
    """The script that a code names, or else the usual one of its language; None where we know none."""
    subtags = code.lower().replace("_", "-").split("-")[1:]
    # A region has two letters, a variant more than four or a digit.
    if named := [subtag for subtag in subtags if len(subtag) == 4 and subtag.isalpha()]:
        return SCRIPT_SUBTAGS.get(named[0])
    return SCRIPTS.get(base_language(code))


def space_between_sentences(code: str) -> str:
    """What stands between two sentences of a language."""
    return "" if expected_script(code) == HAN else " "


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
    expected = expected_script(language)
    if expected and letters.total() >= MIN_LETTERS and letters[expected] < MIN_SHARE * letters.total():
        [(script, _)] = letters.most_common(1)
        return f"{script} script"
    if code not in FREQUENT_WORDS or expected != SCRIPTS[code]:  # written in another script, its words are others
        return None
    counts = {other: sum(words[word] for word in frequent) for other, frequent in FREQUENT_WORDS.items()}
    likeliest = max(counts, key=lambda other: counts[other])
    different = len(FREQUENT_WORDS[likeliest] & words.keys())  # "no, no, no" is one word
    return likeliest if different >= MIN_WORDS and counts[likeliest] >= MIN_RATIO * counts[code] else None


def _example(texts: Iterable[str]) -> str:
    return shortened(next((text for text in texts if sum(map(str.isalpha, text)) >= MIN_LETTERS), ""))


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
