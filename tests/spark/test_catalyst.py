"""Spark's columns of expressions against their meaning: many expressions over one frame of edge values, in few jobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.expressions import (
    BOOLEAN,
    DATE,
    EDGES,
    FLAGS,
    FLOAT,
    INPUTS,
    INTEGER,
    NUMBERS,
    STRING,
    TIMESTAMP,
    WORDS,
    expressions,
    shown,
    text,
)
from tests.expressions import given as given_input
from tests.operation_cases import Case, cases
from tests.test_vector import row_of
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.spark.catalyst import MOST_ENTRIES, column, tree
from tracetypes.compiler.spark.catalyst_operations import NO_ACTS, NO_COLUMNS, NotNative
from tracetypes.compiler.tracing import expr as meaning
from tracetypes.compiler.tracing.expr import Branch, Call, Const, Emission, Expr, Input, Leaf, Pack, Tree, Undefined
from tracetypes.compiler.tracing.operations import basic, functions
from tracetypes.compiler.tracing.operations.basic import BASIC
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.records import Boolean, Date, Float, Integer, Optional, Schema, String, Timestamp
from tracetypes.schemas import schema_of

CONSERVATIVE = {basic.LOWER, basic.UPPER, basic.TRUEDIV, basic.REPLACE}
"""What Spark leaves to Python for some rows although Python has a value."""


@cache
def table() -> list[dict[str, Any]]:
    """All pairs of the edge values of each kind, side by side."""
    size = max(len(values) ** 2 for values in EDGES.values())
    found: list[dict[str, Any]] = [row_of() for _ in range(size)]
    for kind, values in EDGES.items():
        if values:
            name = type(kind).__name__.lower()
            pairs = itertools.islice(itertools.cycle(itertools.product(values, values)), size)
            for number, (row, (a, b)) in enumerate(zip(found, pairs, strict=True)):
                row[f"{name}0"], row[f"{name}1"] = a, b
                if f"{name}_or_none" in row:
                    row[f"{name}_or_none"] = None if number % 3 else a
    return found


@cache
def frame(spark: SparkSession) -> DataFrame:
    columns = {"number": pa.array(range(len(table())))}
    for one in INPUTS:
        assert not isinstance(one.kind, meaning.Exact)
        name = str(one.path[1])
        columns[name] = array(one.kind, [row[name] for row in table()])
    return spark.createDataFrame(pa.table(columns))


def inputs(one: Input) -> Column:
    return F.col(str(one.path[1]))


def collected(spark: SparkSession, columns: Sequence[Column]) -> list[Any]:
    named = [made.alias(f"c{n}") for n, made in enumerate(columns)]
    answer = frame(spark).select("number", *named).toArrow().sort_by("number")
    return [answer.column(f"c{n}").combine_chunks() for n in range(len(columns))]


def operations(expr: meaning.Value) -> set[Operation]:
    if isinstance(expr, Pack):
        return set().union(*map(operations, expr.parts))
    return {expr.op}.union(*map(operations, expr.args)) if isinstance(expr, Call) else set()


def agree(spark: SparkSession, exprs: Sequence[Expr]) -> None:
    """Each has its value in each row, or is said to be undefined where it must be."""
    made = [column(expr, inputs) for expr in exprs]
    values = [native.value for native in made]
    flags = [F.lit(False) if native.undefined is None else native.undefined for native in made]
    answers = collected(spark, [*values, *flags])
    for expr, found, flag in zip(exprs, answers[: len(exprs)], answers[len(exprs) :], strict=True):
        assert flag.null_count == 0, text(expr)
        kind = expr.kind
        assert kind is not None
        assert not isinstance(kind, meaning.Exact)
        schema = kind if isinstance(kind, Optional) else Optional(kind)
        rows = zip(table(), from_array(schema, found), flag.to_pylist(), strict=True)
        for row, value, undefined in rows:
            try:
                wanted = meaning.evaluate(expr, lambda one, row=row: row[str(one.path[1])])  # type: ignore[misc]
            except Undefined:
                assert undefined, (text(expr), row, value)
                continue
            if undefined:
                assert operations(expr) & CONSERVATIVE, (text(expr), row, wanted)
            else:
                assert shown(value) == shown(wanted), (text(expr), row)


def given_of(kind: Schema, number: int = 0) -> Input:
    return given_input(kind, number)


def test_each_operation(spark: SparkSession) -> None:
    """The inputs of each case are columns of their own, side by side: many cases in a job."""
    some = [case for op in BASIC for case in _some(list(cases(op))) if _is_native(case)]
    assert {case.expr.op for case in some} == set(BASIC) - NO_ACTS.keys()
    for first in range(0, len(some), TOGETHER):
        _agree(spark, some[first : first + TOGETHER])


TOGETHER = 40
"""Cases of a job. Spark compiles all of them as one."""


def _some(of: list[Case]) -> list[Case]:
    """The first has inputs only."""
    return of if len(of) < 8 else of[:: len(of) // 6]


def _agree(spark: SparkSession, some: Sequence[Case]) -> None:
    size = max(len(case.rows) for case in some)
    parts: dict[str, Any] = {"number": pa.array(range(size))}
    for number, case in enumerate(some):
        for name, kind in case.kinds.items():
            values = [row[name] for row in case.rows]
            parts[f"{name}{number}"] = array(kind, (values * size)[:size])
    made = [column(case.expr, lambda one, n=n: F.col(f"{one.path[0]}{n}")) for n, case in enumerate(some)]  # type: ignore[misc]
    columns = [one.value.alias(f"value{n}") for n, one in enumerate(made)]
    flags = [(F.lit(False) if one.undefined is None else one.undefined).alias(f"flag{n}") for n, one in enumerate(made)]
    answer = spark.createDataFrame(pa.table(parts)).select("number", *columns, *flags).toArrow().sort_by("number")
    for number, case in enumerate(some):
        wanted, schema = case.wanted(), case.expr.kind
        assert not isinstance(schema, meaning.Exact)
        optional = schema if isinstance(schema, Optional) else Optional(schema)
        values = from_array(optional, answer.column(f"value{number}").combine_chunks())[: len(wanted)]
        undefined = answer.column(f"flag{number}").to_pylist()[: len(wanted)]
        for row, value, flag, right in zip(case.rows, values, undefined, wanted, strict=True):
            if right is None:
                assert flag, (case.expr, row, value)
            elif flag:
                assert operations(case.expr) & CONSERVATIVE, (case.expr, row, right)
            else:
                assert shown(value) == right, (case.expr, row)


def _is_native(case: Case) -> bool:
    """Whether Spark has it. Its tables say so of an operation, or of the kinds."""
    kinds = {type(kind) for kind in (*case.kinds.values(), case.expr.kind, *(arg.kind for arg in case.expr.args))}
    return case.expr.op not in NO_ACTS and not kinds & NO_COLUMNS.keys()


def test_operations_with_constants_and_tables(spark: SparkSession) -> None:
    string, integer, flag = given_of(STRING), given_of(INTEGER), given_of(BOOLEAN)
    exprs: list[Expr] = []
    for old, new in itertools.product(["", "a", "an", "ß", "\\", "%"], ["", "x", "$1"]):
        exprs.append(Call(basic.REPLACE, (string, Const(old, STRING), Const(new, STRING)), STRING))
    exprs.append(Call(basic.REPLACE, (string, given_of(STRING, 1), Const("-", STRING)), STRING))
    sparse = {10**12: 1, -(10**15): 2, 7: 3, 2.0: 4, 0.5: 5, True: 6}
    many = {f"key {n}": n for n in range(2000)} | {"a": -1}
    for key, held, paths in (
        (string, WORDS, [(("name",), STRING), (("level",), INTEGER), (("share",), FLOAT)]),
        (string, many, [((), INTEGER)]),
        (string, {}, [((), INTEGER)]),
        (integer, NUMBERS, [((0,), STRING), ((1,), INTEGER)]),
        (integer, sparse, [((), INTEGER)]),
        (flag, FLAGS, [((), FLOAT)]),
        (flag, {True: EDGES[TIMESTAMP][2]}, [((), TIMESTAMP)]),
        (flag, {False: EDGES[DATE][4]}, [((), DATE)]),
        (flag, {False: True}, [((), BOOLEAN)]),
    ):
        exprs.append(Call(basic.HAS, (key,), BOOLEAN, table=held))
        exprs += [Call(basic.LOOKUP, (key,), kind, table=held, path=path) for path, kind in paths]  # type: ignore[arg-type]
    note = Call(basic.LOOKUP, (string,), Optional(STRING), table=WORDS, path=("note",))
    exprs += [note, Call(basic.IS_NULL, (note,), BOOLEAN)]
    for one in INPUTS:
        if isinstance(one.kind, Optional):
            exprs += [
                one,
                Call(basic.IS_NULL, (one,), BOOLEAN),
                Call(basic.IF, (flag, one, Const(None, None)), one.kind),
            ]
            exprs.append(
                Call(basic.EQ, (Input(one.path, one.kind.item), Const(EDGES[one.kind.item][0], one.kind.item)), BOOLEAN)
            )
            if one.kind.item != STRING:
                of = given_of(one.kind.item, 1)
                exprs += [
                    made for op in (basic.LEAST, basic.GREATEST) for made in _extremes(op, one, of, one.kind.item)
                ]
    agree(spark, [e for e in exprs if not _may_miss(e)])


def _extremes(op: Operation, maybe: Input, one: Input, kind: Schema) -> Iterator[Expr]:
    """Of an input that may be None, one that is not, one that is undefined for some rows, and one that may be both."""
    risky = Call(basic.TRUEDIV, (one, one), kind) if kind == FLOAT else Call(basic.NEG, (one,), kind)
    some = Call(basic.IF, (Call(basic.LT, (one, risky), BOOLEAN), risky, Const(None, None)), Optional(kind))
    parts: list[tuple[Expr, bool]] = [(maybe, True), (one, False), (risky, False), (some, True)]
    for (a, first), (b, second) in itertools.permutations(parts, 2):
        made = Call(op, (a, b), Optional(kind) if first and second else kind)
        yield from (made, Call(basic.IS_NULL, (made,), BOOLEAN))


def _may_miss(expr: Expr) -> bool:
    """Inputs that the scalar meaning compares with None."""
    return isinstance(expr, Call) and expr.op is basic.EQ


def test_constants(spark: SparkSession) -> None:
    agree(spark, [Const(value, kind) for kind, values in EDGES.items() for value in values])


@pytest.mark.parametrize("part", range(2))
def test_random_expressions(spark: SparkSession, part: int) -> None:
    exprs: list[Expr] = []

    @settings(derandomize=True, max_examples=40, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        kinds: list[Schema] = [Integer(), Float(), Boolean(), String(), Timestamp(), Date()]
        expr = data.draw(expressions(data.draw(st.sampled_from(kinds)), 2 + part, native=True))
        if operations(expr) & {one for one in basic.BASIC if one.name.startswith("exact")}:
            return
        try:
            column(expr, inputs)
        except NotNative as error:
            assert "too large" in str(error)  # noqa: PT017
            return
        exprs.append(expr)

    draw()
    assert len(exprs) > 20
    agree(spark, exprs)


# ------------------------------------------------------------------------------------------------ trees


@attrs.frozen
class Made:
    number: float
    word: str | None


@attrs.frozen
class Other:
    flag: bool


SUM: Expr = Call(basic.ADD, (given_of(INTEGER, 0), given_of(INTEGER, 1)), INTEGER)
LESS: Expr = Call(basic.LT, (SUM, Const(5, INTEGER)), BOOLEAN)


def made_of(number: meaning.Value, word: meaning.Value) -> Pack:
    return Pack(Made, ("number", "word"), (number, word))


ONCE: Tree = Branch(
    given_of(BOOLEAN),
    Branch(
        LESS,
        Leaf((Emission(given_of(STRING), made_of(SUM, given_input(STRING, optional=True))),)),
        Leaf((Emission(Const("k", STRING), made_of(Const(0.5, FLOAT), Const(None, None))),)),
    ),
    Branch(Call(basic.EQ, (given_of(INTEGER), Const(1, INTEGER)), BOOLEAN), Leaf(raises=True), Leaf()),
)
TWICE: Tree = Branch(
    LESS,
    Leaf(
        (
            Emission(given_of(STRING), made_of(SUM, given_of(STRING, 1))),
            Emission(given_of(STRING, 1), Pack(Other, ("flag",), (given_of(BOOLEAN),))),
        )
    ),
    Leaf(),
)


@pytest.mark.parametrize(("case", "value"), [(ONCE, Made), (TWICE, Made | Other)], ids=["once", "twice"])
def test_trees(spark: SparkSession, case: Tree, value: Any) -> None:
    schema = schema_of(value)
    native = tree(case, inputs, STRING, schema)
    assert native.undefined is not None
    single = native.value is not None
    assert single == (case is ONCE)
    columns = [native.undefined, native.condition, native.pairs]
    if native.key is not None and native.value is not None:
        columns += [native.key, native.value]
    undefined, condition, pairs, *rest = collected(spark, columns)
    for number, row in enumerate(table()):
        try:
            emitted, _ = meaning.run(case, lambda one, row=row: row[str(one.path[1])])  # type: ignore[misc]
        except Undefined:
            assert undefined[number].as_py() is True
            continue
        wanted = [(key, shown(_conformed(value))) for key, value in emitted]
        assert undefined[number].as_py() is False
        assert condition[number].as_py() == bool(wanted)
        here = pairs.slice(number, 1).flatten()
        keys, values = here.field("key").to_pylist(), from_array(schema, here.field("value"))
        assert [(key, shown(value)) for key, value in zip(keys, values, strict=True)] == wanted
        if rest and wanted:
            assert [(rest[0][number].as_py(), shown(from_array(schema, rest[1].slice(number, 1))[0]))] == wanted


def _conformed(value: Any) -> Any:
    return Made(float(value.number), value.word) if isinstance(value, Made) else value


def test_a_filter_that_is_defined_everywhere_has_no_flag() -> None:
    """Spark can hand such a condition to the reader of the files."""
    keeps = Branch(
        Call(basic.EQ, (given_of(STRING), Const("view", STRING)), BOOLEAN),
        Leaf((Emission(None, given_of(STRING)),)),
        Leaf(),
    )
    native = tree(keeps, inputs, None, STRING)
    assert native.undefined is None


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: column(Call(basic.EXACT_OF, (given_of(FLOAT),), meaning.Exact()), inputs), "exact"),
        (lambda: column(Call(functions.SQRT, (given_of(FLOAT),), FLOAT), inputs), "sqrt"),
        (
            lambda: column(Call(functions.FUNCTIONS["str.title"], (given_of(STRING),), STRING), inputs),
            "str.title of String",
        ),
        (lambda: column(Call(functions.INT_OF, (given_of(STRING),), INTEGER), inputs), "int of String"),
        (
            lambda: column(
                Call(basic.HAS, (given_of(INTEGER),), BOOLEAN, dict.fromkeys(range(MOST_ENTRIES + 1))), inputs
            ),
            "table",
        ),
        (lambda: tree(Leaf((Emission(None, Const(None, None)),)), inputs, None, INTEGER), "None"),
        (lambda: tree(Leaf((Emission(None, Const("", STRING)),)), inputs, None, INTEGER), "type"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_what_spark_cannot_do_is_said(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(NotNative, match=reason):
        make()
