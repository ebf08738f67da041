"""The whole examination: check a corpus, write a cleaned copy, encode it as training would, time training, report."""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from transformer.data.corpus import DataSettings, split_name
from transformer.data.datamodule import TranslationData
from transformer.data.directions import arrow, direction_name
from transformer.data.languages import LANGUAGE_SAMPLE, language_faults
from transformer.data.printable import with_progress
from transformer.data.splitting import notes_of_cut, with_splits
from transformer.data.tokenizer import VocabularyTooLargeError, advice
from transformer.doctor.budget import Candidate, Proposal, propose, what_to_try
from transformer.doctor.check_corpus import Dropped, Examination
from transformer.doctor.estimate import Training, estimate, preset_for
from transformer.doctor.fix import clean_copy
from transformer.doctor.report import cost_as_dict, findings_as_dicts, proposal_as_dict, unknown_shares
from transformer.doctor.text import Line
from transformer.training.train import build_translator


def _candidate(overrides: tuple[str, ...], training_for: Callable[[tuple[str, ...]], Training]) -> Candidate:
    """The training with these overrides, and its corpus, prepared as training would, or why it cannot be trained on."""
    settings = (training := training_for(overrides)).settings
    if settings.tokenizer.kind not in ("bpe", "unigram") and settings.training.bpe_dropout:
        overrides = (*overrides, "training.bpe_dropout=0")
        settings = (training := training_for(overrides)).settings
    try:
        try:
            data = TranslationData(settings.data, settings.tokenizer, settings.seed)
        except VocabularyTooLargeError as error:  # of a small corpus: as many as it gives, unless the size was typed
            overrides = (*overrides, f"tokenizer.vocabulary_size={error.max_size}")
            settings = (training := training_for(overrides)).settings
            data = TranslationData(settings.data, settings.tokenizer, settings.seed)
        build_translator(settings, training.model, data, None)  # refuses sentences that are too long for the model
        return Candidate(overrides, training, data, "")
    except ValueError as error:
        return Candidate(overrides, training, None, str(error))


def _named(corpus: DataSettings, examination: Examination, split: str) -> str:
    """The name of an examination's split among those of all directions."""
    languages = examination.settings.languages
    return split if languages == corpus.languages else split_name(split, languages)


def _unseen(corpus: DataSettings, is_cut: bool) -> list[str]:
    """The checks that do not see the text as it was: in splits that were cut there are no edge spaces left, and of a
    table reading takes the line ends."""
    if is_cut:
        return ["edge spaces", "carriage returns"]
    has_table = any(len(corpus.files(split)) == 1 for split in corpus.splits)
    return ["carriage returns"] if has_table else []


def _check_pairs(examination: Examination, too_long: set[int], fix: Path | None) -> int:
    """Run all checks and write a cleaned copy if asked to; return how many training pairs have a fault."""
    corpus, dropped = examination.settings, 0
    with clean_copy(fix, corpus.languages, list(corpus.splits)) if fix else nullcontext() as copy:

        def drop(pair: Dropped) -> None:
            nonlocal dropped
            dropped += 1
            if copy:
                copy.drop(pair)

        def keep(line: Line) -> None:
            if copy:
                copy.write("train", line)

        examination.run(too_long, keep, drop)
        if copy:
            for split in corpus.splits:
                for line in examination.lines(split) if split != "train" else ():
                    copy.write(split, line)
            if dropped == examination.pairs["train"]:
                raise ValueError(f"fix={fix}: every pair of train has a fault: nothing would be left")
    return dropped


def _check_all(
    corpus: DataSettings, examinations: list[Examination], data: TranslationData | None, fix: Path | None
) -> dict[str, Any]:
    """What the checks of all pairs of languages find, as parts of the report."""
    faults: list[str] = []
    dropped, is_swapped, is_empty = 0, False, False
    for examination in examinations:
        sample = (line.text for line in islice(examination.lines("train"), LANGUAGE_SAMPLE))
        swapped, faulty = language_faults(sample, examination.settings.languages)
        is_swapped, faults = is_swapped or swapped, faults + faulty
        too_long = set(data.split(_named(corpus, examination, "train")).too_long.tolist()) if data else set()
        faulty_pairs = _check_pairs(examination, too_long, fix)
        is_empty = is_empty or faulty_pairs == examination.pairs["train"]
        dropped += faulty_pairs
    return {
        "findings": [
            finding | {"split": _named(corpus, one, finding["split"])}
            for one in examinations
            for finding in findings_as_dicts(one)
        ],
        "languages": list(dict.fromkeys(faults)),
        "swapped": is_swapped,
        "byte_order_marks": list(dict.fromkeys(str(path) for one in examinations for path in one.files_with_mark)),
        "dropped": dropped,
        "can_be_cleaned": dropped > 0 and not is_swapped and not is_empty and len(examinations) == 1,
    }


def _choose_training(
    preset: str, training_for: Callable[[tuple[str, ...]], Training], minutes: float | None
) -> tuple[Candidate, Proposal | None]:
    """The training with a preset, or what was typed in its place, timed; or the one that is proposed for so many
    minutes."""
    tried = [_candidate(overrides, training_for) for overrides in what_to_try(preset)[: 1 if minutes is None else 2]]
    for candidate in tried[1:]:
        candidate.stands_in = True
    if tried[0].training.experiment != preset:  # it was typed
        tried = tried[:1]
    possible = [candidate for candidate in tried if candidate.data]
    # The smaller model first, as the peak of memory only grows.
    costs = estimate([candidate.training for candidate in reversed(possible)]) if possible else []
    for candidate, cost in zip(reversed(possible), costs, strict=True):
        candidate.cost = cost
    return (tried[0], None) if minutes is None or not possible else propose(minutes, possible)


def _preset_advice(preset: str, pairs: int, experiment: str | None, minutes: float | None) -> str:
    text = f"recommended for {pairs:,} pairs: experiment={preset}"
    if experiment == preset:
        return text
    instead = f"experiment={experiment}" if experiment else "the settings as given"
    return f"{text}; {'for this time' if minutes else 'tried'}: {instead}"


def examine(
    corpus: DataSettings,
    training_for: Callable[[tuple[str, ...]], Training],
    fix: Path | None,
    minutes: float | None,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The report as plain data, and what to type beside the corpus to train as it says.

    `training_for` gives the training to be timed, with such overrides beneath what was typed. `fix` is the folder of a
    cleaned copy, if one is to be written; `minutes` are those that a run may take, if one is to be proposed.
    """
    corpus.fetch()
    whole, corpus = corpus, with_splits(corpus)
    corpora = corpus.with_own_pairs
    if fix and len(corpora) > 1:
        directions = arrow(*(one.languages for one in corpora))
        raise ValueError(f"fix= is for one set of pairs, here are those of {directions}: clean one of them at a time")
    examinations = [Examination(one, with_progress, [other for other in corpora if other != one]) for one in corpora]
    pairs = sum(examination.pairs["train"] for examination in examinations)
    preset = preset_for(pairs)
    chosen, proposal = _choose_training(preset, training_for, minutes)
    training, data = chosen.training, chosen.data
    checked = _check_all(corpus, examinations, data, fix)
    known = {"size": len(data.source_tokenizer), "unknown": unknown_shares(data)} if data else {"error": chosen.error}
    steps, cut = int(training.trainer.get("max_steps", -1)), notes_of_cut(corpus, whole)
    report = {
        "corpus": {
            "name": corpus.name,
            "directions": [*map(direction_name, corpus.all_directions)],
            "pairs": {_named(corpus, one, split): count for one in examinations for split, count in one.pairs.items()},
        },
        **checked,
        "cut": cut,
        "unseen": _unseen(corpus, is_cut=bool(cut)),
        "tokenizer": {"kind": training.settings.tokenizer.kind, **known},
        "advice": _preset_advice(preset, pairs, training.experiment, minutes),
        "tokenizer_advice": advice(corpus.all_languages, training.settings.tokenizer),
        "preset": preset,
        "estimate": cost_as_dict(chosen.cost, steps) if chosen.cost else None,
        "proposal": proposal_as_dict(proposal) if proposal else None,
    }
    return report, proposal.overrides if proposal else chosen.overrides
