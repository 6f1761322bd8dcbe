"""Rows as columns must be told apart into blocks, late rows and key groups exactly as rows one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import values
from tracetypes import Dataflow, OpKeyedOrdered, OpStateless, U, check, every
from tracetypes.compiler.chunks import Chunk, hashes
from tracetypes.compiler.columns import array, decode
from tracetypes.compiler.kernels import SourceKernel, Taken
from tracetypes.compiler.messages import Kind, Message
from tracetypes.compiler.plan import links
from tracetypes.compiler.planner import plan
from tracetypes.edges import O
from tracetypes.formats import Row
from tracetypes.graph import ROW_POSITION
from tracetypes.records import Boolean, Integer, Schema, String, Timestamp, UnitValue, schema_of, stable_hash
from tracetypes.sources import reader


@attrs.frozen
class Event:
    value: int
    ts: int


@attrs.frozen
class Half(OpStateless[str, Event, str, Event]):
    def on_item(self, key: str, value: Event, emit: Callable[[str, Event], None]) -> None:
        if value.value % 2:
            emit(key + "!", Event(value.value // 2, value.ts))


@attrs.frozen
class Last(OpKeyedOrdered[str, Event, Event, int]):
    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Event, emit: Callable[[Event], None]) -> int:
        emit(Event(state, value.ts))
        return value.value


def kernel_of(kind: str, period: int, delay: int) -> SourceKernel:
    flow = Dataflow("chunks")
    markers = every(seconds=period, time=lambda e: e.ts, delay=delay)
    if kind == "ordered":
        flow.sink("out", flow.source("in", O[str, Event], markers=markers, ordered_by=ROW_POSITION).through(Last()))
    elif kind == "mapped":
        flow.sink("out", flow.source("in", U[str, Event], markers=markers).through(Half()))
    else:
        flow.sink("out", flow.source("in", U[str, Event], markers=markers))
    planned = plan(check(flow), parallelism=2, key_groups=3)
    (link,) = links(planned.stages[0].region)
    return SourceKernel(planned.stages[0], link, 3)


def seen(kernel: SourceKernel, messages: list[Message]) -> tuple[Any, ...]:
    """What a stage learns from messages, in an order that does not matter."""
    items: list[Any] = []
    for message in messages:
        if message.kind == Kind.ITEMS:
            batch = decode(kernel.outbox.stream, message.payload)
            places: list[Any] = batch.positions or [None] * len(batch)
            rows = zip(batch.keys, batch.values, batch.ends, places, strict=True)
            items += [(message.group, k, v.value, v.ts, e, p) for k, v, e, p in rows]
    rest = sorted((m.group, m.kind, m.header, m.payload) for m in messages if m.kind != Kind.ITEMS)
    return sorted(items, key=repr), rest


EVENTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5), st.integers(-30, 60)), max_size=30)


@pytest.mark.parametrize("kind", ["plain", "mapped", "ordered"])
@given(
    rows=EVENTS,
    cut=st.integers(0, 30),
    period=st.integers(1, 20),
    delay=st.integers(0, 20),
    before=st.none() | st.integers(-9, 40),
)
def test_columns_are_taken_as_rows_are(
    kind: str, rows: list[tuple[str, int, int]], cut: int, period: int, delay: int, before: int | None
) -> None:
    kernel = kernel_of(kind, period, delay)
    read = reader(kernel.leaf.source).read
    one_by_one = [Taken(read(key, Event(value, ts)), lambda: "") for key, value, ts in rows]
    micros = None if before is None else before * 1_000_000
    expected = seen(kernel, list(kernel.piece((1, 2, 3), one_by_one, micros)))

    def chunk(part: list[tuple[str, int, int]]) -> Chunk:
        stream = kernel.leaf.stream

        def row(at: int) -> Row:
            return read(part[at][0], Event(part[at][1], part[at][2]))

        times = np.array([ts * 1_000_000 for _, _, ts in part], np.int64)
        keys = array(stream.key, [key for key, _, _ in part])
        return Chunk.of(times, keys, array(stream.value, [Event(value, ts) for _, value, ts in part]), row)

    chunks = [chunk(part) for part in (rows[:cut], rows[cut:]) if part]
    assert seen(kernel, list(kernel.piece((1, 2, 3), chunks, micros))) == expected


@pytest.mark.parametrize("schema", [Integer(), String(), Boolean(), Timestamp(), UnitValue()], ids=str)
@given(data=st.data())
def test_hashes_of_columns_are_the_stable_hashes(schema: Schema, data: st.DataObject) -> None:
    keys = data.draw(st.lists(values(schema), max_size=20))
    each = stable_hash(schema)
    assert hashes(schema, array(schema, keys)).tolist() == [each(key) for key in keys]


def test_hashes_of_integers_wrap_as_the_scalar_does() -> None:
    keys = [0, 1, -1, 2**63 - 1, -(2**63), 12345678901234567]
    each = stable_hash(schema_of(int))
    assert hashes(Integer(), pa.array(keys, pa.int64())).tolist() == [each(key) for key in keys]
