"""What a workspace shall run, in one SQLite database. It survives a kill at any moment.

::

    WORKSPACE/workspace.db    about: the backend, and how many decisions have been made. flows: what users have submitted.
                              operators: what runs for them. attachments: the marker behind which an operator reads another one

A decision is one transaction: it is there as a whole, or not at all. Whoever carries it out reads it from here. Each commit
synchronises SQLite's write-ahead log. Each row has a checksum, and ``about`` has one of all rows, so a row that is gone is
noticed too.

The layout has a number. A database with an older layout is brought up to date when it is opened, in one transaction for each
step. One with a newer layout is refused.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.compiler.store.small_files import damaged
from tracetypes.compiler.wire.seals import checksum
from tracetypes.compiler.workspace.classes import Class
from tracetypes.compiler.workspace.running import Decision, Flow, Instance, Operator, Running, ancestors
from tracetypes.errors import RunError, UsageError
from tracetypes.version import VERSION

__all__ = ["LAYOUTS", "Submission", "WorkspaceDatabase"]

APPLICATION: Final = 0x74746B73
"""By which SQLite's file says that it is ours."""

WAIT: Final = 30.0
"""Seconds until a transaction of another process has ended."""

LAYOUTS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE about (
        one INTEGER PRIMARY KEY CHECK (one = 1), backend TEXT NOT NULL, version INTEGER NOT NULL, rows INTEGER NOT NULL,
        seal INTEGER NOT NULL
    );
    CREATE TABLE flows (name TEXT PRIMARY KEY, body TEXT NOT NULL, seal INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE operators (
        launch INTEGER, id INTEGER, body TEXT NOT NULL, seal INTEGER NOT NULL, PRIMARY KEY (launch, id)
    ) WITHOUT ROWID;
    CREATE TABLE attachments (
        launch INTEGER, id INTEGER, place INTEGER, marker INTEGER NOT NULL, seal INTEGER NOT NULL, PRIMARY KEY (launch, id, place)
    ) WITHOUT ROWID;
    """,
)
"""The steps from one layout to the next. A step that has been released stays as it is. Operators of one launch lie side by side,
so that a decision changes few pages."""


@attrs.frozen(kw_only=True)
class Submission:
    """What a user has submitted. ``code``: the copy of its source files, by their digest. ``plain``: its inputs, outputs and
    options, as JSON has them."""

    code: str
    plain: Mapping[str, Any]


class WorkspaceDatabase:
    """The database of a workspace. Several processes may have it open, and threads share it: a decision that was made for an
    earlier state than the one that is there is refused."""

    def __init__(self, path: Path, backend: str) -> None:
        """Open the database, or create it. ``backend``: on which everything runs. Raises :class:`RunError` ``TT220`` for a newer
        layout, ``TT225`` for a damaged file, and :class:`UsageError` ``TT402`` for another backend."""
        self.path = path
        self._lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._reading():
            self._connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
                with self._transaction():
                    self._bring_up_to_date(backend)
                self._check()
                self._is_of(backend)
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    # ------------------------------------------------------------------------------------------------ reading

    @classmethod
    def of(cls, path: Path) -> WorkspaceDatabase:
        """Open a database that is there, on whatever backend it runs. Raises as the constructor does."""
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=WAIT)) as connection:
                ((backend,),) = connection.execute("SELECT backend FROM about").fetchall()
        except (sqlite3.Error, ValueError) as error:
            raise damaged(path, error, "all flows of the workspace") from error
        return cls(path, backend)

    @property
    def backend(self) -> str:
        """On which everything runs."""
        with self._lock, self._reading():
            ((backend,),) = self._all("SELECT backend FROM about")
            return str(backend)

    def running(self) -> Running:
        """What shall run."""
        with self._lock, self._reading(), self._snapshot():
            self._check()
            (version,) = self._all("SELECT version FROM about")[0]
            operators = {
                one.instance: one
                for launch, id, body in self._all("SELECT launch, id, body FROM operators")
                for one in [_operator(launch, id, body)]
            }
            flows = []
            for name, body in self._all("SELECT name, body FROM flows"):
                plain = json.loads(body)
                sinks = tuple((id, _instance(one)) for id, one in plain["sinks"])
                needs = ancestors(operators, (sink for _, sink in sinks))
                flows.append(Flow(name=name, start=plain["start"], sinks=sinks, needs=needs))
            return Running.of(version, operators.values(), flows)

    def submissions(self) -> dict[str, Submission]:
        """What users have submitted, by flow."""
        with self._lock, self._reading():
            rows = [(name, json.loads(body)) for name, body in self._all("SELECT name, body FROM flows ORDER BY name")]
            return {name: Submission(code=body["code"], plain=body["plain"]) for name, body in rows}

    def submission(self, name: str) -> Submission:
        """What a user has submitted under a name. Raises :class:`KeyError` if there is no such flow."""
        with self._lock, self._reading():
            rows = self._all("SELECT body FROM flows WHERE name = ?", (name,))
            if not rows:
                raise KeyError(name)
            body = json.loads(rows[0][0])
            return Submission(code=body["code"], plain=body["plain"])

    def markers(self) -> dict[tuple[int, int, int], int]:
        """The marker behind which an operator reads one of its inputs: by its launch, its number and the place of the input."""
        with self._lock, self._reading():
            rows = self._all("SELECT launch, id, place, marker FROM attachments")
            return {(launch, id, place): marker for launch, id, place, marker in rows}

    # ------------------------------------------------------------------------------------------------ writing

    def write(
        self,
        decision: Decision,
        submissions: Mapping[str, Submission] | None = None,
        markers: Mapping[tuple[int, int, int], int] | None = None,
    ) -> None:
        """Make a decision, in one transaction. ``submissions``: of the flows that join, by name; one that only changes its name
        keeps its own. ``markers``: behind which the started operators read their inputs, as of :meth:`markers`. Raises
        ``ValueError`` if the decision was made for another state."""
        by_name = submissions or {}
        with self._lock, self._reading(), self._transaction():
            (version,) = self._all("SELECT version FROM about")[0]
            if version != decision.base:
                raise ValueError(f"the decision was made for version {decision.base}, this is {version}")
            bodies = [self._body(flow.name) for flow in reversed(decision.leaves)]
            self._remove("flows", "name = ?", [(flow.name,) for flow in decision.leaves])
            stops = [(one.launch, one.id) for one in decision.stop]
            self._remove("attachments", "launch = ? AND id = ?", stops)
            self._remove("operators", "launch = ? AND id = ?", stops)
            self._add("operators", [(one.launch, one.id, _shown_operator(one)) for one in decision.start])
            self._add("attachments", [(*at, marker) for at, marker in (markers or {}).items()])
            self._add("flows", [(flow.name, _shown_flow(flow, _submission_of(flow, by_name, bodies))) for flow in decision.joins])
            self._note(version + 1)

    def attach(self, launch: int, id: int, place: int, marker: int) -> None:
        """An operator reads one of its inputs behind a marker (microseconds). Nothing behind it may be removed before this is
        written. A second marker for the same input is refused with ``ValueError``."""
        with self._lock, self._reading(), self._transaction():
            markers = self._all("SELECT marker FROM attachments WHERE launch = ? AND id = ? AND place = ?", (launch, id, place))
            if markers and markers != [(marker,)]:
                raise ValueError(f"input {place} of operator {launch}.{id} is read behind {markers[0][0]}, not behind {marker}")
            if not self._all("SELECT 1 FROM operators WHERE launch = ? AND id = ?", (launch, id)):
                raise ValueError(f"there is no operator {launch}.{id}")
            if not markers:
                self._add("attachments", [(launch, id, place, marker)])
                (version,) = self._all("SELECT version FROM about")[0]
                self._note(version)

    def back_up(self, to: Path) -> None:
        """Write a copy of the database, as it is at one moment. It is a database of its own."""
        with self._lock, self._reading(), closing(sqlite3.connect(to)) as other:
            self._connection.backup(other)

    # ------------------------------------------------------------------------------------------------- inside

    def _prepare(self) -> None:
        for line in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {line}")

    def _bring_up_to_date(self, backend: str) -> None:
        (layout,), (application,) = self._all("PRAGMA user_version")[0], self._all("PRAGMA application_id")[0]
        if application not in (0, APPLICATION) or (application == 0 and self._all("SELECT 1 FROM sqlite_master")):
            raise damaged(self.path, "it is a database of another program")
        if layout > len(LAYOUTS):
            raise RunError(
                "TT220",
                f"the workspace {self.path} has layout {layout}; tracetypes {VERSION} reads layouts up to {len(LAYOUTS)}",
                fix="go on with the version that wrote it, or a newer one",
            )
        for number in range(layout, len(LAYOUTS)):
            for statement in filter(str.strip, LAYOUTS[number].split(";")):
                self._connection.execute(statement)
        if layout < len(LAYOUTS):
            self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self._connection.execute(f"PRAGMA user_version = {len(LAYOUTS)}")
        if not self._all("SELECT 1 FROM about") and not self._all("SELECT 1 FROM flows"):
            about = (backend, 0, 0)
            self._connection.execute("INSERT INTO about VALUES (1, ?, ?, ?, ?)", (*about, checksum("about", *about)))

    def _is_of(self, backend: str) -> None:
        ((own,),) = self._all("SELECT backend FROM about")
        if own != backend:
            raise UsageError(
                "TT402",
                f"the workspace {self.path.parent} runs on {own!r}, not on {backend!r}",
                fix=f"open it with backend={own!r}, or make another one",
            )

    def _check(self) -> None:
        """Compare all checksums."""
        about = self._all("SELECT backend, version, rows, seal FROM about")
        if not about or checksum("about", *about[0][:-1]) != about[0][-1]:
            raise damaged(self.path, "its table 'about' has another checksum", "all flows of the workspace")
        total = 0
        for table in ("flows", "operators", "attachments"):
            for *values, seal in self._all(f"SELECT * FROM {table}"):
                if checksum(table, *values) != seal:
                    raise damaged(self.path, f"a row of its table {table!r} has another checksum: {values[0]!r}")
                total ^= seal
        if total != about[0][2]:
            raise damaged(self.path, "rows are gone, or come from another moment")

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def _body(self, name: str) -> dict[str, Any]:
        ((body,),) = self._all("SELECT body FROM flows WHERE name = ?", (name,))
        plain: dict[str, Any] = json.loads(body)
        return plain

    def _add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        for row in rows:
            seal = checksum(table, *row)
            self._changed ^= seal
            self._connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * (len(row) + 1))})", (*row, seal))

    def _remove(self, table: str, where: str, keys: Iterable[tuple[Any, ...]]) -> None:
        for key in keys:
            for (seal,) in self._all(f"DELETE FROM {table} WHERE {where} RETURNING seal", key):
                self._changed ^= seal

    def _note(self, version: int) -> None:
        """Write what the rows are now."""
        ((backend, rows),) = self._all("SELECT backend, rows FROM about")
        about = (backend, version, rows ^ self._changed)
        self._connection.execute("UPDATE about SET version = ?, rows = ?, seal = ?", (*about[1:], checksum("about", *about)))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A context that writes all or nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._changed = 0
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """A context that reads one state, whatever others write meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """A context that says which file is damaged, or cannot be written."""
        try:
            yield
        except sqlite3.OperationalError as error:
            fix = "see whether the disk is full or the directory may be written"
            raise RunError("TT209", f"{self.path} cannot be written: {error}", fix=fix) from error
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error, "all flows of the workspace") from error


def _submission_of(flow: Flow, by_name: Mapping[str, Submission], bodies: Iterable[Mapping[str, Any]]) -> Submission:
    """What a flow that joins was submitted with. ``bodies``: of the flows that leave, of which one may go on under this name."""
    if flow.name in by_name:
        return by_name[flow.name]
    for one in bodies:
        if one["sinks"] == _shown_sinks(flow):
            return Submission(code=one["code"], plain=one["plain"])
    raise ValueError(f"the flow {flow.name} joins without a submission")


def _shown_sinks(flow: Flow) -> list[Any]:
    return [[id, _shown(one)] for id, one in flow.sinks]


def _shown_flow(flow: Flow, submission: Submission) -> str:
    about = {"start": flow.start, "sinks": _shown_sinks(flow)}
    return json.dumps({**about, "code": submission.code, "plain": submission.plain})


def _shown_operator(one: Operator) -> str:
    inputs = [_shown(above) for above in one.inputs]
    return json.dumps([_shown(one.instance), inputs, one.flow, one.state_upstream])


def _operator(launch: int, id: int, body: str) -> Operator:
    instance, inputs, flow, state_upstream = json.loads(body)
    return Operator(
        instance=_instance(instance),
        inputs=tuple(map(_instance, inputs)),
        launch=launch,
        flow=flow,
        id=id,
        state_upstream=state_upstream,
    )


def _shown(one: Instance) -> list[Any]:
    return [one.cls.identity, one.cls.start, one.copy]


def _instance(plain: Sequence[Any]) -> Instance:
    identity, start, copy = plain
    return Instance(Class(identity, start), copy)


