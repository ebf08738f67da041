"""Translates: `python scripts/translate.py [checkpoint=RUN] [text=… | input=FILE output=FILE]`, or stdin to stdout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.cli.output import Output
    from transformer.export.serving import TranslateSettings

Job = tuple["TranslateSettings", list[Path], "Output", int | None]


def read(config: dict[str, Any]) -> Job:
    from transformer.cli.lines import count_lines
    from transformer.cli.output import open_output
    from transformer.cli.runs import check_output, find_checkpoints, find_reverse, say_which
    from transformer.config import UsageError, from_dict

    if config["input"] is not None and not Path(config["input"]).exists():
        raise UsageError(f"input={config['input']}: no such file")
    if config["output"] is not None:
        check_output(config["output"], folder=False)
    if config["alignments"] is not None:
        check_output(config["alignments"], folder=False)
    checkpoints = find_checkpoints(config["checkpoint"], Path(config["runs"]))
    from transformer.export.serving import TranslateSettings

    choose = find_reverse(config)
    serving = {key: config[key] for key in ("device", "precision", "batch_tokens")}
    rest = {key: value for key, value in config.items() if key not in (*serving, "runs", "debug", "checkpoint")}
    rest["resume"] = {"true": True, "false": False}.get(config["resume"], config["resume"])  # it arrives as text
    settings = from_dict(TranslateSettings, rest | {"serving": serving, "choose": choose}, "")
    total = count_lines(config["input"])
    reverse = [Path(settings.choose.reverse)] if settings.choose.reverse else []
    output = open_output(config["output"], settings.deciding(), [*checkpoints, *reverse], settings.resume)
    say_which(config, checkpoints[0])
    return settings, checkpoints, output, total


def translate(job: Job) -> None:
    from transformer.cli.lines import as_lines, chunks, input_lines, is_prompt
    from transformer.evaluation.choosing import Chooser
    from transformer.export.serving import load_translator
    from transformer.files import atomic_write
    from transformer.inference.alignment import moses_lines

    settings, checkpoints, output, total = job
    lines = input_lines(settings.text, settings.input)
    with output:
        output.skip(lines)
        translator = load_translator(checkpoints, settings)
        chooser = Chooser.load(translator, settings.choose, settings.serving)
        head, alignments = settings.alignment.head_of(translator) if settings.alignments else None, ""
        for chunk in chunks(lines, is_prompt(settings.text, settings.input), output.lines, total):
            numbers = range(output.lines + 1, output.lines + 1 + len(chunk))
            n_best = chooser.n_best(chunk, settings.search, settings.serving.batch_tokens, settings.long_lines, numbers)
            if head is not None:
                best = [hypotheses[0] for hypotheses in n_best]
                alignments += "".join(
                    moses_lines(translator, chunk, best, head, settings.serving.batch_tokens, numbers)
                )
            output.write(chunk, "".join(as_lines(numbers, n_best, settings.n_best)))
        if settings.alignments:
            atomic_write(Path(settings.alignments), alignments.encode())


if __name__ == "__main__":
    launch(read, translate, config_name="translate")
