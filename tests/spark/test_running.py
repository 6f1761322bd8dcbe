"""Running from Python: inputs and outputs of all kinds, a run in the background, and what is refused before anything starts."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Literal
from urllib.request import urlopen

import attrs
import pytest
from pyspark.sql import SparkSession

import tracetypes
from tests.spark.support import side_outputs, write_lines
from tracetypes import (
    Dataflow,
    Emit,
    OpKeyedUnordered,
    OpStateless,
    RunError,
    TraceTypesError,
    U,
    Unit,
    UsageError,
    every,
    in_band,
)
from tracetypes.markers import Marker


@attrs.frozen
class Click:
    """A row."""

    user: str
    ts: int
    at: dt.datetime | None = None


@attrs.frozen
class PerUser(OpKeyedUnordered[str, Click, str, int, int, int]):
    """How many clicks so far."""

    def lift(self, key: str, value: Click) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, old: int, agg: int) -> int:
        return old + agg

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Callable[[str, int], None]) -> None:
        emit(key, new_state)


def clicks_of() -> Dataflow:
    """Counts by user, every ten seconds; and the clicks as they are."""
    flow = Dataflow("clicks")
    tens = every(seconds=10, time=lambda value: value.ts)
    clicks = flow.source("clicks", U[str, Click], key=lambda value: value.user, markers=tens)
    flow.sink("counts", clicks.through(PerUser()))
    return flow


ROWS = [Click("ab"[n % 2], n, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)) for n in range(25)]
COUNTS = [("a", 5), ("b", 5), ("a", 10), ("b", 10), ("a", 13), ("b", 12)]


def sorted_blocks(rows: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Rows of a block have no order: pairs of them are sorted."""
    return [row for at in range(0, len(rows), 2) for row in sorted(rows[at : at + 2])]


def test_rows_in_and_rows_out(spark: SparkSession) -> None:
    counts: list[tuple[str, int]] = []
    result = tracetypes.run(clicks_of(), {"clicks": iter([*ROWS, Click("late", 0)])}, {"counts": counts}, parallelism=2)
    assert sorted_blocks(counts) == COUNTS
    assert result.outputs == {"counts": counts}
    assert (result.rows, result.late, result.drained, result.stopped) == (26, {"clicks": 1}, True, False)
    assert [(one.source, '"late"' in one.row) for one in result.late_rows] == [("clicks", True)]
    assert "<td>13</td>" in result._repr_html_()
    assert list(result.spent) == ["plan", "checks", "start of Spark", "start of queries", "micro-batches", "stop"]
    assert all(seconds >= 0 for seconds in result.spent.values())
    assert result.backend == "spark"
    again: list[tuple[str, int]] = []
    tracetypes.run(clicks_of(), {"clicks": ROWS}, {"counts": again}, drain=False)
    assert sorted_blocks(again) == COUNTS[:4], "nothing answers the open block"


def test_paths_are_those_of_the_call(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark stays in the directory in which it started, and a run in the background in that of its call."""
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    Path("in.jsonl").write_text("".join(f'{{"user": "a", "ts": {n}}}\n' for n in range(25)))
    started = tracetypes.start(clicks_of(), {"clicks": "in.jsonl"}, {"counts": "file://out"}, checkpoint="kept", follow=False)
    monkeypatch.chdir(tmp_path)
    assert started.wait(120).rows == 25
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert sorted(path.name for path in Path("there").iterdir()) == ["in.jsonl", "kept", "out"]
    assert len(Path(*Path("there/out").glob("part-*")).read_text().splitlines()) == 3


@pytest.mark.parametrize("given", ["-", "noop:"])
def test_TT402_what_spark_does_not_read(spark: SparkSession, given: str) -> None:
    with pytest.raises(UsageError, match=r"TT402 this backend cannot run clicks:\n +source 'clicks' reads .*, which Spark"):
        tracetypes.run(clicks_of(), {"clicks": given}, {"counts": []})


def test_rows_of_the_program(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts are values. What is no row is refused. A run of which every row was rejected says so."""
    flow = Dataflow("words")
    flow.sink("words", flow.source("words", U[Unit, str], markers=every(seconds=1, time=len)))
    words: list[str] = []
    tracetypes.run(flow, {"words": ["a", '{"value": "b"}']}, {"words": words})
    assert sorted(words) == ["a", '{"value": "b"}']
    with pytest.raises(UsageError, match=r"TT402 source 'clicks': 7 is none of its rows\n.* give .*Click"):
        tracetypes.run(clicks_of(), {"clicks": [7]}, {"counts": words})
    assert "TT241" not in capsys.readouterr().err
    assert tracetypes.run(clicks_of(), {"clicks": [Click("a", "x")]}, {"counts": words}).all_rejected == ["clicks"]  # type: ignore[arg-type]
    assert "TT241 the only row of source 'clicks' was rejected" in capsys.readouterr().err


def test_the_terminal(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are printed, and what went aside is in the result."""
    result = tracetypes.run(clicks_of(), {"clicks": [*ROWS, Click("late", 0)]}, {"counts": "-"})
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted_blocks([(one["key"], one["value"]) for one in printed]) == COUNTS
    assert [one.source for one in result.late_rows] == ["clicks"]


def test_lists_with_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """What went aside lies in the checkpoint too; the next run goes on, and its rows are new ones."""
    counts: list[tuple[str, int]] = []
    for rows, drain in (([*ROWS[:20], Click("late", 0)], False), (ROWS[20:], True)):
        how = {"checkpoint": tmp_path, "parallelism": 2, "drain": drain}
        tracetypes.run(clicks_of(), {"clicks": iter(rows)}, {"counts": counts}, **how)  # type: ignore[arg-type]
    assert sorted_blocks(counts) == COUNTS
    (late,) = side_outputs(tmp_path / "_late", "clicks")
    assert '"late"' in str(late["row"]).replace("'", '"')


def test_files_in_and_files_out(spark: SparkSession, tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", [f'{{"user": "a", "ts": {n}}}' for n in range(12)], at=1)
    out = tmp_path / "out"
    tracetypes.run(clicks_of(), {"clicks": tmp_path / "in"}, {"counts": out})

    @attrs.frozen
    class Count:
        key: str
        value: int

    assert tracetypes.read(out, Count) == [Count("a", 10), Count("a", 12)]
    assert (out / "_checkpoint").is_dir()
    with pytest.raises(RunError, match="TT212"):
        tracetypes.run(clicks_of(), {"clicks": tmp_path / "in"}, {"counts": out})


@attrs.frozen
class Aloud(OpStateless[str, Click, str, Click]):
    """Passes clicks on."""

    def on_item(self, key: str, value: Click, emit: Emit[str, Click]) -> None:
        print("item", value.ts, end=" of\n" if value.ts else "")
        sys.stderr.write(f"user {key}\n")
        emit(key, value)


@attrs.frozen
class PerUserAloud(PerUser):
    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Emit[str, int]) -> None:
        print("é", new_state, end="")
        emit(key, new_state)


def test_the_terminal_and_what_operators_print(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    flow = Dataflow("aloud")
    clicks = flow.source("clicks", U[str, Click], key=lambda value: value.user, markers=every(seconds=10, time=attrgetter("ts")))
    flow.sink("counts", clicks.through(Aloud()).through(PerUserAloud()))
    tracetypes.run(flow, {"clicks": ROWS[:5]}, {"counts": "-"})
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ['{"key": "a", "value": 3}', '{"key": "b", "value": 2}']
    said = ["item 0user a", "item 1 of", "user b", "item 2 of", "user a", "item 3 of", "user b", "item 4 of", "user a"]
    assert sorted(line for line in err.splitlines() if not line.startswith("é")) == sorted(said)
    assert sorted("".join(line for line in err.splitlines() if line.startswith("é")).replace("é", "")) == [" ", " ", "2", "3"]


def shown(address: str) -> str:
    """The first event of a page."""
    with urlopen(address, timeout=60) as events:
        return "".join(itertools.takewhile(str.strip, (line.decode() for line in events)))


@pytest.mark.parametrize("drains", [True, False])
def test_a_run_in_the_background(spark: SparkSession, tmp_path: Path, drains: bool) -> None:
    counts: list[tuple[str, int]] = []
    write_lines(tmp_path / "in" / "a.jsonl", ['{"user": "a", "ts": 1}', '{"user": "a", "ts": 12}'], at=1)
    running = tracetypes.start(
        clicks_of(), {"clicks": tmp_path / "in"}, {"counts": counts}, checkpoint=tmp_path / "checkpoint", page=drains
    )
    wait_for(lambda: running.metrics["rows"] == 2)
    assert (running.page is not None) == drains
    if running.page is not None:
        wait_for(lambda: "2 rows, " in shown(f"{running.page}page/events"))
    write_lines(tmp_path / "in" / "b.jsonl", ['{"user": "a", "ts": 25}'], at=2)
    wait_for(lambda: running.metrics["rows"] == 3)
    assert running.running
    with pytest.raises(TimeoutError):
        running.wait(0.01)
    with pytest.raises(RunError, match="TT221"):
        tracetypes.run(clicks_of(), {"clicks": tmp_path / "in"}, {"counts": []}, checkpoint=tmp_path / "checkpoint")
    result = running.drain() if drains else running.stop()
    assert (result.drained, result.stopped) == (drains, not drains)
    assert counts == [("a", 1), ("a", 2), ("a", 3)][: 3 if drains else 2]
    assert not running.running


def test_a_run_in_the_background_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    running = tracetypes.start(clicks_of(), {"clicks": tmp_path / "none"}, {"counts": []})
    with pytest.raises(RunError, match="none"):
        running.wait(60)


def test_an_interrupt_stops_cleanly(spark: SparkSession, tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", ['{"user": "a", "ts": 1}', '{"user": "a", "ts": 12}'], at=1)
    counts: list[tuple[str, int]] = []

    def interrupt() -> None:
        wait_for(lambda: bool(counts))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = tracetypes.run(clicks_of(), {"clicks": tmp_path / "in"}, {"counts": counts}, follow=True)
    thread.join()
    assert result.stopped
    assert counts == [("a", 1)]


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it holds, for a minute at most."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (lambda f: tracetypes.run(f, {"click": []}, {"counts": []}), "TT402 there is no source 'click'"),
        (lambda f: tracetypes.run(f, {}, {"counts": []}), "TT402 source 'clicks' has no input"),
        (lambda f: tracetypes.run(f, {"clicks": []}, {}), "TT402 sink 'counts' has no output"),
        (lambda f: tracetypes.run(f, {"clicks": []}, {"count": []}), "TT402 there is no sink 'count'"),
        (lambda f: tracetypes.run(f, {"clicks": []}, {"counts": []}, backend="x"), "TT402 there is no backend 'x'"),
        (lambda f: tracetypes.run(f, {"clicks": []}, {"counts": []}, speed=1), "TT402 there is no option 'speed'"),  # type: ignore[call-arg]
        (lambda f: tracetypes.run(f, {"clicks": []}, {"counts": []}, appended="x"), "TT402 appended is 'x'"),  # type: ignore[arg-type]
        (
            lambda f: tracetypes.run(f, {"clicks": "in"}, {"counts": []}, order={"click": "name"}),
            "TT402 --order click=name: there is no source 'click'",
        ),
        (
            lambda f: tracetypes.run(f, {"clicks": "in"}, {"counts": []}, order={"clicks": "size"}),  # type: ignore[dict-item]
            "TT402 --order clicks=size: there is no such order",
        ),
        (
            lambda f: tracetypes.run(f, {"clicks": []}, {"counts": []}, order={"clicks": "time"}),
            "TT402 --order clicks=time: its input is no files of a disk or an object store",
        ),
        (
            lambda f: tracetypes.run(f, {"clicks": "s3a://x/y"}, {"counts": []}, order={"clicks": "name"}),
            "TT402 --order clicks=name: its input is no files of a disk or an object store",
        ),
        (
            lambda f: tracetypes.start(f, {"clicks": "in"}, {"counts": []}, order={"clicks": "name"}),
            "TT402 --order clicks=name: a run with --follow takes files as they come",
        ),
        (lambda f: tracetypes.run(f, {"clicks": []}, {"counts": "noop:"}), "TT402 noop: keeps no checkpoint"),
        (lambda f: tracetypes.run(f, {"clicks": []}, {"counts": "hdfs://x"}), "TT402 --output hdfs://x is not local"),
    ],
)
def test_TT402_what_is_refused(run: Callable[[Dataflow], object], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        run(clicks_of())
    assert str(refused.value).startswith(said)


def test_TT402_rows_without_times_have_no_least_one() -> None:
    flow = Dataflow("banded")
    markers = in_band(is_marker=lambda value: value.ts < 0, time=lambda value: value.ts)
    flow.sink("out", flow.source("in", U[str, Click], key=lambda value: value.user, markers=markers))
    with pytest.raises(UsageError, match="TT402 --order in=time: its markers are in band"):
        tracetypes.run(flow, {"in": "in"}, {"out": []}, order={"in": "time"})


@pytest.mark.parametrize(("order", "late"), [({}, 0), ({"clicks": "time"}, 0), ({"clicks": "modified"}, 18)])
def test_files_that_were_copied_are_read_in_order(
    spark: SparkSession, tmp_path: Path, order: dict[str, Literal["name", "modified", "time"]], late: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Three files in order; the copies have modification times that run backwards."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        path = tmp_path / f"in/part-{9 + number}.jsonl"
        path.write_text("".join(f'{{"user":"a","ts":{number * 9 + n}}}\n' for n in range(9)))
        os.utime(path, (9 - number, 9 - number))
    flow = Dataflow("copied")
    tens = every(seconds=1, time=lambda value: value.ts)
    flow.sink("out", flow.source("clicks", U[str, Click], key=lambda value: value.user, markers=tens))
    rows: list[tuple[str, Click]] = []
    result = tracetypes.run(flow, {"clicks": tmp_path / "in"}, {"out": rows}, order=order)
    err = capsys.readouterr().err
    assert ("TT242 warning: 18 of 27 rows" in err, "--order clicks=time" in err, "delay=26) keeps all" in err) == (late > 0,) * 3
    assert (sum(result.late.values()), len(rows)) == (late, 27 - late)


def test_read_refuses_what_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"user": "a", "ts": 1}\n{"user": 7}\n')
    with pytest.raises(TraceTypesError, match=r"TT208 .*x.jsonl, row 2: "):
        tracetypes.read(tmp_path / "x.jsonl", Click)
    with pytest.raises(TraceTypesError, match="does not exist"):
        tracetypes.read(tmp_path / "y.jsonl", Click)
    (tmp_path / "z.csv").write_text("ts,user\n3,b\n")
    assert tracetypes.read(tmp_path / "z.csv", Click) == [Click("b", 3)]


def test_explain_says_what_the_command_line_says() -> None:
    flow = Dataflow("plain")
    flow.sink("out", flow.source("in", U[Unit, Click], markers=every(seconds=1, time=lambda value: value.ts)))
    assert tracetypes.explain(flow, parallelism=2).startswith("dataflow plain")
