"""Synthetic pairs: a model translates text that has no translation, and filters choose what can be trained on.

With a model of the other direction this is back-translation (Sennrich et al. 2016), with one of the same direction
self-training: which one, the later training decides, by its direction.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from transformer.data.corpus import DataSettings
from transformer.data.languages import LANGUAGE_SAMPLE, looks_like
from transformer.data.splitting import LEFT_OUT
from transformer.data.text_files import read_lines
from transformer.doctor.filters import FILTERS, PairFilter
from transformer.evaluation.run_files import corpus_of
from transformer.inference import Translator
from transformer.inference.settings import TranslatorSettings


@dataclass(frozen=True)
class AugmentSettings(TranslatorSettings):
    """The text `input`, or the `fold` that the run left out, is translated into the pairs of the files that begin with
    `output`, but for those that `filters` drop by what the corpus `data` holds, else that of the run itself."""

    input: str | None
    fold: bool
    output: str
    resume: bool
    filters: list[Annotated[str, FILTERS]]
    data: DataSettings | None
    cache: str

    def __post_init__(self) -> None:
        if (self.input is None) != self.fold:
            raise ValueError("give input=FILE, the text to translate, or fold=true: one of them")

    def corpus_of(self, checkpoint: Path) -> DataSettings:
        """The real pairs to compare with. FileNotFoundError where nothing names them."""
        return corpus_of(checkpoint, self.data, self.cache)

    def deciding(self) -> dict[str, Any]:
        """The settings that decide what the pairs are, as plain data."""
        elsewhere = ("input", "fold", "output", "resume", "data", "cache")
        return {key: value for key, value in asdict(self).items() if key not in elsewhere}


class Row(NamedTuple):
    """A line of the input, its translation, and the filter that dropped it, if any: then the translation may be
    missing."""

    text: str
    translation: str
    dropped: str | None


def left_out(settings: AugmentSettings, checkpoints: list[Path]) -> str:
    """The file with the side to translate of the training pairs that the runs have left out.

    Raises ValueError where a run has left out none, or another part than the others.
    """
    files = set()
    for checkpoint in checkpoints:
        corpus, target = corpus_of(checkpoint, None, settings.cache), settings.target_language
        source = settings.source_language or (
            corpus.target_language if target == corpus.source_language else corpus.source_language
        )
        files.add(Path(str(corpus.train)).with_name(f"{LEFT_OUT}.{source}"))
    if len(files) > 1 or not all(file.is_file() for file in files):
        raise ValueError(
            "fold=true translates the training pairs that the run itself left out: train it with data.fold=[1,5], and "
            "give no runs that left out others"
        )
    return str(files.pop())


def looks_translated(text: Path, languages: tuple[str, str]) -> str | None:
    """What a text looks like if that is the second of two languages and not the first, its own; else None."""
    sample = list(islice(read_lines(text), LANGUAGE_SAMPLE))
    found, other = (looks_like(sample, language) for language in languages)
    return None if other else found


def check_languages(corpus: DataSettings, text: str, languages: tuple[str, str]) -> None:
    """Raises ValueError for a corpus of other languages than the model's, and a text in the model's target language."""
    source, target = languages
    if not set(languages) <= set(corpus.all_languages):
        pair = " and ".join(corpus.all_languages)
        raise ValueError(
            f"the checkpoint translates {source} → {target}, the corpus is in {pair}: name another by data="
        )
    if found := looks_translated(Path(text), languages):
        raise ValueError(
            f"input={text} looks like {found}, but the checkpoint translates {source} → {target}: name a run of the "
            f"other direction, or, if this model has learned that too, say target_language={source}"
        )


def translate_rows(
    translator: Translator, pair_filter: PairFilter, settings: AugmentSettings, texts: list[str], numbers: Sequence[int]
) -> list[Row]:
    """Translates what is good enough of some lines with these numbers; their draws depend on these alone."""
    dropped = [pair_filter.check_text(number, text) for number, text in zip(numbers, texts, strict=True)]
    kept = [place for place, reason in enumerate(dropped) if reason is None]
    translations = [""] * len(texts)
    found = translator.n_best(
        [texts[place] for place in kept],
        settings.search,
        settings.inference.batch_tokens,
        line_numbers=[numbers[place] for place in kept],
    )
    for place, hypotheses in zip(kept, found, strict=True):
        translations[place] = hypotheses[0].text
        dropped[place] = pair_filter.check_pair(numbers[place], texts[place], translations[place])
    return [Row(*row) for row in zip(texts, translations, dropped, strict=True)]
