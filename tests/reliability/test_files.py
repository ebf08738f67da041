"""Files that a run needs again: after a kill, a full disk, damage or two writers at once, saved data stays."""

import os
import random
import re
import time
from pathlib import Path

import pytest
import torch

from tests.processes import CAN_FORK, CHILDREN, posix_only
from tests.reliability import report, trials
from tests.reliability.children import (
    in_child,
    prepare,
    save_for_ever,
    save_in_read_only_folder,
    save_on_full_disk,
    save_with_limit,
    small_translator,
    training_content,
    weights_digest,
)
from transformer import Translator
from transformer.files import HOST, atomic_file, atomic_write, cached_folder, check_writable
from transformer.inference import model_file as checkpoint


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.long
@posix_only
def test_a_run_killed_while_it_saves_keeps_its_last_checkpoint(tmp_path: Path) -> None:
    path, lost, amid = tmp_path / "last.ckpt", [], 0
    chance, tried, step = random.Random(1), trials(12, 100), 0
    for number in range(tried):
        receiving, sending = CHILDREN.Pipe(duplex=False)
        child = CHILDREN.Process(target=save_for_ever, args=(path, step + 1, 8, sending))
        child.start()
        sending.close()
        step = receiving.recv()
        time.sleep(chance.uniform(0, 0.1))
        child.kill()
        child.join()
        try:
            while True:
                step = receiving.recv()
        except EOFError:
            pass
        left = [name for name in names(tmp_path) if name.endswith(".partial")]
        amid += len(left)
        try:
            loaded = checkpoint.load_training(path)["global_step"]
        except ValueError as error:
            lost.append(f"kill {number}: {error}")
            continue
        # A file may have its name just before its saver could report it.
        if loaded not in (step, step + 1) or len(left) > 1:
            lost.append(f"kill {number}: {loaded} was loaded where {step} was saved, {left} are left over")
        step = loaded
    # Some kills must have come while a file was being written, otherwise nothing was tested.
    assert amid > tried // 4
    report("SIGKILL while saving leaves a last.ckpt that loads", tried, lost)
    atomic_write(path, b"")
    assert list(tmp_path.iterdir()) == [path]


def test_temporary_files_of_processes_that_may_still_write_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "[a]*.ckpt"
    with atomic_file(path) as file:
        start, nobody = f".[a]*.ckpt.{HOST}", 2**22 + 1
        elsewhere = [f".other.{HOST}.{nobody}.partial", f".[a]*.ckpt.another_machine.{nobody}.partial"]
        others = [f"{start}.{os.getppid()}.partial", f"{start}.txt.partial", *elsewhere]
        for name in others:
            (tmp_path / name).touch()
        (tmp_path / f"{start}.{nobody}.partial").touch()
        (tmp_path / f"{start}.{10**30}.partial").touch()
        file.write(b"first")
        assert not path.exists()
    atomic_write(path, b"second")
    assert names(tmp_path) == sorted([*others, path.name])
    assert path.read_bytes() == b"second"


@posix_only
def test_a_full_disk_is_reported_in_one_line_and_loses_nothing(tmp_path: Path) -> None:
    path, lost, reported = tmp_path / "last.ckpt", [], 0
    torch.save(training_content(small_translator()) | {"global_step": 1}, path)
    earlier, chance, tried = path.read_bytes(), random.Random(2), trials(3, 50)
    for _ in range(tried):
        limit = chance.randrange(1_500_000)
        said = in_child(save_with_limit, path, limit)
        reported += said == f"{path} cannot be written: File too large (the old file is undamaged)"
        if not (path.read_bytes() == earlier and names(tmp_path) == ["last.ckpt"]):
            lost.append(f"{limit} bytes: {names(tmp_path)}")
    assert reported == tried
    disk = tmp_path / "disk"
    disk.mkdir()
    for _ in range(trials(1, 20)):
        free = chance.randrange(1_200_000)
        found = in_child(save_on_full_disk, disk, free)
        if found is None:  # not allowed here: the test above with a limit covers it
            break
        tried += 1
        wanted = f"{disk}/last.ckpt cannot be written: No space left on device (the old file is undamaged)"
        if found != (wanted, 0, ["last.ckpt", "other"]):
            lost.append(f"{free} bytes free: {found}")
    report("a full disk is reported in one line and loses nothing", tried, lost)


@pytest.mark.long
@posix_only
def test_a_folder_turned_read_only_is_reported_in_one_line_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints" / "last.ckpt"
    path.parent.mkdir()
    refused = f"{path} cannot be written: Permission denied (the old file is undamaged)"
    said = in_child(save_in_read_only_folder, path)
    lost = [] if said == ["saved", "0", refused, "0", "saved", "2"] else [str(said)]
    report("a folder turned read-only is reported in one line and loses nothing", 1, lost)
    assert names(path.parent) == ["last.ckpt"]


def test_a_folder_that_takes_no_run_is_reported_before_work_begins(tmp_path: Path) -> None:
    check_writable(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"the run's folder .*/file cannot be written"):
        check_writable(tmp_path / "file")


@pytest.mark.long
def test_processes_that_prepare_the_same_corpus_at_once_share_one_whole_cache(tmp_path: Path) -> None:
    expected, chance, lost, tried = in_child(prepare, tmp_path / "alone"), random.Random(3), [], trials(2, 40)
    for number in range(tried):
        cache = tmp_path / str(number)
        waiting = []
        for _ in range(3):
            child = CHILDREN.Process(target=prepare, args=(cache,))
            child.start()
            waiting.append(child)
        time.sleep(chance.uniform(0, 0.8))
        waiting[chance.randrange(3)].kill()
        for child in waiting:
            child.join()
        if sorted(child.exitcode for child in waiting)[1:] != [0, 0]:
            lost.append(f"cache {number}: {[child.exitcode for child in waiting]}")
        if in_child(prepare, cache) != expected:
            lost.append(f"cache {number} is another")
        if any(path.suffix not in ("", ".lock") for path in cache.iterdir()):
            lost.append(f"cache {number}: {names(cache)}")
    report("processes that prepare one cache, one of them killed, do not corrupt it", tried, lost)


def test_a_cache_whose_files_were_damaged_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "a").write_bytes(b"a" * 100)
        (folder / "b").write_bytes(b"b")

    def damage(path: Path) -> list[object]:
        changed = bytearray(path.read_bytes())
        changed[len(changed) // 2] ^= 1
        return [
            lambda: path.unlink(),
            lambda: path.write_bytes(bytes(changed)),
            lambda: path.write_bytes(bytes(changed)[:-1]),
            lambda: path.with_name("c").touch(),
            lambda: (path.unlink(), os.mkfifo(path)) if CAN_FORK else path.unlink(),
        ]

    folder, lost, tried = tmp_path / "key", [], 0
    for name in ("a", "b", "sha256.json"):
        for number in range(5):
            caplog.clear()
            cached_folder(folder, make)
            assert caplog.text == ""
            damage(folder / name)[number]()  # type: ignore[operator]
            made.clear()
            with (folder / "a" if (folder / "a").is_file() else folder / "b").open("rb") as opened:
                cached_folder(folder, make)
                cached_folder(folder, make)
                still = opened.read(1) in (b"a", b"b")
            whole = (folder / "a").read_bytes() == b"a" * 100 and (folder / "b").read_bytes() == b"b"
            if not (whole and still and len(made) == 1 and "is damaged: it is built again" in caplog.text):
                lost.append(f"{name}, damage {number}")
            tried += 1
    report("a damaged cache is made again", tried, lost)
    assert names(tmp_path) == ["key", "key.lock"]


def test_a_cache_that_is_there_can_be_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    cached_folder(tmp_path / "key", lambda folder: (folder / "a").touch())
    (tmp_path / "key.lock").unlink()
    assert cached_folder(tmp_path / "key", lambda folder: pytest.fail("made again")) == tmp_path / "key"
    assert not (tmp_path / "key.lock").exists()


def test_a_cache_without_room_on_the_disk_is_reported_by_name(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise OSError("4096 requested and 0 written")  # NumPy's message

    def missing(folder: Path) -> None:
        raise FileNotFoundError("no corpus file x.de")

    with pytest.raises(OSError, match=r"key cannot be written: 4096 requested and 0 written"):
        cached_folder(tmp_path / "key", full)
    with pytest.raises(FileNotFoundError, match=r"^no corpus file x.de$"):
        cached_folder(tmp_path / "key", missing)
    assert names(tmp_path) == ["key.lock"]


def test_for_a_damaged_file_the_newest_whole_one_of_its_run_is_offered(tmp_path: Path) -> None:
    translator, folder = small_translator(), tmp_path / "checkpoints"
    files = [folder / "best.ckpt", folder / "last.ckpt", folder / "older.ckpt", tmp_path / "translator.safetensors"]
    folder.mkdir()
    for age, path in enumerate(files):
        translator.save(path)
        if path.suffix == ".ckpt":
            torch.save(training_content(translator), path)
        os.utime(path, (10**9 - age, 10**9 - age))

    def damage(path: Path) -> None:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        os.utime(path, (2 * 10**9, 2 * 10**9))

    damage(files[0])
    with pytest.raises(
        ValueError, match=rf"best.ckpt is not a usable .*; {re.escape(str(files[1]))} is whole, use it$"
    ):
        Translator.load(files[0])
    damage(files[1])
    with pytest.raises(
        ValueError, match=rf"last.ckpt is not a usable .*; {re.escape(str(files[2]))} is whole, use it$"
    ):
        checkpoint.load_training(files[1])
    damage(files[2])
    with pytest.raises(
        ValueError, match=rf"older.ckpt is not a usable .*; {re.escape(str(files[3]))} is whole, use it$"
    ):
        Translator.load(files[2])
    # Training cannot continue from it.
    with pytest.raises(ValueError, match=r"older.ckpt is not a usable .*[^t]$"):
        checkpoint.load_training(files[2])
    assert weights_digest(Translator.load(tmp_path)) == weights_digest(translator)
    damage(files[3])
    with pytest.raises(ValueError, match=r"translator.safetensors is not a usable .*[^t]$"):
        Translator.load(tmp_path)
    # A single file belongs to no run.
    translator.save(tmp_path / "downloads" / "translator.safetensors")
    damaged = tmp_path / "downloads" / "mine.safetensors"
    damaged.write_bytes(b"")
    with pytest.raises(ValueError, match=r"mine.safetensors is not a usable .*[^t]$"):
        Translator.load(damaged)


def test_all_of_a_checkpoint_of_training_is_compared_with_its_checksums(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    torch.save(training_content(small_translator(), 1), path)
    whole = path.read_bytes()
    assert checkpoint.load_training(path)["optimizer_states"][0]["state"][0]["exp_avg"].sum() == 1 << 18
    # In the optimizer's numbers, which the digest of the translator does not cover.
    place = whole.rindex(torch.ones(1000).numpy().tobytes()) + 777
    path.write_bytes(whole[:place] + b"\x01" + whole[place + 1 :])
    with pytest.raises(ValueError, match="does not match its checksum"):
        checkpoint.load_training(path)


def test_training_does_not_go_on_from_weights_that_were_altered(tmp_path: Path) -> None:
    path, content = tmp_path / "last.ckpt", training_content(small_translator())
    weights = content["state_dict"]
    weights["model.decoder.norm.bias"] = weights["model.decoder.norm.bias"] + 1
    torch.save(content, path)
    with pytest.raises(ValueError, match="its content does not match the digest in it: it was altered or damaged"):
        checkpoint.load_training(path)
