"""What ``tracetypes run`` prints of a run: each epoch, and what it did at its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tracetypes.errors import counted
from tracetypes.progress import Progress
from tracetypes.results import Result

if TYPE_CHECKING:
    from tracetypes.compiler.backend.run_request import RunRequest
    from tracetypes.compiler.plan.program import Program
    from tracetypes.compiler.store.metrics import Batch

__all__ = ["epoch_lines", "epoch_tables", "last_lines", "short_path"]

WIDTH: Final = 80
"""Columns of a line of progress. What has no room is left out, but never late and rejected rows."""


def epoch_lines(say: Progress, program: Program) -> Callable[[Batch], None]:
    """Prints a line for each micro-batch. A query that answers only late items or rejects still reads all rows, and one
    that reads what another query has read or sent reports none of them, so their lines count the rows that they write."""
    from tracetypes.compiler.plan.plan import FromSource
    from tracetypes.compiler.store.metrics import instant

    beside = {
        name if len(program.plans) > 1 else ""
        for name, plan in program.named
        if all(isinstance(leaf, FromSource) and (leaf.quiet or not leaf.gives_items) for leaf in plan.leaves)
    }

    def on_batch(batch: Batch) -> None:
        writes = batch.query in beside or (batch.written and not batch.rows)
        rows = f"{counted(batch.written, 'row')} written" if writes else counted(batch.rows, "row")
        time = "" if batch.marker is None else instant(batch.marker)
        markers = f", {counted(batch.markers, 'marker')}"
        aside = "".join(
            f", {sum(counts.values()):,} {what}"
            for what, counts in (("late", batch.late), ("rejected", batch.rejects))
            if counts
        )
        which = f"{batch.query}, micro-batch" if batch.query else "micro-batch"
        up_to, seconds = (f", up to {time}" if time else ""), f", {batch.seconds:.1f} s"
        for more in (
            f"{markers}{f', answered{up_to[1:]}' if time else ''}{aside}{seconds}",
            f"{up_to}{aside}{seconds}",
            f"{up_to}{aside}",
            aside,
        ):
            line = f"{which} {batch.number}: {rows}{more}"
            if len(line) <= WIDTH:
                break
        say.line(line)

    return on_batch


def epoch_tables(say: Progress, compiled: Program) -> Callable[[Batch], None]:
    """Prints a table with a row for each operator."""
    from tracetypes.compiler.store.metrics_table import Table

    table = Table(compiled)

    def on_batch(batch: Batch) -> None:
        table.add(batch)
        say.table(table.lines(say.width))

    return on_batch


def last_lines(say: Progress, job: RunRequest, result: Result) -> int:
    """Prints the last lines of a run; its exit status."""
    _, late, rejects = job.places()
    places = (("late", result.late, late, result.late_rows), ("rejected", result.rejects, rejects, result.rejected_rows))
    for (what, counts, place, rows), stays in zip(places, job.kept, strict=True):
        for source, count in counts.items():
            if not stays:
                reasons = [] if source in result.all_rejected else [row.reason for row in rows if row.source == source]
                reason = f"; the first: {reasons[0]}" if reasons else ""
                say.line(f"source {source!r}: {count:,} {what}, and not kept{reason}")
                continue
            say.line(f"source {source!r}: {count:,} {what}, with the reason of each in {short_path(place)}/{source}")
    if result.rows == 0 and not result.stopped:
        say.line(
            "no new rows in the input: what was open is answered"
            if result.markers
            else "no rows in the input: nothing to answer (already answered rows of a checkpoint do not count)"
        )
    for operator, count in result.open.items():
        keys = "1 key has an open window" if count == 1 else f"{count:,} keys have open windows"
        say.line(f"{keys} in {operator}: they are answered when markers come that lie behind them")
    verb = "stopped" if result.stopped else "done"
    outputs = ", ".join(map(short_path, job.paths.values()))
    epochs = counted(result.epochs, "micro-batch", "micro-batches")
    seconds = sum(result.spent.values())
    say.line(f"{verb}: {counted(result.rows, 'row')} in {epochs}, {seconds:.1f} s; output in {outputs}")
    say.line("seconds: " + ", ".join(f"{what} {seconds:.1f}" for what, seconds in result.spent.items()))
    if result.faster:
        say.line(f'{" and ".join(result.faster)} would run in machine code with pip install "tracetypes[fast]"')
    if say.terminal and (hint := job.engine.hint()):
        say.line(hint)
    if result.stopped:
        say.line("the same command goes on where it stopped")
    if result.differences:
        names = ", ".join(result.differences)
        print(f"TT240: traced answers of {names} differed from Python, see above", file=sys.stderr)
    return 130 if result.stopped else 1 if result.differences or result.all_rejected else 0


def short_path(path: str) -> str:
    """A path as one types it here."""
    return path.replace(os.getcwd() + os.sep, "", 1)
