"""The local backend's record of a segment, in one SQLite database: what each epoch takes, and the states after the last one.

::

    CHECKPOINT/local/epochs.db         table epochs: a row for each of the last epochs. table states: rows for each shard.
                                       table shards: how many shards each stage has. table about: the run
    CHECKPOINT/local/states/0-3-1-17   a large part of a state: of stage 0, shard 3, part 1, written by epoch 17
    CHECKPOINT/local/states/0-3-1-of-8 the same, written when a run that goes on has put the states into 8 shards
    CHECKPOINT/local/sections/0-3-1-4f-9  a large section, number 9, of the log 4f of operator 1: states by key that are
                                       objects. table sections: the small ones. table logs: which sections each log has

A shard has several key groups (:mod:`.shards`). Without a row in that table, each key group is a shard.

An epoch is begun by a commit of what it takes, and ended by one commit of the parts of states that it has changed. So whoever
goes on after a crash takes the same rows again, from the states before. Each commit synchronises SQLite's write-ahead log.

Each row of ``epochs`` has a checksum, each part of a state its digest, and ``about`` has one of all digests and shards: so a row
that is gone is noticed, and a database of another run. They are compared when a log is opened and when states are read.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import cached_property, partial, reduce
from itertools import groupby
from operator import xor
from typing import Any, TypeAlias
from zlib import crc32

import attrs

from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.local.section_files import TABLES, LogRows, SectionFiles, logs_of, sound
from tracetypes.compiler.local.states import Part, StateParts, digest_of, state_of
from tracetypes.compiler.plan.fingerprint import Fingerprint
from tracetypes.compiler.runtime.regroup import divided
from tracetypes.compiler.store.input_files import home_of
from tracetypes.compiler.store.inspection import CheckpointView, StageAbout
from tracetypes.compiler.store.listings import listings_in
from tracetypes.compiler.store.places import Place, on_disk
from tracetypes.compiler.store.small_files import apart, damaged, read_json
from tracetypes.compiler.wire.seals import checksum
from tracetypes.errors import RunError, UsageError

__all__ = ["LocalLog", "ShardId", "Shards", "Takes", "stage_states"]

ShardId: TypeAlias = tuple[int, int]
"""A stage, and a shard of its key groups."""

LARGE = 1 << 17
"""Bytes from which a part of a state is a file of its own."""

JOURNAL = 8 << 20
"""Bytes of the write-ahead log that stay on disk after a large epoch."""

KEPT = 100
"""How many epochs are kept, as many as commit records."""

_TABLES = """
    CREATE TABLE IF NOT EXISTS epochs (
        number INTEGER PRIMARY KEY, takes TEXT NOT NULL, drain INTEGER NOT NULL, ended INTEGER NOT NULL, seal INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS states (
        stage INTEGER, grp INTEGER, part INTEGER, digest BLOB, state BLOB, file TEXT, PRIMARY KEY (stage, grp, part)
    );
    CREATE TABLE IF NOT EXISTS shards (stage INTEGER PRIMARY KEY, number INTEGER NOT NULL, key BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS about (one INTEGER PRIMARY KEY, run TEXT NOT NULL, states INTEGER NOT NULL, seal INTEGER NOT NULL);
"""


_SHARDS = "SELECT stage, number, key FROM shards ORDER BY stage"


_DIGESTS = "SELECT stage, grp, digest FROM states ORDER BY stage, grp, part"


@attrs.frozen
class Shards:
    """How many shards the key groups of a stage are in, and the schema of its keys, pickled. Key group 5 of 16 is in shard 1 of
    2."""

    number: int
    key: bytes


@attrs.frozen
class Takes:
    """What an epoch takes. ``sources``: of each reading, by label, the offsets from which and up to which it reads.
    ``channels``: of each leaf that is a channel, its directory and these offsets. ``drain``: the sources have ended. ``elapsed``:
    the event time to which a source has come with the clock, by name."""

    sources: dict[str, tuple[Any, Any]]
    channels: list[tuple[str, Any, Any]]
    drain: bool
    elapsed: dict[str, int] = attrs.Factory(dict)

    @property
    def line(self) -> str:
        """As JSON."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def of(cls, line: str) -> Takes:
        """From JSON."""
        plain = json.loads(line)
        sources = {label: (since, until) for label, (since, until) in plain["sources"].items()}
        return cls(sources, [(name, since, until) for name, since, until in plain["channels"]], plain["drain"], plain["elapsed"])


class LocalLog:
    """The record of one segment. A new run writes nothing before :meth:`begin`; one that goes on may call :meth:`forget` and
    :meth:`replace` first. Threads share it."""

    backend = "local"

    def __init__(self, checkpoint: Place) -> None:
        self.checkpoint = checkpoint
        self.path = on_disk(checkpoint) / "local"
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.RLock()
        self._known: dict[ShardId, Sequence[bytes]] | None = None
        self._logs = LogRows(self.path, self._file)
        self._sum = 0
        """The checksum of the states that are known."""
        self._is_sound = self._is_signed = self._is_tidy = False
        self._has_files = True
        """Whether parts of states may be files."""
        self.sections = SectionFiles(self.path)
        self.shards: dict[int, Shards] = {}
        """Of each stage, as the states of the next epoch have them."""

    # ------------------------------------------------------------------------------------------------- epochs

    @property
    def begun(self) -> int:
        """The last epoch that was begun; -1 for none."""
        return int(self._one("SELECT max(number) FROM epochs", -1))

    @property
    def ended(self) -> int:
        """The last epoch whose states are here; -1 for none."""
        return int(self._one("SELECT max(number) FROM epochs WHERE ended", -1))

    def refuse(self, old: Fingerprint, new: Fingerprint) -> None:
        """Refuse nothing: what a plan may change may change here."""

    def takes(self, number: int) -> Takes | None:
        """What an epoch takes, if it was begun."""
        line = self._one("SELECT takes FROM epochs WHERE number = ?", None, number)
        return None if line is None else Takes.of(line)

    def begin(self, number: int, takes: Takes) -> None:
        """Record that an epoch begins."""
        with self._lock, self._sound(), self._open() as connection:
            if not self._is_signed:
                self._sign(connection)
            row = number, takes.line, int(takes.drain), 0
            connection.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?, ?, ?)", (*row, checksum(*row)))

    def forget(self, number: int) -> None:
        """An epoch of which nobody has seen anything begins anew, and takes what is there then."""
        with self._lock, self._sound(), self._open() as connection:
            connection.execute("DELETE FROM epochs WHERE number >= ?", (number,))

    def end(self, number: int, states: Mapping[ShardId, StateParts]) -> None:
        """Record that an epoch has ended, with the states that it has changed: those parts that are not written yet."""
        self._write(states, number)

    def replace(self, states: Mapping[ShardId, StateParts]) -> None:
        """Replace all states by the same in other shards, those of :attr:`shards`."""
        with self._lock:
            self._known, self._sum = {}, 0
            self._write(states, None)

    def _write(self, states: Mapping[ShardId, StateParts], number: int | None) -> None:
        """Write states. ``number``: the epoch that ends with them; None: they take the place of all others."""
        with self._lock:
            digests = self._digests()
            rows: list[tuple[int, int, int, bytes, Part | None, str | None]] = []
            for (stage, group), state in states.items():
                before = digests.get((stage, group), ())
                for at, (part, digest) in enumerate(zip(state.parts, state.digests, strict=True)):
                    if at < len(before) and before[at] == digest:
                        continue
                    large = len(part) >= LARGE
                    name = f"{stage}-{group}-{at}-{f'of-{self.shards[stage].number}' if number is None else number}"
                    file = self._file(name, part) if large else None
                    rows.append((stage, group, at, digest, None if large else part, file))
            shorter = [(*at, len(one.parts)) for at, one in states.items() if len(one.parts) < len(digests.get(at, ()))]
            sections = self._logs.sections(states, LARGE)
            with self._sound(), self._open() as connection:
                if number is None:
                    connection.execute("DELETE FROM states")
                useless = self._logs.write(connection, states, sections, whole=number is None)
                connection.executemany("INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?)", rows)
                connection.executemany("DELETE FROM states WHERE stage = ? AND grp = ? AND part >= ?", shorter)
                if number is None or not digests:
                    of_stage = [(stage, one.number, one.key) for stage, one in self.shards.items()]
                    connection.executemany("INSERT OR REPLACE INTO shards VALUES (?, ?, ?)", of_stage)
                if number is not None:
                    query = "SELECT number, takes, drain FROM epochs WHERE number = ?"
                    for row in connection.execute(query, (number,)).fetchall():
                        row = *row, 1
                        connection.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?, ?, ?)", (*row, checksum(*row)))
                    connection.execute("DELETE FROM epochs WHERE number < ? AND NOT drain", (number - KEPT,))
                for shard, state in states.items():
                    self._sum ^= _sum_of(shard, digests.get(shard)) ^ _sum_of(shard, state.digests)
                    digests[shard] = state.digests
                self._sign(connection)
            if number is None or shorter or (rows and self._has_files) or any(file is not None for *_, file in rows):
                self._tidy()
                self._has_files = any(file is not None for (file,) in self._all("SELECT file FROM states"))
            for path in useless:
                path.unlink(missing_ok=True)
            if not self._is_tidy:
                self._tidy("sections")  # of a commit that was not made
                self._is_tidy = True

    def _sign(self, connection: sqlite3.Connection) -> None:
        """Write a checksum of all that is in the database beside the epochs, with the name of the run."""
        self._digests()
        row = 0, self._run, _checksum(connection, self._sum)
        connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?, ?, ?)", (*row, checksum(*row)))
        self._is_signed = True

    @cached_property
    def _run(self) -> str:
        """The run of the checkpoint."""
        about = read_json(self.checkpoint / "graph.json")
        return "" if about is None else str(about["run"])

    def _check(self, connection: sqlite3.Connection) -> None:
        """Compare checksums once. Raises :class:`RunError` ``TT225``, and ``TT227`` for a database of another run."""
        if self._is_sound:
            return
        path = self.path / "epochs.db"
        if not connection.in_transaction:
            connection.execute("BEGIN")  # a run may write meanwhile
        epochs = connection.execute("SELECT number, takes, drain, ended, seal FROM epochs").fetchall()
        about = connection.execute("SELECT one, run, states, seal FROM about").fetchall()
        digests = _by_shard(connection.execute(_DIGESTS).fetchall())
        whole = _checksum(connection, _sum(digests))
        connection.rollback()
        for *row, sum_ in epochs:
            if checksum(*row) != sum_:
                raise damaged(path, f"the checksum of micro-batch {row[0]} differs", "what each micro-batch takes")
        for *row, sum_ in about:
            if checksum(*row) != sum_:
                raise damaged(path, "the checksum of its table about differs", "the name of the run")
            if row[1] != self._run:
                raise apart(path, f"it is of run {row[1]}, and the checkpoint is of {self._run}", "Its states are others")
            if row[2] != whole:
                raise damaged(path, "rows of states or shards are gone, or others", "the states after the last micro-batch")
        if epochs and not about:
            raise damaged(path, "its table about is empty", "the name of the run")
        self._is_sound, self._is_signed = True, bool(about)

    def _digests(self) -> dict[ShardId, Sequence[bytes]]:
        """The digests of all parts that are written."""
        if self._known is None:
            self._known = _by_shard(self._all(_DIGESTS))
            self._sum = _sum(self._known)
        return self._known

    # ------------------------------------------------------------------------------------------------- states

    @property
    def stores(self) -> int:
        """How many stages have a state."""
        return int(self._one("SELECT count(DISTINCT stage) FROM states", 0))

    def states(self, stage: int | None = None) -> Iterator[tuple[ShardId, list[Part]]]:
        """The states after the last epoch that has ended, in parts. Raises :class:`RunError` ``TT225`` for one that is not
        as it was written."""
        query, order = "SELECT stage, grp, state, file, digest FROM states", "ORDER BY stage, grp, part"
        some = self._all(f"{query} {order}") if stage is None else self._all(f"{query} WHERE stage = ? {order}", stage)
        for at, rows in groupby(some, key=lambda row: row[:2]):
            yield (at[0], at[1]), [self._part(*row) for row in rows]

    def _part(self, stage: int, group: int, part: Part | None, file: str | None, digest: bytes) -> Part:
        """A part of a state, as it was written."""
        path = self.path / "epochs.db" if file is None else self.path / "states" / file
        try:
            content = part if file is None else path.read_bytes()
        except OSError as error:
            raise damaged(path, error.strerror or error, f"the state of stage {stage}, shard {group}") from error
        if content is None or digest_of(content) != digest:
            raise damaged(path, "its checksum differs", f"the state of stage {stage}, shard {group}")
        return content

    def written_shards(self) -> dict[int, Shards]:
        """Of each stage whose states are in shards."""
        return {stage: Shards(number, key) for stage, number, key in self._all(_SHARDS)}

    def _file(self, name: str, state: Part, folder: str = "states") -> str:
        directory = self.path / folder
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / name).open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        return name

    def _tidy(self, folder: str = "states") -> None:
        """Remove the files of states, or of sections, that are no longer."""
        needed = {file for (file,) in self._all(f"SELECT file FROM {folder} WHERE file IS NOT NULL")}
        for path in (self.path / folder).glob("*"):
            if path.name not in needed:
                path.unlink()

    # ------------------------------------------------------------------------------------- what a run asks for

    def clean(self) -> None:
        """Remove a database in which nothing was begun."""
        if self.begun < 0:
            self.close()
            shutil.rmtree(self.path, ignore_errors=True)
            self._is_signed = False

    def moved(self, before: Place, after: Place) -> None:
        """Nothing names a directory."""

    @property
    def listed(self) -> list[Place]:
        """The listings that epochs have taken."""
        return [
            listings_in(home_of(self.checkpoint, label), 1).place(number) / "0.jsonl"
            for (line,) in self._all("SELECT takes FROM epochs")
            for label, (since, until) in Takes.of(line).sources.items()
            if "listing" in until
            for number in range(since["listing"] + 1, until["listing"] + 1)
        ]

    def took_from(self, directory: Place, epoch: int) -> bool:
        """Whether the sources have ended with an epoch or with one before it, by its record. (Spark finds the end as a file of
        ``directory``.)"""
        return bool(self._one("SELECT max(drain) FROM epochs WHERE number <= ?", 0, epoch))

    # ----------------------------------------------------------------------------------------------- database

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.mkdir(parents=True, exist_ok=True)
            with self._sound():
                connection = sqlite3.connect(self.path / "epochs.db", check_same_thread=False)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA journal_size_limit = {JOURNAL}")
                connection.executescript(f"BEGIN;{_TABLES}{TABLES}COMMIT;")  # all tables or none, also after a kill
                self._check(connection)
                self._connection = connection
        return self._connection

    def _sound(self) -> AbstractContextManager[None]:
        """A context. Raises :class:`RunError` ``TT225`` if SQLite cannot read the database, ``TT209`` if it cannot write it."""
        return sound(self.path / "epochs.db", "what each micro-batch takes, and the states")

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self.sections.close()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            path = self.path / "epochs.db"
            if self._connection is None and (not path.exists() or not path.stat().st_size):
                return []  # the run store sees whether it should have something
            with self._sound():
                if self._connection is not None:
                    return self._connection.execute(query, values).fetchall()
                with closing(sqlite3.connect(path)) as connection:
                    if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                        return []  # another thread makes it, or a kill came before its tables
                    self._check(connection)
                    return connection.execute(query, values).fetchall()

    def _one(self, query: str, default: Any, *values: Any) -> Any:
        rows: Sequence[tuple[Any, ...]] = self._all(query, *values)
        return default if not rows or rows[0][0] is None else rows[0][0]


def _by_shard(rows: Iterable[tuple[int, int, bytes]]) -> dict[ShardId, Sequence[bytes]]:
    """Digests in the order of their parts, by shard."""
    known: dict[ShardId, list[bytes]] = {}
    for stage, group, digest in rows:
        known.setdefault((stage, group), []).append(digest)
    return {at: tuple(some) for at, some in known.items()}


def _checksum(connection: sqlite3.Connection, states: int) -> int:
    """A checksum of what a database says of states. ``states``: that of their digests."""
    logs = [(*at, *attrs.astuple(about)) for at, about in logs_of(connection).items()]
    shards = connection.execute(_SHARDS).fetchall()
    return checksum(states, shards, logs) if logs else checksum(states, shards)


def _sum(digests: Mapping[ShardId, Sequence[bytes]]) -> int:
    """A checksum of all digests, which changes with each of them alone."""
    return reduce(xor, (_sum_of(at, some) for at, some in digests.items()), 0)


def _sum_of(at: ShardId, digests: Sequence[bytes] | None) -> int:
    return 0 if digests is None else crc32(b"".join(digests), at[0] << 16 | at[1])


def stage_states(view: CheckpointView, stage: StageAbout) -> Iterator[tuple[int, bytes]]:
    """The states of a stage by key group. Raises :class:`UsageError` ``TT408`` if a run that goes on has removed what they
    are in."""
    with closing(LocalLog(view.path)) as log:
        ended = log.ended
        try:
            yield from _stage_states(log, view, stage)
        except RunError as error:
            if log.ended == ended:
                raise
            what = f"the run of {view.path} has gone on while its states were read"
            raise UsageError("TT408", what, fix="ask again, or stop the run first") from error


def _stage_states(log: LocalLog, view: CheckpointView, stage: StageAbout) -> Iterator[tuple[int, bytes]]:
    shards = log.written_shards().get(stage.number)
    some = ((at[1], state_of(parts, partial(log.sections.of, *at))) for at, parts in log.states(stage.number))
    if shards is None or shards.number == view.key_groups:
        for group, state in some:
            yield group, dumps(state)
        return
    key, states = loads(shards.key), dict[int, Any]()
    for shard, whole in some:
        for group, state in enumerate(divided(key, whole, view.key_groups)):
            if group % shards.number == shard:
                states[group] = state
    for group in sorted(states):
        yield group, dumps(states[group])
