"""What a run tells of itself, and that it stops when too many rows go aside."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import socket
import sys
from pathlib import Path
from urllib.request import urlopen

import attrs
import pytest

from tests.spark import dags
from tests.spark.support import Cli, row, rows_in, side_outputs, write_lines
from tracetypes import check, progress
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.store.metrics import Batch, OperatorMetrics, StageMetrics, prometheus
from tracetypes.compiler.store.metrics_table import Table

ARGUMENTS = ["run", "tests.spark.dags:two_sinks_flow", "--files-per-step", "1"]


def given(path: Path, files: int = 2) -> list[str]:
    for number in range(files):
        rows = [row(id="abc"[n % 3], ts=number * 20 + n, watts=9) for n in range(15)]
        rows += [row(id="late", ts=-40, watts=1), "{"] if number else []
        write_lines(path / f"in/{number}.jsonl", rows, at=number + 1)
    return [*ARGUMENTS, "-i", f"readings={path / 'in'}", "-o", f"sums={path / 's'}", "-o", f"large={path / 'l'}"]


def test_json_lines_of_each_micro_batch(tmp_path: Path, cli: Cli) -> None:
    done = cli(*given(tmp_path), "--metrics", tmp_path / "metrics.jsonl", "--progress", "operators")
    assert done.code == 0, done.err
    last = done.err[done.err.rindex("items") :].splitlines()  # no terminal: a table at the end too
    assert last[0].split() == ["items", "out", "markers", "up", "to", "lag", "keys", "state", "late", "rejected"]
    assert last[2].split()[:3] == ["source", "readings", "32"]
    assert last[2].split()[-2:] == ["1", "1"]
    assert last[3].split()[:5] == ["0", "Sum", "12", "12", "4"]  # combined on the way
    assert " batch " not in done.err.partition("done:")[0]
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {line["query"] for line in lines} == {"Sum", "sums", "large"}
    sums = [line for line in lines if line["query"] == "Sum"]
    assert sum(line["rows"] for line in sums) == 32
    assert [line["late"] for line in sums][-1] == {"readings": 1}
    assert [line["rejects"] for line in sums][-1] == {"readings": 1}
    assert sums[-1]["lag"] == 0.0  # the sources have ended: all is answered
    (stage,) = sums[-1]["stages"]
    (operator,) = stage["operators"]
    assert (operator["operator"], operator["keys"]) == ("Sum", 3)
    assert stage["bytes"] > 0
    assert (stage["marker"], stage["lag"]) == (40_000_000, 0.0)
    stages = [line["stages"][0] for line in sums if line["stages"]]
    assert sum(one["markers"] for one in stages) == sum(line["markers"] for line in sums) == 4
    assert sum(one["items"] for one in stages) == sum(one["operators"][0]["items"] for one in stages) == 12
    emitted = sum(one["emitted"] for one in stages)
    assert (
        emitted == sum(one["operators"][0]["emitted"] for one in stages) == sum(line["written"] for line in sums) == 12
    )
    assert {name: sum(line["read"].get(name, 0) for line in sums) for name in ("readings",)} == {"readings": 32}
    assert sums[-1]["newest"]["readings"] == 34_000_000
    large = [line for line in lines if line["query"] == "large"]
    assert large[-1]["newest"] == {"readings": 34_000_000}  # of the query that it reads from
    assert sum(line["written"] for line in large) == len(rows_in(tmp_path / "l", "at"))


def test_a_table_of_what_was_done() -> None:
    compiled = program(check(dags.diamond()), key_groups=2)
    table = Table(compiled)
    none: dict[str, int] = {}
    sums = StageMetrics(0, 40, 30, 2, 20_000_000, 12_345, (OperatorMetrics("Sum", 40, 30, 7),))
    straight = StageMetrics(0, 0, 0, 3, 30_000_000, 254, ())
    closes = StageMetrics(1, 9, 8, 1, 10_000_000, 999, ())
    newest = {"readings": 35_500_000}
    rejects = {"readings": 2}
    table.add(Batch(0, 50, 3, 30_000_000, none, rejects, 0.5, "Opaque", newest, (straight,), {"readings": 50}, 48))
    for number in range(2):
        table.add(Batch(number, 0, 2, 20_000_000, none, none, 1.25, "Sum", newest, (sums,), none, 30))
    table.add(Batch(0, 0, 1, 10_000_000, none, none, 2.0, "both", newest, (closes,), none, 8))
    assert table.lines() == TABLE.strip("\n").splitlines()


TABLE = """
                                  items  out  markers                        up to     lag  keys    state  late  rejected
Opaque: 1 micro-batch, 0.5 s the last
  source readings                    50                1970-01-01 00:00:35.500000Z                            0         2
  0 closes blocks                                   3         1970-01-01 00:00:30Z   5.5 s          254 B
  channel Opaque                          48        3         1970-01-01 00:00:30Z   5.5 s
Sum: 2 micro-batches, 1.2 s the last
  0 Sum of channel Opaque            80   60        4         1970-01-01 00:00:20Z  15.5 s     7  12.3 kB
  channel Sum                             60        4         1970-01-01 00:00:20Z  15.5 s
left: 0 micro-batches
  0 closes blocks of channel Sum
  sink left                                0        0
both: 1 micro-batch, 2.0 s the last
  0 sort of channel Opaque
  0 Steps
  1 closes blocks of channel Sum      9    8        1         1970-01-01 00:00:10Z  25.5 s          999 B
  sink both                                8        1         1970-01-01 00:00:10Z  25.5 s
"""


class Screen(io.StringIO):
    """What a terminal shows, of which a program only goes up and wipes to the end."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        shown = [""]
        for part in re.split("(\x1b\\[\\d+F\x1b\\[J|\n)", self.getvalue()):
            if part == "\n":
                shown.append("")
            elif part.startswith("\x1b"):
                up = int(part[2 : part.index("F")])
                assert len(shown) > up
                shown[-1 - up :] = [""]
            else:
                shown[-1] += part
        return shown[:-1]


def test_a_terminal_has_lines_that_stay_above_a_table_and_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 6)))
    say = progress.Progress(quiet=False)
    say.status("starting")
    assert screen.lines == ["starting ..."]
    say.line("goes on")
    say.status("running")
    assert screen.lines == ["goes on", "running ..."]
    say.table(["one", "two"])
    say.table(["one", "more " * 9, "three"])
    assert screen.lines == ["goes on", "one", "more more more more", "three", "running ..."]
    say.line("noted")
    say.table([str(number) for number in range(9)])
    assert screen.lines == ["goes on", "noted", "0", "1", "2", "3", "running ..."]
    say.end()
    say.line("done")
    assert screen.lines == ["goes on", "noted", "0", "1", "2", "3", "done"]


@pytest.mark.parametrize("how", ["quiet", "dumb"])
def test_no_terminal_is_told_where_to_go(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "dumb" if how == "dumb" else "xterm")
    say = progress.Progress(quiet=how == "quiet")
    say.status("starting")
    for text in "abc":
        say.table([text])
    say.end()
    say.line("done")
    # At once, and at the end; between them a table every few seconds.
    assert screen.getvalue() == ("" if how == "quiet" else "a\nc\ndone\n")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_prometheus() -> None:
    port = free_port()
    told = prometheus("flow", port)
    steps = (OperatorMetrics("sort", 7, 7, 0), OperatorMetrics("Steps", 7, 5, 3))
    stage = StageMetrics(0, 7, 5, 2, 20_000_000, 400, steps)
    batch = Batch(0, 10, 2, 20_000_000, {"s": 1}, {"s": 2}, 0.5, "", {"s": 23_500_000}, (stage,), {"s": 10}, 5)
    told(batch)
    told(attrs.evolve(batch, number=1, marker=None, stages=()))
    with urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        lines = page.read().decode().splitlines()
    assert 'tracetypes_rows_total{flow="flow",query=""} 20.0' in lines
    assert 'tracetypes_late_total{flow="flow",query="",source="s"} 2.0' in lines
    assert 'tracetypes_lag_seconds{flow="flow",query=""} 3.5' in lines
    assert 'tracetypes_state_bytes{flow="flow",query="",stage="0"} 400.0' in lines
    assert 'tracetypes_keys{flow="flow",operator="Steps",query="",stage="0"} 3.0' in lines
    assert 'tracetypes_emitted_total{flow="flow",operator="Steps",query="",stage="0"} 5.0' in lines
    assert 'tracetypes_items_total{flow="flow",operator="sort",query="",stage="0"} 7.0' in lines
    assert 'tracetypes_rejects_total{flow="flow",query="",source="s"} 4.0' in lines
    assert 'tracetypes_stage_markers_total{flow="flow",query="",stage="0"} 2.0' in lines
    assert 'tracetypes_stage_lag_seconds{flow="flow",query="",stage="0"} 3.5' in lines
    assert 'tracetypes_read_total{flow="flow",query="",source="s"} 20.0' in lines
    assert 'tracetypes_newest_seconds{flow="flow",query="",source="s"} 23.5' in lines
    assert 'tracetypes_written_total{flow="flow",query=""} 10.0' in lines


def test_TT402_metrics_that_cannot_be_told(tmp_path: Path, cli: Cli) -> None:
    wrong = cli(*given(tmp_path), "--metrics", tmp_path / "none/metrics.jsonl")
    assert (wrong.code, "TT402 --metrics" in wrong.err) == (2, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wrong = cli(*given(tmp_path), "--prometheus", taken.getsockname()[1])
    assert (wrong.code, "TT402 --prometheus" in wrong.err) == (2, True)


@pytest.mark.repeated
@pytest.mark.parametrize(("option", "what"), [("--max-late", "late"), ("--max-rejects", "rejected")])
def test_TT217_too_many_rows_aside(tmp_path: Path, cli: Cli, option: str, what: str) -> None:
    stopped = cli(*given(tmp_path), option, 0)
    assert stopped.code == 1
    assert f"TT217 1 row was {what} (readings 1), and at most 0 may be" in stopped.err
    assert len(side_outputs(tmp_path / f"s/_{'late' if what == 'late' else 'rejects'}", "readings")) == 1
    done = cli(*given(tmp_path), option, 0)
    assert done.code == 0, done.err
    assert len(side_outputs(tmp_path / "s/_late", "readings")) == len(side_outputs(tmp_path / "s/_rejects", "readings")) == 1


def test_TT217_a_part_of_the_rows(tmp_path: Path, cli: Cli) -> None:
    stopped = cli(*given(tmp_path), "--max-late", "0.001")
    assert (stopped.code, "TT217 1 of " in stopped.err) == (1, True)
    for wrong in ("1.5", "-0.1", "x"):
        assert cli(*given(tmp_path), "--max-late", wrong).code == 2


def test_a_bound_that_holds(tmp_path: Path, cli: Cli) -> None:
    done = cli(*given(tmp_path), "--max-late", 1, "--max-rejects", 1, "--progress", "none")
    assert done.code == 0
    assert re.search(r"\nseconds: start of Python [\d.]+, plan 0\.", done.err)
    assert " batch " not in done.err.partition("done:")[0]
    assert cli(*given(tmp_path), "--max-late", -1).code == 2
