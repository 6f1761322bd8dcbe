"""Random Python programs as Catalyst's columns: many in one query, which gives what Python gives or leaves a row to it."""

from __future__ import annotations

import functools
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.grammar.judging import LIMIT, OUT, ROW, STRING, Tally, Wrong, answers_of, same, source_of
from tests.grammar.modules import imported
from tests.grammar.table import TABLE
from tests.grammar.writer import Text, texts
from tests.test_programs import many, tell
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.spark.catalyst import NativeTree, tree
from tracetypes.compiler.spark.catalyst_operations import NotNative
from tracetypes.compiler.tracing.expr import Input
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace

EACH = 40
"""Programs of one query."""


@attrs.frozen
class Native:
    """A program as columns, and what Python says."""

    source: str
    columns: NativeTree
    wanted: list[Any]


def find(one: Input) -> Column:
    """An input of the table."""
    name, *path = one.path
    return functools.reduce(lambda found, step: found[step], path, F.lit("k") if name == "key" else F.col("v"))


def natives(count: int, depth: int, tally: Tally) -> list[Native]:
    """What of so many programs Spark can compute."""
    found: list[Native] = []

    @many(count)
    @given(texts("program", grammar="native", depth=depth))
    def drawn(text: Text) -> None:
        source = source_of(text, "body")
        tally.programs += 1
        with imported(source) as module:
            wanted = answers_of(module.program, "body", TABLE)
            try:
                traced = trace(module.program, (Given("key", STRING), Given("v", ROW)), emits="pairs", limit=LIMIT)
                found.append(Native(source, tree(traced, find, STRING, OUT), wanted))
            except (Untraceable, NotNative) as why:
                tally.refused[str(why)] += 1
            else:
                tally.traced += 1

    drawn()
    return found


def compare(frame: DataFrame, programs: list[Native], tally: Tally) -> None:
    """One query of these programs."""
    columns = []
    for n, one in enumerate(programs):
        undefined = F.lit(False) if one.columns.undefined is None else one.columns.undefined
        columns += [one.columns.pairs.alias(f"pairs{n}"), undefined.alias(f"undefined{n}")]
    answer = frame.select("number", *columns).toArrow().sort_by("number")
    for n, one in enumerate(programs):
        pairs = answer.column(f"pairs{n}").combine_chunks()
        for place, undefined in enumerate(answer.column(f"undefined{n}").to_pylist()):
            right = one.wanted[place]
            tally.rows += right is not None
            assert undefined is not None
            if undefined:
                continue
            tally.answered += right is not None
            here = pairs.slice(place, 1).flatten()
            keys, values = here.field("key").to_pylist(), from_array(OUT, here.field("value"))
            try:
                same("Catalyst", place, right, list(zip(keys, values, strict=True)), "body")
            except Wrong as wrong:
                tally.wrong += 1
                raise Wrong(f"{wrong}\n{one.source}") from None


def run(spark: SparkSession, count: int, depth: int, request: pytest.FixtureRequest) -> Tally:
    """Judge so many programs."""
    data = pa.table({"number": pa.array(range(len(TABLE))), "v": array(ROW, list(TABLE))})
    frame, tally = spark.createDataFrame(data), Tally()
    programs = natives(count, depth, tally)
    for at in range(0, len(programs), EACH):
        compare(frame, programs[at : at + EACH], tally)
    tell(request, tally)
    return tally


def test_programs_on_catalyst(spark: SparkSession, request: pytest.FixtureRequest) -> None:
    tally = run(spark, EACH // 2, 2, request)
    assert tally.traced >= 0.6 * tally.programs, tally.refused.most_common(20)
    assert tally.answered >= 0.8 * tally.rows


@pytest.mark.nightly
def test_many_programs_on_catalyst(spark: SparkSession, request: pytest.FixtureRequest) -> None:
    for _ in range(10):
        tally = run(spark, 1_000, 3, request)
        assert tally.traced >= 0.5 * tally.programs
