"""The definitions of the paper, by its examples and by ours where the paper is wrong."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given

from tests.workspace.flows import RandomFlow, dag_of, random_flows, submitted
from tracetypes.compiler.workspace.classes import classified
from tracetypes.compiler.workspace.definitions import (
    Dag,
    Stream,
    Task,
    abstract,
    ancestor_graph,
    ancestor_graph_set,
    ancestor_intersection,
    are_disjoint,
    are_equivalent,
    are_equivalent_graphs,
    are_equivalent_without_streams,
    are_overlapping,
    are_similar_in_config,
    are_similar_in_type,
    connected,
    de_duplicated,
    duplicates,
    input_tasks,
    is_sub_ancestor,
    maximal,
    maximal_ancestor_graph_set,
    maximal_ancestor_intersection,
    output_tasks,
    parents,
    sink_task_coverage,
    streams_into,
    task_and_stream_minimization,
)
from tracetypes.compiler.workspace.merge_definition import containing, decomposition, merging, unmerging


def dag(flow: str, *paths: str, joins: str = "") -> Dag:
    """A DAG of paths such as ``"S > a > K"``. The first letter of a task is its type, ``S`` of sources and ``K`` of sinks.
    ``joins``: the types that read each input in a place of its own, in the order of the paths."""
    tasks: dict[str, Task] = {}
    streams: list[Stream] = []
    for path in paths:
        names = [name.strip() for name in path.split(">")]
        for name in names:
            role = {"S": "source", "K": "sink"}.get(name[0], "inner")
            tasks[name] = Task(f"{flow}.{name}", name[0], name[0] + "()", role)  # type: ignore[arg-type]
        for up, down in pairwise(names):
            there = sum(stream.down == f"{flow}.{down}" for stream in streams)
            stream = Stream(f"{flow}.{up}", f"{flow}.{down}", there if down[0] in joins else None)
            streams.append(stream)
    return Dag(tasks=tuple(tasks.values()), streams=tuple(streams))


def ids(tasks: tuple[Task, ...]) -> set[str]:
    """The ids of tasks without the name of their flow."""
    return {task.id.partition(".")[2] for task in tasks}


def figure() -> dict[str, Dag]:
    """The flows of the paper's figure 1: A, B and C share a source and two tasks, B and C a third one; D has another source."""
    return {
        "A": dag("A", "S > p > k > K1"),
        "B": dag("B", "S > p > k > w > b > K2"),
        "C": dag("C", "S > p > k > w > l > K3"),
        "D": Dag(
            tasks=tuple(
                task._replace(type="S of D") if task.role == "source" else task for task in dag("D", "S > p > k > K1").tasks
            ),
            streams=dag("D", "S > p > k > K1").streams,
        ),
    }


def test_similarity() -> None:
    one, other = Task("1", "window", "10 s"), Task("2", "window", "20 s")
    assert are_similar_in_type(one, other)
    assert not are_similar_in_config(one, other)
    assert are_similar_in_config(one, Task("3", "window", "10 s"))
    assert not are_similar_in_config(one, Task("3", "filter", "10 s"))
    assert abstract(one) == ("window", "10 s")


def test_ancestors() -> None:
    flow = dag("f", "S > a > b > K", "a > c > K")
    assert ids(input_tasks(flow)) == {"S"}
    assert ids(output_tasks(flow)) == {"K"}
    assert ids(parents(flow, flow.task("f.K"))) == {"b", "c"}
    above = ancestor_graph(flow, flow.task("f.c"))
    assert ids(above.tasks) == {"S", "a", "c"}
    assert sorted(above.streams) == [Stream("f.S", "f.a"), Stream("f.a", "f.c")]
    assert [len(one.tasks) for one in ancestor_graph_set(flow)] == [1, 2, 3, 5, 3]


def test_the_ancestor_graph_of_the_only_sink_is_the_dataflow() -> None:
    flow = dag("f", "S > a > b > K", "a > c > K")
    (one,) = maximal_ancestor_graph_set(flow)
    assert set(one.tasks) == set(flow.tasks)
    assert sorted(one.streams) == sorted(flow.streams)


def test_each_sink_has_a_maximal_ancestor_graph() -> None:
    flow = dag("f", "S > a > K1", "a > b > K2")
    assert len(maximal_ancestor_graph_set(flow)) == 2


def test_a_graph_is_no_sub_ancestor_of_itself() -> None:
    flow = dag("f", "S > a > K")
    assert not is_sub_ancestor(flow, flow)
    assert is_sub_ancestor(ancestor_graph(flow, flow.task("f.a")), flow)
    assert maximal([flow]) == (flow,)


def test_streams_count() -> None:
    """3.2: A-B-C-D and A-C-B-D have the same tasks. They compute different things."""
    one, other = dag("f", "S > a > b > K"), dag("g", "S > b > a > K")
    assert are_equivalent_without_streams(one, other), "the bijection of the paper"
    assert not are_equivalent_graphs(one, other)
    assert not are_equivalent(one, one.task("f.K"), other, other.task("g.K"))


def test_a_stream_that_is_read_twice_counts_twice() -> None:
    """3.1: with streams as a set, ``m`` would read half of its items after the de-duplication."""
    flow = dag("f", "S > a1 > m > K", "S > a2 > m")
    assert len(duplicates(flow)) == 1
    once = de_duplicated(flow)
    assert ids(once.tasks) == {"S", "a1", "m", "K"}
    assert len(streams_into(once, once.task("f.m"))) == 2
    assert not are_equivalent_graphs(once, dag("g", "S > a > m > K"))


def test_tasks_that_become_equivalent() -> None:
    """``m1`` has two equal parents, ``m2`` has one of them twice. They are equivalent in the de-dup DAG only."""
    flow = dag("f", "S > a1 > m1 > K1", "S > a2 > m1", "a1 > m2 > K2", "a1 > m2")
    assert not are_equivalent(flow, flow.task("f.m1"), flow, flow.task("f.m2"))
    once = de_duplicated(flow)
    assert ids(once.tasks) == {"S", "a1", "m1", "K1"}
    assert not duplicates(once)


def test_places_count_where_they_are() -> None:
    one, other = ("S > a > j > K", "S > b > j"), ("S > b > j > K", "S > a > j")
    assert are_equivalent_graphs(dag("f", *one), dag("g", *other)), "a merge"
    assert not are_equivalent_graphs(dag("f", *one, joins="j"), dag("g", *other, joins="j")), "a join"
    assert are_equivalent_graphs(dag("f", *one, joins="j"), dag("g", *one, joins="j"))


def test_overlap() -> None:
    flows = figure()
    assert are_overlapping(flows["A"], flows["B"])
    assert are_disjoint(flows["A"], flows["D"])
    assert ancestor_intersection(flows["A"], flows["D"]) == ()
    assert len(ancestor_intersection(flows["B"], flows["C"])) == 4
    (most,) = maximal_ancestor_intersection(flows["C"], flows["B"])
    assert ids(most.tasks) == {"S", "p", "k", "w"}
    assert {task.id[0] for task in most.tasks} == {"C"}, "the tasks of the first DAG"


def test_figure_1() -> None:
    """A + B + C is one running DAG, D is another one. Without B, A + C remains."""
    flows = figure()
    running: tuple[Dag, ...] = ()
    for flow in flows.values():
        running = merging(running, flow).running
    assert sorted(len(one.tasks) for one in running) == [4, 9]
    assert sink_task_coverage(running, [*flows.values()]) == ()
    left = unmerging(running, [*flows.values()], flows["B"])
    remaining = [flow for name, flow in flows.items() if name != "B"]
    assert ids(left.terminated_tasks) == {"b", "K2"}
    assert sorted(len(one.tasks) for one in left.running) == [4, 7]
    assert sink_task_coverage(left.running, remaining) == ()
    assert task_and_stream_minimization(left.running, remaining) == ()
    assert set(left.supported) == {flows["A"], flows["C"]}


def test_the_sets_of_a_merge() -> None:
    flows = figure()
    running = merging((), flows["A"]).running
    found = merging(running, flows["C"])
    assert found.overlapping == running
    assert ids(found.reused_tasks) == {"S", "p", "k"}
    assert len(found.reused_streams) == 2
    assert ids(found.new_tasks) == {"w", "l", "K3"}
    assert found.new_streams == (Stream("C.w", "C.l"), Stream("C.l", "C.K3"))
    assert found.boundary_streams == (Stream("C.k", "C.w"),)
    assert found.stands_for["C.k"] == "A.k"
    assert found.sinks == {"C.K3": "C.K3"}
    (one,) = found.running
    assert Stream("A.k", "C.w") in one.streams


def test_a_removed_flow_splits_a_running_one() -> None:
    left, right = dag("l", "S1 > a > K1"), dag("r", "X > b > K2")
    right = Dag(tasks=tuple(t._replace(role="source") if t.type == "X" else t for t in right.tasks), streams=right.streams)
    both = dag("both", "S1 > a > m > K3", "X > b > m")
    both = Dag(tasks=tuple(t._replace(role="source") if t.type == "X" else t for t in both.tasks), streams=both.streams)
    running = merging(merging((), left).running, right).running
    assert len(running) == 2
    merged = merging(running, both)
    assert len(merged.overlapping) == 2
    assert len(merged.running) == 1
    assert len(decomposition(merged.running[0], [left, right, both])) == 3
    after = unmerging(merged.running, [left, right, both], both)
    assert ids(after.terminated_tasks) == {"m", "K3"}
    assert len(after.terminated_streams) == 3
    assert len(after.running) == 2


def test_a_flow_that_is_not_connected_lies_in_several_running_ones() -> None:
    """4.2: the map from submitted to running DAGs has one value only where the submitted DAG is connected."""
    flow = dag("f", "S > a > K1", "T > b > K2")
    flow = Dag(tasks=tuple(t._replace(role="source") if t.type == "T" else t for t in flow.tasks), streams=flow.streams)
    running = merging((), flow).running
    assert len(running) == len(connected(flow)) == 2
    assert len(containing(flow, running)) == 2
    assert unmerging(running, [flow], flow).running == ()


def test_the_constraints_say_what_is_wrong() -> None:
    flows = figure()
    a, b = flows["A"], flows["B"]
    assert ids(sink_task_coverage([a], [a, b])) == {"K2"}
    assert task_and_stream_minimization([a, b], [a, b]) == ("running DAGs 1 and 0 overlap",)
    assert task_and_stream_minimization([b], [a]) == tuple(f"B.{one} is not needed" for one in ("w", "b", "K2"))
    less = merging((), dag("f", "S > a > K", "a > b")).running
    assert task_and_stream_minimization(less, [dag("f", "S > a > K", "a > b")]) == ("f.b is not needed",), "no sink reads it"
    twice = dag("f", "S > a1 > m > K", "S > a2 > m")
    assert "f.a1 and f.a2 are equivalent" in task_and_stream_minimization([twice], [de_duplicated(twice)])


@given(random_flows(), random_flows())
def test_equivalence_is_one(flow: RandomFlow, other: RandomFlow) -> None:
    """It is reflexive, symmetric and transitive. Tasks of de-dup DAGs are equivalent if and only if they are of one class."""
    dags = [dag_of("f", flow), dag_of("g", other)]
    assert all(not duplicates(one) for one in dags)
    tasks = [(one, task) for one in dags for task in one.tasks]
    equal = {(a.id, b.id) for one, a in tasks for two, b in tasks if are_equivalent(one, a, two, b)}
    assert equal >= {(task.id, task.id) for _, task in tasks}
    assert equal == {(b, a) for a, b in equal}
    assert equal >= {(a, d) for a, b in equal for c, d in equal if b == c}
    asked = {"f": classified(submitted("f", flow)), "g": classified(submitted("g", other))}
    classes = {f"{name}.0.{id}": one.cls for name, all_of in asked.items() for one in all_of for id in one.ids}
    assert equal == {(a.id, b.id) for _, a in tasks for _, b in tasks if classes[a.id] == classes[b.id]}
    assert are_disjoint(*dags) == (not any(a[0] != b[0] for a, b in equal))


@given(random_flows())
def test_a_flow_without_duplicates(flow: RandomFlow) -> None:
    """It has an operator for each class."""
    assert len(dag_of("f", flow).tasks) == len(classified(submitted("f", flow)))
