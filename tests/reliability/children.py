"""Functions of child processes that are killed, that run out of memory or disk, or that read hostile files."""

import ctypes
import hashlib
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_only

from tests import factories
from tests.factories import tokenizer_settings
from tests.processes import CHILDREN, peak_memory
from transformer import ModelConfig, Transformer, Translator
from transformer.data.config import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.data.text_files import read_pairs
from transformer.data.tokenizer import Kind, Tokenizer, TokenizerSettings, train_tokenizer
from transformer.inference import model_file as checkpoint
from transformer.inference.translator import BEAM
from transformer.model.config import AttentionConfig, DecoderConfig, EncoderConfig, FeedForwardConfig
from transformer.training.checkpoints import write_checkpoint

TOY = Path(__file__).parents[2] / "data" / "toy"


def small_translator(kind: Kind = "bpe", size: int = 120, byte_fallback: bool = False) -> Translator:
    """An untrained model with a real tokenizer."""
    torch.manual_seed(1)
    texts = (TOY / "validation.de").read_text(encoding="utf-8").splitlines()[:100]
    tokenizer = train_tokenizer(texts, tokenizer_settings(kind, size, byte_fallback=byte_fallback))
    attention = AttentionConfig(2, None, None, 0.0, bias=True, score="scaled_dot")
    config = ModelConfig(
        source_vocab_size=len(tokenizer),
        target_vocab_size=len(tokenizer),
        dim=16,
        positions="sinusoidal",
        max_length=32,
        norm="pre",
        tied_embeddings="all",
        dropout=0.0,
        feed_forward=FeedForwardConfig(24, "relu", 0.0),
        encoder=EncoderConfig(1, attention),
        decoder=DecoderConfig(1, attention, attention),
    )
    return Translator(Transformer(config).eval(), (tokenizer, tokenizer), ("de", "en"))


def training_content(translator: Translator, megabytes: int = 0) -> dict[str, Any]:
    """The content of a training checkpoint, with `megabytes` of optimizer states."""
    tensors = checkpoint.tensors(translator.model, translator.tokenizers)
    plain = checkpoint.describe(translator.model, translator.tokenizers, translator.languages)
    return {
        "global_step": 0,
        "state_dict": {f"model.{name}": weight for name, weight in tensors.items() if name[:10] != "tokenizer."},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(megabytes << 18)}}}],
        "hyper_parameters": {"translator": plain},
        "tokenizers": {name: bytes for name, bytes in tensors.items() if name[:10] == "tokenizer."},
        "weights": [name for name in tensors if name[:10] != "tokenizer."],
        "sha256": checkpoint.digest(plain, tensors),
    }


class ChildDiedError(Exception):
    """A child that was killed, or crashed, before it could answer."""


def in_child(function: Callable[..., Any], *arguments: Any, seconds: float = 600) -> Any:
    """The result of `function` in a new process; raises ChildDiedError, or its exception as RuntimeError."""
    receiving, sending = CHILDREN.Pipe(duplex=False)
    child = CHILDREN.Process(target=_answer, args=(sending, function, arguments))
    child.start()
    sending.close()
    try:
        if not receiving.poll(seconds):
            raise ChildDiedError(f"no answer within {seconds} s")
        fine, answer = receiving.recv()
    except EOFError:
        child.join()
        raise ChildDiedError(f"ended with {child.exitcode}") from None
    finally:
        child.kill()
        child.join()
    if not fine:
        raise RuntimeError(answer)
    return answer


def _answer(sending: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    # After a fork, OpenMP's threads do not exist any more.
    torch.set_num_threads(1)
    try:
        answer = (True, function(*arguments))
    except Exception as error:
        answer = (False, f"{type(error).__name__}: {error}")
    sending.send(answer)


def in_processes(count: int, function: Callable[..., Any], *arguments: Any, seconds: float = 60) -> list[int | None]:
    """The exit codes of processes that train together, each in `function(rank, *arguments)`, started as by SLURM.

    After `seconds`, processes that still run are killed.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    target = [(rank, count, port, function, arguments) for rank in range(count)]
    processes = [CHILDREN.Process(target=_one_of_several, args=one) for one in target]
    for started in processes:
        started.start()
    end = time.monotonic() + seconds
    for started in processes:
        started.join(max(0, end - time.monotonic()))
        started.kill()
        started.join()
    return [started.exitcode for started in processes]


def _one_of_several(rank: int, count: int, port: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    addresses = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0"}
    os.environ.update(addresses | {"LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)})
    rank_zero_only.rank = rank
    torch.set_num_threads(1)
    function(rank, *arguments)


def save_for_ever(path: Path, first: int, megabytes: int, sending: Connection) -> None:
    """Saves one checkpoint after another; reports each finished one."""
    content = training_content(small_translator(), megabytes)
    for step in count(first):
        write_checkpoint(path, content | {"global_step": step})
        sending.send(step)


def save_with_limit(path: Path, limit: int | None) -> str:
    """Saves a checkpoint while no file may be larger than `limit` bytes; returns the error message."""
    import resource

    content = training_content(small_translator(), 1)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        write_checkpoint(path, content | {"global_step": 2})
    except OSError as error:
        return str(error)
    return "saved"


def save_on_full_disk(folder: Path, free: int) -> tuple[str, int, list[str]] | None:
    """The same on a disk of 4 MiB with `free` bytes left, and the files afterwards; None if mounting is not allowed."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    new_mounts, new_users, private = 0x20000, 0x10000000, 0x44000
    if library.unshare(new_mounts) and library.unshare(new_mounts | new_users):
        return None
    library.mount(None, b"/", None, private, None)
    if library.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=4m"):
        return None
    path, content = folder / "last.ckpt", training_content(small_translator(), 1)
    write_checkpoint(path, content)
    disk = os.statvfs(folder)
    (folder / "other").write_bytes(bytes(disk.f_bavail * disk.f_bsize - free))
    said = save_with_limit(path, None)
    return said, checkpoint.load_training(path)["global_step"], sorted(file.name for file in folder.iterdir())


def save_in_read_only_folder(path: Path) -> list[str]:
    """Saves, saves after the folder has become read-only, and saves after it can be written again."""
    if os.geteuid() == 0:
        # root may write anywhere unless it gives that up; 0x20080522 is the version of the call.
        header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None).capset(header, nothing) == 0
    said = []
    for step, mode in enumerate((0o755, 0o555, 0o755)):
        path.parent.chmod(mode)
        try:
            content = training_content(small_translator()) | {"global_step": step}
            write_checkpoint(path, content)
            said.append("saved")
        except OSError as error:
            said.append(str(error))
        said.append(str(checkpoint.load_training(path)["global_step"]))
    return said


def data_settings(cache: Path) -> tuple[DataSettings, TokenizerSettings]:
    small = {"train": str(TOY / "test"), "extra_tests": {}, "max_length": 64, "batch_tokens": 500, "cache": str(cache)}
    return factories.data_settings("data=toy", **small), tokenizer_settings("bpe", 300)


def prepare(cache: Path) -> str:
    """Prepares the bundled corpus as a run does; returns a digest of the data that it reads then."""
    data = TranslationData(*data_settings(cache), seed=1)
    digest = hashlib.sha256(data.source_tokenizer.model)
    for name in ("train", "validation"):
        split = data.split(name)
        for array in (split.source.ids, split.source.offsets, split.target.ids, split.target.offsets, split.numbers):
            digest.update(array.tobytes())
    return digest.hexdigest()


# A search that is long enough to test that it works.
SHORT = replace(BEAM, method="greedy", max_length=2)


def load_each(good: Path, paths: list[Path], use: bool = False) -> list[tuple[str, str, int]]:
    """Loads translators one after another; for each a digest or the error message, and the memory of this process so
    far, in bytes. It first loads a good one, because torch's code takes memory, especially in builds for GPUs."""
    _load(good, use)
    before = peak_memory()
    return [(*_load(path, use), peak_memory() - before) for path in paths]


def _load(path: Path, use: bool) -> tuple[str, str]:
    try:
        translator = Translator.load(path)
        digest = weights_digest(translator)
        if use:
            translator.translate(["Der Hund läuft.", "½ ﬁ e\u0301 \u1100\u1161 🙂 猫 \ufdfa" * 20, "x" * 500], SHORT)
            translator.target_tokenizer.decode(list(range(len(translator.target_tokenizer))))
    except (ValueError, FileNotFoundError) as error:
        return "refused", str(error)
    return "loaded", digest


def translate(translator: Translator, texts: list[str]) -> tuple[list[str], int, int]:
    """The translations, the number of characters that were encoded for them, and the memory that this took, in
    bytes."""
    source = CountingTokenizer(translator.source_tokenizer.model, translator.source_tokenizer.kind)
    counting = Translator(translator.model, (source, translator.target_tokenizer), translator.languages)
    before = peak_memory()
    found = counting.translate(texts, SHORT)
    return found, source.characters, peak_memory() - before


class CountingTokenizer(Tokenizer):
    """Counts the encoded characters."""

    characters = 0

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        self.characters += sum(map(len, texts))
        return super().encode_all(texts)


def weights_digest(translator: Translator) -> str:
    plain = checkpoint.describe(translator.model, translator.tokenizers, translator.languages)
    return checkpoint.digest(plain, checkpoint.tensors(translator.model, translator.tokenizers))


def teach(kind: Kind, lines: list[str], byte_fallback: bool) -> int:
    """Trains a tokenizer on lines, encodes and decodes them; the number of lines for which this works."""
    size = (20 if kind in ("bpe", "unigram") else 500) + 256 * byte_fallback
    tokenizer = train_tokenizer(lines, tokenizer_settings(kind, size, byte_fallback=byte_fallback))
    again = Tokenizer(tokenizer.model, kind)
    return sum(type(again.decode(ids)) is str for ids in again.encode_all(lines))


def read_corpus(path: Path) -> tuple[str, int]:
    """The error message for a corpus, and the memory that finding it took, in bytes."""
    before = peak_memory()
    try:
        said = f"{sum(1 for _ in read_pairs([path], 'de', 'en'))} pairs"
    except ValueError as error:
        said = str(error)
    return said, peak_memory() - before
