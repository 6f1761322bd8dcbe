"""Scripted sources on Spark, with crashes that are real."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.spark import dags, flows
from tests.test_recovery import FIRST, SCRIPT
from tracetypes import Dataflow, OperatorFailed
from tracetypes.testing import Script, check_recovery, run_scripts


def test_something_raises_and_a_worker_and_the_driver_are_killed() -> None:
    assert check_recovery(flows.delayed, {"readings": FIRST}, on="spark").crashes == 3


@pytest.mark.nightly
@pytest.mark.parametrize("graph", [lambda: flows.delayed, dags.diamond])
def test_a_worker_the_driver_and_the_jvm_are_killed(graph: Callable[[], Dataflow]) -> None:
    flow = graph()
    ran = check_recovery(flow, {source.name: SCRIPT for source in flow.graph.sources}, on="spark")
    assert ran.crashes == 4 * len(flow.graph.sources)


@pytest.mark.nightly
def test_what_a_run_raises_by_itself_is_raised() -> None:
    script = Script().rows(flows.Reading("a", 1, -1), flows.Reading("a", 1, 0)).crash("raise")
    flow = Dataflow("fails")
    rows = flow.source("readings", dags.EDGE, key=flows.id_of, markers=flows.TEN)
    flow.sink("out", rows.through(flows.Fragile("/")))
    with pytest.raises(OperatorFailed, match="Fragile"):
        run_scripts(flow, {"readings": script}, on="spark")
