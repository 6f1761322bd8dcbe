"""A batch of 1,000 rows through source and stage, without files and commits: microseconds of processor time, and where they go.

    python -m benchmarks.small_batches [--rows N] [--batches N] [--queries IV,V,count,1,10] [--key-groups 1]

Rows of the Yahoo benchmark come as Arrow columns, one batch an epoch; ``count`` counts events with seven fields by an integer
key and second, and a number is a chain of so many operators that do nothing, before that. ``source``: from the columns to
messages by key group. ``stage``: all key groups that have messages, from messages to rows of the sink. ``total``: both.
``with_state``: the same once more, where after each batch the states become bytes with their digests, as a commit asks for
them (``state``); that empties the caches of the processor. Each number is the median of all batches after the first tenth,
and the tenth percentile (``least``), which says less of other programs. One thread has one key group: the local backend puts
those of a plan together.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from benchmarks.streams import Event
from examples import yahoo, yahoo_data
from examples.yahoo_data import START
from tracetypes import Dataflow, Emit, OpStateless, Stream, U, check, every
from tracetypes.compiler.connectors.source_rows import taker
from tracetypes.compiler.connectors.text import ParsedRows
from tracetypes.compiler.local.states import StateParts
from tracetypes.compiler.plan.plan import FromSource, Plan, SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.messages import Message, Report
from tracetypes.compiler.runtime.source import SourceKernel
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.sources import reader
from tracetypes.stdlib import aggregate, count

RATE = 100_000
"""Events a second of event time."""


def events(known: yahoo_data.Tables, rows: int) -> list[Any]:
    """The columns of one batch but for the times: dictionaries are not encoded, as Arrow data of a program."""
    chance = np.random.default_rng(1)

    def text(some: list[str]) -> Any:
        return pa.array(some).take(pa.array(chance.integers(0, len(some), rows)))

    texts = [list(known.location_of), [f"page {n}" for n in range(100)], list(known.campaign_of)]
    texts += [list(yahoo_data.AD_TYPES), list(yahoo_data.EVENT_TYPES)]
    return [*map(text, texts), None, text([f"10.0.0.{n}" for n in range(250)])]


def numbers(rows: int) -> list[Any]:
    """The columns of a batch of :class:`Event`, but for the times."""
    n = np.arange(rows)
    text = pa.array(["/a/b"]).take(pa.array(np.zeros(rows, np.int64)))
    return [pa.array(n % 100), None, text, text, pa.array(n / 4), pa.array(n % 3 == 0), pa.array(n)]


@attrs.frozen
class Pass(OpStateless[int, Event, int, Event]):
    """Does nothing. ``number``: which one of a chain."""

    number: int

    def on_item(self, key: int, value: Event, emit: Emit[int, Event]) -> None:
        """Emit the item."""
        emit(key, value)


def chain(length: int) -> Dataflow:
    """The number of events of each key and second, behind operators that do nothing."""
    flow = Dataflow("chain")
    times = every(seconds=1, time=lambda e: e.ts, unit="ms")
    events: Stream[U[int, Event]] = flow.source("events", U[int, Event], key=lambda e: e.key, markers=times)
    for number in range(length):
        events = events.through(Pass(number))
    flow.sink("totals", events.through(aggregate(count())), marker="until")
    return flow


class Kernels:
    """One plan with one source and one stage, as a backend in one process runs it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.newest: int | None = None
        self.states: dict[int, Any] = {}
        (self.stage,) = self.plan.stages
        (link,) = links(self.stage.region)
        assert isinstance(link, SourceLink)
        assert isinstance(link.leaf, FromSource)
        self.link, self.kernel = link, StageKernel(self.plan, self.stage)
        self.source = SourceKernel(self.stage, link, self.plan.key_groups)
        self.take = taker(link.leaf, reader(link.leaf.source).read)

    def read(self, number: int, parsed: ParsedRows) -> list[Message]:
        """The messages of one batch."""
        messages = list(self.source.piece((0, 0, number), self.take(parsed), self.newest))
        self.newest = next(one.body.newest for one in messages if isinstance(one.body, Report))
        return messages

    def step(self, messages: list[Message]) -> int:
        """Run the stage. Returns how many messages leave it."""
        groups: dict[int, list[Message]] = defaultdict(list)
        for message in messages:
            groups[message.group].append(message)
        sent = 0
        for group in sorted(groups):
            if group not in self.states:
                self.states[group] = self.kernel.fresh()
            sent += sum(1 for _ in self.kernel.step(self.states[group], group, groups[group]))
        return sent

    def save(self) -> int:
        """The states as bytes. Returns their size."""
        return sum(StateParts.of(state).size for state in self.states.values())


def batch(number: int, columns: list[Any]) -> ParsedRows:
    """The rows of a batch, with times behind those of the one before."""
    rows = len(columns[0])
    times = pa.array(START + np.arange(number * rows, (number + 1) * rows) * 1_000 // RATE)
    return ParsedRows(tuple(times if column is None else column for column in columns), rows)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Microseconds of processor time, and the result."""
    before = time.thread_time()
    result = work()
    return 1e6 * (time.thread_time() - before), result


def rounds(kernels: Kernels, columns: list[Any], batches: int, *, saves: bool) -> Iterator[dict[str, float]]:
    """Microseconds of the parts of each batch."""
    for number in range(batches):
        source, messages = timed(partial(kernels.read, number, batch(number, columns)))
        stage, _ = timed(partial(kernels.step, messages))
        parts = {"source": source, "stage": stage, "total": source + stage}
        if saves:
            parts["state"], _ = timed(kernels.save)
        yield parts


def quantiles(plan: Plan, columns: list[Any], batches: int, *, saves: bool) -> dict[str, Any]:
    """The median and the tenth percentile of each part."""
    taken = defaultdict[str, list[float]](list)
    for at, one in enumerate(rounds(Kernels(plan), columns, batches, saves=saves)):
        for part, micros in one.items() if at >= batches // 10 else ():
            taken[part].append(micros)
    shown: dict[str, Any] = {part: round(median(some)) for part, some in taken.items()}
    return shown | {"least": {part: round(sorted(some)[len(some) // 10]) for part, some in taken.items()}}


def measure(name: str, flow: Dataflow, columns: list[Any], batches: int, key_groups: int) -> None:
    """Run batches, and print a JSON line."""
    planned = attrs.evolve(plan(check(flow), key_groups=key_groups), verify_every=0)
    shown = quantiles(planned, columns, batches, saves=False)
    shown["with_state"] = quantiles(planned, columns, batches, saves=True)
    shape = {"rows": len(columns[0]), "batches": batches, "key_groups": key_groups}
    print(json.dumps({"benchmark": "small batches", "query": name, **shape, **shown}), flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--queries", default="IV,V,count,1,10")
    parser.add_argument("--key-groups", type=int, default=1)
    given = parser.parse_args()
    known = yahoo_data.tables(users=1_000)
    texts = events(known, given.rows)
    queries = {"IV": yahoo.query_4(known), "V": yahoo.query_5(known)}
    for name in given.queries.split(","):
        if name in queries:
            measure(name, queries[name], texts, given.batches, given.key_groups)
        else:
            measure(name, chain(0 if name == "count" else int(name)), numbers(given.rows), given.batches, given.key_groups)


if __name__ == "__main__":
    main()
