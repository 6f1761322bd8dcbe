"""Gates on Spark and on the local backend, with the same rows: the same executions, and the same outputs to the byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tracetypes
from examples import air_quality, air_quality_data
from examples.air_quality import Bounds, Reading
from tracetypes import train_gates
from tracetypes.gates import Bound, sequence, value
from tracetypes.learned_gates import Model, learned
from tracetypes.results import GateReport

SIDE, WAVES, TRAINED = 8, 12, 60
ERROR = 0.1
STEPS = {"c": "zones", "e": "hot spots", "f": "index"}


def gates_that_learn(model: Model | None) -> Bounds:
    return Bounds(**{gate: learned(step, error=ERROR, columns="level", model=model) for gate, step in STEPS.items()})


@cache
def trained(directory: Path) -> Model:
    rows = [Reading(**row) for row in air_quality_data.table(side=SIDE, waves=TRAINED, seed=2).to_pylist()]
    return train_gates(air_quality.flow(gates_that_learn(None), SIDE), {"readings": rows}, directory, trees=20).model


def bounds_of(kind: str, directory: Path) -> Bounds:
    """A configuration of each kind of gate."""
    one: Mapping[str, Bound]
    match kind:
        case "value":
            one = dict.fromkeys("cdef", value(percent=10, columns="level"))
        case "sequence":
            one = {"c": sequence(percent=80), "d": sequence(200), "e": sequence(percent=80), "f": sequence(percent=20)}
        case _:
            pytest.importorskip("sklearn", reason="scikit-learn is not installed")
            return gates_that_learn(trained(directory))
    return Bounds(**one)


def answers(backend: str, bounds: Bounds, rows: Path, root: Path) -> tuple[Mapping[str, GateReport], Mapping[str, Sequence[str]]]:
    """What the gates did, and the sorted lines of each output."""
    outputs = {name: str(root / name) for name in ("chart", "hot_spots", "index")}
    options: dict[str, Any] = {"backend": backend, "parallelism": 2, "key_groups": 4}
    result = tracetypes.run(air_quality.flow(bounds, SIDE), {"readings": str(rows)}, outputs, **options)
    lines = {
        name: sorted(line for file in Path(path).glob("*.jsonl") for line in file.read_text().splitlines())
        for name, path in outputs.items()
    }
    return result.gates, lines


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["value", "sequence", "learned"])
def test_the_same_trace_has_the_same_executions_and_outputs(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    air_quality_data.write(tmp_path / "in", side=SIDE, waves=WAVES, files=4, tendency="falling")
    bounds = bounds_of(kind, tmp_path / "models")
    sides = [answers(backend, bounds, tmp_path / "in", tmp_path / backend) for backend in ("local", "spark")]
    (local, lines), (on_spark, lines_of_spark) = sides
    assert lines_of_spark == lines
    assert all(lines.values())
    assert on_spark == local
    assert sum(one.saved for one in local.values()) > 0
