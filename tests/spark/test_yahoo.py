"""The Yahoo queries and the smart-homes pipeline on Spark: the traces that the interpreter defines."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from examples import smart_homes, smart_homes_data, yahoo, yahoo_data
from examples.yahoo import Event
from tests.spark.support import Cli
from tracetypes import Dataflow, Item, check, interpret_rows
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import collect


@attrs.frozen
class World:
    """Generated data in three files."""

    root: Path
    known: yahoo_data.Tables
    events: list[Event]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("yahoo")
    known = yahoo_data.tables(users=40, campaigns=6, ads=5, locations=5)
    yahoo_data.write_events(root / "events", known, events=3_000, files=3, rate=100, skew=True)
    known.write(root / "reference.sqlite")
    rows = [row for path in sorted((root / "events").iterdir()) for row in pq.read_table(path).to_pylist()]
    return World(root, known, [Event(**row) for row in rows])


def flow(world: World, number: int) -> Dataflow:
    """The query; events lie up to 50 ms to either side of their place."""
    match number:
        case 1:
            return yahoo.query_1(str(world.root / "reference.sqlite"), seconds=5, delay=0.1)
        case 2:
            return yahoo.query_2(delay=0.1)
        case 3:
            return yahoo.query_3(world.known, delay=0.1)
        case 4:
            return yahoo.query_4(world.known, delay=0.1)
        case 5:
            return yahoo.query_5(world.known, delay=0.1)
        case _:
            return yahoo.query_6(world.known, delay=0.1, seconds=5)


@pytest.mark.parametrize(
    # The second one runs below, and the fifth one is the fourth one over other windows.
    "number",
    [pytest.param(one, marks=pytest.mark.nightly) if one in (2, 5) else one for one in range(1, 7)],
)
def test_a_query_means_on_spark_what_it_means(spark: SparkSession, world: World, number: int) -> None:
    checked = check(flow(world, number))
    traces, arranged = interpret_rows(checked, {"events": world.events})
    (trace,) = traces.values()
    planned = plan(checked, parallelism=2)
    answer = collect(spark, planned, {"events": str(world.root / "events")}, files_per_step=2).answer
    assert answer.trace == trace
    assert len(answer.late) == len(arranged["events"].late) == 0
    assert sum(isinstance(one, Item) for one in trace) >= 18


@pytest.mark.nightly  # tests/test_smart_homes.py has it on other deployments
def test_smart_homes_mean_on_spark_what_they_mean(spark: SparkSession, tmp_path: Path) -> None:
    smart_homes_data.write(tmp_path, homes=1, seconds=120, files=2)
    rows = smart_homes_data.measurements(smart_homes_data.generate(1, 120))
    (trace,) = interpret_rows(check(smart_homes.flow), {"readings": rows})[0].values()
    planned = plan(check(smart_homes.flow), parallelism=2)
    assert collect(spark, planned, {"readings": str(tmp_path)}, files_per_step=1).answer.trace == trace
    assert sum(isinstance(one, Item) for one in trace) > 300


def test_what_query_2_wrote_is_persisted(cli: Cli, world: World, tmp_path: Path) -> None:
    ran = cli(
        "run",
        "examples/yahoo.py:two",
        "--backend",
        "spark",
        "--input",
        f"events={world.root / 'events'}",
        "--output",
        f"actions={tmp_path / 'out'}",
    )
    assert ran.code == 0, ran.err
    written = [line for part in (tmp_path / "out").glob("part-*") for line in part.read_text().splitlines()]
    late = [line for part in (tmp_path / "out/_late/events").glob("part-*") for line in part.read_text().splitlines()]
    assert yahoo.persist(tmp_path / "out", tmp_path / "actions.sqlite") == 40
    last: dict[str, int] = {}
    for row in map(json.loads, written):
        last[row["key"]] = max(last.get(row["key"], 0), row["views"] + row["clicks"] + row["purchases"])
    assert sum(last.values()) == 3_000 - len(late)
