"""A run in the background."""

from __future__ import annotations

import html
import threading
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from tracetypes.conformance import datetime_of
from tracetypes.errors import counted
from tracetypes.results import Result

if TYPE_CHECKING:
    from tracetypes.compiler.backend.control import Control
    from tracetypes.compiler.store.metrics import Batch

__all__ = ["Run"]


class Page(Protocol):
    """What a browser can look at."""

    @property
    def address(self) -> str: ...


@attrs.define(eq=False, repr=False)
class Run:
    """A run in the background; see :func:`tracetypes.start`."""

    _control: Control
    _thread: threading.Thread
    _result: list[Result]
    _failure: list[BaseException]
    _epochs: list[Batch]
    _page: Page | None = None
    _name: str = ""

    def __repr__(self) -> str:
        """What it has done so far, or its result."""
        about = f"<Run {self._name!r}"
        if self._failure:
            return f"{about} failed: {str(self._failure[0]).partition(chr(10))[0]}>"
        if self._result:
            return f"{about} is over: {self._result[0]!r}>"
        done = list(self._epochs)
        aside = [sum(sum(counts.values()) for counts in kind) for kind in ([x.late for x in done], [x.rejects for x in done])]
        last = next((one.marker for one in reversed(done) if one.marker is not None), None)
        upto = "" if last is None else f", answered up to {datetime_of(last):%Y-%m-%d %H:%M:%S}Z"
        page = "" if self.page is None else f", {self.page}"
        rows = counted(sum(one.rows for one in done), "row")
        return f"{about} goes on: {rows} in {counted(len(done), 'epoch')}{upto}, {aside[0]:,} late, {aside[1]:,} rejected{page}>"

    def _repr_html_(self) -> str:
        """The same, for notebooks."""
        return self._result[0]._repr_html_() if self._result else f"<p>{html.escape(repr(self)[1:-1])}</p>"

    @property
    def page(self) -> str | None:
        """The address of its page, for a browser on this machine; None without one, or when the run is over."""
        return None if self._page is None or not self.running else self._page.address

    @property
    def running(self) -> bool:
        """Whether the run goes on."""
        return self._thread.is_alive()

    @property
    def metrics(self) -> dict[str, Any]:
        """The progress so far: ``epochs``, ``rows``, and ``last``, which is the last epoch as ``--metrics`` writes it."""
        done = list(self._epochs)
        return {"epochs": len(done), "rows": sum(one.rows for one in done), "last": done[-1].plain if done else None}

    def drain(self) -> Result:
        """End the sources, answer all open blocks, and wait for the end."""
        self._control.drain.set()
        return self.wait()

    def stop(self) -> Result:
        """Stop soon, and wait for the end. The same checkpoint goes on later."""
        self._control.stop.set()
        return self.wait()

    def wait(self, seconds: float | None = None) -> Result:
        """Wait for the end, and raise the error of the run. Raises :class:`TimeoutError` after this many seconds."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise TimeoutError(f"the run goes on after {seconds} seconds")
        if self._failure:
            raise self._failure[0]
        return self._result[0]
