"""Places of texts in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["WIDEST", "FixedWidthTable", "TextTable", "are_equal", "hashes_of", "of_one_length", "rows_of"]

LARGE: Final = 1 << 8
"""Texts of a table from which on slots pay."""

SOME: Final = 1 << 7
"""Texts from which on looking at their lengths pays."""

WIDEST: Final = 64
"""Bytes of a text up to which reading it in words pays."""

BLOCK: Final = 1 << 16
"""Texts that are done at a time. With fewer, two threads wait for each other between the steps of numpy."""

PIECE: Final = 1 << 11
"""Texts that are compared at a time, where some differ."""

SAMPLE: Final = 1 << 12
"""Texts that tell which words differ most."""

_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)

EXTRA: Final = 2
"""Bits of a slot's number that are more than the number of texts needs."""

LEVELS: Final = tuple(np.uint64(pow(0xC2B2AE3D27D4EB4F, level, 1 << 64)) for level in range(12))
"""Odd numbers, one for each level of slots."""

FEW: Final = 64
"""Texts of which more than half may be contested by chance."""

NOWHERE: Final = -1
CONTESTED: Final = -2


def of_one_length(texts: Any, least: int, most: int) -> Any:
    """The bytes of an Arrow array of texts or bytes, uint8 (texts, bytes of a text), a view. None if their lengths differ or are
    not in these bounds, or if there is a null."""
    if texts.null_count or not len(texts) or not (pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)):
        return None
    _, offsets, data = texts.buffers()
    count, ends = len(texts), np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    width = int(ends[1] - ends[0])
    if not least <= width <= most or int(ends[-1]) - int(ends[0]) != width * count or (ends[1:] - ends[:-1] != width).any():
        return None
    return np.frombuffer(data, np.uint8, width * count, int(ends[0])).reshape(count, width)


def _words_of(width: int) -> list[int]:
    """Where the words of eight bytes begin. The last two overlap where the width is no multiple of eight."""
    places = [*range(0, width - 7, 8)]
    return places if places[-1] + 8 == width else [*places, width - 8]


def _word(octets: Any, place: int) -> Any:
    """The word at a place of all texts, uint64, a view."""
    count, width = octets.shape
    return np.ndarray((count,), np.uint64, octets.data, place, (width,))


def hashes_of(octets: Any, words: Sequence[int] | None = None) -> Any:
    """uint64: a hash of some words of each text (``words``: where they begin), or of all of it."""
    first, *others = (_word(octets, place) for place in (_words_of(octets.shape[1]) if words is None else words))
    hashes = np.empty(len(octets), np.uint64)
    for start in range(0, len(hashes), BLOCK):
        some = hashes[start : start + BLOCK]
        np.multiply(first[start : start + BLOCK], _FACTOR, out=some)
        for word in others:
            some ^= some >> _SHIFT
            some += word[start : start + BLOCK]
            some *= _FACTOR
    return hashes


def rows_of(octets: Any) -> Any:
    """The texts as one value each, which numpy copies as a whole."""
    return np.ascontiguousarray(octets).view(f"V{octets.shape[1]}").ravel()


def are_equal(octets: Any, rows: Any, places: Any) -> bool:
    """Whether each text is the one at its place among rows."""
    buffer = np.empty(min(len(octets), BLOCK), rows.dtype)
    return all(
        _is_copy(octets[start : start + BLOCK], rows, places[start : start + BLOCK], buffer)
        for start in range(0, len(octets), BLOCK)
    )


def _is_copy(octets: Any, rows: Any, places: Any, buffer: Any) -> bool:
    """Whether each text is the one at its place among rows, which are copied into the buffer. The first stands for places that
    are none."""
    rows.take(places, out=buffer[: len(places)], mode="clip")
    return bool(pa.py_buffer(octets).equals(pa.py_buffer(buffer).slice(0, octets.size)))


def _different(octets: Any, others: Any) -> Any:
    """int64: which of the texts differ from the others. Often these are few."""
    width, ours, theirs = octets.shape[1], pa.py_buffer(octets), pa.py_buffer(others)
    rows = [np.zeros(0, np.int64)]
    for start in range(0, len(octets), PIECE):
        some, size = octets[start : start + PIECE], min(len(octets) - start, PIECE) * width
        if not ours.slice(start * width, size).equals(theirs.slice(start * width, size)):
            differ = np.zeros(len(some), np.bool_)
            for place in _words_of(width):
                differ |= _word(some, place) != _word(others[start : start + PIECE], place)
            rows.append(start + np.flatnonzero(differ))
    return np.concatenate(rows)


@attrs.frozen(eq=False)
class FixedWidthTable:
    """Different texts of one length, among which others of this length are looked up.

    A level is an array of slots; some bits of a text's hash, multiplied by the factor of the level, are the number of its slot.
    A slot has the place of the only text that belongs there, or ``NOWHERE``; or ``CONTESTED``, and the texts that belong there
    are in the next level. So each text has one place where it may be, and it is compared with the text there. 100,000 texts have
    six levels; a sixth of them is not in the first, a hundredth not in the second. (Arrow builds its table for each call, and
    takes twice as long to look a million texts up.)

    ``rows``: the texts. ``words``: where the words that are hashed begin; they are those that tell the texts apart. ``levels``:
    factor, shift to the right, and slots, int32.
    """

    width: int
    rows: Any
    words: tuple[int, ...]
    levels: tuple[tuple[Any, Any, Any], ...]

    @classmethod
    def of(cls, octets: Any) -> FixedWidthTable | None:
        """The table of texts, uint8 (texts, 8 to 64 bytes). None if there is no telling them apart by their hashes."""
        sample = np.ascontiguousarray(octets[:: -(-len(octets) // SAMPLE)])
        words = sorted(_words_of(octets.shape[1]), key=lambda place: -len(np.unique(_word(sample, place))))
        for number in range(1, len(words) + 1):
            some = tuple(words[:number])
            if (levels := _levels(hashes_of(octets, some))) is not None:
                return cls(octets.shape[1], rows_of(octets), some, levels)
        return None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def octets(self) -> Any:
        """The texts, uint8 (texts, bytes of a text), a view."""
        return self.rows.view(np.uint8).reshape(-1, self.width)

    def places(self, octets: Any) -> Any:
        """int64: the place of each text (uint8, of the width of the table), or -1."""
        places = np.empty(len(octets), np.int64)
        buffer = np.empty(min(len(octets), BLOCK), self.rows.dtype)
        for start in range(0, len(octets), BLOCK):
            texts = octets[start : start + BLOCK]
            some = self._candidates(hashes_of(texts, self.words))
            if not _is_copy(texts, self.rows, some, buffer):
                some[_different(texts, buffer[: len(some)].view(np.uint8).reshape(-1, self.width))] = NOWHERE
            places[start : start + BLOCK] = some
        return places

    def _candidates(self, hashes: Any) -> Any:
        """int32: where a text of the hash is, if it is anywhere."""
        (factor, shift, slots), *others = self.levels
        places = slots.take(_slots_of(hashes, factor, shift), mode="clip")
        contested = (places == CONTESTED).nonzero()[0] if others else ()
        for factor, shift, slots in others:
            if not len(contested):
                break
            of_level = slots.take(_slots_of(hashes[contested], factor, shift), mode="clip")
            places[contested] = of_level
            contested = contested[of_level == CONTESTED]
        return places


def _slots_of(hashes: Any, factor: Any, shift: Any) -> Any:
    return (hashes * factor >> shift).view(np.int64)


def _levels(hashes: Any) -> tuple[tuple[Any, Any, Any], ...] | None:
    """None if there is no telling texts apart, as those of the same hash."""
    left, levels = np.arange(len(hashes), dtype=np.int32), []
    for factor in LEVELS:
        bits = len(left).bit_length() + EXTRA
        shift = np.uint64(64 - bits)
        slot_of = _slots_of(hashes[left], factor, shift)
        contested = np.bincount(slot_of, minlength=1 << bits)[slot_of] > 1
        slots = np.full(1 << bits, NOWHERE, np.int32)
        slots[slot_of] = np.where(contested, CONTESTED, left)
        levels.append((factor, shift, slots))
        before, left = len(left), left[contested]
        if not len(left):
            return tuple(levels)
        if len(left) > max(before // 2, FEW):  # with different hashes it is about a sixth
            break
    return None


class TextTable:
    """Texts, among which others are looked up (an Arrow array without nulls or equal texts)."""

    def __init__(self, texts: Any) -> None:
        self.texts = texts
        octets = of_one_length(texts, 8, WIDEST) if len(texts) >= LARGE else None
        self._of_one_length = None if octets is None else FixedWidthTable.of(octets)

    def places(self, texts: Any) -> Any:
        """int64: the place of each text, or -1. A null has none."""
        if (table := self._of_one_length) is not None and len(texts) >= SOME:
            octets = of_one_length(texts, table.width, table.width)
            if octets is not None:
                return table.places(octets)
        numbers = pc.index_in(texts, value_set=self.texts)
        return (numbers.fill_null(-1) if numbers.null_count else numbers).to_numpy().astype(np.int64)
