"""The worker processes of a service: one for dataflows in JSON, and one for each owner with dataflows of his own code."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.compiler.workspace.merged_graph import OperatorView
from tracetypes.compiler.workspace.service.accounts import Accounts
from tracetypes.compiler.workspace.service.landlock import all_but, folders_of_python
from tracetypes.compiler.workspace.service.registry import Registry
from tracetypes.compiler.workspace.service.worker_process import CallFailed, WorkerProcess
from tracetypes.errors import RunError

__all__ = ["Workers"]

KEPT: Final = 0.2
"""Seconds for which what a worker has shown is shown again."""

KEPT_GRAPH: Final = 0.5
"""The same of its operators. So many pages that are open ask for them no more often than one."""


AT_ONCE: Final[Mapping[str, Any]] = {"drain": False, "purge": True, "seconds": 60}


@attrs.frozen
class WorkerGraph:
    """``seconds``: of a processor, of all operators; ``left``: the part of them that no flow has."""

    operators: tuple[OperatorView, ...] = ()
    seconds: float = 0.0
    left: float = 0.0


class Workers:
    """All worker processes. The one of JSON has the name ``""``, the others those of their owners."""

    def __init__(self, folder: Path, registry: Registry, backend: str, accounts: Accounts) -> None:
        self.folder, self.registry, self.backend, self.accounts = folder, registry, backend, accounts
        self._lock = threading.Lock()
        self._workers: dict[str, WorkerProcess] = {}
        self._shown: dict[str, tuple[float, Mapping[str, Any]]] = {}
        self._graphs: dict[str, tuple[float, WorkerGraph]] = {}
        for name in {"", *(one.worker for one in accounts.flows())}:
            self.of(name)
        threading.Thread(target=self._compare, name="flows of the service", daemon=True).start()

    def of(self, name: str) -> WorkerProcess:
        """A worker, which is started if need be."""
        with self._lock:
            if name not in self._workers:
                self._workers[name] = WorkerProcess(self._about(name), self._left_out, lambda: self._latest(name))
            return self._workers[name]

    def show(self, names: Collection[str]) -> dict[str, Any]:
        """What some workers show of their flows, by OWNER.NAME. Nothing of one that does not answer."""
        found: dict[str, Any] = {}
        for name in names:
            at, flows = self._shown.get(name, (0.0, {}))
            if time.monotonic() > at + KEPT:
                try:
                    flows = self.of(name).call("show", None, 5)["flows"]
                except (RunError, CallFailed):
                    flows = {}
                self._shown[name] = time.monotonic(), flows
            found |= flows
        return found

    def graph(self, name: str) -> WorkerGraph:
        """All operators of a worker. None of one that does not answer: its flows are shown as unknown."""
        at, found = self._graphs.get(name, (0.0, WorkerGraph()))
        if time.monotonic() > at + KEPT_GRAPH:
            try:
                plain = self.of(name).call("graph", None, 5)
                self._shown[name] = time.monotonic(), plain["flows"]
            except (RunError, CallFailed):
                plain = {"operators": [], "seconds": 0.0, "left": 0.0}
            views = [{**one, "inputs": tuple(one["inputs"]), "flows": tuple(one["flows"])} for one in plain["operators"]]
            found = WorkerGraph(tuple(OperatorView(**one) for one in views), plain["seconds"], plain["left"])
            self._graphs[name] = time.monotonic(), found
        return found

    @property
    def all(self) -> dict[str, WorkerProcess]:
        """All that have been started."""
        with self._lock:
            return dict(self._workers)

    def close(self) -> None:
        """Let all of them end."""
        threads = [threading.Thread(target=one.close) for one in self.all.values()]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    # --------------------------------------------------------------------------------------------------- inside

    def _about(self, name: str) -> dict[str, Any]:
        """What a worker is told: what it opens, and what it may read and write."""
        home = self.folder / "shared" if not name else self.folder / "owners" / name
        owners, own = self.registry.owners.values(), self.registry.owner(name)
        outputs = [own.outputs] if name else [self.folder / "outputs", *(one.outputs for one in owners)]
        hidden = [self.folder / one for one in ("private", "shared", "owners", "outputs")]
        hidden += [path for one in owners for path in (one.outputs, one.folder) if path is not None]
        hidden = [one.resolve() for one in hidden]
        inputs = [one.address for one in self.registry.inputs.values() if not name or one.is_for(name)]
        code = [self.registry.folder] if not name else [one for one in (own.folder,) if one is not None]
        read = [*folders_of_python(hidden), *(Path(one) for one in inputs if one.startswith("/"))]
        read += code if name else all_but(self.registry.folder, hidden)
        return {
            "workspace": str(home / "workspace"),
            "scratch": str(home / "scratch"),
            "backend": self.backend,
            "registry": str(self.registry.folder / "registry.toml"),
            "owner": name,
            "memory": self.registry.limits.memory,
            "seconds": self.registry.limits.seconds,
            "code": list(map(str, code)),
            "list": [] if name else [str(self.registry.folder)],
            "read": list(map(str, read)),
            "write": [str(home / "workspace"), str(home / "scratch"), *map(str, outputs)],
            "ports": sorted({int(port) for one in inputs for port in re.findall(r"://[^/]*?:(\d+)", one)}),
        }

    def _left_out(self, flow: str, why: str) -> None:
        """A worker does not start a flow any more."""
        owner, name, *successor = flow.split(".")
        print(f"tracetypes: TT419 flow {flow.rstrip('.')} is left out: {why}", file=sys.stderr)
        if not successor:
            self.accounts.stopped(owner, name, f"TT419 {why}; submit it again when it is mended")

    def _latest(self, worker: str) -> str | None:
        flows = [one for one in self.accounts.flows() if one.worker == worker and one.state == "running"]
        return f"{flows[-1].owner}.{flows[-1].name}" if flows else None

    def _compare(self) -> None:
        """After a kill of the service: a flow that was being submitted runs, or it does not."""
        for one in self.accounts.flows():
            if one.state == "stopped":
                continue
            try:
                flows = self.of(one.worker).call("show", None, 60)["flows"]
            except (RunError, CallFailed):
                continue
            shown = flows.get(f"{one.owner}.{one.name}")
            now = self.accounts.flow(one.owner, one.name)
            if now is None or now.submitted != one.submitted:
                continue
            if shown is None:
                self.accounts.forget_flow(one.owner, one.name)
            elif one.state == "pending":
                places = self._places(one.owner, shown["addresses"])
                self.accounts.started(one.owner, one.name, one.request, one.digest, places)
            for successor in [each for each in flows if each.startswith(f"{one.owner}.{one.name}.")]:
                self.of(one.worker).call("remove", None, 60, owner=one.owner, name=successor.partition(".")[2], **AT_ONCE)

    def _places(self, owner: str, addresses: Mapping[str, str]) -> dict[str, str]:
        root = os.path.realpath(self.registry.owner(owner).outputs)
        return {sink: os.path.relpath(address, root) for sink, address in addresses.items()}
