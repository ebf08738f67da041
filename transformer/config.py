"""Typed settings: dataclasses that check themselves, and are read strictly from plain data, which may be untrusted.

A setting is declared once, with its type and annotations, its default, and a sentence:

    beam: Annotated[int, ">= 1", "<= 1000"] = 5
    \"\"\"hypotheses kept\"\"\"

Annotations are bounds, a `Registry` with the allowed names, and the marks PATH, FIXED and OFF_CARD.
"""

import dataclasses
import enum
import importlib
import math
import numbers
import operator
import os
import types
import typing
from collections import UserDict
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")


class UsageError(ValueError):
    """A mistake of the user; its message names the setting or file and the remedy."""


class SettingError(UsageError):
    """A wrong value of the setting `key`; the message is `key` and `problem`: "model.heads" and "=0 must be >= 1"."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key, self.problem = key, problem

    def __str__(self) -> str:
        return f"{self.key}{self.problem}"

    def within(self, section: str) -> "SettingError":
        """The same error, with the section before the setting's name."""
        return SettingError(f"{section}.{self.key}".strip("."), self.problem)


def import_named(place: str, extra: str = "") -> Any:
    """Imports "module:name". Raises UsageError if that needs a library of `pip install '.[extra]'` that is missing."""
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if not extra:
            raise
        raise UsageError(f"{error.name} is not installed: pip install -e '.[{extra}]'") from error


class Registry(UserDict[str, T]):
    """The choices of a setting by name. A choice that is slow to import is registered as "module:name", and imported
    when it is used; `extra` is the extra to install for it."""

    def __init__(self, choices: Mapping[str, Any] | None = None, *, extra: str = "", **more: Any) -> None:
        super().__init__(choices, **more)
        self.extra = extra

    def __getitem__(self, name: str) -> T:
        value: Any = self.data[name]
        return import_named(value, self.extra) if isinstance(value, str) else value

    __hash__ = object.__hash__  # type: ignore[assignment]  # for types such as list[Annotated[str, METRICS]]


class Mark(enum.Enum):
    PATH = "a path: ~ is expanded, and a relative one is taken from the current folder"
    FIXED = "a resumed run cannot change it"
    OFF_CARD = "the model card does not show it"


PATH, FIXED, OFF_CARD = Mark.PATH, Mark.FIXED, Mark.OFF_CARD
COMPARISONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def shown(value: Any) -> str:
    """A value in the form that is typed."""
    if isinstance(value, list):
        return f"[{','.join(map(shown, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def check_names(plain: dict[Any, Any], names: list[str]) -> None:
    """Raises SettingError for a setting whose name is not in `names`."""
    for key in plain:
        if key not in names:
            near = get_close_matches(str(key), names, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
            raise SettingError(str(key), f": no such setting; {hint}")


def _choice(allowed: tuple[Any, ...], value: Any) -> Any:
    # A boolean equals 0 or 1 and a list is not hashable: compare type and value.
    if any(type(value) is type(one) and value == one for one in allowed):
        return value
    near = get_close_matches(str(value), map(str, allowed), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise SettingError("", f"={shown(value)} is not allowed; {hint}choose one of {', '.join(map(str, allowed))}")


def _is_choice(hint: Any) -> bool:
    """Whether a value of this type is one of several names."""
    registry = typing.get_args(hint)[1] if typing.get_origin(hint) is typing.Annotated else None
    return typing.get_origin(hint) is Literal or isinstance(registry, Mapping)


def _read_annotated(inner: Any, said: list[Any], value: Any) -> Any:
    for choices in said:
        if isinstance(choices, Mapping):
            return _choice(tuple(choices), value)
    value = read_value(inner, value)
    if PATH in said and value is not None:
        if value == "":
            raise SettingError("", "= is empty: give a path, or null for none")
        return str(Path(os.path.expanduser(value)).absolute())  # noqa: PTH111  (pathlib's fails for an unknown user)
    bounds = [bound for bound in said if isinstance(bound, str)]
    for bound in bounds:
        sign, limit = bound.split()
        if not COMPARISONS[sign](value, float(limit)):
            raise SettingError("", f"={shown(value)} must be {' and '.join(bounds)}")
    return value


def _read_list(hint: Any, value: list[Any]) -> list[Any]:
    items = [read_value(hint, item) for item in value]
    if _is_choice(hint) and (twice := [item for item in items if items.count(item) > 1]):
        raise SettingError("", f" names {twice[0]} twice: leave one of them out")
    return items


def _read_dict(key_hint: Any, hint: Any, value: dict[Any, Any]) -> dict[str, Any]:
    if typing.get_origin(key_hint) is typing.Annotated:  # names from a registry
        check_names(value, list(typing.get_args(key_hint)[1]))
    for name in value:
        if not isinstance(name, str):
            raise SettingError("", f": the name {name} must be text: write it in quotes, '{name}'")
    return {name: read_value(hint, item, name) for name, item in value.items()}


def _read_float(value: numbers.Real) -> float:
    try:
        number = float(value)  # also a number of NumPy, from Python
    except OverflowError:  # for a whole number that is too large
        number = math.inf
    if not math.isfinite(number):
        raise SettingError("", f"={value} must be a finite number")
    return number


def _read(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else from_dict(hint, value)  # type: ignore[arg-type]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _read_annotated(arguments[0], list(arguments[1:]), value)
    if origin is Literal:
        return _choice(arguments, value)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        kinds = [argument for argument in arguments if argument is not type(None)]
        if kinds == [int, float] and type(value) is int:  # a whole number is a count, a float a share
            return value
        return _read(kinds[-1], value)
    if origin is list and isinstance(value, list | tuple):
        return _read_list(arguments[0], list(value))
    if origin is dict and isinstance(value, dict):
        return _read_dict(arguments[0], arguments[1], value)
    if hint is float and isinstance(value, numbers.Real) and not isinstance(value, bool):
        return _read_float(value)
    if hint is int and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)  # also a number of NumPy, from Python
    if type(value) is hint:
        return value
    wanted = KINDS.get(hint) or ("a list, [A,B]" if origin is list else "settings by name, {NAME: VALUE}")
    raise SettingError("", f"={shown(value)} must be {wanted}")


def read_value(hint: Any, value: Any, key: str = "") -> Any:
    """`value` as the type `hint`. Raises SettingError with the setting `key` and the allowed values."""
    try:
        return _read(hint, value)
    except SettingError as error:
        raise error.within(key) from None


def read_fields(cls: type, plain: Any) -> dict[str, Any]:
    """The fields of the dataclass `cls` from plain data, with defaults for missing ones, for a class that checks itself
    when it is built."""
    fields = dataclasses.fields(cls)
    if not isinstance(plain, dict):
        inside = ", ".join(field.name for field in fields)
        raise SettingError("", f"={shown(plain)} must be settings by name: {inside}")
    check_names(plain, [field.name for field in fields])
    hints, values = typing.get_type_hints(cls, include_extras=True), {}
    for field in fields:
        if field.name in plain:
            values[field.name] = read_value(hints[field.name], plain[field.name], field.name)
        elif field.default_factory is not dataclasses.MISSING:
            values[field.name] = field.default_factory()
        elif field.default is not dataclasses.MISSING:
            values[field.name] = field.default
        else:
            raise SettingError(field.name, " is missing")
    return values


def from_dict(cls: type[T], plain: Any, path: str = "") -> T:
    """Reads a dataclass from plain dicts and scalars, strictly; `path` names the place in error messages ("": the top).

    Missing settings get their defaults. An unknown key, a wrong type or a value that is not allowed raises
    SettingError, which says what is allowed.
    """
    try:
        return cls(**read_fields(cls, plain))
    except SettingError as error:
        raise error.within(path) from None


class Settings:
    """A frozen dataclass whose values are checked and converted when it is built, also from Python."""

    def __post_init__(self) -> None:
        """Raises SettingError."""
        for name, value in read_fields(type(self), vars(self)).items():
            object.__setattr__(self, name, value)


def setting(default: Any) -> Any:
    """The default of a list or a dict: each object gets its own copy."""
    return dataclasses.field(default_factory=lambda: type(default)(default))


def marked(cls: type, mark: Mark, above: str = "") -> Iterator[str]:
    """The full names of all settings and sections of a dataclass with this mark."""
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        said, parts = [hint], []
        while said:  # also within unions, lists and dicts: dict[str, Annotated[str, PATH]]
            one = said.pop()
            parts.append(one)
            said.extend(typing.get_args(one) if typing.get_origin(one) is not Literal else ())
        if mark in parts:
            yield f"{above}{name}"
            continue
        for part in parts:
            if dataclasses.is_dataclass(part):
                yield from marked(part, mark, f"{above}{name}.")  # type: ignore[arg-type]


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Nested settings: each one from `above`, or else from `below`; a dataclass in `above` counts as the dict of its
    fields."""
    merged = dict(below)
    for key, value in above.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = dataclasses.asdict(value)
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def with_values(settings: Any, values: Mapping[str, Any]) -> Any:
    """Nested dataclasses of settings, with some values replaced; `values` has them by full names."""
    for name, value in values.items():
        section, _, rest = name.partition(".")
        if rest:
            value = with_values(getattr(settings, section), {rest: value})
        settings = dataclasses.replace(settings, **{section: value})
    return settings


def flatten(settings: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of nested groups with its full name, `group.key`."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
