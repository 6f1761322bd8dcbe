"""What is right: a function of a row as Python runs it, as the tracer says it, and over columns."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import attrs
import numpy as np

from tests.dictionaries import encoded
from tests.grammar.modules import imported
from tests.grammar.prelude import Out, Row
from tests.grammar.table import TABLE
from tests.grammar.writer import Production, Text
from tests.programs import inputs_of as scalars_of
from tests.programs import plain
from tracetypes.compiler.columns import evaluation
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.columns.column import Column, Columns, inputs_of, take
from tracetypes.compiler.columns.conversion import from_arrow, to_arrow, values_of
from tracetypes.compiler.runtime.flows import fit
from tracetypes.compiler.tracing import expr as meaning
from tracetypes.compiler.tracing.expr import Input, Tree, Undefined
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace
from tracetypes.conformance import conformer
from tracetypes.records import Mismatch, String, UnitValue
from tracetypes.schemas import schema_of

__all__ = ["LIMIT", "OUT", "ROW", "STRING", "Tally", "Wrong", "answers_of", "judge", "same", "source_of"]

ROW, OUT, STRING = schema_of(Row), schema_of(Out), String()
LIMIT: Final = 16
Gives: TypeAlias = Literal["body", "result"]

_fits: Final = conformer(OUT)


class Wrong(AssertionError):
    """An answer that is not Python's."""


@attrs.define
class Tally:
    """What became of programs."""

    programs: int = 0
    traced: int = 0
    refused: Counter[str] = attrs.Factory(Counter)
    wrong: int = 0
    rows: int = 0
    answered: int = 0
    emitting: int = 0
    left: int = 0
    used: set[Production] = attrs.Factory(set)
    reductions: Counter[tuple[str, str]] = attrs.Factory(Counter)

    first: int | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """``first``: the number of the first program that fails."""
        try:
            yield
        except Exception:
            self.first = self.first or self.programs
            raise

    def __str__(self) -> str:
        return (
            f"{self.programs:,} programs: {self.traced:,} traced, {sum(self.refused.values()):,} refused, {self.wrong} wrong; "
            f"{self.answered:,} of {self.rows:,} rows have a value, {self.left} programs are left to Python after all"
        )


def source_of(text: Text, gives: Gives) -> str:
    """A module of one program."""
    constants, _, body = text.source.partition("\n---\n")
    head = "def program(key, v, emit):\n" if gives == "body" else "def program(v):\n    key = v.s\n"
    return f"{constants}\n\n\n{head}    " + body.replace("\n", "\n    ") + "\n"


def answers_of(function: Callable[..., Any], gives: Gives, rows: Sequence[Row]) -> list[Any]:
    """What Python answers for each row, None where it raises or emits what does not fit."""
    found: list[Any] = []
    for row in rows:
        said: list[Any] = []
        try:
            if gives == "body":
                function("k", row, lambda key, value: said.append((key, _fits(value))))  # noqa: B023
                found.append(plain(said))
            else:
                found.append(plain(function(row)))
        except Exception:
            found.append(None)
    return found


@cache
def _columns(coded: int | None) -> Columns:
    """The table as columns; ``coded``: its text by entries."""
    table = array(ROW, list(TABLE))
    return from_arrow(ROW, table if coded is None else encoded(ROW, table, random.Random(coded)))


def inputs(places: Any, coded: int | None, name: str) -> Callable[[Input], Column]:
    """Inputs of some rows of the table."""
    return inputs_of({"key": Column(STRING, "k"), name: take(_columns(coded), np.array(places, np.int64))})


def judge(text: Text, gives: Gives, tally: Tally, *, repeat: int = 1, coded: int | None = None) -> None:
    """Compare Python, tree and columns on the table. ``repeat``: how often the rows come, as columns. Raises :class:`Wrong`."""
    source = source_of(text, gives)
    tally.used |= text.used
    with imported(source) as module:
        tally.programs += 1
        wanted = answers_of(module.program, gives, TABLE)
        name = "v" if gives == "body" else "value"
        row = Given(name, ROW)
        try:
            if gives == "body":
                tree = trace(module.program, (Given("key", STRING), row), emits="pairs", limit=LIMIT)
            else:
                tree = trace(module.program, (row,), emits=None, limit=LIMIT)
        except Untraceable as why:
            tally.refused[str(why)] += 1
            return
        tally.traced += 1
        try:
            _compare(tree, wanted, gives, name, tally, repeat, coded)
        except Wrong as wrong:
            tally.wrong += 1
            raise Wrong(f"{wrong}\n{source}") from None


def _compare(
    tree: Tree, wanted: list[Any], gives: Gives, name: str, tally: Tally, repeat: int, coded: int | None
) -> None:
    kept: list[int] = []
    first: int | None = None
    emitting = False
    for place, (row, right) in enumerate(zip(TABLE, wanted, strict=True)):
        tally.rows += right is not None
        try:
            emitted, result = meaning.run(tree, scalars_of(**{"key": "k", name: row}))
        except Undefined:
            first = place if first is None else first
            continue
        kept.append(place)
        same("the tree", place, right, emitted if gives == "body" else result, gives)
        tally.answered += right is not None
        emitting |= bool(emitted)
    tally.emitting += emitting
    if first is not None:
        try:
            evaluation.run(tree, inputs(range(len(TABLE)), coded, name), len(TABLE))
        except Undefined as error:
            if error.args != (first,):
                raise Wrong(f"columns have no value for row {error.args}, it is {first}") from None
        else:
            raise Wrong(f"columns have a value for row {first}: {TABLE[first]}")
    places = kept * repeat
    if not places:
        return
    try:
        ran = evaluation.run(tree, inputs(places, coded, name), len(places))
        results = _emitted(ran, len(places)) if gives == "body" else _returned(ran, len(places))
    except Undefined:
        tally.left += 1
        return
    for place, result in zip(places, results, strict=True):
        same("columns", place, wanted[place], result, gives)


def _emitted(ran: Any, count: int) -> list[Any]:
    """What each row emits, through the columns that travel. Raises ``Undefined`` for what is left to Python."""
    emissions: list[dict[int, list[Any]]] = [{} for _ in range(count)]
    for one in ran.emissions:
        at = range(count) if one.rows is None else one.rows.tolist()
        keys = from_array(STRING, to_arrow(STRING, fit(STRING, one.key), len(at)))
        values = from_array(OUT, to_arrow(OUT, fit(OUT, one.value), len(at)))
        for place, key, value in zip(at, keys, values, strict=True):
            emissions[place].setdefault(one.number, []).append((key, value))
    return [[pair for number in sorted(of_row) for pair in of_row[number]] for of_row in emissions]


def _returned(ran: Any, count: int) -> list[Any]:
    if ran.result is None:
        return [None] * count
    if any(isinstance(part.kind, UnitValue) for part in _parts(ran.result)):  # a record that nobody looked into
        raise Undefined
    return values_of(ran.result, count)


def _parts(columns: Columns) -> Iterator[Column]:
    if isinstance(columns, Column):
        yield columns
    else:
        for part in columns.parts:
            if part is not None:
                yield from _parts(part)


def same(who: str, place: int, right: Any, given: Any, gives: Gives) -> None:
    """Raise :class:`Wrong` unless what was given for a row of the table is Python's answer, ``right``."""
    try:
        found = plain([(key, _fits(value)) for key, value in given] if gives == "body" else given)
    except Mismatch:
        found = None
    if found != right:
        raise Wrong(f"{who}: {found}\nPython: {right}\nfor {TABLE[place]}")
