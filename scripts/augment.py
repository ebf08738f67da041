"""Makes synthetic pairs: `python scripts/augment.py checkpoint=RUN input=TEXT output=PREFIX` (docs/augment.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.doctor.augment import AugmentSettings

Job = tuple["AugmentSettings", list[Path], str, int | None]


def read(config: dict[str, Any]) -> Job:
    from transformer.cli.checkpoints import announce_checkpoint, find_checkpoints
    from transformer.cli.lines import count_lines
    from transformer.cli.pairs import check_prefix
    from transformer.cli.settings import augment_settings
    from transformer.config import UsageError, from_dict
    from transformer.doctor.augment import AugmentSettings, left_out

    settings = from_dict(AugmentSettings, augment_settings(config), "")
    checkpoints = find_checkpoints(config["checkpoint"], Path(config["runs"]))
    check_prefix(settings.output, checkpoints)
    text = settings.input or left_out(settings, checkpoints)
    if not (total := count_lines(text)):
        raise UsageError(f"input={text} is no file with lines in it")
    announce_checkpoint(config, checkpoints[0])
    return settings, checkpoints, text, total


def augment(job: Job) -> None:
    from transformer.cli.checkpoints import model_name
    from transformer.cli.lines import chunk_size, chunks, input_lines
    from transformer.cli.pairs import PairsOutput, show_counts
    from transformer.doctor.augment import check_languages, translate_rows
    from transformer.doctor.filters import PairFilter
    from transformer.export.load import load_translator

    settings, checkpoints, text, total = job
    corpus = settings.corpus_of(checkpoints[0])
    lines = input_lines(None, text)
    with PairsOutput(settings, text, checkpoints, corpus) as output:
        translator = load_translator(checkpoints, settings)
        translator.lines_of = text
        check_languages(corpus, text, translator.languages)
        output.check_new(translator.languages)
        pair_filter = PairFilter(settings.filters, corpus, translator.tokenizers, translator.languages)
        output.skip(pair_filter.mark_seen(lines))
        size = chunk_size(total, settings.inference.batch_tokens or translator.default_batch_tokens)
        for numbers, chunk in chunks(lines, size, output.lines, total):
            output.write_rows(translate_rows(translator, pair_filter, settings, chunk, numbers))
        counts = output.publish(translator.languages, " + ".join(map(model_name, checkpoints)))
    show_counts(counts, settings.output, translator.languages)


if __name__ == "__main__":
    launch(read, augment, config_name="augment")
