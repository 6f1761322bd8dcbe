"""Sources with ``ahead=`` and ``per=`` on Spark: what is held, and the senders, are in the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.test_clocks import check_held_in_a_stateless_flow, check_runs

pytestmark = pytest.mark.spark


NIGHTLY = [pytest.param(name, marks=pytest.mark.nightly) for name in ("held across runs", "without ahead")]
"""tests/test_clocks.py has these every time."""


@pytest.mark.parametrize("name", [*NIGHTLY, "by sender"])
def test_a_clock_goes_on_in_the_next_run(spark: SparkSession, tmp_path: Path, name: str) -> None:
    check_runs(name, tmp_path, "spark")


def test_a_stateless_flow_accepts_what_is_held(spark: SparkSession, tmp_path: Path) -> None:
    check_held_in_a_stateless_flow(tmp_path, "spark")
