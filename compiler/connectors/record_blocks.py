"""Blocks of CSV as records: what :mod:`tracetypes.csv_records` says of a whole text, of text that comes in blocks, many at once.

A text without a quote is cut at its line ends. Elsewhere numpy finds the quotes and the line ends of a block. A line end with an
even number of quotes before it ends a record, as long as each quote before it stands where one may: at either end of a cell, or
doubled. The first record of which that is not known, and those within the bound behind a rejected line, are cut one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, final

import attrs
import numpy as np

from tracetypes.csv_records import BOUND, RecordCutter

__all__ = ["RecordBlocks", "Stretch", "WholeRecords"]

_QUOTE, _LF, _CR = b'"\n\r'

_WINDOW: Final = BOUND // 2
"""A line longer than the bound has no line end in one of the windows of this size."""


@attrs.frozen
class Stretch:
    """Records that follow each other, and lines that are rejected. ``doubtful``: they lie within the bound behind the beginning
    of a rejected line. ``too_long``: one line that is longer than the bound."""

    rows: list[bytes]
    doubtful: bool = False
    too_long: bool = False


@attrs.frozen
class WholeRecords:
    """``text`` from one beginning of a record to another. ``doubtful``: how many bytes at its beginning are doubtful."""

    text: bytes
    stretches: list[Stretch]
    doubtful: int


@final
class RecordBlocks:
    """Cuts the text of one file or sender. ``doubtful``: how many bytes at its beginning lie within the bound behind a rejected
    line. ``size``: how many bytes were cut so far."""

    def __init__(self, cutter: RecordCutter, doubtful: int = 0) -> None:
        self.cutter, self.size = cutter, 0
        self._until = doubtful
        """Where the doubtful text ends."""

    @property
    def doubtful(self) -> int:
        """How many bytes from here on are doubtful."""
        return max(0, self._until - self.size)

    def of(self, blocks: Iterable[bytes], *, ends: bool = True) -> Iterator[WholeRecords]:
        """The records of a text that comes in blocks. ``ends``: whether it ends with them."""
        rest, size, is_open = list[bytes](), 0, False
        for block in blocks:
            rest.append(block)
            size += len(block)
            quoted = b'"' in block
            if is_open and not quoted and size <= BOUND:
                continue  # within a quoted cell
            if quoted or b"\n" in block or b"\r" in block or rest[0].endswith(b"\r"):
                text = b"".join(rest)
                whole = self.cut(text, last=False)
                if whole.text:
                    yield whole
                tail = text[len(whole.text) :]
                rest, size = [tail], len(tail)
                is_open = b'"' in tail and self.cutter.is_open(tail)
        whole = self.cut(b"".join(rest), last=ends)
        if whole.text:
            yield whole

    def cut(self, text: bytes, *, last: bool) -> WholeRecords:
        """The whole records of a text that is next. ``last``: no more text comes."""
        stretches, doubtful = list[Stretch](), self.doubtful
        at, start = 0, self.size
        while at < len(text):
            if start + at >= self._until:
                rows, at = self._sound(text, at)
                if rows:
                    stretches.append(Stretch(rows))
            begin = at
            at = self._one_by_one(text, at, stretches, last=last)
            if at == begin:
                break
        self.size = start + at
        return WholeRecords(text[:at], stretches, doubtful)

    def _one_by_one(self, text: bytes, at: int, stretches: list[Stretch], *, last: bool) -> int:
        """Cut one record, and all that are doubtful."""
        rows, doubtful = list[bytes](), False
        while at < len(text):
            here = self.size + at < self._until
            one = self.cutter.cut(text, at, last=last) if here or not rows else None
            if one is None:
                break
            too_long = not one.sound and one.stop - at > BOUND
            if rows and (too_long or here != doubtful):
                stretches.append(Stretch(rows, doubtful))
                rows = []
            doubtful = here
            if not one.sound:
                self._until = max(self._until, self.size + at + BOUND)
            if too_long:
                stretches.append(Stretch([text[at : one.stop]], too_long=True))
            else:
                rows.append(text[at : one.stop])
            at = one.end
        if rows:
            stretches.append(Stretch(rows, doubtful))
        return at

    def _sound(self, text: bytes, at: int) -> tuple[list[bytes], int]:
        """The next records of a text that are surely sound, and where they end: none, all, or some of them."""
        if not self.cutter.separator or text.find(b'"', at) < 0:
            end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1
            if end <= at or (self.cutter.separator and not _is_short(text, at)):
                return [], at
            return text[at:end].splitlines(), end
        if len(self.cutter.separator) > 1 or text.count(b"\r") != text.count(b"\r\n"):
            return [], at
        return self._quoted(text, at)

    def _quoted(self, text: bytes, at: int) -> tuple[list[bytes], int]:
        """:meth:`_sound` of a text with quotes, and no line end that is CR alone."""
        letters = np.frombuffer(text, np.uint8)[at:]
        quotes = np.flatnonzero(letters == _QUOTE)
        limit = self._first_misplaced(letters, quotes)
        lines = np.flatnonzero(letters[:limit] == _LF)
        ends = lines[np.searchsorted(quotes, lines) % 2 == 0]
        starts = np.concatenate((np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1))
        long = np.flatnonzero(ends - starts > BOUND)
        if len(long):
            starts, ends = starts[: long[0]], ends[: long[0]]
        if not len(ends):
            return [], at
        end = int(ends[-1]) + 1
        if len(ends) == np.searchsorted(lines, end):
            return text[at : at + end].splitlines(), at + end
        stops = ends - ((letters[ends - 1] == _CR) & (ends > starts))
        return [text[a:b] for a, b in zip((starts + at).tolist(), (stops + at).tolist(), strict=True)], at + end

    def _first_misplaced(self, letters: Any, quotes: Any) -> int:
        """The place of the first quote that is not known to stand where one may, or is not closed."""
        separator, count = self.cutter.separator[0], len(quotes)
        joined = np.flatnonzero(np.diff(quotes) == 1)
        may = np.zeros(count, bool)
        before = letters[quotes[0::2] - 1]
        may[0::2] = (before == separator) | (before == _LF)
        if count and quotes[0] == 0:
            may[0] = True
        after = letters[np.minimum(quotes[1::2] + 1, len(letters) - 1)]
        may[1::2] = (after == separator) | (after == _LF) | (after == _CR) | (quotes[1::2] + 1 == len(letters))
        pairs = joined[joined % 2 == 1]
        may[pairs] = may[pairs + 1] = True
        if count % 2:
            may[-1] = False
        wrong = np.flatnonzero(~may)
        return int(quotes[wrong[0]]) if len(wrong) else len(letters)


def _is_short(text: bytes, at: int) -> bool:
    """Whether a text surely has no line that is longer than the bound."""
    return all(
        text.find(b"\n", place, place + _WINDOW) >= 0 or text.find(b"\r", place, place + _WINDOW) >= 0
        for place in range(at, len(text) - _WINDOW + 1, _WINDOW)
    )
