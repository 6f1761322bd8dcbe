"""Watches running segments, on any backend. More segments may join while others run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import attrs

from tracetypes.compiler.backend.backend import Running
from tracetypes.compiler.backend.control import Control
from tracetypes.errors import RunError

__all__ = ["Supervisor", "unexpected"]

PAUSE = 5.0
"""Seconds between two looks, if nothing is heard of the segments and of those who control them."""


@attrs.define(eq=False)
class _Watched:
    name: str
    running: Running
    upstream: frozenset[str]
    over: bool = False


class Supervisor:
    """Running segments, by name. ``control``: how others end all of them. A segment that fails stops the segments that depend on
    it and, unless ``others_go_on``, all others too."""

    def __init__(self, control: Control, *, others_go_on: bool = False) -> None:
        self.control, self.others_go_on = control, others_go_on
        self.failures: dict[str, BaseException] = {}
        """What segments failed of, by name: the first one first."""
        self._watched: dict[str, _Watched] = {}
        """In the order of their starts: upstream first."""
        self._lock = threading.RLock()
        self._doomed: set[str] = set()
        """Segments that must not run any more: those that failed, and those that depend on them."""

    def start(self, name: str, start: Callable[[], Running], upstream: Collection[str] = ()) -> None:
        """Start a segment. ``upstream``: the segments that it reads from, which must have been started before. A segment of this
        name that is over is forgotten; it is an error if one runs."""
        with self._lock:
            self.forget(name)
            if self._is_doomed(name, frozenset(upstream)):
                return
            try:
                running = start()
                self._watched[name] = _Watched(name, running, frozenset(upstream))
                running.listen(self.control.news)
            except Exception as error:
                self._failed(name, error)
            except BaseException:
                self.stop_all()
                raise

    def _is_doomed(self, name: str, upstream: frozenset[str]) -> bool:
        if self.control.stop.is_set() or (self.failures and not self.others_go_on) or upstream & self._doomed:
            self._doomed.add(name)
            return True
        return False

    @property
    def doomed(self) -> frozenset[str]:
        """The segments that failed, and those that were stopped, or did not start, because they depend on one."""
        with self._lock:
            return frozenset(self._doomed)

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the segments that are not over, each behind those that it reads from."""
        with self._lock:
            return tuple(one.name for one in self._watched.values() if not one.over)

    def stop(self, name: str) -> None:
        """Stop a segment. What is over, or was never started, stays so."""
        with self._lock:
            if (one := self._watched.get(name)) is not None and not one.over:
                one.running.stop()

    def drain(self, name: str) -> None:
        """Drain a segment, as :meth:`stop` stops it."""
        with self._lock:
            if (one := self._watched.get(name)) is not None and not one.over:
                one.running.drain()

    def forget(self, name: str) -> None:
        """Forget a segment that is over, and what it failed of: it may start again. Raises :class:`ValueError` while it runs."""
        with self._lock:
            if (one := self._watched.get(name)) is not None and not one.over:
                raise ValueError(f"segment {name!r} is running")
            self._watched.pop(name, None)
            self._doomed.discard(name)
            self.failures.pop(name, None)

    def stop_all(self) -> None:
        """Stop all segments."""
        for name in self.running:
            self.stop(name)

    def drain_all(self) -> None:
        """Drain all segments."""
        for name in self.running:
            self.drain(name)

    def watch(self) -> None:
        """Wait until all segments are over. Raises the error of the first one that failed. An interrupt stops all."""
        try:
            while self.look():
                pass
        except BaseException:
            self.stop_all()
            while self.look():
                pass
            raise
        if self.failures:
            raise next(iter(self.failures.values()))

    def look(self, seconds: float | None = None) -> bool:
        """See which segments are over. If none is, wait for news, for at most some seconds; 0 leaves the news to others. Returns
        whether any segment ran."""
        left = [one for one in list(self._watched.values()) if not one.over]
        if self.control.stop.is_set():
            self.stop_all()
        if self.control.drain.is_set():
            self.drain_all()
        for one in left:
            if one.running.wait(0):
                with self._lock:
                    one.over = True
                    if one.running.failure is not None:
                        self._failed(one.name, one.running.failure)
        if left and seconds != 0 and not any(one.over for one in left):
            self.control.news.wait(PAUSE if seconds is None else seconds)
        return bool(left)

    def _failed(self, name: str, error: BaseException) -> None:
        self.failures[name] = error if isinstance(error, Exception) else unexpected(error)
        self._doomed.add(name)
        if not self.others_go_on:
            self.stop_all()
            return
        for one in self._watched.values():
            if one.upstream & self._doomed and not one.over:
                self._doomed.add(one.name)
                one.running.stop()


def unexpected(error: BaseException) -> RunError:
    """The error for what no part of a run explains. What an author raises in a thread, such as :class:`SystemExit`, is none for
    the program that called the run."""
    failure = RunError(
        "TT214", f"the run stopped: {type(error).__name__}: {error}", fix="see the cause above; run again to go on"
    )
    failure.__cause__ = error
    return failure
