"""Small corpora for the doctor: clean ones, of words in no order, and the faults to plant in them."""

import random
from pathlib import Path

from tests.factories import data_settings
from transformer.data.corpus import DataSettings

Pair = tuple[str, str]
TOY = Path(__file__).parents[2] / "data" / "toy"


def vocabulary(language: str) -> list[str]:
    """Words of some length, so that a sentence of ten is told from another language's."""
    found = {word.strip(".,?!") for word in (TOY / f"test.{language}").read_text(encoding="utf-8").split()}
    return sorted(word for word in found if len(word) > 3 and word.isalpha())


def clean(count: int, seed: int) -> list[Pair]:
    chance = random.Random(seed)
    german, english = vocabulary("de"), vocabulary("en")
    return [(f"{' '.join(chance.choices(german, k=12))}.", f"{' '.join(chance.choices(english, k=14))}.")
            for _ in range(count)]  # fmt: skip


def write(folder: Path, splits: dict[str, list[Pair]]) -> DataSettings:
    """SPLIT.de and SPLIT.en, byte for byte what the pairs say."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        for side, language in enumerate(("de", "en")):
            (folder / f"{split}.{language}").write_bytes("".join(f"{pair[side]}\n" for pair in pairs).encode())
    prefixes = {split: str(folder / split) for split in ("train", "validation", "test")}
    return data_settings(**prefixes, max_length=60, batch_tokens=600, cache=str(folder / "cache"))
