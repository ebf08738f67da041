"""Translates: `python scripts/translate.py [checkpoint=RUN] [text=… | input=FILE output=FILE]`, or stdin to stdout."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.cli.output import Output
    from transformer.inference.settings import TranslateSettings

Job = tuple["TranslateSettings", list[Path], "Output", int | None]


def read(config: dict[str, Any]) -> Job:
    from transformer.cli.checkpoints import announce_checkpoint, find_checkpoints
    from transformer.cli.lines import count_lines
    from transformer.cli.output import open_output
    from transformer.cli.settings import translate_settings
    from transformer.config import from_dict

    values = translate_settings(config)
    checkpoints = find_checkpoints(config["checkpoint"], Path(config["runs"]))
    from transformer.inference.settings import TranslateSettings

    settings = from_dict(TranslateSettings, values, "")
    made_by = settings.deciding(), [*checkpoints, *settings.choose.models]
    total, output = count_lines(config["input"]), open_output(config["output"], *made_by, settings.resume)
    announce_checkpoint(config, checkpoints[0])
    return settings, checkpoints, output, total


def translate(job: Job) -> None:
    from transformer.cli.lines import as_lines, chunk_size, chunks, input_lines, is_prompt
    from transformer.export.load import load_chooser, load_translator
    from transformer.files import atomic_file
    from transformer.inference.alignment import moses_lines

    settings, checkpoints, output, total = job
    lines = input_lines(settings.text, settings.input)
    with output, atomic_file(Path(settings.alignments)) if settings.alignments else nullcontext() as alignments:
        output.skip(lines)
        translator = load_translator(checkpoints, settings)
        chooser = load_chooser(translator, settings)
        head = settings.alignment.head_of(translator) if alignments else None
        batch_tokens = settings.inference.batch_tokens or translator.default_batch_tokens
        size = 1 if is_prompt(settings.text, settings.input) else chunk_size(total, batch_tokens)
        for numbers, chunk in chunks(lines, size, output.lines, total):
            n_best = chooser.n_best(chunk, settings.search, batch_tokens, settings.split_lines, numbers)
            if alignments and head:
                best = [hypotheses[0] for hypotheses in n_best]
                alignments.write("".join(moses_lines(translator, chunk, best, head, batch_tokens, numbers)).encode())
            output.write(chunk, "".join(as_lines(numbers, n_best, settings.n_best, output.is_terminal)))


if __name__ == "__main__":
    launch(read, translate, config_name="translate")
