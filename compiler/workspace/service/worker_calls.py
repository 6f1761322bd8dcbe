"""What a worker process does for the service: calls of a workspace, with arguments and answers as JSON has them."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from tracetypes.compiler.workspace.database import WorkspaceDatabase
from tracetypes.compiler.workspace.drain_copies import leave_out, leave_out_newest
from tracetypes.compiler.workspace.merge import unmerge
from tracetypes.compiler.workspace.operator_segments import name_of
from tracetypes.compiler.workspace.service.json_flows import JsonFlow, dataflow_of, resolve
from tracetypes.compiler.workspace.service.long_calls import LongCalls
from tracetypes.compiler.workspace.service.places import place_below
from tracetypes.compiler.workspace.service.registry import Registry
from tracetypes.compiler.workspace.views import FlowView
from tracetypes.compiler.workspace.workspace import Workspace
from tracetypes.errors import UsageError
from tracetypes.graph import Dataflow

__all__ = ["WorkerCalls"]


class WorkerCalls:
    """The calls that a worker takes. Flows have names OWNER.NAME in its workspace. ``say``: tells the service what it has not
    asked for: ``starts``, the flow whose segments start now; ``beat``, once a second; ``stuck``, a segment with a call that does
    not end, for which this process ends; and ``leaves_out``, a flow that needs such a segment."""

    def __init__(self, about: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None] = lambda what: None) -> None:
        self._say = say
        self.registry: Registry = about["registry"]
        folder = Path(about["workspace"])
        if about["without"] or about["without_segments"] or about["without_drain"]:
            _leave_out(folder / "workspace.db", about, say)
        self._beat()
        self.long_calls = LongCalls(self.registry.limits.seconds, self._beat, self._end_for)
        self.workspace = Workspace(folder, backend=about["backend"])
        self.workspace.starts.watch = lambda flow: say({"id": 0, "starts": flow})

    def close(self) -> None:
        """Stop all segments."""
        self.workspace.close()

    def ping(self) -> dict[str, Any]:
        """Whether it works."""
        view = self.workspace.show(channels=False)
        return {"operators": view.operators, "submitted": view.submitted, "flows": len(view.flows)}

    def show(self) -> dict[str, Any]:
        """All flows."""
        view = self.workspace.show(channels=False)
        return {
            "flows": {one.name: _plain(one) for one in view.flows},
            "operators": view.operators,
            "submitted": view.submitted,
        }

    def graph(self) -> dict[str, Any]:
        """All operators that run, and all flows."""
        view = self.workspace.show(channels=False)
        return {
            "operators": [attrs.asdict(one, recurse=False) for one in view.graph],
            "flows": {one.name: _plain(one) for one in view.flows},
            "seconds": view.seconds,
            "left": view.left,
        }

    def submit(self, owner: str, name: str, request: dict[str, Any]) -> dict[str, Any]:
        """Accept a flow. It starts behind the answer."""
        with self.workspace.starts.accepting():
            found = self._flow(owner, name, request)
            need_room(self.registry, self.workspace, found)
            view = self.workspace.submit(
                f"{owner}.{name}",
                found.flow,
                found.inputs,
                self._places(owner, found),
                start=_start(request["start"]),
                share=request["share"],
                backfill=request["backfill"],
                wait=False,
            )
        return _plain(view) | {"places": dict(found.outputs)}

    def dry_run(self, owner: str, name: str, request: dict[str, Any], visible: list[str]) -> dict[str, Any]:
        """What a submit would do. ``visible``: owners whose flows count."""
        found = self._flow(owner, name, request)
        owners = {owner, *visible}
        view = self.workspace.dry_run(
            f"{owner}.{name}",
            found.flow,
            found.inputs,
            self._places(owner, found),
            share=request["share"],
            backfill=request["backfill"],
            is_visible=lambda one: one.partition(".")[0] in owners,
        )
        return {
            "start": list(view.start),
            "shared": [{"operator": operator, "flows": list(flows)} for operator, flows in view.shared],
            "segments": view.segments,
            "brings": list(view.brings),
        }

    def replace(self, owner: str, name: str, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Start another flow, which takes the place of one."""
        found = self._flow(owner, name, request)
        view = self.workspace.replace(
            f"{owner}.{name}",
            found.flow,
            found.inputs,
            self._places(owner, found),
            seconds=seconds,
            start=_start(request["start"]),
            share=request["share"],
            backfill=request["backfill"],
        )
        return _plain(view) | {"places": dict(found.outputs)}

    def remove(self, owner: str, name: str, drain: bool, purge: bool, seconds: float) -> dict[str, Any]:
        """Stop a flow."""
        if not drain and not purge:
            with self.workspace.starts.accepting():
                self.workspace.remove(f"{owner}.{name}", wait=False)
            return {}
        self.workspace.remove(f"{owner}.{name}", drain=drain, purge=purge, seconds=seconds)
        return {}

    def wait(self, owner: str, name: str, seconds: float) -> dict[str, Any]:
        """Wait until a flow has answered what was in its inputs."""
        self.workspace.wait(f"{owner}.{name}", seconds)
        return {}

    # --------------------------------------------------------------------------------------------------- inside

    def _beat(self) -> None:
        """Tell that this process goes on."""
        self._say({"id": 0, "beat": True})

    def _end_for(self, thread: int) -> None:
        """A call does not end, whatever is raised in it: only this process can."""
        name = next((one.name for one in threading.enumerate() if one.ident == thread), "")
        self._say({"id": 0, "stuck": name.removeprefix("tracetypes ")})
        os._exit(3)

    def _flow(self, owner: str, name: str, request: Mapping[str, Any]) -> JsonFlow:
        if request["flow"] is not None:
            return dataflow_of(f"{owner}.{name}", request["flow"], self.registry, owner)
        return self._target(owner, request["target"], request["inputs"], request["outputs"])

    def _target(self, owner: str, target: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> JsonFlow:
        """A dataflow of a package of the owner."""
        try:
            flow = resolve(target)
        except Exception as error:  # the owner's code
            found = f"{target} cannot be imported: {error.__class__.__name__}: {error}"
            raise UsageError("TT403", found, fix="give MODULE:NAME of a dataflow") from error
        if not isinstance(flow, Dataflow):
            raise UsageError("TT403", f"{target} is a {type(flow).__name__} and no dataflow", fix="give MODULE:NAME of one")
        addresses = {}
        for source, input in inputs.items():
            known = self.registry.inputs.get(input)
            if known is None or not known.is_for(owner):
                there = ", ".join(sorted(one.name for one in self.registry.inputs.values() if one.is_for(owner)))
                raise UsageError("TT411", f"there is no input {input!r}", fix=f"the inputs are: {there or 'none'}")
            addresses[source] = known.address
        return JsonFlow(flow=flow, inputs=addresses, outputs=outputs)

    def _places(self, owner: str, found: JsonFlow) -> dict[str, Path]:
        root = self.registry.owner(owner).outputs
        return {sink: place_below(root, place) for sink, place in found.outputs.items()}


def need_room(registry: Registry, workspace: Workspace, found: JsonFlow) -> None:
    """Raises :class:`UsageError` ``TT416`` if a flow would make more operators than the service takes."""
    count, most = len(found.flow.graph.nodes), registry.limits.operators
    if workspace.submitted_operators + count > most:
        raise UsageError("TT416", f"the service takes at most {most:,} operators of all flows", fix="remove flows")


def _leave_out(path: Path, about: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None]) -> None:
    """Remove flows from what shall run, before anything of them starts: they have ended this process. ``say``: tells of those
    that need a segment in which a call does not end, or are drained."""
    drains = leave_out(path.parent, about["without_segments"])
    if about["without_drain"]:
        drains += leave_out_newest(path.parent)
    for one in drains:
        say({"id": 0, "leaves_out": one, "drains": True})
    database = WorkspaceDatabase(path, about["backend"])
    try:
        running, stuck, names = database.running(), set(about["without_segments"]), about["without"]
        roots = {instance for instance, one in running.operators.items() if name_of(one) in stuck}
        of_segments = [flow.name for flow in running.flows.values() if roots.intersection(flow.needs)]
        of_names = [
            one for one in running.flows for name in names if one == name or (name.endswith(".") and one.startswith(name))
        ]
        for one in of_segments:
            say({"id": 0, "leaves_out": one})
        for one in dict.fromkeys([*of_segments, *of_names]):
            database.write(unmerge(database.running(), one))
    finally:
        database.close()


def _start(text: str) -> Any:
    if text in ("now", "earliest"):
        return text
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError as error:
        fix = "give now, earliest, or a time such as 2026-01-31T12:00:00Z"
        raise UsageError("TT402", f"start is {text!r}", fix=fix) from error


def _plain(view: FlowView) -> dict[str, Any]:
    return {
        "state": view.state,
        "error": view.error,
        "operators": view.operators,
        "shared": view.shared,
        "begins": None if view.begins is None else view.begins.isoformat(),
        "brings": list(view.brings),
        "addresses": dict(view.outputs),
        "rows": view.rows,
        "late": sum(view.late.values()),
        "rejects": sum(view.rejects.values()),
        "notes": list(view.notes),
        "seconds": view.seconds,
        "saved": view.saved,
    }
