"""Small settings and models for tests, made from the real YAML, so that a setting added there is in every test."""

import copy
import dataclasses
import functools
from typing import Any

from transformer import ModelConfig, Transformer
from transformer.cli.compose import compose
from transformer.cli.train import of_run
from transformer.config import from_dict
from transformer.data.config import DataSettings
from transformer.data.tokenizer import TokenizerSettings
from transformer.model.config import read_model
from transformer.training.sizing import choose

# Different sizes, so that swapped axes do not fit by chance.
SMALL_MODEL = (
    *("model=tiny", "model.dim=24", "model.heads=3", "model.max_length=64"),
    *("model.dropout=0.0", "model.feed_forward.dim=37"),
)
_composed = functools.cache(compose)


def composed(*overrides: str, name: str = "train") -> dict[str, Any]:
    """The settings of scripts/NAME.py with overrides as plain data, for the caller to change."""
    return copy.deepcopy(_composed(*overrides, name=name))


def run_dict(*overrides: str) -> dict[str, Any]:
    """The settings of a run as plain data, without those of its model."""
    return {key: value for key, value in of_run(composed(*overrides)).items() if key != "model"}


def data_settings(*overrides: str, **changes: object) -> DataSettings:
    """Settings of a corpus: overrides as on a command line ("data=toy"; by default "data=files"), then changed keys."""
    plain = choose(composed(*(overrides or ["data=files"])))[0]["data"]
    return from_dict(DataSettings, plain | changes, "data")


def tokenizer_settings(kind: str, vocabulary_size: int, **changes: object) -> TokenizerSettings:
    settings = composed(f"tokenizer={kind}")["tokenizer"]
    return from_dict(TokenizerSettings, settings | {"vocabulary_size": vocabulary_size} | changes, "tokenizer")


def model_dict(**changes: object) -> dict[str, Any]:
    """The configuration of a small model as plain data, with 29 ids; `a__b=x` sets a.b."""
    model = dataclasses.asdict(read_model(composed(*SMALL_MODEL)["model"]))
    model |= {"source_vocab_size": 29, "target_vocab_size": 29}
    for path, value in changes.items():
        *above, key = path.split("__")
        section = model
        for name in above:
            section = section[name]
        section[key] = value
    return model


def small_model(**changes: object) -> Transformer:
    """A small Transformer in evaluation mode; `changes` as in `model_dict`."""
    return Transformer(from_dict(ModelConfig, model_dict(**changes), "model")).eval()
