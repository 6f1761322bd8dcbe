"""An optional record that is passed on as a whole stays columns: nobody looks whether it is there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.runtime.flows import KeyedFlow, read_by, through_one
from tracetypes.compiler.runtime.sampled_arguments import Reads
from tracetypes.compiler.tracing.expr import Branch
from tracetypes.compiler.tracing.tracer import Given, trace
from tracetypes.edges import EdgeType
from tracetypes.schemas import schema_of
from tracetypes.trace import stream_type


@attrs.frozen
class Inner:
    """Inside what may be missing."""

    day: dt.date
    note: str | None


@attrs.frozen
class Place:
    """What may be missing."""

    x: float
    inner: Inner | None
    sure: Inner
    many: tuple[int, ...]


@attrs.frozen
class Value:
    """With what may be missing."""

    n: int
    place: Place | None
    other: Place | None


INNERS = st.builds(Inner, st.dates(), st.none() | st.sampled_from(["", "a", "é"]))
PLACES = st.builds(
    Place, st.floats(allow_nan=False), st.none() | INNERS, INNERS, st.lists(st.integers(0, 3), max_size=2).map(tuple)
)
VALUES = st.builds(Value, st.integers(-5, 5), st.none() | PLACES, st.none() | PLACES)

Emit = Callable[[Any, Any], None]


def plus_one(key: str, value: Value, emit: Emit) -> None:
    emit(key, attrs.evolve(value, n=value.n + 1))


def turned(key: str, value: Value, emit: Emit) -> None:
    emit(key, Value(value.n, value.other, value.place))


def positive(key: str, value: Value, emit: Emit) -> None:
    if value.n > 0:
        emit(key, value)


def twice(key: str, value: Value, emit: Emit) -> None:
    emit(key, value)
    emit(key, Value(0, value.place, value.place))


def one_is_looked_at(key: str, value: Value, emit: Emit) -> None:
    emit(key, Value(value.n if value.place is None else int(value.place.x > 0), value.place, value.other))


def none_of_one(key: str, value: Value, emit: Emit) -> None:
    emit(key, Value(value.n, None, value.other))


STREAM = stream_type(EdgeType(False, str, Value))
OPERATORS = [plus_one, turned, positive, twice, one_is_looked_at, none_of_one]


def traced(function: Any) -> Any:
    return trace(function, (Given("key", schema_of(str)), Given("value", schema_of(Value))), emits="pairs")


TREES = {function: traced(function) for function in OPERATORS}


@pytest.mark.parametrize("function", OPERATORS)
@given(values=st.lists(VALUES, min_size=1, max_size=12), as_arrow=st.booleans())
def test_columns_pass_on_what_python_passes_on(function: Any, values: list[Value], as_arrow: bool) -> None:
    """``as_arrow``: the inputs are read from Arrow arrays, as behind a source; else from columns."""
    keys, column = array(STREAM.key, ["k"] * len(values)), array(STREAM.value, values)
    flow = KeyedFlow.of(from_arrow(STREAM.key, keys), from_arrow(STREAM.value, column), len(values))
    if as_arrow:
        flow = attrs.evolve(flow, inputs=read_by(lambda path: inside(keys if path[0] == "key" else column, path[1:])))
    wanted = [list[Any]() for _ in values]
    for emitted, value in zip(wanted, values, strict=True):
        function("k", value, lambda key, one, emitted=emitted: emitted.append(one))
    for _ in range(6):  # the generated code of the tree comes with the fifth evaluation
        found = [list[Any]() for _ in values]
        for one in through_one(TREES[function], STREAM, flow, None, 0):
            rows = np.arange(len(values)) if one.rows is None else one.rows
            for row, value in zip(rows.tolist(), one.pairs()[1], strict=True):
                found[row].append(value)
        assert found == wanted


def inside(column: Any, path: tuple[Any, ...]) -> Any:
    """The column of a field: missing where what it is in is."""
    for name in path:
        column = column.flatten()[column.type.get_field_index(name)]
    return column


@pytest.mark.parametrize("function", OPERATORS)
@given(values=st.lists(VALUES, min_size=1, max_size=6))
def test_the_sampled_check_gives_python_the_whole_record(function: Any, values: list[Value]) -> None:
    reads = Reads.of(TREES[function])
    flow = KeyedFlow.of(
        from_arrow(STREAM.key, array(STREAM.key, ["k"] * len(values))),
        from_arrow(STREAM.value, array(STREAM.value, values)),
        len(values),
    )
    sample = reads.sample(flow.inputs, np.arange(len(values)))
    for value, given_value in zip(values, sample.arguments(STREAM.value, ("value",), len(values)), strict=True):
        wanted, found = list[Any](), list[Any]()
        function("k", value, lambda _, one, wanted=wanted: wanted.append(one))
        function("k", given_value, lambda _, one, found=found: found.append(one))
        assert found == wanted


def test_nobody_looks_whether_it_is_there() -> None:
    assert not isinstance(TREES[plus_one], Branch)
