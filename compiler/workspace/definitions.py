"""The definitions of section 3 of *Collaborative Reuse of Streaming Dataflows in IoT Applications* (Chaturvedi, Tyagi and
Simmhan), here "the paper", under the names that they have there. They are written as the paper writes them, slow and obvious:
tests compare :mod:`tracetypes.compiler.workspace.merge` with them. Nothing else calls them.

Three definitions of the paper are wrong, and these are not. ``docs/workspace.md`` has an example of each:

* The streams of a DAG are a bag, not a set (3.1). A task that reads a stream twice gets each item twice.
* Two ancestor graphs are equivalent if a bijection keeps their streams as well as their tasks (3.2).
* A stream has a place among the inputs of its task. Where the order of the inputs does not matter, the place is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import attrs

__all__ = [
    "AncestorGraph",
    "Dag",
    "Stream",
    "Task",
    "abstract",
    "ancestor_graph",
    "ancestor_graph_set",
    "ancestor_intersection",
    "are_disjoint",
    "are_equivalent",
    "are_equivalent_graphs",
    "are_equivalent_without_streams",
    "are_overlapping",
    "are_similar_in_config",
    "are_similar_in_type",
    "connected",
    "de_duplicated",
    "duplicates",
    "input_tasks",
    "is_sub_ancestor",
    "maximal",
    "maximal_ancestor_graph_set",
    "maximal_ancestor_intersection",
    "output_tasks",
    "parents",
    "sink_task_coverage",
    "streams_into",
    "task_and_stream_minimization",
    "union",
]


# ------------------------------------------------------------------------------ 3.1: tasks, streams and dataflows


class Task(NamedTuple):
    """A concrete task. ``id``: unique among the tasks of all DAGs. ``role``: whether it is in the paper's set of source tasks,
    of sink tasks, or in neither. The paper writes the role into ``config``; a sink of ours has parameters there."""

    id: str
    type: str
    config: str = ""
    role: Literal["source", "inner", "sink"] = "inner"


class Stream(NamedTuple):
    """A stream from the task with the id ``up`` to the task with the id ``down``. ``place``: which input of ``down`` it is; None
    where the order of the inputs does not matter, as for a merge."""

    up: str
    down: str
    place: int | None = None


@attrs.frozen(eq=False, kw_only=True)
class Dag:
    """A dataflow: tasks, and a bag of streams between them."""

    tasks: tuple[Task, ...]
    streams: tuple[Stream, ...]

    def task(self, id: str) -> Task:
        """The task with that id."""
        return next(task for task in self.tasks if task.id == id)


AncestorGraph = Dag
"""An ancestor graph is a DAG."""


def abstract(task: Task) -> tuple[str, str]:
    """The abstract task of a concrete one: its type and its config."""
    return task.type, task.config


def input_tasks(dag: Dag) -> tuple[Task, ...]:
    """The source tasks of a DAG."""
    return tuple(task for task in dag.tasks if task.role == "source")


def output_tasks(dag: Dag) -> tuple[Task, ...]:
    """The sink tasks of a DAG."""
    return tuple(task for task in dag.tasks if task.role == "sink")


# --------------------------------------------------------------------------------------------- 3.2: equivalence


def are_similar_in_type(one: Task, other: Task) -> bool:
    """Type similarity."""
    return one.type == other.type


def are_similar_in_config(one: Task, other: Task) -> bool:
    """Config similarity."""
    return are_similar_in_type(one, other) and one.config == other.config


def streams_into(dag: Dag, task: Task) -> tuple[Stream, ...]:
    """The streams that a task reads, each as often as it reads it."""
    return tuple(stream for stream in dag.streams if stream.down == task.id)


def parents(dag: Dag, task: Task) -> tuple[Task, ...]:
    """The parent set of a task (the paper's pi)."""
    ids = {stream.up for stream in streams_into(dag, task)}
    return tuple(one for one in dag.tasks if one.id in ids)


def union(dags: Iterable[Dag]) -> Dag:
    """The union of DAGs: each task once. Of a stream that several have, as many as one of them has."""
    tasks: dict[str, Task] = {}
    streams: Counter[Stream] = Counter()
    for dag in dags:
        tasks |= {task.id: task for task in dag.tasks}
        streams |= Counter(dag.streams)
    return Dag(tasks=tuple(tasks.values()), streams=tuple(streams.elements()))


def ancestor_graph(dag: Dag, task: Task) -> AncestorGraph:
    """The ancestor graph of a task (the paper's alpha): the task, all its ancestors, and the streams between them."""
    alone = Dag(tasks=(task,), streams=streams_into(dag, task))
    return union([alone, *(ancestor_graph(dag, parent) for parent in parents(dag, task))])


def ancestor_graph_set(dag: Dag) -> tuple[AncestorGraph, ...]:
    """The ancestor graphs of all tasks."""
    return tuple(ancestor_graph(dag, task) for task in dag.tasks)


def is_sub_ancestor(one: AncestorGraph, other: AncestorGraph) -> bool:
    """Whether ``one`` is a proper part of ``other``. (With the improper part, as the paper's sign may be read, no graph would be
    maximal.)"""
    tasks, streams = set(one.tasks), Counter(one.streams)
    inside = tasks <= set(other.tasks) and streams <= Counter(other.streams)
    return inside and not (tasks == set(other.tasks) and streams == Counter(other.streams))


def maximal(graphs: Sequence[AncestorGraph]) -> tuple[AncestorGraph, ...]:
    """Those that are not sub-ancestors of another one (the paper's Omega)."""
    return tuple(one for one in graphs if not any(is_sub_ancestor(one, other) for other in graphs))


def maximal_ancestor_graph_set(dag: Dag) -> tuple[AncestorGraph, ...]:
    """The maximal ones among the ancestor graphs of a DAG."""
    return maximal(ancestor_graph_set(dag))


def are_equivalent_graphs(one: AncestorGraph, other: AncestorGraph) -> bool:
    """Whether a bijection of the tasks pairs tasks that are similar in config, and keeps the number and the places of the
    streams between any two. The search tries one task after the other."""
    if len(one.tasks) != len(other.tasks) or len(one.streams) != len(other.streams):
        return False
    between, other_between = _places(one), _places(other)

    def fits(task: Task, image: Task, chosen: dict[str, str]) -> bool:
        return are_similar_in_config(task, image) and all(
            between.get((a, b), []) == other_between.get((chosen[a], chosen[b]), [])
            for earlier in chosen
            for a, b in ((earlier, task.id), (task.id, earlier))
        )

    def extends(chosen: dict[str, str]) -> bool:
        if len(chosen) == len(one.tasks):
            return True
        task, taken = one.tasks[len(chosen)], set(chosen.values())
        return any(
            extends({**chosen, task.id: image.id})
            for image in other.tasks
            if image.id not in taken and fits(task, image, {**chosen, task.id: image.id})
        )

    return extends({})


def _places(dag: Dag) -> dict[tuple[str, str], list[str]]:
    """The places of the streams between any two tasks."""
    between: dict[tuple[str, str], list[str]] = {}
    for stream in dag.streams:
        between.setdefault((stream.up, stream.down), []).append(str(stream.place))
    return {ends: sorted(places) for ends, places in between.items()}


def are_equivalent_without_streams(one: AncestorGraph, other: AncestorGraph) -> bool:
    """The equivalence of 3.2 as the paper has it: a bijection of the tasks alone. It is wrong, and is here to be counted."""
    return Counter(map(abstract, one.tasks)) == Counter(map(abstract, other.tasks))


def are_equivalent(dag: Dag, task: Task, other_dag: Dag, other: Task) -> bool:
    """Whether two tasks are equivalent: similar in config, with equivalent ancestor graphs."""
    return are_similar_in_config(task, other) and are_equivalent_graphs(
        ancestor_graph(dag, task), ancestor_graph(other_dag, other)
    )


def duplicates(dag: Dag) -> tuple[tuple[Task, Task], ...]:
    """The pairs of tasks that are equivalent. A de-dup DAG has none."""
    return tuple(
        (one, other)
        for at, one in enumerate(dag.tasks)
        for other in dag.tasks[at + 1 :]
        if are_equivalent(dag, one, dag, other)
    )


def de_duplicated(dag: Dag) -> Dag:
    """The de-dup DAG of a DAG. Of two equivalent tasks the first one stays, and gets the readers of the second. A task that read
    both reads the first one twice. Two tasks may be equivalent only when their parents are one, so this goes on until there is
    no pair left."""
    while pairs := duplicates(dag):
        kept, dropped = pairs[0]
        streams = (stream for stream in dag.streams if stream.down != dropped.id)
        dag = Dag(
            tasks=tuple(task for task in dag.tasks if task != dropped),
            streams=tuple(
                stream._replace(up=kept.id) if stream.up == dropped.id else stream for stream in streams
            ),
        )
    return dag


def are_overlapping(one: Dag, other: Dag) -> bool:
    """Whether a task of one DAG is equivalent to a task of the other."""
    return any(are_equivalent(one, a, other, b) for a in one.tasks for b in other.tasks)


def are_disjoint(one: Dag, other: Dag) -> bool:
    """Whether two DAGs do not overlap."""
    return not are_overlapping(one, other)


def ancestor_intersection(one: Dag, other: Dag) -> tuple[AncestorGraph, ...]:
    """The ancestor graphs of the tasks of ``one`` that have an equivalent task in ``other`` (the paper's Lambda)."""
    return tuple(
        ancestor_graph(one, a) for a in one.tasks if any(are_equivalent(one, a, other, b) for b in other.tasks)
    )


def maximal_ancestor_intersection(one: Dag, other: Dag) -> tuple[AncestorGraph, ...]:
    """The maximal ones of the ancestor intersection."""
    return maximal(ancestor_intersection(one, other))


# -------------------------------------------------------------------------------------- 3.3: problem definition


def sink_task_coverage(running: Sequence[Dag], submitted: Sequence[Dag]) -> tuple[Task, ...]:
    """Constraint 1: the sink tasks of submitted DAGs that no running task is equivalent to. None if it holds. The submitted DAGs
    are de-dup DAGs."""
    return tuple(
        sink
        for dag in submitted
        for sink in output_tasks(dag)
        if not any(are_equivalent(dag, sink, one, task) for one in running for task in one.tasks)
    )


def task_and_stream_minimization(running: Sequence[Dag], submitted: Sequence[Dag]) -> tuple[str, ...]:
    """Constraint 2: what runs twice, or without being needed. Nothing if it holds. The submitted DAGs are de-dup DAGs.

    A running task is needed if it is equivalent to a task in the ancestor graph of a submitted sink. (The paper asks for the
    same task, which no running task is.) A running stream is needed if such a task reads it.
    """
    found = [f"{one.id} and {other.id} are equivalent" for dag in running for one, other in duplicates(dag)]
    for at, dag in enumerate(running):
        found += [f"running DAGs {at} and {n} overlap" for n, other in enumerate(running[:at]) if are_overlapping(dag, other)]
    needed = [(one, ancestor_graph(one, sink)) for one in submitted for sink in output_tasks(one)]
    for dag in running:
        for task in dag.tasks:
            uses = [
                (one, needs) for one, graph in needed for needs in graph.tasks if are_equivalent(dag, task, one, needs)
            ]
            if not uses:
                found.append(f"{task.id} is not needed")
            elif any(len(streams_into(one, needs)) != len(streams_into(dag, task)) for one, needs in uses):
                found.append(f"{task.id} reads a stream that is not needed")
    return tuple(found)


def connected(dag: Dag) -> tuple[Dag, ...]:
    """The connected components of a DAG."""
    group = {task.id: {task.id} for task in dag.tasks}
    for stream in dag.streams:
        joined = group[stream.up] | group[stream.down]
        for id in joined:
            group[id] = joined
    components = {id: component for component in group.values() for id in [min(component)]}
    return tuple(
        Dag(
            tasks=tuple(task for task in dag.tasks if task.id in component),
            streams=tuple(stream for stream in dag.streams if stream.up in component),
        )
        for component in components.values()
    )
