"""The structures of the ordered multicore runtime: what they cost, and the tables of the paper on a simulated machine.

    python -m benchmarks.ordered [--part PART ...] [--runs N] [--units N] [--workers N] [--rows N]
    python -m benchmarks.ordered --threads N [--runs N] [--units N]

Parts: ``empty``, chains of 1 to 10 operators that do nothing, on one thread (CPU time for a unit and operator); ``profile``,
where that time goes; ``decision``, what the scheduler takes for a turn; ``threads``, an operator of hashes, which release the
GIL, on 1 and 2 threads; ``figure8`` (with the time distribution) to ``figure14``, ``cross`` (each query with each heuristic and
scheme; more comes than can be answered, so throughput is the peak), and ``typed`` order beside serial order, simulated on
``--workers`` cores (``_multicore``) with the costs measured in this run. The queries have the shapes of the paper's Table 1;
their costs and selectivities are ours, or with ``--rows`` those of ``examples/tpcx_bb.py`` (``_operator_costs``). Prints JSON
lines.

With ``--threads`` nothing is simulated: the operators of figures 12 and 13 run on 1 to N real threads, in Python that holds a
GIL where there is one. It needs only attrs and cloudpickle, so that it runs on an interpreter without a GIL.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import json
import platform
import pstats
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks._multicore import Costs, Part, Result, simulate, steps_of_a_unit
from tracetypes import __version__ as version
from tracetypes.compiler.local.ordered.flow import Flow, Reordering, Settings
from tracetypes.compiler.local.ordered.heuristics import HEURISTICS, CurrentThroughput, LastInPipeline
from tracetypes.compiler.local.ordered.operators import Edge, Kind, Operator
from tracetypes.compiler.local.ordered.scheduler import Scheduler
from tracetypes.compiler.local.ordered.workers import Workers, work

SL, PS, SF = Kind.STATELESS, Kind.PARTITIONED, Kind.STATEFUL
MICRO = 1e-6

QUERIES = {
    "Q1": [Part(SL, 20 * MICRO, 0.8), Part(PS, 40 * MICRO, 2.0), Part(PS, 30 * MICRO, 0.5), Part(SF, 5 * MICRO, 0.1)],
    "Q2": [
        Part(SL, 20 * MICRO, 0.8),
        Part(PS, 40 * MICRO, 0.2),
        Part(SL, 100 * MICRO, 10.0),
        Part(PS, 30 * MICRO, 0.2),
        Part(SF, 5 * MICRO, 0.1),
    ],
    "Q3": [Part(SL, 20 * MICRO, 0.5), Part(PS, 60 * MICRO, 0.3), Part(PS, 30 * MICRO, 0.1)],
    "Q4": [Part(SL, 20 * MICRO, 0.8), Part(PS, 40 * MICRO, 0.2), Part(SL, 50 * MICRO, 0.5), Part(SF, 10 * MICRO, 0.05)],
    "Q15": [Part(SL, 20 * MICRO, 0.6), Part(SL, 30 * MICRO), Part(PS, 40 * MICRO, 0.1, partitions=10)],
}


def say(**line: Any) -> None:
    """Print a JSON line."""
    print(json.dumps(line), flush=True)


# ----------------------------------------------------------------------------------------------------- measured


def empty_chain(kind: Kind, length: int, settings: Settings | None = None) -> tuple[Flow, list[Any]]:
    """Operators that answer each unit with itself."""
    operators = []
    for place in range(length):
        process: Callable[..., Any] = (lambda partition, unit: (unit,)) if kind is PS else (lambda unit: (unit,))
        operators.append(Operator(name=f"o{place}", kind=kind, process=process, partitions=16, budget=1 << 30))
    way = (lambda unit: ((unit % 16, unit),)) if kind is PS else None
    outputs: list[Any] = []
    edges = [Edge(one, two, way) for one, two in pairwise(operators)]
    return Flow(operators, edges, {operators[-1].name: outputs.extend}, settings), outputs


def seconds_of_empty(kind: Kind, length: int, units: int, settings: Settings | None = None) -> float:
    """CPU seconds for a unit and operator, on one thread."""
    flow, outputs = empty_chain(kind, length, settings)
    scheduler = Scheduler(flow, LastInPipeline())
    for unit in range(units):
        scheduler.offer(flow.operators[0], (unit % 16, unit) if kind is PS else unit)
    scheduler.close()
    start = time.process_time()
    work(scheduler)
    seconds = time.process_time() - start
    assert outputs == list(range(units))
    return seconds / units / length


PARTS = {"worklists.py": "worklist", "reordering.py": "buffer", "flow.py": "delivery", "scheduler.py": "scheduler"}
"""By module, but for what is added to the next worklist: that is delivery."""


def shares_of_empty(kind: Kind, length: int, units: int = 20_000) -> dict[str, float]:
    """Where the time of empty operators goes, by cProfile, which makes calls dearer than they are."""
    flow, _ = empty_chain(kind, length)
    scheduler = Scheduler(flow, LastInPipeline())
    for unit in range(units // length):
        scheduler.offer(flow.operators[0], (unit % 16, unit) if kind is PS else unit)
    scheduler.close()
    profile = cProfile.Profile()
    profile.runcall(work, scheduler)
    shares: Counter[str] = Counter()
    for (file, _, name), (_, _, own, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        place = PARTS.get(Path(file).name.removeprefix("partitioned_"))
        if file.startswith("~"):  # of C: it counts where it is called
            for (caller, _, _), (_, _, mine, _) in callers.items():
                shares[PARTS.get(Path(caller).name.removeprefix("partitioned_"), "the rest")] += mine
        else:
            shares["delivery" if name == "put" else place or "the rest"] += own
    return {part: round(seconds / shares.total(), 2) for part, seconds in shares.most_common()}


def seconds_of_decision(length: int, heuristic: str, turns: int = 5000) -> float:
    """CPU seconds of a turn: back to the scheduler, and away with the next one."""
    flow, _ = empty_chain(SL, length)
    scheduler = Scheduler(flow, HEURISTICS[heuristic]())
    for one in flow.operators:
        for unit in range(100):
            one.worklist.put(unit)
    one = flow.operators[0]
    one.workers = scheduler.active = 1
    stamp = one.stamp()
    start = time.process_time()
    for turn in range(turns):
        result = scheduler.begin(one, stamp, 1, 0.0, turn * MICRO, {}, False)
        assert isinstance(result, tuple)
        one = result[0]
    return (time.process_time() - start) / turns


def seconds_of_workers(scheduler: Scheduler, threads: int) -> float:
    """Wall seconds until everything that was offered is answered."""
    scheduler.close()
    crew = Workers(scheduler, threads)
    start = time.perf_counter()
    crew.start()
    crew.join()
    return time.perf_counter() - start


def seconds_on_threads(threads: int, cost: float, units: int, reordering: Reordering) -> float:
    """Wall seconds for all units of a stateless operator that hashes for about ``cost`` seconds."""
    block = bytes(1 << 14)
    start = time.perf_counter()
    for _ in range(50):
        hashlib.sha256(block)
    times = max(1, round(cost / ((time.perf_counter() - start) / 50)))

    def process(unit: int) -> tuple[int]:
        for _ in range(times):
            hashlib.sha256(block)
        return (unit,)

    outputs: list[int] = []
    only = Operator(name="only", kind=SL, process=process, budget=1 << 30)
    scheduler = Scheduler(Flow([only], [], {"only": outputs.extend}, Settings(reordering=reordering)), LastInPipeline())
    for unit in range(units):
        scheduler.offer(only, unit)
    seconds = seconds_of_workers(scheduler, threads)
    assert outputs == list(range(units))
    return seconds


def busy(seconds: float) -> Callable[[], int]:
    """Python for about so many seconds."""

    def loop(times: int) -> int:
        for _ in range(times):
            pass
        return times

    times = 10_000

    def seconds_of_loop() -> float:
        start = time.perf_counter()
        loop(times)
        return time.perf_counter() - start

    times = round(times * seconds / min(seconds_of_loop() for _ in range(20)))
    return lambda: loop(times)


def inputs_a_second(figure: int, does: Callable[[], int], threads: int, reordering: Reordering, units: int) -> float:
    """By wall clock. Figure 12: a stateless operator. Figure 13: one that emits 50 outputs for each input, and a partitioned one
    behind it. Each ``does`` the work of an input."""
    settings = Settings(reordering=reordering)
    outputs: list[int] = []
    if figure == 12:
        only = Operator(name="light", kind=SL, process=lambda unit: (does(), (unit,))[1], budget=1 << 30)
        flow = Flow([only], [], {"light": outputs.extend}, settings)
        expected = units
    else:
        units //= 100
        only = Operator(
            name="selective", kind=SL, process=lambda unit: (does(), range(50 * unit, 50 * unit + 50))[1], budget=1 << 30
        )
        second = Operator(name="second", kind=PS, process=lambda part, unit: (does(), (unit,))[1], partitions=100)
        edge = Edge(only, second, lambda unit: ((unit * 31 % 100, unit),))
        flow = Flow([only, second], [edge], {"second": outputs.extend}, settings)
        expected = 50 * units
    scheduler = Scheduler(flow, CurrentThroughput())
    for unit in range(units):
        scheduler.offer(only, unit)
    seconds = seconds_of_workers(scheduler, threads)
    assert outputs == list(range(expected))
    return units / seconds


def real_threads(most: int, runs: int, units: int) -> Iterator[dict[str, Any]]:
    """An operator of 10 us, and two of 100 us. The best of the runs, which take turns."""
    for figure, cost in ((12, 10 * MICRO), (13, 100 * MICRO)):
        does = busy(cost)
        ways = [(threads, one) for threads in range(1, most + 1) for one in Reordering]
        best = dict.fromkeys(ways, 0.0)
        for _ in range(runs):
            for way in ways:
                best[way] = max(best[way], inputs_a_second(figure, does, *way, units))
        for (threads, reordering), rate in best.items():
            line = {"threads": threads, "reordering": reordering.value, "inputs_a_second": round(rate, 1)}
            yield {"part": f"figure{figure}"} | line | {"speed_up": round(rate / best[1, reordering], 2)}


def seconds_of_waking(rounds: int = 200) -> float:
    """Wall seconds from the release of a lock to the thread that waits for it."""
    first, second = threading.Lock(), threading.Lock()
    first.acquire()
    second.acquire()

    def other() -> None:
        for _ in range(rounds):
            first.acquire()
            second.release()

    thread = threading.Thread(target=other)
    thread.start()
    start = time.perf_counter()
    for _ in range(rounds):
        first.release()
        second.acquire()
    seconds = time.perf_counter() - start
    thread.join()
    return seconds / rounds / 2


def measured_costs() -> Costs:
    """What the simulation counts for its steps: an empty operator divided by its atomic operations, and so on."""
    unit = min(seconds_of_empty(SL, 1, 20_000) for _ in range(5))
    return Costs(
        step=unit / steps_of_a_unit(),
        decision=min(seconds_of_decision(4, "CT") for _ in range(5)),
        wake=min(seconds_of_waking() for _ in range(5)),
    )


# ----------------------------------------------------------------------------------------------------- simulated


def mean(results: list[Result]) -> dict[str, Any]:
    """Throughput a second; microseconds."""
    return {
        "throughput": round(statistics.mean(one.throughput for one in results)),
        "latency_us": round(1e6 * statistics.mean(one.latency for one in results), 1),
        "end_to_end_us": round(1e6 * statistics.mean(one.end_to_end for one in results), 1),
        "cost_us": round(1e6 * statistics.mean(one.cost for one in results), 2),
        "shares": [round(statistics.mean(some), 2) for some in zip(*(one.shares for one in results), strict=True)],
    }


class Figures:
    """Each yields the lines of a table."""

    def __init__(self, runs: int, units: int, workers: int, costs: Costs, queries: Mapping[str, list[Part]]) -> None:
        self.runs, self.units, self.workers, self.costs, self.queries = runs, units, workers, costs, queries

    def mean(self, chain: list[Part], heuristic: str, workers: int, **how: Any) -> dict[str, Any]:
        how.setdefault("units", self.units)
        return mean(
            [simulate(chain, workers, HEURISTICS[heuristic](), self.costs, seed=run, **how) for run in range(self.runs)]
        )

    def scheme(self, name: str, workers: int) -> dict[str, Any]:
        """As in the paper: a partition for each worker, or 100."""
        return {"scheme": name, "partitions": workers if name == "partitioned" else 100}

    def figure8(self) -> Iterator[dict[str, Any]]:
        """Heuristics: throughput, latency, the workers' time by operator."""
        for query, chain in self.queries.items():
            for heuristic in HEURISTICS:
                yield {"query": query, "heuristic": heuristic} | self.mean(chain, heuristic, self.workers)
            yield {"query": query, "heuristic": "CT", "workers": 1} | self.mean(chain, "CT", 1)

    def figure9(self) -> Iterator[dict[str, Any]]:
        """Skew: keys of a normal distribution, cut to [-1, 1]."""
        for deviation in (0.2, 0.4, 0.8, 1.6):

            def key(chance: random.Random, deviation: float = deviation) -> float:
                while True:
                    value = chance.gauss(0.0, deviation)
                    if -1.0 <= value < 1.0:
                        return (value + 1.0) / 2

            chain = [Part(PS, 100 * MICRO, keys=key)]
            for scheme in ("partitioned", "hybrid"):
                line = {"sigma": deviation, "scheme": scheme}
                yield line | self.mean(chain, "LP", self.workers, **self.scheme(scheme, self.workers))

    def figure10(self) -> Iterator[dict[str, Any]]:
        """Latency by cost."""
        for cost in (10, 100, 1000, 10_000):
            for scheme in ("shared", "partitioned", "hybrid"):
                how = self.scheme(scheme, self.workers)
                result = self.mean([Part(PS, cost * MICRO)], "LP", self.workers, **how)
                yield {"operator_us": cost, "scheme": scheme} | result

    def figure11(self) -> Iterator[dict[str, Any]]:
        """Partitioning schemes on queries."""
        for query, chain in self.queries.items():
            for scheme in ("partitioned", "hybrid"):
                how = self.scheme(scheme, self.workers)
                yield {"query": query, "scheme": scheme} | self.mean(chain, "CT", self.workers, **how)

    def figure12(self) -> Iterator[dict[str, Any]]:
        """A light operator."""
        for workers in (1, 2, 4, 8, 12, 16):
            for reordering in ("lock-based", "non-blocking"):
                result = self.mean([Part(SL, 10 * MICRO)], "LP", workers, reordering=reordering, units=2 * self.units)
                yield {"workers": workers, "reordering": reordering} | result

    def figure13(self) -> Iterator[dict[str, Any]]:
        """A selective operator: 50 outputs for each input."""
        for workers in (1, 2, 4, 8, 12, 16):
            for reordering in ("lock-based", "non-blocking"):
                chain = [Part(SL, 100 * MICRO, 50.0), Part(PS, 100 * MICRO)]
                result = self.mean(chain, "CT", workers, reordering=reordering, units=max(200, self.units // 20))
                yield {"workers": workers, "reordering": reordering} | result

    def figure14(self) -> Iterator[dict[str, Any]]:
        """Reordering buffers on queries."""
        for query, chain in self.queries.items():
            for reordering in ("lock-based", "non-blocking"):
                result = self.mean(chain, "CT", self.workers, reordering=reordering)
                yield {"query": query, "reordering": reordering} | result

    def cross(self) -> Iterator[dict[str, Any]]:
        """Each heuristic with each scheme, on queries."""
        for query, chain in self.queries.items():
            for heuristic in HEURISTICS:
                for scheme in ("shared", "partitioned", "hybrid"):
                    how = self.scheme(scheme, self.workers)
                    yield {"query": query, "heuristic": heuristic, "scheme": scheme} | self.mean(
                        chain, heuristic, self.workers, **how
                    )

    def typed(self) -> Iterator[dict[str, Any]]:
        """Serial and typed order, when some inputs cost 50 times as much as the others."""
        for slow in (0.0, 0.001, 0.01):
            for order in ("non-blocking", "blocks"):
                chain = [Part(SL, 100 * MICRO, slow=slow), Part(PS, 20 * MICRO)]
                yield {"slow": slow, "order": order} | self.mean(chain, "LP", self.workers, reordering=order)


FIGURES = [*(f"figure{number}" for number in range(8, 15)), "cross", "typed"]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=["empty", "profile", "decision", "threads", *FIGURES])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--rows", type=int, default=0, help="of TPCx-BB, whose operators are measured; 0: costs of ours")
    parser.add_argument("--threads", type=int, default=0, help="real threads for figures 12 and 13, and nothing else")
    arguments = parser.parse_args()
    say(version=version, python=platform.python_version(), runs=arguments.runs)
    if arguments.threads:
        for line in real_threads(arguments.threads, arguments.runs, arguments.units):
            say(**line)
        return
    parts = arguments.part or ["empty", "profile", "decision", "threads", *FIGURES]
    for kind, length in ((kind, length) for kind in (SF, SL, PS) for length in (1, 2, 5, 10) if "empty" in parts):
        values = [seconds_of_empty(kind, length, 20_000 // length) for _ in range(arguments.runs)]
        say(part="empty", kind=kind.value, operators=length, us_a_unit_and_operator=round(1e6 * min(values), 3))
    for kind, length in ((kind, length) for kind in (SF, SL, PS) for length in (1, 10) if "profile" in parts):
        say(part="profile", kind=kind.value, operators=length, shares=shares_of_empty(kind, length))
    for heuristic, length in ((one, length) for one in HEURISTICS for length in (1, 5, 10) if "decision" in parts):
        least = min(seconds_of_decision(length, heuristic) for _ in range(arguments.runs))
        say(part="decision", heuristic=heuristic, operators=length, us_a_turn=round(1e6 * least, 2))
    for cost, reordering in ((cost, one) for cost in (10, 100, 1000) for one in Reordering if "threads" in parts):
        count = max(100, 200_000 // cost)
        walls = [min(seconds_on_threads(n, cost * MICRO, count, reordering) for _ in range(arguments.runs)) for n in (1, 2)]
        say(part="threads", operator_us=cost, reordering=reordering.value, speed_up=round(walls[0] / walls[1], 2))
    if set(parts) & set(FIGURES):
        costs = measured_costs()
        queries = QUERIES
        if arguments.rows:
            from benchmarks._operator_costs import parts_of

            queries = {name: parts_of(int(name[1:]), arguments.rows) for name in QUERIES}
        for name, some in queries.items() if arguments.rows else ():
            operators = [(one.kind.value, round(1e6 * one.cost, 1), round(one.selectivity, 3)) for one in some]
            say(part="costs", query=name, operators=operators)
        figures = Figures(arguments.runs, arguments.units, arguments.workers, costs, queries)
        say(simulated=True, workers=arguments.workers, step_ns=round(1e9 * costs.step, 1),
            decision_us=round(1e6 * costs.decision, 2), wake_us=round(1e6 * costs.wake, 2))  # fmt: skip
        for name in (one for one in FIGURES if one in parts):
            for line in getattr(figures, name)():
                say(simulated=True, part=name, **({"workers": arguments.workers} | line))


if __name__ == "__main__":
    main()
