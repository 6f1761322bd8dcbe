"""Rows that Hypothesis draws, functions from their source text, and values in a form that can be compared bit for bit.

Random programs come from :mod:`tests.grammar`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import linecache
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.grammar.prelude import Row, Sub
from tests.strategies import FLOATS, INTEGERS, STRINGS, TIMES
from tracetypes.compiler.tracing.expr import Input

__all__ = ["Row", "Sub", "compiled", "inputs_of", "plain", "rows"]

_SMALL: Final = st.integers(-5, 5)
_SMALL_FLOATS: Final = st.sampled_from((0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 3.25, -7.0, math.nan, math.inf, -math.inf))
_SMALL_STRINGS: Final = st.sampled_from(("", "a", "ab", "b", " a ", "Aé", "ß", "aab", "𝄞x", "12"))


def rows(*, edges: bool = True) -> SearchStrategy[Row]:
    """Rows; with ``edges`` also the largest and smallest numbers, any text and any time."""
    ints = _SMALL | INTEGERS if edges else _SMALL
    floats = _SMALL_FLOATS | FLOATS if edges else _SMALL_FLOATS
    strings = _SMALL_STRINGS | STRINGS if edges else _SMALL_STRINGS
    start = dt.datetime(2024, 2, 28, 23, 59, 58, tzinfo=dt.UTC)
    times = st.integers(0, 5).map(lambda s: start + dt.timedelta(seconds=s))
    times = times | TIMES if edges else times
    subs = st.builds(Sub, ints, st.none() | floats)
    return st.builds(
        Row,
        i=ints,
        j=ints,
        f=floats,
        g=floats,
        s=strings,
        t=strings,
        b=st.booleans(),
        c=st.booleans(),
        oi=st.none() | ints,
        of=st.none() | floats,
        ts=times,
        tu=times,
        day=st.dates() if edges else st.dates(dt.date(2024, 2, 27), dt.date(2024, 3, 2)),
        sub=subs,
        osub=st.none() | subs,
    )


_numbers = itertools.count()


def compiled(source: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function ``program`` that the source defines; its source can be found as that of a file."""
    file = f"<program {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    made: dict[str, Any] = dict(names)
    exec(compile(source, file, "exec"), made)
    return made["program"]  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """A value in a form that ``==`` compares bit for bit and type for type; all NaN are one."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int):
        return ("int", int(value))
    if isinstance(value, float):
        return ("float", "nan" if value != value else value.hex())
    if attrs.has(type(value)):
        return (type(value).__name__, *(plain(getattr(value, a.name)) for a in attrs.fields(type(value))))
    if dataclasses.is_dataclass(value):
        return (type(value).__name__, *(plain(getattr(value, f.name)) for f in dataclasses.fields(value)))
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(plain, value))
    return (type(value).__name__, value)


def inputs_of(**arguments: Any) -> Callable[[Input], Any]:
    """How ``evaluate`` finds its inputs in these arguments."""

    def find(one: Input) -> Any:
        name, *path = one.path
        found = arguments[str(name)]
        for step in path:
            found = getattr(found, step) if isinstance(step, str) else found[step]
        return found

    return find
