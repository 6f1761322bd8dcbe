"""What leaves the last stage of a plan, put together: the trace at the sink, late items and rejects."""

from __future__ import annotations

from typing import Any

import attrs
import pyarrow as pa

from tracetypes.compiler.columns.arrow import from_rows
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Kind, Message
from tracetypes.markers import Marker
from tracetypes.trace import Element, Item, StreamType, Trace

__all__ = ["Answer", "Collector"]


@attrs.define
class Answer:
    """What a run gave: the trace at the sink, late items and rejects as ``(source, reason, text)``."""

    trace: Trace[Element]
    late: list[tuple[str, str, str]]
    rejects: list[tuple[str, str, str]]


@attrs.define
class Collector:
    """Puts the messages that leave the last stage together to an :class:`Answer`."""

    plan: Plan
    items: list[tuple[int, int, int, Item]] = attrs.Factory(list)
    markers: list[int] = attrs.Factory(list)
    late: list[tuple[str, str, str]] = attrs.Factory(list)
    rejects: list[tuple[str, str, str]] = attrs.Factory(list)
    newest: dict[str, list[int | None]] = attrs.Factory(dict)
    verified: int = 0
    """How many rows were compared with plain Python."""

    def take(self, message: Message) -> None:
        """Take one message."""
        match message.kind:
            case Kind.ROWS:
                self.table(pa.ipc.open_stream(message.payload).read_next_batch())
            case Kind.PROGRESS:
                head = message.head
                self.newest.update(head["newest"])
                if head["stage"] == self.plan.stages[-1].number:
                    self.markers.extend(head["markers"])
            case Kind.LATE | Kind.REJECT:
                head = message.head
                aside = self.late if message.kind == Kind.LATE else self.rejects
                aside.append((head["source"], head["reason"], message.payload.decode()))
            case Kind.VERIFIED:
                self.verified += message.head["rows"]
            case _:
                raise AssertionError(f"unexpected message {message.kind}")

    def table(self, table: Any) -> None:
        """Take rows, as a pyarrow record batch or table."""
        batch = from_rows(self.plan.layout, table)
        places = batch.positions or [0] * len(batch)
        for key, value, end, place in zip(batch.keys, batch.values, batch.ends, places, strict=True):
            self.items.append((end, place, len(self.items), Item(key, value)))

    def answer(self, stream: StreamType) -> Answer:
        """The answer so far."""
        elements: list[tuple[int, int, int, int, Element]] = [(e, 0, p, n, item) for e, p, n, item in self.items]
        elements += [(end, 1, 0, 0, Marker(end)) for end in self.markers]
        elements.sort(key=lambda one: one[:4])
        return Answer(Trace(stream, tuple(one[4] for one in elements)), self.late, self.rejects)
