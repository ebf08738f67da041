"""What of a composed configuration is a run's, what stays with the command line, and which model a run trains."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hydra.core.hydra_config import HydraConfig

from tests.factories import composed, small_model, tokenizer_settings
from tests.processes import posix_only
from transformer import Translator
from transformer.cli import CONFIGS
from transformer.cli.arguments import prepare
from transformer.cli.compose import as_dict, compose_all, read_settings
from transformer.cli.settings import evaluation_settings, model_to_train, run_settings
from transformer.config import UsageError, from_dict
from transformer.data.tokenizer import train_tokenizer
from transformer.model.config import ModelConfig
from transformer.training.config import read_run_settings


@pytest.fixture(autouse=True)
def _no_hydra() -> Iterator[None]:
    yield
    HydraConfig.instance().cfg = None


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """A model unlike that of any preset."""
    tokenizer = train_tokenizer(["ein Haus und ein Garten"] * 9, tokenizer_settings("word", 9))
    sizes = {"source_vocab_size": len(tokenizer), "target_vocab_size": len(tokenizer)}
    model = small_model(norm="post", dropout=0.25, encoder__layers=3, decoder__cross_attention=None, **sizes)
    return Translator(model, (tokenizer, tokenizer), ("de", "en"))


@pytest.fixture
def path(saved: Translator, tmp_path: Path) -> Path:
    saved.save(tmp_path / "saved.safetensors")
    return tmp_path / "saved.safetensors"


def trained(*typed: str) -> dict[str, Any]:
    """The settings of the model that a command line trains."""
    config = compose_all("train", prepare(typed, CONFIGS))
    HydraConfig.instance().set_config(config)
    return model_to_train(run_settings(as_dict(config)))


def test_a_model_has_the_shape_of_the_one_to_begin_with_and_dropout_of_its_own(saved: Translator, path: Path) -> None:
    model = trained("experiment=pairs_10k", f"init_from={path}", "model.feed_forward.dropout=0.125")
    of_file = asdict(saved.model.config)
    sizes = {name: of_file[name] for name in ("source_vocab_size", "target_vocab_size")}
    dropout = {"dropout": 0.3, "feed_forward": of_file["feed_forward"] | {"dropout": 0.125}}  # pairs_10k, and typed
    assert asdict(from_dict(ModelConfig, model | sizes, "model")) == of_file | dropout


@pytest.mark.parametrize(
    ("typed", "different"),
    [
        ("model.norm=pre", ["norm=pre (saved: post)"]),
        ("model.layers=5", ["encoder.layers=5 (saved: 3)", "decoder.layers=5 (saved: 2)"]),
        ("model.encoder={layers: 6}", ["encoder.layers=6 (saved: 3)", "encoder.self_attention.heads=4 (saved: 3)"]),
        ("model.heads=2", ["encoder.self_attention.heads=2 (saved: 3)", "decoder.self_attention.heads=2 (saved: 3)"]),
        ("model=small", ["dim=256 (saved: 24)"]),
        ("ablation=one_head", ["encoder.self_attention.heads=1 (saved: 3)"]),
    ],
)
def test_another_shape_that_is_typed_is_refused_by_its_settings(path: Path, typed: str, different: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^init_from= holds another model .*: leave these settings out$") as refused:
        trained(f"init_from={path}", typed)
    named = re.findall(r"model\.([\w.]+=\S+ \(saved: \S+\))", str(refused.value))
    assert set(different) <= set(named)
    assert len(named) == len(different) or typed.startswith(("model=", "ablation=")), named  # these set more


def test_a_setting_that_stands_for_several_is_named_once(path: Path) -> None:
    config = compose_all("train", prepare([f"init_from={path}", "model.heads=2"], CONFIGS))
    HydraConfig.instance().set_config(config)
    with pytest.raises(UsageError, match=r"ask for: model\.heads=2 \(saved: 3\): leave these settings out$"):
        read_settings(lambda settings: model_to_train(run_settings(settings)), config)


def test_the_paths_of_a_run_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = composed("data=files", "cache=c", "init_from=i", "data.train=t")
    config["data"]["extra_tests"] = {"news": "x"}
    settings = run_settings(config)
    data = settings["data"]
    paths = [data["cache"], settings["init_from"], data["train"], data["extra_tests"]["news"]]
    assert paths == [str(tmp_path / name) for name in "citx"]


def test_what_steers_the_command_line_is_no_setting_of_a_run() -> None:
    given = {"runs": "runs", "name": "mine", "resume": "last", "debug": True, "output": "x", "augment": None}
    assert not run_settings(composed() | given).keys() & given.keys()


@pytest.mark.parametrize(
    ("key", "value", "wanted"), [("synthetic", "x", "a list, as data.synthetic="), ("extra_tests", "x", "a group of")]
)
def test_a_text_in_place_of_several_files_is_refused_by_its_key(key: str, value: Any, wanted: str) -> None:
    config = composed()
    config["data"] |= {key: value}
    with pytest.raises(ValueError, match=rf"^data\.{key}=x must be {wanted}"):
        read_run_settings(run_settings(config))


def test_a_dot_in_the_name_of_an_extra_test_is_refused_with_a_name_that_is_allowed() -> None:
    said = r"^data\.extra_tests\.my\.late\.news: .* no dots: write data\.extra_tests\.my_late_news=PREFIX$"
    with pytest.raises(UsageError, match=said):
        run_settings(composed("++data.extra_tests.my.late.news=x"))


def test_a_table_is_not_taken_for_the_sentences_to_score(runs: Path) -> None:
    config = composed(name="evaluate") | {"checkpoint": str(runs / "early"), "source": "x.tsv.gz"}
    with pytest.raises(UsageError, match=r"^source=x\.tsv\.gz is a table: write its column into a file of its own"):
        evaluation_settings(config)


def test_an_ensemble_has_no_folder_of_its_own_for_its_scores(runs: Path) -> None:
    config = composed(name="evaluate") | {"checkpoint": f"[{runs / 'early'},{runs / 'later'}]"}
    with pytest.raises(UsageError, match="an ensemble belongs to no single run: give output=FOLDER for its results"):
        evaluation_settings(config)
    assert evaluation_settings(config | {"output": str(runs / "new")})["output"] == str(runs / "new")


def test_a_run_is_evaluated_in_its_folder_and_by_a_trial_in_that_of_the_trial(
    runs: Path, request: pytest.FixtureRequest
) -> None:
    config = composed(name="evaluate") | {"checkpoint": str(runs / "early")}
    assert evaluation_settings(config)["output"] == str(runs / "early")
    trial = request.getfixturevalue("trial")
    assert evaluation_settings(config)["output"] == str(trial)


@posix_only
def test_a_run_with_a_link_where_scores_are_written_is_not_evaluated_in_place(runs: Path) -> None:
    (runs / "early" / "evaluation.json").symlink_to("elsewhere")
    for output in (None, str(runs / "early")):
        with pytest.raises(ValueError, match=r"evaluation\.json is a link: nothing is written into a run's folder"):
            evaluation_settings(composed(name="evaluate") | {"checkpoint": str(runs / "early"), "output": output})
