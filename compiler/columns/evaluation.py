"""Expressions over columns, with numpy and Arrow: what :mod:`tracetypes.compiler.tracing.expr` defines, many rows a call.

Nothing here gives another value than Python would. Where an expression has none (:class:`Undefined`), or where these columns
cannot tell, :func:`evaluate` and :func:`run` raise ``Undefined`` with the number of the first such row, and the caller runs
the batch in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.asked import LookupTable
from tracetypes.compiler.columns.answers import Answers, distinct
from tracetypes.compiler.columns.arrow import never_refuses
from tracetypes.compiler.columns.choice import by_condition, constant_column, undefined_column
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
    merged_columns,
    take_column,
)
from tracetypes.compiler.columns.conversion import python_values, values_of
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.entries import entry_count, mask_of_rows, of_entries, of_rows, shared_codes
from tracetypes.compiler.columns.lookup_tables import entries_of, index_of
from tracetypes.compiler.columns.operations import ACTS, OF_ONE_KIND
from tracetypes.compiler.tracing.expr import (
    Branch,
    Call,
    Const,
    Expr,
    Input,
    Leaf,
    Pack,
    Tree,
    Undefined,
    Value,
)
from tracetypes.compiler.tracing.identity import Same
from tracetypes.errors import CodedError
from tracetypes.records import Boolean, Float, Record, String

__all__ = ["Emitted", "Ran", "evaluate", "returned", "run"]


@final
@attrs.frozen(eq=False)
class Emitted:
    """What one call of ``emit`` emitted. ``rows``: int64, which rows came there, ascending, None for all; ``number``: which
    emission of its row it is. The columns are as long as ``rows``."""

    rows: Any
    number: int
    key: Columns | None
    value: Columns


@final
@attrs.frozen(eq=False)
class Ran:
    """What a tree did: its emissions, and what it returned for each row (None when it returns nothing)."""

    emissions: tuple[Emitted, ...]
    result: Columns | None


def evaluate(value: Value, inputs: Callable[[Input], Column], count: int) -> Columns:
    """The columns of ``value`` for ``count`` rows. Raises ``Undefined`` with the number of the first row that has none."""
    with np.errstate(all="ignore"):
        run = _Run(inputs)
        made = _Rows(run, count, None, None, None).columns(value)
        run.settle()
        return made


def run(tree: Tree, inputs: Callable[[Input], Column], count: int) -> Ran:
    """What the tree does with ``count`` rows. Each condition and leaf sees only the rows that come to it.

    Raises ``Undefined`` with the number of the first row for which a condition or a leaf has no value.
    """
    with np.errstate(all="ignore"):
        run = _Run(inputs)
        leaves: list[tuple[Leaf, _Rows]] = []
        _walk(tree, _Rows(run, count, None, None, None), leaves)
        emissions = []
        results: list[tuple[Leaf, Columns | None, Any, int]] = []
        for leaf, rows in leaves:
            if not rows.count:
                continue
            if leaf.raises:
                run.undefined(rows.number(0))
                continue
            for number, emission in enumerate(leaf.emissions):
                key = None if emission.key is None else rows.columns(emission.key)
                emissions.append(Emitted(rows.absolute, number, key, rows.columns(emission.value)))
            made = None if leaf.result is None else rows.columns(leaf.result)
            results.append((leaf, made, rows.absolute, rows.count))
        run.settle()
    if all(leaf.result is None for leaf, _ in leaves):
        return Ran(tuple(emissions), None)
    if not results:
        first = next(leaf.result for leaf, _ in leaves if leaf.result is not None)
        return Ran((), evaluate(first, inputs, 0))
    if len(results) == 1:
        return Ran(tuple(emissions), results[0][1] or Column(None, None))
    parts = [(Column(None, None) if made is None else made, at) for _, made, at, _ in results]
    return Ran(tuple(emissions), merged_columns(parts, count))


def returned(tree: Tree, inputs: Callable[[Input], Column], count: int) -> Columns:
    """What a tree returns for each row. Raises :class:`Undefined` as :func:`run`."""
    result = run(tree, inputs, count).result
    if result is None:
        raise TypeError("the tree returns nothing")
    return result


def _walk(tree: Tree, rows: _Rows, leaves: list[tuple[Leaf, _Rows]]) -> None:
    while isinstance(tree, Branch):
        column = rows.checked(tree.condition)
        if tree.then is tree.otherwise:  # asked only whether it has a value
            tree = tree.then
            continue
        if column.scalar:
            tree = tree.then if column.values is True else tree.otherwise
            if not isinstance(column.values, bool):
                rows.run.undefined(rows.number(0))
                return
            continue
        chosen = column.values
        if not isinstance(column.kind, Boolean):
            rows.run.undefined(rows.number(0))
            return
        yes = np.flatnonzero(chosen)
        if len(yes) == rows.count:
            tree = tree.then
            continue
        if not len(yes):
            tree = tree.otherwise
            continue
        _walk(tree.then, rows.part(yes), leaves)
        rows, tree = rows.part(np.flatnonzero(~chosen)), tree.otherwise
    leaves.append((tree, rows))


class _Run:
    """Inputs by path, and the first row that was found undefined."""

    __slots__ = ("first", "inputs")

    def __init__(self, inputs: Callable[[Input], Column]) -> None:
        self.inputs = inputs
        self.first: int | None = None

    def undefined(self, row: int) -> None:
        if self.first is None or row < self.first:
            self.first = row

    def settle(self) -> None:
        if self.first is not None:
            raise Undefined(self.first)


class _Rows:
    """Some of the rows, and what has been computed for them."""

    __slots__ = ("absolute", "asked", "codes", "count", "given", "known", "parent", "run", "within")

    def __init__(self, run: _Run, count: int, parent: _Rows | None, within: Any, absolute: Any) -> None:
        self.run, self.count, self.parent = run, count, parent
        self.within, self.absolute = within, absolute
        self.known: dict[Any, Column] = {}
        self.given: dict[tuple[str | int, ...], Column] = {}
        self.codes: dict[int, tuple[Any, Any]] = {}
        self.asked: dict[Any, Answers] = {}

    def part(self, within: Any) -> _Rows:
        absolute = within if self.absolute is None else self.absolute[within]
        return _Rows(self.run, len(within), self, within, absolute)

    def number(self, row: int) -> int:
        return row if self.absolute is None else int(self.absolute[row])

    def columns(self, value: Value) -> Columns:
        """What is handed out: undefined rows are noted."""
        if isinstance(value, Pack):
            made = Struct(value.cls, value.names, tuple(self.columns(part) for part in value.parts))
            if value.cls is not tuple and not never_refuses(Record(value.cls, ())):
                self.construct(made)
            return made
        return self.checked(value)

    def construct(self, struct: Struct) -> None:
        """Rows for which a class with code of its own refuses the fields, or changes them, have no value here."""
        if self.run.first is not None:
            return
        fields = [values_of(part, self.count) for part in struct.parts if part is not None]
        for number, row in enumerate(zip(*fields, strict=True)):
            try:
                made = struct.cls(**dict(zip(struct.names, row, strict=True)))
                same = all(getattr(made, name) is value for name, value in zip(struct.names, row, strict=True))
            except Exception:  # the author's own
                same = False
            if not same:
                self.run.undefined(self.number(number))
                return

    def checked(self, expr: Expr) -> Column:
        column = self.column(expr)
        if column.undefined is None:
            return column
        if column.undefined.any():
            self.run.undefined(self.number(int(np.argmax(column.undefined))))
        return Column(column.kind, column.held, column.valid)

    def column(self, expr: Expr) -> Column:
        if isinstance(expr, Input):
            return self.input(expr)
        key = id(expr)
        found = self.look(key)
        if found is None:
            found = self.known[key] = constant_column(expr, self.count) if isinstance(expr, Const) else self.call(expr)
        return found

    def input(self, expr: Input) -> Column:
        found = self.given.get(expr.path)
        if found is None:
            found = self.run.inputs(expr) if self.parent is None else self.taken(self.parent.input(expr))
            self.given[expr.path] = found
        return found

    def look(self, key: Any) -> Column | None:
        """What was computed here, or for more rows than these."""
        found = self.known.get(key)
        if found is None and self.parent is not None:
            found = self.parent.look(key)
            if found is not None:
                found = self.known[key] = self.taken(found)
        return found

    def taken(self, column: Column) -> Column:
        """A column of the parent for these rows. Columns that share their codes go on to share them."""
        held = column.held
        if not isinstance(held, DictionaryEncoded):
            return take_column(column, self.within)
        if id(held.codes) not in self.codes:
            self.codes[id(held.codes)] = held.codes, held.codes[self.within]
        _, codes = self.codes[id(held.codes)]
        rest = take_column(Column(column.kind, None, column.valid, column.undefined), self.within)
        return Column(column.kind, DictionaryEncoded(codes, held.entries), rest.valid, rest.undefined)

    def call(self, call: Call) -> Column:
        op = call.op
        if op == "is_null":
            return self.is_null(call)
        if op in ("least", "greatest"):
            return self.extreme(call)
        if op == "slice":
            return self.slice(call)
        if op == "if":
            condition, then, otherwise = call.args
            return self.choose(self.operand(condition), self.column(then), self.column(otherwise))
        args = [self.operand(arg) for arg in call.args]
        undefined = None
        alone = True
        for arg in args:
            if arg.undefined is not None:
                undefined = either_mask(undefined, arg.undefined)
            alone = alone and arg.scalar
        if call.table is not None:
            return self.table(call, args[0], undefined)
        first = args[0].kind
        act = ACTS.get((op, type(first))) or ACTS.get((op, None))
        if act is None or (op in OF_ONE_KIND and any(type(arg.kind) is not type(first) for arg in args)):
            return undefined_column(call.kind, self.count)
        count = self.count
        if alone:
            # Computed once, in a column of one row.
            values, new = act(call, [full_values(arg, 1) for arg in args], 1)
            values = python_values(
                Column(BOOLEAN if isinstance(call.kind, PLAIN) else bare_kind(call.kind), values), 1
            )[0]
            if new is not None:
                if new[0]:
                    return undefined_column(call.kind, count)
                new = None
        elif (codes := shared_codes(args)) is not None:
            values, new = act(call, [of_entries(arg) for arg in args], entry_count(args))
            values, new = DictionaryEncoded(codes, values), mask_of_rows(new, codes)
        else:
            values, new = act(call, [arg.values for arg in args], count)
        return Column(bare_kind(call.kind), values, None, either_mask(undefined, new))

    def choose(self, condition: Column, then: Column, otherwise: Column) -> Column:
        columns = (condition, then, otherwise)
        codes = shared_codes(columns)
        if codes is None or any(x.valid is not None or x.undefined is not None for x in (then, otherwise)):
            return by_condition(*columns, self.count)
        condition_, then_, otherwise_ = (Column(x.kind, of_entries(x)) for x in columns)
        return of_rows(by_condition(condition_, then_, otherwise_, entry_count(columns)), codes, condition.undefined)

    def operand(self, expr: Expr) -> Column:
        """An argument: Python has no value for an operation on None, but comparing it, which is ``is_null``."""
        column = self.column(expr)
        if column.kind is None:
            return undefined_column(None, self.count)
        if column.valid is None:
            return column
        return Column(column.kind, column.held, None, either_mask(column.undefined, ~column.valid))

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
        coded = column.coded
        made = pc.utf8_slice_codeunits(column.values if coded is None else coded.entries, start=first or 0, stop=last)
        return Column(
            column.kind, made if coded is None else DictionaryEncoded(coded.codes, made), None, column.undefined
        )

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
            return Column(one.kind, one.held, one.valid, undefined)
        if a.kind != b.kind:
            return undefined_column(call.kind, self.count)
        first, second = (full_values(x, self.count) for x in (a, b))
        wins = first < second if call.op == "least" else second < first
        if isinstance(a.kind, Float):
            wins |= np.isnan(first)
        if a.valid is not None:
            wins &= a.valid
        if b.valid is not None:
            wins |= ~b.valid
        valid = None if a.valid is None or b.valid is None else a.valid | b.valid
        return Column(a.kind, np.where(wins, first, second), valid, undefined)

    def table(self, call: Call, key: Column, undefined: Any) -> Column:
        assert call.table is not None
        arg = call.args[0]
        known = (id(call.table), arg.path if isinstance(arg, Input) else id(arg))
        if isinstance(call.table, LookupTable):
            answers = self.answers(call.table, known, key)
            if answers is None:
                return undefined_column(call.kind, self.count)
            index, entries = answers.index(key.kind), answers.entries
        else:
            index, entries = index_of(Same(call.table), key.kind), partial(entries_of, Same(call.table))
        if index is None:
            return undefined_column(call.kind, self.count)
        if key.scalar:
            place = index.place(key.values)
            if call.op == "has":
                return Column(BOOLEAN, place < index.missing, None, undefined)
            if place == index.missing:
                return undefined_column(call.kind, self.count)
            part = entries(call.path, bare_kind(call.kind))
            one = take_column(part, np.array([place]))
            if one.undefined is not None and one.undefined[0]:
                return undefined_column(call.kind, self.count)
            return take_column(Column(one.kind, one.values, one.valid, undefined), np.zeros(self.count, np.int64))
        found = self.look(known)
        if found is None:
            held = key.coded
            texts = key.values if held is None else held.entries
            places = index.places(texts, len(texts))
            found = self.known[known] = Column(
                INTEGER, places if held is None else DictionaryEncoded(held.codes, places)
            )
        coded = found.coded
        places = found.values if coded is None else coded.entries
        if call.op == "has":
            made = Column(BOOLEAN, places < index.missing)
        else:
            part = entries(call.path, bare_kind(call.kind))
            if coded is None and isinstance(part.held, pa.Array) and len(part.held) <= self.count:
                return of_rows(part, places, undefined)
            made = take_column(part, places)
        if coded is None:
            return Column(made.kind, made.held, made.valid, either_mask(undefined, mask_of_rows(made.undefined, None)))
        return of_rows(made, coded.codes, undefined)

    def answers(self, table: LookupTable, known: Any, key: Column) -> Answers | None:
        """What a table says of a column of keys, asked once for these rows and all parts of them. None where it fails: it
        will fail again in Python, and be told of there."""
        rows: _Rows | None = self
        while rows is not None:
            if known in rows.asked:
                return rows.asked[known]
            rows = rows.parent
        try:
            made = Answers(table.rows(distinct(key)))
        except CodedError:
            return None
        self.asked[known] = made
        return made
