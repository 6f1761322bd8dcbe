"""What segments use is divided among the flows that need them, and nothing is lost or counted twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.workspace.flow_costs import FlowCosts

SEGMENTS = ("source", "window", "ann", "bob")
NEEDS = {"ann": ("source", "window", "ann"), "bob": ("source", "window", "bob"), "cat": ("source",)}


def workspace(flows: set[str], used: dict[str, float], starts: dict[str, Any]) -> Any:
    """A workspace with some flows. ``used``: by the last start of each segment, in seconds."""
    for name in SEGMENTS:
        starts[name].processor_seconds = used[name]
    hosted = {one: SimpleNamespace(running=starts[one], segment=SimpleNamespace(root=one)) for one in SEGMENTS}
    of_name = {name: SimpleNamespace(name=name, needs=NEEDS[name]) for name in flows}
    return SimpleNamespace(running=SimpleNamespace(flows=of_name), host=SimpleNamespace(segments=hosted))


@given(st.lists(st.tuples(st.sets(st.sampled_from(sorted(NEEDS))), st.sets(st.sampled_from(SEGMENTS))), max_size=8))
def test_shares_add_up(steps: list[tuple[set[str], set[str]]]) -> None:
    """Between two looks each segment uses a second. Some are started anew, and then count from 0."""
    used, starts = dict.fromkeys(SEGMENTS, 0.0), {one: SimpleNamespace() for one in SEGMENTS}
    costs = FlowCosts(workspace(set(), used, starts))
    costs.look()
    share, alone = dict.fromkeys(NEEDS, 0.0), dict.fromkeys(NEEDS, 0.0)
    for flows, again in steps:
        for one in again:
            starts[one], used[one] = SimpleNamespace(), 0.0
        used = {one: seconds + 1 for one, seconds in used.items()}
        costs.reconciler = workspace(flows, used, starts)
        costs.look()
        for name in NEEDS.keys() - flows:
            share[name] = alone[name] = 0.0  # it is forgotten
        for name in flows:
            share[name] += sum(1 / sum(one in NEEDS[each] for each in flows) for one in NEEDS[name])
            alone[name] += len(NEEDS[name])
        for name in flows:
            assert abs(costs.of(name).share - share[name]) < 1e-9
            assert abs(costs.of(name).saved - (alone[name] - share[name])) < 1e-9
        present = sum(costs.of(name).share for name in flows)
        assert abs(present + costs.left - costs.total) < 1e-9  # nothing is lost
        assert abs(sum(costs.of_operator(one) for one in SEGMENTS) - costs.total) < 1e-9


def test_a_flow_that_is_not_there_costs_nothing() -> None:
    costs = FlowCosts(workspace(set(), dict.fromkeys(SEGMENTS, 0.0), {one: SimpleNamespace() for one in SEGMENTS}))
    assert (costs.of("ann").share, costs.of("ann").saved) == (0.0, 0.0)
