"""What training costs, as measured, and the presets by size."""

import math
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cases import others_long
from tests.reliability.runs import corpus, settings
from transformer.config import from_dict
from transformer.data.datamodule import TranslationData
from transformer.data.training_split import build_training_split
from transformer.doctor.child import in_new_process
from transformer.doctor.estimate import PRESETS, Training, measure, preset_for, seconds_to_translate
from transformer.doctor.report import unknown_shares
from transformer.training.config import RunSettings
from transformer.training.train import build_translator

CONFIGS = Path(__file__).parents[2] / "configs"
SECONDS = 60  # that a process may take to start, or to end


@pytest.mark.parametrize(("pairs", "preset"), [(1, 2), (2_000, 2), (10_000, 10), (29_000, 50), (200_000, 200)])
def test_the_preset_is_the_nearest_in_size(pairs: int, preset: int) -> None:
    sizes = {int(name.removeprefix("pairs_").removesuffix("k")): name for name in PRESETS}
    assert preset_for(pairs) == sizes[preset]
    assert preset == min(sizes, key=lambda size: abs(math.log(1000 * size / pairs)))


def test_the_presets_that_there_are_are_those_that_are_recommended() -> None:
    assert {path.stem for path in (CONFIGS / "experiment").glob("pairs_*.yaml")} == PRESETS.keys()


@pytest.mark.parametrize(("directions", "accumulated"), others_long([(["de-en", "en-de"], 3), ([], 1)]))
def test_an_estimate_counts_the_steps_and_weights_of_a_run(
    tmp_path: Path, directions: list[str], accumulated: int
) -> None:
    plain = settings(corpus(tmp_path), data__directions=directions, trainer__accumulate_grad_batches=accumulated)
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
    assert cost.peak_bytes > 4 * cost.parameters
    short = plain["trainer"] | {"limit_train_batches": accumulated}
    limited = measure(replace(training, settings=replace(run, test=False), trainer=short))
    assert limited.steps_per_epoch == 1
    assert limited.seconds_to_test == limited.seconds_per_validation
    with pytest.raises(
        ValueError, match=r"trainer\.limit_train_batches=1e-09 of the \d+ batches of train is less than"
    ):
        measure(replace(training, trainer=plain["trainer"] | {"limit_train_batches": 1e-9}))


def test_a_split_without_a_source_has_nothing_unknown_and_is_translated_at_once(tmp_path: Path) -> None:
    plain = settings(corpus(tmp_path))
    validation = tmp_path / "validation.de"
    validation.write_text("\n" * validation.read_text(encoding="utf-8").count("\n"))
    run = from_dict(RunSettings, {key: plain[key] for key in plain if key not in ("model", "trainer")}, "")
    data = TranslationData(run.data, run.tokenizer, 1)
    translator = build_translator(run, plain["model"], data, None)
    assert seconds_to_translate(translator, data, "validation", run.search) == 0
    assert unknown_shares(data)["validation"] == {"de": 0.0, "en": 0.0}


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
