"""Stateless operators on the way between two exchanges: as functions of an item, of many, and at a marker."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.plan.plan import StatelessStep
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.watch import Watches
from tracetypes.compiler.tracing.expr import Tree
from tracetypes.conformance import always_a_key, conform, conformer, has_floats, key_conformer, key_problem
from tracetypes.errors import LawBroken, OperatorFailed
from tracetypes.operator_calls import call_operator, emitted_wrongly, operator_failure
from tracetypes.record_classes import hold_only_fields
from tracetypes.records import (
    UINT_MAX,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    Mismatch,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    Unit,
    UnitValue,
    Unsigned,
    is_utf8,
)
from tracetypes.state_check import ran
from tracetypes.templates import OpStateless, overrides
from tracetypes.trace import StreamType

__all__ = [
    "Emit",
    "ItemPath",
    "Put",
    "batch_in_bulk",
    "checked_later",
    "columns_in_bulk",
    "conforming_emit",
    "exact_array",
    "exactly",
    "in_bulk",
    "stateless",
    "trees_of",
]

Emit: TypeAlias = Callable[[Any, Any], None]

Put: TypeAlias = Callable[[Any, Any, int, int], None]
"""Takes an item: its key, its value, the end of its block and its position."""


def conforming_emit(op: object, stream: StreamType, then: Emit) -> tuple[Emit, list[OperatorFailed]]:
    """An ``emit`` that makes what an operator emits fit its output type, and passes it on. Second: the errors of what did not
    fit. Who calls the operator raises the first one, because the author's code may have caught it, and the item would be lost."""
    refused: list[OperatorFailed] = []
    fit_key, fit_value, key_schema = key_conformer(stream.key), conformer(stream.value), stream.key

    def emit(key: Any, value: Any) -> None:
        try:
            fitted_key, fitted = fit_key(key), fit_value(value)
        except Mismatch as error:
            refused.append(emitted_wrongly(op, error, key, value))
            raise refused[-1] from None
        if problem := key_problem(key_schema, fitted_key):
            refused.append(emitted_wrongly(op, problem, key, value))
            raise refused[-1]
        then(fitted_key, fitted)

    def emit_sound(key: Any, value: Any) -> None:
        try:
            fitted_key, fitted = fit_key(key), fit_value(value)
        except Mismatch as error:
            refused.append(emitted_wrongly(op, error, key, value))
            raise refused[-1] from None
        then(fitted_key, fitted)

    emit.__qualname__ = emit_sound.__qualname__ = "emit"  # what authors call it, in the messages of Python
    return emit_sound if always_a_key(key_schema) else emit, refused


class Ahead:
    """Holds items back before an operator that wants a hint of them, ``prefetch``."""

    def __init__(self, op: OpStateless[Any, Any, Any, Any], then: Put) -> None:
        self.op, self.then = op, then
        self.items: list[tuple[Any, Any, int, int]] = []

    def put(self, key: Any, value: Any, end: int, position: int) -> None:
        """Take an item."""
        self.items.append((key, value, end, position))
        if len(self.items) >= limits.AHEAD:
            self.flush()

    def flush(self) -> None:
        """Give the hint, and pass the items on."""
        items = self.items
        if not items:
            return
        self.items = []
        self.hint(items)
        then = self.then
        for key, value, end, position in items:
            then(key, value, end, position)

    def hint(self, items: Sequence[tuple[Any, Any, int, int]]) -> None:
        """Tell the operator what is to come."""
        pairs = [(key, value) for key, value, _, _ in items]
        what = f"{len(pairs)} items, the first ({pairs[0][0]!r}, {pairs[0][1]!r})"
        call_operator(self.op, "prefetch", what, self.op.prefetch, pairs)


DEEP: Final = 64
"""Operators that call each other: three frames each, and more where they call functions of their own."""


@final
class RestingPlace(Ahead):
    """Where an item rests on a long path, so that the operators behind are not called by those before."""

    def put(self, key: Any, value: Any, end: int, position: int) -> None:
        """Take an item."""
        self.items.append((key, value, end, position))

    def hint(self, items: Sequence[tuple[Any, Any, int, int]]) -> None:
        """There is none to give."""


@final
class ItemPath:
    """The stateless operators of a path, for items that come one by one. ``put``: takes one."""

    def __init__(self, path: Sequence[StatelessStep], then: Put, watches: Watches | None = None) -> None:
        """``then``: takes what comes out. ``watches``: who checks the laws of the operators."""
        self._held: list[Ahead] = []
        """The last operator comes first."""
        self._landings: list[RestingPlace] = []
        for at in range(len(path) - 1, -1, -1):
            mapped = path[at]
            op = mapped.op
            watched = None if watches is None else watches.watch(op, mapped.takes, mapped.stream).one_by_one("on_item")
            then = stateless(mapped, then, watched)
            if overrides(op, "prefetch"):
                self._held.append(Ahead(op, then))
                then = self._held[-1].put
            if at and at % DEEP == 0:
                self._landings.append(RestingPlace(op, then))
                self._held.append(self._landings[-1])
                then = self._landings[-1].put
        self._first = then
        self.put: Put = self._put_on_long_path if self._landings else then

    def _put_on_long_path(self, key: Any, value: Any, end: int, position: int) -> None:
        self._first(key, value, end, position)
        for landing in reversed(self._landings):
            landing.flush()

    def flush(self) -> None:
        """Pass all on that is held back."""
        for one in reversed(self._held):
            one.flush()

    def drop(self) -> None:
        """Forget all that is held back."""
        for one in self._held:
            one.items = []


def stateless(mapped: StatelessStep, then: Put, watched: Callable[..., Any] | None = None) -> Put:
    """``on_item`` of an operator; what it raises says which item it was. What it emits has the item's block and position.
    ``watched``: checks its laws, too."""
    op = mapped.op
    on_item: Callable[..., Any] = watched or op.on_item
    block = place = 0

    def passed_on(key: Any, value: Any) -> None:
        then(key, value, block, place)

    emit, refused = conforming_emit(op, mapped.stream, passed_on)

    def put(key: Any, value: Any, end: int, position: int) -> None:
        nonlocal block, place
        block, place = end, position
        try:
            if (odd := on_item(key, value, emit)) is not None:
                ran(op, "on_item", key, odd)
            if refused:
                raise refused.pop()
        except (OperatorFailed, LawBroken):
            refused.clear()
            raise
        except Exception as error:
            refused.clear()
            raise operator_failure(op, "on_item", f"item ({key!r}, {value!r})", error) from error

    return put


def _all_at_once(
    mapped: StatelessStep, keys: list[Any], values: list[Any], *, counted: bool, watches: Watches | None
) -> tuple[list[Any], list[Any], Any] | None:
    """What an operator emits for items, and with ``counted`` how many pairs for each of them: without a look at single values,
    whose types are to be checked by the column.

    None where it raises; then the items are taken one by one, which finds out for which of them.
    """
    op = mapped.op
    out_keys: list[Any] = []
    out_values: list[Any] = []
    ends: list[int] = []
    add_key, add_value, add_end = out_keys.append, out_values.append, ends.append
    on_item: Callable[..., Any] = op.on_item
    if watches is not None:
        on_item = watches.watch(op, mapped.takes, mapped.stream).of(len(keys)).on_item

    def emit(key: Any, value: Any) -> None:
        add_key(key)
        add_value(value)

    try:
        if overrides(op, "prefetch"):
            for at in range(0, len(keys), limits.AHEAD):
                part = slice(at, at + limits.AHEAD)
                op.prefetch(list(zip(keys[part], values[part], strict=True)))
        if counted:
            for key, value in zip(keys, values, strict=True):
                if (odd := on_item(key, value, emit)) is not None:
                    ran(op, "on_item", key, odd)
                add_end(len(out_keys))
        else:
            for key, value in zip(keys, values, strict=True):
                if (odd := on_item(key, value, emit)) is not None:
                    ran(op, "on_item", key, odd)
    except LawBroken:
        raise
    except Exception:
        return None
    return out_keys, out_values, np.diff(np.array(ends, np.int64), prepend=0) if counted else None


def in_bulk(
    path: Sequence[StatelessStep],
    keys: list[Any],
    values: list[Any],
    *,
    counted: bool = True,
    watches: Watches | None = None,
) -> tuple[list[Any], list[Any], Any] | None:
    """What comes out of a path for items, all taken together: keys, values, and with ``counted`` the row that each came from.

    None where they have to be taken one by one.
    """
    origins = np.arange(len(keys)) if counted else None
    for mapped in path:
        if not _is_plain(mapped.stream.key):
            return None
        results = _all_at_once(mapped, keys, values, counted=counted, watches=watches)
        if results is None:
            return None
        keys, values, counts = results
        if not exactly(mapped.stream.key, keys) or not exactly(mapped.stream.value, values):
            return None
        origins = None if origins is None else np.repeat(origins, counts)
    return keys, values, origins


def columns_in_bulk(
    path: Sequence[StatelessStep], keys: list[Any], values: list[Any], *, counted: bool, watches: Watches | None = None
) -> tuple[Any, Any, Any] | None:
    """As :func:`in_bulk` of a path that is not empty, keys and values as Arrow arrays."""
    *first, last = path
    before = in_bulk(first, keys, values, counted=counted, watches=watches)
    if before is None or not _is_plain(last.stream.key):
        return None
    keys, values, origins = before
    results = _all_at_once(last, keys, values, counted=counted, watches=watches)
    if results is None:
        return None
    columns = exact_array(last.stream.key, results[0]), exact_array(last.stream.value, results[1])
    if columns[0] is None or columns[1] is None:
        return None
    return *columns, None if origins is None else np.repeat(origins, results[2])


def _is_plain(key: Schema) -> bool:
    """Are keys of a schema always sound, and never converted?"""
    return not isinstance(key, Optional | ListOf | OneOf) and not has_floats(key)


def batch_in_bulk(path: Sequence[StatelessStep], batch: Batch, watches: Watches | None = None) -> Batch | None:
    """What comes out of a path for items with their blocks and places, by :func:`in_bulk`."""
    results = in_bulk(path, batch.keys, batch.values, watches=watches)
    if results is None:
        return None
    keys, values, origins = results
    places = None if batch.positions is None else np.array(batch.positions, np.int64)[origins].tolist()
    return Batch(keys, values, np.array(batch.ends, np.int64)[origins].tolist(), places)


_EXACT_TYPES: dict[type[Any], type[Any]] = {
    Float: float,
    String: str,
    Boolean: bool,
    Bytes: bytes,
    UnitValue: Unit,
    Date: dt.date,
}


def exactly(schema: Schema, values: list[Any]) -> bool:
    """Do all values fit the schema as they are, so that nothing has to be converted? (False where that is not plain.)"""
    types = set(map(type, values))
    match schema:
        case Integer():
            return types <= {int} and _are_of_64_bits(values)
        case Unsigned():
            return types <= {int} and (not values or (min(values) >= 0 and max(values) <= UINT_MAX))
        case DecimalOf():
            return types <= {Decimal} and all(_as_it_is(schema, value) for value in values)
        case LiteralOf(item, allowed):
            return exactly(item, values) and set(values) <= set(allowed)
        case EnumOf(cls, _):
            return types <= {cls}
        case Float() | Boolean() | Bytes() | UnitValue() | Date():
            return types <= {_EXACT_TYPES[type(schema)]}
        case Timestamp():
            return types <= {dt.datetime} and all(value.tzinfo is dt.UTC for value in values)
        case String():
            return types <= {str} and is_utf8("".join(values))
        case Optional(item):
            return exactly(item, [value for value in values if value is not None])
        case Record(cls, fields):
            alone = types <= {cls} and hold_only_fields(cls, values)
            return alone and all(exactly(inner, list(map(attrgetter(name), values))) for name, inner in fields)
        case _:
            return False


def _are_of_64_bits(values: list[int]) -> bool:
    try:
        np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return False
    return True


def _as_it_is(schema: DecimalOf, value: Decimal) -> bool:
    try:
        return conform(schema, value, "") is value
    except Mismatch:
        return False


def exact_array(schema: Schema, values: list[Any]) -> Any:
    """The Arrow array of values that fit the schema as they are; None where :func:`exactly` is false."""
    if isinstance(schema, Integer) and set(map(type, values)) <= {int}:
        try:
            return pa.array(np.fromiter(values, np.int64, len(values)))
        except OverflowError:
            return None
    return array(schema, values) if exactly(schema, values) else None


def checked_later(schema: Schema) -> bool:
    """Does it make no difference whether values are looked at when they are emitted or later? So it is where they cannot
    change, and :func:`exactly` can tell of them."""
    match schema:
        case ListOf() | OneOf():
            return False
        case Optional(item):
            return checked_later(item)
        case Record(_, fields):
            return all(checked_later(inner) for _, inner in fields)
        case _:
            return True



def trees_of(path: Sequence[StatelessStep]) -> list[tuple[Tree, StreamType]] | None:
    """The traced operators of a path, each with the stream that it gives; None when one of them is opaque."""
    trees = [(mapped.traced, mapped.stream) for mapped in path if not isinstance(mapped.traced, Opaque)]
    return trees if len(trees) == len(path) else None
