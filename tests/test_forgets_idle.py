"""Keys that come and go: those whose state has become that of a key never seen are forgotten, and nobody notices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.stdlib.small import Added
from tests.strategies import some
from tracetypes import (
    Dataflow,
    EmitValue,
    ExactSum,
    Marker,
    O,
    OpKeyedOrdered,
    OpKeyedUnordered,
    Stream,
    U,
    check,
    every,
    interpret_rows,
    sort,
)
from tracetypes.compiler.analysis import pickles
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.plan import planner
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.runtime.eviction import forget, indistinguishable
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.state import StageState, keys_held
from tracetypes.compiler.store.inspection import StageAbout
from tracetypes.compiler.store.key_state import of_key
from tracetypes.compiler.store.state_summary import keys_of
from tracetypes.compiler.trial import simulate
from tracetypes.errors import LawBroken
from tracetypes.stdlib import count, session, sliding, tumbling
from tracetypes.stdlib import max as max_
from tracetypes.stdlib.stacks import Stack, stack_of
from tracetypes.testing import check_laws

W = TypeVar("W")

@attrs.frozen
class Summing(OpKeyedUnordered[str, int, str, W, Any, int], Generic[W]):
    """What the operators have in common."""

    forgets_idle: ClassVar[bool] = True

    def lift(self, key: str, value: int) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b


@attrs.frozen
class LastThree(Summing[int]):
    """Items of the last three blocks."""

    def initial_state(self) -> tuple[int, int, int]:
        return 0, 0, 0

    def update_state(self, state: tuple[int, int, int], agg: int) -> tuple[int, int, int]:
        return agg, state[0], state[1]

    def on_marker(
        self, new_state: tuple[int, int, int], key: str, marker: Marker, emit: Callable[[str, int], None]
    ) -> None:
        held = new_state[0] + new_state[1] + new_state[2]
        if held > 0:
            emit(key, held)


@attrs.frozen
class Remembers(LastThree):
    """The same without the promise."""

    forgets_idle: ClassVar[bool] = False


@attrs.frozen
class Asked(LastThree):
    """Tells at each item what the last marker left."""

    def on_item(self, last_state: tuple[int, int, int], key: str, value: int, emit: Callable[[str, int], None]) -> None:
        emit(key, -last_state[0])


@attrs.frozen
class InTurns(Summing[int]):
    """Sums up for three markers: a key to come starts in the turn that all keys are in."""

    def initial_state(self) -> tuple[int, int]:
        return 0, 0

    def update_state(self, state: tuple[int, int], agg: int) -> tuple[int, int]:
        turn = (state[0] + 1) % 3
        return turn, agg if turn == 1 else state[1] + agg

    def on_marker(self, new_state: tuple[int, int], key: str, marker: Marker, emit: Callable[[str, int], None]) -> None:
        if new_state[1] > 0:
            emit(key, new_state[1] * 10 + new_state[0])


@attrs.frozen
class Signed(Summing[float]):
    """Leaves a zero behind that is negative and equals that of a key never seen; the next item tells which it was."""

    def initial_state(self) -> tuple[float, float, bool]:
        return 0.0, 0.0, False

    def update_state(self, state: tuple[float, float, bool], agg: int) -> tuple[float, float, bool]:
        return (-0.0, state[0], True) if agg > 0 else (state[0], 0.0, False)

    def on_marker(
        self, new_state: tuple[float, float, bool], key: str, marker: Marker, emit: Callable[[str, float], None]
    ) -> None:
        if new_state[2]:
            emit(key, new_state[1])


@attrs.frozen
class Weighed(OpKeyedUnordered[str, int, str, float, tuple[ExactSum, ExactSum, bool], ExactSum]):
    """The exact weight of two blocks."""

    forgets_idle: ClassVar[bool] = True

    def lift(self, key: str, value: int) -> ExactSum:
        return ExactSum.of(value / 3 + 0.5)

    def identity(self) -> ExactSum:
        return ExactSum()

    def combine(self, a: ExactSum, b: ExactSum) -> ExactSum:
        return a + b

    def initial_state(self) -> tuple[ExactSum, ExactSum, bool]:
        return ExactSum(), ExactSum(), False

    def update_state(self, state: tuple[ExactSum, ExactSum, bool], agg: ExactSum) -> tuple[ExactSum, ExactSum, bool]:
        return agg, state[0], False

    def on_marker(
        self,
        new_state: tuple[ExactSum, ExactSum, bool],
        key: str,
        marker: Marker,
        emit: Callable[[str, float], None],
    ) -> None:
        weight = (new_state[0] + new_state[1]).value()
        if weight > 0.0:
            emit(key, weight)


Build = Callable[[Stream[U[str, int]]], Stream[Any]]

BUILDS: dict[str, Build] = {
    "last three": LastThree(),
    "remembers": Remembers(),
    "asked": Asked(),
    "in turns": InTurns(),
    "signed": Signed(),
    "weighed": Weighed(),
    "sliding": sliding(count(), panes=3),
    "two stacks": sliding(max_(to=int), panes=3, method="two stacks"),
    "subtract": sliding(Added(), panes=3, method="subtract"),
    "tumbling": tumbling(count(), panes=2),
}
COLUMNS = ["last three", "remembers", "in turns", "signed", "weighed", "sliding"]
KEEP_ALL = ["remembers", "signed"]


def flow_of(build: Build) -> Dataflow:
    flow = Dataflow("forgets")
    rows = flow.source("rows", U[str, int], markers=every(seconds=1, time=lambda n: n))
    flow.sink("out", rows.through(build))
    return flow


@cache
def plan_of(name: str, *, key_groups: int = 1, opaque: bool = False) -> Plan:
    with pytest.MonkeyPatch.context() as patch:
        if opaque:
            patch.setattr(planner, "keyed_in", lambda *about: Opaque("so it shall be"))
        return plan(check(flow_of(BUILDS[name])), key_groups=key_groups)


@pytest.mark.parametrize("name", COLUMNS)
def test_these_run_as_columns(name: str) -> None:
    assert not isinstance(plan_of(name).stages[0].steps[0].keyed, Opaque)


# ------------------------------------------------------------------------------------------------ the same answers


def rows_of(steps: list[tuple[int, str]]) -> list[tuple[str, int]]:
    time, made = 0, []
    for gap, key in steps:
        time += gap
        made.append((key, time))
    return made


ROWS = st.lists(st.tuples(st.sampled_from((0, 0, 1, 1, 2, 4, 9)), st.sampled_from("aabcd")), max_size=16).map(rows_of)

quietly = settings(
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(params=["as they are", "small messages", "few is many"])
def many(request: pytest.FixtureRequest) -> Iterator[None]:
    """Blocks in several messages; columns for blocks of any size."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "small messages":
            patch.setattr(limits, "BATCH", 2)
            patch.setattr(limits, "SLAB", 2)
            patch.setattr(limits, "FLUSH", 3)
        elif request.param == "few is many":
            patch.setattr(limits, "MANY", 1)
            patch.setattr(limits, "FLUSH", 3)
        yield


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("name", BUILDS)
@settings(quietly, max_examples=some(40))
@given(ROWS, st.integers(0, 2**16), st.integers(1, 6), st.integers(1, 3), st.booleans())
def test_a_plan_that_forgets_gives_the_traces_of_the_interpreter(
    name: str, rows: list[tuple[str, int]], seed: int, steps: int, groups: int, other: bool
) -> None:
    made = plan_of(name, key_groups=groups)
    then = [plan_of(name, key_groups=groups, opaque=True), made] if other else []
    answer = simulate.simulate(made, {"rows": rows}, seed=seed, steps=steps, then=then)
    assert answer.trace == interpret_rows(check(flow_of(BUILDS[name])), {"rows": rows})[0]["out"]


# --------------------------------------------------------------------------------------------------- less state


class Watched:
    """The states of the first operator as they are saved, in the order of time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.held: list[Any] = []
        whole = pickles.dumps

        def dumps(saved: Any) -> bytes:
            if isinstance(saved, StageState):
                self.held.append(saved.operators[0])
            return whole(saved)

        patch.setattr(simulate, "dumps", dumps)

    @property
    def keys(self) -> list[int]:
        return list(map(keys_held, self.held))


CROWD = 90
COME_AND_GO = [[(f"k{n}", 0) for n in range(CROWD)] + [("z", 1)], *([("z", at)] for at in range(2, 12))]
"""Steps: many keys in the first block, later only one."""


def run_crowd(name: str, patch: pytest.MonkeyPatch, *, opaque: bool) -> Watched:
    seen = Watched(patch)
    answer = simulate.simulate_steps(plan_of(name, opaque=opaque), {"rows": [COME_AND_GO]}, seed=3)
    rows = [row for step in COME_AND_GO for row in step]
    assert answer.trace == interpret_rows(check(flow_of(BUILDS[name])), {"rows": rows})[0]["out"]
    return seen


@pytest.mark.parametrize("name", [name for name in BUILDS if name not in KEEP_ALL])
def test_the_state_shrinks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = run_crowd(name, monkeypatch, opaque=True)
    assert all(isinstance(held, UnorderedState) for held in seen.held)
    if name == "tumbling":  # it holds no state at all
        assert not any(seen.keys)
        return
    assert max(seen.keys) >= CROWD
    assert seen.keys[-1] == 1


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in KEEP_ALL])
def test_columns_shrink(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = run_crowd(name, monkeypatch, opaque=False)
    assert isinstance(seen.held[-1], ColumnState)
    assert max(seen.keys) >= CROWD
    assert seen.keys[-1] == 1
    assert {len(part.values) for part in seen.held[-1].parts} == {1}


@pytest.mark.parametrize("opaque", [True, False])
def test_what_can_be_told_apart_stays(monkeypatch: pytest.MonkeyPatch, opaque: bool) -> None:
    assert run_crowd("signed", monkeypatch, opaque=opaque).keys[-1] == CROWD + 1


@pytest.mark.parametrize("opaque", [True, False])
def test_without_the_promise_all_stay(monkeypatch: pytest.MonkeyPatch, opaque: bool) -> None:
    assert run_crowd("remembers", monkeypatch, opaque=opaque).keys[-1] == CROWD + 1


def test_few_idle_keys_of_many_wait_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removing one moves all: it is done when it pays."""
    steps = [[(f"k{n}", 0) for n in range(40)], *([(f"k{n}", at) for n in range(1, 40)] for at in range(1, 9))]
    seen = Watched(monkeypatch)
    monkeypatch.setattr(limits, "MANY", 1)
    simulate.simulate_steps(plan_of("last three"), {"rows": [steps]}, seed=3, drain=False)
    assert seen.keys[-1] == 40
    monkeypatch.setattr(limits, "FEW", 40)
    simulate.simulate_steps(plan_of("last three"), {"rows": [steps]}, seed=3, drain=False)
    assert seen.keys[-1] == 39


@pytest.mark.parametrize("opaque", [True, False])
def test_who_looks_into_a_checkpoint_sees_the_keys_that_are_left(monkeypatch: pytest.MonkeyPatch, opaque: bool) -> None:
    held = run_crowd("last three", monkeypatch, opaque=opaque).held[-1]
    about = StageAbout(0, ("LastThree",), ())
    found = list(of_key(about, 0, StageState(progress=[], operators=[held]), lambda key: True, None))
    assert keys_of(held) == ["z"]
    assert [(one.key, one.value) for one in found] == [("z", (1, 1, 1))]


# ---------------------------------------------------------------------------------------------- ordered operators


@attrs.frozen
class Counting(OpKeyedOrdered[str, int, int, int]):
    """Counts down from three, by items and at markers, with and without the promise."""

    forgets_idle: ClassVar[bool] = True

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: int, emit: EmitValue[int]) -> int:
        emit(state)
        return state - 1 if state else 3

    def on_marker(self, state: int, key: str, marker: Marker, emit: EmitValue[int]) -> int:
        if state:
            emit(-state)
        return max(state - 1, 0)


@attrs.frozen
class Keeping(Counting):
    forgets_idle: ClassVar[bool] = False


@attrs.frozen
class Switching(OpKeyedOrdered[str, int, int, int | None]):
    """Has no ``on_marker``: the second item undoes the first."""

    forgets_idle: ClassVar[bool] = True

    def initial_state(self) -> int | None:
        return None

    def on_item(self, state: int | None, key: str, value: int, emit: EmitValue[int]) -> int | None:
        emit(value - (state or 0))
        return value if state is None else None


def second(time: int) -> int:
    return time


ORDERED: dict[str, Callable[[Stream[O[str, int]]], Stream[Any]]] = {
    "counting": Counting(),
    "keeping": Keeping(),
    "switching": Switching(),
    "session": session(count(), gap=2, time=second),
}


def ordered_plan(name: str, key_groups: int = 1) -> tuple[Any, Plan]:
    checked = check(flow_of(lambda rows: rows.through(sort(by=second)).through(ORDERED[name])))
    return checked, plan(checked, key_groups=key_groups)


@pytest.mark.parametrize("name", ORDERED)
@given(ROWS, st.integers(0, 2**16), st.integers(1, 6), st.integers(1, 3))
def test_an_ordered_operator_that_forgets_gives_the_traces_of_the_interpreter(
    name: str, rows: list[tuple[str, int]], seed: int, steps: int, groups: int
) -> None:
    checked, planned = ordered_plan(name, groups)
    answer = simulate.simulate(planned, {"rows": rows}, seed=seed, steps=steps)
    assert answer.trace == interpret_rows(checked, {"rows": rows})[0]["out"]


@pytest.mark.parametrize("name", ORDERED)
def test_the_state_of_an_ordered_operator_shrinks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = [(f"k{n}", 0) for n in range(CROWD)]
    steps = [[*crowd, *(crowd if name == "switching" else [])], *([("z", at)] for at in range(2, 12))]
    held: list[int] = []
    whole = pickles.dumps

    def dumps(saved: Any) -> bytes:
        if isinstance(saved, StageState):
            held.append(keys_held(saved.operators[1]))
        return whole(saved)

    monkeypatch.setattr(simulate, "dumps", dumps)
    checked, planned = ordered_plan(name)
    answer = simulate.simulate_steps(planned, {"rows": [steps]}, seed=3)
    assert answer.trace == interpret_rows(checked, {"rows": [row for step in steps for row in step]})[0]["out"]
    assert max(held) >= (0 if name == "switching" else CROWD)
    assert held[-1] >= CROWD if name == "keeping" else held[-1] <= 1


def test_TT307_a_state_never_seen_stays_as_it_is() -> None:
    class Loud(Counting):
        def on_marker(self, state: int, key: str, marker: Marker, emit: EmitValue[int]) -> int:
            emit(state)
            return state

    class Restless(Counting):
        def on_marker(self, state: int, key: str, marker: Marker, emit: EmitValue[int]) -> int:
            return state + 1

    check_laws(Counting(), max_examples=20)
    check_laws(Switching(), max_examples=20)
    for op, text in ((Loud(), "emits"), (Restless(), "makes 1 of it")):
        with pytest.raises(LawBroken, match=text) as caught:
            check_laws(op, max_examples=20)
        assert caught.value.code == "TT307"


# ------------------------------------------------------------------------------------------------ the comparison


@attrs.frozen
class Point:
    x: float
    y: Any = None


class Loose:
    """Equal to all there is."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Refusing:
    def __eq__(self, other: object) -> bool:
        raise ValueError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


NAN = math.nan


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0, 0, True),
        (0, False, False),
        (0, 0.0, False),
        ((1, "a", None), (1, "a", None), True),
        ((1, 0.0), (1, -0.0), False),
        ((1, [0.0]), (1, [0.0]), True),
        ([1], (1,), False),
        (NAN, NAN, True),
        (NAN, float("nan"), False),
        (Point(0.0), Point(0.0), True),
        (Point(0.0), Point(-0.0), False),
        (Point(1.0, Loose()), Point(1.0, Loose()), False),
        (Refusing(), Refusing(), False),
        ({"a": 0, "b": 1}, {"a": 0, "b": 1}, True),
        ({"a": 0, "b": 1}, {"b": 1, "a": 0}, False),
        ({"a": 0.0}, {"a": -0.0}, False),
        (Counter("ab"), Counter("ab"), True),
        (Counter(), {}, False),
        (set(), set(), True),
        ({1}, {1}, False),
        (ExactSum.of(0.1) + ExactSum.of(-0.1), ExactSum(), True),
        (stack_of(tuple(range(9_000))), stack_of(tuple(range(9_000))), True),
        (stack_of((0.0, 1)), stack_of((-0.0, 1)), False),
    ],
)
def test_indistinguishable(one: Any, other: Any, same: bool) -> None:
    assert indistinguishable(one, other) is same
    assert indistinguishable((one,), (other,)) is same


def test_forgotten_are_the_untouched_ones_only() -> None:
    held = {"a": (0, 0), "b": (0, 0), "c": (0, 1), "d": (1, 0), "e": (0, False)}
    forget(held, {"b"}, (0, 0))
    assert list(held) == ["b", "c", "d", "e"]
    odd: dict[str, Any] = {"a": Refusing(), "b": (Refusing(),), "c": None}
    forget(odd, (), (Refusing(),))
    forget(odd, (), None)
    assert list(odd) == ["a", "b"]
    kinds: dict[str, Any] = {"a": None, "b": (0, 0), "c": (), "d": (0, 1)}
    forget(kinds, (), (0, 0))
    assert list(kinds) == ["a", "c", "d"]


def test_stacks_are_equal_element_by_element() -> None:
    one = stack_of((1, 2, 3))
    assert one == stack_of((1, 2, 3))
    assert one != stack_of((1, 2))
    assert stack_of((1, 2)) != one
    assert one != stack_of((0, 2, 3))
    assert one != stack_of((1, 2, 0))
    assert Stack(4, one) == Stack(4, one)
    assert one != 1
    assert stack_of((NAN,)) == stack_of((NAN,))
