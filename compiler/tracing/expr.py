"""Expressions: what tracing makes of an operator's Python, and what the native back ends take.

The meaning of every expression is Python's, value for value (:func:`evaluate` is the definition). A back end that would give
another value, or none, must say so for the rows in question; they are then run in Python. An expression never holds a wrong
number: where Python raises, or where an integer leaves 64 bits, :func:`evaluate` raises :class:`Undefined`.

The operations are those of :mod:`tracetypes.compiler.tracing.operations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, assert_never, final

import attrs

from tracetypes.compiler.tracing.kinds import PASSED_ON, Exact, Kind
from tracetypes.compiler.tracing.operations.basic import IF
from tracetypes.compiler.tracing.operations.operation import Operation, Undefined
from tracetypes.lookup_table import LookupTable
from tracetypes.record_copies import made_of
from tracetypes.records import Optional, Record

__all__ = [
    "PASSED_ON",
    "Branch",
    "Call",
    "Const",
    "Emission",
    "Exact",
    "Expr",
    "Input",
    "Kind",
    "Leaf",
    "Loop",
    "Pack",
    "Tree",
    "Undefined",
    "Value",
    "arguments_of",
    "evaluate",
    "is_same",
    "result_of",
    "run",
]


@final
@attrs.frozen(cache_hash=True)
class Input:
    """A scalar of an argument of the operator, or an optional record that is passed on as a whole. ``path``: the name of the
    argument, then fields of records and places in tuples: ``("value", "ts")``, ``("state", 0)``."""

    path: tuple[str | int, ...]
    kind: Kind

    @property
    def is_record(self) -> bool:
        """Whether it is an optional record."""
        return isinstance(self.kind, Optional) and isinstance(self.kind.item, Record)


@final
@attrs.frozen
class Const:
    """A value that does not depend on the inputs; None for a missing optional."""

    value: Any
    kind: Kind | None


@final
@attrs.frozen(eq=False)
class Call:
    """An operation on expressions. ``table`` and ``path``: of operations on tables only."""

    op: Operation
    args: tuple[Expr, ...]
    kind: Kind
    table: Mapping[Any, Any] | LookupTable | None = attrs.field(default=None, repr=False)
    path: tuple[str | int, ...] = ()


Expr: TypeAlias = Input | Const | Call


@final
@attrs.frozen(eq=False)
class Pack:
    """A record (``cls`` its class, ``names`` its fields in the order of its schema) or a tuple (``cls`` is tuple)."""

    cls: type[Any]
    names: tuple[str, ...]
    parts: tuple[Value, ...]


Value: TypeAlias = Expr | Pack


@final
@attrs.frozen(eq=False)
class Emission:
    """One call of ``emit``. ``key`` is None if the template's emit takes a value only."""

    key: Value | None
    value: Value


@final
@attrs.frozen(eq=False)
class Loop:
    """``for turn in range(start, stop, step)``: what ``body`` emits for each turn, in order. It has no result. ``step`` is a
    constant that is not 0, or undefined where it is. Only the body reads ``turn``, whose path is ``("turn", number)``."""

    start: Expr
    stop: Expr
    step: Expr
    turn: Input
    body: Tree


@final
@attrs.frozen(eq=False)
class Leaf:
    """The end of a path through an operator: its emissions, in order, and its result. ``raises``: the path ends in an
    exception (or in something that must run in Python); then nothing else counts."""

    emissions: tuple[Emission | Loop, ...] = ()
    result: Value | None = None
    raises: bool = False
    touched: tuple[Input, ...] = ()


@final
@attrs.frozen(eq=False)
class Branch:
    """A decision. The condition is evaluated only for the rows that reach it."""

    condition: Expr
    then: Tree
    otherwise: Tree
    touched: tuple[Input, ...] = ()


Tree: TypeAlias = Leaf | Branch
"""``touched``, at the root: the scalars that the operator looked at, also where its answer does not depend on them."""


def is_same(one: Value | None, other: Value | None) -> bool:
    """Are two values of one trace the same? Its expressions are."""
    if isinstance(one, Pack) and isinstance(other, Pack):
        return one.cls is other.cls and len(one.parts) == len(other.parts) and all(map(is_same, one.parts, other.parts))
    return one is other


def arguments_of(value: Value) -> set[str | int]:
    """The names of the arguments that a value reads."""
    names, seen, pending = set[str | int](), set[int](), [value]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        match one:
            case Input(path=path):
                names.add(path[0])
            case Pack(parts=parts):
                pending += parts
            case Call(args=args):
                pending += args
            case Const():
                pass
    return names


# ------------------------------------------------------------------------------------------------------ meaning


def evaluate(value: Value, inputs: Callable[[Input], Any]) -> Any:
    """The value for one row. ``inputs`` returns its scalars, None if an optional one is missing.

    Records are made of their fields. Raises :class:`Undefined`.
    """
    return _evaluate(value, inputs, {})


def run(tree: Tree, inputs: Callable[[Input], Any]) -> tuple[list[tuple[Any, Any]], Any]:
    """The emissions of an operator for one row, in order, as pairs of key (None without one) and value, and its result.

    Raises :class:`Undefined`, also if the row must run in Python.
    """
    results: dict[int, Any] = {}
    while isinstance(tree, Branch):
        tree = tree.then if _evaluate(tree.condition, inputs, results) else tree.otherwise
    if tree.raises:
        raise Undefined("the path ends in an exception")
    emitted: list[tuple[Any, Any]] = []
    for one in tree.emissions:
        if isinstance(one, Loop):
            for turn in _turns(one, inputs, results):
                emitted += run(one.body, _within(one.turn, turn, inputs))[0]
        else:
            key = None if one.key is None else _evaluate(one.key, inputs, results)
            emitted.append((key, _evaluate(one.value, inputs, results)))
    return emitted, None if tree.result is None else _evaluate(tree.result, inputs, results)


def _turns(loop: Loop, inputs: Callable[[Input], Any], results: dict[int, Any]) -> range:
    start, stop, step = (_evaluate(one, inputs, results) for one in (loop.start, loop.stop, loop.step))
    if step == 0:
        raise Undefined("the step of a range is 0")
    return range(start, stop, step)


def _within(turn: Input, number: int, inputs: Callable[[Input], Any]) -> Callable[[Input], Any]:
    """The inputs of the body of a loop, in one turn."""
    return lambda one: number if one.path == turn.path else inputs(one)


def _evaluate(value: Value, inputs: Callable[[Input], Any], results: dict[int, Any]) -> Any:
    """``known``: values of the calls that were met before, by identity; expressions share their parts."""
    match value:
        case Input():
            return inputs(value)
        case Const():
            return value.value
        case Pack(cls, names, parts):
            values = [_evaluate(part, inputs, results) for part in parts]
            return tuple(values) if cls is tuple else made_of(cls, names)(values)
        case Call():
            if id(value) not in results:
                results[id(value)] = _call(value, inputs, results)
            return results[id(value)]
        case _:
            assert_never(value)


def _call(call: Call, inputs: Callable[[Input], Any], results: dict[int, Any]) -> Any:
    if call.op is IF:
        condition, then, otherwise = call.args
        return _evaluate(then if _evaluate(condition, inputs, results) else otherwise, inputs, results)
    return result_of(call, [_evaluate(arg, inputs, results) for arg in call.args])


def result_of(call: Call, args: Sequence[Any]) -> Any:
    """What an operation gives for these values of its arguments. Raises :class:`Undefined`."""
    return call.op(*args, call.table, call.path) if call.op.of_table else call.op(*args)
