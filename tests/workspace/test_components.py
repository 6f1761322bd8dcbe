"""Components are those of a search through the whole graph, whenever somebody asks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.workspace import components
from tracetypes.compiler.workspace.components import Components

STEPS = st.lists(
    st.tuples(st.sampled_from(("add", "add", "remove", "remove", "ask one", "ask all")), st.lists(st.integers(0, 9), max_size=3)),
    max_size=40,
)
"""``add``: a node that reads nodes; ``remove``: one that nobody reads; numbers choose them."""


def searched(inputs: dict[int, tuple[int, ...]]) -> set[frozenset[int]]:
    """The components, by sets that are joined."""
    found = {node: {node} for node in inputs}
    for node, above in inputs.items():
        for one in above:
            joined = found[node] | found[one]
            for each in joined:
                found[each] = joined
    return {frozenset(one) for one in found.values()}


@pytest.mark.parametrize("spare", [components.SPARE, 0])
@given(STEPS)
def test_components(spare: int, steps: list[tuple[str, list[int]]]) -> None:
    """Labels stay true although nobody asks for a while, and when they are forgotten."""
    inputs: dict[int, tuple[int, ...]] = {}
    graph: Components[int] = Components()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(components, "SPARE", spare)
        for number, (what, numbers) in enumerate([*steps, ("ask all", [])]):
            nodes = list(inputs)
            if what == "add":
                inputs[number] = tuple(nodes[-1 - one] for one in numbers if one < len(nodes))
                graph.add(number, inputs[number])
            elif what == "remove":
                read = {one for above in inputs.values() for one in above}
                leaves = [one for one in nodes if one not in read]
                if leaves:
                    gone = leaves[-1 - sum(numbers) % len(leaves)]
                    graph.remove(gone)
                    del inputs[gone]
            elif what == "ask one":
                if nodes:
                    one = nodes[sum(numbers) % len(nodes)]
                    (same,) = (part for part in searched(inputs) if one in part)
                    assert {other for other in nodes if graph.of(other) == graph.of(one)} == same
                    assert graph.size(one) == len(same)
            else:
                assert set(map(frozenset, graph.all())) == searched(inputs)


def test_labels_that_nobody_has_are_forgotten() -> None:
    graph: Components[int] = Components()
    for number in range(3 * components.SPARE):
        graph.add(number, ())
        graph.remove(number)
    assert len(graph._parent) <= components.SPARE + 1
