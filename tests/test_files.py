"""Writing files, and locks that one process at a time holds; interruptions are tested in tests/reliability."""

import errno
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.links import needs_links, needs_pipes
from transformer.files import (
    atomic_file,
    atomic_folder,
    atomic_write,
    cached_folder,
    exclusive_lock,
    expanded,
    read_file,
)

needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux alone has /dev/full")
HOLD = """
import sys
from pathlib import Path
from transformer.files import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), "the run"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_file_is_replaced_when_it_is_whole_and_kept_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    atomic_write(path, b"first")
    with atomic_file(path) as file:
        file.write(b"second")
        assert path.read_bytes() == b"first"
    with pytest.raises(TypeError), atomic_file(path) as file:
        file.write("third")  # type: ignore[arg-type]
    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_names_the_file_and_not_the_one_that_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250)  # with the ending of the partial file, longer than names may be
    with pytest.raises(OSError, match="File name too long" if os.name == "posix" else "No such file") as caught:
        atomic_write(path, b"text")
    assert caught.value.filename == str(path)
    assert not list(tmp_path.iterdir())


@needs_links
def test_a_link_stays_a_link_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, file = tmp_path / "link", tmp_path / "disk" / "file"
    link.symlink_to(file)
    for content in (b"new", b"old replaced"):
        atomic_write(link, content)
        assert link.is_symlink()
        assert file.read_bytes() == content
    assert list((tmp_path / "disk").iterdir()) == [file]


@needs_pipes
def test_a_pipe_is_written_through_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    atomic_write(pipe, b"text")
    reader.join(timeout=60)
    assert received == [b"text"]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="Windows has no /dev/stdout")
def test_devices_in_dev_are_written_directly(tmp_path: Path) -> None:
    program = "from pathlib import Path; from transformer.files import atomic_write; print('a', flush=True);"
    program += "atomic_write(Path('/dev/stdout'), b'b')"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "a\nb"
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208


def test_a_regular_file_in_dev_is_replaced_as_everywhere() -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        pytest.skip("this system has no /dev/shm")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for content in (b"old", b"new"):
            atomic_write(Path(folder, "x"), content)
        assert Path(folder, "x").read_bytes() == b"new"


@needs_full_device
def test_a_full_device_is_reported_in_one_line() -> None:
    with pytest.raises(OSError, match=r"^/dev/full cannot be written: No space left on device$"):
        atomic_write(Path("/dev/full"), b"text")


def test_a_lock_that_another_process_holds_is_refused_at_once_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    refused = pytest.raises(OSError, match=r"^the run is in use by another process \(which holds .*lock\)$")
    with refused, exclusive_lock(path, "the run"):
        pytest.fail("two processes hold one lock")
    holder.kill()
    holder.communicate()
    with exclusive_lock(path, "the run"):
        pass


def test_a_lock_that_cannot_be_made_is_reported_with_the_file_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = pytest.raises(OSError, match=r"^the run cannot be written: ")
    with refused, exclusive_lock(tmp_path / "file" / "lock", "the run"):
        pytest.fail("a lock within a file")


def test_a_lock_is_given_back_whatever_happens_while_it_is_held(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="stopped"), exclusive_lock(tmp_path / "lock", "the run"):
            raise ValueError("stopped")


def test_a_cache_is_made_again_only_if_its_sources_have_changed(tmp_path: Path) -> None:
    made: list[str] = []
    for of in ("one", "one", "other", "other"):
        cached_folder(tmp_path / "key", lambda folder, of=of: (folder / of).touch() or made.append(of), made_of=of)
        assert sorted(path.name for path in (tmp_path / "key").iterdir()) == [of, "sha256.json"]
    assert made == ["one", "other"]


@needs_links
def test_a_link_to_a_folder_stays_a_link_and_its_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk" / "folder").mkdir(parents=True)
    (tmp_path / "disk" / "folder" / "old").touch()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "folder")
    with atomic_folder(tmp_path / "link") as work:
        (work / "new").touch()
    assert (tmp_path / "link").is_symlink()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()] == [
        "disk/folder/new"
    ]


def test_an_error_about_another_file_keeps_the_name_of_that_file(tmp_path: Path) -> None:
    def fail(name: str | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", name)

    for name in (None, str(tmp_path / "file"), str(tmp_path)):
        with pytest.raises(OSError, match=r"file cannot be written: No space"), atomic_file(tmp_path / "file"):
            fail(name)
    for name in ("stdout", str(tmp_path / "another" / "file")):
        with (
            pytest.raises(OSError, match=r"No space left on device: '.*(stdout|another)"),
            atomic_file(tmp_path / "file"),
        ):
            fail(name)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_others_may_read_a_folder_that_took_its_place_at_once(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "whole") as work:
        (work / "file").touch()
    assert (tmp_path / "whole").stat().st_mode & 0o777 == 0o755


def test_a_file_larger_than_asked_for_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(9))
    assert read_file(tmp_path / "file", max_bytes=9) == bytes(9)
    with pytest.raises(ValueError, match="no file of at most 8 bytes"):
        read_file(tmp_path / "file", max_bytes=8)


def test_the_home_folder_of_a_user_who_is_not_known_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "USERPROFILE"):  # HOME, and on Windows USERPROFILE
        monkeypatch.setenv(variable, str(tmp_path))
    assert expanded("~/x") == tmp_path / "x"
    assert (expanded("~nobody-of-this-name/x"), expanded("x/~y")) == (Path("~nobody-of-this-name/x"), Path("x/~y"))
