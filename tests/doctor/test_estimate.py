"""What training costs, as measured, and the presets by size."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doctor.corpora import clean, write
from tests.factories import model_dict, tokenizer_settings
from transformer.config import from_dict
from transformer.data.datamodule import TranslationData
from transformer.device import MachineSettings
from transformer.doctor.estimate import PRESETS, Plan, measure, preset_for
from transformer.model import ModelConfig, Transformer

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize(("pairs", "preset"), [(1, 2), (2_000, 2), (10_000, 10), (29_000, 50), (200_000, 200)])
def test_the_preset_is_the_nearest_in_size(pairs: int, preset: int) -> None:
    sizes = {int(name.removeprefix("pairs_").removesuffix("k")): name for name in PRESETS}
    assert preset_for(pairs) == sizes[preset]
    assert preset == min(sizes, key=lambda size: abs(math.log(1000 * size / pairs)))


def test_the_presets_that_there_are_are_those_that_are_recommended() -> None:
    found = {path.stem for path in (CONFIGS / "experiment").glob("pairs_*.yaml")}
    assert not found or found == PRESETS.keys()


def test_an_estimate_counts_the_steps_and_weights_of_a_run(tmp_path: Path) -> None:
    pairs = clean(60, seed=4)
    settings = replace(write(tmp_path, {"train": pairs, "validation": pairs, "test": pairs}), max_length=250)
    tokenizer = tokenizer_settings("char", 1000)
    data = TranslationData(settings, tokenizer, 1)
    size = len(data.source_tokenizer)
    config = from_dict(ModelConfig, model_dict(source_vocab_size=size, target_vocab_size=size, max_length=300), "")
    machine = from_dict(MachineSettings, {"threads": 1, "matmul_precision": "highest", "attention": "math"}, "machine")
    cost = measure(Plan(settings, tokenizer, config, machine, "cpu", "32-true", 1))
    assert cost.steps_per_epoch == len(data.loader("train")) > 1
    assert cost.parameters == sum(weight.numel() for weight in Transformer(config).parameters())
    assert cost.seconds_per_epoch == pytest.approx(cost.steps_per_epoch * cost.seconds_per_step)
    assert cost.seconds_per_step > 0
    assert cost.peak_bytes > 4 * cost.parameters
