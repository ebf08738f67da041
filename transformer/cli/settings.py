"""The settings of the scripts as plain data, from what Hydra composed: of a run, a translation, an evaluation, …"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.arguments import STAGES
from transformer.cli.checkpoints import find_checkpoints, find_reverse, is_run
from transformer.cli.compose import as_dict, by_key, chosen, compose_again, typed_overrides
from transformer.cli.lines import refuse_table
from transformer.cli.places import check_output_file, check_output_folder
from transformer.cli.runs import trial_folder
from transformer.config import UsageError, flatten, from_part
from transformer.data.corpus import FILE_SETTINGS
from transformer.data.printable import shell_path
from transformer.files import expanded, run_of

if TYPE_CHECKING:
    from transformer.doctor.plan import Plan
    from transformer.visualization.attention import View

# Settings of the command line, or shorthands for settings elsewhere: not part of a run.
NOT_SETTINGS = ("name", "runs", "cache", "resume", "debug", "output", "fix", "input", "folds", *STAGES)
# One word for all attentions and stacks of a model: its parts hold the values.
NOT_MODEL = ("heads", "layers", "score")
# A preset's own word for data.pairs.
NOT_DATA = ("file",)


def absolute(path: Any) -> Any:
    return str(expanded(path).absolute()) if isinstance(path, str) else path


def corpus_settings(data: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a corpus from the composed ones; paths are absolute."""
    settings = {key: value for key, value in data.items() if key not in NOT_DATA}
    settings |= {key: absolute(data[key]) for key in (*FILE_SETTINGS, "cache")}
    if isinstance(data["synthetic"], list):  # else it is refused where it is read
        settings["synthetic"] = [absolute(prefix) for prefix in data["synthetic"]]
    if isinstance(data["extra_tests"], dict):
        for name, below in data["extra_tests"].items():
            if isinstance(below, dict):  # data.extra_tests.my.news=PREFIX
                dotted = next((f"{name}.{rest}" for rest, _ in flatten(below)), name)
                raise UsageError(
                    f"data.extra_tests.{dotted}: the name of an extra test has no dots: write "
                    f"data.extra_tests.{dotted.replace('.', '_')}=PREFIX"
                )
        settings["extra_tests"] = {name: absolute(path) for name, path in data["extra_tests"].items()}
    return settings


def run_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return a run's settings from the composed configuration; paths are absolute, to be read from anywhere."""
    settings = {key: value for key, value in config.items() if key not in NOT_SETTINGS}
    settings["model"] = {key: value for key, value in config["model"].items() if key not in NOT_MODEL}
    settings["data"] = corpus_settings(config["data"])
    settings["init_from"] = absolute(config["init_from"])
    return settings


def _with_shape_of(
    saved: dict[str, Any], model: dict[str, Any], typed: Collection[str], path: str = "model"
) -> dict[str, Any]:
    merged = dict(model)
    for key, value in saved.items():
        name, asked = f"{path}.{key}", model.get(key)
        is_typed = name in typed or (key in NOT_MODEL and f"model.{key}" in typed)
        if is_typed or key == "dropout" or key.endswith("_vocab_size"):
            continue
        if isinstance(value, dict) and isinstance(asked, dict):
            value = _with_shape_of(value, asked, typed, name)
        merged[key] = value
    return merged


def model_to_train(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run's model: with `init_from=` it has the shape of the model that it begins with.

    Raises ValueError for a shape that was typed and is another.
    """
    typed = typed_overrides().keys()
    model: dict[str, Any] = settings["model"]
    if settings["init_from"] is None:
        return model
    from transformer.inference.checkpoint import load
    from transformer.model.config import read_model

    saved = load(Path(settings["init_from"]))
    if not typed & {"model", "ablation"}:
        model = _with_shape_of(asdict(saved.config), model, typed)
    saved.check_finetuning(read_model(model))
    return model


def plan_for(config: dict[str, Any], overrides: tuple[str, ...]) -> Plan:
    """Return the doctor's plan of a run: as typed, on top of `overrides`."""
    from transformer.doctor.plan import Plan
    from transformer.training.config import read_run_settings

    below = {key: line for key, line in by_key(overrides).items() if key not in typed_overrides()}
    experiment = chosen("experiment") or below.get("experiment", "").partition("=")[2] or None
    settings = run_settings(as_dict(compose_again(*below.values())) if below else config)
    return Plan(overrides, read_run_settings(settings), model_to_train(settings), experiment)


# How texts are translated: all scripts have these settings, and they form one section in the typed ones.
INFERENCE = ("device", "precision", "batch_tokens")


def _with_inference_settings(config: dict[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in config.items() if key not in (*INFERENCE, "runs", "debug", "checkpoint")}
    settings["inference"] = {key: config[key] for key in INFERENCE}
    if "resume" in config:  # it arrives as text
        settings["resume"] = {"true": True, "false": False}.get(config["resume"], config["resume"])
    return settings


def _check_there(config: dict[str, Any], *keys: str) -> None:
    for key in keys:
        if config[key] is not None and not Path(config[key]).exists():
            raise UsageError(f"{key}={config[key]}: no such file")


def translate_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of translate.py from the composed configuration."""
    _check_there(config, "input")
    for key in ("output", "alignments"):
        if config[key] is not None:
            check_output_file(config[key], key=key)
    return _with_inference_settings(config) | {"choose": find_reverse(config)}


def _corpus(config: dict[str, Any]) -> dict[str, Any] | None:
    return corpus_settings(config["data"]) if config.get("data") else None


def augment_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of augment.py from the composed configuration."""
    if config["output"] is None:
        raise UsageError("output is not set: give output=PREFIX of the pairs' files")
    return _with_inference_settings(config) | {"data": _corpus(config)}


def evaluation_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of evaluate.py from the composed configuration."""
    checkpoints = find_checkpoints(config["checkpoint"], Path(config["runs"]), exports=False)
    if len(checkpoints) > 1 and not config["output"]:
        raise UsageError("an ensemble belongs to no single run: give output=FOLDER for its results")
    if config["source"] and "split" in typed_overrides():
        raise UsageError("split= names sentences of the corpus, source= and reference= files: leave one of them out")
    for key in ("source", "reference"):
        if config[key]:
            refuse_table(key, config[key])
    _check_there(config, "source", "reference", "alignments")
    # The trials of a sweep must not write over each other's results, or over the run's own.
    run = run_of(checkpoints[0])
    if checkpoints[0] == run and not config["output"]:
        raise UsageError(f"{shell_path(run)} is a Hugging Face folder, not a run: give output=FOLDER for the results")
    output = config["output"] or str(trial_folder() or run)
    check_output_folder(output)
    if is_run(Path(output)) and not (len(checkpoints) == 1 and Path(output).resolve() == run.resolve()):
        raise UsageError(f"output={output} is the folder of another run: name another folder")
    from transformer.evaluation.run_files import check_entries

    check_entries(Path(output))
    found = {"checkpoints": [*map(str, checkpoints)], "output": output, "choose": find_reverse(config)}
    return _with_inference_settings(config) | found | {"data": _corpus(config)}


def picture_settings(config: dict[str, Any]) -> View:
    """Return which attentions a picture shows; refuse the choice for a page."""
    from transformer.visualization.attention import View

    of_picture = {"attention", "layer", "head"} & typed_overrides().keys()
    if of_picture and config["output"].lower().endswith(".html"):
        raise UsageError(f"{min(of_picture)}= is for a picture, output=FILE.png: a page shows all attentions")
    return from_part(View, config)
