"""Ordered operators over columns: whole runs tell what the definition does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.over_columns import Plans, answers_differ, count_runs, plans_of, refuse_objects
from tests.strategies import some
from tracetypes import Dataflow, OpKeyedOrdered, U, every, interpret_rows, sort
from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import take
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.machine.compilation import Compilation
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import last_item, limits, ordered_check, ordered_kernel
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.ordered_base import Emitted, Replay
from tracetypes.compiler.runtime.ordered_kernel import OrderedColumns, _Steps
from tracetypes.compiler.runtime.ordered_machine import MachineLoop
from tracetypes.compiler.runtime.ordered_states import OrderedStates, slots_of
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib import count, count_window, diff, ewm_mean, pairwise, scan, session
from tracetypes.stdlib import sum as total
from tracetypes.templates import EmitValue


@attrs.frozen
class Reading:
    device: str
    ts: int
    x: float
    n: int = 0
    note: str | None = None


@attrs.frozen
class Phase:
    number: int = 0
    last: float | None = None


@attrs.frozen
class Rises(OpKeyedOrdered[str, Reading, float, Phase]):
    """Three states, with a state that is passed on, a None, and a text."""

    def initial_state(self) -> Phase:
        return Phase()

    def on_item(self, state: Phase, key: str, value: Reading, emit: EmitValue[float]) -> Phase:
        if value.x < 0:
            return state
        if state.number == 0 and value.x > 3:
            return Phase(1, value.x)
        if state.number == 1 and state.last is not None and value.x > state.last:
            emit(value.x - state.last)
            emit(value.x)
            return Phase(2, None)
        return Phase(0, None) if state.number == 2 else state


@attrs.frozen
class Changes(OpKeyedOrdered[str, Reading, Reading, Reading | None]):
    """Passes on readings whose note is another one than before, and keeps the last."""

    def initial_state(self) -> Reading | None:
        return None

    def on_item(self, state: Reading | None, key: str, value: Reading, emit: EmitValue[Reading]) -> Reading | None:
        if value.note == "y":
            return state
        if state is None or state.note != value.note:
            emit(value)
        elif value.note is not None and state.device < value.note:
            emit(attrs.evolve(state, note="later", n=state.n ^ value.n))
        return value


@attrs.frozen
class Alarm(OpKeyedOrdered[str, Reading, str, tuple[int, str] | None]):
    """Silent keys, told at each marker; its state is a pair or nothing."""

    def initial_state(self) -> tuple[int, str] | None:
        return None

    def on_item(
        self, state: tuple[int, str] | None, key: str, value: Reading, emit: EmitValue[str]
    ) -> tuple[int, str] | None:
        if value.n == 7:
            return None
        return (0, value.note or "")

    def on_marker(
        self, state: tuple[int, str] | None, key: str, marker: Any, emit: EmitValue[str]
    ) -> tuple[int, str] | None:
        if state is None:
            return None
        passed, note = state
        if passed == 2:
            emit(key + note)
        return passed + 1, note


@attrs.frozen
class Gaps(OpKeyedOrdered[str, Reading, Reading, Reading | None]):
    """As the README's FillGaps."""

    def initial_state(self) -> Reading | None:
        return None

    def on_item(self, state: Reading | None, key: str, value: Reading, emit: EmitValue[Reading]) -> Reading | None:
        if state is None:
            emit(value)
            return value
        gap = value.ts - state.ts
        for n in range(1, gap + 1):
            emit(Reading(key, state.ts + n, state.x + n * (value.x - state.x) / gap, n, state.note))
        return value


@attrs.frozen
class Reminder(OpKeyedOrdered[str, Reading, int, int | None]):
    """Is due long before the block of its item."""

    def initial_state(self) -> int | None:
        return None

    def on_item(self, state: int | None, key: str, value: Reading, emit: EmitValue[int]) -> int | None:
        return value.ts * 1_000_000 - 12_000_000

    def on_marker(self, state: int | None, key: str, marker: Any, emit: EmitValue[int]) -> int | None:
        if state is None or marker.micros < state:
            return state
        emit(state)
        return None

    def next_due(self, state: int | None, key: str) -> int | None:
        return state


OPERATORS: dict[str, Callable[[], Any]] = {
    "diff": lambda: diff(lambda r: r.x),
    "session": lambda: session(count(), gap=4, time=lambda r: r.ts),
    "window": lambda: count_window(total(lambda r: r.n, to=int), items=3),
    "scan": lambda: scan(total(lambda r: r.x, to=float)),
    "mean": lambda: ewm_mean(lambda r: r.x, half_life=30, time=lambda r: r.ts),
    "pairs": lambda: pairwise(lambda a, b: (a.note or "-") + (b.note or "+"), to=str),
    "rises": Rises,
    "changes": Changes,
    "alarm": Alarm,
    "gaps": Gaps,
    "reminder": Reminder,
}

CHAINS: dict[str, tuple[Callable[[], Any], ...]] = {
    **{name: (one,) for name, one in OPERATORS.items()},
    "two": (lambda: pairwise(lambda a, b: b.x - a.x, to=float), lambda: diff(lambda x: x)),
}


def flow_of(name: str) -> Dataflow:
    flow = Dataflow(f"ordered {name}")
    rows = flow.source("in", U[str, Reading], key=lambda r: r.device, markers=every(seconds=5, time=lambda r: r.ts, delay=3))
    stream: Any = rows.through(sort(by=lambda r: r.ts))
    for one in CHAINS[name]:
        stream = stream.through(one())
    flow.sink("out", stream)
    return flow


@cache
def compiled(name: str) -> Plans:
    return plans_of(flow_of(name))


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    return count_runs(monkeypatch, OrderedColumns)


READINGS = st.builds(
    Reading,
    st.sampled_from("abcde"),
    st.integers(0, 60),
    st.sampled_from([0.0, -0.0, 1.5, 4.25, 1e300, -1e300, float("nan"), float("inf"), 5.0, 6.5]),
    st.sampled_from([0, 1, 7, -3, 2**62, -(2**63), 2**63 - 1]),
    st.sampled_from([None, "", "x", "é"]),
)


@pytest.fixture
def machine(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Machine code is there from the first item on. Counts its runs."""
    pytest.importorskip("numba")
    run, start = MachineLoop.run, Compilation.start

    def counted(self: MachineLoop, *args: Any) -> Any:
        out = run(self, *args)
        columns["machine"] += 1
        return out

    def finished(self: Compilation) -> None:
        start(self)
        assert self._thread is not None
        self._thread.join()
        assert self.problem is None

    monkeypatch.setattr(MachineLoop, "run", counted)
    monkeypatch.setattr(Compilation, "start", finished)
    monkeypatch.setattr(limits, "COMPILED", 0)
    return columns


HAVE_CODE = ("diff", "session", "window", "mean", "rises", "changes", "gaps", "reminder", "two")
"""The others make texts, or exact sums."""


@pytest.mark.parametrize("name", HAVE_CODE)
def test_machine_code_tells_the_trace_of_the_definition(name: str, machine: Counter[str]) -> None:
    agree(name)
    assert machine["machine"]


@pytest.mark.parametrize("name", CHAINS)
def test_runs_over_columns_tell_the_trace_of_the_definition(name: str, columns: Counter[str]) -> None:
    agree(name)
    assert columns["items"]


def agree(name: str) -> None:
    plans = compiled(name)
    assert all(isinstance(step.ordered, Ordered) for stage in plans[1].stages for step in stage.steps[1:])

    @settings(deadline=None, max_examples=some(40))
    @given(st.lists(READINGS, max_size=60), st.integers(0, 1000), st.booleans())
    def one_run(rows: list[Reading], seed: int, changing: bool) -> None:
        assert answers_differ(plans, {"in": rows}, seed, changing=changing) is None

    one_run()


def test_a_long_run_of_one_key(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MANY", 4)
    chance = random.Random(1)
    rows = [
        Reading(chance.choice("a" * 8 + "bcdefgh"), at // 7, chance.choice([1.0, 4.0, 5.0, -1.0]), at % 9, chance.choice("xy"))
        for at in range(600)
    ]
    for name in CHAINS:
        checked, one, _ = compiled(name)
        before = columns["runs"]
        assert simulate(one, {"in": rows}, seed=3).trace == interpret_rows(checked, {"in": rows})[0]["out"], name
        assert columns["runs"] > before


def tame(count: int, seed: int = 1) -> list[Reading]:
    """Readings for which all operators have a value."""
    chance = random.Random(seed)
    return [
        Reading(chance.choice("abcdefgh"), at // 9, chance.choice([1.0, 4.0, 5.0, 6.5, -1.0]), at % 9, note)
        for at, note in zip(range(count), chance.choices(["x", "y", None], k=count), strict=True)
    ]


@pytest.mark.parametrize("name", CHAINS)
def test_tame_readings_never_go_back_to_objects(name: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_objects(monkeypatch)
    checked, one, _ = compiled(name)
    rows = tame(300)
    assert simulate(one, {"in": rows}, seed=3, steps=3).trace == interpret_rows(checked, {"in": rows})[0]["out"]
    assert columns["items"] == len(rows) * len(CHAINS[name]) - (len(CHAINS[name]) - 1) * len({row.device for row in rows})


@pytest.mark.parametrize("run", ["columns", "machine"])
def test_no_key_takes_markers_before_the_block_of_its_item(run: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(run)
    rows = [Reading(device, at, 1.0) for device in "abcdef" for at in (0, 40)]
    assert answers_differ(compiled("reminder"), {"in": rows}, 0, changing=False) is None


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next item of another key, and a state from before."""
    right = _Steps._on_item

    def of_the_next_item(self: Any, states: Any, keys: Any, rows: Any) -> Any:
        return right(self, states, keys, np.minimum(rows + 1, self.items.count - 1))

    def forgetful(self: Any, states: Any, keys: Any, rows: Any) -> Any:
        right(self, states, keys, rows)
        return states

    for broken in (of_the_next_item, forgetful):
        monkeypatch.setattr(_Steps, "_on_item", broken)
        for name in ("mean", "rises"):
            with pytest.raises(Difference) as caught:
                simulate(plan(compiled(name)[0], key_groups=1), {"in": tame(300)}, seed=1)
            assert caught.value.method == "on_item"


def test_few_emissions_of_an_item_are_compared(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One item may have a thousand million of them."""
    seen = list[Replay]()
    right_key, right_kernel = Replay.key, last_item.at_once

    def kept(self: Replay, *args: Any) -> Any:
        seen.append(self)
        return right_key(self, *args)

    def wrong(*args: Any) -> Any:
        after, out = right_kernel(*args)
        first = np.searchsorted(out.codes, np.unique(out.codes))
        rows = np.arange(len(out.codes))
        if len(rows) > 70 * 52:
            rows[first + 50] = first + 51
        return after, Emitted(out.codes, out.ends, take(out.values, rows))

    monkeypatch.setattr(Replay, "key", kept)
    rows = [Reading(f"d{number}", at, float(at)) for at in (0, 700) for number in range(70)]
    checked = compiled("gaps")[0]
    one = attrs.evolve(plan(checked, key_groups=1), verify_every=7)
    assert simulate(one, {"in": rows}, seed=1, steps=1).trace == interpret_rows(checked, {"in": rows})[0]["out"]
    assert columns["items"] == len(rows)
    assert max(len(replay.values) for replay in seen) == ordered_check.EMITTED
    monkeypatch.setattr(ordered_kernel, "at_once", wrong)
    with pytest.raises(Difference):
        simulate(one, {"in": rows}, seed=1, steps=1)


def test_what_threads_know_of_the_keys_of_a_state() -> None:
    """Each thread has kernels of its own, and a state is in one of them after the other: none of them takes a key that another
    one has added for a new one."""
    form = compiled("diff")[1].stages[-1].steps[-1].ordered
    assert isinstance(form, Ordered)
    one, other = OrderedStates(form), OrderedStates(form)
    state = one.of({str(number): None for number in range(100)})

    def take(states: OrderedStates, key: str) -> None:
        keys: Any = from_arrow(form.key, array(form.key, [key]))
        states.change(state, keys, slots_of(state, keys, 1), states.first)

    for states, key in ((one, "3"), (other, "4"), (one, "new"), (other, "new"), (other, "newer"), (one, "newer")):
        take(states, key)
    assert state.count == 102
