"""What a run has loaded is hidden from the cycle collector while it runs, and only then."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import attrs
import pytest

from tracetypes import Dataflow, U, every, run
from tracetypes.compiler.local import segment
from tracetypes.compiler.local.settled import SETTLED
from tracetypes.stdlib import aggregate, count


@attrs.frozen
class Event:
    page: str
    ts: int


def flow() -> Dataflow:
    flow = Dataflow("settled")
    events = flow.source("events", U[str, Event], key=lambda e: e.page, markers=every(seconds=1, time=lambda e: e.ts))
    flow.sink("counts", events.through(aggregate(count())), marker="until")
    return flow


def run_slowly(frozen: list[int]) -> None:
    """A run of some epochs. ``frozen``: gets how many objects were frozen when each row was taken."""

    def events() -> Iterator[Event]:
        for second in range(30):
            frozen.append(gc.get_freeze_count())
            yield Event("a", second)
            time.sleep(0.02)  # in which an epoch begins

    run(flow(), inputs={"events": events()}, outputs={"counts": []}, backend="local")


@pytest.mark.parametrize(("settling", "hidden"), [(0.0, True), (60.0, False)])
def test_objects_are_settled_after_a_while(monkeypatch: pytest.MonkeyPatch, settling: float, hidden: bool) -> None:
    monkeypatch.setattr(segment, "SETTLING", settling)
    frozen: list[int] = []
    run_slowly(frozen)
    assert (max(frozen) > frozen[0] + 1000) == hidden
    assert gc.get_freeze_count() <= frozen[0]


def test_the_last_segment_gives_them_back() -> None:
    with SETTLED:
        with SETTLED:
            SETTLED.settle()
        held = gc.get_freeze_count()
        assert held > 1000
    assert gc.get_freeze_count() < held
