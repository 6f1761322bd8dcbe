"""The splits that a stage reads: those of this epoch, the barrier, and a few of the next epoch.

A worker that finds nothing more to do in an epoch begins with the next one: it reads a split of that, while others end this
epoch and while it is committed. The answer waits here until its epoch has begun. So no state sees anything of the next epoch
before its own is taken, and what an epoch takes is recorded before it uses an answer. After a crash the split is read again.

Theorem. An epoch gets the answers of its splits, each once. A split that was handed out early has an answer, or is being read,
or was in a listing that has changed. In the first case the epoch takes the answer in the place of the split. In the second the
split is marked as due, under the lock under which its reader leaves the answer: so either the epoch finds the answer, or the
reader finds that it is due and sends it on itself. In the third nobody takes the answer. The barrier of the epoch was not yet
sent when a split became due, and an output that comes before the barrier goes before it (:mod:`.ordered.block_order`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import attrs

from tracetypes.compiler.local.kernels import SplitAnswer, SplitTask
from tracetypes.compiler.local.units import Sent

__all__ = ["EarlySplit", "SplitSource", "SplitUnit"]


@final
@attrs.define(eq=False)
class EarlySplit:
    """A split of the next epoch. ``outcome``: its answer, or the error of reading it. ``due``: its epoch has begun."""

    task: SplitTask
    outcome: SplitAnswer | BaseException | None = None
    due: bool = False


SplitUnit: TypeAlias = SplitTask | EarlySplit | Sent


@final
class SplitSource:
    """Of one stage. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[SplitUnit] = deque()
        self._ahead: deque[EarlySplit] = deque()
        self._early: list[EarlySplit] = []
        """Those that were handed out."""

    def ready(self, *, ahead: bool) -> int:
        """How many units can be taken: those of this epoch. If there are none, and ``ahead``, one of the next: more would be
        read before what comes meanwhile."""
        return len(self._waiting) or (min(1, len(self._ahead)) if ahead else 0)

    def begin(self, tasks: Sequence[SplitTask], ahead: Sequence[SplitTask] = ()) -> bool:
        """An epoch begins, with these splits. ``ahead``: splits of the one behind it. Returns whether some were read early."""
        with self._lock:
            early = {_place(one.task): one for one in self._early}
            self._early = []
            self._waiting.clear()
            self._ahead = deque(map(EarlySplit, ahead))
            for task in tasks:
                one = early.get(_place(task))
                if one is None or one.task.split != task.split:
                    self._waiting.append(task)
                elif one.outcome is None:
                    one.due = True
                else:
                    self._waiting.append(one)
            self._waiting.append(Sent((), last=True))
            return bool(early)

    def take(self, limit: int) -> Sequence[SplitUnit]:
        """The next units, at most so many; of the next epoch one."""
        with self._lock:
            if self._waiting:
                return [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
            if not self._ahead:
                return []
            early = self._ahead.popleft()
            self._early.append(early)
            return [early]

    def answer(self, early: EarlySplit, read: Callable[[SplitTask], SplitAnswer]) -> SplitAnswer | None:
        """The answer of a split; None if its epoch has not begun. Then it is kept. Raises the error of reading it when the epoch
        has begun."""
        if early.outcome is None:
            outcome = _outcome(early.task, read)
            with self._lock:
                early.outcome = outcome
                if not early.due:
                    return None
        if isinstance(early.outcome, BaseException):
            raise early.outcome
        return early.outcome


def _place(task: SplitTask) -> tuple[int, int]:
    return task.link.number, task.number


def _outcome(task: SplitTask, read: Callable[[SplitTask], SplitAnswer]) -> SplitAnswer | BaseException:
    try:
        return read(task)
    except BaseException as error:  # it is raised when the epoch of the split has begun
        return error
