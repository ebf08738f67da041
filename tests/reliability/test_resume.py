"""A stopped and resumed run equals one that was never stopped, bit for bit, at any place and with any settings."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cases import others_long
from tests.processes import posix_only
from tests.reliability import report, trials
from tests.reliability.children import in_processes
from tests.reliability.runs import (
    assert_equal,
    assert_equal_runs,
    corpus,
    last,
    position,
    settings,
    term,
    train,
    trouble,
)
from transformer import Translator
from transformer.signals import Interrupted

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
# Without the test and its pictures: equal weights give equal translations.
UNTESTED = {"test": False}
KINDS: dict[str, dict[str, Any]] = {
    "as_it_comes": {"test": True, "loggers": ["csv"]},
    "three_batches_a_step": {
        **{"trainer__accumulate_grad_batches": 3, "trainer__max_steps": 9},
        "training__validate_every": 2,
    },
    "by_epochs_with_workers": {"trainer__max_steps": -1, "trainer__max_epochs": 2, "data__workers": 2},
    "regularized_and_averaged": {
        "training__dropout_warmup_steps": 9,
        "training__guided_alignment": {"weight": 1.0, "steps": 8},
        **{"training__regularization__word_dropout": 0.1, "training__regularization__layer_drop": 0.2},
        **{"training__bpe_dropout": 0.1, "training__r_drop": 1.0, "training__snapshots": 4},
        **{"training__averaging__kind": "exponential", "data__workers": 1},
        **{"tokenizer__kind": "bpe", "tokenizer__vocabulary_size": 60},
        **{"training__initial_embeddings": "cooccurrence", "trainer__max_steps": 12},
    },
    "muon": {"training__optimizer": "muon"},
    "the_mean_of_validations": {"training__averaging__kind": "last", "training__averaging__count": 2},
    "out_of_patience": {"training__patience": 1, "training__validate_every": 3},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def whole(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was not stopped."""
    train(folder := tmp_path_factory.mktemp("whole"), settings(home, **UNTESTED))
    return folder


def in_pieces(folder: Path, plain: dict[str, Any], pieces: Iterator[int]) -> list[dict[str, Any]]:
    """Trains to the end, is stopped after each of these numbers of batches and resumed; returns where it was
    stopped."""
    places = []
    for batches in pieces:
        try:
            with trouble(batches, term):
                train(folder, plain, last(folder))
            return places
        except Interrupted:
            places.append(position(folder))
    raise AssertionError("not to the end")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "regularized_and_averaged" else pytest.mark.long) for kind in KINDS]
)
def test_a_run_in_pieces_equals_a_whole_one(home: Path, tmp_path: Path, kind: str) -> None:
    plain = settings(home, **UNTESTED | KINDS[kind])
    train(tmp_path / "whole", plain)
    lost, stops, amid_epochs = [], 0, 0
    for trial in range(trials(1, 8)):
        folder, chance = tmp_path / f"{trial}", random.Random(trial)
        # A validation counts as a batch, so the run makes progress and also stops in validations.
        pieces = chance.choices(range(*trials((3, 8), (3, 9))), k=1000)
        places = in_pieces(folder, plain, iter(pieces))
        amid_epochs += sum(place["batch"] > 0 for place in places)
        stops += len(places)
        try:
            assert_equal_runs(folder, tmp_path / "whole")
        except AssertionError as error:
            lost.append(f"trial {trial}: {error}")
    assert amid_epochs > 0
    report(f"exact resume: {kind}", stops, lost)


@pytest.mark.long
def test_a_crash_costs_no_more_than_the_steps_since_the_last_checkpoint(home: Path, tmp_path: Path) -> None:
    plain = settings(home, **UNTESTED, training__checkpoint_every_steps=4, trainer__max_steps=14)
    train(tmp_path / "whole", plain)
    # The second signal stops at once, like a crash: here in the 11th step, after a validation.
    with (
        pytest.raises(Interrupted, match="stopped at once, without saving, by SIGTERM"),
        trouble(12, term),
        trouble(12, term),
    ):
        train(tmp_path / "run", plain)
    assert position(tmp_path / "run")["step"] == 8
    train(tmp_path / "run", plain, last(tmp_path / "run"))
    assert_equal_runs(tmp_path / "run", tmp_path / "whole")

    plain = settings(home, **UNTESTED, training__checkpoint_every_minutes=1e-9)
    with pytest.raises(Interrupted, match="without saving"), trouble(5, term), trouble(5, term):
        train(tmp_path / "minutes", plain)
    assert position(tmp_path / "minutes")["step"] == 4


@pytest.mark.long
def test_a_resumed_run_names_changed_settings_and_refuses_some(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(Interrupted), trouble(5, term):
        train(folder, settings(home, **UNTESTED))
    saved = position(folder)
    for changes, said in (
        ({"model__dim": 32, "training__learning_rate": 1e-3}, r"cannot change model.dim=32 \(was 16\): leave"),
        ({"seed": 4, "tokenizer__vocabulary_size": 99}, "seed=4 .was 3., tokenizer.vocabulary_size=99 .was 120."),
        ({"training__optimizer": "adam"}, "training.optimizer=adam"),
        ({"data__directions": ["de-en", "en-de"]}, r"data.directions=\[de-en,en-de\] \(was \[\]\)"),
        ({"init_from": str(folder)}, "init_from=.*was null"),
        ({"model__decoder__cross_attention": None}, r"cross_attention\.heads=null .was 2."),
        ({"trainer__max_steps": 3}, "trainer.max_steps=3: the run has done . steps already"),
        ({"data__train": str(home / "validation")}, "the files of train"),
    ):
        with pytest.raises(ValueError, match=said):
            train(folder, settings(home, **UNTESTED, **changes), last(folder))
    assert position(folder) == saved
    capsys.readouterr()
    changes = {"training__learning_rate": 1e-3, "data__batch_tokens": 150, "trainer__max_steps": 12}
    train(folder, settings(home, **UNTESTED, **changes), last(folder))
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("changed")] == [
        "changed: data.batch_tokens=150 (was 100)",
        "changed: training.learning_rate=0.001 (was 0.03)",
        "changed: trainer.max_steps=12 (was 20)",
    ]
    assert any("the run continues with its next epoch, 1" in line for line in said)
    assert position(folder)["step"] == 12
    saved = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert saved["optimizer"]["param_groups"][0]["lr"] < 0.001  # of the last step, with the new rate


@pytest.mark.parametrize(
    ("changes", "few"),
    others_long(
        [
            ({}, False),
            ({"trainer__precision": "bf16-mixed"}, True),
            ({"trainer__precision": "bf16-mixed", "data__length_buckets": False}, False),
            ({"data__length_buckets": True}, True),
        ],
        short=2,
    ),
)
def test_a_run_that_goes_on_with_other_lengths_of_batches_says_so(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], few: bool
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(Interrupted), trouble(2, term):
        train(folder, settings(home, **UNTESTED))
    capsys.readouterr()
    train(folder, settings(home, **UNTESTED, **changes, trainer__max_steps=4), last(folder))
    assert ("continues with its next epoch" in capsys.readouterr().err) == few
    assert position(folder)["step"] == 4


@pytest.mark.long
def test_the_log_is_the_same_if_a_run_was_stopped_in_its_last_validation(home: Path, tmp_path: Path) -> None:
    short = {"trainer__max_steps": 1, "training__validate_every": 1, "loggers": ["csv"]}
    plain = settings(home, **short)
    train(tmp_path / "whole", plain)
    with pytest.raises(Interrupted), trouble(2, term):  # after the only step, in the validation
        train(tmp_path / "run", plain)
    assert (position(tmp_path / "run")["step"], position(tmp_path / "run")["validated_step"]) == (1, -1)
    train(tmp_path / "run", plain, last(tmp_path / "run"))
    assert_equal_runs(tmp_path / "run", tmp_path / "whole")


@pytest.mark.long
def test_a_run_that_has_lost_its_patience_does_not_go_on_unless_given_more(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    impatient = UNTESTED | {"training__patience": 1, "training__validate_every": 3}
    train(tmp_path / "run", settings(home, **impatient))
    over = position(tmp_path / "run")
    assert over["step"] < 20
    why = "1 validation without a better BLEU (a larger training.patience trains longer)"
    assert f"no further step after {over['step']}: {why}" in capsys.readouterr().err
    train(tmp_path / "run", settings(home, **impatient), last(tmp_path / "run"))
    assert position(tmp_path / "run") == over
    assert f"no step is left: {why}" in (said := capsys.readouterr().err)
    assert "no further step" not in said
    train(tmp_path / "run", settings(home, **impatient | {"training__patience": 50}), last(tmp_path / "run"))
    assert position(tmp_path / "run")["step"] == 20
    assert "without a better BLEU" not in capsys.readouterr().err


@pytest.mark.long
def test_a_run_whose_time_is_over_says_so_and_keeps_no_speed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = settings(
        home, training__schedule="inverse_square_root", trainer__max_steps=-1, trainer__max_time="00:00:00:01"
    )
    train(tmp_path / "run", short)
    results = tmp_path / "run" / "test.json"
    assert json.loads(results.read_bytes())["cost"].keys() == {"ms/step", "tokens/s", "peak MB"}
    (home / "more.de").write_text("eins zwei\n", encoding="utf-8")
    (home / "more.en").write_text("one two\n", encoding="utf-8")
    short["data"]["test"] = str(home / "more")
    path = tmp_path / "run" / "checkpoints" / "last.ckpt"
    torch.save(torch.load(path, weights_only=True) | {"seconds": 2.0}, path)  # as on a machine that became slower
    train(tmp_path / "run", short, last(tmp_path / "run"))
    said = capsys.readouterr().err
    assert "no step is left: trainer.max_time is over" in said
    assert "changed: the files of test\n" in said
    assert json.loads(results.read_bytes())["cost"].keys() == {"peak MB"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"trainer__max_steps": 7}, {"trainer__max_steps": 13}),
        ({"trainer__max_steps": -1, "trainer__max_epochs": 1}, {"trainer__max_steps": -1, "trainer__max_epochs": 2}),
    ],
)
def test_a_finished_run_continues_as_if_it_had_not_finished(
    home: Path, tmp_path: Path, less: dict[str, int], more: dict[str, int]
) -> None:
    changes = UNTESTED | {"training__schedule": "inverse_square_root", "training__validate_every": 100}
    train(tmp_path / "run", settings(home, **changes, **less))
    train(tmp_path / "run", settings(home, **changes, **more), last(tmp_path / "run"))
    train(tmp_path / "whole", settings(home, **changes, **more))
    run, whole = (
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True) for name in ("run", "whole")
    )
    for part in ("state_dict", "optimizer", "averaging"):
        assert_equal(run[part], whole[part], ("", ""), part)
    for name in ("epoch", "batch", "step"):
        assert run["progress"][name] == whole["progress"][name]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("progress", {"epoch": -3}, r"progress\.epoch=-3 must be >= 0"),
        ("optimizer", {"state": {}, "param_groups": []}, "no run can continue from it"),
        ("averaging", {}, "no run can continue from it"),
        ("seconds", "long", "no run can continue from it"),
    ],
)
def test_a_checkpoint_whose_states_do_not_fit_is_refused(
    home: Path, whole: Path, tmp_path: Path, key: str, value: object, said: str
) -> None:
    (tmp_path / "checkpoints").mkdir()
    checkpoint = torch.load(whole / "checkpoints" / "last.ckpt", weights_only=True)
    kind = {"training__averaging__kind": "exponential"} if key == "averaging" else {}
    checkpoint["settings"]["training"]["averaging"]["kind"] = "exponential" if kind else "none"
    checkpoint[key] = checkpoint[key] | value if key == "progress" else value  # type: ignore[operator]
    torch.save(checkpoint, tmp_path / "checkpoints" / "last.ckpt")
    with pytest.raises(ValueError, match=said):
        train(tmp_path, settings(home, **UNTESTED, **kind, trainer__max_steps=30), last(tmp_path))


def test_a_checkpoint_of_another_version_serves_init_from_and_no_more(home: Path, whole: Path, tmp_path: Path) -> None:
    checkpoint = torch.load(whole / "checkpoints" / "last.ckpt", weights_only=True)
    other = {key: checkpoint[key] for key in ("state_dict", "hyper_parameters", "tokenizers", "weights", "sha256")}
    (tmp_path / "checkpoints").mkdir()
    torch.save(other | {"run": {}}, path := tmp_path / "checkpoints" / "last.ckpt")
    with pytest.raises(ValueError, match=r"last\.ckpt was written by another version .* init_from=.* begins a new run"):
        train(tmp_path, settings(home, **UNTESTED), path)
    train(tmp_path / "new", settings(home, **UNTESTED, init_from=str(path), trainer__max_steps=1))


@pytest.mark.parametrize(
    ("less", "more", "steps"),
    others_long(
        [
            # Fewer batches in an epoch than were already done in this one.
            ({"trainer__max_steps": 5}, {"trainer__max_steps": 9, "trainer__limit_train_batches": 3}, 9),
            # Two epochs of 4 batches in each step, then two of 2 steps.
            (
                {"trainer__max_epochs": 2, "trainer__limit_train_batches": 4},
                {"trainer__max_epochs": 4, "trainer__accumulate_grad_batches": 2},
                12,
            ),
        ]
    ),
)
def test_a_run_resumed_with_other_epochs_ends_where_they_do(
    home: Path, tmp_path: Path, less: dict[str, int], more: dict[str, int], steps: int
) -> None:
    epochs = UNTESTED | ({"trainer__max_steps": -1} if "trainer__max_epochs" in less else {})
    train(tmp_path / "run", settings(home, **epochs | less))
    train(tmp_path / "run", settings(home, **epochs | less | more), last(tmp_path / "run"))
    assert position(tmp_path / "run")["step"] == steps


@pytest.mark.long
def test_a_resumed_run_that_is_stopped_again_is_used_with_its_best_weights(home: Path, tmp_path: Path) -> None:
    train(tmp_path / "run", settings(home, **UNTESTED, trainer__max_steps=6))
    with trouble(16, term), pytest.raises(Interrupted):
        train(tmp_path / "run", settings(home, **UNTESTED, trainer__max_steps=60), last(tmp_path / "run"))
    best = torch.load(tmp_path / "run" / "checkpoints" / "best.ckpt", weights_only=True)
    assert best["progress"]["step"] > 6
    for name, weight in Translator.load(tmp_path / "run").model.named_parameters():
        assert torch.equal(weight, best["state_dict"][f"model.{name}"]), name


def process(rank: int, folder: Path, plain: dict[str, Any], batch: int) -> None:
    """One of two processes; the second gets a signal, the first does not know about it."""
    try:
        with trouble(batch if rank == 1 else 0, term):
            train(folder, plain, last(folder))
    except Interrupted:
        os._exit(143)


@pytest.mark.long
@posix_only
def test_two_processes_stop_together_and_go_on_exactly(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = settings(home, loggers=["csv"], trainer__devices=2, trainer__strategy="ddp", trainer__max_steps=8)
    assert in_processes(2, process, tmp_path / "whole", plain, 0) == [0, 0]
    # In the third step, and in the validation after the sixth.
    for batch, place in ((3, (3, -1)), (4, (6, -1))):
        assert in_processes(2, process, tmp_path / "run", plain, batch) == [143, 143]
        assert (position(tmp_path / "run")["step"], position(tmp_path / "run")["validated_step"]) == place
    assert in_processes(2, process, tmp_path / "run", plain, 0) == [0, 0]
    assert_equal_runs(tmp_path / "run", tmp_path / "whole")
    # On one device; inexact results are reported.
    capfd.readouterr()
    train(tmp_path / "run", settings(home, trainer__max_steps=10, test=False), last(tmp_path / "run"))
    assert "the run continues with its next epoch" in capfd.readouterr().err
    assert position(tmp_path / "run")["step"] == 10
