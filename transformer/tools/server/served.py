"""The served directions: each has a translator, and a page on which it translates in the browser."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transformer.config import UsageError
from transformer.data.config import split_name
from transformer.data.directions import Direction, arrow
from transformer.inference.loading import engine_of, load_translator, with_kept
from transformer.inference.settings import KeepSettings, SearchSettings, TranslatorSettings
from transformer.inference.translator import Translator
from transformer.machine import MachineSettings
from transformer.tools.page import export as page
from transformer.tools.server.settings import ServerSettings


@dataclass(frozen=True)
class ServedDirection:
    """A translator, its checkpoint and the checkpoint's name, and its page as HTML, or the reason why it has none."""

    translator: Translator
    checkpoint: Path
    name: str
    page: str | None
    why_no_page: str = ""

    @property
    def languages(self) -> str:
        return arrow(self.translator.languages)

    @property
    def test_name(self) -> str:
        """The name of its test set in the results of its run."""
        first, languages = self.translator.directions[0], self.translator.languages
        return "test" if languages == first else split_name("test", languages)


def _with_page(translator: Translator, checkpoint: Path, name: str, settings: ServerSettings) -> ServedDirection:
    why = ""
    if settings.page is False:
        why = "it is switched off (--no-page)"
    elif settings.page is None and settings.api_key_file is not None:
        why = "it would give the model to everyone, while translating needs a key (--page allows it)"
    elif translator.model.output.weight.is_meta:
        why = "an export has its weights in another program's format"
    else:
        try:
            return ServedDirection(translator, checkpoint, name, page.build(translator, "int8", name=name))
        except ValueError as error:
            why = str(error)
    return ServedDirection(translator, checkpoint, name, None, why)


def load_directions(
    checkpoints: Sequence[tuple[str, Path]],
    settings: ServerSettings,
    search: SearchSettings,
    machine: MachineSettings,
    keep: KeepSettings = KeepSettings(),
) -> dict[Direction, ServedDirection]:
    """Every direction that the checkpoints (names and paths) have learned, by source and target; UsageError if two have
    learned the same, ValueError for a search that one cannot do. The glossary is for the first direction and its
    reverse. All are loaded before a page is built, so that a mistake is reported early."""
    models: dict[Direction, tuple[Translator, Path, str]] = {}
    for name, path in checkpoints:
        inference = settings.inference(engine_of(path) is not None)
        translator = load_translator([path], TranslatorSettings(None, None, search, machine, inference))
        translator.warns_of_lines, translator.greedy_scores = False, True  # a request may ask for the confidence
        translator.check_search(search)
        for one in (translator.in_direction(*direction) for direction in translator.directions):
            if other := models.get(one.languages):
                raise UsageError(
                    f"{arrow(one.languages)} is translated by two models, {other[1]} and {path}: give one "
                    "--checkpoint for each direction"
                )
            models[one.languages] = one, path, name
    first, *_ = models
    columns = {first: None, first[::-1]: [2, 1]}
    for direction, (translator, path, name) in models.items():
        of_direction = keep if direction in columns else replace(keep, glossary=None)
        models[direction] = with_kept(translator, of_direction, columns.get(direction)), path, name
    return {pair: _with_page(*model, settings) for pair, model in models.items()}
