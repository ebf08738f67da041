"""Reads typed settings from plain data, strictly: what YAML or a stranger's file says is checked before use."""

import dataclasses
import math
import numbers
import operator
import types
import typing
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

T = TypeVar("T")


class UsageError(ValueError):
    """A mistake in what a user has asked for; its message names the key and the remedy."""


class Registry(dict[str, T]):
    """The choices of a setting by name. Hashable, so that it can stand within a type: list[Annotated[str, METRICS]]."""

    __hash__ = object.__hash__  # type: ignore[assignment]


# Bounds stand beside a type, as in Annotated[float, ">= 0", "< 1"]; so does a registry, whose names are the choices, as
# in Annotated[str, SCORES].
COMPARISONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


def _under(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _check_names(plain: dict[Any, Any], names: list[str], path: str) -> None:
    for key in plain:
        if key not in names:
            near = get_close_matches(str(key), names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(names)}"
            raise ValueError(f"unknown setting {_under(path, key)}: {hint}")


def shown(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, list):
        return f"[{','.join(map(shown, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def _choice(allowed: tuple[Any, ...], value: Any, path: str) -> Any:
    # A boolean equals 0 or 1 and a list is not hashable: compare type and value.
    if any(type(value) is type(one) and value == one for one in allowed):
        return value
    raise ValueError(f"{path}={shown(value)} is not allowed; choose one of {', '.join(map(str, allowed))}")


def _is_choice(hint: Any) -> bool:
    """Whether a value of this type is one of some names."""
    registry = typing.get_args(hint)[1] if typing.get_origin(hint) is typing.Annotated else None
    return typing.get_origin(hint) is Literal or isinstance(registry, Mapping)


def read_value(hint: Any, value: Any, path: str) -> Any:
    """`value` as the type `hint`, or a ValueError that names the setting, `path`, and says what is allowed."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *bounds = typing.get_args(hint)
        if isinstance(bounds[0], Mapping):
            return _choice(tuple(bounds[0]), value, path)
        value = read_value(inner, value, path)
        for bound in bounds:
            sign, limit = bound.split()
            if not COMPARISONS[sign](value, float(limit)):
                raise ValueError(f"{path}={shown(value)} must be {' and '.join(bounds)}")
        return value
    if dataclasses.is_dataclass(hint):
        return from_dict(hint, value, path)  # type: ignore[arg-type]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return _choice(arguments, value, path)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        kinds = [argument for argument in arguments if argument is not type(None)]
        if kinds == [int, float] and type(value) is int:  # a count, where a float is a share
            return value
        return read_value(kinds[-1], value, path)
    if origin is list and isinstance(value, list | tuple):
        items = [read_value(arguments[0], item, path) for item in value]
        if _is_choice(arguments[0]) and (twice := [item for item in items if items.count(item) > 1]):
            raise ValueError(f"{path} names {twice[0]} twice: leave one of them out")
        return items
    if origin is dict and isinstance(value, dict):
        if typing.get_origin(arguments[0]) is typing.Annotated:  # names from a registry
            _check_names(value, list(typing.get_args(arguments[0])[1]), path)
        if numbers_for_names := [key for key in value if not isinstance(key, str)]:
            name = numbers_for_names[0]
            raise ValueError(f"{path}: the name {name} must be text: write it in quotes, '{name}'")
        return {key: read_value(arguments[1], item, f"{path}.{key}") for key, item in value.items()}
    if hint is float and isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)  # one of NumPy's too, from Python
        except OverflowError:  # of a whole number that is too large
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"{path}={value} must be a finite number")
        return number
    if hint is int and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)  # one of NumPy's too, from Python
    if type(value) is hint:
        return value
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    wanted = names.get(hint) or (
        f"a list, as {path}=[A,B]"
        if origin is list
        else f"a group of settings, as {path}.NAME=VALUE or '{path}={{NAME: VALUE}}'"
    )
    raise ValueError(f"{path}={shown(value)} must be {wanted}")


def read_fields(cls: type, plain: Any, path: str) -> dict[str, Any]:
    """The fields of the dataclass `cls` as `from_dict` reads them, for a class that checks itself when it is built."""
    names = [field.name for field in dataclasses.fields(cls)]
    if not isinstance(plain, dict):
        inside = ", ".join(_under(path, name) for name in names)
        raise ValueError(f"{path} must be a group of settings ({inside}), not {plain!r}")
    hints = typing.get_type_hints(cls, include_extras=True)
    _check_names(plain, names, path)
    for name in names:
        if name not in plain:
            raise ValueError(f"the setting {_under(path, name)} is missing")
    return {name: read_value(hints[name], plain[name], _under(path, name)) for name in names}


def from_dict(cls: type[T], plain: Any, path: str) -> T:
    """Reads a dataclass from plain dicts and scalars, strictly; `path` names the place in error messages ("": the top).

    An unknown or missing key, a wrong type or a value that is not allowed raises ValueError saying what is.
    """
    return cls(**read_fields(cls, plain, path))


def from_part(cls: type[T], plain: dict[str, Any]) -> T:
    """Reads a dataclass as `from_dict` does, from those settings that are its fields; other settings are ignored."""
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    return from_dict(cls, {name: plain[name] for name in names if name in plain}, "")


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Nested settings with those of `above` in place of those of `below`, one by one; a dataclass within `above` counts
    as the dict of its fields."""
    merged = dict(below)
    for key, value in above.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = dataclasses.asdict(value)
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def flatten(settings: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of nested groups with its full name, as `group.key`."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
