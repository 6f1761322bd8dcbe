"""Exact sums of floats in columns: :class:`tracetypes.ExactSum` for many groups at once.

A double is an integer times ``2**-1074``. A column holds such integers in limbs of 32 bits, in signed 64-bit words that
can hold carries: to add two columns is to add words. A column has only the limbs that some row needs, so sums of
measurements of similar size need three or four. The results (:meth:`ExactSums.sums`, :meth:`ExactSums.rounded`) equal those
of ``ExactSum`` bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.algebra import ExactSum
from tracetypes.compiler.columns.rounding import rounded_means, two_sum
from tracetypes.compiler.tracing.expr import Undefined

__all__ = ["EXACT_TYPE", "ExactSums", "exact_group_sums"]

EXACT_TYPE: Final = pa.struct(
    [
        pa.field("low", pa.int32()),
        pa.field("limbs", pa.list_(pa.int64())),
        pa.field("plus", pa.int64()),
        pa.field("minus", pa.int64()),
        pa.field("nans", pa.int64()),
    ]
)
"""The Arrow type of a column of exact sums."""

_SCALE: Final = 1074
"""Every double is an integer times ``2**-1074``."""

_LIMB: Final = 32
_MASK: Final = (1 << _LIMB) - 1
_CHUNK: Final = 1 << 20
"""So many limbs of 32 bits add up to less than ``2**53``, which a float counts exactly."""

_CACHED: Final = 1 << 15
"""So many rows at a time stay in the processor's cache, for its twenty arrays."""

FEW: Final = 256
"""So many sums are rounded together; fewer are faster one by one."""

_FULL: Final = 1 << 29
"""Carries are propagated before so many limbs have been added: then words stay below ``2**62``."""


@final
@attrs.frozen(eq=False)
class ExactSums:
    """A column of exact sums.

    ``limbs``: int64, rows by limbs. Limb ``j`` counts ``2**(32 * (low + j) - 1074)``, and is less than ``weight *
    2**32`` in size. ``specials``: int64, rows by three, the numbers of infinities, negative infinities and NaNs; None
    if there are none.
    """

    low: int
    limbs: Any
    weight: int
    specials: Any = None

    def __len__(self) -> int:
        return len(self.limbs)

    @staticmethod
    def of(values: Any) -> ExactSums:
        """The sums of one float each. ``values``: float64 array."""
        return exact_group_sums(values, np.arange(len(values)), len(values))

    @staticmethod
    def zero(number: int) -> ExactSums:
        """Empty sums."""
        return ExactSums(0, np.zeros((number, 0), np.int64), 1)

    def take(self, rows: Any) -> ExactSums:
        """The rows of these numbers."""
        return ExactSums(self.low, self.limbs[rows], self.weight, None if self.specials is None else self.specials[rows])

    def spread(self, low: int, width: int) -> Any:
        """``width`` limbs from ``low`` on. They include all limbs of the column."""
        if width == self.limbs.shape[1]:
            return self.limbs
        wide = np.zeros((len(self.limbs), width), np.int64)
        if self.limbs.shape[1]:
            wide[:, self.low - low : self.low - low + self.limbs.shape[1]] = self.limbs
        return wide

    def __add__(self, other: ExactSums) -> ExactSums:
        """Row by row; a column of one row is added to each row."""
        if self.weight + other.weight >= _FULL:
            return self.settled() + other.settled()
        low, width = _range([self, other])
        limbs = self.spread(low, width) + other.spread(low, width)
        specials = self.specials
        if other.specials is not None:
            specials = other.specials if specials is None else specials + other.specials
        if specials is not None and len(specials) != len(limbs):  # of the one row; there may be none
            specials = np.broadcast_to(specials, (len(limbs), 3))
        return ExactSums(low, limbs, self.weight + other.weight, specials)

    def settled(self) -> ExactSums:
        """The column with all carries propagated: each limb in ``[0, 2**32)``, the last one signed, of 32 bits."""
        limbs = self.limbs.copy()
        for at in range(limbs.shape[1] - 1):
            limbs[:, at + 1] += limbs[:, at] >> _LIMB
            limbs[:, at] &= _MASK
        while limbs.size and (limbs[:, -1].max() >= 1 << 31 or limbs[:, -1].min() < -(1 << 31)):
            carry = limbs[:, -1] >> _LIMB
            limbs[:, -1] &= _MASK
            limbs = np.concatenate([limbs, carry[:, None]], axis=1)
        return ExactSums(self.low, limbs, 1, self.specials)

    def grouped(self, groups: Any, number: int) -> ExactSums:
        """The sums of each of ``number`` groups. ``groups``: int64, the group of each row."""
        limbs = self.settled().limbs
        width = limbs.shape[1]
        total = np.zeros((number, width), np.int64)
        for start in range(0, len(limbs), _CHUNK):
            part = slice(start, start + _CHUNK)
            for at in range(width):
                counted = np.bincount(groups[part], weights=limbs[part, at], minlength=number)
                total[:, at] += counted.astype(np.int64)
        most = int(np.bincount(groups, minlength=1).max()) if len(groups) else 1
        specials = None
        if self.specials is not None:
            specials = np.zeros((number, 3), np.int64)
            np.add.at(specials, groups, self.specials)
        return ExactSums(self.low, total, max(most, 1), specials).settled()

    def sums(self) -> list[ExactSum]:
        """The sums as objects."""
        specials = [(0, 0, 0)] * len(self) if self.specials is None else self.specials.tolist()
        totals = []
        for total, (plus, minus, nans) in zip(self._integers(), specials, strict=True):
            surplus = min(_SCALE, (total & -total).bit_length() - 1) if total else _SCALE
            totals.append(ExactSum(total >> surplus, _SCALE - surplus, (plus, minus), nans))
        return totals

    @staticmethod
    def from_sums(sums: Sequence[ExactSum]) -> ExactSums:
        """The column of these objects. Raises :class:`Undefined` for a sum with a part below the smallest float."""
        if not sums:
            return ExactSums.zero(0)
        if any(s.shift > _SCALE for s in sums):
            raise Undefined(next(row for row, one in enumerate(sums) if one.shift > _SCALE))
        totals = [s.numerator << (_SCALE - s.shift) for s in sums]
        if not any(totals):
            return attrs.evolve(ExactSums.zero(len(sums)), specials=_specials(sums))
        low = min((t & -t).bit_length() - 1 for t in totals if t) // _LIMB
        totals = [t >> (low * _LIMB) for t in totals]
        width = max(t.bit_length() for t in totals) // _LIMB + 1
        data = b"".join(t.to_bytes(4 * width, "little", signed=True) for t in totals)
        words = np.frombuffer(data, "<u4").reshape(len(totals), width)
        limbs = words.astype(np.int64)
        limbs[:, -1] = words[:, -1].astype(np.int32)
        return ExactSums(low, limbs, 1, _specials(sums))

    def rounded(self) -> Any:
        """The nearest floats, as float64: ``ExactSum.value`` of each row."""
        return self.over(np.ones(len(self), np.int64))

    def over(self, counts: Any) -> Any:
        """``ExactSum.over`` of each row, as float64. ``counts``: int64, each 1 or more."""
        settled = self.settled()
        means, sure = settled._means(counts) if len(self) >= FEW else (np.empty(len(self)), np.zeros(len(self), np.bool_))
        rows = np.flatnonzero(~sure)
        pairs = zip(settled.take(rows)._integers(), counts[rows].tolist(), strict=True)
        means[rows] = [_float(total, count) for total, count in pairs]
        return self._special(means)

    def _means(self, counts: Any) -> tuple[Any, Any]:
        """The sums over ``counts``, and where they are certainly right. Carries are propagated."""
        total, first, second = np.zeros((3, len(self)))
        sure = np.ones(len(self), np.bool_)
        with np.errstate(over="ignore", invalid="ignore"):
            for at in reversed(range(self.limbs.shape[1])):
                total, lost = two_sum(total, np.ldexp(self.limbs[:, at].astype(np.float64), _LIMB * (self.low + at) - _SCALE))
                first, lost = two_sum(first, lost)
                second, lost = two_sum(second, lost)
                sure &= lost == 0.0
        means, right = rounded_means((total, first, second), counts.astype(np.float64))
        return means, sure & right

    def _special(self, results: Any) -> Any:
        """The floats, with infinities and NaNs where these went in."""
        if self.specials is not None:
            plus, minus, nans = self.specials.T
            results[plus > 0] = math.inf
            results[minus > 0] = -math.inf
            results[(nans > 0) | ((plus > 0) & (minus > 0))] = math.nan
        return results

    def _integers(self) -> list[int]:
        """The sums as integers, times ``2**-1074``."""
        settled = self.settled().limbs
        if not settled.size:
            return [0] * len(settled)
        size = 4 * settled.shape[1]
        data = (settled & _MASK).astype("<u4").tobytes()
        up = _LIMB * self.low
        return [
            int.from_bytes(data[at : at + size], "little", signed=True) << up
            for at in range(0, size * len(settled), size)
        ]

    def to_arrow(self) -> Any:
        """The column as an array of ``EXACT_TYPE``."""
        settled = self.settled()
        rows, width = settled.limbs.shape
        limbs = pa.ListArray.from_arrays(
            pa.array(np.arange(rows + 1, dtype=np.int32) * width), pa.array(settled.limbs.reshape(-1))
        )
        specials = np.zeros((rows, 3), np.int64) if self.specials is None else self.specials
        columns = [pa.array(np.full(rows, settled.low, np.int32)), limbs]
        columns += [pa.array(np.ascontiguousarray(specials[:, at])) for at in range(3)]
        return pa.StructArray.from_arrays(columns, fields=list(EXACT_TYPE))

    @staticmethod
    def from_arrow(column: Any) -> ExactSums:
        """The inverse of :meth:`to_arrow`; also of several such arrays one after the other."""
        low, limbs, *counts = column.flatten()
        if not len(column):
            return ExactSums.zero(0)
        lows = low.to_numpy()
        lengths = limbs.value_lengths().to_numpy()
        words = limbs.flatten().to_numpy()
        specials = np.stack([count.to_numpy() for count in counts], axis=1)
        special = specials if specials.any() else None
        if not len(words):
            return attrs.evolve(ExactSums.zero(len(column)), specials=special)
        first = int(lows[lengths > 0].min())
        width = int((lows + lengths)[lengths > 0].max()) - first
        if len(words) == width * len(column):
            return ExactSums(first, words.reshape(len(column), width), 1, special)
        starts = np.cumsum(lengths) - lengths
        places = np.repeat(lows - first - starts + np.arange(len(column)) * width, lengths) + np.arange(len(words))
        wide = np.zeros(len(column) * width, np.int64)
        wide[places] = words
        return ExactSums(first, wide.reshape(len(column), width), 1, special)

    @staticmethod
    def concat(parts: Sequence[ExactSums]) -> ExactSums:
        """Columns one after the other."""
        low, width = _range(parts)
        specials = None
        if any(part.specials is not None for part in parts):
            none = [np.zeros((len(part), 3), np.int64) if part.specials is None else part.specials for part in parts]
            specials = np.concatenate(none)
        limbs = np.concatenate([part.spread(low, width) for part in parts])
        return ExactSums(low, limbs, max(part.weight for part in parts), specials)


def _range(parts: Sequence[ExactSums]) -> tuple[int, int]:
    ranges = [(part.low, part.low + part.limbs.shape[1]) for part in parts if part.limbs.shape[1]]
    low = min((low for low, _ in ranges), default=0)
    return low, max((high for _, high in ranges), default=low) - low


def _specials(sums: Sequence[ExactSum]) -> Any:
    specials = np.array([(*s.infinities, s.nans) for s in sums], np.int64)
    return specials if specials.any() else None


def _float(numerator: int, count: int = 1) -> float:
    """``numerator * 2**-1074 / count``, rounded once."""
    try:
        return numerator / (count << _SCALE)
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def exact_group_sums(values: Any, groups: Any, number: int) -> ExactSums:
    """The exact sum of the floats of each group.

    ``values``: float64 array; ``groups``: int64 array of the same length, the group of each, below ``number``.
    """
    values = np.ascontiguousarray(values, np.float64)
    size = max(_CACHED, min(number, _CHUNK))
    if len(values) <= size:
        return _group_sums(values, groups, number)
    total = ExactSums.zero(number)
    for start in range(0, len(values), size):
        total = total + _group_sums(values[start : start + size], groups[start : start + size], number)
    return total.settled()


def _group_sums(values: Any, groups: Any, number: int) -> ExactSums:
    """Of at most ``_CHUNK`` floats."""
    bits = values.view(np.int64)
    exponents = (bits >> 52) & 0x7FF
    special = exponents == 0x7FF
    specials = None
    if special.any():
        specials = np.zeros((number, 3), np.int64)
        which = np.where(np.isnan(values), 2, np.where(values > 0, 0, 1))[special]
        np.add.at(specials, (groups[special], which), 1)
        values, groups, bits, exponents = values[~special], groups[~special], bits[~special], exponents[~special]
    present = values != 0.0
    if not present.all():
        groups, bits, exponents = groups[present], bits[present], exponents[present]
    if not len(bits):
        return attrs.evolve(ExactSums.zero(number), specials=specials)
    places = np.maximum(exponents, 1) - 1
    bins = places >> 5
    low = int(bins.min())
    width = int(bins.max()) - low + 3
    mantissas = ((bits & ((1 << 52) - 1)) | ((exponents > 0).astype(np.int64) << 52)).astype(np.uint64)
    shift = (places & 31).astype(np.uint64)
    back = np.uint64(_LIMB) - shift
    sign = np.where(bits < 0, -1.0, 1.0)
    index = groups * width + (bins - low)
    total = np.zeros(number * width, np.int64)
    pieces = (mantissas << shift, mantissas >> back, (mantissas >> np.uint64(_LIMB)) >> back)
    for at, piece in enumerate(pieces):
        limb = (piece & np.uint64(_MASK)).astype(np.float64)
        limb *= sign
        total += np.bincount(index + at, weights=limb, minlength=len(total)).astype(np.int64)
    return ExactSums(low, total.reshape(number, width), int(np.bincount(groups).max()), specials)
