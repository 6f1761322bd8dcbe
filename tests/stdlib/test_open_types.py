"""Operators of the library whose types follow from the stream: no ``to=`` where a type checker needs none."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, cast

import attrs
import pytest

from tracetypes import Dataflow, O, SourceStream, U, UInt64, UsageError, check, column, decimal, every, sort
from tracetypes.check import edge_of, violations
from tracetypes.edges import EdgeType
from tracetypes.open_types import INFERENCE, OpenOperator
from tracetypes.schemas import show_type
from tracetypes.stdlib import (
    aggregate,
    both,
    collect,
    count,
    count_window,
    diff,
    enrich,
    evaluate,
    explode,
    first,
    flat_map,
    key_by,
    last,
    map,
    map_values,
    max,
    mean,
    min,
    pairwise,
    preview,
    running,
    scan,
    session,
    sliding,
    struct,
    sum,
    time_window,
    top,
    tumbling,
    types_of,
)
from tracetypes.stdlib.open_aggregates import OpenAggregate


@attrs.frozen
class Click:
    user: str
    cents: int
    rate: float
    at: dt.datetime
    tags: list[str]
    price: Annotated[Decimal, decimal(9, 2)]
    number: UInt64
    zone: Annotated[str, column("@zone")]
    note: str | None = None


@attrs.frozen
class Room:
    name: str
    floor: int


@attrs.frozen
class Totals:
    cents: int
    most: float
    clicks: int


def clicks(flow: Dataflow | None = None) -> SourceStream[U[str, Click]]:
    return (flow or Dataflow("clicks")).source("clicks", U[str, Click], markers=every(seconds=60, time=lambda click: click.at))


def in_order() -> Any:
    return clicks().through(sort(by=lambda click: click.at))


def typed(stream: Any) -> str:
    """The type of a stream, by the checker."""
    edge = edge_of(stream)
    assert isinstance(edge, EdgeType), edge
    return f"{show_type(edge.key)}: {show_type(edge.value)}"


def _without_annotations() -> Any:
    def half(cents):  # type: ignore[no-untyped-def]
        return cents / 2

    def doubled(click):  # type: ignore[no-untyped-def]
        if click.cents > 10:
            return click.cents * 2
        return click.cents

    return half, doubled


HALF, DOUBLED = _without_annotations()


ROOMS = {"attic": Room("attic", 2)}

UNORDERED: list[tuple[Callable[[], Any], str]] = [
    (lambda: map(lambda key, click: (click.cents, key)), "int: str"),
    (lambda: map_values(lambda click: click.rate / 2), "str: float"),
    (lambda: map_values(lambda click: click.note), "str: str | None"),
    (lambda: map_values(lambda click: click.zone), "str: str"),
    (lambda: map_values(lambda click: click), "str: Click"),
    (lambda: flat_map(lambda key, click: [(tag, click.cents) for tag in click.tags]), "str: int"),
    (lambda: flat_map(lambda key, click: ((tag, 1) for tag in click.tags if tag)), "str: int"),
    (lambda: explode(lambda click: click.tags), "str: str"),
    (lambda: explode(lambda click: click.tags, combine=lambda click, tag: (click.user, tag)), "str: tuple[str, str]"),
    (lambda: key_by(lambda key, click: click.user), "str: Click"),
    (lambda: key_by(lambda key, click: (click.user, click.cents)), "tuple[str, int]: Click"),
    (lambda: enrich(ROOMS, by=lambda key, click: key, combine=lambda click, room: room.floor), "str: int"),
    (
        lambda: enrich(ROOMS, by=lambda key, click: key, combine=lambda click, room: room.floor if room else None, how="left"),
        "str: int | None",
    ),
    (lambda: aggregate(sum(lambda click: click.cents)), "str: int"),
    (lambda: aggregate(sum(lambda click: click.rate)), "str: float"),
    (lambda: aggregate(sum(lambda click: click.price)), "str: Annotated[Decimal, decimal(9, 2)]"),
    (lambda: aggregate(sum(lambda click: click.number, where=lambda click: click.cents > 0)), "str: Annotated[int, uint64]"),
    (lambda: running(min(lambda click: click.at)), "str: datetime"),
    (lambda: aggregate(max(lambda click: click.user, where=lambda click: click.cents > 0)), "str: str | None"),
    (lambda: aggregate(collect(lambda click: click.cents)), "str: list[int]"),
    (lambda: tumbling(sum(lambda click: click.cents), size=120), "str: int"),
    (lambda: sliding(max(lambda click: click.rate), size=120, slide=60), "str: float"),
    (lambda: aggregate(both(sum(lambda click: click.cents), count(), lambda total, n: total / n)), "str: float"),
    (lambda: aggregate(both(last(by=lambda click: click.at), count(), lambda click, n: click.user)), "str: str"),
    (
        lambda: tumbling(both(count(), both(count(), sum(lambda c: c.rate), lambda n, x: x / n), lambda n, x: (n, x)), size=60),
        "str: tuple[int, float]",
    ),
    (
        lambda: aggregate(struct(Totals, cents=sum(lambda c: c.cents), most=max(lambda c: c.rate), clicks=count())),
        "str: Totals",
    ),
    # What no annotation and no source says is traced.
    (lambda: map_values(lambda click: HALF(click.cents)), "str: float"),
    (lambda: map_values(DOUBLED), "str: int"),
    (lambda: aggregate(sum(DOUBLED)), "str: int"),
]

ORDERED: list[tuple[Callable[[], Any], str]] = [
    (lambda: pairwise(lambda one, other: other.cents - one.cents), "str: int"),
    (lambda: scan(sum(lambda click: click.cents)), "str: int"),
    (lambda: count_window(sum(lambda click: click.rate), items=2), "str: float"),
    (lambda: count_window(max(lambda click: click.cents), items=3, slide=1), "str: int"),
    (lambda: session(sum(lambda click: click.cents), gap=60, time=lambda click: click.at), "str: Session[int]"),
    (lambda: time_window(min(lambda click: click.cents), size=60, time=lambda click: click.at), "str: int"),
]


@pytest.mark.parametrize("at", range(len(UNORDERED)))
def test_types_follow_from_the_stream(at: int) -> None:
    make, expected = UNORDERED[at]
    assert typed(clicks().through(make())) == expected


@pytest.mark.parametrize("at", range(len(ORDERED)))
def test_types_follow_from_an_ordered_stream(at: int) -> None:
    make, expected = ORDERED[at]
    assert typed(in_order().through(make())) == expected


def test_the_value_itself_needs_no_type_at_run_time() -> None:
    """mypy asks for it."""
    total, least, most, untyped = (one for one in cast(Any, (sum, min, max, map_values)))
    given = [("a", 3), ("a", 4)]
    assert preview(aggregate(total()), U[str, int], given) == [[("a", 7)]]
    assert preview(aggregate(most()), U[str, int], given) == [[("a", 4)]]
    assert preview(aggregate(both(least(), most(), lambda low, high: high - low)), U[str, int], given) == [[("a", 1)]]
    assert preview(scan(total()), O[str, float], [("a", 1.5), ("a", 2.0)]) == [[("a", 1.5), ("a", 3.5)]]
    assert preview(untyped(abs), U[str, int], [("a", -3)]) == [[("a", 3)]]
    assert preview(untyped(len), U[str, str], [("a", "xyz")]) == [[("a", 3)]]


def test_the_operator_is_the_one_that_to_makes() -> None:
    """A graph has the same operators, so a checkpoint goes on."""
    flow = Dataflow("clicks")
    stream = clicks(flow)
    stream.through(tumbling(sum(lambda click: click.cents), size=60))
    stream.through(tumbling(sum(lambda click: click.cents, to=int), size=60))
    one, other = (cast(Any, node).op for node in flow.graph.nodes[1:])
    assert type(one) is type(other)
    assert type(one.aggregate) is type(other.aggregate)


def test_an_operator_may_be_used_for_streams_of_several_types() -> None:
    total = cast(Any, aggregate)(cast(Any, sum)(lambda one: one.cents))
    flow = Dataflow("two")
    flow.sink("clicks", clicks(flow).through(total))
    floors = flow.source("totals", U[str, Totals], markers=every(seconds=60, time=lambda one: one.clicks))
    flow.sink("totals", floors.through(total))
    assert {show_type(edge.value) for edge in check(flow).types.values()} == {"Click", "Totals", "int"}


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: cast(Any, map_values)(lambda click: hashlib.sha1(click.user.encode()).hexdigest()), "map_values"),
        (lambda: aggregate(sum(lambda click: vars(click)["cents"])), "sum"),
        (lambda: aggregate(both(sum(lambda c: c.cents), count(), lambda n, m: {n: m})), "both"),
    ],
)
def test_what_nothing_knows_is_asked_for(make: Callable[[], Any], what: str) -> None:
    with pytest.raises(UsageError, match=f"TT120 {what} does not know what .* returns") as raised:
        clicks().through(make())
    assert raised.value.where is not None
    assert raised.value.where.file == __file__
    assert f"pass {what}(..., to=<the type>)" in raised.value.fix


def test_a_mistake_before_it_is_told_alone() -> None:
    flow = Dataflow("clicks")
    untyped: Any = clicks(flow)
    total: Any = aggregate(cast(Any, sum)(lambda number: number))
    wrong = untyped.through(cast(Any, diff)(lambda click: click.rate))  # not in order
    flow.sink("out", wrong.through(cast(Any, map_values)(lambda number: number * 2)).through(total))
    assert [one.code for one in violations(flow)] == ["TT101"]


def test_a_type_without_a_schema_is_told_alone() -> None:
    @attrs.define
    class Mutable:
        page: str

    flow = Dataflow("clicks")
    rows: Any = flow.source("rows", U[str, Mutable], markers=every(seconds=60, time=lambda row: 0))
    flow.sink("out", rows.through(cast(Any, map_values)(lambda row: row.page)))
    assert [one.code for one in violations(flow)] == ["TT106"]


def test_a_field_that_is_not_there_is_named() -> None:
    op: Any = cast(Any, aggregate)(cast(Any, sum)(lambda click: click.cent))
    with pytest.raises(UsageError, match=r"TT120 sum: .*<lambda> reads 'cent' of Click, which has no such field") as raised:
        clicks().through(op)
    assert raised.value.fix == "did you mean cents?"
    with pytest.raises(UsageError, match="its fields are name, floor"):
        cast(Any, enrich)(ROOMS, by=lambda key, click: key, combine=lambda click, room: room.zzzzzz)


def test_an_open_aggregate_in_an_operator_of_ones_own_asks_for_its_type() -> None:
    part: Any = cast(Any, sum)(lambda click: click.cents)
    assert isinstance(part, OpenAggregate)
    for use in (lambda: types_of(part), lambda: evaluate(part, [1])):
        with pytest.raises(UsageError, match="TT120"):
            use()


def test_without_the_compiler_what_is_traced_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INFERENCE, "returned", lambda function, arguments: None)
    with pytest.raises(UsageError, match="TT120 map_values"):
        clicks().through(map_values(DOUBLED))


def test_an_open_operator_says_what_made_it() -> None:
    op: Any = map_values(lambda click: click.cents)
    assert isinstance(op, OpenOperator)
    assert op._name() == "map_values"
    assert not isinstance(aggregate(mean(lambda click: click.rate)), OpenOperator)
    assert not isinstance(aggregate(top(1, by=lambda click: click.rate)), OpenOperator)
    assert not isinstance(aggregate(first(by=lambda click: click.rate)), OpenOperator)
