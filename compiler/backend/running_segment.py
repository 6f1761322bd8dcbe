"""The life of a segment on any backend: a thread that runs it, may be drained and stopped, and knows what it failed of."""

from __future__ import annotations

import ctypes
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self

from tracetypes.compiler.backend.control import Bell, Control
from tracetypes.compiler.backend.open_segment import OpenSegment
from tracetypes.compiler.store.metrics import Batch

__all__ = ["RunningSegment"]

NAME: Final = 15
"""The operation of ``prctl`` that names a thread (PR_SET_NAME)."""


def name_thread(name: str) -> None:
    """Let Linux show this thread by a name, of which it keeps 15 bytes. Others see it there also when Python stands still."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(NAME, name.encode()[:15], 0, 0, 0)


class RunningSegment(ABC):
    """A segment in a thread of its own. A backend says how it runs."""

    def __init__(self, opened: OpenSegment) -> None:
        self.opened, self.store, self.control = opened, opened.store, Control()
        self.failure: BaseException | None = None
        """The error that ended it, if it is over."""
        self.news = threading.Event()
        """Set when it may have something to do."""
        self._ending = threading.Lock()
        self._answers = threading.Condition()
        self.processor_seconds = 0.0
        """What its thread has used of a processor up to its last look for something to do. Work in other threads, in worker
        processes and in Java does not count."""
        self._asked = self._answered_up_to = 0
        """How many have waited for all that is there, and how many of them need not wait any more."""
        self._bells: list[Bell] = []
        self._is_ending = False
        self._thread = threading.Thread(target=self._body, name=f"tracetypes {opened.shown}", daemon=True)

    def begin(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def drain(self) -> None:
        """Follow its inputs no longer, end its sources, and answer all open blocks. May be called again."""
        self.control.drain.set()
        self.news.set()

    def stop(self) -> None:
        """End soon, and leave open blocks open. May be called again."""
        self.control.stop.set()
        self.news.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over, or for this many seconds. Returns whether it is over."""
        self._thread.join(1.0 if self._is_ending and seconds is not None else seconds)
        return not self._thread.is_alive()

    def catch_up(self, seconds: float | None = None) -> bool:
        """Wait until all that is there now is answered and committed, or it is over, or for this many seconds. Returns whether
        it is answered."""
        with self._answers:
            self._asked += 1
            mine = self._asked
            self.news.set()
            self._answers.wait_for(lambda: self._answered_up_to >= mine or self._is_ending, seconds)
            return self._answered_up_to >= mine

    def _caught_up(self, asked: int) -> None:
        """A look that began when so many had asked has found nothing new."""
        if asked > self._answered_up_to:
            with self._answers:
                self._answered_up_to = asked
                self._answers.notify_all()

    def listen(self, bell: Bell) -> None:
        """Ring a bell when it is over."""
        with self._ending:
            self._bells.append(bell)
            if self._is_ending:
                bell.ring()

    @property
    @abstractmethod
    def metrics(self) -> Batch | None:
        """The metrics of its last epoch."""

    @abstractmethod
    def _run(self) -> None:
        """Run until the inputs end, or it is drained or stopped."""

    def _close(self) -> None:  # noqa: B027
        """Give back what it holds. Called once, at its end."""

    def _body(self) -> None:
        name_thread(self.opened.shown or self.opened.name)
        try:
            with self._failing():
                if not self.store.finished:
                    self._run()
                if self.opened.sends is not None and not self.control.stop.is_set():
                    self.opened.sends.end()
            self._close()
        finally:
            with self._ending:
                self._is_ending = True
                with self._answers:
                    self._answers.notify_all()
                for bell in self._bells:
                    bell.ring()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """A context. Whatever is raised inside is what the segment fails of, if it is the first."""
        try:
            yield
        except BaseException as error:
            if self.failure is None:
                self.failure = self._failure(error)

    def _failure(self, error: BaseException) -> BaseException:
        """The error of a run for what its thread raised."""
        return error
