"""Exports a translator: `python scripts/export.py format=ctranslate2 [checkpoint=RUN] output=FOLDER`."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from transformer import Translator
from transformer.cli.launch import find_checkpoint, launch
from transformer.config import from_dict
from transformer.export.formats import ExportSettings, export


def export_translator(config: DictConfig) -> None:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    if plain["output"] is None:
        raise ValueError("output is not set: give output=FOLDER, with format=safetensors output=FILE.safetensors")
    settings = from_dict(ExportSettings, {key: plain[key] for key in ("format", "precision", "output")}, "")
    translator = Translator.load(
        find_checkpoint(plain["checkpoint"], Path(plain["runs"])), target_language=plain["target_language"]
    )
    export(translator, settings)
    print(Path(settings.output).absolute())


if __name__ == "__main__":
    launch(export_translator, config_name="export")
