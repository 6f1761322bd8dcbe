"""Random flows that have much in common, what they are by the definitions, and what runs by the definitions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import attrs
from hypothesis import strategies as st

from tracetypes.compiler.workspace.classes import SubmittedFlow, SubmittedOperator
from tracetypes.compiler.workspace.definitions import (
    Dag,
    Stream,
    Task,
    ancestor_graph,
    de_duplicated,
    output_tasks,
    union,
)
from tracetypes.compiler.workspace.running import Instance, Running

__all__ = ["NAMES", "RandomFlow", "dag_of", "operators_as_dag", "random_flows", "submitted", "task_id"]

SOURCES, STATELESS, STATEFUL, SINKS = ("S1", "S2"), ("a", "b"), ("w",), ("K1", "K2")
MERGE, JOIN, OPAQUE = "m", "j", "?"
"""A merge reads its inputs in any order. A join keeps a state and reads each in its place. What is opaque has no identity."""

CHEAP = ("S1", "a")
NAMES = ("f", "g", "h", "i", "j")


@attrs.frozen
class RandomFlow:
    """``nodes``: the kind of each operator and the numbers of what it reads, which come before it. ``copies``: whether streams
    of which only cheap operators lie upstream are computed again."""

    nodes: tuple[tuple[str, tuple[int, ...]], ...]
    start: int | None = None
    copies: bool = False


@st.composite
def random_flows(draw: st.DrawFn, *, copies: bool = False) -> RandomFlow:
    """Few kinds of operators, so that flows share a lot. Each has one sink or two, and maybe operators that no sink needs."""
    nodes: list[tuple[str, tuple[int, ...]]] = [(draw(st.sampled_from(SOURCES)), ()) for _ in range(draw(st.integers(1, 2)))]
    for _ in range(draw(st.integers(0, 5))):
        above = st.integers(max(0, len(nodes) - 3), len(nodes) - 1)
        kind = draw(st.sampled_from((*STATELESS, *STATELESS, *STATEFUL, MERGE, MERGE, JOIN, OPAQUE)))
        reads = draw(st.integers(2, 3)) if kind == MERGE else 2 if kind == JOIN else 1
        nodes.append((kind, tuple(draw(above) for _ in range(reads))))
    for _ in range(draw(st.integers(1, 2))):
        nodes.append((draw(st.sampled_from(SINKS)), (draw(st.integers(max(0, len(nodes) - 3), len(nodes) - 1)),)))
    readable = [at for at, (kind, _) in enumerate(nodes) if kind not in SINKS]
    nodes = [(kind, tuple(one if one in readable else readable[-1] for one in reads)) for kind, reads in nodes]
    return RandomFlow(tuple(nodes), draw(st.sampled_from((None, None, None, 60, 120))), copies)


def submitted(name: str, flow: RandomFlow) -> SubmittedFlow:
    """A flow with identities: hashes of the kinds upstream. That of an operator behind an opaque one does not say so."""
    identities: list[str] = []
    cheap: list[bool] = []
    operators = []
    for at, (kind, reads) in enumerate(flow.nodes):
        above = [identities[one] for one in reads]
        above = sorted(above) if kind == MERGE else above
        identities.append(hashlib.sha256(repr((kind, above)).encode()).hexdigest()[:8])
        cheap.append(flow.copies and kind in CHEAP)
        operators.append(
            SubmittedOperator(
                id=at,
                identity=None if kind == OPAQUE else identities[at],
                inputs=reads,
                in_places=kind != MERGE,
                keeps_state=kind in (*STATEFUL, JOIN),
                is_sink=kind in SINKS,
                copy_is_cheaper=cheap[at],
            )
        )
    return SubmittedFlow(name=name, operators=tuple(operators), start=flow.start)


def task(id: str, name: str, flow: RandomFlow, at: int) -> Task:
    """An operator of a flow as a task. The config of one that keeps a state has the start; opaque ones are all different."""
    kind = flow.nodes[at][0]
    config = f"{name}.{at}" if kind == OPAQUE else ""
    if kind in (*STATEFUL, JOIN):
        config = f"from {flow.start}"
    return Task(id, kind, config, "source" if kind in SOURCES else "sink" if kind in SINKS else "inner")


def dag_of(name: str, flow: RandomFlow, number: int = 0) -> Dag:
    """The de-dup DAG of what the sinks of a flow need. ``number``: of the submission, for ids that no other one has."""
    tasks = tuple(task(f"{name}.{number}.{at}", name, flow, at) for at in range(len(flow.nodes)))
    streams = tuple(
        Stream(f"{name}.{number}.{above}", f"{name}.{number}.{at}", place if kind == JOIN else None)
        for at, (kind, reads) in enumerate(flow.nodes)
        for place, above in enumerate(reads)
    )
    whole = Dag(tasks=tasks, streams=streams)
    return de_duplicated(union(ancestor_graph(whole, sink) for sink in output_tasks(whole)))


def task_id(instance: Instance) -> str:
    """The id of a running operator."""
    return f"{instance.cls.identity} {instance.cls.start} {instance.copy}"


def operators_as_dag(running: Running, code: Mapping[int, tuple[str, RandomFlow]]) -> Dag:
    """What runs, by the code of the operators and their inputs alone. ``code``: the flow of each launch."""
    tasks, streams = [], []
    for one in running.operators.values():
        name, flow = code[one.launch]
        tasks.append(task(task_id(one.instance), name, flow, one.id))
        for place, above in enumerate(one.inputs):
            in_place = place if flow.nodes[one.id][0] == JOIN else None
            streams.append(Stream(task_id(above), task_id(one.instance), in_place))
    return Dag(tasks=tuple(tasks), streams=tuple(streams))
