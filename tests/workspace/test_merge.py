"""Merge and unmerge against the definitions, after each of many random submits and removals."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workspace.flows import NAMES, RandomFlow, dag_of, operators_as_dag, random_flows, submitted, task_id
from tracetypes.compiler.workspace.classes import Class, classified
from tracetypes.compiler.workspace.definitions import (
    Dag,
    ancestor_graph,
    connected,
    de_duplicated,
    duplicates,
    sink_task_coverage,
    task_and_stream_minimization,
)
from tracetypes.compiler.workspace.merge import merge, unmerge
from tracetypes.compiler.workspace.merge_definition import merging, unmerging
from tracetypes.compiler.workspace.running import Attachment, Decision, Instance, Running


def snapshot(running: Running) -> tuple[Any, ...]:
    """All of a state but its version."""
    return (
        dict(running.operators),
        dict(running.flows),
        dict(running.counts),
        dict(running.taps),
        set(map(frozenset, running.components.all())),
    )


def are_same(one: object, other: object) -> bool:
    """Whether two snapshots are equal. pytest would take minutes to show how large ones differ."""
    return one == other


class Walk:
    """A workspace to which flows come and from which they go, and the same by the definitions."""

    def __init__(self) -> None:
        self.running = Running()
        self.flows: dict[str, RandomFlow] = {}
        self.dags: dict[str, Dag] = {}
        self.code: dict[int, tuple[str, RandomFlow]] = {}
        self.defined: tuple[Dag, ...] = ()
        self.classes: dict[str, Class] = {}
        """The class of each task that was ever submitted, by its id."""

    def submit(self, name: str, flow: RandomFlow) -> Decision:
        asked = submitted(name, flow)
        before = snapshot(self.running)
        decision = merge(self.running, asked)
        assert are_same(snapshot(self.running), before), "merge changes nothing"
        self.flows[name], self.code[self.running.version + 1] = flow, (name, flow)
        self.classes |= {f"{name}.{self.running.version}.{id}": one.cls for one in classified(asked) for id in one.ids}
        self.dags[name] = dag_of(name, flow, self.running.version)
        self.apply(decision)
        return decision

    def remove(self, name: str) -> Decision:
        before = snapshot(self.running)
        decision = unmerge(self.running, name)
        assert are_same(snapshot(self.running), before), "unmerge changes nothing"
        self.apply(decision)
        del self.flows[name], self.dags[name]
        return decision

    def apply(self, decision: Decision) -> None:
        """Apply a decision, take it back, and apply it again."""
        before = snapshot(self.running)
        self.running.apply(decision)
        after = snapshot(self.running)
        self.running.undo(decision)
        assert are_same(snapshot(self.running), before)
        self.running.apply(decision)
        assert are_same(snapshot(self.running), after)

    def check(self) -> None:
        """What holds after every step."""
        running = self.running
        dag = operators_as_dag(running, self.code)
        # A reader of a copy is equivalent to one of the original in the de-dup DAG only.
        once = de_duplicated(dag)
        assert sink_task_coverage([once], [*self.dags.values()]) == ()
        ids = {task_id(one): one for one in running.operators}
        assert len(ids) == len(running.operators)
        assert all(ids[one.id].copy or ids[other.id].copy for one, other in duplicates(dag)), "operators run twice"
        assert len(once.tasks) == len(running.classes) == len(running.operators) - running.copies
        if once is dag:
            assert task_and_stream_minimization(connected(dag), [*self.dags.values()]) == ()
        counts = Counter(dict.fromkeys(ids, 0))
        for flow in running.flows.values():
            needs = {one.id for _, sink in flow.sinks for one in ancestor_graph(dag, dag.task(task_id(sink))).tasks}
            assert needs == set(map(task_id, flow.needs))
            assert len(needs) == len(flow.needs)
            counts.update(needs)
        assert {task_id(one): count for one, count in running.counts.items()} == counts
        assert 0 not in counts.values(), "an operator that no flow needs"
        launches = {one.instance: one.launch for one in running.operators.values()}
        taps = [tap for one in running.operators.values() for tap in one.inputs if launches[tap] != one.launch]
        assert running.taps == Counter(taps)
        parts = sorted(sorted(one.id for one in part.tasks) for part in connected(dag))
        assert sorted(sorted(map(task_id, part)) for part in running.components.all()) == parts
        assert running.classes == {one.cls for name, flow in self.flows.items() for one in classified(submitted(name, flow))}
        again = Running.of(running.version, reversed(running.operators.values()), running.flows.values())
        assert are_same(snapshot(again)[2:], snapshot(running)[2:])


def check_order(decision: Decision, before: set[Instance]) -> None:
    """Whether operators start behind what they read, and stop before it."""
    there = set(before)
    for one in decision.start:
        assert set(one.inputs) <= there
        there.add(one.instance)
    stopped = [one.instance for one in decision.stop]
    for at, one in enumerate(decision.stop):
        assert not set(one.inputs) & set(stopped[:at])


def check_taps(decision: Decision, before: set[Instance]) -> None:
    """Whether each stream between launches is attached, and each tap is switched once."""
    fresh = {one.instance for one in decision.start}
    assert fresh.isdisjoint(before)
    edges = [
        Attachment(one.instance, place, tap)
        for one in decision.start
        for place, tap in enumerate(one.inputs)
        if tap not in fresh
    ]
    assert list(decision.attach) == edges
    assert set(decision.open) <= {one.tap for one in edges}
    gone = {one.instance for one in decision.stop}
    assert gone.isdisjoint({one.tap for one in decision.detach})
    assert {one.reader for one in decision.detach} <= gone
    assert set(decision.close) <= {one.tap for one in decision.detach}


STEPS = st.lists(st.tuples(st.sampled_from(NAMES), random_flows()), min_size=1, max_size=12)
STEPS_WITH_COPIES = st.lists(st.tuples(st.sampled_from(NAMES), random_flows(copies=True)), min_size=1, max_size=12)


def walk(steps: list[tuple[str, RandomFlow]], *, defined: bool) -> Walk:
    """A flow comes, or goes if it is there. ``defined``: compare each decision with the definitions of 4.1 and 4.2."""
    walked = Walk()
    for name, flow in steps:
        before = set(walked.running.operators)
        taps = dict(walked.running.taps)
        if name in walked.flows:
            if defined:
                compare_removal(walked, name)
            decision = walked.remove(name)
        else:
            decision = walked.submit(name, flow)
            if defined:
                compare_submit(walked, name, decision)
        check_order(decision, before)
        check_taps(decision, before)
        now = walked.running.taps
        assert set(decision.open) == {one for one in now if one not in taps}
        left = set(walked.running.operators)
        assert set(decision.close) == {one for one in taps if one not in now and one in left}
        walked.check()
    return walked


def compare_submit(walked: Walk, name: str, decision: Decision) -> None:
    """Whether a decision is the merge of 4.1."""
    found = merging(walked.defined, walked.dags[name])
    walked.defined = found.running
    of = walked.classes
    assert Counter(one.instance.cls for one in decision.start) == Counter(of[task.id] for task in found.new_tasks)
    assert Counter(one.cls for one in decision.reuse) == Counter(of[task.id] for task in found.reused_tasks)
    attached = Counter((one.tap.cls, one.reader.cls) for one in decision.attach)
    assert attached == Counter((of[one.up], of[one.down]) for one in found.boundary_streams)
    assert all(of[up] == of[there] for up, there in found.stands_for.items())
    (flow,) = decision.joins
    assert {one.cls for _, one in flow.sinks} == {of[there] for there in found.sinks.values()}
    compare_components(walked)


def compare_removal(walked: Walk, name: str) -> None:
    """Whether what a removal would stop is what 4.2 terminates."""
    decision = unmerge(walked.running, name)
    found = unmerging(walked.defined, [*walked.dags.values()], walked.dags[name])
    walked.defined = found.running
    assert Counter(one.instance.cls for one in decision.stop) == Counter(
        walked.classes[task.id] for task in found.terminated_tasks
    )
    walked.running.apply(decision)
    compare_components(walked)
    walked.running.undo(decision)


def compare_components(walked: Walk) -> None:
    """Whether the components are the running DAGs of the definitions."""
    found = {frozenset(walked.classes[task.id] for task in dag.tasks) for dag in walked.defined}
    assert {frozenset(one.cls for one in part) for part in walked.running.components.all()} == found
    assert len(found) == len(walked.defined)


@given(STEPS)
def test_the_constraints_hold_after_every_step(steps: list[tuple[str, RandomFlow]]) -> None:
    assert walk(steps, defined=True).running.copies == 0


@given(STEPS_WITH_COPIES)
def test_only_cheap_streams_are_computed_twice(steps: list[tuple[str, RandomFlow]]) -> None:
    walk(steps, defined=False)


@given(st.lists(random_flows(), max_size=5), st.randoms(use_true_random=False))
def test_what_runs_does_not_depend_on_the_order(flows: list[RandomFlow], order: random.Random) -> None:
    one, other = Walk(), Walk()
    named = list(zip(NAMES, flows, strict=False))
    for name, flow in named:
        one.submit(name, flow)
    order.shuffle(named)
    for name, flow in named:
        other.submit(name, flow)
    assert set(one.running.operators) == set(other.running.operators)
    assert one.running.counts == other.running.counts
    assert set(map(frozenset, one.running.components.all())) == set(map(frozenset, other.running.components.all()))


@given(STEPS, random_flows())
def test_a_submit_and_a_removal_change_nothing(steps: list[tuple[str, RandomFlow]], flow: RandomFlow) -> None:
    walked = Walk()
    for name, one in steps:
        if name in walked.flows:
            walked.remove(name)
        else:
            walked.submit(name, one)
    before = snapshot(walked.running)
    submit = walked.submit("one more", flow)
    remove = walked.remove("one more")
    assert are_same(snapshot(walked.running), before)
    assert [one.instance for one in remove.stop] == [one.instance for one in submit.start][::-1] or set(remove.stop) == set(
        submit.start
    )
    assert set(remove.detach) == set(submit.attach)
    assert set(remove.close) == set(submit.open)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_thousands_of_submits_and_removals(seed: int) -> None:
    """Counts, classes, taps and components stay true over a long walk; all flows are removed in the end."""
    drawn = random.Random(seed)
    walked = Walk()
    pool = [_some_flow(drawn, copies) for copies in (False, True) for _ in range(30)]
    steps = 2_000 if seed == 0 else 30_000
    for step in range(steps):
        if walked.flows and (len(walked.flows) > 12 or drawn.random() < 0.5):
            name = drawn.choice(sorted(walked.flows))
            decision = unmerge(walked.running, name)
            del walked.flows[name], walked.dags[name]
        else:
            name, flow = f"f{step}", drawn.choice(pool)
            decision = merge(walked.running, submitted(name, flow))
            walked.flows[name], walked.code[walked.running.version + 1] = flow, (name, flow)
            walked.dags[name] = dag_of(name, flow) if step % 500 > 480 else Dag(tasks=(), streams=())
        walked.running.apply(decision)
        running = walked.running
        again = Running.of(running.version, running.operators.values(), running.flows.values())
        assert are_same(snapshot(again)[2:], snapshot(running)[2:])
        assert running.classes == {one.cls for key, flow in walked.flows.items() for one in classified(submitted(key, flow))}
        if step % 300 == 299:
            walked.dags = {key: dag_of(key, flow) for key, flow in walked.flows.items()}
            walked.check()
    for name in sorted(walked.flows):
        walked.running.apply(unmerge(walked.running, name))
    assert are_same(snapshot(walked.running), ({}, {}, {}, {}, set()))


def _some_flow(drawn: random.Random, copies: bool) -> RandomFlow:
    """A flow of the strategy's kind, from a generator."""
    nodes: list[tuple[str, tuple[int, ...]]] = [(drawn.choice(("S1", "S2")), ()) for _ in range(drawn.randint(1, 2))]
    for _ in range(drawn.randint(0, 6)):
        kind = drawn.choice(("a", "a", "b", "w", "m", "j"))
        reads = {"m": drawn.randint(2, 3), "j": 2}.get(kind, 1)
        nodes.append((kind, tuple(drawn.randrange(max(0, len(nodes) - 3), len(nodes)) for _ in range(reads))))
    nodes.append((drawn.choice(("K1", "K2")), (len(nodes) - 1,)))
    return RandomFlow(tuple(nodes), drawn.choice((None, None, 60)), copies)
