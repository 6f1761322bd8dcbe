"""Operations that are functions of Python of text, numbers and time, which expressions apply value by value.

Such an operation is the function itself, for the scalar meaning of expressions and over columns alike, so the
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

from tracetypes.compiler.tracing.kinds import BOOLEAN as _B
from tracetypes.compiler.tracing.kinds import DATE as _D
from tracetypes.compiler.tracing.kinds import FLOAT as _F
from tracetypes.compiler.tracing.kinds import INTEGER as _I
from tracetypes.compiler.tracing.kinds import STRING as _S
from tracetypes.compiler.tracing.kinds import TIMESTAMP as _T
from tracetypes.compiler.tracing.kinds import Kind
from tracetypes.compiler.tracing.operations.operation import Operation, Signature

__all__ = [
    "CEIL",
    "FLOAT_OF",
    "FLOOR",
    "FORMAT",
    "FORMAT_FIELDS",
    "FROM_TIMESTAMP",
    "FUNCTIONS",
    "INT_OF",
    "IN_UTC",
    "LSHIFT",
    "ORD",
    "PARTITIONS",
    "PERCENT",
    "POW",
    "REPEAT",
    "REPR",
    "ROUND_DIGITS",
    "ROUND_TENS",
    "RSHIFT",
    "SPLITS",
    "SQRT",
    "STEP",
    "STR",
    "TIMES_OF_TEXT",
    "TIME_REPLACE",
    "Split",
    "TimesOfText",
]


def _of(
    name: str,
    call: Callable[..., Any],
    takes: Sequence[Kind | None],
    gives: Kind,
    *,
    least: int | None = None,
    more: bool = False,
    total: bool = False,
    fixed: tuple[int, ...] = (),
) -> Operation:
    signature = Signature(tuple(takes), gives, len(takes) if least is None else least, more)
    undefined = "" if total else "where Python raises, and where the result is not a value of its type"
    return Operation(name, call, (signature,), undefined, is_function=True, fixed=fixed)


# ------------------------------------------------------------------------------------------------- text


def _text(name: str, takes: Sequence[Kind | None], gives: Kind, *, total: bool = True, **more: Any) -> Operation:
    """A method of ``str``."""
    return _of(f"str.{name}", getattr(str, name), takes, gives, total=total, **more)


_TESTS: Final = "alnum alpha ascii decimal digit identifier lower numeric printable space title upper"

FORMAT_FIELDS: Final = _text("format", [_S, None], _S, total=False, least=1, more=True, fixed=(0,))
STR: Final = _of("str", str, [None], _S, total=True)
REPR: Final = _of("repr", repr, [None], _S, total=True)
FORMAT: Final = _of("format", format, [None, _S], _S, fixed=(1,))
PERCENT: Final = _of("percent", lambda text, *values: text % values, [_S, None], _S, least=2, more=True, fixed=(0,))
STEP: Final = _of("step", lambda text, step: text[::step], [_S, _I], _S)
REPEAT: Final = _of("repeat", lambda text, times: text * times, [_S, _I], _S, total=True, fixed=(1,))
ORD: Final = _of("ord", ord, [_S], _I)
INT_OF: Final = _of("int", int, [_S, _I], _I, least=1)
FLOAT_OF: Final = _of("float", float, [_S], _F)

_TEXT: Final = (
    *(_text(f"is{name}", [_S], _B) for name in _TESTS.split()),
    *(_text(name, [_S], _S) for name in ("capitalize", "casefold", "swapcase", "title")),
    *(_text(name, [_S, _S], _S) for name in ("strip", "lstrip", "rstrip", "removeprefix", "removesuffix")),
    *(_text(name, [_S, _S, _I, _I], _I, least=2) for name in ("count", "find", "rfind")),
    *(_text(name, [_S, _S, _I, _I], _I, least=2, total=False) for name in ("index", "rindex")),
    *(_text(name, [_S, _S, _I, _I], _B, least=3) for name in ("startswith", "endswith")),
    _text("replace", [_S, _S, _S, _I], _S),
    *(_text(name, [_S, _I, _S], _S, total=False, least=2, fixed=(1,)) for name in ("ljust", "rjust", "center")),
    _text("zfill", [_S, _I], _S, fixed=(1,)),
    *(FORMAT_FIELDS, STR, REPR, FORMAT, PERCENT, STEP, REPEAT, ORD, INT_OF, FLOAT_OF),
)


def _part(split: Callable[..., Sequence[str]]) -> Callable[..., Any]:
    return lambda text, place, *how: split(text, *how)[place]


@final
@attrs.frozen(eq=False)
class Split:
    """What is asked of a list of text, such as ``str.split`` gives it: a part, its length, whether it holds a text.

    Their last arguments are those of the method, for example none, a separator, or one and how often at most.
    """

    part: Operation
    length: Operation
    has: Operation


def _split(name: str) -> Split:
    split = getattr(str, name)
    return Split(
        _of(name, _part(split), [_S, _I, _S, _I], _S, least=2),
        _of(f"{name}_length", lambda text, *how: len(split(text, *how)), [_S, _S, _I], _I, least=1),
        _of(f"{name}_has", lambda text, part, *how: part in split(text, *how), [_S, _S, _S, _I], _B, least=2),
    )


SPLITS: Final[Mapping[str, Split]] = {name: _split(name) for name in ("split", "rsplit")}
"""By the name of the method."""

PARTITIONS: Final[Mapping[str, Operation]] = {
    name: _of(name, _part(getattr(str, name)), [_S, _I, _S], _S) for name in ("partition", "rpartition")
}
"""A part of what the method of this name gives."""

# ---------------------------------------------------------------------------------------------- numbers


def _math(name: str, takes: Sequence[Kind], gives: Kind = _F, **more: Any) -> Operation:
    return _of(f"math.{name}", getattr(math, name), takes, gives, **more)


def _lshift(a: int, b: int) -> int:
    if a and b > 64:
        raise OverflowError
    return a << b


_OF_ONE: Final = (
    "acos acosh asin asinh atan atanh cbrt cos cosh degrees erf erfc exp exp2 expm1 fabs gamma lgamma log10 log1p log2 radians "
    "sin sinh tan tanh"
)

SQRT: Final = _math("sqrt", [_F])
FLOOR: Final = _math("floor", [_F], _I)
CEIL: Final = _math("ceil", [_F], _I)
POW: Final = _of("pow", pow, [_F, _F], _F)
ROUND_DIGITS: Final = _of("round_digits", round, [_F, _I], _F)
# No integer of 64 bits has more than twenty digits, and of more Python makes very long ones.
ROUND_TENS: Final = _of("round_tens", lambda value, digits: round(value, max(digits, -30)), [_I, _I], _I)
LSHIFT: Final = _of("lshift", _lshift, [_I, _I], _I)
RSHIFT: Final = _of("rshift", lambda a, b: a >> b, [_I, _I], _I)

_NUMBERS: Final = (
    *(_math(name, [_F]) for name in _OF_ONE.split()),
    *(_math(name, [_F, _F]) for name in ("atan2", "copysign", "fmod", "hypot", "pow")),
    _math("log", [_F, _F], least=1),
    *(SQRT, FLOOR, CEIL, POW, ROUND_DIGITS, ROUND_TENS, LSHIFT, RSHIFT),
)

# ------------------------------------------------------------------------------------------------ times


def _time(name: str, takes: Sequence[Kind], gives: Kind, **more: Any) -> Operation:
    """A method of ``datetime`` or ``date``."""
    owner, method = name.split(".")
    return _of(name, getattr(getattr(dt, owner), method), takes, gives, **more)


TIME_REPLACE: Final = _time("datetime.replace", [_T, *[_I] * 7], _T)
FROM_TIMESTAMP: Final = _of(
    "datetime.fromtimestamp", lambda seconds: dt.datetime.fromtimestamp(seconds, dt.UTC), [None], _T
)

IN_UTC: Final = _of("datetime.in_utc", lambda time: time, [_T], _T, total=True)
"""A time in UTC, of one that is known to be an instant only."""


def _instant(time: dt.datetime) -> dt.datetime:
    if time.tzinfo is None:
        raise ValueError("no instant: a datetime without a time zone")
    return time.astimezone(dt.UTC)


@final
@attrs.frozen(eq=False)
class TimesOfText:
    """What is asked of a time that a text names, in whatever zone.

    ``instant``: which instant it is. ``only_utc``: the time itself; it has no value where the zone is another one than UTC.
    ``in_utc``: with ``replace(tzinfo=UTC)``.
    """

    instant: Operation
    only_utc: Operation
    in_utc: Operation

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        return self.instant, self.only_utc, self.in_utc


def _times_of_text(name: str, takes: Sequence[Kind], **more: Any) -> TimesOfText:
    parse = getattr(dt.datetime, name)
    return TimesOfText(
        _of(f"datetime.{name}_instant", lambda *how: _instant(parse(*how)), takes, _T, **more),
        _time(f"datetime.{name}", takes, _T, **more),
        _of(f"datetime.{name}_in_utc", lambda *how: parse(*how).replace(tzinfo=dt.UTC), takes, _T, **more),
    )


TIMES_OF_TEXT: Final[Mapping[str, TimesOfText]] = {
    "fromisoformat": _times_of_text("fromisoformat", [_S]),
    "strptime": _times_of_text("strptime", [_S, _S], fixed=(1,)),
}
"""By the name of the method of ``datetime``."""

_TIMES: Final = (
    _time("datetime.isoformat", [_T, _S, _S], _S, least=1),
    _time("datetime.strftime", [_T, _S], _S, fixed=(1,)),
    _time("datetime.toordinal", [_T], _I, total=True),
    _time("date.isoformat", [_D], _S, total=True),
    _time("date.strftime", [_D, _S], _S, fixed=(1,)),
    _time("date.toordinal", [_D], _I, total=True),
    _time("date.fromisoformat", [_S], _D),
    *(TIME_REPLACE, FROM_TIMESTAMP, IN_UTC),
    *(op for one in TIMES_OF_TEXT.values() for op in one.operations),
)

_PARTS: Final = [one for split in SPLITS.values() for one in (split.part, split.length, split.has)]

FUNCTIONS: Final[Mapping[str, Operation]] = {
    one.name: one for one in (*_TEXT, *_PARTS, *PARTITIONS.values(), *_NUMBERS, *_TIMES)
}
"""By their names."""
