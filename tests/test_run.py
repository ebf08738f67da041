"""A run's folder is found from each of its files, and its files are read."""

from pathlib import Path

import pytest

from transformer.files import write_json
from transformer.run import MODELS, Run


def test_the_folder_of_a_run_is_found_from_each_of_its_files_and_from_itself(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for path in (tmp_path, tmp_path / "translator.safetensors", tmp_path / "checkpoints" / "best.ckpt"):
        assert Run.open(path).folder == tmp_path
    assert Run.open(tmp_path / "checkpoints").folder == tmp_path


def test_the_folder_of_a_run_is_found_from_within_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints" / "old").mkdir(parents=True)
    for folder, model in (("checkpoints", "last.ckpt"), ("checkpoints/old", "../last.ckpt")):
        monkeypatch.chdir(tmp_path / folder)
        assert Run.open(Path(model)).folder == tmp_path


def test_the_best_model_that_is_there_is_the_model_of_a_run(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with pytest.raises(FileNotFoundError, match="the folder has none of"):
        run.model  # noqa: B018
    (tmp_path / "checkpoints").mkdir()
    for name in reversed(MODELS):
        (tmp_path / name).touch()
        assert run.model == tmp_path / name
    assert run.models == [run.translator, run.best, run.last]


def test_translations_are_read_as_they_were_written(tmp_path: Path) -> None:
    run, texts = Run(tmp_path), ["a", "", "b\u2028c ü", ""]
    assert not run.write_hypotheses("test", texts)
    assert run.hypotheses("test") == texts
    assert not run.write_hypotheses("test", texts)
    assert run.write_hypotheses("test", ["other"])


def test_a_run_that_was_not_tested_has_no_scores(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.scores("test") == {}
    write_json(run.results, {"test": {"bleu": 12.5, "signatures": {}}, "seconds": 1.0})
    assert run.scores("test")["bleu"] == 12.5
    assert run.scores("seconds") == run.scores("other") == {}
