"""States of ordered operators that hold members of enums, decimals, unsigned integers and lists, over columns."""

from __future__ import annotations

import enum
import random
from collections import Counter
from decimal import Decimal
from functools import cache
from typing import Annotated, Any

import attrs
import pytest
from hypothesis import strategies as st

from tests.over_columns import Plans, check_runs, count_runs, plans_of, refuse_objects
from tracetypes import Dataflow, EmitValue, OpKeyedOrdered, U, UInt64, check, decimal, every, interpret_rows, sort
from tracetypes.compiler.analysis.blame import Opaque
from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.columns.machine.compilation import Compilation
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.ordered_kernel import OrderedColumns
from tracetypes.compiler.tracing.symbolic.comparisons import Comparisons
from tracetypes.compiler.trial.simulate import simulate


class Light(enum.Enum):
    """Its values are texts."""

    RED = "red"
    GREEN = "green"
    BROKEN = "broken"


class Mode(enum.Enum):
    """Its values are integers."""

    IDLE = 1
    BUSY = 2


class Word(enum.StrEnum):
    """Its members compare as texts."""

    YES = "yes"
    NO = "no"


Price = Annotated[Decimal, decimal(12, 2)]


@attrs.frozen
class Reading:
    """An item."""

    key: str
    ts: int
    number: int
    light: Light
    mode: Mode | None
    price: Price
    size: UInt64
    tags: list[int]
    word: Word = Word.YES


@attrs.frozen
class Seen:
    """A state, and what is emitted of it."""

    light: Light
    mode: Mode | None
    times: int


@attrs.frozen
class Phases(OpKeyedOrdered[str, Reading, Light, Light]):
    """A state machine whose state is one of the members."""

    def initial_state(self) -> Light:
        return Light.RED

    def on_item(self, state: Light, key: str, value: Reading, emit: EmitValue[Light]) -> Light:
        match state:
            case Light.RED:
                return Light.GREEN if value.number > 0 else state
            case Light.GREEN:
                emit(value.light)
                return Light.BROKEN if value.light is Light.BROKEN else Light.RED
            case Light.BROKEN:
                if value.mode is Mode.BUSY:
                    emit(Light.BROKEN)
                    return value.light
                return state


@attrs.frozen
class Records(OpKeyedOrdered[str, Reading, Seen, Seen | None]):
    """Members within records, some of them missing."""

    def initial_state(self) -> Seen | None:
        return None

    def on_item(self, state: Seen | None, key: str, value: Reading, emit: EmitValue[Seen]) -> Seen | None:
        if state is None:
            return Seen(value.light, None, 1)
        if state.light == value.light and state.mode != value.mode:
            emit(state)
            return Seen(state.light, value.mode, state.times + 1)
        if state.mode == Mode.IDLE:
            emit(Seen(Light.BROKEN, state.mode, state.times))
            return None
        return Seen(value.light, Mode.IDLE if value.number < 0 else state.mode, state.times + 1)


@attrs.frozen
class Passed(OpKeyedOrdered[str, Reading, Reading, Reading | None]):
    """Whole items, with all that columns only pass on."""

    def initial_state(self) -> Reading | None:
        return None

    def on_item(self, state: Reading | None, key: str, value: Reading, emit: EmitValue[Reading]) -> Reading | None:
        if state is not None and state.light is not value.light:
            emit(state)
        return value if state is None or value.number != 0 else state


@attrs.frozen
class Prices(OpKeyedOrdered[str, Reading, Price, tuple[Price | None, UInt64 | None]]):
    """Decimals and unsigned integers, some of them missing."""

    def initial_state(self) -> tuple[Price | None, UInt64 | None]:
        return None, None

    def on_item(
        self, state: tuple[Price | None, UInt64 | None], key: str, value: Reading, emit: EmitValue[Price]
    ) -> tuple[Price | None, UInt64 | None]:
        price, size = state
        if price is not None and value.number > 0:
            emit(price)
        return (value.price, size) if size is not None else (price, value.size)


OPERATORS: dict[str, Any] = {"phases": Phases(), "records": Records(), "passed": Passed(), "prices": Prices()}

READINGS = st.builds(
    Reading,
    st.sampled_from("abc"),
    st.integers(0, 60),
    st.integers(-2, 2),
    st.sampled_from(Light),
    st.sampled_from([None, *Mode]),
    st.sampled_from([Decimal("0.00"), Decimal("-1.50"), Decimal("9999999999.99")]),
    st.sampled_from([UInt64(0), UInt64(2**64 - 1), UInt64(7)]),
    st.lists(st.integers(0, 3), max_size=2),
    st.sampled_from(Word),
)


def tame(count: int) -> list[Reading]:
    """Many items of few keys."""
    chance = random.Random(3)
    return [
        Reading(
            chance.choice("abcdef"),
            at // 4,
            chance.randint(-2, 2),
            chance.choice(list(Light)),
            chance.choice([None, *Mode]),
            Decimal(chance.randint(-999, 999)) / 4,
            UInt64(chance.randint(0, 2**64 - 1)),
            [at % 3] * (at % 4),
            chance.choice(list(Word)),
        )
        for at in range(count)
    ]


@cache
def compiled(name: str) -> Plans:
    flow, markers = Dataflow("states"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(OPERATORS[name]))
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """One item is many here. Counts items over columns."""
    counts = count_runs(monkeypatch, OrderedColumns)
    monkeypatch.setattr(limits, "MANY", 1)
    return counts


@pytest.mark.parametrize("name", OPERATORS)
def test_runs_over_columns_tell_the_trace_of_the_definition(name: str, columns: Counter[str]) -> None:
    check_runs(compiled(name), Ordered, {"readings": st.lists(READINGS, max_size=25)}, {"readings": tame(40)}, columns)


@pytest.mark.parametrize("name", OPERATORS)
def test_machine_code_or_columns_tell_it_without_objects(
    name: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Compilation.start

    def finished(self: Compilation) -> None:
        start(self)
        assert self._thread is not None
        self._thread.join()
        assert self.problem is None

    monkeypatch.setattr(Compilation, "start", finished)
    monkeypatch.setattr(limits, "COMPILED", 0)
    refuse_objects(monkeypatch)
    checked, one, _ = compiled(name)
    rows = {"readings": tame(300)}
    assert simulate(one, rows, seed=3, steps=3).trace == interpret_rows(checked, rows)[0]["out"]
    assert columns["items"] == 300


def test_members_that_stand_for_texts_are_not_told_as_members() -> None:
    """A field of text may take them, too, and columns would not know which of the two is meant."""

    @attrs.frozen
    class Words(OpKeyedOrdered[str, Reading, int, Word]):
        def initial_state(self) -> Word:
            return Word.YES

        def on_item(self, state: Word, key: str, value: Reading, emit: EmitValue[int]) -> Word:
            return Word.NO if value.number > 0 else state

    flow, markers = Dataflow("words"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(Words()))
    refused = plans_of(flow)[1].stages[-1].steps[-1].ordered
    assert isinstance(refused, Opaque)
    assert refused.reason == "`Words` returns a Word"


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that the tracer takes for the only one left, though another one is left, too."""
    right = Comparisons.is_left_alone

    def too_early(self: Comparisons, mine: Any, member: Any) -> bool:
        return member is Light.GREEN or right(self, mine, member)

    flow, markers = Dataflow("wrong"), every(seconds=5, time=lambda r: r.ts, delay=3)
    readings = flow.source("readings", U[str, Reading], key=lambda r: r.key, markers=markers)
    flow.sink("out", readings.through(sort(by=lambda r: r.ts)).through(Phases()))
    monkeypatch.setattr(Comparisons, "is_left_alone", too_early)
    each_row = attrs.evolve(plan(check(flow), key_groups=1), verify_every=1)
    with pytest.raises(Difference):
        simulate(each_row, {"readings": tame(100)}, seed=1, steps=3)
