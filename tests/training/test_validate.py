"""What is refused once the corpus has been prepared, before the first step."""

import pytest

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
