"""What an epoch did, from the messages that reach the driver: its commit record and its metrics."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.backend.first_rows import wild_rows
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import (
    Drain,
    Jump,
    Message,
    Piece,
    Reached,
    Report,
    StageProgress,
    TakenSplits,
    TextNotes,
    Verified,
    time_of,
)
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.store.metrics import Batch, StageMetrics, stage_metrics
from tracetypes.compiler.store.output_interface import Output, rows_sent
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.sent_blocks import SentBlocks
from tracetypes.compiler.store.staging import Staging
from tracetypes.markers import EventTime

__all__ = ["EpochResult", "epoch_result"]


@attrs.frozen
class EpochResult:
    """The messages of an epoch for its output, and its commit record. ``frontiers``: of a plan without a stage, the last marker
    before each piece. ``verified``: how many rows were compared with plain Python, and the seconds for it. ``jumps``: rows
    that are very far ahead of those before them, by source. ``notes``: what was noticed in splits, in the order of the source.
    ``sent``: the blocks that were sent before the epoch."""

    messages: list[Message]
    record: dict[str, Any]
    frontiers: dict[tuple[int, Piece], int]
    stages: tuple[StageMetrics, ...]
    verified: tuple[int, float]
    jumps: tuple[tuple[str, Jump], ...]
    notes: tuple[TextNotes, ...]
    sent: SentBlocks

    def written(self, output: Output, number: int) -> dict[str, Any]:
        """The commit record, when an output has taken the epoch."""
        output.take(self.messages, number, self.frontiers)
        sent = self.sent.later(output.blocks(number), self.record["marker"])
        return self.record | {"sends": output.sends(number), "sent": sent.plain}

    def batch(self, number: int, seconds: float, query: str, output: Output) -> Batch:
        """The metrics of the epoch, once its output has taken it."""
        record = self.record
        return Batch(
            number,
            record["rows"],
            record["markers"],
            record["marker"],
            record["late"],
            record["rejects"],
            seconds,
            query,
            _latest(record["newest"]),
            self.stages,
            record["read"],
            record["written"],
            self.verified,
            dict(output.lateness),
            output.gate,
            self.jumps,
            self.notes,
        )


def epoch_result(plan: Plan, messages: Sequence[Message], number: int, store: RunStore) -> EpochResult:
    """The result of an epoch. ``messages``: all that left the last stage, or the sources of a plan without one."""
    before = store.before(number)
    taken = [message.body for message in messages if isinstance(message.body, TakenSplits)]
    notes = [message.body for message in messages if isinstance(message.body, TextNotes)]
    rest = [message for message in messages if not isinstance(message.body, TakenSplits | TextNotes)]
    frontiers: dict[tuple[int, Piece], int] = {}
    if is_straight(plan):
        record, more, frontiers = _closed(plan, rest, before)
        rest += more
    else:
        record = _record(plan, rest, before)
    record["written"] = rows_sent(rest)
    delivery = store.output.delivery
    staged = Path(delivery.directory if isinstance(delivery, Staging) else "")
    if wild := wild_rows(plan, rest, staged, before, _latest(record["newest"])):
        record["wild"] = wild
    record["files"] = {
        label: files.taken([one for one in taken if one.reading == label]) for label, files in store.files.items()
    }
    verified = [message.body for message in rest if isinstance(message.body, Verified)]
    total = sum(one.rows for one in verified), sum(one.seconds for one in verified)
    jumps = tuple(jump for message in rest if isinstance(message.body, StageProgress) for jump in message.body.jumps)
    noticed = tuple(sorted(notes, key=lambda one: one.piece))
    sent = attrs.evolve(SentBlocks.of(before), period=_period(plan) if is_straight(plan) else None)
    return EpochResult(rest, record, frontiers, stage_metrics(plan, rest), total, jumps, noticed, sent)


def _closed(
    plan: Plan, messages: Sequence[Message], before: dict[str, Any]
) -> tuple[dict[str, Any], list[Message], dict[tuple[int, Piece], int]]:
    """Close the blocks from the sources' reports, if the sources send rows of the sink."""
    kernel = StageKernel(plan, plan.stages[0])
    state = loads(base64.b64decode(before["state"])) if "state" in before else kernel.fresh()
    output = list(kernel.step(state, 0, [m for m in messages if isinstance(m.body, Report | Drain)]))
    record = _record(plan, output, before)
    names = {at: one.leaf.source.name for at, one in kernel.frontier.readers.items()}
    for message in messages:
        if isinstance(report := message.body, Report):
            for counts, count in ((record["late"], report.late), (record["rejects"], report.rejects)):
                if count:
                    counts[names[report.link]] = counts.get(names[report.link], 0) + count
    blob = dumps(state)
    record["state"] = base64.b64encode(blob).decode()
    return record, [*output, kernel.metrics(state, 0, len(blob))], kernel.epoch.frontiers


def _record(plan: Plan, messages: Sequence[Message], before: dict[str, Any]) -> dict[str, Any]:
    """The commit record of an epoch, from the stages' progress."""
    record: dict[str, Any] = {
        "rows": 0,
        "read": {},
        "markers": 0,
        "marker": None,
        "late": {},
        "rejects": {},
        "newest": dict(before.get("newest", {})),
        "seen": dict(before.get("seen", {})),
        "complete": False,
    }
    for progress in [message.body for message in messages if isinstance(message.body, StageProgress)]:
        record["newest"].update(progress.newest)
        record["seen"].update(progress.seen)
        record["rows"] += progress.rows
        for source, count in progress.read.items():
            record["read"][source] = record["read"].get(source, 0) + count
        if progress.stage == plan.stages[-1].number:
            record["late"], record["rejects"] = progress.late, progress.rejects
            record["complete"] = progress.complete
            if progress.markers:
                record["markers"], record["marker"] = len(progress.markers), progress.markers[-1]
    return record


def _period(plan: Plan) -> int | None:
    """The period of the markers of a plan that reads one source."""
    found = {leaf.source.markers.period for leaf in plan.sources if isinstance(leaf.source.markers, EventTime)}
    return found.pop() if len(found) == 1 else None


def _latest(newest: Mapping[str, list[Reached]]) -> dict[str, int]:
    """The newest event time of each source that has one, over its parts."""
    times_of: dict[str, list[int]] = {}
    for reading, parts in newest.items():
        times = map(time_of, parts)
        times_of.setdefault(reading.partition(":")[0], []).extend(time for time in times if time is not None)
    return {name: max(times) for name, times in times_of.items() if times}
