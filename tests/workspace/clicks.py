"""Flows of clicks for the tests of workspaces, and their answers counted by hand."""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from tracetypes import Dataflow, EmitValue, OpKeyedOrdered, U, every, sort
from tracetypes.stdlib import filter, map_values, sum, tumbling

PERIOD = 60


@attrs.frozen
class Click:
    user: str
    ts: int
    amount: int


@attrs.frozen
class Change(OpKeyedOrdered[str, int, int, int]):
    """The change of a value since the one before it, and the first one itself."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: int, emit: EmitValue[int]) -> int:
        emit(value - state)
        return value


def totals(name: str, *, size: int = 300, least: int = 0, changes: bool = False, delay: int = 0) -> Dataflow:
    """The sum of the amounts above ``least`` of a user in windows of ``size`` seconds; with ``changes``, from one to the next."""
    flow = Dataflow(name)
    how = every(seconds=PERIOD, time=lambda click: click.ts, delay=delay)
    clicks = flow.source("clicks", U[str, Click], key=lambda click: click.user, markers=how)
    amounts = clicks.through(filter(lambda key, click: click.amount > least)).through(map_values(lambda c: c.amount, to=int))
    sums = amounts.through(tumbling(sum(of=lambda amount: amount, to=int), size=size))
    answer = sums.through(sort(by=lambda total: total)).through(Change()) if changes else sums
    flow.sink("totals", answer, marker="at")
    return flow


def write(folder: Path, number: int, clicks: Iterable[Click]) -> None:
    """One more file, which appears whole."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{number:04d}"
    hidden.write_text("".join(json.dumps(attrs.asdict(one)) + "\n" for one in clicks))
    hidden.rename(folder / f"{number:04d}.jsonl")


def rows(output: Path) -> list[tuple[int, str, int]]:
    """The rows of an output, as (end of the block in seconds, user, value), sorted."""
    found: list[tuple[int, str, int]] = []
    for file in sorted(output.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            row: dict[str, Any] = json.loads(line)
            found.append((int(dt.datetime.fromisoformat(row["at"]).timestamp()), row["key"], row["value"]))
    return sorted(found)


def answer(
    clicks: Iterable[Click],
    *,
    size: int = 300,
    least: int = 0,
    changes: bool = False,
    window: int = 0,
    change: int = 0,
    sink: int = 0,
) -> list[tuple[int, str, int]]:
    """What a flow answers, by (end, user, value), sorted. ``window``, ``change``, ``sink``: the markers (seconds) behind which
    these operators read."""
    sums: dict[tuple[int, str], int] = defaultdict(int)
    for one in clicks:
        if one.amount > least and (one.ts // PERIOD + 1) * PERIOD > window:
            sums[(one.ts // size + 1) * size, one.user] += one.amount
    last: dict[str, int] = {}
    found: list[tuple[int, str, int]] = []
    for (end, user), total in sorted(sums.items()):
        if changes and end <= change:
            continue
        value = total - last.get(user, 0) if changes else total
        last[user] = total
        if end > sink:
            found.append((end, user, value))
    return found
