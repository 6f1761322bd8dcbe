"""Aggregates that choose or collect, `explode` and lines of text, in one run on Spark: the rows that the interpreter defines."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import SparkSession

import tracetypes
from tracetypes import Dataflow, Item, U, check, desc, every, interpret_rows, parquet, text_lines
from tracetypes.stdlib import (
    Ranked,
    aggregate,
    collect,
    count,
    explode,
    first,
    last,
    map_values,
    max,
    sliding,
    struct,
    top,
)


@attrs.frozen
class Visit:
    """Of a page, at a second."""

    page: str
    ts: int
    seconds: float


@attrs.frozen
class Day:
    """All that is asked of the visits of a user in a window."""

    visits: int
    long: int
    first: Visit
    longest: list[Visit]
    best: list[Ranked[Visit]]
    pages: list[str]
    greatest: str
    last: Visit | None


def parsed(line: str) -> Visit:
    _, ts, page, seconds = line.split(" ")
    return Visit(page, int(ts), float(seconds))


def flow_of() -> Dataflow:
    """Windows of twelve seconds every eight, with markers every two."""
    flow = Dataflow("visits")
    times = every(seconds=2, time=lambda line: int(line.split(" ")[1]), delay=4)
    lines = flow.source("lines", U[str, str], key=lambda line: line.split(" ")[0], markers=times, format=text_lines())
    visits = lines.through(map_values(parsed))
    days = struct(
        Day,
        visits=count(),
        long=count(where=lambda visit: visit.seconds > 1),
        first=first(by=lambda visit: visit.ts),
        longest=last(by=lambda visit: visit.seconds, ties=True),
        best=top(3, by=lambda visit: (desc(visit.page), visit.seconds), ties=True, ranks=True),
        pages=collect(of=lambda visit: visit.page, to=str),
        greatest=max(of=lambda visit: visit.page, to=str),
        last=last(by=lambda visit: (visit.ts, visit.page), where=lambda visit: visit.seconds > 1),
    )
    flow.sink("days", visits.through(sliding(days, size=12, slide=8)))
    longest = visits.through(aggregate(top(2, by=lambda visit: visit.seconds))).through(explode())
    flow.sink("longest", longest, marker="at", format=parquet())
    return flow


def test_what_chooses_and_collects_means_on_spark_what_it_means(spark: SparkSession, tmp_path: Path) -> None:
    chance, flow = random.Random(8), flow_of()
    lines = [
        f"u{chance.randrange(3)} {n // 20 + chance.randrange(4)} {chance.choice('abcé')} {chance.choice((0.5, 1.5, 2.5, -0.0))}"
        for n in range(1_200)
    ]
    (tmp_path / "in").mkdir()
    for part in range(2):
        (tmp_path / "in" / f"{part}.txt").write_text("\n".join(lines[part * 600 : part * 600 + 600]) + "\n", encoding="utf-8")
    traces, _ = interpret_rows(check(flow), {"lines": lines})
    days: list[Any] = []
    result = tracetypes.run(
        flow,
        inputs={"lines": str(tmp_path / "in")},
        outputs={"days": days, "longest": str(tmp_path / "out")},
        parallelism=2,
        key_groups=4,
    )
    assert result.rows == len(lines)
    wanted = {name: Counter(repr((o.key, o.value)) for o in trace.items if isinstance(o, Item)) for name, trace in traces.items()}
    assert Counter(map(repr, days)) == wanted["days"]
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("at").collect()
    assert Counter(repr((row["key"], Visit(row["page"], row["ts"], row["seconds"]))) for row in rows) == wanted["longest"]
    assert rows[0]["at"] < rows[-1]["at"]
    assert min(one.total() for one in wanted.values()) > 20
