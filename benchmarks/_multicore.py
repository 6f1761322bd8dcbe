"""A machine with any number of cores, simulated: the worklists, buffers, heuristics and scheduler of ``compiler/local/ordered``
on workers whose time is counted, not measured.

``tests.local.steps`` compiles the structures with a pause before each atomic operation. Here a pause takes time: ``step``
for an atomic operation, an operator's cost for its work. Who waits for a lock goes on ``wake`` after its release. So workers
meet in queues, flags and locks as they would, one atomic operation at a time. What is not simulated: caches, and that several
cores slow each other down at one counter.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import attrs

from tests.local.steps import StepCounter, StepLock, twins
from tracetypes.compiler.local.ordered.flow import Flow
from tracetypes.compiler.local.ordered.heuristics import Heuristic
from tracetypes.compiler.local.ordered.operators import Edge, Kind, Operator
from tracetypes.compiler.local.ordered.primitives import Primitives
from tracetypes.compiler.local.ordered.scheduler import RETRY, Scheduler

__all__ = ["Costs", "Part", "Result", "simulate", "steps_of_a_unit"]

Thread = Generator[Any, None, Any]
QUEUES = {"hybrid": "HybridQueue", "partitioned": "PartitionedQueue", "shared": "KeyedSharedQueue"}


@attrs.frozen
class Costs:
    """Seconds: of an atomic operation, of a decision of the scheduler, from the release of a lock to the one that waits."""

    step: float
    decision: float
    wake: float


@attrs.frozen
class Part:
    """An operator of a chain. ``cost``: seconds a unit; ``selectivity``: outputs for each input; ``keys``: draws a key
    in [0, 1), which is partitioned by range."""

    kind: Kind
    cost: float
    selectivity: float = 1.0
    partitions: int = 0
    """At most so many, however many the scheme has; 0: as many as the scheme has."""
    keys: Callable[[random.Random], float] = random.Random.random
    slow: float = 0.0
    """The share of inputs that cost 50 times as much."""


@attrs.frozen
class Result:
    throughput: float
    """Inputs of the chain that were answered, a second, over the whole run."""
    latency: float
    """Mean seconds from the begin of the first operator's work on an input to the exit of an output of it."""
    end_to_end: float
    """The same from the entry of the input, with the time in the queue of the first operator."""
    cost: float
    """Mean seconds that workers spent on an input of the first operator, waiting included."""
    shares: tuple[float, ...]
    """Of the workers' time, by operator."""


class _Asleep(Exception):
    pass


class _Lock(StepLock):
    """Wakes those who wait for it."""

    machine: _Machine

    def __init__(self) -> None:
        super().__init__()
        self.waiters: list[int] = []

    def release(self) -> None:
        super().release()
        for one in self.waiters:
            self.machine.resume(one, self.machine.costs.wake)
        self.waiters.clear()


class _Condition(_Lock):
    """What the scheduler waits on. The simulation runs it within one step, so it only knows who sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.sleepers: deque[int] = deque()

    def __enter__(self) -> bool:  # type: ignore[override]
        return True

    def __exit__(self, *error: object) -> None:
        pass

    def wait(self) -> None:
        raise _Asleep

    def notify(self) -> None:
        if self.sleepers:
            self.machine.resume(self.sleepers.popleft(), self.machine.costs.wake)

    def notify_all(self) -> None:
        while self.sleepers:
            self.notify()


@cache
def _twins() -> SimpleNamespace:
    return twins()


def steps_of_a_unit() -> float:
    """The atomic operations for a unit of an empty stateless operator, from its worklist to its exit."""
    twin = _twins()

    def process(unit: int) -> Thread:
        yield from ()
        return (unit,)

    def deliver(output: Any) -> Thread:
        yield

    buffer = twin.NonBlockingReorderingBuffer(deliver)
    queue = twin.SharedQueue(process, buffer)
    for unit in range(100):
        queue.queue.append((unit, unit))
    return sum(1 for _ in queue.work(100)) / 100


class _Machine:
    """Events in the order of their time."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.now = 0.0
        self.events: list[tuple[float, int, int]] = []
        self.count = 0
        self.threads: list[Thread] = []

    def resume(self, thread: int, after: float) -> None:
        self.count += 1
        heapq.heappush(self.events, (self.now + after, self.count, thread))

    def run(self, until: Callable[[], bool]) -> None:
        step, events, threads = self.costs.step, self.events, self.threads
        while events and not until():
            self.now, _, thread = heapq.heappop(events)
            one = threads[thread]
            while True:
                pause = next(one)
                if pause is None:
                    after = step
                elif isinstance(pause, float):
                    after = pause
                elif isinstance(pause, _Condition):
                    pause.sleepers.append(thread)
                    break
                else:
                    assert isinstance(pause, _Lock)
                    pause.waiters.append(thread)
                    break
                if not events or self.now + after >= events[0][0]:
                    self.resume(thread, after)
                    break
                self.now += after


def simulate(
    chain: Sequence[Part],
    workers: int,
    heuristic: Heuristic,
    costs: Costs,
    *,
    scheme: str = "hybrid",
    reordering: str = "non-blocking",
    units: int = 10_000,
    partitions: int = 100,
    budget: int = 2000,
    size: int = 1024,
    seed: int = 1,
) -> Result:
    """Answer about ``units`` inputs of a chain. More come than can be answered: the input queue holds what the ``budget`` of
    units in flight leaves. ``reordering``: ``lock-based``, ``non-blocking`` or ``blocks``. Latencies are those of the middle
    60 percent of the time, as in the paper. Each input carries its times with it, like the wrappers of the paper's markers."""
    chance = random.Random(seed)
    machine = _Machine(costs)
    twin = _twins()
    kind: type[_Lock] = type("Lock", (_Lock,), {"machine": machine})
    condition = type("Condition", (_Condition,), {"machine": machine})
    primitives: Any = Primitives(lock=kind, counter=StepCounter)
    operators = [
        Operator(
            name=f"o{place}", kind=one.kind, partitions=min(partitions, one.partitions or partitions), budget=budget
        )
        for place, one in enumerate(chain)
    ]
    flow = Flow(operators, [Edge(*pair) for pair in pairwise(operators)])
    scheduler = Scheduler(flow, heuristic, window=0.005, condition=condition)
    answers: list[tuple[float, list[float]]] = []
    """When each output left, and when its input had come and the work on it begun."""
    samples: list[tuple[float, float]] = []
    count = [0] * len(chain)

    def unit_for(place: int, root: list[float]) -> Any:
        if place >= len(chain) or chain[place].kind is not Kind.PARTITIONED:
            return root
        return int(chain[place].keys(chance) * operators[place].partitions), root

    def process_of(place: int) -> Callable[..., Thread]:
        part = chain[place]

        def process(*inputs: Any) -> Thread:
            root = inputs[-1]
            if len(root) == 1:
                root.append(machine.now)
            slow = part.slow and chance.random() < part.slow
            yield part.cost * chance.uniform(0.8, 1.2) * (50 if slow else 1)
            count[place] += 1
            outputs = int(count[place] * part.selectivity) - int((count[place] - 1) * part.selectivity)
            return [unit_for(place + 1, root) for _ in range(outputs)]

        return process

    def deliver_of(place: int) -> Callable[[Any], Thread]:
        put = operators[place + 1].worklist.put if place + 1 < len(chain) else None

        def deliver(output: Any) -> Thread:
            for unit in output:
                if put is None:
                    yield
                    answers.append((machine.now, unit))
                else:
                    yield from put(unit)  # type: ignore[misc]
            if flow.idle:
                yield
                scheduler.wake()

        return deliver

    for place in reversed(range(len(chain))):
        one, process, deliver = operators[place], process_of(place), deliver_of(place)
        match reordering:
            case "lock-based":
                buffer = twin.LockBasedReorderingBuffer(deliver, primitives)
            case "non-blocking":
                buffer = twin.NonBlockingReorderingBuffer(deliver, size)
            case _:
                buffer = twin.BlockOrderBuffer(deliver, primitives)
        match one.kind:
            case Kind.STATEFUL:
                one.worklist, buffer = twin.SingleQueue(process, deliver), None
            case Kind.STATELESS:
                one.worklist = twin.SharedQueue(process, buffer)
            case _:
                one.worklist = getattr(twin, QUEUES[scheme])(
                    one.partitions, process, lambda mark, outputs: outputs, buffer, primitives
                )
        one.buffer = buffer

    puts: Any = [one.worklist.put for one in operators]

    def fill() -> None:
        for _ in range(flow.room(operators[0])):
            for _ in puts[0](unit_for(0, [machine.now])):
                pass

    decisions = kind()

    def worker() -> Thread:
        parked: dict[Operator, Any] = {}
        finished: Operator | None = None
        stamp, done, started, ended = (0, 0, 0), 0, 0.0, 0.0
        while True:
            resent = False
            for one, (serial, output) in list(parked.items()):
                if (yield from one.buffer.send(serial, output)):  # type: ignore[misc, union-attr]
                    del parked[one]
                    resent = True
            yield
            while not decisions.acquire(False):
                yield decisions
            yield costs.decision
            fill()
            try:
                turn = scheduler.begin(finished, stamp, done, started, ended, parked, resent)
            except _Asleep:
                turn = None
            decisions.release()
            finished = None
            if turn is None:
                yield scheduler.changed
                flow.idle -= 1
                scheduler.parked -= bool(parked)
            elif turn is not RETRY:
                assert isinstance(turn, tuple)
                finished, amount = turn
                stamp, started = finished.stamp(), machine.now
                works: Callable[[int], Thread] = finished.worklist.work  # type: ignore[assignment]
                done, refused = yield from works(amount)
                ended = machine.now
                if finished is operators[0]:
                    samples.append((ended - started, done))
                if refused is not None:
                    parked[finished] = refused

    machine.threads = [worker() for _ in range(workers)]
    for number in range(workers):
        machine.resume(number, 0.0)
    factor = 1.0
    for part in chain:
        factor *= part.selectivity
    target = int(units * factor)
    machine.run(lambda: len(answers) >= target)
    first, last = machine.now * 0.2, machine.now * 0.8
    middle = [(end, *root) for end, root in answers if first <= end <= last]
    totals = [one.total_time + one.time for one in operators]
    return Result(
        throughput=len(answers) / factor / machine.now,
        latency=sum(end - start for end, _, start in middle) / max(1, len(middle)),
        end_to_end=sum(end - entry for end, entry, _ in middle) / max(1, len(middle)),
        cost=sum(seconds for seconds, _ in samples) / max(1, sum(done for _, done in samples)),
        shares=tuple(round(one / (sum(totals) or 1.0), 3) for one in totals),
    )
