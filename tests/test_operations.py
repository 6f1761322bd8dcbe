"""The table of operations: each is one object, and each evaluator has all of them or says which it does not have."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import cloudpickle
import pytest

from tracetypes.compiler.columns import expressions, operations
from tracetypes.compiler.spark import catalyst, catalyst_operations
from tracetypes.compiler.tracing.expr import Call, Const, Undefined, evaluate
from tracetypes.compiler.tracing.kinds import BOOLEAN, INTEGER, Kind
from tracetypes.compiler.tracing.operations import OPERATIONS, basic, functions
from tracetypes.compiler.tracing.operations.operation import Operation, Signature

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
    assert [op for op in OPERATIONS if op.is_function] == list(functions.FUNCTIONS.values())
    assert all(op.signature.gives is not None for op in functions.FUNCTIONS.values())
