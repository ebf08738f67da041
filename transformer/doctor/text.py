"""Lines as they are in the files, and what is compared of them: words, letters, scripts, trigrams."""

import gzip
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer.data.corpus import Pair, read_lines, read_pairs

# Scripts written without spaces: each character counts as a word.
WORD = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]|[^\W\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]+")
# Of the tables of hashed trigrams: as many as a language needs, few enough for any machine.
BUCKETS = 1 << 18


class Line(NamedTuple):
    """A pair: its `number`, from 1; `raw`, as it is in the files, without line ends; `text`, as training reads it."""

    number: int
    raw: Pair
    text: Pair


def read_raw(files: list[Path], languages: Pair) -> Iterator[Line]:
    """Every pair of a split. Raises ValueError, as training would, for files that cannot be read."""
    pairs = read_pairs(files, *languages)
    if len(files) == 1:
        raw: Iterator[tuple[str | None, ...]] = (tuple(line.split("\t")) for line in read_lines(files[0], "\r\n"))
    else:
        raw = zip_longest(*(read_lines(path, "\n") for path in files))
    swapped = False
    for number, pair in enumerate(pairs, 1):
        cells = next(raw)
        if len(files) == 1 and number == 1 and {cell.strip() for cell in cells if cell} == set(languages):
            # The first line names the languages.
            swapped, cells = (cells[0] or "").strip() == languages[1], next(raw)
        source, target = cells[::-1] if swapped else cells
        yield Line(number, (source or "", target or ""), pair)


def has_byte_order_mark(path: Path) -> bool:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return file.read(3) == b"\xef\xbb\xbf"


def words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation; every number is 0."""
    return [re.sub(r"\d+", "0", word) for word in WORD.findall(text.lower())]


def letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def digest(*texts: str) -> int:
    """A hash of 8 bytes, the same in every process."""
    return int.from_bytes(hashlib.blake2b("\0".join(texts).encode(), digest_size=8).digest(), "big")


@cache
def script(character: str) -> str:
    """The script of a letter: the first word of its Unicode name; Japanese has three, which count as one."""
    name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA") else name


def scripts(text: str) -> Counter[str]:
    """The number of letters of each script."""
    if text.isascii():
        return Counter({"LATIN": count} if (count := letters(text)) else {})
    return Counter(script(character) for character in text if character.isalpha())


def trigrams(text: str) -> NDArray[np.int64]:
    """The numbers of the buckets of a text's character trigrams, in lower case."""
    codes = np.frombuffer(f" {text.lower()} ".encode("utf-32-le"), np.uint32).astype(np.uint64)
    if len(codes) < 3:
        return np.zeros(0, np.int64)
    mixed = (codes[:-2] * 0x9E3779B1 + codes[1:-1]) * 0x85EBCA77 + codes[2:]
    return (((mixed * 0x9E3779B97F4A7C15) >> 40) % BUCKETS).astype(np.int64)
