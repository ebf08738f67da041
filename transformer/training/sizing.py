"""Settings that the corpus chooses: those that are null are read from a curve by the number of training pairs.

The points of the curve are settings that were tried with corpora of these sizes (docs/choose.md). Between two points a
setting grows evenly with the logarithm of the number of pairs; before the first and after the last it is constant.
"""

import math
import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from transformer.config import flatten, shown
from transformer.data.config import DataSettings
from transformer.data.splitting import with_splits
from transformer.data.words import WITHOUT_SPACES

PAIRS = (2_000, 10_000, 50_000, 200_000)
# For each setting: it is rounded to a multiple of the first number; then its values at these numbers of pairs.
CURVE: dict[str, tuple[float, tuple[float, ...]]] = {
    "tokenizer.vocabulary_size": (100, (1000, 4000, 8000, 10_000)),
    "model.dim": (64, (128, 256, 256, 512)),
    "model.layers": (1, (2, 3, 3, 6)),
    "model.feed_forward.dim": (64, (512, 1024, 1024, 1024)),
    "model.dropout": (0.05, (0.3, 0.3, 0.2, 0.3)),
    "data.batch_tokens": (256, (1024, 2048, 2048, 8192)),
    "training.learning_rate": (1e-4, (2e-3, 2e-3, 1.5e-3, 7e-4)),
    "training.warmup_steps": (50, (300, 400, 500, 4000)),
    "training.bpe_dropout": (0.01, (0.1, 0.1, 0.0, 0.0)),
    "training.validate_every": (50, (250, 250, 1000, 1000)),
    "trainer.max_steps": (100, (2000, 2500, 10_000, 40_000)),
}
# Settings that are chosen without the curve.
OTHERS = ("tokenizer.character_coverage", "training.schedule", "training.averaging.kind")
# Settings that come from the model if there is one to begin with (init_from).
OF_MODEL_FILE = ("tokenizer.", "model.dim", "model.layers", "model.feed_forward.")
# On a CPU a larger corpus gets the settings for this number of pairs: a larger model would not train in hours.
MOST_ON_CPU = 50_000
# The corpora of the points have this number of words in a sentence, and of characters (European letters).
WORDS, CHARACTERS = 12.0, 100
# With more characters than these (Chinese, Japanese, Korean), the rarest 0.05 % of the text get no piece.
MANY_CHARACTERS, COVERAGE = 1000, 0.9995
# In a script without spaces, this number of characters says about as much as a word with its space.
CHARACTERS_OF_WORD = 1.6
OF_NO_SPACES = re.compile(f"[{WITHOUT_SPACES}]")


@dataclass(frozen=True)
class CorpusSize:
    """The number of training pairs, the mean words of a sentence, and how many characters get a piece of their own:
    these make up the share `coverage` of the text."""

    pairs: int
    words: float = WORDS
    characters: int = CHARACTERS
    coverage: float = 1.0

    @property
    def equivalent(self) -> float:
        """How many pairs of usual length would have as many words: this is the place on the curve."""
        return self.pairs * self.words / WORDS


def measure(corpus: DataSettings) -> CorpusSize:
    """Fetches the corpus and reads its training pairs, without validation and test. With several directions each pair
    counts once."""
    corpus.fetch()
    pairs, characters = 0, Counter[str]()
    for one in with_splits(corpus).with_own_pairs:
        for pair in one.read("train"):
            pairs += 1
            for text in pair:
                characters.update(text)
    sentences, total = max(1, 2 * pairs), characters.total()
    unspaced = sum(count for character, count in characters.items() if OF_NO_SPACES.match(character))
    words = 1 + (characters[" "] + unspaced / CHARACTERS_OF_WORD) / sentences
    if len(characters) <= MANY_CHARACTERS:
        return CorpusSize(pairs, words, len(characters))
    covered = np.cumsum([count for _, count in characters.most_common()])
    return CorpusSize(pairs, words, int(np.searchsorted(covered, COVERAGE * total)) + 1, COVERAGE)


def value(name: str, pairs: float) -> int | float:
    """The value of a setting of the curve for a number of pairs."""
    multiple, values = CURVE[name]
    # Between two points sizes grow by a factor; shares grow by a difference, because they may be 0.
    is_share = max(values) < 1
    points = values if is_share else np.log(values)
    found = float(np.interp(math.log(max(1.0, pairs)), np.log(PAIRS), points))
    rounded = multiple * max(0 if is_share else 1, round((found if is_share else math.exp(found)) / multiple))
    return round(rounded, 6) if multiple < 1 else int(rounded)


def _filled(settings: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    """The settings with the chosen values; layers go to encoder and decoder, unless one has its own."""
    filled = deepcopy(settings)
    for name, of_name in chosen.items():
        *above, key = name.split(".")
        section = filled
        for part in above:
            section = section[part]
        section[key] = of_name
    if "model.layers" in chosen:
        for side in ("encoder", "decoder"):
            if filled["model"][side]["layers"] is None:
                filled["model"][side]["layers"] = chosen["model.layers"]
    return filled


def choose(
    settings: dict[str, Any], size: CorpusSize = CorpusSize(PAIRS[0]), on_cpu: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Chooses by the corpus a value for each setting that is null. Returns all settings of the run and its model as
    plain data; and the chosen values by name, without those that come from init_from.

    `size` is that of the corpus; any size will do to check the other settings before the corpus is read. Null steps
    stay null beside trainer.max_epochs, and if nothing else is null.
    """
    flat = dict(flatten(settings))
    begins = flat.get("init_from") is not None
    null = [name for name in (*CURVE, *OTHERS) if name in flat and flat[name] is None]
    if flat.get("trainer.max_epochs", -1) != -1 and "trainer.max_steps" in null:
        null.remove("trainer.max_steps")
    if set(null) <= {"trainer.max_steps"}:
        return settings, {}
    pairs = min(size.equivalent, MOST_ON_CPU) if on_cpu else size.equivalent
    chosen: dict[str, Any] = {name: value(name, pairs) for name in null if name in CURVE}
    if "tokenizer.vocabulary_size" in chosen:
        # A piece for each character, and at least as many merges of them.
        characters = max(CHARACTERS, size.characters)
        merges = max(chosen["tokenizer.vocabulary_size"] - CHARACTERS, characters)
        chosen["tokenizer.vocabulary_size"] = 100 * round((characters + merges) / 100)
    if "model.dim" in chosen and isinstance(heads := flat.get("model.heads"), int) and heads > 0:
        multiple = math.lcm(64, heads)
        chosen["model.dim"] = multiple * max(1, round(chosen["model.dim"] / multiple))
    if "training.bpe_dropout" in chosen and (begins or flat.get("tokenizer.kind") not in ("bpe", "unigram")):
        chosen["training.bpe_dropout"] = 0.0
    is_long = pairs > math.sqrt(PAIRS[-2] * PAIRS[-1]) and flat.get("trainer.max_time") is None
    others = {
        "tokenizer.character_coverage": size.coverage,
        "training.schedule": "inverse_square_root" if is_long else "cosine",
        "training.averaging.kind": "none" if flat.get("trainer.limit_val_batches") == 0 else "exponential",
    }
    chosen |= {name: others[name] for name in null if name in others}
    brought = OF_MODEL_FILE if begins else ()
    return _filled(settings, chosen), {name: chosen[name] for name in chosen if not name.startswith(brought)}


def as_typed(chosen: dict[str, Any]) -> str:
    """Settings as they are typed."""
    return " ".join(f"{name}={shown(of_name)}" for name, of_name in chosen.items())
