"""An operator that catches the error of its own ``emit``: the item would be lost in silence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

import tracetypes
from tracetypes import (
    Dataflow,
    Emit,
    EmitValue,
    Marker,
    OperatorFailed,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    U,
    check,
    every,
    interpret_rows,
    sort,
)

WRONG: Any = "text"
COUNT = 600
"""More rows, and markers, than a run looks at twice."""


def caught(emit: Callable[[], None]) -> None:
    """Call, and go on whatever happens."""
    try:
        emit()
    except Exception:
        return


@attrs.frozen
class Items(OpStateless[str, int, str, list[int]]):
    """``at``: the item for which it emits a value of another type."""

    at: int

    def on_item(self, key: str, value: int, emit: Emit[str, list[int]]) -> None:
        caught(lambda: emit(key, WRONG if value == self.at else [value]))


@attrs.frozen
class Numbers(OpStateless[str, int, str, int]):
    """As :class:`Items`, of a type that columns can check."""

    at: int

    def on_item(self, key: str, value: int, emit: Emit[str, int]) -> None:
        caught(lambda: emit(key, WRONG if value == self.at else value))


@attrs.frozen
class Markers(OpStateless[str, int, str, int]):
    at: int

    def on_item(self, key: str, value: int, emit: Emit[str, int]) -> None:
        emit(key, value)

    def on_marker(self, marker: Marker, emit: Emit[str, int]) -> None:
        caught(lambda: emit("a", WRONG if marker.micros > self.at * 1_000_000 else 1))


@attrs.frozen
class InOrder(OpKeyedOrdered[str, int, list[int], int]):
    at: int

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: int, emit: EmitValue[list[int]]) -> int:
        caught(lambda: emit(WRONG if value == self.at else [value]))
        return state + 1


@attrs.frozen
class Sums(OpKeyedUnordered[str, int, str, int, int, int]):
    at: int

    def lift(self, key: str, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return max(a, b)

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return max(state, agg)

    def on_marker(self, state: int, key: str, marker: Marker, emit: Emit[str, int]) -> None:
        caught(lambda: emit(key, WRONG if state >= self.at else state))


def flow_of(op: Any) -> Dataflow:
    flow = Dataflow("caught")
    stream: Any = flow.source("in", U[str, int], key=lambda value: "a", markers=every(seconds=1, time=lambda value: value))
    flow.sink("out", (stream.through(sort(by=lambda value: value)) if isinstance(op, InOrder) else stream).through(op))
    return flow


OPERATORS: Sequence[Any] = (Items, Numbers, Markers, InOrder, Sums)


@pytest.mark.parametrize("at", [0, COUNT - 2])
@pytest.mark.parametrize("make", OPERATORS)
def test_TT206_is_raised_although_the_operator_caught_it(make: Any, at: int) -> None:
    flow = flow_of(make(at))
    with pytest.raises(OperatorFailed, match=f"TT206 {make.__name__} emitted"):
        interpret_rows(check(flow), {"in": range(COUNT)})
    with pytest.raises(OperatorFailed, match=f"TT206 {make.__name__} emitted"):
        tracetypes.run(flow, {"in": range(COUNT)}, {"out": []}, backend="local")


@pytest.mark.parametrize("make", OPERATORS)
def test_an_operator_that_catches_nothing_runs(make: Any) -> None:
    rows: list[Any] = []
    tracetypes.run(flow_of(make(10**6)), {"in": range(COUNT)}, {"out": rows}, backend="local")
    assert rows


def test_TT202_a_call_of_emit_that_the_operator_caught() -> None:
    @attrs.frozen
    class OneArgument(OpStateless[str, int, str, int]):
        def on_item(self, key: str, value: int, emit: Any) -> None:
            caught(lambda: emit(value))

    with pytest.raises(OperatorFailed, match=r"TT202(.|\n)*emit\(\) missing 1 required positional argument"):
        tracetypes.run(flow_of(OneArgument()), {"in": range(3)}, {"out": []}, backend="local")
