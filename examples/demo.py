"""The demo: the smart-home pipeline locally, by its definition, and on Spark at parallelism 1 and 4; four equal traces.

python -m examples.demo [FILE [COUNT]]      # FILE: real measurements of the same form; none: seeded ones

What runs locally comes first, and needs neither pyspark nor Java. It ends with the rate of the same pipeline for ``COUNT``
measurements in Parquet files, and with a workspace in which three users share operators. Before Spark starts,
``scripts/java.sh`` looks for Java, and installs it where there is none. If Spark cannot start, the demo says why behind what it
has shown, and its exit status is 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from examples.demo_workspace import show_workspace
from examples.home_energy import Measurement, average, flow, write
from tracetypes import Dataflow, Item, RunError, U, Unit, check, every, interpret_rows, run
from tracetypes.compiler.backend.backend import Backend
from tracetypes.compiler.backend.compilation import extras
from tracetypes.compiler.backend.run import collect
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.local.wording import LocalWording
from tracetypes.compiler.plan.explain import show_plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.errors import TraceTypesError
from tracetypes.trace import Element, Trace

LARGE: Final = 2_000_000
PLUGS: Final = 2_000
JAVA: Final = Path(__file__).resolve().parents[1] / "scripts" / "java.sh"


def main() -> int:
    """Run the demo. Exit status 0 when there are four traces, and they are equal."""
    checked = check(flow)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch) / "readings.txt"
        if len(sys.argv) == 1:
            write(path)
        measurements = [_parse(line) for line in path.read_text().splitlines()]
        print(f"{len(measurements):,} measurements of smart plugs. Asked for: average load by type of device and second.\n")
        print("The plan that the compiler made for this process, parallelism 2:\n")
        for line in show_plan(plan(checked, parallelism=2), LocalWording()):
            print(f"  {line}")
        print(f"\n{'run':<28}{'items':>8}{'markers':>9}{'seconds':>9}   trace", flush=True)

        def on(backend: Backend, parallelism: int) -> Trace[Element]:
            return collect(backend, plan(checked, parallelism=parallelism), {"readings": str(path)}).answer.trace

        def defined() -> Trace[Element]:
            return interpret_rows(checked, {"readings": measurements})[0]["averages"]

        first = _timed("local, parallelism 2", partial(on, LocalBackend(2), 2))
        traces = [first, _timed("interpreter (definition)", defined, first)]
        print_rate(Path(scratch), int(sys.argv[2]) if len(sys.argv) > 2 else LARGE)
        is_same = show_workspace(Path(scratch), path)
        missing: TraceTypesError | None = None
        try:
            spark = _spark()
        except TraceTypesError as error:
            missing = error
        else:
            traces += [_timed(f"Spark, parallelism {width}", partial(on, spark, width), first) for width in (1, 4)]
    print("\nThe last second of each device:\n")
    last = {e.key: e.value for e in first if isinstance(e, Item)}
    for device, load in sorted(last.items()):
        print(f"  {device:<18}{load.watts:>10.2f} W   over {load.loads} plugs")
    same, count = is_same and all(one == first for one in traces), "two" if missing else "four"
    print(f"\nThe {count} traces are equal." if same else "\nThe traces differ: this is a defect, please report it.", flush=True)
    if missing is not None:
        print(f"demo: the part on Spark is missing: {missing}", file=sys.stderr)
    return 0 if same and missing is None else 1


def print_rate(folder: Path, count: int) -> None:
    """Run the pipeline twice, Parquet to Parquet, and say how many measurements a second it took."""
    write_large(folder / "large", count)
    large = Dataflow("home-energy-large")
    readings = large.source("readings", U[Unit, Measurement], markers=every(seconds=10, time=lambda m: m.timestamp))
    large.sink("averages", average(readings))
    seconds = list[float]()
    for name in ("first", "second"):
        started = time.monotonic()
        outputs = {"averages": folder / name}
        run(large, inputs={"readings": folder / "large"}, outputs=outputs, backend="local", parallelism=2)
        seconds.append(time.monotonic() - started)
    rate = count / seconds[1] / 1e6
    print(f"\nThe same pipeline, which sorts twice, over {count:,} measurements of {PLUGS:,} plugs in Parquet files:")
    print(f"{rate:.2f} million measurements a second ({seconds[1]:.1f} s; {seconds[0]:.1f} s the first time).\n", flush=True)


def write_large(folder: Path, count: int) -> None:
    """Write seeded measurements as four Parquet files, in the order of their times: one a plug and second, half of them loads."""
    folder.mkdir()
    chance = np.random.default_rng(1)
    plugs = chance.integers(0, PLUGS, count)
    columns = {
        "timestamp": 1377986401 + np.sort(chance.integers(0, count // PLUGS + 1, count)),
        "value": np.round(chance.random(count) * 2000, 3),
        "property": chance.integers(0, 2, count),
        "plug": plugs // 60,
        "household": plugs // 12 % 5,
        "house": plugs % 12,
    }
    table = pa.table(columns)
    for number in range(4):
        start, end = number * count // 4, (number + 1) * count // 4
        pq.write_table(table.slice(start, end - start), folder / f"{number}.parquet")


def _timed(name: str, run: Callable[[], Trace[Element]], first: Trace[Element] | None = None) -> Trace[Element]:
    """The trace of a run, which gets a line of the table. ``first``: the one that it has to be equal to."""
    started = time.monotonic()
    trace = run()
    seconds, items = time.monotonic() - started, sum(isinstance(e, Item) for e in trace)
    equal = "" if first is None else "equal" if trace == first else "DIFFERENT"
    print(f"{name:<28}{items:>8,}{len(trace) - items:>9,}{seconds:>9.1f}   {equal}".rstrip(), flush=True)
    return trace


def _spark() -> Backend:
    """Spark, with the Java that ``scripts/java.sh`` finds. Raises ``TT401`` without pyspark, and ``TT213`` without Java."""
    with extras():
        from tracetypes.compiler.spark.backend import SparkBackend
        from tracetypes.compiler.spark.session import session

    if JAVA.exists():
        found = subprocess.run(["sh", JAVA], stdout=subprocess.PIPE, text=True, check=False)
        if found.returncode:
            raise RunError("TT213", "Spark needs Java, and there is none", fix="install a Java 17 or 21, and set JAVA_HOME to it")
        os.environ["JAVA_HOME"] = found.stdout.strip()
    return SparkBackend(session(parallelism=4))


def _parse(line: str) -> Measurement:
    timestamp, value, *place = line.split()
    return Measurement(int(timestamp), float(value), *map(int, place))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TraceTypesError as error:
        sys.exit(f"demo: {error}")
