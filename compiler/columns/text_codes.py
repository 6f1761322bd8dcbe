"""Numbers for the distinct texts of a column, in the order in which they come first; places of texts in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["TextTable", "of_one_length", "text_codes"]

MANY: Final = 1 << 16
"""Texts of a column from which on it is worth looking whether they are of one length."""

LARGE: Final = 1 << 14
"""Texts of a table from which on Arrow's table of them is larger than the cache of a core."""

SAMPLE: Final = 1 << 12
"""Texts that tell whether most are distinct."""

WIDEST: Final = 64
"""Bytes of a text up to which reading it in words pays."""

BLOCK: Final = 1 << 14
"""Texts that are done at a time, so that their words stay in the cache."""

_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def text_codes(texts: Any) -> tuple[Any, int]:
    """int64 numbers of the texts (an Arrow array of texts or bytes; a null is as the first text), and how many there are.

    Arrow looks each text up in a table of texts. With 100,000 distinct ones this table is larger than the cache, and the threads
    of a machine share that: a million took 50 to 150 ms. UUIDs and other texts of one length are numbered by a hash instead, and
    each is compared with the first of its number, word by word: 50 ms. If two texts have the same hash, Arrow does all of it.
    """
    words = _words(texts) if len(texts) >= MANY else None
    if words is None or not _mostly_distinct(texts) or (codes := _by_hash(words)) is None:
        encoded = texts.dictionary_encode()
        return encoded.indices.fill_null(0).to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)
    return codes


def _mostly_distinct(texts: Any) -> bool:
    sample = texts.take(pa.array(np.arange(0, len(texts), -(-len(texts) // SAMPLE))))
    return len(sample.dictionary_encode().dictionary) > len(sample) * 7 // 8


def of_one_length(texts: Any, least: int, most: int) -> Any:
    """The bytes of an Arrow array of texts or bytes, uint8 (texts, bytes of a text), a view. None if their lengths differ or are
    not in these bounds, or if there is a null."""
    if texts.null_count or not len(texts) or not (pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)):
        return None
    _, offsets, data = texts.buffers()
    count, ends = len(texts), np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    width = int(ends[1] - ends[0])
    if not least <= width <= most or int(ends[-1]) - int(ends[0]) != width * count or (np.diff(ends) != width).any():
        return None
    return np.frombuffer(data, np.uint8, width * count, int(ends[0])).reshape(count, width)


def _words(texts: Any) -> Sequence[Any] | None:
    """The words of eight bytes of all texts, if they are of one length and none is null; uint64, a view for each place in a text.
    The last two words overlap where the length is no multiple of eight."""
    octets = of_one_length(texts, 8, WIDEST)
    if octets is None:
        return None
    count, width = octets.shape
    places = [*range(0, width - 7, 8)]
    if places[-1] + 8 < width:
        places.append(width - 8)
    return [np.ndarray((count,), np.uint64, octets.data, place, (width,)) for place in places]


def _hashes(words: Sequence[Any]) -> Any:
    """uint64, of all texts."""
    hashes = np.empty(len(words[0]), np.uint64)
    for start in range(0, len(hashes), BLOCK):
        some = hashes[start : start + BLOCK]
        np.multiply(words[0][start : start + BLOCK], _FACTOR, out=some)
        for word in words[1:]:
            some ^= some >> _SHIFT
            some += word[start : start + BLOCK]
            some *= _FACTOR
    return hashes


def _by_hash(words: Sequence[Any]) -> tuple[Any, int] | None:
    """The numbers, and how many there are; None if texts that differ have the same hash."""
    encoded = pa.array(_hashes(words)).dictionary_encode()
    codes, number = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    first = np.empty(number, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return (codes, number) if _are_equal(words, [word[first] for word in words], codes) else None


def _are_equal(words: Sequence[Any], others: Sequence[Any], places: Any) -> bool:
    """Whether each text is the one at its place among others. A place of -1 counts as right."""
    buffer = np.empty(BLOCK, np.uint64)
    missing = bool(len(places)) and int(places.min()) < 0
    for start in range(0, len(places), BLOCK):
        some = places[start : start + BLOCK]
        differences = buffer[: len(some)]
        for word, other in zip(words, others, strict=True):
            other.take(some, out=differences, mode="clip")
            differences ^= word[start : start + BLOCK]
            if missing:
                differences[some < 0] = 0
            if differences.any():
                return False
    return True


class TextTable:
    """Texts, among which others are looked up (an Arrow array without nulls or equal texts)."""

    def __init__(self, texts: Any) -> None:
        self.texts = texts
        self._words: Sequence[Any] = ()
        self._hashes = pa.array([], pa.uint64())
        if len(texts) >= LARGE and (words := _words(texts)) is not None:
            self._words, self._hashes = [np.ascontiguousarray(word) for word in words], pa.array(_hashes(words))
            self._width = words[0].strides

    def places(self, texts: Any) -> Any:
        """int64: the place of each text, or -1. A null has none."""
        words = _words(texts) if self._words and len(texts) >= MANY else None
        if words is not None and words[0].strides == self._width:
            places = _places(pa.array(_hashes(words)), self._hashes)
            if _are_equal(words, self._words, places):  # else two texts have the same hash
                return places
        return _places(texts, self.texts)


def _places(values: Any, table: Any) -> Any:
    numbers = pc.index_in(values, value_set=table)
    return (numbers.fill_null(-1) if numbers.null_count else numbers).to_numpy().astype(np.int64)
