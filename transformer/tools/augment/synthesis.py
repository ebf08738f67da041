"""Synthetic pairs: a model translates text that has no translation, and filters drop bad pairs.

With a model of the other direction than the later training this is back-translation (Sennrich et al. 2016), with one of
the same direction it is self-training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from transformer.config import UsageError
from transformer.data.config import DataSettings
from transformer.data.languages import LANGUAGE_SAMPLE, looks_like
from transformer.data.splitting import LEFT_OUT, corpus_of, with_splits
from transformer.data.text_files import read_lines
from transformer.run import Run
from transformer.tools.augment.filters import PairFilter

if TYPE_CHECKING:
    from transformer.inference.settings import SearchSettings
    from transformer.inference.translator import Translator


class Row(NamedTuple):
    """A line of the input, its translation, and the filter that dropped it, if any. A dropped line may have no
    translation."""

    text: str
    translation: str
    dropped: str | None


def left_out(checkpoints: Sequence[Path], cache: str, source: str | None, target: str | None) -> Path:
    """The file with the training pairs that the runs have left out, in the language to translate; `source` and `target`
    are given if they are not the corpus' own.

    Raises UsageError if a run has left out none, or another part than the other runs.
    """
    refusal = UsageError(
        "--fold translates the training pairs that the run itself left out: train it with data.fold=[1,5]; all runs "
        "must have left out the same pairs"
    )
    files = set()
    for run in map(Run.open, checkpoints):
        given = corpus_of(run) if run.config.is_file() else None
        if not given or not given.fold:
            raise refusal
        corpus = with_splits(replace(given, cache=cache))
        own = corpus.target_language if target == corpus.source_language else corpus.source_language
        files.add(Path(str(corpus.train)).with_name(f"{LEFT_OUT}.{source or own}"))
    if len(files) > 1:
        raise refusal
    return files.pop()


def looks_translated(text: Path, languages: tuple[str, str]) -> str | None:
    """None if a text may be in the first of two languages, or is not in the second; else what it looks like."""
    sample = list(islice(read_lines(text), LANGUAGE_SAMPLE))
    found, other = (looks_like(sample, language) for language in languages)
    return None if other else found


def check_languages(corpus: DataSettings, text: Path, languages: tuple[str, str]) -> None:
    """Raises UsageError if the corpus has other languages than the model, or the text is in the target language."""
    source, target = languages
    if not set(languages) <= set(corpus.all_languages):
        pair = " and ".join(corpus.all_languages)
        raise UsageError(
            f"the checkpoint translates {source} → {target}, the corpus is in {pair}: give another --corpus"
        )
    if found := looks_translated(text, languages):
        raise UsageError(
            f"{text} looks like {found}, but the checkpoint translates {source} → {target}: give a run of the other "
            f"direction, or, if this model has learned it too, --target {source}"
        )


def translate_rows(
    translator: Translator,
    pair_filter: PairFilter,
    search: SearchSettings,
    batch_tokens: int | None,
    texts: Sequence[str],
    numbers: Sequence[int],
) -> list[Row]:
    """Filters and translates lines with these numbers; random draws depend only on the numbers."""
    dropped = [pair_filter.check_text(number, text) for number, text in zip(numbers, texts, strict=True)]
    kept = [place for place, reason in enumerate(dropped) if reason is None]
    translations = [""] * len(texts)
    found = translator.n_best(
        [texts[place] for place in kept], search, batch_tokens, line_numbers=[numbers[place] for place in kept]
    )
    for place, hypotheses in zip(kept, found, strict=True):
        translations[place] = hypotheses[0].text
        dropped[place] = pair_filter.check_pair(numbers[place], texts[place], translations[place])
    return [Row(*row) for row in zip(texts, translations, dropped, strict=True)]
