"""How good word alignments are, and which cross-attention weights of a model align best."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from transformer.data.languages import marks
from transformer.data.text_files import Pair, read_lines
from transformer.inference import Translator
from transformer.inference.alignment import Link, align
from transformer.inference.alignment_head import AlignmentHead, candidates

# By what the cross-attention weights of a run are judged: so many validation pairs, and so many training pairs that a
# statistical aligner learns from. More do not change the choice (docs/alignments.md).
MAX_VALIDATION_PAIRS, MAX_TRAINING_PAIRS = 100, 1000
EM_ITERATIONS = 5  # of expectation maximization
NULL_SHARE = 0.08  # the share of target words that come from no source word, as in fast_align
DIAGONAL = 4.0  # how strongly a target word prefers the source words at its own place of the sentence, as there


class Gold(NamedTuple):
    """The links a sentence pair should have: those that must be there, and all that may be (Och and Ney 2003)."""

    sure: set[Link]
    possible: set[Link]


def read_gold(path: Path, pairs: Sequence[Pair]) -> list[Gold]:
    """Reads the links of each pair from a line, "i-j" where sure and "ipj" where possible, words counted from 0.

    Raises FileNotFoundError, and ValueError that names the line, for what is no link and for a word that is not there.
    """
    if not path.is_file():
        raise FileNotFoundError(f"alignments={path}: no such file")
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise ValueError(f"{path} has {len(lines):,} lines, the corpus {len(pairs):,} pairs: they belong together")
    gold = []
    for number, (line, (source, target)) in enumerate(zip(lines, pairs, strict=True), 1):
        links: dict[Link, str] = {}
        for text in line.split():
            link = re.fullmatch(r"(\d{1,6})([-p])(\d{1,6})", text, re.ASCII)
            if link is None:
                raise ValueError(
                    f"{path}, line {number}: {text} is no link; they look like 0-0 (sure) or 1p2 (possible)"
                )
            if int(link[1]) >= len(source.split()) or int(link[3]) >= len(target.split()):
                raise ValueError(
                    f"{path}, line {number}: {text} is of a word that the pair does not have; words count from 0"
                )
            ends = int(link[1]), int(link[3])
            links[ends] = "-" if links.get(ends) == "-" else link[2]  # a sure link is possible too
        gold.append(Gold({link for link, kind in links.items() if kind == "-"}, set(links)))
    return gold


def error_rate(found: Sequence[Sequence[Link]], gold: Sequence[Gold]) -> float:
    """Alignment error rate, 0–100: 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), over all sentences (Och and Ney 2003)."""
    hits = total = 0
    for links, (sure, possible) in zip(found, gold, strict=True):
        hits += len({*links} & sure) + len({*links} & possible)
        total += len({*links}) + len(sure)
    return 100 * (1 - hits / total) if total else 0.0


def error_rates(translator: Translator, pairs: Sequence[Pair], gold: Sequence[Gold]) -> dict[AlignmentHead, float]:
    """The alignment error rate of each layer, head and step on reference translations."""
    heads = candidates(translator.model.config)
    links = align(translator, [source for source, _ in pairs], [target for _, target in pairs], heads)
    return {head: error_rate([of_pair[i] for of_pair in links], gold) for i, head in enumerate(heads)}


@cache
def _punctuation() -> re.Pattern[str]:
    """What is no letter, no digit and no mark, at both ends of a word."""
    other = rf"[^\w{marks()}]+"
    return re.compile(rf"^{other}|{other}$")


def _plain(side: str, word: str) -> str:
    """The word without its punctuation and capitals, which are no other word; apart from those of the other side."""
    return side + (_punctuation().sub("", word) or word).lower()


def _cooccurrences(
    pairs: Sequence[Pair], numbers: dict[str, int]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each pair, the numbers of source and target word and the prior of each way to link them, target by target."""
    numbers.setdefault("", 0)  # no source word
    for pair in pairs:
        source, target = (
            np.array([numbers.setdefault(_plain(side, word), len(numbers)) for word in text.split()], dtype=np.int64)
            for side, text in zip("st", pair, strict=True)
        )
        if not len(target):
            continue
        places = [(np.arange(len(side)) + 0.5) / max(1, len(side)) for side in (source, target)]
        near = np.exp(-DIAGONAL * np.abs(places[1][:, None] - places[0])) if len(source) else np.zeros((len(target), 0))
        near = (1 - NULL_SHARE) * near / near.sum(axis=1, keepdims=True)
        prior = np.concatenate([near, np.full((len(target), 1), NULL_SHARE)], axis=1)
        yield np.tile(np.append(source, 0), len(target)), np.repeat(target, len(source) + 1), prior.ravel()


def _sums(values: Tensor, of: Tensor, count: int) -> Tensor:
    return torch.zeros(count, dtype=values.dtype).index_add(0, of, values)


def _links(pairs: Sequence[Pair], weights: list[float]) -> list[list[Link]]:
    """The heaviest source word of each target word, unless none is heavier."""
    links, start = [], 0
    for source, target in pairs:
        size = len(source.split()) + 1
        found = []
        for word in range(len(target.split())):
            group = weights[start : start + size]
            best = max(range(size), key=group.__getitem__)
            found += [(best, word)] if best < size - 1 else []
            start += size
        links.append(found)
    return links


def statistical_alignments(pairs: Sequence[Pair]) -> list[list[Link]]:
    """The likeliest links by IBM's model 1 (Brown et al. 1993) with fast_align's preference for the diagonal.

    Every target word comes from one source word or from none. Expectation maximization learns p(target word | source
    word) from the pairs alone: in each round every target word is shared out among the source words of its sentence.
    """
    numbers: dict[str, int] = {}
    rows = list(_cooccurrences(pairs, numbers))
    if not rows:
        return [[] for _ in pairs]
    source, target, prior = (torch.from_numpy(np.concatenate(column)) for column in zip(*rows, strict=True))
    # A group is one target word of one sentence with all that it may come from: the source words, and none.
    sizes = torch.tensor([len(side[0].split()) + 1 for side in pairs for _ in side[1].split()])
    group = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    keys, entry = torch.unique(source * len(numbers) + target, return_inverse=True)
    of_source, share = keys // len(numbers), torch.ones(len(entry), dtype=torch.float64)
    probability = torch.ones(len(keys), dtype=torch.float64)
    for _ in range(EM_ITERATIONS):
        share = probability[entry] * prior
        share = share / _sums(share, group, len(sizes))[group]
        counts = _sums(share, entry, len(keys))
        probability = counts / _sums(counts, of_source, len(numbers))[of_source]
    return _links(pairs, (probability[entry] * prior).tolist())


def best_head(translator: Translator, validation: Sequence[Pair], training: Sequence[Pair]) -> AlignmentHead:
    """The weights that agree best with a statistical aligner on validation pairs; it learns from training pairs too."""
    judged = list(validation[:MAX_VALIDATION_PAIRS])
    links = statistical_alignments([*judged, *training[:MAX_TRAINING_PAIRS]])[: len(judged)]
    rates = error_rates(translator, judged, [Gold({*found}, {*found}) for found in links])
    return min(rates, key=lambda head: rates[head])
