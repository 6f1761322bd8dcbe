"""The part of the demo about workspaces: three users submit dataflows, and what these have in common runs once.

python -m examples.demo_workspace [FILE]      # FILE: measurements, as for examples.demo; none: seeded ones
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from examples.home_energy import Average, Measurement, average, flow, join_filter_map, write
from tracetypes import Dataflow, Stream, U, Unit, csv, every, run
from tracetypes.stdlib import count, filter, flat_map, tumbling
from tracetypes.workspace import Workspace


def timestamp_of(measurement: Measurement) -> int:
    """When it was taken, in seconds."""
    return measurement.timestamp


def readings_of(made: Dataflow) -> Stream[U[Unit, Measurement]]:
    """The source, as each of the users writes it."""
    columns = ["timestamp", "value", "property", "plug", "household", "house"]
    markers = every(seconds=10, time=timestamp_of)
    return made.source("readings", U[Unit, Measurement], markers=markers, format=csv(separator=None, columns=columns))


def is_high(_: str, value: Average) -> bool:
    """Whether a type of device takes more than half a kilowatt."""
    return value.watts > 500


def dataflows() -> dict[str, Dataflow]:
    """Of three users, who know nothing of each other."""
    ann, bob, carl = Dataflow("ann"), Dataflow("bob"), Dataflow("carl")
    ann.sink("answers", average(readings_of(ann)))
    bob.sink("answers", average(readings_of(bob)).through(filter(is_high)))
    carl.sink("answers", readings_of(carl).through(flat_map(join_filter_map)).through(tumbling(count(), size=10)))
    return {"ann: average load": ann, "bob: where it is high": bob, "carl: loads by plug": carl}


def show_workspace(folder: Path, readings: Path) -> bool:
    """Submit the dataflows one after the other, show what runs, and remove them. Whether the answers are those of a run."""
    (folder / "measurements").mkdir()
    print("\nThree users submit dataflows over the same measurements to a workspace in this process:\n")
    print(f"{'':<32}{'needs':>7}{'shared':>8}{'starts':>8}{'run in all':>12}", flush=True)
    with Workspace(folder / "workspace", backend="local") as workspace:
        before = 0
        for user, made in dataflows().items():
            name = user.partition(":")[0]
            workspace.submit(name, made, {"readings": folder / "measurements"}, {"answers": folder / name})
            view = workspace.show()
            one, starts, before = view[name], view.operators - before, view.operators
            print(f"{user:<32}{one.operators:>7}{one.shared:>8}{starts:>8}{view.operators:>12}", flush=True)
        shutil.copy(readings, folder / "measurements.txt")
        (folder / "measurements.txt").rename(folder / "measurements" / "1.txt")  # they come, as a whole
        workspace.wait()
        view = workspace.show()
        saved = sum(one.saved for one in view.flows)
        print(f"\n{view.submitted} operators were submitted, and {view.operators} run.", end=" ")
        print(f"{saved:.1f} of {saved + view.seconds:.1f} processor seconds are saved.\n")
        for name in ("carl", "bob", "ann"):
            workspace.remove(name, drain=True)
            print(f"{name + ' leaves':<55}{workspace.show().operators:>12}", flush=True)
    run(flow, {"readings": readings}, {"averages": folder / "alone"}, backend="local")
    is_same = _lines(folder / "ann") == _lines(folder / "alone")
    word, rows = "those" if is_same else "NOT those", len(_lines(folder / "ann"))
    print(f"\nann's answers are {word} of a run of her dataflow alone: {rows:,} rows.")
    print("docs/service.md has more: over HTTP, owners that do not see each other, and a page in the browser.\n", flush=True)
    return is_same


def _lines(folder: Path) -> list[str]:
    return sorted(line for file in folder.glob("*.jsonl") for line in file.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch) / "readings.txt"
        if len(sys.argv) == 1:
            write(given)
        sys.exit(0 if show_workspace(Path(scratch), given) else 1)
