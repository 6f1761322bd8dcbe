"""A record, once made, is data: its constructor runs when the program or a row from outside makes it, and never again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracetypes
from tests.made_once import CLASSES, Converted, Data, Holder, Plain, Reduces, Tuple
from tracetypes import (
    Dataflow,
    Emit,
    EmitValue,
    Item,
    Marker,
    OpKeyedOrdered,
    OpKeyedUnordered,
    U,
    check,
    every,
    interpret_rows,
    sort,
)
from tracetypes import stdlib as ts
from tracetypes.compiler.analysis.pickles import dumps, loads, shipped
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.trial.simulate import simulate, simulate_program
from tracetypes.conformance import conformer
from tracetypes.plain_data import from_plain, made_again, to_plain
from tracetypes.record_classes import constructor_code, other_data
from tracetypes.record_copies import builder, copied, made_of, unequal_copy
from tracetypes.schemas import schema_of

Stage = Callable[[Any, type[Any]], Any]


def some(cls: type[Any], count: int = 6) -> list[Any]:
    """Records, each made by its constructor."""
    inside = {"inside": (Converted(7), Converted(8)), "perhaps": Tuple(1, 2)} if cls is Holder else {}
    return [cls(n=10 * at, ts=at, **inside) for at in range(count)]


def ts_of(value: Any) -> Any:
    return value.ts


def fields(record: Any) -> list[Any]:
    return [getattr(record, name) for name, _ in schema_of(type(record)).fields]  # type: ignore[union-attr]


# ---------------------------------------------------------------------------------------------------- by itself


@pytest.mark.parametrize("cls", CLASSES)
def test_a_copy_is_equal_wherever_it_is_made(cls: Any) -> None:
    schema, records = schema_of(cls), some(cls)
    names = tuple(name for name, _ in schema.fields)  # type: ignore[union-attr]
    copies: dict[str, list[Any]] = {
        "columns": from_array(schema, array(schema, records)),
        "one by one": [made_of(cls, names)(fields(record)) for record in records],
        "many": builder(cls, names)([list(column) for column in zip(*map(fields, records), strict=True)]),
        "state": loads(dumps(records)),
        "plan": loads(shipped(records)),
        "copy": copied(records),
        "plain": [from_plain(schema, to_plain(schema, record), "", made_again) for record in records],
        "conforms": list(map(conformer(schema), records)),
    }
    for place, made in copies.items():
        assert made == records, place
        assert list(map(type, made)) == list(map(type, records)), place
        assert list(map(hash, made)) == list(map(hash, records)), place
        assert list(map(repr, made)) == list(map(repr, records)), place
    assert builder(cls, names)([[] for _ in names]) == []


@pytest.mark.parametrize("cls", CLASSES)
def test_what_a_constructor_does_is_known(cls: Any) -> None:
    assert (constructor_code(cls) is None) == (cls is Plain)
    assert other_data(cls) is None


def _twice(given: float) -> float:
    return given * 2


def test_an_integer_in_place_of_a_float_does_not_make_a_record_anew() -> None:
    @attrs.frozen
    class Level:
        metres: float = attrs.field(converter=_twice)

    level = conformer(schema_of(Level))(Level(3))
    assert level.metres == 6.0
    assert type(level.metres) is float


# ----------------------------------------------------------------------------------------------------- in a run


def as_state(stream: Any, cls: type[Any]) -> Any:
    """The state is a record."""

    @attrs.frozen
    class Last(OpKeyedOrdered[str, cls, cls, Any]):  # type: ignore[valid-type]
        def initial_state(self) -> Any:
            return None

        def on_item(self, state: Any, key: str, value: Any, emit: EmitValue[Any]) -> Any:
            emit(value if state is None else state)
            return value

        def on_marker(self, state: Any, key: str, marker: Marker, emit: EmitValue[Any]) -> Any:
            return state

    return stream.through(sort(by=ts_of)).through(Last())


def as_aggregate(stream: Any, cls: type[Any]) -> Any:
    @attrs.frozen
    class Greatest(OpKeyedUnordered[str, cls, str, cls, tuple[cls, ...], tuple[cls, ...]]):  # type: ignore[valid-type]
        def lift(self, key: str, value: Any) -> tuple[Any, ...]:
            return (value,)

        def identity(self) -> tuple[Any, ...]:
            return ()

        def combine(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
            return max(a, b, key=lambda one: [v.ts for v in one])

        def initial_state(self) -> tuple[Any, ...]:
            return ()

        def update_state(self, state: tuple[Any, ...], agg: tuple[Any, ...]) -> tuple[Any, ...]:
            return max(state, agg, key=lambda one: [v.ts for v in one])

        def on_marker(self, new_state: tuple[Any, ...], key: str, marker: Marker, emit: Emit[str, Any]) -> None:
            for value in new_state:
                emit(key, value)

    return stream.through(Greatest())


STAGES: dict[str, Stage] = {
    "filter": lambda stream, _: stream.through(ts.filter(lambda k, v: ts_of(v) % 2 >= 0)),
    "sort": lambda stream, _: stream.through(sort(by=ts_of)),
    "key": lambda stream, _: stream.through(ts.key_by(lambda k, v: f"k{ts_of(v) % 3}", to=str)),
    "state": as_state,
    "aggregate": as_aggregate,
}


def flow_of(cls: Any, made_inside: bool, stages: Sequence[str], twice: bool) -> Dataflow:
    """``made_inside``: an operator makes the records. ``twice``: a channel is between the stages and two sinks."""
    flow = Dataflow("once")
    if made_inside:
        source = flow.source("rows", U[str, Plain], key=lambda p: f"k{p.ts % 2}", markers=every(seconds=2, time=lambda p: p.ts))

        def make(value: Plain) -> Any:
            return cls(n=value.n, ts=value.ts)

        make.__annotations__["return"] = cls
        stream: Any = source.through(ts.map_values(make))
    else:
        stream = flow.source("rows", U[str, cls], key=lambda v: f"k{ts_of(v) % 2}", markers=every(seconds=2, time=ts_of))
    for name in stages:
        stream = STAGES[name](stream, cls)
    flow.sink("out", stream)
    if twice:
        flow.sink("again", stream.through(sort(by=ts_of)))
    return flow


@settings(max_examples=40)
@given(
    st.sampled_from(CLASSES),
    st.booleans(),
    st.lists(st.sampled_from(sorted(STAGES)), max_size=3),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_no_place_of_a_dataflow_calls_a_constructor_again(
    cls: Any, made_inside: bool, stages: list[str], twice: bool, seed: int
) -> None:
    checked = check(flow_of(cls, made_inside, stages, twice))
    rows = {"rows": some(Plain) if made_inside else some(cls)}
    wanted, _ = interpret_rows(checked, rows)
    if twice:
        answers = simulate_program(program(checked, parallelism=2), rows, seed=seed)
        assert {name: answers[name].trace for name in wanted} == wanted
    else:
        assert simulate(plan(checked, parallelism=2), rows, seed=seed).trace == wanted["out"]


def local(flow: Dataflow, rows: Any, **options: Any) -> list[Any]:
    got: list[Any] = []
    tracetypes.run(flow, {"rows": rows}, {"out": got}, backend="local", **options)
    return sorted(got, key=lambda pair: (pair[0], pair[1].ts))


def expected(flow: Dataflow, rows: list[Any]) -> list[Any]:
    traces, _ = interpret_rows(check(flow), {"rows": rows})
    pairs = [(one.key, one.value) for one in traces["out"].items if isinstance(one, Item)]
    return sorted(pairs, key=lambda pair: (pair[0], pair[1].ts))


@pytest.mark.parametrize("given_as", [list, iter], ids=["a list", "an iterator"])
@pytest.mark.parametrize("cls", CLASSES)
def test_objects_of_the_program_are_not_made_again(cls: Any, given_as: Callable[[list[Any]], Any]) -> None:
    flow = flow_of(cls, False, ["sort"], False)
    assert local(flow, given_as(some(cls))) == expected(flow, some(cls))


@pytest.mark.parametrize("cls", [Converted, Data, Reduces])
def test_a_restart_does_not_make_records_again(cls: Any, tmp_path: Path) -> None:
    """States hold records, as a checkpoint has them, and channels and files keep them."""
    flow = flow_of(cls, False, ["state", "aggregate"], True)
    (tmp_path / "in").mkdir()
    for run in range(3):
        lines = [json.dumps({"n": 10 * at, "ts": at}) + "\n" for at in range(2 * run, 2 * run + 2)]
        (tmp_path / "in" / f"{run}.jsonl").write_text("".join(lines))
        outputs = {name: str(tmp_path / name) for name in ("out", "again")}
        tracetypes.run(
            flow, {"rows": str(tmp_path / "in")}, outputs, checkpoint=str(tmp_path / "c"), drain=run == 2, backend="local"
        )
    traces, _ = interpret_rows(check(flow), {"rows": some(cls)})
    for name, trace in traces.items():
        files = [file for file in (tmp_path / name).glob("*.jsonl")]
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        wanted = [(one.key, one.value.n, one.value.ts) for one in trace.items if isinstance(one, Item)]
        assert sorted((row["key"], row["n"], row["ts"]) for row in rows) == sorted(wanted)


def from_outside(cls: Any, place: Path) -> Iterator[tuple[str, Any]]:
    """Rows as every format has them. No constructor has seen them."""
    names = [name for name, _ in schema_of(Plain).fields]  # type: ignore[union-attr]
    plain = [{"n": 10 * at, "ts": at} for at in range(6)]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in plain))
    yield "JSON", str(place / "rows.jsonl")
    (place / "rows.csv").write_text("n,ts\n" + "".join(f"{row['n']},{row['ts']}\n" for row in plain))
    yield "CSV", str(place / "rows.csv")
    table = pa.table({name: [row[name] for row in plain] for name in names})
    import pyarrow.parquet as pq

    pq.write_table(table, place / "rows.parquet")
    yield "Parquet", str(place / "rows.parquet")
    yield "Arrow", table


FLAT = [cls for cls in CLASSES if [name for name, _ in schema_of(cls).fields] == ["n", "ts"]]  # type: ignore[union-attr]


@pytest.mark.parametrize("cls", FLAT)
def test_rows_from_outside_pass_the_constructor_once(cls: Any, tmp_path: Path) -> None:
    flow = flow_of(cls, False, ["sort"], False)
    for name, rows in from_outside(cls, tmp_path):
        assert local(flow, rows) == expected(flow, some(cls)), name


@attrs.frozen
class Within:
    """A constructor inside a column that is a struct or a list."""

    ts: int
    one: Converted
    more: tuple[Converted, ...]


def test_nested_columns_from_outside_pass_the_constructor_once() -> None:
    flow = Dataflow("nested")
    source = flow.source("rows", U[str, Within], key=lambda w: "k", markers=every(seconds=2, time=lambda w: w.ts))
    flow.sink("out", source.through(sort(by=lambda w: w.ts)))
    plain = {"ts": 1, "one": {"n": 1, "ts": 0}, "more": [{"n": 2, "ts": 0}]}
    assert local(flow, pa.Table.from_pylist([plain])) == [("k", Within(1, Converted(1), (Converted(2),)))]


@attrs.frozen
class Checked:
    n: int = attrs.field(validator=attrs.validators.ge(0))
    ts: int


def test_validators_see_columns_from_outside(tmp_path: Path) -> None:
    flow = flow_of(Checked, False, ["sort"], False)
    rejects = tmp_path / "rejects"
    table = pa.table({"n": [1, -1, 2], "ts": [0, 1, 2]})
    assert [value.n for _, value in local(flow, table, rejects=str(rejects))] == [1, 2]
    (reject,) = [json.loads(line) for file in rejects.rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert "-1" in reject["row"]
    assert "Checked" in reject["reason"]


# --------------------------------------------------------------------------------------------- more than fields


@attrs.frozen(slots=False)
class Sneaky:
    n: int
    ts: int

    def __attrs_post_init__(self) -> None:
        self.__dict__.update(double=2 * self.n)


@attrs.frozen(slots=False)
class Lazy:
    n: int
    ts: int

    def __attrs_post_init__(self) -> None:
        assert self.n >= 0

    @cached_property
    def double(self) -> int:
        return 2 * self.n


@attrs.frozen(eq=False, slots=False)
class Equal:
    """Its equality looks at what a copy does not have."""

    n: int
    ts: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) and getattr(self, "note", 0) == getattr(other, "note", 0)

    def __hash__(self) -> int:
        return hash(self.n)


def test_an_attribute_that_is_no_field_is_found_when_the_record_comes() -> None:
    @attrs.frozen
    class Makes(tracetypes.OpStateless[str, Plain, str, Sneaky]):
        def on_item(self, key: str, value: Plain, emit: Emit[str, Sneaky]) -> None:
            emit(key, Sneaky(value.n, value.ts))

    flow = Dataflow("sneaky")
    source = flow.source("rows", U[str, Plain], key=lambda p: "k", markers=every(seconds=2, time=lambda p: p.ts))
    flow.sink("out", source.through(Makes()))
    with pytest.raises(tracetypes.OperatorFailed, match=r"TT206(.|\n)*without the attribute 'double', which is no field"):
        local(flow, some(Plain))


@attrs.frozen
class Listed:
    """It cannot be hashed."""

    numbers: list[int]


def test_what_is_computed_again_may_be_lost() -> None:
    record = Lazy(1, 2)
    assert record.double == 2
    schema = schema_of(Lazy)
    assert conformer(schema)(record) is record
    assert unequal_copy(schema, record) is None
    (again,) = from_array(schema, array(schema, [record]))
    assert again.double == 2


def test_a_record_that_is_not_equal_to_its_copy_is_found() -> None:
    record, schema = Equal(1, 2), schema_of(tuple[Equal | None, ...])
    assert unequal_copy(schema, (None, record)) is None
    object.__setattr__(record, "note", 5)
    assert unequal_copy(schema, (None, record)) == f"{record} has 'note', which is no field of Equal: a copy does not have it"


def test_a_record_that_holds_a_list_is_equal_to_its_copy() -> None:
    record = Listed([1])
    assert unequal_copy(schema_of(Listed), record) is None


def test_copies_of_states_are_deep() -> None:
    state = {"a": [Tuple(1, 2)], "b": Plain(1, 2)}
    again = copied(state)
    assert again == state
    assert again["a"] is not state["a"]
    local_class = attrs.make_class("Local", ["n"], frozen=True)
    assert copied([local_class(1)]) == [local_class(1)]
    assert copy.deepcopy(state)["b"] == state["b"]
