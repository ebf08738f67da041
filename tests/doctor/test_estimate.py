"""What training costs, as measured, and the presets by size."""

import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.cases import others_long
from tests.reliability.runs import corpus, settings
from transformer.config import from_dict
from transformer.data.batching import Batch
from transformer.data.datamodule import TranslationData
from transformer.data.training_split import build_training_split
from transformer.doctor.child import in_new_process
from transformer.doctor.estimate import (
    PRESETS,
    Training,
    TrainingStep,
    _seconds_of_steps,
    measure,
    preset_for,
    seconds_to_translate,
)
from transformer.doctor.report import unknown_shares
from transformer.inference import Translator
from transformer.inference.search import SearchSettings
from transformer.training.config import RunSettings
from transformer.training.train import build_translator

CONFIGS = Path(__file__).parents[2] / "configs"
SECONDS = 60  # that a process may take to start, or to end


@pytest.mark.parametrize(
    ("pairs", "preset"), [(1, 2), (4_400, 2), (4_600, 10), (21_900, 10), (22_400, 50), (99_000, 50), (101_000, 200)]
)
def test_the_preset_is_the_nearest_in_size(pairs: int, preset: int) -> None:
    sizes = {int(name.removeprefix("pairs_").removesuffix("k")): name for name in PRESETS}
    assert preset_for(pairs) == sizes[preset]
    assert preset == min(sizes, key=lambda size: abs(math.log(1000 * size / pairs)))


def test_the_presets_that_there_are_are_those_that_are_recommended() -> None:
    assert {path.stem for path in (CONFIGS / "experiment").glob("pairs_*.yaml")} == PRESETS.keys()


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[SearchSettings]:
    """The searches that are timed, as they come."""
    found, n_best_ids = list[SearchSettings](), Translator.n_best_ids

    def noted(self: Translator, sources: Any, search: SearchSettings) -> Any:
        found.append(search)
        return n_best_ids(self, sources, search)

    monkeypatch.setattr(Translator, "n_best_ids", noted)
    return found


def prepared(folder: Path, **changes: Any) -> tuple[RunSettings, TranslationData, Translator]:
    """What is measured, of a run with such changes."""
    plain = settings(corpus(folder), **changes)
    run = from_dict(RunSettings, {key: plain[key] for key in plain if key not in ("model", "trainer")}, "")
    data = TranslationData(run.data, run.tokenizer, 1)
    data.training_split = build_training_split(data, bpe_dropout=0.0)
    return run, data, build_translator(run, plain["model"], data, None)


@pytest.mark.parametrize(("directions", "accumulated"), others_long([(["de-en", "en-de"], 3), ([], 1)]))
def test_an_estimate_counts_the_steps_and_weights_of_a_run(
    tmp_path: Path, directions: list[str], accumulated: int, searches: list[SearchSettings]
) -> None:
    plain = settings(
        corpus(tmp_path),
        data__directions=directions,
        trainer__accumulate_grad_batches=accumulated,
        validation_search__max_length=11,
    )
    run = from_dict(RunSettings, {key: plain[key] for key in plain if key not in ("model", "trainer")}, "")
    training = Training(run, plain["model"], plain["trainer"], None)
    cost = measure(training)
    data = TranslationData(run.data, run.tokenizer, 1)
    data.training_split = build_training_split(data, bpe_dropout=0.0)
    model = build_translator(run, plain["model"], data, None).model
    assert cost.steps_per_epoch == len([*data.sampler("train", 0, 1, accumulated)]) / accumulated > 1
    assert cost.parameters == sum(weight.numel() for weight in model.parameters())
    assert cost.seconds_per_epoch == pytest.approx(cost.steps_per_epoch * cost.seconds_per_step)
    assert min(cost.seconds_to_start, cost.seconds_per_step, cost.seconds_per_validation) > 0
    assert cost.seconds_to_test > cost.seconds_per_validation
    splits = len(directions) or 1
    assert [search.max_length for search in searches] == [11] * splits + [12] * splits
    assert cost.peak_bytes > 4 * cost.parameters
    short = plain["trainer"] | {"limit_train_batches": accumulated}
    limited = measure(replace(training, settings=replace(run, test=False), trainer=short), importing=1000.0)
    assert limited.seconds_to_start > 1000
    assert limited.steps_per_epoch == 1
    assert limited.seconds_to_test == limited.seconds_per_validation
    with pytest.raises(
        ValueError, match=r"trainer\.limit_train_batches=1e-09 of the \d+ batches of train is less than"
    ):
        measure(replace(training, trainer=plain["trainer"] | {"limit_train_batches": 1e-9}))


def test_of_some_sentences_it_is_told_how_long_all_of_them_take(
    tmp_path: Path, searches: list[SearchSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, data, translator = prepared(tmp_path)
    monkeypatch.setattr("transformer.doctor.estimate.MAX_SENTENCES", 4)
    clock = SimpleNamespace(perf_counter=iter([100.0, 105.0]).__next__)
    monkeypatch.setattr("transformer.doctor.estimate.time", clock)
    # 42 sentences, of which every tenth is translated: five in five seconds.
    assert seconds_to_translate(translator, data, "validation", run.search) == 42


def test_a_search_is_timed_at_the_lengths_that_a_model_of_little_training_gives(
    tmp_path: Path, searches: list[SearchSettings]
) -> None:
    for language, words in (("de", "eins zwei"), ("en", "one two three four five six")):
        (corpus(tmp_path) / f"long.{language}").write_text(f"{words}\n" * 3, encoding="utf-8")
    run, data, translator = prepared(tmp_path, data__extra_tests={"long": str(tmp_path / "long")})
    seconds_to_translate(translator, data, "long", run.search)
    [search] = searches
    tokens = {
        side: len(ids.ids)
        for side, ids in (("source", data.split("long").source), ("target", data.split("long").target))
    }
    assert search.length_ratio == 1.5 * tokens["target"] / tokens["source"]


def test_the_largest_batch_comes_first_and_the_first_steps_are_not_timed(tmp_path: Path) -> None:
    _, data, translator = prepared(tmp_path)
    tried: list[Batch] = []

    class Noted(TrainingStep):
        def seconds(self, index: Any) -> float:
            tried.append(self.loader.dataset[index])
            super().seconds(index)
            return float(len(tried))

    step = Noted(translator.model, data, "32-true", torch.device("cpu"))
    before = translator.model.output.weight.clone()
    seconds = _seconds_of_steps(step)
    assert seconds == [4.0, 5.0]
    sizes = [
        batch.source.numel() + batch.inputs.numel()
        for batch in map(step.loader.dataset.__getitem__, step.loader.sampler)
    ]
    assert tried[0].source.numel() + tried[0].inputs.numel() == max(sizes)
    assert not torch.equal(before, translator.model.output.weight)


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16), ("32-true", None)]
)
def test_steps_are_timed_in_the_precision_of_training(
    tmp_path: Path, precision: str, dtype: torch.dtype | None
) -> None:
    _, data, translator = prepared(tmp_path)
    assert TrainingStep(translator.model, data, precision, torch.device("cpu")).low_precision == dtype


def test_a_split_without_a_source_has_nothing_unknown_and_is_translated_at_once(tmp_path: Path) -> None:
    plain = settings(corpus(tmp_path))
    validation = tmp_path / "validation.de"
    validation.write_text("\n" * validation.read_text(encoding="utf-8").count("\n"))
    run = from_dict(RunSettings, {key: plain[key] for key in plain if key not in ("model", "trainer")}, "")
    data = TranslationData(run.data, run.tokenizer, 1)
    translator = build_translator(run, plain["model"], data, None)
    assert seconds_to_translate(translator, data, "validation", run.search) == 0
    assert unknown_shares(data)["validation"] == {"de": 0.0, "en": 0.0}


def test_unknown_tokens_are_counted_on_each_side(tmp_path: Path) -> None:
    for language, words in (("de", "eins zwei"), ("en", "one onwards")):
        (corpus(tmp_path) / f"news.{language}").write_text(f"{words}\n" * 3, encoding="utf-8")
    _, data, _ = prepared(tmp_path, data__extra_tests={"news": str(tmp_path / "news")})
    shares = unknown_shares(data)["news"]
    assert shares["de"] == 0
    assert shares["en"] == pytest.approx(1 / 2)


def is_running(process: str) -> bool:
    try:
        # Where nobody waits for orphans, as in many containers, an ended process keeps its number, but no command.
        return bool(Path("/proc", process, "cmdline").read_bytes())
    except OSError:
        return False


@pytest.mark.skipif(not is_running(str(os.getpid())), reason="needs the processes in /proc, as Linux has them")
def test_a_process_that_measures_ends_with_the_one_that_asked(tmp_path: Path) -> None:
    # Builtin code, in processes without torch: they start at once. If the second outlives the first, then not for long.
    waits = f"import os, time; open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w'); time.sleep({2 * SECONDS})"
    asking = multiprocessing.get_context("spawn").Process(target=in_new_process, args=(exec, waits))
    asking.start()
    assert becomes_true(lambda: any(tmp_path.iterdir()))
    [started] = tmp_path.iterdir()
    assert is_running(started.name)
    asking.kill()
    asking.join(SECONDS)
    assert becomes_true(lambda: not is_running(started.name))


def becomes_true(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + SECONDS
    while not (is_true := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return is_true


def test_what_fails_in_a_new_process_fails_here() -> None:
    assert in_new_process(int, "12") == 12
    with pytest.raises(ValueError, match="invalid literal"):
        in_new_process(int, "twelve")


def test_a_process_that_is_ended_from_outside_is_said_to_be() -> None:
    with pytest.raises(RuntimeError, match="the process that was to measure was ended; was there too little memory"):
        in_new_process(os._exit, 9)


def test_an_interrupt_is_left_to_the_process_that_asked() -> None:
    assert in_new_process(signal.getsignal, signal.SIGINT) == signal.SIG_IGN
