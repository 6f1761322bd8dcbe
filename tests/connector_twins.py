"""A source and a sink, and twins of them that break one promise each. They import little, because each trial starts with that."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa

from tracetypes.connectors import Offset, SinkRequest, Split, Starts, another_driver

__all__ = [
    "SINKS",
    "Changing",
    "Failing",
    "Falling",
    "Forgetful",
    "Growing",
    "Lists",
    "Numbers",
    "OddOffsets",
    "OddRows",
    "OddSplits",
    "Open",
    "Skipping",
    "SkippingSplits",
    "Talking",
]


@attrs.frozen
class Numbers:
    """A source of numbers, three in an epoch, each epoch in two splits."""

    count: int = 20
    identity = "numbers"

    def begin(self) -> Offset:
        return {"at": 0}

    def end(self, since: Offset) -> Offset:
        return {"at": min(self.count, since["at"] + 3)}

    def splits(self, since: Offset, until: Offset) -> list[Split]:
        return [Split(at, [at, min(at + 2, until["at"])]) for at in range(since["at"], until["at"], 2)]

    def read(self, split: Split) -> Iterator[pa.Table]:
        first, last = split.about
        for at in range(first, last):
            yield pa.table({"number": [at]})


class Talking(Numbers):
    """It prints."""

    def end(self, since: Offset) -> Offset:
        print("asked")
        return super().end(since)


@attrs.frozen
class Open(Numbers):
    """It has a connection from the beginning."""

    base: Any = attrs.field(factory=lambda: sqlite3.connect(":memory:"))


class OddOffsets(Numbers):
    def end(self, since: Offset) -> Offset:
        return {"at": {1, 2}}


class OddSplits(Numbers):
    def splits(self, since: Offset, until: Offset) -> list[Split]:
        return [Split(0, object())]


class OddRows(Numbers):
    def read(self, split: Split) -> Iterator[Any]:
        yield [1, 2]


class Forgetful(Numbers):
    """Its place is in memory, and not in the offsets."""

    places: list[int] = []  # noqa: RUF012

    def read(self, split: Split) -> Iterator[pa.Table]:
        first, last = split.about
        for _ in range(first, last):
            self.places.append(0)
            yield pa.table({"number": [len(self.places) - 1]})


class Skipping(Numbers):
    """It takes the offset for the last row that was read."""

    def splits(self, since: Offset, until: Offset) -> list[Split]:
        return super().splits({"at": min(since["at"] + 1, until["at"])}, until)


class SkippingSplits(Numbers):
    """Each split lacks its first row, in an epoch and in all of them as one."""

    def splits(self, since: Offset, until: Offset) -> list[Split]:
        return [Split(at, [at + 1, at + 1]) if at == 4 else Split(at, [at, at + 1]) for at in range(since["at"], until["at"])]


class Falling(Numbers):
    def splits(self, since: Offset, until: Offset) -> list[Split]:
        return [Split(-at, about) for at, about in super().splits(since, until)]


class Growing(Numbers):
    """It reads what is there, wherever the offset ends."""

    def read(self, split: Split) -> Iterator[pa.Table]:
        yield pa.table({"number": [*range(split.about[0], self.count)]})


class Changing(Numbers):
    @property
    def identity(self) -> str:  # type: ignore[override]
        return str(os.getpid())


class Failing(Numbers):
    def read(self, split: Split) -> Iterator[pa.Table]:
        raise OSError("away")


class Lists:
    """A sink in a file: rows, and the last epoch and start of each run. ``twin``: what it does wrong."""

    twin = ""

    def __init__(self, request: SinkRequest) -> None:
        self.request, self.start = request, 0
        self.key = (request.run, request.sink) if self.twin != "run" else ("", "")
        self.base = sqlite3.connect(request.address, isolation_level=None)
        self.base.execute("CREATE TABLE IF NOT EXISTS rows (number, text)")
        self.base.execute("CREATE TABLE IF NOT EXISTS epochs (run, sink, number, start, PRIMARY KEY (run, sink))")

    identity = ""

    def begin(self, starts: Starts) -> None:
        number, writer = self.last()
        if self.twin != "check":
            starts.check(self.request.address, writer, number)
        self.note(number, starts.mine)
        self.start = starts.mine

    def last(self) -> tuple[int, int | None]:
        row = self.base.execute("SELECT number, start FROM epochs WHERE run = ? AND sink = ?", self.key).fetchone()
        return row or (-1, None)

    def note(self, number: int, start: int) -> None:
        self.base.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?, ?)", (*self.key, number, start))

    def write(self, epoch: int, rows: Any) -> None:
        number, writer = self.last()
        if self.twin != "fence" and writer != self.start:
            raise another_driver(self.request.address, "it was started later")
        if epoch <= number and self.twin != "condition":
            return
        if self.twin != "transaction":
            self.base.execute("BEGIN")
        for row in rows.to_pylist()[self.twin == "lost" :]:
            self.base.execute("INSERT INTO rows VALUES (:number, :text)", row)
        if self.twin == "two":
            self.base.execute("COMMIT")
            self.base.execute("BEGIN")
        self.note(epoch, self.start)
        if self.twin != "transaction":
            self.base.execute("COMMIT")

    def close(self) -> None:
        self.base.close()


FAULTS = ("", "condition", "transaction", "two", "lost", "run", "fence", "check")

SINKS: dict[str, type[Lists]] = {}
for twin in FAULTS:
    SINKS[twin] = type(f"Lists{twin.title()}", (Lists,), {"twin": twin, "__module__": __name__})
    globals()[SINKS[twin].__name__] = SINKS[twin]
