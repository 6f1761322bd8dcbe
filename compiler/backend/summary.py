"""The summary of a run: counts, limits, and warnings after each epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import attrs

from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.store.metrics import Batch
from tracetypes.errors import RunError, counted
from tracetypes.results import GateReport

__all__ = ["Limits", "Summary", "counter", "shown_difference", "shown_held", "warner"]


@attrs.define
class Summary:
    """What a run did so far."""

    batches: int = 0
    rows: int = 0
    written: int = 0
    markers: int = 0
    marker: int | None = None
    read: dict[str, int] = attrs.Factory(dict)
    late: dict[str, int] = attrs.Factory(dict)
    rejects: dict[str, int] = attrs.Factory(dict)
    accepted: set[str] = attrs.Factory(set)
    """Sources of which a row was accepted, in this run or before it under the same checkpoint."""
    seconds: float = 0.0
    stopped: bool = False
    verified: tuple[int, float] = (0, 0.0)
    """How many rows were compared with plain Python, and the seconds of processor time that it took."""
    open: dict[str, int] = attrs.Factory(dict)
    """How many keys wait for longer silence, by operator: where sources have markers in band, or the run does not drain."""
    readings: Mapping[str, int] = attrs.Factory(dict)
    """How often each source is read, if more than once."""
    faster: list[str] = attrs.Factory(list)
    """Operators that would have run in machine code with the extra ``fast``."""
    gates: dict[str, GateReport] = attrs.Factory(dict)
    """What each gate did, by the name of its channel."""
    differences: list[Difference] = attrs.Factory(list)
    """Where traced answers differed from plain Python; these operators went on in Python."""

    def add(self, batch: Batch) -> None:
        """Count a batch."""
        self.batches += 1
        self.rows += batch.rows
        self.written += batch.written
        self.markers += batch.markers
        self.marker = batch.marker if batch.marker is not None else self.marker
        self.accepted.update(batch.newest)
        if batch.gate is not None:
            self.gates[batch.query] = batch.gate
        self.verified = self.verified[0] + batch.verified[0], self.verified[1] + batch.verified[1]
        for mine, theirs in ((self.read, batch.read), (self.late, batch.late), (self.rejects, batch.rejects)):
            for source, count in theirs.items():
                mine[source] = mine.get(source, 0) + count

    @property
    def all_rejected(self) -> list[str]:
        """Sources of which every row was rejected, ever. A source that is read twice (its late rows are a stream) is none."""
        rejected = (source for source, rows in self.read.items() if 0 < rows == self.rejects.get(source))
        return [source for source in rejected if source not in self.accepted]

    def rows_of(self, source: str) -> int:
        """How many rows of a source were read, each counted once."""
        return max(1, self.read.get(source, 0) // self.readings.get(source, 1))


def warner(summary: Summary, notify: Callable[[str], None] | None) -> Callable[[Difference, str], None]:
    """Warns of a difference, with what was committed before."""

    def tell(difference: Difference, before: str) -> None:
        summary.differences.append(difference)
        if notify is not None:
            notify(shown_difference(difference, before))

    return tell


def shown_held(name: str, gate: GateReport) -> str:
    """The warning ``TT243``."""
    return (
        f"TT243 warning: {name} holds what came with the last {gate.held:,} markers\n"
        f"    bound:    {gate.bound}\n"
        f"    so far:   {gate.executions:,} of {gate.markers:,} markers came through\n"
        "    fix:      if what lies behind has to run, lower the bound, or add | time(...), which is surely reached"
    )


def shown_difference(difference: Difference, before: str) -> str:
    """The warning ``TT240``."""
    return (
        f"TT240 warning: the traced form of {difference.name} differs from its Python\n"
        f"    for:      {difference.arguments}\n"
        f"    traced:   {difference.traced}\n"
        f"    Python:   {difference.python}\n"
        f"    before:   {before} of this run was committed\n"
        "    fix:      the run goes on in Python and is right from here; compute again what was committed before, and report it"
    )


@attrs.frozen
class Limits:
    """How many late or rejected rows may come before a run stops. None: any number; a float: that part of all rows."""

    late: int | float | None = None
    rejects: int | None = None

    def check(self, summary: Summary) -> None:
        """Raises :class:`RunError` ``TT217`` if there were too many."""
        for what, most, counts in (("late", self.late, summary.late), ("rejected", self.rejects, summary.rejects)):
            total = sum(counts.values())
            rows = sum(map(summary.rows_of, summary.read))
            if isinstance(most, float) and total > most * rows:
                raise RunError(
                    "TT217",
                    f"{total:,} of {rows:,} rows were {what} ({total / max(1, rows):.1%}), and at most {most:.4g} of them may be",
                    fix="look at them where they went; the same command goes on behind them, and counts anew",
                )
            if isinstance(most, int) and total > most:
                by = ", ".join(f"{source} {count:,}" for source, count in counts.items())
                raise RunError(
                    "TT217",
                    f"{counted(total, 'row')} {'was' if total == 1 else 'were'} {what} ({by}), and at most {most:,} may be",
                    fix="look at them where they went; the same command goes on behind them, and counts anew",
                )


def counter(
    summary: Summary,
    on_batch: Callable[[Batch], None] | None,
    limits: Limits | None,
    above: Mapping[str, Sequence[str]] | None = None,
    look: Callable[[Summary, Batch], None] = lambda summary, batch: None,
) -> Callable[[Batch], None]:
    """``above``: the sources above each query, the newest times of which are told with its micro-batches. ``look``: called with
    each batch that was counted."""
    lock, newest = threading.Lock(), dict[str, int]()

    def count(batch: Batch) -> None:
        with lock:
            for source, time in batch.newest.items():
                newest[source] = max(time, newest.get(source, time))
            frontiers = {source: newest[source] for source in (above or {}).get(batch.query, ()) if source in newest}
            batch = attrs.evolve(batch, newest={**frontiers, **batch.newest})
            summary.add(batch)
            if on_batch is not None:
                on_batch(batch)
            look(summary, batch)
            if limits is not None:
                limits.check(summary)

    return count
