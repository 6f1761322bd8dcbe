"""Outputs that are no files: a list in this process, and the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from tracetypes.compiler.connectors.sink_files import shown_instant
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message, SideRows
from tracetypes.compiler.runtime.side_rows import Lateness, placed, reasons, texts
from tracetypes.compiler.store.output_interface import Frontiers, Output, SideOutputs, items_of, refuse_folders
from tracetypes.compiler.store.staging import SEND
from tracetypes.flat_columns import flat_row
from tracetypes.rejects import SideOutputRow

__all__ = ["ListOutput", "TerminalOutput"]


class ListOutput(Output):
    """Appends the rows of a sink to a list: values, or pairs ``(key, value)`` where the rows have a key column. Late and rejected
    rows go to lists of their own, and to directories where there are some."""

    delivery = SEND

    def __init__(
        self,
        plan: Plan,
        rows: list[Any],
        late: list[SideOutputRow],
        rejects: list[SideOutputRow],
        side_outputs: SideOutputs | None = None,
    ) -> None:
        self.plan, self.rows, self.late, self.rejects, self.side_outputs = plan, rows, late, rejects, side_outputs
        self.batches: set[int] = set()
        self._lateness: dict[str, Lateness] = {}

    @property
    def lateness(self) -> Mapping[str, Lateness]:
        """By what was taken."""
        return self._lateness

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Take a batch, once."""
        if batch in self.batches:
            return
        if self.side_outputs is not None:
            self.side_outputs.take(messages, batch, frontiers, Path())
        self.batches.add(batch)
        self.show(iter(sorted(items_of(self.plan, messages), key=lambda one: one[:2])))
        for message in messages:
            match message.body:
                case SideRows(holds, source) as some:
                    rows = self.late if holds == "late" else self.rejects
                    closed = placed(some, frontiers)
                    rows.extend(map(SideOutputRow, repeat(source), reasons(closed), texts(closed)))
                    if holds == "late":
                        self._lateness.setdefault(source, Lateness()).add(closed)
                case _:
                    pass

    def show(self, items: Iterator[tuple[int, int, Any, Any]]) -> None:
        """Take rows: end of block, position, key and value of each."""
        keyed = self.plan.layout.keyed
        self.rows.extend((key, value) if keyed else value for _, _, key, value in items)


class TerminalOutput(ListOutput):
    """Prints the rows of a sink as JSON lines on standard output. ``name``: of the sink, printed before each row where there are
    several."""

    def __init__(
        self,
        plan: Plan,
        name: str,
        late: list[SideOutputRow],
        rejects: list[SideOutputRow],
        side_outputs: SideOutputs | None = None,
    ) -> None:
        refuse_folders(plan, "standard output")
        super().__init__(plan, [], late, rejects, side_outputs)
        self.name = name

    def show(self, items: Iterator[tuple[int, int, Any, Any]]) -> None:
        """Print rows, with the columns of the marker and the position that the sink has."""
        before, sink = f"{self.name}: " if self.name else "", self.plan.sink
        for end, position, key, value in items:
            row = self.plan.layout.plain(key, value)
            if sink.flat:
                row = flat_row(self.plan.layout.columns, row)
            if sink.marker is not None:
                row[sink.marker] = shown_instant(sink.marker, end)
            if sink.position is not None:
                row[sink.position] = position
            sys.stdout.write(f"{before}{json.dumps(row, ensure_ascii=False)}\n")  # at once: other sinks print, too
        sys.stdout.flush()
