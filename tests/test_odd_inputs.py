"""Inputs that look wrong: each has a clear result."""

from __future__ import annotations

import bz2
import datetime as dt
import json
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tracetypes
from tests.test_lateness import watched
from tracetypes import Dataflow, RunError, U, Unit, every, in_band, kafka
from tracetypes import stdlib as ts
from tracetypes.check import check
from tracetypes.compiler.backend import first_rows
from tracetypes.compiler.backend.summary import Summary
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.side_rows import rejected_rows
from tracetypes.compiler.store.metrics import Batch
from tracetypes.markers import BEYOND, InBand, Marker
from tracetypes.nodes import Source
from tracetypes.sources import reader, record_reader


@attrs.frozen
class Click:
    ts: int


@attrs.frozen
class Day:
    at: dt.datetime


def outcome(cls: Any, rows: Any, *then: Any, **settings: Any) -> tuple[list[Any], Any]:
    time = (lambda r: r.at) if cls is Day else (lambda r: r.ts)
    flow = Dataflow("odd")
    stream: Any = flow.source("rows", U[Unit, cls], markers=every(seconds=10, time=time))
    for op in then:
        stream = stream.through(op)
    flow.sink("out", stream)
    out: list[Any] = []
    return out, tracetypes.run(flow, {"rows": rows}, {"out": out}, backend="local", **settings)


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.bz2", "e.jsonl.gz", "e.jsonl.zst", "e.csv.bz2", "e.csv"])
def test_a_file_of_no_bytes_has_no_rows(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert outcome(Click, str(tmp_path / name))[0] == []
    ending = ".csv" if ".csv" in name else ".jsonl"
    (tmp_path / f"rows{ending}").write_text("ts\n1\n" if ending == ".csv" else '{"ts": 1}\n')
    assert outcome(Click, str(tmp_path))[0] == [Click(1)]


def test_TT208_a_compressed_file_that_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl.bz2").write_bytes(bz2.compress(b'{"ts": 1}\n')[:-4])
    with pytest.raises(RunError, match="TT208"):
        outcome(Click, str(tmp_path))


@pytest.mark.parametrize("name", ["a:b.jsonl", "2024-01-01T10:00:00/x.jsonl", ":.jsonl"])
def test_a_colon_in_a_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / "in" / name
    file.parent.mkdir(parents=True)
    file.write_text('{"ts": 1}\n')
    assert outcome(Click, str(file))[0] == outcome(Click, str(tmp_path / "in"))[0] == [Click(1)]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_array_gets_an_advice(tmp_path: Path, indent: int | None) -> None:
    (tmp_path / "in.json").write_text(json.dumps([{"ts": 1}, {"ts": 2}], indent=indent))
    rows, result = outcome(Click, str(tmp_path / "in.json"))
    assert rows == []
    assert "this looks like a JSON array: write each of its objects on a line of its own" in result.rejected_rows[0].reason


def test_other_lines_get_no_advice_on_arrays() -> None:
    _, result = outcome(Click, iter([{"ts": "1,"}]))
    assert "array" not in result.rejected_rows[0].reason


MILLIS = 1_700_000_000_000


def test_TT226_a_new_run_whose_first_times_have_another_unit(tmp_path: Path) -> None:
    """It stops before it commits anything, whatever the files are. The same rows with the unit are read."""
    for number in range(2):
        lines = (json.dumps({"ts": MILLIS + at}) for at in range(50 + number))
        (tmp_path / f"{number}.jsonl").write_text("\n".join(lines))
    with pytest.raises(RunError, match=r'TT226 source .rows.: all of the first 10[01] rows .* declare unit="ms"') as caught:
        outcome(Click, str(tmp_path), files_per_step=1)
    assert 'every(..., unit="ms")' in caught.value.fix


@pytest.mark.parametrize("name", ["in.jsonl", "in.csv", "in.parquet"])
def test_TT226_other_rows_behind_the_first_100_do_not_let_the_run_go_on(tmp_path: Path, name: str) -> None:
    def written(wild: int) -> str:
        times = [*(MILLIS + at for at in range(wild)), *range(1000)]
        if name == "in.parquet":
            pq.write_table(pa.table({"ts": times}), tmp_path / name)
        else:
            lines = (json.dumps({"ts": time}) for time in times) if name == "in.jsonl" else ("ts", *map(str, times))
            (tmp_path / name).write_text("\n".join(lines))
        return str(tmp_path / name)

    assert len(outcome(Click, written(99))[0]) == 1000
    with pytest.raises(RunError, match=r"TT226 source .rows.: all of the first 100 rows .* 1700000000000"):
        outcome(Click, written(100))


@pytest.mark.parametrize("others", [[{"ts": 1}], [{"ts": "x"}]])
def test_other_rows_among_the_first_let_the_run_go_on(others: list[Any]) -> None:
    rows, result = outcome(Click, [*others, *[{"ts": MILLIS + at} for at in range(120)]])
    assert len(rows) + len(result.rejected_rows) == 121
    assert outcome(Click, [{"ts": MILLIS + at} for at in range(99)])[0] == []


def test_many_rejects_that_lie_in_files_are_looked_at_too(tmp_path: Path) -> None:
    lines = [json.dumps({"ts": MILLIS + at}) for at in range(10_000)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    flow = Dataflow("odd")
    flow.sink("out", flow.source("rows", U[Unit, Click], markers=every(seconds=10, time=lambda r: r.ts)))
    with pytest.raises(RunError, match="TT226"):
        tracetypes.run(flow, {"rows": str(tmp_path / "in.jsonl")}, {"out": str(tmp_path / "out")}, backend="local")
    assert not list((tmp_path / "out").glob("part-*"))


def test_first_rows_are_counted_over_epochs() -> None:
    """Until a row has a time, or is a reject for another reason."""
    flow = Dataflow("odd")
    flow.sink("out", flow.source("rows", U[Unit, Click], markers=every(seconds=10, time=lambda r: r.ts)))
    planned = plan(check(flow))

    def epoch(before: dict[str, Any], count: int, timed: tuple[str, ...] = (), reason: str = f"time: it {BEYOND}") -> Any:
        messages = [rejected_rows("rows", 0, (0, 0, 0), [("{}", reason)] * count)] if count else []
        return first_rows.wild_rows(planned, messages, Path(), {"wild": before}, timed)

    assert epoch({}, 60) == {"rows": 60}
    assert epoch({"rows": 60}, 0) == {"rows": 60}
    with pytest.raises(RunError, match="TT226"):
        epoch({"rows": 60}, 40)
    assert epoch({"rows": 60}, 40, reason="value: x") == {"rows": 0}
    assert epoch({"rows": 0}, 400) == {"rows": 0}
    assert epoch({"rows": 60}, 400, timed=("rows",)) == {}


LAST = dt.datetime(9999, 12, 31, 23, 59, 45, tzinfo=dt.UTC)
FIRST = dt.datetime(1, 1, 1, 0, 0, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize("day", [FIRST, LAST])
@pytest.mark.parametrize(
    "window",
    [
        ts.tumbling(ts.count(), size=60, ends=True),
        ts.tumbling(ts.count(), size=60, offset=20, ends=True),
        ts.sliding(ts.count(), size=60, slide=10, ends=True),
    ],
)
def test_windows_at_the_ends_of_time(day: dt.datetime, window: Any) -> None:
    """They may begin or end beyond it; nobody is to blame."""
    rows, _ = outcome(Day, [Day(day)], window)
    assert rows
    assert all(row.value == 1 and row.start <= day < row.end for row in rows)


def test_times_of_markers_and_heartbeats_lie_in_the_years_of_markers() -> None:
    flow = Dataflow("odd")
    flow.sink("out", flow.source("rows", U[Unit, Click], markers=in_band(is_marker=lambda r: True, time=lambda r: r.ts)))
    flow.sink("more", flow.source("beats", U[Unit, Click], markers=every(seconds=1, time=lambda r: r.ts), format=kafka()))
    checked = check(flow)
    marked, beating = (node for node in checked.graph.nodes if isinstance(node, Source))
    assert isinstance(marked.markers, InBand)
    read = reader(marked).read
    assert read(None, Click(5)).time == 5_000_000
    assert read(None, Click(MILLIS)).reason.endswith(f'{BEYOND}; declare unit="ms" if these are milliseconds')
    read_record = record_reader(beating, checked.layout(beating))
    header = kafka().marker
    assert read_record(None, None, [(header, b"253402300799")]).kind == "marker"
    for time in (b"253402300800", b"1700000000000", b"-62135596801"):
        row = read_record(None, None, [(header, time)])
        assert row.kind == "reject"
        assert BEYOND in row.reason
    assert Marker(253402300799_000_000).datetime.year == 9999


def test_a_warning_of_times_ahead_of_the_clock() -> None:
    said: list[str] = []
    watch = watched({}, said)
    (source,) = watch.markers
    year = 366 * 86_400_000_000
    for newest in (0, watch.clock() + year // 2, watch.clock() + 2 * year, watch.clock() + 3 * year):
        watch.look(Summary(), Batch(0, 1, 0, None, {}, {}, 0.0, "", {source: newest}))
    assert [one.split("has a row")[0] for one in said] == [f"TT226 warning: source {source!r} "]
