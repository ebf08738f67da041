"""Exports a translator: `python scripts/export.py format=ctranslate2 [checkpoint=RUN] output=FOLDER`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.export.formats import ExportSettings

Job = tuple["ExportSettings", Path, tuple[str | None, str | None]]


def read(config: dict[str, Any]) -> Job:
    from transformer.cli.checkpoints import announce_checkpoint, find_checkpoint
    from transformer.cli.places import check_can_be_written, check_output_file
    from transformer.config import UsageError, from_part
    from transformer.data.printable import say, shell_path

    if config["output"] is None:
        raise UsageError(
            "output is not set: give output=FOLDER, for format=page FILE.html, for safetensors FILE.safetensors"
        )
    checkpoint = find_checkpoint(config["checkpoint"], Path(config["runs"]))
    from transformer.export.formats import ExportSettings

    settings = from_part(ExportSettings, config)
    if settings.format == "safetensors":
        check_output_file(settings.output, [".safetensors"])
    check_can_be_written(Path(settings.output), "output")
    if Path(settings.output).resolve() == checkpoint.resolve():
        raise UsageError(f"output={settings.output} is the model to export, which must stay as it is: name another")
    announce_checkpoint(config, checkpoint)
    if Path(settings.output).exists():
        say(f"{shell_path(Path(settings.output))} is there already: it will be replaced")
    return settings, checkpoint, (config["source_language"], config["target_language"])


def export_translator(job: Job) -> None:
    from transformer import Translator
    from transformer.cli.checkpoints import model_name, read_card
    from transformer.data.printable import print_safely, say, script_command, shell_path
    from transformer.export.formats import NEXT_STEP, export

    settings, checkpoint, (source_language, target_language) = job
    translator = Translator.load(checkpoint, source_language=source_language, target_language=target_language)
    export(translator, settings, model_name(checkpoint), read_card(checkpoint))
    print_safely(str(Path(settings.output).absolute()))
    step = NEXT_STEP[settings.format].format(shell_path(Path(settings.output)), translate=script_command("translate"))
    say(f"next: {step}")


if __name__ == "__main__":
    launch(read, export_translator, config_name="export")
