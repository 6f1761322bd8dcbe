"""Random dataflows with rows for their sources: whole programs that check, as in-trees with one sink.

All operators are exact in integers, so that two ways to run a dataflow may be compared for equality.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.strategies import Hue, Money
from tracetypes import (
    ROW_POSITION,
    UNIT,
    Checked,
    Dataflow,
    Graph,
    Marker,
    O,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Stream,
    U,
    UInt64,
    Unit,
    check,
    every,
    in_band,
    interpret_rows,
    merge,
    sort,
)
from tracetypes.arrangement import Arranged
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.trial.simulate import simulate_program
from tracetypes.edges import EdgeType, edge_type
from tracetypes.markers import EventTime, Markers
from tracetypes.nodes import Apply, Merge, Source, title
from tracetypes.templates import Linger, overrides
from tracetypes.trace import Element, Trace, closed

K = TypeVar("K")
L = TypeVar("L")

PRIME = 1_000_003

HUES = tuple(Hue)
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")

FRESH = -(2**62)
"""The time of a key whose block has not ended."""


# -------------------------------------------------------------------------------------------------- records


@attrs.frozen
class Left:
    """A key that no :class:`Right` equals."""

    id: int


@attrs.frozen
class Right:
    """A key that no :class:`Left` equals."""

    id: int


@attrs.frozen
class Inner:
    """A record within a record."""

    x: int
    y: float | None
    price: Money = Decimal("0.00")
    size: UInt64 = 0
    hue: Hue | None = None
    side: Literal["left", "right"] = "left"


@attrs.frozen
class Sample:
    """What most sources send. ``mark``: it is a marker, where markers are in band. ``ts`` None: it has no time."""

    ts: int | None
    id: int
    amount: int
    mark: bool = False
    weight: float = 0.0
    note: str | None = None
    parts: tuple[int, ...] = ()
    inner: Inner = Inner(0, None)
    more: list[Inner | None] = attrs.Factory(list)

    def __hash__(self) -> int:
        return hash((self.ts, self.id, self.amount))


# ------------------------------------------------------------------------------------------------- stateless


@attrs.frozen
class Keep(OpStateless[K, int, K, int], Generic[K]):
    """Filter."""

    modulus: int

    def on_item(self, key: K, value: int, emit: Callable[[K, int], None]) -> None:
        if value % self.modulus:
            emit(key, value)


@attrs.frozen
class Scale(OpStateless[K, int, K, int], Generic[K]):
    """Map."""

    factor: int

    def on_item(self, key: K, value: int, emit: Callable[[K, int], None]) -> None:
        emit(key, value * self.factor % PRIME)


@attrs.frozen
class Wrap(OpStateless[K, int, K, Sample], Generic[K]):
    """Map to a record, with all kinds of fields."""

    def on_item(self, key: K, value: int, emit: Callable[[K, Sample], None]) -> None:
        price, hue = Decimal(value).scaleb(-(value % 3)), None if value % 3 else HUES[value % 2]
        inner = Inner(value, None if value % 2 else value / 2, price, 2**63 + value, hue, SIDES[value % 2])
        note = None if value % 3 else f"n{value}"
        more = [inner, None][: value % 3]
        emit(key, Sample(value, value % 3, value, note=note, parts=(value,) * (value % 3), inner=inner, more=more))


@attrs.frozen
class Flatten(OpStateless[K, Sample, K, int], Generic[K]):
    """Flat-map."""

    def on_item(self, key: K, value: Sample, emit: Callable[[K, int], None]) -> None:
        emit(key, value.amount)
        for part in value.parts:
            emit(key, part)


@attrs.frozen
class ByValue(OpStateless[K, int, int, int], Generic[K]):
    """Rekey, to ``value % ways * stride + offset``."""

    ways: int
    stride: int = 1
    offset: int = 0

    def on_item(self, key: K, value: int, emit: Callable[[int, int], None]) -> None:
        emit(value % self.ways * self.stride + self.offset, value)


@attrs.frozen
class ToText(OpStateless[K, int, str, int], Generic[K]):
    """Change the type of the key."""

    def on_item(self, key: K, value: int, emit: Callable[[str, int], None]) -> None:
        emit("é" * (value % 3), value)


@attrs.frozen
class ToDeclared(OpStateless[K, int, L, int], Generic[K, L]):
    """Change the type of the key to one of those that are declared: decimals with several numbers of digits, and others."""

    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"L": self.to}

    def on_item(self, key: K, value: int, emit: Callable[[L, int], None]) -> None:
        keys: Sequence[Any] = SOME_KEYS[self.to]
        emit(keys[value % len(keys)], value)


@attrs.frozen
class ToUnit(OpStateless[K, int, Unit, int], Generic[K]):
    """Change the type of the key."""

    def on_item(self, key: K, value: int, emit: Callable[[Unit, int], None]) -> None:
        emit(UNIT, value)


@attrs.frozen
class ToFloat(OpStateless[K, int, float, int], Generic[K]):
    """Change the type of the key, to one with two zeros that are equal."""

    def on_item(self, key: K, value: int, emit: Callable[[float, int], None]) -> None:
        emit((0.0, -0.0, 1.5)[value % 3], value)


@attrs.frozen
class SignOfKey(OpStateless[float, int, float, int]):
    """An operator that would see which of the two zeros a key is."""

    def on_item(self, key: float, value: int, emit: Callable[[float, int], None]) -> None:
        emit(key, int(value + math.copysign(1, key)))


@attrs.frozen
class ToLeft(OpStateless[K, int, Left, int], Generic[K]):
    """Change the type of the key."""

    ways: int

    def on_item(self, key: K, value: int, emit: Callable[[Left, int], None]) -> None:
        emit(Left(value % self.ways), value)


@attrs.frozen
class ToRight(OpStateless[K, int, Right, int], Generic[K]):
    """Change the type of the key."""

    ways: int

    def on_item(self, key: K, value: int, emit: Callable[[Right, int], None]) -> None:
        emit(Right(value % self.ways), value)


@attrs.frozen
class Announce(OpStateless[K, int, K, int], Generic[K]):
    """Emits in ``on_marker``."""

    keys: tuple[K, ...]

    def on_item(self, key: K, value: int, emit: Callable[[K, int], None]) -> None:
        emit(key, value + 1)

    def on_marker(self, marker: Marker, emit: Callable[[K, int], None]) -> None:
        for at, key in enumerate(self.keys):
            emit(key, (marker.timestamp + at) % 11)


# --------------------------------------------------------------------------------------------- keyed, ordered


@attrs.frozen
class RunningSum(OpKeyedOrdered[K, int, int, int], Generic[K]):
    """The sum so far, at every item."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: K, value: int, emit: Callable[[int], None]) -> int:
        emit((state + value) % PRIME)
        return (state + value) % PRIME


@attrs.frozen
class Differences(OpKeyedOrdered[K, int, int, list[int]], Generic[K]):
    """Differences of neighbours. Its state is changed in place, as it may be."""

    def initial_state(self) -> list[int]:
        return []

    def on_item(self, state: list[int], key: K, value: int, emit: Callable[[int], None]) -> list[int]:
        if state:
            emit(value - state.pop())
        state.append(value)
        return state


@attrs.frozen
class OrderHash(OpKeyedOrdered[K, int, int, int], Generic[K]):
    """A number that differs when any two items change places."""

    def initial_state(self) -> int:
        return 7

    def on_item(self, state: int, key: K, value: int, emit: Callable[[int], None]) -> int:
        state = (state * 31 + value) % PRIME
        if value % 2:
            emit(state)
        return state


@attrs.frozen
class Heartbeat(OpKeyedOrdered[K, int, int, int], Generic[K]):
    """Emits in ``on_marker`` for every key, and changes its state there."""

    lasting: Linger = 0

    def linger(self) -> Linger:
        return self.lasting

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: K, value: int, emit: Callable[[int], None]) -> int:
        emit(value)
        return (state * 5 + value) % PRIME

    def on_marker(self, state: int, key: K, marker: Marker, emit: Callable[[int], None]) -> int:
        emit(state)
        return (state + marker.timestamp) % PRIME


@attrs.frozen
class Alarm(OpKeyedOrdered[K, int, int, tuple[int, int]], Generic[K]):
    """Emits the sum of a key once ``gap`` seconds have passed since the block of its last item. It says when it is due."""

    gap: int

    def initial_state(self) -> tuple[int, int]:
        return FRESH, 0

    def on_item(self, state: tuple[int, int], key: K, value: int, emit: Callable[[int], None]) -> tuple[int, int]:
        return FRESH, state[1] + value + 1

    def on_marker(
        self, state: tuple[int, int], key: K, marker: Marker, emit: Callable[[int], None]
    ) -> tuple[int, int]:
        last, total = state
        if last == FRESH:
            last = marker.micros
        if total and marker.micros >= last + self.gap * 1_000_000:
            emit(total % PRIME)
            total = 0
        return last, total

    def linger(self) -> Linger:
        return timedelta(seconds=self.gap)

    def next_due(self, state: tuple[int, int], key: K) -> int | None:
        last, total = state
        return last + (0 if last == FRESH else self.gap * 1_000_000) if total else None


@attrs.frozen
class Chained(OpKeyedOrdered[K, Sample, Sample, Sample | None], Generic[K]):
    """Order-sensitive, on records, with a record as its state."""

    def initial_state(self) -> Sample | None:
        return None

    def on_item(self, state: Sample | None, key: K, value: Sample, emit: Callable[[Sample], None]) -> Sample | None:
        before = 0 if state is None else state.amount
        made = attrs.evolve(value, amount=(before * 31 + value.amount) % PRIME, more=[None, Inner(before, None)])
        emit(made)
        return made


# ------------------------------------------------------------------------------------------- keyed, unordered


@attrs.frozen
class Adding(OpKeyedUnordered[K, int, L, int, int, int], Generic[K, L]):
    """What the sums have in common."""

    def lift(self, key: K, value: int) -> int:
        return value % PRIME

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return (a + b) % PRIME

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return (state + agg) % PRIME


@attrs.frozen
class Total(Adding[K, K], Generic[K]):
    """Emits in ``on_marker`` for every key."""

    lasting: Linger = 0

    def linger(self) -> Linger:
        return self.lasting

    def on_marker(self, new_state: int, key: K, marker: Marker, emit: Callable[[K, int], None]) -> None:
        emit(key, new_state)


@attrs.frozen
class Clocked(Adding[K, K], Generic[K]):
    """Its identity update changes the state, so that it matters from which state a new key starts."""

    lasting: Linger = 0

    def linger(self) -> Linger:
        return self.lasting

    def update_state(self, state: int, agg: int) -> int:
        return (state * 3 + agg + 1) % PRIME

    def on_marker(self, new_state: int, key: K, marker: Marker, emit: Callable[[K, int], None]) -> None:
        emit(key, new_state)


@attrs.frozen
class Echo(Adding[K, K], Generic[K]):
    """Emits for items, from the state as of the last marker, which counts markers too."""

    def update_state(self, state: int, agg: int) -> int:
        return (state + agg + 1) % PRIME

    def on_item(self, last_state: int, key: K, value: int, emit: Callable[[K, int], None]) -> None:
        emit(key, (last_state * 7 + value) % PRIME)

    def on_marker(self, new_state: int, key: K, marker: Marker, emit: Callable[[K, int], None]) -> None:
        if new_state % 2:
            emit(key, new_state)


@attrs.frozen
class Sparse(OpKeyedUnordered[K, int, K, int, tuple[int, bool], tuple[int, int]], Generic[K]):
    """Declares that it may skip keys whose block is empty: it emits only where items were, and counts only those."""

    skips_untouched: ClassVar[bool] = True

    def lift(self, key: K, value: int) -> tuple[int, int]:
        return value, 1

    def identity(self) -> tuple[int, int]:
        return 0, 0

    def combine(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]

    def initial_state(self) -> tuple[int, bool]:
        return 0, False

    def update_state(self, state: tuple[int, bool], agg: tuple[int, int]) -> tuple[int, bool]:
        total, count = agg
        return (state[0] + total) % PRIME, count > 0

    def on_marker(self, new_state: tuple[int, bool], key: K, marker: Marker, emit: Callable[[K, int], None]) -> None:
        if new_state[1]:
            emit(key, new_state[0])


@attrs.frozen
class Spread(Adding[K, int], Generic[K]):
    """Emits under other keys, several times."""

    def on_marker(self, new_state: int, key: K, marker: Marker, emit: Callable[[int, int], None]) -> None:
        for at in range(new_state % 3):
            emit((new_state + at) % 4, new_state)


@attrs.frozen
class Gathered(OpKeyedUnordered[K, Sample, K, Sample, int, tuple[int, ...]], Generic[K]):
    """On records: the amounts of a block as a sorted tuple."""

    lasting: Linger = 0

    def linger(self) -> Linger:
        return self.lasting

    def lift(self, key: K, value: Sample) -> tuple[int, ...]:
        return (value.amount,)

    def identity(self) -> tuple[int, ...]:
        return ()

    def combine(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(a + b))

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: tuple[int, ...]) -> int:
        return (state * 3 + sum((at + 1) * one for at, one in enumerate(agg))) % PRIME

    def on_marker(self, new_state: int, key: K, marker: Marker, emit: Callable[[K, Sample], None]) -> None:
        emit(key, Sample(None, 0, new_state, note=str(marker), parts=(new_state,) * (new_state % 2)))


# ------------------------------------------------------------------------------------- functions of the author


def ts_of(value: Sample) -> Any:
    """The time of a sample; None where it has none."""
    return value.ts


def own_value(value: int) -> int:
    """The time of a number is the number."""
    return value


def by_amount(value: Sample) -> Any:
    """A sender of a sample."""
    return value.amount > 0


def by_half(value: int) -> int:
    """A sender of a number."""
    return value % 2


def is_mark(value: Sample) -> bool:
    """Is it a marker in band?"""
    return value.mark


def is_thousand(value: int) -> bool:
    """Is the number a marker in band?"""
    return value >= 1000


def above_thousand(value: int) -> int:
    """The time of a number that is a marker."""
    return value - 1000


def id_of(value: Sample) -> int:
    """A key."""
    return value.id


def even_id(value: Sample) -> int:
    """A key that no :func:`odd_id` equals."""
    return 2 * value.id


def odd_id(value: Sample) -> int:
    """A key that no :func:`even_id` equals."""
    return 2 * value.id + 1


def left_of(value: Sample) -> Left:
    """A key."""
    return Left(value.id)


def right_of(value: Sample) -> Right:
    """A key."""
    return Right(value.id)


def weight_of(value: Sample) -> float:
    """A key that may be NaN, which no key can be."""
    return value.weight


def hue_of(value: Sample) -> Hue:
    """A key."""
    return HUES[value.id % 2]


def note_of(value: Sample) -> Any:
    """A key that may be None, which no key can be."""
    return value.note


def amount_of(value: Sample) -> int:
    """An order."""
    return value.amount


def modulo_three(value: int) -> int:
    """An order with many ties."""
    return value % 3


def backwards(value: int) -> int:
    """An order."""
    return -value


# ---------------------------------------------------------------------------------------------------- sources

Rows: TypeAlias = list[Any]

NUMBERS = st.integers(0, 9)
WEIGHTS = st.sampled_from((0.0, -0.0, 1.5, math.nan))
NOTES = st.sampled_from((None, "", "a", "é"))
INNERS = st.builds(
    Inner,
    NUMBERS,
    st.sampled_from((None, -0.0, 0.5, math.inf)),
    st.sampled_from((Decimal("0.00"), Decimal("-0.10"), Decimal("9999999999999999.99"))),
    st.sampled_from((0, 2**63, 2**64 - 1)),
    st.sampled_from((None, *Hue)),
    st.sampled_from(("left", "right")),
)
PARTS = st.sampled_from(((), (1,), (2, 3)))
MORE = st.lists(st.none() | INNERS, max_size=2)


@st.composite
def times(draw: DrawFn, delay: int) -> list[int]:
    """Times that mostly lie within ``delay`` of the newest, and sometimes far behind or ahead."""
    newest = draw(st.sampled_from((0, 3, 100, -20)))
    made: list[int] = []
    steps = st.sampled_from((1, 0, 2, 0, 1, 3, -1, -2, -delay, -delay, 9, -15, 25))
    for step in draw(st.lists(steps, min_size=draw(st.sampled_from((0, 4, 8))), max_size=12)):
        made.append(newest + step)
        newest = max(newest, newest + step)
    return made


@st.composite
def samples(draw: DrawFn, at: Sequence[int], *, marks: bool) -> Rows:
    """Rows of type :class:`Sample` at these times; a few that fit no source."""
    made: Rows = []
    for time in at:
        plain = Sample(time, draw(st.integers(0, 2)), draw(NUMBERS))
        match draw(st.integers(0, 11)):
            case 0:
                made.append(draw(st.sampled_from((None, "text", attrs.evolve(plain, ts=None), Left(1)))))
            case 1 | 2 | 3 if marks:
                made.append(attrs.evolve(plain, mark=True))
            case 1 | 2 | 3 | 4 | 5:
                made.append(
                    attrs.evolve(
                        plain,
                        weight=draw(WEIGHTS),
                        note=draw(NOTES),
                        parts=draw(PARTS),
                        inner=draw(INNERS),
                        more=draw(MORE),
                    )
                )
            case _:
                made.append(attrs.evolve(plain, weight=1.5 * (plain.id % 2), note="ab"[plain.id % 2]))
    return made


@st.composite
def numbers(draw: DrawFn, at: Sequence[int], *, marks: bool, keys: SearchStrategy[Any]) -> Rows:
    """Rows with a key column and a number that is its own time, or a marker; a few that fit no source."""
    made: Rows = []
    for time in at:
        match draw(st.integers(0, 11)):
            case 0:
                made.append((draw(st.sampled_from((None, math.nan, b""))), time))
            case 1:
                made.append((draw(keys), draw(st.sampled_from((None, "5", 2**63)))))
            case 2 | 3 | 4 if marks:
                made.append((draw(keys), 1000 + abs(time)))
            case _:
                made.append((draw(keys), time % 1000 if marks else time))
    return made


@attrs.frozen
class Shape:
    """What a generator must know of a stream: its edge type."""

    key: Any
    value: Any
    ordered: bool

    @classmethod
    def of(cls, edge: EdgeType) -> Shape:
        return cls(edge.key, edge.value, edge.ordered)


KEYS_OF_ROWS: dict[Any, SearchStrategy[Any]] = {
    int: st.integers(0, 2),
    str: st.sampled_from(("", "é", "b")),
    float: st.sampled_from((0.0, -0.0, 1.5)),
}


@st.composite
def event_time(draw: DrawFn, value: Any) -> Markers:
    """Markers by event time, of several periods and delays."""
    return every(
        seconds=draw(st.sampled_from((1, 2, 3, 10))),
        delay=draw(st.sampled_from((0, 0, 1, 4))),
        time=ts_of if value is Sample else own_value,
        ahead=draw(st.sampled_from((None, None, None, 5, 12))),
    )


def by_sender(draw: DrawFn, markers: EventTime, value: Any) -> EventTime:
    """The same markers, by sender, some of which may be idle."""
    idle = draw(st.sampled_from((None, 5_000_000, 20_000_000)))
    return attrs.evolve(markers, per=by_amount if value is Sample else by_half, idle=idle)


@st.composite
def sources(draw: DrawFn, flow: Dataflow, name: str) -> tuple[Any, Shape, Rows]:
    """A source of a dataflow, and rows in their order of arrival."""
    value: Any = draw(st.sampled_from((int, Sample)))
    banded = draw(st.integers(0, 3)) == 0
    markers: Markers = (
        (
            in_band(is_marker=is_mark, time=ts_of)
            if value is Sample
            else in_band(is_marker=is_thousand, time=above_thousand)
        )
        if banded
        else draw(event_time(value))
    )
    key: Any = None
    by: Any = None
    if value is Sample:
        key_type, key = draw(
            st.sampled_from(
                (
                    (Unit, None),
                    (int, id_of),
                    (int, even_id),
                    (int, odd_id),
                    (Left, left_of),
                    (Right, right_of),
                    (Hue, hue_of),
                    (float, weight_of),
                    (str, note_of),
                )
            )
        )
    else:
        key_type = draw(st.sampled_from((int, str, float)))
    if ordered := draw(st.booleans()):
        by = draw(st.sampled_from((ROW_POSITION, amount_of if value is Sample else backwards)))
    if isinstance(markers, EventTime) and by is not ROW_POSITION and draw(st.integers(0, 4)) == 0:
        markers = by_sender(draw, markers, value)
    edge: Any = (O if ordered else U)[key_type, value]
    stream = flow.source(name, edge, markers=markers, key=key, ordered_by=by)
    if draw(st.integers(0, 9)) == 0:
        return stream, Shape(key_type, value, ordered), []
    at = draw(times(markers.delay // 1_000_000 if isinstance(markers, EventTime) else 0))
    some = samples(at, marks=banded) if value is Sample else numbers(at, marks=banded, keys=KEYS_OF_ROWS[key_type])
    return stream, Shape(key_type, value, ordered), draw(some)


# -------------------------------------------------------------------------------------------------- operators

SOME_KEYS: dict[Any, tuple[Any, ...]] = {
    Unit: (UNIT,),
    int: (0, 1, 5),
    str: ("", "é", "new"),
    float: (0.0, -0.0, 2.5),
    Left: (Left(0), Left(9)),
    Right: (Right(0), Right(9)),
    Left | Right: (Left(0), Right(0)),
    Money: (Decimal(1), Decimal("1.0"), Decimal("-0.00"), Decimal("0E+3")),
    UInt64: (0, 2**63, 2**64 - 1),
    Hue: tuple(Hue),
    Literal["left", "right"]: ("left", "right"),
}
DECLARED = (Money, UInt64, Hue, Literal["left", "right"])


LASTING: SearchStrategy[Linger] = st.sampled_from(
    (0, 0, 1, 3, timedelta(0), timedelta(seconds=2), timedelta(seconds=5))
)
"""How long an operator lingers."""


def operators(shape: Shape) -> list[tuple[SearchStrategy[Any], Shape]]:
    """What may follow a stream, with the shape that comes out. Later ones are preferred less when shrinking."""
    key, value = shape.key, shape.value
    ways = st.integers(1, 4)

    def unordered(key: Any, value: Any) -> Shape:
        return Shape(key, value, False)

    if value is Sample:
        found: list[tuple[SearchStrategy[Any], Shape]] = [
            (st.just(Flatten()), unordered(key, int)),
            (st.just(Flatten()), unordered(key, int)),
            (st.builds(Gathered, LASTING), unordered(key, Sample)),
            (st.just(sort(by=amount_of)), attrs.evolve(shape, ordered=True)),
        ]
        if shape.ordered:
            found = [(st.just(Chained()), shape)] * 2 + found
        return found
    found = [
        (st.builds(Total, LASTING), unordered(key, int)),
        (st.builds(Clocked, LASTING), unordered(key, int)),
        (st.just(Echo()), unordered(key, int)),
        (st.just(Sparse()), unordered(key, int)),
        *[(st.builds(Announce, st.just(SOME_KEYS[key])), unordered(key, int))] * 3,
        (st.builds(Scale, st.integers(1, 3)) | st.builds(Keep, st.integers(2, 3)), unordered(key, int)),
        (st.just(Spread()), unordered(int, int)),
        (st.just(Wrap()), unordered(key, Sample)),
        (st.builds(ByValue, ways), unordered(int, int)),
        (st.just(ToFloat()), unordered(float, int)),
        (st.sampled_from((sort(by=modulo_three), sort(by=backwards))), attrs.evolve(shape, ordered=True)),
        (st.sampled_from((sort(by=modulo_three), sort(by=backwards))), attrs.evolve(shape, ordered=True)),
    ]
    if key is float:
        found += [(st.just(SignOfKey()), unordered(key, int))] * 4
    else:
        found += [(st.just(ToText()), unordered(str, int)), (st.just(ToUnit()), unordered(Unit, int))]
        found += [(st.just(ToDeclared(to)), unordered(to, int)) for to in DECLARED]
        found += [(st.builds(ToLeft, ways), unordered(Left, int)), (st.builds(ToRight, ways), unordered(Right, int))]
    if shape.ordered:
        kept: list[tuple[SearchStrategy[Any], Shape]] = [
            (st.just(RunningSum()), shape),
            (st.just(Differences()), shape),
            (st.just(OrderHash()), shape),
            (st.builds(Heartbeat, LASTING), shape),
            (st.builds(Alarm, st.integers(0, 12)), shape),
        ]
        return kept * 2 + found
    return found


WIDTHS = st.sampled_from((None, None, 1, 2, 3))


@st.composite
def chains(draw: DrawFn, stream: Any, shape: Shape, most: int) -> tuple[Any, Shape]:
    """A stream with up to ``most`` operators behind it."""
    for _ in range(draw(st.integers(0, most))):
        ops, shape = draw(st.sampled_from(operators(shape)))
        op: Any = draw(ops)
        stream = stream.through(op, parallelism=None if isinstance(op, OpStateless) else draw(WIDTHS))
    return stream, shape


def to_numbers(stream: Any, shape: Shape) -> tuple[Any, Shape]:
    """A stream of numbers."""
    if shape.value is int:
        return stream, shape
    return stream.through(Flatten()), Shape(shape.key, int, False)


@st.composite
def merges(draw: DrawFn, one: tuple[Any, Shape], other: tuple[Any, Shape]) -> tuple[Any, Shape]:
    """MRG of two streams, which are mapped to types that can be merged."""
    (a, left), (b, right) = one, other
    disjoint = _never_equal(left.key, right.key) or _disjoint_sources(a, b)
    if left.ordered and right.ordered and left.value == right.value and disjoint:
        key = left.key if left.key == right.key else left.key | right.key
        return merge(a, b), Shape(key, left.value, True)
    way = draw(st.integers(0, 3))
    if left.value == right.value and left.key == right.key and not (left.ordered and right.ordered) and way:
        return merge(a, b), Shape(left.key, left.value, False)
    (a, left), (b, right) = to_numbers(a, left), to_numbers(b, right)
    records = {Left, Right, Left | Right}
    if left.key in records and right.key in records and way and not (left.ordered and right.ordered):
        key = left.key if left.key == right.key else Left | Right
        return merge(a, b), Shape(key, int, False)
    if way == 0:
        a, b = a.through(ByValue(3, 2, 0)), b.through(ByValue(3, 2, 1))
    elif way == 1:
        a, b = a.through(ToLeft(2)), b.through(ToRight(2))
    else:
        a, b = a.through(ByValue(3)), b.through(ByValue(2))
    if way < 2:
        a, b = a.through(sort(by=modulo_three)), b.through(sort(by=backwards))
        if draw(st.booleans()):
            a = a.through(RunningSum())
    return merge(a, b), Shape((int, Left | Right, int, int)[way], int, way < 2)


def _never_equal(one: Any, other: Any) -> bool:
    return (one is Left and other is Right) or (one is Right and other is Left)


def _disjoint_sources(one: Stream[Any], other: Stream[Any]) -> bool:
    nodes = [stream.flow.graph.node(stream.id) for stream in (one, other)]
    return {node.key for node in nodes if isinstance(node, Source)} == {even_id, odd_id}


# ----------------------------------------------------------------------------------------------------- cases


@attrs.frozen(repr=False)
class Case:
    """A dataflow, its rows, and how to run it."""

    flow: Dataflow
    rows: dict[str, Rows]
    seed: int
    parallelism: int
    key_groups: int
    drain: bool
    steps: int = 4
    pieces: int = 3

    def __repr__(self) -> str:
        lines = [*listing(self.flow.graph), *(f"{name}: {rows}" for name, rows in self.rows.items())]
        run = (
            f"seed {self.seed}, parallelism {self.parallelism}, {self.key_groups} key groups, drain {self.drain}, "
            f"up to {self.steps} steps of {self.pieces} pieces"
        )
        return "\n".join(["Case:", *lines, run])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def checked(self) -> Checked:
        """The checked graph."""
        return _checked(self.flow)

    def expected(self) -> tuple[Trace[Element], Mapping[str, Arranged]]:
        """What the interpreter says."""
        traces, arranged = interpret_rows(self.checked, self.rows, drain=self.drain)
        return traces["out"], arranged


@lru_cache(maxsize=16)
def _checked(flow: Dataflow) -> Checked:
    return check(flow)


def listing(graph: Graph) -> Iterator[str]:
    """A graph as text, a line a node."""
    for node in graph.nodes:
        more = ""
        match node:
            case Source(edge=edge, markers=markers, key=key, ordered_by=by):
                named = getattr(by, "__name__", by)
                more = f" {edge_type(edge)} {markers} key={getattr(key, '__name__', None)} ordered_by={named}"
            case Apply(op=op, parallelism=parallelism):
                more = f" {op} parallelism={parallelism}"
            case _:
                pass
        yield f"{node.id}: {title(node)} <- {list(node.inputs)}{more}"


@st.composite
def cases(draw: DrawFn, *, most_sources: int = 3, most_operators: int = 4) -> Case:
    """Random dataflows, rows and ways to run them."""
    flow = Dataflow("random")
    rows: dict[str, Rows] = {}
    stream: Any = None
    shape = Shape(Unit, Sample, False)
    count = draw(st.integers(1, most_sources))
    for at in range(count):
        name = f"s{at}"
        source, of_source, rows[name] = draw(sources(flow, name))
        one = draw(chains(source, of_source, most_operators if count == 1 else 2))
        stream, shape = one if at == 0 else draw(merges((stream, shape), one))
    if count > 1:
        stream, shape = draw(chains(stream, shape, most_operators))
    flow.sink("out", stream)
    groups = draw(st.sampled_from((1, 2, 3, 7)))
    return Case(
        flow,
        rows,
        seed=draw(st.integers(0, 2**16)),
        parallelism=draw(st.integers(1, groups)),
        key_groups=groups,
        drain=draw(st.sampled_from((True, True, False))),
        steps=draw(st.integers(1, 5)),
        pieces=draw(st.integers(1, 4)),
    )


def wrong(case: Case, checked: Checked, *, fuse: bool = True) -> list[str]:
    """The sinks of a program whose simulated trace is not the interpreter's, and sources whose late rows are not told of once."""
    compiled = program(checked, parallelism=case.parallelism, key_groups=case.key_groups, fuse=fuse)
    traces, arranged = interpret_rows(checked, case.rows, drain=case.drain)
    answers = simulate_program(
        compiled, case.rows, seed=case.seed, steps=case.steps, pieces=case.pieces, drain=case.drain
    )
    found = []
    for name, trace in traces.items():
        if answers[name].trace != (trace if case.drain else closed(trace)):
            found.append(name)
    for name, source in arranged.items():
        late = sorted(one.reason for one in source.late)
        told = sorted(reason for a in answers.values() for source_, reason, _ in a.late if source_ == name)
        rejected = sorted(reason for _, reason in source.rejects)
        refused = sorted(reason for a in answers.values() for source_, reason, _ in a.rejects if source_ == name)
        if (late, rejected) != (told, refused):
            found.append(f"source {name}")
    return found


def features(case: Case) -> set[str]:
    """What a case has in it, for tests of the strategy itself."""
    found: set[str] = set()
    checked = case.checked
    stages = 0
    for node in checked.graph.nodes:
        match node:
            case Source(markers=markers, ordered_by=by, key=key):
                found.add("event time" if isinstance(markers, EventTime) else "in band")
                found.add("U source" if by is None else "O by row position" if by is ROW_POSITION else "O by function")
                if not case.rows[node.name]:
                    found.add("a source without rows")
                if checked.layout(node).keyed:
                    found.add("keyed rows")
                found.add("Unit key" if checked.types[node.id].key is Unit else f"key of {key is not None}")
            case Apply(op=op):
                found.add(type(op).__name__)
                if isinstance(op, SignOfKey) and isinstance(checked.graph.node(node.inputs[0]), Apply):
                    found.add("a look at keys that an operator made")
                stages += not isinstance(op, OpStateless)
                if node.parallelism is not None:
                    found.add("parallelism")
                above = checked.graph.node(node.inputs[0])
                if isinstance(above, Merge) and isinstance(op, OpStateless) and overrides(op, "on_marker"):
                    found.add("merge, then on_marker of a stateless operator")
            case Merge():
                found.add("merge of O" if checked.types[node.id].ordered else "merge of U")
                inputs = [checked.types[i] for i in node.inputs]
                if len({edge.key for edge in inputs}) > 1:
                    found.add("merge of two types of keys")
                if len({edge.ordered for edge in inputs}) > 1:
                    found.add("merge of O and U")
                if any(isinstance(checked.graph.node(i), Source) for i in node.inputs):
                    found.add("merge of a source")
            case _:
                found.add(title(node))
    found.add(f"{min(stages, 4)} keyed stages")
    found.add(f"{len(case.rows)} sources")
    trace, arranged = case.expected()
    if any(isinstance(element, Marker) for element in trace):
        found.add("markers at the sink")
    if any(not isinstance(element, Marker) for element in trace):
        found.add("items at the sink")
    periods = {node.markers.period for node in checked.graph.sources if isinstance(node.markers, EventTime)}
    if len(periods) > 1:
        found.add("different periods")
    if any(one.late for one in arranged.values()):
        found.add("late items")
    for one in arranged.values():
        for _, reason in one.rejects:
            for part in ("NaN", "None", "does not lie after", "expected Sample", "expected int", "key"):
                if part in reason:
                    found.add(f"reject: {part}")
    found.add(f"drain {case.drain}")
    return found
