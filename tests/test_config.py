"""Typed settings are read strictly from plain data, and an error names the key and what is allowed."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from transformer.config import flatten, from_dict, merge, read_value

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


@dataclass(frozen=True)
class Shelf:
    albums: int
    prices: dict[Annotated[str, SHAPES], float]


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


def test_a_whole_number_of_numpy_is_one_of_python() -> None:
    shelf = from_dict(Shelf, {"albums": np.int8(2), "prices": {}}, "shelf")
    assert (type(shelf.albums), shelf.albums) == (int, 2)


def test_true_and_false_are_no_numbers() -> None:
    with pytest.raises(ValueError, match=r"^drawing\.width=true must be a number$"):
        from_dict(Drawing, {"shape": "round", "width": True}, "drawing")


def test_a_setting_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match=r"^the setting drawing\.width is missing$"):
        from_dict(Drawing, {"shape": "round"}, "drawing")


def test_a_name_in_a_group_that_no_registry_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"^unknown setting shelf\.prices\.sqare: did you mean square\?$"):
        from_dict(Shelf, {"albums": 1, "prices": {"sqare": 1.0}}, "shelf")


def test_a_wrong_value_in_a_group_of_names_is_told_with_its_name() -> None:
    with pytest.raises(ValueError, match=r"^shelf\.prices\.square=dear must be a number$"):
        from_dict(Shelf, {"albums": 1, "prices": {"square": "dear"}}, "shelf")


def test_merged_settings_leave_those_below_as_they_were() -> None:
    below = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merge(below, {"a": {"b": 9}, "e": 4}) == {"a": {"b": 9, "c": 2}, "d": 3, "e": 4}
    assert below == {"a": {"b": 1, "c": 2}, "d": 3}


@pytest.mark.parametrize("width", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_a_number_that_is_not_finite_is_refused(width: float) -> None:
    with pytest.raises(ValueError, match=r"drawing\.width=.* must be a finite number"):
        from_dict(Drawing, {"shape": "round", "width": width}, "drawing")


def test_a_name_in_a_group_that_is_a_number_is_told_to_be_quoted() -> None:
    with pytest.raises(ValueError, match=r"^tests: the name 2016 must be text: write it in quotes, '2016'$"):
        read_value(dict[str, str], {"news": "a", 2016: "b"}, "tests")
