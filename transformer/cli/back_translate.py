"""`translator back-translate`: plans the commands and their settings, and checks all before the first one begins."""

import shlex
import sys
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from transformer.cli.compose import (
    RUN_FOLDER,
    compose,
    config_folders,
    folder_override,
    main,
    typed_folder,
    typed_overrides,
)
from transformer.cli.lines import count_lines
from transformer.cli.pipeline import Stage, run_stages
from transformer.cli.runs import check_init_from
from transformer.cli.train import RUN_KEYS, of_command, of_run, read_run_settings
from transformer.config import PATH, SettingError, Settings, UsageError
from transformer.data.config import SPLITS, DataSettings
from transformer.data.directions import Direction, arrow, choose_direction
from transformer.data.splitting import with_splits
from transformer.data.synthetic import ORIGIN
from transformer.data.text_files import is_table
from transformer.evaluation.metrics import METRICS
from transformer.model.config import read_model
from transformer.printing import key_of, print_safely, quoted, shell_path
from transformer.run import Run
from transformer.training.config import RunSettings, check_settings
from transformer.training.sizing import choose


@dataclass(frozen=True, kw_only=True)
class Command(Settings):
    """The settings of this command in addition to those of train; configs/back_translate.yaml explains each."""

    input: Annotated[str, PATH] | None = None
    folds: Annotated[int, ">= 2", "<= 100"] | None = None
    output: Annotated[str, PATH] = "runs/back_translation"
    reverse: str = ""
    augment: str = ""
    forward: str = ""
    finetune: str = ""
    resume: None = None
    debug: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input and self.folds:
            raise SettingError("folds", " is for the training pairs, input for a text: leave one of them out")


def _command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "transformer", name, *arguments]


def _training(folder: Path, arguments: list[str]) -> tuple[Stage, RunSettings]:
    """A run in a folder; its settings are checked now, not hours later."""
    from transformer.training.checks import check_trainer

    settings, _ = choose(of_run(compose(*arguments)))  # each run chooses for its own corpus
    run = read_run_settings(settings)
    check_settings(run, read_model(settings["model"]))
    check_trainer(run.trainer)
    begin = _command("train", *config_folders(), *arguments, folder_override(folder))
    resume = _command("train", f"resume={quoted(str(folder))}")
    made = Run(folder)
    files = [made.translator, *((made.results, made.card) if run.test else ())]  # written at the end
    return Stage(folder.name, begin, resume, made.last, files), run


def _augmentation(name: str, run: Path, prefix: Path, languages: Direction, more: list[str]) -> Stage:
    """The augmentation of pairs in these languages by a run; the flags are checked now."""
    from transformer.cli.app import parse

    arguments = ["--checkpoint", str(run), *more, "--output", str(prefix)]
    parse(["augment", *arguments])
    begin = _command("augment", *arguments)
    # No stage needs the file of dropped lines, and the partial file is removed first at the end.
    begun, *files = (prefix.with_name(f"{prefix.name}.{end}") for end in ("partial", ORIGIN, *languages))
    return Stage(name, begin, [*begin, "--resume"], begun, files, is_started_removed=True)


def check_typed() -> None:
    """Raises UsageError for settings that are only for a single run."""
    if typed_folder():
        raise UsageError(f"{RUN_FOLDER}: each stage has its own folder in output=FOLDER: leave this out")
    for override in typed_overrides():
        key, value = key_of(override), override.partition("=")[2]
        if key == "resume":
            raise UsageError("resume: the same command continues after a stop: leave this out")
        if key in ("data.synthetic_ratio", "data.synthetic_tag") and value.lower() not in ("null", "false"):
            raise UsageError(f'{key}= is only for the run on synthetic pairs: write forward="{key}={value}"')


def _stage_settings(command: Command, stage: str) -> list[str]:
    """The settings in reverse=, augment=, forward= or finetune=."""
    text = getattr(command, stage)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{stage}={text}: {str(error).lower()}") from error
    # This command sets these, because the stages find each other's files by them.
    if decided := [word for word in words if key_of(word).lstrip("-") in ("output", "resume", RUN_FOLDER)]:
        raise UsageError(f"{stage}={text}: {decided[0]} is set by this command: leave it out")
    return words


def monolingual_texts(data: DataSettings, text: str | None) -> dict[Direction, Path]:
    """For each direction the text in its target language: `text` itself if there is one direction, or PREFIX.LANGUAGE;
    without `text`, the files in the folder of the corpus."""
    if text is None and data.directory is None:
        raise UsageError("input is not set: give input=FILE, text in the target language, or folds=3 for the pairs")
    path = Path(text or f"{data.directory}/monolingual").absolute()
    if len(data.all_directions) == 1 and path.exists():
        return {data.languages: path}
    return {direction: path.with_name(f"{path.name}.{direction[1]}") for direction in data.all_directions}


def _reversed_corpus(data: DataSettings, direction: Direction) -> list[str]:
    """The settings of the corpus for the run of the other direction."""
    settings = [f"data.source_language={direction[0]}", f"data.target_language={direction[1]}", "data.directions=[]"]
    if data.whole and len(data.all_languages) > 2:
        # The splits of a corpus depend on all its languages: with only two of them, train would have test sentences.
        data = with_splits(replace(data, fold=None))
        settings += ["data.pairs=null", *(f"data.{name}={quoted(str(data.splits[name]))}" for name in SPLITS)]
    if any(is_table(path) for path in (data.pairs, *data.splits.values()) if path):
        columns = data.in_direction(direction).columns
        settings += [f"data.columns=[{','.join(map(str, columns))}]"] if columns else []
    return settings


def plan_stages(command: Command, run: RunSettings) -> tuple[list[Stage], RunSettings]:
    """The stages of a back-translation with these settings of all runs, and the settings of the run on real and
    synthetic pairs. Raises ValueError for settings that a run cannot have.

    Each direction has its own reverse run, which translates the text in the target language; with `folds` it has one
    for each part of the training pairs, which translates the part that it has not seen. With several directions the
    synthetic pairs of de-en are PREFIX.de-en.de and PREFIX.de-en.en, so that no other direction uses them. With
    `init_from` a model that has learned all directions replaces the reverse runs, and `forward` begins with it
    (iterated back-translation, Hoang et al. 2018).
    """
    folder, folds, data = Path(command.output), command.folds, run.data
    if "${" in str(folder):  # Hydra would take this for the name of a setting
        raise UsageError(f"output={folder}: ${{ is not possible in the name of a folder: give another")
    # For each part of the training pairs, or for the text: the infix in the names of its files.
    parts = {part: f".fold{part}" for part in range(1, folds + 1)} if folds else {0: ""}
    synthetic = ",".join(quoted(f"{folder}/synthetic{fold}") for fold in parts.values())
    if data.synthetic:
        raise UsageError(
            f'data.synthetic= is only for one run: write forward="data.synthetic=[{synthetic},MORE]", which includes '
            "the pairs of this command (and data.synthetic=[], if an experiment sets it)"
        )
    more = {stage: _stage_settings(command, stage) for stage in ("reverse", "augment", "forward", "finetune")}
    own = {*Command.__dataclass_fields__, "init_from"}
    common = [override for override in typed_overrides() if key_of(override) not in own]
    texts = {} if folds else monolingual_texts(data, command.input)
    before = Path(run.init_from) if run.init_from else None
    begin = [f"init_from={quoted(str(before))}"] if before else []
    forward, forward_run = _training(
        folder / "forward", [*common, *begin, f"data.synthetic=[{synthetic}]", *more["forward"]]
    )
    final, _ = _training(folder / "final", [*common, f"init_from={quoted(str(folder / 'forward'))}", *more["finetune"]])
    stages = []
    for (part, fold), (source, target) in product(parts.items(), data.all_directions):
        # File names have the direction only if there are several.
        reverse, pairs = (f".{target}-{source}", f".{source}-{target}") if len(data.all_directions) > 1 else ("", "")
        given = ["--fold"] if part else ["--input", str(texts[source, target])]
        # The corpus of the run that will check the pairs: the corpus of a reverse run has only the tests of one
        # direction.
        given += ["--corpus", str(folder), "--cache", data.cache]
        translator = before or folder / f"reverse{fold}{reverse}"
        if before:
            given += ["--source", target, "--target", source]
        else:
            settings = _reversed_corpus(data, (target, source))
            settings += [f"data.fold=[{part},{folds}]"] if part else []
            stage, reverse_run = _training(translator, [*common, *settings, *more["reverse"]])
            stages.append(stage)
        if part and (before or reverse_run.init_from):
            raise UsageError(
                "folds= needs runs that have not seen a part of the pairs, but init_from= has seen all: leave it out"
            )
        written, given = folder / f"synthetic{fold}{pairs}", [*given, *more["augment"]]
        stages.append(_augmentation(f"augment{fold}{pairs}", translator, written, (target, source), given))
    return [*stages, forward, final], forward_run


def check_texts(data: DataSettings, given: str | None) -> None:
    """Reads the texts to translate. UsageError for one that is missing, has no lines or is in the wrong language."""
    from transformer.tools.augment.synthesis import looks_translated

    for (source, target), text in monolingual_texts(data, given).items():
        if text.exists() and count_lines(str(text)):
            if found := looks_translated(text, (target, source)):
                raise UsageError(
                    f"{shell_path(text)} looks like {found}, but it must be text in the target language, {target}"
                )
            continue
        if text.exists():
            raise UsageError(f"{shell_path(text)} is empty: it must have a sentence on each line")
        if given is None:
            raise UsageError(f"input is not set, and the corpus has no {text}: give input=FILE")
        if len(data.all_directions) > 1:
            raise UsageError(
                f"input={given}: there is no {text.name}; with several data.directions input= is a PREFIX, and "
                "PREFIX.LANGUAGE is the text in each target language"
            )
        raise UsageError(f"input={given} must be a file, or the PREFIX of {text.name}: there is neither")


def check_translator(init_from: str, data: DataSettings) -> None:
    """UsageError if the model that replaces the reverse runs cannot translate all texts."""
    from transformer.inference.model_file import load

    learned = load(Path(init_from)).directions
    for source, target in data.all_directions:
        try:
            choose_direction(learned, target, source)
        except ValueError as error:
            raise UsageError(
                f"init_from={init_from} must translate {arrow((target, source))}: {error}; without init_from= each "
                "direction has a reverse run"
            ) from error


def show_final_scores(folder: Path, data: DataSettings) -> None:
    """Prints the test scores of the runs that learned from synthetic pairs."""
    tests = [name for name, (_, split) in data.all_splits.items() if split == "test"]
    for run in ("forward", "final"):
        for name in tests:  # a run with test=false has no scores
            scores = Run(folder / run).scores(name)
            if found := {METRICS[key].label: value for key, value in scores.items() if key in METRICS}:
                print_safely(f"{run}, {name}: {'   '.join(f'{label} {value:.1f}' for label, value in found.items())}")


def back_translate(config: dict[str, Any]) -> None:
    """Trains with text that has no translation.

    Finished stages in the output folder are not repeated.
    """
    check_typed()
    command = of_command(config, Command)
    run = read_run_settings(choose({key: value for key, value in config.items() if key in RUN_KEYS})[0])
    check_init_from(run.init_from)
    if command.input:
        check_texts(run.data, command.input)
    stages, forward_run = plan_stages(command, run)
    run.data.fetch()
    if not command.input and not command.folds:
        check_texts(run.data, None)  # they come with the corpus
    if run.init_from:
        check_translator(run.init_from, run.data)
    folder = Path(command.output)
    run_stages(stages, folder, lambda: Run(folder).write_settings(asdict(forward_run)))
    show_final_scores(folder, run.data)


if __name__ == "__main__":
    main(back_translate, "back_translate", sweeps=False)
