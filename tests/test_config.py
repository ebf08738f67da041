"""Typed settings check themselves, plain data is read strictly, and an error names the key and the remedy."""

import json
import math
import sys
import types
import typing
from dataclasses import FrozenInstanceError, asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.config import (
    FIXED,
    OFF_CARD,
    PATH,
    Registry,
    SettingError,
    Settings,
    UsageError,
    flatten,
    from_dict,
    marked,
    merge,
    read_value,
    setting,
)
from transformer.data.tokenizer import TokenizerSettings
from transformer.machine import MachineSettings
from transformer.model.config import AttentionConfig

SHAPES: Registry[Any] = Registry(round="math:floor", square="statistics:mean", flat="no_such_module:shape")


@dataclass(frozen=True)
class Frame(Settings):
    width: Annotated[float, "> 0", "<= 8"] = 2.0
    nails: Annotated[int, ">= 0", "< 5", FIXED] = 1
    """how many"""
    file: Annotated[str, PATH] | None = None


@dataclass(frozen=True)
class Picture(Settings):
    title: str
    shape: Annotated[str, SHAPES] = "round"
    color: Literal["red", "blue", 3] | None = None
    signed: bool = False
    frame: Annotated[Frame, OFF_CARD] = Frame()
    spare: Frame | None = None
    limit: int | float = 1.0
    shapes: list[Annotated[str, SHAPES]] = setting([])
    sizes: Annotated[list[Annotated[float, "> 0"]], FIXED] = setting([1.0])
    prices: dict[Annotated[str, SHAPES], float] = setting({})
    copies: dict[str, Annotated[str, PATH]] = setting({})


def values(hint: Any, said: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """The allowed values of a setting of this type, as plain data."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    bounds = dict(bound.split() for bound in said if isinstance(bound, str))
    if origin is Annotated:
        return values(inner[0], inner[1:])
    if choices := [one for one in said if isinstance(one, Registry)]:
        return st.sampled_from(sorted(choices[0]))
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(st.none() if kind is type(None) else values(kind) for kind in inner)
    if origin is list:
        return st.lists(values(inner[0]), max_size=3, unique=True)
    if origin is dict:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=3)
    if is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return st.fixed_dictionaries({name: values(kind) for name, kind in hints.items()})
    if hint is int:
        most = int(bounds["<"]) - 1 if "<" in bounds else int(bounds.get("<=", 10**9))
        return st.integers(int(bounds.get(">=", -(10**9))), most)
    if hint is float:
        least, most = float(bounds.get(">=", bounds.get(">", -1e9))), float(bounds.get("<=", bounds.get("<", 1e9)))
        return st.floats(least, most, exclude_min=">" in bounds, exclude_max="<" in bounds)
    return {bool: st.booleans(), str: st.text(min_size=1 if PATH in said else 0, max_size=9)}[hint]


@pytest.mark.parametrize("cls", [Picture, AttentionConfig, MachineSettings, TokenizerSettings])
@given(data=st.data())
def test_settings_are_read_back_as_they_were_and_what_is_missing_has_its_default(
    cls: type[Any], data: st.DataObject
) -> None:
    plain = data.draw(values(cls))
    whole = from_dict(cls, plain, "x")
    assert from_dict(cls, json.loads(json.dumps(asdict(whole)))) == whole == cls(**plain)
    left_out = data.draw(st.sets(st.sampled_from([name for name in plain if name != "title"])))
    some = from_dict(cls, {name: value for name, value in plain.items() if name not in left_out})
    required = {name: plain[name] for name in ("title",) if name in plain}
    defaults = {name: getattr(cls(**required), name) for name in left_out}
    assert some == replace(whole, **defaults)


@given(st.floats() | st.integers())
def test_exactly_the_numbers_within_the_bounds_are_taken(number: float) -> None:
    for key, is_inside in (
        ("width", 0 < number <= 8),
        ("nails", isinstance(number, int) and 0 <= number < 5),
    ):
        if is_inside:
            assert getattr(Frame(**{key: number}), key) == number
        else:
            with pytest.raises(SettingError) as refused:
                from_dict(Frame, {key: number}, "frame")
            assert refused.value.key == f"frame.{key}"


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({}, "p.title is missing"),
        ({"title": "x", "zz": 1}, "p.zz: no such setting; there are title, shape, color, "),
        ({"title": "x", "frames": {}}, "p.frames: no such setting; did you mean frame?"),
        ({"title": "x", "frame": {"zz": 1}}, "p.frame.zz: no such setting; there are width, nails, file"),
        ({"title": "x", "frame": 3}, "p.frame=3 must be settings by name: width, nails, file"),
        ({"title": "x", "frame": {"nails": 5}}, "p.frame.nails=5 must be >= 0 and < 5"),
        ({"title": "x", "frame": {"nails": 1.0}}, "p.frame.nails=1.0 must be a whole number"),
        ({"title": "x", "frame": {"width": True}}, "p.frame.width=true must be a number"),
        ({"title": "x", "frame": {"width": 10**400}}, "must be a finite number"),
        ({"title": "x", "signed": 1}, "p.signed=1 must be true or false"),
        ({"title": None}, "p.title=null must be text"),
        ({"title": "x", "shape": "sqare"}, "p.shape=sqare is not allowed; did you mean square? choose one of round, "),
        ({"title": "x", "shape": ["round"]}, "p.shape=[round] is not allowed; "),
        ({"title": "x", "shape": "os:system"}, "p.shape=os:system is not allowed; "),
        ({"title": "x", "color": 3.0}, "p.color=3.0 is not allowed; "),
        ({"title": "x", "shapes": "round"}, "p.shapes=round must be a list, [A,B]"),
        ({"title": "x", "shapes": ["round", "round"]}, "p.shapes names round twice: leave one of them out"),
        ({"title": "x", "sizes": [1.0, 0]}, "p.sizes=0.0 must be > 0"),
        ({"title": "x", "prices": {"sqare": 1.0}}, "p.prices.sqare: no such setting; did you mean square?"),
        ({"title": "x", "prices": {"square": "dear"}}, "p.prices.square=dear must be a number"),
        ({"title": "x", "copies": {2016: "x"}}, "p.copies: the name 2016 must be text: write it in quotes, '2016'"),
        ({"title": "x", "copies": {"a": ""}}, "p.copies.a= is empty: give a path"),
        ([], "p=[] must be settings by name: title, "),
    ],
)
def test_a_wrong_value_is_refused_with_the_full_name_and_the_allowed_values(plain: Any, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        from_dict(Picture, plain, "p")
    assert said in str(refused.value)
    assert str(refused.value).startswith("p")


def test_settings_are_checked_and_converted_when_they_are_built_and_do_not_change() -> None:
    with pytest.raises(SettingError) as refused:
        Picture("x", frame={"width": -1})  # type: ignore[arg-type]
    assert (refused.value.key, refused.value.problem) == ("frame.width", "=-1.0 must be > 0 and <= 8")
    built = Picture("x", frame={"width": 3}, sizes=(1, 2))  # type: ignore[arg-type]
    assert (built.frame, built.sizes) == (Frame(3.0), [1.0, 2.0])
    with pytest.raises(SettingError, match=r"^nails=9 must be"):
        replace(built.frame, nails=9)
    with pytest.raises(FrozenInstanceError):
        built.title = "y"  # type: ignore[misc]
    assert Picture("x").sizes is not Picture("x").sizes


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8])
def test_a_number_of_numpy_is_one_of_python(kind: type[Any]) -> None:
    assert type(Frame(width=kind(2)).width) is float
    assert type(Frame(nails=np.int8(2)).nails) is int


def test_a_count_and_a_share_stay_what_they_are() -> None:
    assert [type(Picture("x", limit=limit).limit) for limit in (1, 1.0)] == [int, float]


def test_a_path_is_absolute_from_the_current_folder_and_knows_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    read = Picture("x", frame={"file": "a/b"}, copies={"one": "~/c", "two": str(tmp_path)})  # type: ignore[arg-type]
    assert read.frame.file == str(tmp_path / "a" / "b")
    assert read.copies == {"one": str(tmp_path / "home" / "c"), "two": str(tmp_path)}
    assert read.spare is Frame().file is None


def test_marks_are_found_with_the_full_names_of_their_settings() -> None:
    assert [*marked(Picture, PATH)] == ["frame.file", "spare.file", "copies"]
    assert [*marked(Picture, FIXED)] == ["frame.nails", "spare.nails", "sizes"]
    assert [*marked(Picture, OFF_CARD)] == ["frame"]


def test_a_registry_imports_what_is_asked_for_and_nothing_else() -> None:
    assert [*SHAPES] == ["round", "square", "flat"]
    assert Picture("x", shape="flat").shape == "flat"
    sys.modules.pop("statistics", None)
    assert SHAPES["round"] is math.floor
    assert "statistics" not in sys.modules
    assert SHAPES["square"]([1, 3]) == 2
    with pytest.raises(ModuleNotFoundError):
        SHAPES["flat"]
    SHAPES["own"] = float
    assert SHAPES["own"] is float
    assert Picture("x", shape="own").shape == "own"
    del SHAPES["own"]


def test_flattened_settings_have_their_full_names() -> None:
    assert dict(flatten({"a": {"b": 1, "c": {"d": 2}}, "e": 3})) == {"a.b": 1, "a.c.d": 2, "e": 3}


def test_merged_settings_leave_those_below_as_they_were() -> None:
    below = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merge(below, {"a": {"b": 9}, "e": 4}) == {"a": {"b": 9, "c": 2}, "d": 3, "e": 4}
    assert below == {"a": {"b": 1, "c": 2}, "d": 3}
    assert merge({"a": {"nails": 2, "z": 1}}, {"a": Frame(nails=3)})["a"] == asdict(Frame(nails=3)) | {"z": 1}


def test_one_value_is_read_with_the_name_it_is_given() -> None:
    assert read_value(list[Annotated[int, ">= 1"]], (1, 2)) == [1, 2]
    with pytest.raises(SettingError, match=r"^x=0 must be >= 1$"):
        read_value(Annotated[int, ">= 1"], 0, "x")
