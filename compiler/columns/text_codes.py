"""Numbers for the distinct texts of a column, in the order in which they come first."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.text_table import WIDEST, FixedWidthTable, are_equal, hashes_of, of_one_length, rows_of

__all__ = ["RECENT_TEXTS", "RecentTexts", "text_codes"]

SOME: Final = 1 << 12
"""Texts of a column from which on it is worth looking whether they are of one length."""

MANY: Final = 1 << 16
"""Texts of one length from which on a hash numbers them, if most are distinct."""

SAMPLE: Final = 1 << 12
"""Texts that tell whether most are distinct."""

PROBE: Final = 1 << 7
"""Texts that tell whether most are in a table."""

TABLES: Final = 4
"""Tables of texts that are kept."""

LARGEST: Final = 1 << 18
"""Texts of a table that is kept."""


class RecentTexts:
    """Tables of texts that have come lately. Keys of a stream come again, and looking them up takes half of the time that
    numbering them without a table takes. Tables do not change, so all threads read them; a lock guards which ones there are.

    Also a context, for segments of the local backend: when none is left inside, no text is kept. Spark's workers keep them until
    they end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: tuple[FixedWidthTable, ...] = ()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._tables = ()

    def table_of(self, octets: Any) -> FixedWidthTable | None:
        """A table that has most of these texts (uint8, all of a length), if there is one."""
        some = np.ascontiguousarray(octets[:: -(-len(octets) // PROBE)])
        for table in self._tables:
            if table.width == octets.shape[1] and 4 * np.count_nonzero(table.places(some) < 0) <= len(some):
                return table
        return None

    def add(self, octets: Any, instead: FixedWidthTable | None = None) -> None:
        """Keep different texts, instead of those of a table. If another thread has replaced it or kept most of these texts
        meanwhile, that is enough."""
        if instead is None and self.table_of(octets) is not None:
            return
        table = FixedWidthTable.of(octets) if len(octets) <= LARGEST else None
        with self._lock:
            if instead is None or instead in self._tables:
                others = [one for one in self._tables if one is not instead]
                self._tables = tuple(others if table is None else [table, *others[: TABLES - 1]])


RECENT_TEXTS: Final = RecentTexts()


def text_codes(texts: Any) -> tuple[Any, int]:
    """int64 numbers of the texts (an Arrow array of texts or bytes; a null is as the first text), and how many there are.

    Arrow looks each text up in a table of texts. With 100,000 distinct ones this table is larger than the cache, and the threads
    of a machine share that: a million took 50 to 150 ms. UUIDs and other texts of one length are looked up among those that came
    lately: 25 ms. The first time they are numbered by a hash, and each is compared with the first of its number: 50 ms. If two
    texts have the same hash, Arrow does all of it.
    """
    octets = of_one_length(texts, 8, WIDEST) if len(texts) >= SOME else None
    if octets is not None:
        if (table := RECENT_TEXTS.table_of(octets)) is not None:
            return _by_table(table, texts, octets)
        if len(texts) >= MANY and _mostly_distinct(texts) and (codes := _by_hash(octets)) is not None:
            return codes
    return _by_arrow(texts)


def _by_arrow(texts: Any) -> tuple[Any, int]:
    encoded = texts.dictionary_encode()
    return encoded.indices.fill_null(0).to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)


def _mostly_distinct(texts: Any) -> bool:
    sample = texts.take(pa.array(np.arange(0, len(texts), -(-len(texts) // SAMPLE))))
    return len(sample.dictionary_encode().dictionary) > len(sample) * 7 // 8


def _by_hash(octets: Any) -> tuple[Any, int] | None:
    """The numbers, and how many there are; None if texts that differ have the same hash."""
    encoded = pa.array(hashes_of(octets)).dictionary_encode()
    codes, number = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    distinct = octets[_firsts(codes, number)]
    if not are_equal(octets, rows_of(distinct), codes):
        return None
    if 2 * number <= len(codes):  # else most of them do not come again
        RECENT_TEXTS.add(distinct)
    return codes, number


def _by_table(table: FixedWidthTable, texts: Any, octets: Any) -> tuple[Any, int]:
    """The numbers, and how many there are, of texts of which most are in a table."""
    places, number = table.places(octets), len(table)
    (missing,) = (places < 0).nonzero()
    if len(missing):
        codes, more = _by_arrow(texts.take(pa.array(missing)))
        # Otherwise a new table costs more than it saves.
        if 32 * len(missing) >= len(places) or len(places) >= 2 * len(table):
            RECENT_TEXTS.add(np.concatenate((table.octets, octets[missing[_firsts(codes, more)]])), instead=table)
        places[missing] = number + codes
        number += more
    return _in_order(places, number)


def _firsts(codes: Any, number: int) -> Any:
    """int64: the first row of each code; anything, if a code has none."""
    first = np.empty(number, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def _in_order(codes: Any, number: int) -> tuple[Any, int]:
    """Codes below ``number`` in the order in which they come first, and how many there are."""
    first = _firsts(codes, number)[codes]
    ranks = np.cumsum(first == np.arange(len(codes))) - 1
    return ranks[first], int(ranks[-1]) + 1
