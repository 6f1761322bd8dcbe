"""The graph checker: one small wrong program a code, all that is wrong at once, and nothing about what is right."""

import datetime as dt
import math
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NewType, TypeVar

import attrs
import pytest

from tests.strategies import Meter, Place
from tracetypes import (
    ROW_POSITION,
    CheckFailed,
    DataError,
    Dataflow,
    Marker,
    O,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Stream,
    U,
    Unit,
    check,
    csv,
    every,
    in_band,
    json_lines,
    merge,
    sort,
    text_lines,
)
from tracetypes.check import edge_of, violations
from tracetypes.edges import EdgeType
from tracetypes.errors import Location, UsageError, Violation
from tracetypes.nodes import Apply, Fused, Gather, Graph, Merge, Restore, Sink, Sort, Source, Split
from tracetypes.records import Integer, String
from tracetypes.templates import template_types
from tracetypes.trace import StreamType

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")

HERE = Path(__file__).as_posix()
ANY: Any = None
TICKS = every(seconds=1, time=lambda value: 0)


def line() -> int:
    """The line it is called from."""
    return sys._getframe(1).f_lineno


def violation(flow: Dataflow | Graph, code: str, operator: str, at: int, found: str, expected: str, fix: str) -> None:
    """The flow has this one violation and no other."""
    assert violations(flow) == (Violation(code, operator, Location(HERE, at), found, expected, fix),)


def codes(flow: Dataflow | Graph) -> list[tuple[str, str]]:
    """Codes and operators of all violations."""
    return [(one.code, one.operator) for one in violations(flow)]


@attrs.frozen
class Reading:
    watts: float
    ts: int


@attrs.frozen
class Scale(OpStateless[str, Reading, str, float]):
    factor: float = 2.0

    def on_item(self, key: str, value: Reading, emit: Callable[[str, float], None]) -> None:
        emit(key, value.watts * self.factor)


@attrs.frozen
class Change(OpKeyedOrdered[str, Reading, float, float]):
    def initial_state(self) -> float:
        return 0.0

    def on_item(self, state: float, key: str, value: Reading, emit: Callable[[float], None]) -> float:
        emit(value.watts - state)
        return value.watts


@attrs.frozen
class Same(OpStateless[K, V, K, V]):
    def on_item(self, key: K, value: V, emit: Callable[[K, V], None]) -> None:
        emit(key, value)


@attrs.frozen
class Last(OpKeyedOrdered[K, V, V, V | None]):
    def initial_state(self) -> V | None:
        return None

    def on_item(self, state: V | None, key: K, value: V, emit: Callable[[V], None]) -> V:
        return value


@attrs.frozen
class Count(OpKeyedUnordered[K, V, K, int, int, int]):
    def lift(self, key: K, value: V) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: K, marker: Marker, emit: Callable[[K, int], None]) -> None:
        emit(key, new_state)


def readings(name: str = "in", flow: Dataflow | None = None) -> tuple[Dataflow, Stream[U[str, Reading]]]:
    """A flow with one source of readings."""
    flow = flow or Dataflow("test")
    return flow, flow.source(name, U[str, Reading], markers=every(seconds=1, time=lambda r: r.ts))


def ended(flow: Dataflow, stream: Stream[Any]) -> Dataflow:
    """The flow with a sink for the stream."""
    flow.sink("out", stream)
    return flow


# --------------------------------------------------------------------------------------- a program for each code


def test_TT101_an_ordered_operator_on_an_unordered_stream() -> None:
    flow, hub = readings()
    wrong: Any = Change()
    made, at = hub.through(wrong), line()
    violation(
        ended(flow, made),
        "TT101",
        "Change",
        at,
        found="U[str, Reading], unordered between markers",
        expected="O[str, Reading]: Change depends on the order of the items of a key",
        fix="insert .through(sort(by=...)) before Change",
    )


def test_TT101_the_papers_mistake_an_order_lost_in_a_parallel_map() -> None:
    flow = Dataflow("test")
    hub = flow.source("in", O[str, Reading], markers=TICKS, ordered_by=lambda r: r.ts)
    wrong: Any = Change()
    made, at = hub.through(Same[str, Reading]()).through(wrong), line()
    (one,) = violations(ended(flow, made))
    assert (one.code, one.where.line) == ("TT101", at)


def test_TT102_keys_of_another_type() -> None:
    flow = Dataflow("test")
    wrong: Any = Scale()
    made, at = flow.source("in", U[int, Reading], markers=TICKS).through(wrong), line()
    violation(
        ended(flow, made),
        "TT102",
        "Scale",
        at,
        found="keys of type int",
        expected="keys of type str",
        fix="map the key to str before Scale, or change the type of Scale",
    )


def test_TT102_a_merge_of_keys_that_have_no_common_type() -> None:
    flow = Dataflow("test")
    one: Stream[Any] = flow.source("one", U[int, float], markers=TICKS)
    other: Stream[Any] = flow.source("other", U[str, float], markers=TICKS)
    made, at = merge(one, other), line()
    violation(
        ended(flow, made),
        "TT102",
        "merge",
        at,
        found="keys of int and str",
        expected="one type of keys, or distinct record types",
        fix="map the inputs to one key type, or wrap each key in a record of its own",
    )


def test_TT103_values_of_another_type() -> None:
    flow = Dataflow("test")
    wrong: Any = Scale()
    made, at = flow.source("in", U[str, float], markers=TICKS).through(wrong), line()
    violation(
        ended(flow, made),
        "TT103",
        "Scale",
        at,
        found="values of type float",
        expected="values of type Reading",
        fix="map the value to Reading before Scale, or change the type of Scale",
    )


def test_TT103_types_are_invariant() -> None:
    @attrs.frozen
    class Half(OpStateless[str, float, str, float]):
        def on_item(self, key: str, value: float, emit: Callable[[str, float], None]) -> None:
            emit(key, value / 2)

    flow = Dataflow("test")
    wrong: Any = Half()
    assert codes(ended(flow, flow.source("in", U[str, int], markers=TICKS).through(wrong))) == [("TT103", "Half")]


def test_TT103_a_type_variable_stands_for_one_type() -> None:
    @attrs.frozen
    class Diagonal(OpStateless[K, K, K, K]):
        def on_item(self, key: K, value: K, emit: Callable[[K, K], None]) -> None:
            emit(key, value)

    flow = Dataflow("test")
    wrong: Any = Diagonal()
    made, at = flow.source("in", U[str, int], markers=TICKS).through(wrong), line()
    violation(
        ended(flow, made),
        "TT103",
        "Diagonal",
        at,
        found="values of type int",
        expected="values of type str",
        fix="map the value to K before Diagonal, or change the type of Diagonal",
    )


def test_TT103_a_merge_of_different_values() -> None:
    flow = Dataflow("test")
    one: Stream[Any] = flow.source("one", U[int, float], markers=TICKS)
    other: Stream[Any] = flow.source("other", U[int, Reading], markers=TICKS)
    made, at = merge(one, other), line()
    violation(
        ended(flow, made),
        "TT103",
        "merge",
        at,
        found="values of Reading and float",
        expected="one type of values",
        fix="map the inputs to one record type first",
    )


def test_TT104_ordered_streams_with_the_keys_of_one_source() -> None:
    flow, hub = readings()
    born = flow.graph.nodes[0].where
    one, other = hub.through(sort(by=lambda r: r.ts)), hub.through(sort(by=lambda r: r.watts))
    made, at = merge(one, other.through(Last[str, Reading]())), line()
    violation(
        ended(flow, made),
        "TT104",
        "merge",
        at,
        found=f"ordered streams that both carry the keys of source 'in' ({born})",
        expected="disjoint keys",
        fix="merge before .through(sort(by=...)), or rekey one of them",
    )


def test_TT104_not_for_streams_that_were_rekeyed_on_the_way() -> None:
    flow, hub = readings()
    one = hub.through(sort(by=lambda r: r.ts))
    other = hub.through(Same[str, Reading]()).through(sort(by=lambda r: r.ts))
    check(ended(flow, merge(one, other)))


def test_TT105_a_cycle() -> None:
    source = Source(id=0, where=Location(HERE, 1), name="in", edge=U[str, Reading], markers=TICKS)
    nodes = (
        source,
        Merge(id=1, where=Location(HERE, 2), inputs=(0, 2)),
        Apply(id=2, where=Location(HERE, 3), inputs=(1,), op=Same()),
        Sink(id=3, where=Location(HERE, 4), inputs=(2,), name="out"),
    )
    violation(
        Graph("test", nodes),
        "TT105",
        "merge",
        2,
        found="the cycle merge <- Same <- merge",
        expected="an acyclic graph",
        fix="remove the edge that leads back",
    )


def test_TT105_a_node_that_reads_itself_and_one_behind_it() -> None:
    nodes = (
        Apply(id=0, where=Location(HERE, 1), inputs=(1,), op=Scale()),
        Apply(id=1, where=Location(HERE, 2), inputs=(1,), op=Same()),
        Sink(id=2, where=Location(HERE, 3), inputs=(0,), name="out"),
    )
    (one,) = violations(Graph("test", nodes))
    assert (one.code, one.where.line, one.found) == ("TT105", 2, "the cycle Same <- Same")


def test_TT105_every_cycle_is_reported() -> None:
    def loop(id: int) -> tuple[Apply, Sink]:
        where = Location(HERE, id)
        return (
            Apply(id=id, where=where, inputs=(id,), op=Same()),
            Sink(id=id + 1, where=where, inputs=(id,), name=f"s{id}"),
        )

    assert codes(Graph("test", (*loop(0), *loop(10)))) == [("TT105", "Same"), ("TT105", "Same")]


def test_TT106_a_type_without_a_schema() -> None:
    flow = Dataflow("test")
    made, at = flow.source("in", U[str, dict[str, int]], markers=TICKS), line()
    violation(
        ended(flow, made),
        "TT106",
        "source 'in'",
        at,
        found="value dict[str, int]: dict[str, int] has no schema: "
        "it is neither a scalar, a list, an optional nor a record",
        expected="a type with a schema",
        fix="use bool, int, UInt64, float, Annotated[Decimal, decimal(18, 2)], str, bytes, datetime, date, an Enum, Literal, "
        "Unit, T | None, list[T], or a frozen record of these",
    )


def test_TT106_a_type_parameter_that_nothing_binds() -> None:
    @attrs.frozen
    class Anything(OpStateless[K, V, K, W]):
        def on_item(self, key: K, value: V, emit: Callable[[K, W], None]) -> None: ...

    flow, hub = readings()
    wrong: Any = Anything()
    made, at = hub.through(wrong), line()
    violation(
        ended(flow, made),
        "TT106",
        "Anything",
        at,
        found="U[str, W]: the type parameter W is not known",
        expected="concrete types",
        fix="derive Anything with concrete type arguments",
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (lambda: [("W", int)], "gave [('W', <class 'int'>)]"),
        (lambda: None, "gave None"),
        (lambda: {W: int}, "gave {~W: <class 'int'>}"),
        (lambda: 1 / 0, "raised ZeroDivisionError: division by zero (tests/test_check.py:"),
    ],
)
def test_TT106_an_operator_that_does_not_name_its_types(
    given: Callable[[], Any], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @attrs.frozen
    class Names(OpStateless[K, V, K, W]):
        def on_item(self, key: K, value: V, emit: Callable[[K, W], None]) -> None: ...

        def type_arguments(self) -> Any:
            return given()

    flow, hub = readings()
    wrong: Any = Names()
    monkeypatch.chdir(Path(__file__).parents[1])
    (one,) = violations(ended(flow, hub.through(wrong)))
    assert (one.code, one.operator) == ("TT106", "Names")
    assert one.found.startswith(f"Names.type_arguments() {found}")
    with pytest.raises(DataError, match=r"TT106 Names.type_arguments\(\)"):
        template_types(wrong)


def test_TT106_key_and_value_are_both_named() -> None:
    flow = Dataflow("test")
    hub: Stream[Any] = flow.source("in", U[set[int], complex], markers=TICKS)
    found = [one.found.split(":")[0] for one in violations(ended(flow, hub))]
    assert found == ["key set[int]", "value complex"]


def test_TT107_a_type_that_is_no_edge() -> None:
    flow = Dataflow("test")
    wrong: Any = list[int]
    made, at = flow.source("in", wrong, markers=TICKS), line()
    violation(
        ended(flow, made),
        "TT107",
        "source 'in'",
        at,
        found="list[int] is not the type of an edge",
        expected="an edge type",
        fix="write U[K, V] (unordered between markers) or O[K, V] (ordered per key)",
    )


def test_TT108_a_stream_of_another_dataflow() -> None:
    flow, hub = readings()
    _, foreign = readings(flow=Dataflow("foreign"))
    flow.sink("in", hub)
    at = line() + 1
    flow.sink("out", foreign)
    violation(
        flow,
        "TT108",
        "sink 'out'",
        at,
        found="an input that is not in this dataflow",
        expected="a stream of dataflow 'test'",
        fix="pass a stream that came from this dataflow's source(...)",
    )


def test_TT108_a_merge_with_another_dataflow() -> None:
    flow, hub = readings()
    _, foreign = readings(flow=Dataflow("foreign"))
    assert codes(ended(flow, merge(hub, foreign))) == [("TT108", "merge")]


def test_TT108_a_sink_is_no_input() -> None:
    flow, hub = readings()
    flow.sink("out", hub)
    nodes = (*flow.graph.nodes, Sink(id=2, where=Location(HERE, 1), inputs=(1,), name="more"))
    assert codes(Graph("test", nodes)) == [("TT108", "sink 'more'")]


@pytest.mark.parametrize("inputs", [(), (0, 0)])
@pytest.mark.parametrize(
    "make",
    [
        partial(Apply, op=Same()),
        partial(Sort, by=len),
        partial(Sink, name="more"),
        partial(Split, how="RR", ways=2),
        Gather,
        Restore,
    ],
)
def test_TT108_the_number_of_inputs(make: Callable[..., Any], inputs: tuple[int, ...]) -> None:
    flow, hub = readings()
    flow.sink("out", hub)
    node = make(id=2, where=Location(HERE, 900), inputs=inputs)
    nodes = [*flow.graph.nodes, node]
    if not isinstance(node, Sink):
        nodes.append(Sink(id=3, where=Location(HERE, 901), inputs=(2,), name="last"))
    (one,) = violations(Graph("test", tuple(nodes)))
    assert (one.code, one.where.line) == ("TT108", 900)
    assert one.found == ("no input" if not inputs else "2 inputs")
    assert one.expected == "one stream"


def test_TT108_a_merge_of_nothing() -> None:
    flow, hub = readings()
    flow.sink("out", hub)
    nodes = (
        *flow.graph.nodes,
        Merge(id=2, where=Location(HERE, 1), inputs=()),
        Sink(id=3, where=Location(HERE, 2), inputs=(2,), name="more"),
    )
    (one,) = violations(Graph("test", nodes))
    assert (one.code, one.operator, one.found, one.expected) == ("TT108", "merge", "no input", "streams")


def test_TT109_nobody_reads_it() -> None:
    flow, hub = readings()
    flow.sink("out", hub)
    at = line() + 1
    hub.through(Scale())
    violation(
        flow,
        "TT109",
        "Scale",
        at,
        found="nobody reads its output",
        expected="a path to a sink",
        fix="send it to a sink with flow.sink(name, stream), or delete it",
    )


def test_TT109_an_empty_dataflow() -> None:
    (one,) = violations(Dataflow("empty"))
    assert one == Violation(
        "TT109", "dataflow 'empty'", Location("empty", 0), "no nodes", "a source and a sink", "add them"
    )


@attrs.define
class Mutable(Scale):
    count: int = 0


@dataclass
class MutableData(OpStateless[str, Reading, str, float]):
    def on_item(self, key: str, value: Reading, emit: Callable[[str, float], None]) -> None: ...


class Plain(OpStateless[str, Reading, str, float]):
    def on_item(self, key: str, value: Reading, emit: Callable[[str, float], None]) -> None: ...


@pytest.mark.parametrize("op", [MutableData(), Plain()], ids=["dataclass", "plain"])
def test_TT110_an_operator_that_can_be_assigned_to(op: OpStateless[str, Reading, str, float]) -> None:
    flow, hub = readings()
    made, at = hub.through(op), line()
    name = type(op).__name__
    violation(
        ended(flow, made),
        "TT110",
        name,
        at,
        found=f"{name} can be assigned to",
        expected="a frozen instance: state is passed in and returned, never kept on self",
        fix=f"decorate {name} with @attrs.frozen and declare its parameters as fields",
    )


def test_TT110_frozen_dataclasses_are_frozen() -> None:
    @dataclass(frozen=True)
    class Frozen(OpStateless[str, Reading, str, float]):
        factor: float

        def on_item(self, key: str, value: Reading, emit: Callable[[str, float], None]) -> None: ...

    flow, hub = readings()
    check(ended(flow, hub.through(Frozen(2.0))))


def test_TT111_a_parameter_that_cannot_be_sent() -> None:
    @attrs.frozen
    class Locked(Scale):
        lock: Any = attrs.field(factory=threading.Lock)

    flow, hub = readings()
    made, at = hub.through(Locked()), line()
    violation(
        ended(flow, made),
        "TT111",
        "Locked",
        at,
        found="Locked cannot be sent to a worker: TypeError: cannot pickle '_thread.lock' object",
        expected="functions and parameters that can be pickled",
        fix="open files, sockets and locks inside the function that uses them; pass plain data as parameters",
    )


@pytest.mark.parametrize("size", [3, 5_000])
@pytest.mark.parametrize("place", ["only", "last", "value", "inside"])
def test_TT111_in_a_table(size: int, place: str) -> None:
    """Large tables of plain values are not pickled, and one such value of another type is found."""

    @attrs.frozen
    class Table(Scale):
        table: Any = ()

    bad = threading.Lock()
    numbers = list(range(size))
    tables: dict[str, Any] = {
        "only": [bad] * size,
        "last": [*numbers, bad],
        "value": {**dict.fromkeys(numbers, "a"), -1: bad},
        "inside": {"a": [numbers, {1: (*numbers, bad)}]},
    }
    flow, hub = readings()
    (one,) = violations(ended(flow, hub.through(Table(table=tables[place]))))
    assert (one.code, one.found) == ("TT111", "Table cannot be sent to a worker: TypeError: cannot pickle '_thread.lock' object")
    flow, hub = readings()
    check(ended(flow, hub.through(Table(table=[numbers, set(numbers), dict.fromkeys(numbers)]))))


def test_TT111_every_function_is_tried() -> None:
    lock = threading.Lock()

    def guarded(value: Reading) -> int:
        with lock:
            return value.ts

    flow = Dataflow("test")
    hub = flow.source("in", O[int, Reading], markers=every(seconds=1, time=guarded), key=guarded, ordered_by=guarded)
    flow.sink("out", hub.through(sort(by=guarded)))
    found = [one.found.split(" cannot")[0] for one in violations(flow)]
    assert found == ["markers", "key", "ordered_by", "by"]


def test_TT112_two_sources_and_two_sinks_of_one_name() -> None:
    flow, hub = readings()
    other, at = flow.source("in", U[str, Reading], markers=TICKS), line()
    flow.sink("out", hub)
    flow.sink("out", other)
    one, two = violations(flow)
    first, second = flow.graph.nodes[0].where, flow.graph.nodes[2].where
    assert one == Violation(
        "TT112",
        "source 'in'",
        Location(HERE, at),
        "a second source named 'in'",
        f"one source of that name (the first is at {first})",
        "rename one of them",
    )
    assert (two.code, two.operator, two.found) == ("TT112", "sink 'out'", "a second sink named 'out'")
    assert str(second) in two.expected


def test_TT112_a_source_and_a_sink_may_share_a_name() -> None:
    flow, hub = readings()
    flow.sink("in", hub)
    check(flow)


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, True, "2"])
def test_TT113_parallelism(parallelism: Any) -> None:
    flow, hub = readings()
    made, at = hub.through(sort(by=lambda r: r.ts), parallelism=parallelism), line()
    violation(
        ended(flow, made),
        "TT113",
        "sort",
        at,
        found=f"parallelism={parallelism!r}",
        expected="a whole number from 1",
        fix="pass parallelism=1 or more",
    )


def test_TT122_parallelism_of_a_stateless_operator() -> None:
    flow, hub = readings()
    made, at = hub.through(Scale(), parallelism=8), line()
    violation(
        ended(flow, made),
        "TT122",
        "Scale",
        at,
        found="parallelism=8 for a stateless operator, which runs where its items are",
        expected="parallelism= where items are brought together by key",
        fix="give it to a sort or keyed operator behind it, or to the run",
    )


def test_TT122_parallelism_of_no_operator() -> None:
    _, hub = readings()
    with pytest.raises(UsageError, match=r"TT122 parallelism=8 where no operator is added\n    line: .*test_check.py:\d+: "):
        hub.through(lambda stream: merge(stream, stream), parallelism=8)


def test_parallelism_of_a_function_is_that_of_its_keyed_operators() -> None:
    flow, hub = readings()
    made = hub.through(lambda stream: stream.through(sort(by=lambda r: r.ts)).through(Scale()), parallelism=8)
    graph = check(ended(flow, made)).graph
    assert [node.parallelism for node in graph.nodes if isinstance(node, Apply | Sort)] == [8, None]


@attrs.frozen
class Lingers(Count[K, V]):
    """An operator that lingers as the test says."""

    lasting: ClassVar[Any] = 0

    def linger(self) -> Any:
        return self.lasting() if callable(self.lasting) else self.lasting


def raises() -> None:
    raise LookupError("not known")


@pytest.mark.parametrize(
    ("lasting", "found"),
    [
        (math.inf, "linger() is for ever"),
        (dt.timedelta.max, "linger() is for ever"),
        (-1, "linger() gave -1"),
        (True, "linger() gave True"),
        (1.5, "linger() gave 1.5"),
        (None, "linger() gave None"),
        (dt.timedelta(seconds=-1), "linger() gave datetime.timedelta(days=-1, seconds=86399)"),
        (raises, "linger() raised LookupError: not known"),
    ],
)
def test_TT124_how_long_an_operator_lingers(lasting: Any, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lingers, "lasting", staticmethod(lasting) if callable(lasting) else lasting)
    flow, hub = readings()
    made, at = hub.through(Lingers[str, Reading]()), line()
    violation(
        ended(flow, made),
        "TT124",
        "Lingers",
        at,
        found=found,
        expected="for how long the operator may still emit when its input has ended",
        fix="return a number of blocks from 0, or a datetime.timedelta from 0 to 1,000 years",
    )


@pytest.mark.parametrize("lasting", [0, 3, dt.timedelta(0), dt.timedelta(days=365_000)])
def test_an_operator_that_lingers(lasting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lingers, "lasting", lasting)
    flow, hub = readings()
    assert violations(ended(flow, hub.through(Lingers[str, Reading]()))) == ()


def test_TT114_an_ordered_source_says_what_orders_it() -> None:
    """Design, corner 9."""
    flow = Dataflow("test")
    made, at = flow.source("in", O[str, Reading], markers=TICKS), line()
    violation(
        ended(flow, made),
        "TT114",
        "source 'in'",
        at,
        found="O[str, Reading] without ordered_by",
        expected="what orders it",
        fix="pass ordered_by=<function of the value> or ordered_by=ROW_POSITION, or declare it U",
    )


def test_TT114_an_unordered_source_has_no_order() -> None:
    flow = Dataflow("test")
    made, at = flow.source("in", U[str, Reading], markers=TICKS, ordered_by=ROW_POSITION), line()  # type: ignore[arg-type,var-annotated]
    violation(
        ended(flow, made),
        "TT114",
        "source 'in'",
        at,
        found="U[str, Reading] with ordered_by",
        expected="an O",
        fix="declare it O, or leave ordered_by out",
    )


def test_TT114_positions_of_an_unordered_stream() -> None:
    flow, hub = readings()
    at = line() + 1
    flow.sink("out", hub, position="at")
    violation(
        flow,
        "TT114",
        "sink 'out'",
        at,
        found="position='at' on U[str, Reading]",
        expected="an ordered stream",
        fix="items of a U have no position: leave position out, or sort before",
    )


def test_TT116_what_fills_no_template_in() -> None:
    flow, hub = readings()
    flow.sink("out", hub)
    wrong: Any = "no operator"
    nodes = (
        *flow.graph.nodes,
        Apply(id=2, where=Location(HERE, 900), inputs=(0,), op=wrong),
        Sink(id=3, where=Location(HERE, 901), inputs=(2,), name="more"),
    )
    violation(
        Graph("test", nodes),
        "TT116",
        "str",
        900,
        found="str, which fills no template in",
        expected="an instance of OpStateless, OpKeyedOrdered or OpKeyedUnordered",
        fix="derive the operator from one of the three templates",
    )


@attrs.frozen
class Listed:
    """Holds what cannot be hashed."""

    parts: list[int]


@attrs.frozen(eq=False)
class ByIdentity:
    """Equal to nothing but itself: no key survives a trip to a worker."""

    id: int


@attrs.frozen
class Partly:
    """Equal to what differs from it."""

    id: int
    note: str = attrs.field(eq=False)


@dataclass(frozen=True, eq=False)
class DataByIdentity:
    """The same as a dataclass."""

    id: int


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (str | None, "str | None"),
        (list[int], "list[int]"),
        (tuple[list[int], ...], "tuple[list[int], ...]"),
        (Listed, "Listed"),
        (ByIdentity, "ByIdentity"),
        (DataByIdentity, "DataByIdentity"),
        (Partly, "Partly"),
    ],
)
def test_TT117_what_cannot_be_a_key(key: Any, name: str) -> None:
    flow = Dataflow("test")
    edge: Any = EdgeType(False, key, int)
    made, at = flow.source("in", edge, markers=TICKS), line()
    violation(
        ended(flow, made),
        "TT117",
        "source 'in'",
        at,
        found=f"the key type {name}",
        expected="a key that is never None and can be hashed",
        fix="use a scalar, a tuple or a frozen record; give missing keys a value of their own",
    )


@pytest.mark.parametrize("name", ["", "a b", "../a", "-a", "a/b", "ä", 5, None])
def test_TT118_names_become_file_names(name: Any) -> None:
    flow = Dataflow("test")
    made, at = flow.source(name, U[str, Reading], markers=TICKS), line()
    violation(
        ended(flow, made),
        "TT118",
        f"source {name!r}",
        at,
        found=f"the name {name!r}",
        expected="a name of letters, digits, '_', '-' and '.'",
        fix="rename it: names become file names and command line arguments",
    )


# ------------------------------------------------------------------------------------------------- attributes


@attrs.frozen
class Inner:
    room: str


@attrs.frozen
class Outer:
    ts: int
    place: Inner

    @property
    def minutes(self) -> int:
        return self.ts // 60


@attrs.frozen(slots=False)
class MakesMore:
    ts: int

    def __attrs_post_init__(self) -> None:
        self.__dict__.update(more=self.ts)


class Computed(NamedTuple):
    ts: int

    def __getattr__(self, name: str) -> int:
        return self.ts


def guarded_time(value: Any) -> int:
    try:
        found: int = value.tt
    except AttributeError:
        found = value.ts
    return found


def other_name(value: Any) -> int:
    value = partial(len, value.place.room)
    return len(value.args)


def second_argument(value: Any, of: Any = "text") -> Any:
    return of.nothing


READS_WHAT_IS_NOT_THERE: dict[str, Any] = {
    "a field": (lambda r: r.tt, "Outer.tt"),
    "in a sum": (lambda r: r.ts + r.tt, "Outer.tt"),
    "of a field": (lambda r: r.place.rom, "Inner.rom"),
    "a method": (lambda r: r.seconds(), "Outer.seconds"),
    "before a branch": (lambda r: r.tt if r.tt else 0, "Outer.tt"),
}


@pytest.mark.parametrize(("function", "missing"), READS_WHAT_IS_NOT_THERE.values(), ids=READS_WHAT_IS_NOT_THERE)
@pytest.mark.parametrize("where", ["time", "key", "ordered_by", "is_marker"])
def test_TT123_a_source_reads_an_attribute_that_no_value_has(where: str, function: Any, missing: str) -> None:
    flow = Dataflow("test")
    edge: Any = O[int, Outer] if where == "ordered_by" else U[int, Outer]
    markers = every(seconds=1, time=lambda r: r.ts)
    if where == "time":
        markers = every(seconds=1, time=function)
    given: dict[str, Any] = {"markers": markers, "key": function if where == "key" else lambda r: r.ts}
    if where == "is_marker":
        given["markers"] = in_band(is_marker=function, time=lambda r: r.ts)
    if where == "ordered_by":
        given["ordered_by"] = function
    flow.sink("out", flow.source("in", edge, **given))
    (one,) = violations(flow)
    assert (one.code, one.operator, one.where) == ("TT123", "source 'in'", Location(HERE, function.__code__.co_firstlineno))
    assert one.found == f"{where} reads {missing}"


READS_WHAT_MAY_BE_THERE: dict[str, tuple[Any, Any]] = {
    "a property": (lambda r: r.minutes, Outer),
    "a nested field": (lambda r: len(r.place.room), Outer),
    "behind a branch": (lambda r: r.ts if r.ts >= 0 else r.tt, Outer),
    "guarded": (guarded_time, Outer),
    "raises for another reason": (lambda r: 1 // (r.ts - r.ts), Outer),
    "another value of the name": (other_name, Outer),
    "another argument": (second_argument, Outer),
    "of what it calls": (lambda r: r.ts.real.nothing, Outer),
    "made later": (lambda r: r.more, MakesMore),
    "computed": (lambda r: r.anything, Computed),
    "no function of Python": (attrgetter("tt"), Outer),
}


@pytest.mark.parametrize(("function", "value"), READS_WHAT_MAY_BE_THERE.values(), ids=READS_WHAT_MAY_BE_THERE)
def test_TT123_is_no_false_alarm(function: Any, value: Any) -> None:
    """The function is not called, either: some of these raise."""
    flow = Dataflow("test")
    flow.sink("out", flow.source("in", U[Unit, value], markers=every(seconds=1, time=function)))
    assert violations(flow) == ()


@pytest.mark.parametrize("extra", [{"marker": "ts"}, {"marker": "key"}, {"marker": "at", "position": "at"}])
def test_TT119_a_column_twice(extra: dict[str, str]) -> None:
    flow, hub = readings()
    ordered = hub.through(sort(by=lambda r: r.ts))
    at = line() + 1
    flow.sink("out", ordered, marker=extra.get("marker"), position=extra.get("position"))
    violation(
        flow,
        "TT119",
        "sink 'out'",
        at,
        found=f"two columns named {extra['marker']!r}",
        expected="distinct columns",
        fix="choose another name",
    )


def test_TT119_no_CSV_of_nested_columns() -> None:
    flow = Dataflow("test")
    hub, at = flow.source("in", U[str, Meter], markers=TICKS, format=csv()), line()
    flow.sink("out", hub, format=csv())
    for one, operator, where in zip(violations(flow), ("source 'in'", "sink 'out'"), (at, at + 1), strict=True):
        assert one == Violation(
            "TT119",
            operator,
            Location(HERE, where),
            "CSV for the nested column 'place'",
            "flat columns",
            f"{'read' if where == at else 'write'} JSON lines or Parquet, or map to a flat record",
        )


def test_TT119_lines_of_text_are_one_column_that_is_read() -> None:
    flow = Dataflow("test")
    wrong, at = flow.source("in", U[str, str], markers=TICKS, format=text_lines()), line()
    flow.source("number", U[Unit, int], markers=every(seconds=1, time=lambda n: n), format=text_lines())
    flow.sink("out", wrong, format=text_lines())
    found = [one for one in violations(flow) if one.code == "TT119"]
    assert [(one.operator, one.found) for one in found] == [
        ("source 'in'", "lines of text for key, value"),
        ("source 'number'", "lines of text for value"),
        ("sink 'out'", "text_lines() at a sink"),
    ]
    assert found[0].where == Location(HERE, at)
    good = Dataflow("good")
    ticks = every(seconds=1, time=len)
    good.sink("plain", good.source("lines", U[Unit, str], markers=ticks, format=text_lines()))
    good.sink("keyed", good.source("by-length", U[int, str], key=len, markers=ticks, format=text_lines()))
    check(good)


def test_TT119_flat_CSV_and_nested_JSON_are_fine() -> None:
    flow, hub = readings()
    flow.sink("out", hub, format=csv(), marker="until")
    nested = flow.source("nested", U[str, Meter], markers=TICKS, format=json_lines())
    flow.sink("nested", nested, format=json_lines())
    check(flow)


# --------------------------------------------------------------------------------------------- all at once


def wrong_everywhere() -> tuple[Dataflow, list[tuple[str, int]]]:
    """A flow with many mistakes, and their codes and lines."""
    flow, hub = readings()
    wrong: Any = Change()
    lost, a = hub.through(wrong), line()  # TT101
    keys, b = flow.source("keys", U[int, Reading], markers=TICKS), line()  # TT109, as nothing reads it
    plain, c = hub.through(Plain(), parallelism=0), line()  # TT110 and TT122
    start = line()
    flow.sink("out", lost)
    flow.sink("out", plain)  # TT112
    flow.sink("out 2", plain)  # TT118
    del keys
    return flow, [("TT101", a), ("TT109", b), ("TT110", c), ("TT122", c), ("TT112", start + 2), ("TT118", start + 3)]


def test_all_violations_are_reported_together_in_the_order_of_their_lines() -> None:
    flow, expected = wrong_everywhere()
    found = violations(flow)
    assert sorted((one.code, one.where.line) for one in found) == sorted(expected)
    lines = [one.where.line for one in found]
    assert lines == sorted(lines)


def test_check_raises_all_of_them() -> None:
    flow, expected = wrong_everywhere()
    with pytest.raises(CheckFailed) as caught:
        check(flow)
    assert caught.value.violations == violations(flow)
    assert str(caught.value).startswith(f"{len(expected)} violations\n")
    for code, at in expected:
        assert f"{code} {Location(HERE, at)}: " in str(caught.value)


# --------------------------------------------------------------------------------------- one cause, one report


def test_nothing_follows_from_a_source_of_no_type() -> None:
    flow = Dataflow("test")
    wrong: Any = U[str, dict[str, int]]
    hub: Stream[Any] = flow.source("in", wrong, markers=TICKS)
    steps: list[Any] = [Same(), sort(by=lambda v: v), Last(), Count()]
    last = hub
    for step in steps:
        last = last.through(step)
    assert codes(ended(flow, merge(last, hub))) == [("TT106", "source 'in'")]


def test_nothing_follows_from_a_lost_order() -> None:
    flow, hub = readings()
    wrong: Any = Change()
    made: Stream[Any] = hub.through(wrong)
    flow.sink("out", made.through(Last()), position="at")
    assert codes(flow) == [("TT101", "Change")]


def test_nothing_follows_from_a_wrong_value() -> None:
    flow = Dataflow("test")
    wrong: Any = Scale()
    made = flow.source("in", U[str, int], markers=TICKS).through(wrong)
    assert codes(ended(flow, made.through(Count()))) == [("TT103", "Scale")]


def test_nothing_follows_from_a_type_variable_that_a_wrong_value_left_open() -> None:
    @attrs.frozen
    class Each(OpStateless[K, list[V], K, V]):
        def on_item(self, key: K, value: list[V], emit: Callable[[K, V], None]) -> None:
            for one in value:
                emit(key, one)

    flow = Dataflow("test")
    wrong: Any = Each()
    made = flow.source("in", U[str, int], markers=TICKS).through(wrong)
    assert codes(ended(flow, made.through(Count()))) == [("TT103", "Each")]


def test_nothing_follows_from_a_foreign_stream_or_a_cycle() -> None:
    _, foreign = readings(flow=Dataflow("foreign"))
    flow, hub = readings()
    made: Stream[Any] = merge(hub, foreign)
    assert codes(ended(flow, made.through(Scale()).through(Count[str, float]()))) == [("TT108", "merge")]


def test_an_operator_says_what_it_gives_even_when_its_input_is_unknown() -> None:
    """What is wrong behind is found too: Scale gives floats, whatever it was given."""
    flow = Dataflow("test")
    wrong: Any = list[int]
    scale: Any = Scale()
    made: Stream[Any] = flow.source("in", wrong, markers=TICKS)
    assert codes(ended(flow, made.through(scale).through(scale))) == [("TT107", "source 'in'"), ("TT103", "Scale")]


# --------------------------------------------------------------------------------------- what is right is right


def test_generic_operators_take_any_type() -> None:
    flow, hub = readings()
    counted: Stream[Any] = hub
    steps: list[Any] = [Same(), sort(by=lambda r: r.ts), Last(), Count()]
    for step in steps:
        counted = counted.through(step)
    checked = check(ended(flow, counted))
    assert [str(checked.types[node.id]) for node in checked.graph.nodes] == [
        "U[str, Reading]",
        "U[str, Reading]",
        "O[str, Reading]",
        "O[str, Reading]",
        "U[str, int]",
        "U[str, int]",
    ]
    assert checked.streams[4] == StreamType(False, String(), Integer())


def test_type_variables_inside_other_types() -> None:
    @attrs.frozen
    class Present(OpStateless[K, V | None, K, V]):
        def on_item(self, key: K, value: V | None, emit: Callable[[K, V], None]) -> None:
            if value is not None:
                emit(key, value)

    @attrs.frozen
    class Together(OpStateless[K, V, K, tuple[V, ...]]):
        def on_item(self, key: K, value: V, emit: Callable[[K, tuple[V, ...]], None]) -> None:
            emit(key, (value, value))

    flow = Dataflow("test")
    hub = flow.source("in", U[str, Reading | None], markers=TICKS)
    checked = check(ended(flow, hub.through(Present[str, Reading]()).through(Together[str, Reading]())))
    assert str(checked.types[2]) == "U[str, tuple[Reading, ...]]"


def test_operators_that_inherit_from_operators() -> None:
    @attrs.frozen
    class Twice(Same[str, Reading]):
        pass

    @attrs.frozen
    class More(Scale):
        more: int = 1

    flow, hub = readings()
    checked = check(ended(flow, hub.through(Twice()).through(More())))
    assert str(checked.types[2]) == "U[str, float]"


def test_a_bound_of_a_type_variable_is_kept() -> None:
    bounded = TypeVar("bounded", bound=Place)
    either = TypeVar("either", int, str)

    @attrs.frozen
    class Places(OpStateless[K, bounded, K, bounded]):
        def on_item(self, key: K, value: bounded, emit: Callable[[K, bounded], None]) -> None: ...

    @attrs.frozen
    class Either(OpStateless[either, V, either, V]):
        def on_item(self, key: either, value: V, emit: Callable[[either, V], None]) -> None: ...

    def through(edge: Any, op: Any) -> list[tuple[str, str]]:
        flow = Dataflow("test")
        hub: Stream[Any] = flow.source("in", edge, markers=TICKS)
        return codes(ended(flow, hub.through(op)))

    assert through(U[str, Place], Places()) == []
    assert through(U[str, Reading], Places()) == [("TT103", "Places")]
    assert through(U[str, Place], Either()) == []
    assert through(U[float, Place], Either()) == [("TT102", "Either")]


def test_composite_functions() -> None:
    def changes(stream: Stream[U[str, Reading]]) -> Stream[O[str, float]]:
        return stream.through(sort(by=lambda r: r.ts), parallelism=3).through(Change())

    flow, hub = readings()
    graph = check(ended(flow, hub.through(changes, parallelism=5))).graph
    widths = [node.parallelism for node in graph.nodes if isinstance(node, Apply | Sort)]
    assert widths == [3, 5]  # the inner one is kept


def test_a_stream_may_have_many_consumers() -> None:
    """Design, corner 8."""
    flow, hub = readings()
    for at in range(3):
        flow.sink(f"out{at}", hub)
    flow.sink("counts", hub.through(Count[str, Reading]()))
    check(flow)


@attrs.frozen
class Left:
    id: int


@attrs.frozen
class Right:
    id: int


def test_merges_of_all_kinds() -> None:
    flow = Dataflow("test")
    left = flow.source("left", O[Left, float], markers=TICKS, ordered_by=lambda v: v)
    right = flow.source("right", O[Right, float], markers=TICKS, ordered_by=ROW_POSITION)
    loose = flow.source("loose", U[Left, float], markers=TICKS)
    more = flow.source("more", O[Left, float], markers=TICKS, ordered_by=lambda v: v)
    mixed: Stream[Any] = merge(left, loose)
    either = merge(left, right)
    streams: list[Stream[Any]] = [either, merge(loose, loose), mixed, merge(left, more), merge(left)]
    streams.append(either.through(Last[Left | Right, float]()))
    for at, stream in enumerate(streams):
        flow.sink(f"out{at}", stream)
    checked = check(flow)
    assert [str(checked.types[stream.id]) for stream in streams] == [
        "O[Left | Right, float]",
        "U[Left, float]",
        "U[Left, float]",
        "O[Left, float]",
        "O[Left, float]",
        "O[Left | Right, float]",
    ]


def test_a_merge_of_merges_has_the_union_of_all_keys() -> None:
    @attrs.frozen
    class Third:
        id: int

    flow = Dataflow("test")
    keys: list[Any] = [Left, Right, Third]
    edges: list[Any] = [EdgeType(False, key, int) for key in keys]
    a, b, c = (flow.source(f"s{at}", edge, markers=TICKS) for at, edge in enumerate(edges))
    first: Stream[Any] = merge(a, b)
    second: Stream[Any] = merge(c, b)
    checked = check(ended(flow, merge(first, second)))
    assert str(checked.types[5]) == "U[Left | Right | Third, int]"


def test_new_types_and_scalars_of_all_kinds() -> None:
    sensor = NewType("sensor", str)
    flow = Dataflow("test")
    for at, key in enumerate(
        (sensor, bool, int, float, str, bytes, dt.datetime, dt.date, Unit, Place, tuple[int, ...])
    ):
        edge: Any = EdgeType(False, key, int)
        hub: Stream[Any] = flow.source(f"s{at}", edge, markers=TICKS)
        flow.sink(f"t{at}", hub)
    check(flow)


def test_nodes_of_the_compiler_keep_the_type() -> None:
    flow, hub = readings()
    flow.sink("out", hub)
    source, sink = flow.graph.nodes
    where = Location(HERE, 1)
    nodes = (
        source,
        Split(id=10, where=where, inputs=(0,), how="HASH", ways=2),
        Restore(id=11, where=where, inputs=(10,)),
        Gather(id=12, where=where, inputs=(11,)),
        Fused(id=13, where=where, inputs=(12,), steps=()),
        attrs.evolve(sink, inputs=(13,)),
    )
    checked = check(Graph("test", nodes))
    assert {str(edge) for edge in checked.types.values()} == {"U[str, Reading]"}


def test_layouts_of_sources_and_sinks() -> None:
    flow = Dataflow("test")
    keyed = flow.source("keyed", U[str, Reading], markers=TICKS)
    derived = flow.source("derived", U[str, Reading], markers=TICKS, key=lambda r: "a")
    flow.sink("out", merge(keyed, derived), marker="until")
    checked = check(flow)
    one, other, _, sink = checked.graph.nodes
    assert isinstance(one, Source)
    assert isinstance(other, Source)
    assert isinstance(sink, Sink)
    assert [name for name, _ in checked.layout(one).columns] == ["key", "watts", "ts"]
    assert [name for name, _ in checked.layout(other).columns] == ["watts", "ts"]
    assert [name for name, _ in checked.layout(sink).columns] == ["key", "watts", "ts"]


def test_a_thousand_operators_are_checked_in_seconds() -> None:
    flow, hub = readings()
    made: Stream[Any] = hub
    for at in range(500):
        made = made.through(Same())
        flow.sink(f"out{at}", made.through(Count()))
    started = time.perf_counter()
    checked = check(flow)
    assert time.perf_counter() - started < 10
    assert len(checked.graph.nodes) == 1 + 3 * 500


def test_a_thousand_wrong_operators_are_all_reported() -> None:
    flow, hub = readings()
    wrong: Any = Change()
    for at in range(1_000):
        flow.sink(f"out{at}", hub.through(wrong))
    assert codes(flow) == [("TT101", "Change")] * 1_000


def test_the_edge_behind_a_stream_is_known_while_the_flow_is_built() -> None:
    _, stream = readings()
    scaled = stream.through(Scale())
    assert str(edge_of(stream)) == "U[str, Reading]"
    assert str(edge_of(scaled)) == "U[str, float]"
    assert str(edge_of(scaled.through(sort(by=lambda v: v)))) == "O[str, float]"
    wrong: Any = merge(stream, scaled)
    assert edge_of(wrong) is None
    assert str(edge_of(stream)) == "U[str, Reading]"
