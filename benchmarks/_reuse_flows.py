"""The dataflows of the paper on reuse, as flows of a workspace: templates of OPMW, and flows of RIoTBench's operators."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from tracetypes.compiler.workspace.classes import SubmittedFlow, SubmittedOperator, classified
from tracetypes.compiler.workspace.definitions import Dag, Stream, Task
from tracetypes.compiler.workspace.merge import merge
from tracetypes.compiler.workspace.running import Running

__all__ = [
    "INFERRED",
    "OPMW",
    "TEMPLATES",
    "Counts",
    "TypedFlow",
    "counts",
    "dag",
    "in_order",
    "opmw",
    "processes",
    "riot",
    "submitted",
]

ROOT: Final = Path(__file__).resolve().parent.parent

OPMW: Final = ROOT / "../shared/data/opmw_fragflow"
"""github.com/dgarijo/FragFlow at 34cd30a, SUBDUE_TOOL/input_graphs/input_graphs-21-04-13: 22 templates of text analytics."""

TEMPLATES: Final = "Text_Analytics_Graph_No_Inference_Templates.subdue.txt"
INFERRED: Final = "Text_Analytics_Graph_Inference_Templates.subdue.txt"
RIOT: Final = ROOT / "examples" / "riotbench_flows.json"


class TypedFlow(NamedTuple):
    """The type of each task, and the pairs of a task and one that reads it, each as often as it does."""

    types: Mapping[int, str]
    streams: tuple[tuple[int, int], ...]


def opmw(file: Path) -> dict[str, TypedFlow]:
    """The flows of a file of FragFlow. ``v N TYPE`` is a node, ``d A B use`` says that A depends on B. Data are nodes, too."""
    flows: dict[str, TypedFlow] = {}
    types: dict[int, str] = {}
    streams: list[tuple[int, int]] = []
    title = ""
    for line in [*file.read_text().splitlines(), "%Processing: "]:
        words = line.split()
        if line.startswith("%Processing:"):
            if title:
                flows[f"{len(flows)} {title}"] = TypedFlow(types, tuple(streams))
            types, streams, title = {}, [], line.rpartition("/")[2]
        elif words[:1] == ["v"]:
            types[int(words[1])] = words[2]
        elif words[:1] == ["d"]:
            streams.append((int(words[2]), int(words[1])))
    return flows


def processes(flow: TypedFlow) -> TypedFlow:
    """A flow without its data: a process reads the processes that make its data."""
    kept = {id: type for id, type in flow.types.items() if "/ac/" in type}
    makers: dict[int, set[int]] = {}

    def of(id: int) -> set[int]:
        if id not in makers:
            above = [up for up, down in flow.streams if down == id]
            makers[id] = set().union(*({up} if up in kept else of(up) for up in above))
        return makers[id]

    return TypedFlow(kept, tuple((up, id) for id in kept for up in sorted(of(id))))


def riot() -> dict[str, TypedFlow]:
    """The constructed flows: each shape with each source."""
    data = json.loads(RIOT.read_text())
    flows = {}
    for shape, paths in data["shapes"].items():
        names = list(dict.fromkeys(name for path in paths for name in path))
        streams = tuple((names.index(up), names.index(down)) for path in paths for up, down in pairwise(path))
        for source in data["sources"]:
            types = {at: f"{name} {source}" if name == "Source" else name for at, name in enumerate(names)}
            flows[f"{shape} {source}"] = TypedFlow(types, streams)
    return flows


def in_order(flow: TypedFlow) -> dict[int, tuple[int, ...]]:
    """What each task reads, tasks behind what they read."""
    inputs = {id: tuple(up for up, down in flow.streams if down == id) for id in flow.types}
    ordered: dict[int, tuple[int, ...]] = {}
    while len(ordered) < len(inputs):
        ordered |= {id: above for id, above in inputs.items() if id not in ordered and all(one in ordered for one in above)}
    return ordered


def submitted(name: str, flow: TypedFlow) -> SubmittedFlow:
    """The flow as it is submitted. Its sinks are the tasks that nobody reads. An identity is a hash of the type and of the
    identities upstream, in no order: the paper's tasks have no places."""
    read = {up for up, _ in flow.streams}
    identities: dict[int, str] = {}
    operators = []
    for id, above in in_order(flow).items():
        text = repr((flow.types[id], sorted(identities[one] for one in above)))
        identities[id] = hashlib.sha256(text.encode()).hexdigest()
        operators.append(
            SubmittedOperator(id=id, identity=identities[id], inputs=above, in_places=False, is_sink=id not in read)
        )
    return SubmittedFlow(name=name, operators=tuple(operators))


def dag(name: str, flow: TypedFlow) -> Dag:
    """The flow for the definitions."""
    read = {up for up, _ in flow.streams}
    reading = {down for _, down in flow.streams}
    return Dag(
        tasks=tuple(
            Task(f"{name} {id}", type, "", "sink" if id not in read else "source" if id not in reading else "inner")
            for id, type in flow.types.items()
        ),
        streams=tuple(Stream(f"{name} {up}", f"{name} {down}") for up, down in flow.streams),
    )


class Counts(NamedTuple):
    """How many operators run: of each flow as submitted, of each flow without duplicates, of all flows merged."""

    flows: int
    types: int
    alone: int
    de_duplicated: int
    merged: int


def counts(flows: Mapping[str, TypedFlow]) -> Counts:
    """Submit all flows, and count."""
    running = Running()
    asked = [submitted(name, flow) for name, flow in flows.items()]
    for one in asked:
        running.apply(merge(running, one))
    return Counts(
        flows=len(flows),
        types=len({type for flow in flows.values() for type in flow.types.values()}),
        alone=sum(len(one.operators) for one in asked),
        de_duplicated=sum(len(classified(one)) for one in asked),
        merged=len(running.operators),
    )
