"""Typed settings are read strictly from plain data, and an error names the key and what is allowed."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from transformer.config import flatten, from_dict

SHAPES = {"round": object, "square": object}


@dataclass(frozen=True)
class Drawing:
    shape: Annotated[str, SHAPES]
    width: Annotated[float, "> 0"]


@dataclass(frozen=True)
class Album:
    shapes: list[Annotated[str, SHAPES]]
    colors: list[Literal["red", "blue"]]
    widths: list[Annotated[float, "> 0"]]


def test_the_names_of_a_registry_are_the_choices() -> None:
    assert from_dict(Drawing, {"shape": "round", "width": 2}, "drawing") == Drawing("round", 2.0)
    with pytest.raises(ValueError, match=r"drawing\.shape=oval is not allowed; choose one of round, square"):
        from_dict(Drawing, {"shape": "oval", "width": 2}, "drawing")


@pytest.mark.parametrize("shape", [None, 1, ["round"]])
def test_a_choice_of_another_type_is_refused(shape: object) -> None:
    with pytest.raises(ValueError, match=r"drawing\.shape=.* is not allowed"):
        from_dict(Drawing, {"shape": shape, "width": 2}, "drawing")


def test_a_list_of_choices_names_each_once() -> None:
    album = {"shapes": ["round", "square"], "colors": ["red"], "widths": [2.0, 2.0]}
    assert from_dict(Album, album, "album") == Album(**album)  # type: ignore[arg-type]
    for key, twice in (("shapes", ["round", "square", "round"]), ("colors", ["red", "red"])):
        with pytest.raises(ValueError, match=rf"^album\.{key} names {twice[0]} twice: leave one of them out$"):
            from_dict(Album, album | {key: twice}, "album")


def test_flattened_settings_have_their_full_names() -> None:
    assert dict(flatten({"a": {"b": 1, "c": {"d": 2}}, "e": 3})) == {"a.b": 1, "a.c.d": 2, "e": 3}


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8])
def test_a_number_of_numpy_is_one_of_python(kind: type[Any]) -> None:
    drawing = from_dict(Drawing, {"shape": "round", "width": kind(2)}, "drawing")
    assert (type(drawing.width), drawing.width) == (float, 2.0)


@pytest.mark.parametrize("width", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_a_number_that_is_not_finite_is_refused(width: float) -> None:
    with pytest.raises(ValueError, match=r"drawing\.width=.* must be a finite number"):
        from_dict(Drawing, {"shape": "round", "width": width}, "drawing")
