"""Rows as columns must be told apart into blocks, late rows and key groups exactly as rows one by one."""

from __future__ import annotations

import gc
import random
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.dictionaries import encoded
from tests.strategies import values
from tracetypes import Dataflow, Marker, OpKeyedOrdered, OpKeyedUnordered, OpStateless, Stream, U, check, every
from tracetypes.canonical import stable_hash
from tracetypes.compiler.analysis.monoids import Part
from tracetypes.compiler.columns import groups
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.batches import decode
from tracetypes.compiler.columns.coded_arrays import without_dictionaries
from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.groups import Groups, codes_of, groups_of
from tracetypes.compiler.columns.runs import array_of_numbers
from tracetypes.compiler.plan.explain import stateless_runs
from tracetypes.compiler.plan.plan import SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import chunks, limits
from tracetypes.compiler.runtime.chunks import Chunk, hashes, place, scatter
from tracetypes.compiler.runtime.messages import Aggregates, Items, Message, Report, SideRows
from tracetypes.compiler.runtime.partial_aggregation import reduce_by_key
from tracetypes.compiler.runtime.source import SourceKernel, TakenRow
from tracetypes.compiler.runtime.stage import rarely_collected
from tracetypes.compiler.wire.messages import encode
from tracetypes.edges import O
from tracetypes.markers import EventTime
from tracetypes.nodes import ROW_POSITION
from tracetypes.records import Boolean, Integer, Optional, Schema, String, Timestamp, UnitValue
from tracetypes.schemas import schema_of
from tracetypes.sources import reader


@attrs.frozen
class Event:
    value: int
    ts: int
    weight: float = 0.0


@attrs.frozen
class Half(OpStateless[str, Event, str, Event]):
    def on_item(self, key: str, value: Event, emit: Callable[[str, Event], None]) -> None:
        if value.value % 2:
            emit(key + "!", Event(value.value // 2, value.ts))


@attrs.frozen
class Hidden(OpStateless[str, Event, str, Event]):
    """Nothing, one or two items for each, by Python that nobody looks into."""

    def on_item(self, key: str, value: Event, emit: Callable[[str, Event], None]) -> None:
        for at in range(zlib.crc32(key.encode()) % 3):
            emit(key, Event(value.value + at, value.ts))


@attrs.frozen
class Uneven(OpStateless[str, Event, str, Event]):
    """As :class:`Hidden`, with weights that have to be converted for one key, one item at a time."""

    def on_item(self, key: str, value: Event, emit: Callable[[str, Event], None]) -> None:
        for at in range(zlib.crc32(key.encode()) % 3):
            emit(key, Event(value.value + at, value.ts, 1 if key[0] == HEAVY else 0.5))


HEAVY = "b"


@attrs.frozen
class Hinted(Uneven):
    def prefetch(self, items: Sequence[tuple[str, Event]]) -> None:
        assert items


@attrs.frozen
class Twice(OpStateless[str, Event, str, Event]):
    def on_item(self, key: str, value: Event, emit: Callable[[str, Event], None]) -> None:
        emit(key, Event(0, value.ts))
        emit(key, value)


@attrs.frozen
class Wide(OpStateless[str, Event, str, Event]):
    """Numbers on the way are too large for columns, and the last ones are not."""

    def on_item(self, key: str, value: Event, emit: Callable[[str, Event], None]) -> None:
        emit(key, Event(value.value * 2**60 // 2**60, value.ts, value.weight))


PATHS: dict[str, tuple[type[OpStateless[str, Event, str, Event]], ...]] = {
    "plain": (),
    "mapped": (Half,),
    "hidden": (Hidden,),
    "hidden, mapped": (Hidden, Half),
    "between": (Half, Hidden, Half, Hidden, Half),
    "uneven": (Uneven,),
    "between uneven": (Half, Uneven, Half, Hidden, Half),
    "hinted": (Hidden, Hinted, Half),
    "wide": (Twice, Uneven, Wide),
    "hinted wide": (Twice, Hinted, Wide),
}


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
    else:
        stream: Stream[U[str, Event]] = flow.source("in", U[str, Event], markers=markers)
        for op in PATHS[kind]:
            stream = stream.through(op())
        flow.sink("out", stream)
    planned = plan(check(flow), parallelism=2, key_groups=3)
    (link,) = links(planned.stages[0].region)
    assert isinstance(link, SourceLink)
    return SourceKernel(planned.stages[0], link, 3)


def seen(kernel: SourceKernel, messages: list[Message]) -> tuple[Any, ...]:
    """What a stage learns from messages, in an order that does not matter."""
    items: list[Any] = []
    for message in messages:
        if isinstance(message.body, Items):
            batch = decode(kernel.partitioner.stream, message.body.batch)
            places: list[Any] = batch.positions or [None] * len(batch)
            rows = zip(batch.keys, batch.values, batch.ends, places, strict=True)
            items += [(message.group, k, v, e, p) for k, v, e, p in rows]
        elif isinstance(message.body, SideRows):
            about = message.body
            where = message.group, about.holds, about.source, about.link, about.piece
            items += [(*where, *row.items()) for row in about.batch.to_pylist()]
    rest = sorted(encode(message) for message in messages if not isinstance(message.body, Items | SideRows))
    return sorted(items, key=repr), rest


EVENTS = st.lists(st.tuples(st.sampled_from("abg"), st.integers(-20, 20), st.integers(-30, 60)), max_size=30)
MIXED = [(key, value, ts) for ts in (0, 3) for value in (3, 7, 15) for key in "gabg"]


@pytest.mark.parametrize("kind", [*PATHS, "ordered"])
@given(
    rows=EVENTS,
    cut=st.integers(0, 30),
    period=st.integers(1, 20),
    delay=st.integers(0, 20),
    before=st.none() | st.integers(-9, 40),
    slab=st.sampled_from([1, 2, 5, limits.SLAB]),
)
@example(rows=MIXED, cut=0, period=20, delay=0, before=None, slab=1)
@example(rows=MIXED, cut=12, period=2, delay=2, before=None, slab=5)
def test_columns_are_taken_as_rows_are(
    kind: str, rows: list[tuple[str, int, int]], cut: int, period: int, delay: int, before: int | None, slab: int
) -> None:
    kernel = kernel_of(kind, period, delay)
    read = reader(kernel.leaf.source).read
    one_by_one = [TakenRow(read(key, Event(value, ts)), lambda: "") for key, value, ts in rows]
    micros = None if before is None else before * 1_000_000
    expected = seen(kernel, list(kernel.piece((1, 2, 3), one_by_one, micros)))

    def chunk(part: list[tuple[str, int, int]]) -> Chunk:
        stream = kernel.leaf.stream

        times = np.array([ts * 1_000_000 for _, _, ts in part], np.int64)
        keys = array(stream.key, [key for key, _, _ in part])
        return Chunk.of(times, keys, array(stream.value, [Event(value, ts) for _, value, ts in part]))

    chunks = [chunk(part) for part in (rows[:cut], rows[cut:]) if part]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SLAB", slab)
        assert seen(kernel, list(kernel.piece((1, 2, 3), chunks, micros))) == expected


def test_what_stands_behind_the_last_opaque_operator_takes_columns() -> None:
    kernel = kernel_of("between", 10, 0)
    assert (len(kernel.trees), len(kernel.opaque), len(kernel.behind)) == (1, 3, 1)
    runs = list(stateless_runs(kernel.link))
    assert [one.native for one in runs] == [True, False, False, False, True]
    assert runs[2].reason == "Hidden beside it runs in Python"


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


# ------------------------------------------------------------------------------------------- text by its entries


@given(rows=st.lists(st.sampled_from(["view", "", "é", "click"])), repeat=st.integers(1, 4), seed=st.integers(0, 99))
def test_hashes_of_dictionaries_are_the_stable_hashes(rows: list[str], repeat: int, seed: int) -> None:
    keys = rows * repeat
    each = stable_hash(String())
    column = encoded(String(), array(String(), keys), random.Random(seed))
    assert hashes(String(), column).tolist() == [each(key) for key in keys]


def test_keys_that_are_dictionaries_go_to_the_same_groups() -> None:
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 2], pa.int32()), pa.array(["a", "b", "c"]))
    sent = {group: without_dictionaries(one) for group, one in scatter(String(), keys, {"end": pa.array([1, 2, 3, 4])}, 3)}
    plain = dict(scatter(String(), keys.dictionary_decode(), {"end": pa.array([1, 2, 3, 4])}, 3))
    assert sent == plain


@attrs.frozen
class Visit:
    user: str
    page: str | None
    kind: str
    ts: int


@attrs.frozen
class Count(OpKeyedUnordered[str, Visit, str, int, int, tuple[int, int, int]]):
    """Sums of numbers that follow from text, and a largest one."""

    def lift(self, key: str, value: Visit) -> tuple[int, int, int]:
        sign = 5 if value.kind == "view" else -1
        if value.kind not in LEVELS:
            return sign, 0, value.ts
        return sign, LEVELS[value.kind], value.ts

    def identity(self) -> tuple[int, int, int]:
        return 0, 0, -(2**40)

    def combine(self, a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
        return a[0] + b[0], a[1] + b[1], a[2] if a[2] > b[2] else b[2]

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: tuple[int, int, int]) -> int:
        return state + agg[0] + agg[1] + agg[2]

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Callable[[str, int], None]) -> None:
        emit(key, new_state)


LEVELS = {"view": 7, "click": 2**61, "never": 2**63 - 1}
PAGES = {"p": "home", "q": "home", "r": "shop"}


@attrs.frozen
class ByPage(OpStateless[str, Visit, str, Visit]):
    def on_item(self, key: str, value: Visit, emit: Callable[[str, Visit], None]) -> None:
        if value.page is not None and value.page in PAGES and value.user != "nobody":
            emit(PAGES[value.page], value)
        elif value.kind == "click":
            emit(value.kind + "!", value)


def visits(kind: str) -> SourceKernel:
    flow = Dataflow("visits")
    stream: Stream[U[str, Visit]] = flow.source("in", U[str, Visit], markers=every(seconds=10, time=lambda e: e.ts))
    if kind != "counted":
        stream = stream.through(ByPage())
    flow.sink("out", stream if kind == "mapped" else stream.through(Count()))
    planned = plan(check(flow), parallelism=2, key_groups=3)
    (link,) = links(planned.stages[0].region)
    assert isinstance(link, SourceLink)
    return SourceKernel(planned.stages[0], link, 3)


def told(kernel: SourceKernel, messages: list[Message]) -> list[Any]:
    """What messages hold, in an order that does not matter."""
    made: list[Any] = []
    for message in messages:
        group, kind = message.group, type(message.body).__name__
        if isinstance(message.body, Items | Aggregates):
            rows = message.body.batch if isinstance(message.body, Items) else message.body.rows.to_arrow()
            assert rows.schema.field("key").type == pa.string()
            made += [(group, kind, repr(row)) for row in rows.to_pylist()]
        elif isinstance(message.body, SideRows):
            made += [(group, kind, repr(row)) for row in message.body.batch.to_pylist()]
        else:
            made.append((group, kind, repr(encode(message))))
    return sorted(made)


VISITS = st.lists(
    st.builds(
        Visit,
        st.sampled_from(["ann", "bob", "nobody"]),
        st.none() | st.sampled_from(["p", "q", "r", "s"]),
        st.sampled_from(["view", "click", "buy"]),
        st.integers(0, 60),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", ["counted", "mapped", "both"])
@given(some=VISITS, repeat=st.integers(1, 9), before=st.none() | st.integers(0, 30), seed=st.integers(0, 99))
def test_dictionaries_are_taken_as_text_is(
    kind: str, some: list[Visit], repeat: int, before: int | None, seed: int
) -> None:
    kernel, values = visits(kind), some * repeat
    micros = None if before is None else before * 1_000_000
    keys = array(String(), [value.user for value in values])
    schema = kernel.leaf.stream.value
    column = array(schema, values)
    chance = random.Random(seed)

    def chunk(keys: Any, column: Any) -> Chunk:
        times = np.array([value.ts * 1_000_000 for value in values], np.int64)
        return Chunk.of(times, keys, column)

    plain = told(kernel, list(kernel.piece((1, 2, 3), [chunk(keys, column)], micros)))
    coded = chunk(encoded(String(), keys, chance), encoded(schema, column, chance))
    assert told(kernel, list(kernel.piece((1, 2, 3), [coded], micros))) == plain


@pytest.mark.parametrize("kind", ["counted", "both"])
def test_dictionaries_are_not_decoded(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Keys are grouped and numbers are summed by the codes: only which rows a condition lets through is told row by row,
    and the keys of aggregates."""
    plain = DictionaryEncoded.plain

    def decided(self: DictionaryEncoded) -> Any:
        combined = len(self) < 60
        assert combined or isinstance(self.dictionary, np.ndarray)
        assert combined or self.dictionary.dtype == np.bool_
        return plain(self)

    monkeypatch.setattr(DictionaryEncoded, "plain", decided)
    kernel = visits(kind)
    values = [Visit("ann", "pqr"[n % 3], "view", n) for n in range(60)]
    keys, column = array(String(), [value.user for value in values]), array(kernel.leaf.stream.value, values)
    chance = random.Random(1)
    coded = encoded(String(), keys, chance), encoded(kernel.leaf.stream.value, column, chance)
    chunk = Chunk.of(np.array([value.ts * 1_000_000 for value in values]), *coded)
    kinds = {type(message.body) for message in kernel.piece((1, 2, 3), [chunk], None)}
    assert kinds == {Aggregates, Report}


@pytest.mark.parametrize("width", [pa.int8(), pa.uint8(), pa.uint64()], ids=str)
def test_codes_of_any_width(width: Any) -> None:
    texts = [None, *(f"{n:03d}" for n in range(128))] * 2
    entries = sorted({text for text in texts if text is not None})
    codes = pa.array([None if text is None else entries.index(text) for text in texts], width)
    column = from_arrow(Optional(String()), pa.DictionaryArray.from_arrays(codes, pa.array(entries)))
    found = groups_of(column, len(texts))
    assert found.number == 129
    assert [texts[at] for at in found.first[found.of_row].tolist()] == texts


def test_a_number_that_no_row_has_makes_no_sum_too_large() -> None:
    """``LEVELS`` holds one that is too large to be added up often."""
    kinds = DictionaryEncoded(np.array([0, 1, 0, 0]), np.array([7, -2, 2**63 - 1], np.int64))
    part = Part((), Integer(), "sum")
    key = Column(String(), pa.array(["a", "b", "b", "a"]))
    made = reduce_by_key([part], np.zeros(4, np.int64), key, [Column(Integer(), kinds)], 4)
    keys = values_of(made.keys, 2)
    assert dict(zip(keys, made.parts[0].values.tolist(), strict=True)) == {"a": 14, "b": 5}


GROUPED = st.lists(st.integers(-3, 3) | st.sampled_from([-(2**63), 2**62, 2**63 - 1, 0]), max_size=20)


@given(
    numbers=GROUPED,
    scale=st.sampled_from([1, 20, 10_000_000]),
    run=st.sampled_from([1, 40]),
    big=st.booleans(),
    narrow=st.sampled_from([1, 8, groups.NARROW]),
)
@example(numbers=[-(2**63), 2**62], scale=1, run=1, big=True, narrow=groups.NARROW)
def test_groups_of_integers(numbers: list[int], scale: int, run: int, big: bool, narrow: int) -> None:
    """Few or many in a row, near and far apart."""
    rows = [n if big else n % 7 * scale for n in numbers for _ in range(run)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "NARROW", narrow)
        found = groups_of(Column(Integer(), np.array(rows, np.int64)), len(rows))
    first = {row: rows.index(row) for row in rows}
    assert sorted(found.first.tolist()) == sorted(first.values())
    assert [rows[at] for at in found.first[found.of_row].tolist()] == rows
    assert found.sizes.tolist() == [rows.count(rows[at]) for at in found.first.tolist()]


@given(st.lists(st.integers(0, 5), max_size=60), st.sampled_from([1, 4, 64]))
def test_a_row_of_each_group(codes: list[int], per_group: int) -> None:
    """Whether or not a few rows have one of each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "PER_GROUP", per_group)
        found = Groups.of(np.array(codes, np.int64), 6)
        assert found.of_row[found.any_row].tolist() == list(range(found.number))


@given(rows=st.lists(st.none() | st.sampled_from("abcd"), max_size=20), seed=st.integers(0, 99))
def test_groups_of_dictionaries(rows: list[str | None], seed: int) -> None:
    """Equal entries are one key."""
    column = from_arrow(Optional(String()), encoded(String(), pa.array(rows, pa.string()), random.Random(seed)))
    found = groups_of(column, len(rows))
    assert found.number == len(set(rows))
    assert [rows[at] for at in found.first[found.of_row].tolist()] == rows


def test_the_measure_of_the_cycle_collector_is_restored_by_the_last_thread() -> None:
    usual = gc.get_threshold()
    with rarely_collected.during(0):
        second = threading.Barrier(2)

        def hold() -> None:
            with rarely_collected.during(0):
                second.wait()
                second.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        second.wait()
    assert gc.get_threshold() != usual
    second.wait()
    thread.join()
    assert gc.get_threshold() == usual


def test_keys_beside_blocks_far_apart_are_looked_up_in_a_table() -> None:
    """Two blocks a second apart are two, not a million: times the number of keys that would be too many for a table."""
    ends, key = np.repeat([1_000_000, 2_000_000], 200_000), Column(Integer(), np.arange(400_000) % 1000)
    codes, number = codes_of(ends, key, len(ends))
    assert number == 2000
    assert len(np.unique(codes)) == 2000


@given(
    st.lists(st.integers(-(10**9), 10**9) | st.integers(-20, 20), min_size=1, max_size=12),
    st.integers(1, 5) | st.sampled_from([1_500, 7_000_000, 1_000_001]),
    st.booleans(),
    st.sampled_from([1, 1_000, 1_000_000]),
    st.data(),
)
def test_blocks_of_times_in_order_are_those_of_each_time(
    times: list[int], period: int, long: bool, unit: int, data: st.DataObject
) -> None:
    how = EventTime(period, 0, lambda value: value, "us")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "LONG", 1e-9 if long else 1e9)
        numbers = np.array(sorted(times), np.int64)
        if long and int(numbers[-1] - numbers[0]) * unit // how.period > 10**4:
            numbers = numbers[:1]
        placed = place(how, Chunk(numbers, lambda _: None, unit=unit), None)
    ends = [(time * unit // how.period + 1) * how.period for time in numbers.tolist()]
    assert array_of_numbers(placed.ends).tolist() == ends
    assert set(placed.blocks) == set(ends)
    assert placed.newest == int(numbers[-1]) * unit
    rows = sorted(data.draw(st.lists(st.integers(0, len(ends) - 1))))
    assert array_of_numbers(placed.ends_of(np.array(rows, np.int64))).tolist() == [ends[row] for row in rows]
    assert placed.ends_of(None) is placed.ends
