"""Types of the arguments of a call. mypy refuses most of what these functions refuse; they are for those who run without it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tracetypes.epochs import BatchFunction
from tracetypes.errors import UsageError
from tracetypes.records import show

__all__ = [
    "checked_arguments",
    "like",
    "need_choice",
    "need_function",
    "need_inputs",
    "need_limit",
    "need_names",
    "need_outputs",
    "need_whole",
]

P = ParamSpec("P")
R = TypeVar("R")


def checked_arguments(options: Iterable[str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of a function that runs a dataflow. It raises :class:`UsageError` ``TT402`` for an argument that the function
    does not take, and for one that is missing. ``options``: names that its parameter ``options`` takes."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        names = [*(name for name in signature.parameters if name != "options"), *options]

        @wraps(function)
        def call(*values: P.args, **by_name: P.kwargs) -> R:
            for name in by_name:
                if name not in names:
                    fix = like(name, names) or f"the options are {', '.join(names)}"
                    raise UsageError("TT402", f"there is no option {name!r}", fix=fix)
            try:
                signature.bind(*values, **by_name)
            except TypeError as error:
                fix = f"write {function.__name__}(flow, inputs={{...}}, outputs={{...}}), and all others by name"
                raise UsageError("TT402", f"{function.__name__}: {error}", fix=fix) from None
            return function(*values, **by_name)

        return call

    return decorate


def need_function(what: str, value: object, example: str) -> None:
    """Raises :class:`UsageError` ``TT116`` for an argument that cannot be called."""
    if not callable(value):
        raise UsageError("TT116", f"{what} is {show(value)}, which is no function", fix=f"pass a function, such as {example}")


def need_whole(what: str, value: object) -> None:
    """Raises :class:`UsageError` ``TT402`` for anything but a whole number from 1."""
    if type(value) is not int or value < 1:
        raise UsageError("TT402", f"{what} is {show(value)}", fix="give a whole number from 1")


def need_limit(what: str, value: object, *, part: bool = False) -> None:
    """Raises :class:`UsageError` ``TT402`` for anything but None and a number of rows. ``part``: a float is a part of all
    rows."""
    if value is None or (type(value) is int and value >= 0) or (part and type(value) is float and 0 <= value <= 1):
        return
    fix = "give a number of rows, or a part of all rows such as 0.01" if part else "give a number of rows"
    raise UsageError("TT402", f"{what} is {show(value)}", fix=fix)


def need_choice(what: str, value: object) -> None:
    """Raises :class:`UsageError` ``TT402`` for anything but True or False."""
    if not isinstance(value, bool):
        raise UsageError("TT402", f"{what} is {show(value)}", fix="give True or False")


def need_names(what: str, value: object, example: str) -> None:
    """Raises :class:`UsageError` ``TT402`` for anything but a mapping from names."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise UsageError("TT402", f"{what} is {show(value)}", fix=f"give a dictionary, such as {example}")


def need_inputs(value: Mapping[str, Any]) -> None:
    """Raises :class:`UsageError` ``TT402`` for an input that is neither a path, an address, a frame nor an iterable of rows."""
    need_names("inputs", value, '{"clicks": "clicks/"}')
    for name, one in value.items():
        if type(one).__module__.startswith("pyspark.") and type(one).__name__ == "DataFrame":
            raise _no_order(name, one)
        is_arrow = hasattr(one, "__arrow_c_stream__") or hasattr(one, "__arrow_c_array__")
        if not (is_arrow or isinstance(one, str | os.PathLike | Iterable)) or isinstance(one, bytes | Mapping):
            fix = "give a path, an address, a frame, or a list of rows"
            if hasattr(one, "collect"):
                fix = "give what its collect() returns"
            raise UsageError("TT402", f"the input of source {name!r} is {show(one)}", fix=fix)


def _no_order(name: str, frame: Any) -> UsageError:
    """The error for a DataFrame of Spark, whose rows have no order."""
    if frame.isStreaming:
        fix = "use tracetypes.spark.transform(flow, inputs), whose result is part of your own query"
        return UsageError("TT402", f"the input of source {name!r} is a streaming DataFrame", fix=fix)
    fix = 'give tracetypes.spark.ordered(frame, by="COLUMN"), or use tracetypes.spark.transform, which needs no order'
    return UsageError("TT402", f"the input of source {name!r} is a DataFrame of Spark, whose rows have no order", fix=fix)


def need_outputs(value: Mapping[str, Any]) -> None:
    """Raises :class:`UsageError` ``TT402`` for an output that is neither a path, an address, a list nor a function."""
    need_names("outputs", value, '{"counts": "out/"}')
    for name, one in value.items():
        if not isinstance(one, str | os.PathLike | list | BatchFunction) or one == "":
            fix = 'give a path, an address, a list that collects its rows, or "-" for the terminal'
            if callable(one):
                fix = "give each_batch(function), which calls it with the rows of each epoch"
            raise UsageError("TT402", f"the output of sink {name!r} is {show(one)}", fix=fix)


def like(name: str, names: Iterable[str]) -> str:
    """What somebody meant who wrote a name that is not known; empty if nothing is like it."""
    best = get_close_matches(name, list(names), n=1)
    return f"did you mean {best[0]}?" if best else ""
