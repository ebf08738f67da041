"""Numbers and texts that are too large, not finite or unsuitable for a terminal are refused before they are used."""

import importlib
import os
import sys
import types
import typing
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch
from rich.console import Console
from rich.table import Table

from tests.factories import composed, data_settings, tokenizer_settings
from tests.reliability.hostile import parts, safe_file, translator
from transformer import Translator, device
from transformer.cli.app import COMMANDS
from transformer.cli.lines import input_lines
from transformer.cli.train import of_run, read_run_settings
from transformer.config import Settings, UsageError, from_dict
from transformer.data.text_files import MAX_LINE_BYTES
from transformer.data.tokenizer import train_tokenizer
from transformer.device import configure_torch
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import BEAM
from transformer.machine import MachineSettings
from transformer.model.config import ModelConfig, read_model
from transformer.printing import console, print_safely
from transformer.training.checks import check_size, check_trainer
from transformer.training.config import TrainerSettings, check_settings


def unbounded(hint: Any, path: str, bounds: tuple[Any, ...] = ()) -> list[str]:
    """The numbers within a type that have no bounds."""
    if typing.get_origin(hint) is Annotated:
        hint, *bounds = typing.get_args(hint)
    if is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return [found for field in fields(hint) for found in unbounded(hints[field.name], f"{path}.{field.name}")]
    if hint in (int, float):
        return [] if {bound[0] for bound in bounds if isinstance(bound, str)} == {"<", ">"} else [path]
    bounds = bounds if typing.get_origin(hint) is types.UnionType else ()
    return [found for inner in typing.get_args(hint) for found in unbounded(inner, path, bounds)]


def every_kind(of: type) -> list[type]:
    return [found for kind in of.__subclasses__() for found in (kind, *every_kind(kind))]


def test_every_number_in_the_settings_has_a_least_and_a_greatest_value() -> None:
    for command in COMMANDS:
        importlib.import_module(f"transformer.cli.{command.replace('-', '_')}")
    settings = [ModelConfig, *(kind for kind in every_kind(Settings) if kind.__module__.startswith("transformer."))]
    assert len(settings) > 20
    assert [found for kind in settings for found in unbounded(kind, kind.__name__)] == []


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        (MachineSettings, "threads", 100_000),
        (SearchSettings, "beam", 5000),
        (SearchSettings, "length_penalty", float("nan")),
        (SearchSettings, "length_penalty", float("inf")),
        (SearchSettings, "length_penalty", 400.0),
        (SearchSettings, "temperature", 1e-300),
        (SearchSettings, "temperature", float("inf")),
        (SearchSettings, "max_length", 2**62),
    ],
)
def test_a_number_out_of_bounds_is_refused_by_its_key(settings: type, key: str, value: float) -> None:
    group = {MachineSettings: "machine", SearchSettings: "search"}[settings]
    with pytest.raises(ValueError, match=rf"^{group}\.{key}=.* must be "):
        from_dict(settings, composed()[group] | {key: value}, group)


@pytest.mark.parametrize("value", [2**62, 1e300, float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("key", ["learning_rate", "weight_decay"])
def test_training_takes_no_endless_or_negative_rates(key: str, value: float) -> None:
    from transformer.training.config import TrainingSettings

    with pytest.raises(ValueError, match=rf"^training\.{key}=.* must be "):
        from_dict(TrainingSettings, composed()["training"] | {key: value}, "training")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("gradient_clip_val", value) for value in (-1, -0.5, float("nan"), float("inf"))),
        *(("max_steps", value) for value in (-2, 2**62)),
        *((f"limit_{part}_batches", value) for part in ("train", "val", "test") for value in (float("nan"), -1, 2**62)),
        ("log_every_n_steps", -1),
        ("devices", 2**40),
        ("max_time", "00:00:00:00"),
    ],
)
def test_settings_of_the_trainer_have_bounds_too(key: str, value: float | str) -> None:
    with pytest.raises(ValueError, match=rf"^trainer\.{key}="):
        from_dict(TrainerSettings, composed()["trainer"] | {key: value}, "trainer")


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("accelerator", ["auto", "cpu"])
def test_however_a_cpu_is_chosen_it_gets_few_processes(accelerator: str) -> None:
    chosen = composed()["trainer"] | {"accelerator": accelerator, "devices": 1000}
    with pytest.raises(ValueError, match=r"^trainer\.devices=1000: this machine has devices for 1 to \d+ processes$"):
        check_trainer(from_dict(TrainerSettings, chosen, "trainer"))


@pytest.mark.parametrize("name", ["versions", "test", "train", "seconds", "searches", "a/b", "..", "", "x" * 100])
def test_a_name_of_an_extra_test_that_the_results_need_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^data\.extra_tests"):
        data_settings(train="x", validation="x", test="x", extra_tests={name: "x"})


@pytest.mark.parametrize("language", ["../de", "d e", "\x1b[2J", "", "x" * 100])
def test_a_language_is_a_name_that_a_file_may_end_with(language: str) -> None:
    with pytest.raises(ValueError, match=r"^data\.source_language="):
        data_settings(train="x", validation="x", test="x", source_language=language)


def test_a_cache_that_is_a_file_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = of_run(composed("data=toy", f"data.cache={tmp_path}/file"))
    with pytest.raises(ValueError, match=r"cache=.*/file is a file: give a folder"):
        check_settings(read_run_settings(settings), read_model(settings["model"]))


# Memory and threads.


def test_a_search_that_does_not_fit_into_memory_is_refused_by_its_key() -> None:
    with pytest.raises(ValueError, match=r"^a beam of 1000 with \d+ sentences at a time would take .* GB of memory"):
        translator().n_best_ids([[5]] * 20_000, replace(BEAM, beam=1000, length_extra=1000), batch_tokens=10**9)


def test_the_memory_error_of_a_greedy_search_does_not_name_the_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "available_memory", lambda: 1)
    with pytest.raises(ValueError, match=r"^a greedy search with 1 sentence at .* free: take a smaller max_length or"):
        translator().n_best_ids([[5]], replace(BEAM, method="greedy"))


def test_a_search_takes_no_more_memory_than_the_positions_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "available_memory", lambda: 2e5)
    [[translation, *_]] = translator().n_best_ids([[5]], replace(BEAM, length_extra=1000))
    assert translation.pieces


def test_one_batch_takes_the_memory_of_one_however_many_threads_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    source, search = [[5, 6, 7]], replace(BEAM, length_extra=5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    monkeypatch.setattr(device, "available_memory", lambda: 1e6)
    [[translation, *_]] = translator().n_best_ids(source, search)
    assert translation.pieces
    with pytest.raises(ValueError, match=r"would take .* GB of memory"):
        translator().n_best_ids(source * 64, search)


def test_a_model_that_does_not_fit_into_memory_is_refused_before_it_is_built() -> None:
    with pytest.raises(ValueError, match=r"^the model would take .* GB of memory, and .* are free: lower model\.dim"):
        check_size(replace(translator().model.config, dim=1_000_000))


def test_more_threads_than_the_machine_can_share_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(os, "cpu_count", lambda: 20)
    with pytest.raises(ValueError, match=r"^machine\.threads=81: at most 80 threads"):
        configure_torch(MachineSettings(81, "highest", "math"), "cpu")
    assert torch.get_num_threads() == before


# Text from outside.


def test_control_characters_are_escaped_wherever_text_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b]0;owned\x07\u202e\tb"
    print_safely(hostile, f"{hostile}\n")
    table = Table(hostile, title=hostile)
    table.add_row(f"{hostile}\nsecond line")
    console().print(table, hostile, "[red]no markup[/red]")
    console(stderr=True).print(hostile, style="bold")
    out, err = capsys.readouterr()
    assert all(letter.isprintable() or letter == "\n" for letter in out + err)
    assert out.count("\\x1b]0;owned") == 6
    assert "[red]no markup" in out


def test_a_pipe_is_no_terminal_although_the_environment_asks_for_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Console(stderr=True).is_terminal
    assert not console(stderr=True).is_terminal


def test_a_line_of_stdin_larger_than_any_sentence_is_refused_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stdin"
    path.write_bytes(b"ja\n" + b"a" * (10 << 20) + b"\nnein\n")
    with path.open(encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        lines = input_lines(None, None)
        assert next(lines) == "ja"
        with pytest.raises(ValueError, match=f"^stdin line 2 has more than {MAX_LINE_BYTES:,} bytes"):
            next(lines)


def test_a_closed_stdin_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="stdin is closed: give a text or --input FILE"):
        next(input_lines(None, None))


def test_an_error_while_a_tokenizer_reads_its_corpus_is_reported_unchanged() -> None:
    def texts() -> typing.Iterator[str]:
        yield "eins zwei drei"
        raise ValueError("corpus.gz cannot be read after line 1")

    with pytest.raises(ValueError, match=r"^corpus\.gz cannot be read after line 1$"):
        train_tokenizer(texts(), tokenizer_settings("bpe", 20))


# Hostile tokenizers.


def field(number: int, content: bytes, key_above: int = 0) -> bytes:
    """A field of a Protocol Buffers message that holds bytes; `key_above` is added to its key."""

    def varint(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)

    return varint((number << 3 | 2) + key_above) + varint(len(content)) + content


LONG = b"x" * 10_000


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_tokenizer_of_either_side_is_checked_and_fits_the_model(side: str, tmp_path: Path) -> None:
    (plain, content), tokenizer = parts(), translator().source_tokenizer
    for changed, reason in (
        (tokenizer.model + field(1, LONG), "the tokenizer's bytes are not a SentencePiece model"),
        (tokenizer.with_tags(["fr"]).model, "its tokenizers and its model have vocabularies of different sizes"),
    ):
        blob = torch.frombuffer(bytearray(changed), dtype=torch.uint8)
        safe_file(tmp_path / "t.safetensors", plain, content | {f"tokenizer.{side}": blob})
        with pytest.raises(ValueError, match=reason):
            Translator.load(tmp_path / "t.safetensors")
