"""Random flows on real threads give what the sequential definition gives, for every heuristic, queue and buffer."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetypes.compiler.local.ordered.flow import Flow, Reordering, Scheme, Settings
from tracetypes.compiler.local.ordered.heuristics import HEURISTICS, CurrentThroughput, LastInPipeline
from tracetypes.compiler.local.ordered.marks import ALL, Mark
from tracetypes.compiler.local.ordered.operators import Edge, Kind, Operator, Order
from tracetypes.compiler.local.ordered.partitions import by_hash, by_range
from tracetypes.compiler.local.ordered.scheduler import Scheduler
from tracetypes.compiler.local.ordered.workers import Workers, work

PARTITIONS = 5
DEADLINE = 5.0


@attrs.frozen
class At(Mark):
    """A mark with a number."""

    number: int

    def __repr__(self) -> str:
        return f"#{self.number}"


@pytest.fixture(autouse=True)
def _threads_change_places_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


# ----------------------------------------------------------------------------------------------------- operators


@attrs.define
class Step:
    """An operator by its kind. Stateful ones answer with what they have seen, so that any change of order shows."""

    kind: Kind
    factor: int
    busy: list[bool] = attrs.field(factory=lambda: [False] * PARTITIONS)
    states: dict[int, int] = attrs.field(factory=lambda: defaultdict(int))

    def process(self, unit: Any) -> Sequence[Any]:
        if isinstance(unit, At):
            return (unit,)
        if self.kind is Kind.STATELESS:
            return [unit * 7 + one for one in range((unit + self.factor) % 4)]
        self.states[0] = self.states[0] * 31 + unit & 0xFFFF
        return (unit, self.states[0]) if unit % 3 else ()

    def part(self, partition: int, unit: Any) -> Sequence[Any]:
        assert not self.busy[partition], "two workers on one key"
        self.busy[partition] = True
        try:
            if isinstance(unit, At):
                return (self.states[partition] * PARTITIONS + partition,) if self.states[partition] % 2 else ()
            self.states[partition] = self.states[partition] * 31 + unit & 0xFFFF
            return (self.states[partition] * self.factor + unit,)
        finally:
            self.busy[partition] = False

    def operator(self, name: str) -> Operator:
        if self.kind is Kind.PARTITIONED:
            return Operator(name=name, kind=self.kind, process=self.part, partitions=PARTITIONS, budget=20)
        return Operator(name=name, kind=self.kind, process=self.process, budget=20)


def partition_of(unit: int) -> int:
    return unit % PARTITIONS


def prepare(unit: Any) -> Sequence[Any]:
    return ((ALL, unit),) if isinstance(unit, At) else ((partition_of(unit), unit),)


def edge(source: Operator, target: Operator) -> Edge:
    return Edge(source, target, prepare if target.kind is Kind.PARTITIONED else None)


def sequential(step: Step, units: Sequence[Any]) -> list[Any]:
    """The outputs of an operator that processes one input after the other."""
    step = Step(step.kind, step.factor)
    outputs: list[Any] = []
    for unit in units:
        if step.kind is not Kind.PARTITIONED:
            outputs += step.process(unit)
        elif isinstance(unit, At):
            outputs += [one for partition in range(PARTITIONS) for one in step.part(partition, unit)]
            outputs.append(unit)
        else:
            outputs += step.part(partition_of(unit), unit)
    return outputs


# ----------------------------------------------------------------------------------------------------- runs


def run(flow: Flow, feeds: Sequence[tuple[Operator, Sequence[Any]]], heuristic: str, workers: int) -> None:
    """Feed the flow from outside, a thread for each source, and wait for the end."""
    scheduler = Scheduler(flow, HEURISTICS[heuristic](), time_slice=1e-5, window=1e-3)
    crew = Workers(scheduler, workers)
    crew.start()

    def feed(operator: Operator, units: Sequence[Any]) -> None:
        for unit in units:
            for ready in prepare(unit) if operator.kind is Kind.PARTITIONED else (unit,):
                scheduler.offer(operator, ready)

    feeders = [threading.Thread(target=feed, args=one, daemon=True) for one in feeds]
    for one in feeders:
        one.start()
    for one in feeders:
        one.join(DEADLINE)
        assert not one.is_alive(), "a source waits for ever"
    scheduler.close()
    for one in crew.threads:
        one.join(DEADLINE)
        assert not one.is_alive(), "a worker waits for ever"
    crew.join()


steps = st.builds(Step, st.sampled_from([Kind.STATELESS, Kind.PARTITIONED, Kind.STATEFUL]), st.integers(1, 5))
inputs = st.lists(st.integers(0, 30) | st.integers(0, 9).map(At), max_size=60)
workers = st.integers(1, 8)
settings_of_flows = st.builds(
    Settings,
    scheme=st.sampled_from(Scheme),
    reordering=st.sampled_from(Reordering),
    size=st.sampled_from([1, 2, 8, 1024]),
)
heuristics = st.sampled_from(sorted(HEURISTICS))


def check_chain(chain: list[Step], units: list[Any], how: Settings, heuristic: str, count: int) -> None:
    operators = [Step(one.kind, one.factor).operator(f"o{place}") for place, one in enumerate(chain)]
    edges = [edge(*pair) for pair in pairwise(operators)]
    outputs: list[Any] = []
    flow = Flow(operators, edges, {operators[-1].name: outputs.extend}, how)
    run(flow, [(operators[0], units)], heuristic, count)
    expected = list(units)
    for one in chain:
        expected = sequential(one, expected)
    assert outputs == expected


def check_diamond(chain: list[Step], units: list[Any], how: Settings, heuristic: str, count: int) -> None:
    """One operator, two behind it, one that merges them, and a second source into the merge."""
    first, left, right, last, other = (Step(one.kind, one.factor) for one in chain)
    operators = [one.operator(name) for one, name in zip((first, left, right, last, other), "flrmo", strict=True)]
    one, two, three, four, five = operators
    edges = [edge(one, two), edge(one, three), edge(two, four), edge(three, four), edge(five, four)]
    outputs: list[Any] = []
    order: list[int] = []
    marks = [unit for unit in units if isinstance(unit, At)]
    second = [*range(7), *marks, *range(9)]
    flow = Flow(operators, edges, {"m": outputs.extend}, how, recorded={"m": order.append})
    run(flow, [(one, units), (five, second)], heuristic, count)
    start = sequential(first, units)
    queues = [iter(sequential(step, some)) for step, some in ((left, start), (right, start), (other, second))]
    arrived = []
    for index in order:
        arrived.append(next(queues[index]) if index != ALL else [next(queue) for queue in queues].pop())
    assert [next(queue, None) for queue in queues] == [None] * 3, "all have arrived"
    assert outputs == sequential(last, arrived)


CHECKS: dict[str, tuple[Callable[..., None], Any]] = {
    "chain": (check_chain, st.lists(steps, min_size=1, max_size=4)),
    "diamond": (check_diamond, st.lists(steps, min_size=5, max_size=5)),
}


def search(examples: int, check: Callable[..., None], graphs: Any, how: Any, heuristic: Any) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(graphs, inputs, how, heuristic, workers)
    def found(chain: list[Step], units: list[Any], how: Settings, heuristic: str, count: int) -> None:
        check(chain, units, how, heuristic, count)

    found()


@pytest.mark.parametrize("name", CHECKS)
def test_outputs_are_those_of_the_sequential_run(name: str) -> None:
    check, graphs = CHECKS[name]
    search(25, check, graphs, settings_of_flows, heuristics)


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("heuristic", HEURISTICS)
@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.nightly
def test_outputs_are_those_of_the_sequential_run_for_all(name: str, heuristic: str, scheme: Scheme) -> None:
    check, graphs = CHECKS[name]
    how = settings_of_flows.map(lambda one: attrs.evolve(one, scheme=scheme))
    search(150, check, graphs, how, st.just(heuristic))


# ----------------------------------------------------------------------------------------------------- typed order


class Sums:
    """A sum for each key, emitted at marks: the order within a block does not matter."""

    def __init__(self) -> None:
        self.sums = [0] * PARTITIONS

    def part(self, partition: int, unit: Any) -> Sequence[Any]:
        if isinstance(unit, At):
            return ((unit.number, partition, self.sums[partition]),)
        self.sums[partition] += unit
        return ()


@settings(max_examples=25, deadline=None)
@given(inputs, workers, heuristics, st.sampled_from(Scheme))
def test_order_of_blocks_is_enough_for_unordered_items(
    units: list[Any], count: int, heuristic: str, scheme: Scheme
) -> None:
    def spread(unit: Any) -> Sequence[Any]:
        return (unit,) if isinstance(unit, At) else (unit, unit * 3 + 1)

    sums, again = Sums(), Sums()
    outputs: list[Any] = []
    first = Operator(name="first", kind=Kind.STATELESS, process=spread, order=Order.BLOCKS, budget=20)
    second = Operator(
        name="second", kind=Kind.PARTITIONED, process=sums.part, partitions=PARTITIONS, order=Order.BLOCKS
    )
    flow = Flow([first, second], [edge(first, second)], {"second": outputs.extend}, Settings(scheme=scheme))
    run(flow, [(first, units)], heuristic, count)
    expected: list[Any] = []
    for unit in units:
        for one in spread(unit):
            if isinstance(one, At):
                expected += [row for partition in range(PARTITIONS) for row in again.part(partition, one)]
                expected.append(one)
            else:
                again.part(partition_of(one), one)
    assert outputs == expected


@settings(max_examples=25, deadline=None)
@given(inputs, workers, heuristics, st.sampled_from(Scheme))
def test_order_of_blocks_keeps_the_items_of_a_key_in_order(
    units: list[Any], count: int, heuristic: str, scheme: Scheme
) -> None:
    step = Step(Kind.PARTITIONED, 1)

    def keyed(partition: int, unit: Any) -> Sequence[Any]:
        return [(partition, one) for one in step.part(partition, unit)]

    outputs: list[Any] = []
    only = Operator(
        name="only", kind=Kind.PARTITIONED, process=keyed, partitions=PARTITIONS, order=Order.BLOCKS, budget=20
    )
    flow = Flow([only], [], {"only": outputs.extend}, Settings(scheme=scheme))
    run(flow, [(only, units)], heuristic, count)

    def blocks(some: Sequence[Any]) -> list[dict[int, list[int]]]:
        """What each partition emits in each block."""
        result: list[dict[int, list[int]]] = [defaultdict(list)]
        for one in some:
            if isinstance(one, At):
                result.append(defaultdict(list))
            else:
                result[-1][one[0]].append(one[1])
        return result

    again = Step(Kind.PARTITIONED, 1)
    expected: list[Any] = []
    for unit in units:
        if isinstance(unit, At):
            expected += [(one, out) for one in range(PARTITIONS) for out in again.part(one, unit)] + [unit]
        else:
            expected += [(partition_of(unit), out) for out in again.part(partition_of(unit), unit)]
    assert blocks(outputs) == blocks(expected)


# ----------------------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_a_source_is_read_only_while_there_is_room(heuristic: str) -> None:
    """Never more in flight than the budget."""
    left = list(range(500))
    most = 0
    outputs: list[int] = []

    def read(limit: int) -> Sequence[int]:
        nonlocal most
        units = left[:limit]
        del left[:limit]
        most = max(most, flow.load(source) + len(units))
        return units

    source = Operator(name="source", kind=Kind.SOURCE, process=read, ready=lambda: len(left), budget=10)
    stateless = Operator(name="stateless", kind=Kind.STATELESS, process=lambda unit: (unit,))
    flow = Flow([source, stateless], [edge(source, stateless)], {"stateless": outputs.extend})
    scheduler = Scheduler(flow, HEURISTICS[heuristic]())
    scheduler.close()
    work(scheduler)
    assert outputs == list(range(500))
    assert 1 < most <= 10


def test_an_error_of_an_operator_stops_all_workers() -> None:
    def fails(partition: int, unit: Any) -> Sequence[Any]:
        if unit == 17:
            raise ZeroDivisionError("seventeen")
        return (unit,)

    for scheme in Scheme:
        only = Operator(name="only", kind=Kind.PARTITIONED, process=fails, partitions=2, budget=1000)
        scheduler = Scheduler(Flow([only], [], {}, Settings(scheme=scheme)), CurrentThroughput())
        for unit in range(50):
            scheduler.offer(only, (unit % 2, unit))
        scheduler.close()
        crew = Workers(scheduler, 3)
        crew.start()
        for thread in crew.threads:
            thread.join(DEADLINE)
            assert not thread.is_alive()
        with pytest.raises(ZeroDivisionError, match="seventeen"):
            crew.join()


def visited(quiet: float, size: int, hold: threading.Event | None = None) -> tuple[list[int], set[str]]:
    """What comes out of two operators that a visitor works on, with two workers asleep, and which threads worked. ``hold``: the
    first input waits until another one has been processed."""
    outputs: list[int] = []
    threads: set[str] = set()

    def first_step(unit: int) -> Sequence[int]:
        threads.add(threading.current_thread().name)
        if hold is not None and unit == 0:
            hold.wait(DEADLINE)
        elif hold is not None:
            hold.set()
        return (unit,)

    left = list(range(100))

    def read(limit: int) -> Sequence[int]:
        units = left[:limit]
        del left[:limit]
        return units

    source = Operator(name="source", kind=Kind.SOURCE, process=read, ready=lambda: len(left) if ready else 0, budget=20)
    first = Operator(name="first", kind=Kind.STATELESS, process=first_step)
    ready = False
    flow = Flow([source, first], [edge(source, first)], {"first": outputs.extend}, Settings(size=size))
    scheduler = Scheduler(flow, HEURISTICS["LP"]())
    crew = Workers(scheduler, 2)
    crew.start()
    while flow.idle < 2:
        time.sleep(0.001)
    with scheduler.changed:
        ready = True
    scheduler.visitor = threading.get_ident()
    scheduler.quiet_until = scheduler.clock() + quiet
    work(scheduler)
    while len(outputs) < 100:
        time.sleep(0.001)
    scheduler.close()
    crew.join()
    return outputs, threads


@pytest.mark.parametrize("size", [1, 1024])
def test_in_a_quiet_time_a_visitor_works_alone(size: int) -> None:
    assert visited(60.0, size) == (list(range(100)), {"MainThread"})


def test_after_the_quiet_time_others_are_woken() -> None:
    """The first input waits for another one, which only another thread can process."""
    outputs, threads = visited(0.0, 1024, hold=threading.Event())
    assert outputs == list(range(100))
    assert len(threads) > 1


class Sleeps(threading.Condition):
    """Counts how often a worker went to sleep, and how often somebody was woken."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps = self.rings = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.sleeps += 1
        return super().wait(timeout)

    def notify(self, n: int = 1) -> None:
        self.rings += 1
        super().notify(n)


class Stuck:
    """Two operators, and two workers. One worker sleeps. The other one is stuck with input 0 of the first operator until
    somebody begins with input 2, or it may ``go_on``; it would do more in its turn. Input 2 waits until the second operator has
    answered something, or it ``may_end``. The buffer has one place, so the output of input 1 is refused."""

    def __init__(self) -> None:
        self.go_on, self.may_end = threading.Event(), threading.Event()
        self.in_time: list[bool] = []
        self.begun: list[int] = []
        self.outputs: list[int] = []
        self.first = Operator(name="first", kind=Kind.STATELESS, process=self.process)
        self.second = Operator(name="second", kind=Kind.STATEFUL, process=self.answer)
        self.first.cost = 1e-6  # so that a turn is of more than one input
        flow = Flow([self.first, self.second], [Edge(self.first, self.second)], {"second": self.outputs.extend}, Settings(size=1))
        self.changed = Sleeps()
        self.scheduler = Scheduler(flow, LastInPipeline(), condition=lambda: self.changed)
        self.crew = Workers(self.scheduler, 2)
        self.crew.start()
        self.until(lambda: self.changed.sleeps == 2)
        self.scheduler.offer(self.first, 0)
        self.until(lambda: self.begun == [0])

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, "somebody sleeps for ever"
            time.sleep(0.001)

    def process(self, unit: int) -> Sequence[int]:
        self.begun.append(unit)
        if unit == 2:
            self.go_on.set()
        if unit in (0, 2):
            self.in_time.append((self.may_end if unit else self.go_on).wait(DEADLINE))
        return (unit,)

    def answer(self, unit: int) -> Sequence[int]:
        self.may_end.set()
        return (unit,)

    def visit(self) -> None:
        """What a visitor does, in a quiet time without end."""
        self.scheduler.visitor = threading.get_ident()
        self.scheduler.quiet_until = self.scheduler.clock() + 1000.0
        work(self.scheduler)

    def end(self) -> list[int]:
        self.scheduler.close()
        self.crew.join()
        return self.outputs


def test_a_visitor_that_sleeps_wakes_the_others() -> None:
    """The visitor cannot take input 2, since it has an output of this operator that was refused. Another worker can."""
    stuck = Stuck()
    stuck.may_end.set()
    for unit in (1, 2):
        stuck.first.worklist.put(unit)
    stuck.visit()
    assert stuck.end() == [0, 1, 2]
    assert all(stuck.in_time)


def test_the_quiet_time_ends_when_the_visitor_sleeps() -> None:
    """What a worker makes possible in the middle of its turn is done by others meanwhile."""
    stuck = Stuck()
    stuck.first.worklist.put(1)
    visitor = threading.Thread(target=stuck.visit, daemon=True)
    visitor.start()
    stuck.until(lambda: stuck.changed.sleeps == 4)  # the visitor; and again the worker that it woke
    stuck.first.worklist.put(2)
    stuck.go_on.set()
    visitor.join(DEADLINE)
    assert not visitor.is_alive()
    assert stuck.end() == [0, 1, 2]
    assert all(stuck.in_time), "the second operator has worked while input 2 was processed"


def test_a_refused_output_is_sent_again_in_a_quiet_time() -> None:
    """A worker went to sleep with it before the quiet time began. Nobody else has this output."""
    stuck = Stuck()
    stuck.scheduler.offer(stuck.first, 1)
    stuck.until(lambda: stuck.scheduler.parked == 1)
    stuck.scheduler.quiet_until = stuck.scheduler.clock() + 1000.0
    stuck.go_on.set()
    stuck.until(lambda: stuck.outputs == [0, 1])
    assert stuck.end() == [0, 1]


def test_a_turn_in_a_quiet_time_wakes_nobody() -> None:
    only = Operator(name="only", kind=Kind.STATELESS)
    flow = Flow([only], [])
    changed = Sleeps()
    scheduler = Scheduler(flow, LastInPipeline(), condition=lambda: changed, clock=lambda: 1.0)
    only.worklist.put(0)
    only.worklist.put(1)
    flow.idle = 1
    for quiet_until, rings in ((2.0, 0), (0.5, 1), (0.0, 2)):
        scheduler.quiet_until = quiet_until
        assert isinstance(scheduler.begin(None, (0, 0, 0), 0, 0.0, 0.0, {}, False), tuple)
        assert changed.rings == rings


def test_a_worker_that_finds_nothing_does_not_end_the_quiet_time() -> None:
    class Leaves(Sleeps):
        def wait(self, timeout: float | None = None) -> bool:
            scheduler.stopped = True
            return True

    changed = Leaves()
    flow = Flow([Operator(name="only", kind=Kind.STATELESS)], [])
    scheduler = Scheduler(flow, LastInPipeline(), condition=lambda: changed, clock=lambda: 1.0)
    scheduler.quiet_until = 2.0
    assert scheduler.begin(None, (0, 0, 0), 0, 0.0, 0.0, {}, False) is None
    assert (scheduler.stopped, scheduler.quiet_until, changed.rings) == (True, 2.0, 0)


def test_operators_go_from_the_earliest_to_the_latest() -> None:
    names = {name: Operator(name=name, kind=Kind.STATELESS) for name in "zyxwv"}
    edges = [Edge(names[one], names[two]) for one, two in ("zx", "yx", "xw", "yv")]
    assert "".join(one.name for one in Flow(list(names.values()), edges).operators) == "zyxwv"
    with pytest.raises(ValueError, match="on a cycle"):
        Flow(list(names.values()), [*edges, Edge(names["w"], names["z"])])


def profiled(sizes: Sequence[int], costs: Sequence[float], selectivities: Sequence[float]) -> Flow:
    """A chain with given worklists and profile."""
    operators = [Operator(name=f"o{place}", kind=Kind.STATELESS) for place in range(len(sizes))]
    edges = [Edge(*pair) for pair in pairwise(operators)]
    flow = Flow(operators, edges)
    cumulative = 1.0
    for one, size, cost, selectivity in zip(flow.operators, sizes, costs, selectivities, strict=True):
        for _ in range(size):
            one.worklist.put(0)
        one.inflow = cumulative
        cumulative *= selectivity
        one.cost, one.cumulative = cost, cumulative
    return flow


def test_heuristics_choose_by_their_formulas() -> None:
    flow = profiled([10, 2, 30], [2.0, 5.0, 1.0], [2.0, 3.0, 1.0])
    first, second, third = flow.operators
    assert LastInPipeline().choose(flow.operators, flow) is third
    assert LastInPipeline(least=5).choose([first, second], flow) is first
    assert LastInPipeline(least=50).choose(flow.operators, flow) is third

    throttling = HEURISTICS["QST"](capacity=14)
    throttling.profiled(flow, 1.0)  # cs = 2, 6, 6: thresholds 2, 6, 6
    assert throttling.choose(flow.operators, flow) is third, "2 waits at the second, 30 at the third"
    second.worklist.work(1)
    assert throttling.choose(flow.operators, flow) is first

    estimated = HEURISTICS["ET"]()
    assert estimated.choose(flow.operators, flow) is third, "20, 5, 31 seconds"
    third.workers = 1
    assert estimated.choose(flow.operators, flow) is first, "20, 5, 15.5"
    third.workers = 0

    throughput = CurrentThroughput()
    throughput.profiled(flow, 1.0)
    first.time, second.time, third.time = 8.0, 30.0, 12.0
    assert throughput.choose(flow.operators, flow) is second, "8 / 4, 30 / 30, 12 / 6"
    second.workers = 40
    assert throughput.choose(flow.operators, flow) is third, "2, 70 / 30, 2: the latest of equals"
    assert CurrentThroughput(by_inflow=True).choose([first, third], flow) is third, "8 / 2, 12 / 6"


def test_costs_and_selectivities_are_those_of_the_window() -> None:
    first = Operator(name="first", kind=Kind.STATEFUL, process=lambda unit: (unit,) * 3, budget=1000)
    second = Operator(name="second", kind=Kind.STATEFUL, process=lambda unit: (), budget=1000)
    flow = Flow([first, second], [Edge(first, second)])
    scheduler = Scheduler(flow, LastInPipeline(), time_slice=1.0, window=10.0)
    for unit in range(20):
        scheduler.offer(first, unit)
    now = 0.0
    turn = scheduler.begin(None, (0, 0, 0), 0, 0.0, 0.0, {}, False)
    turns = []
    for _ in range(8):
        assert isinstance(turn, tuple)
        operator, amount = turn
        stamp = operator.stamp()
        done, _ = operator.worklist.work(amount)
        turns.append((operator.name, amount))
        cost = 0.5 if operator is first else 0.25
        turn = scheduler.begin(operator, stamp, done, now, now + done * cost, {}, False)
        now += done * cost
    # One unit each until a cost is known; then a second's worth.
    assert turns == [
        ("first", 1),
        ("second", 1),
        ("second", 4),
        ("first", 2),
        ("second", 4),
        ("second", 4),
        ("first", 2),
        ("second", 4),
    ]
    now = 100.0
    assert isinstance(turn, tuple)
    scheduler.begin(turn[0], turn[0].stamp(), 1, now, now + 0.25, {}, False)
    assert first.cost == 0.5
    assert first.selectivity == 3.0
    assert (second.inflow, second.cumulative) == (3.0, 0.0) or second.inflow == 3.0


def test_partitions_of_keys() -> None:
    assert [by_range("gt")(key) for key in ("a", "f", "g", "t", "z")] == [0, 0, 1, 2, 2]
    with pytest.raises(ValueError, match="must increase"):
        by_range([3, 3])
    assert {by_hash(3)(bytes([one])) for one in range(50)} == {0, 1, 2}
    assert by_hash(1000)(b"key") == 937
