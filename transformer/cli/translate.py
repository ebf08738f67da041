"""`translator translate`: translates a text, a file or stdin, with one translation on each line."""

import os
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, Any

from transformer.cli.app import (
    AlignmentFlags,
    ChoiceFlags,
    Flags,
    InferenceFlags,
    KeepFlags,
    MachineFlags,
    SearchFlags,
)
from transformer.cli.lines import Format, as_json, as_lines, chunk_size, chunks, count_lines, input_lines, is_prompt
from transformer.cli.models import announce_checkpoint, find_checkpoints, with_reverse
from transformer.cli.output import open_output
from transformer.cli.places import check_output_file
from transformer.config import PATH, SettingError, Settings, UsageError, setting
from transformer.files import atomic_file, is_written_through
from transformer.inference.settings import (
    AlignmentSettings,
    ChoiceSettings,
    InferenceSettings,
    KeepSettings,
    SearchSettings,
    SplitLines,
    TranslatorSettings,
)
from transformer.machine import MachineSettings


@dataclass(frozen=True)
class TranslateSettings(Settings):
    """The model, the text to translate, and the output."""

    checkpoint: list[str] = setting([])
    """a run's folder, .safetensors or .ckpt, a Hugging Face folder, or an export to ctranslate2; given several times,
    an ensemble of models with one vocabulary; by default the newest finished run in runs/"""
    input: Annotated[str, PATH] | None = None
    """a file with one sentence on each line; by default stdin"""
    output: Annotated[str, PATH] | None = None
    """a file for the translations; by default stdout"""
    resume: bool = False
    """continue the --output of a command that was stopped"""
    alignments: Annotated[str, PATH] | None = None
    """a file for word alignments, with a line "0-0 2-1 …" for each sentence: source word - target word, counted from 0
    (the format of Moses)"""
    n_best: Annotated[int, ">= 1", "<= 1000"] = 1
    """more than 1: up to n translations of each line, in the form "line number, tab, score, tab, confidence, tab, text"
    """
    format: Format = "text"
    """text | json: an object for each line, with its line number, source and translations (text, score,
    log_probability, confidence, is_cut, and words with confidence and source word)"""
    split_lines: SplitLines = "long"
    """which lines are translated sentence by sentence: long (those with more tokens than the model allows) | sentences
    (all) | never (a line that is too long ends the command)"""
    source: str | None = None
    """the language of the text; with --target it chooses one of several directions of a model"""
    target: str | None = None
    """the language to translate into"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alignments and self.split_lines == "sentences":
            raise SettingError("alignments", " are for whole lines: leave out --split-lines sentences")
        if self.alignments and self.resume:
            raise SettingError("resume", " continues only the translations: leave out --alignments")
        named = {"input": self.input, "output": self.output, "alignments": self.alignments}
        files = {key: path for key, path in named.items() if path and not is_written_through(Path(path))}
        for (key, path), (other, other_path) in combinations(files.items(), 2):
            if os.path.realpath(path) == os.path.realpath(other_path):
                raise SettingError(key, f" and --{other} are the same file, {path}: give two files")


def check_n_best(n_best: int, search: SearchSettings, choice: ChoiceSettings) -> None:
    """Raises UsageError for more translations of a line than the search finds."""
    if search.method == "beam":
        found, remedy = search.beam, f"--beam {n_best}"
    else:
        found = choice.draws(search)
        remedy = f"--samples {n_best}" if found > 1 else "--method beam"
    if n_best > found:
        raise UsageError(f"--n-best {n_best}: this search finds {found} for a line; give {remedy}")


def translate(
    text: str | None = None,
    /,
    *,
    settings: Flags[TranslateSettings] = TranslateSettings(),
    search: SearchFlags = SearchSettings(),
    keep: KeepFlags = KeepSettings(),
    choice: ChoiceFlags = ChoiceSettings(),
    alignment: AlignmentFlags = AlignmentSettings(),
    inference: InferenceFlags = InferenceSettings(),
    machine: MachineFlags = MachineSettings(),
) -> None:
    """Translates a text, a file or stdin, one line after another.

    Parameters
    ----------
    text
        a sentence; after -- it may begin with a dash
    """
    if text is not None and settings.input:
        raise UsageError("give a text or --input, not both")
    choice = with_reverse(choice)
    choice.check(search)
    check_n_best(settings.n_best, search, choice)
    for key in ("output", "alignments"):
        check_output_file(getattr(settings, key), key=f"--{key}")
    checkpoints, total = find_checkpoints(settings.checkpoint), count_lines(settings.input)
    decides: dict[str, Any] = {"search": asdict(search), "keep": asdict(keep), "choice": asdict(choice)}
    decides |= {"inference": asdict(inference), "machine": asdict(machine)}
    decides |= {key: getattr(settings, key) for key in ("n_best", "format", "split_lines", "source", "target")}
    opened = open_output(settings.output, decides, [*checkpoints, *choice.models], settings.resume)
    if opened.is_finished():
        return
    announce_checkpoint(next(iter(settings.checkpoint), None), checkpoints[0])
    lines = input_lines(text, settings.input)
    if text is not None and machine.threads is None:
        machine = replace(machine, threads=1)  # with so little work, two threads only wait for each other

    from transformer.inference.alignment_head import asked_head
    from transformer.inference.confidence import can_align, with_words
    from transformer.inference.loading import load_chooser, load_translator
    from transformer.inference.word_alignment import moses_lines

    with opened as output, atomic_file(Path(settings.alignments)) if settings.alignments else nullcontext() as aligned:
        output.skip(lines)
        used = TranslatorSettings(settings.source, settings.target, search, machine, inference, keep)
        translator = load_translator(checkpoints, used)
        translator.lines_of = settings.input or ""
        chooser = load_chooser(translator, choice, inference)
        if aligned and translator.model.output.weight.is_meta:
            raise UsageError("--alignments needs a checkpoint: the engine of an export shows no attention weights")
        translator.greedy_scores = as_objects = settings.format == "json"
        aligns = aligned or (as_objects and can_align(translator))
        head = asked_head(alignment, translator.model.config, translator.alignment) if aligns else None
        batch_tokens = inference.batch_tokens or translator.default_batch_tokens
        size = 1 if is_prompt(text, settings.input) else chunk_size(total, batch_tokens)
        for numbers, chunk in chunks(lines, size, output.lines, total):
            n_best = chooser.n_best(chunk, search, batch_tokens, settings.split_lines, numbers)
            if aligned and head:
                best = [hypotheses[0] for hypotheses in n_best]
                aligned.write("".join(moses_lines(translator, chunk, best, head, batch_tokens, numbers)).encode())
            shown = [hypotheses[: settings.n_best] for hypotheses in n_best]
            if as_objects:
                texts = [text for text, hypotheses in zip(chunk, shown, strict=True) for _ in hypotheses]
                worded = iter(with_words(translator, texts, [*chain(*shown)], head, batch_tokens))
                shown = [[next(worded) for _ in hypotheses] for hypotheses in shown]
                written = as_json(zip(numbers, chunk, shown, strict=True), output.is_terminal)
            else:
                written = as_lines(zip(numbers, chunk, shown, strict=True), settings.n_best > 1, output.is_terminal)
            output.write(chunk, "".join(written))
