"""Scores word alignments, and finds the cross-attention weights of a model that align best."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transformer.data.aligner import Link, word_alignments
from transformer.data.text_files import Pair, read_lines
from transformer.inference.alignment_head import AlignmentHead, candidates, default_head
from transformer.inference.translator import Translator
from transformer.inference.word_alignment import align
from transformer.printing import print_safely

# The numbers of validation pairs for judging the cross-attention weights of a run, and of training pairs from which a
# statistical aligner learns. More do not change the choice (docs/alignments.md).
MAX_VALIDATION_PAIRS, MAX_TRAINING_PAIRS = 100, 1000


class Gold(NamedTuple):
    """The correct links of a sentence pair: those that must be found, and all that may be found (Och and Ney 2003)."""

    sure: set[Link]
    possible: set[Link]


def read_gold(path: Path, pairs: Sequence[Pair]) -> list[Gold]:
    """Reads the links of each pair from a line: "i-j" is sure and "ipj" possible, with words counted from 0.

    Raises ValueError with the line for text that is no link, and for the number of a word that does not exist.
    """
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise ValueError(f"{path} has {len(lines):,} lines, the corpus {len(pairs):,} pairs: both must be equal")
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
                    f"{path}, line {number}: {text} names a word that the pair does not have; words count from 0"
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


def show_error_rates(translator: Translator, split: str, pairs: Sequence[Pair], gold: Sequence[Gold]) -> None:
    """Prints `error_rates`, and marks the weights that the translator uses for its word alignments."""
    chosen = translator.alignment or default_head(translator.model.config)
    for head, rate in error_rates(translator, pairs, gold).items():
        print_safely(f"{split} alignment error rate {rate:.1f}   {head}{'   (chosen)' if head == chosen else ''}")


def best_head(translator: Translator, validation: Sequence[Pair], training: Sequence[Pair]) -> AlignmentHead:
    """The weights that agree best with a statistical aligner on validation pairs; it also learns from training
    pairs."""
    judged = list(validation[:MAX_VALIDATION_PAIRS])
    links = word_alignments([*judged, *training[:MAX_TRAINING_PAIRS]])[: len(judged)]
    rates = error_rates(translator, judged, [Gold({*found}, {*found}) for found in links])
    return min(rates, key=lambda head: rates[head])
