"""Small dataflows for the tests of the Spark backend, as targets of the command line too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs

from tests.strategies import Hue, Money, Step
from tracetypes import (
    ROW_POSITION,
    Dataflow,
    Marker,
    O,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Stream,
    U,
    UInt64,
    csv,
    decimal,
    every,
    in_band,
    json_lines,
    parquet,
)
from tracetypes.formats import Format


@attrs.frozen
class Reading:
    """A row: who, when (s), how much."""

    id: str
    ts: int
    watts: int


@attrs.frozen
class Plug:
    """A row whose key may be missing or NaN."""

    id: str | None
    ts: int
    watts: float


@attrs.frozen
class Rich:
    """A row with all kinds of fields."""

    ts: dt.datetime
    day: dt.date
    name: str
    flag: bool
    amount: float
    raw: bytes
    maybe: int | None
    note: str | None
    inner: Plug
    inners: list[Plug | None]
    numbers: tuple[int, ...]
    flat: Flat | None
    prices: list[Money]
    hues: tuple[Hue, ...]


@attrs.frozen
class Picky:
    """A row that its author does not always accept."""

    id: str
    ts: int
    watts: int = attrs.field(validator=attrs.validators.ge(0))


@attrs.frozen
class Nest:
    """What lies in a :class:`Nested`."""

    n: int
    x: float
    at: dt.datetime


@attrs.frozen
class Nested:
    """A row with values that may be missing where they must not."""

    id: str
    ts: int
    inner: Nest
    ns: list[int]
    xs: tuple[float, ...]
    some: list[Nest | None]


@attrs.frozen
class Flat:
    """A row that CSV can hold."""

    ts: dt.datetime
    day: dt.date
    name: str
    flag: bool
    amount: float
    maybe: int | None
    size: UInt64 = 0
    money: Money = Decimal("0.00")
    wide: Annotated[Decimal, decimal(38, 38)] | None = None
    side: Literal["left", "right"] = "left"
    number: Literal[1, -2] | None = None
    hue: Hue = Hue.RED
    step: Step = Step.UP


@attrs.frozen
class Sum(OpKeyedUnordered[str, Reading, str, Reading, int, int]):
    """The sum so far, at every marker, for every key."""

    def lift(self, key: str, value: Reading) -> int:
        return value.watts

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Callable[[str, Reading], None]) -> None:
        emit(key, Reading(key, marker.timestamp, new_state))


@attrs.frozen
class Watts(OpStateless[str, Reading, str, int]):
    """The number alone."""

    def on_item(self, key: str, value: Reading, emit: Callable[[str, int], None]) -> None:
        emit(key, value.watts)


@attrs.frozen
class Fragile(OpStateless[str, Reading, str, Reading]):
    """Raises for readings of -1 while there is a file ``flag``."""

    flag: str

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        if value.watts == -1 and Path(self.flag).exists():
            raise ValueError(f"{value.id} is broken")
        emit(key, value)


@attrs.frozen
class Unkeyed(OpStateless[str, Plug, float, int]):
    """Emits a key that may be NaN."""

    def on_item(self, key: str, value: Plug, emit: Callable[[float, int], None]) -> None:
        emit(value.watts, value.ts)


@attrs.frozen
class Keyless(OpStateless[str, Plug, str, int]):
    """Emits a key that may be None."""

    def on_item(self, key: str, value: Plug, emit: Callable[[str, int], None]) -> None:
        emit(value.id if value.watts else None, value.ts)  # type: ignore[arg-type]


@attrs.frozen
class Slow(OpStateless[str, Reading, str, Reading]):
    """Does about a millisecond of work for an item, or waits for nothing."""

    rounds: int = 10_000

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        total = 0
        for n in range(self.rounds):
            total += n
        emit(key, value)


@attrs.frozen
class Named(OpKeyedOrdered[str, Reading, int, int]):
    """A number that differs when any two items change places."""

    def initial_state(self) -> int:
        return 7

    def on_item(self, state: int, key: str, value: Reading, emit: Callable[[int], None]) -> int:
        state = (state * 31 + value.watts) % 1_000_003
        emit(state)
        return state


def id_of(value: Reading) -> str:
    """The key of a reading."""
    return value.id


def wrong_id(value: Plug) -> Any:
    """A key that may be None, where none may."""
    return value.id


def ts_of(value: Any) -> Any:
    """The time of any row here."""
    return value.ts


TEN = every(seconds=10, time=ts_of)


def summing(delay: float = 0, format: Format | None = None, before: Any = None) -> Dataflow:
    """Readings summed by id, at the end of every ten seconds; ``before`` is an operator on readings."""
    flow = Dataflow("sums")
    rows: Stream[U[str, Reading]] = flow.source(
        "readings", U[str, Reading], key=id_of, markers=every(seconds=10, time=ts_of, delay=delay), format=format
    )
    rows = rows if before is None else rows.through(before)
    flow.sink("sums", rows.through(Sum()), marker="at")
    return flow


sums = summing()
headless = summing(format=csv(columns=["id", "ts", "watts"]))
short = summing(format=csv(columns=["id", "ts"]))
typed_csv = summing(format=csv())
lines = summing(format=json_lines())
columns = summing(format=parquet())
delayed = summing(delay=10)
slow = summing(before=Slow())

straight = Dataflow("straight")
straight.sink(
    "watts",
    straight.source("readings", U[str, Reading], key=id_of, markers=every(seconds=10, time=ts_of, delay=10)).through(
        Watts()
    ),
)

by_plug = Dataflow("by-plug")
by_plug.sink("out", by_plug.source("plugs", U[str, Plug], key=wrong_id, markers=TEN))

by_watts = Dataflow("by-watts")
by_watts.sink("out", by_watts.source("plugs", U[float, Plug], key=lambda p: p.watts, markers=TEN))

emits_nan = Dataflow("emits-nan")
_plugs = emits_nan.source("plugs", U[str, Plug], key=wrong_id, markers=TEN)
emits_nan.sink("out", _plugs.through(Unkeyed()))

emits_none = Dataflow("emits-none")
_plugs = emits_none.source("plugs", U[str, Plug], key=wrong_id, markers=TEN)
emits_none.sink("out", _plugs.through(Keyless()))


def ordered(by: Any = ROW_POSITION) -> Dataflow:
    """An O source whose order shows in the output."""
    flow = Dataflow("ordered")
    rows = flow.source("readings", O[str, Reading], key=id_of, markers=TEN, ordered_by=by)
    flow.sink("out", rows.through(Named()), marker="at", position="nth")
    return flow


def fragile(flag: str) -> Dataflow:
    """A flow with an operator that can be mended."""
    return summing(before=Fragile(flag))


def is_mark(value: Reading) -> bool:
    """Is it a marker in band?"""
    return value.id == "#"


def banded() -> Dataflow:
    """Markers in band."""
    flow = Dataflow("banded")
    rows = flow.source("readings", U[str, Reading], key=id_of, markers=in_band(is_marker=is_mark, time=ts_of))
    flow.sink("sums", rows.through(Sum()), marker="at")
    return flow


def here(name: str) -> str:
    """A flow of this module as a target of the command line."""
    return f"{__name__}:{name}"
