"""A process with a workspace, which does what it is told, for :mod:`benchmarks.reuse`.

It reads lines of JSON, ``{"do": "submit", ...}``, and answers each with one. Whoever tells it counts its processor time from
outside, with all processes below it, and may kill it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, cast

from benchmarks._processes import used_by
from benchmarks._reuse_workloads import WORKLOADS, Tally, Workload, submit
from tracetypes.workspace import Workspace

__all__ = ["WorkspaceProcess", "bytes_below"]


class WorkspaceProcess:
    """The process, as others see it. ``workload``: the name of its flows; ``home``: a directory with what it reads and writes;
    ``workspace``: the name of the workspace in it; ``backend``: which runs it."""

    def __init__(self, workload: str, home: Path, workspace: str = "workspace", backend: str = "local") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._reuse_process", workload, str(home), workspace, backend],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> WorkspaceProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, do: str, **how: Any) -> dict[str, Any]:
        """Let it do something, and return its answer. Raises ``EOFError`` if it has died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **how}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise EOFError from error
        line = self.process.stdout.readline()
        if not line:
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    @property
    def used(self) -> float:
        """Seconds of processors that it and all below it have used."""
        return used_by(self.process.pid)

    def kill(self) -> None:
        """By SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Kill it, and hear of it no more."""
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


class _Server:
    """What the process does."""

    def __init__(self, workload: Workload, home: Path, workspace: Workspace) -> None:
        self.workload, self.home, self.workspace = workload, home, workspace

    def submit(self, flow: str, *, feeds: str = "feeds", outputs: str | None = None, alone: bool = False) -> dict[str, Any]:
        """Submit a flow, if it is not there."""
        if flow not in self.workspace._reconciler.running.flows:
            where = None if outputs is None else self.home / outputs
            submit(self.workspace, self.workload.flows[flow], self.home / feeds, where, alone=alone)
        return {}

    def remove(self, flow: str, *, drain: bool = False, purge: bool = False) -> dict[str, Any]:
        """Remove a flow, if it is there."""
        if flow in self.workspace._reconciler.running.flows:
            self.workspace.remove(flow, drain=drain, purge=purge)
        return {}

    def wait(self) -> dict[str, Any]:
        """Wait until all is answered."""
        self.workspace.wait()
        return {}

    def tally(self) -> dict[str, Any]:
        """Count the tasks, the segments, and the bytes of channels."""
        view = self.workspace.show()
        size = bytes_below(self.workspace.path / "channels")
        return {**Tally.of(self.workspace, self.workload)._asdict(), "segments": len(view.segments), "channel_bytes": size}

    def flows(self) -> dict[str, Any]:
        """Which are there, with their states."""
        return {one.name: one.state for one in self.workspace.show().flows}

    def reuse(self) -> dict[str, Any]:
        """How many tasks are of how many flows."""
        inside = self.workspace._reconciler
        counts: dict[int, int] = {}
        for instance, one in inside.running.operators.items():
            if self.workload.is_task(inside._launched[one.launch][1].checked.graph.by_id[one.id]):
                counts[inside.running.counts[instance]] = counts.get(inside.running.counts[instance], 0) + 1
        return {str(flows): count for flows, count in sorted(counts.items())}

    def spent(self) -> dict[str, Any]:
        """Seconds of a processor that each segment has used, by the identity of its operator."""
        inside = self.workspace._reconciler
        found: dict[str, float] = {}
        for hosted in list(inside.host.segments.values()):
            thread = getattr(hosted.running, "_thread", None)
            if thread is not None and thread.ident is not None:
                clock = time.pthread_getcpuclockid(thread.ident)
                found[hosted.segment.root.cls.identity] = time.clock_gettime(clock)
        return found

    def operators(self, flow: str) -> dict[str, Any]:
        """The identities of the operators of a flow as it was submitted that are segments, each as often as it is there. The flow
        is alone in the workspace."""
        (launched,) = {id(one): one for _, one in self.workspace._reconciler._launched.values()}.values()
        return {"identities": [one.identity for id_, one in launched.classes.items() if id_ not in launched.cheap]}


def bytes_below(folder: Path) -> int:
    """The sizes of all files."""
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) if folder.exists() else 0


@contextmanager
def _answers() -> Iterator[int]:
    """A descriptor for answers. What is printed goes to standard error."""
    answers = os.dup(1)
    os.dup2(2, 1)
    yield answers


def main() -> None:
    """Serve until the input ends."""
    workload, home = WORKLOADS[sys.argv[1]](), Path(sys.argv[2])
    backend = cast(Literal["local", "spark"], sys.argv[4])
    with _answers() as answers, Workspace(home / sys.argv[3], backend=backend) as workspace:
        server = _Server(workload, home, workspace)
        for line in sys.stdin:
            told = json.loads(line)
            try:
                answer = getattr(server, told.pop("do"))(**told)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            os.write(answers, (json.dumps(answer) + "\n").encode())


if __name__ == "__main__":
    main()
