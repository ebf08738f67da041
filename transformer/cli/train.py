"""`translator train`: checks the settings of a run, and runs it."""

import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from transformer.cli.compose import (
    RUN_FOLDER,
    chosen_groups,
    is_trial,
    main,
    output_folder,
    typed_folder,
    typed_overrides,
)
from transformer.cli.runs import check_init_from, check_new_run, find_resumable, training_in
from transformer.cli.sweep import OUTCOME, isolated
from transformer.config import Settings, UsageError, check_names, from_dict
from transformer.files import write_json
from transformer.model.config import ModelConfig, read_model
from transformer.printing import key_of, say, shell_path
from transformer.processes import rank
from transformer.run import Run
from transformer.training.config import RunSettings, check_settings
from transformer.training.sizing import choose, measure

T = TypeVar("T")


@dataclass(frozen=True)
class Command(Settings):
    """The settings of this command in addition to those of a run."""

    resume: str | None = None
    """a run's folder, a .ckpt in one, or last: continues a stopped run in its own folder"""
    debug: bool = False
    """true: shows where an error arose"""


RUN_KEYS = ("model", *(field.name for field in fields(RunSettings)))


def of_command(config: dict[str, Any], command: type[T]) -> T:
    """The settings that are not of a run. Raises SettingError for an unknown setting."""
    check_names(config, [*RUN_KEYS, *(field.name for field in fields(command))])  # type: ignore[arg-type]
    return from_dict(command, {key: value for key, value in config.items() if key not in RUN_KEYS})


def of_run(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run. Raises SettingError for an unknown setting."""
    of_command(config, Command)
    return {"model": {}} | {key: value for key, value in config.items() if key in RUN_KEYS}


def read_run_settings(settings: dict[str, Any]) -> RunSettings:
    """All settings of a run, without those of its model."""
    return from_dict(RunSettings, {key: value for key, value in settings.items() if key != "model"})


def shape(model: ModelConfig) -> dict[str, Any]:
    """The settings of a model, without the sizes of its vocabularies, which depend on the tokenizers."""
    return {key: value for key, value in asdict(model).items() if not key.endswith("_vocab_size")}


def with_dropouts(saved: dict[str, Any], dropouts: dict[str, Any]) -> dict[str, Any]:
    """The settings of a model, with the dropouts of another one."""
    merged = dict(saved)
    for key, value in saved.items():
        if isinstance(value, dict) and isinstance(dropouts.get(key), dict):
            merged[key] = with_dropouts(value, dropouts[key])
        elif key == "dropout":
            merged[key] = dropouts[key]
    return merged


def model_settings(settings: dict[str, Any], typed: list[str]) -> dict[str, Any]:
    """All settings of the model: with `init_from` it has the shape of the model that training begins with. If a shape
    was typed, it must be the same.

    Raises ValueError if it is another.
    """
    model = read_model(settings["model"])
    if settings["init_from"] is None:
        return shape(model)
    from transformer.inference.model_file import load

    saved = load(Path(settings["init_from"]).expanduser())
    shapes = [key for key in typed if not key.endswith(".dropout")]
    is_typed = any(key in ("model", "ablation") or key.startswith("model.") for key in shapes)
    if is_typed:
        saved.check_finetuning(model)
        return shape(model)
    return with_dropouts(shape(saved.config), shape(model))


def resumed_settings(config: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    """The settings of the stopped run, with the single settings that are typed now.

    Raises UsageError for a whole group, which would replace the run's own settings, and ValueError for a checkpoint
    that no run can continue from.
    """
    from transformer.training.checkpoints import read_run

    saved = read_run(checkpoint)["settings"]
    settings = {key: value for key, value in saved.items() if key in RUN_KEYS}
    for override in typed_overrides():
        *sections, name = key_of(override).split(".")
        if key_of(override) in ("resume", "debug"):
            continue
        now, before = config, settings
        for section in sections:
            now, before = now[section], before.setdefault(section, {})
        is_group = key_of(override) in chosen_groups() or isinstance(now.get(name), dict)
        if is_group or override.startswith("~") or sections[:1] == ["model"]:
            raise UsageError(
                f"{override}: a resumed run keeps its model and choices: give single settings, as search.beam=5"
            )
        before[name] = now[name]
    return settings


def choose_for_corpus(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """All settings of a run, with values that the corpus chooses for those that are null; and these values separately.
    The corpus is read for them: raises ValueError or OSError if this fails."""
    settings, chosen = choose(given)
    if not chosen:
        return settings, {}
    from transformer.device import device_kind  # torch, which takes seconds

    run = read_run_settings(settings)
    return choose(given, measure(run.data), device_kind(run.trainer.accelerator) == "cpu")


def check_processes() -> None:
    """Refuses several processes of torchrun or SLURM without a common folder: each would make its own."""
    started = [os.environ.get(variable, "") for variable in ("WORLD_SIZE", "SLURM_NTASKS")]
    if not typed_folder() and any(number.isdecimal() and int(number) > 1 for number in started):
        raise UsageError(f"processes that torchrun or SLURM start need one folder: give {RUN_FOLDER}=PATH")


def train(config: dict[str, Any]) -> float | None:
    """Trains a translator.

    Trains in the folder of the run, with composed settings; returns the best validation score, for sweeps.
    """
    folder = output_folder()
    typed = [key_of(override) for override in typed_overrides()]
    given, checkpoint = of_run(config), None
    settings, chosen = choose(given)  # for any size of the corpus, to find mistakes before it is read
    if config["resume"]:
        own_folder, checkpoint = find_resumable(config["resume"])
        if own_folder.resolve() != folder.resolve():
            raise UsageError(f"resume= continues a run in its own folder: leave out {RUN_FOLDER} and -m")
        Run(folder).check_entries()
        settings, chosen = resumed_settings(given, checkpoint), {}
    run_settings = read_run_settings(settings)
    if checkpoint is None:
        check_processes()
        check_new_run(folder, is_trial())
        check_init_from(run_settings.init_from)
        run_settings.data.check_files()
    model = model_settings(settings, typed) if checkpoint is None else settings["model"]
    check_settings(run_settings, read_model(model))
    if chosen:
        settings, chosen = choose_for_corpus(given)
        run_settings, model = read_run_settings(settings), model_settings(settings, typed)
    from transformer.training.checks import check_trainer  # torch and Lightning, which take seconds

    run_settings = replace(run_settings, trainer=check_trainer(run_settings.trainer))
    if is_trial() and run_settings.trainer.devices * run_settings.trainer.num_nodes > 1:
        raise UsageError("-m trains with one process: give trainer=cpu or trainer=gpu, and trainer.devices=1")
    if rank() == 0:
        say(f"the run: {shell_path(folder)}, prepared corpora: {shell_path(Path(run_settings.data.cache))}")
    from transformer.tools.pictures.training_pictures import draw_attentions, draw_progress
    from transformer.training.results import show_result
    from transformer.training.train import run

    with training_in(folder), isolated():
        result = run(
            run_settings,
            model,
            folder,
            checkpoint,
            replace=is_trial(),
            chosen=chosen,
            on_validation=[draw_progress] if "csv" in run_settings.loggers else [],
            at_end=[lambda of, result, place: draw_attentions(of, result.samples, Run(place).attention)],
        )
    show_result(result, folder, run_settings.search)
    if is_trial():
        write_json(folder / OUTCOME, {"results": result.numbers()})
    return result.validation


if __name__ == "__main__":
    main(train, "train")
