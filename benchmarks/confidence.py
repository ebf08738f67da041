"""How well confidence separates bad translations from good ones: python benchmarks/confidence.py CHECKPOINT PREFIX

PREFIX.de and PREFIX.en (the languages of the model; also .gz, or a table) have sentences and their references. These
count as bad: the sentences in the worst quarter by sentence chrF, and the words that a translation does not share with
its reference in the same order. An AUROC is the probability that a bad one has less confidence than a good one: 0.5 by
chance, 1 at best.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from transformer.data.text_files import find_files, read_pairs
from transformer.evaluation.metrics import chrf
from transformer.inference.confidence import with_words
from transformer.inference.loading import load_translator
from transformer.inference.settings import TranslatorSettings


def auroc(confidences: Sequence[float], is_bad: Sequence[bool]) -> float:
    """The probability that a bad one has less confidence than a good one; a tie counts half. It is computed from the
    sum of the good ones' ranks (Mann and Whitney 1947); equal ones get the mean of their ranks. nan if all are good, or
    all are bad."""
    order = sorted(range(len(confidences)), key=confidences.__getitem__)
    ranks, start = [0.0] * len(order), 0
    for end in range(1, len(order) + 1):
        if end == len(order) or confidences[order[end]] != confidences[order[start]]:
            for index in order[start:end]:
                ranks[index] = (start + 1 + end) / 2
            start = end
    good = [rank for rank, bad in zip(ranks, is_bad, strict=True) if not bad]
    pairs = len(good) * (len(ranks) - len(good))
    return (sum(good) - len(good) * (len(good) + 1) / 2) / pairs if pairs else math.nan


def worst_quarter(scores: Sequence[float]) -> list[bool]:
    """Which scores are in the lowest quarter; a score at its border does not count."""
    limit = sorted(scores)[len(scores) // 4]
    return [score < limit for score in scores]


def is_missing(words: Sequence[str], reference: Sequence[str]) -> list[bool]:
    """Which words are in none of the blocks that both sentences share in the same order."""
    blocks = SequenceMatcher(None, words, reference, autojunk=False).get_matching_blocks()
    matched = {block.a + offset for block in blocks for offset in range(block.size)}
    return [place not in matched for place in range(len(words))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="a run's folder, .safetensors, .ckpt or an export to ctranslate2")
    parser.add_argument("prefix", help="of the files with the sentences and their references")
    arguments = parser.parse_args()
    translator = load_translator([arguments.checkpoint], TranslatorSettings())
    translator.warns_of_lines = False
    languages = translator.languages
    sources, references = zip(*read_pairs(find_files(arguments.prefix, *languages), *languages), strict=True)
    best = [hypotheses[0] for hypotheses in translator.n_best(sources)]
    metric = chrf(translator.target_language)
    scores = [metric.sentence_score(one.text, [other]).score for one, other in zip(best, references, strict=True)]
    bad = worst_quarter(scores)
    separation = auroc([one.confidence for one in best], bad)
    print(f"sentences: AUROC {separation:.3f}, {len(bad):,}, of them bad {sum(bad):,}")
    confidences, missing = list[float](), list[bool]()
    for one, reference in zip(with_words(translator, sources, best), references, strict=True):
        words = one.words or []
        confidences += [word.confidence for word in words]
        missing += is_missing([word.text for word in words], reference.split())
    print(f"words: AUROC {auroc(confidences, missing):.3f}, {len(missing):,}, of them bad {sum(missing):,}")


if __name__ == "__main__":
    main()
