"""What a run shows of itself: results and runs in Python, errors in notebooks, lines and tables on a terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

import tracetypes
from tracetypes import CheckFailed, Dataflow, U, UsageError, check, every
from tracetypes.check import violations
from tracetypes.cli import epoch_lines
from tracetypes.compiler.backend.background_run import Run
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.store.key_state import KeyState
from tracetypes.compiler.store.metrics import Batch, StageMetrics
from tracetypes.compiler.store.metrics_table import Table
from tracetypes.progress import Progress
from tracetypes.stdlib import aggregate, count, diff


@attrs.frozen
class Click:
    page: str
    ts: int


def clicks(name: str = "clicks") -> Dataflow:
    flow = Dataflow(name)
    rows = flow.source("clicks", U[str, Click], key=lambda c: c.page, markers=every(seconds=10, time=lambda c: c.ts))
    flow.sink("counts", rows.through(aggregate(count())))
    return flow


ROWS = [Click("a", 1), Click("b", 2), Click("a", 25), Click("c", 3)]


def test_a_result_prints_its_rows(tmp_path: Path) -> None:
    result = tracetypes.run(clicks(), {"clicks": ROWS}, {"counts": []}, backend="local")
    lines = repr(attrs.evolve(result, seconds=1.25)).splitlines()
    assert lines == ["4 rows in 1.2 s, 1 late, 0 rejected", "counts: 3 rows", *lines[2:]]
    assert sorted(lines[2:]) == ["    ('a', 1)", "    ('a', 1)", "    ('b', 1)"]
    many = [Click(f"page {at}", 1) for at in range(30)]
    shown = repr(tracetypes.run(clicks(), {"clicks": many}, {"counts": []}, backend="local")).splitlines()
    assert len(shown) == 13
    assert shown[-1] == "    and 20 more"
    written = tracetypes.run(clicks(), {"clicks": ROWS}, {"counts": tmp_path / "out"}, backend="local")
    assert repr(written).splitlines()[1] == f"counts: in {tmp_path / 'out'}"


def test_a_run_prints_what_it_has_done() -> None:
    run = tracetypes.start(clicks("shop"), {"clicks": ROWS}, {"counts": []}, backend="local", follow=False)
    run.wait()
    assert repr(run).startswith("<Run 'shop' is over: 4 rows in ")
    assert "counts: 3 rows" in repr(run)
    assert "<table>" in run._repr_html_()
    control: Any = None
    going = Run(control, run._thread, [], [], [Batch(0, 7, 1, 20_000_000, {"clicks": 2}, {}, 0.1)], None, "shop")
    assert repr(going) == "<Run 'shop' goes on: 7 rows in 1 epoch, answered up to 1970-01-01 00:00:20Z, 2 late, 0 rejected>"
    failed = Run(control, run._thread, [], [UsageError("TT402", "no such place", fix="look")], [], None, "shop")
    assert repr(failed) == "<Run 'shop' failed: TT402 no such place>"


# ------------------------------------------------------------------------------------------------------ notebooks


def test_a_violation_shows_the_authors_line_first() -> None:
    flow: Any = Dataflow("wrong")
    rows = flow.source("clicks", U[str, Click], markers=every(seconds=10, time=lambda c: c.ts))
    flow.sink("out", rows.through(cast(Any, diff)(lambda c: c.ts)))  # the line
    (one,) = violations(flow)
    with pytest.raises(CheckFailed) as raised:
        check(flow)
    shown = raised.value._render_traceback_()
    assert shown[0] == f"{one.where}: {one.where.text}"
    assert shown[0].endswith("# the line")
    assert shown[2] == "1 violation"


def test_an_error_shows_the_authors_line_first() -> None:
    with pytest.raises(UsageError) as raised:
        tracetypes.run(clicks(), {"click": ROWS}, {"counts": []}, backend="local")  # the line
    shown = raised.value._render_traceback_()
    assert shown[0].startswith(f"{Path(__file__).relative_to(Path.cwd())}:")
    assert shown[0].endswith("# the line")
    assert shown[2].startswith("TT402 there is no source 'click'")


NOTEBOOK = '''
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.run_cell("""
import attrs, tracetypes
from tracetypes import Dataflow, U, every
from tracetypes.stdlib import map_values, aggregate, sum

@attrs.frozen
class Click:
    page: str
    ts: int

flow = Dataflow("clicks")
rows = flow.source("clicks", U[str, Click], key=lambda c: c.page, markers=every(seconds=10, time=lambda c: c.ts))
flow.sink("halves", rows.through(map_values(lambda c: c.ts / 2)).through(aggregate(sum(lambda x: x))))
""")
shell.run_cell("tracetypes.run(flow, {'clicks': [Click('a', 4)]}, {'halves': []}, backend='local')")
shell.run_cell("x = 1\\ntracetypes.run(flow, {}, {'halves': []}, backend='local')")
'''


def test_in_a_notebook(tmp_path: Path) -> None:
    """Lambdas of cells need no ``to=``, results are shown, and errors begin with the author's line."""
    pytest.importorskip("IPython")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, cwd=tmp_path, env=env, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert any(line.endswith("1 row in 0.0 s, 0 late, 0 rejected") or "1 row in" in line for line in said), done.stdout
    assert "    ('a', 2.0)" in said
    at = next(at for at, line in enumerate(said) if "TT402 source 'clicks' has no input" in line)
    assert "tracetypes.run(flow, {}" in said[at - 2]
    assert "Traceback" not in done.stdout
    assert "run_request.py" not in done.stdout


# ------------------------------------------------------------------------------------------------------- terminals


@pytest.mark.parametrize("query", ["", "a-query-with-a-rather-long-name-of-its-own"])
@pytest.mark.parametrize("marker", [None, 1_767_225_600_000_000])
def test_a_line_of_progress_fits_80_columns(query: str, marker: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    flow = clicks()
    say = Progress(quiet=False)
    epoch_lines(say, program(check(flow)))(
        Batch(1_234, 12_345_678, 1_234, marker, {"clicks": 12_345}, {"clicks": 6_789}, 12.3, query)
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert "12,345 late, 6,789 rejected" in line
    assert len(line) <= 80 or query


@pytest.mark.parametrize("width", [80, 100, 60])
def test_the_table_keeps_late_and_rejected_rows(width: int) -> None:
    table = Table(program(check(clicks())))
    stage = StageMetrics(0, 12_345_678, 1_234_567, 100, 1_767_225_600_000_000, 10_000_000, ())
    late, rejects = {"clicks": 1_234_567}, {"clicks": 7_654_321}
    read = {"clicks": 9_000_000}
    table.add(Batch(0, 9_000_000, 100, 1_767_225_600_000_000, late, rejects, 1.0, "", {"clicks": 1}, (stage,), read))
    lines = table.lines(width)
    assert max(map(len, lines)) <= width
    assert lines[0].split()[-2:] == ["late", "rejected"]
    (source,) = [line for line in lines if "source" in line]
    assert source.split()[-2:] == ["1,234,567", "7,654,321"]
    assert max(map(len, table.lines())) > 80, "without a width nothing is left out"


def test_the_state_of_a_key_fits_two_lines() -> None:
    line = KeyState(0, 3, "a", list(range(10_000)), operator="collect").line
    assert line.startswith("stage 0, key group 3, collect: 10,000 values, [0, 1, 2")
    assert len(line) <= 170


