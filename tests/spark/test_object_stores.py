"""Objects of a store on Spark: its Python workers read them, in a process whose environment has the credentials."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.store_server import SECRET, Server, bucket_of
from tests.test_object_stores import ROWS, as_json, as_parquet

FLOW = """
import attrs

from tracetypes import Dataflow, U, Unit, every


@attrs.frozen
class Click:
    ts: int
    page: str
    day: str | None = None


flow = Dataflow("clicks")
for name in ("lines", "columns"):
    rows = flow.source(name, U[Unit, Click], markers=every(seconds=10, time=lambda click: click.ts))
    flow.sink(name, rows)
"""


@pytest.fixture
def server(object_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    return bucket_of(object_server, monkeypatch)


def rows_in(place: Path) -> list[Any]:
    files = [one for one in sorted(place.rglob("part-*")) if "_tracetypes" not in one.parts]
    return sorted((json.loads(line) for one in files for line in one.read_text().splitlines()), key=repr)


def test_lines_and_columns_from_a_store(server: Server, tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    for at in range(4):
        server.put(f"lines/day={at}/a.jsonl", as_json(ROWS[at * 25 : at * 25 + 25]))
        server.put(f"columns/day={at}/a.parquet", as_parquet(ROWS[at * 25 : at * 25 + 25]))
    command = [sys.executable, "-m", "tracetypes", "run", "flow.py", "--backend", "spark", "--parallelism", "2"]
    command += ["--input", f"lines={server.address('lines')}", "--input", f"columns={server.address('columns')}"]
    command += ["--output", "lines=lines", "--output", "columns=columns"]
    ran = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.getcwd()}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    expected = sorted(({"ts": one.ts, "page": one.page, "day": str(one.ts // 25)} for one in ROWS), key=repr)
    assert rows_in(tmp_path / "lines") == rows_in(tmp_path / "columns") == expected
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()
