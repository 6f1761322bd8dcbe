"""Traced answers are compared with plain Python while a flow runs: a tracer that was fooled is found out."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import Dataflow, Marker, OpKeyedUnordered, OpStateless, U, check, every
from tracetypes.algebra import greatest
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.connectors.source_rows import taker
from tracetypes.compiler.connectors.text import ParsedRows
from tracetypes.compiler.plan.in_python import in_python, names_of
from tracetypes.compiler.plan.plan import Plan, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.sampled_arguments import NOTHING, Sample, Unread
from tracetypes.compiler.runtime.verification import ALONE, APART, COMBINED, FIRST, TOGETHER, Verifier
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.interpreter import interpret_rows
from tracetypes.records import UNIT, UnitValue
from tracetypes.schemas import schema_of
from tracetypes.sources import reader


@attrs.frozen
class Event:
    user: int
    cents: int
    ts: int
    note: str | None = None
    secret: float = 0.0


@attrs.frozen
class Price(OpStateless[int, Event, int, int]):
    """On the way to the stage."""

    def on_item(self, key: int, value: Event, emit: Callable[[int, int], None]) -> None:
        if value.note is None:
            emit(key, value.cents * 2)
        elif value.cents > 500:
            emit(key, value.cents)


@attrs.frozen
class Total(OpKeyedUnordered[int, int, int, int, int, int]):
    """In the stage."""

    def lift(self, key: int, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: int, marker: Marker, emit: Callable[[int, int], None]) -> None:
        emit(key, new_state)


@attrs.frozen
class Euros(OpStateless[int, int, int, float]):
    """Behind the stage."""

    def on_item(self, key: int, value: int, emit: Callable[[int, float], None]) -> None:
        emit(key, value / 100)


def price_of_others(self: Price, key: int, value: Event, emit: Callable[[int, int], None]) -> None:
    if value.note is None:
        emit(key, value.cents * 2)
    elif value.cents > 400:
        emit(key, value.cents)


def price_with_more(self: Price, key: int, value: Event, emit: Callable[[int, int], None]) -> None:
    Price_on_item(self, key, value, emit)
    if value.cents == 77:
        emit(key, 1)


def price_by_secret(self: Price, key: int, value: Event, emit: Callable[[int, int], None]) -> None:
    if value.secret >= 0.0:
        Price_on_item(self, key, value, emit)


Price_on_item = Price.on_item

FOOLED: dict[str, tuple[type[Any], str, Any]] = {
    "a path": (Price, "on_item", price_of_others),
    "one more item": (Price, "on_item", price_with_more),
    "another field": (Price, "on_item", price_by_secret),
    "another type": (Euros, "on_item", lambda self, key, value, emit: emit(key, float(value // 100))),
    "it raises": (Euros, "on_item", lambda self, key, value, emit: emit(key, value / (value % 2))),
    "lift": (Total, "lift", lambda self, key, value: -value),
    "combine": (Total, "combine", lambda self, a, b: max(a, b)),
    "update_state": (Total, "update_state", lambda self, state, agg: state + agg + (agg % 3 == 0)),
    "on_marker": (Total, "on_marker", lambda self, new_state, key, marker, emit: emit(key, new_state + 1)),
}


def flow() -> Dataflow:
    made = Dataflow("prices")
    events = made.source("events", U[int, Event], key=lambda e: e.user, markers=every(seconds=10, time=lambda e: e.ts))
    made.sink("euros", events.through(Price()).through(Total()).through(Euros()))
    return made


def rows(seed: int, count: int = 300) -> list[Event]:
    chance = random.Random(seed)
    notes = [None, "a", "b"]
    return [
        Event(chance.randrange(40), chance.choice([77, chance.randrange(1000)]), at // 12, chance.choice(notes))
        for at in range(count)
    ]


def meant(seed: int) -> Any:
    return interpret_rows(check(flow()), {"events": rows(seed)})[0]["euros"]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(limits, "MANY", 1)
    return plan(check(flow()), parallelism=2, key_groups=2)


def test_honest_answers_are_alike(planned: Plan) -> None:
    for seed in range(5):
        answer = simulate(attrs.evolve(planned, verify_every=3), {"events": rows(seed)}, seed=seed)
        assert answer.trace == meant(seed)


@attrs.frozen
class Point:
    x: int


@attrs.frozen
class Seen:
    ts: int
    at: Point | None


@attrs.frozen
class Farthest(OpKeyedUnordered[int, Seen, int, int, int, int | None]):
    """Of records that may be missing."""

    def lift(self, key: int, value: Seen) -> int | None:
        return None if value.at is None else value.at.x

    def identity(self) -> int | None:
        return None

    def combine(self, a: int | None, b: int | None) -> int | None:
        return greatest(a, b)

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int | None) -> int:
        return state if agg is None else max(agg, state)

    def on_marker(self, new_state: int, key: int, marker: Marker, emit: Callable[[int, int], None]) -> None:
        emit(key, new_state)


@attrs.frozen
class Copied(OpStateless[int, Seen, int, Seen]):
    """Before that: what was read as columns comes as records."""

    def on_item(self, key: int, value: Seen, emit: Callable[[int, Seen], None]) -> None:
        emit(key, value)


@attrs.frozen
class Dropped(OpStateless[int, Seen, int, Seen]):
    """Before that: nothing but None comes."""

    def on_item(self, key: int, value: Seen, emit: Callable[[int, Seen], None]) -> None:
        emit(key, attrs.evolve(value, at=None))


@pytest.mark.parametrize("before", [None, Copied(), Dropped()], ids=str)
@pytest.mark.parametrize("missing", [0, 2, 3], ids=["never", "often", "always"])
def test_records_that_may_be_missing_are_alike(
    before: OpStateless[int, Seen, int, Seen] | None, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MANY", 1)
    flow = Dataflow("farthest")
    markers = every(seconds=10, time=lambda seen: seen.ts)
    seen = flow.source("seen", U[int, Seen], key=lambda seen: seen.ts % 2, markers=markers)
    flow.sink("out", (seen if before is None else seen.through(before)).through(Farthest()))
    rows = [Seen(n, None if n % 3 < missing else Point(n)) for n in range(40)]
    checked = check(flow)
    planned = attrs.evolve(plan(checked, key_groups=2), verify_every=5)
    wanted = interpret_rows(checked, {"seen": rows})[0]["out"]
    for seed in range(10):
        assert simulate(planned, {"seen": rows}, seed=seed).trace == wanted


@pytest.mark.parametrize("name", FOOLED)
def test_what_was_traced_and_is_something_else_is_found(
    planned: Plan, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cls, method, other = FOOLED[name]
    monkeypatch.setattr(cls, method, other)
    planned = attrs.evolve(planned, verify_every=1)
    with pytest.raises(Difference) as found:
        list(map(partial(answered, planned), range(20)))
    assert found.value.name == f"{cls.__name__}.{method}"
    assert Difference.from_text(f"Spark says: {found.value}\n at org.apache") is not None
    # With that operator in Python the answer is that of Python.
    mended = in_python(planned, {found.value.operator})
    for seed in range(3):
        assert outcome(lambda: answered(mended, seed)) == outcome(lambda: meant(seed))  # noqa: B023


def answered(planned: Plan, seed: int) -> Any:
    return simulate(planned, {"events": rows(seed)}, seed=seed).trace


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error)


def test_combine_is_compared_for_one_row_of_sixteen(planned: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, combines = list[int](), list[int]()
    compare, combined = Verifier.compare, Verifier.combined

    def count(self: Verifier, name: str, method: str, *args: Any, **options: Any) -> None:
        if method == "combine":
            combines[-1] += 1
        compare(self, name, method, *args, **options)

    def begin(self: Verifier, *args: Any) -> None:
        sizes.append(len(args[-1]))
        combines.append(0)
        combined(self, *args)

    monkeypatch.setattr(Verifier, "compare", count)
    monkeypatch.setattr(Verifier, "combined", begin)
    answered(attrs.evolve(planned, verify_every=1), 0)
    assert max(sizes) > COMBINED
    assert combines == [-(-size // COMBINED) for size in sizes]


@pytest.mark.parametrize("name", FOOLED)
def test_none_is_found_where_nobody_looks(planned: Plan, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    cls, method, other = FOOLED[name]
    monkeypatch.setattr(cls, method, other)
    for seed in range(5):
        assert outcome(lambda: answered(attrs.evolve(planned, verify_every=0), seed)) is not Difference  # noqa: B023


@pytest.mark.parametrize(("argument", "other"), [("key", lambda e: e.user + 1), ("time", lambda e: e.ts * 2)])
def test_functions_of_a_source(argument: str, other: Callable[[Event], int]) -> None:
    planned = plan(check(flow()), parallelism=1, key_groups=2)
    (link,) = links(planned.stages[0].region)
    leaf: Any = link.leaf
    read, columns = reader(leaf.source).read, [range(40), [5] * 40, range(1, 41), [None] * 40, [0.0] * 40]
    pairs = zip(columns, leaf.layout.columns, strict=True)
    table = ParsedRows(tuple(array(schema, list(column)) for column, (_, schema) in pairs), 40)
    verifier = Verifier(planned)
    (chunk,) = taker(leaf, read, verifier)(table)
    assert len(chunk) == 40  # type: ignore[arg-type]
    assert verifier.rows == 2 * FIRST
    if argument == "key":
        object.__setattr__(leaf.source, "key", other)
    else:
        object.__setattr__(leaf.source.markers, "time", other)
    with pytest.raises(Difference, match=argument):
        list(taker(leaf, read, Verifier(planned))(table))


# ----------------------------------------------------------------------------------------------------- sampling


@given(st.lists(st.integers(0, 700), max_size=12), st.integers(1, 500), st.integers(0, 5), st.booleans())
def test_the_same_rows_however_they_are_cut(counts: list[int], every_: int, place: int, alone: bool) -> None:
    planned = attrs.evolve(PLANNED, verify_every=every_)
    name = next(iter(names_of(planned).values()))

    def picked(cut: list[int]) -> list[int]:
        verifier = Verifier(planned)
        verifier.left[name] = 0
        if not alone:
            verifier.alone[name] = 0
        verifier.start(place, 7)
        found, at = list[int](), 0
        for count in cut:
            rows = verifier.pick(name, count)
            found += [] if rows is None else (rows + at).tolist()
            at += count
        return found

    whole = picked([sum(counts)])
    assert picked(counts) == whole
    assert sorted(set(whole)) == whole
    together = 1 if alone else TOGETHER
    size = together * every_
    for window in range(sum(counts) // size):
        assert sum(row // size == window for row in whole) == together


PLANNED = plan(check(flow()), parallelism=1, key_groups=2)


@pytest.mark.parametrize("count", [40, 3_000, 100_000])
def test_no_row_is_compared_less_often_for_its_place(count: int) -> None:
    """One in so many of the rows of short splits, too; and half of them in the first half."""
    rows_in_all, places = list[int](), 400_000 // count
    verifier = Verifier(attrs.evolve(PLANNED, verify_every=50))
    verifier.left["a"] = verifier.alone["a"] = 0
    for place in range(places):
        verifier.start(place)
        rows = verifier.pick("a", count)
        rows_in_all += [] if rows is None else rows.tolist()
    assert 6_500 < len(rows_in_all) < 9_500
    assert 0.4 < sum(row < count // 2 for row in rows_in_all) / len(rows_in_all) < 0.6


def test_a_million_rows_have_one_of_each_hundred_thousand_and_later_some_together() -> None:
    """Few batches are looked at then; and rows that are compared together are no neighbours."""
    verifier = Verifier(attrs.evolve(PLANNED, verify_every=100_000))
    verifier.left["a"] = 0
    of_splits = []
    for place in range(200):
        verifier.start(place)
        rows = verifier.pick("a", 1_000_000)
        of_splits.append([] if rows is None else rows.tolist())
    full = 7
    assert [[row // 100_000 for row in rows] for rows in of_splits[:full]] == [list(range(10))] * full  # ALONE and more
    later = [rows for rows in of_splits[full:] if rows]
    assert 20 < len(later) < 120
    assert sum(len(rows) == TOGETHER for rows in later) > len(later) // 2
    assert all((np.diff(rows) >= APART).all() for rows in later)
    assert full * 10 >= ALONE > (full - 1) * 10


def test_first_rows_of_each_operator_once_in_a_worker() -> None:
    verifier = Verifier(PLANNED)
    verifier.start(1)
    first = verifier.pick("b", FIRST - 3)
    assert first is not None
    assert first.tolist() == list(range(FIRST - 3))
    second = verifier.pick("b", 10)
    assert second is not None
    assert second.tolist()[:3] == [0, 1, 2]
    verifier.start(2)
    third = verifier.pick("b", 10)
    assert third is None or len(third) == 1


def test_places_differ() -> None:
    found = set()
    for place in range(50):
        verifier = Verifier(attrs.evolve(PLANNED, verify_every=1000))
        verifier.left["a"] = 0
        verifier.start(place)
        rows = verifier.pick("a", 1000)
        assert rows is not None
        found.add(tuple(rows))
    assert len(found) > 40


def test_in_python_leaves_the_others_traced() -> None:
    names = {name for name in names_of(PLANNED).values() if name.endswith("Total")}
    changed = in_python(PLANNED, names)
    (stage,), (before,) = changed.stages, PLANNED.stages
    assert isinstance(stage.steps[0].keyed, Opaque)
    assert isinstance(stage.steps[0].monoid, Opaque)
    assert not isinstance(before.steps[0].keyed, Opaque)
    (link,) = links(stage.region)
    assert not any(isinstance(mapped.traced, Opaque) for mapped in link.path)
    assert list(names_of(changed).values()) == list(names_of(PLANNED).values())
    assert not any(isinstance(m.traced, Opaque) for m in links(changed.region)[0].path)


# ---------------------------------------------------------------------------------------- arguments of Python


@dataclasses.dataclass(frozen=True)
class Place:
    city: str
    floor: int = 3


class Size(NamedTuple):
    width: int
    height: int


@attrs.frozen
class Parcel:
    place: Place
    size: Size | None
    weight: int


PARCEL = schema_of(Parcel)
LEAVES = {("value", "place", "city"), ("value", "place", "floor"), ("value", "size", "width"), ("value", "size", "height"),
          ("value", "weight")}  # fmt: skip
parcels = st.builds(
    Parcel,
    st.builds(Place, st.sampled_from("ab"), st.integers(0, 3)),
    st.none() | st.builds(Size, st.integers(0, 3), st.integers(0, 3)),
    st.integers(0, 3),
)


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for name in path[1:]:
        value = None if value is None else getattr(value, str(name))
    return value


@given(st.lists(parcels, max_size=4), st.sets(st.sampled_from(sorted(LEAVES))), st.booleans())
def test_an_argument_has_what_was_read_and_nothing_else(
    rows: list[Parcel], read: set[tuple[str | int, ...]], asked: bool
) -> None:
    """Of a class of attrs, a dataclass with a default and a named tuple that may be missing. ``asked``: whether it is."""
    paths = {*read, *([("value", "size")] if asked else [])}
    if not asked:
        rows = [row for row in rows if row.size is not None]
    sample = Sample({path: [at(row, path) for row in rows] for path in paths})
    made = sample.arguments(PARCEL, ("value",), len(rows))
    assert len(made) == len(rows)
    for row, argument in zip(rows, made, strict=True):
        if asked and row.size is None:
            assert argument.size is None
        for path in LEAVES - ({one for one in LEAVES if "size" in one} if row.size is None else set()):
            if path in read:
                assert at(argument, path) == at(row, path)
            else:
                with pytest.raises((Unread, AttributeError)):
                    _ = at(argument, path) + at(argument, path)


def test_an_argument_of_which_nothing_was_read() -> None:
    assert all(one is NOTHING for one in Sample({}).arguments(schema_of(int), ("value",), 2))
    assert Sample({}).arguments(UnitValue(), ("value",), 2) == [UNIT, UNIT]
