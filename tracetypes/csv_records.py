"""Where a record of CSV ends: the definition, record by record (RFC 4180, section 2).

A record is cells between separators, up to a line end (LF, CR LF or CR) or the end of the text. A cell is bare (no quote, no
separator, no line end), or quoted: anything between two quotes, in which a quote is doubled. So a quoted cell may have line
ends.

A record that is not well-formed, or longer than :data:`BOUND`, rejects its *first line*. Reading goes on at the next line. So
what is read depends on the text alone, not on how it is cut. The lines behind such a line, up to the bound from its start, may
be parts of the record that the writer meant: they are *doubtful*.

Theorem. Where one record or rejected line ends, another begins. Let a text be cut at any such places. Then the parts, each read
by itself, give the same records and rejects as the whole. For a record that ends within its part is the same in both. A rejected
line that needs a look beyond its part lies in an open quoted cell at the end of the part: so it is not closed there either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["BOUND", "RecordCut", "RecordCutter"]

BOUND: Final = 1 << 20
"""Bytes of a record at most, in UTF-8 and without its line end."""

_LINE_END: Final = re.compile(rb"\r\n?|\n")


class RecordCut(NamedTuple):
    """A record, or a line that is rejected. ``stop``: behind its last cell. ``end``: behind its line end. ``sound``: it is a
    record."""

    stop: int
    end: int
    sound: bool


class RecordCutter:
    """Cuts bytes of UTF-8 into records. ``separator`` None: runs of white space separate cells, and a record is a line."""

    def __init__(self, separator: str | None) -> None:
        quoted, bare = rb'"[^"]*+(?:""[^"]*+)*+"', rb"[^\r\n]*+"
        mark = b"" if separator is None else separator.encode()
        if mark:
            one = re.escape(mark)
            bare = rb'[^"\r\n' + one + rb"]*+" if len(mark) == 1 else rb'(?:(?!' + one + rb')[^"\r\n])*+'
            self._record = re.compile(rb"(?:%b|%b)(?:%b(?:%b|%b))*+" % (quoted, bare, one, quoted, bare))
        else:
            self._record = re.compile(bare)
        self.separator = mark
        """Empty where cells have no quotes."""

    def cut(self, text: bytes, at: int, *, last: bool) -> RecordCut | None:
        """The record or rejected line that begins at a place. None if more text must come first. ``last``: no more comes."""
        most = at + BOUND + 1 if self.separator else len(text)
        match = self._record.match(text, at, most)
        stop = at if match is None else match.end()
        if stop == len(text) and (stop - at <= BOUND or not self.separator):
            return RecordCut(stop, stop, True) if last else None
        if stop < most and text[stop] in b"\r\n":
            return _ended(text, stop, True, last=last)
        if len(text) < most and not last and self._opens(text, at, stop):
            return None
        line = _LINE_END.search(text, at)
        if line is not None:
            return _ended(text, line.start(), False, last=last)
        return RecordCut(len(text), len(text), False) if last else None

    def is_open(self, line: bytes) -> bool:
        """Whether a line ends within a quoted cell."""
        match = self._record.match(line)
        stop = 0 if match is None else match.end()
        return bool(self.separator) and stop < len(line) and self._opens(line, 0, stop)

    def _opens(self, text: bytes, at: int, stop: int) -> bool:
        """Whether a quoted cell begins at a place, which has no end."""
        return text[stop : stop + 1] == b'"' and (stop == at or text.endswith(self.separator, at, stop))

    def records(self, text: bytes) -> Iterator[tuple[bytes, bool]]:
        """All records and rejected lines of a text, in order, and whether each is a record."""
        at = 0
        while at < len(text):
            cut = self.cut(text, at, last=True)
            assert cut is not None
            yield text[at : cut.stop], cut.sound
            at = cut.end


def _ended(text: bytes, stop: int, sound: bool, *, last: bool) -> RecordCut | None:
    """What ends with the line end at a place. None if it may be the first half of CR LF."""
    if text[stop : stop + 1] == b"\n":
        return RecordCut(stop, stop + 1, sound)
    if stop + 1 == len(text) and not last:
        return None
    return RecordCut(stop, stop + (2 if text[stop + 1 : stop + 2] == b"\n" else 1), sound)
