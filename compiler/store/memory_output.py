"""Outputs that are no files: a list in this process, and the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tracetypes.compiler.columns.arrow import from_rows
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Late, Message, Reject, Rows
from tracetypes.compiler.store.output import Frontiers, Output
from tracetypes.compiler.store.staging import SEND
from tracetypes.compiler.wire.messages import text_of

__all__ = ["ListOutput", "SideOutputRow", "TerminalOutput"]

SideOutputRow = tuple[str, str, str]
"""A row that went aside: its source, why, and its text."""


class ListOutput(Output):
    """Appends the rows of a sink to a list: values, or pairs ``(key, value)`` where the rows have a key column. Late and rejected
    rows go to lists of their own."""

    delivery = SEND

    def __init__(self, plan: Plan, rows: list[Any], late: list[SideOutputRow], rejects: list[SideOutputRow]) -> None:
        self.plan, self.rows, self.late, self.rejects = plan, rows, late, rejects
        self.batches: set[int] = set()

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Take a batch, once."""
        if batch in self.batches:
            return
        self.batches.add(batch)
        self.show(self.pairs(messages))
        for message in messages:
            match message.body:
                case Late(source, reason) as late:
                    why = reason if isinstance(reason, str) else reason.shown(frontiers)
                    self.late.append((source, why, text_of(late)))
                case Reject(source, reason) as reject:
                    self.rejects.append((source, reason, text_of(reject)))
                case _:
                    pass

    def pairs(self, messages: Sequence[Message]) -> Iterator[tuple[Any, Any]]:
        """Keys and values of the rows, block by block."""
        found: list[tuple[int, int, int, Any, Any]] = []
        for message in messages:
            if isinstance(message.body, Rows):
                batch = from_rows(self.plan.layout, message.body.batch)
                places = batch.positions or [0] * len(batch)
                for end, place, key, value in zip(batch.ends, places, batch.keys, batch.values, strict=True):
                    found.append((end, place, len(found), key, value))
        found.sort(key=lambda row: row[:3])
        return ((key, value) for *_, key, value in found)

    def show(self, pairs: Iterator[tuple[Any, Any]]) -> None:
        """Take rows."""
        self.rows.extend(pairs if self.plan.layout.keyed else (value for _, value in pairs))


class TerminalOutput(ListOutput):
    """Prints the rows of a sink as JSON lines on standard output. ``name``: of the sink, printed before each row where there are
    several."""

    def __init__(self, plan: Plan, name: str, late: list[SideOutputRow], rejects: list[SideOutputRow]) -> None:
        super().__init__(plan, [], late, rejects)
        self.name = name

    def show(self, pairs: Iterator[tuple[Any, Any]]) -> None:
        """Print rows."""
        before = f"{self.name}: " if self.name else ""
        for key, value in pairs:
            print(before + json.dumps(self.plan.layout.plain(key, value), ensure_ascii=False))
        sys.stdout.flush()
