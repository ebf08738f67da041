"""A resumed run has its saved settings with what is typed on top."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra
import pytest
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict

from tests.links import needs_links
from tests.reliability.runs import corpus, settings, train
from tests.scripts.running import ok
from transformer.cli import CONFIGS
from transformer.cli.arguments import prepare
from transformer.cli.compose import as_dict
from transformer.cli.resume import resume_run
from transformer.config import UsageError, flatten
from transformer.evaluation.run_files import read_config, read_corpus, write_config
from transformer.files import CACHE_SIGNATURE, CACHE_TAG, read_file
from transformer.training.config import read_run_settings

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
Settings = dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped run with settings of its own."""
    home = corpus(tmp_path_factory.mktemp("home"))
    own = {"search__beam": 3, "search__method": "greedy", "training__learning_rate": 0.03, "trainer__max_steps": 2}
    train(home / "run", settings(home, loggers=["csv"], **own))
    return home / "run"


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """The same run, for a stranger to change."""
    return Path(shutil.copytree(run, tmp_path / "copy"))


@pytest.fixture(autouse=True)
def _no_hydra() -> Iterator[None]:
    yield
    HydraConfig.instance().cfg = None


def resumed(run: Path, *typed: str, checkpoint: str = "") -> Settings:
    """Read in this process what a script would go on with: the run, or a checkpoint in it."""
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3", job_name="train"):
        config = hydra.compose(
            "train", prepare([f"resume={run / checkpoint}", *typed], CONFIGS), return_hydra_config=True
        )
        with open_dict(config.hydra.runtime):
            config.hydra.runtime.output_dir = str(run)
        HydraConfig.instance().set_config(config)
        task: DictConfig = config.copy()
        with open_dict(task):
            del task["hydra"]
        resolved, found = resume_run(as_dict(task))
    assert found == run / (checkpoint or "checkpoints/last.ckpt")
    return resolved


def tamper(run: Path, **changes: Any) -> None:
    """Change settings in a checkpoint; `a__b=x` sets a.b."""
    path = run / "checkpoints" / "last.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    for name, value in changes.items():
        *above, key = name.split("__")
        section = checkpoint["settings"]
        for part in above:
            section = section[part]
        section[key] = value
    torch.save(checkpoint, path)


def test_a_resumed_run_has_its_saved_settings(run: Path) -> None:
    saved = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["settings"]
    again = resumed(run)
    assert again["search"]["beam"] == 3
    assert again["trainer"]["max_steps"] == 2
    assert again.keys() <= saved.keys()
    for group in ("model", "training", "tokenizer", "search", "validation_search", "trainer", "machine"):
        assert again[group] == saved[group], group
    assert again["loggers"] == ["csv"]
    assert resumed(run, checkpoint="checkpoints/best.ckpt") == again


def test_what_is_typed_goes_on_top_also_where_it_is_the_default(run: Path) -> None:
    again = resumed(run, "trainer.max_steps=12", "training.learning_rate=1e-3", "search.beam=5")
    assert again["trainer"]["max_steps"] == 12
    assert again["training"]["learning_rate"] == 1e-3
    assert again["search"]["beam"] == 5
    assert again["training"]["warmup_steps"] == 4


@pytest.mark.parametrize(
    "typed",
    [
        *("data=toy", "experiment=pairs_2k", "ablation=one_head", "trainer=ddp", "search=beam"),
        *("validation_search=beam", "data={workers: 1}", "~trainer.max_steps", "~metrics", "model.heads=4"),
    ],
)
def test_a_choice_of_many_settings_and_another_model_are_refused(run: Path, typed: str) -> None:
    with pytest.raises(UsageError, match="a resumed run keeps its model and choices"):
        resumed(run, typed)


def test_only_what_is_typed_changes(run: Path) -> None:
    typed = {"data.workers": 1, "training.averaging.decay": 0.5, "trainer.accelerator": "auto", "search.beam": 5}
    before, again = (dict(flatten(resumed(run, *lines))) for lines in ((), [f"{k}={v}" for k, v in typed.items()]))
    assert again == before | typed
    together = dict(flatten(resumed(run, "training.averaging={decay: 0.5}", "data.workers=1", "search.beam=5")))
    assert together == again | {"trainer.accelerator": "cpu"}


@pytest.mark.long
def test_a_test_set_that_is_added_brings_none_of_another_corpus_with_it(copy: Path) -> None:
    tamper(copy, data__extra_tests={"old": "/old"})
    tests = resumed(copy, "data.extra_tests={news: my/news}")["data"]["extra_tests"]
    assert tests == {"old": "/old", "news": str(Path("my/news").absolute())}
    assert resumed(copy, "data.extra_tests={}")["data"]["extra_tests"] == {"old": "/old"}
    web = str(Path("/web").absolute())  # on Windows with a drive
    assert resumed(copy, "data.extra_tests.web=/web")["data"]["extra_tests"] == {"old": "/old", "web": web}


def test_saved_overrides_and_configs_of_hydra_are_not_read(copy: Path) -> None:
    before = resumed(copy)
    (copy / ".hydra").mkdir()
    for name in ("overrides.yaml", "config.yaml", "hydra.yaml"):
        (copy / ".hydra" / name).write_text(
            "[experiment=../../evil, +a={_target_: os.system}, seed=9]", encoding="utf-8"
        )
    (copy / "config.yaml").write_text("hydra: {callbacks: {x: {_target_: os.system}}}\nseed: 9\n", encoding="utf-8")
    assert resumed(copy) == before


def test_a_setting_that_an_older_checkpoint_lacks_or_has_is_named(copy: Path) -> None:
    tamper(copy, trainer__callbacks=[])
    with pytest.raises(ValueError, match=r"^unknown setting trainer\.callbacks: allowed: accelerator"):
        read_run_settings(resumed(copy))
    path = copy / "checkpoints" / "last.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    del checkpoint["settings"]["metrics"], checkpoint["settings"]["trainer"]["callbacks"]
    torch.save(checkpoint, path)
    with pytest.raises(ValueError, match=r"^the setting metrics is missing$"):
        read_run_settings(resumed(copy))
    assert read_run_settings(resumed(copy, "metrics=[chrf]")).metrics == ["chrf"]


def test_interpolations_in_a_checkpoint_stay_text(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    text = "${oc.env:SECRET} ${project:x}"
    tamper(copy, data__license=text, data__name=text)
    again = resumed(copy, "data.workers=1")
    assert again["data"]["license"] == again["data"]["name"] == text
    write_config(copy, again)
    assert read_corpus(copy).license == text
    assert b"hunter2" not in (copy / "config.yaml").read_bytes()


@pytest.mark.long
def test_a_run_marks_its_cache_and_goes_on_with_it(run: Path, copy: Path, tmp_path: Path) -> None:
    cache = run.parent / "cache"
    assert (cache / CACHE_TAG).read_bytes() == CACHE_SIGNATURE
    ok("train", f"resume={copy}", "trainer.max_steps=3", cwd=tmp_path)
    assert not (copy / ".hydra").exists()
    assert read_corpus(copy).cache == str(cache)


# Files of a run's folder.


@needs_links
def test_a_run_with_a_link_where_it_writes_is_not_resumed(copy: Path) -> None:
    (copy / "metrics.csv").unlink()
    (copy / "metrics.csv").symlink_to("elsewhere")
    with pytest.raises(ValueError, match=r"metrics.csv is a link: nothing is written"):
        resumed(copy)


@needs_links
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("data: {}", encoding="utf-8")
    (tmp_path / "config.yaml").symlink_to("secret")
    with pytest.raises(ValueError, match=r"config.yaml cannot be read: it is a link"):
        read_file(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    "content", ["data: &a [*a]", "a: &a [1]\ndata: *a", "[" * 50_000, "data: !!python/name:os.x", "x"]
)
def test_a_garbled_config_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.yaml cannot be read") as error:
        read_corpus(tmp_path)
    assert "\n" not in str(error.value)


def test_a_number_to_the_base_60_stays_text(tmp_path: Path) -> None:
    """The others are read as YAML says; to read a long one of these takes a minute."""
    for written, read in (("1:30", "1:30"), ("1:" * 40_000 + "1", "1:" * 40_000 + "1"), ("30", 30), ("0x1f", 31)):
        (tmp_path / "config.yaml").write_text(f"seed: {written}\n", encoding="utf-8")
        assert read_config(tmp_path, "seed", "seed") == read


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.yaml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="it is no file of at most"):
        read_file(tmp_path / "config.yaml")
