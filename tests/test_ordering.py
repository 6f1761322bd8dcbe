"""SORT of whole blocks, and what ordered operators emit, against the definition."""

from __future__ import annotations

import datetime as dt
import gc
import math
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.strategies import FLOATS, INTEGERS, STRINGS, schemas, values
from tracetypes import Dataflow, Marker, OpKeyedOrdered, OpKeyedUnordered, OpStateless, U, check, desc, every, sort
from tracetypes.canonical import canonical
from tracetypes.compiler.analysis.ordered import place_in
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns import ordering
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import inputs_of
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.ordering import Pairs, Runs, Sorter, canonical_columns, codes_of, codes_of_objects
from tracetypes.compiler.columns.sorting import SortKey, sorted_rows, stable_order
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.emitter import Emitted
from tracetypes.compiler.runtime.stateless import exactly
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.compiler.trial import simulate
from tracetypes.conformance import conformer, key_problem, positive_zeros
from tracetypes.errors import OperatorFailed
from tracetypes.interpreter import interpret_rows, sort_order
from tracetypes.nodes import Sort
from tracetypes.records import INT_MAX, INT_MIN, Schema
from tracetypes.schemas import schema_of


@attrs.frozen
class Reading:
    """An item; ``at`` comes last, so that the canonical order is not that of most ``by``."""

    number: float
    text: str | None
    at: int


READINGS = st.builds(Reading, FLOATS, st.none() | STRINGS, st.integers(-2, 2) | INTEGERS)

BY: dict[str, Callable[[Reading], Any]] = {
    "int": lambda r: r.at,
    "large int": lambda r: r.at * 3,
    "few ints": lambda r: r.at % 3,
    "bool": lambda r: r.at > 0,
    "float": lambda r: 0.0 if r.number != r.number else r.number,
    "zeros": lambda r: math.copysign(0.0, r.number),
    "str": lambda r: r.text or "",
    "bytes": lambda r: (r.text or "").encode(),
    "tuple": lambda r: (r.text or "", -(r.at % 3)),
    "nested tuple": lambda r: ((r.at % 2,), r.text or ""),
    "datetime": lambda r: dt.datetime.fromtimestamp(r.at % 4, dt.UTC),
    "date": lambda r: dt.date.fromordinal(700_000 + r.at % 4),
    "one for all": lambda r: 0,
    "desc int": lambda r: desc(r.at),
    "desc zeros": lambda r: desc(math.copysign(0.0, r.number)),
    "desc str": lambda r: (desc(r.text or ""), r.at % 3),
    "desc tuple": lambda r: desc((r.at % 2, desc(r.text or ""))),
    "desc int or float": lambda r: desc(r.at % 3 if r.text else float(r.at % 3)),
    "int or desc": lambda r: desc(r.at % 3) if r.text else r.at % 3,
    "int or float": lambda r: r.at % 3 if r.text else float(r.at % 3),
    "int or bool": lambda r: r.at % 3 if r.text else r.at > 0,
    "fraction": lambda r: (r.at, 1.5) if r.text else (r.at, 2),
}


def sort_node(by: Callable[[Any], Any]) -> Sort:
    flow = Dataflow("sorted")
    source = flow.source("in", U[str, Reading], markers=every(seconds=10, time=lambda r: r.at))
    flow.sink("out", source.through(sort(by=by)))
    return next(node for node in check(flow).graph.nodes if isinstance(node, Sort))


@pytest.mark.parametrize("name", BY)
@given(items=st.lists(st.tuples(st.integers(0, 2), READINGS), min_size=1, max_size=12))
def test_whole_blocks_are_sorted_as_the_definition_says(name: str, items: list[tuple[int, Reading]]) -> None:
    node, schema = sort_node(BY[name]), schema_of(Reading)
    order, given_values = sort_order(node, schema), [value for _, value in items]
    codes = np.array([code for code, _ in items], np.int64)
    try:
        rows = Sorter(node, schema).rows([codes], given_values, lambda: array(schema, given_values))
    except Undefined:
        assert name in MIXED | {"large int"}
        return
    whole = canonical(schema)
    wanted = sorted(items, key=lambda item: (item[0], order(item[1])))
    assert [(code, whole(value)) for code, value in wanted] == [
        (items[row][0], whole(items[row][1])) for row in rows.tolist()
    ]


@pytest.mark.parametrize("name", BY)
@given(items=st.lists(st.tuples(st.integers(0, 2), READINGS), min_size=1, max_size=12), in_order=st.booleans())
def test_columns_are_sorted_as_the_definition_says(name: str, items: list[tuple[int, Reading]], in_order: bool) -> None:
    sorted_as_defined(name, items, in_order)


def sorted_as_defined(name: str, items: list[tuple[int, Reading]], in_order: bool) -> None:
    """``in_order``: the places come in order, as times often do."""
    node, schema = sort_node(BY[name]), schema_of(Reading)
    order, whole, tree = sort_order(node, schema), canonical(schema), place_in(node, schema)
    if isinstance(tree, Opaque):
        return
    if in_order:
        items = sorted(items, key=lambda item: order(item[1])[0])
    values, codes = [value for _, value in items], np.array([code for code, _ in items], np.int64)
    columns = from_arrow(schema, array(schema, values))
    try:
        place = return_values(tree[0][1], inputs_of({"value": columns}), len(values))
        rows = Sorter(node, schema).rows_of_columns([codes], place, columns)
    except Undefined:
        return
    wanted = sorted(items, key=lambda item: (item[0], order(item[1])))
    assert [(code, whole(value)) for code, value in wanted] == [
        (items[row][0], whole(items[row][1])) for row in rows.tolist()
    ]


TIED = [(n % 2, Reading(float(n % 3), "ab"[n % 5 % 2] if n % 4 else None, 0)) for n in range(12)]

def turned(key: SortKey) -> SortKey:
    return SortKey(lambda rows, group: ~key.of(rows, group), key.dear)


TWINS: dict[str, Callable[[Any], Any]] = {
    "ties the other way": lambda keys: [turned(key) for key in keys],
    "ties as they come": lambda keys: [],
    "the last field first": lambda keys: keys[::-1],
}


@pytest.mark.parametrize("name", TWINS)
def test_another_order_of_ties_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys_of = ordering._later
    sorted_as_defined("one for all", TIED, False)
    monkeypatch.setattr(ordering, "_later", lambda values: TWINS[name](list(keys_of(values))))
    with pytest.raises(AssertionError):
        sorted_as_defined("one for all", TIED, False)


NUMBERS = st.sampled_from([0, 1, 2, INT_MIN, INT_MAX, -1]) | INTEGERS


@given(data=st.data(), count=st.integers(0, 40), dear=st.lists(st.booleans(), max_size=5))
def test_rows_are_sorted_by_columns_and_keep_their_order_among_equal_ones(
    data: DataObject, count: int, dear: list[bool]
) -> None:
    columns = []
    for _ in dear:
        some = data.draw(st.lists(NUMBERS, min_size=1, max_size=4))
        column = data.draw(st.lists(st.sampled_from(some), min_size=count, max_size=count))
        columns.append(np.array(sorted(column) if data.draw(st.booleans()) else column, np.int64))
    keys = [SortKey(SortKey.column(column).of, one) for column, one in zip(columns, dear, strict=True)]
    wanted = sorted(range(count), key=lambda row: [int(column[row]) for column in columns])
    assert sorted_rows(keys, count).tolist() == wanted


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 20)), min_size=1, max_size=12))
def test_runs_of_numbers_are_sorted_as_the_numbers(runs: list[tuple[int, int]]) -> None:
    numbers = np.repeat(*np.array(runs, np.int64).T)
    rows = stable_order(numbers)
    assert (np.arange(len(numbers)) if rows is None else rows).tolist() == np.argsort(numbers, kind="stable").tolist()


def test_further_columns_are_read_for_rows_that_others_do_not_tell_apart() -> None:
    read: list[Any] = []

    def dear(rows: Any, group: Any) -> Any:
        read.append((rows.tolist(), group.tolist()))
        return -rows

    first = np.array([3, 1, 3, 2, 1, 0], np.int64)
    assert sorted_rows([SortKey.column(first), SortKey(dear, dear=True)], 6).tolist() == [5, 4, 1, 3, 2, 0]
    assert read == [([1, 4, 0, 2], [0, 0, 1, 1])]


MIXED = {"int or float", "int or bool", "fraction", "desc int or float", "int or desc"}


@pytest.mark.parametrize("name", BY)
def test_plain_kinds_are_sorted_as_columns_and_mixed_ones_are_not(name: str) -> None:
    items = [Reading(float(n % 3) - 1.0, "ab"[n % 2] if n % 3 else None, n % 5 - 2) for n in range(20)]
    sorter, codes = Sorter(sort_node(BY[name]), schema_of(Reading)), np.zeros(20, np.int64)
    if name in MIXED:
        with pytest.raises(Undefined):
            sorter.rows([codes], items, lambda: array(schema_of(Reading), items))
    else:
        assert sorted(sorter.rows([codes], items, lambda: array(schema_of(Reading), items)).tolist()) == [*range(20)]


@pytest.mark.parametrize("by", [lambda r: math.nan, lambda r: (1, math.nan), lambda r: 1 // 0])
def test_what_has_no_place_is_left_to_the_definition(by: Callable[[Reading], Any]) -> None:
    items = [Reading(1.0, "a", 1), Reading(2.0, "b", 2)]
    with pytest.raises(Undefined):
        Sorter(sort_node(by), schema_of(Reading)).rows([np.zeros(2, np.int64)], items, lambda: None)


@given(data=st.data(), schema=schemas())
def test_canonical_columns_have_the_canonical_order(data: DataObject, schema: Schema) -> None:
    some = data.draw(st.lists(values(schema), min_size=1, max_size=8))
    whole = canonical(schema)
    try:
        columns = canonical_columns(from_arrow(schema, array(schema, some)))
    except Undefined:
        return
    made = list(zip(*(column.tolist() for column in columns), strict=True)) or [()] * len(some)
    for a, one in zip(some, made, strict=True):
        for b, other in zip(some, made, strict=True):
            assert (one < other) == (whole(a) < whole(b))
            assert (one == other) == (whole(a) == whole(b))


@given(data=st.data(), schema=schemas())
def test_exact_values_are_those_that_conform_as_they_are(data: DataObject, schema: Schema) -> None:
    some = data.draw(st.lists(values(schema) | st.sampled_from([0, 1.5, "a", None, True, b"", "\ud800"]), max_size=3))
    if exactly(schema, some):
        fit = conformer(schema)
        assert all(fit(one) is one for one in some)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=9))
def test_runs_are_items_by_key(items: list[tuple[str, int]]) -> None:
    runs = Pairs([key for key, _ in items], [value for _, value in items]).by_key()
    wanted = {key: [value for other, value in items if other == key] for key, _ in items}
    assert dict(runs.runs()) == wanted
    assert runs.places().tolist() == [place for found in wanted.values() for place in range(len(found))]
    assert list(zip(runs.key_of_each(), runs.values, strict=True)) == [
        (key, value) for key, found in wanted.items() for value in found
    ]
    more = Runs.of("cd", [1, 2])
    assert dict(runs.followed_by(more).runs()) == {
        key: wanted.get(key, []) + dict(more.runs()).get(key, []) for key in {**wanted, "c": 0, "d": 0}
    }


@given(data=st.data(), schema=schemas())
def test_codes_are_equal_for_equal_keys(data: DataObject, schema: Schema) -> None:
    some = data.draw(st.lists(values(schema), max_size=6))
    keys = [positive_zeros(schema, one) for one in some if key_problem(schema, one) is None]
    if not keys or not _hashable(keys):
        return
    whole = canonical(schema)
    for codes in (codes_of(schema, array(schema, keys)).tolist(), codes_of_objects(keys).tolist()):
        for a, one in zip(keys, codes, strict=True):
            for b, other in zip(keys, codes, strict=True):
                assert (one == other) == (whole(a) == whole(b)) or a == b


def _hashable(keys: list[Any]) -> bool:
    try:
        return bool({hash(key) for key in keys})
    except TypeError:
        return False


# ------------------------------------------------------------------------------------------------- whole flows


@attrs.frozen
class Change:
    """What an operator emits."""

    at: int
    change: float


@attrs.frozen
class Changes(OpKeyedOrdered[str, Reading, Change, int]):
    """How much came since the last item, as an int where a float is declared; the count at the marker."""

    wrong: int | None = None
    raises: int | None = None

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Reading, emit: Callable[[Change], None]) -> int:
        change: Any = "much" if value.at == self.wrong else int(value.number)
        emit(Change(value.at, change))
        if value.at == self.raises:
            raise ValueError("no more")
        return state + 1

    def on_marker(self, state: int, key: str, marker: Marker, emit: Callable[[Change], None]) -> int:
        emit(Change(marker.timestamp, state))
        return state


@attrs.frozen
class Spread(OpStateless[str, Change, str, Change]):
    """Behind the stage; ``odd``: by a way that nobody traces."""

    odd: bool

    def on_item(self, key: str, value: Change, emit: Callable[[str, Change], None]) -> None:
        if self.odd:
            try:
                value = attrs.evolve(value, at=value.at + 1)
            finally:
                pass
        if value.change != 3:
            emit(key, Change(value.at, value.change))


@attrs.frozen
class Total(OpKeyedUnordered[str, Change, str, Change, int, int]):
    """Emits what has to be converted, by item and by marker."""

    wrong: int | None = None

    def on_item(self, last_state: int, key: str, value: Change, emit: Callable[[str, Change], None]) -> None:
        change: Any = "little" if value.at == self.wrong else int(value.change)
        emit(key, Change(value.at, change))

    def lift(self, key: str, value: Change) -> int:
        return int(value.change)

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Callable[[str, Change], None]) -> None:
        emit(key, Change(marker.timestamp, new_state))


def made(op: Any, *more: Any, by: Callable[[Reading], Any] = lambda r: r.at) -> Any:
    flow = Dataflow("ordered")
    stream: Any = flow.source("in", U[str, Reading], markers=every(seconds=10, time=lambda r: r.at))
    stream = stream.through(sort(by=by)).through(op)
    for one in more:
        stream = stream.through(one)
    flow.sink("out", stream)
    return check(flow)


ROWS = {"in": [("abcd"[n * 7 % 4], Reading(float(n * 5 % 7), "x", n * 3 % 10 + n // 40 * 10)) for n in range(120)]}


def minus_change(value: Change) -> float:
    return -value.change


@pytest.mark.parametrize("many", [1, 64, 10_000])
@pytest.mark.parametrize(
    "more",
    [(), (sort(by=minus_change),), (Spread(False),), (Spread(True),), (Total(),)],
    ids=["alone", "sorted again", "traced", "opaque", "unordered"],
)
def test_ordered_flows_give_the_traces_of_the_interpreter(
    many: int, more: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MANY", many)
    checked = made(Changes(), *more)
    wanted, _ = interpret_rows(checked, ROWS)
    for seed in range(3):
        answer = simulate.simulate(plan(checked, key_groups=2), ROWS, seed=seed, steps=2, pieces=2)
        assert answer.trace == wanted["out"]
        assert all(type(one.value.change) is float for one in answer.trace.items if hasattr(one, "value"))


@attrs.frozen
class Seen(OpKeyedOrdered[str, Reading, Reading, list[Reading]]):
    """Keeps a list, so it stays Python. Emits an item once the next one has come."""

    def initial_state(self) -> list[Reading]:
        return []

    def on_item(self, state: list[Reading], key: str, value: Reading, emit: Callable[[Reading], None]) -> list[Reading]:
        for one in state:
            emit(one)
        return [value]


@pytest.mark.parametrize("by", BY)
def test_items_are_in_order_before_they_are_objects(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ``by`` gives: if it is traced, columns are sorted, and a Python operator takes the objects made of them."""
    monkeypatch.setattr(limits, "MANY", 1)
    chance, checked = random.Random(by), made(Seen(), by=BY[by])
    numbers, texts = [0.0, -0.0, 1.5, math.nan], [None, "", "x", "é"]
    readings = [Reading(chance.choice(numbers), chance.choice(texts), chance.randrange(25)) for _ in range(90)]
    rows = {"in": [(chance.choice("ab"), reading) for reading in readings]}
    wanted, _ = interpret_rows(checked, rows)
    answer = simulate.simulate(plan(checked, key_groups=1), rows, seed=0, steps=2, pieces=1)
    for key in "ab":
        ours, theirs = (
            [repr(one) for one in trace.items if getattr(one, "key", key) == key] for trace in (answer.trace, wanted["out"])
        )
        assert ours == theirs


@given(
    blocks=st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 9), min_size=1, max_size=3)), max_size=3), max_size=4
    ),
    by_key=st.booleans(),
    runs=st.booleans(),
)
def test_what_blocks_emit_has_its_places(blocks: list[list[tuple[str, list[int]]]], by_key: bool, runs: bool) -> None:
    emitted, wanted = Emitted(by_key=by_key), list[tuple[str, int, int, int]]()
    for end, block in enumerate(blocks):
        pairs = [(key, value, at) for key, values in block for at, value in enumerate(values)]
        keys, values = [key for key, _, _ in pairs], [value for _, value, _ in pairs]
        some = Runs([key for key, _ in block], [len(values) for _, values in block], values) if runs else Pairs(keys, values)
        emitted.add(some, end)
        for place, (key, value, at) in enumerate(pairs):
            wanted.append((key, value, end, place if not by_key else at if runs else 0))
    batch = emitted.batch()
    assert batch.positions is not None
    assert list(zip(batch.keys, batch.values, batch.ends, batch.positions, strict=True)) == wanted


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "by raises": (lambda: made(Changes(), by=lambda r: 1 // (r.at - 7)), r"Sort.by raised ZeroDivisionError"),
    "by gives NaN": (
        lambda: made(Changes(), by=lambda r: math.nan if r.at == 7 else 1.0),
        r"TT204.* by gave nan for Re",
    ),
    "by gives a set": (lambda: made(Changes(), by=lambda r: {r.at} if r.at == 7 else 1.0), r"TT204.*no place in an order"),
    "wrong type": (lambda: made(Changes(wrong=7)), r"Changes emitted \('.', Change\(at=7, change='much'\)\): .*float"),
    "raises": (
        lambda: made(Changes(raises=7)),
        r"Changes.on_item raised ValueError: no more\n.*item \('.', Reading\(.*at=7",
    ),
    "wrong before it raises": (
        lambda: made(Changes(wrong=7, raises=7)),
        r"Changes emitted \('.', Change\(at=7, change='mu",
    ),
    "wrong of an unordered": (
        lambda: made(Changes(), Total(wrong=7)),
        r"Total emitted \('.', Change\(at=7, change='litt",
    ),
}


@pytest.mark.parametrize("many", [1, 10_000])
@pytest.mark.parametrize("name", BAD)
def test_errors_in_the_middle_of_a_block_name_the_item(name: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MANY", many)
    flow, message = BAD[name]
    checked = flow()
    for run in (lambda: interpret_rows(checked, ROWS), lambda: simulate.simulate(plan(checked), ROWS, seed=1)):
        with pytest.raises(OperatorFailed, match=rf"(?s){message}"):
            run()


def test_blocks_of_one_key_and_their_neighbours_keep_apart() -> None:
    """Many small blocks in one step are sorted at once, and cut again."""
    checked = made(Changes())
    rows = {"in": [("ab"[n % 2], Reading(float(-n % 5), None, n // 2)) for n in range(200)]}
    wanted, _ = interpret_rows(checked, rows)
    assert simulate.simulate(plan(checked, key_groups=1), rows, seed=0, steps=1, pieces=1).trace == wanted["out"]


@attrs.frozen
class Watching(OpKeyedOrdered[str, Reading, float, int]):
    """Notes how often garbage is looked for, and may fail."""

    fails: bool

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Reading, emit: Callable[[float], None]) -> int:
        SEEN.append(gc.get_threshold()[0])
        if self.fails:
            raise ValueError("no")
        return state


SEEN: list[int] = []


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("before", [0, 700, 1_000_000])
def test_the_garbage_collector_is_as_it_was_before_a_step(fails: bool, before: int) -> None:
    usual = gc.get_threshold()
    SEEN.clear()
    gc.set_threshold(before, *usual[1:])
    try:
        with suppress(OperatorFailed):
            simulate.simulate(plan(made(Watching(fails))), ROWS, seed=0)
        assert gc.get_threshold() == (before, *usual[1:])
    finally:
        gc.set_threshold(*usual)
    assert set(SEEN) == {max(before, limits.YOUNG) if before else 0}


def test_a_large_block_does_not_wake_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "YOUNG", 1)
    monkeypatch.setattr(limits, "PER_ITEM", 1_000)
    SEEN.clear()
    simulate.simulate(plan(made(Watching(False)), key_groups=1), ROWS, seed=0, steps=1, pieces=1)
    assert max(SEEN) == 1_000 * len(ROWS["in"])
