"""The checks of the types of edges: what each operator takes and gives."""

from __future__ import annotations

import datetime as dt
import math
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar, Union, assert_never, get_args, get_origin

import attrs

from tracetypes.conformance import hashable
from tracetypes.edges import EdgeType, edge_type
from tracetypes.errors import CodedError, DataError, Violation, is_own
from tracetypes.gate_check import gate_problems, key_functions, model_problems, variations
from tracetypes.graph_check import GraphCheck
from tracetypes.markers import EventTime, InBand, Time
from tracetypes.method_check import Fault, faults, function_faults
from tracetypes.nodes import (
    Apply,
    Fused,
    Gate,
    Gather,
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
    Record,
    show,
)
from tracetypes.schemas import schema_of, show_type
from tracetypes.sort_keys import Orderable
from tracetypes.sources import edge_given
from tracetypes.templates import TEMPLATES, OpKeyedOrdered, OpKeyedUnordered, OpStateless, substitute, template_types

__all__ = ["EdgeCheck", "unify"]


LONGEST: Final = dt.timedelta(days=365_000)
"""An operator that says it lingers for longer would linger for ever."""


class EdgeCheck(GraphCheck):
    """Finds the type of each edge, and the nodes that it does not fit."""

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
