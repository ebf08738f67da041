"""Checks the shapes and types in signatures, by jaxtyping and beartype.

Types alone are checked by beartype at every call, which costs little. Shapes are checked once for each combination that
comes up: jaxtyping's own decorator checks every call and prepares a local function anew each time it is defined, which
was most of the processor time of tests that translate. What has passed with some types, shapes and dtypes passes with
them again.
"""

import dataclasses
import functools
import inspect
import threading
import types
import typing
from collections.abc import Callable
from typing import Any

import jaxtyping
import numpy
import torch
from beartype import BeartypeConf

_check_every_call = jaxtyping.jaxtyped
_AS_JAXTYPING = BeartypeConf(violation_type=jaxtyping.TypeCheckError)


def check_shapes(packages: list[str]) -> None:
    """Checks what is imported from these packages from now on."""
    jaxtyping.jaxtyped = checked  # by this name, the import hook decorates all functions and classes
    jaxtyping.install_import_hook(packages, "beartype.beartype")


def checked(thing: Any = None, *, typechecker: Any) -> Any:
    """In place of `jaxtyping.jaxtyped`: decorates a function, or the __init__ of a dataclass."""
    if thing is None:
        return functools.partial(checked, typechecker=typechecker)
    if inspect.isclass(thing):
        if dataclasses.is_dataclass(thing) and "__init__" in vars(thing):
            thing.__init__ = checked(thing.__init__, typechecker=typechecker)
        return thing
    signature = _signature_at(thing.__module__, thing.__qualname__, thing.__code__.co_firstlineno)
    plain = None

    @functools.wraps(thing)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal plain
        if plain is not None:
            return plain(*args, **kwargs)
        if signature.checking is None:
            if not _names_shapes(thing):
                plain = typechecker(thing, conf=_AS_JAXTYPING)
                return plain(*args, **kwargs)
            signature.prepare(thing, typechecker)
        given = tuple(map(_kind, args))
        if kwargs:
            given = *given, *((name, _kind(value)) for name, value in kwargs.items())
        call = thing
        if (passed := signature.passed.get(given)) is not None:
            result = thing(*args, **kwargs)
            if _kind(result) in passed:
                return result
            call = lambda *args, **kwargs: result  # noqa: E731
        result = signature.check(call)(*args, **kwargs)
        signature.passed.setdefault(given, set()).add(_kind(result))
        return result

    return wrapper


def _names_shapes(function: Callable[..., Any]) -> bool:
    """Asked at the first call: a hint may name a class that is defined after the function."""
    if "<locals>" in function.__qualname__:
        return True  # or not: to have beartype check it would cost more, each time it is defined
    try:
        return any(map(_names_shape, typing.get_type_hints(function).values()))
    except (NameError, TypeError):  # of a hint in quotes that only mypy can read
        return True


def _names_shape(hint: Any) -> bool:
    if isinstance(hint, list):  # the arguments of a Callable
        return any(map(_names_shape, hint))
    is_shape = isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
    return is_shape or any(map(_names_shape, typing.get_args(hint)))


class _Signature:
    """Which kinds of arguments, and then of results, have passed; what checks others."""

    def __init__(self) -> None:
        self.passed: dict[Any, set[Any]] = {}
        self.checking: Callable[..., Any] | None = None
        self.now = threading.local()

    def prepare(self, function: Callable[..., Any], typechecker: Any) -> None:
        calls = lambda *args, **kwargs: self.now.call(*args, **kwargs)  # noqa: E731
        # In the function's module, where jaxtyping looks up hints that are strings (`from __future__ import
        # annotations`): one that it does not find there is not checked.
        stand_in = types.FunctionType(calls.__code__, function.__globals__, closure=calls.__closure__)
        self.checking = _check_every_call(functools.wraps(function)(stand_in), typechecker=typechecker)

    def check(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call` with arguments and result checked as those of the function at this place."""
        assert self.checking is not None
        self.now.call = call
        return self.checking


@functools.cache
def _signature_at(module: str, qualname: str, line: int) -> _Signature:
    """The same for all local functions that one definition makes."""
    return _Signature()


def _kind(value: Any) -> Any:
    """What a signature can ask of a value, but for its choice among literals."""
    kind = type(value)
    if kind in _ARRAYS:
        return kind, value.shape, value.dtype
    if kind in _OTHERS:
        return kind
    if isinstance(value, list | tuple):
        return kind, *map(_kind, value[:8])  # beartype, too, looks at few items of a list
    (_ARRAYS if isinstance(value, (torch.Tensor, numpy.ndarray)) else _OTHERS).add(kind)
    return _kind(value)


_ARRAYS: set[type] = set()  # types of arrays that have come up
_OTHERS: set[type] = set()  # those that are neither arrays nor lists
