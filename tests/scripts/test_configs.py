"""Every configuration composes, is understood, builds its model and takes a step."""

import re
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from docstring_parser import parse_from_object
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cases import others_long
from tests.factories import composed, run_dict
from transformer import ModelConfig, Transformer
from transformer.config import from_dict
from transformer.data.config import DataSettings
from transformer.data.tokenizer import TokenizerSettings
from transformer.inference.settings import SearchSettings
from transformer.machine import MachineSettings
from transformer.model.config import POSITIONS, SCORES, read_model
from transformer.printing import quoted
from transformer.training.config import OPTIMIZERS, SCHEDULES, RunSettings, TrainerSettings, TrainingSettings
from transformer.training.sizing import choose

CONFIGS = Path(__file__).parents[2] / "configs"
RECIPES = CONFIGS.parent / "benchmarks" / "recipes"
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
# Values for settings that no other setting replaces.
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
    """Builds a model and trains it a little, once for all configurations with the same model."""
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
    take_a_step(read_model(plain["model"]))


@pytest.mark.parametrize("overrides", CHOICES)
def test_a_configuration_composes_builds_and_takes_a_step(overrides: str) -> None:
    build_and_take_a_step(choose(composed(*overrides.split()))[0])


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


@pytest.mark.parametrize("recipe", others_long(sorted(path.stem for path in RECIPES.glob("experiment/*.yaml"))))
def test_every_recipe_of_the_benchmarks_builds_and_takes_a_step(recipe: str) -> None:
    plain = composed(f"hydra.searchpath=[file://{RECIPES}]", f"experiment={recipe}")
    build_and_take_a_step(plain | {"init_from": None})


@pytest.mark.parametrize("name", ["train", "back_translate"])
def test_a_command_lists_every_choice_of_its_groups(name: str) -> None:
    """(For ablations only the folder.)"""
    text = (CONFIGS / f"{name}.yaml").read_text(encoding="utf-8")
    for group, comment in re.findall(r"^  - (\w+): \w+ *#(.*\n(?: {8,}#.*\n)*)", text, re.MULTILINE):
        choices = {file.stem for file in (CONFIGS / group).glob("*.yaml")}
        assert len(choices) == 1 or group == "ablation" or choices <= {*re.findall(r"\w+", comment)}, group


# The YAML files that explain all settings of a section, and their dataclasses.
DECLARED: dict[str, type] = {
    "search/beam": SearchSettings,
    "machine/auto": MachineSettings,
    "trainer/auto": TrainerSettings,
    "training/standard": TrainingSettings,
    "tokenizer/bpe": TokenizerSettings,
    "data/files": DataSettings,
    "model/base": ModelConfig,
}


def sentences(declared: type, above: str = "") -> dict[str, str]:
    """The sentence of every setting in a dataclass, by its full name."""
    found = {f"{above}{one.arg_name}": one.description or "" for one in parse_from_object(declared).params}
    for name, hint in get_type_hints(declared).items():
        for part in (hint, *get_args(hint)):
            if is_dataclass(part):
                found |= sentences(part, f"{above}{name}.")  # type: ignore[arg-type]
    return {name: " ".join(sentence.split()) for name, sentence in found.items()}


def comments(yaml: str) -> dict[str, str]:
    """The comment beside every key of a YAML text, by the key's full name."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    name = ""
    for line in yaml.splitlines():
        if key := re.match(r"( *)(\w+):[^#]*(?:# (.*))?$", line):
            above = [*((indent, part) for indent, part in above if indent < len(key[1])), (len(key[1]), key[2])]
            name = ".".join(part for _, part in above)
            found[name] = key[3] or ""
        elif more := re.match(r" {12,}# (.*)$", line):
            found[name] += f" {more[1]}"
    return found


@pytest.mark.parametrize("file", DECLARED)
def test_yaml_has_the_settings_defaults_and_sentences_of_the_dataclass(file: str) -> None:
    declared, group = DECLARED[file], file.partition("/")[0]
    settings = composed(file.replace("/", "="), *(["data.train=a", "data.pairs=null"] if group == "data" else []))[
        group
    ]
    if declared is ModelConfig:
        assert read_model(settings) == ModelConfig(100, 100)
    elif declared is DataSettings:  # without the files it would be refused
        assert settings["batch_tokens"] is None
        plain = asdict(from_dict(DataSettings, settings | {"batch_tokens": 4096}, "data"))
        assert plain == asdict(DataSettings(train="a"))
    else:
        assert settings.keys() == {field.name for field in fields(declared)}
        assert from_dict(declared, settings) == declared()
    said = sentences(declared)
    for name, comment in comments((CONFIGS / f"{file}.yaml").read_text(encoding="utf-8")).items():
        if comment and name in said:
            assert comment == said[name], name
        if declared is not ModelConfig and name in said:
            assert comment or not said[name], f"{name} is not explained"


def test_settings_of_the_whole_run_have_the_defaults_of_the_dataclass() -> None:
    plain = run_dict()
    sections = {field.name for field in fields(RunSettings) if isinstance(plain[field.name], dict)}
    declared = RunSettings(data=from_dict(DataSettings, plain["data"]))
    read = from_dict(RunSettings, plain)
    assert plain.keys() == {field.name for field in fields(RunSettings)}
    for name in plain.keys() - sections | {"validation_search", "search", "machine"}:
        assert getattr(read, name) == getattr(declared, name), name


def test_the_preset_in_the_docs_stands_for_what_is_typed(tmp_path: Path) -> None:
    [preset] = re.findall(r"```yaml\n(.*?)```", (CONFIGS.parent / "docs" / "training.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "chinese.yaml").write_text(preset, encoding="utf-8")
    typed = composed(
        *("data=files", "data.pairs=my/pairs.tsv", "data.source_language=zh", "data.target_language=en"),
        *("tokenizer.vocabulary_size=8000", "model.layers=4"),
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
    config = ModelConfig(**(composed("model=base")["model"] | {"source_vocab_size": 37000, "target_vocab_size": 37000}))
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in Transformer(config).parameters())
    # Table 3 says 65 million for a shared vocabulary of 37,000.
    assert 62e6 < parameters < 66e6
    assert (config.encoder.layers, config.decoder.layers, config.dim, config.norm) == (6, 6, 512, "post")
    assert (config.feed_forward.dim, config.encoder.self_attention.heads, config.dropout) == (2048, 8, 0.1)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="$"), min_size=1))
@example("it's \\")
def test_a_quoted_value_arrives_as_it_is_whatever_characters_it_has(text: str) -> None:
    assert OverridesParser.create().parse_override(f"key={quoted(text)}").value() == text
