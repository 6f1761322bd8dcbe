"""Operations on a run's life, on the local backend: with crashes before and after each step of a run."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.local.test_crashes import STEPS
from tests.spark.life import GRAPHS
from tests.spark.test_life import Point, machine
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.local.log import LocalLog

POINTS: Final[dict[str, Point]] = {
    f"{'before' if first else 'after'} {owner.__name__}.{name}": (owner, name, first, 0)
    for owner, name in STEPS
    for first in (True, False)
}

FEW = settings(
    max_examples=15, stateful_step_count=8, phases=[Phase.generate], derandomize=True, database=None, deadline=None
)
MANY = settings(max_examples=300, stateful_step_count=12, phases=[Phase.generate], print_blob=True, deadline=None)
"""Without shrinking: the story of a life says what happened."""


def test_a_few_lives(spark: LocalBackend) -> None:
    run_state_machine_as_test(machine(spark, list(GRAPHS), POINTS, LocalLog), settings=FEW)  # type: ignore[arg-type]


@pytest.mark.nightly
@pytest.mark.parametrize("graph", GRAPHS)
def test_many_lives(spark: LocalBackend, graph: str) -> None:
    run_state_machine_as_test(machine(spark, [graph], POINTS, LocalLog), settings=MANY)  # type: ignore[arg-type]
