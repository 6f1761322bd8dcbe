"""Hypothesis strategies for schemas, their values, streams, and sequences that are or are not the same trace."""

import datetime as dt
import enum
import math
import struct
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, assert_never

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tracetypes.conformance import hashable, key_problem
from tracetypes.markers import Marker
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    UNIT,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UInt64,
    Unit,
    UnitValue,
    Unsigned,
    decimal,
)
from tracetypes.schemas import schema_of
from tracetypes.trace import Element, Item, StreamType, Tagged, TagsType, TraceType

I = TypeVar("I")


def some(number: int) -> int:
    """So many examples; two fifths of them in the profile ``ci``, where many tests are of one class of operators."""
    return min(number, max(number * settings().max_examples // 100, 4))


# -------------------------------------------------------------------------------------------------- records


@attrs.frozen
class Place:
    """An attrs class."""

    name: str
    height: float


@dataclass(frozen=True)
class Meter:
    """A dataclass."""

    id: int
    place: Place
    note: str | None


class Pair(NamedTuple):
    """A NamedTuple."""

    left: int
    right: bool


class Hue(enum.Enum):
    """An enum of texts, with an alias and members in no order of their values."""

    RED = "red"
    BLUE = "blue"
    DEEP = "blau, \"tief\""
    CRIMSON = "red"


class Step(enum.IntEnum):
    """An enum that is an integer."""

    UP = 1
    DOWN = -1
    FAR = 2**62


class Word(enum.StrEnum):
    """An enum that is a text."""

    YES = "yes"
    NO = "é"


Money = Annotated[Decimal, decimal(18, 2)]


@attrs.frozen
class Everything:
    """A field of every kind."""

    boolean: bool
    integer: int
    floating: float
    text: str
    octets: bytes
    time: dt.datetime
    day: dt.date
    size: UInt64
    money: Money
    wide: Annotated[Decimal, decimal(38, 9)] | None
    side: Literal["left", "right"]
    number: Literal[1, 2, -3] | None
    hue: Hue
    step: Step
    words: list[Word]
    unit: Unit
    maybe: float | None
    several: list[float]
    fixed: tuple[str, ...]
    meter: Meter
    choice: Place | Pair
    nothing: Place | Pair | None


SCALARS: tuple[Schema, ...] = (
    Boolean(),
    Integer(),
    Float(),
    String(),
    Bytes(),
    Timestamp(),
    Date(),
    Unsigned(),
    DecimalOf(18, 2),
    DecimalOf(38, 38),
    DecimalOf(38, 0),
    LiteralOf(String(), ("b", "a", "é")),
    LiteralOf(Integer(), (1, INT_MIN)),
    *map(schema_of, (Hue, Step, Word)),
    UnitValue(),
)
RECORDS: tuple[Schema, ...] = tuple(map(schema_of, (Place, Meter, Pair, Everything, Place | Meter)))


def _larger(inner: SearchStrategy[Schema]) -> SearchStrategy[Schema]:
    lists = st.builds(ListOf, inner, st.booleans())
    # `T | None | None` is `T | None`, and no text tells `Unit` from None.
    optional = inner.filter(lambda s: not isinstance(s, Optional | UnitValue)).map(Optional)
    return lists | optional


def schemas() -> SearchStrategy[Schema]:
    """Schemas of all kinds."""
    return st.recursive(st.sampled_from(SCALARS + RECORDS), _larger, max_leaves=3)


def key_schemas() -> SearchStrategy[Schema]:
    """Schemas that the checker admits as the type of a key."""
    return schemas().filter(lambda s: hashable(s) and not isinstance(s, Optional))


# --------------------------------------------------------------------------------------------------- values

INTEGERS = st.sampled_from((0, 1, -1, INT_MIN, INT_MAX)) | st.integers(-3, 3) | st.integers(INT_MIN, INT_MAX)
FLOATS = st.sampled_from(
    (0.0, -0.0, 1.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1, 2.0**53)
) | st.floats(width=64)
STRINGS = st.sampled_from(("", "a", "é", "𝄞", "Straße", "\0", "a,b", '"', "\n", " ")) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=6
)
TIMES = st.sampled_from(
    (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC))
) | st.datetimes(timezones=st.just(dt.UTC))


def values(schema: Schema) -> SearchStrategy[Any]:
    """Values that fit a schema as they are, edge values first."""
    match schema:
        case Boolean():
            return st.booleans()
        case Integer():
            return INTEGERS
        case Unsigned():
            return st.sampled_from((0, 1, INT_MAX, INT_MAX + 1, UINT_MAX)) | st.integers(0, UINT_MAX)
        case DecimalOf(precision, scale):
            most = 10**precision - 1
            units = st.sampled_from((0, 1, -1, most, -most)) | st.integers(-300, 300) | st.integers(-most, most)
            return units.map(lambda unit: Decimal((int(unit < 0), tuple(map(int, str(abs(unit)))), -scale)))
        case LiteralOf(_, allowed):
            return st.sampled_from(allowed)
        case EnumOf(cls, _):
            return st.sampled_from(list(cls))
        case Float():
            return FLOATS
        case String():
            return STRINGS
        case Bytes():
            return st.binary(max_size=6)
        case Timestamp():
            return TIMES
        case Date():
            return st.dates()
        case UnitValue():
            return st.just(UNIT)
        case Optional(item):
            return st.none() | values(item)
        case ListOf(item, frozen):
            lists = st.lists(values(item), max_size=3)
            return lists.map(tuple) if frozen else lists
        case Record(cls, fields):
            return st.builds(cls, **{name: values(inner) for name, inner in fields})
        case OneOf(members):
            return st.one_of(*map(values, members))
        case _:
            assert_never(schema)


def keys(schema: Schema) -> SearchStrategy[Any]:
    """Values that can be keys: no NaN, no None."""
    return values(schema).filter(lambda key: key_problem(schema, key) is None)


def bits(value: float) -> bytes:
    """What tells NaN from NaN and -0.0 from 0.0."""
    return struct.pack("<d", value)


# ------------------------------------------------------------------------------------------ U and O streams


@st.composite
def streams(
    draw: DrawFn,
    type: StreamType,
    *,
    names: SearchStrategy[Any] | None = None,
    values: SearchStrategy[Any] | None = None,
    most_keys: int = 3,
    most_blocks: int = 4,
    most_items: int = 5,
    ended: bool = False,
) -> list[Element]:
    """Sequences of a stream type: few keys, so that they meet again. ``ended``: nothing follows the last marker.

    ``names`` and ``values``: the keys and values to take instead of all that fit.
    """
    some = _values_of(type, values)
    chosen = draw(st.lists(keys(type.key) if names is None else names, min_size=1, max_size=most_keys))
    made: list[Element] = []
    time = draw(st.integers(-2, 2)) * 1_000_000
    for _ in range(draw(st.integers(0, most_blocks))):
        made += _items(draw, chosen, some, most_items)
        made.append(Marker(time))
        time += draw(st.integers(1, 3)) * 1_000_000
    return made if ended else made + _items(draw, chosen, some, most_items)


def _values_of(type: StreamType, given: SearchStrategy[Any] | None) -> SearchStrategy[Any]:
    return values(type.value) if given is None else given


def _items(draw: DrawFn, names: Sequence[Any], some: SearchStrategy[Any], most: int) -> list[Element]:
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), some), max_size=most))
    return [Item(key, value) for key, value in pairs]


# --------------------------------------------------------------------------------------- any finite alphabet


@st.composite
def tag_types(draw: DrawFn) -> TagsType:
    """Trace types over up to four tags, with any dependence relation."""
    tags = "abcd"[: draw(st.integers(1, 4))]
    pairs = st.tuples(st.sampled_from(tags), st.sampled_from(tags))
    return TagsType(dict.fromkeys(tags, int), draw(st.frozensets(pairs)))


def tagged_items(type: TagsType) -> SearchStrategy[Tagged]:
    """Items of a type given by tags, with values that often meet again."""
    return st.builds(Tagged, st.sampled_from(list[Hashable](type.values)), st.integers(0, 2))


def tagged(type: TagsType, *, most: int = 8) -> SearchStrategy[list[Tagged]]:
    """Sequences of a type given by tags."""
    return st.lists(tagged_items(type), max_size=most)


# ------------------------------------------------------------------------------------------------ same traces


def congruent(type: TraceType[I], items: Sequence[I]) -> set[tuple[Any, ...]]:
    """The whole congruence class of a short sequence by its definition: all that swaps of independent neighbours reach.

    Each sequence as the tuple of its items' ``order``.
    """
    tags = {repr(type.order(item)): type.tag(item) for item in items}
    start = tuple(map(type.order, items))
    found, pending = {start}, [start]
    while pending:
        one = pending.pop()
        for at in range(len(one) - 1):
            a, b = one[at], one[at + 1]
            if not type.dependent(tags[repr(a)], tags[repr(b)]):
                other = (*one[:at], b, a, *one[at + 2 :])
                if other not in found:
                    found.add(other)
                    pending.append(other)
    return found


@st.composite
def equivalent(draw: DrawFn, type: TraceType[I], items: Sequence[I]) -> list[I]:
    """The same trace: independent neighbours swapped, at random, many times."""
    made = list(items)
    if len(made) > 1:
        for at in draw(st.lists(st.integers(0, len(made) - 2), max_size=4 * len(made))):
            if not type.dependent(type.tag(made[at]), type.tag(made[at + 1])):
                made[at], made[at + 1] = made[at + 1], made[at]
    return made


@st.composite
def inequivalent(draw: DrawFn, type: TraceType[I], items: Sequence[I], more: SearchStrategy[I]) -> list[I]:
    """Another trace: one item less or one more, or two different dependent neighbours swapped (markers stay in order).

    ``more``: items that may be added.
    """
    made: list[I] = list(draw(equivalent(type, items)))
    turns = [
        at
        for at in range(len(made) - 1)
        if type.dependent(type.tag(made[at]), type.tag(made[at + 1]))
        and type.order(made[at]) != type.order(made[at + 1])
        and not (isinstance(made[at], Marker) and isinstance(made[at + 1], Marker))
    ]
    ways = ["add"] + (["drop"] if made else []) + (["turn"] * 3 if turns else [])
    match draw(st.sampled_from(ways)):
        case "add":
            made.insert(draw(st.integers(0, len(made))), draw(more))
        case "drop":
            del made[draw(st.integers(0, len(made) - 1))]
        case _:
            at = draw(st.sampled_from(turns))
            made[at], made[at + 1] = made[at + 1], made[at]
    return made


def items_of(type: StreamType) -> SearchStrategy[Element]:
    """Single items of a stream type."""
    return st.builds(Item, keys(type.key), values(type.value))
