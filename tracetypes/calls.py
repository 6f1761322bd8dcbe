"""Types of the arguments of a call. mypy refuses most of what these functions refuse; they are for those who run without it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from tracetypes.errors import UsageError
from tracetypes.records import show

__all__ = ["like", "need_choice", "need_function", "need_inputs", "need_names", "need_outputs", "need_whole"]


def need_function(what: str, given: object, example: str) -> None:
    """Raises :class:`UsageError` ``TT116`` for an argument that cannot be called."""
    if not callable(given):
        raise UsageError("TT116", f"{what} is {show(given)}, which is no function", fix=f"pass a function, such as {example}")


def need_whole(what: str, given: object) -> None:
    """Raises :class:`UsageError` ``TT402`` for anything but a whole number from 1."""
    if type(given) is not int or given < 1:
        raise UsageError("TT402", f"{what} is {show(given)}", fix="give a whole number from 1")


def need_choice(what: str, given: object) -> None:
    """Raises :class:`UsageError` ``TT402`` for anything but True or False."""
    if not isinstance(given, bool):
        raise UsageError("TT402", f"{what} is {show(given)}", fix="give True or False")


def need_names(what: str, given: object, example: str) -> None:
    """Raises :class:`UsageError` ``TT402`` for anything but a mapping from names."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UsageError("TT402", f"{what} is {show(given)}", fix=f"give a dictionary, such as {example}")


def need_inputs(given: Mapping[str, Any]) -> None:
    """Raises :class:`UsageError` ``TT402`` for an input that is neither a path, an address nor an iterable of rows."""
    need_names("inputs", given, '{"clicks": "clicks/"}')
    for name, one in given.items():
        if not isinstance(one, str | os.PathLike | Iterable) or isinstance(one, bytes | Mapping):
            raise UsageError(
                "TT402", f"the input of source {name!r} is {show(one)}", fix="give a path, an address, or a list of rows"
            )


def need_outputs(given: Mapping[str, Any]) -> None:
    """Raises :class:`UsageError` ``TT402`` for an output that is neither a path, an address nor a list."""
    need_names("outputs", given, '{"counts": "out/"}')
    for name, one in given.items():
        if not isinstance(one, str | os.PathLike | list) or one == "":
            raise UsageError(
                "TT402",
                f"the output of sink {name!r} is {show(one)}",
                fix='give a path, an address, a list that collects its rows, or "-" for the terminal',
            )


def like(name: str, known: Iterable[str]) -> str:
    """What somebody meant who wrote a name that is not known; empty if nothing is like it."""
    found = get_close_matches(name, list(known), n=1)
    return f"did you mean {found[0]}?" if found else ""
