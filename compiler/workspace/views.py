"""What a workspace shows of its flows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from html import escape
from typing import Any, Literal

import attrs

from tracetypes.compiler.backend.backend import Running
from tracetypes.compiler.plan.box_places import BoxPlaces
from tracetypes.compiler.plan.live_page import picture_of
from tracetypes.compiler.workspace.arguments import time_of
from tracetypes.compiler.workspace.flow_costs import FlowCosts
from tracetypes.compiler.workspace.merged_graph import OperatorView, box_of
from tracetypes.compiler.workspace.operator_segments import name_of
from tracetypes.compiler.workspace.reconciler import Reconciler
from tracetypes.compiler.workspace.source_rows import SourceRows
from tracetypes.errors import counted

__all__ = ["FlowView", "WorkspaceView", "bare_view", "operators_of", "time_text", "view_of"]


@attrs.frozen(kw_only=True)
class FlowView:
    """A flow of a workspace, as :meth:`Workspace.show` tells of it.

    ``state``: ``"starting"``, ``"running"``, ``"failed"`` (it starts again by itself), ``"held"`` (what it reads from has
    failed), ``"over"``, ``"draining"`` (it has left, and its open blocks are being answered), or ``"stopped"`` (a channel kept
    too much for it, or too many rows were late or rejected; it does not start again).
    ``error``: of the segment that failed. ``operators``: how many it needs; ``shared``: how many of them other flows need too.
    ``begins``: the marker behind which it answers; None from the beginning of its inputs. ``brings``: operators that ran already
    and keep a state: what they have seen before ``begins`` is in the flow's answers. ``replaced``: if it has taken the place of
    another flow, the marker up to which the outputs of that one count, by sink; behind it its own do. ``rows``, ``late`` and
    ``rejects``: rows, the last two by source, since its submit or since the process has started; those of a shared source count
    for each of its flows. ``seconds``: of a processor, on the local backend, with its part of what it shares; ``saved``: what it
    would cost more alone."""

    name: str
    state: Literal["starting", "running", "failed", "held", "over", "draining", "stopped"]
    error: str | None
    operators: int
    shared: int
    begins: dt.datetime | None
    brings: tuple[str, ...]
    replaced: Mapping[str, dt.datetime]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    rows: int
    late: Mapping[str, int]
    rejects: Mapping[str, int]
    notes: tuple[str, ...]
    seconds: float = 0.0
    saved: float = 0.0

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.state}, {self.operators} operators, {self.shared} of them shared"]
        if self.begins is not None:
            lines.append(f"    begins behind {time_text(self.begins)}")
        if self.brings:
            lines.append(f"    takes over the state of {', '.join(self.brings)}; share='exact' starts its own")
        for sink, at in self.replaced.items():
            lines.append(f"    takes the place of a flow whose output {sink!r} ends at {time_text(at)}")
        if self.error is not None:
            lines.append(f"    {self.error}")
        for what, counts in (("late row", self.late), ("rejected row", self.rejects)):
            lines += [f"    {counted(count, what)} of {source}" for source, count in counts.items()]
        return "\n".join([*lines, *(f"    {one}" for one in self.notes)])


def time_text(at: dt.datetime) -> str:
    """A time for people."""
    return f"{at:%Y-%m-%d %H:%M:%S}"


@attrs.frozen(kw_only=True)
class WorkspaceView:
    """What a workspace runs. A notebook shows :attr:`svg` below the text. ``operators``: how many run; ``submitted``: how many
    the flows have, each counted for itself. ``segments``: by name, what each does; ``kept``: bytes that channels keep, by segment
    and reader."""

    flows: tuple[FlowView, ...]
    operators: int
    submitted: int
    segments: Mapping[str, str]
    kept: Mapping[str, Mapping[str, int]]
    graph: tuple[OperatorView, ...]
    """All operators that run, each behind those that it reads."""
    seconds: float = 0.0
    """Of a processor, of all operators since the process has started, on the local backend."""
    left: float = 0.0
    """The part of :attr:`seconds` that no flow has: of flows that have left, and of operators that end."""
    _places: BoxPlaces = attrs.field(factory=BoxPlaces, alias="places", repr=False, eq=False)

    @property
    def svg(self) -> str:
        """The graph as a picture. A box stands where it stood in earlier pictures of the same workspace."""
        return picture_of([box_of(one) for one in self.graph], self._places)

    def __str__(self) -> str:
        head = f"{len(self.flows)} flows with {self.submitted} operators; {self.operators} run"
        return "\n".join([head, *map(str, self.flows)])

    def __getitem__(self, name: str) -> FlowView:
        return next(one for one in self.flows if one.name == name)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """In a terminal of IPython."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """In a notebook."""
        return f"<pre>{escape(str(self))}</pre>{self.svg}"


def bare_view(name: str, state: Literal["draining", "stopped"], why: str | None = None) -> FlowView:
    """Of a flow that the workspace does not run any more. ``why``: the text of the error."""
    return FlowView(
        name=name,
        state=state,
        error=why,
        operators=0,
        shared=0,
        begins=None,
        brings=(),
        replaced={},
        inputs={},
        outputs={},
        rows=0,
        late={},
        rejects={},
        notes=(),
    )


def view_of(name: str, reconciler: Reconciler, source_rows: SourceRows, costs: FlowCosts) -> FlowView:
    """Of a flow that runs."""
    flow, plain = reconciler.running.flows[name], reconciler.database.submission(name).plain
    states, failures, segments = reconciler.host.states(), reconciler.host.errors(), reconciler.segments_of(name)
    all_states = [states[one].value for one in segments if one in states]
    worst: Any = next((one for one in ("failed", "held", "starting", "running") if one in all_states), "over")
    errors = [str(failures[one]) for one in segments if one in failures]
    rows = source_rows.of(name)
    notes = [f"since its submit: {one}" for one in reconciler.changes.get(name, ())]
    for one in segments:
        notes += [] if (hosted := reconciler.host.segments.get(one)) is None else hosted.notes
    behind = plain["behind"]
    return FlowView(
        name=name,
        state=worst,
        error=errors[0] if errors and worst not in ("starting", "running") else None,
        operators=len(flow.needs),
        shared=sum(reconciler.running.counts[one] > 1 for one in flow.needs),
        begins=None if behind is None else time_of(behind),
        brings=tuple(plain["brings"]),
        replaced={sink: time_of(marker) for sink, marker in plain.get("replaced", {}).items()},
        inputs=plain["inputs"],
        outputs=plain["outputs"],
        rows=rows.read.total(),
        late=dict(rows.late),
        rejects=dict(rows.rejects),
        notes=tuple(notes),
        seconds=costs.of(name).share,
        saved=costs.of(name).saved,
    )


def operators_of(
    reconciler: Reconciler, costs: FlowCosts, kept: Mapping[str, Mapping[str, int]]
) -> tuple[OperatorView, ...]:
    """All operators that run, each behind those that it reads. ``kept``: bytes that channels keep, by segment and reader."""
    running, host = reconciler.running, reconciler.host
    states, errors = host.states(), host.errors()
    flows: dict[str, list[str]] = {}
    found: dict[str, OperatorView] = {}
    for flow in sorted(running.flows.values(), key=lambda one: one.name):
        for instance in flow.needs:
            operator = running.operators[instance]
            name = name_of(operator)
            flows.setdefault(name, []).append(flow.name)
            if name in found:
                continue
            hosted, error = host.segments.get(name), errors.get(name)
            found[name] = OperatorView(
                name=name,
                title=reconciler.title(instance),
                inputs=tuple(name_of(running.operators[one]) for one in operator.inputs),
                flows=(),
                state=states[name].value if name in states else None,
                written=0 if hosted is None else hosted.summary.written,
                kept=max(kept.get(name, {}).values(), default=0),
                error=None if error is None else str(error),
                seconds=costs.of_operator(name),
                starts=0 if hosted is None else hosted.starts,
                lag=None if hosted is None or hosted.running is None else _lag(hosted.running),
            )
    return tuple(attrs.evolve(one, flows=tuple(flows[one.name])) for one in found.values())


def _lag(running: Running) -> float | None:
    return None if running.metrics is None else running.metrics.lag
