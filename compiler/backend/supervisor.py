"""Watches running segments, on any backend. More segments may join while others run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import attrs

from tracetypes.compiler.backend.backend import Running
from tracetypes.compiler.backend.control import Control
from tracetypes.errors import RunError

__all__ = ["Supervisor", "unexpected"]

PAUSE = 0.05
"""Seconds between two looks."""


@attrs.define(eq=False)
class _Watched:
    name: str
    running: Running
    upstream: frozenset[str]
    over: bool = False


class Supervisor:
    """Running segments. ``control``: how others end them. A segment that fails stops the segments that depend on it
    and, unless ``others_go_on``, all others too."""

    def __init__(self, control: Control, *, others_go_on: bool = False) -> None:
        self.control, self.others_go_on = control, others_go_on
        self.failures: dict[str, BaseException] = {}
        """What segments failed of, by name: the first one first."""
        self._watched: list[_Watched] = []
        self._lock = threading.RLock()
        self._stopped: set[str] = set()
        """Segments that must not run any more, those of a failed one too."""

    def start(self, name: str, start: Callable[[], Running], upstream: Collection[str] = ()) -> None:
        """Start a segment. ``upstream``: the segments that it reads from, which must have been started before."""
        with self._lock:
            if self._is_doomed(name, frozenset(upstream)):
                return
            try:
                self._watched.append(_Watched(name, start(), frozenset(upstream)))
            except Exception as error:
                self._failed(name, error)
            except BaseException:
                self.stop()
                raise

    def _is_doomed(self, name: str, upstream: frozenset[str]) -> bool:
        if self.control.stop.is_set() or (self.failures and not self.others_go_on) or upstream & self._stopped:
            self._stopped.add(name)
            return True
        return False

    def watch(self) -> None:
        """Wait until all segments are over. Raises the error of the first one that failed. An interrupt stops all."""
        try:
            self._watch()
        except BaseException:
            self.stop()
            self._watch()
            raise
        if self.failures:
            raise next(iter(self.failures.values()))

    def _watch(self) -> None:
        while left := [one for one in self._watched if not one.over]:
            if self.control.stop.is_set():
                self.stop()
            if self.control.drain.is_set():
                self.drain()
            for at, one in enumerate(left):
                if one.running.wait(0 if at else PAUSE):
                    with self._lock:
                        one.over = True
                        if one.running.failure is not None:
                            self._failed(one.name, one.running.failure)

    def stop(self) -> None:
        """Stop all segments."""
        for one in list(self._watched):
            one.running.stop()

    def drain(self) -> None:
        """Drain all segments."""
        for one in list(self._watched):
            one.running.drain()

    def _failed(self, name: str, error: BaseException) -> None:
        self.failures[name] = error if isinstance(error, Exception) else unexpected(error)
        self._stopped.add(name)
        if not self.others_go_on:
            self.stop()
            return
        for one in self._watched:  # in the order of their starts: upstream first
            if one.upstream & self._stopped and not one.over:
                self._stopped.add(one.name)
                one.running.stop()


def unexpected(error: BaseException) -> RunError:
    """The error for what no part of a run explains. What an author raises in a thread, such as :class:`SystemExit`, is none for
    the program that called the run."""
    failure = RunError(
        "TT214", f"the run stopped: {type(error).__name__}: {error}", fix="see the cause above; run again to go on"
    )
    failure.__cause__ = error
    return failure
