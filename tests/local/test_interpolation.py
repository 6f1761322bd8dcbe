"""An interpolation over columns goes on from a checkpoint of real runs, also from one that the operators have left."""

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
from tracetypes.compiler.runtime.ordered_kernel import OrderedColumns
from tracetypes.compiler.store.outputs import FileOutput
from tracetypes.stdlib import interpolate


@attrs.frozen
class Reading:
    room: str
    ts: int
    x: float


def flow() -> Checked:
    dataflow = Dataflow("interpolated")
    markers: Any = every(seconds=10, time=lambda reading: reading.ts)
    source = dataflow.source("in", U[str, Reading], key=lambda reading: reading.room, markers=markers)
    fill = interpolate(
        time=lambda reading: reading.ts,
        number=lambda reading: reading.x,
        make=lambda reading, ts, x: Reading(reading.room, ts, x),
        max_gap=15,
    )
    dataflow.sink("out", source.through(sort(by=lambda reading: reading.ts)).through(fill))
    return check(dataflow)


ROWS = [Reading("abc"[at % 3], at + at // 100 * 5, at * at / 7) for at in range(0, 400, 2)]


@pytest.mark.parametrize("python", [None, 0, 1], ids=["all", "first in Python", "second in Python"])
def test_goes_on_from_a_checkpoint(python: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, over_columns = flow(), Counter[int]()
    run_over_columns = OrderedColumns.run
    (tmp_path / "in").mkdir()
    for at, some in enumerate((ROWS[:90], ROWS[90:])):
        (tmp_path / "in" / f"{at}.jsonl").write_text("".join(json.dumps(attrs.asdict(row)) + "\n" for row in some))

        def counted(self: OrderedColumns, *items: Any, at: int = at) -> Any:
            result = run_over_columns(self, *items)
            over_columns[at] += 1
            return result

        monkeypatch.setattr(OrderedColumns, "run", counted)
        monkeypatch.setattr(limits, "MANY", 1)
        one = plan(checked)
        if python == at:
            one = in_python(one, list(names_of(one).values()))
        out = tmp_path / "out"
        output = FileOutput(one, str(out), f"run-{at}", f"{out}-late", f"{out}-rejects")
        run(
            LocalBackend(1),
            one,
            {"in": str(tmp_path / "in")},
            output,
            checkpoint=str(tmp_path / "state"),
            drain=at == 1,
        )
    assert set(over_columns) == {0, 1} - {python}
    expected = [one for one in interpret_rows(checked, {"in": ROWS})[0]["out"].items if isinstance(one, Item)]
    rows = [json.loads(line) for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted(map(repr, map(Reading, *zip(*map(values, rows), strict=True)))) == sorted(
        repr(one.value) for one in expected
    )
    assert len(expected) > len(ROWS)


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["room"], row["ts"], row["x"]
