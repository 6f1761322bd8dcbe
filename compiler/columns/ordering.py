"""Items by key and in order: the input of keyed operators of a stage, and SORT over many blocks at once.

:func:`tracetypes.interpreter.sort_order` defines the order: by the place of the result of ``by``, then by the canonical
order of the value. Here ``by`` is called once for each item, its results become columns, and the canonical order is
compared among ties only. If columns cannot express the order, :class:`Undefined` is raised, and the items are sorted by
the definition.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, repeat
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.canonical import canonical
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.columns.column import Column, Columns, Struct, take_column
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.groups import groups_of
from tracetypes.compiler.columns.members import members_of
from tracetypes.compiler.columns.sorting import SortKey, sorted_rows
from tracetypes.compiler.tracing.expr import Exact, Undefined
from tracetypes.conformance import micros_of
from tracetypes.nodes import Sort
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    Boolean,
    Bytes,
    Date,
    Float,
    Integer,
    OneOf,
    Schema,
    String,
    Timestamp,
    UnitValue,
)
from tracetypes.sort_keys import Desc

__all__ = [
    "Pairs",
    "Runs",
    "Sorter",
    "array_of_runs",
    "canonical_columns",
    "codes_of",
    "codes_of_objects",
    "place_columns",
    "ranks",
]


@attrs.define(eq=False)
class Runs:
    """Items by key. ``keys``: each once. ``counts``: the number of values of each key, at least one. ``values``: those
    of the first key in their order, then those of the second, and so on."""

    keys: list[Any]
    counts: list[int]
    values: list[Any]

    def by_key(self) -> Runs:
        """Returns itself."""
        return self

    @classmethod
    def of(cls, keys: Iterable[Any], values: Iterable[Any]) -> Runs:
        """Items that come one by one, each with its key."""
        by_key: dict[Any, list[Any]] = {}
        for key, value in zip(keys, values, strict=True):
            by_key.setdefault(key, []).append(value)
        return cls(list(by_key), list(map(len, by_key.values())), list(chain.from_iterable(by_key.values())))

    def runs(self) -> Iterator[tuple[Any, list[Any]]]:
        """Each key with its values."""
        start = 0
        for key, count in zip(self.keys, self.counts, strict=True):
            yield key, self.values[start : start + count]
            start += count

    def key_of_each(self) -> list[Any]:
        """The key of each value."""
        return list(chain.from_iterable(map(repeat, self.keys, self.counts)))

    def followed_by(self, more: Runs) -> Runs:
        """For each key first the values here, then those of ``more``."""
        if not self.keys or not more.keys:
            return self if self.keys else more
        both = dict(self.runs())
        for key, values in more.runs():
            both.setdefault(key, []).extend(values)
        return Runs(list(both), list(map(len, both.values())), list(chain.from_iterable(both.values())))

    def places(self) -> Any:
        """The place of each value among those of its key, from 0."""
        counts = np.array(self.counts, np.int64)
        return np.arange(len(self.values)) - np.repeat(np.cumsum(counts) - counts, counts)


@attrs.define(eq=False)
class Pairs:
    """Items in no order: a key for each value."""

    keys: list[Any]
    values: list[Any]

    def by_key(self) -> Runs:
        """The items by key; those of one key keep their order."""
        return Runs.of(self.keys, self.values)

    def key_of_each(self) -> list[Any]:
        """The key of each value."""
        return self.keys


def array_of_runs(schema: Schema, values: Sequence[Any]) -> Any:
    """Values as an Arrow array, of which neighbours are often the same object, as the keys of an ordered stream are: each run is
    converted once."""
    same = np.fromiter(map(id, values), np.uint64, len(values))
    starts = np.concatenate(([0], np.flatnonzero(same[1:] != same[:-1]) + 1))
    if 4 * len(starts) > len(values):
        return array(schema, values)
    runs = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    return array(schema, [values[start] for start in starts.tolist()]).take(pa.array(runs))


class Sorter:
    """The order of a SORT, for the items of many keys at once."""

    def __init__(self, node: Sort, value: Schema) -> None:
        self.by, self.value, self.whole = node.by, value, canonical(value)

    def rows(self, codes: Sequence[Any], values: list[Any], column: Callable[[], Any]) -> Any:
        """The rows (int64) by ``codes`` (int64 columns, the first one counts most), then in the order of the SORT.

        ``column``: a function that returns the values as an Arrow array, called if there are ties. Raises
        :class:`Undefined`.
        """
        try:
            positions = list(map(self.by, values))
        except Exception:
            raise Undefined(0) from None  # who sorts them one by one finds out which
        return sorted_rows(self._keys([*codes, *_columns_of(positions)], values, column), len(values))

    def rows_of_columns(self, codes: Sequence[Any], place: Columns, values: Columns) -> Any:
        """:meth:`rows` for values as columns. ``place``: what ``by`` gives for them. Raises :class:`Undefined`, also for NaN."""
        places = place_columns(place)
        if any(len(one) and (one.max() == INT_MAX or one.min() == INT_MIN) for one in places):
            raise Undefined(0)  # NaN, which the definition refuses, or an integer that looks like it
        return sorted_rows(chain(map(SortKey.column, [*codes, *places]), _later(values)), len(codes[0]))

    def _keys(self, columns: list[Any], values: list[Any], column: Callable[[], Any]) -> Iterator[SortKey]:
        """Columns, then the canonical order of values."""
        yield from map(SortKey.column, columns)
        try:
            keys = canonical_keys(from_arrow(self.value, column()))
        except Undefined:
            keys = [SortKey(partial(self._ranks, values), dear=True)]
        yield from keys

    def _ranks(self, values: list[Any], rows: Any, group: Any) -> Any:
        """Numbers in the canonical order of some values, group by group."""
        rows = np.arange(len(values)) if rows is None else rows
        groups = repeat(0) if group is None else group.tolist()
        places = list(zip(groups, map(self.whole, map(values.__getitem__, rows.tolist())), strict=False))
        return _numbers_in_order(places)


def _numbers_in_order(places: Sequence[Any]) -> Any:
    """Numbers (int64) in the order of places, the same for equal ones."""
    order = sorted(range(len(places)), key=places.__getitem__)
    numbers = np.zeros(len(places), np.int64)
    if order:
        numbers[order] = np.cumsum([False, *(places[one] != places[other] for one, other in pairwise(order))])
    return numbers


def _later(values: Columns) -> Iterator[SortKey]:
    """:func:`canonical_keys`, made when the first one is asked for. They are read for rows that are tied, and for no others."""
    for at, key in enumerate(canonical_keys(values)):
        yield attrs.evolve(key, dear=True) if not at else key


# ------------------------------------------------------------------------------------------------- columns to sort by


def _columns_of(positions: list[Any]) -> list[Any]:
    """Columns that order what ``by`` gave, and tell apart what is not equal. Raises :class:`Undefined` for all but values
    of one plain type, or tuples and ``desc`` of these, each of which has a place in the order."""
    types = set(map(type, positions))
    if len(types) != 1:
        raise Undefined(0)
    (kind,) = types
    if kind is tuple:
        if len(set(map(len, positions))) != 1 or not positions[0]:
            raise Undefined(0)
        return [one for part in zip(*positions, strict=True) for one in _columns_of(list(part))]
    if kind is Desc:
        return [~one for one in _columns_of([one.value for one in positions])]
    try:
        if kind is int or kind is bool:
            return [np.array(positions, np.int64)]
        if kind is str or kind is bytes:
            return [ranks(pa.array(positions))]
    except (OverflowError, UnicodeEncodeError):
        raise Undefined(0) from None
    if kind is float:
        numbers = np.array(positions, np.float64)
        if not np.isnan(numbers).any():
            return [_float_order(numbers + 0.0)]
    elif kind is dt.datetime and all(time.tzinfo is dt.UTC for time in positions):
        return [np.array(list(map(micros_of, positions)), np.int64)]
    elif kind is dt.date:
        return [np.array([day.toordinal() for day in positions], np.int64)]
    raise Undefined(0)


def ranks(texts: Any) -> Any:
    """Numbers in the order of texts or bytes. UTF-8 has the order of the characters."""
    if pa.types.is_dictionary(texts.type):
        texts = texts.cast(texts.type.value_type)
    encoded = texts.dictionary_encode(null_encoding="encode")
    places = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy().astype(np.int64)
    return places[encoded.indices.to_numpy()]


def place_columns(columns: Columns) -> list[Any]:
    """Columns (int64) that order rows as :func:`tracetypes.sort_keys.sort_key` does, with NaN after all other numbers.
    A value that is one for all rows needs none. Raises :class:`Undefined` for what has no place."""
    if isinstance(columns, Struct):
        if columns.cls not in (tuple, Desc) or columns.valid is not None:
            raise Undefined(0)
        columns_of_parts = [one for part in columns.read for one in place_columns(part)]
        return [~one for one in columns_of_parts] if columns.cls is Desc else columns_of_parts
    if columns.valid is not None:
        raise Undefined(0)
    match columns.kind:
        case Boolean() | Integer() | Float() | String() | Bytes() | Timestamp() | Date() if columns.scalar:
            return []
        case Boolean() | Integer() | Timestamp() | Date():
            return [columns.values.astype(np.int64)]
        case Float():
            return [_float_order(columns.values + 0.0)]
        case String() | Bytes():
            return [ranks(columns.values)]
        case _:
            raise Undefined(0)


def canonical_columns(columns: Columns) -> list[Any]:
    """Columns that order rows as :func:`tracetypes.canonical.canonical` orders their values. Raises :class:`Undefined` for
    schemas that have none."""
    return [key.of(None, None) for key in canonical_keys(columns)]


def canonical_keys(columns: Columns) -> list[SortKey]:
    """:func:`canonical_columns`, of which only the rows are read that are asked for."""
    if isinstance(columns, Struct):
        keys = [key for part in columns.read for key in canonical_keys(part)]
    elif columns.scalar or isinstance(columns.kind, UnitValue):
        keys = []
    elif isinstance(columns.kind, OneOf) and columns.valid is None:
        keys = _keys_of_members(columns.kind, columns)
    else:
        match columns.kind:
            case Integer() | Timestamp() | Date() | Boolean():
                keys = [_numbers(columns, _integers)]
            case Float():
                keys = [_numbers(columns, _float_order)]
            case String() | Bytes():
                keys = [SortKey(partial(_text_ranks, columns), dear=True)]
            case Exact() | None:
                raise Undefined(0)
            case kind:
                keys = [SortKey(partial(_value_ranks, kind, columns), dear=True)]
    if columns.valid is None:
        return keys
    valid = columns.valid
    return [SortKey.column(valid.astype(np.int64)), *(_masked(valid, key) for key in keys)]


def _numbers(column: Column, numbers: Callable[[Any], Any]) -> SortKey:
    """``numbers``: a function from values to int64 numbers in their order."""
    return SortKey(lambda rows, group: numbers((column if rows is None else take_column(column, rows)).values))


def _text_ranks(column: Column, rows: Any, group: Any) -> Any:
    """The ranks of texts. Where all of a group are equal, as those of keys are, they are one number."""
    texts = (column if rows is None else take_column(column, rows)).values
    if group is not None:
        same = pc.equal(texts[1:], texts[:-1]).to_numpy(zero_copy_only=False)
        if same[group[1:] == group[:-1]].all():
            return np.zeros(len(texts), np.int64)
    return ranks(texts)


def _value_ranks(kind: Schema, column: Column, rows: Any, group: Any) -> Any:
    """The ranks of values that are no scalars, such as lists, one by one; 0 for those that are missing."""
    some = column if rows is None else take_column(column, rows)
    present = np.arange(len(some.values)) if some.valid is None else np.flatnonzero(some.valid)
    values = values_of(attrs.evolve(take_column(some, present), valid=None), len(present))
    numbers = np.zeros(len(some.values), np.int64)
    numbers[present] = _numbers_in_order(list(map(canonical(kind), values)))
    return numbers


def _masked(valid: Any, key: SortKey) -> SortKey:
    """A column that has no order among missing rows."""
    return SortKey(lambda rows, group: np.where(valid if rows is None else valid[rows], key.of(rows, group), 0), key.dear)


def _integers(values: Any) -> Any:
    return values.astype(np.int64, copy=False)


def _keys_of_members(kind: OneOf, column: Column) -> list[SortKey]:
    """The same for a union: by member first."""
    count = len(column.storage)
    which, places = np.zeros(count, np.int64), np.zeros(count, np.int64)
    keys = [SortKey.column(which)]
    for at, member in enumerate(members_of(kind, column, count)):
        which[member.rows] = at
        places[member.rows] = np.arange(len(member.rows))
        keys += [_of_member(which, places, at, key) for key in canonical_keys(member.columns)]
    return keys


def _of_member(which: Any, places: Any, at: int, key: SortKey) -> SortKey:
    """A column of one member as a column of the union: all other rows are equal there. ``which``: the member of each row;
    ``places``: its place among those of its member (both int64)."""

    def numbers(rows: Any, group: Any) -> Any:
        mine = np.flatnonzero((which if rows is None else which[rows]) == at)
        among = places[mine if rows is None else rows[mine]]
        found = np.zeros(len(which) if rows is None else len(rows), np.int64)
        if len(mine):
            found[mine] = key.of(among, None if group is None else group[mine])
        return found

    return SortKey(numbers, key.dear)


def _float_order(values: Any) -> Any:
    """:func:`tracetypes.canonical.float_order`, but for NaN, which gets the largest 64-bit integer."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(np.isnan(values), INT_MAX, np.where(bits >= 0, bits, ~(bits & INT_MAX)))


# ------------------------------------------------------------------------------------------------- keys as numbers


def codes_of(schema: Schema, keys: Any) -> Any:
    """A number (int64) for each row of an Arrow array of keys, the same for equal keys."""
    try:
        return groups_of(from_arrow(schema, keys), len(keys)).of_row.astype(np.int64, copy=False)
    except Undefined:
        return codes_of_objects(from_array(schema, keys))


def codes_of_objects(keys: list[Any]) -> Any:
    """:func:`codes_of` for a list."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
