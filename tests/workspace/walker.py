"""A process that opens workspaces and dies in the middle of what it does, for tests: ``python -m tests.workspace.walker``.

It reads lines of JSON: ``{"home": ..., "steps": [...], "die": 17}``. For each it forks. The child opens the workspace in ``home``
and takes the steps. It ends without any warning, as by kill -9, when it comes to the point of this number; 0 is for none. The
answer is a line with the number of points that it has passed, and whether it has died.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from tests.workspace.clicks import Click, totals, write
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.store.file_channel import ChannelOutput
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.workspace import new_flows
from tracetypes.compiler.workspace.database import WorkspaceDatabase
from tracetypes.compiler.workspace.drain_copies import DrainCopies
from tracetypes.compiler.workspace.launches import Launches
from tracetypes.compiler.workspace.segment_host import SegmentHost
from tracetypes.workspace import Workspace

DELAY = 120

POINTS: tuple[tuple[type[Any], str], ...] = (
    (WorkspaceDatabase, "write"),
    (Launches, "keep"),
    (Launches, "forget_others"),
    (SegmentHost, "pin"),
    (SegmentHost, "begin"),
    (SegmentHost, "open"),
    (SegmentHost, "end"),
    (SegmentHost, "drain"),
    (SegmentHost, "_forget"),
    (SegmentHost, "remove_others"),
    (SegmentHost, "pause"),
    (SegmentHost, "go_on"),
    (DrainCopies, "_copy"),
    (DrainCopies, "_drain"),
    (ChannelRetention, "clean"),
    (ChannelOutput, "take"),
    (RunStore, "begin"),
    (RunStore, "commit"),
    (RunStore, "finish"),
    (LocalLog, "begin"),
    (LocalLog, "end"),
)
"""A process may die before and after each of these calls."""


class Deaths:
    """Counts the points. At the one of number ``die`` the process ends."""

    def __init__(self, die: int) -> None:
        self.die, self.passed, self.lock = die, 0, threading.Lock()
        for cls, name in POINTS:
            setattr(cls, name, self.around(getattr(cls, name)))

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function with a point before and one after it."""

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            self.point()
            result = function(*arguments, **named)
            self.point()
            return result

        return call

    def point(self) -> None:
        """Die here, if it is the one."""
        with self.lock:
            self.passed += 1
            if self.passed == self.die:
                os._exit(9)


class Walk:
    """A workspace with its clicks, and what was done, in a directory. A step that was under way is done again."""

    def __init__(self, home: Path) -> None:
        self.home, self.log = home, home / "log.jsonl"

    @property
    def done(self) -> list[dict[str, Any]]:
        """The steps that are over."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def clicks(self) -> list[Click]:
        """All that have come."""
        files = sorted((self.home / "clicks").glob("*.jsonl"))
        return [Click(**json.loads(line)) for file in files for line in file.read_text().splitlines()]

    def take(self, workspace: Workspace, step: dict[str, Any]) -> None:
        """One step, which may have been under way before."""
        note: dict[str, Any] = {}
        there = {one.name for one in workspace.show().flows}
        match step["do"]:
            case "come":
                if not (self.home / "clicks" / f"{step['number']:04d}.jsonl").exists():
                    write(self.home / "clicks", step["number"], [Click(*one) for one in step["clicks"]])
            case "submit":
                name = step["name"]
                if name not in there:
                    flow = totals(name, delay=DELAY, **step["flow"])
                    workspace.submit(
                        name, flow, {"clicks": self.home / "clicks"}, {"totals": self.home / name}, **step["how"]
                    )
                note["begins"] = self.begins(workspace, name)
            case "remove":
                name = step["name"]
                note["clicks"] = len(self.clicks)
                if name in there:
                    workspace.remove(name, drain=step["drain"], seconds=120, wait=step.get("wait", True))
            case _:
                workspace.wait(seconds=120)
        with open(self.log, "a") as file:
            file.write(json.dumps({**step, **note}) + "\n")

    def begins(self, workspace: Workspace, name: str) -> dict[str, int]:
        """The markers, in seconds, behind which the window, the changes and the sink of a flow read."""
        found = {"window": 0, "change": 0, "sink": 0}
        words = {"tumbling": "window", "Change": "change", "sink 'totals'": "sink"}
        inside = workspace._reconciler
        of_flow = inside.running.flows[name].needs
        for instance in of_flow:
            operator = inside.running.operators[instance]
            segment = next((one for one in inside.host.segments.values() if one.segment.root == instance), None)
            title = inside.title(instance)
            if segment is None or title not in words:
                continue
            for reading in segment.segment.readings:
                reader = inside.running.operators[reading.reader]
                marker = inside.markers.get((reader.launch, reader.id, reading.place), 0)
                found[words[title]] = max(0, marker) // 1_000_000
            assert operator is not None
        return found


def walk(about: dict[str, Any], answer: int) -> None:
    """Take steps in this process."""
    vars(new_flows)["sources_of_launch"] = lambda launch: None  # it would be all tests
    deaths = Deaths(about["die"])
    home = Walk(Path(about["home"]))
    status = "done"
    try:
        with Workspace(home.home / "workspace") as workspace:
            for step in about["steps"][len(home.done) :]:
                home.take(workspace, step)
    except BaseException:
        status = traceback.format_exc()
    os.write(answer, (json.dumps({"passed": deaths.passed, "status": status})).encode())
    os._exit(0)


def serve() -> None:
    """Fork for each line of the input."""
    for line in sys.stdin:
        about = json.loads(line)
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(here)
            walk(about, there)
        os.close(there)
        with os.fdopen(here, "rb") as file:
            said = file.read()
        os.waitpid(child, 0)
        print(said.decode() or json.dumps({"passed": 0, "status": "died"}), flush=True)


if __name__ == "__main__":
    serve()
