"""Inputs that cannot be read again, as this process reads them.

An offset ``{"stream": "9f..", "at": 17, "base": 40}`` lies behind the first 17 parts (``at``) of the :class:`Arrivals` with this
``id``, which lives as long as its process. The epochs of earlier processes took 40 parts (``base``). So 57 parts of the reading
are before it, and a process that goes on from there has an ``id`` of its own and 57 as ``base``.

The rows of an epoch stay in memory until it is committed: if it is repeated in this process, it takes the same rows. Those of
standard input, sockets and MQTT are also in a file, until the next epoch is committed::

    CHECKPOINT/local/arrived/LABEL/9f..-17      the parts of the epoch that ends there

So an epoch that is repeated after a crash takes the same rows, too. Rows of iterables have no such
file: if a crash leaves visible rows of an epoch that was not committed, the run cannot go on (``TT231``). What had arrived, but
was in no epoch, is gone with the process.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

from tracetypes.compiler.connectors.arrivals import Arrivals, Part
from tracetypes.compiler.connectors.iterables import Columns, columns_reader
from tracetypes.compiler.connectors.line_streams import line_format
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.store.small_files import damaged
from tracetypes.compiler.wire.seals import seal_bytes, unseal_bytes
from tracetypes.connectors import Offset
from tracetypes.errors import RunError
from tracetypes.formats import Csv, JsonLines, ProgramLines, TextLines
from tracetypes.sources import reader

__all__ = ["PartsOf", "StreamSplits", "cuts", "lines_reader", "parts_reader"]

PartsOf: TypeAlias = Callable[[Sequence[Part], SplitNotes], Iterator[TakenRow | Chunk]]
"""Reads parts of rows that come once, and notes what it notices."""

LARGEST: Final = 50_000
"""Rows of a split from which the next one begins."""

BYTES: Final = 8 << 20
"""Bytes likewise."""

SMALLEST: Final = 4_096
"""Rows below which a split costs more than another worker saves."""

SMALLEST_OF_COLUMNS: Final = 16_384
"""Likewise, of Arrow data."""

HOLDS: Final = "the rows of a micro-batch, which cannot be read again"

SPLITS: Final = 16
"""How many an epoch has at least, unless they are too small."""


class StreamSplits:
    """The splits of arrivals: parts that came one after the other. ``place``: the directory of this reading for the parts of its
    epochs; None keeps them nowhere."""

    def __init__(self, arrivals: Arrivals, reading: str, place: Path | None, name: str) -> None:
        self.arrivals, self.reading, self.place, self.name = arrivals, reading, place, name

    def begin(self) -> Offset:
        """Before the first part."""
        return {"stream": "", "at": 0, "base": 0}

    def end(self, since: Offset) -> Offset:
        """Behind the parts that are there."""
        start, base = self._here(since)
        until = self.arrivals.end_of_epoch(start)
        return since if until == start else {"stream": self.arrivals.id, "at": until, "base": base}

    def is_over(self, since: Offset) -> bool:
        """Whether nothing comes behind an offset."""
        return self.arrivals.is_over(self._here(since)[0])

    def splits(self, since: Offset, until: Offset) -> Sequence[tuple[int, Sequence[Part]]]:
        """The parts between two offsets, and the number of the first of each split. An epoch that is repeated has the same."""
        if until == since:
            return []
        first = until["base"] + (since["at"] if since["stream"] == until["stream"] else 0)
        parts = self._parts(since, until)
        return [(first + start, parts[start:end]) for start, end in pairwise(cuts(parts))]

    def resume(self, untils: Sequence[Offset]) -> None:
        """Go on. ``untils``: the ends of the last epochs of the log."""
        parts: list[Part] = []
        if self.place is not None and self.place.exists():
            names = {self._file(until).name for until in untils}
            for file in sorted(self.place.iterdir()):
                if file.name in names:
                    parts += _read(file)
                else:
                    file.unlink()
        self.arrivals.resume(self.reading, parts)

    def keep(self, since: Offset, until: Offset) -> None:
        """Keep the parts of an epoch that is to begin, for the case of a crash."""
        if until != since and self.place is not None:
            self.place.mkdir(parents=True, exist_ok=True)
            with self._file(until).open("wb") as file:
                file.write(seal_bytes(pickle.dumps(self._parts(since, until), pickle.HIGHEST_PROTOCOL), self._file(until).name))

    def keeps(self, since: Offset, until: Offset) -> bool:
        """Whether parts of an epoch lie in the checkpoint. Raises :class:`RunError` ``TT225`` if they should."""
        if self.place is None or until == since:
            return False
        if not self._file(until).exists():
            raise damaged(self._file(until), "it is gone", HOLDS)
        return True

    def commit(self, until: Offset) -> None:
        """An epoch is out, and its states are in the log."""
        if self.place is not None and self.place.exists():
            for name in os.listdir(self.place):
                if name != self._file(until).name:
                    (self.place / name).unlink()
        self.arrivals.commit(self.reading, self._here(until)[0])

    def _here(self, since: Offset) -> tuple[int, int]:
        """The number of the next part in this process, and how many there were before this process."""
        if since["stream"] == self.arrivals.id:
            return since["at"], since["base"]
        return 0, since["base"] + since["at"]

    def _file(self, until: Offset) -> Path:
        assert self.place is not None
        return self.place / f"{until['stream']}-{until['at']}"

    def _parts(self, since: Offset, until: Offset) -> Sequence[Part]:
        if until["stream"] == self.arrivals.id:
            return self.arrivals.between(self._here(since)[0], until["at"])
        parts = _read(self._file(until)) if self.place is not None and self._file(until).exists() else ()
        if not parts:
            raise RunError(
                "TT231",
                f"source {self.name!r}: the run ended in the middle of a micro-batch with visible rows, and the rows that it "
                "took cannot be read again",
                fix="start anew with another --checkpoint and output",
            )
        return parts


def _read(file: Path) -> Sequence[Part]:
    """The parts in a file. Raises :class:`RunError` ``TT225``."""
    try:
        parts: Sequence[Part] = pickle.loads(unseal_bytes(file.read_bytes(), file.name))
    except (OSError, ValueError) as error:
        raise damaged(file, error, HOLDS) from error
    return parts


def cuts(parts: Sequence[Part]) -> list[int]:
    """Where the splits of parts begin and end."""
    smallest = SMALLEST_OF_COLUMNS if parts and isinstance(parts[0].body, Columns) else SMALLEST
    most = min(LARGEST, max(smallest, sum(part.rows for part in parts) // SPLITS))
    places, rows, size = [0], 0, 0
    for at, part in enumerate(parts):
        if rows and (rows + part.rows > most or size + part.size > BYTES):
            places.append(at)
            rows = size = 0
        rows, size = rows + part.rows, size + part.size
    return [*places, len(parts)]


def lines_reader(leaf: FromSource, verifier: Verifier | None, format: JsonLines | None = None) -> PartsOf:
    """Reads parts that are :class:`Lines`. ``format``: theirs, if it is not that of the source."""
    read, of = reader(leaf.source).read, format or line_format(leaf)
    assert isinstance(of, Csv | JsonLines | TextLines)
    declared = of.columns if isinstance(of, Csv) else None
    readers: dict[tuple[str, ...] | None, TextReader] = {}

    def sender(part: Part) -> tuple[Any, ...]:
        """Whose parts are read together."""
        return (part.body.header, part.body.sender) if isinstance(of, Csv) else ()

    def rows(parts: Sequence[Part], notes: SplitNotes) -> Iterator[TakenRow | Chunk]:
        for _, group in groupby(parts, sender):
            some = [part.body for part in group]
            header = some[0].header
            if header not in readers:
                readers[header] = TextReader(leaf, of, header or declared, read, verifier)
            # Text without a line end is the last one of its sender.
            is_csv = isinstance(of, Csv)
            whole = b"".join(one.text if is_csv or one.text.endswith(b"\n") else one.text + b"\n" for one in some)
            yield from readers[header].of_text(whole, some[0].doubtful, notes)

    return rows


def parts_reader(leaf: FromSource, verifier: Verifier | None) -> PartsOf:
    """Reads parts that are :class:`Lines` of JSON or :class:`Columns`."""
    of_lines, of_columns = lines_reader(leaf, verifier, ProgramLines()), columns_reader(leaf, verifier)

    def rows(parts: Sequence[Part], notes: SplitNotes) -> Iterator[TakenRow | Chunk]:
        for columns, group in groupby(parts, lambda part: isinstance(part.body, Columns)):
            some = list(group)
            yield from of_columns(some) if columns else of_lines(some, notes)

    return rows
