"""The graph checker. It finds every reason why a dataflow has no meaning, all at once.

The checker repeats at graph-build time what mypy checks, for code that mypy never saw. It adds what no type checker
knows: names, cycles, schemas, frozen operators, functions that cannot be shipped. :func:`check` returns a
:class:`Checked`, and only a ``Checked`` can be compiled or interpreted.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, TypeVar, Union, assert_never, get_args, get_origin
from weakref import WeakKeyDictionary

import attrs

from tracetypes.conformance import hashable, name_of
from tracetypes.debezium import is_change_of
from tracetypes.edges import EdgeType, edge_type
from tracetypes.errors import CheckFailed, CodedError, DataError, Location, Violation, is_own
from tracetypes.flat_columns import sink_columns
from tracetypes.formats import Avro, Csv, Kafka, Layout, TextLines
from tracetypes.gate_check import gate_problems, key_functions, model_problems, variations
from tracetypes.graph import DISPLAY, Dataflow, Stream
from tracetypes.markers import EventTime, InBand, Time
from tracetypes.method_check import Fault, faults, function_faults
from tracetypes.nodes import (
    ROW_POSITION,
    Apply,
    Fused,
    Gate,
    Gather,
    Graph,
    Merge,
    Node,
    Receive,
    Restore,
    Sink,
    Sort,
    Source,
    Split,
    title,
)
from tracetypes.open_types import OpenOperator
from tracetypes.records import (
    Boolean,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    Unit,
    UnitValue,
    Unsigned,
    show,
)
from tracetypes.redaction import conceal
from tracetypes.schemas import schema_of, show_type
from tracetypes.shipping import try_to_ship
from tracetypes.sort_keys import Orderable
from tracetypes.sources import edge_given
from tracetypes.templates import TEMPLATES, OpKeyedOrdered, OpKeyedUnordered, OpStateless, substitute, template_types
from tracetypes.trace import StreamType, stream_type

__all__ = ["Checked", "check", "edge_of", "violations"]

LONGEST: Final = dt.timedelta(days=365_000)
"""An operator that says it lingers for longer would linger for ever."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@attrs.define(eq=False, slots=False, frozen=True)
class Checked:
    """A graph without violations, with the type of the edge that leaves each node."""

    graph: Graph
    types: dict[int, EdgeType]

    @cached_property
    def streams(self) -> dict[int, StreamType]:
        """The data-trace type of the edge that leaves each node."""
        known: dict[EdgeType, StreamType] = {}
        for edge in self.types.values():
            if edge not in known:
                known[edge] = stream_type(edge)
        return {id: known[edge] for id, edge in self.types.items()}

    def layout(self, node: Source | Sink) -> Layout:
        """The columns that hold the rows of a source or sink."""
        stream = self.streams[node.id]
        if isinstance(node, Source):
            if node.output != "items":
                stream = stream_type(edge_type(node.edge))
            key = UnitValue() if node.key is not None else stream.key
            return Layout(key, stream.value, truncated=node.times == "truncate")
        return Layout(stream.key, stream.value, tuple(name for name in (node.marker, node.position) if name))


def check(flow: Dataflow | Graph) -> Checked:
    """Check a dataflow. Raises :class:`CheckFailed` with every violation."""
    problems, edges = _Checker(flow.graph if isinstance(flow, Dataflow) else flow).run()
    if problems:
        raise CheckFailed(problems)
    return Checked(flow.graph if isinstance(flow, Dataflow) else flow, edges)


def violations(flow: Dataflow | Graph) -> tuple[Violation, ...]:
    """Every violation of a dataflow, in the order of the author's lines. Empty if there is none."""
    return tuple(_Checker(flow.graph if isinstance(flow, Dataflow) else flow).run()[0])


def edge_of(stream: Stream[Any]) -> EdgeType | None:
    """The type of the edge behind a stream of an unfinished dataflow. None if a violation hides it, which :func:`check`
    will report."""
    flow, types = stream.flow, _EDGES.setdefault(stream.flow, {})
    new: dict[int, Node] = {}
    pending = [stream.id]
    while pending:
        id = pending.pop()
        if id not in types and id not in new and 0 <= id < len(flow._nodes):
            new[id] = flow._nodes[id]
            pending.extend(new[id].inputs)
    checker = _Checker(Graph(flow.name, tuple(new.values())))
    checker.types = types
    for node in checker.order():
        checker.visit(node)
    return types.get(stream.id)


def _edge_shown(stream: Stream[Any]) -> EdgeType | None:
    """As :func:`edge_of`, for people: whatever is wrong is told by :func:`check`."""
    with suppress(Exception):
        return edge_of(stream)
    return None


DISPLAY.edge = _edge_shown

_EDGES: Final = WeakKeyDictionary[Dataflow, dict[int, EdgeType | None]]()
"""What :func:`edge_of` found: an edge keeps its type while a dataflow grows."""


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


class _Checker:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.by_id = graph.by_id
        self.consumers = graph.consumers
        self.violations: list[Violation] = []
        self.types: dict[int, EdgeType | None] = {}
        self.schemas: dict[Any, Schema | None] = {}
        self.places = {node.id: at for at, node in enumerate(graph.nodes)}
        self.origins: dict[int, int] = {}

    def run(self) -> tuple[list[Violation], dict[int, EdgeType]]:
        self.names()
        self.partners()
        order = self.order()
        for node in order:
            self.visit(node)
            self.record_of(node)
            self.parallelism(node)
            self.linger(node)
        self.columns()
        for node in self.graph.nodes:
            if isinstance(node, Apply):
                conceal(node.op)
        self.frozen()
        self.shippable()
        self.violations.sort(key=lambda v: (v.where.file, v.where.line))
        return self.violations, {id: edge for id, edge in self.types.items() if edge is not None}

    def refuse(self, code: str, node: Node, found: str, expected: str, fix: str) -> None:
        self.violations.append(Violation(code, title(node), node.where, found, expected, fix))

    # -------------------------------------------------------------------------------------------- the graph

    def names(self) -> None:
        for kind in (Source, Sink):
            first: dict[str, Location] = {}
            for node in self.graph.nodes:
                if not isinstance(node, kind) or not isinstance(node, Source | Sink):
                    continue
                if isinstance(node, Source) and node.output != "items":
                    continue  # its name is that of the source, which is there too
                if not _is_name(node.name):
                    self.refuse(
                        "TT118",
                        node,
                        f"the name {node.name!r}",
                        "a name of letters, digits, '_', '-' and '.'",
                        "rename it: names become file names and command line arguments",
                    )
                elif node.name in first:
                    self.refuse(
                        "TT112",
                        node,
                        f"a second {kind.__name__.lower()} named {node.name!r}",
                        f"one {kind.__name__.lower()} of that name (the first is at {first[node.name]})",
                        "rename one of them",
                    )
                else:
                    first[node.name] = node.where

        for node in self.graph.nodes:
            if isinstance(node, Gate) and node.name is not None and not _is_name(node.name):
                self.refuse(
                    "TT118",
                    node,
                    f"the name {node.name!r}",
                    "a name of letters, digits, '_', '-' and '.'",
                    "rename it: names become file names",
                )

    def partners(self) -> None:
        for node in self.graph.nodes:
            for upstream in node.inputs:
                if upstream not in self.by_id or isinstance(self.by_id[upstream], Sink):
                    self.refuse(
                        "TT108",
                        node,
                        "an input that is not in this dataflow",
                        f"a stream of dataflow {self.graph.name!r}",
                        "pass a stream that came from this dataflow's source(...)",
                    )
            self.arity(node)
            if not isinstance(node, Sink) and not self.consumers.get(node.id) and not self.side_outputs(node):
                self.refuse(
                    "TT109",
                    node,
                    "nobody reads its output",
                    "a path to a sink",
                    "send it to a sink with flow.sink(name, stream), or delete it",
                )
        if not self.graph.nodes:
            nowhere = Location(self.graph.name, 0)
            self.violations.append(
                Violation(
                    "TT109", f"dataflow {self.graph.name!r}", nowhere, "no nodes", "a source and a sink", "add them"
                )
            )

    def side_outputs(self, node: Node) -> bool:
        """Whether this is the item stream of a source whose late items or rejects are used."""
        others = (other for other in self.graph.nodes if isinstance(other, Source) and other.output != "items")
        return isinstance(node, Source) and node.output == "items" and any(other.name == node.name for other in others)

    def arity(self, node: Node) -> None:
        count = len(node.inputs)
        if isinstance(node, Source | Fused) or (isinstance(node, Merge) and count) or count == 1:
            return
        self.refuse(
            "TT108",
            node,
            f"{count} inputs" if count else "no input",
            "streams" if isinstance(node, Merge) else "one stream",
            f"give {title(node)} the stream to read" if not count else "merge them first",
        )

    def order(self) -> list[Node]:
        """A topological order. Omits nodes on a cycle or downstream of one, and reports the cycle."""
        waiting = {node.id: sum(1 for i in set(node.inputs) if i in self.by_id) for node in self.graph.nodes}
        ready = [node for node in self.graph.nodes if waiting[node.id] == 0]
        order: list[Node] = []
        for node in ready:
            order.append(node)
            for consumer in {c.id: c for c in self.consumers.get(node.id, ())}.values():
                waiting[consumer.id] -= 1
                if waiting[consumer.id] == 0:
                    ready.append(consumer)
        if len(order) < len(self.graph.nodes):
            self.cycles({node.id for node in self.graph.nodes} - {node.id for node in order})
        return order

    def cycles(self, stuck: set[int]) -> None:
        """Report one cycle of each group of nodes that are stuck together. Every stuck node has a stuck input."""
        seen: set[int] = set()
        for start in sorted(stuck):
            path: dict[int, None] = {}
            at = start
            while at not in path and at not in seen:
                path[at] = None
                at = next(i for i in self.by_id[at].inputs if i in stuck)
            if at in path:
                ring = list(path)[list(path).index(at) :]
                names = " <- ".join(title(self.by_id[i]) for i in (*ring, at))
                gate = next((self.by_id[i] for i in ring if isinstance(self.by_id[i], Gate)), None)
                if gate is None:
                    self.refuse(
                        "TT105", self.by_id[at], f"the cycle {names}", "an acyclic graph", "remove the edge that leads back"
                    )
                else:
                    self.refuse(
                        "TT130",
                        gate,
                        f"a container downstream of its own gate: {names}",
                        "a container that the steps before the gate write",
                        "put the gate on a stream that does not come from what it lets through",
                    )
            seen.update(path)

    # -------------------------------------------------------------------------------------------- types

    def visit(self, node: Node) -> None:
        """Find the type of the edge that leaves a node, after all that it reads."""
        self.types[node.id] = self.type_of(node)
        self.origins[node.id] = self.origins_of(node)

    def type_of(self, node: Node) -> EdgeType | None:
        inputs = [self.types.get(i) for i in node.inputs]
        match node:
            case Source():
                return self.source_type(node)
            case Receive():
                return edge_type(node.edge)
            case Sink() | Split() | Gather() | Restore():
                return inputs[0] if inputs else None
            case Gate():
                return self.gate_type(node, inputs[0] if inputs else None)
            case Sort():
                return self.sort_type(node, inputs[0] if inputs else None)
            case Merge():
                return self.merge_type(node, inputs)
            case Apply():
                return self.apply_type(node, inputs[0] if inputs else None)
            case Fused():
                return inputs[0] if inputs else None
            case _:
                assert_never(node)

    def sort_type(self, node: Sort, edge: EdgeType | None) -> EdgeType | None:
        if edge is None:
            return None
        self.functions(node, edge)
        return attrs.evolve(edge, ordered=True)

    def gate_type(self, node: Gate, edge: EdgeType | None) -> EdgeType | None:
        if edge is None:
            return None
        for one in (*gate_problems(node, edge), *model_problems(node, self.graph)):
            self.refuse(one.code, node, one.found, one.expected, one.fix)
        self.functions(node, edge)
        return attrs.evolve(edge, ordered=True) if node.latest else edge

    def source_type(self, node: Source) -> EdgeType | None:
        try:
            edge, types = edge_type(node.edge), edge_given(node)
        except DataError as error:
            if node.output == "items":
                self.refuse("TT107", node, error.message, "an edge type", error.fix)
            return None
        if node.output != "items":
            return types  # what is wrong with the source is told at the source
        if edge.ordered and node.ordered_by is None:
            self.refuse(
                "TT114",
                node,
                f"{edge} without ordered_by",
                "what orders it",
                "pass ordered_by=<function of the value> or ordered_by=ROW_POSITION, or declare it U",
            )
        if not edge.ordered and node.ordered_by is not None:
            self.refuse("TT114", node, f"{edge} with ordered_by", "an O", "declare it O, or leave ordered_by out")
        self.functions(node, edge)
        return types

    def functions(self, node: Source | Sort | Gate, edge: EdgeType) -> None:
        """Check the functions of values and keys that a node was given, for code that mypy never saw."""
        bound = node.bound if isinstance(node, Gate) else None
        given = [(edge.value, *one) for one in _of_a_value(node, edge)] + [(edge.key, *one) for one in key_functions(bound)]
        for takes, name, function, returns in given:
            for fault in function_faults(name, function, [takes], returns, used=True):
                self.blame(node, fault)
        for one in variations(bound):
            for fault in faults(one, {}):
                self.blame(node, fault)

    def blame(self, node: Node, fault: Fault) -> None:
        """Report what is wrong with a function, at its own line."""
        where = fault.where if is_own(fault.where.file) else node.where
        self.violations.append(Violation(fault.code, title(node), where, fault.found, fault.expected, fault.fix))

    def merge_type(self, node: Merge, inputs: Sequence[EdgeType | None]) -> EdgeType | None:
        edges = [edge for edge in inputs if edge is not None]
        if len(edges) < len(inputs) or not edges:
            return None
        values = {show_type(e.value): e.value for e in edges}
        if any(e.value != edges[0].value for e in edges):
            self.refuse(
                "TT103",
                node,
                "values of " + " and ".join(sorted(values)),
                "one type of values",
                "map the inputs to one record type first",
            )
            return None
        ordered = all(edge.ordered for edge in edges)
        key = edges[0].key
        if any(e.key != key for e in edges):
            joined = self.union([e.key for e in edges])
            if joined is None:
                self.refuse(
                    "TT102",
                    node,
                    "keys of " + " and ".join(sorted({show_type(e.key) for e in edges})),
                    "one type of keys, or distinct record types",
                    "map the inputs to one key type, or wrap each key in a record of its own",
                )
                return None
            key = joined
        if ordered:
            self.disjoint(node)
        return EdgeType(ordered, key, edges[0].value)

    def union(self, keys: Iterable[Any]) -> Any:
        try:
            members = [m for key in keys for m in (get_args(key) if isinstance(key, types.UnionType) else (key,))]
            distinct = list(dict.fromkeys(members))
            if not all(isinstance(schema_of(m), Record) for m in distinct):
                return None
            joined = distinct[0]
            for member in distinct[1:]:
                joined = joined | member
            return joined if hashable(schema_of(joined)) else None
        except (DataError, TypeError):
            return None

    def disjoint(self, node: Merge) -> None:
        """Refuse ordered inputs that take their keys from the same node, because they surely overlap. The run checks
        others."""
        origins = [self.origins.get(i, 0) for i in node.inputs]
        seen = 0
        for at, one in enumerate(origins):
            if not one & seen:
                seen |= one
                continue
            for other in origins[:at]:
                if shared := one & other:
                    origin = self.graph.nodes[(shared & -shared).bit_length() - 1]
                    self.refuse(
                        "TT104",
                        node,
                        f"ordered streams that both carry the keys of {title(origin)} ({origin.where})",
                        "disjoint keys",
                        "merge before .through(sort(by=...)), or rekey one of them",
                    )
                    return

    def origins_of(self, node: Node) -> int:
        """The nodes from which the keys of a stream come, as bits by their place in the graph. Sets of nodes would take
        memory with the square of the graph."""
        if isinstance(node, Sort | Merge | Gate) or (isinstance(node, Apply) and isinstance(node.op, OpKeyedOrdered)):
            count = 0
            for upstream in node.inputs:
                count |= self.origins.get(upstream, 0)
            return count
        return 1 << self.places[node.id]

    def apply_type(self, node: Apply, edge: EdgeType | None) -> EdgeType | None:
        op: object = node.op
        if isinstance(op, OpenOperator):
            if edge is not None:
                self.refuse("TT120", node, op.unknown.message, "a type", op.unknown.fix)
            return None  # otherwise the mistake before it is told
        if not isinstance(op, TEMPLATES):
            self.refuse(
                "TT116",
                node,
                f"{type(op).__name__}, which fills no template in",
                "an instance of OpStateless, OpKeyedOrdered or OpKeyedUnordered",
                "derive the operator from one of the three templates",
            )
            return None
        try:
            takes, gives = template_types(op)
        except CodedError as error:
            where = "" if error.where is None else f" ({error.where})"
            self.refuse(
                error.code, node, f"{error.message}{where}", "types for type parameters by their names", error.fix
            )
            return None
        bound: dict[Any, Any] = {}
        fits = edge is not None
        if edge is not None:
            name = title(node)
            if takes.ordered and not edge.ordered:
                self.refuse(
                    "TT101",
                    node,
                    f"{edge}, unordered between markers",
                    f"{attrs.evolve(edge, ordered=True)}: {name} depends on the order of the items of a key",
                    f"insert .through(sort(by=...)) before {name}",
                )
            for code, what, expected, got in (
                ("TT102", "key", takes.key, edge.key),
                ("TT103", "value", takes.value, edge.value),
            ):
                if not unify(expected, got, bound):
                    fits = False
                    self.refuse(
                        code,
                        node,
                        f"{what}s of type {show_type(got)}",
                        f"{what}s of type {show_type(substitute(expected, bound))}",
                        f"map the {what} to {show_type(expected)} before {name}, or change the type of {name}",
                    )
        if fits:
            for fault in faults(op, bound):
                self.blame(node, fault)
        edge = EdgeType(gives.ordered, substitute(gives.key, bound), substitute(gives.value, bound))
        if open_ := _variables(edge.key) or _variables(edge.value):
            if fits:
                self.refuse(
                    "TT106",
                    node,
                    f"{edge}: the type parameter {open_.__name__} is not known",
                    "concrete types",
                    f"derive {title(node)} with concrete type arguments",
                )
            return None
        return edge

    def record_of(self, node: Node) -> None:
        """Check that the edge that leaves a node has a schema, and that its key can be a key."""
        edge = self.types.get(node.id)
        if edge is None or not isinstance(node, Source | Apply):
            return
        aside = isinstance(node, Source) and node.output != "items"  # what is wrong is told at the source
        for what, annotation in (("key", edge.key), ("value", edge.value)):
            seen = annotation in self.schemas if _hashable(annotation) else False
            if seen and self.schemas[annotation] is not None and what == "value":
                continue
            try:
                schema = schema_of(annotation)
            except DataError as error:
                if not aside:
                    self.refuse("TT106", node, f"{what} {error.message}", "a type with a schema", error.fix)
                self.types[node.id] = None
                continue
            if _hashable(annotation):
                self.schemas[annotation] = schema
            if what == "key" and not aside and (isinstance(schema, Optional) or not hashable(schema)):
                self.refuse(
                    "TT117",
                    node,
                    f"the key type {name_of(schema)}",
                    "a key that is never None and can be hashed",
                    "use a scalar, a tuple or a frozen record; give missing keys a value of their own",
                )

    def parallelism(self, node: Node) -> None:
        if not isinstance(node, Apply | Sort) or node.parallelism is None:
            return
        count: object = node.parallelism
        if isinstance(node, Apply) and isinstance(node.op, OpStateless):
            self.refuse(
                "TT122",
                node,
                f"parallelism={count!r} for a stateless operator, which runs where its items are",
                "parallelism= where items are brought together by key",
                "give it to a sort or keyed operator behind it, or to the run",
            )
        elif isinstance(count, bool) or not isinstance(count, int) or count < 1:
            self.refuse("TT113", node, f"parallelism={count!r}", "a whole number from 1", "pass parallelism=1 or more")

    def linger(self, node: Node) -> None:
        """How long an operator lingers must be known, and end."""
        if not isinstance(node, Apply) or not isinstance(op := node.op, OpKeyedOrdered | OpKeyedUnordered):
            return
        lasting: object
        try:
            lasting = op.linger()
        except Exception as error:
            problem = f"linger() raised {type(error).__name__}: {error}"
        else:
            if isinstance(lasting, dt.timedelta) and dt.timedelta() <= lasting <= LONGEST:
                return
            if isinstance(lasting, int) and not isinstance(lasting, bool) and lasting >= 0:
                return
            for_ever = lasting == math.inf or (isinstance(lasting, dt.timedelta) and lasting > LONGEST)
            problem = "linger() is for ever" if for_ever else f"linger() gave {show(lasting)}"
        self.refuse(
            "TT124",
            node,
            problem,
            "for how long the operator may still emit when its input has ended",
            "return a number of blocks from 0, or a datetime.timedelta from 0 to 1,000 years",
        )

    def columns(self) -> None:
        for node in self.graph.nodes:
            edge = self.types.get(node.id)
            if edge is None or not isinstance(node, Source | Sink):
                continue
            if isinstance(node, Source) and node.output != "items":
                continue
            if isinstance(node, Source):
                self.file_name(node, EdgeType(edge.ordered, edge.key if node.key is None else Unit, edge.value))
                self.flat(node, EdgeType(edge.ordered, edge.key if node.key is None else Unit, edge.value))
                continue
            if node.position is not None and not edge.ordered:
                self.refuse(
                    "TT114",
                    node,
                    f"position={node.position!r} on {edge}",
                    "an ordered stream",
                    "items of a U have no position: leave position out, or sort before",
                )
            try:
                layout = Layout(schema_of(edge.key), schema_of(edge.value), ())
            except DataError:
                continue
            columns = sink_columns(layout, node)
            names = [name for name, _ in columns]
            for name in dict.fromkeys(one for one in names if names.count(one) > 1):
                fix = "leave flat out, or rename a field: Annotated[..., column(...)]"
                self.refuse("TT119", node, f"flat=True with two columns named {name!r}", "distinct columns", fix)
            extra = [name for name in (node.marker, node.position) if name is not None]
            for name in dict.fromkeys(extra):
                if [*names, *extra].count(name) > 1:
                    self.refuse("TT119", node, f"two columns named {name!r}", "distinct columns", "choose another name")
            self.folders(node, {**dict(columns), **dict.fromkeys(extra)})
            self.flat(node, edge)

    def folders(self, node: Sink, columns: Mapping[str, Schema | None]) -> None:
        """The columns that are folders. ``columns``: all of the sink; None for the time of a marker and for a position."""
        names = node.partition_by
        there = ", ".join(map(repr, columns))
        for name in dict.fromkeys(names):
            schema = columns.get(name)
            bare = schema.item if isinstance(schema, Optional) else schema
            if name not in columns or names.count(name) > 1:
                found, wanted = f"partition_by={list(names)!r}", f"columns of the sink, each once: {there}"
                self.refuse("TT119", node, found, wanted, "name columns of the key and the value, or the marker's")
            elif bare is not None and not isinstance(bare, _FOLDERS):
                found = f"partition_by={name!r} on a column of {name_of(bare)}"
                wanted = "a number, a text, a truth value, a time, a day, or one of some values"
                self.refuse("TT119", node, found, wanted, "partition by another column, or add one with map_values")
        if names and set(columns) <= set(names):
            found = f"partition_by={list(names)!r}, which are all columns"
            self.refuse("TT119", node, found, "a column that the files have", "leave one out")

    def file_name(self, node: Source, edge: EdgeType) -> None:
        """The column that is the name of the file; and whether values are changes, if the format says so."""
        row = node.format.envelope if isinstance(node.format, Kafka) else None
        if row is not None and not is_change_of(edge.value, row):
            found = f"debezium(row={row}) for values {show_type(edge.value)}"
            self.refuse("TT119", node, found, f"Change[{row}]", f"declare the source as U[..., Change[{row}]]")
        if node.file_name is None:
            return
        try:
            columns = dict(Layout(schema_of(edge.key), schema_of(edge.value)).columns)
        except DataError:
            return
        schema = columns.get(node.file_name)
        bare = schema.item if isinstance(schema, Optional) else schema
        if not isinstance(bare, String) or isinstance(node.format, TextLines):
            found = f"file_name={node.file_name!r} for {', '.join(columns) or 'no columns'}"
            self.refuse("TT119", node, found, "a column of text", "name a field of the record that is a str, or the column 'key'")

    def flat(self, node: Source | Sink, edge: EdgeType) -> None:
        if isinstance(node, Sink) and isinstance(node.format, Avro):
            self.refuse("TT119", node, "avro() at a sink", "a format that is written", "write JSON lines or Parquet")
        if not isinstance(node.format, Csv | TextLines):
            return
        try:
            layout = Layout(schema_of(edge.key), schema_of(edge.value), ())
        except DataError:
            return
        if isinstance(node.format, TextLines):
            self.lines(node, layout)
            return
        if isinstance(node, Sink) and node.format.separator is None:
            fix = "name a separator: csv(separator=...)"
            self.refuse("TT119", node, "csv(separator=None) at a sink", "a format that is written", fix)
        columns = sink_columns(layout, node) if isinstance(node, Sink) else layout.columns
        nested = [name for name, schema in columns if _nested(schema)]
        if nested:
            self.refuse(
                "TT119",
                node,
                f"CSV for the nested column {nested[0]!r}",
                "flat columns",
                f"{'write' if isinstance(node, Sink) else 'read'} JSON lines or Parquet, or map to a flat record",
            )

    def lines(self, node: Source | Sink, layout: Layout) -> None:
        if isinstance(node, Sink):
            self.refuse("TT119", node, "text_lines() at a sink", "a format that is written", "write JSON lines or Parquet")
        elif [type(schema) for _, schema in layout.columns] != [String]:
            columns = ", ".join(name for name, _ in layout.columns) or "nothing"
            self.refuse(
                "TT119",
                node,
                f"lines of text for {columns}",
                "one column of text",
                "declare U[Unit, str] and parse it in an operator, give the key with key=, or read CSV or JSON lines",
            )

    # -------------------------------------------------------------------------------------------- operators

    def frozen(self) -> None:
        for node in self.graph.nodes:
            op: object = node.op if isinstance(node, Apply) else None
            if isinstance(op, TEMPLATES) and not is_frozen(op):
                name = type(op).__name__
                self.refuse(
                    "TT110",
                    node,
                    f"{name} can be assigned to",
                    "a frozen instance: state is passed in and returned, never kept on self",
                    f"decorate {name} with @attrs.frozen and declare its parameters as fields",
                )

    def shippable(self) -> None:
        shipped = [(node, what, part) for node in self.graph.nodes for what, part in _functions(node)]
        try:
            try_to_ship([part for _, _, part in shipped])
        except Exception:
            for node, what, part in shipped:
                try:
                    try_to_ship(part)
                except Exception as error:
                    fix = "open files, sockets and locks inside the function that uses them; pass plain data as parameters"
                    if "generator" in str(error):
                        fix = "a generator can be read once, in this process: pass list(...) of it"
                    self.refuse(
                        "TT111",
                        node,
                        f"{what} cannot be sent to a worker: {type(error).__name__}: {error}",
                        "functions and parameters that can be pickled",
                        fix,
                    )


def _functions(node: Node) -> list[tuple[str, Any]]:
    match node:
        case Source(output="late" | "rejects"):
            return []
        case Source():
            parts: list[tuple[str, object]] = [
                ("markers", node.markers),
                ("key", node.key),
                ("ordered_by", node.ordered_by),
            ]
            return [(what, part) for what, part in parts if part is not None and part is not ROW_POSITION]
        case Sort():
            return [("by", node.by)]
        case Gate():
            return [("bound", node.bound), *([] if node.latest_by is None else [("latest_by", node.latest_by)])]
        case Apply():
            return [] if isinstance(node.op, OpenOperator) else [(type(node.op).__name__, node.op)]
        case _:
            return []


def _of_a_value(node: Source | Sort | Gate, edge: EdgeType) -> Iterator[tuple[str, Any, Any]]:
    """The functions of a node that are called with its values, and the types of their results."""
    match node:
        case Source():
            if isinstance(node.markers, InBand):
                yield "is_marker", node.markers.is_marker, bool
            yield "time", node.markers.time, Time
            if isinstance(node.markers, EventTime):
                yield "per", node.markers.per, Any
            yield "key", node.key, edge.key
            yield "ordered_by", node.ordered_by, Orderable
        case Sort():
            yield "by", node.by, Orderable
        case Gate():
            yield "latest_by", node.latest_by, Orderable


def is_frozen(op: object) -> bool:
    """Whether no attribute of the operator can be assigned."""
    cls = type(op)
    for at in cls.__mro__:  # a subclass need not be decorated itself: it inherits the refusal
        if "__attrs_props__" in vars(at):
            return bool(attrs.inspect(at).is_frozen)
        if "__setattr__" in vars(at):
            break
    parameters: object = getattr(cls, "__dataclass_params__", None)
    return bool(getattr(parameters, "frozen", False))


def unify(pattern: Any, got: Any, bound: dict[Any, Any]) -> bool:
    """Whether ``got`` is an instance of ``pattern``; binds the type variables. Types are invariant."""
    if isinstance(pattern, TypeVar):
        if pattern in bound:
            return bool(bound[pattern] == got)
        bound[pattern] = got
        return _admits(pattern, got)
    if pattern == got or pattern is Any or got is Any:
        return True
    ours, theirs = get_args(pattern), get_args(got)
    if not ours or len(ours) != len(theirs) or _origin(pattern) != _origin(got):
        return False
    return all(unify(a, b, bound) for a, b in zip(ours, theirs, strict=True))


def _origin(annotation: Any) -> Any:
    """What an annotation is an instance of. ``V | None`` and ``int | None`` are of different classes, but not to us."""
    origin = get_origin(annotation)
    return types.UnionType if origin is Union else origin


def _admits(variable: TypeVar, got: Any) -> bool:
    """Is ``got`` within the bound or the constraints of a type variable, as far as classes can tell?"""
    if got is Any or isinstance(got, TypeVar):
        return True
    if variable.__constraints__:
        return got in variable.__constraints__
    bound = variable.__bound__
    if not isinstance(bound, type) or not isinstance(got, type):
        return True
    try:
        return issubclass(got, bound)
    except TypeError:  # a protocol that is not for run time
        return True


def _variables(annotation: Any) -> Any:
    if isinstance(annotation, TypeVar):
        return annotation
    return next(iter(getattr(annotation, "__parameters__", ()) or ()), None) if get_args(annotation) else None


_FOLDERS: Final = (Boolean, Integer, Unsigned, Float, DecimalOf, String, Date, Timestamp, LiteralOf, EnumOf)
"""Schemas whose values are names of folders."""


def _nested(schema: Schema) -> bool:
    match schema:
        case Record() | ListOf() | OneOf():
            return True
        case Optional(item):
            return _nested(item)
        case _:
            return False


def _hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True
