"""The script as a user runs it: a report to read and as JSON, a cleaned copy, mistakes."""

import csv
import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.cases import others_long
from tests.factories import composed, data_settings
from tests.processes import shell_words
from tests.scripts.running import PROJECT, ok, refused
from tests.tools.doctor.corpora import PLANTED, TEST, VALIDATION, planted, write
from transformer.data.words import Line
from transformer.tools.doctor.check_corpus import Examination
from transformer.tools.doctor.fix import clean_copy
from transformer.tools.doctor.report import next_command
from transformer.training.sizing import as_typed

DROPPED = ("empty", "duplicate", "in a held-out split", "nearly held out", "copied source", "length ratio")
KEPT = ("edge spaces", "carriage returns")
TRAIN = PROJECT / "scripts" / "train.py"  # the name of the command in another folder
SMALL = [
    *("tokenizer=char", "model.dim=32", "model.feed_forward.dim=64", "model.layers=1", "data.batch_tokens=500"),
    *("trainer=cpu", "trainer.precision=32-true", "machine.matmul_precision=highest"),
    *("search=greedy", "search.max_length=20", "validation_search.max_length=20"),
]


def toy_pairs() -> list[tuple[str, str]]:
    files = [(PROJECT / "data" / "toy" / f"train.{language}").open(encoding="utf-8") for language in ("de", "en")]
    with files[0], files[1]:
        return [(german.strip(), english.strip()) for german, english in islice(zip(*files, strict=True), 300)]


def corpus(folder: Path) -> list[str]:
    """Arguments for a corpus with faults."""
    train = planted(*(PLANTED[name] for name in (*DROPPED, *KEPT)))
    settings = write(folder, {"train": train, "test": TEST, "validation": VALIDATION})
    splits = [f"data.{split}={prefix}" for split, prefix in settings.splits.items()]
    return ["data=files", *splits, "data.source_language=de", "data.target_language=en", "data.max_length=500"]


class Cleaned(NamedTuple):
    """The output of doctor.py for a corpus with faults: a copy without them, a report, and the last printed line."""

    home: Path
    copy: Path
    printed: str


FAULTY = sorted({line for name in DROPPED for line in PLANTED[name]})


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Cleaned:
    home = tmp_path_factory.mktemp("cleaned")
    arguments = [*corpus(home / "corpus"), *SMALL, f"data.cache={home}/cache", "seed=5"]
    news = f"+data.extra_tests.news={home}/corpus/test"
    left = ["--fix", "clean = 1", "--output", "report.json"]
    return Cleaned(home, home / "clean = 1", ok("doctor", *arguments, news, *left, cwd=home))


def test_a_cleaned_copy_lacks_exactly_what_was_planted(cleaned: Cleaned) -> None:
    train = planted(*(PLANTED[name] for name in (*DROPPED, *KEPT)))
    for side, language in enumerate(("de", "en")):
        expected = [pair[side].strip() for line, pair in enumerate(train, 1) if line not in FAULTY]
        assert (cleaned.copy / f"train.{language}").read_text(encoding="utf-8").splitlines() == expected
        for split, pairs in (("test", TEST), ("validation", VALIDATION), ("news", TEST)):
            assert (cleaned.copy / f"{split}.{language}").read_text(encoding="utf-8").splitlines() == [
                pair[side] for pair in pairs
            ]


def test_what_a_cleaned_copy_lacks_is_listed_with_the_reason(cleaned: Cleaned) -> None:
    with (cleaned.copy / "dropped.tsv").open(encoding="utf-8") as file:
        dropped = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [int(row["line"]) for row in dropped] == FAULTY
    assert next(row["reason"] for row in dropped if row["line"] == "7") == "in a held-out split (test 5)"


def test_the_report_counts_what_was_planted(cleaned: Cleaned) -> None:
    report = json.loads((cleaned.home / "report.json").read_text(encoding="utf-8"))
    found = {finding["check"]: finding for finding in report["findings"]}
    assert found.keys() == {*DROPPED, *KEPT}
    assert all(found[name]["pairs"] == len(PLANTED[name]) for name in DROPPED)
    assert all(name in cleaned.printed for name in found)
    assert report["dropped"] == len(FAULTY)
    assert report["corpus"]["pairs"] == {"train": 300, "test": 20, "validation": 20, "news": 20}
    assert report["tokenizer"]["unknown"]["train"] == {"de": 0.0, "en": 0.0}
    assert report["run"]["steps"] == 2000
    assert as_typed(report["chosen"]) in cleaned.printed


def test_the_next_command_trains_on_the_copy_with_what_was_typed(cleaned: Cleaned) -> None:
    python, script, *command = shell_words(cleaned.printed.splitlines()[-1])
    assert (python, Path(script)) == ("python", TRAIN)
    trained = yaml.safe_load(ok("train", *command, "--cfg", "job", cwd=cleaned.home))
    assert trained["data"]["train"] == str(cleaned.copy / "train")
    assert trained["data"]["extra_tests"] == {"news": str(cleaned.copy / "news")}
    assert (trained["seed"], trained["data"]["max_length"], trained["model"]["dim"]) == (5, 500, 32)


def test_the_next_command_keeps_the_license_and_leaves_no_second_fold_out() -> None:
    typed = ["data=multi30k", "data.fold=[1,5]", "data.home=https://example.org"]
    corpus = data_settings(*typed)
    printed = next_command(typed, typed, corpus, Path("clean"), clean=True)
    trained = composed(*shell_words(printed)[2:])["data"]
    assert (trained["train"], trained["fold"]) == (str(Path("clean", "train")), None)
    assert (trained["license"], trained["home"]) == (corpus.license, "https://example.org")


@pytest.mark.long
def test_a_check_that_could_not_run_is_not_listed_as_without_findings(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(
        "".join(f"{german} \t{english}\r\n" for german, english in toy_pairs()), encoding="utf-8"
    )
    unseen = {"edge spaces", "carriage returns"}
    for files, found in (
        (["data.pairs=x.tsv", "data.split=[0.2,0.2]"], set()),
        ([f"data.{split}=x.tsv" for split in ("train", "validation", "test")], {"edge spaces"}),
    ):
        ok("doctor", "data=files", *files, f"data.cache={tmp_path}/cache", "--output", "report.json", cwd=tmp_path)
        report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
        assert unseen & {finding["check"] for finding in report["findings"]} == found
        assert {*report["unseen"]} == unseen - found


def test_a_second_look_at_a_cleaned_copy_finds_nothing_to_drop(cleaned: Cleaned, tmp_path: Path) -> None:
    splits = {split: str(cleaned.copy / split) for split in ("train", "validation", "test")}
    settings = replace(write(tmp_path / "unused", {}), **splits)
    findings = Examination(settings, lambda lines, name: lines).run(set(), lambda line: None, lambda dropped: None)
    assert not [finding.check.name for finding in findings if finding.pairs]


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    arguments = [*corpus(tmp_path / "corpus"), *SMALL, f"data.cache={tmp_path}/cache"]
    home = tmp_path / "corpus"
    there = refused("doctor", *arguments, "--fix", "corpus", cwd=tmp_path)
    assert f"--fix {home} exists already" in there
    within = refused("doctor", *arguments, "--fix", "corpus/train.de/clean", cwd=tmp_path)
    assert within == f"error: --fix {home / 'train.de' / 'clean'}: {home / 'train.de'} is a file, not a folder"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus"]


def test_a_copy_is_whole_or_not_there(tmp_path: Path) -> None:
    line = Line(1, ("eins", "one"), ("eins", "one"))

    def interrupted() -> None:
        with clean_copy(tmp_path / "x", ("de", "en"), ["train"]) as copy:
            copy.write("train", line)
            raise ValueError("train.de line 2 is not UTF-8")

    with pytest.raises(ValueError, match="line 2 is not UTF-8"):
        interrupted()
    assert not list(tmp_path.iterdir())
    with clean_copy(tmp_path / "x", ("de", "en"), ["train"]) as copy:
        copy.write("train", line)
    assert {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "x").iterdir()} == {
        "train.de": "eins\n", "train.en": "one\n", "dropped.tsv": "line\treason\tsource\ttarget\n",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "said"),
    others_long(
        [
            ([(english, german) for german, english in toy_pairs()], "a table without names give data.columns=[2,1]"),
            ([(f"{german} \ufffd", english) for german, english in toy_pairs()], "a cleaned copy would have no pair"),
        ]
    ),
    ids=["swapped", "damaged"],
)
def test_a_useless_copy_is_not_advised(tmp_path: Path, pairs: list[tuple[str, str]], said: str) -> None:
    settings = write(tmp_path / "corpus", {"train": pairs, "test": TEST, "validation": VALIDATION})
    splits = [f"data.{split}={prefix}" for split, prefix in settings.splits.items()]
    languages = ["data.source_language=de", "data.target_language=en", "data.max_length=500"]
    printed = ok("doctor", "data=files", *splits, *languages, f"data.cache={tmp_path}/cache", cwd=tmp_path)
    assert said in printed
    assert "--fix" not in printed


@pytest.mark.long
def test_a_small_corpus_gets_a_command_that_trains(tmp_path: Path) -> None:
    nouns, verbs = ("Hund dog", "Mann man", "Vogel bird", "Zug train"), ("schläft sleeps", "kommt comes", "singt sings")
    words = [(*noun.split(), *verb.split()) for noun in nouns for verb in verbs]
    pairs = [(f"Der {noun} {verb} heute.", f"The {english} {does} today.") for noun, english, verb, does in words]
    settings = write(tmp_path / "corpus", {"train": pairs[4:], "test": pairs[:2], "validation": pairs[2:4]})
    splits = [f"data.{split}={prefix}" for split, prefix in settings.splits.items()]
    languages = ["data.source_language=de", "data.target_language=en", "data.max_length=500"]
    more = [f"data.cache={tmp_path}/cache", "trainer.max_steps=1"]
    printed = ok("doctor", "data=files", *splits, *languages, *more, cwd=tmp_path)
    _, script, *command = shell_words(printed.splitlines()[-1])
    assert Path(script) == TRAIN, printed
    ok("train", *command, "test=false", "trainer.limit_val_batches=1", f"hydra.run.dir={tmp_path}/run", cwd=tmp_path)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["trainer.max_steps=many"], "trainer.max_steps=many must be a whole number"),
        (["trainer.limit_train_batches=0"], "trainer.limit_train_batches=0 is not allowed"),
        (["a.tsv", "b.tsv"], "b.tsv: give only one file of pairs"),
        (["data=toy", "--output", "report.txt"], "--output"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, typed: list[str], said: str) -> None:
    assert said in refused("doctor", *typed, cwd=tmp_path)
