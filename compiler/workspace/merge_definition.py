"""Merging and unmerging as section 4 of the paper defines them, on whole DAGs, slow and obvious
(:mod:`tracetypes.compiler.workspace.definitions`). Each set of the paper is a field of :class:`Merging` or :class:`Unmerging`.

The paper compares submitted tasks with running tasks, which are never the same. Here equivalent tasks are compared. A submitted
DAG that is not connected may lie in several running DAGs; the paper gives it one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tracetypes.compiler.workspace.definitions import (
    Dag,
    Stream,
    Task,
    ancestor_graph,
    are_equivalent,
    connected,
    input_tasks,
    maximal_ancestor_intersection,
    output_tasks,
    union,
)

__all__ = ["Merging", "Unmerging", "containing", "decomposition", "merging", "unmerging"]


@attrs.frozen(eq=False, kw_only=True)
class Merging:
    """The sets of section 4.1.

    ``overlapping``: the running DAGs with an input task that the submitted DAG has, too (Y). ``reused_tasks`` and
    ``reused_streams``: the part of the submitted DAG that runs already (T_o, S_o). ``new_tasks``: the rest (T_x).
    ``new_streams``: those into new tasks, from new tasks (S_x*). ``boundary_streams``: those into new tasks, from
    reused ones (S_x+). ``stands_for``: the running task for each reused one, by id. ``running``: the running DAGs
    afterwards. ``sinks``: the running task for each submitted sink, by id.
    """

    overlapping: tuple[Dag, ...]
    reused_tasks: tuple[Task, ...]
    reused_streams: tuple[Stream, ...]
    new_tasks: tuple[Task, ...]
    new_streams: tuple[Stream, ...]
    boundary_streams: tuple[Stream, ...]
    stands_for: Mapping[str, str]
    running: tuple[Dag, ...]
    sinks: Mapping[str, str]


def merging(running: Sequence[Dag], submitted: Dag) -> Merging:
    """Merge a submitted de-dup DAG with the running DAGs (4.1). All its tasks are needed by a sink."""
    overlapping = tuple(
        dag
        for dag in running
        if any(are_equivalent(dag, a, submitted, b) for a in input_tasks(dag) for b in input_tasks(submitted))
    )
    merged = union(overlapping)
    reused = union(maximal_ancestor_intersection(submitted, merged))
    stands_for = {
        task.id: next(one.id for one in merged.tasks if are_equivalent(submitted, task, merged, one))
        for task in reused.tasks
    }
    new_tasks = tuple(task for task in submitted.tasks if task.id not in stands_for)
    into_new = tuple(stream for stream in submitted.streams if stream.down not in stands_for)
    new_streams = tuple(stream for stream in into_new if stream.up not in stands_for)
    boundary_streams = tuple(stream for stream in into_new if stream.up in stands_for)
    attached = tuple(stream._replace(up=stands_for[stream.up]) for stream in boundary_streams)
    merged = Dag(tasks=merged.tasks + new_tasks, streams=merged.streams + new_streams + attached)
    return Merging(
        overlapping=overlapping,
        reused_tasks=reused.tasks,
        reused_streams=reused.streams,
        new_tasks=new_tasks,
        new_streams=new_streams,
        boundary_streams=boundary_streams,
        stands_for=stands_for,
        running=(*(dag for dag in running if dag not in overlapping), *connected(merged)),
        sinks={sink.id: stands_for.get(sink.id, sink.id) for sink in output_tasks(submitted)},
    )


def decomposition(dag: Dag, submitted: Sequence[Dag]) -> tuple[Dag, ...]:
    """The submitted DAGs that a running DAG supports (Delta)."""
    return tuple(one for one in submitted if any(is_in(one, task, dag) for task in one.tasks))


def containing(submitted: Dag, running: Sequence[Dag]) -> tuple[Dag, ...]:
    """The running DAGs in which a submitted DAG lies (Phi): one for each of its components at most."""
    return tuple(dag for dag in running if any(is_in(submitted, task, dag) for task in submitted.tasks))


def is_in(submitted: Dag, task: Task, dag: Dag) -> bool:
    """Whether a running DAG has a task that is equivalent to this one."""
    return any(are_equivalent(submitted, task, dag, one) for one in dag.tasks)


@attrs.frozen(eq=False, kw_only=True)
class Unmerging:
    """The sets of section 4.2.

    ``affected``: the running DAGs in which the removed DAG lies. ``supported``: the submitted DAGs that remain in
    them (D_s). ``terminated_tasks`` and ``terminated_streams``: what nobody needs any more (T_t, S_t).
    ``running``: the running DAGs afterwards.
    """

    affected: tuple[Dag, ...]
    supported: tuple[Dag, ...]
    terminated_tasks: tuple[Task, ...]
    terminated_streams: tuple[Stream, ...]
    running: tuple[Dag, ...]


def unmerging(running: Sequence[Dag], submitted: Sequence[Dag], removed: Dag) -> Unmerging:
    """Unmerge a submitted DAG from the running DAGs (4.2). ``submitted``: all submitted DAGs; ``removed`` is one of them."""
    affected = containing(removed, running)
    remaining = [dag for dag in submitted if dag is not removed]
    supported = tuple(one for one in remaining if any(one in decomposition(dag, remaining) for dag in affected))
    needed = [(dag, ancestor_graph(dag, sink)) for dag in supported for sink in output_tasks(dag)]
    terminated_tasks: list[Task] = []
    terminated_streams: list[Stream] = []
    left: list[Dag] = []
    for dag in affected:
        gone = {
            task.id
            for task in dag.tasks
            if not any(are_equivalent(dag, task, one, need) for one, graph in needed for need in graph.tasks)
        }
        cut = [stream for stream in dag.streams if stream.up in gone or stream.down in gone]
        terminated_tasks += [task for task in dag.tasks if task.id in gone]
        terminated_streams += cut
        kept = Dag(
            tasks=tuple(task for task in dag.tasks if task.id not in gone),
            streams=tuple(stream for stream in dag.streams if stream not in cut),
        )
        left += connected(kept)
    return Unmerging(
        affected=affected,
        supported=supported,
        terminated_tasks=tuple(terminated_tasks),
        terminated_streams=tuple(terminated_streams),
        running=(*(dag for dag in running if dag not in affected), *left),
    )
