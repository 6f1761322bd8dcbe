"""What it costs others when a flow joins a workspace, and from which cost on sharing pays. Part of :mod:`benchmarks.reuse`."""

from __future__ import annotations

import json
import random
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

import tracetypes
from tracetypes import Dataflow, U, every, json_lines
from tracetypes.stdlib import filter, map_values, sum, tumbling
from tracetypes.workspace import Workspace

__all__ = ["attach"]

USERS = 100


@attrs.frozen
class Click:
    user: str
    ts: int
    amount: int


def flow(name: str, least: int, size: int = 1) -> Dataflow:
    """Sums of each user. Flows of the same ``least`` and ``size`` share all but the sink."""
    graph = Dataflow(name)
    markers = every(seconds=1, time=lambda c: c.ts)
    clicks = graph.source("clicks", U[str, Click], key=lambda c: c.user, markers=markers, format=json_lines())
    amounts = clicks.through(filter(lambda key, c: c.amount > least)).through(map_values(lambda c: c.amount, to=int))
    graph.sink("totals", amounts.through(tumbling(sum(to=int), size=size)))
    return graph


def kept(name: str, least: int) -> Dataflow:
    """The rows of a source, but for some."""
    graph = Dataflow(name)
    clicks = graph.source("clicks", U[str, Click], key=lambda c: c.user, markers=every(seconds=1, time=lambda c: c.ts))
    graph.sink("kept", clicks.through(filter(lambda key, c: c.amount != least)))
    return graph


def attach(joins: int, rows: int) -> Iterator[dict[str, Any]]:
    """The lines of ``--attach``."""
    with tempfile.TemporaryDirectory() as home:
        yield latency(Path(home), joins)
    with tempfile.TemporaryDirectory() as home:
        yield break_even(Path(home), rows)


def latency(home: Path, joins: int) -> dict[str, Any]:
    """Seconds from a file to the rows that it lets a flow answer: alone, while others join and leave, and afterwards."""
    drawn = random.Random(1)
    (home / "clicks").mkdir()
    number = 0

    def sample(workspace: Workspace) -> float:
        """Write a file, which closes the block before it, and wait for the answer."""
        nonlocal number
        before = len(list((home / "ann").glob("part-*")))
        rows = [{"user": f"u{user}", "ts": number, "amount": drawn.randrange(1, 9)} for user in range(USERS)]
        hidden = home / "clicks" / f".{number}"
        hidden.write_text("".join(json.dumps(one) + "\n" for one in rows))
        number += 1
        began = time.perf_counter()
        hidden.rename(home / "clicks" / f"{number:06d}.jsonl")
        while len(list((home / "ann").glob("part-*"))) == before and number > 1:
            time.sleep(0.001)
        return time.perf_counter() - began

    with Workspace(home / "workspace") as workspace:
        workspace.submit("ann", flow("ann", 0), {"clicks": home / "clicks"}, {"totals": home / "ann"})
        for _ in range(20):
            sample(workspace)
        alone = [sample(workspace) for _ in range(100)]
        submits: list[float] = []

        def come_and_go() -> None:
            for join in range(joins):
                name = f"f{join}"
                began = time.perf_counter()
                workspace.submit(name, flow(name, join % 3, 1 + join % 2), {"clicks": home / "clicks"}, {"totals": home / name})
                submits.append(time.perf_counter() - began)
                if join % 2:
                    workspace.remove(name)

        thread = threading.Thread(target=come_and_go)
        thread.start()
        during: list[float] = []
        while thread.is_alive():
            during.append(sample(workspace))
        after = [sample(workspace) for _ in range(100)]
    added = _p(during, 99) - _p(alone, 99)
    return {
        "benchmark": "reuse",
        "part": "attach",
        "joins": joins,
        **{f"{word}_p{p}_s": round(_p(some, p), 4) for word, some in _named(alone, during, after) for p in (50, 99)},
        "submit_p50_s": round(_p(submits, 50), 4),
        "added_p99_s": round(added, 4),
        "asked_s": 0.5,
    }


def break_even(home: Path, rows: int) -> dict[str, Any]:
    """Nanoseconds of processor time a row: what a channel costs who writes it and who reads it. Two flows that share a prefix
    write it once and read it twice; two runs compute it twice. So sharing pays where the prefix costs more than writing and two
    reads."""
    (home / "clicks").mkdir()
    drawn = random.Random(2)
    table = pa.table(
        {
            "user": [f"u{drawn.randrange(USERS)}" for _ in range(rows)],
            "ts": sorted(drawn.randrange(rows // 1000 + 1) for _ in range(rows)),
            "amount": [drawn.randrange(100) for _ in range(rows)],
        }
    )
    pq.write_table(table, home / "clicks" / "1.parquet")
    spent: dict[int, float] = {}
    for readers in (0, 1, 3):
        taken = []
        for turn in range(3):
            began = _processor()
            place = home / f"{readers}-{turn}"
            if readers:
                with Workspace(place) as workspace:
                    for reader in range(readers):
                        name = f"r{reader}"
                        graph = kept(name, 1_000 + reader)
                        workspace.submit(name, graph, {"clicks": home / "clicks"}, {"kept": "noop:"}, start="earliest")
                    workspace.wait()
            else:
                tracetypes.run(
                    kept("alone", 1_000),
                    {"clicks": home / "clicks"},
                    {"kept": "noop:"},
                    backend="local",
                    checkpoint=place,
                )
            taken.append(_processor() - began)
        spent[readers] = min(taken)
    read = (spent[3] - spent[1]) / 2 / rows * 1e9
    write = (spent[1] - spent[0]) / rows * 1e9 - read
    return {
        "benchmark": "reuse",
        "part": "break-even",
        "rows": rows,
        "run_ns": round(spent[0] / rows * 1e9, 1),
        "write_ns": round(write, 1),
        "read_ns": round(read, 1),
        "pays_from_ns": round(write + 2 * read, 1),
    }


def _processor() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _named(*some: list[float]) -> list[tuple[str, list[float]]]:
    return list(zip(("alone", "during", "after"), some, strict=True))


def _p(seconds: list[float], percent: int) -> float:
    if len(seconds) < 2:
        return seconds[0] if seconds else 0.0
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1]
