"""Tokens, flows with their owners, idempotency keys and the audit log of a service, in SQLite.

A token is ``tt_ID_SECRET``. The secret has 256 random bits. Stored is its SHA-256, so a copy of the database opens nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from tracetypes.errors import UsageError

__all__ = ["Accounts", "Flow", "Role", "Token"]

Role = Literal["owner", "reader", "administrator"]

ROLES: Final = ("owner", "reader", "administrator")

KEPT: Final = 86_400.0
"""Seconds for which the answer to an idempotency key is kept."""

TABLES: Final = """
CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, role TEXT NOT NULL, hash BLOB NOT NULL, created REAL NOT NULL,
    expires REAL NOT NULL, revoked REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS flows (
    owner TEXT, name TEXT, worker TEXT NOT NULL, request TEXT NOT NULL, digest TEXT NOT NULL, places TEXT NOT NULL,
    submitted REAL NOT NULL, state TEXT NOT NULL, reason TEXT, PRIMARY KEY (owner, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keys (
    owner TEXT, key TEXT, digest TEXT NOT NULL, answer TEXT, at REAL NOT NULL, PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS audit (
    number INTEGER PRIMARY KEY, at REAL NOT NULL, token TEXT NOT NULL, owner TEXT NOT NULL, action TEXT NOT NULL,
    what TEXT NOT NULL, outcome TEXT NOT NULL
);
"""


@attrs.frozen(kw_only=True)
class Token:
    """Who a request comes from. ``id``: not secret."""

    id: str
    owner: str
    role: Role
    created: float
    expires: float
    revoked: float | None

    @property
    def is_administrator(self) -> bool:
        """Whether it may do everything."""
        return self.role == "administrator"


@attrs.frozen(kw_only=True)
class Flow:
    """A flow that was submitted. ``worker``: the process that runs it: empty for the one of JSON, else its owner. ``places``:
    of its outputs, by sink. ``state``: ``"pending"`` while it starts, ``"running"``, or ``"stopped"`` with a reason."""

    owner: str
    name: str
    worker: str
    digest: str
    places: Mapping[str, str]
    request: Mapping[str, Any]
    submitted: float
    state: str
    reason: str | None


class Accounts:
    """The database of a service. Threads share it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.chmod(0o700)
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for line in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {line}")
        self._connection.executescript(TABLES)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """A context whose changes are one transaction, so that the disk is waited for once. Other threads wait meanwhile."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    # --------------------------------------------------------------------------------------------------- tokens

    def make_token(self, owner: str, role: Role, days: float) -> tuple[str, Token]:
        """A new token, as text, which is not kept, and what is known of it."""
        if role not in ROLES or not 0 < days <= 3660:
            fix = f"give {', '.join(ROLES)}, and 1 to 3660 days"
            raise UsageError("TT402", f"a token of role {role!r} for {days} days", fix=fix)
        id, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), time.time()
        expires = now + days * 86_400
        self._run("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, NULL)", id, owner, role, _hash(secret), now, expires)
        return f"tt_{id}_{secret}", Token(id=id, owner=owner, role=role, created=now, expires=expires, revoked=None)

    def token_of(self, text: str) -> Token | None:
        """The token of a text, if it is one, has not expired and was not revoked."""
        mark, _, rest = text.partition("_")
        id, _, secret = rest.partition("_")
        found = self._all("SELECT hash, owner, role, created, expires, revoked FROM tokens WHERE id = ?", id)
        nobody: tuple[Any, ...] = (bytes(32), "", "reader", 0.0, 0.0, None)
        stored, owner, role, created, expires, revoked = found[0] if found else nobody
        is_same = hmac.compare_digest(stored, _hash(secret))  # in constant time, also for an id that is not there
        if not is_same or mark != "tt" or revoked is not None or expires <= time.time():
            return None
        return Token(id=id, owner=owner, role=role, created=created, expires=expires, revoked=None)

    def tokens(self) -> list[Token]:
        """All tokens, without their secrets."""
        rows = self._all("SELECT id, owner, role, created, expires, revoked FROM tokens ORDER BY created")
        names = ("id", "owner", "role", "created", "expires", "revoked")
        return [Token(**dict(zip(names, row, strict=True))) for row in rows]

    def revoke(self, id: str) -> bool:
        """Let a token end now. Whether there was one."""
        return bool(self._run("UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", time.time(), id))

    # --------------------------------------------------------------------------------------------------- flows

    def flows(self, owner: str | None = None, name: str | None = None) -> list[Flow]:
        """The flows of an owner, or of all, in the order in which they came; with a name, only that one."""
        what = "owner, name, worker, request, digest, places, submitted, state, reason"
        of = {column: one for column, one in (("owner", owner), ("name", name)) if one is not None}
        where = f" WHERE {' AND '.join(f'{column} = ?' for column in of)}" if of else ""
        rows = self._all(f"SELECT {what} FROM flows{where} ORDER BY submitted", *of.values())
        return [
            Flow(
                owner=row[0],
                name=row[1],
                worker=row[2],
                request=json.loads(row[3]),
                digest=row[4],
                places=json.loads(row[5]),
                submitted=row[6],
                state=row[7],
                reason=row[8],
            )
            for row in rows
        ]

    def flow(self, owner: str, name: str) -> Flow | None:
        """One flow."""
        return next(iter(self.flows(owner, name)), None)

    def names(self) -> set[tuple[str, str]]:
        """The owners and names of all flows."""
        return set(self._all("SELECT owner, name FROM flows"))

    def count(self, owner: str) -> int:
        """How many flows an owner has."""
        ((count,),) = self._all("SELECT count(*) FROM flows WHERE owner = ?", owner)
        return int(count)

    def add_flow(self, owner: str, name: str, worker: str, request: Mapping[str, Any], digest: str) -> None:
        """A flow that is being submitted."""
        insert = "INSERT INTO flows VALUES (?, ?, ?, ?, ?, '{}', ?, 'pending', NULL)"
        self._run(insert, owner, name, worker, json.dumps(request), digest, time.time())

    def started(self, owner: str, name: str, request: Mapping[str, Any], digest: str, places: Mapping[str, str]) -> None:
        """A flow runs, as this request has it."""
        change = "UPDATE flows SET state = 'running', request = ?, digest = ?, places = ? WHERE owner = ? AND name = ?"
        self._run(change, json.dumps(request), digest, json.dumps(dict(places)), owner, name)

    def stopped(self, owner: str, name: str, reason: str) -> None:
        """A flow runs no more, and stays in the list with the reason."""
        self._run("UPDATE flows SET state = 'stopped', reason = ? WHERE owner = ? AND name = ?", reason, owner, name)

    def forget_flow(self, owner: str, name: str) -> None:
        """A flow is gone."""
        self._run("DELETE FROM flows WHERE owner = ? AND name = ?", owner, name)

    # -------------------------------------------------------------------------------------- keys, and the audit log

    def answer_to(self, owner: str, key: str, digest: str) -> tuple[bool, dict[str, Any] | None]:
        """Whether a request with this idempotency key has come before, and its answer, if it has one. Raises :class:`UsageError`
        ``TT418`` if that was another request."""
        self._run("DELETE FROM keys WHERE at < ?", time.time() - KEPT)
        is_new = self._run("INSERT OR IGNORE INTO keys VALUES (?, ?, ?, NULL, ?)", owner, key, digest, time.time())
        ((stored, answer),) = self._all("SELECT digest, answer FROM keys WHERE owner = ? AND key = ?", owner, key)
        if stored != digest:
            raise UsageError("TT418", "the idempotency key belongs to another request", fix="make a new key for each change")
        return not is_new, None if answer is None else json.loads(answer)

    def answered(self, owner: str, key: str, answer: Mapping[str, Any] | None) -> None:
        """Keep the answer to a key; None forgets the key."""
        if answer is None:
            self._run("DELETE FROM keys WHERE owner = ? AND key = ?", owner, key)
        else:
            self._run("UPDATE keys SET answer = ? WHERE owner = ? AND key = ?", json.dumps(answer), owner, key)

    def log(self, token: Token, action: str, what: str, outcome: str) -> None:
        """A line of the audit log."""
        insert = "INSERT INTO audit (at, token, owner, action, what, outcome) VALUES (?, ?, ?, ?, ?, ?)"
        self._run(insert, time.time(), token.id, token.owner, action, what, outcome)

    def audit(self, most: int) -> list[dict[str, Any]]:
        """The last lines of the audit log, the newest first."""
        names = ("at", "token", "owner", "action", "what", "outcome")
        rows = self._all(f"SELECT {', '.join(names)} FROM audit ORDER BY number DESC LIMIT ?", most)
        return [dict(zip(names, row, strict=True)) for row in rows]

    # --------------------------------------------------------------------------------------------------- inside

    def _run(self, statement: str, *values: Any) -> int:
        with self._lock:
            return self._connection.execute(statement, values).rowcount

    def _all(self, statement: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
