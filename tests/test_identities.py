"""The identities of the nodes of a graph: parents in their places, sources, markers, parameters, what is unique and why."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.source_modules import modules
from tracetypes import (
    Dataflow,
    Marker,
    O,
    OpKeyedOrdered,
    OpStateless,
    Stream,
    U,
    Unit,
    check,
    csv,
    every,
    in_band,
    merge,
    sort,
    stdlib,
)
from tracetypes.compiler.analysis.identity import reach
from tracetypes.compiler.analysis.identity.functions import describe_function
from tracetypes.compiler.analysis.identity.identities import Digest, Identity, Unique, identities
from tracetypes.compiler.analysis.secret import Key
from tracetypes.gates import period, sequence, time, value
from tracetypes.nodes import title
from tracetypes.stdlib import Sqlite, count, enrich, filter, lookup_join, map, map_values, tumbling


@attrs.frozen
class Row:
    ts: int
    n: int


@attrs.frozen
class Cat:
    n: int


@attrs.frozen
class Dog:
    n: int


MARKERS: Any = every(seconds=10, time=lambda row: row.ts)
PLACES: Mapping[str, str] = {name: f"files in {name}, as Parquet" for name in ("a", "b", "c")}


def flow_of(build: Callable[[Dataflow, Stream[Any], Stream[Any]], Stream[Any]]) -> Dataflow:
    """A dataflow of two sources."""
    flow = Dataflow("some")
    left, right = (flow.source(name, U[Unit, Row], markers=MARKERS) for name in ("a", "b"))
    flow.sink("left", left)
    flow.sink("right", right)
    flow.sink("out", build(flow, left, right))
    return flow


def last(flow: Dataflow, inputs: Mapping[str, str | Unique] = PLACES, key: Key | None = None) -> Identity:
    """The identity of what the sink of a flow writes."""
    checked = check(flow)
    found = identities(checked, inputs=inputs, hide=None if key is None else key.hide)
    (sink,) = (node for node in checked.graph.nodes if title(node) == "sink 'out'")
    return found[sink.inputs[0]]


def digest(build: Callable[[Dataflow, Stream[Any], Stream[Any]], Stream[Any]], key: Key | None = None) -> str:
    identity = last(flow_of(build), key=key)
    assert isinstance(identity, Digest), identity
    return identity.text


def unique(build: Callable[[Dataflow, Stream[Any], Stream[Any]], Stream[Any]]) -> str:
    identity = last(flow_of(build))
    assert isinstance(identity, Unique)
    return identity.reason


def plus(n: int) -> Any:
    return map_values(lambda row: attrs.evolve(row, n=row.n + n), to=Row)


def number_of(cls: type[Any]) -> Any:
    return lambda key, row: (cls(1), row.n)


def big(n: int) -> Any:
    return filter(lambda key, row: row.n > n)


def test_an_identity_is_a_hash() -> None:
    text = digest(lambda flow, a, b: a.through(big(1)))
    assert len(text) == 64
    assert set(text) <= set("0123456789abcdef")


def test_parameters_count() -> None:
    assert digest(lambda flow, a, b: a.through(big(1))) == digest(lambda flow, a, b: a.through(big(1)))
    assert digest(lambda flow, a, b: a.through(big(1))) != digest(lambda flow, a, b: a.through(big(2)))


def test_parents_count() -> None:
    assert digest(lambda flow, a, b: a.through(big(1))) != digest(lambda flow, a, b: b.through(big(1)))
    one, other = [plus(1), big(1)], [big(1), plus(1)]
    assert digest(lambda flow, a, b: a.through(one[0]).through(one[1])) != digest(
        lambda flow, a, b: a.through(other[0]).through(other[1])
    )


def test_the_order_of_the_parents_of_a_merge_does_not_count() -> None:
    assert digest(lambda flow, a, b: merge(a, b)) == digest(lambda flow, a, b: merge(b, a))


def test_how_often_a_merge_reads_a_parent_counts() -> None:
    texts = [
        digest(lambda flow, a, b: merge(a, b)),
        digest(lambda flow, a, b: merge(a, a, b)),
        digest(lambda flow, a, b: merge(a, b, b)),
        digest(lambda flow, a, b: merge(a, a)),
    ]
    assert len(set(texts)) == len(texts)
    # Two operators that are equal are as good as one that is read twice.
    assert digest(lambda flow, a, b: merge(a.through(big(1)), a.through(big(1)))) == digest(
        lambda flow, a, b: (lambda one: merge(one, one))(a.through(big(1)))
    )


def test_a_merge_tells_apart_records_of_equal_fields() -> None:
    """Whoever counts the items of one of two classes must get those of the same parent."""

    def flow_with(order: bool, counted: type[Any], swapped: bool = False) -> str:
        def build(flow: Any, a: Any, b: Any) -> Any:
            first, second = (b, a) if swapped else (a, b)
            cats = first.through(map(number_of(Cat), to=tuple[Cat, int]))
            dogs = second.through(map(number_of(Dog), to=tuple[Dog, int]))
            both = merge(cats, dogs) if order else merge(dogs, cats)
            return both.through(filter(lambda key, n: isinstance(key, counted)))

        return digest(build)

    assert flow_with(True, Cat) == flow_with(True, Cat)
    assert flow_with(True, Cat) != flow_with(False, Dog)
    assert flow_with(True, Cat) != flow_with(True, Dog)
    assert flow_with(True, Cat) != flow_with(True, Cat, swapped=True)


def test_parallelism_names_and_lines_do_not_count() -> None:
    def named(flow_name: str, sink: str, parallelism: int | None) -> str:
        flow = Dataflow(flow_name)
        rows = flow.source("a", U[Unit, Row], markers=MARKERS)
        flow.sink(sink, rows.through(sort(by=lambda row: row.n), parallelism=parallelism))
        found = identities(check(flow), inputs=PLACES)
        return found[1].text

    assert named("one", "x", None) == named("two", "y", 4)


SOURCES: dict[str, Callable[[Dataflow], Any]] = {
    "plain": lambda flow: flow.source("a", U[Unit, Row], markers=MARKERS),
    "period": lambda flow: flow.source("a", U[Unit, Row], markers=every(seconds=20, time=lambda row: row.ts)),
    "delay": lambda flow: flow.source("a", U[Unit, Row], markers=every(seconds=10, time=lambda row: row.ts, delay=1)),
    "time": lambda flow: flow.source("a", U[Unit, Row], markers=every(seconds=10, time=lambda row: row.n)),
    "unit": lambda flow: flow.source("a", U[Unit, Row], markers=every(seconds=10, time=lambda row: row.ts, unit="ms")),
    "in band": lambda flow: flow.source(
        "a", U[Unit, Row], markers=in_band(is_marker=lambda row: row.n == 0, time=lambda row: row.ts)
    ),
    "key": lambda flow: flow.source("a", U[int, Row], markers=MARKERS, key=lambda row: row.n),
    "another key": lambda flow: flow.source("a", U[int, Row], markers=MARKERS, key=lambda row: row.ts),
    "column of keys": lambda flow: flow.source("a", U[int, Row], markers=MARKERS),
    "order": lambda flow: flow.source("a", O[Unit, Row], markers=MARKERS, ordered_by=lambda row: row.n),
    "another order": lambda flow: flow.source("a", O[Unit, Row], markers=MARKERS, ordered_by=lambda row: row.ts),
    "format": lambda flow: flow.source("a", U[Unit, Row], markers=MARKERS, format=csv(separator=";")),
    "times": lambda flow: flow.source("a", U[Unit, Row], markers=MARKERS, times="truncate"),
    "type": lambda flow: flow.source("a", U[Unit, Dog], markers=every(seconds=10, time=lambda row: row.n)),
    "late": lambda flow: flow.source("a", U[Unit, Row], markers=MARKERS).late(),
    "rejects": lambda flow: flow.source("a", U[Unit, Row], markers=MARKERS).rejects(),
}


def source_identity(name: str, inputs: Mapping[str, str] = PLACES) -> str:
    flow = Dataflow("some")
    flow.sink("out", SOURCES[name](flow))
    identity = last(flow, inputs)
    assert isinstance(identity, Digest), identity
    return identity.text


def test_how_a_source_is_read_counts() -> None:
    texts = {name: source_identity(name) for name in SOURCES}
    assert len(set(texts.values())) == len(texts)
    assert texts == {name: source_identity(name) for name in SOURCES}


def test_what_a_source_reads_counts_and_not_its_name() -> None:
    def named(name: str, place: str) -> str:
        flow = Dataflow("some")
        flow.sink("out", flow.source(name, U[Unit, Row], markers=MARKERS))
        return last(flow, {name: place}).text

    assert named("a", "here") == named("z", "here")
    assert named("a", "here") != named("a", "there")


GATES: dict[str, Callable[[Any], Any]] = {
    "none": lambda a: a.gate(),
    "latest": lambda a: a.latest(latest_by=lambda row: row.ts),
    "time": lambda a: a.gate(time(60)),
    "another time": lambda a: a.gate(time(61)),
    "sequence": lambda a: a.gate(sequence(3)),
    "rows": lambda a: a.gate(sequence(3, rows=lambda key: True)),
    "other rows": lambda a: a.gate(sequence(3, rows=lambda key: False)),
    "value": lambda a: a.gate(value(percent=3, columns="n"), latest_by=lambda row: row.ts),
    "another latest": lambda a: a.gate(value(percent=3, columns="n"), latest_by=lambda row: row.n),
    "both": lambda a: a.gate(time(60), period(60)),
    "either": lambda a: a.gate(time(60) | period(60)),
}


def test_bounds_of_gates_count() -> None:
    def gated(gate: str) -> str:
        return digest(lambda flow, a, b: GATES[gate](a.through(map(lambda key, row: (row.n, row), to=tuple[int, Row]))))

    texts = {gate: gated(gate) for gate in GATES}
    assert len(set(texts.values())) == len(texts)
    assert texts == {gate: gated(gate) for gate in GATES}


def test_windows_and_aggregates_count() -> None:
    texts = [
        digest(lambda flow, a, b: a.through(tumbling(stdlib.sum(lambda row: row.n, to=int), size=60))),
        digest(lambda flow, a, b: a.through(tumbling(stdlib.sum(lambda row: row.ts, to=int), size=60))),
        digest(lambda flow, a, b: a.through(tumbling(stdlib.sum(lambda row: row.n, to=int), size=30))),
        digest(lambda flow, a, b: a.through(tumbling(count(), size=60))),
    ]
    assert len(set(texts)) == len(texts)


@attrs.frozen
class Total(OpKeyedOrdered[Unit, Row, int, int]):
    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: Unit, value: Row, emit: Callable[[int], None]) -> int:
        return state + value.n

    def on_marker(self, state: int, key: Unit, marker: Marker, emit: Callable[[int], None]) -> int:
        emit(state)
        return state


@attrs.frozen
class Sum(OpKeyedOrdered[Unit, Row, int, int]):
    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: Unit, value: Row, emit: Callable[[int], None]) -> int:
        return state + value.n

    def on_marker(self, state: int, key: Unit, marker: Marker, emit: Callable[[int], None]) -> int:
        emit(state)
        return state


@attrs.frozen
class SumOfEvery(Sum):
    forgets_idle = True


@attrs.frozen
class Counted(OpStateless[Unit, Row, Unit, Row]):
    seen = 0

    def on_item(self, key: Unit, value: Row, emit: Callable[[Unit, Row], None]) -> None:
        type(self).seen += 1
        emit(key, value)


def in_order(stream: Any) -> Any:
    by: Any = lambda row: row.ts  # noqa: E731
    return stream.through(sort(by=by))


def test_operators_of_authors_count_by_what_they_do() -> None:
    texts = [
        digest(lambda flow, a, b, op=op: in_order(a).through(op))  # type: ignore[misc]
        for op in (Total(), Sum(), SumOfEvery())
    ]
    assert texts[0] == texts[1] != texts[2]


def test_two_packages_with_one_flow_share_it() -> None:
    text = (Path(__file__).parent / "identity_package.txt").read_text()
    other = text.replace("Reading", "Messung").replace("Hourly", "Stuendlich")
    with modules(first_team=text, second_team=other) as made:
        flows = [check(module.flow) for module in made.values()]
        first, second = (identities(flow, inputs={"hub": "here"}, outputs={"out": "there"}) for flow in flows)
    assert [one.text for one in first.values()] == [one.text for one in second.values()]
    assert all(isinstance(one, Digest) for one in first.values())


# ------------------------------------------------------------------------------------------------------- unique


def test_unique_is_equal_to_nothing() -> None:
    one, other = Unique("it is"), Unique("it is")
    assert one != other
    assert one.text != other.text


def test_a_source_of_which_nothing_is_said_is_unique() -> None:
    flow = flow_of(lambda flow, a, b: a)
    identity = last(flow, {})
    assert isinstance(identity, Unique)
    assert identity.reason == "nothing says what it reads"
    given = last(flow, {"a": Unique("a socket has one reader")})
    assert isinstance(given, Unique)
    assert given.reason == "a socket has one reader"


def test_what_reads_from_something_unique_is_unique_and_says_from_what() -> None:
    assert unique(lambda flow, a, b: a.through(Counted()).through(big(1)).through(big(2))) == (
        "it reads from Counted: the function Counted.on_item assigns seen of a class"
    )
    assert unique(lambda flow, a, b: merge(b, a.through(Counted()))).startswith("it reads from Counted")


def test_a_table_outside_is_unique() -> None:
    meters: Sqlite[Any] = Sqlite(path="plant.db", table="meters", key="id", row=Dog)
    number: Any = lambda key, row: row.n  # noqa: E731
    join: Any = lookup_join(meters, by=number, combine=lambda row, meter: meter, to=Dog)
    assert unique(lambda flow, a, b: a.through(join)) == "a table outside of the dataflow may change"


def test_a_table_of_the_program_counts_by_its_content() -> None:
    def joined(table: dict[int, Any]) -> Any:
        return enrich(table, by=lambda key, row: row.n, combine=lambda row, name: name, to=str)

    texts = [digest(lambda flow, a, b, t=t: a.through(joined(t))) for t in ({1: "a"}, {1: "b"}, {1: "a", 2: "b"})]  # type: ignore[misc]
    assert len(set(texts)) == 3
    assert "can change" in unique(lambda flow, a, b: a.through(joined({1: ["a"]})))


def test_a_gate_that_looks_at_the_machine_is_unique() -> None:
    from tracetypes.gates import adaptive

    bound: Any = adaptive(time(60), time(600))
    assert unique(lambda flow, a, b: a.gate(bound)) == "its bound looks at the machine"


def test_a_sink_has_an_identity_where_its_output_is_told() -> None:
    checked = check(flow_of(lambda flow, a, b: a))
    sink = checked.graph.nodes[-1].id
    alone = identities(checked, inputs=PLACES)[sink]
    assert isinstance(alone, Unique)
    assert alone.reason == "it writes an output of its own"
    one, other = (identities(checked, inputs=PLACES, outputs={"out": place})[sink] for place in ("x", "y"))
    assert isinstance(one, Digest)
    assert one != other


@attrs.frozen
class Signed(OpStateless[Unit, Row, Unit, int]):
    token: str = attrs.field(repr=False)
    by: dt.timedelta = dt.timedelta(1)

    def on_item(self, key: Unit, value: Row, emit: Callable[[Unit, int], None]) -> None:
        emit(key, len(self.token) + value.n)


def test_secrets_of_operators_need_a_key() -> None:
    one, other = Key(b"a" * 32), Key(b"b" * 32)
    texts = [
        digest(lambda flow, a, b, s=secret: a.through(Signed(s)), key)  # type: ignore[misc]
        for secret, key in (("x", one), ("y", one), ("x", other))
    ]
    assert len(set(texts)) == 3
    assert digest(lambda flow, a, b: a.through(Signed("x")), one) == texts[0]
    assert unique(lambda flow, a, b: a.through(Signed("x"))) == "holds a secret, and there is no key to compare it with"


def test_what_the_library_hides_and_computes_is_no_secret() -> None:
    greatest: Any = tumbling(stdlib.max(lambda row: row.n, to=int), size=60)
    assert digest(lambda flow, a, b: a.through(greatest))


def test_operators_share_what_is_known_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function is described once."""
    described: list[object] = []

    def counted(function: Any, context: Any) -> Any:
        described.append(function)
        return describe_function(function, context)

    monkeypatch.setattr(reach, "describe_function", counted)
    flow = Dataflow("large")
    rows: Any = flow.source("a", U[Unit, Row], markers=MARKERS)
    operator = big(1)
    for _ in range(2_000):
        rows = rows.through(operator)
    flow.sink("out", rows)
    found = identities(check(flow), inputs=PLACES)
    assert len({one.text for one in found.values()}) == 2_002
    assert len(described) == len({id(one) for one in described})
