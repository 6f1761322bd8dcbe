"""What of a graph may change under a checkpoint, and that a plan which may go on with what another has left behind does so."""

from __future__ import annotations

import collections
import copy
import decimal
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar, get_args, get_origin

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.graphs import Case, cases
from tests.test_simulate import differences
from tracetypes import (
    Dataflow,
    Marker,
    O,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    U,
    UsageError,
    avro,
    check,
    csv,
    every,
    in_band,
    interpret_rows,
    json_lines,
    kafka,
    merge,
    parquet,
    sort,
)
from tracetypes.compiler.analysis import content as module
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.plan import planner
from tracetypes.compiler.plan.fingerprint import FIELDS, Fingerprint, fingerprint
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.open_blocks import FoldedBlocks, ObjectBlocks
from tracetypes.compiler.runtime.open_columns import ColumnBlocks
from tracetypes.compiler.runtime.open_tables import TableBlocks
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.errors import OperatorFailed
from tracetypes.formats import Avro, Csv, Format, JsonLines, Kafka, Layout, Parquet
from tracetypes.gates import sequence
from tracetypes.markers import EventTime, InBand, Markers
from tracetypes.nodes import Apply, Gate, Merge, Node, Receive, Sink, Sort, Source
from tracetypes.stdlib import kmeans
from tracetypes.stdlib.clusters import KMeans


@attrs.frozen
class Item:
    id: str
    ts: int
    n: int


@attrs.frozen
class Wider:
    id: str
    ts: int
    n: int
    note: str = ""


@attrs.frozen
class Tally:
    count: int


@attrs.frozen
class TallyAndLast:
    count: int
    last: int | None


def id_of(value: Any) -> str:
    return str(value.id)


def ts_of(value: Any) -> int:
    return int(value.ts)


@attrs.frozen
class Scale(OpStateless[str, Item, str, Item]):
    by: int

    def on_item(self, key: str, value: Item, emit: Callable[[str, Item], None]) -> None:
        emit(key, Item(value.id, value.ts, value.n * self.by))


@attrs.frozen
class Widen(OpStateless[str, Item, str, Wider]):
    def on_item(self, key: str, value: Item, emit: Callable[[str, Wider], None]) -> None:
        emit(key, Wider(value.id, value.ts, value.n))


@attrs.frozen
class Counted(OpStateless[str, Tally, str, int]):
    def on_item(self, key: str, value: Tally, emit: Callable[[str, int], None]) -> None:
        emit(key, value.count)


T = TypeVar("T")


@attrs.frozen
class Count(OpKeyedUnordered[str, T, str, Tally, Tally, int], Generic[T]):
    """How many so far."""

    weight: int = 1

    def lift(self, key: str, value: T) -> int:
        return self.weight

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> Tally:
        return Tally(0)

    def update_state(self, state: Tally, agg: int) -> Tally:
        return Tally(state.count + agg)

    def on_marker(self, new_state: Tally, key: str, marker: Marker, emit: Callable[[str, Tally], None]) -> None:
        emit(key, new_state)


@attrs.frozen
class Recount(Count[T], Generic[T]):
    """The same under another name."""


def count_with(**methods: Any) -> Any:
    """A class ``Count`` whose code is other."""
    made = type("Count", (Count,), {"__module__": __name__, **methods})
    made.__qualname__ = "Count"
    return made()


def count_to(state: Any, start: Any, new: Callable[[Any, int], Any]) -> Any:
    """A class ``Count`` with another state."""
    base: Any = OpKeyedUnordered[str, Item, str, Tally, state, int]
    same = {name: getattr(Count, name) for name in ("lift", "identity", "combine")}

    class Made(base):  # type: ignore[misc]
        weight = 1

        def initial_state(self) -> Any:
            return start

        def update_state(self, state: Any, agg: int) -> Any:
            return new(state, agg)

        def on_marker(self, new_state: Any, key: str, marker: Marker, emit: Callable[[str, Tally], None]) -> None:
            emit(key, Tally(int(new_state)))

    for name, method in same.items():
        setattr(Made, name, method)
    Made.__abstractmethods__ = frozenset()
    Made.__qualname__ = "Count"
    return attrs.frozen(Made)()


@attrs.frozen
class Latest(OpKeyedOrdered[str, T, T, T | None], Generic[T]):
    """The last value, at each item."""

    def initial_state(self) -> T | None:
        return None

    def on_item(self, state: T | None, key: str, value: T, emit: Callable[[T], None]) -> T | None:
        emit(value)
        return value


def flow(
    *links: Any,
    keyed: Any = Count(),
    behind: tuple[Any, ...] = (),
    delay: int = 0,
    name: str = "items",
    sink: str = "out",
    **options: Any,
) -> Dataflow:
    made = Dataflow("changing")
    at: Any = made.source(name, U[str, Item], key=id_of, markers=every(seconds=10, time=ts_of, delay=delay))
    for one in (*links, keyed, *behind):
        at = at.through(one)
    made.sink(sink, at, **options)
    return made


def compiled(made: Dataflow, **options: Any) -> Plan:
    return plan(check(made), **{"key_groups": 2, **options})


def prints(made: Dataflow, **options: Any) -> Fingerprint:
    return fingerprint(compiled(made, **options))


PLAIN = flow()
COUNT: Any = Count()

GO_ON: dict[str, tuple[Dataflow, list[str]]] = {
    "nothing": (flow(), []),
    "an operator on a link": (flow(Scale(2)), ["stage 0, from source items: was nothing, is Scale(by=2)"]),
    "an operator behind": (
        flow(behind=(Counted(),)),
        [
            "behind the last stage: was nothing, is Counted()",
            "sink, type: was U[str, Tally], is U[str, int]",
            f"sink, value: was {__name__}.Tally, is int",
            "sink, value.count: was int, is nothing",
        ],
    ),
    "columns": (flow(marker="at"), ["sink, columns for marker and position: was nothing, is at"]),
    "format": (flow(format=csv()), ["sink, format: was nothing, is Csv(delimiter=',', header=True, columns=None)"]),
    "code": (flow(keyed=count_with(update_state=lambda self, state, agg: Tally(state.count - agg))), []),
}


@pytest.mark.parametrize("change", GO_ON)
def test_what_may_change(change: str) -> None:
    after, said = GO_ON[change]
    for old, new in ((PLAIN, after), (after, PLAIN)):
        assert prints(old).refused(prints(new)) == []
    found = prints(PLAIN).changed(prints(after))
    assert [line.partition(", is Csv")[0] for line in found] == [line.partition(", is Csv")[0] for line in said]


def test_what_is_compared_survives_json() -> None:
    import json

    for made in (PLAIN, flow(Scale(2), sort(by=ts_of), keyed=Latest())):
        one = prints(made)
        assert Fingerprint.of(json.loads(json.dumps(one.plain))) == one


def test_an_author_says_which_parameters_may_change() -> None:
    class Weighted(Count[Item]):
        may_change = ("weight",)

    one, other = prints(flow(keyed=Weighted(1))), prints(flow(keyed=Weighted(2)))
    assert one.refused(other) == []
    (said,) = one.changed(other)
    assert said.startswith("stage 0, step 0 (test_an_author")
    assert said.endswith("Weighted), parameter weight: was 1, is 2")


def test_long_parameters_are_compared_to_their_end() -> None:
    @attrs.frozen
    class Long(Count[Item]):
        table: tuple[int, ...] = ()

    one, other = (prints(flow(keyed=Long(table=(*range(1000), last)))) for last in (1, 2))
    (refused,) = one.refused(other)
    assert len(refused) < 600


REFUSED: dict[str, tuple[Dataflow, str]] = {
    "a delay": (flow(delay=5), "source items, markers: was every 10 s, delay 0 s, is every 10 s, delay 5 s"),
    "a source": (flow(name="others"), "stage 0, reads: was source items, is source others"),
    "a sink": (flow(sink="others"), "sink: was out, is others"),
    "a stage more": (flow(behind=(Counted(), Count())), "stages: was 1, is 2"),
    "an operator instead": (flow(keyed=Recount()), "stage 0, step 0: was Count, is Recount"),
    "a parameter": (flow(keyed=Count(weight=2)), "stage 0, step 0 (Count), parameter weight: was 1, is 2"),
    "the state": (
        flow(keyed=count_to(float, 0.0, lambda state, agg: state + agg)),
        f"stage 0, step 0 (Count), state: was {__name__}.Tally, is float",
    ),
    "a field of the state": (
        flow(keyed=count_to(TallyAndLast, TallyAndLast(0, None), lambda state, agg: TallyAndLast(0, agg))),
        "stage 0, step 0 (Count), state.last: was nothing, is int | None",
    ),
    "an aggregate": (
        flow(keyed=count_with(identity=lambda self: 0.0)),
        "stage 0, step 0 (Count), aggregate at first: was int, is float",
    ),
    "what is held": (
        flow(keyed=count_with(on_item=lambda self, last_state, key, value, emit: None)),
        "stage 0, open blocks: was aggregates of Count, is items",
    ),
    "visits": (
        flow(keyed=count_with(skips_untouched=True)),
        "stage 0, step 0 (Count), keys without items: was are visited, is are skipped",
    ),
    "nothing keyed any more": (flow(keyed=Scale(1)), "blocks are closed: was by stages, is by the driver"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_may_not_change(change: str) -> None:
    after, said = REFUSED[change]
    assert said in prints(PLAIN).refused(prints(after))
    assert prints(after).refused(prints(PLAIN))


def test_whether_idle_keys_are_forgotten_may_change() -> None:
    """A key that was forgotten begins again as it would go on; one that is kept is forgotten at the next marker."""
    forgetful = flow(keyed=count_with(forgets_idle=True))
    for before, after in ((PLAIN, forgetful), (forgetful, PLAIN)):
        assert prints(before).refused(prints(after)) == []
    told = "stage 0, step 0 (Count), idle keys: was nothing, is are forgotten"
    assert told in prints(PLAIN).changed(prints(forgetful))


def test_states_of_several_blocks_that_mean_whole_windows_now_may_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier version kept the points of the last blocks. Taken for the points of a window they would be left out."""

    def made() -> Fingerprint:
        flow = Dataflow("clusters")
        items = flow.source("in", U[str, float], markers=every(seconds=5, time=lambda value: int(value)))
        flow.sink("out", items.through(kmeans(lambda value: (value,), k=2, panes=2, period=5)))
        return fingerprint(plan(check(flow)))

    now = made()
    monkeypatch.setattr(KMeans, "_meaning_of_states", lambda self: "")
    assert made().refused(now) == ["stage 0, step 0 (KMeans), states: was nothing, is points of whole windows"]


def test_key_groups_may_not_change_and_the_parallelism_may() -> None:
    assert prints(PLAIN).refused(prints(PLAIN, key_groups=4)) == ["key groups: was 2, is 4"]
    assert prints(PLAIN) == prints(PLAIN, parallelism=2)


def test_items_that_are_held_keep_their_type() -> None:
    """What a stage holds for open blocks are items where it sorts them, and the author's type is pickled or in columns."""
    before, after = flow(sort(by=ts_of), keyed=Latest()), flow(Widen(), sort(by=ts_of), keyed=Latest())
    refused = prints(before).refused(prints(after))
    assert "stage 0, open blocks, value.note: was nothing, is str" in refused
    assert "stage 0, step 1 (Latest), items.note: was nothing, is str" in refused  # a state of T | None
    # Aggregates do not know what they were made of.
    assert prints(flow()).refused(prints(flow(Widen()))) == []


def test_the_order_of_links_and_markers_in_band() -> None:
    def two(first: str, second: str, *, band: bool = False) -> Dataflow:
        made = Dataflow("two")
        how: Any = in_band(is_marker=lambda v: v.n < 0, time=ts_of) if band else every(seconds=10, time=ts_of)
        one, other = (made.source(name, U[str, Item], key=id_of, markers=how) for name in (first, second))
        made.sink("out", merge(one.through(Scale(2)), other).through(COUNT))
        return made

    reads = "stage 0, reads: was merge of (source a, source b), is merge of (source b, source a)"
    assert reads in prints(two("a", "b")).refused(prints(two("b", "a")))
    markers = "source a, markers: was every 10 s, delay 0 s, is in band"
    assert markers in prints(two("a", "b")).refused(prints(two("a", "b", band=True)))


def test_stages_that_change_places_are_noticed() -> None:
    """Each would go on with the state of the other, and no type tells them apart."""

    def two(*by: int) -> Dataflow:
        made = Dataflow("two")
        rows = made.source("items", U[str, Item], key=id_of, markers=every(seconds=10, time=ts_of))
        one, other = (rows.through(Scale(n)).through(COUNT) for n in by)
        made.sink("out", merge(one, other))
        return made

    from tracetypes.compiler.plan.program import program

    one, swapped, other = (
        fingerprint(program(check(made), key_groups=2).plans[-1]) for made in (two(1, 2), two(2, 1), two(1, 3))
    )
    assert [line.partition(":")[0] for line in one.refused(swapped)] == [
        "stage 0 has changed places with stage 1",
        "stage 1 has changed places with stage 0",
    ]
    assert one.refused(other) == []
    assert len(one.changed(other)) == 1


# ------------------------------------------------------------------------------------- every field, by construction

KINDS = (*get_args(Node), *get_args(Markers), *get_args(Format), Kafka, Layout)
NODES: tuple[Any, ...] = tuple(get_origin(kind) or kind for kind in KINDS)  # markers are generic


def test_every_field_of_every_node_is_kept_or_free() -> None:
    """A field that is added must be declared, and then shown below to be what it was declared."""
    assert {cls: {a.name for a in attrs.fields(cls)} for cls in NODES} == {
        cls: set(fields) for cls, fields in FIELDS.items()
    }
    declared = {(cls, name) for cls, fields in FIELDS.items() for name, how in fields.items() if how != "derived"}
    assert declared - set(CHANGED) == ASIDE


class By:
    """A plain object that can be called, shown as all others are."""

    def __init__(self, field: str) -> None:
        self.field = field

    def __call__(self, value: Any) -> Any:
        return getattr(value, self.field)

    def __repr__(self) -> str:
        return "By()"


def other_field(field: str, value: Any) -> Any:
    return getattr(value, field)


def source(**other: Any) -> Dataflow:
    made = Dataflow("source")
    given = {"key": id_of, "markers": every(seconds=10, time=ts_of), **other}
    made.sink("out", made.source(given.pop("name", "items"), given.pop("edge", U[str, Item]), **given).through(COUNT))
    return made


def timed(**other: Any) -> Dataflow:
    return source(markers=every(**{"seconds": 10, "time": ts_of, **other}))


def banded(**other: Any) -> Dataflow:
    return source(markers=in_band(**{"is_marker": id_of, "time": ts_of, **other}))


def ordered(**other: Any) -> Dataflow:
    made = Dataflow("ordered")
    rows: Any = made.source("items", O[str, Item], key=id_of, markers=every(seconds=10, time=ts_of), **other)
    made.sink("out", rows.through(Latest()))
    return made


def late(output: str) -> Dataflow:
    made = Dataflow("late")
    rows = made.source("items", U[str, Item], key=id_of, markers=every(seconds=10, time=ts_of))
    made.sink("out", (rows.late() if output == "late" else rows).through(COUNT))
    return made


def merged(count: int) -> Dataflow:
    made = Dataflow("merged")
    how = every(seconds=10, time=ts_of)
    rows = [made.source(name, U[str, Item], key=id_of, markers=how) for name in "abc"[:count]]
    made.sink("out", merge(*rows).through(COUNT))
    return made


def in_copies(op: Any, parallelism: int) -> Dataflow:
    made = Dataflow("copies")
    rows: Any = made.source("items", U[str, Item], key=id_of, markers=every(seconds=10, time=ts_of))
    made.sink("out", rows.through(op, parallelism=parallelism))
    return made


FIRST, SECOND = partial(other_field, "ts"), partial(other_field, "n")
CHANGED: dict[tuple[type[Any], str], tuple[Dataflow, Dataflow]] = {
    (Source, "name"): (source(), source(name="others")),
    (Source, "edge"): (source(), source(edge=U[str, Wider])),
    (Source, "markers"): (source(), banded()),
    (Source, "key"): (source(key=By("id")), source(key=By("n"))),
    (Source, "ordered_by"): (ordered(ordered_by=FIRST), ordered(ordered_by=SECOND)),
    (Source, "format"): (source(), source(format=csv())),
    (Source, "times"): (source(), source(times="truncate")),
    (Source, "file_name"): (source(), source(file_name="id")),
    (Source, "output"): (late("items"), late("late")),
    (Apply, "op"): (flow(keyed=Count(weight=1)), flow(keyed=Count(weight=2))),
    (Apply, "parallelism"): (in_copies(COUNT, 1), in_copies(COUNT, 2)),
    (Sort, "by"): (flow(keyed=sort(by=FIRST)), flow(keyed=sort(by=SECOND))),
    (Sort, "parallelism"): (in_copies(sort(by=ts_of), 1), in_copies(sort(by=ts_of), 2)),
    (Merge, "inputs"): (merged(2), merged(3)),
    (Sink, "name"): (flow(), flow(sink="others")),
    (Sink, "marker"): (flow(), flow(marker="at")),
    (Sink, "position"): (flow(keyed=sort(by=ts_of)), flow(keyed=sort(by=ts_of), position="at")),
    (Sink, "format"): (flow(), flow(format=csv())),
    (Sink, "partition_by"): (flow(), flow(partition_by="key")),
    (Sink, "flat"): (flow(), flow(flat=True)),
    (EventTime, "period"): (timed(), timed(seconds=20)),
    (EventTime, "delay"): (timed(), timed(delay=5)),
    (EventTime, "unit"): (timed(), timed(unit="ms")),
    (EventTime, "time"): (timed(time=FIRST), timed(time=SECOND)),
    (EventTime, "ahead"): (timed(), timed(ahead=5)),
    (EventTime, "per"): (timed(per=FIRST), timed(per=SECOND)),
    (EventTime, "idle"): (timed(per=FIRST), timed(per=FIRST, idle=5)),
    (EventTime, "closes_after"): (timed(), timed(closes_after=5)),
    (InBand, "unit"): (banded(), banded(unit="ms")),
    (InBand, "time"): (banded(time=By("ts")), banded(time=By("n"))),
    (InBand, "is_marker"): (banded(is_marker=FIRST), banded(is_marker=SECOND)),
    (Csv, "null"): (flow(format=csv()), flow(format=csv(null="NA"))),
    (Csv, "encoding"): (flow(format=csv()), flow(format=csv(encoding="cp1252"))),
    (Csv, "separator"): (flow(format=csv()), flow(format=csv(separator=";"))),
    (Csv, "columns"): (source(format=csv()), source(format=csv(columns=["id", "ts", "n"]))),
    (Csv, "zone"): (source(format=csv()), source(format=csv(zone="UTC"))),
    (JsonLines, "zone"): (source(format=json_lines()), source(format=json_lines(zone="UTC"))),
    (Parquet, "zone"): (source(format=parquet()), source(format=parquet(zone="UTC"))),
    (Csv, "compression"): (flow(format=csv()), flow(format=csv(compression="gzip"))),
    (JsonLines, "compression"): (flow(format=json_lines()), flow(format=json_lines(compression="zstd"))),
    (Parquet, "compression"): (flow(format=parquet()), flow(format=parquet(compression="zstd"))),
    (Avro, "zone"): (source(format=avro()), source(format=avro(zone="UTC"))),
    (Kafka, "headers"): (source(format=kafka()), source(format=kafka(headers=["id"]))),
    (Kafka, "zone"): (source(format=kafka()), source(format=kafka(zone="UTC"))),
    (Kafka, "marker"): (source(format=kafka()), source(format=kafka(marker="end"))),
    (Kafka, "markers"): (flow(format=kafka()), flow(format=kafka(markers=True))),
    (Kafka, "key"): (source(format=kafka()), source(format=kafka(key="avro"))),
    (Kafka, "value"): (source(format=kafka()), source(format=kafka(value="avro"))),
}

ASIDE = {
    *((cls, "where") for cls in (Source, Apply, Sort, Merge, Sink, Gate)),  # another line in the same file
    *((cls, "extension") for cls in (Csv, JsonLines, Parquet, Avro)),  # has one value only
    (Kafka, "envelope"),  # the values are of another type then
    *((Receive, name) for name in ("name", "edge")),  # of channels, in tests/spark/test_changed.py
    *((Gate, name) for name in ("bound", "latest", "latest_by", "name")),  # they end a segment: see the test below
}


@pytest.mark.parametrize(("cls", "field"), CHANGED, ids=lambda one: getattr(one, "__name__", one))
def test_a_field_is_what_it_was_declared(cls: type[Any], field: str) -> None:
    one, other = map(prints, CHANGED[cls, field])
    assert prints(CHANGED[cls, field][0]) == one
    if FIELDS[cls][field] == "kept":
        assert one.refused(other)
        assert other.refused(one)
    else:
        assert one.refused(other) == []
        assert one.changed(other) or field == "parallelism"


def test_what_a_gate_is_may_not_change() -> None:
    """Of a plan in front of a channel."""
    from tracetypes.compiler.plan.program import program

    def gated(make: Any) -> Fingerprint:
        made = Dataflow("gated")
        made.sink("out", make(made.source("items", U[str, Item], key=id_of, markers=every(seconds=10, time=ts_of))))
        return fingerprint(program(check(made), key_groups=2).plans[0], sends=True)

    first = gated(lambda rows: rows.gate(sequence(3), name="a", latest_by=FIRST))
    assert first == gated(lambda rows: rows.gate(sequence(3), name="a", latest_by=FIRST))
    for make in (
        lambda rows: rows.gate(sequence(4), name="a", latest_by=FIRST),
        lambda rows: rows.gate(sequence(3), name="b", latest_by=FIRST),
        lambda rows: rows.gate(sequence(3), name="a", latest_by=SECOND),
        lambda rows: rows.gate(sequence(3), name="a"),
        lambda rows: rows.latest(sequence(3), name="a", latest_by=FIRST),
        lambda rows: rows.gate(sequence(3, rows=bool), name="a", latest_by=FIRST),
    ):
        assert first.refused(gated(make))
        assert gated(make).refused(first)


class Plain:
    """A parameter without ``==`` and ``repr`` of its own."""

    __slots__ = ("__dict__", "inside")

    def __init__(self, inside: Any, **more: Any) -> None:
        self.inside = inside
        self.__dict__.update(more)


@attrs.frozen
class Holding(Count[Item]):
    what: Any = None


class Hidden:
    """Fields that neither count nor show."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Hidden()"


PARAMETERS: list[tuple[Any, Any]] = [
    (partial(max, 1), partial(max, 2)),
    (partial(max, 1), partial(min, 1)),
    (partial(max, default=1), partial(max, default=2)),
    (partial(partial(other_field, "a"), 1), partial(partial(other_field, "b"), 1)),
    (Plain(1), Plain(2)),
    (Plain(1), Plain(1.0)),
    (Plain(1, a=1), Plain(1, a=2)),
    (Plain(1, a=1), Plain(1, b=1)),
    (Plain(Plain(1)), Plain(Plain(2))),
    (Plain([1, Hidden(1)]), Plain([1, Hidden(2)])),
    (Hidden({"a": 1}), Hidden({"a": True})),
    (By("a").__call__, By("b").__call__),
    (collections.deque([1, 2]), collections.deque([2, 1])),
    (collections.OrderedDict(a=1), collections.OrderedDict(a=2)),
    (re.compile("a" * 300), re.compile("a" * 299 + "b")),
    (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    ((1,), [1]),
    ([0.0], [-0.0]),
    ({1}, {True}),
    ({1}, frozenset({1})),
    (set(), {}),
    (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": True})),
    ("x" * 2_000_000 + "a", "x" * 2_000_000 + "b"),
    (np.arange(5000), np.arange(5000)[::-1].copy()),
    (np.arange(5, dtype=np.int32), np.arange(5, dtype=np.int64)),
]


@pytest.mark.parametrize("at", range(len(PARAMETERS)))
def test_parameters_are_compared_by_what_they_hold(at: int) -> None:
    one, other = PARAMETERS[at]
    before = prints(flow(keyed=Holding(what=one)))
    assert len(before.refused(prints(flow(keyed=Holding(what=other))))) == 1
    again = one if isinstance(one, types.MappingProxyType) else copy.deepcopy(one)
    assert before.refused(prints(flow(keyed=Holding(what=again)))) == []
    assert " at 0x" not in str(before.plain)


def test_the_same_text_in_another_process() -> None:
    """Sets of texts have another order there, and functions and objects other places."""
    code = (
        "from tests.test_fingerprint import *\n"
        "made = Holding(what=Plain({'a', 'b', 'c', 'd'}, f=id_of, g=By('x'), h=partial(other_field, 'y'), i={b'1', b'2'}))\n"
        "print(prints(flow(keyed=made)).plain)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


def test_TT409_what_cannot_be_compared_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"TT409 Holding\.what holds a builtins\.code"):
        prints(flow(keyed=Holding(what=Plain(compile("1", "rule", "eval")))))

    class Free(Holding):
        may_change = ("what",)

    assert "parameter what" in str(prints(flow(keyed=Free(what=Plain(compile("1", "rule", "eval"))))).free)


# ------------------------------------------------------------------------------- going on with what was left


@pytest.fixture(scope="module")
def small_blocks() -> Iterator[None]:
    """States go over to columns at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MANY", 2)
        yield


def opaque(case_: Callable[[], Plan]) -> Plan:
    """The plan that is made where nothing can be said in expressions."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("traced", "monoid_in", "keyed_in", "function_in"):
            patch.setattr(planner, name, lambda *about: Opaque("so it shall be"))
        return case_()


def goes_on(case: Case) -> list[str]:
    """In what the answer of two plans in turn, of which one runs over columns, is not that of the graph."""

    def made() -> Plan:
        return plan(case.checked, parallelism=case.parallelism, key_groups=case.key_groups)

    ways = [made(), opaque(made), made()]
    assert len({str(fingerprint(one).plain) for one in ways}) == 1
    first, *then = ways if case.seed % 2 else [ways[1], ways[0], ways[1]]
    answer = simulate(
        first, case.rows, seed=case.seed, steps=case.steps + 3, pieces=case.pieces, drain=case.drain, then=then
    )
    return differences(case, answer)


@pytest.mark.usefixtures("small_blocks")
@settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture])
@given(cases())
def test_a_plan_goes_on_where_another_one_said_less(case: Case) -> None:
    assert goes_on(case) == []


KEYED = [(f"{'ab'[n % 2]}{n % 6}", n) for n in range(200)]
ROWS = {"items": [Item(key, n // 4, n % 3) for key, n in KEYED]}


@attrs.frozen
class Hushed(OpStateless[str, Item, str, Item]):
    """Nothing at all, but it might say something at markers: such links are not sorted as columns."""

    def on_item(self, key: str, value: Item, emit: Callable[[str, Item], None]) -> None:
        emit(key, value)

    def on_marker(self, marker: Marker, emit: Callable[[str, Item], None]) -> None:
        pass


GRAPHS: dict[str, tuple[Dataflow, Dataflow]] = {
    "columns of states": (flow(), flow()),
    "sorted as columns": (flow(sort(by=ts_of), keyed=Latest()), flow(Hushed(), sort(by=ts_of), keyed=Latest())),
    "held as columns": (flow(keyed=sort(by=ts_of)), flow(Hushed(), keyed=sort(by=ts_of))),
}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("graphs", GRAPHS)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_held_is_held_on(graphs: str, seed: int) -> None:
    one, other = GRAPHS[graphs]
    before = compiled(one)
    after = opaque(lambda: compiled(other)) if graphs == "columns of states" else compiled(other)
    assert fingerprint(before).refused(fingerprint(after)) == []
    wanted = interpret_rows(check(one), ROWS)[0]["out"]
    for first, second in ((before, after), (after, before)):
        assert simulate(first, ROWS, seed=seed, steps=6, then=[second, first]).trace == wanted


@pytest.mark.usefixtures("small_blocks")
def test_a_kernel_that_takes_over_as_it_is_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for blocks in (ObjectBlocks, FoldedBlocks, ColumnBlocks, TableBlocks):
        monkeypatch.setattr(blocks, "adopt", lambda self: None)
    for graphs, (one, other) in GRAPHS.items():
        before = compiled(one)
        after = opaque(lambda other=other: compiled(other)) if graphs == "columns of states" else compiled(other)  # type: ignore[misc]
        wanted = interpret_rows(check(one), ROWS)[0]["out"]
        wrong = False
        for seed in range(4):
            try:
                wrong |= simulate(before, ROWS, seed=seed, steps=6, then=[after, before]).trace != wanted
            except (AttributeError, OperatorFailed, TypeError):
                wrong = True
        assert wrong, graphs


@attrs.frozen
class ScaleFrom(OpStateless[str, Item, str, Item]):
    """What ``Scale(1)`` does before a time, and ``Scale(2)`` from then on."""

    ts: int

    def on_item(self, key: str, value: Item, emit: Callable[[str, Item], None]) -> None:
        emit(key, Item(value.id, value.ts, value.n * (2 if value.ts >= self.ts else 1)))


def test_the_old_part_by_the_old_graph_and_the_new_part_by_the_new() -> None:
    """Items that were read before the change went through the old operator, also those of the block that was open."""
    before, after = compiled(flow(Scale(1), keyed=sort(by=ts_of))), compiled(flow(Scale(2), keyed=sort(by=ts_of)))
    assert fingerprint(before).refused(fingerprint(after)) == []
    rows = {"items": [Item(f"k{ts % 5}", ts, 1) for ts in range(97)]}
    changed = []
    for seed in range(12):
        trace = simulate(before, rows, seed=seed, steps=6, then=[after]).trace
        values = [item.value for item in trace.items if not isinstance(item, Marker)]
        changed.append(min([value.ts for value in values if value.n == 2], default=97))
        wanted = interpret_rows(check(flow(ScaleFrom(changed[-1]), keyed=sort(by=ts_of))), rows)[0]["out"]
        assert trace == wanted
    assert any(0 < ts < 97 and ts % 10 for ts in changed)


@pytest.mark.nightly
@pytest.mark.usefixtures("small_blocks")
@settings(
    max_examples=3_000, suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture]
)
@given(cases())
def test_many_plans_go_on_where_others_said_less(case: Case) -> None:
    assert goes_on(case) == []


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3) | st.timedeltas()
values_of_parameters = st.recursive(
    plain | st.just(id_of) | st.just(int),
    lambda some: st.lists(some, max_size=3) | st.lists(some, max_size=3).map(tuple) | st.dictionaries(plain, some, max_size=3),
)


@given(values_of_parameters)
def test_containers_of_plain_values_are_shown_as_others_are(value: Any) -> None:
    """Their repr takes a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        fast = module.content(value, str)
        patch.setattr(module, "_is_plain", lambda _: False)
        assert fast == module.content(value, str)
