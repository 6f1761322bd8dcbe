"""On Spark a run that drains answers what its items determine: windows, sessions and what lies behind them, through channels."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import attrs
import pytest
from pyspark.sql import SparkSession

import tracetypes
from tests.spark.support import write_lines
from tracetypes import Dataflow, Item, Stream, U, check, every, in_band, interpret_rows, merge, sort
from tracetypes.cli import main
from tracetypes.stdlib import count, session, sliding, sum, tumbling


@attrs.frozen
class Visit:
    """A row. ``mark``: it is a marker, where these are in band."""

    page: str
    ts: int
    mark: bool = False


def ts_of(visit: Visit) -> int:
    return visit.ts


def one(visit: Visit) -> int:
    return 1


def shared() -> Dataflow:
    """Two sources that end at different times; a stream of windows that two others read, through a channel."""
    flow = Dataflow("shared")
    early, late = (
        flow.source(name, U[str, Visit], key=lambda visit: visit.page, markers=every(seconds=10, time=ts_of))
        for name in ("early", "late")
    )
    both = merge(early, late)
    minutes = both.through(tumbling(sum(of=one, to=int), panes=6))
    flow.sink("minutes", minutes)
    flow.sink("three", minutes.through(sliding(sum(to=int), panes=18, slide=6)))
    flow.sink("sessions", both.through(sort(by=ts_of)).through(session(count(), gap=45, time=ts_of)))
    return flow


EARLY = [Visit("ab"[at % 2], 7 * at) for at in range(40)]
LATE = [Visit("bc"[at % 2], 500 + 11 * at) for at in range(20)]


def test_every_window_is_answered_through_channels(spark: SparkSession) -> None:
    flow = shared()
    outputs: dict[str, list[object]] = {"minutes": [], "three": [], "sessions": []}
    result = tracetypes.run(flow, inputs={"early": EARLY, "late": LATE}, outputs=outputs, parallelism=2, key_groups=4)
    assert result.drained
    assert not result.open
    traces, _ = interpret_rows(check(flow), {"early": EARLY, "late": LATE})
    for name, rows in outputs.items():
        wanted = [(item.key, item.value) for item in traces[name].items if isinstance(item, Item)]
        assert sorted(map(repr, rows)) == sorted(map(repr, wanted)), name
    assert len(outputs["minutes"]) == len({(visit.page, visit.ts // 60) for visit in EARLY + LATE})


def banded() -> Dataflow:
    """Sessions of a source whose markers are in band."""
    flow = Dataflow("banded")
    markers = in_band(is_marker=lambda visit: visit.mark, time=ts_of)
    visits = flow.source("visits", U[str, Visit], key=lambda visit: visit.page, markers=markers)
    flow.sink("sessions", visits.through(sort(by=ts_of)).through(session(count(), gap=45, time=ts_of)))
    return flow


def test_what_stays_open_in_band_is_counted(spark: SparkSession) -> None:
    rows = [Visit("a", 1), Visit("b", 5), Visit("m", 10, True), Visit("c", 50), Visit("m", 60, True), Visit("d", 61)]
    told: list[object] = []
    result = tracetypes.run(banded(), inputs={"visits": rows}, outputs={"sessions": told})
    assert len(told) == 2
    ((operator, keys),) = result.open.items()
    assert operator.startswith("session (")
    assert keys == 2


def test_what_a_run_leaves_open_without_draining_is_said(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "in" / "1.jsonl", [json.dumps(attrs.asdict(visit)) for visit in EARLY])
    monkeypatch.setattr("tests.spark.test_silence.FLOW", windows(), raising=False)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        places = ["--input", f"visits={tmp_path}/in", "--output", f"sums={tmp_path}/out"]
        status = main(["run", "tests.spark.test_silence:FLOW", *places, "--no-drain", "--key-groups", "2"])
    assert status == 0
    assert "2 keys have open windows in sliding (" in said.getvalue()


def windows() -> Dataflow:
    """One source and windows of a minute."""
    flow = Dataflow("windows")
    visits: Stream[U[str, Visit]] = flow.source(
        "visits", U[str, Visit], key=lambda visit: visit.page, markers=every(seconds=10, time=ts_of)
    )
    flow.sink("sums", visits.through(sliding(count(), panes=6)))
    return flow
