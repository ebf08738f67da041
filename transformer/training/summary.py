"""The table of corpus and model that stands before training."""

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

# The share of unknown tokens that is worth a word.
MAX_UNKNOWN = 0.05
# The share of the references that a perfect model could write, below which it is said.
MIN_WRITABLE = 0.995
# With fewer sentences than these, one or two of them decide the BLEU of a split.
FEW_SENTENCES = 100


def unknown_share(ids: IntArray) -> float:
    """The share of tokens that the vocabulary lacks; SentencePiece makes one token of neighbors that are unknown."""
    return float((ids == UNK).sum()) / max(1, len(ids))


def writing_notes(data: TranslationData) -> list[str]:
    """For each split that is scored, which share of its references a perfect model could write, if not nearly all."""
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
    """For each split that is scored, how many of its references are longer than the `search` allows."""
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
            # As high as the cell of both sides.
            name if name == split_of_corpus else f"{split_of_corpus}\n{direction_name(corpus.languages)}",
            f"{len(split.source):,}",
            # Both sides in one cell, one above the other: a table of 80 columns holds them all.
            "\n".join(corpus.languages),
            "\n".join(f"{len(side.ids):,}" for side in ids),
            "\n".join(f"{side.lengths.max(initial=0):,}" for side in ids),
            "\n".join(f"{unknown_share(side.ids):.2%}" for side in ids),
            f"{len(split.too_long):,}",
            f"{len(split.empty):,}",
        )
    return table


def _notes(data: TranslationData, init_from: str | None) -> list[str]:
    """What there is to say of the corpus besides."""
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
    """The table of corpus and model, where its weights come from, and how the `machine` is used, on stderr.

    So many `processes` share the cores of this machine.
    """
    machine_lines = [machine]
    if processes > (cores := available_cores()):
        machine_lines.append(
            f"{processes} processes share {cores} cores and wait for each other: lower trainer.devices"
        )
    begins_with = f"the model, its weights and tokenizers are those of {init_from}, whatever presets and tokenizer= say"
    console(stderr=True).print(
        _table(data),
        *_notes(data, init_from),
        *limit_notes(data, search.with_defaults(translator.defaults)),
        *_model_lines(translator),
        *machine_lines,
        *([begins_with] if init_from else []),
        sep="\n",
    )
