"""Files of a run's folder, read as plain data: the folder may be a stranger's.

Only regular files of bounded size are opened, links are not followed, and YAML is read without aliases, tags and
interpolations. Before anything is written into the folder, `check_entries` has seen that it leads nowhere else.
"""

import logging
import shutil
import stat
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from transformer.config import from_dict
from transformer.data.corpus import DataSettings
from transformer.data.splitting import with_splits
from transformer.files import (
    CARD,
    LOCK,
    METRICS_LOG,
    RESULTS,
    TRANSLATOR,
    atomic_write,
    read_file,
)
from transformer.printing import one_line

log = logging.getLogger(__name__)
CONFIG, EVALUATION = "config.yaml", "evaluation.json"
# Of config.yaml and of checkpoints to go on from. It rises when a setting changes its name or its meaning; one that is
# new has its default in old files.
FORMAT = 2
# For each earlier format: the old name of a setting, and the new one, or None for a setting that is gone.
RENAMED: dict[int, dict[str, str | None]] = {
    # Arguments of Lightning's Trainer, which format 1 passed on.
    1: {
        f"trainer.{name}": None
        for name in (
            *("num_sanity_val_steps", "limit_predict_batches", "overfit_batches", "val_check_interval"),
            *("check_val_every_n_epoch", "min_epochs", "min_steps", "gradient_clip_algorithm", "benchmark", "profiler"),
            *("detect_anomaly", "sync_batchnorm", "fast_dev_run", "enable_model_summary", "barebones", "plugins"),
        )
    },
}
EVALUATION_LOCK = ".evaluation.lock"
MAX_TEXT_BYTES = 1 << 30  # of a file of translations

# All that a run writes, and its folders that hold files.
WRITTEN = (
    *(CONFIG, RESULTS, EVALUATION, "hypotheses.*.txt", CARD, TRANSLATOR),
    *(METRICS_LOG, "curves.png", LOCK, EVALUATION_LOCK),
    *("checkpoints", "attention", "tensorboard", "wandb"),
)
FOLDERS = ("checkpoints", "attention", "tensorboard")


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


def written_entries(run: Path) -> list[Path]:
    """What a folder holds under the names that a run writes."""
    return sorted(path for path in run.iterdir() if any(map(path.match, WRITTEN))) if run.is_dir() else []


def remove_run(folder: Path) -> None:
    """Remove what an earlier run has left in a folder, but for its lock, which the next one holds."""
    for path in written_entries(folder):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def check_entries(run: Path) -> None:
    """Raise ValueError for a link, a device or the like where a run writes: it would be written somewhere else."""
    inside = written_entries(run)
    # The folders, once it is known that they are none elsewhere.
    for paths in (inside, (path for name in FOLDERS if (run / name).is_dir() for path in (run / name).iterdir())):
        for path in sorted(paths):
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                entry = "a link" if stat.S_ISLNK(mode) else "no file"
                raise ValueError(f"{path} is {entry}: nothing is written into a run's folder that leads elsewhere")


def write_config(run: Path, settings: dict[str, Any]) -> None:
    """Write the settings of a run, with the number of their format."""
    text = yaml.dump({"format": FORMAT} | settings, Dumper=PlainDumper, sort_keys=False, allow_unicode=True)
    atomic_write(run / CONFIG, text.encode("utf-8", "surrogateescape"))


@cache  # once, however often a file is read
def log_dropped(path: Path, name: str) -> None:
    log.info("%s: the setting %s of an earlier version does nothing any more", path, name)


def with_new_names(settings: Any, version: int, path: Path) -> Any:
    """Settings of an earlier format under their present names."""
    for format in range(version, FORMAT):
        for old, new in RENAMED[format].items():
            section, new_section = settings, settings
            *above, name = old.split(".")
            for part in above:
                section = section.get(part, {})
            if name not in section:
                continue
            value = section.pop(name)
            if new is None:
                log_dropped(path, old)
                continue
            *above, name = new.split(".")
            for part in above:
                new_section = new_section.setdefault(part, {})
            new_section[name] = value
    return settings


def read_settings(run: Path) -> dict[str, Any]:
    """Read the settings in a run's config.yaml, of this or an earlier version. Raises ValueError for what cannot be
    read."""
    path = run / CONFIG
    try:
        settings = yaml.load(read_file(path), SafeLoaderWithoutAliases)  # a SafeLoader: plain data only
        version = settings.pop("format", 1)
        if type(version) is not int or not 1 <= version <= FORMAT:
            raise ValueError(f"its format is {version!r}: a later version of this program wrote it")
        return with_new_names(settings, version, path)
    except (yaml.YAMLError, RecursionError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({type(error).__name__}: {one_line(error)})") from error


def read_config(run: Path, key: str, meaning: str) -> Any:
    """Read the settings that a run's config.yaml has under a key. Raises ValueError where there are none."""
    settings = read_settings(run)
    if key not in settings:
        raise ValueError(f"{run / CONFIG} names no {meaning}")
    return settings[key]


def read_corpus(run: Path) -> DataSettings:
    """Read the settings of the corpus that a run's config.yaml names."""
    return from_dict(DataSettings, read_config(run, "data", "corpus"), "data")


def read_corpus_with_splits(run: Path, cache: str) -> DataSettings:
    """The corpus of a run. If it came in one piece it is cut again, in our own `cache`: nobody else names a folder that
    is written. It is not fetched: a folder from a stranger must not choose what is."""
    return with_splits(replace(read_corpus(run), cache=cache))
