"""Small corpora for the doctor: clean ones, of words in random order, and the faults that tests add to them."""

import random
import unicodedata
from pathlib import Path

from tests.factories import data_settings
from transformer.data.config import DataSettings

Pair = tuple[str, str]
TOY = Path(__file__).parents[3] / "data" / "toy"


def vocabulary(language: str) -> list[str]:
    """Rather long words, so that ten of them are recognized as one language."""
    found = {word.strip(".,?!") for word in (TOY / f"test.{language}").read_text(encoding="utf-8").split()}
    return sorted(word for word in found if len(word) > 3 and word.isalpha())


def clean(count: int, seed: int) -> list[Pair]:
    chance = random.Random(seed)
    german, english = vocabulary("de"), vocabulary("en")
    return [(f"{' '.join(chance.choices(german, k=12))}.", f"{' '.join(chance.choices(english, k=14))}.")
            for _ in range(count)]  # fmt: skip


def write(folder: Path, splits: dict[str, list[Pair]]) -> DataSettings:
    """SPLIT.de and SPLIT.en, with exactly the bytes of the pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        for side, language in enumerate(("de", "en")):
            (folder / f"{split}.{language}").write_bytes("".join(f"{pair[side]}\n" for pair in pairs).encode())
    prefixes = {split: str(folder / split) for split in ("train", "validation", "test")}
    return data_settings(**prefixes, max_length=60, batch_tokens=600, cache=str(folder / "cache"))


TRAIN, TEST, VALIDATION = clean(300, seed=1), clean(20, seed=2), clean(20, seed=3)


def said(source: str) -> str:
    """The same words in a different form."""
    return source.upper().replace(" ", ", ") + "!?"


def moved(source: str) -> str:
    """A sentence that contains nearly all words of another."""
    return "Und " + source.removesuffix(".").rpartition(" ")[0] + " auch heute noch."


# The pairs to put into train by line (from 1), and the lines in which the check then finds its fault.
S, T = (lambda line: TRAIN[line - 1][0]), (lambda line: TRAIN[line - 1][1])
PLANTED: dict[str, dict[int, Pair]] = {
    "empty": {10: ("", T(10)), 20: (S(20), "  "), 30: ("", "")},
    "heading": {45: ("source", "target"), 46: ("TGT", "Src "), 47: ("deu", "en_US"), 48: ("German", "English")},
    "duplicate": {50: TRAIN[2], 60: TRAIN[2], 72: (f" {S(71)}", T(71))},
    "in a held-out split": {7: (TEST[4][0], T(7)), 9: (VALIDATION[0][0], T(9)), 36: (S(36), TEST[8][1])},
    "nearly held out": {8: (said(TEST[5][0]), T(8)), 11: (moved(TEST[6][0]), T(11)), 37: (S(37), said(TEST[9][1]))},
    "copied source": {12: (S(12), S(12)), 13: (T(13), T(13).upper() + "!")},
    "wrong language": {14: (T(14), S(14)), 15: (T(215), T(15)), 16: (S(16), S(216))},
    "wrong script": {
        17: ("Привет, мир! Как у вас дела сегодня вечером? Хорошо, спасибо, а у вас?", T(17)),
        70: ("您可以在对话框中", "You can do that."),  # each character is a word
    },
    "length ratio": {18: ("Ja, doch.", T(18)), 19: (S(19), "Oh!"), 66: (S(66), " ".join(map(T, (66, 67, 68, 69))))},
    "unprintable": {
        **{21: (S(21) + "\x07", T(21)), 22: (S(22), T(22).replace(" ", " \ufffd", 1))},
        **{61: (S(61).replace(" ", " \x96 ", 1), T(61)), 62: (S(62), T(62).replace(" ", " \uf0b7 ", 1))},
    },
    "wrong encoding": {
        **{38: (S(38) + " fÃ¼r Ã–l", T(38)), 39: (S(39), T(39)[:-1] + " itâ€™s.")},
        40: (S(40) + " 20 Â°C", T(40)),
    },
    "invisible": {
        **{23: (S(23).replace(" ", " \u200b", 1), T(23)), 24: (S(24), T(24)[:5] + "\u00ad" + T(24)[5:])},
        **{63: (S(63).replace(" ", " \u202b", 1), T(63)), 64: (S(64), T(64).replace(" ", " \ufeff", 1))},
        65: (S(65).replace(" ", "\u2060 ", 1), T(65)),
    },
    "edge spaces": {25: (" " + S(25), T(25)), 26: (S(26), T(26) + "\u3000"), 27: (S(27), T(27) + " \r")},
    "carriage returns": {28: (S(28) + "\r", T(28)), 29: (S(29), T(29) + "\r")},
    "decomposed": {31: (S(31) + unicodedata.normalize("NFD", " schön"), T(31))},
    "mixed quotes": {32: (f"„{S(32)}“", T(32)), 33: (S(33), T(33) + " It’s.")},
    "several translations": {34: (S(34), T(34)), 35: (S(34), T(35))},
}  # fmt: skip
# Other lines that these faults need: quotes are mixed if more lines have the other style.
USUAL: dict[str, dict[int, Pair]] = {
    "mixed quotes": {line: (f'"{S(line)}"', T(line) + " It's.") for line in (41, 42, 43)},
}
# Pairs that look faulty but are not.
NO_FAULTS: dict[str, Pair] = {
    "a name is the same in both languages": ("Angela Merkel", "Angela Merkel"),
    "numbers are the same in both languages": ("1999 2001 2003 2005 2007 2009", "1999 2001 2003 2005 2007 2009"),
    "few long words may be a name": (" ".join([word for word in vocabulary("en") if len(word) > 6][:4]), T(102)),
    "few letters may be a name": ("That with have this on", " ".join(T(103).split()[:4])),
    "a short text may be a name in its own script": ("Москва", "Moscow"),
    "a foreign name may be in its own script": (S(105) + " Москва", T(105)),
    "joiners belong to the spelling": (S(106) + " می\u200cخواهم", T(106)),
    "a tab is a space": (S(107).replace(" ", "\t", 1), T(107)),
    "Portuguese and French have those letters": (S(108) + " AMANHÃ” Ângela Ãno", T(108)),
    "a ligature is a letter": (S(109) + " ﬁel", T(109)),
    "short texts differ in length": ("Ja.", "Yes, I do agree."),
    "twice as long as usual is not too long": (S(110), " ".join(map(T, (110, 111)))),
}


def planted(*faults: dict[int, Pair]) -> list[Pair]:
    lines = dict(enumerate(TRAIN, 1))
    for fault in faults:
        lines |= fault
    return list(lines.values())
