"""Broken graphs and plans are caught, each by the rule that it breaks; the rules themselves hold in all other tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tests.graphs import RunningSum, Scale, Total
from tracetypes import Checked, Dataflow, U, check, every, merge, sort
from tracetypes.compiler.graph.passes import compile_graph, passes
from tracetypes.compiler.graph.passes import drop_splitters as dropping
from tracetypes.compiler.graph.specification import GRAPH, IllFormed, problems, require
from tracetypes.compiler.plan.plan import FromSource, FromStage, MergeStep, Plan, Region, StatelessStep
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.plan.specification import PLAN
from tracetypes.edges import EdgeType
from tracetypes.nodes import Apply, Fused, Gather, Graph, Merge, Node, Restore, Sink, Sort, Split

TICKS = every(seconds=1, time=lambda value: 0)


def sample() -> Checked:
    """Two sources, a merge, operators of all templates, an order that is made and one that is restored."""
    flow = Dataflow("sample")
    one, two = (flow.source(name, U[int, int], markers=TICKS) for name in ("one", "two"))
    doubled = one.through(Scale[int](factor=2))
    summed = merge(doubled, two).through(Total[int]())
    flow.sink("out", summed.through(sort(by=abs)).through(RunningSum[int]()).through(Scale[int](factor=3)))
    return check(flow)


def with_nodes(checked: Checked, change: Callable[[Node], Node | None], types: dict[int, EdgeType] | None = None) -> Checked:
    """The graph with other nodes; None leaves one out."""
    nodes = [made for node in checked.graph.nodes if (made := change(node)) is not None]
    return Checked(Graph("broken", tuple(nodes)), {**checked.types, **(types or {})})


def on(kind: type[Any], **fields: Any) -> Callable[[Node], Node]:
    """Give the first node of a kind other fields."""
    seen: list[Node] = []

    def change(node: Node) -> Node:
        if not isinstance(node, kind) or seen:
            return node
        seen.append(node)
        made: Node = attrs.evolve(node, **fields)
        return made

    return change


def number(checked: Checked, kind: type[Any]) -> int:
    found: list[Node] = [node for node in checked.graph.nodes if isinstance(node, kind)]
    return found[0].id


def parallel() -> Checked:
    return passes(parallelism=2, key_groups=3)[0].run(sample())


def test_what_is_well_formed_passes() -> None:
    checked = sample()
    assert problems(GRAPH, checked) == []
    for one in passes(parallelism=2, key_groups=3):
        checked = one.run(checked)
        assert problems(GRAPH, checked) == []
    assert problems(PLAN, plan(sample(), parallelism=2, key_groups=3)) == []


def no_hash(node: Node) -> Node:
    """What a pass would make that takes one splitter for another."""
    return attrs.evolve(node, how="RR") if isinstance(node, Split) else node


BROKEN_GRAPHS: dict[str, tuple[str, Callable[[], Checked]]] = {
    "two of a number": ("each number", lambda: with_nodes(sample(), on(Merge, id=0))),
    "a chain of one": (
        "a fused node",
        lambda: with_nodes(sample(), lambda n: Fused(id=n.id, where=n.where, inputs=n.inputs, steps=(n,))),
    ),
    "a loop": ("inputs come before", lambda: with_nodes(sample(), on(Merge, inputs=(0, 99)))),
    "a sink of two": ("a node has the inputs", lambda: with_nodes(sample(), on(Sink, inputs=(0, 1)))),
    "a merge of none": ("a node has the inputs", lambda: with_nodes(sample(), on(Merge, inputs=()))),
    "no sink": ("what is no sink", lambda: with_nodes(sample(), lambda n: None if isinstance(n, Sink) else n)),
    "no type": ("every edge has a type", lambda: Checked(sample().graph, {})),
    "another type": (
        "an edge has the type",
        lambda: with_nodes(sample(), lambda n: n, {number(sample(), Merge): EdgeType(False, int, str)}),
    ),
    "an order from nowhere": (
        "an edge has the type",
        lambda: with_nodes(sample(), lambda n: n, {number(sample(), Merge): EdgeType(True, int, int)}),
    ),
    "no sort": (
        "an edge has the type",
        lambda: with_nodes(sample(), lambda n: Restore(id=n.id, where=n.where, inputs=n.inputs) if isinstance(n, Sort) else n),
    ),
    "RR for HASH": ("keyed nodes", lambda: with_nodes(parallel(), no_hash)),
    "a gather too many": (
        "keyed nodes",
        lambda: with_nodes(sample(), gathered),
    ),
    "channels at a sink": ("keyed nodes", lambda: with_nodes(parallel(), ungathered_sink)),
    "merged channels": ("keyed nodes", lambda: with_nodes(parallel(), split_under_merge(parallel()))),
}


def gathered(node: Node) -> Node:
    """A merge of several streams becomes one of channels."""
    return Gather(id=node.id, where=node.where, inputs=node.inputs[:1]) if isinstance(node, Merge) else node


def ungathered_sink(node: Node) -> Node:
    """The sink reads what its gather reads."""
    if not isinstance(node, Sink):
        return node
    gather = parallel().graph.node(node.inputs[0])
    return attrs.evolve(node, inputs=gather.inputs)


def split_under_merge(checked: Checked) -> Callable[[Node], Node]:
    """The merge reads one input before it is gathered."""

    def change(node: Node) -> Node:
        if not isinstance(node, Merge):
            return node
        first, *others = node.inputs
        return attrs.evolve(node, inputs=(*checked.graph.node(first).inputs, *others))

    return change


@pytest.mark.parametrize("name", BROKEN_GRAPHS)
def test_a_broken_graph_is_caught_by_its_rule(name: str) -> None:
    rule, make = BROKEN_GRAPHS[name]
    broken = make()
    if name in ("channels at a sink", "merged channels"):  # somebody has to read the gather that is left out
        read = {upstream for node in broken.graph.nodes for upstream in node.inputs}
        broken = with_nodes(broken, lambda n: n if n.id in read or isinstance(n, Sink) else None)
    found = problems(GRAPH, broken)
    assert found
    assert all(one.startswith(rule) for one in found), found


def test_every_rule_of_graphs_is_broken_by_one() -> None:
    assert all(any(rule.says.startswith(begins) for begins, _ in BROKEN_GRAPHS.values()) for rule in GRAPH)


def test_a_wrong_pass_is_caught_where_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping every HASH behind a MRG, whatever became of the keys."""
    monkeypatch.setattr(dropping, "_hashed_alike", lambda node, split, by_id: True)
    with pytest.raises(IllFormed, match="drop splitters made is not well-formed\n    keyed nodes find"):
        compile_graph(sample(), parallelism=2, key_groups=3)
    monkeypatch.setenv("TRACETYPES_SPECIFICATION", "")
    compile_graph(sample(), parallelism=2, key_groups=3)


# ---------------------------------------------------------------------------------------------------- plans


def planned() -> Plan:
    return plan(sample(), parallelism=2, key_groups=3)


def with_stage(at: int, **fields: Any) -> Plan:
    made = planned()
    stages = list(made.stages)
    stages[at] = attrs.evolve(stages[at], **fields)
    return attrs.evolve(made, stages=tuple(stages))


def with_region(at: int, change: Callable[[Any], Any]) -> Plan:
    """Change the nodes on the way to a stage."""
    return with_stage(at, region=Region(tuple(change(node) for node in planned().stages[at].region.nodes)))


def on_node(kind: type[Any], **fields: Any) -> Callable[[Any], Any]:
    return lambda node: attrs.evolve(node, **fields) if isinstance(node, kind) else node


def second(**fields: Any) -> tuple[Any, ...]:
    """The steps of the second stage, the first of them with other fields."""
    first, *others = planned().stages[1].steps
    return (attrs.evolve(first, **fields), *others)


def of_kind(kind: type[Any]) -> Any:
    return next(node for stage in planned().stages for node in stage.region.nodes if isinstance(node, kind))


BROKEN_PLANS: dict[str, tuple[str, Callable[[], Plan]]] = {
    "no stage": ("stages are numbered", lambda: attrs.evolve(planned(), stages=())),
    "another number": ("stages are numbered", lambda: with_stage(0, number=1)),
    "a node that is not read": ("a region is a tree", lambda: with_region(0, on_node(MergeStep, upstreams=(0,)))),
    "a node that reads itself": ("a region is a tree", lambda: with_region(0, on_node(StatelessStep, upstream=7))),
    "an empty region": ("a region is a tree", lambda: with_stage(0, region=Region(()))),
    "a stage that reads itself": ("a stage reads earlier ones", lambda: with_region(1, on_node(FromStage, stage=1))),
    "a stage read twice": (
        "a stage reads earlier ones",
        lambda: attrs.evolve(planned(), region=Region(tuple(map(on_node(FromStage, stage=0), planned().region.nodes)))),
    ),
    "a source at the sink": (
        "a stage reads earlier ones",
        lambda: attrs.evolve(planned(), region=Region((of_kind(FromSource),))),
    ),
    "a merge at the sink": (
        "between the last stage",
        lambda: attrs.evolve(
            planned(),
            region=Region(
                (*planned().region.nodes, attrs.evolve(of_kind(MergeStep), upstreams=(len(planned().region.nodes) - 1,)))
            ),
        ),
    ),
    "a keyed operator on a link": (
        "stages run keyed operators",
        lambda: with_region(0, on_node(StatelessStep, node=next(s.node for s in planned().stages[0].steps))),
    ),
    "a stateless operator in a stage": (
        "stages run keyed operators",
        lambda: with_stage(1, steps=second(node=of_kind(StatelessStep).node)),
    ),
    "another stream": ("an operator takes", lambda: with_stage(1, takes=planned().stages[1].gives)),
    "no operators": ("an operator takes", lambda: with_stage(1, steps=())),
    "no sort": ("behind an exchange", lambda: with_stage(1, steps=planned().stages[1].steps[1:])),
    "too many tasks": ("a stage has tasks", lambda: with_stage(0, parallelism=4)),
    "no task": ("a stage has tasks", lambda: with_stage(0, parallelism=0)),
    "one name": (
        "readings have names",
        lambda: with_region(0, on_node(FromSource, source=of_kind(FromSource).source)),
    ),
}


@pytest.mark.parametrize("name", BROKEN_PLANS)
def test_a_broken_plan_is_caught_by_its_rule(name: str) -> None:
    rule, make = BROKEN_PLANS[name]
    found = problems(PLAN, make())
    assert found
    assert all(one.startswith(rule) for one in found), found
    with pytest.raises(IllFormed, match=rule):
        require(PLAN, make(), "the planner")


def test_every_rule_of_plans_is_broken_by_one() -> None:
    assert all(any(rule.says.startswith(begins) for begins, _ in BROKEN_PLANS.values()) for rule in PLAN)


def test_the_sample_has_what_the_mutants_change() -> None:
    made = planned()
    assert len(made.stages) == 2
    assert [type(step.node) for step in made.stages[1].steps] == [Sort, Apply]
