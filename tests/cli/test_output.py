"""A file of translations is whole, or it is kept so that it can be resumed, and never has two inputs, settings or
models."""

import os
from pathlib import Path

import pytest

from tests.links import needs_links
from tests.processes import posix_only
from transformer.cli.output import open_output
from transformer.config import UsageError

LINES = [f"Zeile {number}" for number in range(1, 11)]


class Translation:
    """Copies lines to a file in chunks of three, as translate.py does with translations."""

    def __init__(self, folder: Path) -> None:
        self.file, self.model = folder / "out.en", folder / "model"
        self.model.write_text("weights", encoding="utf-8")

    def run(
        self, lines: list[str] = LINES, stop_after: int = 99, resume: bool = False, before: bytes = b"", **settings: int
    ) -> None:
        with open_output(str(self.file), {"search": {"beam": 5} | settings}, [self.model], resume) as output:
            rest = iter(lines)
            output.skip(rest)
            while chunk := [line for _, line in zip(range(3), rest, strict=False)]:
                if output.lines >= stop_after:
                    raise KeyboardInterrupt
                output.write(chunk, "".join(f"{line.upper()}\n" for line in chunk))

    def stop(self, after: int = 6) -> None:
        with pytest.raises(KeyboardInterrupt):
            self.run(stop_after=after)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.file.parent.iterdir() if path != self.model)


@pytest.fixture
def translation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translation:
    monkeypatch.chdir(tmp_path)
    return Translation(tmp_path)


WHOLE = "".join(f"{line.upper()}\n" for line in LINES)


def test_a_whole_translation_leaves_its_file_alone(translation: Translation) -> None:
    translation.file = translation.file.parent / "new" / "folder" / "out.en"
    translation.run()
    assert translation.file.read_text(encoding="utf-8") == WHOLE
    assert translation.names() == ["out.en"]


@pytest.mark.parametrize("after", [3, 9])
def test_a_stopped_translation_resumed_is_that_of_one_not_stopped(
    translation: Translation, after: int, capsys: pytest.CaptureFixture[str]
) -> None:
    translation.file.write_text("an older one", encoding="utf-8")
    translation.stop(after)
    assert capsys.readouterr().err == f"{after} lines are kept in out.en.partial: --resume continues\n"
    assert translation.file.read_text(encoding="utf-8") == "an older one"
    translation.run(resume=True)
    assert translation.file.read_text(encoding="utf-8") == WHOLE
    assert translation.names() == ["out.en"]


@posix_only
@pytest.mark.parametrize(("room", "kept"), [(1000, 0), (5000, 3)])
def test_a_full_disk_is_reported_with_the_file_and_keeps_whole_chunks(
    translation: Translation, capsys: pytest.CaptureFixture[str], room: int, kept: int
) -> None:
    import resource

    lines, (before, most) = [f"{line} {'x' * 1000}" for line in LINES], resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    try:
        with pytest.raises(OSError, match=r"out\.en\.partial cannot be written: File too large"):
            translation.run(lines)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    said = f"{kept} lines are kept in out.en.partial: --resume continues\n" if kept else ""
    assert capsys.readouterr().err == said
    assert translation.names() == (["out.en.partial", "out.en.partial.json"] if kept else [])
    translation.run(lines, resume=bool(kept))
    assert translation.file.read_text(encoding="utf-8") == "".join(f"{line.upper()}\n" for line in lines)


def test_an_incomplete_chunk_of_a_killed_process_is_not_kept(translation: Translation) -> None:
    translation.stop()
    with Path("out.en.partial").open("ab") as file:
        file.write(b"ZEILE 7\nZEI" * 9)  # longer than its new text, as on another GPU
    translation.run(resume=True)
    assert translation.file.read_text(encoding="utf-8") == WHOLE


def test_a_translation_stopped_in_its_first_chunk_leaves_nothing(translation: Translation) -> None:
    translation.stop(0)
    assert translation.names() == []
    translation.run()


def test_another_input_other_settings_and_another_model_are_refused(translation: Translation) -> None:
    translation.stop()
    kept = {name: Path(name).read_bytes() for name in translation.names()}
    with pytest.raises(UsageError, match=r"out.en.partial is a stopped translation: --resume continues it"):
        translation.run()
    with pytest.raises(UsageError, match=r"out.en.partial was made with beam 5"):
        translation.run(resume=True, beam=4)
    with pytest.raises(ValueError, match=r"the first 6 lines are not those of out.en.partial"):
        translation.run(["Zeile 0", *LINES], resume=True)
    with pytest.raises(ValueError, match=r"the first 6 lines are not those of out.en.partial"):
        translation.run(LINES[:5], resume=True)
    translation.model.write_text("other weights", encoding="utf-8")
    with pytest.raises(UsageError, match="made by another model"):
        translation.run(resume=True)
    assert {name: Path(name).read_bytes() for name in translation.names()} == kept


def test_a_setting_to_be_repeated_on_resuming_is_named_without_its_section(translation: Translation) -> None:
    def run(batch_tokens: int | None, resume: bool) -> None:
        settings = {"inference": {"batch_tokens": batch_tokens}}
        with open_output("out.en", settings, [translation.model], resume) as output:
            output.write(["eins"], "ONE\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(None, resume=False)
    with pytest.raises(UsageError, match=r"was made with batch_tokens null: give the same"):
        run(2, resume=True)


def test_a_resumed_translation_that_is_stopped_at_once_says_what_is_kept(
    translation: Translation, capsys: pytest.CaptureFixture[str]
) -> None:
    translation.stop(6)
    capsys.readouterr()
    with pytest.raises(KeyboardInterrupt):
        translation.run(stop_after=6, resume=True)
    assert capsys.readouterr().err == "6 lines are kept in out.en.partial: --resume continues\n"


def test_resuming_begins_if_nothing_is_there_and_leaves_a_whole_file(
    translation: Translation, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        with open_output("out.en", {}, [translation.model], resume=True) as output:
            assert not output.is_finished()
            output.skip(iter(LINES))
            output.write(LINES, WHOLE)
        assert translation.file.read_text(encoding="utf-8") == WHOLE
        assert translation.names() == ["out.en"]
        assert open_output("out.en", {}, [translation.model], resume=True).is_finished()
        assert "out.en is complete" in capsys.readouterr().err
        assert not open_output("out.en", {}, [translation.model], resume=False).is_finished()
        translation.file.unlink()


def test_what_is_damaged_is_not_resumed(translation: Translation) -> None:
    translation.stop()
    with Path("out.en.partial").open("r+b") as file:
        file.truncate(len("".join(f"{line.upper()}\n" for line in LINES[:6])) - 1)
    with pytest.raises(UsageError, match=r"out.en.partial is damaged \(it is shorter than it was\)"):
        translation.run(resume=True)
    for damaged in ("{", "[" * 100_000):
        Path("out.en.partial.json").write_text(damaged, encoding="utf-8")
        with pytest.raises(UsageError, match=r"out.en.partial is damaged"):
            translation.run(resume=True)
    with pytest.raises(UsageError, match="--resume continues a file"):
        open_output(None, {}, [translation.model], resume=True)


def test_a_file_that_another_process_translates_into_is_left_alone(translation: Translation) -> None:
    with (
        open_output("out.en", {}, [translation.model], resume=False),
        pytest.raises(OSError, match=r"out.en is in use by another process"),
    ):
        translation.run()
    assert translation.names() == ["out.en"]


def test_a_translation_that_continues_elsewhere_is_not_called_stopped(translation: Translation) -> None:
    with open_output("out.en", {}, [translation.model], resume=False) as output:
        output.write(["eins"], "ONE\n")
        with pytest.raises(OSError, match=r"out.en is in use by another process"):
            translation.run()
    assert translation.names() == ["out.en"]


@needs_links
def test_a_file_or_link_of_the_temporary_name_is_not_written_over(translation: Translation, tmp_path: Path) -> None:
    partial = tmp_path / "out.en.partial"
    partial.write_text("notes of a user", encoding="utf-8")
    with pytest.raises(UsageError, match=r"out.en.partial exists, is not a translation of this program, .* remove it"):
        translation.run()
    assert partial.read_text(encoding="utf-8") == "notes of a user"
    assert translation.names() == ["out.en.partial"]
    partial.unlink()
    translation.stop()
    (tmp_path / "elsewhere").write_text("of somebody", encoding="utf-8")
    partial.unlink()
    partial.symlink_to("elsewhere")
    for resume in (False, True):
        with pytest.raises(UsageError, match=r"out.en.partial is a link, and its target would be overwritten"):
            translation.run(resume=resume)
    partial.unlink()
    (tmp_path / "out.en.partial.json").unlink()
    (tmp_path / "out.en.partial.json").symlink_to("elsewhere")
    with pytest.raises(UsageError, match=r"out.en.partial.json is a link, and its target would be overwritten"):
        translation.run()
    assert (tmp_path / "elsewhere").read_text(encoding="utf-8") == "of somebody"


@pytest.mark.parametrize("resume", [False, True])
def test_a_translation_killed_in_its_first_chunk_begins_anew(translation: Translation, resume: bool) -> None:
    with open_output("out.en", {}, [translation.model], resume=False):
        left = {name: Path(name).read_bytes() for name in translation.names() if name != ".out.en.lock"}
    translation.file.unlink()
    assert sorted(left) == ["out.en.partial", "out.en.partial.json"]
    left["out.en.partial"] = b"O"

    def begin_anew(translations: str) -> None:
        for name, content in left.items():
            Path(name).write_bytes(content)
        with open_output("out.en", {}, [translation.model], resume=resume) as output:
            output.skip(iter(LINES))
            if not translations:
                raise KeyboardInterrupt
            output.write(["eins"], translations)

    with pytest.raises(KeyboardInterrupt):
        begin_anew("")
    assert translation.names() == []
    begin_anew("ONE\n")
    assert translation.file.read_text(encoding="utf-8") == "ONE\n"
    assert translation.names() == ["out.en"]


@posix_only
def test_a_link_is_followed_and_a_pipe_is_written_through(translation: Translation, tmp_path: Path) -> None:
    (tmp_path / "real.en").write_text("old", encoding="utf-8")
    translation.file.symlink_to("real.en")
    translation.run()
    assert (tmp_path / "real.en").read_text(encoding="utf-8") == WHOLE
    assert translation.file.is_symlink()
    # Not /dev/null: if an error replaced it (tests may run as root), all other programs would lose it.
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR)
    translation.file = tmp_path / "pipe"
    translation.run()
    assert os.read(reader, 2 * len(WHOLE)).decode() == WHOLE
    assert translation.file.is_fifo()
    os.close(reader)
    with (tmp_path / "log").open("ab", buffering=0) as log:  # python scripts/translate.py --output /dev/stdout >> log
        log.write(b"before\n")
        translation.file = Path(f"/dev/fd/{log.fileno()}")
        translation.run()
    assert (tmp_path / "log").read_text(encoding="utf-8") == f"before\n{WHOLE}"
    if Path("/dev/full").exists():
        translation.file = Path("/dev/full")
        with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
            translation.run()


@posix_only
def test_the_next_output_of_a_shell_stands_after_the_translation(translation: Translation, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb", buffering=0) as log:  # { translate.py --output /dev/stdout; echo after; } > log
        log.write(b"before\n")
        translation.file = Path(f"/dev/fd/{log.fileno()}")
        translation.run()
        log.write(b"after\n")
    assert (tmp_path / "log").read_text(encoding="utf-8") == f"before\n{WHOLE}after\n"


def test_a_state_without_its_file_stops_nobody(translation: Translation) -> None:
    translation.stop()
    (translation.file.parent / "out.en.partial").replace(translation.file)  # as a process does just before it ends
    assert open_output("out.en", {}, [translation.model], resume=True).is_finished()
    translation.run()
    assert translation.file.read_text(encoding="utf-8") == WHOLE
    assert translation.names() == ["out.en"]
