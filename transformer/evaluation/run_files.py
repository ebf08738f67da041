"""Files of a run's folder, read as plain data: the folder may be a stranger's.

Only regular files of bounded size are opened, links are not followed, and YAML is read without aliases, tags and
interpolations. Before anything is written into the folder, `check_entries` has seen that it leads nowhere else.
"""

import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from transformer.config import from_dict
from transformer.data.corpus import DataSettings
from transformer.data.printable import one_line
from transformer.data.splitting import with_splits
from transformer.files import (
    CARD,
    LOCK,
    METRICS_LOG,
    RESULTS,
    TRANSLATOR,
    atomic_write,
    read_file,
    run_of,
)

CONFIG, EVALUATION = "config.yaml", "evaluation.json"
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
    """Write the settings of a run."""
    text = yaml.dump(settings, Dumper=PlainDumper, sort_keys=False, allow_unicode=True)
    atomic_write(run / CONFIG, text.encode("utf-8", "surrogateescape"))


def read_config(run: Path, key: str, meaning: str) -> Any:
    """Read the settings that a run's config.yaml has under a key. Raises ValueError where there are none."""
    path = run / CONFIG
    try:
        return yaml.load(read_file(path), SafeLoaderWithoutAliases)[key]  # a SafeLoader: plain data only
    except (yaml.YAMLError, RecursionError, KeyError, TypeError, ValueError) as error:
        reason = one_line(error)
        raise ValueError(f"{path} cannot be read: it names no {meaning} ({type(error).__name__}: {reason})") from error


def read_corpus(run: Path) -> DataSettings:
    """Read the settings of the corpus that a run's config.yaml names."""
    return from_dict(DataSettings, read_config(run, "data", "corpus"), "data")


def read_corpus_with_splits(run: Path, cache: str) -> DataSettings:
    """The corpus of a run. If it came in one piece it is cut again, in our own `cache`: nobody else names a folder that
    is written."""
    return with_splits(replace(read_corpus(run), cache=cache))


def corpus_of(checkpoint: Path, data: DataSettings | None, cache: str, otherwise: str = "") -> DataSettings:
    """The corpus `data`, fetched, or else that of a checkpoint's run, with its splits. The corpus of a run is not
    fetched: a folder from a stranger must not choose what is. FileNotFoundError where there is neither; `otherwise`
    ends its message."""
    if data:
        data.fetch()
        return with_splits(data)
    run = run_of(checkpoint)
    if not (run / CONFIG).exists():
        raise FileNotFoundError(
            f"{run} holds no {CONFIG} that names a corpus: say data=toy, data=multi30k or data=files …{otherwise}"
        )
    return read_corpus_with_splits(run, cache)
