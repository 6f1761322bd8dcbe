"""The scheduler: gives a worker an operator and an amount of work (section 6), and lets it wait when there is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, TypeAlias

from tracetypes.compiler.local.ordered.flow import Flow
from tracetypes.compiler.local.ordered.heuristics import Heuristic
from tracetypes.compiler.local.ordered.marks import Mark
from tracetypes.compiler.local.ordered.operators import SOURCE, Operator
from tracetypes.compiler.local.ordered.primitives import Unit
from tracetypes.compiler.local.ordered.worklists import Parked

__all__ = ["RETRY", "Condition", "Scheduler", "Turn"]

Turn: TypeAlias = tuple[Operator, int]
"""An operator, and how many of its inputs to process at most."""


class _Retry:
    __slots__ = ()


RETRY = _Retry()
"""Instead of a turn: send again what was refused."""


class Condition(Protocol):
    """A lock on which workers wait."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def wait(self) -> object: ...

    def notify(self) -> None: ...

    def notify_all(self) -> None: ...


class Scheduler:
    """``time_slice``: how long a worker stays with an operator, in seconds; the amount of a turn is this divided by the
    operator's cost. ``window``: costs and selectivities are those of the last window, in seconds.

    An operator can be scheduled when it has inputs and fewer workers than it may have; a source, when it has room too.
    An operator on which a worker could do nothing (a full buffer, all its partitions taken) is barred until an input,
    an answer or the return of another worker changes its stamp.

    *No worker sleeps while there is work for it.* Workers look for work and go to sleep under one lock. What becomes
    possible in the turn of a worker is seen by this worker when it comes back, under the lock; it then wakes another one
    if it leaves something, and so on. (``Flow.wake`` only makes it sooner.) What comes from outside (``offer``,
    ``close``) takes the lock too. In a quiet time nobody is woken for work: a visitor works alone. It finds all that another
    worker would find, until it sleeps with a refused output, which ends the quiet time.
    """

    def __init__(
        self,
        flow: Flow,
        heuristic: Heuristic,
        *,
        time_slice: float = 0.001,
        window: float = 0.1,
        condition: Callable[[], Condition] = threading.Condition,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.clock = clock
        self.flow, self.heuristic = flow, heuristic
        self.time_slice, self.window = time_slice, window
        self.changed = condition()
        self.active = 0
        """How many workers have a turn."""
        self.refused: dict[int, Mapping[Operator, Parked]] = {}
        """The refused outputs of each worker, by its thread. Each worker changes its own, without the lock."""
        self.parked = 0
        """How many sleep with an output that was refused."""
        self.offering = 0
        """How many wait for room."""
        self.visitor: int | None = None
        """A thread that leaves, rather than sleep, when there is no turn for it."""
        self.quiet_until = 0.0
        """No sleeping worker is woken before this time, by the clock."""
        self.closed = False
        self.stopped = False
        self.window_end = 0.0
        self.tails = [0] * len(flow.operators)
        """How many inputs each operator had at the beginning of the window, a mark counted once for each partition."""
        flow.wake = self.wake
        heuristic.profiled(flow, time_slice)

    # ------------------------------------------------------------------------------------------------- workers

    def begin(
        self,
        finished: Operator | None,
        stamp: tuple[int, int, int],
        done: int,
        started: float,
        ended: float,
        parked: Mapping[Operator, Parked],
        resent: bool,
    ) -> Turn | _Retry | None:
        """The next turn of a worker; None at the end of everything, or if a visitor has to leave. The last turn's operator, its
        stamp before, how many inputs were processed, and its time; ``parked``: the worker's refused outputs; ``resent``: one is
        not refused any more."""
        with self.changed:
            self.refused[threading.get_ident()] = parked
            if finished is not None:
                self._finish(finished, stamp, done, started, ended)
            if (finished is not None or resent) and (self.parked or self.offering):
                self.changed.notify_all()
            while True:
                if self.stopped:
                    return None
                turn = self._choose(parked)
                if turn is not None:
                    return turn
                if self._is_over():
                    self._stop()
                    return None
                if self._can_retry(parked):
                    return RETRY
                if not parked and threading.get_ident() == self.visitor:
                    return None
                self._sleep(parked)
                if parked:
                    return RETRY

    def _sleep(self, parked: Mapping[Operator, Parked]) -> None:
        if parked and self._is_quiet():
            self.quiet_until = 0.0
            self.changed.notify_all()
        self.flow.idle += 1
        self.parked += bool(parked)
        self.changed.wait()
        self.flow.idle -= 1
        self.parked -= bool(parked)

    def _choose(self, parked: Mapping[Operator, Parked]) -> Turn | None:
        flow = self.flow
        candidates = []
        for one in flow.operators:
            if one.workers >= one.most or not one.worklist.size():
                continue
            if one.barred is not None and one.barred == one.stamp():
                continue
            if (parked and one in parked) or (one.kind is SOURCE and flow.room(one) <= 0):
                continue
            candidates.append(one)
        if not candidates:
            return None
        one = self.heuristic.choose(candidates, flow) if len(candidates) > 1 else candidates[0]
        amount = int(self.time_slice / one.cost) or 1 if one.cost else 1
        if one.kind is SOURCE:
            amount = min(amount, flow.room(one))
        one.workers += 1
        self.active += 1
        leaves_some = len(candidates) > 1 or (one.workers < one.most and one.worklist.size() > amount)
        if flow.idle and leaves_some and not self._is_quiet():
            self.changed.notify()
        return one, amount

    def _is_quiet(self) -> bool:
        return bool(self.quiet_until) and self.clock() < self.quiet_until

    def _finish(self, one: Operator, stamp: tuple[int, int, int], done: int, started: float, ended: float) -> None:
        one.workers -= 1
        self.active -= 1
        one.turns += 1
        if done:
            elapsed = ended - started
            one.time += elapsed
            one.done += done
            if not one.cost:
                one.cost = elapsed / done
        elif one.kind is not SOURCE:
            tail, turns, sent = stamp
            one.barred = tail, turns + 1, sent
        if ended >= self.window_end:
            self._profile(ended)

    def _is_over(self) -> bool:
        # In this order: a worker sends a refused output, which fills worklists, and then forgets it.
        return (
            self.closed
            and not self.active
            and not any(self.refused.values())
            and not any(one.worklist.size() for one in self.flow.operators)
        )

    def _can_retry(self, parked: Mapping[Operator, Parked]) -> bool:
        return any(
            one.buffer is not None and serial < one.buffer.next + one.buffer.size for one, (serial, _) in parked.items()
        )

    # ------------------------------------------------------------------------------------------------- profile

    def _profile(self, now: float) -> None:
        """Close a window: costs and selectivities become those that were measured in it."""
        flow = self.flow
        self.window_end = now + self.window
        tails = [one.worklist.tail + one.worklist.spread for one in flow.operators]
        for one in flow.operators:
            one.total_time += one.time
            one.total_done += one.done
            if one.done and one.time > 0:
                one.cost = one.time / one.done
                edges = flow.outgoing[one]
                if len(edges) and all(len(flow.incoming[edge.target]) == 1 for edge in edges):
                    put = max(tails[edge.target.position] - self.tails[edge.target.position] for edge in edges)
                    one.selectivity = put / one.done
            incoming = flow.incoming[one]
            one.inflow = sum(edge.source.cumulative for edge in incoming) if incoming else 1.0
            one.cumulative = one.inflow * one.selectivity
            one.time, one.done = 0.0, 0
        self.tails = tails
        self.heuristic.profiled(flow, self.time_slice)

    # ------------------------------------------------------------------------------------------------- outside

    def wake(self) -> None:
        """Wake one worker that sleeps."""
        if not self._is_quiet():
            with self.changed:
                self.changed.notify()

    def offer(self, operator: Operator, unit: Unit) -> bool:
        """Add a unit from outside; waits for room, except with a mark. One thread for each operator. False: stopped."""
        with self.changed:
            if not isinstance(unit, Mark):
                while not self.stopped and self.flow.room(operator) <= 0:
                    self.offering += 1
                    self.changed.wait()
                    self.offering -= 1
            if self.stopped:
                return False
            operator.worklist.put(unit)
            self.changed.notify()
        return True

    def close(self) -> None:
        """Nothing more comes from outside: workers end when everything is answered and the sources have nothing."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def stop(self) -> None:
        """Workers end after their turn."""
        with self.changed:
            self._stop()

    def _stop(self) -> None:
        self.stopped = True
        self.changed.notify_all()
