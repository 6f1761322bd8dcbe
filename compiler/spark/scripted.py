"""Scripted sources on Spark: the steps of a script, as the files of a source.

A step is a file, and a micro-batch takes one. Its lines are rows that were read already; or a line may end a process.
::

    JOB/sources/NAME/    the steps of a source
    JOB/processes.json   the processes that may be killed: the ids of the driver and of the JVM
    JOB/crashes/         a file for each crash that was reached (armed-N) or took place (fired-N): none happens twice
"""

from __future__ import annotations

import base64
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tracetypes.compiler.analysis.pickles import shipped
from tracetypes.compiler.connectors.registry import Connector, register
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Piece
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.spark.files import FileInput
from tracetypes.compiler.spark.scan import End, Scan, runs
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.formats import JsonLines
from tracetypes.parsing import Row
from tracetypes.records import show
from tracetypes.scripts import Crash, Step, When

__all__ = ["Crashes", "ScriptInput", "ScriptScan", "Scripted", "write_steps"]


@attrs.frozen
class Scripted:
    """The input of each source of a job: the files that :func:`write_steps` wrote into its directory."""

    job: Path


class Crashes:
    """The crashes of a job. Each happens once, in the first process that reaches it."""

    def __init__(self, job: Path) -> None:
        self.job, self.place = job, job / "crashes"

    @property
    def fired(self) -> int:
        """How many took place."""
        return len(list(self.place.glob("fired-*")))

    def reach(self, number: int, crash: Crash) -> None:
        """A source has reached a scripted crash. The crash happens here, or waits for a later moment of the step."""
        if crash.when == "reading":
            self.fire(number, crash)
        elif not (self.place / f"fired-{number}").exists():
            write_json(self.place / f"armed-{number}", attrs.asdict(crash))

    def moment(self, when: When) -> None:
        """The driver has reached a moment of a micro-batch."""
        for armed in sorted(self.place.glob("armed-*")):
            crash = Crash(**(read_json(armed) or {}))
            if crash.when == when:
                self.fire(int(armed.name.partition("-")[2]), crash)

    def fire(self, number: int, crash: Crash) -> None:
        """Let the crash happen, unless it has."""
        try:
            os.close(os.open(self.place / f"fired-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if crash.victim != "raise":
            pids = read_json(self.job / "processes.json") or {}
            os.kill(os.getpid() if crash.victim == "worker" else pids[crash.victim], signal.SIGKILL)
        raise RuntimeError("a crash as the script says")  # whoever is left does not go on here


# ----------------------------------------------------------------------------------------------- the source


class ScriptInput(FileInput):
    """A script as the input of a source."""

    @property
    def is_listed(self) -> bool:
        """Spark reads the lines of a script."""
        return False

    def __init__(self, spark: SparkSession, leaf: FromSource, job: Path) -> None:
        self.job = job
        # A script is not in the format that the author declared for the source.
        plain = attrs.evolve(leaf, source=attrs.evolve(leaf.source, format=JsonLines()))
        super().__init__(spark, plain, str(job / "sources" / leaf.source.name), files_per_step=1)


    def scanned(self, end: End, files: InputFiles | None) -> tuple[DataFrame, Scan]:
        """Lines of scripts."""
        frame, _ = self.frame(end.link)
        return frame, ScriptScan(end, self.job)


class Scripts(Connector):
    """Scripted sources."""

    kind, scheme, display_name = "script", "", "files"

    def has(self, address: object) -> bool:
        """Whether :func:`write_steps` wrote it."""
        return isinstance(address, Scripted)


register(Scripts())


def write_steps(job: Path, steps: Mapping[str, Sequence[Step]]) -> None:
    """Write the files of all sources. Crashes have consecutive numbers."""
    number = 0
    for name, of_source in steps.items():
        directory = job / "sources" / name
        directory.mkdir(parents=True)
        for at, step in enumerate(of_source):
            path = directory / f"{at:06d}.jsonl"
            with path.open("wb") as lines:
                for entry in step:
                    line = (number, entry) if isinstance(entry, Crash) else entry
                    number += isinstance(entry, Crash)
                    lines.write(base64.b64encode(shipped(line)) + b"\n")
            os.utime(path, (1_600_000_000 + at, 1_600_000_000 + at))


class ScriptScan(Scan):
    """Lines of scripts. Input columns as for text."""

    def __init__(self, end: End, job: Path) -> None:
        super().__init__(end)
        self.crashes = Crashes(job)

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """Execute the lines."""

        def take(lines: Sequence[bytes]) -> Iterator[TakenRow | Chunk]:
            for line in lines:
                entry = pickle.loads(base64.b64decode(line))
                if isinstance(entry, Row):
                    yield TakenRow(entry, partial(show, entry.value))
                else:
                    self.crashes.reach(*entry)

        for piece, parts in groupby(runs(batches), key=lambda run: run[0]):
            yield piece, take([line for _, batch in parts for line in batch.column(0).to_pylist()])
