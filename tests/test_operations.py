"""The table of operations: each is one object, and each evaluator has all of them or says which it does not have."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast
from unittest import mock

import attrs
import cloudpickle
import numpy as np
import pytest

from tests.dictionaries import arrow_inputs, encoded
from tests.expressions import shown
from tests.operation_cases import Case, cases
from tracetypes.compiler.analysis import pickles
from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.columns import evaluation, expressions, generated, operations
from tracetypes.compiler.columns.arithmetic import Act, add, float_division, plain
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column, Struct
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.machine.compilation import compiled
from tracetypes.compiler.columns.machine.trees import WITH_CODE, is_number
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.ordered_machine import machine_loop
from tracetypes.compiler.spark import catalyst, catalyst_operations
from tracetypes.compiler.tracing.expr import Call, Const, Emission, Expr, Input, Leaf, Undefined, evaluate
from tracetypes.compiler.tracing.kinds import BOOLEAN, INTEGER, Kind
from tracetypes.compiler.tracing.operations import OPERATIONS, basic, functions
from tracetypes.compiler.tracing.operations.basic import BASIC
from tracetypes.compiler.tracing.operations.operation import Operation, Signature
from tracetypes.compiler.tracing.operations.regular_expressions import REGULAR_EXPRESSIONS
from tracetypes.marker_runs import NO_MARKERS
from tracetypes.records import Date, Float, Integer, Optional, Timestamp

CASES: list[tuple[Operation, Kind | None]] = [(op, one.takes[0]) for op in OPERATIONS for one in op.signatures]
"""Each operation with each kind of its first argument; None where that is not fixed."""


def test_names_are_those_of_one_operation_each() -> None:
    assert len({op.name for op in OPERATIONS}) == len(OPERATIONS)
    with pytest.raises(ValueError, match="two operations named add"):
        Operation("add", max, (Signature((INTEGER, INTEGER), INTEGER),))


@pytest.mark.parametrize("op", OPERATIONS, ids=str)
def test_a_copy_of_an_operation_is_the_operation(op: Operation) -> None:
    call = Call(op, (Const(1, INTEGER),), BOOLEAN)
    for one in (
        copy.deepcopy(call),
        pickle.loads(pickle.dumps(call)),
        cloudpickle.loads(cloudpickle.dumps(call)),
        pickles.loads(pickles.shipped(call)),
    ):
        assert one.op is op


def test_another_process_finds_the_operation() -> None:
    """It has imported nothing of the table before."""
    names = ["add", "math.sqrt", "str.title"]
    ops = [op for op in OPERATIONS if op.name in names]
    code = (
        "import pickle, sys; ops = pickle.load(sys.stdin.buffer)\n"
        "from tracetypes.compiler.tracing.operations import OPERATIONS\n"
        "print(all(any(op is one for one in OPERATIONS) for op in ops), sorted(op.name for op in ops))"
    )
    run = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(ops), capture_output=True, check=True)
    assert run.stdout.decode().strip() == f"True {names}"


def test_an_operation_says_where_it_has_no_value() -> None:
    for call, why in (
        (Call(basic.FLOORDIV, (Const(1, INTEGER), Const(0, INTEGER)), INTEGER), "floordiv: ZeroDivisionError"),
        (Call(basic.NEG, (Const(-(2**63), INTEGER),), INTEGER), "neg leaves 64 bits"),
        (Call(basic.LOOKUP, (Const(1, INTEGER),), INTEGER, {}, ()), "lookup: KeyError"),
    ):
        assert not call.op.is_total
        with pytest.raises(Undefined, match=f"^{why}"):
            evaluate(call, lambda one: None)


@pytest.mark.parametrize(("op", "kind"), CASES, ids=str)
def test_columns_have_all_operations(op: Operation, kind: Kind | None) -> None:
    assert (op in expressions.FORMS) is (op not in operations.ACTS)
    if op in operations.ACTS and kind is not None:
        assert operations.act_of(op, type(kind)) is not None


@pytest.mark.parametrize(("op", "kind"), CASES, ids=str)
def test_spark_has_all_operations_but_those_that_it_names(op: Operation, kind: Kind | None) -> None:
    assert sum(op in table for table in (catalyst.FORMS, catalyst_operations.ACTS, catalyst_operations.NO_ACTS)) == 1
    if op in catalyst_operations.ACTS and kind is not None:
        assert (type(kind) in catalyst_operations.ACTS[op]) is (type(kind) not in catalyst_operations.NO_COLUMNS)


def test_functions_are_operations_of_one_signature() -> None:
    some = [*functions.FUNCTIONS.values(), *REGULAR_EXPRESSIONS]
    assert [op for op in OPERATIONS if op.is_function] == some
    assert all(op.signature.gives is not None for op in some)


# ---------------------------------------------------------------------------------------------- meaning


Evaluator: TypeAlias = Callable[[Expr, Callable[[Input], Column], int], "Sequence[Any] | None"]
"""The values of some rows; None where it gives up, so that another one must be asked. Raises ``Undefined`` with the first row
without a value."""


def node_by_node(expr: Expr, inputs: Callable[[Input], Column], count: int) -> Sequence[Any]:
    return values_of(evaluation.evaluate(expr, inputs, count), count)


def generated_code(expr: Expr, inputs: Callable[[Input], Column], count: int) -> Sequence[Any] | None:
    code = generated.generated(Leaf(result=expr))
    assert code is not None
    reached = code(inputs, count)
    if reached is None:
        return None
    ((_, _, _, result),) = reached
    assert result is not None
    return values_of(result, count)


def machine_code(expr: Expr, inputs: Callable[[Input], Column], count: int) -> Sequence[Any] | None:
    """An ordered operator that emits the value of the expression for each item."""
    schema: Any = expr.kind
    leaves = {one.path: one for one in inputs_in(expr)}
    names = [str(path[0]) for path in leaves]
    nothing = Const(None, None)
    leaf = Leaf((Emission(None, of_a_value(expr)),), nothing)
    ordered = Ordered(None, nothing, False, False, False, INTEGER, INTEGER, schema, leaf, None, None, None)
    loop = machine_loop(ordered)
    if loop is None or not names:
        return None
    values = Struct(tuple, tuple(names), tuple(inputs(one) for one in leaves.values()))
    none, key = np.zeros(count, np.int64), Column(INTEGER, np.zeros(1, np.int64))
    items = OrderedItems(key, 1, none, none, values, 1)
    try:
        *_, emitted = loop.run(function_of(loop.code), items, NO_MARKERS, key, np.zeros(1, np.int64), Column(None, None))
    except Undefined:
        return None
    return values_of(emitted, count)


function_of = lru_cache(compiled)


def inputs_in(expr: Expr) -> Iterator[Input]:
    if isinstance(expr, Input):
        yield expr
    for arg in expr.args if isinstance(expr, Call) else ():
        yield from inputs_in(arg)


def of_a_value(expr: Expr) -> Expr:
    """The expression with its inputs as fields of a value."""
    if isinstance(expr, Input):
        return Input(("value", *expr.path), expr.kind)
    return attrs.evolve(expr, args=tuple(map(of_a_value, expr.args))) if isinstance(expr, Call) else expr


EVALUATORS: Mapping[str, Evaluator] = {"node by node": node_by_node, "generated code": generated_code}
"""What computes columns. Machine code, which takes a second for each case, has a test of its own."""


def inputs_for(case: Case, rows: Sequence[Mapping[str, Any]], *, coded: bool) -> Callable[[Input], Column]:
    parts = {}
    for name, kind in case.kinds.items():
        column = array(kind, [row[name] for row in rows])
        parts[name] = kind, encoded(kind, column, random.Random(len(rows))) if coded else column
    return arrow_inputs(parts)


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize("op", OPERATIONS, ids=str)
def test_an_evaluator_gives_what_the_operation_means(op: Operation, evaluator: str) -> None:
    """The same bits for all rows with a value at once; and no value for any row without one."""
    evaluate_rows = EVALUATORS[evaluator]
    for case, coded in itertools.product(cases(op), (False, True)):
        wanted = case.wanted()
        kept = [row for row, value in zip(case.rows, wanted, strict=True) if value is not None]
        if kept:
            values = evaluate_rows(case.expr, inputs_for(case, kept, coded=coded), len(kept))
            if values is not None:
                right = [value for value in wanted if value is not None]
                pairs = zip(kept, map(shown, values), right, strict=True)
                # Not all at once: pytest would look for what two long lists have in common.
                assert not [one for one in pairs if one[1] != one[2]][:3], case
        for row in [row for row, value in zip(case.rows, wanted, strict=True) if value is None][:MOST_WITHOUT]:
            for before in ([], kept[:2]):
                inputs = inputs_for(case, [*before, row], coded=coded)
                first = first_without_value(evaluate_rows, case.expr, inputs, len(before) + 1)
                assert first in (None, len(before)), case


def without_constants(op: Operation) -> Iterator[Case]:
    """Cases of numbers whose arguments are all inputs."""
    for case in cases(op):
        numbers = all(is_number(kind.item if isinstance(kind, Optional) else kind) for kind in case.kinds.values())
        if numbers and len(case.kinds) == len(case.expr.args):
            yield case


@pytest.mark.parametrize("op", sorted(WITH_CODE, key=str), ids=str)
def test_machine_code_gives_what_the_operation_means(op: Operation) -> None:
    """It gives the same bits as Python, or gives up: where there is no value, and for some others, but not everywhere."""
    pytest.importorskip("numba")
    computed = 0
    for case in without_constants(op):
        together = list[tuple[Mapping[str, Any], Any]]()
        for row, right in zip(case.rows, case.wanted(), strict=True):
            values = machine_code(case.expr, inputs_for(case, [row], coded=False), 1)
            assert values is None or shown(values[0]) == right, (case.expr, row)
            together += [] if values is None else [(row, right)]
        if together:
            computed += len(together)
            rows = [row for row, _ in together]
            values = machine_code(case.expr, inputs_for(case, rows, coded=False), len(rows))
            assert values is not None
            assert not [one for one in zip(map(shown, values), together, strict=True) if one[0] != one[1][1]][:3], case.expr
    assert computed


def first_without_value(evaluator: Evaluator, expr: Expr, inputs: Callable[[Input], Column], count: int) -> int | None:
    """The first row without a value, as an evaluator says; None where it gives up."""
    try:
        values = evaluator(expr, inputs, count)
    except Undefined as error:
        (row,) = error.args
        return cast(int, row)
    return None if values is None else -1


MOST_WITHOUT = 60
"""Rows without a value that are tried one by one."""


TWINS: Mapping[str, tuple[Operation, type[Any], Act]] = {
    "an overflow": (basic.NEG, Integer, plain(operator.neg)),
    "a quotient towards zero": (basic.FLOORDIV, Float, plain(lambda a, b: np.trunc(a / b))),
    "the sign of a zero": (basic.MOD, Float, float_division(lambda a, b: np.remainder(a, b) + 0.0)),
    "NaN equal to itself": (basic.EQ, Float, plain(lambda a, b: ~((a < b) | (a > b)))),
    "a weekday later": (basic.WEEKDAY, Date, plain(lambda days: (days + 4) % 7)),
    "a year too many": (basic.ADD_MICROS, Timestamp, add),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_wrong_operation_is_caught(twin: str) -> None:
    op, kind, act = TWINS[twin]
    with (
        mock.patch.dict(operations.ACTS, {op: {**operations.ACTS[op], kind: act}}),
        pytest.raises((AssertionError, ValueError, OverflowError)),
    ):
        test_an_evaluator_gives_what_the_operation_means(op, "node by node")


def test_generated_code_has_the_operations_on_numbers() -> None:
    """It may give up, but not everywhere."""
    without = set()
    for op in BASIC:
        for case in cases(op):
            wanted = case.wanted()
            kept = [row for row, value in zip(case.rows, wanted, strict=True) if value is not None]
            if kept and generated_code(case.expr, inputs_for(case, kept, coded=False), len(kept)) is None:
                without.add(op)
    assert not without
