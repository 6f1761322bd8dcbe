"""An ordered operator as machine code: the arrays that its loop takes, and what the loop gives.

The loop leaves where an item has no value there, and where the arrays are full; then it gets new ones, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import numpy as np

from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.columns.column import Columns, full_values, inputs_of
from tracetypes.compiler.columns.conditionals import constant_column
from tracetypes.compiler.columns.evaluation import evaluate
from tracetypes.compiler.columns.machine.code import MachineCode, MachineFunction, available
from tracetypes.compiler.columns.machine.trees import NotMachine, is_number
from tracetypes.compiler.columns.turns import MOST
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.ordered_arrays import Pools, array_of, built, dtype_of, flag_of
from tracetypes.compiler.runtime.ordered_loop import LoopSource
from tracetypes.compiler.tracing.expr import Call, Const, Input, Kind, Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import Optional

__all__ = ["MachineLoop", "machine_code_missing", "machine_loop"]

MARKERS: Final = 1_000_000
"""Markers at once at most."""

FULL: Final = 2

NO_VALUE: Final = 1


def machine_loop(ordered: Ordered) -> MachineLoop | None:
    """The loop of an operator; None where it has no machine code."""
    try:
        return MachineLoop(ordered)
    except NotMachine:
        return None


def machine_code_missing(form: object) -> str | None:
    """How an operator would run in machine code, as a line of ``explain``; None where it does, or has none."""
    if not isinstance(form, Ordered) or available() or machine_loop(form) is None:
        return None
    return 'over columns; with pip install "tracetypes[fast]" in machine code, where many items come'


@final
class MachineLoop:
    """Machine code of an operator: its source, and the arrays that it takes."""

    def __init__(self, ordered: Ordered) -> None:
        self.ordered, self.source = ordered, LoopSource(ordered)
        self.code = MachineCode(self.source.text, self.source.arguments)

    def run(
        self, function: MachineFunction, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Any, Any, Columns]:
        """Take items and markers. ``first``: the time (int64) from which each key takes markers. Gives the states afterwards, and
        of each emission the key (int64), the end of its block (int64) and its value. Raises :class:`Undefined`."""
        source, number, marks = self.source, len(first), np.zeros(0, np.int64)
        if self.ordered.on_marker is not None:
            if len(markers) > MARKERS:
                raise Undefined(0)
            marks = np.fromiter(markers, np.int64, len(markers))
        starts = np.full(number + 1, items.count)
        starts[: items.number + 1] = items.starts
        pools = Pools(self._pool_kinds())
        scalars = [array_of(states, one.path, one.kind, number, pools) for one in source.state.scalars]
        flags = [flag_of(states, path, number) for path in source.state.flags]
        columns: list[Any] = list(self._bases(items, keys, number, pools))
        columns += [pools.numbers(name) for name in sorted(source.numbers)]
        columns += self._read_columns(items, keys, number)
        at = np.array([0, -1, 0, 0], np.int64)
        cap, progress = max(items.count + number, 1024), (0, -1)
        chunks: list[tuple[Any, Any, list[Any], list[Any]]] = []
        while True:
            code, until = np.empty(cap, np.int64), np.empty(cap, np.int64)
            outs = [np.empty(cap, dtype_of(one.kind)) for one in source.out.scalars]
            gates = [np.empty(cap, np.uint8) for _ in source.out.flags]
            arrays = *scalars, *flags, *outs, *gates, *columns
            why = function(number, starts, items.ends, at, first, len(marks), marks, cap, code, until, *arrays)
            if why == NO_VALUE:
                raise Undefined(0)
            count = int(at[3])
            chunks.append((code[:count], until[:count], [one[:count] for one in outs], [one[:count] for one in gates]))
            if why != FULL:
                break
            if not count and (int(at[0]), int(at[1])) == progress:  # one item needs more
                cap *= 4
                if cap > MOST:  # Python emits it in pieces
                    raise Undefined(0)
            progress = int(at[0]), int(at[1])
        codes, untils = (_joined([chunk[place] for chunk in chunks]) for place in (0, 1))
        outs = [_joined([chunk[2][place] for chunk in chunks]) for place in range(len(source.out.scalars))]
        gates = [_joined([chunk[3][place] for chunk in chunks]) for place in range(len(source.out.flags))]
        after = built(self.ordered.state, source.state, scalars, flags, pools)
        return after, codes, untils, built(self.ordered.gives, source.out, outs, gates, pools)

    def _pool_kinds(self) -> set[Kind]:
        source = self.source
        kinds = {one.kind for one in (*source.state.scalars, *source.out.scalars)}
        return {kind for kind in kinds if kind is not None and not is_number(kind)} | source.pools.keys()

    def _bases(self, items: OrderedItems, keys: Columns, number: int, pools: Pools) -> Iterator[int]:
        """Where the column of each expression begins in its pool."""
        find = inputs_of({"value": items.values, "key": keys})
        for kind, some in self.source.pools.items():
            for expr, _ in some.values():
                match expr:
                    case Const():
                        yield pools.add(kind, constant_column(expr, 1), 1)
                    case Input(path):
                        yield pools.add(kind, find(expr), number if path[0] == "key" else items.count)
                    case Call():
                        yield pools.add(kind, evaluate(expr, find, items.count), items.count)

    def _read_columns(self, items: OrderedItems, keys: Columns, number: int) -> Iterator[Any]:
        find = inputs_of({"value": items.values, "key": keys})
        for expr, place in self.source.columns.values():
            by_key = isinstance(expr, Input) and expr.path[0] == "key"
            count = number if by_key else items.count
            column: Any = find(expr) if isinstance(expr, Input) else evaluate(expr, find, count)
            bare = expr.kind.item if isinstance(expr.kind, Optional) else expr.kind
            if is_number(bare):
                if column.kind is not None and type(column.kind) is not type(bare):
                    raise Undefined(0)
                if column.kind is None:
                    yield np.zeros(count, dtype_of(bare))
                else:
                    values = full_values(column, count)
                    yield np.ascontiguousarray(values.view(np.uint8) if values.dtype == np.bool_ else values)
            if place in self.source.flags:
                if column.kind is None:
                    yield np.zeros(count, np.uint8)
                elif column.valid is None:
                    yield np.ones(count, np.uint8)
                else:
                    yield np.ascontiguousarray(column.valid).view(np.uint8)


def _joined(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
