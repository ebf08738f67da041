"""A proposal fills its minutes, whatever the machine's speed."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reliability.runs import corpus, settings
from transformer.cli.arguments import split_override
from transformer.config import from_dict
from transformer.doctor.budget import MIN_TRAINING_STEPS, Candidate, fit, max_time, propose, what_to_try
from transformer.doctor.estimate import CostEstimate, Training
from transformer.training.config import RunSettings


def training(folder: Path, max_steps: int) -> Training:
    plain = settings(corpus(folder), training__warmup_steps=300)
    run = from_dict(RunSettings, {key: plain[key] for key in plain if key not in ("model", "trainer")}, "")
    return Training(run, plain["model"], {"max_steps": max_steps}, "pairs_2k")


def cost(seconds_per_step: float) -> CostEstimate:
    return CostEstimate(8.0, seconds_per_step, 100, 100 * seconds_per_step, 3.0, 20.0, 1, 1, 10, "cpu")


@pytest.fixture
def candidate(tmp_path: Path) -> Candidate:
    return Candidate(("experiment=pairs_2k",), training(tmp_path, 1_000_000), None, "")


@pytest.mark.parametrize("seconds", [90.0, 180.0, 3600.0])
@pytest.mark.parametrize("seconds_per_step", [0.02, 0.2, 0.4])
def test_a_proposal_fills_its_time_and_warm_up_and_validations_fit_its_steps(
    candidate: Candidate, seconds: float, seconds_per_step: float
) -> None:
    proposal = fit(replace(candidate, cost=cost(seconds_per_step)), seconds)
    assert proposal is not None
    assert proposal.seconds == pytest.approx(seconds) == 60 * proposal.minutes
    assert proposal.parts["training"] == pytest.approx(proposal.steps * seconds_per_step, abs=seconds_per_step)
    chosen = {key: value for _, key, value in map(split_override, proposal.overrides)}
    assert 1 <= int(chosen["training.warmup_steps"]) <= min(300, proposal.steps / 3)
    assert 2 < proposal.steps / int(chosen["training.validate_every"]) <= 3
    hours, minutes, rest = map(int, chosen["trainer.max_time"].split(":")[1:])
    assert 3600 * hours + 60 * minutes + rest == int(proposal.parts["training"])
    assert (chosen["experiment"], chosen["trainer.max_steps"]) == ("pairs_2k", "-1")
    assert ("training.averaging.kind" in chosen) == (proposal.steps < 1000)
    assert ("model.dropout" in chosen) == (proposal.steps < 20 * 100)  # 20 epochs


def test_a_run_whose_steps_all_fit_stays_as_it_is(tmp_path: Path) -> None:
    proposal = fit(Candidate(("experiment=pairs_2k",), training(tmp_path, 200), None, "", cost=cost(0.1)), 600.0)
    assert proposal is not None
    assert proposal.overrides == ("experiment=pairs_2k", "trainer.max_time=00:00:09:28")
    assert proposal.seconds == pytest.approx(200 * 0.1 + 1.5 * 8 + 20)


@pytest.mark.parametrize("trainer", [{}, {"max_steps": -1}])
def test_a_run_without_a_number_of_steps_fills_its_time(candidate: Candidate, trainer: dict[str, int]) -> None:
    candidate.cost = cost(0.1)
    endless = replace(candidate, training=replace(candidate.training, trainer=trainer))
    assert fit(endless, 600.0) == fit(candidate, 600.0)


def test_the_steps_of_a_preset_for_a_smaller_corpus_do_not_count(tmp_path: Path) -> None:
    smaller = Candidate(("experiment=pairs_2k",), training(tmp_path, 200), None, "", stands_in=True, cost=cost(0.1))
    proposal = fit(smaller, 150.0)
    assert proposal is not None
    assert proposal.seconds == pytest.approx(150.0)
    assert {"trainer.max_steps=-1", "model.dropout=0.1", "training.bpe_dropout=0"} <= {*proposal.overrides}


@pytest.mark.parametrize("kind", ["none", "exponential"])
def test_where_no_run_fits_it_is_said_in_how_many_minutes_one_does(candidate: Candidate, kind: str) -> None:
    averaging = replace(candidate.training.settings.training.averaging, kind=kind)
    run = replace(
        candidate.training.settings, training=replace(candidate.training.settings.training, averaging=averaging)
    )
    small = replace(candidate, training=replace(candidate.training, settings=run), cost=cost(1.0))
    candidates = [replace(candidate, cost=cost(9.0)), small]
    with pytest.raises(ValueError, match=f"minutes=1 is too short: the start, {MIN_TRAINING_STEPS} steps and") as error:
        propose(1.0, candidates)
    [needed] = re.findall(r"take (\S+) here, now$", str(error.value))
    assert propose(float(needed), candidates)[0] is small
    with pytest.raises(ValueError, match="is too short"):
        propose(float(needed) - 0.1, candidates)


def test_validations_that_take_long_are_left_out_but_for_the_last(candidate: Candidate) -> None:
    proposal = fit(replace(candidate, cost=replace(cost(0.1), seconds_per_validation=20.0)), 180.0)
    assert proposal is not None
    assert f"training.validate_every={2 * proposal.steps}" in proposal.overrides


def test_the_smallest_model_is_proposed_where_the_recommended_gets_few_steps(candidate: Candidate) -> None:
    small_one = ("experiment=pairs_2k", "tokenizer.vocabulary_size=2000")  # as there are more pairs than its own 2,000
    assert what_to_try("pairs_10k") == [("experiment=pairs_10k",), small_one]
    large, small = replace(candidate, cost=cost(1.0)), replace(candidate, cost=cost(0.1))
    assert propose(4.0, [large, small])[0] is small
    assert propose(20.0, [large, small])[0] is large
    assert propose(2.0, [large, small])[0] is small  # which gets few too
    assert [overrides[0] for overrides in what_to_try("pairs_2k")] == ["experiment=pairs_2k"]


def test_a_time_limit_is_never_nothing() -> None:
    assert max_time(0.4) == "trainer.max_time=00:00:00:01"
    assert max_time(90061.9) == "trainer.max_time=01:01:01:01"
