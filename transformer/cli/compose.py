"""Settings composed by Hydra, from configs/ and the command line, as plain data. `train` and `back_translate` use it.

Hydra works as in its documentation: groups, overrides, -m, --config-dir. Errors are printed on one line.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from transformer.cli.errors import configure_output, describe, status_of
from transformer.cli.runs import ELSEWHERE, find_resumable, remove_if_empty
from transformer.config import UsageError, flatten
from transformer.data import tatoeba
from transformer.data.directions import first_direction
from transformer.files import BUNDLED_CORPUS, CONFIGS
from transformer.printing import key_of, one_line, quoted

RUN_FOLDER = "hydra.run.dir"  # the setting for the folder of a run


def run_folder(resume: str | None, new: str) -> str:
    """The folder of the run that `resume` names, or else a new one."""
    return str(find_resumable(resume)[0]) if resume else new


# The functions for ${NAME:…} in YAML files.
RESOLVERS: dict[str, Callable[..., Any]] = {
    "run_folder": run_folder,
    "bundled_corpus": lambda: str(BUNDLED_CORPUS),
    "first_direction": first_direction,
    "tatoeba_file_language": tatoeba.file_language,
    "tatoeba_source_language": tatoeba.source_language,
    "tatoeba_columns": tatoeba.columns,
}
for name, function in RESOLVERS.items():
    OmegaConf.register_new_resolver(name, function, replace=True)


def as_dict(config: DictConfig) -> dict[str, Any]:
    """Plain data, with interpolations resolved."""
    return OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore[return-value]


def near_names(key: str, name: str) -> list[str]:
    """Names of settings and groups that are similar to `key`."""
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        settings = [name for name, _ in flatten(as_dict(hydra.compose(name)))]
    groups = [path.name for path in CONFIGS.iterdir() if path.is_dir()]
    last = key.rpartition(".")[2]
    same_end = [name for name in settings if name.rpartition(".")[2] == last]
    return [*dict.fromkeys([*same_end, *get_close_matches(key, [*settings, *groups], n=3)])][:3]


def explain(error: BaseException, name: str) -> str:
    """The error in settings, on one line: Hydra's own messages have several lines and do not name similar settings."""
    chain = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    for one in chain:
        if isinstance(one, (UsageError, FileNotFoundError)):  # from a resolver
            return str(one)
        if isinstance(one, OverrideParseException):
            return f"{one.override}: write KEY=VALUE; a value with special characters needs quotes: 'KEY=\"VALUE\"'"
        if isinstance(one, MissingConfigException) and one.options:
            return f"{one.missing_cfg_file}: there is no such choice; choose one of {', '.join(one.options)}"
    of_key = next((one for one in chain if isinstance(one, OmegaConfBaseException) and one.full_key), None)
    if of_key is None:
        return one_line(error)
    GlobalHydra.instance().clear()
    key = str(of_key.full_key)
    if not isinstance(of_key, (KeyError, AttributeError)):
        return f"{key}: {str(of_key).splitlines()[0]}"
    near = near_names(key, name)
    remedy = f"did you mean {' or '.join(near)}?" if near else "--cfg job shows all settings"
    return f"{key}: no such setting; {remedy}"


def implied(words: Sequence[str]) -> list[str]:
    """data=files, if data.pairs= is typed and no other setting chooses a corpus."""
    keys = {key_of(word) for word in words}
    return ["data=files"] if "data.pairs" in keys and not keys & {"data", "experiment", "resume"} else []


def compose(*overrides: str, name: str = "train") -> dict[str, Any]:
    """The settings of a command with typed overrides, as plain data. UsageError for a mistake in them."""
    overrides = (*implied(overrides), *overrides)
    is_running = GlobalHydra.instance().is_initialized()  # then it knows the folders of --config-dir
    try:
        with nullcontext() if is_running else hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return as_dict(hydra.compose(name, list(overrides)))
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise UsageError(explain(error, name)) from error


def typed_overrides() -> list[str]:
    """The overrides of the running command."""
    return [*HydraConfig.get().overrides.task]


def typed_folder() -> bool:
    """Whether the folder of the run was typed."""
    return any(key_of(override) == RUN_FOLDER for override in HydraConfig.get().overrides.hydra)


def folder_override(folder: Path) -> str:
    """The override that sets the folder of a run."""
    return f"{RUN_FOLDER}={quoted(str(folder))}"


def config_folders() -> list[str]:
    """--config-dir=FOLDER, if it was typed."""
    return [
        f"--config-dir={source.path}"
        for source in HydraConfig.get().runtime.config_sources
        if source.provider == "command-line"
    ]


def chosen_groups() -> dict[str, str]:
    """The choice of each group."""
    return dict(HydraConfig.get().runtime.choices)


def output_folder() -> Path:
    """The folder of the run, or of a sweep's trial."""
    return Path(HydraConfig.get().runtime.output_dir)


def is_trial() -> bool:
    """Whether this run is a trial of a sweep."""
    return HydraConfig.get().mode == RunMode.MULTIRUN


def refuse_dashes(words: Sequence[str], name: str) -> None:
    """Raises UsageError for `--heads 8` (the form of the other commands' flags) if there is such a setting."""
    for word in words:
        key = word.partition("=")[0].removeprefix("--").replace("-", "_")
        if word.startswith("--") and key.isidentifier():
            near = [full for full in near_names(key, name) if full == key or full.endswith(f".{key}")]
            if near:
                raise UsageError(f"{word}: settings have no dashes: write {near[0]}=VALUE")


def main(work: Callable[[dict[str, Any]], Any], name: str, sweeps: bool = True) -> None:
    """Runs `work` with the settings of the command line, and exits. A refused run leaves no folder."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra then raises its errors, and they are printed here
    debug = "debug=true" in sys.argv

    failures: list[Exception] = []
    has_begun = False

    @hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=name)
    def job(config: DictConfig) -> Any:
        nonlocal debug, has_begun
        has_begun = True
        debug = config.get("debug") is True
        try:
            return work(as_dict(config))
        except Exception as error:
            if is_trial():
                raise  # Hydra continues with the next trial, and raises this at the end
            failures.append(error)
        finally:
            remove_if_empty(output_folder())

    def compose_and_work() -> None:
        try:
            refuse_dashes(sys.argv[1:], name)
            sys.argv[1:1] = implied(sys.argv[1:])
            if not sweeps and {"-m", "--multirun"} & {*sys.argv}:
                raise UsageError("-m: this command runs no sweep: give one command for each value")
            job()
            if failures:
                raise failures[0]
        except (HydraException, OmegaConfBaseException, YAMLError) as error:
            raise UsageError(explain(error, name)) from error
        except OSError as error:
            if has_begun or name != "train":
                raise
            raise UsageError(f"the run's folder cannot be made: {describe(error)}; {ELSEWHERE}") from error

    configure_output()
    sys.exit(status_of(compose_and_work, lambda: debug))
