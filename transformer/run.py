"""A run's folder: the one place that knows what is in it. It may be a stranger's, so all of it is read as plain data.

Only regular files of bounded size are opened, links are not followed, and YAML is read without aliases, tags and
interpolations. Before anything is written into the folder, `check_entries` has seen that it leads nowhere else.
"""

import logging
import os
import shutil
import stat
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from transformer.files import atomic_write, check_writable, exclusive_lock, read_file, read_json
from transformer.printing import one_line

log = logging.getLogger(__name__)
# The folder of runs, in the current one. What a run's own is called stands in configs/train.yaml.
RUNS = Path("runs")
# The models in a run's folder, the best one first: the one that a finished run leaves, and the checkpoints of training.
TRANSLATOR, BEST_CHECKPOINT, LAST_CHECKPOINT = MODELS = (
    "translator.safetensors",
    "checkpoints/best.ckpt",
    "checkpoints/last.ckpt",
)
# Folders in it that hold models.
_, SNAPSHOTS = MODEL_FOLDERS = ("checkpoints", "snapshots")
# Of config.yaml and of checkpoints to go on from. It rises when a setting changes its name or its meaning; one that is
# new has its default in old files.
FORMAT = 2
# For each earlier format, settings that are gone.
DROPPED = {
    # Arguments of Lightning's Trainer, which format 1 passed on.
    1: tuple(
        f"trainer.{name}"
        for name in (
            *("num_sanity_val_steps", "limit_predict_batches", "overfit_batches", "val_check_interval"),
            *("check_val_every_n_epoch", "min_epochs", "min_steps", "gradient_clip_algorithm", "benchmark", "profiler"),
            *("detect_anomaly", "sync_batchnorm", "fast_dev_run", "enable_model_summary", "barebones", "plugins"),
        )
    ),
}
MAX_TEXT_BYTES = 1 << 30  # of a file of translations


class SafeLoaderWithoutAliases(yaml.SafeLoader):  # type: ignore[misc]
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has aliases")  # a few lines of them can stand for more than all memory
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: Any) -> Any:
        """Numbers to the base 60, as 1:30, stay text: to read a long one takes quadratic time."""
        return node.value if ":" in node.value else super().construct_yaml_int(node)


SafeLoaderWithoutAliases.add_constructor("tag:yaml.org,2002:int", SafeLoaderWithoutAliases.construct_yaml_int)


class PlainDumper(yaml.SafeDumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


@cache  # once, however often a file is read
def _log_dropped(path: Path, name: str) -> None:
    log.info("%s: the setting %s of an earlier version does nothing any more", path, name)


def of_today(settings: Any, version: int, path: Path) -> Any:
    """Settings of an earlier format without those that are gone."""
    for name in chain.from_iterable(DROPPED[format] for format in range(version, FORMAT)):
        section, key = name.rsplit(".", 1)
        if settings.get(section, {}).pop(key, None) is not None:
            _log_dropped(path, name)
    return settings


@dataclass(frozen=True)
class Run:
    """The run in `folder`, whether or not it is there, has finished or holds a model."""

    folder: Path

    # All that a run writes, and its folders that hold files.
    WRITTEN = (
        *("config.yaml", "metrics.csv", "curves.png", *MODEL_FOLDERS, "tensorboard", "wandb", ".lock"),
        *(TRANSLATOR, "hypotheses.*.txt", "test.json", "README.md", "attention"),
        *("evaluation.json", ".evaluation.lock"),
    )
    FOLDERS = (*MODEL_FOLDERS, "attention", "tensorboard")

    # ---- which run

    @classmethod
    def new(cls, folder: Path) -> "Run":
        """A folder to train in. Raises OSError where nothing can be written."""
        check_writable(folder)
        return cls(folder)

    @classmethod
    def open(cls, model: Path) -> "Run":
        """The run that a checkpoint or an exported file lies in; a folder is one itself."""
        folder = model if model.is_dir() else model.parent
        if folder.name in MODEL_FOLDERS:
            return cls(folder.parent)
        # A path that was typed from within does not hold the folder's name. (Not Path.resolve: it follows links.)
        whole = Path(os.path.abspath(folder))  # noqa: PTH100
        return cls(whole.parent if whole.name in MODEL_FOLDERS else folder)

    @classmethod
    def all(cls, has: str = LAST_CHECKPOINT) -> "list[Run]":
        """The runs and trials in the folder of runs that have such a file, by its time, the newest last."""
        paths = [path for depth in ("*", "*/*") for path in RUNS.glob(f"{depth}/{has}")]
        return [cls.open(path) for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, str(path)))]

    @classmethod
    def latest(cls) -> "Run":
        """The run last written to, finished or not, a trial of a sweep included."""
        if not (runs := cls.all()):
            raise FileNotFoundError(f"no run with {LAST_CHECKPOINT} in {RUNS}: train one, or name another")
        return runs[-1]

    # ---- its files

    @property
    def config(self) -> Path:
        """All settings."""
        return self.folder / "config.yaml"

    @property
    def metrics_log(self) -> Path:
        """What the logger `csv` writes while the run trains."""
        return self.folder / "metrics.csv"

    @property
    def curves(self) -> Path:
        """A picture of the log."""
        return self.folder / "curves.png"

    @property
    def attention(self) -> Path:
        """The folder of the pictures of attention."""
        return self.folder / "attention"

    @property
    def translator(self) -> Path:
        """The model that a finished run leaves."""
        return self.folder / TRANSLATOR

    @property
    def best(self) -> Path:
        """The checkpoint with the best validation."""
        return self.folder / BEST_CHECKPOINT

    @property
    def last(self) -> Path:
        """The checkpoint to go on from."""
        return self.folder / LAST_CHECKPOINT

    def snapshot(self, step: int) -> Path:
        """The model after so many steps, in half precision."""
        return self.folder / SNAPSHOTS / f"{step}.safetensors"

    @property
    def snapshots(self) -> dict[int, Path]:
        """The snapshots that are there, by their step."""
        paths = (path for path in self.folder.glob(f"{SNAPSHOTS}/*.safetensors") if path.stem.isdecimal())
        return {int(path.stem): path for path in sorted(paths, key=lambda path: int(path.stem))}

    @property
    def results(self) -> Path:
        """The scores of the tests, and all that made them."""
        return self.folder / "test.json"

    @property
    def card(self) -> Path:
        """The model card."""
        return self.folder / "README.md"

    @property
    def evaluation(self) -> Path:
        """What `evaluate` found later."""
        return self.folder / "evaluation.json"

    @property
    def models(self) -> list[Path]:
        """Its models that are there, the best one first."""
        return [path for name in MODELS if (path := self.folder / name).is_file()]

    @property
    def model(self) -> Path:
        """Its best model. Raises FileNotFoundError where it has none."""
        if not self.models:
            raise FileNotFoundError(f"the folder has none of {', '.join(MODELS)}")
        return self.models[0]

    def hypotheses_file(self, split: str) -> Path:
        """The translations of a split, one a line."""
        return self.folder / f"hypotheses.{split}.txt"

    # ---- what is in them

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in config.yaml, of this or an earlier version. Raises ValueError for what cannot be read."""
        try:
            settings = yaml.load(read_file(self.config), SafeLoaderWithoutAliases)  # a SafeLoader: plain data only
            version = settings.pop("format", 1)
            if type(version) is not int or not 1 <= version <= FORMAT:
                raise ValueError(f"its format is {version!r}: a later version of this program wrote it")
            return of_today(settings, version, self.config)
        except (yaml.YAMLError, RecursionError, AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{self.config} cannot be read ({type(error).__name__}: {one_line(error)})") from error

    def setting(self, key: str) -> Any:
        """The settings under a key. Raises ValueError where there are none."""
        if key not in (settings := self.settings):
            raise ValueError(f"{self.config} has no settings {key}")
        return settings[key]

    def scores(self, split: str) -> dict[str, Any]:
        """The scores of a split and their signatures, as test.json has them; {} where it was not tested."""
        scores = read_json(self.results).get(split) if self.results.exists() else None
        return scores if isinstance(scores, dict) else {}

    def hypotheses(self, split: str) -> list[str]:
        """The translations of a split."""
        file = self.hypotheses_file(split)
        try:
            return read_file(file, MAX_TEXT_BYTES).decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{file} is not UTF-8") from error

    # ---- writing

    def lock(self) -> AbstractContextManager[None]:
        """Held by the process that trains in the folder. Raises OSError where another one does."""
        return exclusive_lock(self.folder / ".lock", f"the run {self.folder}")

    def evaluation_lock(self) -> AbstractContextManager[None]:
        """Held while the scores of `evaluate` are written."""
        return exclusive_lock(self.folder / ".evaluation.lock", str(self.evaluation), wait=True)

    def entries(self) -> list[Path]:
        """What the folder holds under the names that a run writes."""
        inside = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(path for path in inside if any(map(path.match, self.WRITTEN)))

    @property
    def is_empty(self) -> bool:
        """Whether the folder holds nothing, or no more than a lock."""
        return self.folder.is_dir() and {path.name for path in self.folder.iterdir()} <= {".lock"}

    @property
    def has_begun(self) -> bool:
        """Whether a run was here: its lock stays."""
        return (self.folder / ".lock").exists()

    def clear(self) -> None:
        """Removes what an earlier run has left, but for its lock, which the next one holds."""
        for path in self.entries():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != ".lock":
                path.unlink()

    def check_entries(self) -> None:
        """Raises ValueError for a link, a device or the like where a run writes: it would be written elsewhere."""
        folders = (self.folder / name for name in self.FOLDERS)
        # The folders, once it is known that they are none elsewhere.
        for paths in (self.entries(), (path for one in folders if one.is_dir() for path in one.iterdir())):
            for path in sorted(paths):
                mode = path.lstat().st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    entry = "a link" if stat.S_ISLNK(mode) else "no file"
                    raise ValueError(f"{path} is {entry}: nothing is written into a run's folder that leads elsewhere")

    def write_settings(self, settings: dict[str, Any]) -> None:
        """Writes config.yaml, with the number of its format."""
        text = yaml.dump({"format": FORMAT} | settings, Dumper=PlainDumper, sort_keys=False, allow_unicode=True)
        atomic_write(self.config, text.encode("utf-8", "surrogateescape"))

    def write_hypotheses(self, split: str, texts: list[str]) -> bool:
        """Writes the translations of a split; returns whether they take the place of others."""
        file, content = self.hypotheses_file(split), "".join(f"{text}\n" for text in texts).encode()
        # The size first: what lies there may be larger than memory.
        is_other = file.is_file() and (file.stat().st_size != len(content) or file.read_bytes() != content)
        atomic_write(file, content)
        return is_other
