"""The laws of operators are checked on rows of a run: each broken twin is found within a hundred rows, and no more than it."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import attrs
import pytest

import tracetypes
from tracetypes import (
    Dataflow,
    Emit,
    EmitValue,
    Marker,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    U,
    every,
    sort,
)
from tracetypes.choices import Choice
from tracetypes.compiler.runtime import verification, watch
from tracetypes.errors import CodedError, LawBroken
from tracetypes.lookup_table import LookupTable
from tracetypes.records import Record, String
from tracetypes.stdlib import aggregate, fast_sum, sum
from tracetypes.templates import Coarser


@attrs.frozen
class Row:
    key: str
    number: float
    ts: int


ROWS: Final = [Row("abc"[at % 3], (at * 7 % 11) + 0.1, at) for at in range(99)]
SEEN: Final[list[Any]] = []
SHARED: Final[list[float]] = []


# ------------------------------------------------------------------------------------------------------ stateless


@attrs.frozen
class Plain(OpStateless[str, Row, str, float]):
    def on_item(self, key: str, value: Row, emit: Emit[str, float]) -> None:
        emit(key, value.number)


class CountsInAGlobal(Plain):
    def on_item(self, key: str, value: Row, emit: Emit[str, float]) -> None:
        SEEN.append(value)
        emit(key, len(SEEN))


class Draws(Plain):
    def on_item(self, key: str, value: Row, emit: Emit[str, float]) -> None:
        emit(key, random.random())


class ReadsTheClock(Plain):
    def on_item(self, key: str, value: Row, emit: Emit[str, float]) -> None:
        emit(key, time.perf_counter())


class OnlyTheFirst(Plain):
    def on_item(self, key: str, value: Row, emit: Emit[str, float]) -> None:
        if value not in SEEN:
            SEEN.append(value)
            emit(key, value.number)


# -------------------------------------------------------------------------------------------------------- ordered


@attrs.frozen
class InOrder(OpKeyedOrdered[str, Row, float, list[float]]):
    def initial_state(self) -> list[float]:
        return []

    def on_item(self, state: list[float], key: str, value: Row, emit: EmitValue[float]) -> list[float]:
        state.append(value.number)  # it may change its state
        emit(len(state))
        return state

    def on_marker(self, state: list[float], key: str, marker: Marker, emit: EmitValue[float]) -> list[float]:
        return state


class RemembersItems(InOrder):
    def on_item(self, state: list[float], key: str, value: Row, emit: EmitValue[float]) -> list[float]:
        SEEN.append(value)
        emit(len(SEEN))
        return state


class RemembersMarkers(InOrder):
    def on_marker(self, state: list[float], key: str, marker: Marker, emit: EmitValue[float]) -> list[float]:
        SEEN.append(marker)
        emit(len(SEEN))
        return state


class OneStateForAll(InOrder):
    def initial_state(self) -> list[float]:
        return SHARED


class ForgetsAndSpeaks(InOrder):
    forgets_idle = True

    def on_marker(self, state: list[float], key: str, marker: Marker, emit: EmitValue[float]) -> list[float]:
        emit(len(state))
        return state


class DueAtOnce(InOrder):
    def on_marker(self, state: list[float], key: str, marker: Marker, emit: EmitValue[float]) -> list[float]:
        return state[-1:]

    def next_due(self, state: list[float], key: str) -> int | None:
        return None if len(state) < 2 else -(2**62)


class DueLater(InOrder):
    def on_marker(self, state: list[float], key: str, marker: Marker, emit: EmitValue[float]) -> list[float]:
        emit(1.0)
        return state

    def next_due(self, state: list[float], key: str) -> int | None:
        return None


# ------------------------------------------------------------------------------------------------------ unordered


@attrs.frozen
class InBags(OpKeyedUnordered[str, Row, str, float, Counter[float], Counter[float]]):
    def lift(self, key: str, value: Row) -> Counter[float]:
        return Counter([value.number])

    def identity(self) -> Counter[float]:
        return Counter()

    def combine(self, a: Counter[float], b: Counter[float]) -> Counter[float]:
        return a + b

    def initial_state(self) -> Counter[float]:
        return Counter()

    def update_state(self, state: Counter[float], agg: Counter[float]) -> Counter[float]:
        return state + agg

    def on_marker(self, new_state: Counter[float], key: str, marker: Marker, emit: Emit[str, float]) -> None:
        emit(key, float(new_state.total()))


class LiftRemembers(InBags):
    def lift(self, key: str, value: Row) -> Counter[float]:
        SEEN.append(value)
        return Counter([float(len(SEEN))])


class CombinesInPlace(InBags):
    def combine(self, a: Counter[float], b: Counter[float]) -> Counter[float]:
        a.update(b)
        return a


class UpdatesInPlace(InBags):
    def update_state(self, state: Counter[float], agg: Counter[float]) -> Counter[float]:
        state.update(agg)
        return state


class ClearsAtMarkers(InBags):
    def on_marker(self, new_state: Counter[float], key: str, marker: Marker, emit: Emit[str, float]) -> None:
        emit(key, float(new_state.total()))
        new_state.clear()


class SpeaksAtItems(InBags):
    def on_item(self, last_state: Counter[float], key: str, value: Row, emit: Emit[str, float]) -> None:
        last_state[value.number] += 1


class OneIdentity(InBags):
    def identity(self) -> Counter[float]:
        return Counter([1.0])


@attrs.frozen
class Numbers(OpKeyedUnordered[str, Row, str, float, float, float]):
    def lift(self, key: str, value: Row) -> float:
        return value.number

    def identity(self) -> float:
        return 0.0

    def combine(self, a: float, b: float) -> float:
        return a + b

    def initial_state(self) -> float:
        return 0.0

    def update_state(self, state: float, agg: float) -> float:
        return state + agg

    def on_marker(self, new_state: float, key: str, marker: Marker, emit: Emit[str, float]) -> None:
        emit(key, new_state)


class Minus(Numbers):
    def combine(self, a: float, b: float) -> float:
        return a - b


class TheFirst(Numbers):
    def combine(self, a: float, b: float) -> float:
        return a or b


class Apart(Numbers):
    def combine(self, a: float, b: float) -> float:
        return abs(a - b)


class SkipsAndSpeaks(Numbers):
    skips_untouched = True


class SkipsAndAges(Numbers):
    skips_untouched = True

    def update_state(self, state: float, agg: float) -> float:
        return state / 2 + agg

    def on_marker(self, new_state: float, key: str, marker: Marker, emit: Emit[str, float]) -> None:
        if new_state > 5:
            emit(key, new_state)


class ForgetsAndEmits(Numbers):
    forgets_idle = True


class TumblesNot(Numbers):
    def tumbles(self) -> tuple[int, int] | None:
        return 20_000_000, 0


class CoarserNot(Numbers):
    def coarser(self) -> Coarser | None:
        return Coarser(Numbers(), 2, 20_000_000, 0)

    def on_marker(self, new_state: float, key: str, marker: Marker, emit: Emit[str, float]) -> None:
        emit(key, new_state * 2)


class ChoosesOne(Numbers):
    def chooses(self) -> tuple[Choice[Row], ...]:
        return (Choice(lambda row: row.number),)


class Lingers(Numbers):
    """It emits the last sum at three markers more, and says so."""

    blocks: ClassVar[int | dt.timedelta] = 3

    def lift(self, key: str, value: Row) -> float:
        return 4.0

    def combine(self, a: float, b: float) -> float:
        return max(a, b)

    def update_state(self, state: float, agg: float) -> float:
        return max(state - 1, agg)

    def on_marker(self, new_state: float, key: str, marker: Marker, emit: Emit[str, float]) -> None:
        if new_state > 0:
            emit(key, new_state)

    def linger(self) -> int | dt.timedelta:
        return self.blocks


class LingersForATime(Lingers):
    blocks = dt.timedelta(seconds=30)


class LingersLonger(Lingers):
    blocks = 2


class LingersForALongerTime(Lingers):
    blocks = dt.timedelta(seconds=20)


class Waits(InOrder):
    """It emits a number at the first marker that is 15 seconds behind the item, and says so."""

    seconds: ClassVar[int] = 15

    def on_item(self, state: list[float], key: str, value: Row, emit: EmitValue[float]) -> list[float]:
        return [*state, float(value.ts)]

    def on_marker(self, state: list[float], key: str, marker: Marker, emit: EmitValue[float]) -> list[float]:
        for ts in state:
            if ts + 15 <= marker.timestamp:
                emit(ts)
        return [ts for ts in state if ts + 15 > marker.timestamp]

    def linger(self) -> dt.timedelta:
        return dt.timedelta(seconds=self.seconds)


class WaitsLonger(Waits):
    seconds = 5


class Puts(Waits):
    """It says that the last of several markers is enough."""

    def next_due(self, state: list[float], key: str) -> int | None:
        return -(2**62) if state else None

    def next_emission(self, state: list[float], key: str) -> int | None:
        return int(min(state) + 15) * 1_000_000 if state else None


class PutsOff(Puts):
    def next_emission(self, state: list[float], key: str) -> int | None:
        return int(min(state) + 45) * 1_000_000 if state else None


class HoldsTexts(InOrder):
    def on_item(self, state: list[float], key: str, value: Row, emit: EmitValue[float]) -> list[float]:
        texts: Any = str(value.number)
        return [*state, texts]


class LiftsTexts(InBags):
    def lift(self, key: str, value: Row) -> Counter[float]:
        text: Any = str(value.number)
        return Counter([text])


@attrs.frozen(eq=False)
class Odd:
    """A record that is equal to nothing but itself."""

    number: float


@attrs.frozen
class MakesOdd(OpStateless[str, Row, str, Odd]):
    def on_item(self, key: str, value: Row, emit: Emit[str, Odd]) -> None:
        SEEN.clear()  # so it runs as Python
        emit(key, Odd(value.number))


@attrs.frozen
class AtMarkers(Plain):
    def on_marker(self, marker: Marker, emit: Emit[str, float]) -> None:
        emit("marker", marker.timestamp)


BROKEN: Final[dict[type[Any], str]] = {
    **dict.fromkeys((CountsInAGlobal, Draws, ReadsTheClock, OnlyTheFirst), "TT304"),
    **dict.fromkeys((RemembersItems, RemembersMarkers, OneStateForAll), "TT304"),
    **dict.fromkeys((LiftRemembers, CombinesInPlace, UpdatesInPlace, ClearsAtMarkers, SpeaksAtItems), "TT304"),
    **{OneIdentity: "TT301", Minus: "TT301", TheFirst: "TT303", Apart: "TT302"},
    **dict.fromkeys((ForgetsAndSpeaks, SkipsAndSpeaks, SkipsAndAges, ForgetsAndEmits), "TT307"),
    **dict.fromkeys((DueLater, TumblesNot, CoarserNot, ChoosesOne, PutsOff), "TT314"),
    **dict.fromkeys((LingersLonger, LingersForALongerTime, WaitsLonger), "TT314"),
    **{HoldsTexts: "TT224", LiftsTexts: "TT224", MakesOdd: "TT309"},
}

LAWFUL: Final = (Plain, AtMarkers, InOrder, InBags, Numbers, Lingers, LingersForATime, Waits, Puts)

METHODS: Final[dict[type[Any], tuple[str, ...]]] = {
    AtMarkers: ("on_item", "on_marker"),
    Puts: ("initial_state", "on_item", "on_marker", "next_emission"),
    DueAtOnce: ("next_due",),
    InBags: ("on_item", "lift", "identity", "combine", "initial_state", "update_state", "on_marker"),
    Numbers: ("on_item", "lift", "identity", "combine", "initial_state", "update_state", "on_marker"),
}
"""Operators that run as Python, and one that runs as columns, with the methods of their templates."""


def impure(cls: type[Any], method: str) -> Any:
    """A twin of an operator of which one method draws lots."""
    lawful: Any = getattr(cls, method)

    def drawn(*args: Any) -> Any:
        if method in ("on_item", "on_marker"):
            args[-1](*("a", random.random())[-1 if issubclass(cls, OpKeyedOrdered) else 0 :])
            return lawful(*args)
        result = lawful(*args)
        match result:
            case list():
                return [*result, random.random()]
            case Counter():
                return result + Counter([random.random()])
            case None:
                return random.randrange(2**40)
            case _:
                return result + random.randrange(2**40)

    return type("Impure", (cls,), {method: drawn})()


def flow_of(op: Any) -> Dataflow:
    flow = Dataflow("sampled")
    rows = flow.source("rows", U[str, Row], key=lambda row: row.key, markers=every(seconds=10, time=lambda row: row.ts))
    ordered: Any = rows.through(sort(by=lambda row: row.ts)) if isinstance(op, OpKeyedOrdered) else rows
    flow.sink("out", ordered.through(op))
    return flow


@pytest.fixture(autouse=True)
def fresh() -> None:
    SEEN.clear()
    SHARED.clear()


def ran(op: Any, **settings: Any) -> list[Any]:
    out: list[Any] = []
    tracetypes.run(flow_of(op), inputs={"rows": ROWS}, outputs={"out": out}, backend="local", parallelism=1, **settings)
    return out


@pytest.mark.parametrize("cls", BROKEN)
def test_a_broken_twin_is_found(cls: type[Any]) -> None:
    with pytest.raises(CodedError) as found:
        ran(cls())
    assert found.value.code == BROKEN[cls]


@pytest.mark.parametrize(("cls", "method"), [(cls, method) for cls, some in METHODS.items() for method in some])
def test_each_method_that_draws_lots_is_found(cls: type[Any], method: str) -> None:
    with pytest.raises(LawBroken, match=f"TT304 Impure.{method} is not pure"):
        ran(impure(cls, method))


@pytest.mark.parametrize("cls", LAWFUL)
def test_their_lawful_twins_run(cls: type[Any]) -> None:
    assert ran(cls())


def test_without_verification_nothing_is_found() -> None:
    assert ran(CountsInAGlobal(), verify=False)


class Says(Plain):
    def on_item(self, key: str, value: Row, emit: Emit[str, float]) -> None:
        print("saw", value.ts)
        emit(key, value.number)


def test_what_the_second_call_prints_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    ran(Says())
    said = capsys.readouterr()
    assert sorted((said.out + said.err).count(f"saw {row.ts}\n") for row in ROWS) == [1] * len(ROWS)


# -------------------------------------------------------------------------------------------- look-ups, and markers


@attrs.frozen
class Place:
    name: str


@attrs.frozen
class Places(LookupTable):
    """A table that counts its questions."""

    @property
    def row(self) -> Record:
        return Record(Place, (("name", String()),))

    def get(self, key: Any, /) -> Any:
        SEEN.append(key)
        return Place(key)

    def rows(self, keys: Sequence[Any], /) -> dict[Any, Any]:
        return {key: self.get(key) for key in keys}


@attrs.frozen
class LooksUp(OpStateless[str, Row, str, str]):
    table: Places

    def on_item(self, key: str, value: Row, emit: Emit[str, str]) -> None:
        print(end="")  # so it runs as Python
        emit(key, self.table.get(key).name)


def test_a_look_up_is_not_made_twice() -> None:
    assert len(ran(LooksUp(Places()))) >= len(ROWS)
    assert [row.key for row in ROWS] == SEEN


class DrawsInPauses(InOrder):
    def on_marker(self, state: list[float], key: str, marker: Marker, emit: EmitValue[float]) -> list[float]:
        if 200 < marker.timestamp < 900:
            emit(random.random())
        return state


class DrawsInPausesToo(InBags):
    def on_marker(self, new_state: Counter[float], key: str, marker: Marker, emit: Emit[str, float]) -> None:
        if 200 < marker.timestamp < 900:
            emit(key, random.random())


@pytest.mark.parametrize("cls", [DrawsInPauses, DrawsInPausesToo])
def test_markers_over_empty_blocks_are_looked_at(cls: type[Any]) -> None:
    flow, late = flow_of(cls()), [*ROWS[:20], Row("a", 1.0, 1000)]
    with pytest.raises(LawBroken, match=r"TT304 DrawsInPauses(Too)?.on_marker is not pure"):
        tracetypes.run(flow, inputs={"rows": late}, outputs={"out": []}, backend="local", parallelism=1)


def test_states_that_are_large_are_not_all_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "DEAR", 0.0)
    monkeypatch.setattr(verification, "DEAR", 0.0)
    monkeypatch.setattr(verification, "PART", 0.0)
    assert ran(CountsInAGlobal())


def of_both_signs(row: Row) -> float:
    return row.number * 1e16 if row.ts % 2 else -row.number * 1e16


@pytest.mark.parametrize("sum_of", [fast_sum, sum])
def test_sums_of_floats_are_lawful(sum_of: Any) -> None:
    assert ran(aggregate(sum_of(of_both_signs)))
