"""The stages of back-translation: which scripts run with which settings, all checked before the first begins."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException

from transformer.cli import CONFIGS, PROJECT
from transformer.cli.arguments import STAGES, is_override, is_sweep, prepare, quote, split_override
from transformer.cli.compose import as_dict
from transformer.cli.hydra_errors import explain_error
from transformer.cli.lines import count_lines
from transformer.cli.pipeline import Stage
from transformer.cli.settings import augment_settings, run_settings
from transformer.config import UsageError, from_dict, shown
from transformer.data.corpus import SPLITS, DataSettings
from transformer.data.directions import Direction, arrow, choose_direction
from transformer.data.printable import print_safely, shell_path
from transformer.data.splitting import with_splits
from transformer.data.synthetic import ORIGIN
from transformer.data.text_files import is_table
from transformer.doctor.augment import AugmentSettings, looks_translated
from transformer.evaluation import METRICS
from transformer.files import CARD, MODELS, RESULTS, read_json
from transformer.inference.checkpoint import load
from transformer.model.config import read_model
from transformer.training.config import RunSettings, check_settings, read_run_settings

# Settings of back_translate.py itself.
PIPELINE_KEYS = ("input", "folds", "output", "init_from", *STAGES)


def _compose(script: str, arguments: list[str]) -> dict[str, Any]:
    """The settings that a stage's script will have; UsageError for what it does not know."""
    prepared = [argument for argument in prepare(arguments, CONFIGS) if is_override(argument)]
    try:
        return as_dict(hydra.compose(script, prepared), complete=False)
    except HydraException as error:
        GlobalHydra.instance().clear()  # explaining composes all settings once more
        raise UsageError(explain_error(error, prepared, script, CONFIGS)) from error


def _command(script: str, *arguments: str) -> list[str]:
    return [sys.executable, str(PROJECT / "scripts" / f"{script}.py"), *arguments]


def _training(folder: Path, arguments: list[str]) -> tuple[Stage, RunSettings]:
    """A run in a folder, whose settings are checked now and not hours later."""
    from transformer.training.checks import check_trainer

    settings = run_settings(_compose("train", arguments))
    run = read_run_settings(settings)
    check_settings(run, read_model(settings["model"]))
    check_trainer(run.trainer)
    begin, resume = _command("train", *arguments, f"hydra.run.dir={folder}"), _command("train", f"resume={folder}")
    files = [folder / file for file in (MODELS[0], *((RESULTS, CARD) if run.test else ()))]  # written at the end
    return Stage(folder.name, begin, resume, folder / MODELS[-1], files), run


def _augmentation(name: str, run: Path, prefix: Path, languages: Direction, more: list[str]) -> Stage:
    """Pairs of these languages by a run; the settings are checked now."""
    arguments = [f"checkpoint={run}", *more, f"output={prefix}"]
    from_dict(AugmentSettings, augment_settings(_compose("augment", arguments)), "")
    begin = _command("augment", *arguments)
    # No stage needs the file with what was dropped, and the partial file is the first one that goes at the end.
    begun, *files = (prefix.with_name(f"{prefix.name}.{end}") for end in ("partial", ORIGIN, *languages))
    return Stage(name, begin, [*begin, "resume=true"], begun, files, is_started_removed=True)


def check_typed(typed: Sequence[str]) -> None:
    """Raises UsageError for a sweep, and for settings that are right for one run alone."""
    if is_sweep(typed):
        raise UsageError("-m: this script runs no sweep: give one command for each value, with its own output=FOLDER")
    for _, key, value in map(split_override, filter(is_override, typed)):
        if key == "hydra.run.dir":
            raise UsageError(f"{key}={value}: each stage has a folder of its own in output=FOLDER: leave this out")
        if key in ("data.synthetic_ratio", "data.synthetic_tag") and value.lower() not in ("null", "false"):
            raise UsageError(f'{key}= is for the run on synthetic pairs alone: write forward="{key}={value}"')


def _read_folds(folds: Any, typed: Sequence[str]) -> int:
    """Into how many parts the training pairs are cut to be translated; 0: a text is translated."""
    if folds is None:
        return 0
    if type(folds) is not int or not 2 <= folds <= 100:
        raise UsageError(
            f"folds={shown(folds)} must be a number from 2 to 100: into so many parts the training pairs are cut"
        )
    if any(split_override(argument)[1] == "input" for argument in typed if is_override(argument)):
        raise UsageError("folds= translates the training pairs, input= a text: leave one of them out")
    return folds


# What a stage's settings cannot decide, as the stages find each other's files by them.
NOT_OF_A_STAGE = ("output", "resume", "hydra.run.dir")


def _stage_settings(stage: str, text: str) -> list[str]:
    """The settings that reverse=, augment=, forward= or finetune= holds."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        fault = "a quote in it is not closed" if "quotation" in str(error) else "it ends in a backslash"
        raise UsageError(f"{stage}={text}: {fault}") from error
    for word in words:
        if not is_override(word):
            raise UsageError(f'{stage}={text}: {word} is no setting: write {stage}="KEY=VALUE KEY=VALUE"')
        if (key := split_override(word)[1]) in NOT_OF_A_STAGE:
            raise UsageError(f"{stage}={text}: {key} is decided by this script: leave it out")
    return words


def _own_configs() -> list[str]:
    """--config-dir=FOLDER, in whatever form it was typed, for the commands of the stages."""
    sources = HydraConfig.get().runtime.config_sources if HydraConfig.initialized() else []
    return [f"--config-dir={source.path}" for source in sources if source.provider == "command-line"]


def monolingual_texts(data: DataSettings, text: str | None) -> dict[Direction, Path]:
    """For each direction the text in its target language: `text` itself, where there is one direction, or
    PREFIX.LANGUAGE; without `text`, what the corpus has in its folder."""
    if text is None and data.directory is None:
        raise UsageError("input is not set: give input=FILE, text in the target language, or folds=3 for the pairs")
    path = Path(text or f"{data.directory}/monolingual").absolute()
    if len(data.all_directions) == 1 and path.exists():
        return {data.languages: path}
    return {direction: path.with_name(f"{path.name}.{direction[1]}") for direction in data.all_directions}


def _corpus_arguments(data: DataSettings, more: Sequence[str]) -> list[str]:
    """The corpus of the run that will check the pairs, for augment.py: a model of one direction knows only the
    validation and test of that. Nothing, if the settings of the stage name a corpus of their own."""
    if any(split_override(word)[1] == "data" for word in more):
        return []
    files = {key: getattr(data, key) for key in ("pairs", *SPLITS, "cache")}
    files |= {f"extra_tests.{name}": path for name, path in data.extra_tests.items()}
    lists = {key: getattr(data, key) for key in ("directions", "split", "columns", "fold")}
    plain = {key: getattr(data, key) for key in ("source_language", "target_language", "max_length")}
    plain |= {key: f"[{','.join(map(str, values))}]" for key, values in lists.items() if values}
    plain |= {key: path for key, path in files.items() if path}
    return ["data=files", *(f"data.{key}={value}" for key, value in plain.items())]


def _reversed_corpus(data: DataSettings, direction: Direction) -> list[str]:
    """The settings of the corpus for the run of the other direction."""
    settings = [f"data.source_language={direction[0]}", f"data.target_language={direction[1]}", "data.directions=[]"]
    if data.whole and len(data.all_languages) > 2:
        # How a corpus is cut depends on all its languages: cut by two of them, train would have some of the test.
        data = with_splits(replace(data, fold=None))
        settings += ["data.pairs=null", *(f"data.{name}={data.splits[name]}" for name in SPLITS)]
    if any(is_table(path) for path in (data.pairs, *data.splits.values()) if path):
        columns = data.in_direction(direction).columns
        settings += [f"data.columns=[{','.join(map(str, columns))}]"] if columns else []
    return settings


def back_translation(config: dict[str, Any], data: DataSettings, typed: Sequence[str]) -> list[Stage]:
    """The stages of a back-translation with these settings, of which `data` are the corpus'. Raises ValueError for
    settings that a run cannot have.

    Each direction has its own reverse run, which translates the text in the target language; with `folds` it has one
    for each part of the training pairs, which translates the part that it has not seen. With several directions the
    synthetic pairs of de-en are PREFIX.de-en.de and PREFIX.de-en.en, so they are of no other direction. With
    `init_from` a model that has learned all directions takes the place of the reverse runs, and `forward` goes on from
    it (iterated back-translation, Hoang et al. 2018).
    """
    folder = Path(config["output"]).absolute()
    if "${" in str(folder):  # Hydra would look for a setting of this name in the paths of its own
        raise UsageError(f"output={config['output']}: the folder of runs has no ${{ in its name: give another")
    folds = _read_folds(config["folds"], typed)
    # Of each part of the training pairs, or of the text, what is in the names of its files.
    parts = {part: f".fold{part}" for part in range(1, folds + 1)} if folds else {0: ""}
    if config["data"]["synthetic"]:
        own = ",".join(f"{config['output']}/synthetic{fold}" for fold in parts.values())
        raise UsageError(
            f'data.synthetic= is for one run alone: write forward="data.synthetic=[{own},MORE]", which names the pairs '
            "of this command too (and data.synthetic=[], if an experiment sets it)"
        )
    more = {stage: _stage_settings(stage, config[stage]) for stage in STAGES}
    common = [
        argument for argument in typed if is_override(argument) and split_override(argument)[1] not in PIPELINE_KEYS
    ]
    common += (own_configs := _own_configs())
    texts = {} if folds else monolingual_texts(data, config["input"])
    before = Path(config["init_from"]).absolute() if config["init_from"] else None
    synthetic = ",".join(quote(f"{folder}/synthetic{fold}") for fold in parts.values())
    begin = [f"init_from={before}"] if before else []
    forward, forward_run = _training(
        folder / "forward", [*common, *begin, f"data.synthetic=[{synthetic}]", *more["forward"]]
    )
    final, _ = _training(folder / "final", [*common, f"init_from={folder / 'forward'}", *more["finetune"]])
    corpus = _corpus_arguments(forward_run.data, more["augment"])
    stages = []
    for (part, fold), (source, target) in product(parts.items(), data.all_directions):
        # Nothing tells the files of a single direction apart from those of another.
        reverse, pairs = (f".{target}-{source}", f".{source}-{target}") if len(data.all_directions) > 1 else ("", "")
        given = ["fold=true"] if part else [f"input={texts[source, target]}"]
        given += [*corpus, f"cache={config['cache']}", *own_configs]
        translator = before or folder / f"reverse{fold}{reverse}"
        if before:
            given += [f"source_language={target}", f"target_language={source}"]
        else:
            settings = _reversed_corpus(data, (target, source))
            settings += [f"data.fold=[{part},{folds}]"] if part else []
            stage, reverse_run = _training(translator, [*common, *settings, *more["reverse"]])
            stages.append(stage)
        if part and (before or reverse_run.init_from):
            raise UsageError(
                "folds= needs runs that have not seen a part of the pairs, and init_from= has: leave it out"
            )
        written, given = folder / f"synthetic{fold}{pairs}", [*given, *more["augment"]]
        stages.append(_augmentation(f"augment{fold}{pairs}", translator, written, (target, source), given))
    return [*stages, forward, final]


def check_texts(data: DataSettings, given: str | None) -> None:
    """Read the texts to be translated. UsageError for one that is missing, has no lines or is in the wrong language."""
    for (source, target), text in monolingual_texts(data, given).items():
        if count_lines(str(text)):
            if found := looks_translated(text, (target, source)):
                raise UsageError(
                    f"{shell_path(text)} looks like {found}, but it is to be text in the target language, {target}"
                )
            continue
        if text.exists():
            raise UsageError(f"{shell_path(text)} is empty: it must have a sentence a line")
        if given is None:
            raise UsageError(f"input is not set, and the corpus has no {text}: give input=FILE")
        if len(data.all_directions) > 1:
            raise UsageError(
                f"input={given}: there is no {text.name}; with several data.directions input= is a PREFIX, and "
                "PREFIX.LANGUAGE the text in each target language"
            )
        raise UsageError(f"input={given} must be a file, or the PREFIX of {text.name}: there is neither")


def check_translator(init_from: str, data: DataSettings) -> None:
    """UsageError for a model in place of the reverse runs that cannot translate all texts."""
    learned = load(Path(init_from)).directions
    for source, target in data.all_directions:
        try:
            choose_direction(learned, target, source)
        except ValueError as error:
            raise UsageError(
                f"init_from={init_from} is to translate {arrow((target, source))}: {error}; without init_from= each "
                "direction has a reverse run"
            ) from error


def show_final_scores(folder: Path, data: DataSettings) -> None:
    """Print the test scores of the runs that learned from synthetic pairs."""
    tests = [name for name, (_, split) in data.all_splits.items() if split == "test"]
    for run in ("forward", "final"):
        results = folder / run / RESULTS  # with the metrics of this run; a run with test=false has none
        scores = read_json(results) if results.exists() else {}
        for name in filter(scores.get, tests):
            found = {METRICS[key].label: value for key, value in scores[name].items() if key in METRICS}
            print_safely(f"{run}, {name}: {'   '.join(f'{label} {value:.1f}' for label, value in found.items())}")
