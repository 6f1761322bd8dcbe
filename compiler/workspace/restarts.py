"""Keeps segments running: what has failed starts again, later and later, and what depends on it with it.

::

    starting  --is released-->  running
    running  --fails-->  failed  --after a delay-->  running
       |                   ^
       |                   | its own start fails, too
       +--what it reads from fails-->  held  --that runs again-->  running
       +--its inputs end-->  over

Nobody else hears of a failure: a segment stops only if it reads, over any number of others, from the one that failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from enum import Enum

import attrs

from tracetypes.compiler.backend.backend import Running
from tracetypes.compiler.backend.control import Control
from tracetypes.compiler.backend.supervisor import PAUSE, Supervisor

__all__ = ["Backoff", "RestartingSupervisor", "State"]


class State(Enum):
    """What a segment does. ``STARTING``: it was kept for later, and is not released yet. ``ENDING``: it was removed, and is not
    over yet."""

    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    HELD = "held"
    ENDING = "ending"
    OVER = "over"


@attrs.frozen
class Backoff:
    """Seconds until a segment starts again: ``first`` after the first failure, then ``factor`` times as many, at most ``most``.
    One that has run for ``forgiven`` seconds has never failed before."""

    first: float = 1.0
    factor: float = 2.0
    most: float = 60.0
    forgiven: float = 300.0

    def delay(self, failures: int) -> float:
        """After so many failures, one or more."""
        return min(self.most, self.first * self.factor ** min(failures - 1, 64))


@attrs.define(eq=False)
class _Segment:
    start: Callable[[], Running]
    upstream: frozenset[str]
    state: State = State.HELD
    failures: int = 0
    error: BaseException | None = None
    due: float = 0.0
    began: float = 0.0


class RestartingSupervisor:
    """Segments that shall run, by name. ``control``: how others end all of them. One thread calls it."""

    def __init__(
        self, control: Control, backoff: Backoff | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._supervisor = Supervisor(control, others_go_on=True)
        self._backoff, self._clock = backoff or Backoff(), clock
        self._segments: dict[str, _Segment] = {}
        """Upstream first."""
        self._paused: set[str] = set()

    def keep(
        self, name: str, start: Callable[[], Running], upstream: Collection[str] = (), *, later: bool = False
    ) -> None:
        """Let a segment run from now on. ``start``: opens and starts it, each time anew. ``upstream``: the segments that it reads
        from, which are kept already. ``later``: it waits for :meth:`release`. Raises :class:`ValueError` for a name that is kept,
        and for one upstream that is not."""
        if name in self._segments:
            raise ValueError(f"segment {name!r} is {self._segments[name].state.value} already")
        if missing := [one for one in upstream if one not in self._segments]:
            raise ValueError(f"segment {name!r} reads from {missing[0]!r}, which is not there")
        self._segments[name] = _Segment(start, frozenset(upstream), State.STARTING if later else State.HELD)
        if not later:
            self._start_all()

    def release(self, name: str) -> None:
        """A segment that was kept for later may start, if it is still there."""
        if (one := self._segments.get(name)) is not None and one.state is State.STARTING:
            one.state = State.HELD
            self._start_all()

    def remove(self, name: str, *, drain: bool = False) -> None:
        """Let a segment end: soon, or behind all open blocks. It is gone when it is over. One that has failed is gone at once.
        Raises :class:`ValueError` while others read from it."""
        if readers := [other for other, one in self._segments.items() if name in one.upstream and one.state is not State.ENDING]:
            raise ValueError(f"segment {readers[0]!r} reads from {name!r}")
        one = self._segments[name]
        if name in self._supervisor.running:
            one.state = State.ENDING
            (self._supervisor.drain if drain else self._supervisor.stop)(name)
        else:
            self._forget(name)

    def drain(self, name: str) -> None:
        """Let a segment end behind all open blocks. It stays, ``OVER``, until it is removed."""
        self._supervisor.drain(name)

    def pause(self, names: Collection[str]) -> None:
        """Let segments end soon, and none of them start again until :meth:`go_on`. Who reads from them goes on."""
        self._paused.update(names)
        for name in [one for one in reversed(self._segments) if one in self._paused]:
            self._supervisor.stop(name)

    @property
    def is_paused(self) -> bool:
        """Whether all segments that were paused are over."""
        return not any(one in self._paused for one in self._supervisor.running)

    def is_held_back(self, name: str) -> bool:
        """Whether a segment was paused, and does not start before :meth:`go_on`."""
        return name in self._paused

    def go_on(self) -> None:
        """Start the segments that were paused."""
        self._paused.clear()
        self._start_all()

    @property
    def states(self) -> dict[str, State]:
        """What each segment does. One that has failed is never ``RUNNING``."""
        return {name: one.state for name, one in self._segments.items()}

    @property
    def errors(self) -> dict[str, BaseException]:
        """What segments failed of last, as :meth:`error` says."""
        return {name: one.error for name, one in self._segments.items() if one.error is not None}

    def error(self, name: str) -> BaseException | None:
        """What a segment failed of last, if it has not run for long since."""
        return self._segments[name].error

    def look(self, seconds: float = PAUSE) -> None:
        """See what is over, and start what is due. If nothing has happened, wait for news, for at most some seconds."""
        now = self._clock()
        waits = [one.due - now for one in self._segments.values() if one.state is State.FAILED]
        left = max(0.0, min([seconds, *waits]))
        if self._supervisor.running:
            self._supervisor.look(left)
        elif left:
            self._supervisor.control.news.wait(left)
        running, failures, doomed = self._supervisor.running, dict(self._supervisor.failures), self._supervisor.doomed
        now = self._clock()
        for name, one in list(self._segments.items()):
            if name in running:
                if one.failures and now - one.began >= self._backoff.forgiven:
                    one.failures, one.error = 0, None
            elif one.state is State.ENDING:
                self._forget(name)
            elif one.state is State.RUNNING:
                if name in failures:
                    self._has_failed(name, failures[name])
                else:
                    one.state = State.HELD if name in doomed or name in self._paused else State.OVER
                    self._supervisor.forget(name)
        self._start_all()

    def stop_all(self) -> None:
        """End all segments soon. None starts again."""
        for name in list(reversed(self._segments)):
            self.remove(name)

    def _start_all(self) -> None:
        """Start what may run, each behind what it reads from."""
        for name, one in self._segments.items():
            due = one.state is State.HELD or (one.state is State.FAILED and one.due <= self._clock())
            if due and name not in self._paused and all(self._is_fine(above) for above in one.upstream):
                self._supervisor.start(name, one.start, one.upstream)
                if name in self._supervisor.running:
                    one.state, one.began = State.RUNNING, self._clock()
                elif name in self._supervisor.failures:
                    self._has_failed(name, self._supervisor.failures[name])
                else:  # what it reads from is about to stop
                    one.state = State.HELD
                    self._supervisor.forget(name)

    def _is_fine(self, name: str) -> bool:
        """Whether others may read from a segment."""
        return name not in self._segments or self._segments[name].state in (State.RUNNING, State.OVER, State.ENDING)

    def _has_failed(self, name: str, error: BaseException) -> None:
        one = self._segments[name]
        one.state, one.error, one.failures = State.FAILED, error, one.failures + 1
        one.due = self._clock() + self._backoff.delay(one.failures)
        self._supervisor.forget(name)

    def _forget(self, name: str) -> None:
        del self._segments[name]
        self._paused.discard(name)
        self._supervisor.forget(name)
