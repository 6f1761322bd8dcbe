"""Ordered operators over columns go on from a checkpoint of real runs, also from one that the operators have left in Python."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest

from tracetypes import Checked, Dataflow, Item, U, check, every, interpret_rows, sort
from tracetypes.compiler.backend.run import run
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.plan.in_python import in_python, names_of
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.duplicates import DuplicatesKernel
from tracetypes.compiler.runtime.ordered_base import OrderedKernel
from tracetypes.compiler.runtime.ordered_kernel import OrderedColumns
from tracetypes.compiler.runtime.sliding_windows import SlidingWindows
from tracetypes.compiler.store.outputs import FileOutput
from tracetypes.stdlib import count_window, deduplicate, interpolate, mean


@attrs.frozen
class Reading:
    room: str
    ts: int
    x: float


OPERATORS: dict[str, tuple[Any, type[OrderedKernel]]] = {
    "interpolate": (
        interpolate(
            time=lambda reading: reading.ts,
            number=lambda reading: reading.x,
            make=lambda reading, ts, x: Reading(reading.room, ts, x),
            max_gap=15,
        ),
        OrderedColumns,
    ),
    "deduplicate": (deduplicate(lambda reading: reading.ts % 37), DuplicatesKernel),
    "deduplicate, recent": (deduplicate(lambda reading: f"{reading.ts % 7}", items=5), DuplicatesKernel),
    "deduplicate, within": (
        deduplicate(lambda reading: (reading.ts % 5, reading.room), seconds=20, time=lambda reading: reading.ts),
        DuplicatesKernel,
    ),
    "sliding count_window": (count_window(mean(lambda reading: reading.x), items=6, slide=4), SlidingWindows),
}


def flow(name: str) -> Checked:
    dataflow = Dataflow("ordered")
    markers: Any = every(seconds=10, time=lambda reading: reading.ts)
    source = dataflow.source("in", U[str, Reading], key=lambda reading: reading.room, markers=markers)
    dataflow.sink("out", source.through(sort(by=lambda reading: reading.ts)).through(OPERATORS[name][0]))
    return check(dataflow)


ROWS = [Reading("abc"[at % 3], at + at // 100 * 5, at * at / 7) for at in range(0, 400, 2)]


@pytest.mark.parametrize("python", [None, 0, 1], ids=["all", "first in Python", "second in Python"])
@pytest.mark.parametrize("name", OPERATORS)
def test_goes_on_from_a_checkpoint(
    name: str, python: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, kernel, over_columns = flow(name), OPERATORS[name][1], Counter[int]()
    run_over_columns, parallelism = kernel.run, 3 if python is None else 1
    monkeypatch.setattr(limits, "TURN", 0)
    (tmp_path / "in").mkdir()
    for at, some in enumerate((ROWS[:90], ROWS[90:])):
        (tmp_path / "in" / f"{at}.jsonl").write_text("".join(json.dumps(attrs.asdict(row)) + "\n" for row in some))

        def counted(self: OrderedKernel, *items: Any, at: int = at) -> Any:
            result = run_over_columns(self, *items)
            over_columns[at] += 1
            return result

        monkeypatch.setattr(kernel, "run", counted)
        monkeypatch.setattr(limits, "MANY", 1)
        one = plan(checked, parallelism=parallelism)
        if python == at:
            one = in_python(one, list(names_of(one).values()))
        out = tmp_path / "out"
        output = FileOutput(one, str(out), f"run-{at}", f"{out}-late", f"{out}-rejects")
        run(
            LocalBackend(parallelism),
            one,
            {"in": str(tmp_path / "in")},
            output,
            checkpoint=str(tmp_path / "state"),
            drain=at == 1,
        )
    assert set(over_columns) == {0, 1} - {python}
    expected = [one for one in interpret_rows(checked, {"in": ROWS})[0]["out"].items if isinstance(one, Item)]
    rows = [json.loads(line) for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    found = [row["value"] if "value" in row else Reading(row["room"], row["ts"], row["x"]) for row in rows]
    assert sorted(map(repr, found)) == sorted(repr(one.value) for one in expected)
    assert len(expected) > len(OPERATORS)
