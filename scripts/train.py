"""Trains a translator: `python scripts/train.py [group.key=value …]`; configs/train.yaml lists every setting."""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from transformer.cli.compose import CONFIGS
from transformer.cli.launch import launch, put_back, settings_before
from transformer.cli.sweeps import outcome_of, run_trial
from transformer.config import from_dict
from transformer.evaluation import METRICS
from transformer.files import atomic_write
from transformer.inference.search import SearchSettings
from transformer.training.callbacks.nonfinite import NonFiniteError
from transformer.training.callbacks.signals import Interrupted
from transformer.training.config import RunSettings
from transformer.training.loggers import first_process, quiet
from transformer.training.train import Result, run
from transformer.training.validate import validate_settings

# What steers the command line or only stands for settings elsewhere.
NOT_SETTINGS = ("model", "trainer", "name", "runs", "cache", "resume", "debug")
NOT_MODEL = ("heads", "layers", "score")


def absolute_paths(plain: dict[str, Any]) -> None:
    """A run's saved settings name its files from wherever they are read."""
    data = plain["data"]
    for group, keys in (
        (plain, ("init_from",)),
        (data, ("directory", "train", "validation", "test", "cache")),
        (data["extra_tests"], data["extra_tests"]),
    ):
        for key in keys:
            if isinstance(group[key], str):
                group[key] = str(Path(group[key]).expanduser().absolute())


def read(plain: dict[str, Any]) -> tuple[RunSettings, dict[str, Any]]:
    """The settings of a run and those of its model, whose vocabularies are not known yet."""
    # model.heads, layers and score are a word for all attentions and stacks; the parts hold the values.
    model = {key: value for key, value in plain["model"].items() if key not in NOT_MODEL}
    given = {key: value for key, value in plain.items() if key not in NOT_SETTINGS}
    return from_dict(RunSettings, given, ""), model


def check_values(plain: dict[str, Any]) -> None:
    """Raises ValueError for what `train` would refuse whatever the corpus: of a sweep, before its first trial."""
    quiet()
    settings, model = read(plain)
    validate_settings(asdict(settings) | {"model": model, "trainer": plain["trainer"]})
    if plain["init_from"] and not plain["resume"] and not (place := Path(plain["init_from"])).exists():
        preset = f"experiment={place.name} hydra.run.dir={shown(place)}"
        known = (CONFIGS / "experiment" / f"{place.name}.yaml").exists()
        raise ValueError(
            f"init_from={place}: no such run or checkpoint; train it first{f': {preset}' if known else ''}"
        )


def train(config: DictConfig) -> dict[str, float]:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    absolute_paths(plain)
    settings, model = read(plain)
    folder = Path(HydraConfig.get().runtime.output_dir)
    resume = Path(plain["resume"]) if plain["resume"] else None

    def begins() -> None:
        if first_process():
            atomic_write(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(plain)).encode())
        settings_before.clear()

    try:
        result = run(settings, model, plain["trainer"], folder, resume, begins)
    except NonFiniteError:
        if first_process():
            raise
        sys.exit(0)  # the first says it for all
    except Interrupted as stop:
        if first_process():
            saved = (folder / "checkpoints" / "last.ckpt").exists()
            todo = f"go on with: python scripts/train.py resume={shown(folder)}" if saved else "nothing was saved yet"
            print(f"{stop}; {todo}", file=sys.stderr)
        # Lightning kills all processes when one of those that it has started fails.
        sys.exit(128 + stop.number if first_process() else 0)
    finally:
        put_back()  # what was saved, of a run that has not begun again
    if first_process():
        show(result, folder, settings.search)
    scores = {f"{split}/{name}": v for split, scores in result.scores.items() for name, v in scores.values.items()}
    return scores | result.cost


def train_elsewhere(config: DictConfig) -> Any:
    """A trial in the process that a launcher such as submitit starts for it, on this machine or another."""
    import train as script  # found by PYTHONPATH; registers the resolvers in that process

    run_trial(script.train, config, HydraConfig.instance().cfg, config.debug)
    return outcome_of(Path(HydraConfig.get().runtime.output_dir, "result.json"))


def shown(folder: Path) -> str:
    """The folder as it can be typed where we are."""
    here = Path.cwd()
    return shlex.quote(str(folder.relative_to(here) if folder.is_relative_to(here) else folder))


def show(result: Result, folder: Path, search: SearchSettings) -> None:
    """Prints the scores, three translations and what to do next: with the same search."""
    usual = asdict(SearchSettings())
    own = [f"search.{key}={value}" for key, value in asdict(search).items() if value != usual[key]]
    where = " ".join([shown(folder), *own])
    for split, scores in result.scores.items():
        print(f"{split}: {'   '.join(f'{METRICS[name].label} {v:.1f}' for name, v in scores.values.items())}")
    name, signature = next(iter(result.scores["test"].signatures.items()))
    print(f"{METRICS[name].label}'s signature: {signature}")
    for source, reference, translation in result.samples:
        print(f"\n{source}\n→ {translation}\n= {reference}")
    print(f"\nNext:\n  python scripts/evaluate.py checkpoint={where}")
    print(f"  python scripts/translate.py checkpoint={where} text={shlex.quote(result.samples[0][0])}")


if __name__ == "__main__":
    launch(train, config_name="train", elsewhere=train_elsewhere, check_values=check_values)
