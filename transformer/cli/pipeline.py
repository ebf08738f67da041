"""Runs scripts one after another, each in a process of its own, and again only what is not finished."""

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import hydra

from transformer.cli import CONFIGS, PROJECT
from transformer.cli.arguments import STAGES, is_override, prepare, quote, split
from transformer.cli.compose import as_dict
from transformer.cli.errors import say
from transformer.cli.lines import count_lines
from transformer.cli.runs import MODELS, as_typed
from transformer.cli.settings import run_settings
from transformer.config import UsageError
from transformer.data.corpus import DataSettings
from transformer.data.directions import Direction
from transformer.data.synthetic import ORIGIN
from transformer.data.text_files import is_table
from transformer.device import choose_precision
from transformer.files import atomic_write
from transformer.model.config import read_model
from transformer.training.callbacks.signals import Interrupted
from transformer.training.checks import check_trainer
from transformer.training.config import check_settings, read_run_settings

# Settings of back_translate.py itself.
PIPELINE_KEYS = ("input", "folds", "output", "init_from", *STAGES)
COMMAND = "command.json"  # the settings that a folder was begun with


@dataclass(frozen=True)
class Stage:
    """A command that begins it and one that goes on with it, which is taken where `begun` is there. It is finished once
    `finished` is there and `begun`, if that is removed at the end, is not."""

    name: str
    begin: list[str]
    go_on: list[str]
    begun: Path
    finished: Path
    is_begun_removed: bool = False

    def is_finished(self) -> bool:
        return self.finished.exists() and not (self.is_begun_removed and self.begun.exists())

    def run(self) -> None:
        """Hands a signal on to the command, so that it can save. Raises ChildProcessError if it fails."""
        # Not in our group of processes: Ctrl-C in a terminal would come twice.
        command = self.go_on if self.begun.exists() else self.begin
        stopped: Interrupted | None = None
        with subprocess.Popen(command, start_new_session=True) as process:
            while process.poll() is None:
                try:
                    process.wait()
                except Interrupted as signal:  # a second one, too: the command then ends at once
                    stopped = signal
                    process.send_signal(signal.number)
        if stopped is not None:
            raise stopped
        if process.returncode:
            raise ChildProcessError(f"{self.name} has failed: once that is mended, the same command goes on from there")


def _training(folder: Path, arguments: list[str]) -> Stage:
    """A run in a folder, whose settings are checked now and not hours later."""
    prepared = [argument for argument in prepare(arguments, CONFIGS) if is_override(argument)]
    settings = run_settings(as_dict(hydra.compose("train", prepared), complete=False))
    run = read_run_settings(settings)
    check_settings(run, read_model(settings["model"]))
    check_trainer(choose_precision(settings["trainer"]))
    finished = folder / ("README.md" if run.test else MODELS[0])  # what a run writes at the end
    begin, go_on = _command("train", *arguments, f"hydra.run.dir={folder}"), _command("train", f"resume={folder}")
    return Stage(folder.name, begin, go_on, begun=folder / MODELS[-1], finished=finished)


def _augmentation(name: str, run: Path, prefix: Path, more: list[str]) -> Stage:
    begin = _command("augment", f"checkpoint={run}", f"output={prefix}", *more)
    begun, finished = (prefix.with_name(f"{prefix.name}.{end}") for end in ("partial.json", ORIGIN))
    return Stage(name, begin, [*begin, "resume=true"], begun, finished, is_begun_removed=True)


def _command(script: str, *arguments: str) -> list[str]:
    return [sys.executable, str(PROJECT / "scripts" / f"{script}.py"), *arguments]


def back_translation(config: dict[str, Any], typed: Sequence[str]) -> list[Stage]:
    """The stages of a back-translation with these settings. Raises ValueError for settings that a run cannot have.

    Each direction has its own reverse run, which translates the text in the target language; with `folds` it has one
    for each part of the training pairs, which translates the part that it has not seen. With several directions the
    synthetic pairs of de-en are PREFIX.de-en.de and PREFIX.de-en.en, so they are of no other direction. With
    `init_from` a model that has learned all directions takes the place of the reverse runs, and `forward` goes on from
    it (iterated back-translation, Hoang et al. 2018).
    """
    folder = Path(config["output"]).absolute()
    data = read_run_settings(run_settings(config)).data
    more = {stage: shlex.split(config[stage]) for stage in STAGES}
    common = [argument for argument in typed if is_override(argument) and split(argument)[1] not in PIPELINE_KEYS]
    folds = _read_folds(config["folds"], typed)
    texts = {} if folds else monolingual_texts(data, config["input"])
    before = Path(config["init_from"]).absolute() if config["init_from"] else None
    if folds and before:
        raise UsageError("folds= needs runs that have not seen a part of the pairs, and init_from= has: leave it out")
    # Of each part of the training pairs, or of the text, what is in the names of its files.
    parts = {part: f".fold{part}" for part in range(1, folds + 1)} if folds else {0: ""}
    stages = []
    for (part, fold), (source, target) in product(parts.items(), data.all_directions):
        # Nothing tells the files of a single direction apart from those of another.
        reverse, pairs = (f".{target}-{source}", f".{source}-{target}") if len(data.all_directions) > 1 else ("", "")
        written = folder / f"synthetic{fold}{pairs}"
        given = ["fold=true"] if part else [f"input={texts[source, target]}", f"cache={config['cache']}"]
        if before:
            given += [f"source_language={target}", f"target_language={source}"]
            stages.append(_augmentation(f"augment{pairs}", before, written, [*given, *more["augment"]]))
            continue
        settings = [f"data.source_language={target}", f"data.target_language={source}", "data.directions=[]"]
        if any(is_table(path) for path in (data.pairs, *data.splits.values()) if path):
            columns = data.in_direction((target, source)).columns
            settings += [f"data.columns=[{','.join(map(str, columns))}]"] if columns else []
        if part:
            settings.append(f"data.fold=[{part},{folds}]")
        run = _training(folder / f"reverse{fold}{reverse}", [*common, *settings, *more["reverse"]])
        stages += [run, _augmentation(f"augment{fold}{pairs}", folder / run.name, written, [*given, *more["augment"]])]
    synthetic = ",".join(quote(f"{folder}/synthetic{fold}") for fold in parts.values())
    begin = [f"init_from={before}"] if before else []
    return [
        *stages,
        _training(folder / "forward", [*common, *begin, f"data.synthetic=[{synthetic}]", *more["forward"]]),
        _training(folder / "final", [*common, f"init_from={folder / 'forward'}", *more["finetune"]]),
    ]


def _read_folds(folds: Any, typed: Sequence[str]) -> int:
    """Into how many parts the training pairs are cut to be translated; 0: a text is translated."""
    if folds is None:
        return 0
    if type(folds) is not int or not 2 <= folds <= 100:
        raise UsageError(f"folds={folds} must be a number from 2 to 100: into so many parts the training pairs are cut")
    if any(split(argument)[1] == "input" for argument in typed if is_override(argument)):
        raise UsageError("folds= translates the training pairs, input= a text: leave one of them out")
    return folds


def monolingual_texts(data: DataSettings, text: str | None) -> dict[Direction, Path]:
    """For each direction the text in its target language: `text` itself, where there is one direction, or
    PREFIX.LANGUAGE; without `text`, what the corpus has in its folder."""
    if text is None and data.directory is None:
        raise UsageError("input is not set: give input=FILE, text in the target language, or folds=3 for the pairs")
    path = Path(text or f"{data.directory}/monolingual").absolute()
    if len(data.all_directions) == 1 and path.exists():
        return {data.languages: path}
    return {direction: path.with_name(f"{path.name}.{direction[1]}") for direction in data.all_directions}


def check_texts(data: DataSettings, given: str | None) -> None:
    """Read the texts to be translated. UsageError for one that is not there or has no lines."""
    for text in monolingual_texts(data, given).values():
        if count_lines(str(text)):
            continue
        if text.exists():
            raise UsageError(f"{as_typed(text)} is empty: it must have a sentence a line")
        if given is None:
            raise UsageError(f"input is not set, and the corpus has no {text}: give input=FILE")
        raise UsageError(f"input={given} must be a file, or the PREFIX of {text.name}: none of both is there")


def run_stages(stages: Sequence[Stage], folder: Path) -> None:
    """Runs what is not finished. UsageError where the folder was begun by another command."""
    command = json.dumps([stage.begin for stage in stages], indent=1, ensure_ascii=False).encode()
    kept = folder / COMMAND
    has_begun = any(stage.begun.exists() or stage.finished.exists() for stage in stages)
    if has_begun and kept.exists() and kept.read_bytes() != command:
        raise UsageError(f"{as_typed(kept)} was begun with other settings: repeat these, or give another output=FOLDER")
    atomic_write(kept, command)
    for stage in stages:
        if stage.is_finished():
            say(f"{stage.name}: finished before")
            continue
        say(f"{stage.name} …")
        try:
            stage.run()
        except Interrupted as stopped:
            stopped.advice = "the same command goes on from here"
            raise
