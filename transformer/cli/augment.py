"""`translator augment`: a model translates text that has no translation into pairs to train on (docs/augment.md)."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from transformer.cli.app import Flags, InferenceFlags, MachineFlags, SearchFlags
from transformer.cli.lines import chunk_size, chunks, count_lines, input_lines
from transformer.cli.models import announce_checkpoint, find_checkpoints, model_name
from transformer.cli.output import made_by
from transformer.cli.pairs import PairsOutput, check_prefix, show_counts
from transformer.config import PATH, SettingError, Settings, UsageError, setting
from transformer.data.splitting import corpus_of
from transformer.inference.settings import InferenceSettings, SearchSettings, TranslatorSettings
from transformer.machine import MachineSettings
from transformer.run import Run
from transformer.tools.augment.filters import FILTERS, PairFilter
from transformer.tools.augment.synthesis import check_languages, left_out, translate_rows


@dataclass(frozen=True)
class AugmentSettings(Settings):
    """The model, the text to translate, the files of the pairs, and the filters."""

    output: Annotated[str, PATH]
    """PREFIX of the files PREFIX.LANGUAGE for both languages, PREFIX.origin and PREFIX.dropped.tsv"""
    checkpoint: list[str] = setting([])
    """a run's folder, .safetensors or .ckpt, a Hugging Face folder, or an export to ctranslate2; given several times,
    an ensemble of models with one vocabulary; by default the newest finished run in runs/"""
    input: Annotated[str, PATH] | None = None
    """a file in the model's source language, one sentence a line"""
    fold: bool = False
    """instead of --input: translate the training pairs that the run left out (data.fold)"""
    corpus: Annotated[str, PATH] | None = None
    """the folder of a run: pairs that are unusual for its corpus, and sentences of its validation and test, are
    dropped; by default the run of the first checkpoint"""
    filters: list[Annotated[str, FILTERS]] = setting(list(FILTERS))
    """use only these filters; give the flag once for each. (Training refuses sentences of its validation or test.)"""
    source: str | None = None
    """the language of the text; with --target it chooses one of several directions of a model"""
    target: str | None = None
    """the language to translate into"""
    resume: bool = False
    """continue the --output of a command that was stopped"""
    cache: Annotated[str, PATH] = ".cache"
    """the folder of prepared corpora"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.input is None) != self.fold:
            raise SettingError("input", ", the text to translate, or --fold: give one of them")


def augment(
    *,
    settings: Flags[AugmentSettings],
    search: SearchFlags = SearchSettings(),
    inference: InferenceFlags = InferenceSettings(),
    machine: MachineFlags = MachineSettings(),
) -> None:
    """Makes synthetic pairs: a model translates text that has no translation."""
    checkpoints = find_checkpoints(settings.checkpoint)
    check_prefix(settings.output, checkpoints)
    text = settings.input or str(left_out(checkpoints, settings.cache, settings.source, settings.target))
    if not (total := count_lines(text)):
        raise UsageError(f"--input {text} is not a file with lines in it")
    named = Run(Path(settings.corpus)) if settings.corpus else Run.open(checkpoints[0])
    if not named.config.is_file():
        raise FileNotFoundError(f"{named.folder} has no {named.config.name} that names a corpus: give --corpus RUN")
    corpus = corpus_of(named, settings.cache)
    decides: dict[str, Any] = {"search": asdict(search), "inference": asdict(inference), "machine": asdict(machine)}
    decides |= {key: getattr(settings, key) for key in ("filters", "source", "target")}
    # max_length counts too, because the filter too_long depends on it.
    of_corpus = " ".join([*map(corpus.digest, corpus.all_splits), str(corpus.max_length)])
    made = made_by(decides, *checkpoints) | {"corpus": of_corpus}
    opened = PairsOutput(settings.output, Path(text), search.method, made, settings.resume)
    announce_checkpoint(next(iter(settings.checkpoint), None), checkpoints[0])

    from transformer.inference.loading import load_translator

    with opened as output:
        used = TranslatorSettings(settings.source, settings.target, search, machine, inference)
        translator = load_translator(checkpoints, used)
        translator.warns_of_lines = False
        translator.lines_of = text
        check_languages(corpus, Path(text), translator.languages)
        if output.is_finished(output.paths(translator.languages)):
            return
        output.check_new(translator.languages)
        pair_filter = PairFilter(settings.filters, corpus, translator.tokenizers, translator.languages)
        lines, batch_tokens = input_lines(None, text), inference.batch_tokens
        output.skip(pair_filter.mark_seen(lines))
        size = chunk_size(total, batch_tokens or translator.default_batch_tokens)
        for numbers, chunk in chunks(lines, size, output.lines, total):
            output.write_rows(translate_rows(translator, pair_filter, search, batch_tokens, chunk, numbers))
        counts = output.publish(translator.languages, " + ".join(map(model_name, checkpoints)))
    show_counts(counts, settings.output, translator.languages)
