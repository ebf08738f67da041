"""Translates: `python scripts/translate.py [checkpoint=RUN] [text=… | input=FILE output=FILE]`, or stdin to stdout."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.export.serving import TranslateSettings

CHUNK = 256  # lines translated together: enough to fill batches, few enough that a pipe sees its output soon


def read(config: dict[str, Any]) -> tuple[TranslateSettings, Path]:
    from transformer.cli.runs import check_output, find_checkpoint
    from transformer.config import UsageError, from_dict

    if config["input"] is not None and not Path(config["input"]).exists():
        raise UsageError(f"input={config['input']}: no such file")
    if config["output"] is not None:
        check_output(config["output"], folder=False)
    checkpoint = find_checkpoint(config["checkpoint"], Path(config["runs"]), exports=True)
    from transformer.export.serving import TranslateSettings

    serving = {key: config[key] for key in ("device", "precision", "batch_tokens")}
    rest = {key: value for key, value in config.items() if key not in (*serving, "runs", "debug", "checkpoint")}
    return from_dict(TranslateSettings, rest | {"serving": serving}, ""), checkpoint


def translate(job: tuple[TranslateSettings, Path]) -> None:
    from transformer.cli.lines import input_lines, output_file
    from transformer.data.printable import terminal_safe
    from transformer.export.serving import load_translator

    settings, checkpoint = job
    translator = load_translator(checkpoint, settings)
    is_prompt = settings.text is None and settings.input is None and sys.stdin is not None and sys.stdin.isatty()
    done = 0
    with output_file(settings.output) as output:
        lines = input_lines(settings.text, settings.input)
        while chunk := list(islice(lines, 1 if is_prompt else CHUNK)):
            numbers = range(done + 1, done + 1 + len(chunk))
            n_best = translator.n_best(
                chunk, settings.search, settings.serving.batch_tokens, settings.long_lines, numbers
            )
            for number, hypotheses in zip(numbers, n_best, strict=True):
                for hypothesis in hypotheses[: settings.n_best]:
                    columns = f"{number}\t{hypothesis.score:.4f}\t" if settings.n_best > 1 else ""
                    output.write(f"{columns}{terminal_safe(hypothesis.text)}\n")
            output.flush()
            done += len(chunk)


if __name__ == "__main__":
    launch(read, translate, config_name="translate")
