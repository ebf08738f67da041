"""`checkpoint=` takes the model that is meant, and says which one it took."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.links import needs_links
from tests.processes import posix_only
from transformer.cli.checkpoints import (
    announce_checkpoint,
    find_checkpoint,
    find_checkpoints,
    find_reverse,
    model_name,
    read_card,
)
from transformer.config import UsageError


def finish(run: Path, time: float, bleu: float = 34.25, directions: int = 1) -> Path:
    """What a run leaves at its end, as far as choosing one needs it."""
    languages = {"source_language": "de", "target_language": "en"}
    description = json.dumps(languages | {"directions": [["de", "en"]] * directions})
    header = json.dumps({"__metadata__": {"translator": description}}).encode()
    model = run / "translator.safetensors"
    model.write_bytes(len(header).to_bytes(8, "little") + header)
    (run / "test.json").write_text(json.dumps({"test": {"bleu": bleu, "signatures": {}}}), encoding="utf-8")
    os.utime(model, (time, time))
    return model


def test_a_checkpoint_is_a_file_or_the_best_of_a_run(runs: Path, tmp_path: Path) -> None:
    last = runs / "early" / "checkpoints" / "last.ckpt"
    assert find_checkpoint(str(last), runs) == find_checkpoint(str(runs / "early"), runs) == last
    for better in ("checkpoints/best.ckpt", "translator.safetensors"):
        (runs / "early" / better).write_text("", encoding="utf-8")
        assert find_checkpoint(str(runs / "early"), runs) == runs / "early" / better
    for value, message in (("nix", "no such file"), (str(tmp_path), "has none of"), (None, "no run in")):
        with pytest.raises(FileNotFoundError, match=message):
            find_checkpoint(value, tmp_path / "empty")


def test_without_checkpoint_the_run_that_finished_last_is_taken(runs: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no run in .* has finished: checkpoint=.*sweep[/\\]0 takes what that one has"
    ):
        find_checkpoint(None, runs)
    first, second = finish(runs / "early", 1e9 - 9), finish(runs / "sweep" / "0", 1e9 - 8)
    assert find_checkpoint(None, runs) == second
    os.utime(first)
    assert find_checkpoint(None, runs) == first


def test_the_run_that_was_taken_is_said_with_its_languages_and_score(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent)
    model = finish(runs / "early", 1e9 - 1.5)
    announce_checkpoint({"checkpoint": None, "runs": str(runs)}, model)
    facts = "newest finished run, de → en, test bleu 34.2, 2 newer not finished"
    assert capsys.readouterr().err == f"checkpoint={Path('runs/early')} ({facts})\n"
    os.utime(model, (1e9 - 0.5, 1e9 - 0.5))
    announce_checkpoint({"checkpoint": None, "runs": str(runs)}, model)
    assert "test bleu 34.2, 1 newer not finished)" in capsys.readouterr().err
    for checkpoint in ("runs/early", "runs/early/checkpoints/last.ckpt"):
        announce_checkpoint({"checkpoint": checkpoint, "runs": str(runs)}, find_checkpoint(checkpoint, runs))
        assert capsys.readouterr().err == ""
    announce_checkpoint({"checkpoint": "runs/sweep/0", "runs": str(runs)}, find_checkpoint("runs/sweep/0", runs))
    trial = Path("runs/sweep/0")
    said = f"{trial} has not finished its training, this is its last.ckpt: train.py resume={trial} continues it"
    assert capsys.readouterr().err == f"{said}\n"
    for directions, others in ((2, "1 other direction"), (3, "2 other directions")):
        os.utime(finish(runs / "early", 1, directions=directions))  # now: its own last.ckpt is older
        announce_checkpoint({"checkpoint": None, "runs": str(runs)}, model)
        assert f"newest finished run, de → en and {others}, test bleu 34.2)" in capsys.readouterr().err
    no_description = b'{"__metadata__": {"translator": "[]"}}'
    for damaged in (b"", b"\xff" * 40, (9).to_bytes(8, "little") + b'{"a": [1]', b"\x26" + bytes(7) + no_description):
        model.write_bytes(damaged)  # whoever loads it says so
        announce_checkpoint({"checkpoint": None, "runs": str(runs)}, model)
        assert capsys.readouterr().err == f"checkpoint={Path('runs', 'early')} (newest finished run)\n"


@needs_links
def test_results_that_cannot_be_read_take_nothing_from_the_announcement(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = finish(runs / "early", 1e9)
    os.utime(runs / "early" / "checkpoints" / "last.ckpt")  # the same run is none that was passed over
    whole = '{"test": {"bleu": 1}}'
    (tmp_path / "other.json").write_text(whole, encoding="utf-8")
    for damaged in (
        "",
        "[]",
        "[" * 100_000,
        '{"test": 3}',
        '{"test": {}}',
        '{"test": {"bleu": "x"}}',
        f'{{"test": {{"bleu": {10**400}}}}}',
        whole + " " * (1 << 22),
    ):
        (runs / "early" / "test.json").write_text(damaged, encoding="utf-8")
        announce_checkpoint({"checkpoint": None, "runs": str(runs)}, model)
        assert capsys.readouterr().err.endswith("early (newest finished run, de → en)\n"), damaged[:30]
    (runs / "early" / "test.json").unlink()
    (runs / "early" / "test.json").symlink_to(tmp_path / "other.json")
    announce_checkpoint({"checkpoint": None, "runs": str(runs)}, model)
    assert "bleu" not in capsys.readouterr().err


def test_a_model_is_named_by_its_folder_wherever_that_lies(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_name(runs / "early" / "checkpoints" / "last.ckpt") == "early/checkpoints/last.ckpt"
    monkeypatch.chdir(runs / "early")
    assert model_name(Path("translator.safetensors")) == "early/translator.safetensors"
    monkeypatch.chdir(runs / "early" / "checkpoints")
    assert model_name(Path("last.ckpt")) == "early/checkpoints/last.ckpt"
    assert model_name(Path("../translator.safetensors")) == "early/translator.safetensors"


def test_a_model_card_that_is_missing_or_no_text_is_none(runs: Path) -> None:
    last = runs / "early" / "checkpoints" / "last.ckpt"
    assert read_card(last) == ""
    for content, card in ((b"\xff", ""), ("ü\n".encode(), "ü\n")):
        (runs / "early" / "README.md").write_bytes(content)
        assert read_card(last) == card


@posix_only
def test_a_pipe_in_the_place_of_weights_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "best.ckpt").touch()
    os.mkfifo(tmp_path / "run" / "translator.safetensors")
    checkpoint = find_checkpoint(None, tmp_path)
    announce_checkpoint({"checkpoint": None, "runs": str(tmp_path)}, checkpoint)
    assert capsys.readouterr().err.endswith("run (newest finished run)\n")


def test_an_export_is_taken_alone_or_among_several_only_where_it_can_be_used(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "export.json").touch()
    last = runs / "early" / "checkpoints" / "last.ckpt"
    assert find_checkpoints(str(tmp_path), runs) == [tmp_path]
    assert find_checkpoints(f"[{last},{tmp_path}]", runs) == [last, tmp_path]
    said = f"checkpoint={tmp_path} is an export, which this script cannot use"
    for value in (str(tmp_path), f"[{last},{tmp_path}]"):
        with pytest.raises(UsageError, match=re.escape(said)):
            find_checkpoints(value, runs, exports=False)
    with pytest.raises(UsageError, match=re.escape(said)):
        find_checkpoint(str(tmp_path), runs)


def test_the_model_that_reranks_is_found_and_named_by_its_own_setting(runs: Path) -> None:
    choose = {"method": "rerank", "reverse": None}
    assert find_reverse({"choose": choose, "runs": str(runs)}) == choose
    found = find_reverse({"choose": choose | {"reverse": str(runs / "early")}, "runs": str(runs)})
    assert found == choose | {"reverse": str(runs / "early" / "checkpoints" / "last.ckpt")}
    with pytest.raises(FileNotFoundError, match=r"^choose.reverse=nix: no such file or run folder$"):
        find_reverse({"choose": choose | {"reverse": "nix"}, "runs": str(runs)})


def test_one_of_several_checkpoints_may_hold_a_comma_in_quotes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a,b.safetensors", "c.safetensors")]
    for path in paths:
        path.touch()
    assert find_checkpoints(f"['{paths[0]}', {paths[1]}]", tmp_path) == paths


def test_a_folder_whose_name_stands_in_brackets_is_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("[1]").mkdir()
    Path("[1]", "translator.safetensors").touch()
    assert find_checkpoints("[1]", tmp_path) == [Path("[1]", "translator.safetensors")]


@pytest.mark.parametrize("is_run", [False, True])
def test_a_folder_of_hugging_face_is_a_model_unless_it_is_a_run(tmp_path: Path, is_run: bool) -> None:
    (tmp_path / "tokenizer_config.json").touch()
    if is_run:
        (tmp_path / "translator.safetensors").touch()
    expected = tmp_path / "translator.safetensors" if is_run else tmp_path
    assert find_checkpoint(str(tmp_path), tmp_path) == expected


@needs_links
def test_a_model_that_is_named_twice_is_refused_by_any_of_its_paths(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(runs / "early")
    for other in (runs / "early", runs / "early" / "checkpoints" / "last.ckpt", tmp_path / "link"):
        with pytest.raises(UsageError, match=r"early,.*\] names .*last\.ckpt twice: leave one of them out"):
            find_checkpoints(f"[{runs}/early,{runs}/sweep/0,{other}]", runs)


def test_several_models_are_refused_where_one_is_needed(runs: Path) -> None:
    for value in (f"[{runs}/early,{runs}/later]", f"{runs}/early,{runs}/later"):
        with pytest.raises(UsageError, match="one model is taken here, not several"):
            find_checkpoint(value, runs)
    with pytest.raises(UsageError, match=r"several models need brackets: checkpoint=\[.*early,.*later\]"):
        find_checkpoints(f"{runs}/early,{runs}/later", runs)
    with pytest.raises(FileNotFoundError, match="no such file or run folder"):
        find_checkpoint(f"{runs}/early,nowhere", runs)
