"""``tracetypes run --shadow``: what gates save and cost, behind a run on the command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_cli import run, write

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

GATED = """
import attrs
from tracetypes import Dataflow, U, every
from tracetypes.gates import {names}


@attrs.frozen
class Row:
    ts: int
    level: float


flow = Dataflow("gated")
rows = flow.source("rows", U[int, Row], key=lambda one: one.ts % 3, markers=every(seconds=10, time=lambda one: one.ts))
flow.sink("out", rows.latest({bound}, latest_by=lambda one: one.ts, name="slow"))
"""

ROWS = "".join(f'{{"ts": {ts}, "level": {ts % 7}.5}}\n' for ts in range(100))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a program and its rows. The program is forgotten afterwards; libraries load once in a process."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "gated.py", GATED.format(names="sequence", bound="sequence(25)"))
    write(tmp_path / "rows.jsonl", ROWS)
    yield tmp_path
    for name in ("gated", "other"):
        sys.modules.pop(name, None)


def ran(
    capsys: pytest.CaptureFixture[str], *more: str, target: str = "gated.py", rows: str = "rows.jsonl"
) -> tuple[int, str, str]:
    return run(capsys, "run", target, "--backend", "local", "--input", f"rows={rows}", *more)


def test_the_table_is_printed_behind_the_summary(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "--output", "out=out", "--shadow")
    assert code == 0
    assert out.splitlines()[0].split() == ["ungated", "markers", "executions", "saved", "mean", "error", "largest"]
    assert out.splitlines()[1].split()[:6] == ["slow", "10", "10", "4", "60.0", "%"]
    assert "done: 100 rows" in err
    assert not list(home.glob("*shadow*"))


def test_rows_on_standard_output_stay_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "--output", "out=-", "--shadow", "shadow.json", "--quiet")
    assert code == 0
    assert len([json.loads(line) for line in out.splitlines()]) == 12
    assert err.splitlines()[1].split()[0] == "slow"
    slow, sink = json.loads((home / "shadow.json").read_text())["reports"]
    assert (slow["executions"], sink["executions"]) == (4, 4)
    assert len(slow["errors"]) == 10


def test_a_directory_gets_pictures(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    code, _, err = ran(capsys, "--output", "out=out", "--shadow", "out/_shadow/")
    assert code == 0
    assert {path.name for path in (home / "out" / "_shadow").iterdir()} == {"shadow.json", "errors.png", "executions.png"}
    assert "shadow: out/_shadow/errors.png" in err


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("table.txt", "TT402", "neither *.json nor a directory"),
        ("rows.jsonl/", "TT402", "cannot be written"),
        ("rows.jsonl/a.json", "TT402", "cannot be written"),
        ("/proc/new/", "TT402", "cannot be written"),
        ("out/a.json", "TT222", "is an output of the run"),
        ("out/", "TT222", "write it elsewhere"),
        ("out/_checkpoint/a.json", "TT222", "is the checkpoint of the run"),
        ("in/a.json", "TT222", "one lies in the other"),
    ],
)
def test_places_that_are_refused_before_the_run(
    home: Path, capsys: pytest.CaptureFixture[str], path: str, code: str, said: str
) -> None:
    write(home / "in" / "rows.jsonl", ROWS)
    if path.endswith("/"):
        pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    status, out, err = ran(capsys, "--output", "out=out", "--shadow", path, rows="in")
    assert (status, out) == (2, "")
    assert err.startswith(f"tracetypes: {code} ")
    assert said in err
    assert "fix:" in err
    assert not (home / "out" / "_checkpoint").exists()


def test_pictures_are_refused_before_the_run_without_matplotlib(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib.axes", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "tracetypes.compiler.gates.figures", raising=False)
    status, out, err = ran(capsys, "--output", "out=out", "--shadow", f"figures{os.sep}")
    assert (status, out) == (2, "")
    assert "TT401 pictures need matplotlib" in err
    assert "pip install 'tracetypes[plots]'" in err
    assert not (home / "out").exists()


@pytest.mark.parametrize(
    ("names", "bound", "said"),
    [
        ("sequence", None, "TT121 the dataflow has no gate"),
        ("adaptive, sequence", "adaptive(sequence(2), sequence(9), frame=10)", "looks at the load of the machine"),
    ],
)
def test_flows_that_are_refused(
    home: Path, capsys: pytest.CaptureFixture[str], names: str, bound: str | None, said: str
) -> None:
    text = GATED.format(names=names, bound=bound)
    write(home / "other.py", text if bound else text.replace('.latest(None, latest_by=lambda one: one.ts, name="slow")', ""))
    status, out, err = ran(capsys, "--output", "out=out", "--shadow", target="other.py")
    assert (status, out) == (2, "")
    assert said in err
    assert not (home / "out").exists()


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        ("kafka://nobody:9092/topic", (), "source 'rows' reads kafka://nobody:9092/topic"),
        ("-", (), "source 'rows' reads -"),
        ("rows.jsonl", ("--follow",), "--follow has no end"),
    ],
)
def test_inputs_without_an_end_are_refused(
    home: Path, capsys: pytest.CaptureFixture[str], rows: str, more: tuple[str, ...], said: str
) -> None:
    status, out, err = ran(capsys, "--output", "out=out", "--shadow", *more, rows=rows)
    assert (status, out) == (2, "")
    assert "tracetypes: TT402" in err
    assert said in err
    assert "fix:" in err


def test_a_file_that_is_missing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ran(capsys, "--output", "out=out", "--shadow", rows="rwos.jsonl")
    assert (status, out) == (1, "")
    assert "TT208" in err
