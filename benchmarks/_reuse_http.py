"""How long a client of the service waits for a submit and for a removal. Part of :mod:`benchmarks.reuse`."""

from __future__ import annotations

import itertools
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks._processes import used_by
from tracetypes.workspace_client import WorkspaceClient

__all__ = ["http"]

LONGEST: Final = 50.0
"""Milliseconds of a submit and of a removal, p99."""

RECORDS: Final = """
import attrs

@attrs.frozen
class Click:
    user: str
    ts: int
    cents: int
"""

REGISTRY: Final = """
[inputs.clicks]
address = "clicks"
record = "records:Click"
key = "user"
markers = {seconds = 60, time = "ts"}

[limits]
tasks = 1000
flows = 100000
changes = 1000000
requests = 1000000
"""

WIDTH: Final = 190
"""Filters of a flow that fills the service."""

KEPT: Final = 5
"""Small flows that are there before anything is measured."""


def http(operators: int, changes: int, pause: float) -> dict[str, Any]:
    """The line of ``--http``: milliseconds of submits and removals of small flows, while so many operators run. ``pause``:
    seconds between two requests."""
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as (process, client):
        running = 0
        while running < operators:
            name = f"fill{running}"
            running += client.submit(name, wide(running)).operators - 1
            client.wait_until_started(name)
        for number in range(KEPT):  # the first ones import what flows need
            client.submit(f"small{number}", small(f"small{number}", number))
            client.wait_until_started(f"small{number}")
        took: dict[str, list[float]] = {"submit": [], "remove": [], "spin": []}
        used: dict[str, float] = {}
        before = used_by(process.pid)
        for number in range(KEPT, KEPT + changes):
            with _taken(took["submit"]):
                client.submit(f"small{number}", small(f"small{number}", number))
            with _taken(took["spin"]):
                _spin()
            time.sleep(pause)
        client.wait_until_started(f"small{KEPT + changes - 1}", 600)
        used["submit"], before = used_by(process.pid) - before, used_by(process.pid)
        states = [one.state for one in client.flows()]
        for number in range(KEPT, KEPT + changes):
            with _taken(took["remove"]):
                client.remove(f"small{number}")
            time.sleep(pause)
        used["remove"] = used_by(process.pid) - before
        return {
            "benchmark": "reuse",
            "part": "http",
            "operators": running,
            "flows": len(states),
            "segments": _segments(Path(folder)),
            "changes": changes,
            "pause_s": pause,
            **{f"{what}_ms": _shown(milliseconds) for what, milliseconds in took.items()},
            "cpu_ms": {what: round(1000 * seconds / changes, 1) for what, seconds in used.items()},
            "not_running": sum(one != "running" for one in states),
            "asked_ms": LONGEST,
        }


@contextmanager
def _taken(milliseconds: list[float]) -> Iterator[None]:
    """A context that adds what it takes."""
    began = time.perf_counter()
    yield
    milliseconds.append(1000 * (time.perf_counter() - began))


def _spin() -> None:
    """Use a processor for 10 ms."""
    until = time.thread_time() + 0.01
    while time.thread_time() < until:
        pass


def small(name: str, number: int) -> dict[str, Any]:
    """A flow of four tasks. It shares its source with others, and starts a window and a sink."""
    total = {"aggregate": {"type": "sum", "config": {"to": {"type": "int"}}}, "size": 60 * (1 + number % 50)}
    tasks = [
        {"id": "clicks", "type": "source", "config": {"input": "clicks"}},
        {"id": "cents", "type": "map_values", "config": {"function": {"field": "cents"}, "to": {"type": "int"}}},
        {"id": "spent", "type": "tumbling", "config": total},
        {"id": "totals", "type": "sink", "config": {"output": name}},
    ]
    return {"tasks": tasks, "streams": [list(pair) for pair in itertools.pairwise(one["id"] for one in tasks)]}


def wide(number: int) -> dict[str, Any]:
    """A flow of many filters side by side, none of which another flow has."""
    above = [{"predicate": {"field": "cents", "above": number + at}} for at in range(WIDTH)]
    filters = [{"id": f"f{at}", "type": "filter", "config": one} for at, one in enumerate(above)]
    source = {"id": "clicks", "type": "source", "config": {"input": "clicks"}}
    sink = {"id": "kept", "type": "sink", "config": {"output": f"fill{number}"}}
    streams = [pair for one in filters for pair in (["clicks", one["id"]], [one["id"], "kept"])]
    return {"tasks": [source, *filters, sink], "streams": streams}


@contextmanager
def _served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], WorkspaceClient]]:
    (folder / "records.py").write_text(RECORDS)
    (folder / "registry.toml").write_text(REGISTRY)
    (folder / "clicks").mkdir()
    rows = [{"user": "u", "ts": ts, "cents": 5} for ts in range(0, 600, 10)]
    (folder / "clicks" / "1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    command = [sys.executable, "-m", "tracetypes", "workspace", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    url = next(found.group(0) for line in process.stderr if (found := re.search(r"http://127.0.0.1:\d+", line)))
    token = (folder / "private" / "administrator.token").read_text()
    with WorkspaceClient(url, token) as administrator:
        client = WorkspaceClient(url, administrator.make_token("ann", "owner").token)
    try:
        with client:
            while not client.is_ready():
                time.sleep(0.1)
            yield process, client
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)


def _segments(folder: Path) -> int:
    return sum(1 for _ in (folder / "shared" / "workspace" / "segments").iterdir())


def _shown(milliseconds: list[float]) -> dict[str, float]:
    parts = statistics.quantiles(milliseconds, n=100, method="inclusive")
    shown = {"p50": parts[49], "p90": parts[89], "p99": parts[98], "most": max(milliseconds)}
    return {name: round(one, 1) for name, one in shown.items()}
