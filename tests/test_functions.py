"""Functions that are applied value by value: what is traced, its meaning, and columns give what Python gives."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.dictionaries import arrow_inputs, encoded
from tests.expressions import CONSTANTS, shown, value_of
from tests.programs import compiled, inputs_of
from tests.strategies import some
from tracetypes.compiler.columns import evaluation
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.tracing.expr import Branch, Call, Const, Input, Leaf, Tree, Undefined, Value, evaluate, run
from tracetypes.compiler.tracing.operations.functions import (
    FROM_TIMESTAMP,
    FUNCTIONS,
    PARTITIONS,
    STEP,
    TIME_REPLACE,
    TIMES_OF_TEXT,
)
from tracetypes.compiler.tracing.operations.operation import SCALARS, Operation
from tracetypes.compiler.tracing.tracer import Given, trace
from tracetypes.records import INT_MAX, INT_MIN, Schema, String, Timestamp

NAMES: Final = "abcdefgh"

FIELDS: Final = ("year", "month", "day", "hour", "minute", "second", "microsecond")

SOURCES: Final[Mapping[str, Callable[..., str]]] = {
    "split": lambda a, b, *how: f"{a}.split({', '.join(how)})[{b}]",
    "rsplit": lambda a, b, *how: f"{a}.rsplit({', '.join(how)})[{b}]",
    "split_length": lambda a, *how: f"len({a}.split({', '.join(how)}))",
    "rsplit_length": lambda a, *how: f"len({a}.rsplit({', '.join(how)}))",
    "split_has": lambda a, b, *how: f"{b} in {a}.split({', '.join(how)})",
    "rsplit_has": lambda a, b, *how: f"{b} in {a}.rsplit({', '.join(how)})",
    "step": lambda a, b: f"{a}[::{b}]",
    "repeat": lambda a, b: f"{a} * {b}",
    "percent": lambda a, *values: f"{a} % ({', '.join(values)},)",
    "pow": lambda a, b: f"{a} ** {b}",
    "round_digits": lambda a, b: f"round({a}, {b})",
    "round_tens": lambda a, b: f"round({a}, {b})",
    "lshift": lambda a, b: f"{a} << {b}",
    "rshift": lambda a, b: f"{a} >> {b}",
    "partition": lambda a, b, c: f"{a}.partition({c})[{b}]",
    "rpartition": lambda a, b, c: f"{a}.rpartition({c})[{b}]",
    "datetime.fromisoformat": lambda a: f"dt.datetime.fromisoformat({a})",
    "datetime.strptime": lambda a, b: f"dt.datetime.strptime({a}, {b})",
    "date.fromisoformat": lambda a: f"dt.date.fromisoformat({a})",
    "datetime.fromtimestamp": lambda a: f"dt.datetime.fromtimestamp({a}, dt.UTC)",
    "datetime.replace": lambda a, *fields: f"{a}.replace({', '.join(map('{}={}'.format, FIELDS, fields))})",
}
"""Python for the arguments of those that are not called by their names."""

OWN: Final = frozenset({"str", "format", "partition", "rpartition", "step", "datetime.fromtimestamp"})
"""Operations that only some kinds of arguments come to, or that need a constant."""

ZONES: Final = frozenset(
    {"datetime.in_utc", *(op.name for one in TIMES_OF_TEXT.values() for op in (one.instant, one.in_utc))}
)
"""Operations of times of any zone (tests/tracing/test_times_of_text.py)."""

SHOWING: Final = frozenset({"repr", "percent", "str.format"})
"""Operations that can show the ``fold`` of a time, which columns do not keep."""

TEXTS: Final = st.sampled_from(
    (
        *("12", " -7 ", "1e5", "nan", "-inf", "0x1F", "٣", "1_000", "9" * 30, str(INT_MAX), str(INT_MIN - 1), "a,b,,c"),
        *(
            "2024-01-02",
            "2024-01-02T03:04:05Z",
            "2024-01-02T03:04:05+01:00",
            "2024-01-02T03:04",
            "a b  c",
            "Ab cD",
            "²",
            "banana,a",
        ),
    )
)


def source_of(op: str, args: Sequence[str]) -> str:
    made = SOURCES.get(op)
    if made is not None:
        return made(*args)
    owner, _, name = op.rpartition(".")
    if owner in ("", "math"):
        return f"{op}({', '.join(args)})"
    return f"{args[0]}.{name}({', '.join(args[1:])})"


def arguments(kind: Schema, place: int) -> SearchStrategy[Any]:
    if isinstance(kind, String) and place:
        return st.sampled_from(("a", ",", "b", " ", "", "an", "A")) | TEXTS | value_of(kind)
    small = st.integers(-3, 70) if place else st.integers(-3, 70) | value_of(kind)
    return small if SCALARS[kind] is int else TEXTS | value_of(kind) if isinstance(kind, String) else value_of(kind)


def operations(part: Tree | Value | None) -> set[Operation]:
    match part:
        case Branch(condition=condition, then=then, otherwise=otherwise):
            return operations(condition) | operations(then) | operations(otherwise)
        case Leaf(result=result):
            return operations(result)
        case Call(op=op, args=args):
            return {op}.union(*map(operations, args))
        case _:
            return set()


def meant(function: Callable[..., Any], cls: type[Any], row: Sequence[Any]) -> Any:
    """What Python gives; None where an expression may not have it."""
    try:
        made = function(*row)
    except Exception:
        return None
    if type(made) is not cls or (cls is int and not INT_MIN <= made <= INT_MAX):
        return None
    return None if cls is dt.datetime and made.tzinfo is not dt.UTC else shown(made)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ZONES])
@settings(max_examples=some(40), deadline=None)
@given(data=st.data(), seed=st.integers(0, 9))
def test_a_function_is_that_of_python(name: str, data: st.DataObject, seed: int) -> None:
    op, function = FUNCTIONS[name], FUNCTIONS[name].signature
    gives = cast(Schema, function.gives)
    most = len(function.takes) + (2 if function.more else 0)
    count = most if op is TIME_REPLACE else data.draw(st.integers(function.least, most))
    taken = function.kinds(count)
    assert taken is not None
    some = [kind for kind in SCALARS if not (isinstance(kind, Timestamp) and name in SHOWING)]
    kinds = [data.draw(st.sampled_from(some)) if kind is None else cast(Schema, kind) for kind in taken]
    if op is FROM_TIMESTAMP:
        kinds = [data.draw(st.sampled_from([kind for kind in SCALARS if SCALARS[kind] in (bool, int, float)]))]
    fixed = {at: data.draw(st.sampled_from(CONSTANTS[name])) for at in op.fixed}
    if name in PARTITIONS:
        fixed[1] = data.draw(st.integers(0, 2))
    if op is STEP:
        fixed[1] = data.draw(st.sampled_from((1, -1, 2, -3)))
    given_ = {NAMES[at]: kind for at, kind in enumerate(kinds) if at not in fixed}
    written = source_of(name, [repr(fixed[at]) if at in fixed else NAMES[at] for at in range(count)])
    python = compiled(f"def program({', '.join(given_)}):\n    return {written}\n", {"math": math, "dt": dt})
    row_of = st.tuples(*(arguments(kind, NAMES.index(name)) for name, kind in given_.items()))
    rows = data.draw(st.lists(row_of, min_size=1, max_size=6))
    if not given_:
        return
    wanted = [meant(python, SCALARS[gives], row) for row in rows]

    places = [
        Const(fixed[at], _kind(fixed[at])) if at in fixed else Input((NAMES[at],), kinds[at]) for at in range(count)
    ]
    call = Call(op, tuple(places), gives)
    tree = trace(python, [Given(name, kind) for name, kind in given_.items()], emits=None)
    assert op in operations(tree) or name in OWN
    for row, right in zip(rows, wanted, strict=True):
        inputs = inputs_of(**dict(zip(given_, row, strict=True)))
        if right is None:
            with pytest.raises(Undefined):
                evaluate(call, inputs)
            with pytest.raises(Undefined):
                run(tree, inputs)
        else:
            assert shown(evaluate(call, inputs)) == right
            assert shown(run(tree, inputs)[1]) == right

    def columns(some: Sequence[Sequence[Any]], *, coded: bool) -> Any:
        parts = {}
        for at, (name, kind) in enumerate(given_.items()):
            made = array(kind, [row[at] for row in some])
            parts[name] = (kind, encoded(kind, made, random.Random(seed)) if coded else made)
        return arrow_inputs(parts)

    for coded in (False, True):
        if None in wanted:
            with pytest.raises(Undefined) as caught:
                evaluation.evaluate(call, columns(rows, coded=coded), len(rows))
            assert caught.value.args == (wanted.index(None),)
        kept = [row for row, right in zip(rows, wanted, strict=True) if right is not None]
        inputs = columns(kept, coded=coded)
        expected = [right for right in wanted if right is not None]
        made = evaluation.evaluate(call, inputs, len(kept))
        assert [shown(value) for value in values_of(made, len(kept))] == expected
        result = evaluation.run(tree, inputs, len(kept)).result
        assert result is not None
        assert [shown(value) for value in values_of(result, len(kept))] == expected


def _kind(value: Any) -> Schema:
    return next(kind for kind, cls in SCALARS.items() if cls is type(value))


def test_there_are_constants_for_all_that_need_them() -> None:
    assert CONSTANTS.keys() == {name for name, op in FUNCTIONS.items() if op.fixed}
