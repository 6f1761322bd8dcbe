"""What operators emit of whole blocks, as expressions: of one item, or of aggregates that keep many values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, assert_never

import attrs

from tracetypes.blame import called
from tracetypes.compiler.analysis.blame import Opaque, refusal
from tracetypes.compiler.analysis.choices import TracedChoice, choice_in, place_of, returned, where_of
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.analysis.monoids import Monoid, constant, leaves, monoid_of_aggregate, results, united
from tracetypes.compiler.tracing.expr import Const, Exact, Pack, Tree, Value
from tracetypes.compiler.tracing.tracer import Given, Nested, Untraceable, trace
from tracetypes.markers import Marker
from tracetypes.records import (
    Float,
    Integer,
    ListOf,
    LiteralOf,
    Optional,
    Record,
    Schema,
)
from tracetypes.schemas import schema_of
from tracetypes.summaries import (
    Clustering,
    Distinct,
    ExactRanks,
    Listing,
    OfAggregate,
    OfBag,
    Ranking,
    Registers,
    Summary,
    ValuesOfRanks,
    WholeBlock,
)
from tracetypes.templates import Operator, OpKeyedOrdered, OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = [
    "Closing",
    "ClosingPart",
    "TracedPart",
    "TracedResults",
    "closing_in",
    "keeps_all",
    "leaves_some",
    "need_zero",
    "results_in",
]


@attrs.frozen(eq=False)
class TracedPart:
    """A function of the items of a block, with its functions as expressions of ``value``. ``kind``: of its result; ``of``: None
    for the values themselves; ``by``: of a listing, ``choice``: of a ranking, or of the one value that an aggregate needs;
    ``monoid``: of an aggregate that needs all."""

    part: OfBag[Any]
    kind: Schema
    where: Tree | None
    of: Tree | None = None
    by: Tree | None = None
    choice: TracedChoice | None = None
    monoid: Monoid | None = None


@attrs.frozen(eq=False)
class TracedResults:
    """The result of a window is computed of its items. ``parts``: what is computed; ``tree``: what is emitted, of what is known
    of the window and what its parts are: ``part0``, ``part1`` and so on."""

    parts: tuple[TracedPart, ...]
    tree: Tree


ClosingPart: TypeAlias = TracedChoice | TracedPart
"""A choice stands for the one item that it needs."""


def leaves_some(part: ClosingPart) -> bool:
    """Whether a part may have the same result without some of the items."""
    if not isinstance(part, TracedPart):
        return True
    return part.monoid is None and not isinstance(part.part, ValuesOfRanks) and not keeps_all(part)


def keeps_all(part: ClosingPart) -> bool:
    """Whether the aggregate of the definition keeps all values, too."""
    if not isinstance(part, TracedPart):
        return False
    return isinstance(part.part, ExactRanks | Clustering) or (isinstance(part.part, Listing) and not part.part.distinct)


@attrs.frozen(eq=False)
class Closing:
    """What an operator without a state emits of a block: ``tree`` of ``key``, ``marker``, and what its ``parts`` are: ``part0``,
    ``part1`` and so on. ``always``: of any block, otherwise of whole windows only. ``each``: of each
    element of the only part. ``reach`` and ``grid``: as those of :class:`tracetypes.summaries.WholeBlock`."""

    parts: tuple[ClosingPart, ...]
    tree: Tree
    always: bool
    each: bool = False
    reach: int = 0
    grid: tuple[int, int] | None = None


def closing_in(op: Operator, choices: tuple[TracedChoice, ...] | Opaque, takes: StreamType) -> Closing | Opaque:
    """What an operator without a state emits of a block."""
    if not isinstance(op, OpKeyedUnordered):
        return Opaque("it is no operator that sums up blocks")
    try:
        whole = op._whole_block()
        if whole is not None and whole.summary is not None:
            return _of_parts(op, whole, whole.summary, takes)
        if not isinstance(choices, Opaque) and len(choices) == 1:
            return _of_one_item(op, choices[0], takes, always=whole is not None and whole.always)
    except Untraceable as why:
        return refusal(op, why)
    return Opaque("it keeps an aggregate of all items")


def _of_one_item(
    op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], choice: TracedChoice, takes: StreamType, *, always: bool
) -> Closing:
    if choice.choice.count != 1 or choice.choice.ties == "all":
        raise Untraceable("needs several items")

    def close(key: Any, marker: Marker, value: Any, emit: Any) -> None:
        op.on_marker(op.update_state(op.initial_state(), op.lift(key, value)), key, marker, emit)

    return Closing((choice,), trace(close, (*_block(takes), Given("part0", takes.value)), emits="pairs"), always)


def _of_parts(op: Any, whole: WholeBlock[Any], summary: Summary[Any], takes: StreamType) -> Closing:
    parts = tuple([part_in(op, part, takes.value) for part in summary.parts])
    result, emits, ends = summary.result, whole.emits, [end_of(part) for part in parts]

    def close(key: Any, marker: Marker, *given: Any) -> None:
        emits(key, result(tuple([end(one) for end, one in zip(ends, given[:-1], strict=True)])), marker, given[-1])

    inputs = [input_of(part, f"part{number}") for number, part in enumerate(parts)]
    if whole.each:
        kind = parts[0].kind
        assert isinstance(kind, ListOf)
        inputs = [Given("part0", kind.item)]
    tree = trace(close, (*_block(takes), *inputs), emits="pairs")
    return Closing(parts, tree, whole.always, whole.each, whole.reach, whole.grid)


def _block(takes: StreamType) -> tuple[Given, Given]:
    return Given("key", takes.key), Given("marker", schema_of(Marker))


def input_of(part: TracedPart, name: str) -> Given | Nested:
    """The argument of a function for what columns have of a part."""
    if part.monoid is not None:
        return Nested(name, part.monoid.shape)
    return Given(name, Optional(part.kind) if part.part.if_any else part.kind)


def end_of(traced: TracedPart) -> Callable[[Any], Any]:
    """What a part is, of what columns have of it: the result of an aggregate, of its element or of the value that it needs."""
    part = traced.part
    if not isinstance(part, OfAggregate):
        return _itself
    aggregate = part.aggregate
    if traced.monoid is not None:
        return aggregate.result  # type: ignore[no-any-return]
    return lambda value: aggregate.result(aggregate.identity() if value is None else aggregate.lift(value))


def _itself(value: Any) -> Any:
    return value


def part_in(op: Any, part: OfBag[Any], value: Schema) -> TracedPart:
    """A part as expressions. Raises :class:`Untraceable` with the aggregates around it."""
    try:
        traced = _traced(part, value)
        if isinstance(part, OfAggregate):
            trace(end_of(traced), (input_of(traced, "part"),), emits=None)
        return traced
    except Untraceable as why:
        calls = [called(_combines(one), owner=one) for one in (op, *part.owners)] if part.owners else []
        raise Untraceable(why.what, (*calls, *why.calls)) from None


def results_in(
    op: Any, summary: Summary[Any], value: Schema, answer: Callable[..., None], known: tuple[Given, ...]
) -> TracedResults:
    """What ``answer`` emits of windows whose items lie in their order: it is called with what is ``known`` of a window, its
    result and ``emit``. Raises :class:`Untraceable`."""
    parts = tuple([part_in(op, part, value) for part in summary.parts])
    for part in parts:
        if part.monoid is not None:
            assert isinstance(part.part, OfAggregate)
            need_zero(part.part.aggregate, part.monoid)
    result, ends = summary.result, [end_of(part) for part in parts]

    def close(*given: Any) -> None:
        some, of_parts, emit = given[: len(known)], given[len(known) : -1], given[-1]
        answer(*some, result(tuple([end(one) for end, one in zip(ends, of_parts, strict=True)])), emit)

    inputs = [input_of(part, f"part{number}") for number, part in enumerate(parts)]
    return TracedResults(parts, trace(close, [*known, *inputs], emits="values", fields=True))


def need_zero(aggregate: Any, monoid: Monoid) -> None:
    """Raises :class:`Untraceable` where a plain sum of floats does not begin with 0.0."""
    starts = dict(leaves(constant(aggregate, "identity")))
    for part in monoid.parts:
        if part.reduction == "sum" and isinstance(part.kind, Float):
            start = starts.get(part.path)
            if not isinstance(start, Const) or start.value != 0.0 or math.copysign(1.0, start.value) < 0.0:
                raise Untraceable("begins a sum of floats with something else than 0.0")


def _combines(owner: Any) -> Any:
    """The method of an operator or aggregate in which aggregates are combined."""
    return type(owner).on_item if isinstance(owner, OpKeyedOrdered) else type(owner).combine


def _traced(part: OfBag[Any], value: Schema) -> TracedPart:
    """A part as expressions. Raises :class:`Untraceable`."""
    where = where_of(part.where, value)
    match part:
        case Ranking():
            kind = value if part.ranked is None else Record(part.ranked, (("rank", Integer()), ("value", value)))
            return TracedPart(part, ListOf(kind, False), where, choice=choice_in(part.choice, value))
        case Clustering():
            points = returned(part.of, value)
            point = _shape(points)
            if not isinstance(point, Pack) or {getattr(one, "kind", None) for one in point.parts} != {Float()}:
                raise Untraceable("gives no points of one length")
            return TracedPart(part, ListOf(schema_of(part.to), False), where, points)
        case OfAggregate():
            return _of_aggregate(part, value)
        case Listing():
            item = value if part.of is None else schema_of(part.to)
            of = None if part.of is None else returned(part.of, value)
            if of is not None and not _fits(_shape(of), item):
                raise Untraceable("gives values of another type than those that are listed")
            if part.distinct and not (has_codes(item) if of is None else _has_codes(_shape(of))):
                raise Untraceable("lists values that columns cannot tell apart")
            by = None if part.by is None else place_of(part.by, value)
            return TracedPart(part, ListOf(item, False), where, of, by)
        case Distinct() | Registers():
            of = None if part.of is None else returned(part.of, value)
            if not (has_codes(value) if of is None else _has_codes(_shape(of))):
                raise Untraceable("counts values that columns cannot tell apart")
            return TracedPart(part, Integer(), where, of)
        case ValuesOfRanks() | ExactRanks():
            of = None if part.of is None else returned(part.of, value)
            if not isinstance(value if of is None else getattr(_shape(of), "kind", None), Integer | Float):
                raise Untraceable("measures something else than numbers")
            return TracedPart(part, Float() if part.alone else ListOf(Float(), False), where, of)
        case never:
            assert_never(never)


def _of_aggregate(part: OfAggregate[Any], value: Schema) -> TracedPart:
    """An aggregate by what it adds up and compares, otherwise by the one value that it needs."""
    try:
        monoid = monoid_of_aggregate(part.aggregate, value)
    except Untraceable:
        if part.choice is None:
            raise
    else:
        return TracedPart(part, value, None, monoid=monoid)
    where, choice = part.choice.where, attrs.evolve(part.choice, where=None)
    if where is not None and isinstance(value, Optional):
        raise Untraceable("chooses among values that may be None")
    some = attrs.evolve(part, where=where, if_any=where is not None)
    return TracedPart(some, value, where_of(where, value), choice=choice_in(choice, value))


def _shape(tree: Tree) -> Value:
    return united([result for result in results(tree) if result is not None], "value")


def _fits(value: Value, schema: Schema) -> bool:
    """Do all values of this structure have the columns of a schema, as they are?"""
    if isinstance(value, Pack):
        if not isinstance(schema, Record) or schema.cls is not value.cls or len(schema.fields) != len(value.parts):
            return False
        return all(_fits(part, inner) for part, (_, inner) in zip(value.parts, schema.fields, strict=True))
    kind: Any = value.kind
    if isinstance(kind, Optional):
        return isinstance(schema, Optional) and _is_of(kind.item, schema.item)
    return _is_of(kind, schema.item if isinstance(schema, Optional) else schema)


def _is_of(kind: Schema, schema: Schema) -> bool:
    if isinstance(schema, LiteralOf):
        return kind == schema.item
    return kind == schema or (isinstance(kind, Integer) and isinstance(schema, Float))


def _has_codes(value: Value) -> bool:
    """Do columns tell whether two values of this structure are equal?"""
    if isinstance(value, Pack):
        return all(map(_has_codes, value.parts))
    kind: Any = value.kind
    return kind is not None and not isinstance(kind, Exact) and has_codes(kind)
