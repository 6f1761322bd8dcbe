"""A run that follows closes the last windows by the clock, also if it is killed while it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.local.test_fork_server import until
from tracetypes.compiler.local.log import LocalLog

FLOW = """
import os, sys
from pathlib import Path
import attrs
import tracetypes
from tracetypes import Dataflow, U, every
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.stdlib import count, filter, tumbling

@attrs.frozen
class Reading:
    device: str
    ts: float

def is_kept(key: str, value: Reading) -> bool:
    return value.ts != 1.0

home, kills = Path(sys.argv[1]), sys.argv[2] == "kill"
commit = RunStore.commit
def committing(self, number, record):
    if kills and record["markers"] and not record["rows"]:  # the clock has closed a block
        os.kill(os.getpid(), 9)
    commit(self, number, record)
RunStore.commit = committing

options = {"per": lambda r: r.device} if sys.argv[3] == "per" else {}
marks = every(seconds=0.1, time=lambda r: r.ts, delay=0.05, closes_after=0.2, **options)
flow = Dataflow("readings")
rows = flow.source("rows", U[str, Reading], key=lambda r: r.device, markers=marks)
flow.sink("out", rows.through(filter(is_kept) if sys.argv[3] == "straight" else tumbling(count(), size=0.1)), marker="end")
print(tracetypes.run(
    flow, {"rows": str(home / "in")}, {"out": str(home / "out")}, checkpoint=str(home / "ck"), backend="local", follow=True,
    late=str(home / "late"),
))
"""


class Following:
    """A run that follows a directory, and is killed at times."""

    def __init__(self, home: Path, kind: str) -> None:
        self.home, self.kind = home, kind
        (home / "in").mkdir()
        (home / "flow.py").write_text(FLOW)

    def add(self, name: str, *times: float) -> None:
        lines = [json.dumps({"device": "a", "ts": time}) + "\n" for time in times]
        (self.home / name).write_text("".join(lines))
        (self.home / name).rename(self.home / "in" / f"{name}.jsonl")

    @contextmanager
    def start(self, *, kills: bool = False) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, str(self.home / "flow.py"), str(self.home), "kill" if kills else "live", self.kind]
        with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.getcwd()}) as process:
            try:
                yield process
            finally:
                process.kill()

    def rows(self, where: str = "out") -> Sequence[dict[str, Any]]:
        files = sorted((self.home / where).glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def markers(self) -> int:
        records = sorted((self.home / "ck" / "commits").glob("[0-9]*.json"))
        return sum(json.loads(record.read_text())["markers"] for record in records)

    def late(self) -> int:
        records = sorted((self.home / "ck" / "commits").glob("[0-9]*.json"))
        return sum(sum(json.loads(record.read_text())["late"].values()) for record in records)


@pytest.mark.parametrize("kind", ["windows", "straight", "per"])
def test_the_last_window_closes_also_after_a_kill(tmp_path: Path, kind: str) -> None:
    one = Following(tmp_path, kind)
    one.add("a", 100.01, 100.07)
    with one.start(kills=True) as killed:
        assert killed.wait(120) == -9
    log = LocalLog(tmp_path / "ck")
    number = log.begun
    takes = log.takes(number)
    log.close()
    assert takes is not None
    assert takes.elapsed["rows"] >= 100_270_000
    with one.start():
        until(lambda: bool(one.rows()) and one.markers() > 0)
        if kind != "straight":  # rows of the epoch were visible: it has the same decision
            again = LocalLog(tmp_path / "ck")
            assert again.takes(number) == takes
            again.close()
        one.add("b", 100.03, 500.02)
        until(lambda: one.late() == 1)  # by what the clock has closed
        until(lambda: len(one.rows()) == (3 if kind == "straight" else 2))
    ends = [row["end"][14:] for row in one.rows()]
    first = ["01:40.100000Z"] * (2 if kind == "straight" else 1)
    assert ends == [*first, "08:20.100000Z"]
