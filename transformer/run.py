"""A run's folder: the only module that knows its files. The folder may be untrusted, so it is read as plain data only.

Only regular files of limited size are opened, links are not followed, and YAML is read without aliases, tags and
interpolations. Before anything is written into the folder, `check_entries` makes sure that it has no links.
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
# The folder of runs, in the current folder. configs/train.yaml sets the name of a run's own folder.
RUNS = Path("runs")
# The models in a run's folder, the best one first: that of a finished run, then the checkpoints of training.
TRANSLATOR, BEST_CHECKPOINT, LAST_CHECKPOINT = MODELS = (
    "translator.safetensors",
    "checkpoints/best.ckpt",
    "checkpoints/last.ckpt",
)
# Folders with models in a run's folder.
_, SNAPSHOTS = MODEL_FOLDERS = ("checkpoints", "snapshots")
# The format of config.yaml and of checkpoints to resume. Raise it if a setting changes its name or its meaning; not for
# a new setting, which has its default in old files.
FORMAT = 2
# For each earlier format, settings that do not exist any more.
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
MAX_TEXT_BYTES = 1 << 30  # the largest file of translations


class SafeLoaderWithoutAliases(yaml.SafeLoader):  # type: ignore[misc]
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has aliases")  # a few lines of them can become larger than memory
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: Any) -> Any:
        """Numbers to the base 60, like 1:30, stay text: reading a long one takes quadratic time."""
        return node.value if ":" in node.value else super().construct_yaml_int(node)


SafeLoaderWithoutAliases.add_constructor("tag:yaml.org,2002:int", SafeLoaderWithoutAliases.construct_yaml_int)


class PlainDumper(yaml.SafeDumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


@cache  # once, even if a file is read several times
def _log_dropped(path: Path, name: str) -> None:
    log.info("%s: the setting %s of an earlier version does nothing any more", path, name)


def of_today(settings: Any, version: int, path: Path) -> Any:
    """Settings of an earlier format without those that do not exist any more."""
    for name in chain.from_iterable(DROPPED[format] for format in range(version, FORMAT)):
        section, key = name.rsplit(".", 1)
        if settings.get(section, {}).pop(key, None) is not None:
            _log_dropped(path, name)
    return settings


@dataclass(frozen=True)
class Run:
    """The run in `folder`, which need not exist, be finished or have a model."""

    folder: Path

    # The names of all files and folders that a run writes, and its folders.
    WRITTEN = (
        *("config.yaml", "metrics.csv", "curves.png", *MODEL_FOLDERS, "tensorboard", "wandb", ".lock"),
        *(TRANSLATOR, "hypotheses.*.txt", "test.json", "README.md", "attention"),
        *("evaluation.json", ".evaluation.lock"),
    )
    FOLDERS = (*MODEL_FOLDERS, "attention", "tensorboard")

    # ---- which run

    @classmethod
    def new(cls, folder: Path) -> "Run":
        """A folder to train in. Raises OSError if nothing can be written there."""
        check_writable(folder)
        return cls(folder)

    @classmethod
    def open(cls, model: Path) -> "Run":
        """The run that contains a checkpoint or an exported file; a folder is a run itself."""
        folder = model if model.is_dir() else model.parent
        if folder.name in MODEL_FOLDERS:
            return cls(folder.parent)
        # A relative path may not have the folder's name. (Path.resolve is not used because it follows links.)
        whole = Path(os.path.abspath(folder))  # noqa: PTH100
        return cls(whole.parent if whole.name in MODEL_FOLDERS else folder)

    @classmethod
    def all(cls, has: str = LAST_CHECKPOINT) -> "list[Run]":
        """The runs and trials in the folder of runs that have this file, sorted by its time, the newest last."""
        paths = [path for depth in ("*", "*/*") for path in RUNS.glob(f"{depth}/{has}")]
        return [cls.open(path) for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, str(path)))]

    @classmethod
    def latest(cls) -> "Run":
        """The run that was written last, finished or not; it may be a trial of a sweep."""
        if not (runs := cls.all()):
            raise FileNotFoundError(f"no run with {LAST_CHECKPOINT} in {RUNS}: train one, or give another folder")
        return runs[-1]

    # ---- its files

    @property
    def config(self) -> Path:
        """All settings."""
        return self.folder / "config.yaml"

    @property
    def metrics_log(self) -> Path:
        """The file of the logger `csv`."""
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
        """The model of a finished run."""
        return self.folder / TRANSLATOR

    @property
    def best(self) -> Path:
        """The checkpoint with the best validation."""
        return self.folder / BEST_CHECKPOINT

    @property
    def last(self) -> Path:
        """The checkpoint for resuming."""
        return self.folder / LAST_CHECKPOINT

    def snapshot(self, step: int) -> Path:
        """The model after `step` steps, in half precision."""
        return self.folder / SNAPSHOTS / f"{step}.safetensors"

    @property
    def snapshots(self) -> dict[int, Path]:
        """The existing snapshots, by their step."""
        paths = (path for path in self.folder.glob(f"{SNAPSHOTS}/*.safetensors") if path.stem.isdecimal())
        return {int(path.stem): path for path in sorted(paths, key=lambda path: int(path.stem))}

    @property
    def results(self) -> Path:
        """The scores of the tests, and everything that they depend on."""
        return self.folder / "test.json"

    @property
    def card(self) -> Path:
        """The model card."""
        return self.folder / "README.md"

    @property
    def evaluation(self) -> Path:
        """The scores of the command `evaluate`."""
        return self.folder / "evaluation.json"

    @property
    def models(self) -> list[Path]:
        """The existing models, the best one first."""
        return [path for name in MODELS if (path := self.folder / name).is_file()]

    @property
    def model(self) -> Path:
        """The best model. Raises FileNotFoundError if there is none."""
        if not self.models:
            raise FileNotFoundError(f"the folder has none of {', '.join(MODELS)}")
        return self.models[0]

    def hypotheses_file(self, split: str) -> Path:
        """The translations of a split, one a line."""
        return self.folder / f"hypotheses.{split}.txt"

    # ---- what is in them

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in config.yaml, of this or an earlier version. Raises ValueError if they cannot be read."""
        try:
            settings = yaml.load(read_file(self.config), SafeLoaderWithoutAliases)  # a SafeLoader: plain data only
            version = settings.pop("format", 1)
            if type(version) is not int or not 1 <= version <= FORMAT:
                raise ValueError(f"its format is {version!r}: a later version of this program wrote it")
            return of_today(settings, version, self.config)
        except (yaml.YAMLError, RecursionError, AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{self.config} cannot be read ({type(error).__name__}: {one_line(error)})") from error

    def setting(self, key: str) -> Any:
        """The settings under a key. Raises ValueError if there are none."""
        if key not in (settings := self.settings):
            raise ValueError(f"{self.config} has no settings {key}")
        return settings[key]

    def scores(self, split: str) -> dict[str, Any]:
        """The scores of a split and their signatures, from test.json; {} if it was not tested."""
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
        """The lock of the process that trains in the folder. Raises OSError if another process has it."""
        return exclusive_lock(self.folder / ".lock", f"the run {self.folder}")

    def evaluation_lock(self) -> AbstractContextManager[None]:
        """The lock for writing the scores of `evaluate`."""
        return exclusive_lock(self.folder / ".evaluation.lock", str(self.evaluation), wait=True)

    def entries(self) -> list[Path]:
        """The files and folders with names that a run writes."""
        inside = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(path for path in inside if any(map(path.match, self.WRITTEN)))

    @property
    def is_empty(self) -> bool:
        """Whether the folder has nothing, or only a lock."""
        return self.folder.is_dir() and {path.name for path in self.folder.iterdir()} <= {".lock"}

    @property
    def has_begun(self) -> bool:
        """Whether a run was here: its lock file stays."""
        return (self.folder / ".lock").exists()

    def clear(self) -> None:
        """Removes the files of an earlier run, except its lock, which the new run holds."""
        for path in self.entries():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != ".lock":
                path.unlink()

    def check_entries(self) -> None:
        """Raises ValueError for a link, a device or the like among a run's files: writing to it would go elsewhere."""
        folders = (self.folder / name for name in self.FOLDERS)
        # First the entries of the run's folder, then those of its folders: by then these are known to be no links.
        for paths in (self.entries(), (path for one in folders if one.is_dir() for path in one.iterdir())):
            for path in sorted(paths):
                mode = path.lstat().st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    entry = "a link" if stat.S_ISLNK(mode) else "no file"
                    raise ValueError(f"{path} is {entry}: a run is only written to a folder with ordinary files")

    def write_settings(self, settings: dict[str, Any]) -> None:
        """Writes config.yaml, with the number of its format."""
        text = yaml.dump({"format": FORMAT} | settings, Dumper=PlainDumper, sort_keys=False, allow_unicode=True)
        atomic_write(self.config, text.encode("utf-8", "surrogateescape"))

    def write_hypotheses(self, split: str, texts: list[str]) -> bool:
        """Writes the translations of a split; returns whether they replace others."""
        file, content = self.hypotheses_file(split), "".join(f"{text}\n" for text in texts).encode()
        # Sizes are compared first, because the existing file may be larger than memory.
        is_other = file.is_file() and (file.stat().st_size != len(content) or file.read_bytes() != content)
        atomic_write(file, content)
        return is_other
