"""Scores a translator: `evaluate` computes all scores. Below it are the files of scripts/evaluate.py."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torchmetrics import MeanMetric

from transformer.config import UsageError
from transformer.data.config import RESERVED_NAMES, split_name
from transformer.data.directions import Direction
from transformer.data.splitting import corpus_of, hash64
from transformer.data.text_files import Pair, read_pairs
from transformer.evaluation.corpus_score import CorpusScore
from transformer.evaluation.metrics import METRICS, Scores, scored_language
from transformer.evaluation.settings import EvaluationSettings
from transformer.files import read_json, write_json
from transformer.inference.choosing import Chooser, references_loss
from transformer.inference.settings import ChoiceSettings, SearchSettings
from transformer.inference.translator import Translator
from transformer.printing import print_safely
from transformer.processes import gather, place
from transformer.run import Run

log = logging.getLogger(__name__)
MAX_LOSS = 700  # exp of a larger loss overflows
CHUNK = 256  # sentences translated between two calls of `on_progress`; more if batches are large


class Evaluation(NamedTuple):
    """The translations of all texts, their scores, the loss of the references if it was wanted (nats per token, with
    the end symbol), and how many translations were cut at their length limit."""

    hypotheses: list[str]
    scores: Scores
    loss: float | None
    cut: int = 0

    @property
    def perplexity(self) -> float | None:
        """1 / the geometric mean of the probabilities of all tokens of the references; None if it was not computed, or
        is infinite or nan."""
        return math.exp(self.loss) if self.loss is not None and self.loss < MAX_LOSS else None


def evaluate(
    translator: Translator | Chooser,
    pairs: Sequence[Pair],
    search: SearchSettings,
    metrics: Iterable[str],
    batch_tokens: int | None = None,
    with_loss: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Translates and scores pairs of source and reference, during training and after it.

    Each of several processes takes a share of the sentences, and all of them return the whole result. All call
    `on_progress` equally often, with the number of their finished sentences and of all their sentences.
    """
    rank, processes = place()
    # Each chunk has sentences of similar length, the longest first, so that a lack of memory is found at once.
    mine = sorted(range(len(pairs)), key=lambda index: -len(pairs[index][0]))[rank::processes]
    one = translator if isinstance(translator, Translator) else translator.translator
    total, size = -(-len(pairs) // processes), max(CHUNK, (batch_tokens or one.default_batch_tokens) // 8)
    # The states are summed on the device over which the processes communicate.
    device = one.device if one.device.type == "cuda" else torch.device("cpu")
    language = scored_language(one.target_language, (reference for _, reference in pairs))
    scores = {name: CorpusScore(name, language).to(device) for name in metrics}
    # A loss of nan stays nan; by default torchmetrics would leave it out.
    loss, hypotheses, cut = MeanMetric(nan_strategy=math.nan).to(device), dict[int, str](), set[int]()
    for start in range(0, total, size):
        indices = mine[start : start + size]
        sources, references = ([pairs[index][side] for index in indices] for side in (0, 1))
        n_best = translator.n_best(sources, search, batch_tokens, line_numbers=[index + 1 for index in indices])
        hypotheses.update(zip(indices, (found[0].text for found in n_best), strict=True))
        cut.update(index for index, found in zip(indices, n_best, strict=True) if found[0].is_cut)
        for score in scores.values():
            score.update([hypotheses[index] for index in indices], references)
        if with_loss:
            total_loss, tokens = references_loss(one, [pairs[index] for index in indices], batch_tokens)
            loss.update(total_loss / max(1, tokens), tokens)
        on_progress(min(start + size, total), total)
    values = {name: float(score.compute()) for name, score in scores.items()}
    mean = float(loss.compute()) if with_loss else None
    gathered, all_cut = gather(hypotheses), gather(dict.fromkeys(cut, True))
    texts = [gathered[index] for index in range(len(pairs))]
    signatures = {name: score.signature for name, score in scores.items()}
    return Evaluation(texts, Scores(values, signatures), mean, len(all_cut))


def cut_note(found: Evaluation) -> str | None:
    if not found.cut:
        return None
    return f"{found.cut:,} of {len(found.hypotheses):,} translations were cut at their length limit (length_ratio)"


class Texts(NamedTuple):
    """The texts to translate, their references, and the name for the results."""

    name: str
    sources: list[str]
    references: list[str]

    def pairs(self) -> list[Pair]:
        return list(zip(self.sources, self.references, strict=True))

    @property
    def digest(self) -> str:
        """A hash that identifies these pairs."""
        return f"{hash64(*self.sources, *self.references):016x}"


def _texts(name: str, pairs: Iterable[Pair]) -> Texts:
    sources, references = zip(*pairs, strict=True)
    return Texts(name, list(sources), list(references))


def _is_tested(split: str, digest: str, run: Run) -> bool:
    """Whether the run was tested on these files under the name `split`; true if its results do not say."""
    try:
        return bool(read_json(run.results)["corpus"].get(split, digest) == digest)
    except (OSError, ValueError, KeyError, AttributeError):
        return True


def _own_name(split: str, is_own: bool, corpus: str = "other") -> str:
    """`split`, or another name if the run was tested on other files with this name: their translations must stay."""
    name = split if is_own else f"{corpus}.{split}"
    if Path(name).name != name or name.startswith(".") or not name.isprintable():
        raise ValueError(f"results cannot be called {name}: it cannot be part of a file's name")
    return name


def read_texts(settings: EvaluationSettings, run: Run, languages: Direction, directions: Sequence[Direction]) -> Texts:
    """Reads the texts to score with a translator of `run` in one of its `directions`: files, or a split of the run's
    corpus. UsageError for a split in another direction."""
    if settings.input and settings.reference:
        files = [Path(settings.input), Path(settings.reference)]
        stem = files[0].stem if languages == directions[0] else split_name(files[0].stem, languages)
        return _texts(
            _own_name(stem, _is_tested(stem, "", run) and stem not in RESERVED_NAMES), read_pairs(files, *languages)
        )
    if not run.config.exists():
        raise FileNotFoundError(
            f"{run.folder} has no {run.config.name} that names a corpus: give --input and --reference"
        )
    corpus, split = corpus_of(run, settings.cache), settings.split or "test"
    asked, name = corpus.find_split(split)
    if name != split and asked.languages != languages:
        source, target = asked.languages
        raise UsageError(f"--split {split}: give --split {name} --source {source} --target {target}")
    one = corpus.in_direction(languages)
    # Each direction has a name of its own, because several directions may translate the same sentences.
    unique = name if languages == corpus.languages else split_name(name, languages)
    is_tested = _is_tested(unique, one.digest(name), run)
    if not is_tested:
        log.warning(
            "the sentences of --split %s are not those that %s was tested on: they have changed", name, run.folder
        )
    return _texts(_own_name(unique, is_tested, corpus.name), one.read(name))


def _earlier(path: Path, digest: str, by_split: Iterable[str]) -> dict[str, Any]:
    """The content of `path`, if it is about the checkpoint (or checkpoints) with this sha256; the values of the keys
    `by_split` are dicts."""
    try:
        results = read_json(path)
    except (OSError, ValueError):
        return {}
    is_same = results.get("sha256") == digest
    is_same = is_same and all(isinstance(results.setdefault(key, {}), dict) for key in by_split)
    return results if is_same else {}


def show_scores(split: str, found: Evaluation) -> None:
    """Prints each score with its signature (so that others can compute the same), the perplexity of the references, and
    how many translations were cut."""
    for name, value in found.scores.values.items():
        print_safely(f"{split} {METRICS[name].label} {value:.2f}   {found.scores.signatures[name]}")
    if found.perplexity is not None:
        print_safely(f"{split} perplexity {found.perplexity:.2f} of the references, per token")
    if note := cut_note(found):
        print_safely(f"{split}: {note}")


class Origin(NamedTuple):
    """The origin of translations: models, the sha256 of their files, and the settings of their search and choice."""

    checkpoints: Sequence[Path]
    digest: str
    search: SearchSettings
    choice: ChoiceSettings = ChoiceSettings()
    is_zero_shot: bool = False

    def how(self) -> dict[str, Any]:
        """The settings of the search, and of the choice if there was one."""
        return asdict(self.search) | (asdict(self.choice) if self.choice.choose != "score" else {})


def write_evaluation(run: Run, texts: Texts, found: Evaluation, origin: Origin, seconds: float) -> None:
    """Writes hypotheses.<split>.txt, and adds the scores to evaluation.json, which keeps the results of the same
    checkpoint (by its digest) on other splits; `zero_shot` names splits of a direction that was not trained."""
    results = {
        texts.name: found.scores.to_dict(),
        "checkpoint": " ".join(map(str, origin.checkpoints)),
        "sha256": origin.digest,
    }
    by_split = {
        "sentences": len(texts.sources),
        "searches": origin.how(),
        "seconds": round(seconds, 1),
        "texts": texts.digest,
        "perplexity": found.perplexity,
    }
    file = run.hypotheses_file(texts.name)
    with run.evaluation_lock():
        if run.write_hypotheses(texts.name, found.hypotheses):
            log.info("%s was replaced: it had other translations", file)
        earlier = _earlier(run.evaluation, origin.digest, by_split)
        others = earlier.get(texts.name)
        if isinstance(others, dict) and earlier["texts"].get(texts.name, texts.digest) != texts.digest:
            values = {key: value for key, value in others.items() if key in METRICS}
            log.warning("the scores %s of %s were for other sentences: replaced", values, texts.name)
        by_name = {key: earlier.get(key, {}) | {texts.name: value} for key, value in by_split.items()}
        results = earlier | results | by_name
        if origin.is_zero_shot:
            results["zero_shot"] = sorted({texts.name, *earlier.get("zero_shot", [])})
        write_json(run.evaluation, results)
    log.info("%s has the scores, %s the translations", run.evaluation, file.name)
