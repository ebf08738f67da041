"""Learns a lexical shortlist: `python scripts/shortlist.py output=FILE.safetensors` (docs/decoding.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.data.corpus import DataSettings
    from transformer.inference.shortlist import ShortlistSettings

Job = tuple[dict[str, Any], Path, "ShortlistSettings", "DataSettings | None"]


def read(config: dict[str, Any]) -> Job:
    from transformer.cli.checkpoints import announce_checkpoint, find_checkpoint
    from transformer.cli.places import check_output_file
    from transformer.cli.settings import corpus_settings
    from transformer.config import from_dict, from_part

    check_output_file(config["output"], [".safetensors"])
    checkpoint = find_checkpoint(config["checkpoint"], Path(config["runs"]))
    from transformer.data.corpus import DataSettings
    from transformer.inference.shortlist import ShortlistSettings, check_replaced

    check_replaced(Path(config["output"]))
    settings = from_part(ShortlistSettings, config)
    data = from_dict(DataSettings, corpus_settings(config["data"]), "data") if config.get("data") else None
    announce_checkpoint(config, checkpoint)
    return config, checkpoint, settings, data


def make_shortlist(job: Job) -> None:
    from transformer import Translator
    from transformer.data.printable import print_safely, say, script_command, shell_path
    from transformer.evaluation.run_files import corpus_of
    from transformer.inference.shortlist import learn_shortlist

    config, checkpoint, settings, data = job
    languages = config["source_language"], config["target_language"]
    translator = Translator.load(checkpoint, "cpu", "float32", *languages)
    corpus = corpus_of(checkpoint, data, config["cache"]).in_direction(translator.languages)
    shortlist = learn_shortlist(translator.tokenizers, corpus, settings)
    shortlist.save(Path(config["output"]), translator.tokenizers, translator.languages)
    print_safely(str(Path(config["output"]).absolute()))
    typed = [f"checkpoint={shell_path(checkpoint)}", f"shortlist={shell_path(Path(config['output']))}"]
    typed += [f"{key}={config[key]}" for key in ("source_language", "target_language") if config[key]]
    say(f"next: {script_command('translate')} {' '.join(typed)}")


if __name__ == "__main__":
    launch(read, make_shortlist, config_name="shortlist")
