"""Signs that the pairs of a corpus are not plain text but in the format of some program, each with a remedy."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from transformer.data.config import DataSettings
from transformer.data.languages import LANGUAGE_SAMPLE
from transformer.data.text_files import Pair, find_files, is_csv, is_heading, is_table, read_pairs
from transformer.printing import shortened


class Format(NamedTuple):
    """A text is in this format if it matches the `pattern`; a corpus, if more than a `share` of its texts match."""

    name: str
    pattern: str
    share: float
    remedy: str
    only_tsv: bool = False


DETOKENIZE = "undo that, for example with sacremoses detokenize: translations will look like the training pairs"
QUOTED = "texts in the quotation marks of a .csv", "rename the file to .csv, so that they are not part of the text"
FORMATS = (
    Format(QUOTED[0], r'^"(?=.*"").*"$', 0.01, QUOTED[1], only_tsv=True),
    Format(QUOTED[0], r'^".*"$', 0.3, QUOTED[1], only_tsv=True),
    Format("the pieces of subword-nmt (@@)", r"@@( |$)", 0.05, "undo that: sed -E 's/@@( |$)//g'"),
    Format("pieces of SentencePiece (\u2581)", "\u2581", 0.05, "decode them with spm_decode"),
    Format("tokenized by Moses (&apos; &quot; @-@)", r"&(apos|quot|#9[13]|#124);|@-@", 0.01, DETOKENIZE),
    Format("tokenized (spaces before , and .)", r"\w (\.$|, )", 0.3, DETOKENIZE),
)


def _first_pairs(corpus: DataSettings, count: int) -> Iterator[tuple[DataSettings, str, list[Path], list[Pair]]]:
    """For each direction and each of its tables, or pairs of files: the corpus, prefix, files and first pairs."""
    for one in corpus.by_direction:
        for prefix in filter(None, (one.pairs, *one.splits.values())):
            files = find_files(prefix, *one.languages)
            yield one, prefix, files, [*islice(read_pairs(files, *one.languages, one.columns), count)]


def _named(files: list[Path]) -> str:
    return " and ".join(sorted(map(str, files)))


def format_notes(corpus: DataSettings) -> list[str]:
    """A line for each format that the first texts of a table, or of a pair of files, seem to have."""
    notes: dict[tuple[str, str], str] = {}
    for _, prefix, files, pairs in _first_pairs(corpus, LANGUAGE_SAMPLE):
        texts, names, is_tsv = [*chain(*pairs)], _named(files), is_table(prefix) and not is_csv(files[0])
        for format in FORMATS:
            found = [text for text in texts if re.search(format.pattern, text)]
            if len(found) > format.share * len(texts) and (is_tsv or not format.only_tsv):
                example = f"{shortened(found[0])} ({len(found):,} of {len(texts):,} texts)"
                # Other directions read the same texts.
                notes.setdefault((names, format.name), f"{names}: {format.name}, as in {example}: {format.remedy}")
    return list(notes.values())


def heading_notes(corpus: DataSettings) -> list[str]:
    """A line for each table, or pair of files, whose first pair looks like the names of columns."""
    notes: dict[str, str] = {}
    for one, prefix, files, [first] in _first_pairs(corpus, 1):
        if is_heading(first, one.languages):
            names, named = _named(files), " and ".join(one.languages)
            remedy = f"delete it, or name the columns {named}" if is_table(prefix) else "delete it"
            note = f"{names}: the first line, {' | '.join(first)}, looks like a heading, not a pair: {remedy}"
            notes.setdefault(names, note)  # other directions read the same line
    return list(notes.values())
