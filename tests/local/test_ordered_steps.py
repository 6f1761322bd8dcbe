"""Every interleaving of small runs of the structures in ``compiler/local/ordered``, and mutants that must be caught."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise, zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.local.steps import (
    CURRENT,
    SCHEDULING,
    Broken,
    Explored,
    StepCondition,
    StepCounter,
    StepLock,
    Thread,
    explore,
    twins,
)
from tracetypes.compiler.local.ordered import partitioned_worklists
from tracetypes.compiler.local.ordered.flow import Flow
from tracetypes.compiler.local.ordered.heuristics import LastInPipeline
from tracetypes.compiler.local.ordered.marks import ALL
from tracetypes.compiler.local.ordered.operators import Edge, Kind, Operator
from tracetypes.compiler.local.ordered.primitives import Primitives

PRIMITIVES = Primitives(lock=StepLock, counter=StepCounter)
Mutation = Mapping[str, tuple[str, str]]

PROPERTIES = (
    "AssertionError: sent",
    "AssertionError: two ",
    "AssertionError: beyond ",
    "AssertionError: woken ",
    "AssertionError: asleep",
    "AssertionError: waits",
    "no end can be reached",
    "nobody can go on",
    "IndexError",
)
"""How a mutant may fail, and not by an error of the test: order, loss and duplicates; exclusion; the time slice; sleep and
progress; an input that is not there."""


@contextmanager
def caught(*reasons: str) -> Iterator[None]:
    with pytest.raises(Broken) as broken:
        yield
    print(broken.value)
    assert broken.value.reason.startswith(reasons or PROPERTIES)


class Downstream:
    """Where outputs go: one worker at a time."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.busy = False

    def deliver(self, output: Any) -> Thread:
        assert not self.busy, "two workers send"
        self.busy = True
        yield
        self.sent.append(output)
        self.busy = False


def buffer_of(name: str, twin: SimpleNamespace, down: Downstream, size: int) -> Any:
    match name:
        case "non-blocking":
            return twin.NonBlockingReorderingBuffer(down.deliver, size)
        case "lock-based":
            return twin.LockBasedReorderingBuffer(down.deliver, PRIMITIVES)
        case _:
            return twin.BlockOrderBuffer(down.deliver, PRIMITIVES)


def finish(thread: Thread) -> None:
    """Run a thread to its end, before others begin."""
    for _ in thread:
        pass


# ----------------------------------------------------------------------------------------------------- buffers

TAKEN_ANYHOW = """                if len(flag):
                    flag.pop()
            except IndexError:
                pass"""
"""Who does not get the flag goes on as if it had it."""

BACK = "                flag.append(None)\n"


def senders(name: str, orders: Sequence[Sequence[int]], size: int = 4, mutation: Mutation | None = None) -> Explored:
    """Workers that send outputs with the given numbers; what is refused they send again."""
    twin = twins(mutation)
    count = sum(map(len, orders))

    def make() -> tuple[list[Thread], list[Any]]:
        down = Downstream()
        buffer = buffer_of(name, twin, down, size)

        def worker(serials: Sequence[int]) -> Thread:
            for serial in serials:
                while not (yield from buffer.send(serial, serial)):
                    pass

        return [worker(serials) for serials in orders], [buffer, down]

    def always(shared: Sequence[Any]) -> None:
        assert shared[1].sent == list(range(len(shared[1].sent))), f"sent {shared[1].sent}"

    def final(shared: Sequence[Any]) -> None:
        assert shared[1].sent == list(range(count)), f"sent {shared[1].sent} at the end"

    return explore(make, final, always)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_non_blocking_buffer_keeps_the_order(size: int) -> None:
    assert senders("non-blocking", [[0, 3], [1, 2]], size).ends == 1


@pytest.mark.parametrize("orders", [([2], [1], [0]), ([0, 3], [1], [2])], ids=str)
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.nightly
def test_a_non_blocking_buffer_keeps_the_order_of_three(orders: Sequence[Sequence[int]], size: int) -> None:
    assert senders("non-blocking", orders, size).ends == 1


def test_a_lock_based_buffer_keeps_the_order() -> None:
    assert senders("lock-based", [[0, 3], [1], [2]]).ends == 1


@pytest.mark.parametrize(
    ("text", "other"),
    [
        # The order of figure 4 is there for a reason: each of these breaks it.
        ("if slots[place] is EMPTY:", "if True:"),  # no look after the release
        ("added = serial < self.next + size", "added = True"),  # no entry condition
        ("serial < self.next + size", "serial < self.next + size + 1"),
        (
            "slots[place] = EMPTY\n                number += 1\n                self.next = number\n",
            "number += 1\n                self.next = number\n                slots[place] = EMPTY\n",
        ),
        ("                flag.pop()\n            except IndexError:\n                return", TAKEN_ANYHOW),
        ("                flag.pop()\n            except IndexError:\n                pass", TAKEN_ANYHOW),
        # The output whose turn it is.
        ("if slots[serial % size] is not EMPTY:", "if False:"),
        ("if serial == self.next:\n            try:", "if True:\n            try:"),
        (f"{BACK}                if slots[serial % size]", "                if slots[serial % size]"),
        (
            f"{BACK}                if slots[serial % size] is not EMPTY:\n",
            f"                left = slots[serial % size] is not EMPTY\n{BACK}                if left:\n",
        ),
        ("                return True\n", "                pass\n"),
    ],
    ids=[
        "no look after release",
        "no entry condition",
        "one place too many",
        "next before empty",
        "no exclusion",
        "no exclusion of the next one",
        "no look for those that wait",
        "sent before its turn",
        "kept",
        "a look before release only",
        "sent twice",
    ],
)
def test_mutants_of_the_non_blocking_buffer_are_caught(text: str, other: str) -> None:
    with caught():
        senders("non-blocking", [[0, 3], [1, 2]], 2, {"reordering": (text, other)})


def test_a_lock_based_buffer_without_its_lock_is_caught() -> None:
    with caught():
        senders("lock-based", [[0], [1]], mutation={"reordering": ("with self.lock:", "if True:")})


# ----------------------------------------------------------------------------------------------------- block order


def blocks(inputs: str, shares: Sequence[Sequence[int]], mutation: Mutation | None = None) -> Explored:
    """``inputs``: ``.`` an item, ``#`` a mark. A producer numbers them while workers send what has been numbered."""
    twin = twins(mutation)

    def make() -> tuple[list[Thread], list[Any]]:
        down = Downstream()
        buffer = twin.BlockOrderBuffer(down.deliver, PRIMITIVES)
        put: list[int] = []

        def producer() -> Thread:
            for serial, one in enumerate(inputs):
                if one == "#":
                    yield from buffer.close(serial)
                yield
                put.append(serial)

        def worker(serials: Sequence[int]) -> Thread:
            for serial in serials:
                while serial not in put:
                    yield
                assert (yield from buffer.send(serial, serial))

        return [producer(), *map(worker, shares)], [buffer, down, put]

    def always(shared: Sequence[Any]) -> None:
        in_blocks(shared[1].sent, inputs)

    def final(shared: Sequence[Any]) -> None:
        assert sorted(shared[1].sent) == list(range(len(inputs))), f"sent {shared[1].sent} at the end"

    return explore(make, final, always)


def in_blocks(sent: Sequence[int], inputs: str) -> None:
    """What was sent until now: each mark after all those before it, and nothing before a mark that is before it."""
    for place, serial in enumerate(sent):
        assert inputs[serial] != "#" or sorted(sent[:place]) == list(range(serial)), f"sent {sent}"
        assert all(mark in sent[:place] for mark in range(serial) if inputs[mark] == "#"), f"sent {sent}"


def test_a_block_order_buffer_keeps_marks_in_their_places() -> None:
    assert blocks(".#.", [[1], [2, 0]]).ends == 1
    assert blocks("..#", [[0, 2], [1]]).ends == 2, "items of a block may change places"


@pytest.mark.parametrize("shares", [([1, 3], [0, 2]), ([3], [0, 2, 1])], ids=str)
@pytest.mark.nightly
def test_a_block_order_buffer_keeps_more_marks_in_their_places(shares: Sequence[Sequence[int]]) -> None:
    assert blocks(".#.#", shares).ends >= 1
    assert blocks(".##.", shares).ends >= 1


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("while len(arrived) and self.flag.acquire(False):", "if self.flag.acquire(False):"),
        ("marks[0] == self.next and marks[0] in waiting", "marks[0] in waiting"),
        ("if not len(self.marks) or serial < self.marks[0]:", "if True:"),
    ],
    ids=["no look after release", "a mark before its block", "no blocks"],
)
def test_mutants_of_the_block_order_buffer_are_caught(text: str, other: str) -> None:
    with caught():
        blocks(".#.", [[1], [2, 0]], {"block_order": (text, other)})


# ----------------------------------------------------------------------------------------------------- partitions


class Unit(NamedTuple):
    """``partition``: ``ALL`` for a mark."""

    partition: int
    name: str


class Partitions:
    """An operator whose state is what each partition has seen. A mark emits the states."""

    def __init__(self, count: int) -> None:
        self.seen: list[list[str]] = [[] for _ in range(count)]
        self.busy = [False] * count

    def process(self, partition: int, unit: Unit) -> Thread:
        assert not self.busy[partition], "two workers on one key"
        self.busy[partition] = True
        yield
        output = self.emitted(partition, unit)
        yield
        self.busy[partition] = False
        return output

    def emitted(self, partition: int, unit: Unit) -> tuple[str, ...]:
        if unit.partition != ALL:
            self.seen[partition].append(unit.name)
        return (f"{unit.name}:{''.join(self.seen[partition])}",)


def join(mark: Unit, outputs: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return (*(one for output in outputs for one in output), mark.name)


def sequential(units: Sequence[Unit], partitions: int) -> list[tuple[str, ...]]:
    operator = Partitions(partitions)
    outputs = []
    for unit in units:
        if unit.partition == ALL:
            outputs.append(join(unit, [operator.emitted(one, unit) for one in range(partitions)]))
        else:
            outputs.append(operator.emitted(unit.partition, unit))
    return outputs


def units_of(text: str) -> list[Unit]:
    """``a`` is an item of partition 0, ``b`` of 1, ..., ``#`` a mark."""
    return [
        Unit(ALL, f"#{place}") if one == "#" else Unit("abcd".index(one), f"{one}{place}")
        for place, one in enumerate(text)
    ]


def consumers(
    scheme: str,
    text: str,
    *,
    workers: int = 2,
    partitions: int = 2,
    size: int = 8,
    limit: int = 2,
    buffer: str = "non-blocking",
    early: int | None = None,
    once: bool = False,
    mutation: Mutation | None = None,
) -> Explored:
    """``early``: so many units are there before the workers begin; None: all. ``once``: all workers but the first leave
    after their first turn."""
    twin = twins(mutation)
    units = units_of(text)
    expected = sequential(units, partitions)
    before = len(units) if early is None else early

    def make() -> tuple[list[Thread], list[Any]]:
        down, operator = Downstream(), Partitions(partitions)
        reordering = buffer_of(buffer, twin, down, size)
        queue = getattr(twin, scheme)(partitions, operator.process, join, reordering, PRIMITIVES)

        def producer(some: Sequence[Unit]) -> Thread:
            for unit in some:
                yield from queue.put((unit.partition, unit))

        def worker(number: int) -> Thread:
            while len(down.sent) < len(units):
                done, parked = yield from queue.work(limit)
                assert done <= limit, f"beyond the time slice: {done}"
                while parked is not None and not (yield from reordering.send(*parked)):
                    pass
                if once and number:
                    break

        finish(producer(units[:before]))
        rest = [producer(units[before:])] if before < len(units) else []
        return [*rest, *map(worker, range(workers))], [queue, down, operator]

    def always(shared: Sequence[Any]) -> None:
        sent = shared[1].sent
        assert buffer == "blocks" or sent == expected[: len(sent)], f"sent {sent}"

    def final(shared: Sequence[Any]) -> None:
        sent = shared[1].sent
        assert sorted(sent) == sorted(expected), f"sent {sent} at the end"
        for place, unit in enumerate(units):
            if unit.partition == ALL:  # marks and blocks keep their places in any order
                assert sorted(sent[:place]) == sorted(expected[:place]), f"sent {sent} at the end"
                assert sent[place] == expected[place], f"sent {sent} at the end"

    return explore(make, final, always)


SCHEMES = ["HybridQueue", "PartitionedQueue", "KeyedSharedQueue"]


@pytest.mark.parametrize(
    ("scheme", "text", "partitions"),
    [("HybridQueue", "aab", 2), ("PartitionedQueue", "aa", 1), ("KeyedSharedQueue", "aab", 2)],
)
def test_each_key_is_processed_by_one_worker_in_order(scheme: str, text: str, partitions: int) -> None:
    assert consumers(scheme, text, partitions=partitions).ends >= 1


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        ("HybridQueue", "a#"),
        ("KeyedSharedQueue", "a#"),
        pytest.param("PartitionedQueue", "a#", marks=pytest.mark.nightly),
        pytest.param("PartitionedQueue", "ab", marks=pytest.mark.nightly),
        pytest.param("HybridQueue", "a#b", marks=pytest.mark.nightly),
    ],
)
def test_a_mark_waits_for_all_partitions(scheme: str, text: str) -> None:
    assert consumers(scheme, text).ends >= 1


def test_an_input_is_there_when_its_entry_is() -> None:
    assert consumers("HybridQueue", "aa", partitions=1, early=1).ends >= 1


def test_a_full_buffer_does_not_hide_the_next_input() -> None:
    assert consumers("HybridQueue", "ba", size=1, limit=1).ends >= 1


@pytest.mark.nightly
def test_a_full_buffer_leaves_inputs_where_they_are() -> None:
    assert consumers("HybridQueue", "abc", partitions=3, size=1, limit=1, once=True).ends >= 1
    assert consumers("PartitionedQueue", "ba", size=1, limit=1, once=True).ends >= 1


@pytest.mark.parametrize("buffer", ["non-blocking", "lock-based", "blocks"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("text", ["a#b", "baa"])
@pytest.mark.nightly
def test_longer_runs_of_partitioned_operators(scheme: str, text: str, buffer: str) -> None:
    assert consumers(scheme, text, size=1, limit=1, buffer=buffer).ends >= 1


@pytest.mark.parametrize("scheme", ["HybridQueue", "KeyedSharedQueue"])
@pytest.mark.nightly
def test_three_workers_on_a_partitioned_operator(scheme: str) -> None:
    assert consumers(scheme, "aa", partitions=1, workers=3, size=2).ends >= 1


@pytest.mark.parametrize("scheme", ["HybridQueue", "KeyedSharedQueue"])
@pytest.mark.nightly
def test_units_come_while_workers_work(scheme: str) -> None:
    assert consumers(scheme, "a#", early=1, size=2).ends >= 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_buffer_in_block_order_knows_a_mark_before_workers_do(scheme: str) -> None:
    assert consumers(scheme, "#a", partitions=1, workers=1, limit=1, buffer="blocks", early=0).ends == 1
    assert consumers(scheme, "a#b", workers=1, limit=1, buffer="blocks", early=1).ends >= 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.nightly
def test_a_buffer_in_block_order_knows_a_mark_before_two_workers_do(scheme: str) -> None:
    assert consumers(scheme, "#a", partitions=1, limit=1, buffer="blocks", early=0).ends == 1


CLOSE = "        self.buffer.close(serial)\n"
PARTS = """        gather = Gather(len(self.queues), self.primitives)
        for queue in self.queues:
            queue.append((serial, part, gather))
"""
MASTER = "        self.master.extend(range(len(self.queues)))\n"
SIZE = "\n    def size(self) -> int:\n        return sum("
CLOSE_ALL = f"        if partition == ALL:\n    {CLOSE}"
KEYED = "        self.queue.append((serial, partition, part))\n"


@pytest.mark.parametrize(
    ("scheme", "text", "other"),
    [
        ("HybridQueue", f"{CLOSE}{PARTS}{MASTER}", f"{PARTS}{MASTER}{CLOSE}"),
        ("PartitionedQueue", f"{CLOSE}{PARTS}{SIZE}", f"{PARTS}{CLOSE}{SIZE}"),
        ("KeyedSharedQueue", f"{CLOSE_ALL}{KEYED}", f"{KEYED}{CLOSE_ALL}"),
    ],
)
def test_a_mark_that_the_buffer_learns_of_after_the_workers_is_caught(scheme: str, text: str, other: str) -> None:
    mutation = {"partitioned_worklists": (text, other)}
    with caught("no end can be reached"):
        consumers(scheme, "#a", partitions=1, workers=1, limit=1, buffer="blocks", early=0, mutation=mutation)


FIRST_PUT = "self.queues[partition].append((serial, part, None))\n"
THEN_PUT = "self.master.append(partition)\n"
NOT_DELEGATED = """            if not len(free):
                count.append(None)
                continue
            count.append(None)
            while count:
"""
OVER = """                    if done >= limit:
                        count.pop()
                        master.appendleft(partition)
                        continue
"""


@pytest.mark.parametrize(
    ("text", "other", "inputs", "early", "limit"),
    [
        (f"{FIRST_PUT}            {THEN_PUT}", f"{THEN_PUT}            {FIRST_PUT}", "aa", 0, 2),
        ("self.pending.fetch_add(-1) == 1", "self.pending.fetch_add(-1) >= 1", "a#", None, 2),
        ("self.pending.fetch_add(-1) == 1", "self.pending.fetch_add(-1) == 2", "b#b", None, 2),
        (
            "        self.outputs[partition] = outputs\n        return self.pending.fetch_add(-1) == 1\n",
            "        last = self.pending.fetch_add(-1) == 1\n        self.outputs[partition] = outputs\n        return last\n",
            "#",
            None,
            2,
        ),
        (
            "                    queue = free.pop()\n                except IndexError:\n                    break",
            "                    queue = self.queues[partition]\n                except IndexError:\n                    break",
            "aa",
            None,
            2,
        ),
        (
            "                    output = process(partition, unit)\n",
            "                    free.append(queue)\n                    output = process(partition, unit)\n"
            "                    free.pop()\n",
            "aa",
            None,
            2,
        ),
        ("            while count:\n                try:", "            if count:\n                try:", "aa", None, 2),
        ("            count.append(None)\n            while count:\n", NOT_DELEGATED, "aa", None, 2),
        ("count.pop()\n                        master.appendleft(partition)", "count.pop()", "aab", None, 1),
        (OVER, OVER.replace("master", "count.pop()\n                        master"), "aa", None, 1),
        (OVER, OVER.replace("continue", "return done, None"), "aab", None, 1),
        (OVER, "", "aa", None, 1),
        ("                free.append(queue)\n", "", "aab", None, 1),
    ],
    ids=[
        "master queue before the partition's",
        "mark sent by each part",
        "mark before the last part",
        "decrement before the output of a part",
        "no exclusion",
        "put back before the input is processed",
        "no look after the partition is put back",
        "delegated to nobody",
        "delegated inputs forgotten",
        "counted twice",
        "left with the partition",
        "beyond the time slice",
        "partition kept",
    ],
)
def test_mutants_of_the_hybrid_queue_are_caught(text: str, other: str, inputs: str, early: int | None, limit: int) -> None:
    module = "marks" if "self.pending" in text else "partitioned_worklists"
    with caught():
        consumers("HybridQueue", inputs, early=early, limit=limit, mutation={module: (text, other)})


PROCESS = """                    output = process(partition, unit)
                    if gather is None:
                        send(serial, output)
                    elif gather.add(partition, output):
                        send(serial, self.join(unit, gather.outputs))
                    done += 1
"""
DECREMENT = "                    count.pop()\n"


@pytest.mark.parametrize(
    ("inputs", "early", "limit"),
    [
        ("aa", None, 1),
        pytest.param("aa", 0, 2, marks=pytest.mark.nightly),
        pytest.param("aab", None, 1, marks=pytest.mark.nightly),
    ],
)
def test_the_counter_of_a_hybrid_queue_may_be_decremented_before_processing(inputs: str, early: int | None, limit: int) -> None:
    """Not so in figure 7, where only an increment from 0 lets a worker in: see the next test. Here others are kept out because
    the worker has the partition's queue in hand. The counter only says how many inputs it owes. One that increments during the
    processing does not find the queue and leaves, and whoever has the queue looks at the counter after the processing and again
    after it has put the queue back. So the mutant that does harm here is "put back before the input is processed"."""
    mutation = {"partitioned_worklists": (f"{PROCESS}{DECREMENT}", f"{DECREMENT}{PROCESS}")}
    partitions = len(set(inputs))
    assert consumers("HybridQueue", inputs, partitions=partitions, early=early, limit=limit, mutation=mutation).ends >= 1


FIGURE_7 = """            count, free = parts[partition]
            added = (count.append(None), count.__len__())[1]
            while added == 1:
                serial, unit, gather = self.queues[partition].popleft()
                output = process(partition, unit)
                send(serial, output)
                done += 1
                if (count.pop(), count.__len__())[1] == 0:
                    break
"""
"""Of the paper: what keeps others out is the counter. A list, and its length in the same step, stand for a number that is
incremented atomically."""


def figure_7(loop: str) -> Mutation:
    source = Path(partitioned_worklists.__file__).read_text(encoding="utf-8")
    start = source.index("            count, free = parts[partition]\n")
    return {"partitioned_worklists": (source[start : source.index("        if refused:\n", start)], loop)}


def test_a_counter_that_keeps_others_out_is_decremented_after_processing() -> None:
    assert consumers("HybridQueue", "aa", partitions=1, mutation=figure_7(FIGURE_7)).ends >= 1
    decrement = "(count.pop(), count.__len__())[1]"
    lines = [one for one in FIGURE_7.splitlines(keepends=True) if decrement not in one]
    lines.insert(4, f"                left = {decrement}\n")
    lines.insert(-1, "                if left == 0:\n")
    with caught("AssertionError: two workers on one key"):
        consumers("HybridQueue", "aa", partitions=1, mutation=figure_7("".join(lines)))


def test_refused_entries_put_back_at_once_are_caught() -> None:
    """The only worker that stays finds an entry that is refused for ever, which hides the next one."""
    text = "                        refused.append(partition)\n                        continue\n"
    other = "".join(f"{24 * ' '}{one}\n" for one in ("master.appendleft(partition)", "free.append(queue)", "return done, None"))
    mutation = {"partitioned_worklists": (text, other)}
    with caught("no end can be reached"):
        consumers("HybridQueue", "abc", partitions=3, size=1, limit=1, once=True, mutation=mutation)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("if not len(queue) or not flag.acquire(False):", "if not len(queue) or (not flag.acquire(False) and False):"),
        ("            flag.release()\n            if done >= limit:", "            if done >= limit:"),
    ],
    ids=["no exclusion", "a partition that is kept"],
)
def test_mutants_of_the_partitioned_queue_are_caught(text: str, other: str) -> None:
    with caught():
        consumers("PartitionedQueue", "aa", partitions=1, limit=1, mutation={"partitioned_worklists": (text, other)})


def test_a_shared_queue_that_locks_the_key_later_is_caught() -> None:
    """Figure 5: taking an input and its place in the line must be one step."""
    text = "            with self.gate:\n                if not len(queue):"
    other = "            if True:\n                if not len(queue):"
    with caught():
        consumers("KeyedSharedQueue", "aa", partitions=1, mutation={"partitioned_worklists": (text, other)})


# ----------------------------------------------------------------------------------------------------- stateless


def stateless(
    inputs: str,
    *,
    workers: int = 2,
    size: int = 2,
    limit: int = 2,
    buffer: str = "non-blocking",
    early: int | None = None,
    mutation: Mutation | None = None,
) -> Explored:
    """``inputs``: ``.`` an item, ``#`` a mark. ``early``: so many are there before the workers begin; None: all. The rest is put
    meanwhile. With the buffer ``blocks`` this is how the driver reads a source."""
    twin = twins(mutation)
    before = len(inputs) if early is None else early

    class Hash(twin.Mark):  # type: ignore[name-defined, misc]
        __slots__ = ("serial",)

        def __init__(self, serial: int) -> None:
            self.serial = serial

    def make() -> tuple[list[Thread], list[Any]]:
        down = Downstream()
        reordering = buffer_of(buffer, twin, down, size)

        def process(unit: Any) -> Thread:
            yield
            return unit.serial if isinstance(unit, Hash) else unit

        queue = twin.SharedQueue(process, reordering, closes=buffer == "blocks")

        def producer(serials: Iterable[int]) -> Thread:
            for serial in serials:
                yield from queue.put(Hash(serial) if inputs[serial] == "#" else serial)

        def worker() -> Thread:
            while len(down.sent) < len(inputs):
                done, parked = yield from queue.work(limit)
                assert done <= limit, f"beyond the time slice: {done}"
                while parked is not None and not (yield from reordering.send(*parked)):
                    pass

        finish(producer(range(before)))
        rest = [producer(range(before, len(inputs)))] if before < len(inputs) else []
        return [*(worker() for _ in range(workers)), *rest], [queue, down]

    def always(shared: Sequence[Any]) -> None:
        in_blocks(shared[1].sent, inputs)

    def final(shared: Sequence[Any]) -> None:
        sent = shared[1].sent
        assert (sorted(sent) if buffer == "blocks" else sent) == list(range(len(inputs))), f"sent {sent} at the end"

    return explore(make, final, always)


def test_a_stateless_operator_keeps_the_order() -> None:
    assert stateless("..", size=1).ends >= 1


@pytest.mark.nightly
def test_a_stateless_operator_keeps_the_order_of_more() -> None:
    assert stateless("...", size=1).ends >= 1
    assert stateless("...", size=2).ends >= 1
    assert stateless("..", size=1, workers=3).ends >= 1


@pytest.mark.parametrize(("inputs", "early"), [(".#.", 3), (".#", 1)])
def test_a_stateless_operator_in_block_order_keeps_marks_in_their_places(inputs: str, early: int) -> None:
    assert stateless(inputs, limit=1, buffer="blocks", early=early).ends == 1


@pytest.mark.parametrize(("inputs", "early", "limit"), [("#.", 0, 1), (".#.", 0, 1), (".#.", 1, 2)])
@pytest.mark.nightly
def test_a_stateless_operator_in_block_order_is_fed_while_it_works(inputs: str, early: int, limit: int) -> None:
    assert stateless(inputs, limit=limit, buffer="blocks", early=early).ends == 1


CLOSE_MARK = "        if self.closes and isinstance(unit, Mark):\n            self.buffer.close(serial)\n"
APPEND = "        self.queue.append((serial, unit))\n"


@pytest.mark.parametrize("other", [f"{APPEND}{CLOSE_MARK}", APPEND], ids=["closed after the mark is there", "not closed"])
def test_mutants_of_a_shared_queue_in_block_order_are_caught(other: str) -> None:
    mutation = {"worklists": (f"{CLOSE_MARK}{APPEND}", other)}
    with caught("AssertionError: sent"):
        stateless(".#", limit=1, buffer="blocks", early=1, mutation=mutation)


# ----------------------------------------------------------------------------------------------------- merges


def merged(inputs: Sequence[str], mutation: Mutation | None = None, *, in_turn: bool = False) -> Explored:
    """``#`` is aligned; the last unit of each input is its end."""
    twin = twins(mutation)

    def make() -> tuple[list[Thread], list[Any]]:
        down = Downstream()
        merge = twin.Merge(
            len(inputs),
            down.deliver,
            aligned=lambda unit: unit[1] == "#",
            combine=lambda marks: (-1, "#", marks[0][2]),
            primitives=PRIMITIVES,
            in_turn=in_turn,
        )

        def producer(index: int) -> Thread:
            for place, one in enumerate(inputs[index]):
                yield from merge.put(index, (index, one, place))
            yield from merge.put(index, twin.END)

        return [producer(index) for index in reversed(range(len(inputs)))], [merge, down]

    def final(shared: Sequence[Any]) -> None:
        sent = shared[1].sent
        for index, text in enumerate(inputs):
            own = [one for source, one, _ in sent if source in (index, -1)]
            assert "".join(own).rstrip("#") == text.rstrip("#"), f"sent {sent}"
        assert sum(one == "#" for _, one, _ in sent) == max(text.count("#") for text in inputs), f"sent {sent}"
        if in_turn:
            blocks = zip_longest(*(text.split("#") for text in inputs), fillvalue="")
            assert "".join(one for _, one, _ in sent) == "#".join(map("".join, blocks)), f"sent {sent}"

    return explore(make, final)


def test_a_merge_keeps_each_input_and_aligns_marks() -> None:
    assert merged(["#", "#b"]).ends >= 1
    assert merged(["a#", "b#"], in_turn=True).ends == 1


@pytest.mark.nightly
def test_a_merge_of_more() -> None:
    assert merged(["a#", "#b"]).ends >= 1
    assert merged(["a#b", "c#"]).ends > 1
    assert merged(["a#b", "c#d"], in_turn=True).ends == 1


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("while len(arrived) and self.flag.acquire(False):", "if self.flag.acquire(False):"),
        ("                if self._waits(index):", "                if self._waits(index) and False:"),
        ("while self.stopped and self.stopped.keys() >= self.open:", "while self.stopped:"),
    ],
    ids=["no look after release", "not held", "not aligned"],
)
def test_mutants_of_the_merge_are_caught(text: str, other: str) -> None:
    with caught():
        merged(["c#", "a#b"], {"merge": (text, other)})


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("any(one < index and one not in self.stopped for one in self.open)", "False"),
        ("        if self.in_turn:\n", "        if False:\n"),
    ],
    ids=["not in turn", "left behind"],
)
def test_mutants_of_a_merge_in_turn_are_caught(text: str, other: str) -> None:
    with caught():
        merged(["a#", "b#"], {"merge": (text, other)}, in_turn=True)


# ----------------------------------------------------------------------------------------------------- nobody waits

FOREVER = "for ever"
STEPS = 100
"""More than a call takes when nobody is in its way."""


def beside_one_that_stands_still(name: str, place: str = "deliver", mutation: Mutation | None = None) -> Explored:
    """The first thread stands still for ever as soon as it comes to ``place``. Each call of the other one must end, within a
    bounded number of its own steps."""
    twin = twins(mutation)

    def make() -> tuple[list[Thread], list[Any]]:
        down = Downstream()

        def at(here: str) -> Thread:
            yield FOREVER if here == place and CURRENT[0] == 0 else None

        def deliver(output: Any) -> Thread:
            yield from at("deliver")
            yield from down.deliver(output)

        def process(*given: Any) -> Thread:
            yield from at("process")
            return given[-1]

        structure, first, others = calls_of(name, twin, deliver, process)

        def stands() -> Thread:
            for wait in first:
                if wait == FOREVER:
                    return
                yield wait

        def goes_on() -> Thread:
            for call in others:
                for steps, wait in enumerate(call):
                    assert steps < STEPS, "waits for one that stands still"
                    yield wait

        return [stands(), goes_on()], [structure, down, first]  # `first` is kept, and with it all that it holds

    return explore(make, lambda shared: None)


def calls_of(
    name: str, twin: SimpleNamespace, deliver: Callable[..., Thread], process: Callable[..., Thread]
) -> tuple[Any, Thread, list[Thread]]:
    """A structure, a call of one thread, and those of another one."""
    if name == "Merge":
        merge = twin.Merge(2, deliver, primitives=PRIMITIVES)
        return merge, merge.put(0, "a"), [merge.put(1, "b"), merge.put(1, "c")]
    if name.endswith("Buffer"):
        arguments = (2,) if name == "NonBlockingReorderingBuffer" else (PRIMITIVES,)
        buffer = getattr(twin, name)(deliver, *arguments)
        return buffer, buffer.send(0, 0), [buffer.send(1, 1), buffer.send(2, 2)]
    buffer = twin.NonBlockingReorderingBuffer(deliver, 1 if name == "SharedQueue" else 4)
    if name == "SharedQueue":
        queue = twin.SharedQueue(process, buffer)
        units: Sequence[Any] = range(3)
    else:
        queue = getattr(twin, name)(2, process, join, buffer, PRIMITIVES)
        units = units_of("aab")
    for unit in units:
        finish(queue.put(unit))
    return queue, queue.work(2), [queue.work(3)]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("NonBlockingReorderingBuffer", "deliver"),
        ("BlockOrderBuffer", "deliver"),
        ("Merge", "deliver"),
        ("SharedQueue", "deliver"),
        ("SharedQueue", "process"),
        ("HybridQueue", "process"),
        ("PartitionedQueue", "process"),
        pytest.param("HybridQueue", "deliver", marks=pytest.mark.nightly),
        pytest.param("PartitionedQueue", "deliver", marks=pytest.mark.nightly),
    ],
)
def test_nobody_waits_for_one_that_stands_still(name: str, place: str) -> None:
    assert beside_one_that_stands_still(name, place).ends >= 1


GIVES_UP = "            except IndexError:\n                return\n"
TRIES = "while len(arrived) and self.flag.acquire(False):\n"
TRIES_AGAIN = "while len(arrived):\n            if not self.flag.acquire(False):\n                continue\n"


@pytest.mark.parametrize(
    ("name", "place", "module", "text", "other"),
    [
        # "continue": tries again, for as long as another worker has the flag or the partition.
        ("NonBlockingReorderingBuffer", "deliver", "reordering", GIVES_UP, GIVES_UP.replace("return", "continue")),
        (
            "NonBlockingReorderingBuffer",
            "deliver",
            "reordering",
            "        if serial == self.next:\n            try:",
            "        while not len(flag):\n            pass\n        if serial == self.next:\n            try:",
        ),
        ("BlockOrderBuffer", "deliver", "block_order", TRIES, TRIES_AGAIN),
        ("BlockOrderBuffer", "deliver", "block_order", "self.flag.acquire(False)", "(self.flag.acquire() or True)"),
        ("Merge", "deliver", "merge", TRIES, TRIES_AGAIN),
        ("Merge", "deliver", "merge", "self.flag.acquire(False)", "(self.flag.acquire() or True)"),
        (
            "SharedQueue",
            "process",
            "worklists",
            "            if not send(serial, output):\n                return done, (serial, output)\n",
            "            while not send(serial, output):\n                pass\n",
        ),
        ("HybridQueue", "process", "partitioned_worklists", "break  # whoever has the partition processes it", "continue"),
        (
            "PartitionedQueue",
            "process",
            "partitioned_worklists",
            "            if not len(queue) or not flag.acquire(False):\n                continue\n",
            "            if not len(queue):\n                continue\n            flag.acquire()\n",
        ),
    ],
)
def test_mutants_that_wait_are_caught(name: str, place: str, module: str, text: str, other: str) -> None:
    with caught("AssertionError: waits", "nobody can go on"):
        beside_one_that_stands_still(name, place, {module: (text, other)})


@pytest.mark.parametrize(("name", "place"), [("LockBasedReorderingBuffer", "deliver"), ("KeyedSharedQueue", "process")])
def test_those_that_wait_by_their_definition_are_caught(name: str, place: str) -> None:
    """Figures 2 and 5, which the others are compared with."""
    with caught("nobody can go on"):
        beside_one_that_stands_still(name, place)


# ----------------------------------------------------------------------------------------------------- the scheduler


QUIET_ENDS = """        if parked and self._is_quiet():
            self.quiet_until = 0.0
            self.changed.notify_all()
"""


class QuietCondition(StepCondition):
    """Nobody is woken for work in a quiet time that has been one from the start."""

    scheduler: Any = None

    def notify(self) -> None:
        assert not self.sleepers or not self.scheduler._is_quiet(), "woken in a quiet time"
        super().notify()

    def notify_all(self) -> None:
        while self.sleepers:
            super().notify()


def scheduling(mutation: Mutation | None) -> SimpleNamespace:
    """All modules, in threads that the explorer numbers."""
    twin = twins(mutation, SCHEDULING)
    twin.Scheduler.begin.__globals__["threading"] = SimpleNamespace(get_ident=lambda: CURRENT[0])
    return twin


def scheduled(
    units: int,
    *,
    early: int,
    workers: int = 2,
    size: int = 1,
    budget: int = 2,
    kinds: Sequence[Kind] = (Kind.STATELESS,),
    visitor: str | None = None,
    mutation: Mutation | None = None,
) -> Explored:
    """Workers take turns until everything is answered. ``early``: so many units are there; the rest is offered meanwhile.
    ``visitor``: the last worker is one, from the start or since it ``arrives``. Its quiet time has no end by the clock."""
    twin = scheduling(mutation)

    def make() -> tuple[list[Thread], list[Any]]:
        down = Downstream()
        operators = [Operator(name=f"o{place}", kind=kind, budget=budget) for place, kind in enumerate(kinds)]
        flow = Flow(operators, [Edge(*pair) for pair in pairwise(operators)])
        condition = QuietCondition if visitor == "from the start" else StepCondition
        scheduler = twin.Scheduler(flow, LastInPipeline(), condition=condition, clock=lambda: 0.0)
        scheduler.changed.scheduler = scheduler

        def deliver_of(place: int) -> Callable[[Any], Thread]:
            def deliver(output: int) -> Thread:
                if place + 1 == len(operators):
                    yield from down.deliver(output)
                else:
                    put: Callable[[int], Thread] = operators[place + 1].worklist.put  # type: ignore[assignment]
                    yield from put(output)
                yield
                if flow.idle:
                    yield from scheduler.wake()

            return deliver

        def process(unit: int) -> Thread:
            yield
            return unit

        for place in reversed(range(len(operators))):
            one, deliver = operators[place], deliver_of(place)
            if one.kind is Kind.STATEFUL:
                one.worklist = twin.SingleQueue(process, deliver)
            else:
                one.buffer = twin.NonBlockingReorderingBuffer(deliver, size)
                one.worklist, one.most = twin.SharedQueue(process, one.buffer), workers

        def feed(some: Iterable[int], close: bool) -> Thread:
            for unit in some:
                yield from scheduler.offer(operators[0], unit)
            if close:
                yield from scheduler.close()

        finish(feed(range(early), early == units))
        rest = [] if early == units else [feed(range(early, units), True)]
        crew = [twin.work(scheduler, lambda: 0.0) for _ in range(workers)]

        def arrive() -> None:
            scheduler.visitor = workers - 1
            scheduler.quiet_until = 1.0

        def visit(work: Thread) -> Thread:
            yield
            arrive()
            yield from work

        if visitor == "from the start":
            arrive()
        elif visitor is not None:
            crew.append(visit(crew.pop()))
        return [*crew, *rest], [scheduler, down]

    def always(shared: Sequence[Any]) -> None:
        scheduler, _ = shared
        asleep = [thread for _, thread in scheduler.changed.sleepers]
        assert not scheduler._is_quiet() or scheduler.visitor not in asleep, "asleep: the visitor, in its quiet time"

    def final(shared: Sequence[Any]) -> None:
        assert shared[1].sent == list(range(units)), f"sent {shared[1].sent} at the end"

    return explore(make, final, always)


def test_workers_end_when_everything_is_answered() -> None:
    assert scheduled(1, early=1).ends >= 1


@pytest.mark.nightly
def test_no_worker_sleeps_while_there_is_work() -> None:
    assert scheduled(1, early=0).ends >= 1
    assert scheduled(1, early=1, kinds=[Kind.STATELESS, Kind.STATEFUL]).ends >= 1


@pytest.mark.parametrize(
    ("text", "other", "units", "early", "kinds"),
    [
        ("            and not any(self.refused.values())\n", "", 2, 2, [Kind.STATELESS]),
        ("            and not self.active\n", "", 1, 1, [Kind.STATELESS, Kind.STATEFUL]),
        (
            "            self.closed = True\n            self.changed.notify_all()",
            "            self.closed = True",
            1,
            0,
            [Kind.STATEFUL],
        ),
    ],
    ids=["the end before a refused output", "the end before an answer", "nobody woken at the end"],
)
def test_mutants_of_the_scheduler_are_caught(
    text: str, other: str, units: int, early: int, kinds: Sequence[Kind]
) -> None:
    with caught():
        scheduled(units, early=early, kinds=kinds, mutation={"scheduler": (text, other)})


def beside_a_full_buffer(*, early: bool, mutation: Mutation | None = None) -> Explored:
    """Two workers and two operators without an edge between them. The later one, which is preferred, has two inputs and a buffer
    of one place. Input 0 is processed for as long as the other operator has not answered. So the output of input 1 is refused,
    and nobody can go on unless the worker that has it takes a turn of the other operator. ``early``: the input of that one is
    there from the start; otherwise it is offered meanwhile."""
    twin = scheduling(mutation)

    def make() -> tuple[list[Thread], list[Any]]:
        down, other_down, answered = Downstream(), Downstream(), [False]

        def process(unit: int) -> Thread:
            while unit == 0 and not answered[0]:
                yield answered
            yield
            return unit

        def at_once(unit: int) -> Thread:
            yield
            return unit

        def answer(output: int) -> Thread:
            yield from other_down.deliver(output)
            answered[0] = True

        other, full = Operator(name="other", kind=Kind.STATEFUL), Operator(name="full", kind=Kind.STATELESS)
        scheduler = twin.Scheduler(Flow([other, full], []), LastInPipeline(), condition=StepCondition, clock=lambda: 0.0)
        other.worklist = twin.SingleQueue(at_once, answer)
        full.buffer = twin.NonBlockingReorderingBuffer(down.deliver, 1)
        full.worklist, full.most = twin.SharedQueue(process, full.buffer), 2

        def feed(operator: Operator, units: Iterable[int]) -> Thread:
            for unit in units:
                yield from scheduler.offer(operator, unit)

        def feed_other() -> Thread:
            yield from feed(other, [0])
            yield from scheduler.close()

        finish(feed(full, range(2)))
        if early:
            finish(feed_other())
        crew = [twin.work(scheduler, lambda: 0.0) for _ in range(2)]
        return crew if early else [*crew, feed_other()], [scheduler, down, other_down, answered]

    def final(shared: Sequence[Any]) -> None:
        assert (shared[1].sent, shared[2].sent) == ([0, 1], [0]), f"sent {shared[1].sent} and {shared[2].sent} at the end"

    return explore(make, final)


def test_a_worker_with_a_refused_output_takes_other_work() -> None:
    assert beside_a_full_buffer(early=True).ends >= 1


@pytest.mark.nightly
def test_a_worker_with_a_refused_output_takes_other_work_that_comes() -> None:
    assert beside_a_full_buffer(early=False).ends >= 1


RESEND = "            if one.buffer is not None and one.buffer.send(serial, output):\n"
INSIST = "            while not one.buffer.send(serial, output):\n                pass\n            if True:\n"


@pytest.mark.parametrize(
    ("module", "text", "other"),
    [
        ("scheduler", "(parked and one in parked)", "parked"),
        ("workers", RESEND, INSIST),
    ],
    ids=["no turn with a refused output", "sent until it is taken"],
)
def test_workers_that_wait_for_a_full_buffer_are_caught(module: str, text: str, other: str) -> None:
    with caught("nobody can go on", "no end can be reached"):
        beside_a_full_buffer(early=True, mutation={module: (text, other)})


@pytest.mark.parametrize("visitor", ["from the start", "arrives"])
def test_a_visitor_does_not_sleep_in_its_quiet_time(visitor: str) -> None:
    assert scheduled(1, early=1, kinds=[Kind.STATELESS, Kind.STATEFUL], visitor=visitor).ends >= 1


@pytest.mark.parametrize("visitor", ["from the start", "arrives"])
@pytest.mark.nightly
def test_a_visitor_with_a_refused_output_does_not_sleep_in_its_quiet_time(visitor: str) -> None:
    assert scheduled(2, early=2, visitor=visitor).ends >= 1


@pytest.mark.parametrize(
    ("text", "other", "units"),
    [
        (QUIET_ENDS, "", 2),
        (QUIET_ENDS, QUIET_ENDS.replace("            self.quiet_until = 0.0\n", ""), 2),
        ("        if not self._is_quiet():\n            with", "        if True:\n            with", 2),
        ("if not parked and threading.get_ident() == self.visitor", "if threading.get_ident() == self.visitor", 2),
        ("if not parked and threading.get_ident() == self.visitor", "if False", 1),
    ],
    ids=[
        "the visitor sleeps, and it is quiet",
        "others woken, and it is still quiet",
        "woken in a quiet time",
        "left with a refused output",
        "not left",
    ],
)
def test_mutants_of_the_quiet_time_are_caught(text: str, other: str, units: int) -> None:
    with caught():
        scheduled(units, early=units, visitor="from the start", mutation={"scheduler": (text, other)})


# ----------------------------------------------------------------------------------------------------- the explorer


def test_the_explorer_finds_a_lost_update_and_a_deadlock() -> None:
    def counting() -> tuple[list[Thread], list[Any]]:
        cell = [0]

        def add() -> Thread:
            yield
            before = cell[0]
            yield
            cell[0] = before + 1

        return [add(), add()], [cell]

    def final(shared: Sequence[Any]) -> None:
        assert shared[0] == [2]

    with pytest.raises(Broken, match="AssertionError"):
        explore(counting, final)

    def crossed() -> tuple[list[Thread], list[Any]]:
        locks = [StepLock(), StepLock()]

        def take(first: StepLock, second: StepLock) -> Thread:
            for lock in (first, second):
                yield
                while not lock.acquire(False):
                    yield lock
            second.release()
            first.release()

        return [take(*locks), take(*reversed(locks))], [locks]

    with pytest.raises(Broken, match="nobody can go on"):
        explore(crossed, lambda shared: None)
