"""Stateless operators: what they emit, the types that the checker finds, laws, and calls that cannot be meant."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes import CheckFailed, Dataflow, U, UsageError, check, every, stdlib
from tracetypes.compiler.analysis.content import content
from tracetypes.edges import edge_type
from tracetypes.stdlib import enrich, explode, filter, flat_map, key_by, map, map_values, preview
from tracetypes.testing import check_deployments, check_laws, law_tests


@attrs.frozen
class Reading:
    watts: float
    ts: int


@attrs.frozen
class Named:
    watts: float
    room: str


ts: Any = stdlib
ROOMS = {"a": "kitchen", "b": "hall"}


def swap(key: str, value: int) -> tuple[int, str]:
    return value, key


def twice(key: str, value: int) -> Iterator[tuple[str, float]]:
    yield key, value
    yield key + "'", value / 2


def parity(key: str, value: int) -> bool:
    return value % 2 == 0


def half(value: int) -> float:
    return value / 2


def up_to(value: int) -> list[int]:
    return [*range(value)]


def product(value: int, part: int) -> float:
    return float(value * part)


def named(value: int, room: str) -> Named:
    return Named(float(value), room)


def maybe_named(value: int, room: str | None) -> Named:
    return Named(float(value), room or "?")


class Halves:
    def __call__(self, value: int) -> float:
        return value / 2


OPERATORS: list[Any] = [
    map(swap),
    map_values(half),
    filter(parity),
    flat_map(twice),
    explode(up_to),
    explode(up_to, combine=product),
    key_by(parity),
    enrich(ROOMS, by=lambda key, value: key, combine=named),
    enrich(ROOMS, by=lambda key, value: key, combine=maybe_named, how="left"),
]

test_laws = law_tests(*OPERATORS, types=(str, int), max_examples=some(40))
test_laws_of_lists = law_tests(ts.explode(), types=(str, list[int | None]), max_examples=some(40))

ITEMS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9)), max_size=8)


@given(ITEMS)
def test_what_they_emit(items: list[tuple[str, int]]) -> None:
    def told(op: Any) -> list[Any]:
        return preview(op, U[str, int], items)[0]

    assert told(map(swap)) == sorted((n, key) for key, n in items)
    assert told(map_values(half)) == sorted((key, n / 2) for key, n in items)
    assert told(filter(parity)) == sorted((key, n) for key, n in items if n % 2 == 0)
    assert told(flat_map(twice)) == sorted(
        [(key, float(n)) for key, n in items] + [(key + "'", n / 2) for key, n in items]
    )
    assert told(key_by(parity)) == sorted((n % 2 == 0, n) for key, n in items)
    assert told(explode(up_to)) == sorted((key, part) for key, n in items for part in range(n))
    assert told(explode(up_to, combine=product)) == sorted((key, n * p * 1.0) for key, n in items for p in range(n))
    inner = enrich(ROOMS, by=lambda key, value: key, combine=lambda n, room: f"{n:+} {room}", to=str)
    assert told(inner) == sorted((key, f"{n:+} {ROOMS[key]}") for key, n in items if key in ROOMS)
    left = enrich(ROOMS, by=lambda key, value: key, combine=lambda n, room: f"{n:+} {room}", to=str, how="left")
    assert told(left) == sorted((key, f"{n:+} {ROOMS.get(key)}") for key, n in items)


def test_a_table_may_hold_None() -> None:
    op = enrich({1: None}, by=lambda key, n: n, combine=lambda n, row: row is None, to=bool)
    assert preview(op, U[str, int], [("a", 1), ("a", 2)]) == [[("a", True)]]


def test_a_table_that_changes_later_is_another_one() -> None:
    rooms = {1: "hall"}
    op = enrich(rooms, by=lambda key, n: n, combine=lambda n, room: room, to=str)
    rooms[1] = "roof"
    assert preview(op, U[str, int], [("a", 1)]) == [[("a", "hall")]]


@pytest.mark.parametrize(
    ("op", "gives"),
    [
        (map(swap), U[int, str]),
        (map(lambda key, n: (n, [key]), to=tuple[int, list[str]]), U[int, list[str]]),
        (map_values(half), U[str, float]),
        (map_values(Halves()), U[str, float]),
        (map_values(functools.partial(half)), U[str, float]),
        (map_values(functools.partial(Named, room="hall")), U[str, Named]),
        (map_values(float), U[str, float]),
        (ts.map_values(str, to=str | None), U[str, str | None]),
        (map_values(half, to=float), U[str, float]),
        (filter(parity), U[str, int]),
        (flat_map(twice), U[str, float]),
        (flat_map(lambda key, n: [(n, n)], to=tuple[int, int]), U[int, int]),
        (explode(up_to), U[str, int]),
        (ts.explode(lambda n: (n,), to=int), U[str, int]),
        (explode(up_to, combine=product), U[str, float]),
        (key_by(parity), U[bool, int]),
        (ts.key_by(lambda key, n: (n, n), to=tuple[int, ...]), U[tuple[int, ...], int]),
        (enrich(ROOMS, by=lambda key, n: key, combine=named), U[str, Named]),
        (enrich(ROOMS, by=lambda key, n: key, combine=Named), U[str, Named]),
    ],
)
def test_the_checker_knows_the_types(op: Any, gives: Any) -> None:
    flow = Dataflow("typed")
    flow.sink("out", flow.source("in", U[str, int], markers=every(seconds=1, time=lambda n: n)).through(op))
    assert check(flow).types[1] == edge_type(gives)


def of_a_local_type() -> Any:
    class Local: ...

    def made(value: int) -> Local:
        return Local()

    return made


@pytest.mark.parametrize(
    ("make", "code", "text"),
    [
        (lambda: ts.map(lambda key, n: {key: n}), "TT120", "map does not know what"),
        (lambda: ts.map(half), "TT120", "map needs pairs of a key and a value, and found float"),
        (lambda: ts.map(swap, to=tuple[int, ...]), "TT120", "found tuple[int, ...]"),
        (lambda: ts.map_values(lambda n: {n}), "TT120", "<lambda>"),
        (lambda: ts.map_values(bin), "TT120", "bin"),
        (lambda: ts.map_values(of_a_local_type()), "TT120", "'Local' is not defined"),
        (lambda: ts.map_values(3), "TT121", "3, which is no function"),
        (lambda: ts.filter(None), "TT121", "None, which is no function"),
        (lambda: ts.flat_map(swap), "TT120", "returns an iterable, and found tuple[int, str]"),
        (lambda: ts.flat_map(half), "TT120", "returns an iterable, and found float"),
        (lambda: ts.explode(lambda n: {n}), "TT120", "explode does not know what"),
        (lambda: ts.explode(half), "TT120", "explode needs a function that returns an iterable, and found float"),
        (lambda: ts.explode(up_to, combine=lambda n, part: {n}), "TT120", "explode does not know what"),
        (lambda: ts.explode(3), "TT121", "3, which is no function"),
        (lambda: ts.explode(to=int), "TT121", "without a function that gets the list"),
        (lambda: ts.key_by(lambda key, n: {n}), "TT120", "key_by does not know"),
        (lambda: ts.enrich([1], by=parity, combine=named), "TT121", "no mapping"),
        (lambda: ts.enrich({}, by=3, combine=named), "TT121", "no function"),
        (lambda: ts.enrich({}, by=parity, combine=named, how="outer"), "TT121", "how='outer'"),
        (lambda: ts.enrich({}, by=parity, combine=lambda n, room: {n}), "TT120", "enrich does not know"),
    ],
)
def test_what_cannot_be_meant(make: Callable[[], Any], code: str, text: str) -> None:
    stream = Dataflow("wrong").source("in", U[str, int], markers=every(seconds=1, time=lambda n: n))
    with pytest.raises(UsageError) as caught:
        stream.through(make())
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.fix


def test_a_type_without_a_schema_is_refused_by_the_checker() -> None:
    flow = Dataflow("refused")
    numbers = flow.source("in", U[str, int], markers=every(seconds=1, time=lambda n: n))
    flow.sink("out", numbers.through(map_values(lambda n: {n}, to=set[int])))
    with pytest.raises(CheckFailed, match="TT106"):
        check(flow)


def test_only_lists_are_taken_apart_without_a_function() -> None:
    flow = Dataflow("exploded")
    lists = flow.source("lists", U[str, list[int]], markers=every(seconds=1, time=len))
    flow.sink("out", lists.through(explode()))
    assert check(flow).types[1] == edge_type(U[str, int])
    numbers: Any = flow.source("in", U[str, int], markers=every(seconds=1, time=lambda n: n))
    flow.sink("no", numbers.through(explode()))
    with pytest.raises(CheckFailed) as caught:
        check(flow)
    assert "list" in str(caught.value)


def test_an_impure_function_breaks_a_law() -> None:
    seen: list[int] = []

    def count_up(value: int) -> int:
        seen.append(value)
        return len(seen)

    with pytest.raises(Exception, match="TT30"):
        check_laws(map_values(count_up), types=(str, int))  # type: ignore[arg-type]


def test_any_deployment_gives_the_same() -> None:
    flow = Dataflow("deployed")
    numbers = flow.source("in", U[str, int], markers=every(seconds=1, time=lambda n: n))
    made = (
        numbers.through(filter(lambda key, n: n > 0))
        .through(flat_map(twice))
        .through(key_by(lambda k, x: len(k), to=int))
    )
    flow.sink("out", made.through(map_values(lambda x: Reading(x, 0), to=Reading)))
    assert check_deployments(flow, max_examples=10)


def test_a_fingerprint_knows_the_declared_types() -> None:
    assert content(int, str) == "int"
    assert content(list[Reading], str) == "list[Reading]"
    assert content(int | None, str) == "int | None"
    assert content(half, str) == "function"
