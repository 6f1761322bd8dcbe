"""What expressions mean: Python's value, or Undefined."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.programs import inputs_of, plain
from tests.strategies import FLOATS, INTEGERS, STRINGS, TIMES
from tracetypes import ExactSum
from tracetypes.compiler.tracing.expr import (
    Branch,
    Call,
    Const,
    Emission,
    Exact,
    Expr,
    Input,
    Leaf,
    Pack,
    Undefined,
    evaluate,
    run,
)
from tracetypes.compiler.tracing.operations import basic
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.records import INT_MAX, INT_MIN, Boolean, Date, Float, Integer, Optional, Schema, String, Timestamp

I, F, B, S, T = Integer(), Float(), Boolean(), String(), Timestamp()
BOOLEANS = st.booleans()
DATES = (basic.YEAR, basic.MONTH, basic.DAY)


def inputs(*kinds: Schema) -> tuple[Input, ...]:
    return tuple(Input((name,), kind) for name, kind in zip("abc", kinds, strict=False))


def apply(op: Operation, kind: Any, kinds: tuple[Schema, ...], values: tuple[Any, ...], **more: Any) -> Any:
    call = Call(op, inputs(*kinds), kind, **more)
    return evaluate(call, inputs_of(**dict(zip("abc", values, strict=False))))


BINARY: Final[Mapping[Operation, Callable[[Any, Any], Any]]] = {
    basic.ADD: operator.add,
    basic.SUB: operator.sub,
    basic.MUL: operator.mul,
    basic.FLOORDIV: operator.floordiv,
    basic.MOD: operator.mod,
    basic.TRUEDIV: operator.truediv,
    basic.EQ: operator.eq,
    basic.LT: operator.lt,
    basic.LE: operator.le,
}


def meant(function: Callable[..., Any], *values: Any) -> Any:
    """What Python gives, None where there is no value."""
    try:
        made = function(*values)
    except (ArithmeticError, ValueError):
        return None
    return None if type(made) is int and not INT_MIN <= made <= INT_MAX else made


def agrees(op: Operation, kind: Any, kinds: tuple[Schema, ...], values: tuple[Any, ...], wanted: Any) -> None:
    if wanted is None:
        with pytest.raises(Undefined):
            apply(op, kind, kinds, values)
    else:
        assert plain(apply(op, kind, kinds, values)) == plain(wanted)


@pytest.mark.parametrize("op", BINARY, ids=str)
@given(st.tuples(INTEGERS, INTEGERS) | st.tuples(FLOATS, FLOATS))
def test_binary_operators_are_those_of_python(op: Operation, values: tuple[Any, Any]) -> None:
    kind: Schema = I if isinstance(values[0], int) else F
    agrees(op, kind, (kind, kind), values, meant(BINARY[op], *values))


@pytest.mark.parametrize(("op", "function"), [(basic.NEG, operator.neg), (basic.ABS, abs)])
@given(INTEGERS | FLOATS)
def test_unary_operators_are_those_of_python(op: Operation, function: Callable[[Any], Any], value: Any) -> None:
    kind: Schema = I if isinstance(value, int) else F
    agrees(op, kind, (kind,), (value,), meant(function, value))


@given(FLOATS | st.floats(-100, 100))
def test_floats_become_integers_as_in_python(value: float) -> None:
    agrees(basic.TO_INT, I, (F,), (value,), meant(int, value))
    agrees(basic.ROUND, I, (F,), (value,), meant(round, value))


@pytest.mark.parametrize(
    ("op", "values"),
    [
        (basic.ADD, (INT_MAX, 1)),
        (basic.SUB, (INT_MIN, 1)),
        (basic.MUL, (2**32, 2**31)),
        (basic.FLOORDIV, (INT_MIN, -1)),
        (basic.FLOORDIV, (1, 0)),
        (basic.MOD, (1, 0)),
        (basic.TRUEDIV, (1, 0)),
    ],
)
def test_no_number_is_wrong(op: Operation, values: tuple[int, int]) -> None:
    with pytest.raises(Undefined):
        apply(op, I, (I, I), values)


@given(STRINGS, STRINGS, STRINGS)
def test_text(a: str, b: str, c: str) -> None:
    for op in (basic.LOWER, basic.UPPER, basic.STRIP, basic.LSTRIP, basic.RSTRIP):
        assert apply(op, S, (S,), (a,)) == getattr(a, op.name)()
    assert apply(basic.LENGTH, I, (S,), (a,)) == len(a)
    assert apply(basic.CONCAT, S, (S, S), (a, b)) == a + b
    assert apply(basic.STARTSWITH, B, (S, S), (a + b, a)) is True
    assert apply(basic.ENDSWITH, B, (S, S), (a + b, b)) is True
    assert apply(basic.STARTSWITH, B, (S, S), (a, b)) is a.startswith(b)
    assert apply(basic.ENDSWITH, B, (S, S), (a, b)) is a.endswith(b)
    assert apply(basic.CONTAINS, B, (S, S), (a, b)) is (b in a)
    assert apply(basic.REPLACE, S, (S, S, S), (a, b, c)) == a.replace(b, c)


@given(STRINGS, st.none() | st.integers(-4, 4), st.none() | st.integers(-4, 4))
def test_slices(text: str, start: int | None, stop: int | None) -> None:
    call = Call(basic.SLICE, (Input(("a",), S), Const(start, I), Const(stop, I)), S)
    assert evaluate(call, inputs_of(a=text)) == text[start:stop]


@given(INTEGERS, STRINGS, BOOLEANS)
def test_conversions(i: int, s: str, b: bool) -> None:
    assert plain(apply(basic.TO_FLOAT, F, (I,), (i,))) == plain(float(i))
    assert plain(apply(basic.TO_FLOAT, F, (B,), (b,))) == plain(float(b))
    assert plain(apply(basic.TO_INT, I, (B,), (b,))) == plain(int(b))
    assert [apply(basic.TO_STR, S, (k,), (v,)) for k, v in ((I, i), (S, s), (B, b))] == [str(i), s, str(b)]


@given(BOOLEANS, BOOLEANS)
def test_booleans(a: bool, b: bool) -> None:
    assert apply(basic.NOT, B, (B,), (a,)) is (not a)
    assert apply(basic.AND, B, (B, B), (a, b)) is (a and b)
    assert apply(basic.OR, B, (B, B), (a, b)) is (a or b)


@given(TIMES, st.integers(-(10**18), 10**18))
def test_times(time: dt.datetime, micros: int) -> None:
    for op in (*DATES, basic.HOUR, basic.MINUTE, basic.SECOND, basic.MICROSECOND):
        assert apply(op, I, (T,), (time,)) == getattr(time, op.name)
    for op in DATES:
        assert apply(op, I, (Date(),), (time.date(),)) == getattr(time, op.name)
    assert apply(basic.WEEKDAY, I, (T,), (time,)) == time.weekday() == apply(basic.WEEKDAY, I, (Date(),), (time.date(),))
    assert apply(basic.DATE_OF, Date(), (T,), (time,)) == time.date()
    since = apply(basic.MICROS, I, (T,), (time,))
    assert dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=since) == time
    moved = meant(lambda t, m: t + dt.timedelta(microseconds=m), time, micros)
    agrees(basic.ADD_MICROS, T, (T, I), (time, micros), moved)


@given(st.lists(FLOATS, min_size=1, max_size=4))
def test_exact_sums(values: list[float]) -> None:
    total: Expr = Const(ExactSum(), Exact())
    for at in range(len(values)):
        total = Call(basic.ADD, (total, Call(basic.EXACT_OF, (Input(("values", at), F),), Exact())), Exact())
    wanted = ExactSum()
    for value in values:
        wanted = wanted + ExactSum.of(value)
    assert evaluate(total, inputs_of(values=values)) == wanted
    got = evaluate(Call(basic.EXACT_VALUE, (total,), F), inputs_of(values=values))
    assert plain(got) == plain(wanted.value())


def test_only_the_chosen_side_is_evaluated() -> None:
    broken = Call(basic.FLOORDIV, (Const(1, I), Const(0, I)), I)
    call = Call(basic.IF, (Input(("a",), B), broken, Const(7, I)), I)
    assert evaluate(call, inputs_of(a=False)) == 7
    with pytest.raises(Undefined):
        evaluate(call, inputs_of(a=True))


def test_all_sides_of_a_conjunction_are_evaluated() -> None:
    broken = Call(basic.EQ, (Call(basic.MOD, (Const(1, I), Const(0, I)), I), Const(0, I)), B)
    for op in (basic.AND, basic.OR):
        for value in (True, False):
            with pytest.raises(Undefined):
                evaluate(Call(op, (Const(value, B), broken), B), inputs_of())


def test_what_is_missing() -> None:
    call = Call(basic.IS_NULL, (Input(("a",), Optional(I)),), B)
    assert evaluate(call, inputs_of(a=None)) is True
    assert evaluate(call, inputs_of(a=0)) is False


@attrs.frozen
class Entry:
    """A value of a table."""

    name: str
    sizes: tuple[int, int] = (1, 2)


def test_tables() -> None:
    table = {"a": Entry("A"), "b": Entry("B", (3, 4))}
    key = Input(("a",), S)
    assert [evaluate(Call(basic.HAS, (key,), B, table), inputs_of(a=one)) for one in "abc"] == [True, True, False]
    assert evaluate(Call(basic.LOOKUP, (key,), S, table, ("name",)), inputs_of(a="b")) == "B"
    assert evaluate(Call(basic.LOOKUP, (key,), I, table, ("sizes", 1)), inputs_of(a="b")) == 4
    with pytest.raises(Undefined):
        evaluate(Call(basic.LOOKUP, (key,), S, table, ("name",)), inputs_of(a="c"))


@attrs.frozen
class Positive:
    """A record whose constructor refuses."""

    x: int = attrs.field(validator=attrs.validators.gt(0))


def test_records_and_tuples_are_rebuilt() -> None:
    x = Input(("x",), I)
    value = Pack(tuple, (), (Pack(Positive, ("x",), (x,)), Const(None, None), x))
    assert evaluate(value, inputs_of(x=3)) == (Positive(3), None, 3)
    made, *_ = evaluate(value, inputs_of(x=0))
    assert made.x == 0, "of its fields, without its constructor"


def test_a_tree() -> None:
    x = Input(("x",), I)
    emit = Leaf((Emission(None, x), Emission(Const("k", S), Const(2.0, F))), x)
    broken = Call(basic.EQ, (Call(basic.MOD, (x, x), I), x), B)
    tree = Branch(Call(basic.LT, (x, Const(0, I)), B), Leaf(raises=True), Branch(broken, Leaf(), emit))
    assert run(tree, inputs_of(x=3)) == ([(None, 3), ("k", 2.0)], 3)
    for undefined in (-1, 0):
        with pytest.raises(Undefined):
            run(tree, inputs_of(x=undefined))
    assert run(Leaf(), inputs_of()) == ([], None)


def test_what_is_shared_is_evaluated_once() -> None:
    x: Expr = Input(("x",), F)
    for _ in range(60):
        x = Call(basic.ADD, (x, x), F)
    assert evaluate(x, inputs_of(x=1.0)) == 2.0**60


@given(FLOATS)
def test_nothing_equals_nan(value: float) -> None:
    assume(not math.isnan(value))
    assert apply(basic.EQ, B, (F, F), (math.nan, value)) is False
    assert apply(basic.EQ, B, (F, F), (math.nan, math.nan)) is False
