"""Where rows of a text end in a file: where it may be cut into source splits, and where a file may grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, Protocol, final

import attrs

from tracetypes.compiler.connectors.encodings import MARK, without_mark
from tracetypes.compiler.connectors.file_splits import Split
from tracetypes.compiler.connectors.files import open_file, range_of
from tracetypes.compiler.connectors.record_blocks import RecordBlocks
from tracetypes.csv_records import BOUND, RecordCutter
from tracetypes.formats import Csv, Format

__all__ = ["LINES", "RowEnds", "row_ends"]


class RowEnds(Protocol):
    """Ends of rows. ``is_cut``: whether a file may be read in parts."""

    @property
    def is_cut(self) -> bool: ...

    def splits(self, whole: Split, most: int) -> Iterator[Split]:
        """A split of text as splits of about this many bytes, which end where rows do."""

    def last(self, path: str, start: int, size: int) -> int:
        """The end of the last whole row between two places, of which the first begins a row. The first if there is none."""

    def after(self, path: str, taken: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        """Where the next row begins behind the parts of a file that were read, and how many bytes are doubtful there. None if a
        row goes on there."""


def row_ends(format: Format) -> RowEnds:
    """Those of a format of text."""
    if isinstance(format, Csv) and format.separator is not None:
        return _RecordEnds(RecordCutter(format.separator), format.encoding == "utf-8")
    return _LineEnds(not isinstance(format, Csv) or format.encoding == "utf-8")


@final
@attrs.frozen
class _LineEnds:
    """Rows that are lines."""

    is_cut: bool = True

    def splits(self, whole: Split, most: int) -> Iterator[Split]:
        """See :class:`RowEnds`."""
        start = whole.start
        if not _is_long(whole, start, most):
            yield whole
            return
        with open_file(whole.path, whole.state) as file:
            while _is_long(whole, start, most):
                end = _line_end(file, start + most, whole.end)
                yield attrs.evolve(whole, start=start, end=end)
                start = end
        if start < whole.end:
            yield attrs.evolve(whole, start=start)

    def last(self, path: str, start: int, size: int) -> int:
        """See :class:`RowEnds`."""
        with open_file(path) as file:
            end = size
            while end > start:
                begin = max(start, end - (1 << 16))
                file.seek(begin)
                at = file.read(end - begin).rfind(b"\n")
                if at >= 0:
                    return begin + at + 1
                end = begin
        return start

    def after(self, path: str, taken: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        """See :class:`RowEnds`."""
        end = taken[-1][1]
        with open_file(path) as file:
            file.seek(max(0, end - 1))
            around = file.read(2)
        ended = end == 0 or around[:1] in (b"\n", b"\r") or around[1:2] in (b"\n", b"\r")
        return (end, 0) if ended else None


LINES: Final[RowEnds] = _LineEnds()


@final
@attrs.frozen
class _RecordEnds:
    """Rows that are records of CSV. A line end with no quote within the bound before it surely ends one. In a text with quotes
    they are looked for from the last known one on."""

    cutter: RecordCutter
    is_cut: bool

    def splits(self, whole: Split, most: int) -> Iterator[Split]:
        """See :class:`RowEnds`."""
        start, doubtful = whole.start, whole.doubtful
        if not _is_long(whole, start, most):
            yield whole
            return
        with open_file(whole.path, whole.state) as file:
            while _is_long(whole, start, most):
                end, behind = self._next(file, whole, start, doubtful, start + most)
                yield attrs.evolve(whole, start=start, end=end, doubtful=doubtful)
                start, doubtful = end, behind
        if start < whole.end:
            yield attrs.evolve(whole, start=start, doubtful=doubtful)

    def _next(self, file: BinaryIO, whole: Split, start: int, doubtful: int, target: int) -> tuple[int, int]:
        """The first known end of a record from a place on, and how many bytes are doubtful there. ``start``: begins a record."""
        end = _line_end(file, target, whole.end)
        if end == whole.end:
            return end, 0
        if end - start > BOUND:
            file.seek(end - BOUND)
            if b'"' not in file.read(BOUND):
                return end, 0
        records = RecordBlocks(self.cutter, doubtful)
        at = next((at for at in self._scan(records, whole.path, start, whole.end) if at >= target), whole.end)
        return at, records.doubtful

    def last(self, path: str, start: int, size: int) -> int:
        """See :class:`RowEnds`."""
        return max(self._scan(RecordBlocks(self.cutter), path, start, size, ends=False), default=start)

    def after(self, path: str, taken: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        """See :class:`RowEnds`."""
        end = taken[-1][1]
        begin = max((start for start, _ in taken if start <= end - BOUND), default=taken[0][0])
        records = RecordBlocks(self.cutter)
        start = max(self._scan(records, path, begin, end, ends=False), default=begin)
        with open_file(path) as file:
            file.seek(start)
            text = file.read(end - start + BOUND + 2)
        at, doubtful = 0, records.doubtful
        while start + at < end:  # what is behind a record has a say in it
            one = self.cutter.cut(text, at, last=False)
            if one is None or start + one.stop > end:
                return None
            doubtful = doubtful if one.sound else max(doubtful, at + BOUND)
            at = one.end
        return start + at, max(0, doubtful - at)

    def _scan(self, records: RecordBlocks, path: str, start: int, end: int, *, ends: bool = True) -> Iterator[int]:
        """Places between records of a part of a file, one for each of its blocks."""
        at, blocks = start, range_of(path, start, end)
        if not start:
            blocks = without_mark(blocks)
            with open_file(path) as file:
                at = len(MARK) if file.read(len(MARK)) == MARK else 0
        for some in records.of(blocks, ends=ends):
            at += len(some.text)
            yield at


def _is_long(whole: Split, start: int, most: int) -> bool:
    """Whether what is left of a split from a place on is cut."""
    return whole.end - start > most + most // 2


def _line_end(file: BinaryIO, start: int, size: int) -> int:
    """The end of the line that contains this byte. The size of the file if the line has no end."""
    file.seek(start)
    while start < size:
        block = file.read(min(1 << 16, size - start))
        at = block.find(b"\n")
        if at >= 0 or not block:
            return start + at + 1 if block else size
        start += len(block)
    return size
