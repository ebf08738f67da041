"""The files that synthetic pairs are read from: only complete files of the right direction."""

from pathlib import Path

import pytest

from tests.data.corpora import settings, write
from tests.factories import data_settings, tokenizer_settings
from transformer.data.datamodule import TranslationData
from transformer.data.synthetic import check_synthetic, held_out_sentences, synthetic_files

BOTH = ["de-en", "en-de"]


def write_pairs(folder: Path, *names: str) -> None:
    for name in names:
        write(folder, name, ["eins zwei drei", "vier fünf sechs"])


@pytest.mark.parametrize(("missing", "left"), [("en", "de"), ("de", "en"), ("en", "de.gz")])
@pytest.mark.parametrize("directions", [[], BOTH])
def test_an_incomplete_direction_is_an_error_and_not_the_other_one(
    tmp_path: Path, directions: list[str], missing: str, left: str
) -> None:
    write_pairs(tmp_path, "x.de", "x.en", "p.en-de.de", "p.en-de.en", "p.de", "p.en", f"p.de-en.{left}")
    corpus = settings(tmp_path, synthetic=[str(tmp_path / "p")], directions=directions)
    message = rf"no .*[/\\]p\.de-en\.{missing} beside .*[/\\]p\.de-en\.{left}: put it there, or remove"
    with pytest.raises(FileNotFoundError, match=message):
        TranslationData(corpus, tokenizer_settings("word", 30), seed=1)


def test_an_incomplete_direction_is_not_left_out_of_several(tmp_path: Path) -> None:
    write_pairs(tmp_path, "x.de", "x.en", "x.fr", "p.fr-en.fr", "p.fr-en.en", "p.de-en.de")
    corpus = settings(tmp_path, synthetic=[str(tmp_path / "p")], directions=["de-en", "fr-en"])
    with pytest.raises(FileNotFoundError, match=r"no .*[/\\]p\.de-en\.en beside"):
        TranslationData(corpus, tokenizer_settings("word", 30), seed=1)


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["p.de-en.de", "p.de-en.en.gz", "p.en-de.de", "p.en-de.en", "p.de", "p.en"], ["p.de-en.de", "p.de-en.en.gz"]),
        (["p.de", "p.en"], ["p.de", "p.en"]),
    ],
)
def test_files_of_the_own_direction_come_first(tmp_path: Path, names: list[str], files: list[str]) -> None:
    write_pairs(tmp_path, *names)
    [found] = synthetic_files(settings(tmp_path, synthetic=[str(tmp_path / "p")]))
    assert [path.name for path in found] == files


def test_no_direction_gets_the_files_of_the_reversed_one(tmp_path: Path) -> None:
    write_pairs(tmp_path, "x.de", "x.en")
    for language in ("de", "en"):
        write(tmp_path, f"p.en-de.{language}", ["sieben acht neun"])
    corpus = settings(tmp_path, synthetic=[str(tmp_path / "p")], directions=BOTH)
    data = TranslationData(corpus, tokenizer_settings("word", 30), seed=1)
    assert [corpus.languages for corpus, split in data.all_splits.values() if split == "synthetic"] == [("en", "de")]


def test_only_directions_with_synthetic_pairs_have_their_tag_and_ratio(tmp_path: Path) -> None:
    write_pairs(tmp_path, "x.de", "x.en", "p.en-de.de", "p.en-de.en")
    both = settings(tmp_path, synthetic=[str(tmp_path / "p")], synthetic_tag=True, synthetic_ratio=0.5, directions=BOTH)
    of_directions = [(one.synthetic_tag, one.synthetic_ratio) for one in both.by_direction]
    assert of_directions == [(False, None), (True, 0.5)]


def test_a_synthetic_sentence_without_a_letter_is_no_sentence_of_the_test(tmp_path: Path) -> None:
    for name in ("x.de", "x.en"):
        write(tmp_path, name, ["eins zwei drei", "!"])
    for name in ("p.de", "p.en"):
        write(tmp_path, name, ["vier fünf", "…"])
    corpus = settings(tmp_path, synthetic=[str(tmp_path / "p")])
    check_synthetic(corpus, held_out_sentences(corpus))
    write(tmp_path, "p.en", ["vier fünf", "Eins, zwei: drei!"])
    with pytest.raises(ValueError, match=r"p\.en line 2 is a sentence of test \(line 1\)"):
        check_synthetic(corpus, held_out_sentences(corpus))


@pytest.mark.parametrize(
    ("origins", "message"),
    [
        (["text\ttext\ttext\ttext", "text"], "holds no origins: a line has 5 columns"),
        (["x.en\t1\tde\trun\tbeam"], "has 1 lines for 2 pairs: give the file that was written with them, or delete"),
        ([], "has 0 lines for 2 pairs"),
    ],
)
def test_origins_that_cannot_be_of_the_pairs_are_refused_before_training(
    tmp_path: Path, origins: list[str], message: str
) -> None:
    write_pairs(tmp_path, "x.de", "x.en")
    for name, lines in (("p.de", ["vier", "fünf"]), ("p.en", ["four", "five"]), ("p.origin", origins)):
        write(tmp_path, name, lines)
    corpus = settings(tmp_path, synthetic=[str(tmp_path / "p")])
    with pytest.raises(ValueError, match=rf"p\.origin {message}"):
        TranslationData(corpus, tokenizer_settings("word", 30), seed=1)


def test_synthetic_pairs_are_found_from_another_folder_too() -> None:
    typed = data_settings("data=toy", "data.synthetic=[my/pairs,'~/pairs']")
    assert typed.synthetic == [str(path) for path in (Path("my/pairs").absolute(), Path.home() / "pairs")]
