"""What a run has loaded is hidden from the cycle collector while it runs, and only then."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator

import attrs
import pytest

from tracetypes import Dataflow, U, every, run
from tracetypes.compiler.local import settled
from tracetypes.compiler.local.settled import SETTLED, Settling
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


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("settling", [0.0, 60.0])
def test_what_is_loaded_is_hidden_while_it_runs(monkeypatch: pytest.MonkeyPatch, settling: float) -> None:
    """From the start of the segment on, a moment after the first row; but while garbage is collected."""
    monkeypatch.setattr(settled, "SETTLING", settling)
    monkeypatch.setattr(settled, "QUIET", 0.0)
    gc.unfreeze()
    gc.collect()
    frozen: list[int] = []
    run_slowly(frozen)
    assert sorted(frozen)[10] > len(gc.get_objects()) / 2
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("settling", [0.0, 60.0])
def test_garbage_of_before_is_collected_after_a_while(monkeypatch: pytest.MonkeyPatch, settling: float) -> None:
    monkeypatch.setattr(settled, "SETTLING", settling)
    monkeypatch.setattr(settled, "QUIET", 0.0)
    gc.unfreeze()
    gc.collect()
    ring = Ring()
    seen, alive = weakref.ref(ring), list[bool]()
    gc.collect()  # what is old is not collected soon
    del ring
    looked, look = threading.Event(), settled.Settling.look

    def looks(self: settled.Settling) -> None:
        look(self)
        looked.set()

    monkeypatch.setattr(settled.Settling, "look", looks)

    def events() -> Iterator[Event]:
        for second in range(5):
            yield Event("a", second)
            for _ in range(2):  # the first look may have come before the row
                looked.clear()
                assert looked.wait(30)
        gc.collect()
        alive.append(seen() is not None)

    run(flow(), inputs={"events": events()}, outputs={"counts": []}, backend="local")
    assert alive == [settling > 0]
    gc.collect()
    assert seen() is None


def test_what_the_program_has_frozen_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled, "SETTLING", 60.0)
    gc.freeze()
    try:
        run_slowly([])
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


def test_the_last_segment_gives_them_back() -> None:
    gc.unfreeze()
    with SETTLED:
        with SETTLED:
            SETTLED.settle()
        assert gc.get_freeze_count() > 1000
    assert gc.get_freeze_count() == 0


def test_garbage_of_before_is_collected_when_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """To any segment; not behind an epoch, for all rows that come would wait. Garbage of the run itself is."""
    now, pauses = 100.0, list[float]()

    def settle_all() -> None:
        pauses.append(now)
        type(SETTLED).settle_all(SETTLED)

    monkeypatch.setattr(SETTLED, "settle_all", settle_all)
    gc.unfreeze()
    ring = Ring()
    before = weakref.ref(ring)
    gc.collect()
    with SETTLED:
        settling, other = Settling(lambda: now), Settling(lambda: now)
        del ring
        ring = Ring()
        since = weakref.ref(ring)
        gc.collect()
        del ring
        settling.look()
        settling.worked()
        assert since() is not None
        now += settled.SETTLING
        settling.worked()
        assert since() is None
        now += settled.QUIET / 2
        settling.look()
        settling.worked()
        now += settled.QUIET / 2
        settling.look()
        assert before() is not None
        other.worked()
        now += settled.QUIET / 2
        settling.look()
        assert before() is not None
        now += settled.QUIET / 2
        settling.look()
        assert before() is None
        settling.worked()
        now += settled.QUIET
        settling.look()
        assert len(pauses) == 1
    assert gc.get_freeze_count() == 0
