"""`--checkpoint` finds the right model, and prints which one it took."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.links import needs_links
from tests.processes import posix_only
from transformer.cli.models import (
    announce_checkpoint,
    find_checkpoint,
    find_checkpoints,
    model_name,
    read_card,
    with_reverse,
)
from transformer.config import UsageError
from transformer.inference.settings import ChoiceSettings


def finish(run: Path, time: float, bleu: float = 34.25, directions: int = 1) -> Path:
    """The files of a finished run that are needed to choose one."""
    languages = {"source_language": "de", "target_language": "en"}
    description = json.dumps(languages | {"directions": [["de", "en"]] * directions})
    header = json.dumps({"__metadata__": {"translator": description}}).encode()
    model = run / "translator.safetensors"
    model.write_bytes(len(header).to_bytes(8, "little") + header)
    (run / "test.json").write_text(json.dumps({"test": {"bleu": bleu, "signatures": {}}}), encoding="utf-8")
    os.utime(model, (time, time))
    return model


@pytest.fixture(autouse=True)
def _beside_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_checkpoint_is_a_file_or_the_best_of_a_run(runs: Path) -> None:
    last = runs / "early" / "checkpoints" / "last.ckpt"
    assert find_checkpoint(str(last)) == find_checkpoint(str(runs / "early")) == last
    for better in ("checkpoints/best.ckpt", "translator.safetensors"):
        (runs / "early" / better).write_text("", encoding="utf-8")
        assert find_checkpoint(str(runs / "early")) == runs / "early" / better


@pytest.mark.parametrize("value", ["nix", ".", None])
def test_without_a_model_there_is_none(tmp_path: Path, value: str | None) -> None:
    with pytest.raises(FileNotFoundError, match="--checkpoint"):
        find_checkpoint(value)
    assert [*tmp_path.iterdir()] == []


def test_without_a_name_the_run_that_finished_last_is_taken(runs: Path) -> None:
    trial = Path("runs", "sweep", "0")
    with pytest.raises(UsageError, match=re.escape(f"--checkpoint {trial} takes the model that this run has")):
        find_checkpoint(None)
    first, second = finish(runs / "early", 1e9 - 9), finish(runs / "sweep" / "0", 1e9 - 8)
    assert find_checkpoints([]) == [trial / "translator.safetensors"]
    assert find_checkpoint(None).samefile(second)
    os.utime(first)
    assert find_checkpoint(None).samefile(first)


def test_the_chosen_run_is_announced_with_its_languages_and_score(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    early, trial = Path("runs", "early"), Path("runs", "sweep", "0")
    model = finish(early, 1e9 - 1.5)
    announce_checkpoint(None, model)
    facts = "newest finished run, de → en, test bleu 34.2, 2 newer not finished"
    assert capsys.readouterr().err == f"--checkpoint {early} ({facts})\n"
    os.utime(model, (1e9 - 0.5, 1e9 - 0.5))
    announce_checkpoint(None, model)
    assert "test bleu 34.2, 1 newer not finished)" in capsys.readouterr().err
    for checkpoint in ("runs/early", "runs/early/checkpoints/last.ckpt"):
        announce_checkpoint(checkpoint, find_checkpoint(checkpoint))
        assert capsys.readouterr().err == ""
    announce_checkpoint("runs/sweep/0", find_checkpoint("runs/sweep/0"))
    said = f"{trial} has not finished its training, this is its last.ckpt: translator train resume={trial} continues it"
    assert capsys.readouterr().err == f"{said}\n"
    for directions, others in ((2, "1 other direction"), (3, "2 other directions")):
        os.utime(finish(early, 1, directions=directions))  # now: its own last.ckpt is older
        announce_checkpoint(None, model)
        assert f"newest finished run, de → en and {others}, test bleu 34.2)" in capsys.readouterr().err
    no_description = b'{"__metadata__": {"translator": "[]"}}'
    for damaged in (b"", b"\xff" * 40, (9).to_bytes(8, "little") + b'{"a": [1]', b"\x26" + bytes(7) + no_description):
        model.write_bytes(damaged)  # loading it reports the damage
        announce_checkpoint(None, model)
        assert capsys.readouterr().err == f"--checkpoint {early} (newest finished run)\n"


@needs_links
def test_unreadable_results_do_not_change_the_rest_of_the_announcement(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    early = Path("runs", "early")
    model = finish(early, 1e9)
    os.utime(early / "checkpoints" / "last.ckpt")  # the run that is chosen does not count as an ignored newer one
    whole = '{"test": {"bleu": 1}}'
    Path("other.json").write_text(whole, encoding="utf-8")
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
        (early / "test.json").write_text(damaged, encoding="utf-8")
        announce_checkpoint(None, model)
        assert capsys.readouterr().err.endswith("early (newest finished run, de → en)\n"), damaged[:30]
    (early / "test.json").unlink()
    (early / "test.json").symlink_to(Path("other.json").absolute())
    announce_checkpoint(None, model)
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
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "best.ckpt").touch()
    os.mkfifo(run / "translator.safetensors")
    checkpoint = find_checkpoint(str(run))
    assert checkpoint == run / "checkpoints" / "best.ckpt"
    announce_checkpoint(None, checkpoint)
    assert capsys.readouterr().err.endswith("run (newest finished run)\n")


def test_an_export_is_taken_alone_or_among_several_only_where_it_can_be_used(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "export.json").touch()
    last = runs / "early" / "checkpoints" / "last.ckpt"
    assert find_checkpoints([str(tmp_path)]) == [tmp_path]
    assert find_checkpoints([str(last), str(tmp_path)]) == [last, tmp_path]
    for values in ([str(tmp_path)], [str(last), str(tmp_path)]):
        with pytest.raises(UsageError, match=f"^--checkpoint {re.escape(str(tmp_path))} is an export"):
            find_checkpoints(values, exports=False)
    with pytest.raises(UsageError, match=f"^--checkpoint {re.escape(str(tmp_path))} is an export"):
        find_checkpoint(str(tmp_path))


def test_the_model_that_reranks_is_found_and_named_by_its_own_flag(runs: Path) -> None:
    assert with_reverse(ChoiceSettings()) == ChoiceSettings()
    found = with_reverse(ChoiceSettings(choose="rerank", reverse=str(runs / "early")))
    last = runs / "early" / "checkpoints" / "last.ckpt"
    assert (found.choose, found.models) == ("rerank", [last])
    with pytest.raises(FileNotFoundError, match=r"^--reverse .*nix: no such file or run folder$"):
        with_reverse(ChoiceSettings(choose="rerank", reverse="nix"))


@pytest.mark.parametrize("name", ["a,b", "[1]", "[a,b]", "a = ü"])
def test_a_folder_may_have_any_name(name: str) -> None:
    model = Path(name, "translator.safetensors")
    model.parent.mkdir()
    model.touch()
    assert find_checkpoints([name]) == [model]


@pytest.mark.parametrize("is_run", [False, True])
def test_a_folder_of_hugging_face_is_a_model_unless_it_is_a_run(tmp_path: Path, is_run: bool) -> None:
    (tmp_path / "tokenizer_config.json").touch()
    if is_run:
        (tmp_path / "translator.safetensors").touch()
    expected = tmp_path / "translator.safetensors" if is_run else tmp_path
    assert find_checkpoint(str(tmp_path)) == expected


@needs_links
def test_a_model_that_is_named_twice_is_refused_by_any_of_its_paths(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(runs / "early")
    for other in (runs / "early", runs / "early" / "checkpoints" / "last.ckpt", tmp_path / "link"):
        with pytest.raises(UsageError, match=r"^--checkpoint has .*last\.ckpt twice: leave one of them out"):
            find_checkpoints([f"{runs}/early", f"{runs}/sweep/0", str(other)])
