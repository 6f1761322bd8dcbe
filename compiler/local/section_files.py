"""Segments of logs of states, as any process of a run reads them from the checkpoint."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from tracetypes.compiler.local.states import digest_of
from tracetypes.compiler.runtime.state_log import LENGTH
from tracetypes.compiler.store.small_files import damaged
from tracetypes.errors import RunError

__all__ = ["LogSegments", "SegmentFiles"]

OPEN: Final = 32
"""Files of a log that are open at a time."""


class SegmentFiles:
    """The segments of all logs. ``path``: ``CHECKPOINT/local``. Another process gets a copy."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return SegmentFiles, (self.path,)

    def of(self, stage: int, shard: int, operator: int) -> LogSegments:
        """Those of the log of an operator."""
        return LogSegments(self, stage, shard, operator)

    def row(self, columns: str, stage: int, shard: int, operator: int, number: int) -> tuple[Any, ...]:
        """Columns of the row of a segment. Raises :class:`RunError` ``TT225``."""
        query = f"SELECT {columns} FROM segments WHERE stage = ? AND grp = ? AND operator = ? AND number = ?"
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = sqlite3.connect(self.path / "epochs.db", check_same_thread=False)
                row: tuple[Any, ...] | None = self._connection.execute(query, (stage, shard, operator, number)).fetchone()
            except sqlite3.DatabaseError as error:
                raise damaged(self.path / "epochs.db", error, f"the state of stage {stage}, shard {shard}") from error
        if row is None:
            raise damaged(self.path / "epochs.db", f"segment {number} is gone", f"the state of stage {stage}, shard {shard}")
        return row

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


@final
class LogSegments:
    """Reads the segments of one log. One thread at a time does."""

    def __init__(self, files: SegmentFiles, stage: int, shard: int, operator: int) -> None:
        self.files, self.at = files, (stage, shard, operator)
        self._open = OrderedDict[int, int | None]()
        """File descriptors; None for a segment that is a row of the database."""

    def __del__(self) -> None:
        for number in [*self._open]:
            self.close(number)

    def head(self, number: int) -> tuple[bytes, int]:
        """The head of a segment, and how many bytes the segment has. Raises :class:`RunError` ``TT225``."""
        digest, size = self.files.row("digest, size", *self.at, number)
        start = self.read(number, 0, LENGTH.size)
        head = self.read(number, LENGTH.size, LENGTH.unpack(start)[0]) if len(start) == LENGTH.size else b""
        if digest_of(head) != digest or len(self.read(number, size - 1, 2)) != 1:
            raise self.damage(number)
        return head, size

    def read(self, number: int, start: int, size: int) -> bytes:
        """Some bytes of a segment. Raises :class:`RunError` ``TT225``."""
        if number not in self._open:
            self._open[number] = self._file(number)
            if len(self._open) > OPEN:
                self.close(next(iter(self._open)))
        file = self._open[number]
        if file is None:
            return bytes(self.files.row(f"substr(content, {start + 1}, {size})", *self.at, number)[0] or b"")
        try:
            return os.pread(file, size, start)
        except OSError as error:
            raise self.damage(number, error.strerror or error) from error

    def close(self, number: int) -> None:
        """A segment will not be read soon, or is to be removed."""
        if (file := self._open.pop(number, None)) is not None:
            with suppress(OSError):
                os.close(file)

    def damage(self, number: int, why: object = "its checksum differs") -> RunError:
        """The error for a segment that is not what was written."""
        stage, shard, _ = self.at
        path = self.files.path / "epochs.db"
        with suppress(RunError):
            (file,) = self.files.row("file", *self.at, number)
            path = path if file is None else self.files.path / "segments" / file
        return damaged(path, why, f"the state of stage {stage}, shard {shard}")

    def _file(self, number: int) -> int | None:
        (file,) = self.files.row("file", *self.at, number)
        if file is None:
            return None
        try:
            return os.open(self.files.path / "segments" / file, os.O_RDONLY)
        except OSError as error:
            raise self.damage(number, error.strerror or error) from error
