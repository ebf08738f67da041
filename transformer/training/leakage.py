"""Whether sentences of validation and test are in the training pairs: a score on them would be too high."""

from collections import Counter
from collections.abc import Iterable

from transformer.data.splitting import comparable
from transformer.data.text_files import Pair


def overlap_notes(train: Iterable[Pair], scored: dict[str, list[Pair]]) -> list[str]:
    """A line for each split that is `scored` and has sentences of the training pairs: compared by what is `comparable`
    of each side."""
    held_out: dict[str, set[tuple[str, int]]] = {}
    for split, pairs in scored.items():
        for number, pair in enumerate(pairs):
            for text in filter(None, map(comparable, pair)):
                held_out.setdefault(text, set()).add((split, number))
    found = {place for pair in train for text in pair for place in held_out.get(comparable(text), ())}
    counts = Counter(split for split, _ in found)
    return [
        f"{split}: a side of {counts[split]:,} of {len(pairs):,} sentences is in train too (doctor.py lists them)"
        for split, pairs in scored.items()
        if counts[split]
    ]
