"""Results of aggregates that keep many values, for the items of many blocks and keys at once, by columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.choices import TracedChoice
from tracetypes.compiler.analysis.summaries import ClosingPart, TracedPart, leaves_some
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values, take
from tracetypes.compiler.columns.conversion import to_arrow, values_of
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.groups import Groups, codes_of, groups_of
from tracetypes.compiler.columns.ordering import canonical_keys, place_columns
from tracetypes.compiler.columns.runs import Numbers
from tracetypes.compiler.columns.sorting import SortKey, sorted_rows
from tracetypes.compiler.runtime.choosing import (
    SeenChoice,
    of_rows,
    one_row_each,
    rows_needed,
    rows_where,
    with_one_each,
)
from tracetypes.compiler.runtime.clusters import clusters_by_group
from tracetypes.compiler.runtime.flows import KeyedFlow
from tracetypes.compiler.runtime.partial_aggregation import part_of, reduced_in_order, structured
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.records import Float, Integer
from tracetypes.summaries import (
    Clustering,
    Distinct,
    ExactRanks,
    Listing,
    OfAggregate,
    OfBag,
    Ranking,
    Registers,
    ValuesOfRanks,
)

__all__ = ["bucket_count", "elements_of", "needed_rows", "results_of"]

CHUNK: Final = 1 << 13
"""Groups whose registers are counted at once."""

RANK: Final = 6
"""Bits of a rank behind the number of its register."""

SMALL: Final = 16
"""Items of a key and block as columns for each aggregate as an object."""

INFINITE: Final = 2100
"""The bucket of infinity, in powers of two."""


@attrs.frozen(eq=False)
class _Bags:
    """The items that count, by group: ``flow``, which are ``rows`` (int64) of the ``whole``. A group may have none. ``seen`` sees
    what is ranks of them."""

    rows: Any
    whole: KeyedFlow
    flow: KeyedFlow
    groups: Groups
    seen: SeenChoice | None

    @classmethod
    def of(cls, part: TracedPart, flow: KeyedFlow, groups: Groups, seen: SeenChoice | None = None) -> _Bags:
        if part.where is None or part.part.where is None:
            return cls(np.arange(flow.count), flow, flow, groups, seen)
        rows = rows_where(part.part.where, part.where, flow.inputs, flow.count, seen)
        of_row = groups.of_row[rows]
        some = KeyedFlow.of(take(flow.key, rows), take(flow.value, rows), len(rows))
        return cls(rows, flow, some, Groups(of_row, np.bincount(of_row, minlength=groups.number)), seen)

    @property
    def count(self) -> int:
        return self.flow.count

    def values_for(self, part: TracedPart) -> Columns:
        """What of each value a part looks at. Raises :class:`Undefined`."""
        function = getattr(part.part, "of", None)
        if part.of is None or function is None:
            return self.flow.value
        values = return_values(part.of, self.flow.inputs, self.count)
        if self.seen is not None:
            self.seen(function, part.of, self.flow.inputs, values, self.count)
        return values


# ------------------------------------------------------------------------------------------------ results


def results_of(part: ClosingPart, flow: KeyedFlow, groups: Groups) -> Columns:
    """What a part is of the items of each group. Raises :class:`Undefined` where Python has to tell."""
    if isinstance(part, TracedChoice):
        return take(flow.value, one_row_each(part, flow, groups))
    bags = _Bags.of(part, flow, groups)
    result = _RESULTS[type(part.part)](part, part.part, bags)
    if not part.part.if_any or (some := bags.groups.sizes > 0).all():
        return result
    return attrs.evolve(result, valid=some)


def elements_of(part: ClosingPart, flow: KeyedFlow, groups: Groups) -> tuple[Any, Columns]:
    """How many elements the list of each group has (int64), and these, by group. Raises :class:`Undefined`."""
    assert isinstance(part, TracedPart)
    assert isinstance(part.part, Clustering)
    return clusters_by_group(part.part, _Bags.of(part, flow, groups).values_for(part), groups)


def _of_aggregate(part: TracedPart, aggregate: OfAggregate[Any], bags: _Bags) -> Columns:
    """The elements of an aggregate, or the one value that it needs of each group; some other where it needs none."""
    if part.monoid is not None:
        lifted = return_values(part.monoid.lift, bags.flow.inputs, bags.count)
        parts = [(one, part_of(lifted, one, bags.count)) for one in part.monoid.parts]
        reduced = {one.path: reduced_in_order(one, column, bags.groups) for one, column in parts}
        return structured(part.monoid.shape, reduced, ())
    assert part.choice is not None
    rows = rows_needed(part.choice, bags.flow, bags.groups)
    group = bags.groups.of_row[rows]
    if (np.bincount(group) > 1).any():
        raise Undefined(0)
    by_group = np.zeros(bags.groups.number, np.int64)
    by_group[group] = bags.rows[rows]
    return take(bags.whole.value, by_group)


def _listing(part: TracedPart, listing: Listing[Any], bags: _Bags) -> Column:
    order = _listed(part, listing, bags)
    return _lists(
        part.kind, take(bags.values_for(part), order), np.bincount(bags.groups.of_row[order], minlength=bags.groups.number)
    )


def _listed(part: TracedPart, listing: Listing[Any], bags: _Bags) -> Any:
    """The numbers of the values that are listed, by group, as they are listed."""
    values, places = bags.values_for(part), list[Any]()
    if part.by is not None and bags.count:
        places = place_columns(return_values(part.by, bags.flow.inputs, bags.count))
    keys = [SortKey.column(column) for column in (bags.groups.of_row.astype(np.int64), *places)]
    order = sorted_rows([*keys, *canonical_keys(values)], bags.count)
    if listing.distinct:
        backwards = _different(part, bags).of_row[order][::-1]
        order = order[np.sort(len(order) - 1 - np.unique(backwards, return_index=True)[1])]
    if listing.largest is not None:
        group = bags.groups.of_row[order]
        from_end = np.cumsum(np.bincount(group, minlength=bags.groups.number))[group] - 1 - np.arange(len(order))
        some = from_end < listing.largest
        order = order[some][np.lexsort((from_end[some], group[some]))]
    return order


def _ranking(part: TracedPart, ranking: Ranking[Any], bags: _Bags) -> Column:
    assert part.choice is not None
    best = rows_needed(part.choice, bags.flow, bags.groups)
    group, value = bags.groups.of_row[best].astype(np.int64), take(bags.flow.value, best)
    inputs = of_rows(bags.flow.inputs, best)
    by = place_columns(return_values(part.choice.by, inputs, len(best))) if len(best) else []
    columns = [SortKey.column(group), *(SortKey.column(~column) for column in by)]
    order = sorted_rows([*columns, *(key.turned for key in canonical_keys(value))], len(best))
    value, sizes = take(value, order), np.bincount(group, minlength=bags.groups.number)
    if ranking.ranked is not None:
        places = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        if ranking.choice.ties == "all":
            places = _ranks_of_ties(places, [column[order] for column in by])
        value = Struct(ranking.ranked, ("rank", "value"), (Column(Integer(), places + 1), value))
    return _lists(part.kind, value, sizes)


def _ranks_of_ties(places: Any, by: Iterable[Any]) -> Any:
    """The place of the first of each run of rows in one place of an order; ``places``: of each row in its group."""
    new = places == 0
    for column in by:
        new[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(new)
    return np.repeat(places[starts], np.diff(starts, append=len(places)))


def _lists(kind: Any, values: Columns, sizes: Any) -> Column:
    """Lists of values that lie by group."""
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    if offsets[-1] > np.iinfo(np.int32).max:
        raise Undefined(0)
    items = to_arrow(kind.item, values, int(offsets[-1]))
    return Column(kind, pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items))


def _distinct(part: TracedPart, distinct: Distinct[Any], bags: _Bags) -> Column:
    return Column(Integer(), np.bincount(bags.groups.of_row[_one_of_each(part, bags)], minlength=bags.groups.number))


def _registers(part: TracedPart, registers: Registers[Any], bags: _Bags) -> Column:
    numbers = _registers_of(part, registers, bags)
    numbers.sort()
    numbers = numbers[_last_of_runs(numbers >> RANK)]
    group, rank, ranks = numbers >> registers.precision + RANK, numbers & (1 << RANK) - 1, 66 - registers.precision
    estimates, known = np.empty(bags.groups.number, np.int64), dict[bytes, int]()
    for start in range(0, bags.groups.number, CHUNK):
        number = min(CHUNK, bags.groups.number - start)
        some = slice(*np.searchsorted(group, (start, start + number)))
        counts = np.bincount((group[some] - start) * ranks + rank[some], minlength=number * ranks).reshape(
            number, ranks
        )
        counts[:, 0] = (1 << registers.precision) - counts.sum(axis=1)
        for at, one in enumerate(counts, start):
            if (estimate := known.get(text := one.tobytes())) is None:
                estimate = known[text] = registers.estimate(one.tolist())
            estimates[at] = estimate
    return Column(Integer(), estimates)


def _values_of_ranks(part: TracedPart, ranks: ValuesOfRanks[Any], bags: _Bags) -> Column:
    nans, ordered, low, span = _buckets_by_group(part, ranks, bags)
    sizes, lost = bags.groups.sizes, bags.groups.sizes == 0
    starts = np.cumsum(sizes) - sizes
    lost[bags.groups.of_row[nans]] = True
    values = np.full((len(sizes), len(ranks.qs)), np.nan)
    for at, q in enumerate(ranks.qs):
        rows = (starts + np.floor(q * (sizes - 1)).astype(np.int64))[~lost]
        some, places = np.unique(ordered[rows] % span + low, return_inverse=True)
        values[~lost, at] = np.array(list(map(ranks.middle, some.tolist())), np.float64)[places]
    if ranks.alone:
        return Column(Float(), values[:, 0])
    return _lists(part.kind, Column(Float(), values.reshape(-1)), np.full(len(sizes), len(ranks.qs)))


def _exact_ranks(part: TracedPart, ranks: ExactRanks[Any], bags: _Bags) -> Column:
    values = bags.values_for(part)
    if not isinstance(values, Column) or values.valid is not None:
        raise Undefined(0)
    numbers = full_values(values, bags.count).astype(np.float64) + 0.0
    numbers = numbers[np.lexsort((numbers, bags.groups.of_row))]
    sizes = bags.groups.sizes
    starts, present = np.cumsum(sizes) - sizes, sizes > 0
    results = np.full((len(sizes), len(ranks.qs)), np.nan)
    lost = np.isnan(numbers[(starts + sizes - 1)[present]])  # NaNs are last
    for at, q in enumerate(ranks.qs):
        place = q * (sizes[present] - 1)
        rank = np.floor(place)
        first = starts[present] + rank.astype(np.int64)
        between = place - rank
        with np.errstate(invalid="ignore", over="ignore"):
            low, high = numbers[first], numbers[np.minimum(first + 1, len(numbers) - 1)]
            some = np.where(between == 0.0, low, low * (1.0 - between) + high * between)
        results[present, at] = np.where(lost, np.nan, np.where(low == high, low, some))
    if ranks.alone:
        return Column(Float(), results[:, 0])
    return _lists(part.kind, Column(Float(), results.reshape(-1)), np.full(len(sizes), len(ranks.qs)))


def _buckets_by_group(part: TracedPart, ranks: ValuesOfRanks[Any], bags: _Bags) -> tuple[Any, Any, int, int]:
    """Which numbers are NaN (bool); and in order a number for each value: that of its group times ``span``, plus how much its
    bucket is above ``low``."""
    nans, buckets = _buckets(bags.values_for(part), ranks, bags.count)
    low = int(buckets.min()) if bags.count else 0
    span = int(buckets.max()) - low + 1 if bags.count else 1
    ordered = bags.groups.of_row.astype(np.int64) * span + (buckets - low)
    ordered.sort()
    return nans, ordered, low, span


def _buckets(values: Columns, ranks: ValuesOfRanks[Any], count: int) -> tuple[Any, Any]:
    """Which numbers are NaN (bool), and the buckets of all (int64): those of the definition, bit by bit."""
    if not isinstance(values, Column) or values.valid is not None:
        raise Undefined(0)
    numbers = full_values(values, count).astype(np.float64)
    with np.errstate(all="ignore"):
        fraction, exponent = np.frexp(np.abs(numbers))
        cut = np.minimum(((2 * fraction - 1) * ranks.cuts).astype(np.int64), ranks.cuts - 1)
    buckets = (exponent.astype(np.int64) + 1074) * ranks.cuts + cut + 1
    buckets[np.isinf(numbers)] = INFINITE * ranks.cuts
    buckets[numbers < 0] *= -1
    nans = np.isnan(numbers)
    buckets[(numbers == 0) | nans] = 0
    return nans, buckets


_RESULTS: Final[dict[type[OfBag[Any]], Callable[[TracedPart, Any, _Bags], Columns]]] = {
    OfAggregate: _of_aggregate,
    Listing: _listing,
    Ranking: _ranking,
    Distinct: _distinct,
    Registers: _registers,
    ValuesOfRanks: _values_of_ranks,
    ExactRanks: _exact_ranks,
}


# ------------------------------------------------------------------------------------------- needed items


def needed_rows(
    parts: Iterable[ClosingPart],
    flow: KeyedFlow,
    ends: Numbers,
    seen: SeenChoice | None = None,
    *,
    fewest: bool = False,
) -> Any:
    """The rows (int64, ascending) of items of each block and key, one at least, of which all parts have the results that they
    have of all items; None where all are needed. ``fewest``: no more than the definition keeps, though they take longer to find.

    Raises :class:`Undefined` where Python has to tell. A row too many does no harm.
    """
    parts = tuple(parts)
    if not all(map(leaves_some, parts)):
        return None
    groups = Groups.of(*codes_of(ends, flow.key, flow.count))
    needed = np.zeros(flow.count, np.bool_)
    for part in parts:
        needed[_rows_for(part, flow, groups, seen, fewest)] = True
    return with_one_each(needed, groups)


def _rows_for(part: ClosingPart, flow: KeyedFlow, groups: Groups, seen: SeenChoice | None, fewest: bool) -> Any:
    """The rows that a part needs, if it leaves some."""
    if isinstance(part, TracedChoice):
        return rows_needed(part, flow, groups, seen)
    bags = _Bags.of(part, flow, groups, seen)
    if part.choice is not None:
        rows = rows_needed(part.choice, bags.flow, bags.groups, seen)
    elif fewest and isinstance(part.part, Registers):
        rows = _largest_ranks(part, part.part, bags)
    elif isinstance(part.part, Listing):
        rows = _listed(part, part.part, bags)
    else:
        rows = _one_of_each(part, bags)
    return bags.rows[rows]


def bucket_count(parts: Iterable[ClosingPart], flow: KeyedFlow, ends: Numbers) -> int:
    """How many numbers the aggregates of the definition keep of these items. What is added up or compared counts as ``SMALL``,
    since so many items as columns are not larger than an aggregate as an object. It stops at half the number of items.

    Raises :class:`Undefined`.
    """
    groups, number = Groups.of(*codes_of(ends, flow.key, flow.count)), 0
    for part in sorted(parts, key=lambda part: not isinstance(part, TracedPart) or part.monoid is None):
        if 2 * number >= flow.count:
            break
        if isinstance(part, TracedPart) and isinstance(part.part, ValuesOfRanks):
            _, ordered, _, _ = _buckets_by_group(part, part.part, _Bags.of(part, flow, groups))
            number += int(_last_of_runs(ordered).sum())
        elif isinstance(part, TracedPart) and part.monoid is not None:
            number += SMALL * groups.number
        else:
            number += len(_rows_for(part, flow, groups, None, fewest=True))
    return number


def _one_of_each(part: TracedPart, bags: _Bags) -> Any:
    """The numbers of values of which each group has one of each that is different."""
    return _different(part, bags).any_row


def _different(part: TracedPart, bags: _Bags) -> Groups:
    """The values by what they are as keys, of each group by itself."""
    return Groups.of(*codes_of(bags.groups.of_row, _keys(bags.values_for(part)), bags.count))


def _keys(columns: Columns) -> Columns:
    """Columns as those of keys: all NaNs are one, and so are zeros."""
    if isinstance(columns, Struct):
        if columns.valid is not None:
            raise Undefined(0)
        return attrs.evolve(columns, parts=tuple(None if part is None else _keys(part) for part in columns.parts))
    if not isinstance(columns.kind, Float) or columns.scalar:
        return columns
    return Column(columns.kind, np.where(np.isnan(columns.values), np.nan, columns.values + 0.0), columns.valid)


def _registers_of(part: TracedPart, registers: Registers[Any], bags: _Bags) -> Any:
    """The register and rank (int64) of each value behind the number of its group. Each different value is hashed once."""
    values = bags.values_for(part)
    different = groups_of(_keys(values), bags.count)
    some = values_of(take(values, different.any_row), different.number)
    numbers = np.array(list(map(registers.register, some)), np.int64)[different.of_row]
    return bags.groups.of_row.astype(np.int64) << registers.precision + RANK | numbers


def _largest_ranks(part: TracedPart, registers: Registers[Any], bags: _Bags) -> Any:
    """The numbers of values that have the largest rank of their register."""
    numbers = _registers_of(part, registers, bags)
    order = np.argsort(numbers)
    return order[_last_of_runs(numbers[order] >> RANK)]


def _last_of_runs(numbers: Any) -> Any:
    """Where numbers differ from the next one, and the last of them (a mask)."""
    return np.append(numbers[1:] != numbers[:-1], np.ones(min(1, len(numbers)), np.bool_))
