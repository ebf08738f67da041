"""What is refused once the corpus has been prepared, before the first step."""

from pathlib import Path

import pytest

from tests.data.corpora import write
from tests.processes import posix_only
from tests.reliability.runs import corpus, settings, train
from transformer.data.datamodule import TranslationData
from transformer.training.validate import validate_limits


@pytest.mark.parametrize(("part", "split"), [("train", "train"), ("val", "validation"), ("test", "test")])
def test_a_share_of_less_than_one_batch_is_refused_with_its_number(
    data: TranslationData, part: str, split: str
) -> None:
    count = len(data.loader(split))
    for accepted in (1 / count, 1.0, 1, 0):
        validate_limits(data, {f"limit_{part}_batches": accepted})
    with pytest.raises(ValueError, match=f"of the {count} batches of {split} is less than one"):
        validate_limits(data, {f"limit_{part}_batches": 0.9 / count})


@posix_only
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_split_with_fewer_sentences_than_processes_is_refused_before_they_start(tmp_path: Path) -> None:
    home = corpus(tmp_path)
    for language in ("de", "en"):
        write(home, f"test.{language}", (home / f"test.{language}").read_text().splitlines()[:2])
    said = "the 2 sentences of test cannot be dealt out to 3 processes: give trainer.devices=2 or less"
    with pytest.raises(ValueError, match=said):
        train(tmp_path / "run", settings(home, trainer__devices=3, trainer__strategy="ddp"))
    assert list((tmp_path / "run").iterdir()) == []
