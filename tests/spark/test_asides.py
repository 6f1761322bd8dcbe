"""Late items and rejects as streams on Spark: of text, of columns whoever reads them, in one step and in many."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark import dags
from tests.spark.flows import TEN, Reading, id_of
from tests.spark.support import Cli, all_defined, differences, row, rows_in, rows_of, side_outputs, write_lines
from tracetypes import UNIT, Dataflow, OpStateless, Rejected, U, Unit, check, interpret, merge
from tracetypes.arrangement import arrange, streams_of
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.files import SCAN
from tracetypes.compiler.spark.run import collect
from tracetypes.parsing import Row
from tracetypes.sources import reader


@pytest.mark.repeated
def test_dead_letters_by_the_command_line(tmp_path: Path, cli: Cli) -> None:
    """Several files in a step. Each but the first begins with rows whose blocks only the files before it tell."""
    chance, lines = random.Random(3), list[str]()
    for number in range(4):
        some = [row(id="late", ts=3, watts=number), "{", row(id="a")] if number else ["first"]
        times = [number * 12 + n - chance.choice((0, 0, 0, 15)) for n in range(12)]
        some += [row(id=chance.choice("abc"), ts=time, watts=n) for n, time in enumerate(times)]
        some += [f"last of {number}"]
        write_lines(tmp_path / "in" / f"{chance.randrange(10**6)}.jsonl", some, at=number + 1)
        lines += some
    checked = check(dags.dead_letters())
    outputs = [("-o", f"{sink.name}={tmp_path / sink.name}") for sink in checked.graph.sinks]
    done = cli(
        "run",
        "tests.spark.dags:dead_letters_flow",
        "-i",
        f"readings={tmp_path / 'in'}",
        *("--order", "readings=modified"),
        *[part for output in outputs for part in output],
        *("--late", tmp_path / "aside" / "late", "--rejects", tmp_path / "aside" / "rejects"),
        *("--checkpoint", tmp_path / "checkpoint"),
    )
    assert done.code == 0, done.err
    traces, arranged = all_defined(checked, {"readings": lines})
    for sink in checked.graph.sinks:
        assert rows_in(tmp_path / sink.name, "at") == rows_of(checked, sink, traces[sink.name]), sink.name
    late, rejects = arranged["readings"].late, arranged["readings"].rejects
    assert Counter(one["reason"] for one in side_outputs(tmp_path / "aside/late", "readings")) == Counter(
        one.reason for one in late
    )
    told = [(one["reason"], one["row"]) for one in side_outputs(tmp_path / "aside/rejects", "readings")]
    assert sorted(told) == sorted((reason, lines[at]) for at, reason in rejects)
    assert min(len(late), len(rejects)) > 5
    assert f"{len(late)} late" in done.err
    assert f"{len(rejects)} rejected" in done.err


@attrs.frozen
class Whole(OpStateless[str, Reading, str, str]):
    """A reading as text."""

    what: str

    def on_item(self, key: str, value: Reading, emit: Callable[[str, str], None]) -> None:
        emit(key, self.what + str(value.watts))


@attrs.frozen
class Shown(OpStateless[Unit, Rejected, str, str]):
    """A reject as text: why, and with ``whole`` the row."""

    whole: bool

    def on_item(self, key: Unit, value: Rejected, emit: Callable[[str, str], None]) -> None:
        emit(value.source, f"{value.row}: {value.reason}" if self.whole else value.reason)


def together(key: Any = id_of, format: Any = None) -> Dataflow:
    """All that there is of a source, in one plan. (The text of a record of Kafka says where it lies: it is left out.)"""
    flow = Dataflow("together")
    rows = flow.source("readings", U[str, Reading], key=key, markers=TEN, format=format)
    late = rows.late().through(Whole("late "))
    flow.sink("all", merge(rows.through(Whole("")), late, rows.rejects().through(Shown(format is None))))
    return flow


@pytest.mark.repeated
@pytest.mark.parametrize("scan", ["workers", pytest.param("spark", marks=pytest.mark.nightly)])
def test_columns_have_asides_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: str
) -> None:
    """Files of one step; those with a null hold rejects, and are taken row by row."""
    monkeypatch.setenv(SCAN, scan)
    checked, chance = check(together()), random.Random(4)
    read, rows = reader(checked.graph.sources[0]).read, list[Row]()
    for number in range(4):
        times = [3 if n in (0, 20) else number * 10 + n // 3 - chance.choice((0, 0, 12)) for n in range(30)]
        some: list[dict[str, Any]] = [{"id": chance.choice("abc"), "ts": t, "watts": n} for n, t in enumerate(times)]
        if number % 2:  # in the first row group, or in another
            some.insert(0 if number == 1 else 20, {"id": "x", "ts": 1, "watts": None})
        types = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("watts", pa.int64())])
        path = tmp_path / f"{chance.randrange(10**6)}.parquet"
        pq.write_table(pa.Table.from_pylist(some, types), path, row_group_size=8)
        os.utime(path, (number + 1, number + 1))
        for one in some:
            if one["watts"] is None:
                rows.append(Row("reject", reason=".watts is None, expected int", text=json.dumps(one)))
            else:
                rows.append(read(UNIT, Reading(**one)))
    arranged = {"readings": arrange(checked.graph.sources[0], rows, drain=True)}
    (trace,) = interpret(checked, streams_of(arranged)).values()
    planned = plan(checked, parallelism=2, key_groups=4)
    answer = collect(spark, planned, {"readings": str(tmp_path)}).answer
    assert differences(checked, answer, (trace, arranged)) == []
    assert (len(answer.late) > 20, len(answer.rejects)) == (True, 2)
