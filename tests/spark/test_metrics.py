"""What a run tells of itself, and that it stops when too many rows go aside."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.request import urlopen

import attrs
import pytest

from tests.spark.support import Cli, asides, row, write_lines
from tracetypes.compiler.spark.metrics import Batch, StageMetrics, prometheus

ARGUMENTS = ["run", "tests.spark.dags:two_sinks_flow", "--files-per-step", "1"]


def given(path: Path, files: int = 2) -> list[str]:
    for number in range(files):
        rows = [row(id="abc"[n % 3], ts=number * 20 + n, watts=9) for n in range(15)]
        rows += [row(id="late", ts=-40, watts=1), "{"] if number else []
        write_lines(path / f"in/{number}.jsonl", rows, at=number + 1)
    return [*ARGUMENTS, "-i", f"readings={path / 'in'}", "-o", f"sums={path / 's'}", "-o", f"large={path / 'l'}"]


def test_json_lines_of_each_micro_batch(tmp_path: Path, cli: Cli) -> None:
    done = cli(*given(tmp_path), "--metrics", tmp_path / "metrics.jsonl")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {line["query"] for line in lines} == {"Sum", "sums", "large"}
    sums = [line for line in lines if line["query"] == "Sum"]
    assert sum(line["rows"] for line in sums) == 32
    assert [line["late"] for line in sums][-1] == {"readings": 1}
    assert [line["rejects"] for line in sums][-1] == {"readings": 1}
    assert sums[-1]["lag"] == 0.0  # the sources have ended: all is answered
    (stage,) = sums[-1]["stages"]
    assert stage["keys"] == {"Sum": 3}
    assert stage["bytes"] > 0
    assert sum(line["stages"][0]["items"] for line in sums) > 0
    assert sums[-1]["newest"]["readings"] == 34_000_000


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_prometheus() -> None:
    port = free_port()
    told = prometheus("flow", port)
    stage = StageMetrics(0, 7, (("SORT", 0), ("Steps", 3)), 400)
    batch = Batch(0, 10, 2, 20_000_000, {"s": 1}, {"s": 2}, 0.5, "", {"s": 23_500_000}, (stage,))
    told(batch)
    told(attrs.evolve(batch, number=1, marker=None, stages=()))
    with urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        lines = page.read().decode().splitlines()
    assert 'tracetypes_rows_total{flow="flow",query=""} 20.0' in lines
    assert 'tracetypes_late_total{flow="flow",query="",source="s"} 2.0' in lines
    assert 'tracetypes_lag_seconds{flow="flow",query=""} 3.5' in lines
    assert 'tracetypes_state_bytes{flow="flow",query="",stage="0"} 400.0' in lines
    assert 'tracetypes_keys{flow="flow",operator="Steps",query="",stage="0"} 3.0' in lines


def test_TT402_metrics_that_cannot_be_told(tmp_path: Path, cli: Cli) -> None:
    wrong = cli(*given(tmp_path), "--metrics", tmp_path / "none/metrics.jsonl")
    assert (wrong.code, "TT402 --metrics" in wrong.err) == (2, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wrong = cli(*given(tmp_path), "--prometheus", taken.getsockname()[1])
    assert (wrong.code, "TT402 --prometheus" in wrong.err) == (2, True)


@pytest.mark.parametrize(("option", "what"), [("--max-late", "late"), ("--max-rejects", "rejected")])
def test_TT217_too_many_rows_aside(tmp_path: Path, cli: Cli, option: str, what: str) -> None:
    stopped = cli(*given(tmp_path), option, 0)
    assert stopped.code == 1
    assert f"TT217 1 rows were {what} (readings 1), and at most 0 may be" in stopped.err
    assert len(asides(tmp_path / f"s/_{'late' if what == 'late' else 'rejects'}", "readings")) == 1
    done = cli(*given(tmp_path), option, 0)
    assert done.code == 0, done.err
    assert len(asides(tmp_path / "s/_late", "readings")) == len(asides(tmp_path / "s/_rejects", "readings")) == 1


def test_a_bound_that_holds(tmp_path: Path, cli: Cli) -> None:
    assert cli(*given(tmp_path), "--max-late", 1, "--max-rejects", 1).code == 0
    assert cli(*given(tmp_path), "--max-late", -1).code == 2
