"""Lines of the files, unchanged, and the parts for comparing them: words, letters, trigrams."""

import gzip
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer.data.clean import normal_form
from transformer.data.config import DataSettings
from transformer.data.languages import marks
from transformer.data.text_files import Pair, is_packed, read_raw_pairs

# Scripts written without spaces (Thai, Lao, Burmese, Khmer, Japanese, Chinese), without their punctuation: each
# character counts as a word.
WITHOUT_SPACES = r"\u0e00-\u0eff\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u17e0-\u17e9\u3040-\u30ff\u3400-\u9fff"
WITHOUT_SPACES_PATTERN = re.compile(f"[{WITHOUT_SPACES}]")
# The size of tables of hashed trigrams: enough for a language, and small enough for any machine.
BUCKETS = 1 << 18


class Line(NamedTuple):
    """A pair: its `number`, from 1; `raw`: unchanged, without line ends; `text`: as training reads it."""

    number: int
    raw: Pair
    text: Pair


def read_raw(corpus: DataSettings, split: str) -> Iterator[Line]:
    """Every pair of a split. Raises ValueError, as in training, for files that cannot be read."""
    pairs = read_raw_pairs(corpus.files(split), *corpus.languages, corpus.columns)
    for number, (source, target) in enumerate(pairs, 1):
        yield Line(number, (source, target), (source.strip(), target.strip()))


def has_byte_order_mark(path: Path) -> bool:
    with gzip.open(path) if is_packed(path) else path.open("rb") as file:
        return file.read(3) == b"\xef\xbb\xbf"


@cache
def _word() -> re.Pattern[str]:
    """Letters with the marks that belong to them, or one character of a script that is written without spaces."""
    letter = rf"[^\W{WITHOUT_SPACES}]"
    mark = rf"(?![\0-\u02ff])[{marks()}]"  # the first part quickly excludes most characters
    return re.compile(rf"[{WITHOUT_SPACES}]|{letter}+(?:{mark}{letter}*)*")


def words_with_numbers(text: str) -> list[str]:
    """The words of a text in lower case, composed (NFC), without punctuation."""
    return _word().findall(normal_form("NFC", text.lower()))


def words(text: str) -> list[str]:
    """The words of a text, with every number as 0."""
    return [re.sub(r"\d+", "0", word) for word in words_with_numbers(text)]


def letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def trigrams(text: str) -> NDArray[np.int64]:
    """The buckets of a text's character trigrams, in lower case."""
    codes = np.frombuffer(f" {text.lower()} ".encode("utf-32-le"), np.uint32).astype(np.uint64)
    if len(codes) < 3:
        return np.zeros(0, np.int64)
    mixed = (codes[:-2] * 0x9E3779B1 + codes[1:-1]) * 0x85EBCA77 + codes[2:]
    return (((mixed * 0x9E3779B97F4A7C15) >> 40) % BUCKETS).astype(np.int64)
