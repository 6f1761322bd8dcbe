"""What random programs name: records, enums, constants and functions. A program's module begins with ``import *`` of this one."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import math
import numbers
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable
from zoneinfo import ZoneInfo

import attrs

from tracetypes import UNIT, ExactSum, Marker, OpKeyedOrdered, OpKeyedUnordered, OpStateless, Unit
from tracetypes.algebra import greatest, larger, least, smaller
from tracetypes.records import INT_MAX, INT_MIN

# Programs name what they like of it.
__all__ = [
    "BLANK",
    "CODES",
    "DESK",
    "EPOCH",
    "FRIENDS",
    "GMT",
    "INDIA",
    "INT_MAX",
    "INT_MIN",
    "NAMED",
    "OSLO",
    "PRICES",
    "SECOND",
    "SOME",
    "SPOTS",
    "START",
    "UNIT",
    "WORDS",
    "Agg",
    "AggTuple",
    "Any",
    "Box",
    "Callable",
    "Cased",
    "Color",
    "Declared",
    "ExactSum",
    "Grade",
    "HasX",
    "Hashable",
    "Iterable",
    "Iterator",
    "Level",
    "Loose",
    "Mapping",
    "Marker",
    "OpKeyedOrdered",
    "OpKeyedUnordered",
    "OpStateless",
    "Out",
    "Pair",
    "Ranked",
    "Row",
    "Sequence",
    "Size",
    "Sized",
    "Spot",
    "State",
    "StateTuple",
    "Sub",
    "Unit",
    "Version",
    "attrs",
    "clamp",
    "dt",
    "either",
    "functools",
    "greatest",
    "larger",
    "least",
    "math",
    "numbers",
    "operator",
    "replace",
    "smaller",
    "total",
]


# -------------------------------------------------------------------------------------------- what rows are


@attrs.frozen
class Sub:
    """A record in a record."""

    x: int
    y: float | None


class Pair(NamedTuple):
    """A NamedTuple with an optional field."""

    left: int
    right: str | None


@dataclass(frozen=True)
class Spot:
    """A dataclass with operators, a truth, a method and a property."""

    x: int
    y: float

    def __add__(self, other: Spot) -> Spot:
        return Spot(self.x + other.x, self.y + other.y)

    def __lt__(self, other: Spot) -> bool:
        return self.x > other.x

    def __bool__(self) -> bool:
        return self.x > 0

    @property
    def size(self) -> float:
        """With a branch."""
        return self.y if self.y > 0 else -self.y

    def near(self, x: int, *, by: int = 1) -> bool:
        """With a chain."""
        return self.x - by <= x <= self.x + by


@attrs.frozen
class Row:
    """A field of every kind that expressions know, also where it may be None, and some that are only passed on."""

    i: int
    j: int
    f: float
    g: float
    s: str
    t: str
    b: bool
    c: bool
    oi: int | None
    of: float | None
    ts: dt.datetime
    tu: dt.datetime
    day: dt.date
    sub: Sub
    osub: Sub | None
    os: str | None = None
    ob: bool | None = None
    ots: dt.datetime | None = None
    oday: dt.date | None = None
    pair: Pair = Pair(0, None)  # noqa: RUF009
    spot: Spot = Spot(0, 0.0)
    raw: bytes = b""
    unit: Unit = UNIT
    many: tuple[int, ...] = ()
    number: int = 0

    @property
    def twice(self) -> float:
        """Something that is computed."""
        return self.f * 2.0

    def above(self, bound: int) -> bool:
        """A method with a branch."""
        if self.i > bound:
            return True
        return self.oi is not None and self.oi > bound

    def or_else(self, other: int = 0) -> int:
        """A method that asks for None."""
        return other if self.oi is None else self.oi


@attrs.frozen
class Agg:
    """What keyed programs sum up of a block."""

    count: int
    most: int | None
    weight: ExactSum
    some: bool
    last: dt.datetime | None
    all: bool
    high: int
    top: float


class AggTuple(NamedTuple):
    """The same as a NamedTuple."""

    count: int  # type: ignore[assignment]
    most: int | None
    weight: ExactSum
    some: bool
    last: dt.datetime | None
    all: bool
    high: int
    top: float


@attrs.frozen
class State:
    """What keyed programs remember of a key."""

    count: int
    most: int | None
    real: float
    text: str
    some: bool
    last: dt.datetime | None


class StateTuple(NamedTuple):
    """The same as a NamedTuple."""

    count: int  # type: ignore[assignment]
    most: int | None
    real: float
    text: str
    some: bool
    last: dt.datetime | None


@attrs.frozen
class Out:
    """What programs emit."""

    number: int
    real: float
    text: str
    flag: bool
    maybe: int | None
    time: dt.datetime
    day: dt.date
    inner: Sub | None = None


EPOCH: Final = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
BLANK: Final = Row(
    *(1, 2, 0.5, -1.0, "a", "b,c", True, False, None, 1.5, EPOCH, EPOCH, dt.date(2024, 2, 29)),
    *(Sub(1, None), None),
)


# ---------------------------------------------------------------------------------------- constants and classes

PRICES: Final[Mapping[str, float]] = {"": 0.5, "a": 1.5, "ab": -0.0, "ß": math.inf}
CODES: Final[Mapping[int, tuple[int, str]]] = {0: (1, "zero"), 1: (INT_MAX, "one"), -1: (-7, ""), INT_MIN: (2, "é")}
SOME: Final[Mapping[str, int | None]] = {"a": 1, "b": None, "ab": 3}
SPOTS: Final[Mapping[int, Spot]] = {0: Spot(1, -2.0), 1: Spot(-1, 0.0), 2: Spot(7, math.nan)}
WORDS: Final = ("red", "green", "")
FRIENDS: Final = frozenset({"a", "b", "12"})
SECOND: Final = dt.timedelta(seconds=1)
INDIA: Final = dt.timezone(dt.timedelta(hours=5, minutes=30))
GMT: Final = dt.timezone(dt.timedelta(0), "GMT")
OSLO: Final = ZoneInfo("Europe/Oslo")
START: Final = dt.datetime(2024, 2, 28, 23, 45, tzinfo=INDIA)
NAMED: Final = dt.datetime(2024, 2, 29, 0, 0, 1, tzinfo=GMT)


class Color(str, enum.Enum):  # noqa: UP042
    """An enum whose members are text."""

    RED = "a"
    BLUE = "b"

    @property
    def other(self) -> Color:
        """The other one."""
        return Color.BLUE if self is Color.RED else Color.RED


class Level(enum.IntEnum):
    """An enum whose members are integers."""

    LOW = 1
    HIGH = 3


class Size(enum.Enum):
    """An enum whose members equal nothing else."""

    SMALL = 1
    LARGE = 2


class Grade(str, enum.Enum):  # noqa: UP042
    """An enum of text with an order of its own: backwards."""

    LOW = "b"
    HIGH = "a"

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self.value, other)

    def __gt__(self, other: str) -> bool:
        return str.__lt__(self.value, other)

    def __le__(self, other: str) -> bool:
        return str.__ge__(self.value, other)

    def __ge__(self, other: str) -> bool:
        return str.__le__(self.value, other)


class Ranked(enum.IntEnum):
    """An enum of integers with an order of its own."""

    FIRST = 1
    LAST = 9

    def __lt__(self, other: int) -> bool:
        return int(self) > int(other)

    def __gt__(self, other: int) -> bool:
        return int(self) < int(other)


class Version(str):
    """Text that is compared by its length, and equals in any case of letters."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return len(self) < len(other)

    def __gt__(self, other: str) -> bool:
        return len(self) > len(other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(self).lower() == other.lower()

    def __hash__(self) -> int:
        return hash(str(self).lower())


DESK: Final = Version("Ab")


def _is_none(value: Any) -> Any:
    return -1 if value is None else value


@attrs.frozen
class Loose:
    """A record that compares a field by a function: None equals -1."""

    x: int | None = attrs.field(eq=_is_none)


@attrs.frozen(order=True)
class Cased:
    """A record that compares text without its case, and orders it backwards by length."""

    name: str = attrs.field(eq=str.lower, order=lambda text: -len(text))


class Declared:
    """A descriptor: looks at whether what it is asked of is None."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        found = instance.held
        return 0 if found is None else found


@attrs.frozen(slots=False)
class Box:
    """A record with a descriptor, containment, a call and items of its own."""

    held: int | None
    value = Declared()

    def __contains__(self, part: object) -> bool:
        return part == self.held

    def __call__(self, more: int) -> int:
        return more if self.held is None else self.held + more

    def __getitem__(self, at: int) -> int | None:
        return self.held if at else None


@runtime_checkable
class HasX(Protocol):
    """A protocol that records may fit."""

    @property
    def x(self) -> int:
        """A field."""


def clamp(x: int, low: int = -9, *, high: int = 9) -> int:
    """With defaults."""
    return low if x < low else min(x, high)


def either(one: Any, other: Any = None) -> Any:
    """Looks at None."""
    return other if one is None else one


def total(*values: int, **more: int) -> int:
    """Any number of arguments."""
    made = 0
    for value in values:
        made += value
    return made + sum(more.values())
