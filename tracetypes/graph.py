"""The author's side of a graph: typed handles, which put nodes into it (:mod:`tracetypes.nodes`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

import attrs

from tracetypes.bounds import combined
from tracetypes.calls import need_function
from tracetypes.edges import Edge, O, U
from tracetypes.errors import UsageError, caller, counted
from tracetypes.nodes import Apply, Gate, Graph, Merge, Node, Output, RowPosition, Sink, Sort, Source, Times, title
from tracetypes.records import show
from tracetypes.self_description import SelfDescribing

if TYPE_CHECKING:
    from tracetypes.bounds import Bound
    from tracetypes.formats import Format, Kafka
    from tracetypes.markers import Markers
    from tracetypes.records import Unit
    from tracetypes.rejects import Rejected
    from tracetypes.sort_keys import Orderable

__all__ = ["Dataflow", "SourceStream", "Stream", "merge", "sort"]

K = TypeVar("K")
K1 = TypeVar("K1")
K2 = TypeVar("K2")
V = TypeVar("V")
E = TypeVar("E", bound=Edge[Any, Any])
R = TypeVar("R", bound=Edge[Any, Any])
E_co = TypeVar("E_co", bound=Edge[Any, Any], covariant=True)


@attrs.define
class Display:
    """How streams and dataflows are shown. Layers above this one register the functions. ``edge``: the type of the edge
    behind a stream, or None if it is unknown. ``picture``: a dataflow as HTML. ``instead``: what to write instead of a method
    that no stream has."""

    edge: Callable[[Stream[Any]], object] = lambda stream: None
    picture: Callable[[Dataflow], str | None] = lambda flow: None
    instead: Callable[[str], str | None] = lambda name: None


DISPLAY: Final = Display()
"""What is registered."""


class Stream(Generic[E_co]):
    """A typed handle on an edge of a :class:`Dataflow`. ``E_co`` is ``U[K, V]`` or ``O[K, V]``."""

    __slots__ = ("flow", "id")

    def __init__(self, flow: Dataflow, id: int) -> None:
        self.flow = flow
        self.id = id

    def __repr__(self) -> str:
        node = self.flow._nodes[self.id]
        edge = DISPLAY.edge(self)
        return f"<{type(self).__name__} {'of unknown type' if edge is None else edge} from {title(node)}, {node.where}>"

    if not TYPE_CHECKING:  # a type checker refuses the name

        def __getattr__(self, name: str) -> Any:
            instead = None if name.startswith("_") else DISPLAY.instead(name)
            hint = "" if instead is None else f"; {instead}"
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}{hint}", name=name, obj=self)

        def __getitem__(self, at: object) -> Any:  # Python iterates by it, too; with __iter__ a stream would be an Iterable
            what = f"{self!r} has no items before a run"
            fix = "pass an operator to through(), such as map_values(...); run() fills a list with the rows of a sink"
            raise UsageError("TT116", what, fix=fix)

    def through(self, op: Callable[[Stream[E_co]], Stream[R]], *, parallelism: int | None = None) -> Stream[R]:
        """The output of an operator, a structural operator or any function of streams.

        ``parallelism``: how many copies of each keyed operator and sort of ``op`` run at once (None: the run decides).
        A backend with one width for all takes the largest number. Stateless operators run where their items are: if
        none of the operators is keyed, the check refuses ``parallelism`` (TT122).
        """
        operator: object = op
        if isinstance(operator, SelfDescribing) and not callable(operator):
            made = f"{operator._name()}(...)"
            raise UsageError(
                "TT116",
                f"{made} is an aggregate and no operator",
                fix=f"pass aggregate({made}) for its result of each block, or a window of it: tumbling({made}, size=60)",
            )
        if isinstance(operator, type) or not callable(operator):
            raise UsageError(
                "TT116",
                f"{operator.__name__} is a class" if isinstance(operator, type) else f"{operator!r} is no operator",
                fix="pass an instance of an operator, sort(by=...), or a function from Stream to Stream",
            )
        first = len(self.flow._nodes)
        result = op(self)
        if not isinstance(result, Stream):
            raise UsageError(
                "TT116",
                f"{op!r} gave {result!r} and no stream",
                fix="pass an operator of a template, sort(by=...), or a function from Stream to Stream",
            )
        if parallelism is not None:
            self.flow._set_parallelism(first, parallelism)
        return result


    @overload
    def gate(self: Stream[O[K, V]], *bounds: Bound, name: str | None = None) -> Stream[O[K, V]]: ...
    @overload
    def gate(
        self: Stream[U[K, V]],
        *bounds: Bound,
        latest_by: Callable[[V], Orderable] | None = None,
        name: str | None = None,
    ) -> Stream[U[K, V]]: ...
    def gate(self, *bounds: Bound, latest_by: Callable[[Any], Orderable] | None = None, name: str | None = None) -> Stream[Any]:
        """A gate that **holds**: it lets a marker through when all ``bounds`` are reached (:mod:`tracetypes.gates`), and joins
        the blocks between, ``B1 # B2 #`` to ``(B1 + B2) #``. No item is lost. What lies behind runs once for each marker that
        comes through.

        Without bounds every marker comes through. ``latest_by``: where the stream is a ``U`` and a bound looks at values, a
        function of the value: the item of a key with the greatest is the latest of its block. At the end of the input the last
        marker is let through. ``name``: for metrics.
        """
        return self._gate(bounds, False, latest_by, name)

    @overload
    def latest(self: Stream[O[K, V]], *bounds: Bound, name: str | None = None) -> Stream[O[K, V]]: ...
    @overload
    def latest(
        self: Stream[U[K, V]], *bounds: Bound, latest_by: Callable[[V], Orderable], name: str | None = None
    ) -> Stream[O[K, V]]: ...
    def latest(self, *bounds: Bound, latest_by: Callable[[Any], Orderable] | None = None, name: str | None = None) -> Stream[Any]:
        """A gate that hands on its **container**: as :meth:`gate`, but of the items of a key since the last marker that came
        through only the latest goes on. So what lies behind has the work of one item for each key that changed.

        ``latest_by`` is required for a ``U``. A block of the output has one item of a key at most, so it is an ``O``.
        """
        return self._gate(bounds, True, latest_by, name)

    def _gate(
        self, bounds: tuple[Bound, ...], latest: bool, latest_by: Callable[[Any], Orderable] | None, name: str | None
    ) -> Stream[Any]:
        if latest_by is not None:
            need_function("latest_by=", latest_by, "latest_by=lambda row: row.time")
        flow = self.flow
        return flow._add(
            Gate(
                id=len(flow._nodes),
                where=caller(),
                inputs=(self.id,),
                bound=combined(None, bounds),
                latest=latest,
                latest_by=latest_by,
                name=name,
            )
        )


class SourceStream(Stream[E_co]):
    """The item stream of a source, with methods for the source's other rows."""

    __slots__ = ()

    def late(self: SourceStream[Edge[K, V]]) -> Stream[U[K, V]]:
        """The late items, as a stream with the markers of the source.

        A late item belongs to the block that is open when it comes: the first block that the earlier rows of the source
        have not closed. (They have closed the block of its own time: that makes it late.) The late output of a run gets
        these items too. With markers in band nothing is late. A second call returns the same stream.
        """
        return self._aside("late")

    def rejects(self) -> Stream[U[Unit, Rejected]]:
        """The rejected rows, each as a :class:`~tracetypes.Rejected`, as a stream with the markers of the source.

        A rejected row belongs to the block that is open when it comes, like a late item. A row before the first item of
        the source belongs to the first block. The reject output of a run gets these rows too.
        """
        return self._aside("rejects")

    def _aside(self, output: Output) -> Stream[Any]:
        source = self.flow.graph.node(self.id)
        assert isinstance(source, Source)
        for node in self.flow.graph.nodes:
            if isinstance(node, Source) and (node.name, node.output) == (source.name, output):
                return Stream(self.flow, node.id)
        return self.flow._add(attrs.evolve(source, id=len(self.flow._nodes), where=caller(), output=output))


class Dataflow:
    """A dataflow under construction. Nothing is checked until :func:`tracetypes.check.check`, which reports all
    violations at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[Node] = []

    def __repr__(self) -> str:
        graph = self.graph
        sources = ", ".join(source.name for source in graph.sources) or "no source"
        sinks = ", ".join(sink.name for sink in graph.sinks) or "no sink"
        count = len(graph.nodes)
        return f"<Dataflow {self.name!r}: {sources} -> {sinks}, {counted(count, 'node')}>"

    def _repr_html_(self) -> str | None:
        """The typed graph, for notebooks."""
        return DISPLAY.picture(self)

    @overload
    def source(
        self,
        name: str,
        edge: type[O[K, V]],
        *,
        markers: Markers[V],
        ordered_by: Callable[[V], Orderable] | RowPosition,
        key: Callable[[V], K] | None = None,
        format: Format | Kafka | None = None,
        times: Times = "exact",
        file_name: str | None = None,
    ) -> SourceStream[O[K, V]]: ...
    @overload
    def source(
        self,
        name: str,
        edge: type[U[K, V]],
        *,
        markers: Markers[V],
        key: Callable[[V], K] | None = None,
        format: Format | Kafka | None = None,
        times: Times = "exact",
        file_name: str | None = None,
    ) -> SourceStream[U[K, V]]: ...
    def source(
        self,
        name: str,
        edge: Any,
        *,
        markers: Markers[Any] | None = None,
        key: Callable[[Any], Any] | None = None,
        ordered_by: Callable[[Any], Orderable] | RowPosition | None = None,
        format: Format | Kafka | None = None,
        times: Times = "exact",
        file_name: str | None = None,
    ) -> SourceStream[Any]:
        """Add a source of this name and return its stream. The methods :meth:`~SourceStream.late` and
        :meth:`~SourceStream.rejects` of the stream return the rows that it leaves out.

        ``edge``: ``U[K, V]`` or ``O[K, V]``. ``markers``: :func:`every` or :func:`in_band`. The rows of the source are
        the values ``V``; ``key`` takes the key from a value. Without ``key``, and with ``K`` other than ``Unit``, the
        rows have a column ``key`` besides those of the value. ``ordered_by`` is required for ``O``: a function of the
        value, or :data:`ROW_POSITION`. ``format``: the format of files (None: by the ending of their name), or
        :func:`kafka` for records of a topic. ``times``: a row with a time that is more exact than a microsecond is a
        reject; ``"truncate"`` cuts its digits off, towards the past. ``file_name``: the column that is the name of the file in
        which a row is, without its folder, if the file has no such column itself.
        """
        if markers is None:
            raise UsageError(
                "TT116",
                f"source {name!r} has no markers, which say where blocks end",
                fix="pass markers=every(seconds=60, time=lambda row: row.ts), or in_band(...)",
            )
        if times not in ("exact", "truncate"):
            raise UsageError("TT115", f"times is {show(times)}", fix='use "exact" or "truncate"')
        if key is not None:
            need_function("key=", key, "key=lambda row: row.user")
        if ordered_by is not None and not isinstance(ordered_by, RowPosition):
            need_function("ordered_by=", ordered_by, "ordered_by=lambda row: row.number")
        stream = self._add(
            Source(
                id=len(self._nodes),
                where=caller(),
                name=name,
                edge=edge,
                markers=markers,
                key=key,
                ordered_by=ordered_by,
                format=format,
                times=times,
                file_name=file_name,
            )
        )
        return SourceStream(self, stream.id)

    def sink(
        self,
        name: str,
        stream: Stream[E],
        *,
        marker: str | None = None,
        position: str | None = None,
        format: Format | Kafka | None = None,
        partition_by: str | Sequence[str] = (),
        flat: bool = False,
    ) -> None:
        """Add a sink of this name for a stream.

        ``marker``: the name of an additional column with the time of the marker that ended the item's block.
        ``position``: the name of an additional column with the position of the item (from 0) among those of its key and
        block, on ordered streams only. ``partition_by``: the columns that become folders ``NAME=VALUE`` of the files, or
        partitions of a Delta table; the outermost one first. ``flat``: a column that is a record, as a key may be, becomes a
        column for each of its fields.
        """
        self._add(
            Sink(
                id=len(self._nodes),
                where=caller(),
                inputs=(self._own(stream),),
                name=name,
                marker=marker,
                position=position,
                format=format,
                partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
                flat=flat,
            )
        )

    @property
    def graph(self) -> Graph:
        """The graph built so far, unchecked."""
        return Graph(self.name, tuple(self._nodes))

    def _add(self, node: Node) -> Stream[Any]:
        self._nodes.append(node)
        return Stream(self, node.id)

    def _own(self, stream: Stream[Any]) -> int:
        if not isinstance(stream, Stream):
            raise UsageError("TT116", f"{stream!r} is no stream", fix="pass what source(...) or through(...) returned")
        return stream.id if stream.flow is self else -1 - stream.id

    def _set_parallelism(self, first: int, parallelism: int) -> None:
        added = [node for node in self._nodes[first:] if isinstance(node, Apply | Sort)]
        keyed = [node for node in added if isinstance(node, Sort) or node.op._is_keyed]
        if not added:
            raise UsageError(
                "TT122",
                f"parallelism={parallelism!r} where no operator is added",
                fix="give it to a sort or to a keyed operator, or leave it out",
            )
        for node in keyed or added:
            if node.parallelism is None:
                self._nodes[node.id] = attrs.evolve(node, parallelism=parallelism)


def extend(upstream: Stream[Any], op: SelfDescribing) -> Stream[Any]:
    """Append an operator to the flow of a stream."""
    flow = upstream.flow
    return flow._add(Apply(id=len(flow._nodes), where=caller(), inputs=(upstream.id,), op=op))


def sort(*, by: Callable[[V], Orderable]) -> Callable[[Stream[U[K, V]]], Stream[O[K, V]]]:
    """SORT: order the items of each key and block by ``by(value)``. The canonical order of the whole value breaks ties.

    ``by`` returns a number, a text, bytes, a time, a day, or a tuple of these; :func:`tracetypes.desc` turns the order of
    any of them round. They have one total order (:mod:`tracetypes.sort_keys`), so the order of arrival does not matter.
    """

    need_function("by=", by, "by=lambda item: item.time")

    def place(upstream: Stream[U[K, V]]) -> Stream[O[K, V]]:
        flow = upstream.flow
        stream: Stream[O[K, V]] = flow._add(Sort(id=len(flow._nodes), where=caller(), inputs=(upstream.id,), by=by))
        return stream

    return place


class MapAllToOneTypeFirst(Edge[Any, Any]):
    """Stands for a refusal. Streams of several types cannot be merged: map them to one type of keys and one of values first.
    No stream has this type. The first overload of :func:`merge` asks for it, because mypy explains a wrong call by the first:
    so the message names the types of the streams and this one."""


@overload
def merge(first: Stream[MapAllToOneTypeFirst], /, *others: Stream[MapAllToOneTypeFirst]) -> Stream[Any]: ...
@overload
def merge(first: Stream[O[K, V]], /, *others: Stream[O[K, V]]) -> Stream[O[K, V]]: ...
@overload
def merge(first: Stream[O[K1, V]], second: Stream[O[K2, V]], /) -> Stream[O[K1 | K2, V]]: ...
@overload
def merge(first: Stream[U[K, V]], /, *others: Stream[U[K, V]]) -> Stream[U[K, V]]: ...
def merge(first: Stream[Any], /, *others: Stream[Any]) -> Stream[Any]:
    """MRG: one stream with the items of all streams, aligned on markers.

    The result has every marker of any input, up to the last marker of the slowest input. Ordered streams must have
    disjoint keys. Distinct record types as keys prove that; otherwise the run checks it and fails with ``TT205``.
    """
    flow = first.flow
    inputs = tuple(flow._own(stream) for stream in (first, *others))
    return flow._add(Merge(id=len(flow._nodes), where=caller(), inputs=inputs))
