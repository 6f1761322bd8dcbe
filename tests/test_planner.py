"""Plans of known dataflows: their stages, links and parallelism, and what cannot be planned."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from examples import sensors
from tests.graphs import (
    Announce,
    Case,
    Clocked,
    Keep,
    Left,
    OrderHash,
    Right,
    RunningSum,
    Scale,
    Spread,
    Total,
    cases,
    modulo_three,
    own_value,
)
from tracetypes import ROW_POSITION, Dataflow, O, U, UsageError, check, every, merge, sort
from tracetypes.compiler.graph.passes import passes
from tracetypes.compiler.plan.plan import (
    FromChannel,
    FromSource,
    FromStage,
    Leaf,
    MergeStep,
    Plan,
    Region,
    StatelessStep,
    links,
)
from tracetypes.compiler.plan.planner import DEFAULT_KEY_GROUPS, plan, plan_of
from tracetypes.nodes import Apply, Restore, title

EVERY = every(seconds=1, time=own_value)


def flow_of(build: Any, edge: Any = U[int, int], **more: Any) -> Dataflow:
    flow = Dataflow("example")
    flow.sink("out", build(flow.source("s", edge, markers=EVERY, **more)))
    return flow


def source(flow: Dataflow, name: str) -> Any:
    return flow.source(name, U[int, int], markers=EVERY)


def shape(plan: Plan) -> str:
    """A plan as text: stages in order, what is left for the sink."""
    stages = [f"{region(stage.region)} => [{' ; '.join(title(s.node) for s in stage.steps)}]" for stage in plan.stages]
    return " | ".join([*stages, region(plan.region)])


def region(one: Region) -> str:
    shown: list[str] = []
    for node in one.nodes:
        shown.append(node_of(node, shown))
    return shown[-1]


def node_of(one: Leaf | StatelessStep | MergeStep, shown: list[str]) -> str:
    match one:
        case FromSource(source=source):
            return source.name
        case FromChannel(name=name):
            return f"<{name}>"
        case FromStage(stage=stage):
            return f"#{stage}"
        case StatelessStep():
            return f"{shown[one.upstream]} {title(one.node)}"
        case MergeStep():
            return f"({' + '.join(shown[at] for at in one.upstreams)})"


def planned(build: Any, edge: Any = U[int, int], *, parallelism: int = 1, **more: Any) -> str:
    return shape(plan(check(flow_of(build, edge, **more)), parallelism=parallelism))


def test_the_plans_of_the_sensors() -> None:
    filled = plan(check(sensors.filled), parallelism=4)
    assert shape(filled) == "hub JoinFilterMap => [sort ; LinearInterpolation] | #0"
    assert [stage.parallelism for stage in filled.stages] == [4]
    assert (filled.parallelism, filled.key_groups, filled.name) == (4, DEFAULT_KEY_GROUPS, "filled")
    assert str(filled.edge) == "O[str, Reading]"
    largest = plan(check(sensors.largest))
    assert shape(largest) == "hub JoinFilterMap => [MaxOfAverages] | #0"
    assert [leaf.source.name for leaf in largest.sources] == ["hub"]


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda s: s, "s => [] | #0"),
        (lambda s: s.through(Scale(2)), "s Scale => [] | #0"),
        (lambda s: s.through(Announce((1,))).through(Keep(2)), "s Announce Keep => [] | #0"),
        (lambda s: s.through(Total()), "s => [Total] | #0"),
        (lambda s: s.through(Total()).through(Scale(2)), "s => [Total] | #0 Scale"),
        (lambda s: s.through(Total()).through(Clocked()), "s => [Total] | #0 => [Clocked] | #1"),
        (lambda s: s.through(Spread()).through(Scale(2)).through(Total()), "s => [Spread] | #0 Scale => [Total] | #1"),
        (
            lambda s: s.through(sort(by=modulo_three)).through(OrderHash()).through(RunningSum()).through(Total()),
            "s => [sort ; OrderHash ; RunningSum ; Total] | #0",
        ),
        (
            lambda s: s.through(sort(by=modulo_three)).through(Total()).through(sort(by=modulo_three)),
            "s => [sort ; Total] | #0 => [sort] | #1",
        ),
    ],
)
def test_stages_of_a_chain(build: Any, wanted: str) -> None:
    assert planned(build) == wanted


def test_stages_behind_an_ordered_source() -> None:
    def of(build: Any) -> str:
        return planned(build, O[int, int], ordered_by=ROW_POSITION)

    assert of(lambda s: s) == "s => [SORT by position] | #0"
    assert of(lambda s: s.through(RunningSum())) == "s => [SORT by position ; RunningSum] | #0"
    assert of(lambda s: s.through(Total())) == "s => [Total] | #0"
    assert of(lambda s: s.through(Scale(2))) == "s Scale => [] | #0"


def merged(build: Any, *edges: Any, **more: Any) -> str:
    flow = Dataflow("merged")
    flow.sink("out", build(*[flow.source("abc"[at], e, markers=EVERY, **more) for at, e in enumerate(edges)]))
    return shape(plan(check(flow)))


NUMBERS = U[int, int]


def test_stages_around_merges() -> None:
    assert merged(lambda a, b: merge(a, b.through(Scale(2))).through(Total()), NUMBERS, NUMBERS) == (
        "(a + b Scale) => [Total] | #0"
    )
    assert merged(lambda a, b: merge(a, b).through(Scale(2)), NUMBERS, NUMBERS) == "(a + b) Scale => [] | #0"
    assert merged(lambda a, b, c: merge(merge(a, b), c).through(Total()), NUMBERS, NUMBERS, NUMBERS) == (
        "((a + b) + c) => [Total] | #0"
    )
    assert merged(lambda a, b: merge(a.through(Total()), b).through(Clocked()), NUMBERS, NUMBERS) == (
        "a => [Total] | (#0 + b) => [Clocked] | #1"
    )


def test_a_merge_of_stages_before_the_sink_is_a_stage_and_the_stages_are_made_once() -> None:
    assert merged(lambda a, b: merge(a.through(Total()), b.through(Clocked())), NUMBERS, NUMBERS) == (
        "a => [Total] | b => [Clocked] | (#0 + #1) => [] | #2"
    )
    ordered = merged(
        lambda a, b: merge(a.through(sort(by=modulo_three)), b.through(sort(by=modulo_three))),
        U[Left, int],
        U[Right, int],
    )
    assert ordered == "a => [sort] | b => [sort] | (#0 + #1) => [SORT by position] | #2"


def test_links_are_numbered_from_the_left_with_the_operators_on_their_way() -> None:
    flow = Dataflow("links")
    a, b = (source(flow, name) for name in "ab")
    flow.sink("out", merge(a.through(Keep(2)).through(Scale(3)), b).through(Announce((1,))).through(Total[int]()))
    (stage,) = plan(check(flow)).stages
    shown = [(link.number, node_of(link.leaf, []), [title(m.node) for m in link.path]) for link in links(stage.region)]
    assert shown == [(0, "a", ["Keep", "Scale", "Announce"]), (1, "b", ["Announce"])]


# ------------------------------------------------------------------------------------------------- parallelism


def test_a_stage_is_as_parallel_as_the_run_unless_its_operators_say() -> None:
    def widths(build: Any, parallelism: int = 2) -> list[int]:
        return [stage.parallelism for stage in plan(check(flow_of(build)), parallelism=parallelism).stages]

    assert widths(lambda s: s.through(Total())) == [2]
    assert widths(lambda s: s.through(Total(), parallelism=5)) == [5]
    assert widths(lambda s: s.through(Total(), parallelism=1)) == [1]
    assert widths(lambda s: s.through(sort(by=modulo_three), parallelism=3).through(RunningSum(), parallelism=7)) == [7]
    assert widths(lambda s: s.through(Total(), parallelism=3).through(Clocked())) == [3, 2]
    assert widths(lambda s: s.through(Total(), parallelism=1_000)) == [DEFAULT_KEY_GROUPS]


@pytest.mark.parametrize(("parallelism", "key_groups"), [(0, 16), (-1, 16), (1, 0), (1, -3), (17, 16), (3, 2)])
def test_more_parallelism_than_key_groups_is_refused(parallelism: int, key_groups: int) -> None:
    with pytest.raises(UsageError) as refused:
        plan(check(flow_of(lambda s: s)), parallelism=parallelism, key_groups=key_groups)
    assert refused.value.code == "TT404"
    assert refused.value.fix


def test_as_much_parallelism_as_key_groups_is_fine() -> None:
    assert plan(check(flow_of(lambda s: s)), parallelism=3, key_groups=3).key_groups == 3


# ----------------------------------------------------------------------------------------------------- refused


def test_several_consumers_are_refused_by_name() -> None:
    flow = Dataflow("fan-out")
    shared = source(flow, "s").through(Scale(2))
    flow.sink("out", merge(shared.through(Keep(2)), shared.through(Total())))
    with pytest.raises(UsageError, match=r"Scale .* has 2 consumers .Keep .*, Total ") as refused:
        plan(check(flow))
    assert refused.value.code == "TT405"


def test_a_stream_that_is_merged_with_itself_is_refused() -> None:
    flow = Dataflow("twice")
    source = flow.source("s", NUMBERS, markers=EVERY)
    flow.sink("out", merge(source, source))
    with pytest.raises(UsageError, match=r"source 's' .* has 2 consumers") as refused:
        plan(check(flow))
    assert refused.value.code == "TT405"


def test_several_sinks_are_refused_by_name() -> None:
    flow = Dataflow("sinks")
    for name in ("one", "two"):
        flow.sink(name, flow.source(f"s-{name}", NUMBERS, markers=EVERY))
    with pytest.raises(UsageError, match=r"'sinks' has 2 sinks \(one, two\)") as refused:
        plan(check(flow))
    assert refused.value.code == "TT405"


# ---------------------------------------------------------------------------------------------------- any plan


def well_formed(plan: Plan, case: Case) -> None:
    assert [stage.number for stage in plan.stages] == list(range(len(plan.stages)))
    read: list[int] = []
    for stage in plan.stages:
        for link in links(stage.region):
            if isinstance(link.leaf, FromStage):
                assert link.leaf.stage < stage.number
                read.append(link.leaf.stage)
            assert not (stage.restores and link.path)
        for at, node in enumerate(stage.region.nodes):
            if isinstance(node, StatelessStep):
                assert node.upstream < at
                assert node.takes == stage.region.nodes[node.upstream].stream
            if isinstance(node, MergeStep):
                assert max(node.upstreams) < at
        assert stage.takes == stage.region.stream
        streams = [stage.takes, *[step.gives for step in stage.steps]]
        assert [step.takes for step in stage.steps] == streams[:-1]
        assert stage.gives == streams[-1]
        assert all(not isinstance(step.node, Restore) for step in stage.steps[1:])
        assert 1 <= stage.parallelism <= plan.key_groups
    (last,) = links(plan.region)
    assert isinstance(last.leaf, FromStage)
    assert last.leaf.stage == plan.stages[-1].number
    assert sorted(read) == [stage.number for stage in plan.stages[:-1]]
    assert sorted(leaf.source.name for leaf in plan.sources) == sorted(case.rows)
    assert plan.edge == case.checked.types[plan.sink.id]


def operators(plan: Plan) -> list[int]:
    """The author's nodes in a plan, each once: those of a region are counted once however many links it has."""
    found: list[int] = []

    def visit(one: Region) -> None:
        found.extend(node.node.id for node in one.nodes if isinstance(node, StatelessStep | MergeStep))

    for stage in plan.stages:
        visit(stage.region)
        found += [step.node.id for step in stage.steps if not isinstance(step.node, Restore)]
    visit(plan.region)
    return sorted(found)


@given(cases())
def test_every_plan_is_well_formed_and_holds_every_operator_once(case: Case) -> None:
    made = plan(case.checked, parallelism=case.parallelism, key_groups=case.key_groups)
    well_formed(made, case)
    nodes = case.checked.graph.nodes
    assert operators(made) == sorted(n.id for n in nodes if isinstance(n, Apply) or title(n) in ("sort", "merge", "MRG"))


@given(cases())
def test_plans_without_dropped_splitters_are_well_formed_and_have_no_fewer_stages(case: Case) -> None:
    checked = case.checked
    for one in passes(parallelism=case.parallelism, key_groups=case.key_groups):
        if one.name not in ("drop splitters", "fuse"):
            checked = one.run(checked)
    made = plan_of(checked, parallelism=case.parallelism, key_groups=case.key_groups)
    well_formed(made, case)
    assert len(made.stages) >= len(plan(case.checked, key_groups=7).stages)
