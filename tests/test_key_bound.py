"""How many keys can come to a stage, where the functions of a dataflow tell."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expressions import BOOLEAN, INTEGER, STRING, expressions, rows
from tests.test_vector import expected
from tests.test_verification import Total
from tracetypes import Dataflow, Emit, Marker, OpStateless, Stream, U, check, every
from tracetypes.compiler.local.shards import shards_of
from tracetypes.compiler.plan.in_python import in_python, names_of
from tracetypes.compiler.plan.key_bound import _of_value, most_keys
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.tracing.expr import Call, Const, Expr, Undefined
from tracetypes.compiler.tracing.operations import basic
from tracetypes.stdlib import aggregate, count


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


@attrs.frozen
class Row:
    name: str
    number: int
    colour: Colour
    good: bool
    ts: int


COUNTRY_OF = {f"name {at}": f"country {at % 30}" for at in range(200)}

NAMES = every(seconds=10, time=lambda row: row.ts)


@attrs.frozen
class ByCountry(OpStateless[str, Row, str, Row]):
    def on_item(self, key: str, value: Row, emit: Emit[str, Row]) -> None:
        if value.name in COUNTRY_OF:
            emit(COUNTRY_OF[value.name], value)


@attrs.frozen
class Country:
    name: str
    code: int


COUNTRIES: dict[str, Country | None] = {f"name {at}": Country(f"country {at % 30}", at) for at in range(200)} | {"nobody": None}


@attrs.frozen
class ByRecord(OpStateless[str, Row, str, Row]):
    """Some names have no record."""

    def on_item(self, key: str, value: Row, emit: Emit[str, Row]) -> None:
        country = COUNTRIES.get(value.name)
        if country is not None:
            emit(country.name, value)


@attrs.frozen
class Good(OpStateless[str, Row, str, Row]):
    def on_item(self, key: str, value: Row, emit: Emit[str, Row]) -> None:
        if value.good:
            emit(key, value)


@attrs.frozen
class ByName(OpStateless[str, Row, str, Row]):
    def on_item(self, key: str, value: Row, emit: Emit[str, Row]) -> None:
        emit(value.name, value)


@attrs.frozen
class InPython(OpStateless[str, Row, str, Row]):
    """It cannot be traced."""

    def on_item(self, key: str, value: Row, emit: Emit[str, Row]) -> None:
        emit("".join(sorted(value.name)), value)


def computed_for_nothing(row: Row) -> bool:
    """Each division decides whether the row has a key: its branches share what comes behind them."""
    number = row.number
    for divisor in range(1, 26):
        number // (row.ts + divisor)
    return row.good


def flow(key_type: Any, key: Callable[[Row], Any], *between: OpStateless[Any, Any, Any, Any]) -> Dataflow:
    graph = Dataflow("flow")
    stream: Stream[Any] = graph.source("rows", U[key_type, Row], key=key, markers=NAMES)
    for one in between:
        stream = stream.through(one)
    graph.sink("counts", stream.through(aggregate(count())))
    return graph


FLOWS: dict[str, tuple[Dataflow, int | None]] = {
    "text": (flow(str, lambda row: row.name), None),
    "a number": (flow(int, lambda row: row.number), None),
    "a remainder": (flow(int, lambda row: row.number % 7), 7),
    "a truth": (flow(bool, lambda row: row.good), 2),
    "a member of an enum": (flow(Colour, lambda row: row.colour), 3),
    "one of two texts": (flow(str, lambda row: "a" if row.good else "b"), 2),
    "a table": (flow(str, lambda row: row.name, ByCountry()), 30),
    "a table in which something is missing": (flow(str, lambda row: row.name, ByRecord()), 31),
    "what was computed for nothing": (flow(bool, lambda row: computed_for_nothing(row)), 2),
    "a table, and a filter": (flow(str, lambda row: row.name, ByCountry(), Good()), 30),
    "a filter, and a table": (flow(str, lambda row: row.name, Good(), ByCountry()), 30),
    "a table, and something else": (flow(str, lambda row: row.name, ByCountry(), ByName()), None),
    "Python": (flow(str, lambda row: row.name, ByCountry(), InPython()), None),
}


@pytest.mark.parametrize("name", FLOWS)
def test_keys_of_a_stage(name: str) -> None:
    graph, most = FLOWS[name]
    (stage,) = plan(check(graph)).stages
    assert most_keys(stage) == most


@pytest.mark.parametrize(("name", "shards"), [("text", 4), ("a table", 1), ("a truth", 1), ("Python", 4)])
def test_few_keys_stay_in_one_shard(name: str, shards: int) -> None:
    query_plan = plan(check(FLOWS[name][0]), parallelism=2)
    assert shards_of(query_plan, 2) == shards
    assert shards_of(query_plan, 1) == 1


def test_no_shard_has_fewer_keys_than_columns_are_worth() -> None:
    more = plan(check(flow(int, lambda row: row.number % 200)), parallelism=4)
    assert [shards_of(more, tasks) for tasks in (1, 2, 4)] == [1, 2, 2]
    some = plan(check(flow(int, lambda row: row.number % 130)), parallelism=4)
    assert shards_of(some, 4) == 2


def summed(number: OpStateless[int, Row, int, int], total: Total, *behind: OpStateless[Any, Any, Any, Any]) -> Dataflow:
    graph = Dataflow("flow")
    rows = graph.source("rows", U[int, Row], key=lambda row: row.number % 2, markers=NAMES)
    sums: Stream[Any] = rows.through(number).through(total)
    for one in behind:
        sums = sums.through(one)
    graph.sink("sums", sums)
    return graph


def test_what_runs_python_in_the_stage_or_around_it_has_shards() -> None:
    """It takes longer than the shards cost."""
    few = plan(check(summed(Numbers(), Total())), parallelism=2)
    assert shards_of(few, 2) == 1
    for one in (summed(Numbers(), Digits()), summed(AtMarkers(), Total()), summed(Numbers(), Total(), Slow())):
        assert shards_of(plan(check(one), parallelism=2), 2) == 4
    for name in names_of(few).values():
        assert shards_of(in_python(few, {name}), 2) == (1 if name == "rows" else 4)


@attrs.frozen
class Numbers(OpStateless[int, Row, int, int]):
    def on_item(self, key: int, value: Row, emit: Emit[int, int]) -> None:
        emit(key, value.number)


@attrs.frozen
class Digits(Total):
    """It cannot be traced."""

    def on_marker(self, new_state: int, key: int, marker: Marker, emit: Emit[int, int]) -> None:
        emit(key, int("".join(sorted(str(abs(new_state))))))


@attrs.frozen
class AtMarkers(Numbers):
    """It emits at markers, too."""

    def on_marker(self, marker: Marker, emit: Emit[int, int]) -> None:
        emit(0, 1)


@attrs.frozen
class Slow(OpStateless[int, int, str, int]):
    """It cannot be traced."""

    def on_item(self, key: int, value: int, emit: Emit[str, int]) -> None:
        emit("".join(sorted(str(key))), value)


@given(st.lists(st.one_of([expressions(kind, 3) for kind in (BOOLEAN, INTEGER, STRING)]), max_size=3), rows(20))
def test_no_expression_has_more_values(some: list[Expr], table: list[dict[str, Any]]) -> None:
    """Those that no function bounds are bound here: by a remainder, and by a choice of two constants."""
    candidates: list[Expr] = [
        *some,
        *(Call(basic.MOD, (one, Const(3, INTEGER)), INTEGER) for one in some if one.kind == INTEGER),
    ]
    candidates += [Call(basic.IF, (one, Const(1, INTEGER), Const(2, INTEGER)), INTEGER) for one in some if one.kind == BOOLEAN]
    for one in candidates:
        values = set()
        for row in table:
            try:
                values.add(expected(one, row))
            except Undefined:
                continue
        most = _of_value(one)
        assert most is None or len(values) <= most
