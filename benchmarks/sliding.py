"""The price of a sliding window at each marker: panes in a tuple, two stacks, subtracting, and recomputing.

    python -m benchmarks.sliding [--panes N,N,...] [--items N] [--seconds S]

One key in plain Python, without any backend. Each block brings ``--items`` items: they are lifted and combined into a pane,
the state is updated, and the window is told. ``recompute`` is what a window costs without panes: it keeps the items
themselves and adds all of them up at each marker. The aggregate is an integer sum, the cheapest there is: what is measured
is the bookkeeping. Nanoseconds an item, in cycles of all methods in turn, medians; after a whole window, so that it is full
and two stacks were turned over. All methods tell the same (``same``). Prints a JSON line for each number of panes.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tests.stdlib.small import Added
from tracetypes import Marker, __version__
from tracetypes.stdlib.panes import SlidingPanes, SlidingSubtracting, SlidingTwoStacks

OPERATORS = {"panes": SlidingPanes, "two_stacks": SlidingTwoStacks, "subtract": SlidingSubtracting}
MARKER = Marker(0)


def by_operator(cls: Callable[..., Any], panes: int, items: int) -> Iterator[int]:
    """What an operator tells at each marker, called as the template's sequential algorithm does."""
    op = cls(Added(), panes)
    state, results, value = op.initial_state(), list[int](), 0
    while True:
        agg = op.identity()
        for _ in range(items):
            value += 1
            agg = op.combine(agg, op.lift("key", value))
        state = op.update_state(state, agg)
        op.on_marker(state, "key", MARKER, lambda _, result: results.append(result))
        yield results.pop()


def recomputed(panes: int, items: int) -> Iterator[int]:
    """The same from the items of the window, from its first full one on."""
    aggregate, window = Added(), deque[list[int]](maxlen=panes)
    value = panes * items
    window.extend(list(range(n * items + 1, (n + 1) * items + 1)) for n in range(panes))
    while True:
        window.append(list(range(value + 1, value + items + 1)))
        value += items
        total = aggregate.identity()
        for block in window:
            for one in block:
                total = aggregate.combine(total, aggregate.lift(one))
        yield aggregate.result(total)


def measure(panes: int, items: int, seconds: float) -> dict[str, Any]:
    """Nanoseconds an item of each method, after one whole window."""
    runs = {name: by_operator(cls, panes, items) for name, cls in OPERATORS.items()}
    runs["recompute"] = recomputed(panes, items)
    last = [[next(run) for _ in range(1 if name == "recompute" else panes + 1)][-1] for name, run in runs.items()]
    same = len(set(last)) == 1
    times: dict[str, list[float]] = {name: [] for name in runs}
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends or len(times["recompute"]) < 3:
        for name, run in runs.items():
            # A whole turn of the two stacks, or of what recomputing may take, so that the expensive marker is in it.
            blocks = panes if name != "recompute" else max(1, 20_000 // (panes * items))
            start = time.perf_counter_ns()
            for _ in range(blocks):
                next(run)
            times[name].append((time.perf_counter_ns() - start) / blocks / items)
    medians = {name: round(statistics.median(all_)) for name, all_ in times.items()}
    return {
        "ns_an_item": medians,
        "recompute_over_two_stacks": round(medians["recompute"] / medians["two_stacks"], 1),
        "same": same,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--panes", default="10,60,600,3600")
    parser.add_argument("--items", type=int, default=10, help="of the key in each block")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each number of panes")
    arguments = parser.parse_args()
    for panes in map(int, arguments.panes.split(",")):
        line = {
            "benchmark": "sliding",
            "panes": panes,
            "items_a_block": arguments.items,
            **measure(panes, arguments.items, arguments.seconds),
            "versions": {"tracetypes": __version__, "python": platform.python_version()},
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
