"""What is wrong with the input, the operators or the directories is said by name, and nothing is lost silently."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark import flows
from tests.spark.flows import here
from tests.spark.support import Cli, defined, often, row, rows_at_sink, rows_in, side_outputs, write_lines
from tracetypes import Dataflow, OperatorFailed, U, Unit, check, merge
from tracetypes.compiler.connectors import disk
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.local.backend import LocalEngine
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.backend import SparkEngine
from tracetypes.compiler.spark.run import collect, run
from tracetypes.compiler.store import input_files
from tracetypes.compiler.store.outputs import open_output
from tracetypes.formats import Csv

GOOD = [row(id=i, ts=ts, watts=w) for i, ts, w in (("a", 1, 5), ("b", 2, 7), ("a", 11, 1), ("b", 25, 2), ("a", 3, 9))]
IN_TIME = GOOD[:4]


def reading(id: str, ts: int, watts: int = 1) -> str:
    return row(id=id, ts=ts, watts=watts)


# ------------------------------------------------------------------------------- before anything is computed


@pytest.mark.parametrize(
    ("files", "target", "path", "said"),
    [
        (
            {},
            "sums",
            "none.jsonl",
            ("TT208", "source 'readings'", "none.jsonl does not exist", "--input readings=PATH"),
        ),
        (
            {"in.csv": "id,time,watts\n"},
            "sums",
            "in.csv",
            ("TT203", "in.csv has no column 'ts'", "'id', 'time', 'watts'"),
        ),
        ({"in.csv": "\n\nid,time,watts\n"}, "sums", "in.csv", ("TT203", "no column 'ts'", "'id', 'time', 'watts'")),
        ({"in.csv": "a,1,2\n"}, "short", "in.csv", ("TT203", "columns=...", "no column 'watts'")),
        ({"in.xyz": "a,1,2\n"}, "sums", "in.xyz", ("TT207", "in.xyz", "unknown", "format=csv")),
        ({"in.csv.gz": "no gzip"}, "sums", "in.csv.gz", ("TT208", "in.csv.gz", "cannot be read")),
        ({"in.jsonl": "{}\n"}, "columns", "in.jsonl", ("TT208", "in.jsonl cannot be read as Parquet")),
        ({"_in.jsonl": "{}\n"}, "sums", "_in.jsonl", ("TT208", "'_in.jsonl'", "rename")),
        ({"d/_hidden/in.jsonl": "{}\n"}, "sums", "d", ("TT207", "holds no files")),
    ],
)
def test_an_input_that_cannot_be_read(
    cli: Cli, tmp_path: Path, files: dict[str, str], target: str, path: str, said: tuple[str, ...]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    ran = cli("run", here(target), "-i", f"readings={tmp_path / path}", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 1
    for part in said:
        assert part in ran.err
    assert not list((tmp_path / "out").glob("part-*"))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["a"], "ts": [1]}, ("TT203", "no column 'watts'", "'id', 'ts'")),
        ({"id": ["a"], "ts": ["1"], "watts": [1]}, ("TT203", "'ts' is string, expected int")),
        ({"id": ["a"], "ts": [1.0], "watts": [1]}, ("TT203", "'ts' is double, expected int")),
        ({"id": [1], "ts": [1], "watts": [1]}, ("TT203", "'id' is int64, expected str")),
        ({"id": ["a"], "ts": [1], "watts": [[1]]}, ("TT203", "'watts' is list<element: int64>, expected int")),
    ],
)
def test_a_parquet_column_that_is_missing_or_of_another_type(
    cli: Cli, tmp_path: Path, columns: dict[str, list[object]], said: tuple[str, ...]
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in.parquet", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 1
    for part in said:
        assert part in ran.err


def test_parquet_with_two_columns_of_a_name(cli: Cli, tmp_path: Path) -> None:
    columns = [pa.array(["a"]), pa.array([1]), pa.array([1]), pa.array([2])]
    pq.write_table(pa.table(columns, names=["id", "ts", "watts", "watts"]), tmp_path / "in.parquet")
    ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in.parquet", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 1
    assert "TT203" in ran.err
    assert "in.parquet has 2 columns 'watts'" in ran.err


def test_names_of_sources_and_sinks(cli: Cli, tmp_path: Path) -> None:
    given = write_lines(tmp_path / "in.jsonl", IN_TIME)
    out = f"sums={tmp_path / 'out'}"
    for arguments, said in (
        (["-o", out], "source 'readings' has no input"),
        (["-i", f"reading={given}", "-o", out], "there is no source 'reading'"),
        (["-i", f"readings={given}"], "sink 'sums' has no output"),
        (["-i", f"readings={given}", "-i", f"x={given}", "-o", out], "there is no source 'x'"),
        (["-i", f"readings={given}", "-o", out, "-o", f"x={tmp_path}"], "there is no sink 'x'"),
        (["-i", f"readings={given}", "-i", f"readings={given}", "-o", out], "--input readings=... is given twice"),
        (["-i", str(given), "-o", out], "write --input NAME=PATH"),
        (["-i", f"readings={given}", "-o", "sums=noop:"], "give --checkpoint DIR"),
        (["-i", f"readings={given}", "-o", "sums=delta:out"], "give --checkpoint DIR"),
        (["-i", "readings=delta:", "-o", out], "write delta:DIRECTORY; outputs may be on delta:s3://"),
        (["-i", f"readings={given}", "-o", out, "--follow", "--no-drain"], "--follow never drains"),
    ):
        ran = cli("run", here("sums"), *arguments)
        assert ran.code == 2
        assert said in ran.err


@pytest.mark.parametrize("option", ["--output", "--late", "--rejects", "--checkpoint"])
@pytest.mark.parametrize("where", ["file", "file/below", "/proc/nowhere"])
def test_a_directory_that_cannot_be_written(cli: Cli, tmp_path: Path, option: str, where: str) -> None:
    """(Root may write everywhere: a file in the way stands for missing permissions.)"""
    given = write_lines(tmp_path / "in.jsonl", IN_TIME)
    (tmp_path / "file").write_text("")
    place = f"{where if where.startswith('/') else tmp_path / where}"
    arguments = ["--output", f"sums={tmp_path / 'out'}", option, place]
    if option == "--output":
        arguments = ["--output", f"sums={place}", "--checkpoint", str(tmp_path / "c")]
    ran = cli("run", here("sums"), "-i", f"readings={given}", *arguments)
    assert ran.code == 1
    assert "TT209" in ran.err
    assert f"{place} cannot be written" in ran.err


def test_late_items_and_rejects_need_places_of_their_own(cli: Cli, tmp_path: Path) -> None:
    given = write_lines(tmp_path / "in.jsonl", IN_TIME)
    same = str(tmp_path / "aside")
    out = tmp_path / "out"
    for more in (["--late", same, "--rejects", same], ["--late", str(out)], ["--rejects", f"{tmp_path}/x/../out"]):
        ran = cli("run", here("sums"), "-i", f"readings={given}", "-o", f"sums={out}", *more)
        assert ran.code == 2
        assert "directory of its own" in ran.err


# ------------------------------------------------------------------------------------------------- bad rows


@pytest.mark.repeated
def test_rows_that_do_not_fit_are_rejected_with_the_reason(cli: Cli, tmp_path: Path) -> None:
    bad = [
        '{"id": "a", "ts": 1, "watts": ',
        "[1, 2]",
        "null",
        "text",
        row(id="a", ts=1),
        row(id="a", ts="1", watts=5),
        row(id="a", ts=1.0, watts=5),
        row(id=None, ts=1, watts=5),
        row(id="a", ts=1, watts=2**63),
        row(id="a", ts=2**60, watts=1),
        '{"id": "\\ud800", "ts": 1, "watts": 5}',
        "[" * 100_000,
    ]
    lines = [*IN_TIME[:2], *bad, *IN_TIME[2:]]
    encoded = [line.encode() for line in lines]
    encoded.insert(3, b'{"id": "\xff", "ts": 1, "watts": 5}')
    text = b"\xef\xbb\xbf" + b"\r\n\r\n  \t\r\n".join(encoded) + b"\r\n\r\n"
    (tmp_path / "in.jsonl").write_bytes(text)
    ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in.jsonl", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 0
    trace, arranged = defined(flows.sums, {"readings": lines})
    assert len(arranged["readings"].rejects) == len(bad)
    assert rows_in(tmp_path / "out", "at") == rows_at_sink(flows.sums, trace)
    rejects = side_outputs(tmp_path / "out/_rejects", "readings")
    reasons = Counter(reason for _, reason in arranged["readings"].rejects)
    reasons["not UTF-8: invalid start byte at byte 8"] += 1
    assert Counter(reject["reason"] for reject in rejects) == reasons
    assert Counter(r["row"] for r in rejects) == Counter([*bad, '{"id": "\\xff", "ts": 1, "watts": 5}'])
    assert f"source 'readings': {len(bad) + 1} rejected, with the reason of each in " in ran.err


@pytest.mark.repeated
def test_lines_that_all_lack_a_field(cli: Cli, tmp_path: Path) -> None:
    lines = [row(id="a", time=n, watts=n) for n in range(20)]
    given = write_lines(tmp_path / "in.jsonl", lines)
    ran = cli("run", here("sums"), "-i", f"readings={given}", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 1
    assert "TT241 each of the 20 rows of source 'readings' was rejected" in ran.err
    assert "20 rejected" in ran.err
    assert rows_in(tmp_path / "out") == Counter()
    reasons = {r["reason"] for r in side_outputs(tmp_path / "out/_rejects", "readings")}
    assert reasons == {".ts is missing, expected int"}


@pytest.mark.repeated
def test_a_run_that_goes_on_may_reject_each_row(cli: Cli, tmp_path: Path) -> None:
    """The rows before them were accepted: the source is declared as its rows are."""
    files, command = tmp_path / "in", ["-i", f"readings={tmp_path / 'in'}", "-o", f"sums={tmp_path / 'out'}"]
    write_lines(files / "1.jsonl", [row(id="a", ts=n, watts=n) for n in range(20)])
    assert cli("run", here("sums"), "--no-drain", *command).code == 0
    write_lines(files / "2.jsonl", ["{"])
    ran = cli("run", here("sums"), *command)
    assert ran.code == 0, ran.err
    assert "1 rejected, with the reason" in ran.err
    assert "TT241" not in ran.err


@pytest.mark.repeated
def test_csv_as_it_comes(cli: Cli, tmp_path: Path) -> None:
    """A header in each file, a byte order mark, Windows line ends, blank lines, quotes; and rows that do not fit."""
    good = ["a,1,5", '"b, the ""2nd""",2,7', "a,11,1"]
    bad = ['a,1,"5', 'a,"1" ,5', "a,1", "a,1,5,6", "a,x,5", "a,1, 5", "a,1_0,5", ",,", '"a\0",,1']
    bad += ['a"b,1,5', '"a"b,1,5', 'a,1,5"', '\ufeff"a",1,5', '"two', 'lines",1,5']
    head = "id,ts,watts"
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_bytes("\r\n".join(["\ufeff" + head, "", good[0], *bad, good[1]]).encode())
    (tmp_path / "in/2.csv").write_text("\n".join(["", " ", head, good[2], ""]))
    (tmp_path / "in/3.csv").write_text("")
    (tmp_path / "in/4.csv").write_text(f"{head}\n")
    for number in (1, 2, 3, 4):
        os.utime(tmp_path / f"in/{number}.csv", (number, number))
    ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 0, ran.err
    together = '"two\r\nlines",1,5'  # a row
    lines = [good[0], *bad[:-2], together, *good[1:]]
    bad = bad[:-2]
    trace, arranged = defined(flows.sums, {"readings": lines}, format=Csv(), header=head.split(","))
    assert len(arranged["readings"].rejects) == len(bad)
    assert rows_in(tmp_path / "out", "at") == rows_at_sink(flows.sums, trace)
    rejects = side_outputs(tmp_path / "out/_rejects", "readings")
    assert Counter(r["row"] for r in rejects) == Counter(bad)
    assert Counter(r["reason"] for r in rejects) == Counter(reason for _, reason in arranged["readings"].rejects)


def test_csv_that_spark_cuts(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the columns of the first file, and no cell with a line break: both stop the run, so no row is made up."""
    monkeypatch.setenv("TRACETYPES_SCAN", "spark")
    write_lines(tmp_path / "in/1.csv", ["id,ts,watts", "a,1,5"], at=1)
    write_lines(tmp_path / "in/2.csv", ["ts,id,watts", "1,a,5"], at=2)
    ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 1
    assert "TT203" in ran.err
    assert "a file has the columns ts, id, watts; the first file has id, ts, watts" in ran.err
    write_lines(tmp_path / "in/2.csv", ["id,ts,watts", '"a', "b,1,5", 'c",1,5'], at=2)
    ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in", "-o", f"sums={tmp_path / 'other'}")
    assert ran.code == 1
    assert "TT402" in ran.err
    assert "a quoted cell goes on behind the line" in ran.err


def test_csv_of_several_splits_with_line_breaks(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And columns in another order in the second file."""
    monkeypatch.setattr(input_files, "SMALLEST", 40)
    monkeypatch.setattr(disk, "BLOCK", 64)
    rows = [f'"a\n{number},b",{number},5' for number in range(100)]
    write_lines(tmp_path / "in/1.csv", ["id,ts,watts", *rows], at=1)
    write_lines(tmp_path / "in/2.csv", ["more,watts,ts,id", "x,1,200,c"], at=2)
    ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 0, ran.err
    found = [json.loads(line)["key"] for line in rows_in(tmp_path / "out")]
    assert set(found) == {f"a\n{number},b" for number in range(100)} | {"c"}
    assert not side_outputs(tmp_path / "out/_rejects", "readings")


@pytest.mark.parametrize(
    ("target", "rows", "reasons"),
    often([
        ("by_plug", [{"id": None, "ts": 1, "watts": 1.0}, {"ts": 1, "watts": 1.0}], ["None"] * 2),
        ("by_watts", [{"id": "a", "ts": 1, "watts": "NaN"}], ["NaN"]),
    ]),
)
@pytest.mark.parametrize("extension", ["jsonl", "parquet"])
def test_a_key_of_the_source_that_is_none_or_nan(
    cli: Cli, tmp_path: Path, target: str, rows: list[dict[str, object]], reasons: list[str], extension: str
) -> None:
    good = {"id": "a", "ts": 2, "watts": 2.0}
    if extension == "jsonl":
        write_lines(tmp_path / "in.jsonl", map(json.dumps, [*rows, good]))
    else:
        plain = [{"id": None, **r, "watts": float(str(r["watts"]))} for r in [*rows, good]]
        types = pa.schema([("id", pa.string()), ("ts", pa.int32()), ("watts", pa.float64())])
        pq.write_table(pa.Table.from_pylist(plain, types), tmp_path / "in.parquet")
    ran = cli("run", here(target), "-i", f"plugs={tmp_path}/in.{extension}", "-o", f"out={tmp_path / 'out'}")
    assert ran.code == 0, ran.err
    rejects = side_outputs(tmp_path / "out/_rejects", "plugs")
    assert len(rejects) == len(reasons)
    for reject, reason in zip(rejects, reasons, strict=True):
        assert reason in reject["reason"]
        assert "key" in reject["reason"]
    assert sum(rows_in(tmp_path / "out").values()) == 1


def nested(at: int, **changed: object) -> dict[str, object]:
    inner = {"n": at, "x": 1.5, "at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}
    whole: dict[str, object] = {"id": "a", "ts": at, "inner": inner, "ns": [at], "xs": [0.5], "some": [None, inner]}
    for path, value in changed.items():
        if "." in path:
            whole["inner"] = {**inner, path.partition(".")[2]: value}
        else:
            whole[path] = value
    return whole


def test_parquet_with_nothing_where_something_must_be(spark: SparkSession, tmp_path: Path) -> None:
    """Only the rows that lack something are rejected, with the name of the column."""
    less: dict[str, object] = {"n": 1, "x": None, "at": None}
    bad: list[dict[str, object]] = [
        nested(1, **{"inner.n": None}),
        nested(1, **{"inner.x": None}),
        nested(1, **{"inner.at": None}),
        nested(1, inner=None),
        nested(1, ns=None),
        nested(1, ns=[1, None]),
        nested(1, xs=[1.0, None]),
        nested(1, some=None),
        nested(1, some=[less]),
        nested(1, id=None),
    ]
    rows = [nested(1), *bad, nested(2), nested(11, ns=[], xs=[], some=[])]
    nest = pa.struct([("n", pa.int64()), ("x", pa.float64()), ("at", pa.timestamp("us", "UTC"))])
    types = pa.schema(
        [
            ("id", pa.string()),
            ("ts", pa.int64()),
            ("inner", nest),
            ("ns", pa.list_(pa.int64())),
            ("xs", pa.list_(pa.float64())),
            ("some", pa.list_(nest)),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, types), tmp_path / "in.parquet")
    flow = Dataflow("nested")
    source = flow.source("rows", U[str, flows.Nested], key=lambda r: r.id, markers=flows.TEN)
    flow.sink("out", source)
    lines = [json.dumps(one, default=lambda at: at.isoformat()) for one in rows]
    expected = defined(flow, {"rows": lines})
    assert len(expected[1]["rows"].rejects) == len(bad)
    answer = collect(spark, plan(check(flow), key_groups=2), {"rows": f"{tmp_path}/in.parquet"}).answer
    assert answer.trace == expected[0]
    columns = sorted(reason.split(" ")[0].split(".")[1].split("[")[0] for _, reason in expected[1]["rows"].rejects)
    assert sorted(reason.split(" ")[0].removeprefix(".") for _, reason, _ in answer.rejects) == columns


@pytest.mark.parametrize("extension", ["jsonl", "parquet"])
@pytest.mark.parametrize("keyed", often([True, False]))
def test_rows_that_the_author_of_a_record_refuses(
    spark: SparkSession, tmp_path: Path, extension: str, keyed: bool
) -> None:
    rows: list[dict[str, Any]] = [{"id": "a", "ts": n, "watts": 3 - n} for n in range(12)]
    lines = [json.dumps(one) for one in rows]
    flow = Dataflow("picky")
    if keyed:
        flow.sink("out", flow.source("rows", U[str, flows.Picky], key=lambda r: r.id, markers=flows.TEN))
    else:
        flow.sink("out", flow.source("rows", U[Unit, flows.Picky], markers=flows.TEN))
    write_lines(tmp_path / "in.jsonl", lines)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    expected = defined(flow, {"rows": lines})
    assert len(expected[1]["rows"].rejects) == 8
    answer = collect(spark, plan(check(flow), key_groups=2), {"rows": f"{tmp_path}/in.{extension}"}).answer
    assert answer.trace == expected[0]
    assert len(answer.rejects) == 8
    assert all("ValueError: 'watts' must be >= 0: -" in reason for _, reason, _ in answer.rejects)


@pytest.mark.parametrize(("target", "said"), often([("emits_nan", "NaN"), ("emits_none", "None")]))
def test_a_key_of_an_operator_that_is_none_or_nan(cli: Cli, tmp_path: Path, target: str, said: str) -> None:
    lines = [row(id="a", ts=1, watts=1.0), row(id="a", ts=1, watts="NaN" if said == "NaN" else 0.0)]
    given = write_lines(tmp_path / "in.jsonl", lines)
    ran = cli("run", here(target), "-i", f"plugs={given}", "-o", f"out={tmp_path / 'out'}")
    assert ran.code == 1
    assert "TT206" in ran.err
    assert ("Unkeyed" if said == "NaN" else "Keyless") in ran.err
    assert said in ran.err


# ------------------------------------------------------------------------------------------------- lateness

EARLY, LATER = (
    [reading("a", 1), reading("a", 99)],
    [reading("b", 2), reading("b", 95), reading("b", 5), reading("a", 107)],
)
BACKWARDS = {
    "within a file": ([[*EARLY, *LATER]], None),
    "across files of a micro-batch": ([EARLY, LATER, [reading("a", 3)]], None),
    "across micro-batches": ([EARLY, LATER, [reading("a", 3)]], 1),
}


@pytest.mark.repeated
@pytest.mark.parametrize("case", BACKWARDS)
def test_time_that_runs_backwards(spark: SparkSession, tmp_path: Path, case: str) -> None:
    files, step = BACKWARDS[case]
    lines = [line for file in files for line in file]
    for number, file in enumerate(files):
        write_lines(tmp_path / f"in/{number}.jsonl", file, at=number + 1)
    checked = check(flows.sums)
    planned = plan(checked, parallelism=2, key_groups=3)
    answer = collect(spark, planned, {"readings": str(tmp_path / "in")}, files_per_step=step).answer
    trace, arranged = defined(checked, {"readings": lines})
    late = arranged["readings"].late
    assert len(late) == len(lines) - 4
    assert answer.trace == trace
    assert Counter(reason for _, reason, _ in answer.late) == Counter(one.reason for one in late)
    assert Counter(json.loads(text)["value"]["ts"] for _, _, text in answer.late) == Counter(
        one.value.ts for one in late
    )


def test_time_that_runs_backwards_across_restarts(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs and a draining one give what one run gives: the trace, the late items and the reasons."""
    files = [EARLY, LATER, [reading("a", 3), reading("c", 120)]]
    out = tmp_path / "out"
    for number, file in enumerate(files):
        write_lines(tmp_path / f"in/{number}.jsonl", file, at=number + 1)
        more = ["--no-drain"] if number < 2 else []
        ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in", "-o", f"sums={out}", *more)
        assert ran.code == 0
    trace, arranged = defined(flows.sums, {"readings": [line for file in files for line in file]})
    assert rows_in(out, "at") == rows_at_sink(flows.sums, trace)
    late = side_outputs(out / "_late", "readings")
    assert Counter(one["reason"] for one in late) == Counter(one.reason for one in arranged["readings"].late)
    assert sorted(one["row"]["value"]["ts"] for one in late) == [2, 3, 5]
    again = cli("run", here("sums"), "-i", f"readings={tmp_path}/in", "-o", f"sums={out}")
    assert again.code == 1
    assert "TT212" in again.err
    assert "finished" in again.err
    write_lines(tmp_path / "in/late.jsonl", [reading("a", 500)], at=9)
    monkeypatch.setattr(SparkEngine, "started", None)  # who calls it fails
    monkeypatch.setattr(LocalEngine, "started", None)
    after = cli("run", here("sums"), "-i", f"readings={tmp_path}/in", "-o", f"sums={out}")
    assert "is finished: it came to the end of its input" in after.err
    assert f", and {tmp_path}/in/late.jsonl came after that" in after.err
    assert after.code == 1


@pytest.mark.repeated
def test_sources_of_two_stages_that_must_both_be_read_again(spark: SparkSession) -> None:
    """Each stage asks for the step to be done again, one after the other."""
    flow = Dataflow("two")
    one = flow.source("one", U[str, flows.Reading], key=flows.id_of, markers=flows.TEN)
    other = flow.source("other", U[str, flows.Reading], key=flows.id_of, markers=flows.TEN)
    flow.sink("out", merge(one.through(flows.Sum()), other).through(flows.Sum()))
    checked = check(flow)
    back = (EARLY, LATER)
    rows = Rows(tuple(tuple(file) for file in back))
    lines = [line for file in back for line in file]
    answer = collect(spark, plan(checked, key_groups=2), {"one": rows, "other": rows}).answer
    trace, arranged = defined(checked, {"one": lines, "other": lines})
    assert len(arranged["one"].late) == len(arranged["other"].late) == 2
    assert answer.trace == trace
    assert Counter(source for source, _, _ in answer.late) == {"one": 2, "other": 2}


# ------------------------------------------------------------------------------------------ failing operators


@pytest.mark.repeated
def test_an_operator_that_raises_and_is_mended(spark: SparkSession, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.write_text("")
    files = [[reading("a", 1), reading("b", 12)], [reading("c", 14), reading("c", 15, -1)], [reading("a", 33)]]
    for number, file in enumerate(files):
        write_lines(tmp_path / f"in/{number}.jsonl", file, at=number + 1)
    checked = check(flows.fragile(str(flag)))
    planned = plan(checked, parallelism=2, key_groups=3)

    def go() -> int:
        out = str(tmp_path / "out")
        return run(
            spark,
            planned,
            {"readings": str(tmp_path / "in")},
            lambda name: open_output(planned, out, name),
            checkpoint=str(tmp_path / "checkpoint"),
            files_per_step=1,
        ).batches

    for _ in range(2):
        with pytest.raises(OperatorFailed) as failed:
            go()
        assert failed.value.code == "TT202"
        assert "Fragile.on_item raised ValueError: c is broken" in failed.value.message
        assert "Reading(id='c', ts=15, watts=-1)" in failed.value.message
        assert failed.value.where is not None
        assert failed.value.where.file.endswith("flows.py")
        assert "is broken" in failed.value.line
    flag.unlink()
    assert go() > 0
    trace, _ = defined(checked, {"readings": [line for file in files for line in file]})
    assert rows_in(tmp_path / "out", "at") == rows_at_sink(checked, trace)


# ------------------------------------------------------------------------------------- nothing, and odd names


@pytest.mark.repeated
def test_no_rows(cli: Cli, tmp_path: Path) -> None:
    for number, (target, name) in enumerate(
        (
            ("sums", "in.jsonl"),
            ("sums", "in.csv"),
            ("lines", "directory"),
            ("typed_csv", "directory"),
            ("columns", "directory"),
        )
    ):
        path = tmp_path / name
        path.mkdir(exist_ok=True) if name == "directory" else path.write_text("")
        ran = cli("run", here(target), "-i", f"readings={path}", "-o", f"sums={tmp_path / str(number)}")
        assert ran.code == 0, ran.err
        assert "no rows in the input" in ran.err
        assert "done: 0 rows in " in ran.err
        assert rows_in(tmp_path / str(number)) == Counter()


def test_parquet_without_rows(cli: Cli, tmp_path: Path) -> None:
    types = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("watts", pa.int64())])
    pq.write_table(pa.Table.from_pylist([], types), tmp_path / "in.parquet")
    ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in.parquet", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 0, ran.err
    assert "no rows in the input" in ran.err


@pytest.mark.repeated
def test_no_new_rows_but_an_answer(cli: Cli, tmp_path: Path) -> None:
    """A run that goes on only to answer what is open says so."""
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": "a", "ts": 0, "watts": 5}) + "\n")
    given = ("run", here("sums"), "-i", f"readings={tmp_path}/in.jsonl", "-o", f"sums={tmp_path / 'out'}")
    assert "no new rows" not in cli(*given, "--no-drain").err
    ran = cli(*given)
    assert "no new rows in the input: what was open is answered" in ran.err
    assert "nothing to answer" not in ran.err
    assert len(rows_in(tmp_path / "out")) == 1


@pytest.mark.parametrize("directory", ["a b", "[x]", "{a,b} 50%20", "_under", "é*?\\"])
def test_names_that_mean_something_to_spark(cli: Cli, tmp_path: Path, directory: str) -> None:
    """The name stands for a single file, for the directory of the input and for that of the output in turn."""
    trace, _ = defined(flows.lines, {"readings": IN_TIME})
    expected = rows_at_sink(flows.lines, trace)
    under = directory.startswith("_")
    single = write_lines(tmp_path / "single" / f"{directory.lstrip('_')}", IN_TIME)
    several = write_lines(tmp_path / directory / ("in.jsonl" if under else f"{directory}.jsonl"), IN_TIME).parent
    out = tmp_path / f"out {directory}"
    for number, path in enumerate((single, several)):
        ran = cli("run", here("lines"), "-i", f"readings={path}", "-o", f"sums={out}/{number}")
        assert ran.code == 0, ran.err
        assert rows_in(out / str(number), "at") == expected


def test_compressed_files(cli: Cli, tmp_path: Path) -> None:
    import bz2

    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv.gz").write_bytes(gzip.compress(b"id,ts,watts\na,1,5\nb,2,7\n"))
    (tmp_path / "in/2.csv.bz2").write_bytes(bz2.compress(b"id,ts,watts\na,11,1\nb,25,2\n"))
    for number, name in enumerate(("1.csv.gz", "2.csv.bz2")):
        os.utime(tmp_path / "in" / name, (number, number))
    trace, _ = defined(flows.lines, {"readings": IN_TIME})
    for path in ("in", "in/2.csv.bz2"):
        out = tmp_path / f"out{len(path)}"
        ran = cli("run", here("sums"), "-i", f"readings={tmp_path / path}", "-o", f"sums={out}")
        assert ran.code == 0, ran.err
        if path == "in":
            assert rows_in(out, "at") == rows_at_sink(flows.lines, trace)


# ------------------------------------------------------------------------------------------------ checkpoints


@pytest.mark.repeated
def test_a_checkpoint_of_another_graph(cli: Cli, tmp_path: Path) -> None:
    given = write_lines(tmp_path / "in.jsonl", IN_TIME)
    arguments = ["-i", f"readings={given}", "-o", f"sums={tmp_path / 'out'}", "--no-drain"]
    assert cli("run", here("lines"), *arguments).code == 0
    before = rows_in(tmp_path / "out", "at")
    ran = cli("run", here("delayed"), *arguments)
    assert ran.code == 1
    assert "TT211" in ran.err
    assert "source readings, markers: was every 10 s, delay 0 s, is every 10 s, delay 10 s" in ran.err
    assert rows_in(tmp_path / "out", "at") == before


@pytest.mark.repeated
def test_more_files_after_a_run_that_did_not_drain(cli: Cli, tmp_path: Path) -> None:
    """Runs with more files each, at changing parallelism, give the trace of one run; an idle run changes nothing."""
    files = [[reading("a", 1), reading("b", 12)], [reading("c", 14), reading("a", 19, 5)], [reading("a", 33)]]
    out = tmp_path / "out"
    for number, file in enumerate(files):
        write_lines(tmp_path / f"in/{number}.jsonl", file, at=number + 1)
        for _ in range(2 if number == 1 else 1):
            ran = cli(
                "run",
                here("sums"),
                "-p",
                number + 1,
                "-i",
                f"readings={tmp_path}/in",
                "-o",
                f"sums={out}",
                "--no-drain",
            )
            assert ran.code == 0
        trace, _ = defined(flows.sums, {"readings": [line for f in files[: number + 1] for line in f]}, drain=False)
        assert rows_in(out, "at") == rows_at_sink(flows.sums, trace)
    assert cli("run", here("sums"), "-i", f"readings={tmp_path}/in", "-o", f"sums={out}").code == 0
    trace, _ = defined(flows.sums, {"readings": [line for f in files for line in f]})
    assert rows_in(out, "at") == rows_at_sink(flows.sums, trace)


@pytest.mark.repeated
@pytest.mark.parametrize("extension", ["jsonl.gz", "csv.gz", "jsonl.bz2"])
def test_a_compressed_file_that_is_cut_off_is_named(cli: Cli, tmp_path: Path, extension: str) -> None:
    """Behind the first rows, so that only reading shows it; a file of the directory, not the first."""
    pack = bz2.compress if extension.endswith("bz2") else gzip.compress
    random = Random(1)
    texts = (f"{random.random()}" for _ in range(20_000))
    rows = [f"{text},{n},1" if "csv" in extension else row(id=text, ts=n, watts=1) for n, text in enumerate(texts)]
    whole = pack("\n".join((["id,ts,watts"] if "csv" in extension else []) + rows).encode())
    (tmp_path / "in").mkdir()
    for number, content in enumerate((whole, whole[: len(whole) * 2 // 3], whole)):
        (tmp_path / f"in/{number}.{extension}").write_bytes(content)
        os.utime(tmp_path / f"in/{number}.{extension}", (number, number))
    ran = cli("run", here("sums"), "-i", f"readings={tmp_path}/in", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 1
    assert "TT208" in ran.err
    assert f"{tmp_path}/in/1.{extension} cannot be read" in ran.err


def test_odd_files_are_read_as_locally(cli: Cli, tmp_path: Path) -> None:
    """A name with a colon, compressed text of no bytes, and first times in another unit, which stop a new run."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a:b.jsonl").write_text('{"id": "a", "ts": 1, "watts": 2}\n')
    (folder / "empty.jsonl.bz2").touch()
    ran = cli("run", here("sums"), "-i", f"readings={folder}", "-o", f"sums={tmp_path / 'out'}")
    assert ran.code == 0
    assert len(rows_in(tmp_path / "out")) == 1
    ahead = write_lines(tmp_path / "ms.jsonl", [reading("a", 1_700_000_000_000 + at) for at in range(100)])
    ran = cli("run", here("sums"), "-i", f"readings={ahead}", "-o", f"sums={tmp_path / 'none'}")
    assert ran.code == 1
    assert "TT226 source 'readings': all of the first 100 rows have times beyond" in ran.err
    assert not list((tmp_path / "none").glob("part-*"))
