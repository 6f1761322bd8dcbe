"""What an ordered operator emits in Python, for one key after another, and what of it leaves before its block ends.

A single item may emit a thousand million rows, as the one behind a gap of that many seconds. They leave in pieces where the rows
of the stage go into files, of which nothing is visible before the epoch is committed. Elsewhere a block has to be held, and an
operator that emits more than memory holds is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Protocol, final

import attrs

from tracetypes.compiler.columns.ordering import Runs
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.runtime.stateless import checked_later, exactly
from tracetypes.conformance import conformer
from tracetypes.errors import OperatorFailed, UsageError
from tracetypes.operator_calls import emitted_wrongly
from tracetypes.records import Mismatch, Schema
from tracetypes.self_description import name_of_operator

__all__ = ["HELD_BACK", "MOST_EMITTED", "Emissions", "Outlet", "Pieces", "RunStopped", "TooManyRows", "too_many_rows"]

MOST_EMITTED: Final = "TRACETYPES_MOST_EMITTED"
"""The variable that says how many rows of a block may be held as objects."""


class RunStopped(BaseException):
    """The run is asked to stop, in the middle of an epoch that would go on for long. No code of an author catches it."""


class TooManyRows(BaseException):
    """An operator has emitted as many rows as may be held. No code of an author catches it."""


def too_many_rows(op: object, count: int, what: str) -> OperatorFailed:
    """The error of an operator that has emitted so many rows. ``what``: the last item or marker."""
    held = f"{name_of_operator(op)} has emitted {count:,} rows of one block, which are held in memory until it ends"
    return OperatorFailed(
        "TT233",
        f"{held}\n    at:       {what}",
        fix=f"emit fewer, or let the operator be the last one before a sink of files; {MOST_EMITTED}=N holds N rows",
    )


def most_emitted() -> int:
    """How many rows of a block may be held. Raises :class:`UsageError` ``TT402``."""
    text = os.environ.get(MOST_EMITTED)
    if text is None:
        return limits.MOST_EMITTED
    if not text.isascii() or not text.isdigit() or not int(text):
        raise UsageError("TT402", f"{MOST_EMITTED}={text} is no number of rows", fix="give a whole number from 1 on")
    return int(text)


class Outlet(Protocol):
    """Takes rows of a stage before its epoch ends."""

    @property
    def takes_rows(self) -> bool:
        """Whether it does."""

    def take(self, message: Message) -> None:
        """Take rows."""

    def look(self) -> None:
        """Called now and then while much is emitted. May raise :class:`RunStopped`."""


@final
@attrs.frozen
class _HeldBack:
    takes_rows: bool = False

    def take(self, message: Message) -> None:
        raise AssertionError("rows are held until their epoch ends")

    def look(self) -> None:
        pass


HELD_BACK: Final = _HeldBack()
"""Takes nothing."""


@final
@attrs.define(eq=False)
class Pieces:
    """What of a block leaves an operator before the block ends. ``look``: called now and then while a key emits much. ``send``:
    takes rows, and how many of each key were sent before; None where they have to be held. ``before``: how many that are
    by now."""

    look: Callable[[], None]
    send: Callable[[Runs, Mapping[Any, int]], None] | None
    before: dict[Any, int] = attrs.Factory(dict)


@final
class Emissions:
    """Collects what an operator emits for one key after another, made to fit the type of its output.

    Where nothing but an error shows when it is done, that is done for all of them at once.
    """

    def __init__(self, op: object, schema: Schema) -> None:
        self.op, self.schema, self.fit = op, schema, conformer(schema)
        self.later = checked_later(schema)
        self.most = most_emitted()

    def start(self, pieces: Pieces, earlier: Runs | None = None) -> Callable[[Any], None]:
        """Begin anew: the ``emit`` for what follows. ``earlier``: what was emitted of the block before, which leaves first."""
        self.pieces = pieces
        self.key: Any = None
        self.failure: Exception | None = None
        self._clear()
        if earlier is not None:
            self.earlier = earlier
        if not self.later:
            return self._emit
        collector = self._collector()
        next(collector)
        return collector.send

    def _clear(self) -> None:
        self.earlier = Runs([], [], [])
        self.keys: list[Any] = []
        self.counts: list[int] = []
        self.values: list[Any] = []
        self.done = 0

    def _collector(self) -> Generator[None, Any, None]:
        """Takes what is emitted. To send it a value takes little longer than to append that to a list."""
        while True:
            append = self.values.append
            for _ in range(limits.LOOK):
                append((yield))
            self._look()

    def _emit(self, value: Any) -> None:
        try:
            self.values.append(self.fit(value))
        except Mismatch as error:
            self.failure = self.failure or emitted_wrongly(self.op, error, self.key, value)
            raise self.failure from None
        if not len(self.values) % limits.LOOK:
            self._look()

    _emit.__qualname__ = "emit"  # what authors call it, in the messages of Python

    def _look(self) -> None:
        """Much may have been emitted: see whether to stop, and send it on."""
        pieces, held = self.pieces, len(self.values)
        if held - self.done + pieces.before.get(self.key, 0) >= limits.HELD:
            pieces.look()
        if pieces.send is None:
            if held >= self.most:
                raise TooManyRows
        elif held >= limits.HELD:
            self.next(self.key)
            runs = self._all()
            try:
                pieces.send(runs, pieces.before)
            except Exception as error:
                self.failure = self.failure or error
                raise
            for key, count in zip(runs.keys, runs.counts, strict=True):
                pieces.before[key] = pieces.before.get(key, 0) + count
            self._clear()

    def next(self, key: Any) -> None:
        """What was emitted since the last call was of ``key``."""
        count = len(self.values) - self.done
        if count:
            self.keys.append(key)
            self.counts.append(count)
            self.done = len(self.values)

    def end(self) -> Runs:
        """All that was emitted and is not sent yet. Raises the error of what did not fit or could not be sent, which the author's
        code may have caught."""
        if self.failure is not None:
            raise self.failure
        return self._all()

    def _all(self) -> Runs:
        runs = Runs(self.keys, self.counts, self.values)
        if self.later and not exactly(self.schema, self.values):
            fitted: list[Any] = []
            for key, value in zip(runs.key_of_each(), self.values, strict=True):
                try:
                    fitted.append(self.fit(value))
                except Mismatch as error:
                    self.failure = emitted_wrongly(self.op, error, key, value)
                    raise self.failure from None
            runs.values = fitted
        return self.earlier.followed_by(runs)
