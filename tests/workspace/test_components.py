"""Components are those of a search through the whole graph, whenever somebody asks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.workspace import components
from tracetypes.compiler.workspace.components import Components

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("source", "read one", "read two", "read two", "remove", "remove", "ask one", "ask all")),
        st.integers(0, 20),
        st.integers(0, 20),
    ),
    min_size=12,
    max_size=40,
)
"""``read``: a node that reads nodes comes; ``remove``: one that nobody reads goes. Numbers choose them."""


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
def test_components(spare: int, steps: list[tuple[str, int, int]]) -> None:
    """Labels stay true although nobody asks for a while, and when they are forgotten."""
    inputs: dict[int, tuple[int, ...]] = {}
    graph: Components[int] = Components()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(components, "SPARE", spare)
        for number, (what, first, second) in enumerate([*steps, ("ask all", 0, 0)]):
            nodes = list(inputs)
            if what == "source" or (what.startswith("read") and not nodes):
                inputs[number] = ()
                graph.add(number, ())
            elif what.startswith("read"):
                chosen = (first,) if what == "read one" else (first, second)
                inputs[number] = tuple(nodes[one % len(nodes)] for one in chosen)
                graph.add(number, inputs[number])
            elif what == "remove":
                leaves = [one for one in nodes if not any(one in above for above in inputs.values())]
                if leaves:
                    gone = leaves[first % len(leaves)]
                    graph.remove(gone)
                    del inputs[gone]
            elif what == "ask one":
                if nodes:
                    one = nodes[first % len(nodes)]
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


def test_nodes_stay_apart_when_labels_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "SPARE", 0)
    graph: Components[int] = Components()
    for number in range(5):
        graph.add(number, ())
    for number in range(3):
        graph.remove(number)
    assert graph._parent == [0]
    graph.add(5, (3,))
    assert sorted(map(sorted, graph.all())) == [[3, 5], [4]]
