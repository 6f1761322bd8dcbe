"""The waves of a dataflow with learned gates, all of them open, on the local backend: many more than the interpreter can do.
And the real hours of stations."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._compare import scratch
from examples.air_quality_hours import Hour
from tracetypes.compiler.backend.run import run_program
from tracetypes.compiler.backend.run_options import Places
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.gates.learned.flows import TrainingRun
from tracetypes.compiler.gates.learned.steps import Values
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.store.output_interface import SideOutputs
from tracetypes.compiler.store.outputs import MemoryOutput

__all__ = ["containers_of", "hours_of"]


def containers_of(run: TrainingRun, source: str, rows: Sequence[Any]) -> list[Mapping[str, Values]]:
    """The containers of all steps behind each marker. ``rows``: of the source, in order of arrival."""
    whole = program(run.tapped.checked, parallelism=1, key_groups=1)
    outputs = {
        segment.name: MemoryOutput(plan)
        for segment, plan in zip(whole.segments, whole.plans, strict=True)
        if segment.sends is None
    }
    with scratch() as checkpoint:
        places = Places(
            inputs={source: Rows((tuple(rows),))},
            outputs={name: partial(_same, output) for name, output in outputs.items()},
            checkpoint=checkpoint,
            side_outputs=partial(SideOutputs, Path(checkpoint, "_late"), Path(checkpoint, "_rejects")),
        )
        run_program(LocalBackend(1), whole, places)
    return list(run.containers(run.tapped.feeds({name: output.answer.trace.items for name, output in outputs.items()})))


def _same(output: MemoryOutput, *_: Any) -> MemoryOutput:
    return output


def hours_of(path: Path) -> Iterator[Hour]:
    """The rows of a file, in the order of time."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        table = sorted(csv.DictReader(lines), key=lambda row: (row["date_utc"], int(row["site_id"])))
    for row in table:
        numbers = (float(row[name]) for name in ("pm25_1hr", "o3_1hr", "no2_1hr"))
        yield Hour(int(row["site_id"]), dt.datetime.fromisoformat(row["date_utc"]), *numbers)
