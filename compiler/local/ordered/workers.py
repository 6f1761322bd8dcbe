"""Workers: threads that take turns from the scheduler."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tracetypes.compiler.local.ordered.operators import Operator
from tracetypes.compiler.local.ordered.scheduler import RETRY, Scheduler
from tracetypes.compiler.local.ordered.worklists import Parked

__all__ = ["Workers", "work"]


def work(scheduler: Scheduler, clock: Callable[[], float] = time.perf_counter) -> None:
    """What a worker does until the scheduler is stopped or everything is over. May run in the caller's thread.

    An output that a full buffer refuses stays with the worker. It takes turns of other operators and sends the output
    again between them. So it never waits for another worker while there is work.
    """
    parked: dict[Operator, Parked] = {}
    finished: Operator | None = None
    stamp, done, started, ended = (0, 0, 0), 0, 0.0, 0.0
    while True:
        resent = False
        for one, (serial, output) in list(parked.items()):
            if one.buffer is not None and one.buffer.send(serial, output):
                del parked[one]
                resent = True
        turn = scheduler.begin(finished, stamp, done, started, ended, parked, resent)
        finished = None
        if turn is None:
            return
        if turn is RETRY:
            continue
        assert isinstance(turn, tuple)
        finished, amount = turn
        stamp = finished.stamp()
        started = clock()
        done, refused = finished.worklist.work(amount)
        ended = clock()
        if refused is not None:
            parked[finished] = refused


class Workers:
    """Threads. The first error of one stops all, and is raised by ``join``. ``failed``: is called then."""

    def __init__(
        self,
        scheduler: Scheduler,
        count: int,
        clock: Callable[[], float] = time.perf_counter,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self.scheduler, self.clock, self.failed = scheduler, clock, failed
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self._run, name=f"worker {one}", daemon=True) for one in range(count)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def _run(self) -> None:
        try:
            work(self.scheduler, self.clock)
        except BaseException as error:
            self.errors.append(error)
            self.scheduler.stop()
            self.failed()

    def join(self) -> None:
        """Wait for the end, and raise what a worker failed of."""
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
