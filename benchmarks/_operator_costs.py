"""What the operators of the queries of TPCx-BB cost: seconds and outputs for each input, over generated data, as the interpreter
runs them. It runs Python for each item, and at each marker for each key."""

from __future__ import annotations

import time
from typing import Any, TypeAlias
from unittest import mock

from benchmarks._multicore import Part
from examples import tpcx_bb, tpcx_bb_data
from tests.test_tpcx_bb import rows_of
from tracetypes import OpStateless, check, interpret_rows, interpreter
from tracetypes.check import Checked
from tracetypes.compiler.local.ordered.operators import Kind
from tracetypes.elements import Piece
from tracetypes.nodes import Apply, Sort
from tracetypes.records import Schema, UnitValue
from tracetypes.templates import as_operator
from tracetypes.trace import Element, Item

__all__ = ["parts_of"]

LEAST = 0.01
"""Inputs of an operator for each input of the query; with fewer it has nothing to do, and the chain ends before it."""

ANSWERS = 0.005
"""Outputs of an operator for each input of the query, at least. What rarely emits, as the best of a day, answers as often as that
here, so that there is a latency to measure."""


Pieces: TypeAlias = list[Piece[Element]]
"""A stream in the interpreter."""


def items(elements: Pieces) -> int:
    """How many of them are items."""
    return sum(isinstance(one, Item) for one in elements)


def parts_of(number: int, rows: int) -> list[Part]:
    """The operators of a query, in order, from so many rows. A sort belongs to the operator behind it."""
    apply, sort = interpreter._apply, interpreter._sort
    parts: list[Part] = []
    sorting, share = [0.0], 1.0

    def timed_sort(node: Sort, channel: Pieces, value: Schema) -> Pieces:
        began = time.process_time()
        result = sort(node, channel, value)
        sorting[0] += time.process_time() - began
        return result

    def timed_apply(checked: Checked, node: Apply, channel: Pieces, **how: Any) -> Pieces:
        began = time.process_time()
        nonlocal share
        result = apply(checked, node, channel, **how)
        seconds, sorting[0] = time.process_time() - began + sorting[0], 0.0
        count = items(channel)
        if count >= LEAST * rows:
            key = checked.streams[node.inputs[0]].key
            keyed = Kind.STATEFUL if isinstance(key, UnitValue) else Kind.PARTITIONED
            kind = Kind.STATELESS if isinstance(as_operator(node.op), OpStateless) else keyed
            selectivity = max(items(result) / count, ANSWERS / share)
            share *= selectivity
            parts.append(Part(kind, seconds / count, selectivity))
        return result

    streams = {"store_sales": tpcx_bb_data.store_sales(rows), "web_clickstreams": tpcx_bb_data.web_clickstreams(rows)}
    source = "store_sales" if number in (1, 15) else "web_clickstreams"
    flow = tpcx_bb.dataflow(number)
    with mock.patch.object(interpreter, "_apply", timed_apply), mock.patch.object(interpreter, "_sort", timed_sort):
        interpret_rows(check(flow), {source: rows_of(streams)[source]})
    return parts

