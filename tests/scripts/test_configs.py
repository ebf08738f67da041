"""Every configuration composes, is understood, builds its model and takes a step."""

import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.factories import composed
from transformer import ModelConfig, Transformer
from transformer.cli.settings import NOT_MODEL, run_settings
from transformer.config import flatten, from_dict, read_value
from transformer.data.corpus import DataSettings
from transformer.data.tokenizer import TokenizerSettings
from transformer.inference.search import SearchSettings
from transformer.model.positions import POSITIONS
from transformer.model.scores import SCORES
from transformer.training.config import TrainingSettings, read_run_settings
from transformer.training.optim import OPTIMIZERS, SCHEDULES

CONFIGS = Path(__file__).parents[2] / "configs"
GROUPS = ("ablation", "experiment", "model", "search", "tokenizer", "trainer", "training")
CHOICES = [
    *(f"{group}={path.stem}" for group in GROUPS for path in sorted((CONFIGS / group).iterdir())),
    *(f"model.score={name}" for name in SCORES),
    "model.decoder.cross_attention.score=additive model.encoder.self_attention.score=dot",
    "model.decoder.cross_attention=null",
    "model.heads=8",
    "data=libreoffice_help",
    "data=multi30k",
    "data=toy",
    "data=files data.train=a data.validation=b data.test=c",
]
# Values that no other setting takes over.
VALUES = [
    *(("model.positions", name) for name in POSITIONS),
    *(("model.feed_forward.activation", name) for name in ("relu", "gelu", "silu", "swiglu")),
    *(("model.norm", name) for name in ("pre", "post")),
    *(("model.tied_embeddings", name) for name in ("all", "none")),
    *(("training.optimizer", name) for name in OPTIMIZERS),
    *(("training.schedule", name) for name in SCHEDULES),
]


@cache
def take_a_step(config: ModelConfig) -> None:
    """Builds a model and trains it a little: once for all configurations that have the same."""
    transformer = Transformer(config)
    transformer(torch.randint(4, 50, (2, 7)), torch.randint(4, 50, (2, 5))).logsumexp(-1).mean().backward()
    torch.optim.SGD(transformer.parameters(), 0.1).step()
    assert all(weight.isfinite().all() for weight in transformer.parameters())


def build_and_take_a_step(plain: dict[str, Any]) -> None:
    from_dict(DataSettings, plain["data"], "data")
    from_dict(TokenizerSettings, plain["tokenizer"], "tokenizer")
    from_dict(TrainingSettings, plain["training"], "training")
    for name in ("search", "validation_search"):
        from_dict(SearchSettings, plain[name], name)
    model = {key: value for key, value in plain["model"].items() if key not in NOT_MODEL}
    take_a_step(from_dict(ModelConfig, model | {"source_vocab_size": 50, "target_vocab_size": 50}, "model"))


@pytest.mark.parametrize("overrides", CHOICES)
def test_a_configuration_composes_builds_and_takes_a_step(overrides: str) -> None:
    build_and_take_a_step(composed(*overrides.split()))


@pytest.mark.parametrize(("setting", "value"), VALUES)
def test_a_choice_of_a_setting_builds_and_takes_a_step(setting: str, value: str) -> None:
    plain = composed()
    section, (*above, key) = plain, setting.split(".")
    for name in above:
        section = section[name]
    assert key in section
    section[key] = value
    build_and_take_a_step(plain)


@pytest.mark.parametrize("choice", [choice for choice in CHOICES if choice.startswith(("experiment=", "trainer="))])
def test_every_preset_leaves_the_precision_to_the_hardware(choice: str) -> None:
    assert composed(choice)["trainer"]["precision"] == "auto"


SCRIPTS = sorted(path for path in CONFIGS.glob("*.yaml") if path.stem != "command_line")
SHARED = ("source_language", "target_language", "device", "batch_tokens", "cache", "debug")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_lists_every_choice_of_its_groups(path: Path) -> None:
    """(Of ablations it names the folder alone.)"""
    text = path.read_text(encoding="utf-8")
    for group, comment in re.findall(r"^  - (\w+): \w+ *#(.*\n(?: {8,}#.*\n)*)", text, re.MULTILINE):
        choices = {file.stem for file in (CONFIGS / group).glob("*.yaml")}
        assert len(choices) == 1 or group == "ablation" or choices <= {*re.findall(r"\w+", comment)}, group


@pytest.mark.parametrize("key", SHARED)
def test_scripts_explain_a_shared_setting_in_the_same_words(key: str) -> None:
    lines = [re.findall(rf"^{key}: (.*)", path.read_text(encoding="utf-8"), re.MULTILINE) for path in SCRIPTS]
    assert len({" ".join(line.split()) for found in lines for line in found}) == 1


def test_the_preset_in_the_docs_stands_for_what_is_typed(tmp_path: Path) -> None:
    [preset] = re.findall(r"```yaml\n(.*?)```", (CONFIGS.parent / "docs" / "training.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "chinese.yaml").write_text(preset, encoding="utf-8")
    typed = composed(
        *("experiment=pairs_10k", "data=files", "tokenizer=cjk", "name=chinese", "tokenizer.vocabulary_size=8000"),
        *("data.pairs=my/pairs.tsv", "data.source_language=zh", "data.target_language=en"),
    )
    assert composed(f"hydra.searchpath=[file://{tmp_path}]", "experiment=chinese") == typed


def test_heads_are_said_once_for_all_attentions_or_for_each() -> None:
    model = composed("model.heads=8", "model.decoder.cross_attention.heads=2")["model"]
    assert model["encoder"]["self_attention"]["heads"] == 8
    assert model["decoder"]["self_attention"]["heads"] == 8
    assert model["decoder"]["cross_attention"]["heads"] == 2


def test_scores_are_said_once_for_all_attentions_or_for_each() -> None:
    model = composed("model.score=dot", "model.encoder.self_attention.score=additive")["model"]
    assert model["encoder"]["self_attention"]["score"] == "additive"
    assert model["decoder"]["self_attention"]["score"] == model["decoder"]["cross_attention"]["score"] == "dot"


def test_the_base_preset_is_the_papers_base_model() -> None:
    model = {key: value for key, value in composed("model=base")["model"].items() if key not in NOT_MODEL}
    config = from_dict(ModelConfig, model | {"source_vocab_size": 37000, "target_vocab_size": 37000}, "model")
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in Transformer(config).parameters())
    # Table 3 says 65 million for a shared vocabulary of 37,000.
    assert 62e6 < parameters < 66e6
    assert (config.encoder.layers, config.decoder.layers, config.dim, config.norm) == (6, 6, 512, "post")
    assert (config.feed_forward.dim, config.encoder.self_attention.heads, config.dropout) == (2048, 8, 0.1)


def message(read: Callable[[], object]) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        read()
    return str(caught.value)


def test_a_preset_has_the_kind_of_its_setting_so_words_are_refused_without_torch() -> None:
    config = composed()
    presets = {key: value for key, value in config.items() if key not in ("model", "debug")}
    kinds = {key: type(value) for key, value in flatten(presets) if isinstance(value, bool | int | float)}
    assert len(kinds) > 30
    for name, kind in kinds.items():
        settings = run_settings(deepcopy(config))
        *above, key = name.split(".")
        section = settings
        for part in above:
            section = section[part]
        section[key] = "x"
        by_type = message(partial(read_run_settings, settings))
        assert message(partial(read_value, kind, "x", name)) == by_type
