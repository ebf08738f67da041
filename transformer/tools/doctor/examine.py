"""The whole examination: checks a corpus, writes a cleaned copy, encodes it as for training, and makes a report."""

from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from transformer.data.config import DataSettings, split_name
from transformer.data.datamodule import TranslationData
from transformer.data.directions import arrow, direction_name
from transformer.data.formats import format_notes
from transformer.data.languages import LANGUAGE_SAMPLE, language_faults
from transformer.data.splitting import notes_of_cut, with_splits
from transformer.data.words import Line
from transformer.printing import with_progress
from transformer.tools.doctor.check_corpus import Dropped, Examination
from transformer.tools.doctor.fix import clean_copy
from transformer.tools.doctor.plan import Plan, prepare, run_length
from transformer.tools.doctor.report import findings_as_dicts, unknown_shares
from transformer.training.sizing import as_typed
from transformer.training.summary import writing_notes


def _named(corpus: DataSettings, examination: Examination, split: str) -> str:
    """The name of an examination's split among those of all directions."""
    languages = examination.settings.languages
    return split if languages == corpus.languages else split_name(split, languages)


def _unseen(corpus: DataSettings, is_cut: bool) -> list[str]:
    """The checks that cannot see the original text: splits that were cut have no edge spaces any more, and reading a
    table removes line ends."""
    if is_cut:
        return ["edge spaces", "carriage returns"]
    has_table = any(len(corpus.files(split)) == 1 for split in corpus.splits)
    return ["carriage returns"] if has_table else []


def _check_pairs(examination: Examination, too_long: set[int], fix: Path | None) -> int:
    """Runs all checks, writes a cleaned copy if `fix` is given, and returns how many training pairs have a fault."""
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
                raise ValueError(f"--fix {fix}: every pair of train has a fault: nothing would be left")
    return dropped


def _check_all(
    corpus: DataSettings, examinations: list[Examination], data: TranslationData | None, fix: Path | None
) -> dict[str, Any]:
    """The findings for all pairs of languages, as parts of the report."""
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


def examine(plan: Plan, fix: Path | None) -> dict[str, Any]:
    """The report, as plain data, on the corpus of a planned run. `fix` is the folder for a cleaned copy, if it is
    wanted."""
    whole = plan.settings.data
    whole.fetch()
    corpus = with_splits(whole)
    corpora = corpus.with_own_pairs
    if fix and len(corpora) > 1:
        directions = arrow(*(one.languages for one in corpora))
        raise ValueError(f"--fix is for one set of pairs, and here are {directions}: clean one direction at a time")
    examinations = [Examination(one, with_progress, [other for other in corpora if other != one]) for one in corpora]
    prepare(plan)
    data, tokenizer = plan.data, plan.settings.tokenizer
    checked = _check_all(corpus, examinations, data, fix)
    known = {"size": len(data.source_tokenizer), "unknown": unknown_shares(data)} if data else {"error": plan.error}
    cut = notes_of_cut(corpus, whole)
    return {
        "corpus": {
            "name": corpus.name,
            "directions": [*map(direction_name, corpus.all_directions)],
            "pairs": {_named(corpus, one, split): count for one in examinations for split, count in one.pairs.items()},
        },
        **checked,
        "cut": cut,
        "unseen": _unseen(corpus, is_cut=bool(cut)),
        "tokenizer": {"kind": tokenizer.kind, **known},
        "chosen": plan.chosen,
        "advice": f"chosen by the corpus, as train does: {as_typed(plan.chosen)}" if plan.chosen else "",
        "writing": [*format_notes(whole), *(writing_notes(data) if data else [])],
        "run": run_length(data, plan.settings.trainer) if data else None,
    }
