"""Graphs as authors build them: nodes with their lines, handles, and what is refused at once."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

from tracetypes import (
    ROW_POSITION,
    Dataflow,
    OpKeyedOrdered,
    OpStateless,
    Stream,
    U,
    UsageError,
    csv,
    every,
    merge,
    sort,
)
from tracetypes.errors import Location
from tracetypes.nodes import (
    Apply,
    Fused,
    Gather,
    Graph,
    Merge,
    Node,
    Restore,
    Sink,
    Sort,
    Source,
    Split,
    ancestors,
    steps_of,
    title,
)
from tracetypes.running import MOST_DRAWN

HERE = Path(__file__).as_posix()
TICKS = every(seconds=1, time=lambda value: 0)
NOWHERE = Location("test", 1)


def line() -> int:
    return sys._getframe(1).f_lineno


@attrs.frozen
class Same(OpStateless[int, int, int, int]):
    def on_item(self, key: int, value: int, emit: Callable[[int, int], None]) -> None:
        emit(key, value)


@attrs.frozen
class NoFields(OpKeyedOrdered[int, int, int, int]):
    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: int, value: int, emit: Callable[[int], None]) -> int:
        return state


def test_nodes_are_numbered_in_order_and_know_their_lines() -> None:
    flow = Dataflow("test")
    hub, a = flow.source("in", U[int, int], markers=TICKS), line()
    ordered, b = hub.through(sort(by=lambda v: v)), line()
    both, c = merge(hub, ordered.through(Same())), line()
    flow.sink("out", both)
    nodes = flow.graph.nodes
    assert [node.id for node in nodes] == [0, 1, 2, 3, 4]
    assert [type(node) for node in nodes] == [Source, Sort, Apply, Merge, Sink]
    assert [node.inputs for node in nodes] == [(), (0,), (1,), (0, 2), (3,)]
    assert [node.where for node in nodes] == [Location(HERE, at) for at in (a, b, c, c, c + 1)]
    assert [stream.id for stream in (hub, ordered, both)] == [0, 1, 3]


def test_what_a_source_and_a_sink_declare_is_kept() -> None:
    flow = Dataflow("test")
    key, format = abs, csv(separator=";")
    hub = flow.source("in", U[int, int], markers=TICKS, key=key, ordered_by=ROW_POSITION, format=format)  # type: ignore[arg-type]
    flow.sink("out", hub, marker="until", position="at", format=format)
    source, sink = flow.graph.nodes
    assert isinstance(source, Source)
    assert isinstance(sink, Sink)
    assert (source.name, source.edge, source.markers, source.key) == ("in", U[int, int], TICKS, key)
    assert (source.ordered_by, source.format) == (ROW_POSITION, format)
    assert (sink.name, sink.marker, sink.position, sink.format) == ("out", "until", "at", format)
    assert repr(ROW_POSITION) == "ROW_POSITION"


def test_parallelism_is_that_of_all_operators_that_are_added_unless_they_have_their_own() -> None:
    def inner(stream: Stream[U[int, int]]) -> Stream[U[int, int]]:
        return stream.through(Same()).through(Same(), parallelism=7)

    flow = Dataflow("test")
    hub = flow.source("in", U[int, int], markers=TICKS).through(Same())
    hub.through(inner, parallelism=3)
    assert [node.parallelism for node in flow.graph.nodes if isinstance(node, Apply)] == [None, 3, 7]


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (lambda stream: None, "gave None and no stream"),
        (lambda stream: 5, "gave 5 and no stream"),
        (5, "5 is no operator"),
        (None, "None is no operator"),
        (Same, "Same is a class"),
        (NoFields, "NoFields is a class"),
    ],
)
def test_TT116_what_a_stream_cannot_go_through(wrong: Any, found: str) -> None:
    flow = Dataflow("test")
    hub = flow.source("in", U[int, int], markers=TICKS)
    with pytest.raises(UsageError) as caught:
        hub.through(wrong)
    assert caught.value.code == "TT116"
    assert found in caught.value.message


@pytest.mark.parametrize("use", [list, lambda stream: stream[0], lambda stream: "x" in stream])
def test_TT116_a_stream_is_no_list(use: Callable[[Any], object]) -> None:
    stream: Any = Dataflow("rows").source("rows", U[str, int], markers=every(seconds=1, time=lambda v: v))
    with pytest.raises(UsageError, match=r"TT116 <SourceStream .* from source 'rows', .*> has no items before a run") as caught:
        use(stream)
    assert "pass an operator to through(), such as map_values(...)" in str(caught.value)
    assert not isinstance(stream, Iterable)  # it is no input of a run


def test_TT116_what_is_no_stream() -> None:
    flow = Dataflow("test")
    hub = flow.source("in", U[int, int], markers=TICKS)
    wrong: Any = Same()
    with pytest.raises(UsageError, match=r"TT116 .* is no stream"):
        flow.sink("out", wrong)
    with pytest.raises(UsageError, match=r"TT116 .* is no stream"):
        merge(hub, wrong)


def test_a_graph_knows_who_reads_whom() -> None:
    flow = Dataflow("test")
    hub = flow.source("in", U[int, int], markers=TICKS)
    flow.sink("a", hub.through(Same()))
    flow.sink("b", merge(hub, hub))
    graph = flow.graph
    assert {id: [node.id for node in readers] for id, readers in graph.consumers.items()} == {
        0: [1, 3, 3],
        1: [2],
        2: [],
        3: [4],
        4: [],
    }
    assert graph.node(3) is graph.nodes[3]
    assert [node.name for node in graph.sources] == ["in"]
    assert [node.name for node in graph.sinks] == ["a", "b"]
    assert sorted(node.id for node in ancestors(graph, 4)) == [0, 3, 4]


def test_ancestors_of_a_cycle_end() -> None:
    nodes = (Apply(id=0, where=NOWHERE, inputs=(1,), op=Same()), Apply(id=1, where=NOWHERE, inputs=(0, 9), op=Same()))
    assert sorted(node.id for node in ancestors(Graph("test", nodes), 0)) == [0, 1]


def test_titles() -> None:
    source = Source(id=0, where=NOWHERE, name="in", edge=U[int, int], markers=TICKS)
    apply = Apply(id=1, where=NOWHERE, inputs=(0,), op=Same())
    order = Sort(id=2, where=NOWHERE, inputs=(1,), by=abs)
    rest: list[Node] = [
        Merge(id=3, where=NOWHERE, inputs=(2,)),
        Sink(id=4, where=NOWHERE, inputs=(3,), name="out"),
        Split(id=5, where=NOWHERE, inputs=(0,), how="RR", ways=2),
        Gather(id=6, where=NOWHERE, inputs=(5,)),
        Restore(id=7, where=NOWHERE, inputs=(5,)),
        Fused(id=8, where=NOWHERE, inputs=(0,), steps=(apply, order)),
    ]
    assert [title(node) for node in [source, apply, order, *rest]] == [
        "source 'in'",
        "Same",
        "sort",
        "merge",
        "sink 'out'",
        "RR(2)",
        "MRG",
        "SORT by position",
        "Same ; sort",
    ]
    assert steps_of(rest[-1]) == (apply, order)
    assert steps_of(apply) == (apply,)


def test_sources_and_sinks_inside_fused_chains_are_found() -> None:
    source = Source(id=0, where=NOWHERE, name="in", edge=U[int, int], markers=TICKS)
    sink = Sink(id=1, where=NOWHERE, inputs=(0,), name="out")
    graph = Graph("test", (Fused(id=2, where=NOWHERE, inputs=(), steps=(source, sink)),))
    assert graph.sources == (source,)
    assert graph.sinks == (sink,)


def test_nodes_are_frozen_and_compared_by_identity() -> None:
    one, other = (Merge(id=0, where=NOWHERE, inputs=()) for _ in range(2))
    assert one != other
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.id = 1  # type: ignore[misc]


def test_a_dataflow_and_its_streams_are_shown() -> None:
    flow = Dataflow("shown")
    assert repr(flow) == "<Dataflow 'shown': no source -> no sink, 0 nodes>"
    items = flow.source("items", U[int, int], markers=TICKS)
    same = items.through(Same())
    at = same.flow.graph.node(same.id).where
    flow.sink("out", same)
    assert repr(flow) == "<Dataflow 'shown': items -> out, 3 nodes>"
    assert repr(items).startswith("<SourceStream U[int, int] from source 'items', ")
    assert repr(same) == f"<Stream U[int, int] from Same, {at}>"
    no_edge: Any = int
    wrong = flow.source("texts", no_edge, markers=TICKS)
    assert repr(wrong).startswith("<SourceStream of unknown type from source 'texts', ")


def test_a_notebook_shows_the_picture_of_a_dataflow() -> None:
    flow = Dataflow("a<b")
    assert flow._repr_html_() is None
    items = flow.source("items", U[int, int], markers=TICKS)
    begun = flow._repr_html_()
    assert begun is not None
    assert "<svg" in begun
    assert "TT109" in begun, "and what is still missing"
    flow.sink("out", items.through(Same()))
    whole = flow._repr_html_()
    assert whole is not None
    assert "U[int, int]" in whole
    assert "TT1" not in whole
    assert "a<b" not in whole
    no_edge: Any = int
    flow.source("texts", no_edge, markers=TICKS)
    wrong = flow._repr_html_()
    assert wrong is not None
    assert wrong.startswith("<pre>"), "an edge has no type"
    assert "TT107" in wrong


def test_a_large_dataflow_is_not_drawn() -> None:
    flow = Dataflow("large")
    stream: Stream[U[int, int]] = flow.source("items", U[int, int], markers=TICKS)
    for _ in range(MOST_DRAWN):
        stream = stream.through(Same())
    assert flow._repr_html_() is None
