"""Faults of the compiler that random programs must find (:mod:`tests.test_programs`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeAlias
from unittest import mock

import attrs
import numpy as np
import pyarrow.compute as pc

from tracetypes.compiler.analysis import keyed, monoids
from tracetypes.compiler.columns import evaluation, expressions, operations
from tracetypes.compiler.columns.column import Column, Columns, take
from tracetypes.compiler.runtime import column_states as states
from tracetypes.compiler.runtime import flows, scalars
from tracetypes.compiler.runtime import partial_aggregation as columnar
from tracetypes.compiler.tracing import tracer as tracing
from tracetypes.compiler.tracing.expr import Branch, Const, Input, Leaf, Pack, Tree
from tracetypes.compiler.tracing.operations import basic
from tracetypes.records import String

__all__ = ["MUTATIONS", "Mutation"]

Mutation: TypeAlias = Callable[[], AbstractContextManager[Any]]


def _replace_once(call: Any, args: list[Any], count: int) -> Any:
    array, pattern, replacement = args
    if isinstance(array, str) or not isinstance(pattern, str) or not isinstance(replacement, str) or not pattern:
        return operations._replace(call, args, count)
    return pc.replace_substring(array, pattern, replacement, max_replacements=1), None


def _right(case: monoids.Case, wanted: int, *, real: Any = monoids.Case.right) -> Any:
    return real(case, wanted if any(case.missing) or any(case.nan) else -wanted)


def _exchanged(tree: Tree) -> Tree:
    if isinstance(tree, Branch):
        return Branch(tree.condition, tree.otherwise, tree.then)
    return tree


def _method(op: Any, method: str, *args: Any, real: Any = tracing.trace_method, **how: Any) -> Any:
    tree = real(op, method, *args, **how)
    return _exchanged(tree) if method == "update_state" else tree


@contextmanager
def _old_state() -> Iterator[None]:
    last: list[Columns] = []
    real = states._finder

    def finder(arguments: dict[str, Columns]) -> Callable[[Input], Column]:
        if "new_state" in arguments:
            return real({**arguments, "new_state": last.pop()})
        last[:] = [arguments["state"]]
        return real(arguments)

    with mock.patch.object(states, "_finder", finder):
        yield


def _rolled(tree: Tree, inputs: Any, count: int, *, real: Any = evaluation.run) -> Any:
    ran = real(tree, inputs, count)
    return ran if ran.result is None else attrs.evolve(ran, result=take(ran.result, np.roll(np.arange(count), 1)))


def _more(value: Any) -> Any:
    """The first integer of a structure is one more."""
    if isinstance(value, Pack):
        return attrs.evolve(value, parts=(_more(value.parts[0]), *value.parts[1:]))
    return Const(value.value + 1, value.kind) if isinstance(value, Const) and isinstance(value.value, int) else value


def _lift(*args: Any, real: Any = tracing.trace_lift, **how: Any) -> Any:
    def more(tree: Tree) -> Tree:
        if isinstance(tree, Branch):
            return Branch(tree.condition, more(tree.then), more(tree.otherwise))
        return Leaf(tree.emissions, _more(tree.result), tree.raises)

    return more(real(*args, **how))


def _identity(op: Any, method: str, *, real: Any = monoids.constant) -> Any:
    return _more(real(op, method)) if method == "identity" else real(op, method)


def _extreme(run: Any, call: Any, *, real: Any = expressions.Rows.extreme) -> Any:
    made, (a, b) = real(run, call), map(run.column, call.args)
    if a.valid is None and b.valid is None:
        return made
    valid = np.ones(run.count, np.bool_) if a.valid is None else a.valid
    return Column(made.kind, made.storage, valid if b.valid is None else valid & b.valid, made.undefined)


def _zeros_for_none(part: Any, column: Column, groups: Any, *, real: Any = columnar._extreme) -> Any:
    return real(part, attrs.evolve(column, valid=None), groups)


def _put(part: Column, rows: Any, fresh: Column, *, real: Any = scalars.put) -> Column:
    return real(part, np.roll(rows, 1), fresh)  # type: ignore[no-any-return]


def _swap(owner: Any, name: str, new: Any) -> Mutation:
    return lambda: mock.patch.object(owner, name, new)


MUTATIONS: Final[Mapping[str, Mutation]] = {
    "`greatest` is taken for the smallest": lambda: mock.patch.dict(monoids._EXTREMES, {basic.GREATEST: "min"}),
    "`max` and `min` as a choice are exchanged": _swap(monoids.Case, "right", _right),
    "`and` of a monoid is taken for `or`": lambda: mock.patch.dict(monoids._EXTREMES, {basic.AND: "max"}),
    "a monoid takes None for 0": _swap(columnar, "_extreme", _zeros_for_none),
    "the branches of `update_state` are exchanged": _swap(keyed, "trace_method", _method),
    "`on_marker` gets the old state": _old_state,
    "`lift` of another row": _swap(flows, "run", _rolled),
    "the first number of `lift` is one more": _swap(monoids, "trace_lift", _lift),
    "the first number of `identity` is one more": _swap(keyed, "constant", _identity),
    "states go to the next key": _swap(states, "put", _put),
    "None wins in `least` and `greatest`": lambda: mock.patch.dict(
        expressions.FORMS, dict.fromkeys((basic.LEAST, basic.GREATEST), _extreme)
    ),
    "`replace` does it once": lambda: mock.patch.dict(operations.ACTS, {basic.REPLACE: {String: _replace_once}}),
    "weeks begin on Sunday": lambda: mock.patch.dict(
        operations.ACTS, {basic.WEEKDAY: operations._calendar(lambda days: (days + 4) % 7)}
    ),
}
