"""A run on Spark that follows closes the last windows by the clock, and goes on with what was decided."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tracetypes
from tests.test_clocks import Reading
from tracetypes import Dataflow, RunError, U, UsageError, check, every
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.spark.clock_files import ClockFiles
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.store.compatibility import claim
from tracetypes.compiler.store.places import on_disk
from tracetypes.stdlib import count, tumbling

pytestmark = pytest.mark.spark


def flow_of(marker: str = "end", **options: Any) -> Dataflow:
    flow = Dataflow("closing")
    marks = every(seconds=1, time=lambda r: r.ts, **options)
    rows = flow.source("readings", U[str, Reading], key=lambda r: r.device, markers=marks)
    flow.sink("out", rows.through(tumbling(count(), size=1)), marker=marker)
    return flow


def add(folder: Path, name: str, *times: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text("".join(json.dumps({"device": "a", "ts": time}) + "\n" for time in times))
    (folder / f".{name}").rename(folder / f"{name}.jsonl")


def ends(out: Path) -> list[str]:
    return [json.loads(line)["end"][14:19] for file in sorted(out.glob("*.jsonl")) for line in file.read_text().splitlines()]


def test_the_last_window_closes_and_a_late_row_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    inputs, out = tmp_path / "in", tmp_path / "out"
    options: Any = {"backend": "spark", "checkpoint": str(tmp_path / "ck")}
    places: Any = {"readings": str(inputs)}, {"out": str(out)}

    def follow(*expected: str, late: int) -> None:
        run = tracetypes.start(flow_of(closes_after=0.3), *places, **options)
        until = time.monotonic() + 300
        while run.running and ends(out) != list(expected):
            assert time.monotonic() < until, (ends(out), run.metrics)
            time.sleep(0.02)
        assert sum(run.stop().late.values()) == late

    add(inputs, "a", 100)
    follow("01:41", late=0)
    add(inputs, "b", 100, 200)
    follow("01:41", "03:21", late=1)


@pytest.mark.parametrize("answered", [False, True])
def test_what_spark_cannot_change_is_refused_for_good(tmp_path: Path, answered: bool) -> None:
    """Also where a run stopped between the answer of a micro-batch and Spark's record of it: then other changes are refused
    for one run only."""

    def plan_of(marker: str, **options: Any) -> Plan:
        return program(check(flow_of(marker, **options)), key_groups=2).plans[0]

    claim(tmp_path, plan_of("end", closes_after=0.3), SparkLog).write()
    for log, numbers in (("offsets", "01"), ("commits", "0")):
        (tmp_path / "spark" / log).mkdir(parents=True)
        for number in numbers:
            (tmp_path / "spark" / log / number).touch()
    if answered:
        (tmp_path / "commits").mkdir()
        (tmp_path / "commits/00000001.json").touch()
        with pytest.raises(RunError, match=r"TT211 .* with a changed graph yet: .* has answered micro-batch 1"):
            claim(tmp_path, plan_of("until", closes_after=0.3), SparkLog)
    else:
        claim(tmp_path, plan_of("until", closes_after=0.3), SparkLog)
    for marker in ("end", "until"):
        with pytest.raises(UsageError, match=r"^TT402 the run in .* began with closes_after= of source readings, and Spark"):
            claim(tmp_path, plan_of(marker), SparkLog)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[data.index(b"elapsed") + 11] ^= 1
    file.write_bytes(data)


def renamed(file: Path) -> None:
    file.rename(file.with_name("00000007"))


@pytest.mark.parametrize("damage", [emptied, flipped, renamed, Path.unlink, lambda file: shutil.rmtree(file.parent)])
def test_TT225_what_a_clock_has_decided(tmp_path: Path, damage: Any) -> None:
    log, files = SparkLog(tmp_path), ClockFiles(tmp_path / "clock", "a")
    files.begin(log)
    for moment in (5, 6):
        files.add([f's\t{{"elapsed": {moment}00000}}'])
    newest = files.files[-1]
    (tmp_path / "spark/offsets").mkdir(parents=True)
    (tmp_path / "spark/offsets/0").touch()
    (tmp_path / "spark/sources/2").mkdir(parents=True)
    listed = {"path": on_disk(newest.absolute()).as_uri(), "timestamp": 0, "batchId": 0}
    (tmp_path / "spark/sources/2/0").write_text(f"v1\n{json.dumps(listed)}\n")
    files.begin(log)
    with pytest.raises(RunError, match=r"^TT227 .* it is of run a, and this is run b"):
        ClockFiles(tmp_path / "clock", "b").begin(log)
    damage(newest)
    with pytest.raises(RunError, match=r"^TT225 .*clock.* is not what the run wrote there"):
        files.begin(log)
