"""Python functions of text, numbers and time, which expressions apply value by value.

An operation of this table is the function itself, for the scalar meaning of expressions and over columns alike, so the
two cannot differ. For a column with few distinct values it is applied to these. A row has no value if the function
raises, or if the result is not a value of its type: an integer beyond 64 bits, a complex number, a time of another
zone.

Names are those of Python if there is one (``str.title``, ``math.sqrt``), with the object of a method as first argument.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import attrs

from tracetypes.records import INT_MAX, INT_MIN, Boolean, Date, Float, Integer, Schema, String, Timestamp

__all__ = ["FUNCTIONS", "SCALARS", "Function"]

_B, _I, _F, _S, _T, _D = Boolean(), Integer(), Float(), String(), Timestamp(), Date()

SCALARS: Final[Mapping[Schema, type[Any]]] = {_B: bool, _I: int, _F: float, _S: str, _T: dt.datetime, _D: dt.date}
"""The kinds of arguments and results, and their classes."""


@final
@attrs.frozen(eq=False)
class Function:
    """``call``: the function. ``takes``: the kinds of its arguments, None for any of ``SCALARS``; the last ones, from
    ``least`` on, may be left out. ``more``: the last may be given several times. ``total``: it has a value for all
    arguments. ``fixed``: places of arguments that must be constants, because they decide how large the result is, or
    what kind of text."""

    call: Callable[..., Any]
    takes: tuple[Schema | None, ...]
    gives: Schema
    least: int
    more: bool = False
    total: bool = False
    fixed: tuple[int, ...] = ()

    def __call__(self, *args: Any) -> Any:
        """Raises ValueError where there is no value."""
        try:
            result = self.call(*args)
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        cls = SCALARS[self.gives]
        if type(result) is not cls:
            raise ValueError(f"gives a {type(result).__name__}")
        if cls is int and not INT_MIN <= result <= INT_MAX:
            raise ValueError("leaves 64 bits")
        if cls is dt.datetime and result.tzinfo is not dt.UTC:
            raise ValueError("gives a time of another zone")
        return result

    def kinds(self, count: int) -> tuple[Schema | None, ...] | None:
        """The kinds of this many arguments; None if it does not take as many."""
        most = len(self.takes)
        if count < self.least or (count > most and not self.more):
            return None
        return self.takes[:count] + self.takes[-1:] * (count - most)


def _of(
    call: Callable[..., Any],
    takes: Sequence[Schema | None],
    gives: Schema,
    *,
    least: int | None = None,
    more: bool = False,
    total: bool = False,
    fixed: tuple[int, ...] = (),
) -> Function:
    return Function(call, tuple(takes), gives, len(takes) if least is None else least, more, total, fixed)


def _part(split: Callable[..., Sequence[str]]) -> Callable[..., Any]:
    return lambda text, place, *how: split(text, *how)[place]


def _lshift(a: int, b: int) -> int:
    if a and b > 64:
        raise OverflowError
    return a << b


def _text() -> dict[str, Function]:
    functions: dict[str, Function] = {}
    tests = "alnum alpha ascii decimal digit identifier lower numeric printable space title upper"
    for name in tests.split():
        functions[f"str.is{name}"] = _of(getattr(str, f"is{name}"), [_S], _B, total=True)
    for name in ("capitalize", "casefold", "swapcase", "title"):
        functions[f"str.{name}"] = _of(getattr(str, name), [_S], _S, total=True)
    for name in ("strip", "lstrip", "rstrip", "removeprefix", "removesuffix"):
        functions[f"str.{name}"] = _of(getattr(str, name), [_S, _S], _S, total=True)
    for name, total in (("count", True), ("find", True), ("rfind", True), ("index", False), ("rindex", False)):
        functions[f"str.{name}"] = _of(getattr(str, name), [_S, _S, _I, _I], _I, least=2, total=total)
    for name in ("startswith", "endswith"):
        functions[f"str.{name}"] = _of(getattr(str, name), [_S, _S, _I, _I], _B, least=3, total=True)
    functions["str.replace"] = _of(str.replace, [_S, _S, _S, _I], _S, total=True)
    for name in ("ljust", "rjust", "center"):
        functions[f"str.{name}"] = _of(getattr(str, name), [_S, _I, _S], _S, least=2, fixed=(1,))
    functions["str.zfill"] = _of(str.zfill, [_S, _I], _S, total=True, fixed=(1,))
    functions["str.format"] = _of(str.format, [_S, None], _S, least=1, more=True, fixed=(0,))
    for name in ("split", "rsplit"):
        # Without a separator, with one, and with one and how often at most.
        split = getattr(str, name)
        functions[name] = _of(_part(split), [_S, _I, _S, _I], _S, least=2)
        functions[f"{name}_length"] = _of(lambda text, *how, split=split: len(split(text, *how)), [_S, _S, _I], _I, least=1)
        functions[f"{name}_has"] = _of(
            lambda text, part, *how, split=split: part in split(text, *how), [_S, _S, _S, _I], _B, least=2
        )
    for name in ("partition", "rpartition"):
        functions[name] = _of(_part(getattr(str, name)), [_S, _I, _S], _S)
    functions["step"] = _of(lambda text, step: text[::step], [_S, _I], _S)
    functions["repeat"] = _of(lambda text, times: text * times, [_S, _I], _S, total=True, fixed=(1,))
    functions["ord"] = _of(ord, [_S], _I)
    functions["int"] = _of(int, [_S, _I], _I, least=1)
    functions["float"] = _of(float, [_S], _F)
    functions["str"] = _of(str, [None], _S, total=True)
    functions["repr"] = _of(repr, [None], _S, total=True)
    functions["format"] = _of(format, [None, _S], _S, fixed=(1,))
    functions["percent"] = _of(lambda text, *values: text % values, [_S, None], _S, least=2, more=True, fixed=(0,))
    return functions


_OF_ONE: Final = (
    "acos acosh asin asinh atan atanh cbrt cos cosh degrees erf erfc exp exp2 expm1 fabs gamma lgamma log10 log1p log2 radians "
    "sin sinh sqrt tan tanh"
)


def _numbers() -> dict[str, Function]:
    functions = {f"math.{name}": _of(getattr(math, name), [_F], _F) for name in _OF_ONE.split()}
    for name in ("atan2", "copysign", "fmod", "hypot", "pow"):
        functions[f"math.{name}"] = _of(getattr(math, name), [_F, _F], _F)
    functions["math.log"] = _of(math.log, [_F, _F], _F, least=1)
    for name in ("floor", "ceil"):
        functions[f"math.{name}"] = _of(getattr(math, name), [_F], _I)
    functions["pow"] = _of(pow, [_F, _F], _F)
    functions["round_digits"] = _of(round, [_F, _I], _F)
    # No integer of 64 bits has more than twenty digits, and of more Python makes very long ones.
    functions["round_tens"] = _of(lambda value, digits: round(value, max(digits, -30)), [_I, _I], _I)
    functions["lshift"] = _of(_lshift, [_I, _I], _I)
    functions["rshift"] = _of(lambda a, b: a >> b, [_I, _I], _I)
    return functions


def _times() -> dict[str, Function]:
    return {
        "datetime.isoformat": _of(dt.datetime.isoformat, [_T, _S, _S], _S, least=1),
        "datetime.strftime": _of(dt.datetime.strftime, [_T, _S], _S, fixed=(1,)),
        "datetime.toordinal": _of(dt.datetime.toordinal, [_T], _I, total=True),
        "datetime.replace": _of(dt.datetime.replace, [_T, *[_I] * 7], _T),
        "date.isoformat": _of(dt.date.isoformat, [_D], _S, total=True),
        "date.strftime": _of(dt.date.strftime, [_D, _S], _S, fixed=(1,)),
        "date.toordinal": _of(dt.date.toordinal, [_D], _I, total=True),
        "datetime.fromisoformat": _of(dt.datetime.fromisoformat, [_S], _T),
        "date.fromisoformat": _of(dt.date.fromisoformat, [_S], _D),
        "datetime.fromtimestamp": _of(lambda seconds: dt.datetime.fromtimestamp(seconds, dt.UTC), [None], _T),
    }


FUNCTIONS: Final[Mapping[str, Function]] = {**_text(), **_numbers(), **_times()}
