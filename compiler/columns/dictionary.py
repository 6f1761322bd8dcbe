"""Dictionary-encoded columns. An expression over such a column is computed once for each distinct value, not for each
row.

Text in files often has few distinct values, and Parquet stores it that way: a dictionary, and for each row a place in
it.
"""

from __future__ import annotations

from typing import Any, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.exact_sums import ExactSums

__all__ = ["DictionaryEncoded", "NumberedDictionary", "gathered"]


@attrs.define(eq=False)
class DictionaryEncoded:
    """The column whose row ``n`` is ``dictionary[codes[n]]``.

    ``codes``: an array of integers, all of them places in ``dictionary``. ``dictionary``: as in
    :class:`~tracetypes.compiler.columns.column.Column`, without nulls. Entries may be equal, and some may have no row,
    so nothing follows from the entries alone.
    """

    codes: Any
    dictionary: Any
    _plain: Any = attrs.field(default=None, init=False)

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def from_arrow(cls, array: Any) -> DictionaryEncoded:
        """From a dictionary array. A null row gets any entry."""
        codes, entries = array.indices, array.dictionary
        if codes.type not in (pa.int32(), pa.int64()):
            codes = codes.cast(pa.int64())
        if codes.null_count:
            codes = codes.fill_null(0)
        if not len(entries):
            # All rows are null, and need an entry nonetheless.
            entries = pa.array([b""]).cast(entries.type)
        return cls(codes.to_numpy(), entries)

    def to_arrow(self, valid: Any = None) -> Any:
        """A column of text as a dictionary array. ``valid``: which rows are there (bool), None for all."""
        codes = pa.array(self.codes.astype(np.int32, copy=False), mask=None if valid is None else ~valid)
        return pa.DictionaryArray.from_arrays(codes, self.dictionary)

    @property
    def pays(self) -> bool:
        """Whether there are no more entries than rows, so that it is less work to compute something of each entry."""
        return len(self.dictionary) <= len(self.codes)

    def take(self, rows: Any) -> DictionaryEncoded:
        """The rows of these numbers."""
        return self.with_codes(self.codes.take(rows))

    def with_codes(self, codes: Any) -> DictionaryEncoded:
        """Other rows of the same entries."""
        return DictionaryEncoded(codes, self.dictionary)

    def plain(self) -> Any:
        """The column as an array of its rows."""
        if self._plain is None:
            self._plain = gathered(self.dictionary, self.codes)
        return self._plain


@final
@attrs.define(eq=False)
class NumberedDictionary(DictionaryEncoded):
    """With a number for each entry, the same for equal ones. ``numbers``: int64, of each entry; ``bound``: they are below it. A
    pickle has neither."""

    numbers: Any
    bound: int

    def __reduce__(self) -> Any:
        return DictionaryEncoded, (self.codes, self.dictionary)

    def with_codes(self, codes: Any) -> DictionaryEncoded:
        """Other rows of the same entries."""
        return NumberedDictionary(codes, self.dictionary, self.numbers, self.bound)


def gathered(entries: Any, codes: Any) -> Any:
    """The column of these entries as an array of its rows."""
    if isinstance(entries, pa.Array):
        return entries.take(pa.array(codes))
    if isinstance(entries, ExactSums):
        return entries.take(codes)
    if entries.dtype == np.bool_:
        # Comparing numbers takes a tenth of the time of looking up.
        ones = int(np.count_nonzero(entries))
        if ones in (0, len(entries)):
            return np.full(len(codes), ones > 0)
        if ones == 1:
            return codes == np.argmax(entries)
        if ones == len(entries) - 1:
            return codes != np.argmin(entries)
    return entries.take(codes)
