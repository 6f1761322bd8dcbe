"""Sections of logs of states: as any process of a run reads them from the checkpoint, and as a commit writes them.

Large ones are files, the others rows of a table. Another table says which sections each log has.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import attrs

from tracetypes.compiler.local.states import Part, StateParts, digest_of
from tracetypes.compiler.runtime.state_log import LENGTH, LogAbout, LogWrite
from tracetypes.compiler.store.small_files import damaged
from tracetypes.errors import RunError

__all__ = ["TABLES", "LogRows", "LogSections", "SectionFiles", "logs_of", "sound"]

TABLES: Final = """
    CREATE TABLE IF NOT EXISTS logs (
        stage INTEGER, grp INTEGER, operator INTEGER, chain TEXT NOT NULL, first INTEGER NOT NULL, next INTEGER NOT NULL,
        PRIMARY KEY (stage, grp, operator)
    );
    CREATE TABLE IF NOT EXISTS sections (
        stage INTEGER, grp INTEGER, operator INTEGER, number INTEGER, digest BLOB, size INTEGER, content BLOB, file TEXT,
        PRIMARY KEY (stage, grp, operator, number)
    );
"""

_LOGS: Final = "SELECT stage, grp, operator, chain, first, next FROM logs ORDER BY stage, grp, operator"

UNWRITABLE: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
    | {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMSIZE}
)
"""Codes of errors of SQLite that say nothing about what is in the database: it cannot be written. A full disk has several."""

OPEN: Final = 32
"""Files of a log that are open at a time."""


@contextmanager
def sound(path: Path, lost: str) -> Iterator[None]:
    """A context. Raises :class:`RunError` ``TT225`` if SQLite cannot read a database, ``TT209`` if it cannot write it.
    ``lost``: what it holds."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if {code, code & 0xFF} & UNWRITABLE:
            fix = "see whether the disk is full or the directory may be written, and run again to go on"
            raise RunError("TT209", f"{path} cannot be written: {error}", fix=fix) from error
        raise damaged(path, error, lost) from error


class SectionFiles:
    """The sections of all logs. ``path``: ``CHECKPOINT/local``. Another process gets a copy."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return SectionFiles, (self.path,)

    def of(self, stage: int, shard: int, operator: int) -> LogSections:
        """Those of the log of an operator."""
        return LogSections(self, stage, shard, operator)

    def row(self, columns: str, stage: int, shard: int, operator: int, number: int) -> tuple[Any, ...]:
        """Columns of the row of a section. Raises :class:`RunError` ``TT225``."""
        path, lost = self.path / "epochs.db", f"the state of stage {stage}, shard {shard}"
        query = f"SELECT {columns} FROM sections WHERE stage = ? AND grp = ? AND operator = ? AND number = ?"
        with self._lock, sound(path, lost):
            if self._connection is None:
                self._connection = sqlite3.connect(path, check_same_thread=False)
            row: tuple[Any, ...] | None = self._connection.execute(query, (stage, shard, operator, number)).fetchone()
        if row is None:
            raise damaged(path, f"section {number} is gone", lost)
        return row

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


@final
class LogSections:
    """Reads the sections of one log. One thread at a time does."""

    def __init__(self, files: SectionFiles, stage: int, shard: int, operator: int) -> None:
        self.files, self.at = files, (stage, shard, operator)
        self._open = OrderedDict[int, int | None]()
        """File descriptors; None for a section that is a row of the database."""

    def __del__(self) -> None:
        for number in [*self._open]:
            self.close(number)

    def head(self, number: int) -> tuple[bytes, int]:
        """The head of a section, and how many bytes the section has. Raises :class:`RunError` ``TT225``."""
        digest, size = self.files.row("digest, size", *self.at, number)
        start = self.read(number, 0, LENGTH.size)
        head = self.read(number, LENGTH.size, LENGTH.unpack(start)[0]) if len(start) == LENGTH.size else b""
        if digest_of(head) != digest or len(self.read(number, size - 1, 2)) != 1:
            raise self.damage(number)
        return head, size

    def read(self, number: int, start: int, size: int) -> bytes:
        """Some bytes of a section. Raises :class:`RunError` ``TT225``."""
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
        """A section will not be read soon, or is to be removed."""
        if (file := self._open.pop(number, None)) is not None:
            with suppress(OSError):
                os.close(file)

    def damage(self, number: int, why: object = "its checksum differs") -> RunError:
        """The error for a section that is not what was written."""
        stage, shard, _ = self.at
        path = self.files.path / "epochs.db"
        with suppress(RunError):
            (file,) = self.files.row("file", *self.at, number)
            path = path if file is None else self.files.path / "sections" / file
        return damaged(path, why, f"the state of stage {stage}, shard {shard}")

    def _file(self, number: int) -> int | None:
        (file,) = self.files.row("file", *self.at, number)
        if file is None:
            return None
        try:
            return os.open(self.files.path / "sections" / file, os.O_RDONLY)
        except OSError as error:
            raise self.damage(number, error.strerror or error) from error


# --------------------------------------------------------------------------------------------------- writing


def logs_of(connection: sqlite3.Connection) -> dict[tuple[int, int, int], LogAbout]:
    """The logs that a database has, by stage, shard and operator. One of format 10 has no table of them."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'logs'").fetchone() is None:
        return {}
    return {(stage, shard, operator): LogAbout(*about) for stage, shard, operator, *about in connection.execute(_LOGS).fetchall()}


Section: TypeAlias = tuple[int, int, int, int, bytes, int, Any, str | None]
"""A row of the table."""


@final
class LogRows:
    """What a commit writes of logs. ``path``: ``CHECKPOINT/local``; ``write_file``: writes a file, by its name, content and
    folder."""

    def __init__(self, path: Path, write_file: Callable[[str, Part, str], str]) -> None:
        self.path, self.write_file = path, write_file
        self._about: dict[tuple[int, int, int], LogAbout] | None = None

    def sections(self, states: Mapping[tuple[int, int], StateParts], large: int) -> list[Section]:
        """The rows of what a commit writes. Those of ``large`` bytes or more are in files then."""
        return [row for at, one in states.items() for log in one.logs for row in self._sections(at, log, large)]

    def _sections(self, at: tuple[int, int], log: LogWrite, large: int) -> Iterator[Section]:
        for number, content in enumerate(log.sections, log.about.next - len(log.sections)):
            name, file = f"{at[0]}-{at[1]}-{log.operator}-{log.about.chain}-{number}", None
            if len(content) >= large:
                file = self.write_file(name, content, "sections")
            (length,) = LENGTH.unpack(content[: LENGTH.size])
            digest = digest_of(memoryview(content)[LENGTH.size : LENGTH.size + length])  # states have checksums of their own
            yield *at, log.operator, number, digest, len(content), None if file else content, file

    def write(
        self,
        connection: sqlite3.Connection,
        states: Mapping[tuple[int, int], StateParts],
        sections: Sequence[Section],
        *,
        whole: bool,
    ) -> list[Path]:
        """Write sections, note which ones logs have, and remove those that they have no more. ``whole``: also logs of other
        states. Gives the files that nobody needs when this is committed."""
        useless: list[Path] = []

        def remove(where: str, *values: Any) -> None:
            some = connection.execute(f"SELECT file FROM sections WHERE {where} AND file IS NOT NULL", values).fetchall()
            useless.extend(self.path / "sections" / file for (file,) in some)
            connection.execute(f"DELETE FROM sections WHERE {where}", values)

        if self._about is None:
            self._about = logs_of(connection)
        for (stage, shard, operator), about in list(self._about.items()):
            after = states.get((stage, shard))
            if after is None and not whole:
                continue
            now = None if after is None else next((one.about for one in after.logs if one.operator == operator), None)
            if now is None or now.chain != about.chain:
                remove("stage = ? AND grp = ? AND operator = ?", stage, shard, operator)
                connection.execute("DELETE FROM logs WHERE stage = ? AND grp = ? AND operator = ?", (stage, shard, operator))
                del self._about[stage, shard, operator]
            elif now.first > about.first:
                remove("stage = ? AND grp = ? AND operator = ? AND number < ?", stage, shard, operator, now.first)
        for at, state in states.items():
            for one in state.logs:
                self._about[*at, one.operator] = one.about
                row = *at, one.operator, *attrs.astuple(one.about)
                connection.execute("INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?)", row)
        connection.executemany("INSERT INTO sections VALUES (?, ?, ?, ?, ?, ?, ?, ?)", sections)
        return useless
