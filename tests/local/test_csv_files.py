"""Files of CSV that a run reads: what it warns of, and files that differ or grow."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from tracetypes import Dataflow, U, Unit, csv, every, run
from tracetypes.compiler.store import input_files
from tracetypes.errors import RunError
from tracetypes.results import Result


@attrs.frozen
class Note:
    """A row of text."""

    ts: int
    name: str
    note: str | None


def notes(tmp_path: Path, *, format: Any = None, **options: Any) -> tuple[list[tuple[int, str, str | None]], Result]:
    """The rows of all files, by time."""
    flow = Dataflow("notes")
    flow.sink("out", flow.source("in", U[Unit, Note], format=format, markers=every(seconds=10, time=lambda row: row.ts)))
    options = {"backend": "local", "order": {"in": "name"}, "checkpoint": tmp_path / "state", **options}
    result = run(flow, {"in": tmp_path / "in"}, {"out": tmp_path / "out"}, **options)
    lines = [line for path in (tmp_path / "out").glob("part-*") for line in path.read_text().splitlines()]
    return sorted((row["ts"], row["name"], row["note"]) for row in map(json.loads, lines)), result


def put(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_columns_match_by_name_in_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """In splits, too. One warning names an optional column that files lack although earlier ones had it."""
    monkeypatch.setattr(input_files, "SMALLEST", 16)
    put(tmp_path, "1.csv", "ts,name\n0,z\n")
    put(tmp_path, "2.csv", "ts,name,note\n1,a,x\n")
    put(tmp_path, "3.csv", "more,name,ts\n" + "".join(f"long enough,b,{at}\n" for at in range(2, 9)))
    put(tmp_path, "4.csv", "name,ts\nc,9\n")
    put(tmp_path, "5.csv", '\n\n"no\nte",note,name,ts\n,"",d,10\n')
    rows, result = notes(tmp_path)
    assert rows == [(0, "z", None), (1, "a", "x"), *((at, "b", None) for at in range(2, 9)), (9, "c", None), (10, "d", "")]
    assert not result.rejects
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "no column" in line]
    assert "3.csv has no column 'note'" in warning


def test_a_later_file_without_a_required_column_stops_the_run(tmp_path: Path) -> None:
    put(tmp_path, "1.csv", "ts,name,note\n1,a,x\n")
    put(tmp_path, "2.csv", "ts,note\n1,a\n")
    with pytest.raises(RunError, match="no column 'name'") as failed:
        notes(tmp_path)
    assert failed.value.code == "TT203"


@pytest.mark.parametrize("smallest", [8, 1 << 20])
def test_rows_behind_a_line_that_is_no_csv_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, smallest: int
) -> None:
    """However the file is cut."""
    monkeypatch.setattr(input_files, "SMALLEST", smallest)
    put(tmp_path, "1.csv", 'ts,name,note\n1,a,x\n2,"b,x\n3,c,y\n4,"d\ne",z\n5,f,g\n')
    rows, result = notes(tmp_path, parallelism=2)
    assert rows == [(1, "a", "x"), (3, "c", "y"), (4, "d\ne", "z"), (5, "f", "g")]
    assert result.rejects == {"in": 1}
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "1 MiB" in line]
    assert "3 rows lie" in warning


def test_a_cell_that_is_half_written_waits_for_its_end(tmp_path: Path) -> None:
    path = put(tmp_path, "1.csv", 'ts,name,note\n1,a,x\n2,"b\n9,forged,')
    options = {"appended": "read", "drain": False}
    assert notes(tmp_path, **options)[0] == [(1, "a", "x")]
    with path.open("a") as file:
        file.write('row\nc",y\n3,d')
    os.utime(path, (5, 5))
    assert notes(tmp_path, **options)[0] == [(1, "a", "x"), (2, "b\n9,forged,row\nc", "y")]
    with path.open("a") as file:
        file.write(",z\n")
    assert notes(tmp_path, appended="read")[0][2:] == [(3, "d", "z")]


def test_a_cell_that_was_taken_before_its_end_cannot_be_completed(tmp_path: Path) -> None:
    path = put(tmp_path, "1.csv", 'ts,name,note\n1,a,x\n2,"b\n')
    _, result = notes(tmp_path, drain=False)
    assert result.rejects == {"in": 1}
    with path.open("a") as file:
        file.write('c",y\n')
    with pytest.raises(RunError, match="its last line was not whole") as failed:
        notes(tmp_path, appended="read")
    assert failed.value.code == "TT230"


def test_a_file_of_another_encoding(tmp_path: Path) -> None:
    put(tmp_path, "1.csv", 'ts,name,note\n1,"é\n€",x\n'.encode("utf-16"))
    assert notes(tmp_path, format=csv(encoding="utf-16"))[0] == [(1, "é\n€", "x")]
