"""Cuts a text into sentences, and a sentence with more tokens than a model allows into pieces.

The page cuts sentences by the same rules (tools/page/html/runtime/sentences.js).
"""

import re

from transformer.data.tokenizer import Tokenizer

# The end of a sentence, with closing quotes and brackets after it. Chinese and Japanese need no space; there a sentence
# mostly continues after a quote.
END = re.compile(r"""[.!?…؟۔।։።။។]["'”’»)\]]*\s+|[。！？](?!["”’」』）])\s*""")
# This number of characters before and after such a mark is looked at.
AROUND = 20
# Words with a period that are mostly within a sentence.
ABBREVIATIONS = frozenset(
    "Abb Abs Art Bd Capt Co Col Corp Dept Dipl Dr Dra Fig Fr Gen Gov Hr Inc Ing Jr Lt Ltd Maj Mio Mlle Mme Mr Mrs Ms "
    "Nr Prof Rep Rev Sen Sept Sgt Sr Sra Srta St Str Tel approx bzw ca evtl geb ggf inkl lt usw vgl vs".split()
)
# A number after a period belongs to the word before it if the word is at most this long (Art. 5, pp. 12, geb. 1904).
SHORT = 3


def _goes_on(before: str, mark: str, after: str) -> bool:
    """Whether a sentence does not end at this mark: it continues in lower case, or the period is after a letter, after
    a small or Roman number or an abbreviation (z. B., 3. Mai, Friedrich II., Dr.), or between a short word and a
    number."""
    following = re.search(r"\w", after)
    word = re.search(r"\w*\Z", before)[0]  # type: ignore[index]
    is_ordinal = (word.isdecimal() and len(word) <= 2) or re.fullmatch("[IVX]+", word)
    is_numbered = re.match(r"\d", after) and len(word) <= SHORT and re.search(r"\D", word)
    is_short = len(word) == 1 or is_ordinal or is_numbered or word in ABBREVIATIONS
    return (mark[0] == "." and bool(is_short)) or (following is not None and following[0].islower())


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, with the spaces that follow them."""
    sentences, start = [], 0
    for end in END.finditer(text):
        before, after = text[max(start, end.start() - AROUND) : end.start()], text[end.end() : end.end() + AROUND]
        if after and not _goes_on(before, end[0], after):
            sentences.append(text[start : end.end()])
            start = end.end()
    return [*sentences, text[start:]]


def _join(parts: list[str], tokenizer: Tokenizer, limit: int) -> list[str]:
    """Joins neighboring parts while they, encoded one by one, have at most `limit` tokens without the tag."""
    pieces, total = [[""]], 0
    for part, ids in zip(parts, tokenizer.encode_all(parts), strict=True):
        tokens = len(ids) - len(tokenizer.prefix)
        if total + tokens > limit:
            pieces.append([])
            total = 0
        pieces[-1].append(part)
        total += tokens
    return ["".join(piece) for piece in pieces]


def encode_sentences(sentences: list[str], tokenizer: Tokenizer, limit: int) -> list[list[int]]:
    """The ids of each sentence. One of more than `limit` tokens is cut between words, or else anywhere.

    Sentences are not joined, even if several fit: a model has mostly learned from single ones.
    """
    tag = tokenizer.prefix
    encoded, max_tokens = [], limit - len(tag)
    if max_tokens < 1:
        raise ValueError(f"a model of {limit} positions has no room for a text beside the tag of its language")
    for sentence, ids in zip(sentences, tokenizer.encode_all(sentences), strict=True):
        pieces = [ids]
        if len(ids) > limit:
            pieces = tokenizer.encode_all(_join(re.findall(r"\S+\s*", sentence), tokenizer, max_tokens))
        for piece in pieces:
            starts = range(len(tag), len(piece), max_tokens)
            encoded += [[*tag, *piece[start : start + max_tokens]] for start in starts]
    return encoded
