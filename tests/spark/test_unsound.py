"""What the checker is for: the parallel program that it refuses really gives another answer on Spark.

``JoinFilterMap`` runs in parallel and sends its items on unordered; ``LinearInterpolation`` then depends on their order.
The checker refuses that. Past the checker, by hand, Spark runs it, and its answer depends on how the input happened to be
cut, while the program with a sort in between (examples/sensors.py) has one answer.
"""

from __future__ import annotations

import random
from pathlib import Path

import attrs
import pytest
from pyspark.sql import SparkSession

from examples.sensors import LOCATIONS, TEN_SECONDS, JoinFilterMap, LinearInterpolation, Measurement, filled
from tests.spark.support import defined, row, write_lines
from tracetypes import Checked, CheckFailed, Dataflow, Trace, U, Unit, check
from tracetypes.compiler.graph.passes import compile_graph
from tracetypes.compiler.plan.planner import plan_of
from tracetypes.compiler.spark.run import collect
from tracetypes.edges import EdgeType
from tracetypes.nodes import Source
from tracetypes.trace import Element

unsound = Dataflow("unsound")
_hub = unsound.source("hub", U[Unit, Measurement], markers=TEN_SECONDS)
_readings = _hub.through(JoinFilterMap(LOCATIONS))
unsound.sink("filled", _readings.through(LinearInterpolation()))  # type: ignore[arg-type]

CHANCE = random.Random(11)
LINES = [
    row(id=f"sensor-{CHANCE.choice((1, 2, 4))}", scalar=float(CHANCE.randint(0, 99)), ts=n // 2 - CHANCE.randint(0, 8))
    for n in range(150)
]


def unchecked() -> Checked:
    """What the checker would have given for ``unsound``, had it believed that the readings are ordered."""
    types: dict[int, EdgeType] = {}
    sound = check(filled)
    kinds = {node.id: sound.types[node.id] for node in sound.graph.nodes}
    source, mapped, _, interpolated, sink = kinds
    for node, like in zip(unsound.graph.nodes, (source, mapped, interpolated, sink), strict=True):
        types[node.id] = kinds[like]
    return Checked(unsound.graph, types)


def answers(spark: SparkSession, tmp_path: Path, checked: Checked) -> list[Trace[Element]]:
    """The same rows of the same blocks: in one file, in one file in another order, and in four files read by four tasks.

    The source is a ``U`` and the rows lie within the delay: all three are the same data trace.
    """
    ways = ((1, [LINES]), (1, [[*LINES[75:], *LINES[:75]]]), (4, [LINES[at::4] for at in range(4)]))
    found = []
    for number, (parallelism, files) in enumerate(ways):
        directory = tmp_path / f"{len(checked.graph.nodes)}-{number}"
        for at, lines in enumerate(files):
            write_lines(directory / f"{at}.jsonl", lines, at=at + 1)
        compiled = compile_graph(checked, parallelism=parallelism, key_groups=4)
        planned = plan_of(compiled, parallelism=parallelism, key_groups=4)
        found.append(collect(spark, planned, {"hub": str(directory)}).answer.trace)
    return found


@pytest.fixture(autouse=True)
def _nothing_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole input lies within the delay: whatever order it arrives in, it is the same data trace."""
    for flow in (unsound, filled):
        nodes = flow._nodes
        assert isinstance(nodes[0], Source)
        wide = attrs.evolve(TEN_SECONDS, delay=1_000_000_000)
        monkeypatch.setattr(flow, "_nodes", [attrs.evolve(nodes[0], markers=wide), *nodes[1:]])


def test_the_checker_refuses_it() -> None:
    with pytest.raises(CheckFailed) as refused:
        check(unsound)
    (violation,) = refused.value.violations
    assert violation.code == "TT101"
    assert violation.operator == "LinearInterpolation"
    assert "insert .through(sort(by=" in violation.fix


def test_past_the_checker_the_answer_depends_on_arrival(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACETYPES_SPECIFICATION", "")  # the specification of graphs would refuse it, too
    in_order, turned, parallel = answers(spark, tmp_path, unchecked())
    right, _ = defined(filled, {"hub": LINES})
    assert in_order != turned
    assert in_order != parallel
    assert right not in (in_order, turned, parallel)


def test_with_a_sort_there_is_one_answer(spark: SparkSession, tmp_path: Path) -> None:
    right, _ = defined(filled, {"hub": LINES})
    assert answers(spark, tmp_path, check(filled)) == [right] * 3
