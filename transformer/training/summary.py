"""The table of corpus and model that is printed before training."""

from itertools import islice

from rich.box import SIMPLE
from rich.table import Table

from transformer.data.datamodule import TranslationData
from transformer.data.directions import arrow, direction_name
from transformer.data.languages import LANGUAGE_SAMPLE
from transformer.data.mmap import IntArray
from transformer.data.synthetic import SYNTHETIC
from transformer.data.tokenizer import UNK
from transformer.data.training_split import pairs_per_epoch
from transformer.device import available_cores
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import Translator
from transformer.printing import console, shortened

# A larger share of unknown tokens is reported.
MAX_UNKNOWN = 0.05
# It is reported if a perfect model could write only a smaller share of the references than this.
MIN_WRITABLE = 0.995
# With fewer sentences, one or two of them decide the BLEU of a split.
FEW_SENTENCES = 100


def unknown_share(ids: IntArray) -> float:
    """The share of unknown tokens; SentencePiece joins neighbors that are unknown into one token."""
    return float((ids == UNK).sum()) / max(1, len(ids))


def writing_notes(data: TranslationData) -> list[str]:
    """Lines about each split that is scored if a perfect model could not write all of its references."""
    notes = []
    for name, (corpus, split_of_corpus) in data.all_splits.items():
        if split_of_corpus in ("train", SYNTHETIC):
            continue
        references = [target for _, target in islice(corpus.read(split_of_corpus), LANGUAGE_SAMPLE)]
        lost = [text for text in references if not data.target_tokenizer.writes(text)]
        if (share := 1 - len(lost) / len(references)) < MIN_WRITABLE:
            written = data.target_tokenizer.decode(data.target_tokenizer.encode(lost[0]))
            notes.append(
                f"{name}: the tokenizer can write {share:.1%} of the references; "
                f"{shortened(lost[0])} would become {shortened(written)}"
            )
    return notes


def limit_notes(data: TranslationData, search: SearchSettings) -> list[str]:
    """Lines about each split that is scored if some of its references are longer than the `search` allows."""
    notes = []
    for name, (_, split_of_corpus) in data.all_splits.items():
        split = data.split(name)
        limits = search.max_lengths(split.source.lengths.tolist())
        longer = sum(int(length) > limit for length, limit in zip(split.target.lengths, limits, strict=True))
        if longer and split_of_corpus not in ("train", SYNTHETIC):
            notes.append(
                f"{name}: {longer:,} of {len(limits):,} references are longer than search.length_ratio="
                f"{search.length_ratio} and length_extra={search.length_extra} allow"
            )
    return notes


def _table(data: TranslationData) -> Table:
    """The sizes of all splits."""
    table = Table(title=f"{data.settings.name}: {arrow(*data.settings.all_directions)}", box=SIMPLE)
    table.add_column("split")
    for heading in ("pairs", "", "tokens", "longest", "unknown\ntokens", "too long", "empty"):
        table.add_column(heading, justify="right")
    for name, (corpus, split_of_corpus) in data.all_splits.items():
        split = data.split(name)
        ids = (split.source, split.target)
        table.add_row(
            # Two lines, like the cell with both sides.
            name if name == split_of_corpus else f"{split_of_corpus}\n{direction_name(corpus.languages)}",
            f"{len(split.source):,}",
            # Both sides are in one cell, one above the other, so that the table fits into 80 columns.
            "\n".join(corpus.languages),
            "\n".join(f"{len(side.ids):,}" for side in ids),
            "\n".join(f"{side.lengths.max(initial=0):,}" for side in ids),
            "\n".join(f"{unknown_share(side.ids):.2%}" for side in ids),
            f"{len(split.too_long):,}",
            f"{len(split.empty):,}",
        )
    return table


def _notes(data: TranslationData, init_from: str | None) -> list[str]:
    """Further lines about the corpus."""
    settings, notes = data.settings, [*data.notes, *writing_notes(data)]
    for name, (corpus, split_of_corpus) in data.all_splits.items():
        split = data.split(name)
        for language, side in zip(corpus.languages, (split.source, split.target), strict=True):
            if (unknown := unknown_share(side.ids)) > MAX_UNKNOWN:
                owner = f" of {init_from}" if init_from else ""
                notes.append(f"{name}: {unknown:.0%} of the tokens in {language} are unknown to the vocabulary{owner}")
        if split_of_corpus in ("validation", "test") and len(split.source) < FEW_SENTENCES:
            notes.append(f"{name}: {len(split.source):,} sentences are few: one of them may change BLEU by a point")
        treatment = "left out" if split_of_corpus in ("train", SYNTHETIC) else "cut"
        for reason, lines in (
            (f"over data.max_length={settings.max_length} tokens, {treatment}", split.too_long),
            (f"empty on a side{', left out' if treatment == 'left out' else ''}", split.empty),
        ):
            if len(lines):
                more = ", …" if len(lines) > 10 else ""
                notes.append(f"{name}: {len(lines):,} {reason}: pairs {', '.join(map(str, lines[:10]))}{more}")
    if settings.direction_temperature != 1:
        sizes = [len(data.split(name)) for name in data.names("train")]
        counts = zip(settings.all_directions, pairs_per_epoch(sizes, settings.direction_temperature), strict=True)
        listed = ", ".join(f"{direction_name(direction)} {count:,}" for direction, count in counts)
        notes.append(f"pairs of an epoch: {listed}")
    return notes


def _model_lines(translator: Translator) -> list[str]:
    """The size of the model and of its parts."""
    model, config = translator.model, translator.model.config
    parts = {
        "encoder": sum(weight.numel() for weight in model.encoder.layers.parameters()),
        "decoder": sum(weight.numel() for weight in model.decoder.layers.parameters()),
    }
    total = sum(weight.numel() for weight in model.parameters())
    parts["embeddings and output"] = total - sum(parts.values())
    return [
        f"{config.encoder.layers} + {config.decoder.layers} layers, dim {config.dim}, "
        f"{'no' if config.positions == 'none' else config.positions} positions",
        f"{total:,} parameters: " + ", ".join(f"{name} {count:,}" for name, count in parts.items()),
    ]


def show_run(
    data: TranslationData,
    translator: Translator,
    search: SearchSettings,
    machine: str,
    processes: int,
    init_from: str | None,
) -> None:
    """Prints on stderr the table of corpus and model, where its weights come from, and how the `machine` is used.

    `processes` is the number of processes that share the cores of this machine.
    """
    machine_lines = [machine]
    if processes > (cores := available_cores()):
        machine_lines.append(
            f"{processes} processes share {cores} cores and wait for each other: lower trainer.devices"
        )
    begins_with = f"model, weights and tokenizers come from {init_from}, not from presets or tokenizer="
    console(stderr=True).print(
        _table(data),
        *_notes(data, init_from),
        *limit_notes(data, search.with_defaults(translator.defaults)),
        *_model_lines(translator),
        *machine_lines,
        *([begins_with] if init_from else []),
        sep="\n",
    )
