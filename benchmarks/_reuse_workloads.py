"""The dataflows of the paper on reuse as flows that run in a workspace: RIoTBench's, and OPMW's with tasks that compute pi.

What runs is in ``examples``, which imports little: a workspace copies the packages of a flow and what they import.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import attrs

from benchmarks._reuse_flows import OPMW, TEMPLATES, opmw, processes
from examples import opmw as pi_tasks
from examples import riotbench
from examples.riotbench_sources import DOMAINS, messages
from tracetypes import Dataflow
from tracetypes.nodes import Apply, Node, Sink, Source
from tracetypes.workspace import Workspace

__all__ = ["WORKLOADS", "RunnableFlow", "Tally", "Workload", "opmw_workload", "riot_workload", "submit"]

class RunnableFlow(NamedTuple):
    """A flow that can be submitted. ``build``: makes it; ``feeds``: the name of the feed that each source reads; ``sinks``: the
    names of its sinks."""

    name: str
    build: Callable[[], Dataflow]
    feeds: Mapping[str, str]
    sinks: tuple[str, ...]


class Workload(NamedTuple):
    """Flows. ``rows``: of a feed, by its name: the lines of a file of so many rows, of which so many come in a second, from some
    number on. ``first``: how many flows run when a random walk begins."""

    name: str
    flows: Mapping[str, RunnableFlow]
    feeds: tuple[str, ...]
    rows: Callable[[str, int, int, int], Iterator[str]]
    first: int
    is_task: Callable[[Node], bool]


def riot_workload() -> Workload:
    """The 21 constructed flows."""
    flows = {}
    for shape in riotbench.FLOWS["shapes"]:
        for source in riotbench.FLOWS["sources"]:
            name = f"{shape}-{source}"
            flows[name] = RunnableFlow(name, partial(riotbench.flow, shape, source), {"messages": source}, ("mqtt",))
    return Workload("RIoT", flows, tuple(DOMAINS), _messages, 15, _is_task_of_riot)


def _messages(feed: str, count: int, rate: int, first: int) -> Iterator[str]:
    for one in messages(DOMAINS[feed], count, rate=rate, first=first):
        yield json.dumps(attrs.asdict(one)) + "\n"


def _is_task_of_riot(node: Node) -> bool:
    return isinstance(node, Source | Sink) or (isinstance(node, Apply) and type(node.op) in riotbench.TASKS)


def opmw_workload(*, only_processes: bool = False, iterations: int = pi_tasks.ITERATIONS) -> Workload:
    """The 22 templates, with data nodes unless told otherwise."""
    templates = opmw(OPMW / TEMPLATES)
    if only_processes:
        templates = {title: processes(flow) for title, flow in templates.items()}
    flows, all_feeds = {}, set[str]()
    for title, typed in templates.items():
        name = title.replace(" ", "-")
        reading, read = {down for _, down in typed.streams}, {up for up, _ in typed.streams}
        feeds = {f"source{id}": feed_of(type) for id, type in typed.types.items() if id not in reading}
        sinks = tuple(f"sink{id}" for id in typed.types if id not in read)
        flows[name] = RunnableFlow(name, partial(pi_tasks.flow, name, typed.types, typed.streams, iterations), feeds, sinks)
        all_feeds.update(feeds.values())
    return Workload("OPMW", flows, tuple(sorted(all_feeds)), _events, 15, _is_task_of_opmw)


def feed_of(type: str) -> str:
    """A name for the events of a type of data."""
    return type.rpartition("/")[2].rpartition("#")[2] + f"-{sum(type.encode()) % 1000}"


def _events(feed: str, count: int, rate: int, first: int) -> Iterator[str]:
    for id in range(first, first + count):
        yield json.dumps({"id": id, "at": 1_422_748_800 + id // rate, "value": float(id % 97)}) + "\n"


def _is_task_of_opmw(node: Node) -> bool:
    return isinstance(node, Source | Apply)


WORKLOADS: Mapping[str, Callable[[], Workload]] = {"RIoT": riot_workload, "OPMW": opmw_workload}


class Tally(NamedTuple):
    """Tasks, as a workspace has them. ``alone``: of each flow as it was submitted; ``de_duplicated``: of each flow, equal ones
    once; ``merged``: of all flows, equal ones once; ``running``: those that run: one that costs less than a channel may run
    several times. ``types``: of tasks."""

    flows: int
    types: int
    alone: int
    de_duplicated: int
    merged: int
    running: int

    @classmethod
    def of(cls, workspace: Workspace, workload: Workload) -> Tally:
        """What runs in a workspace. ``alone`` is of the dataflows that were submitted to it."""
        inside = workspace._reconciler
        running = inside.running
        nodes = {
            instance: inside._launched[one.launch][1].checked.graph.by_id[one.id]
            for instance, one in running.operators.items()
        }
        tasks = {instance: node for instance, node in nodes.items() if workload.is_task(node)}
        feeds = {instance: inside._launched[one.launch][0].inputs for instance, one in running.operators.items()}
        return cls(
            flows=len(running.flows),
            types=len({_type_of(node, feeds[instance]) for instance, node in tasks.items()}),
            alone=sum(sum(map(workload.is_task, workload.flows[name].build().graph.nodes)) for name in running.flows),
            de_duplicated=sum(len({one.cls for one in flow.needs if one in tasks}) for flow in running.flows.values()),
            merged=len({one.cls for one in tasks}),
            running=len(tasks),
        )


def _type_of(node: Node, inputs: Mapping[str, str]) -> str:
    match node:
        case Source(name=name):
            return os.path.basename(inputs[name])
        case Apply(op=pi_tasks.PiTask(type=type)):
            return feed_of(type)
        case Apply(op=op):
            return op.__class__.__name__
        case _:
            return node.__class__.__name__


def submit(workspace: Workspace, flow: RunnableFlow, feeds: Path, outputs: Path | None, *, alone: bool = False) -> None:
    """Submit a flow. ``feeds``: a directory with one for each feed. ``outputs``: where its sinks write; None for nowhere.
    ``alone``: nothing is shared."""
    workspace.submit(
        flow.name,
        flow.build(),
        {source: feeds / feed for source, feed in flow.feeds.items()},
        {sink: "noop:" if outputs is None else outputs / flow.name / sink for sink in flow.sinks},
        backfill=alone,
    )
