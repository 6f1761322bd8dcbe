"""What is wrong with a gate: containers without their columns, values without an order, bounds that are never reached."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import attrs

from tracetypes.bounds import (
    AtLeast,
    Bound,
    Divergence,
    Elements,
    Impact,
    Magnitude,
    Peak,
    Sequence,
    Time,
    Value,
    parts_of,
)
from tracetypes.conformance import name_of
from tracetypes.containers import columns_of
from tracetypes.edges import EdgeType
from tracetypes.errors import DataError
from tracetypes.impacts import Variation
from tracetypes.learned_gates import Learned
from tracetypes.nodes import Apply, Gate, Graph, Node, Sink, Source
from tracetypes.records import Boolean, Record, Schema, Unit
from tracetypes.schemas import schema_of

__all__ = [
    "Problem",
    "digest",
    "gate_problems",
    "key_functions",
    "model_problems",
    "opens_for_certain",
    "variations",
    "why_never",
]


@attrs.frozen
class Problem:
    """A violation without its place."""

    code: str
    found: str
    expected: str
    fix: str


def gate_problems(node: Gate, edge: EdgeType) -> Iterator[Problem]:
    """Everything that is wrong with a gate on an edge."""
    bound: object = node.bound
    if not isinstance(bound, Bound):
        yield Problem("TT126", f"{bound!r}, which is no bound", "a bound", "give time(...), sequence(...) or value(...)")
        return
    needs = "hands on the latest value of each key" if node.latest else f"looks at the latest values: {bound}"
    if (node.latest or bound.needs_latest) and not edge.ordered and node.latest_by is None:
        yield Problem(
            "TT129",
            f"{edge}, unordered between markers, in front of a gate that {needs}",
            "an order that says which item of a key is the latest in its block",
            "pass latest_by=<function of the value>, or insert .through(sort(by=...)) before the gate",
        )
    try:
        value = schema_of(edge.value)
    except DataError:
        return
    wrong = list(_columns(bound, value))
    yield from wrong
    if not wrong and (why := why_never(bound, value, 1 if edge.key is Unit else None)) is not None:
        yield Problem(
            "TT128",
            f"a bound that is never reached: {why}",
            "a bound that can be reached",
            "lower it, or combine it by | with another, such as time(...)",
        )


def key_functions(bound: object) -> Iterable[tuple[str, Any, Any]]:
    """The functions that a bound calls with the keys of its container, each once, and the types of their results."""
    measures = bound.measures() if isinstance(bound, Bound) else ()
    rows = [("rows", one.rows, bool) for one in measures]
    return dict.fromkeys([*rows, *(("by", one.by, Any) for one in measures if isinstance(one, Impact))])


def variations(bound: object) -> Iterable[Variation[float, Any]]:
    """The functions of changes that a bound was given, each once."""
    if not isinstance(bound, Bound):
        return ()
    learned = [part.variation for part in parts_of(bound) if isinstance(part, Learned)]
    return dict.fromkeys([*(one.function for one in bound.measures() if isinstance(one, Impact)), *learned])


def digest(graph: Graph) -> str:
    """What a model depends on of a graph: its nodes and how they are joined, without bounds and parameters."""
    places = {node.id: at for at, node in enumerate(graph.nodes)}
    lines = [f"{places[node.id]} {_kind(node)} {[places[one] for one in node.inputs]}" for node in graph.nodes]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _kind(node: Node) -> str:
    match node:
        case Source(name=name) | Sink(name=name):
            return f"{type(node).__name__} {name}"
        case Apply(op=op):
            return type(op).__qualname__
        case _:
            return type(node).__name__


def model_problems(node: Gate, graph: Graph) -> Iterator[Problem]:
    """A model of another graph."""
    whole: object = node.bound
    for bound in parts_of(whole) if isinstance(whole, Bound) else ():
        if isinstance(bound, Learned) and bound.model is not None and bound.model.subject.graph not in ("", digest(graph)):
            yield Problem(
                "TT251",
                f"{bound.model} of {bound.name!r}, which was trained with another graph",
                "a model of this graph",
                "train again: train_gates(...)",
            )


def _columns(bound: Bound, value: Schema) -> Iterator[Problem]:
    """What is wrong with the columns that a bound names."""
    numbers = columns_of(value)
    fields = [name for name, _ in value.fields] if isinstance(value, Record) else []
    asked = [one for one in bound.measures() if isinstance(one, Divergence | Peak | Magnitude | Elements | Impact)]
    if any(not one.columns for one in asked) and not numbers:
        found = f"values of type {name_of(value)}, which have no number"
        yield Problem("TT127", found, "a container with numbers", "count changes with sequence(...), or map the values first")
    for name in dict.fromkeys(name for one in asked for name in one.columns):
        if name in numbers:
            continue
        there = ", ".join(numbers) or "none"
        near = get_close_matches(name, fields, 1)
        found = f"the column {name!r} of {name_of(value)}, which is " + ("no number" if name in fields else "not there")
        is_typo = near and name not in fields
        fix = f"name the column {near[0]!r}" if is_typo else "name a column with numbers, or map the values first"
        yield Problem("TT127", found, f"a column with numbers: {there}", fix)


def why_never(bound: Bound, value: Schema, keys: int | None) -> str | None:
    """The reason why a bound is never reached, whatever comes; None if it may be. ``keys``: the most keys that a container can
    have, if that is known."""
    match bound:
        case Sequence(percent=percent, of=None) if percent is not None and percent > 100:
            return f"{bound} asks for more than all keys"
        case Sequence(percent=percent, of=of) if percent is not None and of is not None and keys is not None:
            return f"{bound} asks for more keys than {keys}, and there is no other" if percent * of > 100 * keys else None
        case Value(units=units, columns=columns) if units is not None and units > 1 and _are_booleans(columns, value):
            return f"{bound}, and the values are False or True"
        case AtLeast(count=count, bounds=bounds):
            reasons = [why for one in bounds if (why := why_never(one, value, keys)) is not None]
            return reasons[0] if len(bounds) - len(reasons) < count else None
        case _:
            return None


def _are_booleans(columns: tuple[str, ...], value: Schema) -> bool:
    if not isinstance(value, Record):
        return isinstance(value, Boolean)
    names = columns or columns_of(value)
    return all(isinstance(schema, Boolean) for name, schema in value.fields if name in names)


def opens_for_certain(bound: Bound) -> bool:
    """Is a bound reached at some marker, if markers go on and nothing more changes?"""
    if isinstance(bound, AtLeast):
        return sum(map(opens_for_certain, bound.bounds)) >= bound.count
    return isinstance(bound, Time)
