"""`train`: the model that a run trains, the settings of a resumed run, and the length of a run."""

import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hydra
import pytest
import torch
from hydra.core.hydra_config import HydraConfig

from tests.factories import composed, small_model, tokenizer_settings
from tests.links import needs_links
from tests.reliability.runs import corpus, settings, train
from tests.scripts.running import ok, refused
from transformer import Translator
from transformer.cli.train import model_settings, of_run, read_run_settings, resumed_settings
from transformer.config import SettingError, UsageError, flatten, from_dict
from transformer.data.splitting import corpus_of
from transformer.data.tokenizer import train_tokenizer
from transformer.files import CACHE_SIGNATURE, CACHE_TAG, CONFIGS
from transformer.model.config import ModelConfig
from transformer.printing import key_of
from transformer.run import Run
from transformer.training.sizing import choose

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True)
def _no_hydra() -> Iterator[None]:
    yield
    HydraConfig.instance().cfg = None


# The model that a run trains.


@pytest.fixture(scope="module")
def saved() -> Translator:
    """A model that differs from every preset."""
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
    return model_settings(of_run(composed(*typed)), [*map(key_of, typed)])


def test_a_model_has_the_shape_of_the_one_to_begin_with_and_dropout_of_its_own(saved: Translator, path: Path) -> None:
    model = trained("model.dropout=0.3", f"init_from={path}", "model.feed_forward.dropout=0.125")
    of_file = asdict(saved.model.config)
    sizes = {name: of_file[name] for name in ("source_vocab_size", "target_vocab_size")}
    dropout = {"dropout": 0.3, "feed_forward": of_file["feed_forward"] | {"dropout": 0.125}}  # typed
    assert asdict(from_dict(ModelConfig, model | sizes, "model")) == of_file | dropout


@pytest.mark.parametrize(
    ("typed", "different"),
    [
        ("model.norm=pre", ["norm=pre (saved: post)"]),
        ("model.layers=5", ["encoder.layers=5 (saved: 3)", "decoder.layers=5 (saved: 2)"]),
        ("model=small", ["dim=256 (saved: 24)"]),
        ("ablation=one_head", ["encoder.self_attention.heads=1 (saved: 3)"]),
    ],
)
def test_another_shape_that_is_typed_is_refused_by_its_settings(path: Path, typed: str, different: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^the model of init_from= has other settings: .*: leave these") as refused:
        trained(f"init_from={path}", typed)
    assert {*different} <= {*re.findall(r"model\.([\w.]+=\S+ \(saved: \S+\))", str(refused.value))}


# The settings of a run.


@pytest.mark.parametrize(
    ("typed", "steps"),
    [
        ([], 1000),
        (["trainer.max_steps=30"], 30),
        (["trainer.max_steps=-1"], math.inf),
        (["trainer.max_epochs=3"], math.inf),
        (["trainer.max_epochs=-1"], 1000),
        (["trainer.max_time='00:00:10:00'"], math.inf),
        (["trainer.max_epochs=3", "trainer.max_steps=30"], 30),
        (["experiment=mine"], math.inf),
        (["experiment=mine", "trainer.max_steps=30"], 30),
    ],
)
def test_epochs_or_a_time_lift_the_limit_of_steps_wherever_they_are_given(
    typed: list[str], steps: float, tmp_path: Path
) -> None:
    (tmp_path / "experiment").mkdir()
    preset = "# @package _global_\ntrainer: {max_epochs: 3}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(preset, encoding="utf-8")
    run = of_run(composed(f"hydra.searchpath=[file://{tmp_path}]", *typed))
    assert read_run_settings(run).trainer.steps == steps


def test_the_paths_of_a_run_are_absolute_and_a_tilde_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("HOME", "USERPROFILE"):  # the second one's on Windows
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    typed = ("data.cache=c", "init_from=i", "data.train='~/t'", "data.synthetic=[s]", "+data.extra_tests.news=x")
    run = read_run_settings(choose(of_run(composed("data=files", *typed)))[0])
    data = run.data
    found = [data.cache, run.init_from, *data.synthetic, data.extra_tests["news"], data.train]
    assert found == [*(str(tmp_path / name) for name in "cisx"), str(tmp_path / "home" / "t")]


def test_options_of_the_command_are_no_settings_of_a_run() -> None:
    given = composed("resume=last", "debug=true")
    assert not of_run(given).keys() & {"resume", "debug"}
    with pytest.raises(SettingError, match=r"^modl: no such setting; did you mean model"):
        of_run(given | {"modl": {}})


# A resumed run.


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped run with its own settings."""
    home = corpus(tmp_path_factory.mktemp("home"))
    own = {"search__beam": 3, "search__method": "greedy", "training__learning_rate": 0.03, "trainer__max_steps": 2}
    train(home / "run", settings(home, loggers=["csv"], **own))
    return home / "run"


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """A copy of the run, for a test to change."""
    return Path(shutil.copytree(run, tmp_path / "copy"))


def resumed(run: Path, *typed: str) -> dict[str, Any]:
    """The settings with which a run would continue."""
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = hydra.compose("train", [f"resume={run}", *typed], return_hydra_config=True)
    HydraConfig.instance().set_config(config)
    return resumed_settings(of_run(composed(*typed)), run / "checkpoints" / "last.ckpt")


def tamper(run: Path, **changes: Any) -> None:
    """Changes settings in a checkpoint; `a__b=x` sets a.b."""
    path = run / "checkpoints" / "last.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    for name, value in changes.items():
        *above, key = name.split("__")
        section = checkpoint["settings"]
        for part in above:
            section = section[part]
        section[key] = value
    torch.save(checkpoint, path)


def test_only_what_is_typed_changes_also_where_it_is_the_default(run: Path) -> None:
    saved = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["settings"]
    before = resumed(run)
    assert before == {key: saved[key] for key in before}
    assert (before["search"]["beam"], before["loggers"], before["trainer"]["max_steps"]) == (3, ["csv"], 2)
    typed = {"data.workers": 1, "training.averaging.decay": 0.5, "trainer.accelerator": "auto", "search.beam": 5}
    again = resumed(run, *(f"{key}={value}" for key, value in typed.items()), "metrics=[bleu]")
    assert dict(flatten(again)) == dict(flatten(before)) | typed | {"metrics": ["bleu"]}


@pytest.mark.parametrize(
    "typed",
    [
        *("data=toy", "experiment=toy_little", "search@validation_search=beam", "training.averaging={decay: 0.5}"),
        *("~trainer.precision", "model.heads=4"),
    ],
)
def test_a_choice_of_many_settings_and_another_model_are_refused(run: Path, typed: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(typed)}: "):
        resumed(run, typed)


def test_saved_overrides_and_configs_of_hydra_are_not_read(copy: Path) -> None:
    before = resumed(copy)
    (copy / ".hydra").mkdir()
    for name in ("overrides.yaml", "config.yaml", "hydra.yaml"):
        text = "[experiment=../../evil, +a={_target_: os.system}, seed=9]"
        (copy / ".hydra" / name).write_text(text, encoding="utf-8")
    (copy / "config.yaml").write_text("hydra: {callbacks: {x: {_target_: os.system}}}\nseed: 9\n", encoding="utf-8")
    assert resumed(copy) == before


def test_interpolations_in_a_checkpoint_stay_text(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    text = "${oc.env:SECRET} ${bundled_corpus:}"
    tamper(copy, data__license=text, data__name=text)
    again = resumed(copy, "data.workers=1")
    assert again["data"]["license"] == again["data"]["name"] == text
    Run(copy).write_settings(again)
    assert corpus_of(Run(copy)).license == text
    assert b"hunter2" not in (copy / "config.yaml").read_bytes()


def test_a_missing_setting_of_a_checkpoint_has_its_default_an_unknown_is_reported(copy: Path) -> None:
    tamper(copy, trainer__callbacks=[])
    with pytest.raises(SettingError, match=r"^trainer\.callbacks: no such setting; "):
        read_run_settings(resumed(copy))
    path = copy / "checkpoints" / "last.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    del checkpoint["settings"]["metrics"], checkpoint["settings"]["trainer"]["callbacks"]
    torch.save(checkpoint, path)
    assert read_run_settings(resumed(copy)).metrics == ["bleu", "chrf", "ter"]


def test_a_checkpoint_of_another_version_is_refused_in_a_line_that_names_init_from(copy: Path, tmp_path: Path) -> None:
    path = copy / "checkpoints" / "last.ckpt"
    kept = torch.load(path, weights_only=True)
    without_progress = {key: value for key, value in kept.items() if key != "progress"}
    for changed in (kept | {"format": kept["format"] - 1}, kept | {"format": kept["format"] + 1}, without_progress):
        torch.save(changed, path)
        with pytest.raises(ValueError, match=rf"init_from={path}"):
            resumed(copy)
    assert f"init_from={path}" in refused("train", f"resume={copy}", cwd=tmp_path)


@needs_links
def test_a_run_with_a_link_where_it_writes_is_not_resumed(copy: Path, tmp_path: Path) -> None:
    (copy / "metrics.csv").unlink()
    (copy / "metrics.csv").symlink_to("elsewhere")
    assert "metrics.csv is a link" in refused("train", f"resume={copy}", cwd=tmp_path)


def test_a_run_is_resumed_in_its_own_folder_alone(copy: Path, tmp_path: Path) -> None:
    assert "hydra.run.dir" in refused("train", f"resume={copy}", f"hydra.run.dir={tmp_path}/other", cwd=tmp_path)
    assert "resume=" in refused("train", f"hydra.run.dir={copy}", cwd=tmp_path)


@pytest.mark.long
def test_a_run_marks_its_cache_and_goes_on_with_it(run: Path, copy: Path, tmp_path: Path) -> None:
    cache = run.parent / "cache"
    assert (cache / CACHE_TAG).read_bytes() == CACHE_SIGNATURE
    ok("train", f"resume={copy}", "trainer.max_steps=3", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    assert not (copy / ".hydra").exists()
    assert corpus_of(Run(copy)).cache == str(cache)
