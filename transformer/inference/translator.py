"""A trained model with its tokenizers: text in, translations out."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.config import Registry, SettingError, read_value
from transformer.data.batching import batches_by_length, pad
from transformer.data.directions import Direction, arrow, choose_direction
from transformer.data.languages import space_between_sentences
from transformer.data.placeholders import Keeper
from transformer.data.tokenizer import BOS, EOS, LONE_SURROGATE, PAD, UNK, Tokenizer
from transformer.device import (
    configure_torch,
    find_hardware,
    full_precision,
    parallel_map,
    parse_device,
    parse_precision,
    worker_count,
)
from transformer.inference import model_file
from transformer.inference.alignment_head import AlignmentHead
from transformer.inference.packing import pack
from transformer.inference.parts import EMPTY, Part, Translation, is_letterless, join, parts_of, with_kept
from transformer.inference.repetition import is_faulty, may_loop, without_repeats
from transformer.inference.restrictions import Carried
from transformer.inference.scoring import Scored, token_log_probabilities
from transformer.inference.search import Hypothesis, search
from transformer.inference.search_memory import check_search_memory
from transformer.inference.settings import Defaults, SearchSettings, SplitLines
from transformer.inference.source_check import SourceCheck
from transformer.kernels.packed import PackedLinear
from transformer.machine import MachineSettings
from transformer.model.eval_mode import eval_mode
from transformer.model.masks import padding_mask
from transformer.model.transformer import Transformer

log = logging.getLogger(__name__)
# Sentences × longest source of a batch. On a GPU a step takes about as long for a thousand rows as for a hundred.
BATCH_TOKENS, BATCH_TOKENS_ON_GPU = 2048, 8192
# The default search of `Translator.load(path).translate(…)`; configs/search/beam.yaml has the same values.
BEAM = SearchSettings()
# Shows a translation in a notebook.
SHOW: Registry[Any] = Registry(show="transformer.tools.page.notebook:show")
BatchTokens = Annotated[int, ">= 1"]
# `Translator` or a class derived from it, so that `load` returns an object of the same class.
AnyTranslator = TypeVar("AnyTranslator", bound="Translator")


def numbers_of(count: int, line_numbers: Sequence[int] | None) -> Sequence[int]:
    """The line numbers of `count` texts: `line_numbers`, by default 1, 2, …."""
    if line_numbers is None:
        return range(1, count + 1)
    if not isinstance(line_numbers, Sequence):
        raise TypeError(f"line_numbers must be a list of numbers, not {type(line_numbers).__name__}")
    if len(line_numbers) != count:
        raise ValueError(f"line_numbers must hold the numbers of {count} texts, it holds {len(line_numbers)}")
    return line_numbers


def check_finite(scores: float) -> None:
    """Raises ValueError if a sum of scores is not finite."""
    if not math.isfinite(scores):
        raise ValueError("the model's scores are not finite: its weights are too large, or broken")


class Translator:
    """Translates from `source_language` to `target_language`, on the device and in the precision of its model."""

    # The weights of `model` that align words best (see `inference.alignment_head`); None: not measured.
    alignment: AlignmentHead | None = None
    # Used if the settings of a search are None.
    defaults = Defaults()
    # The file or split that the texts come from: warnings and errors name it before the line number.
    lines_of = ""
    # Whether the log names texts that the model cannot read; and texts of several sentences that are translated as
    # one, and texts whose translation was cut.
    warns_of_sources, warns_of_lines = True, True
    # Whether greedy search computes probabilities from its logits. Without, it is a few percent faster, but its scores
    # are nan.
    greedy_scores = True

    def __init__(
        self,
        model: Transformer,
        tokenizers: tuple[Tokenizer, Tokenizer],
        languages: Direction,
        directions: Sequence[Direction] = (),
    ) -> None:
        """`directions` are all that the model has learned, if several; `languages` is the direction to translate."""
        self.model, self.directions = model, tuple(directions) or (languages,)
        self.models = [model]  # an `Ensemble` has several
        self.target_tokenizer = tokenizers[1]
        # Finds strings that stay unchanged; None for a model without placeholders, which has not learned to keep any.
        self.keeper = Keeper.of() if tokenizers[1].placeholders else None
        self._set_direction(tokenizers[0], languages)

    def _set_direction(self, source_tokenizer: Tokenizer, languages: Direction) -> None:
        self.languages, (self.source_language, self.target_language) = languages, languages
        self.source_tokenizer = Tokenizer(
            source_tokenizer.model, source_tokenizer.kind, target_language_tag=self.target_language
        )
        self.tokenizers = self.source_tokenizer, self.target_tokenizer
        self._source_check = SourceCheck(self.source_tokenizer, languages, self.directions)

    @classmethod
    def load(
        cls: type[AnyTranslator],
        path: str | Path,
        device: str | torch.device = "cpu",
        precision: str = "float32",
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> AnyTranslator:
        """Reads a .safetensors, a .ckpt, a run's folder or one of Hugging Face's transformers. It needs neither corpus
        nor configs, and runs no code from the file.

        `device` is cpu, cuda, cuda:1, mps … or auto (a GPU if there is one); `precision` float32, bfloat16, float16 or
        auto (bfloat16 if this hardware multiplies it fast, else float32); the languages choose one of the directions
        that the model has learned, see `in_direction`. Raises FileNotFoundError, or ValueError for a file that is
        truncated, altered, of another program or with code in it, and for a device that is missing. The model's weights
        are packed (see `inference.packing`).
        """
        torch_device = parse_device(str(device))
        dtype = parse_precision(precision, find_hardware(torch_device.type))
        saved, asked = model_file.load(Path(path)), (source_language, target_language)
        if asked != (None, None):
            choose_direction(saved.directions, *asked)  # a mistake is reported before the model is built
        # A model is built with random weights first; this must not change the random numbers of the caller.
        with torch.random.fork_rng(devices=[]):
            built = saved.build()
        model = pack(built.to(torch_device, dtype).eval())
        translator = cls(model, saved.tokenizers, saved.languages, saved.directions)
        translator.alignment, translator.defaults = saved.alignment, saved.defaults
        if (chosen := translator.in_direction(*asked)) is translator:
            translator.warn_if_zero_shot()
        return chosen

    def in_direction(
        self: AnyTranslator, source_language: str | None = None, target_language: str | None = None
    ) -> AnyTranslator:
        """The same model in another direction: the first learned one with these languages. If both are given, it may
        also be one that was not learned: the log then warns of a guess. ValueError for other languages."""
        if source_language is None and target_language is None:
            return self
        languages = choose_direction(self.directions, source_language, target_language)
        if languages == self.languages:
            return self
        other = copy(self)
        other._set_direction(self.source_tokenizer, languages)
        other.warn_if_zero_shot()
        return other

    def keeping(
        self: AnyTranslator, keep: str | None = None, glossary: Mapping[str, str] | None = None
    ) -> AnyTranslator:
        """The same model, but text that matches the regular expression `keep` stays unchanged, and each source term of
        a glossary is translated by its target term (see `Keeper.of`). Raises ValueError for an invalid expression, an
        empty term, or a model that has learned no placeholders."""
        if self.keeper is None:
            raise ValueError("this model has learned no placeholders: it was trained with data.placeholders=0")
        other = copy(self)
        other.keeper = Keeper.of(keep, glossary)
        return other

    @property
    def is_zero_shot(self) -> bool:
        """Whether the model has not learned this direction, so that its translations are a guess."""
        return self.languages not in self.directions

    def warn_if_zero_shot(self) -> None:
        if self.is_zero_shot:
            log.warning("%s was not trained, only %s: a guess", arrow(self.languages), arrow(*self.directions))

    def __repr__(self) -> str:
        size = sum(weight.numel() for model in self.models for weight in model.parameters())
        return f"<{type(self).__name__} {arrow(self.languages)}, {size:,} parameters, on {self.device}>"

    def configure_torch(self, machine: MachineSettings) -> None:
        """Configures torch in this process for fast translation."""
        output = self.model.output
        configure_torch(machine, self.device.type, output.weight.dtype, isinstance(output, PackedLinear))

    def show(self, text: str, search: SearchSettings = BEAM, height: int = 900) -> Any:
        """In a notebook: the page of the command explain for `text`, with all attention weights, and the candidates of
        each step. `height` is in pixels. Raises ValueError for a text without tokens or with too many."""
        return SHOW["show"](self, text, search, height)

    def description(self) -> dict[str, Any]:
        """The description in its files, as plain data (see `model_file.Description`)."""
        return model_file.describe(
            self.model,
            self.tokenizers,
            self.languages,
            self.directions,
            self.defaults,
            self.alignment,
        )

    def save(self, path: str | Path) -> None:
        """Writes one self-contained .safetensors file with a digest inside, whole or not at all."""
        content = model_file.tensors(self.model, self.tokenizers)
        model_file.save(Path(path), self.description(), content)

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, search: SearchSettings = ..., batch_tokens: int | None = ..., split_lines: SplitLines = ...
    ) -> str: ...

    @overload
    def translate(
        self,
        texts: Iterable[str],
        search: SearchSettings = ...,
        batch_tokens: int | None = ...,
        split_lines: SplitLines = ...,
    ) -> list[str]: ...

    def translate(
        self,
        texts: str | Iterable[str],
        search: SearchSettings = BEAM,
        batch_tokens: int | None = None,
        split_lines: SplitLines = "long",
    ) -> str | list[str]:
        """The best translation of one text, or of each of several texts, in order; an empty text stays empty.

        `split_lines` says which texts are translated sentence by sentence: "long": those with more tokens than the
        model allows, which the log names; "sentences": all; "never": none, and a text that is too long raises
        ValueError. `batch_tokens` limits sentences × longest source of a batch (None: `default_batch_tokens`).
        """
        without_scores = copy(self)
        without_scores.greedy_scores = False
        if isinstance(texts, str):
            return without_scores.n_best(texts, search, batch_tokens, split_lines)[0].text
        return [hypotheses[0].text for hypotheses in without_scores.n_best(texts, search, batch_tokens, split_lines)]

    @overload
    def n_best(  # type: ignore[overload-overlap]
        self,
        texts: str,
        search: SearchSettings = ...,
        batch_tokens: int | None = ...,
        split_lines: SplitLines = ...,
        line_numbers: Sequence[int] | None = ...,
    ) -> list[Translation]: ...

    @overload
    def n_best(
        self,
        texts: Iterable[str],
        search: SearchSettings = ...,
        batch_tokens: int | None = ...,
        split_lines: SplitLines = ...,
        line_numbers: Sequence[int] | None = ...,
    ) -> list[list[Translation]]: ...

    def n_best(
        self,
        texts: str | Iterable[str],
        search: SearchSettings = BEAM,
        batch_tokens: int | None = None,
        split_lines: SplitLines = "long",
        line_numbers: Sequence[int] | None = None,
    ) -> list[Translation] | list[list[Translation]]:
        """All hypotheses of one text, or of each of several texts, best first, with scores; for a text translated in
        parts only the best.

        `line_numbers` are by default 1, 2, …: warnings and errors name them, and the random draws of sampling depend
        on them.
        """
        if isinstance(texts, str):
            return self.n_best([texts], search, batch_tokens, split_lines, line_numbers)[0]
        return self.n_best_of_each(texts, [search], batch_tokens, split_lines, line_numbers)[0]

    def n_best_of_each(
        self,
        texts: Iterable[str],
        searches: Sequence[SearchSettings],
        batch_tokens: int | None = None,
        split_lines: SplitLines = "long",
        line_numbers: Sequence[int] | None = None,
    ) -> list[list[list[Translation]]]:
        """The results of `n_best` for each of several searches. Each text is encoded and checked only once."""
        if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            raise TypeError(f"texts must be a text or several, not {type(texts).__name__}")
        texts = list(texts)
        if split_lines not in get_args(SplitLines):
            raise ValueError(
                f"split_lines={split_lines} is not allowed; choose one of {', '.join(get_args(SplitLines))}"
            )
        line_numbers = numbers_of(len(texts), line_numbers)
        encoded = self.encode(texts, line_numbers, split_lines)

        def n_best(search: SearchSettings) -> list[list[Translation]]:
            translations = iter(self.n_best_parts([*chain.from_iterable(encoded)], search, batch_tokens))
            return [self.join([next(translations) for _ in parts]) for parts in encoded]

        found = [n_best(search) for search in searches]
        cut = [line for line, (best, *_) in zip(line_numbers, found[0], strict=True) if best.is_cut] if found else []
        if cut and self.warns_of_lines:
            place = f"{self.lines_of} line".strip()
            counts = f"{len(cut):,} of {len(texts):,} translations were cut at the length limit, the first of"
            log.warning("%s %s %d: a larger length_ratio allows more", counts, place, cut[0])
        return found

    def n_best_parts(
        self, parts: Sequence[Part], search: SearchSettings, batch_tokens: int | None = None
    ) -> list[list[Translation]]:
        """All hypotheses of each of the parts, which come from `encode`."""
        self.check_search(search)
        found, later = dict[int, list[Translation]](), replace(search, prefix=None)
        for one in dict.fromkeys((search, later)):
            indices = [index for index, part in enumerate(parts) if (search if part.is_first else later) == one]
            sources, numbers = [parts[index].ids for index in indices], [parts[index].number for index in indices]
            found.update(zip(indices, self.n_best_ids(sources, one, batch_tokens, numbers), strict=True))
        return [
            [part.finished(one) for one in ([Translation(part.text, 0.0, 0.0, [])] if part.text else found[index])]
            for index, part in enumerate(parts)
        ]

    def join(self, parts: list[list[Translation]]) -> list[Translation]:
        """The hypotheses of a text, from those of its parts."""
        return join(parts, space_between_sentences(self.target_language))

    def n_best_ids(
        self,
        sources: list[list[int]],
        search: SearchSettings = BEAM,
        batch_tokens: int | None = None,
        line_numbers: Sequence[int] | None = None,
    ) -> list[list[Translation]]:
        """As `n_best`, but for ids: without EOS, at most `max_length` − 1 for each source.

        A source without tokens has one translation, which is empty.
        """
        self.check_search(search)
        line_numbers = numbers_of(len(sources), line_numbers)
        search = search.with_defaults(self.defaults)
        # The tag of the target language is no token of the text.
        nonempty = [index for index, ids in enumerate(sources) if len(ids) > len(self.source_tokenizer.prefix)]
        batch_tokens = read_value(BatchTokens | None, batch_tokens, "batch_tokens") or self.default_batch_tokens
        translations = [[EMPTY] for _ in sources]
        for index, hypotheses in self._search_all(nonempty, sources, line_numbers, search, batch_tokens):
            translations[index] = hypotheses
        if search.no_repeat is None:
            faulty = [index for index in nonempty if self._is_faulty(sources[index], translations[index][0])]
            again = without_repeats(search, self.target_tokenizer.kind)
            for index, hypotheses in self._search_all(faulty, sources, line_numbers, again, batch_tokens):
                if hypotheses[0].text:
                    translations[index] = hypotheses
        return translations

    def _is_faulty(self, source: list[int], found: Translation) -> bool:
        """Whether a source must be searched again; `found` is its best hypothesis."""
        if found.text and not may_loop(found):
            return False
        return is_faulty([self.source_tokenizer.piece(id) for id in source], found)

    def _search_all(
        self,
        chosen: list[int],
        sources: list[list[int]],
        line_numbers: Sequence[int],
        search: SearchSettings,
        batch_tokens: int,
    ) -> list[tuple[int, list[Translation]]]:
        """Searches the chosen sources, which are not empty, in batches; returns the index and hypotheses of each."""
        lengths = [len(sources[index]) for index in chosen]
        on_cpu = self.device.type == "cpu"
        workers = max(1, worker_count(len(chosen))) if on_cpu else 1
        batch_indices = batches_by_length(lengths, batch_tokens, workers)
        batches = [[chosen[i] for i in batch] for batch in batch_indices]

        if on_cpu:  # on a GPU, torch raises an error if memory is full
            configs = [model.config for model in self.models]
            check_search_memory(configs, [[lengths[i] for i in batch] for batch in batch_indices], search)

        def translate_batch(batch: list[int]) -> list[list[Translation]]:
            return self._search([sources[index] for index in batch], [line_numbers[index] for index in batch], search)

        with eval_mode(*self.models):
            # A GPU takes one batch at a time: several would only need more of its memory.
            found = parallel_map(translate_batch, batches) if on_cpu else map(translate_batch, batches)
            return [
                (index, [replace(one, source_ids=sources[index]) for one in hypotheses])
                for index, hypotheses in zip(chain(*batches), chain.from_iterable(found), strict=True)
            ]

    @overload
    def score(  # type: ignore[overload-overlap]
        self, sources: str, targets: str, batch_tokens: int | None = ...
    ) -> Scored: ...

    @overload
    def score(self, sources: Sequence[str], targets: Sequence[str], batch_tokens: int | None = ...) -> list[Scored]: ...

    def score(
        self, sources: str | Sequence[str], targets: str | Sequence[str], batch_tokens: int | None = None
    ) -> Scored | list[Scored]:
        """The probability of each piece of a given translation, for one text or for each of several.

        Raises ValueError, with its number, for a pair with an empty side or more tokens than the model allows.
        """
        if isinstance(sources, str) and isinstance(targets, str):
            return self.score([sources], [targets], batch_tokens)[0]
        if isinstance(sources, str) or isinstance(targets, str):
            raise TypeError("sources and targets must be two texts, or two lists of texts")
        if len(sources) != len(targets):
            raise ValueError(f"there are {len(sources)} sources and {len(targets)} targets: give a target for each")
        ids = self.source_tokenizer.encode_all([*sources]), self.target_tokenizer.encode_all([*targets])
        for number, pair in enumerate(zip(*ids, strict=True), 1):
            if not self.can_score(*pair):
                raise ValueError(f"pair {number} has an empty side, or one of more than {self.max_length - 1} tokens")
        found = self.token_log_probabilities(*ids, batch_tokens)
        pieces = [[self.target_tokenizer.piece(id) for id in (*target, EOS)] for target in ids[1]]
        return [Scored(*one) for one in zip(pieces, found, strict=True)]

    def can_score(self, source: list[int], target: list[int]) -> bool:
        """Whether neither side is empty, and both fit into the model."""
        is_empty = len(source) <= len(self.source_tokenizer.prefix) or not target
        return not is_empty and max(len(source), len(target)) < self.max_length

    def token_log_probabilities(
        self, sources: list[list[int]], targets: list[list[int]], batch_tokens: int | None = None
    ) -> list[list[float]]:
        """As `score`, but for ids for which `can_score` is true."""
        return token_log_probabilities(self.models, sources, targets, batch_tokens or self.default_batch_tokens)

    def check_search(self, search: SearchSettings) -> None:
        """Raises ValueError, with the setting, for a search that this translator cannot do, and TypeError for an object
        of another type."""
        if not isinstance(search, SearchSettings):
            raise TypeError(f"search must be SearchSettings, as SearchSettings(method='greedy'), not {search!r}")
        self.prefix_ids(search.prefix)
        if search.min_length >= self.max_length:
            raise ValueError(
                f"search.min_length={search.min_length} is more than the model's {self.max_length} positions allow"
            )

    def prefix_ids(self, prefix: str | None) -> list[int]:
        """The ids of the text that translations must begin with. Raises SettingError if the model cannot write it."""
        try:
            ids = self.target_tokenizer.encode(prefix or "")
        except ValueError as error:
            raise SettingError("prefix", f": {error}") from error
        if len(ids) >= self.max_length:
            raise SettingError(
                "prefix", f" has {len(ids):,} tokens, more than the {self.max_length - 1:,} of this model"
            )
        if UNK in ids and (unknown := self.target_tokenizer.unknown(prefix or "")):
            raise SettingError("prefix", f" has {', '.join(unknown)}, which this model cannot write")
        return ids

    def encode(self, texts: list[str], line_numbers: Sequence[int], split_lines: SplitLines) -> list[list[Part]]:
        """The parts of each text: none if it is empty, several if it is split.

        Raises TypeError for an object that is no text, and ValueError for text that is no Unicode and, with
        split_lines="never", for one that is too long.
        """
        place = f"{self.lines_of} line".strip()
        for line, text in zip(line_numbers, texts, strict=True):
            if not isinstance(text, str):
                raise TypeError(f"{place} {line} is no text but {type(text).__name__}")
            if LONE_SURROGATE.search(text):
                raise ValueError(f"{place} {line} is no Unicode text: half of a surrogate pair stands alone in it")
        protected = [self.keeper.protect(text) if self.keeper else (text, []) for text in texts]
        texts, placeholders = [text for text, _ in protected], set(self.source_tokenizer.placeholders)
        all_ids, encoded = self.source_tokenizer.encode_all(texts), list[list[Part]]()
        limit, keeps_letterless = self.max_length - 1, self.defaults.keeps_letterless  # EOS also needs a position
        if self.warns_of_sources:
            stays = [keeps_letterless and is_letterless(text) for text in texts]
            read = [[] if stay else ids for stay, ids in zip(stays, all_ids, strict=True)]
            self._source_check.check(texts, read, line_numbers, place)
        if split_lines == "long" and self.warns_of_lines:
            numbered = zip(line_numbers, texts, all_ids, strict=True)
            whole = [(line, text) for line, text, ids in numbered if len(ids) <= limit]
            self._source_check.check_sentences(whole, place)
        for line, (text, kept), ids in zip(line_numbers, protected, all_ids, strict=True):
            of_line = f"{place} {line}"
            parts = parts_of(text, ids, self.source_tokenizer, limit, split_lines, keeps_letterless, of_line)
            if kept:
                parts = with_kept(parts, kept, placeholders)
            # The parts of a line get different random numbers: the number of the part is in the bits above 2^20.
            encoded.append(
                [part._replace(number=line + (number << 20), is_first=not number) for number, part in enumerate(parts)]
            )
        return encoded

    @property
    def device(self) -> torch.device:
        return self.model.output.weight.device

    @property
    def default_batch_tokens(self) -> int:
        """Sentences × longest source of a batch, if batch_tokens is not set."""
        return BATCH_TOKENS_ON_GPU if self.device.type == "cuda" else BATCH_TOKENS

    @property
    def max_length(self) -> int:
        """The number of positions of the model."""
        return min(model.config.max_length for model in self.models)

    def init_state(self, source: Int[Tensor, "sentences source"]) -> Any:
        """The first state of a search: the cache with the encoded sources."""
        memory = self.model.encode(source, padding_mask(source, PAD))
        return self.model.decoder.init_cache(memory)

    def logits(self, ids: Int[Tensor, " rows"], state: Any) -> tuple[Float[Tensor, "rows vocabulary"], Any]:
        """One step of a search: the logits of the token after the newest id of each row, and the new state."""
        logits, state = self.model.step(ids, state)
        return logits.float(), state

    def log_probabilities(self, ids: Int[Tensor, " rows"], state: Any) -> tuple[Float[Tensor, "rows vocabulary"], Any]:
        """As `logits`, but log p(next token)."""
        logits, state = self.logits(ids, state)
        # log_softmax overwrites the logits, which are not used elsewhere: allocating a tensor of this size takes longer
        # than computing it.
        return torch.log_softmax(logits, dim=-1, out=logits), state

    def _demands(
        self, sources: list[list[int]], settings: SearchSettings
    ) -> tuple[list[int], Carried | None, list[int]]:
        """The ids that all translations begin with, the placeholders that each must have as often as its source, and
        the largest number of tokens of each, which is enough for both."""
        prefix, limits = self.prefix_ids(settings.prefix), settings.max_lengths([len(ids) for ids in sources])
        of_sources, of_targets = (tokenizer.placeholders for tokenizer in self.tokenizers)
        counts = [[ids.count(one) for one in of_sources] for ids in sources]
        needed = [len(prefix) + sum(of_source) for of_source in counts]
        # BOS needs one more position.
        limits = [min(self.max_length - 1, max(pair)) for pair in zip(needed, limits, strict=True)]
        ids, numbers = (torch.tensor(values, device=self.device) for values in (of_targets, counts))
        return prefix, Carried(ids, numbers) if of_targets else None, limits

    @torch.inference_mode()
    def _search(
        self, sources: list[list[int]], line_numbers: list[int], settings: SearchSettings
    ) -> list[list[Translation]]:
        """Translates one batch of ids; `line_numbers` are for sampling."""
        source = pad([[*ids, EOS] for ids in sources]).to(self.device)
        scored = self.greedy_scores or settings.method != "greedy"

        def checked_step(ids: Tensor, state: Any) -> tuple[Tensor, Any]:
            scores, state = self.log_probabilities(ids, state)
            # If one logit is not finite, its whole row is not, and neither is the sum over rows.
            check_finite(scores[:, 0].sum().item())
            return scores, state

        bos_ids = torch.full((len(sources),), BOS, device=self.device)
        prefix, carried, max_lengths = self._demands(sources, settings)
        # Scores must be the same during training, which may have set another precision.
        with full_precision(self.device):
            step, state = checked_step if scored else self.logits, self.init_state(source)
            results = search(step, state, bos_ids, EOS, max_lengths, line_numbers, settings, prefix, carried)
        if not scored:
            check_finite(sum(one.log_probability for hypotheses in results for one in hypotheses))
            results = [[Hypothesis(one.ids, math.nan, math.nan) for one in hypotheses] for hypotheses in results]
        return [
            [self._translation(hypothesis, limit) for hypothesis in hypotheses]
            for hypotheses, limit in zip(results, max_lengths, strict=True)
        ]

    def _translation(self, hypothesis: Hypothesis, limit: int) -> Translation:
        pieces = [self.target_tokenizer.piece(id) for id in hypothesis.ids]
        # Byte pieces may give a line end, but a translation is one line.
        text = " ".join(re.split(r"[\r\n]+", self.target_tokenizer.decode(hypothesis.ids)))
        return Translation(text, hypothesis.score, hypothesis.log_probability, pieces, len(pieces) >= limit)
