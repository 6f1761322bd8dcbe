"""Checked dataflows in a workspace."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tracetypes import Checked, Dataflow, OpKeyedOrdered, OpStateless, U, check, every, sort
from tracetypes import merge as merge_streams
from tracetypes.compiler.workspace.merge import merge, unmerge
from tracetypes.compiler.workspace.running import Running
from tracetypes.compiler.workspace.submission import submission
from tracetypes.gates import sequence
from tracetypes.nodes import title


@attrs.frozen
class Doubled(OpStateless[int, int, int, int]):
    def on_item(self, key: int, value: int, emit: Callable[[int, int], None]) -> None:
        emit(key, 2 * value)


@attrs.frozen
class Summed(OpKeyedOrdered[int, int, int, int]):
    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: int, value: int, emit: Callable[[int], None]) -> int:
        emit(state + value)
        return state + value


def sums(sink: str) -> Checked:
    """Two streams of one source, merged, sorted and summed; and what a gate lets through."""
    flow = Dataflow(sink)
    rows = flow.source("rows", U[int, int], markers=every(seconds=1, time=lambda value: value))
    both = merge_streams(rows, rows.through(Doubled()))
    flow.sink(sink, both.through(sort(by=lambda value: value)).through(Summed()))
    flow.sink(f"{sink}-gated", both.gate(sequence(2)))
    return check(flow)


def identities(checked: Checked) -> dict[int, str | None]:
    """A text for each node: its title, and what is upstream."""
    found: dict[int, str | None] = {}
    for node in checked.graph.nodes:
        above = ",".join(str(found[one]) for one in node.inputs)
        found[node.id] = f"{title(node)}({above})".replace(" ", "")
    return found


def test_operators_of_a_checked_dataflow() -> None:
    checked = sums("one")
    asked = submission("f", checked, identities(checked), start=60, copies={0})
    assert asked.start == 60
    shown = {title(checked.graph.by_id[one.id]): one for one in asked.operators}
    assert {name for name, one in shown.items() if one.keeps_state} == {"Summed", "gate"}
    assert [name for name, one in shown.items() if not one.in_places] == ["merge"]
    assert sum(one.is_sink for one in asked.operators) == 2
    assert [one.id for one in asked.operators if one.copy_is_cheaper] == [0]


def test_two_dataflows_share_all_but_their_sinks() -> None:
    one, other = sums("one"), sums("other")
    running = Running()
    running.apply(merge(running, submission("f", one, identities(one))))
    decision = merge(running, submission("g", other, identities(other)))
    assert len(decision.start) == 2
    assert len(decision.reuse) == len(other.graph.nodes) - 2
    running.apply(decision)
    running.apply(unmerge(running, "f"))
    assert len(running.operators) == len(other.graph.nodes)
