"""The columnar evaluator against the meaning of expressions, value for value."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as forall
from hypothesis import note, settings
from hypothesis import strategies as st

from tests.dictionaries import arrow_inputs, encoded
from tests.expressions import (
    BOOLEAN,
    DATE,
    EDGES,
    EXACT,
    FLAGS,
    FLOAT,
    INPUTS,
    INTEGER,
    NUMBERS,
    STRING,
    TIMESTAMP,
    WORDS,
    expressions,
    given,
    rows,
    shown,
    text,
    value_of,
)
from tests.strategies import some
from tracetypes import UNIT, ExactSum, Unit
from tracetypes.compiler.columns import arithmetic, evaluation, operations
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.columns.column import Column, Columns, Struct, inputs_of, take
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow, to_arrow, values_of
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.exact_sums import ExactSums, exact_group_sums
from tracetypes.compiler.tracing import expr as meaning
from tracetypes.compiler.tracing.expr import (
    Branch,
    Call,
    Const,
    Emission,
    Expr,
    Input,
    Kind,
    Leaf,
    Pack,
    Tree,
    Undefined,
)
from tracetypes.compiler.tracing.operations import basic
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.records import INT_MAX, INT_MIN, Optional, Schema, String, UnitValue
from tracetypes.schemas import schema_of

T = TypeVar("T")

KINDS: Sequence[Kind] = (BOOLEAN, INTEGER, FLOAT, STRING, TIMESTAMP, DATE, EXACT)


def columns_of(table: Sequence[dict[str, Any]]) -> Callable[[Input], Column]:
    names = [str(one.path[1]) for one in INPUTS]
    parts = []
    for name, one in zip(names, INPUTS, strict=True):
        assert not isinstance(one.kind, meaning.Exact)
        parts.append(from_arrow(one.kind, array(one.kind, [row[name] for row in table])))
    return inputs_of({"row": Struct(tuple, tuple(names), tuple(parts))})


def coded_columns_of(chance: random.Random) -> Callable[[Sequence[dict[str, Any]]], Callable[[Input], Column]]:
    """The same with text dictionary encoded."""

    def columns(table: Sequence[dict[str, Any]]) -> Callable[[Input], Column]:
        names = [str(one.path[1]) for one in INPUTS]
        parts = []
        for name, one in zip(names, INPUTS, strict=True):
            assert not isinstance(one.kind, meaning.Exact)
            column = array(one.kind, [row[name] for row in table])
            parts.append(from_arrow(one.kind, encoded(one.kind, column, chance)))
        return inputs_of({"row": Struct(tuple, tuple(names), tuple(parts))})

    return columns


def expected(expr: meaning.Value, row: dict[str, Any]) -> Any:
    return meaning.evaluate(expr, lambda one: row[str(one.path[1])])


def agrees(
    expr: Expr,
    table: Sequence[dict[str, Any]],
    columns: Callable[[Sequence[dict[str, Any]]], Callable[[Input], Column]] = columns_of,
) -> None:
    """The same values for all rows that have one; and the first that has none is named."""
    wanted, kept, first = [], [], None
    for number, row in enumerate(table):
        try:
            wanted.append(shown(expected(expr, row)))
            kept.append(row)
        except Undefined:
            first = number if first is None else first
    if first is not None:
        with pytest.raises(Undefined) as caught:
            evaluation.evaluate(expr, columns(table), len(table))
        assert caught.value.args == (first,), text(expr)
    made = evaluation.evaluate(expr, columns(kept), len(kept))
    assert [shown(value) for value in values_of(made, len(kept))] == wanted, text(expr)


def row_of(**values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for one in INPUTS:
        kind = one.kind
        row[str(one.path[1])] = None if isinstance(kind, Optional) else EDGES[kind][0]
    return row | values


def pairs(kind: Schema) -> list[dict[str, Any]]:
    a, b = (str(given(kind, n).path[1]) for n in (0, 1))
    return [row_of(**{a: x, b: y}) for x, y in itertools.product(EDGES[kind], EDGES[kind])]


def row_by_row(expr: Expr, table: Sequence[dict[str, Any]]) -> None:
    """All rows at once, and those that have no value one by one: each of them must be noticed."""
    agrees(expr, table)
    for row in table:
        agrees(expr, [row])


@pytest.mark.parametrize("op", [basic.LEAST, basic.GREATEST], ids=str)
@pytest.mark.parametrize("of", [INTEGER, FLOAT], ids=str)
def test_extremes_of_what_may_be_missing(op: Operation, of: Schema) -> None:
    maybe, one, none = given(of, optional=True), given(of), Const(None, None)
    name, other = str(maybe.path[1]), str(one.path[1])
    table = [row_of(**{name: x, other: y}) for x, y in itertools.product([None, *EDGES[of]], EDGES[of])]
    some = Call(basic.IF, (Call(basic.LT, (one, given(of, 1)), BOOLEAN), one, none), Optional(of))
    for args, kind in (
        ((maybe, one), of),
        ((one, maybe), of),
        ((maybe, some), maybe.kind),
        ((some, maybe), maybe.kind),
        ((maybe, Const(EDGES[of][1], of)), of),
        ((maybe, none), maybe.kind),
        ((none, maybe), maybe.kind),
    ):
        made = Call(op, args, kind)
        row_by_row(made, table)
        agrees(Call(basic.IS_NULL, (made,), BOOLEAN), table)


_ARITHMETIC = (basic.ADD, basic.SUB, basic.MUL, basic.FLOORDIV, basic.MOD, basic.TRUEDIV)


@pytest.mark.parametrize("op", _ARITHMETIC, ids=str)
def test_arithmetic_on_long_columns(op: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long columns are tested for overflow by their bounds."""
    monkeypatch.setattr(arithmetic, "_SMALL", 1000)
    kind = FLOAT if op is basic.TRUEDIV else INTEGER
    draw = random.Random(5)
    tame = [row_of(integer0=draw.randint(-(10**6), 10**6), integer1=draw.randint(1, 10**6)) for _ in range(1200)]
    agrees(Call(op, (given(INTEGER, 0), given(INTEGER, 1)), kind), tame)
    for wild in (INT_MIN, INT_MAX, -(2**62), 2**53 + 1):
        for other in (-1, 1, 2, 3, INT_MAX, INT_MIN, 0):
            table = [*tame[:1100], row_of(integer0=wild, integer1=other), *tame[:100]]
            agrees(Call(op, (given(INTEGER, 0), given(INTEGER, 1)), kind), table)


def test_exact_sums_of_a_row() -> None:
    a, b = (Call(basic.EXACT_OF, (given(FLOAT, n),), EXACT) for n in (0, 1))
    agrees(Call(basic.EXACT_VALUE, (a,), FLOAT), [row_of(float0=x) for x in EDGES[FLOAT]])
    counted = [row_of(float0=x, integer0=n) for x in EDGES[FLOAT] for n in (-2, 0, 1, 3, 10**9)]
    agrees(Call(basic.EXACT_OVER, (a, given(INTEGER)), FLOAT), counted)
    agrees(Call(basic.EXACT_VALUE, (Call(basic.ADD, (Call(basic.ADD, (a, b), EXACT), a), EXACT),), FLOAT), pairs(FLOAT))
    agrees(Call(basic.ADD, (Const(ExactSum(), EXACT), a), EXACT), [row_of(float0=x) for x in EDGES[FLOAT]])


def test_replace() -> None:
    some = ["", "a", "an", "ß", "b", "\\", "na"]
    args = (given(STRING, 0), given(STRING, 1), Const("-", STRING))
    agrees(Call(basic.REPLACE, args, STRING), pairs(STRING))
    texts = [row_of(string0=value) for value in EDGES[STRING]]
    for old, new in itertools.product(some, some):
        agrees(Call(basic.REPLACE, (given(STRING), Const(old, STRING), Const(new, STRING)), STRING), texts)


def test_white_space_is_all_of_it() -> None:
    assert set(operations.WHITE_SPACE) == {chr(c) for c in range(sys.maxunicode + 1) if chr(c).isspace()}


@pytest.mark.parametrize("repeat", [1, 300], ids=["short", "long"])
def test_tables(repeat: int) -> None:
    """Short columns of strings are looked up in Python, long ones by Arrow."""
    cases: list[tuple[Schema, Any, Sequence[tuple[tuple[str | int, ...], Kind]]]] = [
        (STRING, WORDS, [(("name",), STRING), (("level",), INTEGER), (("share",), FLOAT)]),
        (INTEGER, NUMBERS, [((0,), STRING), ((1,), INTEGER)]),
        (BOOLEAN, FLAGS, [((), FLOAT)]),
        (INTEGER, {10**12: 1, -(10**15): 2, 7: 3, 2.0: 4, 0.5: 5, True: 6, math.inf: 7, 2**70: 8}, [((), INTEGER)]),
        (INTEGER, {}, [((), INTEGER)]),
        (STRING, {}, [((), INTEGER)]),
    ]
    for of, table, paths in cases:
        name = str(given(of).path[1])
        found = [row_of(**{name: value}) for value in EDGES[of]] * repeat
        agrees(Call(basic.HAS, (given(of),), BOOLEAN, table=table), found)
        for path, kind in paths:
            look = Call(basic.LOOKUP, (given(of),), kind, table=table, path=path)
            agrees(look, found)
            agrees(
                Call(basic.IF, (Call(basic.HAS, (given(of),), BOOLEAN, table=table), look, _zero(kind)), kind), found
            )
    note_of = Call(basic.LOOKUP, (given(STRING),), Optional(String()), table=WORDS, path=("note",))
    agrees(note_of, [row_of(string0=value) for value in WORDS if isinstance(value, str)])
    agrees(Call(basic.IS_NULL, (note_of,), BOOLEAN), [row_of(string0=value) for value in EDGES[STRING]])


def _zero(kind: Kind) -> Const:
    return Const(EDGES[kind][0], kind)


def test_a_key_that_is_equal_in_a_way_of_its_own_is_not_looked_up() -> None:
    class Mine(str):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

    look = Call(basic.HAS, (given(STRING),), BOOLEAN, table={Mine("a"): 1})
    with pytest.raises(Undefined):
        evaluation.evaluate(look, columns_of([row_of()]), 1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@settings(max_examples=some(100), deadline=None)
@forall(data=st.data())
def test_random_expressions(kind: Kind, data: st.DataObject) -> None:
    expr = data.draw(expressions(kind, 4))
    note(text(expr))
    agrees(expr, data.draw(rows(12)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@settings(max_examples=some(100), deadline=None)
@forall(data=st.data(), repeat=st.integers(1, 8), seed=st.integers(0, 99))
def test_random_expressions_of_dictionaries(kind: Kind, data: st.DataObject, repeat: int, seed: int) -> None:
    expr = data.draw(expressions(kind, 4))
    note(text(expr))
    agrees(expr, data.draw(rows(6)) * repeat, coded_columns_of(random.Random(seed)))


# ------------------------------------------------------------------------------------------------ trees


def runs(
    tree: Tree,
    table: Sequence[dict[str, Any]],
    columns: Callable[[Sequence[dict[str, Any]]], Callable[[Input], Column]] = columns_of,
) -> None:
    runs_on(tree, table, lambda row: lambda one: row[str(one.path[1])], columns)


def runs_on(
    tree: Tree,
    table: Sequence[T],
    scalars: Callable[[T], Callable[[Input], Any]],
    columns: Callable[[Sequence[T]], Callable[[Input], Column]],
) -> None:
    """The same emissions of each row, in order, and the same results."""
    wanted, kept, first = [], [], None
    for number, row in enumerate(table):
        try:
            emitted, result = meaning.run(tree, scalars(row))
            wanted.append((shown(emitted), shown(result)))
            kept.append(row)
        except Undefined:
            first = number if first is None else first
    if first is not None:
        with pytest.raises(Undefined) as caught:
            evaluation.run(tree, columns(table), len(table))
        assert caught.value.args == (first,)
    ran = evaluation.run(tree, columns(kept), len(kept))
    emissions: list[dict[int, Any]] = [{} for _ in kept]
    for one in ran.emissions:
        places = range(len(kept)) if one.rows is None else one.rows.tolist()
        keys = values_of(one.key, len(places))
        for place, key, value in zip(places, keys, values_of(one.value, len(places)), strict=True):
            assert one.number not in emissions[place]
            emissions[place][one.number] = (key, value)
    results = [None] * len(kept) if ran.result is None else values_of(ran.result, len(kept))
    made = [
        (shown([found[n] for n in range(len(found))]), shown(result))
        for found, result in zip(emissions, results, strict=True)
    ]
    assert made == wanted


@attrs.frozen
class Pair:
    left: int
    right: str | None


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Tree:
    if depth and draw(st.booleans()):
        return Branch(draw(expressions(BOOLEAN, 2)), draw(trees(depth - 1)), draw(trees(depth - 1)))
    if draw(st.integers(0, 5)) == 5:
        return Leaf(raises=True)
    emissions = [
        Emission(draw(st.none() | expressions(STRING, 1)), nested(draw)) for _ in range(draw(st.integers(0, 2)))
    ]
    return Leaf(tuple(emissions), nested(draw))


def nested(draw: st.DrawFn) -> Pack:
    right = draw(expressions(STRING, 1) | st.just(Const(None, None)) | st.just(given(STRING, optional=True)))
    pair = Pack(Pair, ("left", "right"), (draw(expressions(INTEGER, 2)), right))
    return Pack(tuple, (), (pair, draw(expressions(FLOAT, 2))))


@settings(max_examples=some(120), deadline=None)
@forall(tree=trees(), table=rows(12))
def test_random_trees(tree: Tree, table: list[dict[str, Any]]) -> None:
    runs(tree, table)


@settings(max_examples=some(120), deadline=None)
@forall(tree=trees(), table=rows(6), repeat=st.integers(1, 8), seed=st.integers(0, 99))
def test_random_trees_over_dictionaries(tree: Tree, table: list[dict[str, Any]], repeat: int, seed: int) -> None:
    runs(tree, table * repeat, coded_columns_of(random.Random(seed)))


def coded_text(rows: Sequence[str | None], entries: Sequence[str | None]) -> Callable[[Input], Column]:
    """The input of text (optional where a row is None), by these entries."""
    codes = [None if row is None else entries.index(row) for row in rows]
    found = from_arrow(
        STRING, pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(entries, pa.string()))
    )
    return inputs_of({"row": Struct(tuple, ("string0",), (found,))})


def _of_entries() -> list[Expr]:
    word = given(STRING)
    equal, known = Call(basic.EQ, (word, Const("a", STRING)), BOOLEAN), Call(basic.HAS, (word,), BOOLEAN, table=WORDS)
    level = Call(basic.LOOKUP, (word,), INTEGER, table=WORDS, path=("level",))
    return [
        equal,
        known,
        Call(basic.AND, (equal, known), BOOLEAN),
        level,
        Call(basic.LOOKUP, (word,), STRING, table=WORDS, path=("name",)),
        Call(basic.ADD, (level, Const(1, INTEGER)), INTEGER),
        Call(basic.IF, (equal, Const(1, INTEGER), Const(0, INTEGER)), INTEGER),
        Call(basic.IF, (known, level, Const(-1, INTEGER)), INTEGER),
        Call(basic.SLICE, (word, Const(0, INTEGER), Const(1, INTEGER)), STRING),
        Call(basic.UPPER, (word,), STRING),
        Call(basic.CONCAT, (word, Const("!", STRING)), STRING),
    ]


@pytest.mark.parametrize("expr", _of_entries(), ids=text)
def test_a_dictionary_is_computed_by_its_entries(expr: Expr) -> None:
    """Once an entry, as long as there are no more of them than rows; undefined only where a row has the entry."""
    first, second, *_ = (key for key in WORDS if isinstance(key, str))
    rows_, entries = [first, second] * 3, [first, "no word", second]
    made = evaluation.evaluate(expr, coded_text(rows_, entries), len(rows_))
    assert isinstance(made, Column)
    assert isinstance(made.storage, DictionaryEncoded)
    assert len(made.storage.dictionary) == 3
    few = evaluation.evaluate(expr, coded_text(rows_[:2], entries), 2)
    assert isinstance(few, Column)
    assert few.encoding is None
    wanted = [expected(expr, row_of(string0=row)) for row in rows_]
    assert (values_of(made, 6), values_of(few, 2)) == (wanted, wanted[:2])


def test_columns_of_one_dictionary_share_their_codes_behind_a_filter() -> None:
    """Otherwise what is computed of both would be computed of each row."""
    word = given(STRING)
    upper = Call(basic.UPPER, (word,), STRING)
    other = Call(basic.EQ, (upper, Const("B", STRING)), BOOLEAN)
    both = Call(basic.CONCAT, (word, upper), STRING)
    tree = Branch(other, Leaf(), Leaf((Emission(None, Pack(tuple, (), (both, word))),)))
    (emitted,) = evaluation.run(tree, coded_text(["a", "b", "c", "a", "c", "a"], ["a", "b", "c"]), 6).emissions
    assert isinstance(emitted.value, Struct)
    joined, plain = emitted.value.parts
    assert isinstance(joined, Column)
    assert isinstance(plain, Column)
    assert isinstance(joined.storage, DictionaryEncoded)
    assert joined.storage.codes is plain.storage.codes
    assert values_of(joined, 5) == ["aA", "cC", "aA", "cC", "aA"]


def test_two_dictionaries_are_two() -> None:
    entries = pa.array(["a", "b"])
    parts = [Column(STRING, DictionaryEncoded(np.array(codes), entries)) for codes in ([0, 1, 0], [0, 0, 1])]
    inputs = inputs_of({"row": Struct(tuple, ("string0", "string1"), tuple(parts))})
    made = evaluation.evaluate(Call(basic.EQ, (given(STRING, 0), given(STRING, 1)), BOOLEAN), inputs, 3)
    assert values_of(made, 3) == [True, False, False]


def test_choices_by_entries_that_are_missing_or_undefined() -> None:
    word = given(STRING)
    view = Call(basic.EQ, (word, Const("view", STRING)), BOOLEAN)
    note_ = Call(basic.LOOKUP, (word,), Optional(String()), table=WORDS, path=("note",))
    chosen = Call(basic.IF, (view, note_, word), Optional(String()))
    made = evaluation.evaluate(chosen, coded_text(["", "view", "", "view"], ["view", ""]), 4)
    assert values_of(made, 4) == ["", None, "", None]
    level = Call(basic.LOOKUP, (word,), INTEGER, table=WORDS, path=("level",))
    chosen = Call(basic.IF, (view, level, Const(-1, INTEGER)), INTEGER)
    assert values_of(evaluation.evaluate(chosen, coded_text(["no", "view"], ["view", "no"]), 2), 2) == [-1, 1]
    chosen = Call(basic.IF, (view, Const(-1, INTEGER), level), INTEGER)
    with pytest.raises(Undefined) as caught:
        evaluation.evaluate(chosen, coded_text(["view", "no"], ["view", "no"]), 2)
    assert caught.value.args == (1,)


def test_dictionaries_without_entries() -> None:
    missing = coded_text([None, None], [])
    length = Call(basic.LENGTH, (given(STRING),), INTEGER)
    assert evaluation.evaluate(length, coded_text([], []), 0).valid is None
    with pytest.raises(Undefined):
        evaluation.evaluate(length, missing, 2)
    assert values_of(missing(given(STRING)), 2) == [None, None]


def test_text_goes_out_as_it_is_held() -> None:
    column = coded_text(["a", "b", "a"], ["b", "a"])(given(STRING))
    assert to_arrow(STRING, column, 3).equals(pa.array(["a", "b", "a"]))
    kept = to_arrow(STRING, column, 3, keep_codes=True)
    assert (kept.indices.to_pylist(), kept.dictionary.to_pylist()) == ([1, 0, 1], ["b", "a"])
    missing = coded_text(["a", None], ["a"])(given(STRING))
    with pytest.raises(Undefined):
        to_arrow(STRING, missing, 2, keep_codes=True)


def test_conditions_see_only_the_rows_that_come_to_them() -> None:
    zero = Call(basic.EQ, (given(INTEGER), Const(0, INTEGER)), BOOLEAN)
    half = Call(basic.FLOORDIV, (Const(10, INTEGER), given(INTEGER)), INTEGER)
    tree = Branch(
        zero,
        Leaf(result=Const(-1, INTEGER)),
        Branch(Call(basic.LT, (half, Const(5, INTEGER)), BOOLEAN), Leaf(result=half), Leaf(raises=True)),
    )
    runs(tree, [row_of(integer0=n) for n in (0, 5, 3, 0, 10, 11)])
    runs(tree, [row_of(integer0=n) for n in (0, 5, 2, 1)])


def test_results_that_are_missing_for_some_rows() -> None:
    known = Call(basic.HAS, (given(STRING),), BOOLEAN, table=WORDS)
    pack = Pack(Pair, ("left", "right"), (Const(1, INTEGER), given(STRING)))
    tree = Branch(known, Leaf(result=pack), Leaf(result=Const(None, None)))
    table = [row_of(string0=value) for value in EDGES[STRING]]
    runs(tree, table)
    ran = evaluation.run(tree, columns_of(table), len(table))
    assert ran.result is not None
    schema = schema_of(Pair | None)
    made = from_array(schema, to_arrow(schema, ran.result, len(table)))
    assert made == [Pair(1, row["string0"]) if row["string0"] in WORDS else None for row in table]


def test_results_of_two_kinds_are_none() -> None:
    tree = Branch(given(BOOLEAN), Leaf(result=Const(1, INTEGER)), Leaf(result=Const(1.0, FLOAT)))
    runs(tree, [row_of(boolean0=True)])
    with pytest.raises(Undefined):
        evaluation.run(tree, columns_of([row_of(boolean0=True), row_of(boolean0=False)]), 2)


def test_a_class_with_validators_is_asked() -> None:
    @attrs.frozen
    class Positive:
        n: int = attrs.field(validator=attrs.validators.gt(0))

    runs(Leaf(result=Pack(Positive, ("n",), (given(INTEGER),))), [row_of(integer0=n) for n in (1, 2, -3, 4)])


# ------------------------------------------------------------------------------------------- in and out


class Inner(NamedTuple):
    day: dt.date
    flag: bool | None


@attrs.frozen
class Outer:
    unit: Unit
    name: str | None
    at: dt.datetime
    data: bytes
    inner: Inner | None
    number: float | None
    some: list[int] | None


OUTERS = [
    Outer(UNIT, "é", dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC), b"\xff", Inner(dt.date(1, 1, 1), True), 0.5, [1, 2]),
    Outer(UNIT, None, dt.datetime(1, 1, 1, tzinfo=dt.UTC), b"", None, None, None),
    Outer(UNIT, "", dt.datetime(9999, 1, 1, tzinfo=dt.UTC), b"a", Inner(dt.date(9999, 1, 1), None), math.inf, []),
]


@pytest.mark.parametrize("values", [OUTERS, OUTERS[:1], OUTERS[1:2], []], ids=len)
def test_records_there_and_back(values: list[Outer]) -> None:
    schema = schema_of(Outer)
    whole = array(schema, [*OUTERS, *values])
    columns = from_arrow(schema, whole.slice(len(OUTERS)))
    assert values_of(columns, len(values)) == values
    assert from_array(schema, to_arrow(schema, columns, len(values))) == values
    chunked = pa.chunked_array([array(schema, values), array(schema, OUTERS)])
    assert values_of(from_arrow(schema, chunked), len(values) + len(OUTERS)) == [*values, *OUTERS]
    twice = concat([(columns, len(values)), (from_arrow(schema, array(schema, OUTERS)), len(OUTERS))])
    assert values_of(twice, len(values) + len(OUTERS)) == [*values, *OUTERS]


def test_rows_are_taken() -> None:
    schema = schema_of(Outer)
    columns = from_arrow(schema, array(schema, OUTERS))
    assert values_of(take(columns, np.array([2, 0, 0])), 3) == [OUTERS[2], OUTERS[0], OUTERS[0]]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_field_that_was_not_read_is_missed_when_it_is_used(lazy: bool) -> None:
    schema = schema_of(Outer)
    whole = array(schema, OUTERS)
    names = ["at", "inner"]
    part = pa.StructArray.from_arrays([whole.field(name) for name in names], names)
    columns = from_arrow(schema, part)
    inputs = inputs_of({"value": columns}) if not lazy else arrow_inputs({"value": (schema, part)})
    year = Call(basic.YEAR, (Input(("value", "at"), TIMESTAMP),), INTEGER)
    assert values_of(evaluation.evaluate(year, inputs, 3), 3) == [2024, 1, 9999]
    no_inner = Call(basic.IS_NULL, (Input(("value", "inner"), schema_of(Inner | None)),), BOOLEAN)
    assert values_of(evaluation.evaluate(no_inner, inputs, 3), 3) == [False, True, False]
    with pytest.raises(LookupError, match="name"):
        evaluation.evaluate(Input(("value", "name"), STRING), inputs, 3)
    with pytest.raises(LookupError):
        to_arrow(schema, columns, 3)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_part_of_a_record_that_is_missing_is_missing(lazy: bool) -> None:
    schema = schema_of(Outer)
    whole = array(schema, OUTERS)
    inputs = arrow_inputs({"value": (schema, whole)}) if lazy else inputs_of({"value": from_arrow(schema, whole)})
    year = Call(basic.YEAR, (Input(("value", "inner", "day"), DATE),), INTEGER)
    with pytest.raises(Undefined) as caught:
        evaluation.evaluate(year, inputs, 3)
    assert caught.value.args == (1,)
    missing = Call(basic.IS_NULL, (Input(("value", "inner"), schema_of(Inner | None)),), BOOLEAN)
    assert values_of(evaluation.evaluate(missing, inputs, 3), 3) == [False, True, False]


def test_values_conform_on_the_way_out() -> None:
    ints = Column(INTEGER, np.array([1, 2**53 + 1]))
    assert to_arrow(FLOAT, ints, 2).to_pylist() == [1.0, 2.0**53]
    assert to_arrow(FLOAT, Column(INTEGER, 7), 2).to_pylist() == [7.0, 7.0]
    bad: list[tuple[Schema, Columns]] = [
        (INTEGER, Column(FLOAT, np.array([1.0, 2.0]))),
        (INTEGER, Column(BOOLEAN, np.array([True, False]))),
        (STRING, Column(None, None)),
        (INTEGER, Column(INTEGER, np.array([1, 2]), np.array([True, False]))),
        (schema_of(Pair), Struct(Inner, ("day", "flag"), (Column(DATE, 0), Column(BOOLEAN, True)))),
        (INTEGER, Struct(tuple, (), ())),
    ]
    for schema, columns in bad:
        with pytest.raises(Undefined):
            to_arrow(schema, columns, 2)
    assert to_arrow(UnitValue(), Column(UnitValue(), UNIT), 2) == pa.nulls(2)


def test_a_union_of_records_is_emitted() -> None:
    schema = schema_of(Pair | Inner)
    made = Struct(Pair, ("left", "right"), (Column(INTEGER, np.array([1, 2])), Column(STRING, "x")))
    assert from_array(schema, to_arrow(schema, made, 2)) == [Pair(1, "x"), Pair(2, "x")]


# ------------------------------------------------------------------------------------------- exact sums

FLOATS = value_of(FLOAT)


def total(values: Sequence[float]) -> ExactSum:
    made = ExactSum()
    for value in values:
        made += ExactSum.of(value)
    return made


@settings(max_examples=some(300), deadline=None)
@forall(items=st.lists(st.tuples(FLOATS, st.integers(0, 3)), max_size=40))
def test_sums_of_groups_are_exact(items: list[tuple[float, int]]) -> None:
    values = np.array([value for value, _ in items], np.float64)
    groups = np.array([group for _, group in items], np.int64)
    wanted = [total([value for value, group in items if group == g]) for g in range(4)]
    made = exact_group_sums(values, groups, 4)
    assert made.sums() == wanted
    assert [shown(x) for x in made.rounded().tolist()] == [shown(w.value()) for w in wanted]
    assert ExactSums.from_sums(wanted).sums() == wanted
    assert ExactSums.from_arrow(made.to_arrow()).sums() == wanted
    apart = ExactSums.of(values)
    assert apart.sums() == [ExactSum.of(value) for value, _ in items]
    assert apart.grouped(groups, 4).sums() == wanted
    back = np.array([3, 0, 0], np.int64)
    assert made.take(back).sums() == [wanted[3], wanted[0], wanted[0]]


@settings(max_examples=some(100), deadline=None)
@forall(a=st.lists(FLOATS, min_size=1, max_size=10), b=st.lists(FLOATS, min_size=1, max_size=10), data=st.data())
def test_columns_of_sums_are_added(a: list[float], b: list[float], data: st.DataObject) -> None:
    size = min(len(a), len(b))
    left, right = ExactSums.of(np.array(a[:size])), ExactSums.of(np.array(b[:size]))
    wanted = [ExactSum.of(x) + ExactSum.of(y) for x, y in zip(a, b, strict=False)]
    assert (left + right).sums() == wanted
    assert (left + right).settled().sums() == wanted
    assert ExactSums.concat([left, right]).sums() == list(map(ExactSum.of, [*a[:size], *b[:size]]))
    joined = pa.concat_arrays([left.to_arrow(), (left + right).to_arrow()])
    assert ExactSums.from_arrow(joined).sums() == [*left.sums(), *wanted]
    one = ExactSums.of(np.array(a[:1]))
    assert (one + right).sums() == [ExactSum.of(a[0]) + ExactSum.of(y) for y in b[:size]]


@pytest.mark.parametrize("value", [1.5, math.inf])
def test_one_exact_sum_is_added_to_no_rows(value: float) -> None:
    none, one = ExactSums.zero(0), ExactSums.of(np.array([value]))
    assert (none + one).sums() == (one + none).sums() == []


def test_many_additions_do_not_overflow() -> None:
    """Doubling a column forty times adds 2**40 limbs."""
    for value in (math.nextafter(2.0, 0.0), -math.nextafter(2.0, 0.0), 1.7e308, -5e-324):
        made = ExactSums.of(np.array([value, 1.0]))
        wanted = ExactSum.of(value)
        for _ in range(70):
            made, wanted = made + made, wanted + wanted
        assert made.sums()[0] == wanted
        assert shown(made.rounded().tolist()[0]) == shown(wanted.value())


def test_many_floats_in_one_group() -> None:
    """More than one chunk, of mantissas that fill their limbs."""
    size = (1 << 20) + 1000
    values = np.full(size, math.nextafter(1.0, 0.0))
    values[::2] *= -3.0
    groups = np.zeros(size, np.int64)
    made = exact_group_sums(values, groups, 1)
    ratio = [math.nextafter(1.0, 0.0), values[0]]
    counts = [size // 2, size - size // 2]
    wanted = sum(int(x * 2**60) * n for x, n in zip(ratio, counts, strict=True))
    assert made.sums()[0].value() == wanted / 2**60
    assert ExactSums.of(values).grouped(groups, 1).sums() == made.sums()


def test_too_small_parts_are_refused() -> None:
    with pytest.raises(Undefined):
        ExactSums.from_sums([ExactSum(1, 1080)])
