"""Expressions of some rows as columns. Each is computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.column import (
    BOOLEAN,
    INTEGER,
    PLAIN,
    Column,
    Columns,
    Struct,
    bare_kind,
    either_mask,
    full_values,
    struct_of_column,
    take_column,
)
from tracetypes.compiler.columns.conditionals import constant_column, if_else, undefined_column
from tracetypes.compiler.columns.conversion import python_values
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.dictionary_expressions import (
    dictionary_size,
    dictionary_values,
    mask_of_rows,
    rows_of_dictionary,
    rows_of_numbered,
    shared_codes,
)
from tracetypes.compiler.columns.lookup_results import LookupResults, distinct_keys
from tracetypes.compiler.columns.lookup_tables import entries_of, index_of, numbers_of_entries
from tracetypes.compiler.columns.operations import act_of
from tracetypes.compiler.columns.pending_take import PendingTake, pending
from tracetypes.compiler.tracing.cache_keys import ObjectKey
from tracetypes.compiler.tracing.expr import (
    Call,
    Const,
    Expr,
    Input,
    Pack,
    Undefined,
    Value,
)
from tracetypes.compiler.tracing.operations import basic
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.errors import CodedError
from tracetypes.lookup_table import LookupTable
from tracetypes.records import Float, String

__all__ = ["FORMS", "Rows", "Run"]


class Run:
    """Inputs by path, and the rows that are undefined."""

    __slots__ = ("inputs", "undefined")

    def __init__(self, inputs: Callable[[Input], Column]) -> None:
        self.inputs = inputs
        self.undefined: list[Any] = []
        """Numbers of rows, ascending in each array."""

    def settle(self, reached: Any = ()) -> None:
        """Raise :class:`Undefined` if a row has no value. ``reached``: what was evaluated, by leaf."""
        if self.undefined:
            raised = Undefined(min(int(rows[0]) for rows in self.undefined))
            raised.rows, raised.reached = np.unique(np.concatenate(self.undefined)), reached
            raise raised


class Rows:
    """Some of the rows, and the columns that were computed for them."""

    __slots__ = ("absolute", "answers", "codes", "count", "inputs", "known", "parent", "run", "within")

    def __init__(self, run: Run, count: int, parent: Rows | None, within: Any, absolute: Any) -> None:
        self.run, self.count, self.parent = run, count, parent
        self.within, self.absolute = within, absolute
        self.known: dict[Any, Column] = {}
        self.inputs: dict[tuple[str | int, ...], Column] = {}
        self.codes: dict[int, tuple[Any, Any]] = {}
        self.answers: dict[Any, LookupResults] = {}

    def part(self, within: Any) -> Rows:
        absolute = within if self.absolute is None else self.absolute[within]
        return Rows(self.run, len(within), self, within, absolute)

    def are_undefined(self, mask: Any = None) -> None:
        """Note that rows have no value. ``mask``: which; None for all, and for what has no value without a row either."""
        rows = np.arange(max(self.count, 1)) if mask is None else np.flatnonzero(mask)
        self.run.undefined.append(rows if self.absolute is None else self.absolute[rows])

    def columns(self, value: Value) -> Columns:
        """The columns of the result. Undefined rows are noted."""
        if isinstance(value, Pack):
            return Struct(value.cls, value.names, tuple(self.columns(part) for part in value.parts))
        column = self.checked(value)
        return struct_of_column(column) if isinstance(value, Input) and value.is_record else column

    def checked(self, expr: Expr) -> Column:
        column = self.column(expr)
        if column.undefined is None:
            return column
        if column.undefined.any():
            self.are_undefined(column.undefined)
        return Column(column.kind, column.storage, column.valid)

    def column(self, expr: Expr) -> Column:
        if isinstance(expr, Input):
            return self.input(expr)
        key = id(expr)
        column = self.look(key)
        if column is None:
            column = self.known[key] = constant_column(expr, self.count) if isinstance(expr, Const) else self.call(expr)
        return column

    def input(self, expr: Input) -> Column:
        column = self.inputs.get(expr.path)
        if column is None:
            column = self.run.inputs(expr) if self.parent is None else self.narrow(self.parent.input(expr))
            self.inputs[expr.path] = column
        return column

    def look(self, key: Any) -> Column | None:
        """A column that was computed for these rows, or for more rows."""
        column = self.known.get(key)
        if column is None and self.parent is not None:
            column = self.parent.look(key)
            if column is not None:
                column = self.known[key] = self.narrow(column)
        return column

    def narrow(self, column: Column) -> Column:
        """A column of the parent for these rows. Columns that share their codes still share them afterwards. Arrays are
        copied when they are read."""
        content = column.storage
        if isinstance(content, DictionaryEncoded):
            if id(content.codes) not in self.codes:
                self.codes[id(content.codes)] = content.codes, content.codes.take(self.within)
            _, codes = self.codes[id(content.codes)]
            content = content.with_codes(codes)
        elif isinstance(content, np.ndarray | pa.Array | PendingTake):
            content = pending(content, self.within)
        else:
            return take_column(column, self.within)
        valid = None if column.valid is None else column.valid[self.within]
        undefined = None if column.undefined is None else column.undefined[self.within]
        return Column(column.kind, content, valid, undefined)

    def call(self, call: Call) -> Column:
        if (form := FORMS.get(call.op)) is not None:
            return form(self, call)
        args = [self.operand(arg) for arg in call.args]
        undefined = None
        alone = of_one_kind = True
        first = args[0].kind
        for arg in args:
            if arg.undefined is not None:
                undefined = either_mask(undefined, arg.undefined)
            alone = alone and arg.scalar
            of_one_kind = of_one_kind and type(arg.kind) is type(first)
        act = act_of(call.op, type(first))
        if act is None or (call.op.of_one_kind and not of_one_kind):
            return undefined_column(call.kind, self.count)
        count = self.count
        if alone:
            # Computed once, in a column of one row.
            values, new = act(call, [full_values(arg, 1) for arg in args], 1)
            values = python_values(Column(BOOLEAN if isinstance(call.kind, PLAIN) else bare_kind(call.kind), values), 1)[0]
            if new is not None:
                if new[0]:
                    return undefined_column(call.kind, count)
                new = None
        elif (codes := shared_codes(args)) is not None:
            values, new = act(call, [dictionary_values(arg) for arg in args], dictionary_size(args))
            values, new = DictionaryEncoded(codes, values), mask_of_rows(new, codes)
        else:
            values, new = act(call, [arg.values for arg in args], count)
        return Column(bare_kind(call.kind), values, None, either_mask(undefined, new))

    def choose(self, call: Call) -> Column:
        test, *sides = call.args
        condition = self.operand(test)
        then, otherwise = map(self.column, sides)
        columns = (condition, then, otherwise)
        codes = shared_codes(columns)
        if codes is None or any(x.valid is not None or x.undefined is not None for x in (then, otherwise)):
            return if_else(*columns, self.count)
        condition_, then_, otherwise_ = (Column(x.kind, dictionary_values(x)) for x in columns)
        return rows_of_dictionary(if_else(condition_, then_, otherwise_, dictionary_size(columns)), codes, condition.undefined)

    def operand(self, expr: Expr) -> Column:
        """An argument. In Python no operation on None has a value, except the comparison, which is ``is_null``."""
        column = self.column(expr)
        if column.kind is None:
            return undefined_column(None, self.count)
        if column.valid is None:
            return column
        return Column(column.kind, column.storage, None, either_mask(column.undefined, ~column.valid))

    def slice(self, call: Call) -> Column:
        text, *bounds = call.args
        column = self.operand(text)
        if not all(isinstance(bound, Const) and (bound.value is None or type(bound.value) is int) for bound in bounds):
            return undefined_column(call.kind, self.count)
        if not isinstance(column.kind, String):
            return undefined_column(call.kind, self.count)
        start, stop = [bound.value for bound in bounds if isinstance(bound, Const)]
        if column.scalar:
            return Column(column.kind, column.values[start:stop], None, column.undefined)
        first, last = [None if x is None else max(min(x, 2**31), -(2**31)) for x in (start, stop)]
        encoding = column.encoding
        part = pc.utf8_slice_codeunits(column.values if encoding is None else encoding.dictionary, start=first or 0, stop=last)
        return Column(column.kind, part if encoding is None else DictionaryEncoded(encoding.codes, part), None, column.undefined)

    def is_null(self, call: Call) -> Column:
        column = self.column(call.args[0])
        if column.valid is not None:
            return Column(BOOLEAN, ~column.valid, None, column.undefined)
        return Column(BOOLEAN, column.kind is None, None, column.undefined)

    def extreme(self, call: Call) -> Column:
        a, b = map(self.column, call.args)
        undefined = either_mask(a.undefined, b.undefined)
        if a.kind is None or b.kind is None:
            one = b if a.kind is None else a
            return Column(one.kind, one.storage, one.valid, undefined)
        if a.kind != b.kind:
            return undefined_column(call.kind, self.count)
        first, second = (full_values(x, self.count) for x in (a, b))
        wins = first < second if call.op is basic.LEAST else second < first
        if isinstance(a.kind, Float):
            wins |= np.isnan(first)
        if a.valid is not None:
            wins &= a.valid
        if b.valid is not None:
            wins |= ~b.valid
        valid = None if a.valid is None or b.valid is None else a.valid | b.valid
        return Column(a.kind, np.where(wins, first, second), valid, undefined)

    def table(self, call: Call) -> Column:
        (arg,), table = call.args, call.table
        key = self.operand(arg)
        undefined = key.undefined
        cache_key = (id(table), arg.path if isinstance(arg, Input) else id(arg))
        if isinstance(table, LookupTable):
            answers = self.ask(table, cache_key, key)
            if answers is None:
                return undefined_column(call.kind, self.count)
            index, entries = answers.index(key.kind), answers.entries
        else:
            same = ObjectKey(table)
            index, entries = index_of(same, key.kind), partial(entries_of, same)
        if index is None:
            return undefined_column(call.kind, self.count)
        if key.scalar:
            place = index.place(key.values)
            if call.op is basic.HAS:
                return Column(BOOLEAN, place < index.missing, None, undefined)
            if place == index.missing:
                return undefined_column(call.kind, self.count)
            part = entries(call.path, bare_kind(call.kind))
            one = take_column(part, np.array([place]))
            if one.undefined is not None and one.undefined[0]:
                return undefined_column(call.kind, self.count)
            return take_column(Column(one.kind, one.values, one.valid, undefined), np.zeros(self.count, np.int64))
        places_of = self.look(cache_key)
        if places_of is None:
            of_key = key.encoding
            texts = key.values if of_key is None else of_key.dictionary
            places = index.places(texts, len(texts))
            places_of = self.known[cache_key] = Column(
                INTEGER, places if of_key is None else DictionaryEncoded(of_key.codes, places)
            )
        encoding = places_of.encoding
        places = places_of.values if encoding is None else encoding.dictionary
        numbers = None
        if call.op is basic.HAS:
            rows = Column(BOOLEAN, places < index.missing)
        else:
            part = entries(call.path, bare_kind(call.kind))
            if isinstance(part.storage, pa.Array):
                numbers = None if isinstance(table, LookupTable) else numbers_of_entries(same, call.path, bare_kind(call.kind))
                if encoding is None and numbers is not None:
                    return rows_of_numbered(part, *numbers, places, undefined)
                if encoding is None and len(part.storage) <= self.count:
                    return rows_of_dictionary(part, places, undefined)
            rows = take_column(part, places)
        if encoding is None:
            return Column(rows.kind, rows.storage, rows.valid, either_mask(undefined, mask_of_rows(rows.undefined, None)))
        if numbers is not None:
            # A bound that counts the number of a missing key, where none is, would leave a group without rows.
            those = numbers[0].take(places)
            return rows_of_numbered(rows, those, int(those.max(initial=0)) + 1, encoding.codes, undefined)
        return rows_of_dictionary(rows, encoding.codes, undefined)

    def ask(self, table: LookupTable, known: Any, key: Column) -> LookupResults | None:
        """The answer of a table for a column of keys. The table is asked once for these rows and all parts of them.
        None if it fails: it will fail again in Python, which reports the error."""
        rows: Rows | None = self
        while rows is not None:
            if known in rows.answers:
                return rows.answers[known]
            rows = rows.parent
        try:
            answers = LookupResults(table.rows(distinct_keys(key)))
        except CodedError:
            return None
        self.answers[known] = answers
        return answers


FORMS: Final[Mapping[Operation, Callable[[Rows, Call], Column]]] = {
    basic.IF: Rows.choose,
    basic.IS_NULL: Rows.is_null,
    basic.LEAST: Rows.extreme,
    basic.GREATEST: Rows.extreme,
    basic.SLICE: Rows.slice,
    basic.HAS: Rows.table,
    basic.LOOKUP: Rows.table,
}
"""Operations that look at more than the values of their arguments. All others are in ``ACTS``."""
