"""Runs a scripted job in processes of its own, where crashes are real, until it is done.

::

    JOB/job              the dataflow and how to run it, pickled
    JOB/sinks/NAME/      a channel for each sink: rows in Parquet, and a manifest of each micro-batch with its markers
    JOB/late, JOB/rejects, JOB/checkpoint; JOB/error, an error of the run itself

``python -m tracetypes.compiler.trial.rehearsal JOB`` makes an attempt, and after a crash that leaves Spark alive
another.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import attrs
import pyarrow.parquet as pq

from tracetypes.check import check
from tracetypes.compiler.analysis.pickles import shipped
from tracetypes.compiler.backend.run_options import Places
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import Program, program
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.spark.java import java_process
from tracetypes.compiler.spark.run import run_program
from tracetypes.compiler.spark.scripted import Crashes, Scripted, write_steps
from tracetypes.compiler.spark.session import session
from tracetypes.compiler.store.channel import runs_in
from tracetypes.compiler.store.file_channel import ChannelOutput, FileChannel
from tracetypes.compiler.store.output_interface import Frontiers, Output, SideOutputs
from tracetypes.compiler.store.output_trace import Collector
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.errors import CodedError, RunError, envelope, from_text
from tracetypes.fencing import Starts
from tracetypes.graph import Dataflow
from tracetypes.scripts import Step
from tracetypes.trace import Element, Trace

__all__ = ["Job", "answers", "rehearse", "side_outputs"]

PATIENCE = 600.0
"""Seconds that the attempts of one process may take."""


@attrs.frozen
class Job:
    """A dataflow with its script. ``steps``: for each source, what it does in each micro-batch."""

    flow: Dataflow
    steps: Mapping[str, Sequence[Step]]
    parallelism: int
    key_groups: int

    @property
    def program(self) -> Program:
        """The program of the dataflow."""
        return program(check(self.flow), parallelism=self.parallelism, key_groups=self.key_groups)


class CrashingOutput(Output):
    """An output that crashes when it has the rows of a step."""

    def __init__(self, inner: Output, crashes: Crashes) -> None:
        self.inner, self.crashes, self.delivery = inner, crashes, inner.delivery

    def begin(self, starts: Starts) -> None:
        """As for the output."""
        self.inner.begin(starts)

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Write a micro-batch."""
        self.inner.take(messages, batch, frontiers)
        self.crashes.moment("written")

    def visible(self, batch: int) -> str | None:
        """As for the output."""
        return self.inner.visible(batch)

    @property
    def newest(self) -> int | None:
        """As for the output."""
        return self.inner.newest

    def tidy(self) -> None:
        """Remove the files of failed attempts."""
        self.inner.tidy()


def attempt(place: Path) -> None:
    """Run a job to its end, or until it crashes."""
    job: Job = pickle.loads((place / "job").read_bytes())
    compiled, crashes = job.program, Crashes(place)
    spark = session(parallelism=compiled.width)
    write_json(place / "processes.json", {"driver": os.getpid(), "jvm": java_process(spark)})

    def aside(run: str) -> SideOutputs:
        return SideOutputs(place / "late", place / "rejects", run)

    def output(sink: str, plan: Plan, run: str) -> Output:
        return CrashingOutput(ChannelOutput(plan, FileChannel(sink, place / "sinks" / sink), aside(run)), crashes)

    places = Places(
        inputs={name: Scripted(place) for name in compiled.sources},
        outputs={sink: partial(output, sink) for sink in compiled.sinks},
        checkpoint=place / "checkpoint",
        side_outputs=aside,
    )
    run_program(spark, compiled, places, on_batch=lambda _: crashes.moment("committed"))


def main(place: Path) -> int:
    """Attempts in this process, as long as they crash and Spark lives. The exit status: 0 if the job is done, 3 if
    another process must go on."""
    crashes = Crashes(place)
    while True:
        before = crashes.fired
        try:
            attempt(place)
        except Exception as error:
            if crashes.fired == before:
                failure = error if isinstance(error, CodedError) else RunError("TT214", f"{type(error).__name__}: {error}")
                if failure.code == "TT212":  # finished, and nobody was told
                    return 0
                (place / "error").write_text(envelope(failure))
                return 1
            jvm = (read_json(place / "processes.json") or {})["jvm"]
            if jvm_is_gone(jvm):
                return 3
        else:
            return 0


def jvm_is_gone(pid: int) -> bool:
    """Whether a process has ended, even if nobody has asked for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def rehearse(job: Job, place: Path) -> int:
    """Run a job in processes of its own, in a directory, until it is done. Returns the number of crashes. Raises the
    errors of the run itself."""
    crashes = Crashes(place)
    crashes.place.mkdir()
    write_steps(place, job.steps)
    (place / "job").write_bytes(shipped(attrs.evolve(job, steps={})))
    paths = [os.getcwd() if path == "" else path for path in sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    while True:
        before = crashes.fired
        running = subprocess.Popen(
            [sys.executable, "-m", "tracetypes.compiler.trial.rehearsal", str(place)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, stderr = running.communicate(timeout=PATIENCE)
        finally:
            with suppress(ProcessLookupError):  # what is left of it, such as a JVM without a driver
                os.killpg(running.pid, signal.SIGKILL)
        if running.returncode == 0:
            return crashes.fired
        if crashes.fired == before:
            error = place / "error"
            failure = from_text(error.read_text()) if error.exists() else None
            raise failure or RunError("TT214", f"the process ended with status {running.returncode}: {stderr}")


def answers(job: Job, place: Path) -> dict[str, Trace[Element]]:
    """The traces that a job has left at its sinks."""
    traces: dict[str, Trace[Element]] = {}
    for segment, plan in zip(job.program.segments, job.program.plans, strict=True):
        if segment.sends is not None:
            continue
        collector = Collector(plan)
        sink = place / "sinks" / segment.name
        for manifest in sorted((sink / "manifests").glob("*.jsonl")):
            for line in map(json.loads, manifest.read_text().splitlines()):
                if "file" in line:
                    collector.table(pq.read_table(sink / "rows" / line["file"]).combine_chunks())
                else:
                    collector.markers |= runs_in(line)
        traces[segment.name] = collector.answer(plan.region.stream).trace
    return traces


def side_outputs(place: Path, which: str) -> Counter[tuple[str, str]]:
    """The late or rejected rows (``late`` or ``rejects``), by source and reason."""
    rows: Counter[tuple[str, str]] = Counter()
    for part in (place / which).glob("*/part-*"):
        rows.update((part.parent.name, json.loads(line)["reason"]) for line in part.read_text().splitlines())
    return rows


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
