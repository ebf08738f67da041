"""The checks of shapes that are on in tests: a wrong one is refused, however often a right one has passed."""

import pytest
import torch
from beartype import beartype
from jaxtyping import Float, Int, TypeCheckError
from torch import Tensor

from tests.shapes import checked
from transformer.model.config import FeedForwardConfig
from transformer.model.kv_cache import KeyValues, KVCache
from transformer.model.masks import padding_mask


@checked(typechecker=beartype)
def first_columns(rows: Float[Tensor, "rows columns"], count: int, extra: int = 0) -> Float[Tensor, "rows count"]:
    return rows[:, : count + extra].float() if count else rows[0]


def test_rooms_are_checked() -> None:
    padding_mask(torch.ones(2, 3, dtype=torch.int64), 0)
    with pytest.raises(TypeCheckError):
        padding_mask(torch.ones(2, 3), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("again", range(2))
@pytest.mark.parametrize(
    "arguments",
    [(torch.ones(2), 1), (torch.ones(2, 3, dtype=torch.int64), 1), (torch.ones(2, 3), 1.0), (torch.ones(2, 3), 0)],
    ids=["dimensions", "dtype", "type", "result"],
)
def test_what_is_wrong_is_refused_though_right_calls_passed(arguments: tuple[object, ...], again: int) -> None:
    assert first_columns(torch.ones(2, 3), 1).shape == (2, 1)
    with pytest.raises(TypeCheckError):
        first_columns(*arguments)


def test_hints_that_are_strings_are_looked_up_in_their_own_module() -> None:
    """The whole module begins with `from __future__ import annotations`."""
    cache = KVCache(KeyValues(torch.ones(1, 2, 4, 5), torch.ones(1, 2, 4, 6)), 4)
    assert cache.update(KeyValues(torch.ones(1, 2, 3, 5), torch.ones(1, 2, 3, 6))).length == 7
    with pytest.raises(TypeCheckError):
        cache.update(torch.ones(1, 2, 3, 5))  # type: ignore[arg-type]


def test_local_functions_are_checked() -> None:
    def passes(ids: Int[Tensor, " ids"]) -> None:
        @checked(typechecker=beartype)
        def local(ids: Int[Tensor, " ids"], others: Int[Tensor, " ids"]) -> None:
            pass

        local(ids, torch.ones(3, dtype=torch.int64))

    passes(torch.ones(3, dtype=torch.int64))
    with pytest.raises(TypeCheckError):
        passes(torch.ones(4, dtype=torch.int64))


def test_fields_of_dataclasses_are_checked() -> None:
    FeedForwardConfig(8, "relu", 0.0)
    with pytest.raises(TypeCheckError):
        FeedForwardConfig("8", "relu", 0.0)  # type: ignore[arg-type]
