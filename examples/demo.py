"""The demo: the smart-home pipeline by its definition, locally, and on Spark at parallelism 1 and 4; four equal traces.

python -m examples.demo [FILE]      # FILE: real measurements of the same form; none: seeded ones
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from examples.home_energy import Measurement, flow, write
from tracetypes import Item, check, interpret_rows
from tracetypes.compiler.backend.backend import Backend
from tracetypes.compiler.backend.run import collect
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.plan.explain import show_plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.backend import SparkBackend
from tracetypes.compiler.spark.session import session
from tracetypes.compiler.spark.wording import SparkWording
from tracetypes.errors import TraceTypesError


def main() -> int:
    """Run the demo. Exit status 0 when the four traces are equal."""
    checked = check(flow)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch) / "readings.txt"
        if len(sys.argv) == 1:
            write(path)
        measurements = [_parse(line) for line in path.read_text().splitlines()]
        print(
            f"{len(measurements):,} measurements of smart plugs. Asked for: average load by type of device and second.\n"
        )
        print("The plan that the compiler made for parallelism 4:\n")
        for line in show_plan(plan(checked, parallelism=4), SparkWording()):
            print(f"  {line}")

        started = time.monotonic()
        traces, _ = interpret_rows(checked, {"readings": measurements})
        defined = traces["averages"]
        print(f"\n{'run':<28}{'items':>8}{'markers':>9}{'seconds':>9}   trace")
        count = sum(isinstance(e, Item) for e in defined)
        print(
            f"{'interpreter (definition)':<28}{count:>8,}{len(defined) - count:>9,}{time.monotonic() - started:>9.1f}"
        )
        same = True
        for name, backend, parallelism in _runs():
            started = time.monotonic()
            answer = collect(backend, plan(checked, parallelism=parallelism), {"readings": str(path)}).answer
            equal = answer.trace == defined
            same = same and equal
            count = sum(isinstance(e, Item) for e in answer.trace)
            print(
                f"{f'{name}, parallelism {parallelism}':<28}{count:>8,}{len(answer.trace) - count:>9,}"
                f"{time.monotonic() - started:>9.1f}   {'equal' if equal else 'DIFFERENT'}",
                flush=True,
            )
    print("\nThe last second of each device:\n")
    last = {e.key: e.value for e in defined if isinstance(e, Item)}
    for device, average in sorted(last.items()):
        print(f"  {device:<18}{average.watts:>10.2f} W   over {average.loads} plugs")
    print("\nThe four traces are equal." if same else "\nThe traces differ: this is a defect, please report it.")
    return 0 if same else 1


def _runs() -> Iterator[tuple[str, Backend, int]]:
    """The local backend first, which needs no Java, then Spark."""
    yield "local", LocalBackend(2), 2
    spark = SparkBackend(session(parallelism=4))
    yield from (("Spark", spark, parallelism) for parallelism in (1, 4))


def _parse(line: str) -> Measurement:
    timestamp, value, *place = line.split()
    return Measurement(int(timestamp), float(value), *map(int, place))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TraceTypesError as error:
        sys.exit(f"demo: {error}")
