"""Synthetic pairs: a model translates text that has no translation, and filters choose what can be trained on.

With a model of the other direction this is back-translation (Sennrich et al. 2016), with one of the same direction
self-training: which one, the later training decides, by its direction.
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
    """A line of the input, its translation, and the filter that dropped it, if any: then the translation may be
    missing."""

    text: str
    translation: str
    dropped: str | None


def left_out(checkpoints: Sequence[Path], cache: str, source: str | None, target: str | None) -> Path:
    """The file with the side to translate of the training pairs that the runs have left out; `source` and `target` are
    its languages where these are not the corpus' own.

    Raises UsageError where a run has left out none, or another part than the others.
    """
    refusal = UsageError(
        "--fold translates the training pairs that the run itself left out: train it with data.fold=[1,5], and give no "
        "runs that left out others"
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
    """What a text looks like if that is the second of two languages and not the first, its own; else None."""
    sample = list(islice(read_lines(text), LANGUAGE_SAMPLE))
    found, other = (looks_like(sample, language) for language in languages)
    return None if other else found


def check_languages(corpus: DataSettings, text: Path, languages: tuple[str, str]) -> None:
    """Raises UsageError for a corpus of other languages than the model's, and a text in the model's target language."""
    source, target = languages
    if not set(languages) <= set(corpus.all_languages):
        pair = " and ".join(corpus.all_languages)
        raise UsageError(
            f"the checkpoint translates {source} → {target}, the corpus is in {pair}: name another by --corpus"
        )
    if found := looks_translated(text, languages):
        raise UsageError(
            f"{text} looks like {found}, but the checkpoint translates {source} → {target}: name a run of the other "
            f"direction, or, if this model has learned that too, give --target {source}"
        )


def translate_rows(
    translator: Translator,
    pair_filter: PairFilter,
    search: SearchSettings,
    batch_tokens: int | None,
    texts: Sequence[str],
    numbers: Sequence[int],
) -> list[Row]:
    """Translates what is good enough of some lines with these numbers; their draws depend on these alone."""
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
