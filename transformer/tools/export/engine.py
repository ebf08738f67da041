"""An exported CTranslate2 folder as a translator: our texts, long lines and batches, with that engine's search.

The engine counts and stops as `inference.search`, with the right options: it counts the end symbol, and our limits
replace its own (1,024 source and 256 target tokens). If a limit ends a search, the engine keeps fewer candidates in the
last step, so some hypotheses may differ. They may also differ if repeats or an early end are forbidden, because the
engine distributes the probability of forbidden tokens over others and gives a prefix the probability 1. In this case
the translations are scored again.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import ctranslate2
import torch

from transformer.data.tokenizer import EOS
from transformer.inference.parts import Part, Translation
from transformer.inference.search import Hypothesis, normalized
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import Translator
from transformer.model.transformer import Transformer
from transformer.printing import one_line, terminal_safe
from transformer.tools.export import folder as folders

log = logging.getLogger(__name__)
# Without a length penalty the engine stops by another rule. This small one changes no score.
NO_PENALTY = 1e-30
# A target's pieces with the end symbol, and its score.
Target = tuple[list[str], float]


def _device(device: str) -> tuple[str, int]:
    """The kind of device and its number."""
    if device == "auto":
        device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
    if not (match := re.fullmatch(r"(cpu)|(cuda)(?::(\d+))?", device)):
        raise ValueError(f"--device {device} is not for an export: choose one of auto, cpu, cuda, cuda:0, …")
    device_type, index = match[1] or match[2], int(match[3] or 0)
    if device_type == "cuda" and index >= ctranslate2.get_cuda_device_count():
        raise ValueError(f"--device {device}: this machine has no such GPU that CTranslate2 can use")
    return device_type, index


class CTranslate2Translator(Translator):
    """Translates with CTranslate2, in the precision of the export or the nearest one that the device has.

    It supports all settings of greedy and beam search.
    """

    def __init__(self, folder: Path, device: str = "cpu", threads: int = 0) -> None:
        """`device` is cpu, cuda, cuda:1 … or auto; `threads` is for a CPU (0: the engine chooses).

        Raises ValueError for a folder that is damaged, of another program or not for this engine, and for a missing
        device.
        """
        manifest, tokenizers = folders.read(folder)
        if manifest.export != "ctranslate2":
            raise ValueError(
                f"{folder} is an export to {manifest.export}, which cannot translate here: use one to ctranslate2, "
                "huggingface or safetensors"
            )
        described = manifest.translator
        with torch.device("meta"):
            # Only the shape of the model; the engine has the weights.
            model = Transformer(described.model)
        super().__init__(model, tokenizers, described.languages, described.all_directions)
        self.defaults = described.defaults
        target = tokenizers[1]
        self._ids = {target.piece(id): id for id in range(len(target))}
        self._end = target.piece(EOS)
        device_type, index = _device(device)
        self._folder = folder
        with self._errors():
            self._engine = ctranslate2.Translator(str(folder), device_type, device_index=index, intra_threads=threads)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns the engine's errors into one line that names its folder; errors from C++ have many classes."""
        try:
            yield
        except Exception as error:
            reason = terminal_safe(one_line(error))
            raise ValueError(f"CTranslate2 cannot use {self._folder}: {reason}") from error

    @property
    def device(self) -> torch.device:
        return torch.device(self._engine.device)

    def token_log_probabilities(
        self, sources: list[list[int]], targets: list[list[int]], batch_tokens: int | None = None
    ) -> list[list[float]]:
        pieces = [[self.source_tokenizer.piece(id) for id in ids] for ids in sources]
        wanted = [[self.target_tokenizer.piece(id) for id in ids] for ids in targets]
        with self._errors():
            found = self._engine.score_batch(pieces, wanted, max_input_length=0)
        return [list(result.log_probs) for result in found]

    def save(self, path: str | Path) -> None:
        raise ValueError(f"the weights of {self._folder} are in its engine: copy the folder, or save its own run")

    def check_search(self, search: SearchSettings) -> None:
        super().check_search(search)
        if search.method == "sampling":
            raise ValueError("--method sampling is not for an export: its engine cannot draw by line")
        if search.method == "beam" and search.patience > 1 and search.beam == 1:
            raise ValueError(f"--patience {search.patience:g} needs a --beam above 1 with an export")

    def n_best_parts(
        self, parts: Sequence[Part], search: SearchSettings, batch_tokens: int | None = None
    ) -> list[list[Translation]]:
        """As in other translators, but the engine cannot be forced to write a placeholder: so translations with all
        kept strings come first, and the log names strings that are lost."""
        found = super().n_best_parts(parts, search, batch_tokens)
        for part, hypotheses in zip(parts, found, strict=True):
            hypotheses.sort(key=lambda one, part=part: len(part.lost(one)))  # type: ignore[misc]
            if lost := part.lost(hypotheses[0]):
                line = part.number % (1 << 20)
                log.warning("%s line %d is not kept by this export: %s", self.lines_of, line, ", ".join(lost))
        return found

    def _search(
        self, sources: list[list[int]], line_numbers: list[int], settings: SearchSettings
    ) -> list[list[Translation]]:
        _, _, limits = self._demands(sources, settings)
        pieces = [[self.source_tokenizer.piece(id) for id in ids] for ids in sources]
        hypotheses = self._decode(pieces, max(limits), settings)
        # The engine has one limit for all sources. A source is searched again with its own limit if that would have
        # changed its result.
        for index, limit in enumerate(limits):
            if any(target[-1] != self._end or len(target) > limit + 1 for target, _ in hypotheses[index]):
                [hypotheses[index]] = self._decode([pieces[index]], limit, settings, at_limit=True)
        return [
            [self._translation(self._hypothesis(*ended, settings), limit) for ended in targets[: settings.beam]]
            for targets, limit in zip(self._ended(pieces, hypotheses, settings), limits, strict=True)
        ]

    def _decode(
        self, sources: list[list[str]], limit: int, settings: SearchSettings, at_limit: bool = False
    ) -> list[list[Target]]:
        """The targets of each source, best first; a target with `limit` pieces may have no end symbol.

        With `at_limit`, returns the largest number that a search may have when its limit ends it: `beam`, and the ones
        that were finished before, which are fewer than beam × patience.
        """
        beam, patience = (settings.beam, settings.patience) if settings.method == "beam" else (1, 1.0)
        if at_limit and beam > 1:
            patience += 1
        prefix = [self.target_tokenizer.piece(id) for id in self.prefix_ids(settings.prefix)]
        with self._errors():
            results = self._engine.translate_batch(
                sources,
                target_prefix=[prefix] * len(sources) if prefix else None,
                beam_size=beam,
                patience=patience,
                num_hypotheses=math.floor(beam * patience) if at_limit else beam,
                length_penalty=settings.length_penalty or NO_PENALTY,
                max_input_length=0,
                max_decoding_length=limit,
                min_decoding_length=settings.min_length,
                no_repeat_ngram_size=settings.no_repeat or 0,
                return_end_token=True,  # and count it in scores
                return_scores=True,
            )
        return [list(zip(result.hypotheses, result.scores, strict=True)) for result in results]

    def _ended(
        self, sources: list[list[str]], hypotheses: list[list[Target]], settings: SearchSettings
    ) -> list[list[Target]]:
        """The targets of each source, best first. Targets that were cut at a limit get the end symbol, with its
        probability. Scores that are not the model's own are computed again."""
        restricted = settings.prefix or settings.no_repeat or settings.min_length
        scores: list[dict[tuple[str, ...], float]] = [{} for _ in sources]
        unscored: dict[tuple[int, tuple[str, ...]], None] = {}  # a prefix that fills the limit is found several times
        for index, targets in enumerate(hypotheses):
            for target, score in targets:
                if target[-1] == self._end and not restricted:
                    scores[index][tuple(target)] = score
                else:
                    unscored[index, tuple(piece for piece in target if piece != self._end)] = None
        with self._errors():
            found = self._engine.score_batch(
                [sources[index] for index, _ in unscored],
                [list(target) for _, target in unscored],
                max_batch_size=len(sources),
                max_input_length=0,
            )
        for (index, pieces), result in zip(unscored, found, strict=True):
            ended = (*pieces, self._end)
            scores[index][ended] = normalized(sum(result.log_probs), len(ended), settings.length_penalty)
        return [
            sorted(((list(target), score) for target, score in of_source.items()), key=lambda target: -target[1])
            for of_source in scores
        ]

    def _hypothesis(self, target: list[str], score: float, settings: SearchSettings) -> Hypothesis:
        if foreign := [piece for piece in target[:-1] if piece not in self._ids]:
            raise ValueError(f"{self._folder} has a vocabulary that does not fit its tokenizer: {foreign[0]!r}")
        ids = [self._ids[piece] for piece in target[:-1]]
        return Hypothesis(ids, score, score / normalized(1.0, len(target), settings.length_penalty))


def load(folder: Path, device: str = "cpu", threads: int = 0) -> Translator:
    """The translator of an exported folder, in the precision of the export (for `inference.loading`)."""
    return CTranslate2Translator(folder, device, threads)
