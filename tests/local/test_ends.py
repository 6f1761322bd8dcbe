"""The end of a source, a drain or a stop comes at any step of the loop of a segment, and is answered like any other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final

import attrs
import pytest

from tracetypes import Dataflow, Run, U, every, start
from tracetypes.compiler.connectors.arrivals import Arrivals
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.local.segment import LocalSegment
from tracetypes.compiler.local.settled import Settling
from tracetypes.compiler.local.streams import StreamSplits
from tracetypes.stdlib import aggregate, count


@attrs.frozen
class Event:
    page: str
    ts: int


def flow() -> Dataflow:
    flow = Dataflow("ends")
    events = flow.source("events", U[str, Event], key=lambda e: e.page, markers=every(seconds=10, time=lambda e: e.ts))
    flow.sink("counts", events.through(aggregate(count())), marker="until")
    return flow


STEPS: Final = {
    "the look for the next epoch": (LocalSegment, "_next"),
    "a pause": (LocalSegment, "_pause"),
    "a look at a source": (StreamSplits, "end"),
    "a look whether a source is over": (StreamSplits, "is_over"),
    "a look into the log": (LocalLog, "takes"),
    "a look whether it is quiet": (Settling, "look"),
}


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("what", ["end", "drain", "both"])
@pytest.mark.parametrize("step", STEPS)
def test_an_end_at_any_step(monkeypatch: pytest.MonkeyPatch, step: str, what: str, before: bool) -> None:
    """Before or after each kind of step, when all rows were taken."""
    cls, name = STEPS[step]
    due, ended = threading.Event(), threading.Event()
    function, end = getattr(cls, name), Arrivals.end
    jobs: list[Run] = []

    def happen() -> None:
        if due.is_set() or not jobs or jobs[0].metrics["rows"] < 15:
            return
        due.set()
        if what != "end":
            running[0].control.drain.set()
        if what != "drain":
            ended.wait(10)

    def stepped(*arguments: Any, **more: Any) -> Any:
        if before:
            happen()
        result = function(*arguments, **more)
        if not before:
            happen()
        return result

    def noted(self: Arrivals, *arguments: Any) -> None:
        end(self, *arguments)
        ended.set()

    def events() -> Iterator[Event]:
        yield from (Event("a", second) for second in range(15))
        (due if what != "drain" else ended).wait(10)

    running: list[LocalSegment] = []
    begun = LocalSegment._run

    def run(self: LocalSegment) -> None:
        running.append(self)
        begun(self)

    monkeypatch.setattr(LocalSegment, "_run", run)
    monkeypatch.setattr(Arrivals, "end", noted)
    monkeypatch.setattr(cls, name, stepped)
    counts: list[Any] = []
    job = start(
        flow(),
        inputs={"events": events()},
        outputs={"counts": counts},
        backend="local",
        follow=what == "drain",
    )
    jobs.append(job)
    result = job.wait(20)
    ended.set()
    assert (result.rows, len(counts)) == (15, 2)
