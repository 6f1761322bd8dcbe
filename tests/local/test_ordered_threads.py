"""The real classes of ``compiler/local/ordered`` in real threads, which a controlled scheduler (frontrun) stops before each
bytecode that touches what they share. ``test_ordered_steps`` explores the same structures compiled again, in all interleavings;
here nothing is compiled again, and frontrun leaves out interleavings that cannot differ."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import frontrun
import pytest

from tests.strategies import some
from tracetypes.compiler.local.ordered import partitioned_worklists, reordering
from tracetypes.compiler.local.ordered.marks import ALL
from tracetypes.compiler.local.ordered.primitives import Primitives

PRIMITIVES = Primitives(lock=lambda: threading.Lock())
"""Locks as ``threading`` makes them at that moment: those of the scheduler."""


@pytest.fixture(autouse=True)
def controlled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTRUN_ACTIVE", "1")


Mutate: TypeAlias = Callable[[ModuleType, str, str], ModuleType]


@pytest.fixture
def mutant() -> Iterator[Mutate]:
    """Makes a module again, with another text in the place of one."""
    names: list[str] = []

    def make(module: ModuleType, text: str, other: str) -> ModuleType:
        name = f"{module.__name__}_mutant"
        spec = importlib.util.spec_from_file_location(name, module.__file__)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        assert source.count(text) == 1
        twin = importlib.util.module_from_spec(spec)
        sys.modules[name] = twin
        names.append(name)
        exec(compile(source.replace(text, other), spec.origin, "exec"), twin.__dict__)
        return twin

    yield make
    for name in names:
        del sys.modules[name]


Workers: TypeAlias = Sequence[Callable[[Any], Any]]


def explored(make: Callable[[], Any], workers: Workers, right: Callable[[Any], bool]) -> Any:
    """What frontrun says of different interleavings of what it sees: attributes, elements and locks, but not queues."""
    return frontrun.explore(
        setup=make,
        workers=list(workers),
        invariant=right,
        trace_packages=["tracetypes.*"],
        max_executions=some(100),
        detect_io=False,
        reproduce_on_failure=0,
    )


def sampled(make: Callable[[], Any], workers: Workers, right: Callable[[Any], bool], attempts: int | None = None) -> Any:
    """What frontrun says of random interleavings of bytecodes."""
    return frontrun.explore(
        setup=make,
        workers=list(workers),
        invariant=right,
        strategy="random",
        trace_packages=["tracetypes.*"],
        max_attempts=attempts or some(60),
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


@pytest.mark.parametrize("text", ["aa", "ab", "a#b"])
@pytest.mark.parametrize("scheme", ["HybridQueue", "PartitionedQueue", "KeyedSharedQueue"])
def test_two_workers_do_what_one_does(scheme: str, text: str) -> None:
    for search in (explored, sampled):
        result = search(lambda: loaded(partitioned_worklists, scheme, text), [Consumers.work] * 2, as_one_worker(text))
        assert result.property_holds, result.explanation


@pytest.mark.parametrize("scheme", ["HybridQueue", "PartitionedQueue", "KeyedSharedQueue"])
def test_units_come_while_a_worker_works(scheme: str) -> None:
    make = lambda: Consumers(partitioned_worklists, scheme, "aab")  # noqa: E731
    for search in (explored, sampled):
        result = search(make, [Consumers.put, Consumers.work], as_one_worker("aab"))
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
    search = partial(sampled, attempts=500)
    if early:
        assert is_caught(search, lambda: loaded(twin, "HybridQueue", "aa"), [Consumers.work] * 2, as_one_worker("aa"))
    else:
        workers = [Consumers.put, Consumers.work, Consumers.work]
        assert is_caught(search, lambda: Consumers(twin, "HybridQueue", "abab"), workers, as_one_worker("abab"))
