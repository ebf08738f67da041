"""Runs are compared by their files and refused if they cannot be compared; each model has a card."""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.processes import posix_only
from tests.scripts.running import PROJECT, SMALL, TOY, ok, refused
from transformer import Translator
from transformer.cli.app import parse
from transformer.cli.evaluate import folder_of_results
from transformer.config import UsageError
from transformer.evaluation.metrics import METRICS, score
from transformer.evaluation.settings import CompareSettings
from transformer.inference.settings import Defaults
from transformer.run import Run
from transformer.tools.compare.compare_runs import compare_runs
from transformer.tools.compare.run_results import find_runs

pytestmark = pytest.mark.long  # two runs are trained for these tests

FAST = ["--resamples", "100", "--trials", "60"]
FEW = 150  # sentences of the test
TEST = (TOY / "test.en").read_text(encoding="utf-8").splitlines()[:FEW]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like that of a sweep: a run that has hardly learned anything, and one that has learned a little more."""
    home = tmp_path_factory.mktemp("home")
    for side in ("de", "en"):
        lines = (TOY / f"test.{side}").read_text(encoding="utf-8").splitlines(keepends=True)
        (home / f"few.{side}").write_text("".join(lines[:FEW]), encoding="utf-8")
    few = ["trainer.max_steps=2", "training.validate_every=2", "loggers=[]", "hydra.run.dir=sweep/0"]
    fast = ["trainer.precision=32-true", "machine.matmul_precision=highest", "trainer.limit_val_batches=1"]
    short = ["search.max_length=8", "validation_search.max_length=8", "data.license=CC-BY-4.0"]
    corpus = [f"data.validation={home}/few", f"data.test={home}/few"]
    ok("train", *SMALL, *corpus, f"data.cache={home}/cache", *few, *fast, *short, cwd=home)
    better(home, "sweep/1", share=20)
    return home


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def compared(*tokens: str) -> None:
    parse(["compare", *tokens, *FAST])()


def evaluated(*tokens: str) -> None:
    parse(["evaluate", *tokens, "--device", "cpu"])()


def copied(home: Path, name: str, trial: int = 0) -> Path:
    """A copy of a run's folder, to be changed."""
    return Path(shutil.copytree(home / "sweep" / str(trial), home / name))


def alter(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def better(home: Path, name: str, share: int) -> Path:
    """A run's folder in which every `share`-th translation equals its reference."""
    folder = copied(home, name)
    worse = (folder / "hypotheses.test.txt").read_text(encoding="utf-8").splitlines()
    lines = [reference if i % share == 0 else line for i, (reference, line) in enumerate(zip(TEST, worse, strict=True))]
    (folder / "hypotheses.test.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rescore(folder, TEST)
    return folder


def rescore(folder: Path, references: list[str], **changes: Any) -> None:
    """Makes test.json fit the files in the folder."""
    results = json.loads((folder / "test.json").read_text(encoding="utf-8"))
    hypotheses = (folder / "hypotheses.test.txt").read_text(encoding="utf-8").splitlines()
    results["test"] = score(hypotheses, references, "en", METRICS).to_dict()
    (folder / "test.json").write_text(json.dumps(results | changes), encoding="utf-8")


def test_all_that_a_run_leaves_is_known_as_what_a_run_writes(home: Path) -> None:
    left = {path.name for path in (home / "sweep" / "0").iterdir()}
    assert {path.name for path in Run(home / "sweep" / "0").entries()} == left > {"hypotheses.test.txt"}


def test_a_clearly_better_run_is_called_better_and_the_sentences_are_shown(home: Path) -> None:
    better(home, "half", share=2)
    better(home, "third=ä, x", share=3)
    printed = ok("compare", "sweep/1", "half", "third=ä, x", "--output", "out", "--sentences", "2", *FAST, cwd=home)
    results = json.loads((home / "out" / "comparison.json").read_text(encoding="utf-8"))
    names = list(results["runs"])
    assert names == ["sweep/1", "half", "third=ä, x"]
    assert (home / "out" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    half, third = (results["bleu"][name] for name in names[1:])
    assert half["score"] > third["score"] > 10
    for one in (half, third):  # no sample differs as much: 1 of the n samples, counting the real translations
        assert one["p_bootstrap"] == pytest.approx(1 / 101)
        assert one["p_randomization"] == pytest.approx(1 / 61)
    assert "half is better than sweep/1: +" in printed
    assert printed.count("source ") == 4
    assert results["differences"]["half"][0]["other"] == pytest.approx(100)
    assert "2 comparisons" in printed


def test_the_first_run_is_what_the_others_are_compared_with(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    better(home, "most", share=1)
    compared("most", "sweep/1", "--sentences", "0")
    printed = capsys.readouterr().out
    assert "sweep/1 is worse than most: -" in printed
    assert "source" not in printed


def test_the_file_has_the_compared_runs_and_the_method(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "77")
    compared("sweep/0", "sweep/1", "--output", "how", "--sentences", "3")
    results = json.loads((home / "how" / "comparison.json").read_text(encoding="utf-8"))
    assert results["runs"] == {"0": str(Path("sweep", "0")), "1": str(Path("sweep", "1"))}
    assert (results["split"], results["sentences"], len(results["differences"]["1"])) == ("test", FEW, 3)
    assert (results["resamples"], results["trials"], results["seed"]) == (100, 60, "77")
    assert (
        results["signatures"] == json.loads(Path("sweep/0/test.json").read_text(encoding="utf-8"))["test"]["signatures"]
    )


def test_the_picture_has_the_scores_and_half_of_their_intervals(home: Path) -> None:
    comparison = compare_runs(find_runs(["sweep"]), CompareSettings(resamples=100, trials=60))
    for metric, of_metric in comparison.intervals().items():
        for name, one in comparison.tested[metric].items():
            assert of_metric[name] == (one.score, one.interval)


@pytest.mark.parametrize("flags", [["--resamples", "39"], ["--trials", "0"]])
def test_too_few_samples_give_no_result(flags: list[str]) -> None:
    with pytest.raises(UsageError, match=f"^{'='.join(flags)} must be >="):
        parse(["compare", "sweep", *flags])


@pytest.mark.long
def test_a_sweeps_folder_means_its_trials(home: Path) -> None:
    compared("sweep", "--output", "trials")
    assert list(json.loads((home / "trials" / "comparison.json").read_text(encoding="utf-8"))["runs"]) == ["0", "1"]


@pytest.mark.long
def test_translations_of_another_search_are_named_as_such(
    home: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    folder = copied(home, "again")
    evaluated("again", "--method", "greedy", "--max-length", "3")
    assert "again/hypotheses.test.txt was replaced: it had other translations" in caplog.text
    assert (folder / "hypotheses.test.txt").read_text(encoding="utf-8") != (
        home / "sweep/0/hypotheses.test.txt"
    ).read_text(encoding="utf-8")
    compared("sweep/0", "again")
    printed = capsys.readouterr().out
    assert "again: translated again by evaluate.py (method=greedy" in printed
    assert "The runs may have been translated with different searches" in printed
    shutil.copy(home / "sweep/0/hypotheses.test.txt", folder)  # as if the resumed run had been tested again
    compared("sweep/0", "again")
    assert "translated again" not in capsys.readouterr().out


@pytest.mark.long
def test_runs_that_were_tested_with_different_searches_are_warned_of(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, _ = copied(home, "older") / "config.yaml", copied(home, "newer")
    alter(older, "  patience: 1.0\n", "")  # a setting that this run did not have yet
    compared("newer", "older", "--sentences", "0")
    printed = capsys.readouterr().out
    assert "one search" not in printed
    assert "as the run was tested" not in printed
    alter(older, "  beam: 5\n", "  beam: 2\n")
    compared("newer", "older", "--sentences", "0")
    printed = capsys.readouterr().out
    assert "The runs may have been translated with different searches" in printed
    assert "newer: as the run was tested (beam=5)" in printed
    assert "older: as the run was tested (beam=2)" in printed
    for run in ("newer", "older"):
        evaluated(run, "--method", "greedy")
    compared("newer", "older", "--sentences", "0")
    assert "one search" not in capsys.readouterr().out
    alter(copied(home, "no_search") / "config.yaml", "\nsearch:", "\nsought:")
    with pytest.raises(ValueError, match=r"no_search/config.yaml has no settings search"):
        compared("no_search", "sweep/1")
    alter(copied(home, "no_beam") / "config.yaml", "  beam: 5\n", "  beam: 0\n")
    with pytest.raises(ValueError, match=r"no_beam/config.yaml: search.beam=0 must be >= 1"):
        compared("no_beam", "sweep/1")


def test_the_length_penalty_of_a_run_that_began_with_a_model_is_not_known(home: Path) -> None:
    for name in ("from_nothing", "from_model"):
        alter(copied(home, name) / "config.yaml", "length_penalty: 2.5", "length_penalty: null")
    alter(home / "from_model" / "config.yaml", "init_from: null", "init_from: model")
    compared("from_nothing", "from_model", "--sentences", "0", "--output", "penalties")
    warning, *notes = json.loads((home / "penalties" / "comparison.json").read_text(encoding="utf-8"))["notes"]
    assert warning.startswith("The runs may have been translated with different searches")
    assert notes == [
        f"from_nothing: as the run was tested (length_penalty={Defaults.length_penalty})",
        "from_model: as the run was tested (length_penalty=null)",
    ]


@pytest.mark.long
def test_a_run_that_evaluate_has_translated_as_it_was_tested_is_like_the_others(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(home, "as_tested")
    evaluated("as_tested", "--max-length", "8", "--length-ratio", "1", "--length-extra", "5")
    alter(folder / "evaluation.json", '"patience": 1.0,', "")  # a setting that this evaluation did not have yet
    capsys.readouterr()
    compared("sweep/0", "as_tested", "--sentences", "0")
    printed = capsys.readouterr().out
    assert "one search" not in printed
    assert "as_tested: " not in printed
    alter(folder / "evaluation.json", '"beam": 5', '"beam": 4')  # another search with the same translations
    compared("sweep/0", "as_tested", "--sentences", "0")
    printed = capsys.readouterr().out
    assert "sweep/0: as the run was tested (beam=5)" in printed
    assert "as_tested: translated again by evaluate.py (beam=4)" in printed


@pytest.mark.long
def test_a_choice_is_known_as_older_evaluations_name_its_settings(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, _ = copied(home, "mbr_older") / "evaluation.json", copied(home, "mbr")
    for run in ("mbr_older", "mbr"):
        evaluated(run, "--choose", "mbr", "--beam", "2", "--max-length", "4")
    results = json.loads(older.read_text(encoding="utf-8"))
    search = results["searches"]["test"]
    names = {"method": "choose", "samples": "samples", "metric": "similarity", "reverse": "reverse"}
    section = {old: search.pop(new) for old, new in (names | {"weight": "reverse_weight"}).items()}
    older.write_text(json.dumps(results | {"searches": {"test": search | {"choose": section}}}), encoding="utf-8")
    capsys.readouterr()
    compared("mbr_older", "mbr", "--sentences", "0")
    printed = capsys.readouterr().out
    assert "one search" not in printed
    assert printed.count("choose=mbr") == 2


def test_translations_that_were_scored_again_by_other_metrics_are_known(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(home, "other_metrics")
    results = json.loads((folder / "test.json").read_text(encoding="utf-8"))
    for of_one in (results["test"], results["test"]["signatures"]):
        of_one.pop("ter", None)
    (folder / "test.json").write_text(json.dumps(results), encoding="utf-8")
    evaluated("other_metrics", "--method", "greedy", "--max-length", "3", "--metrics", "ter")
    compared("sweep/0", "other_metrics")
    assert "other_metrics: translated again by evaluate.py (method=greedy" in capsys.readouterr().out


def test_a_run_keeps_its_own_results(home: Path) -> None:
    before = (home / "sweep/1/test.json").read_bytes()
    with pytest.raises(UsageError, match=r"--output .*sweep/1 is the folder of another run"):
        evaluated("sweep/0", "--output", "sweep/1")
    with pytest.raises(UsageError, match="--output"):  # of an ensemble
        evaluated("sweep/0", "sweep/1")
    assert (home / "sweep/1/test.json").read_bytes() == before
    assert folder_of_results("sweep/../sweep/0", [Path("sweep/0/translator.safetensors")]).samefile("sweep/0")


def test_comparisons_that_are_impossible_are_refused(home: Path) -> None:
    def said(*tokens: str) -> str:
        with pytest.raises((ValueError, OSError)) as error:
            compared(*tokens)
        return str(error.value)

    assert "needs two runs" in said()
    assert "needs two runs" in said("sweep/0", "sweep/0")
    assert "nowhere: no such run" in said("sweep/0", "nowhere")
    assert "cache: has no test.json" in said("sweep/0", "cache")
    (home / "together").mkdir()
    (home / "together" / "evaluation.json").write_text("{}", encoding="utf-8")
    (home / "together" / "hypotheses.other.mine.txt").touch()  # as after evaluate.py --input mine.de
    assert "together: is no run: sacrebleu REFERENCE -i FILE together/hypotheses.other.mine.txt --paired-bs" in said(
        "sweep/0", "together"
    )
    (home / "begun" / "checkpoints").mkdir(parents=True)
    assert "begun: has no test.json, because it is not finished: train.py resume=begun continues it" in said(
        "sweep/0", "begun"
    )
    assert "was not tested on --split news; it has test" in said("sweep", "--split", "news")
    assert "--sentences=-1 must be >= 0" in said("sweep", "--sentences", "-1")
    alter(copied(home, "scored") / "test.json", "case:mixed", "case:lc")
    assert "have scores of different kinds, bleu nrefs:1|case:mixed" in said("sweep/0", "sweep/1", "scored")
    rescore(home / "scored", TEST, corpus=None)
    assert "changed since scored was tested" in said("sweep/0", "scored")
    cut = copied(home, "cut")
    lines = (cut / "hypotheses.test.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (cut / "hypotheses.test.txt").write_text("".join(lines[:-1]), encoding="utf-8")
    assert f"has {FEW - 1} lines, its references have {FEW}" in said("sweep/0", "cut")
    (cut / "hypotheses.test.txt").write_text("".join([*lines, "x\n"]), encoding="utf-8")
    assert f"has {FEW + 1} lines, its references have {FEW}" in said("sweep/0", "cut")
    (cut / "hypotheses.test.txt").write_text("".join([f"{TEST[0]}\n", *lines[1:]]), encoding="utf-8")
    assert "was altered" in said("sweep/0", "cut")
    (cut / "hypotheses.test.txt").write_text("".join([f"{lines[0].strip()} x\n", *lines[1:]]), encoding="utf-8")
    assert "was altered" in said("sweep/0", "cut")
    (cut / "hypotheses.test.txt").write_bytes(b"\xff\n" * FEW)
    assert said("sweep/0", "cut").endswith("hypotheses.test.txt is not UTF-8")
    (cut / "hypotheses.test.txt").unlink()
    assert said("sweep/0", "cut").endswith("cut/hypotheses.test.txt: evaluate.py cut --split test translates it again")
    (cut / "test.json").write_text("{}", encoding="utf-8")
    assert said("sweep/0", "cut") == "cut was not tested on --split test; it has no scores"
    (cut / "test.json").write_text("{", encoding="utf-8")
    assert "test.json cannot be read" in said("sweep/0", "cut")


def test_runs_with_other_references_are_refused_in_one_line(home: Path) -> None:
    for side in ("de", "en"):
        shutil.copy(home / f"few.{side}", home / f"own.{side}")
    alter(home / "own.en", "Tim", "Tom")
    folder = copied(home, "own")
    alter(folder / "config.yaml", f"test: {home}/few", f"test: {home}/own")
    with pytest.raises(ValueError, match="changed since own was tested"):
        compared("sweep/0", "own")
    digest = hashlib.sha256(b"".join((home / f"own.{side}").read_bytes() + b"\0" for side in ("de", "en")))
    rescore(folder, (home / "own.en").read_text(encoding="utf-8").splitlines(), corpus={"test": digest.hexdigest()})
    assert "sweep/0 and own have different references (line " in refused("compare", "sweep/0", "own", cwd=home)


@pytest.mark.long
def test_words_and_lines_are_split_as_when_the_runs_were_tested(home: Path) -> None:
    references = [f"我們看見{number}隻貓，和他們的狗" for number in range(FEW)]
    (home / "few.zh").write_text("".join(f"{line}\n" for line in references), encoding="utf-8")
    digest = hashlib.sha256(b"".join((home / f"few.{side}").read_bytes() + b"\0" for side in ("de", "zh")))
    for name, share in (("third", 3), ("fifth", 5)):
        folder = copied(home, name)
        alter(folder / "config.yaml", "target_language: en", "target_language: zh")
        texts = [line if i % share == 0 else f"{line[:8]}\u2028" for i, line in enumerate(references[:-1])]
        (folder / "hypotheses.test.txt").write_text("".join(f"{line}\n" for line in [*texts, ""]), encoding="utf-8")
        scores = score([*texts, ""], references, "zh", METRICS).to_dict()
        (folder / "test.json").write_text(
            json.dumps({"test": scores, "corpus": {"test": digest.hexdigest()}}), encoding="utf-8"
        )
        assert scores["bleu"] > 10
    compared("third", "fifth", "--output", "zh", "--sentences", "1")
    results = json.loads((home / "zh" / "comparison.json").read_text(encoding="utf-8"))
    assert results["bleu"]["fifth"]["score"] == pytest.approx(scores["bleu"])
    [difference] = results["differences"]["fifth"]
    low, high = sorted((difference["first"], difference["other"]))
    assert high == pytest.approx(100)
    assert low > 10  # each character is a word


def test_a_run_of_one_direction_is_compared_in_it_with_one_of_several(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = better(home, "several", share=2)
    alter(
        folder / "config.yaml",
        "source_language: de\n  target_language: en",
        "source_language: en\n  target_language: de",
    )
    alter(folder / "config.yaml", "directions: []", "directions: [en-de, de-en]")
    results = json.loads((folder / "test.json").read_text(encoding="utf-8"))
    results["test.de-en"], results["corpus"] = results["test"], {"test.de-en": results["corpus"]["test"]}
    (folder / "test.json").write_text(json.dumps(results), encoding="utf-8")
    (folder / "hypotheses.test.txt").rename(folder / "hypotheses.test.de-en.txt")
    compared("sweep/0", "several", "--split", "test.de-en")
    assert "several is better than sweep/0" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"sweep/0 was not tested on --split test\.en-de; it has test"):
        compared("sweep/0", "several", "--split", "test.en-de")


def test_runs_with_different_first_directions_need_a_named_direction(home: Path) -> None:
    folder = copied(home, "reversed")
    alter(
        folder / "config.yaml",
        "source_language: de\n  target_language: en",
        "source_language: en\n  target_language: de",
    )
    german = (home / "few.de").read_text(encoding="utf-8").splitlines()
    digest = hashlib.sha256(b"".join((home / f"few.{side}").read_bytes() + b"\0" for side in ("en", "de")))
    results = json.loads((folder / "test.json").read_text(encoding="utf-8")) | {"corpus": {"test": digest.hexdigest()}}
    hypotheses = (folder / "hypotheses.test.txt").read_text(encoding="utf-8").splitlines()
    results["test"] = score(hypotheses, german, "de", METRICS).to_dict()
    (folder / "test.json").write_text(json.dumps(results), encoding="utf-8")
    with pytest.raises(ValueError, match=r"one translates de-en, the other en-de: choose a direction that both were "):
        compared("sweep/0", "reversed")


def test_without_its_program_comet_is_refused_before_any_work(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / "bin"))
    with pytest.raises(ValueError, match="--comet some/model needs the program comet-score: install it"):
        compared("sweep/0", "sweep/1", "--comet", "some/model")


@posix_only
def test_comet_is_given_the_sources_and_the_references_of_the_runs(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    is_given = f"cmp source {home}/few.de && cmp reference {home}/few.en"
    (tmp_path / "comet-score").write_text(
        f"#!/bin/sh\n{is_given} && printf '0\\tscore: 0.5\\n1\\tscore: 0.75\\n'\n", encoding="utf-8"
    )
    (tmp_path / "comet-score").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    compared("sweep/0", "sweep/1", "--comet", "some/model", "--sentences", "0")
    printed = capsys.readouterr().out
    assert re.search(r"^ *0 .* 0\.5000\b", printed, re.MULTILINE)
    assert re.search(r"^ *1 .* 0\.7500\b", printed, re.MULTILINE)


def test_the_card_beside_the_weights_can_be_followed_to_the_letter(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("README.md", "translator.safetensors"):
        shutil.copy(home / "sweep" / "0" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    card = Path("README.md").read_text(encoding="utf-8")
    [snippet] = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    exec(snippet, {})
    [sentence] = re.findall(r"translate\(\[(.*)\]\)", snippet)
    translated = Translator.load(home / "sweep" / "0" / "checkpoints" / "best.ckpt").translate([json.loads(sentence)])
    assert capsys.readouterr().out == f"{translated}\n"
    results = json.loads((home / "sweep" / "0" / "test.json").read_text(encoding="utf-8"))
    assert f"| test | {FEW} | {results['test']['bleu']:.1f} |" in card
    assert results["test"]["signatures"]["bleu"] in card
    assert results["corpus"]["train"] in card
    assert "license: cc-by-4.0\n" in card
    assert "seed=1\n" in card
    assert str(home) not in card, "a card tells of no folder of the machine"
    assert str(PROJECT) not in card
