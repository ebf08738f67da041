"""Formats of other programs are found in a corpus, and none are found in plain text."""

import csv
import io
from pathlib import Path

import pytest

from tests.data.corpora import write
from tests.factories import data_settings
from transformer.data.formats import format_notes
from transformer.data.text_files import read_pairs

TOY = Path(__file__).parents[2] / "data" / "toy"
PAIRS = [*read_pairs([TOY / "train.de", TOY / "train.en"], "de", "en")][:200]


def notes(folder: Path, name: str, pairs: list[tuple[str, str]]) -> list[str]:
    return format_notes(data_settings(pairs=str(write(folder, name, map("\t".join, pairs))), cache=str(folder / "c")))


def quoted(text: str, quoting: int) -> str:
    written = io.StringIO()
    csv.writer(written, quoting=quoting, lineterminator="").writerow([text])  # type: ignore[arg-type]
    return written.getvalue()


def test_the_bundled_corpus_is_plain_text() -> None:
    splits = {split: str(TOY / split) for split in ("train", "validation", "test")}
    assert format_notes(data_settings(**splits)) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("quotation marks of a .csv", lambda text: quoted(text, csv.QUOTE_ALL)),
        ("quotation marks of a .csv", lambda text: quoted(text.replace(" ", ' "oh" ', 1), csv.QUOTE_MINIMAL)),
        ("subword-nmt", lambda text: text.replace("en", "e@@ n")),
        ("SentencePiece", lambda text: "▁" + text.replace(" ", " ▁")),
        ("Moses", lambda text: text.replace("e", "&apos; e")),
        ("tokenized", lambda text: text.replace(".", " .").replace(",", " ,").replace("?", " ?")),
    ],
)
def test_a_format_is_reported_once_with_an_example(tmp_path: Path, name: str, change: object) -> None:
    assert callable(change)
    pairs = [(change(source), change(target)) for source, target in PAIRS]
    [note] = notes(tmp_path, "x.tsv", pairs)
    assert name in note
    [one_side] = notes(tmp_path, "y.tsv", [(change(source), target) for source, target in PAIRS])
    assert name in one_side


def test_a_few_quotations_and_a_sentence_about_code_are_plain_text(tmp_path: Path) -> None:
    some = [(f'"{source}"', f'"{target}"') for source, target in PAIRS[:20]]
    assert notes(tmp_path, "x.tsv", [*some, ("&amp; ist ein Zeichen", "&quot; is a mark"), *PAIRS[20:]]) == []


def test_the_quotation_marks_of_a_csv_are_no_part_of_its_texts(tmp_path: Path) -> None:
    asked = [(f"{quoted(source, csv.QUOTE_ALL)}", quoted(target, csv.QUOTE_ALL)) for source, target in PAIRS]
    assert notes(tmp_path, "x.csv", asked) == []
    assert [*read_pairs([tmp_path / "x.csv"], "de", "en")] == PAIRS
