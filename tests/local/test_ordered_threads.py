"""The real classes of ``compiler/local/ordered`` in real threads, which a controlled scheduler (frontrun) stops before each
bytecode that touches what they share. ``test_ordered_steps`` explores the same structures compiled again, in all interleavings;
here the bytecode is the real one, and frontrun leaves out interleavings that cannot differ. It does not see calls of what is in a
slot, so many of the classes are made again without ``__slots__``."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import frontrun
import pytest

from tests.strategies import some
from tracetypes.compiler.local.ordered import (
    block_order,
    flow,
    merge,
    partitioned_worklists,
    reordering,
    scheduler,
    worklists,
)
from tracetypes.compiler.local.ordered.flow import Flow
from tracetypes.compiler.local.ordered.heuristics import LastInPipeline
from tracetypes.compiler.local.ordered.marks import ALL, Mark
from tracetypes.compiler.local.ordered.operators import Edge, Kind, Operator
from tracetypes.compiler.local.ordered.primitives import Primitives
from tracetypes.compiler.local.ordered.workers import work

PRIMITIVES = Primitives(lock=lambda: threading.Lock())
"""Locks as ``threading`` makes them at that moment: those of the scheduler."""


@pytest.fixture(autouse=True)
def controlled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTRUN_ACTIVE", "1")


class Mutate(Protocol):
    def __call__(self, module: ModuleType, text: str = "", other: str = "") -> ModuleType: ...


@pytest.fixture
def mutant() -> Iterator[Mutate]:
    """Makes a module again without ``__slots__``, and with another text in the place of one."""
    names: list[str] = []

    def make(module: ModuleType, text: str = "", other: str = "") -> ModuleType:
        name = f"{module.__name__}_{len(names)}"
        spec = importlib.util.spec_from_file_location(name, module.__file__)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        assert not text or source.count(text) == 1
        twin = importlib.util.module_from_spec(spec)
        sys.modules[name] = twin
        names.append(name)
        source = source.replace(text, other) if text else source
        exec(compile(source.replace("__slots__ =", "_slots_ ="), spec.origin, "exec"), twin.__dict__)
        return twin

    yield make
    for name in names:
        del sys.modules[name]


Workers: TypeAlias = Sequence[Callable[[Any], Any]]


def explored(
    make: Callable[[], Any], workers: Workers, right: Callable[[Any], bool], preemptions: int | None = 2, most: int = 100
) -> Any:
    """What frontrun says of different interleavings of what it sees. As many in each profile: of a broken scheduler the 68th is
    wrong."""
    return frontrun.explore(
        setup=make,
        workers=list(workers),
        invariant=right,
        preemption_bound=preemptions,
        trace_packages=["tracetypes.*"],
        max_executions=most,
        detect_io=False,
        reproduce_on_failure=0,
        timeout_per_run=60.0,  # a run that is stopped on a busy machine says nothing
    )


def sampled(make: Callable[[], Any], workers: Workers, right: Callable[[Any], bool]) -> Any:
    """What frontrun says of random interleavings of bytecodes."""
    return frontrun.explore(
        setup=make,
        workers=list(workers),
        invariant=right,
        strategy="random",
        trace_packages=["tracetypes.*"],
        max_attempts=some(60),
        max_ops=600,
        seed=1,
        detect_io=False,
        reproduce_on_failure=0,
    )


Search: TypeAlias = Callable[[Callable[[], Any], Workers, Callable[[Any], bool]], Any]


# ------------------------------------------------------------------------------------------------------- buffers


class Senders:
    """A buffer, what has left it, and what it has refused."""

    def __init__(self, module: ModuleType, name: str, size: int) -> None:
        self.sent: list[int] = []
        self.refused: list[int] = []
        if name == "non-blocking":
            self.buffer = module.NonBlockingReorderingBuffer(self.sent.append, size)
        else:
            self.buffer = module.LockBasedReorderingBuffer(self.sent.append, PRIMITIVES)


def sender(serials: Sequence[int]) -> Callable[[Senders], None]:
    """A worker that sends outputs with these numbers."""

    def work(shared: Senders) -> None:
        for serial in serials:
            if not shared.buffer.send(serial, serial):
                shared.refused.append(serial)

    return work


def all_in_order(count: int) -> Callable[[Senders], bool]:
    """Whether each output left once and in order. Those that were refused are sent again when all workers are done."""

    def right(shared: Senders) -> bool:
        return all(shared.buffer.send(serial, serial) for serial in sorted(shared.refused)) and shared.sent == list(range(count))

    return right


@pytest.mark.parametrize("orders", [([0], [1]), ([0, 3], [1, 2]), ([2], [1], [0])], ids=str)
@pytest.mark.parametrize(("name", "size"), [("non-blocking", 1), ("non-blocking", 4), ("lock-based", 0)])
def test_outputs_leave_in_order(name: str, size: int, orders: Sequence[Sequence[int]]) -> None:
    result = explored(lambda: Senders(reordering, name, size), [*map(sender, orders)], all_in_order(sum(map(len, orders))))
    assert result.property_holds, result.explanation


def is_caught(search: Search, make: Callable[[], Any], workers: Workers, right: Callable[[Any], bool]) -> bool:
    """Whether a search finds an interleaving that ends wrongly, or with an error."""
    try:
        return search(make, workers, right).property_holds is False
    except (IndexError, RuntimeError, AssertionError):
        return True


TAKE = "                flag.pop()\n            except IndexError:\n"


@pytest.mark.parametrize(
    ("text", "other", "size", "orders"),
    [
        ("if slots[place] is EMPTY:  # it may have come since\n                return", "return", 4, ([0], [1])),
        ("if slots[serial % size] is not EMPTY:", "if False:", 4, ([0], [1])),
        ("added = serial < self.next + size", "added = True", 1, ([1, 0], [2])),
        (f"{TAKE}                return", f"{TAKE}                pass", 4, ([0], [1])),
    ],
    ids=["no look after release", "no look for those that wait", "no entry condition", "no exclusion"],
)
def test_broken_buffers_are_caught(mutant: Mutate, text: str, other: str, size: int, orders: Sequence[Sequence[int]]) -> None:
    twin = mutant(reordering, text, other)
    right = all_in_order(sum(map(len, orders)))
    assert is_caught(explored, lambda: Senders(twin, "non-blocking", size), [*map(sender, orders)], right)


# ---------------------------------------------------------------------------------------------------- partitions


class Consumers:
    """A partitioned operator whose output is what its partition has seen."""

    def __init__(self, module: ModuleType, scheme: str, text: str, size: int = 8) -> None:
        self.sent: list[tuple[str, ...]] = []
        self.seen: list[list[str]] = [[], []]
        self.busy = [False, False]
        buffer = reordering.NonBlockingReorderingBuffer(self.sent.append, size)
        self.queue = getattr(module, scheme)(2, self.process, lambda mark, parts: (*parts, mark), buffer, PRIMITIVES)
        self.units = list(text)

    def process(self, partition: int, unit: str) -> Any:
        assert not self.busy[partition], "two workers on one key"
        self.busy[partition] = True
        if unit != "#":
            self.seen[partition].append(unit)
        output = "".join(self.seen[partition])
        self.busy[partition] = False
        return output

    def put(self) -> None:
        """Add all units."""
        for unit in self.units:
            self.queue.put((ALL if unit == "#" else "ab".index(unit), unit))

    def work(self) -> None:
        """A turn."""
        self.queue.work(8)


def loaded(module: ModuleType, scheme: str, text: str) -> Consumers:
    """With all units there."""
    shared = Consumers(module, scheme, text)
    shared.put()
    return shared


def sequential(text: str) -> list[Any]:
    """What one worker sends."""
    shared = loaded(partitioned_worklists, "HybridQueue", text)
    shared.work()
    return shared.sent


def as_one_worker(text: str) -> Callable[[Consumers], bool]:
    """Whether the outputs are those of one worker, who does what others have left."""

    def right(shared: Consumers) -> bool:
        shared.work()
        return shared.sent == sequential(text)

    return right


SCHEMES = ("HybridQueue", "PartitionedQueue", "KeyedSharedQueue")
OFTEN = {("HybridQueue", "a#b"), *((scheme, "aa") for scheme in SCHEMES)}
"""What is tried in every run: marks by the scheme that is the default."""


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        pytest.param(scheme, text, marks=() if (scheme, text) in OFTEN else pytest.mark.nightly)
        for scheme in SCHEMES
        for text in ("aa", "a#b", "ab")
    ],
)
def test_two_workers_do_what_one_does(mutant: Mutate, scheme: str, text: str) -> None:
    for search, module in ((explored, mutant(partitioned_worklists)), (sampled, partitioned_worklists)):
        result = search(partial(loaded, module, scheme, text), [Consumers.work] * 2, as_one_worker(text))
        assert result.property_holds, result.explanation


@pytest.mark.parametrize("scheme", ["HybridQueue", "PartitionedQueue", "KeyedSharedQueue"])
def test_units_come_while_a_worker_works(mutant: Mutate, scheme: str) -> None:
    for search, module in ((explored, mutant(partitioned_worklists)), (sampled, partitioned_worklists)):
        result = search(partial(Consumers, module, scheme, "aab"), [Consumers.put, Consumers.work], as_one_worker("aab"))
        assert result.property_holds, result.explanation


@pytest.mark.parametrize(
    ("text", "other", "early"),
    [
        (
            "            self.queues[partition].append((serial, part, None))\n            self.master.append(partition)\n",
            "            self.master.append(partition)\n            self.queues[partition].append((serial, part, None))\n",
            False,
        ),
        ("queue = free.pop()", "queue = self.queues[partition]", True),
    ],
    ids=["master queue first", "two in a partition"],
)
def test_broken_queues_are_caught(mutant: Mutate, text: str, other: str, early: bool) -> None:
    twin = mutant(partitioned_worklists, text, other)
    if early:
        assert is_caught(explored, partial(loaded, twin, "HybridQueue", "aa"), [Consumers.work] * 2, as_one_worker("aa"))
    else:
        workers: Workers = [Consumers.put, Consumers.work]
        assert is_caught(explored, partial(Consumers, twin, "HybridQueue", "abab"), workers, as_one_worker("abab"))


# -------------------------------------------------------------------------------------------------- stateless


class Number(Mark):
    """A mark that knows its place."""

    def __init__(self, serial: int) -> None:
        self.serial = serial


class Stateless:
    """A stateless operator in block order, as the driver reads a source. ``inputs``: ``.`` an item, ``#`` a mark."""

    def __init__(
        self, inputs: str, *, worklist: ModuleType = worklists, buffer: ModuleType = block_order, early: int = 0
    ) -> None:
        self.inputs = inputs
        self.sent: list[int] = []
        self.busy = False
        self.queue = worklist.SharedQueue(self.process, buffer.BlockOrderBuffer(self.deliver, PRIMITIVES), closes=True)
        self.units: list[Any] = [Number(place) if one == "#" else place for place, one in enumerate(inputs)]
        for unit in self.units[:early]:
            self.queue.put(unit)
        del self.units[:early]

    def process(self, unit: Any) -> int:
        return unit.serial if isinstance(unit, Number) else unit

    def deliver(self, output: int) -> None:
        assert not self.busy, "two workers send"
        self.busy = True
        self.sent.append(output)
        self.busy = False

    def put(self) -> None:
        """Add the other units."""
        for unit in self.units:
            self.queue.put(unit)

    def work(self) -> None:
        """A turn."""
        self.queue.work(8)

    def right(self) -> bool:
        """Whether all outputs leave, when one worker does what is left, and those before a mark before it."""
        self.work()
        before = [sorted(self.sent[:mark]) == list(range(mark)) for mark, one in enumerate(self.inputs) if one == "#"]
        return sorted(self.sent) == list(range(len(self.inputs))) and all(before)


@pytest.mark.parametrize("inputs", ["#.", ".#."])
def test_a_source_in_block_order_keeps_marks_in_their_places(mutant: Mutate, inputs: str) -> None:
    make = partial(Stateless, inputs, worklist=mutant(worklists), buffer=mutant(block_order))
    for result in (
        explored(make, [Stateless.put, Stateless.work], Stateless.right),
        explored(partial(make, early=len(inputs)), [Stateless.work] * 2, Stateless.right),
        sampled(partial(Stateless, inputs), [Stateless.put, Stateless.work, Stateless.work], Stateless.right),
    ):
        assert result.property_holds, result.explanation


CLOSE = "        if self.closes and isinstance(unit, Mark):\n            self.buffer.close(serial)\n"
APPEND = "        self.queue.append((serial, unit))\n"
TRIES = "while len(arrived) and self.flag.acquire(False):"
TRIES_ONCE = "if self.flag.acquire(False):"
IN_TURN = "self.flag.acquire(False)"
TRIES_ALWAYS = "(self.flag.acquire(False) or True)"


def test_a_mark_that_workers_find_before_the_buffer_knows_is_caught(mutant: Mutate) -> None:
    twin, buffer = mutant(worklists, f"{CLOSE}{APPEND}", f"{APPEND}{CLOSE}"), mutant(block_order)
    make = partial(Stateless, "#.", worklist=twin, buffer=buffer)
    assert is_caught(explored, make, [Stateless.put, Stateless.work], Stateless.right)


@pytest.mark.parametrize(
    ("text", "other"), [(TRIES, TRIES_ONCE), (IN_TURN, TRIES_ALWAYS)], ids=["no look after release", "no exclusion"]
)
def test_broken_buffers_in_block_order_are_caught(mutant: Mutate, text: str, other: str) -> None:
    make = partial(Stateless, "..", buffer=mutant(block_order, text, other), early=2)
    assert is_caught(explored, make, [Stateless.work] * 2, Stateless.right)


# ------------------------------------------------------------------------------------------------------ merges


class Merged:
    """A merge, and what it has put. ``#`` is aligned."""

    def __init__(self, module: ModuleType, inputs: Sequence[str]) -> None:
        self.inputs = inputs
        self.sent: list[tuple[int, str]] = []
        self.busy = False
        self.merge = module.Merge(
            len(inputs),
            self.deliver,
            aligned=lambda unit: unit[1] == "#",
            combine=lambda marks: (ALL, "#"),
            primitives=PRIMITIVES,
        )

    def deliver(self, unit: tuple[int, str]) -> None:
        assert not self.busy, "two producers of one worklist"
        self.busy = True
        self.sent.append(unit)
        self.busy = False

    def right(self) -> bool:
        """Whether each input has arrived in its order, cut at common marks."""
        own = ["".join(unit for source, unit in self.sent if source in (index, ALL)) for index in range(len(self.inputs))]
        return own == list(self.inputs)


def producer(index: int) -> Callable[[Merged], None]:
    def put(shared: Merged) -> None:
        for one in shared.inputs[index]:
            shared.merge.put(index, (index, one))

    return put


@pytest.mark.parametrize("inputs", [("a#b", "#c"), ("a", "b", "c")], ids=" ".join)
def test_a_merge_keeps_each_input_and_aligns_marks(mutant: Mutate, inputs: Sequence[str]) -> None:
    for search, module in ((explored, mutant(merge)), (sampled, merge)):
        result = search(partial(Merged, module, inputs), [*map(producer, range(len(inputs)))], Merged.right)
        assert result.property_holds, result.explanation


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (TRIES, TRIES_ONCE),
        (IN_TURN, TRIES_ALWAYS),
        ("if self._waits(index):", "if False:"),
    ],
    ids=["no look after release", "no exclusion", "not held"],
)
def test_broken_merges_are_caught(mutant: Mutate, text: str, other: str) -> None:
    make = partial(Merged, mutant(merge, text, other), ("a#b", "#c"))
    assert is_caught(explored, make, [producer(0), producer(1)], Merged.right)


# ---------------------------------------------------------------------------------------------------- scheduler


class Sleepers:
    """A condition made of a lock and semaphores, of which frontrun knows that a thread waits. In a condition of its own a thread
    spins, and an exploration does not end."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sleepers: list[threading.Semaphore] = []

    def __enter__(self) -> bool:
        return self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()

    def wait(self) -> None:
        sleeper = threading.Semaphore(0)
        self.sleepers.append(sleeper)
        self.lock.release()
        sleeper.acquire()
        self.lock.acquire()

    def notify(self) -> None:
        if self.sleepers:
            self.sleepers.pop(0).release()

    def notify_all(self) -> None:
        while self.sleepers:
            self.notify()


NO_TIME: Callable[[], float] = lambda: 0.0  # noqa: E731
"""A clock that stands still: a run that is done again takes the same way."""


class Flowing:
    """Two operators, one behind the other, and a unit for the first one, which is there or is offered meanwhile."""

    def __init__(self, module: ModuleType, *, early: bool) -> None:
        self.sent: list[int] = []
        self.first = Operator(name="first", kind=Kind.STATEFUL, process=lambda unit: (unit,))
        second = Operator(name="second", kind=Kind.STATEFUL, process=lambda unit: (unit,))
        chain = Flow([self.first, second], [Edge(self.first, second)], {"second": self.sent.extend})
        self.scheduler = module.Scheduler(chain, LastInPipeline(), condition=Sleepers, clock=NO_TIME)
        if early:
            self.feed()

    def feed(self) -> None:
        """Offer the unit, and nothing after it."""
        self.scheduler.offer(self.first, 7)
        self.scheduler.close()

    def work(self) -> None:
        """What a worker does until the end."""
        work(self.scheduler, NO_TIME)

    def right(self) -> bool:
        return self.sent == [7]


@pytest.fixture
def seen_flows(mutant: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flows whose queues frontrun sees."""
    monkeypatch.setattr(flow, "SingleQueue", mutant(worklists).SingleQueue)


every = partial(explored, preemptions=None)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.usefixtures("seen_flows")
def test_workers_end_when_everything_is_answered(early: bool) -> None:
    workers: Workers = [Flowing.work, Flowing.work] if early else [Flowing.work, Flowing.feed]
    result = every(partial(Flowing, scheduler, early=early), workers, Flowing.right)
    assert result.property_holds, result.explanation


@pytest.mark.usefixtures("seen_flows")
def test_a_scheduler_that_ends_while_a_worker_has_a_turn_is_caught(mutant: Mutate) -> None:
    twin = mutant(scheduler, "            and not self.active\n", "")
    # On a quiet machine the 68th interleaving is wrong; they come in another order when threads wait for processors.
    assert is_caught(partial(every, most=500), partial(Flowing, twin, early=True), [Flowing.work] * 2, Flowing.right)
