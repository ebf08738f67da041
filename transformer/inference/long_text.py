"""A text of more tokens than a model allows, cut into pieces that are translated one by one."""

import re

from transformer.data.tokenizer import Tokenizer


def _join(parts: list[str], tokenizer: Tokenizer, limit: int) -> list[str]:
    """Joins neighboring parts as long as they, encoded one by one, have at most `limit` tokens."""
    pieces, total = [[""]], 0
    for part, ids in zip(parts, tokenizer.encode_all(parts), strict=True):
        if total + len(ids) > limit:
            pieces.append([])
            total = 0
        pieces[-1].append(part)
        total += len(ids)
    return ["".join(piece) for piece in pieces]


def split_text(text: str, tokenizer: Tokenizer, limit: int) -> list[list[int]]:
    """The ids of pieces of at most `limit` tokens: cut at a sentence's end, else between words, else anywhere."""
    tag = tokenizer.prefix
    pieces, max_tokens = [], limit - len(tag)
    if max_tokens < 1:
        raise ValueError(f"a model of {limit} positions has no room for a text beside the tag of its language")
    for sentences in _join(re.split(r"(?<=[.!?…]\s)|(?<=[。！？])", text), tokenizer, max_tokens):
        is_long = len(tokenizer.encode(sentences)) > limit
        pieces += _join(re.findall(r"\S+\s*", sentences), tokenizer, max_tokens) if is_long else [sentences]
    encoded = [ids[len(tag) :] for ids in tokenizer.encode_all(pieces)]
    return [[*tag, *ids[start : start + max_tokens]] for ids in encoded for start in range(0, len(ids), max_tokens)]
