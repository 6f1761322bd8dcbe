"""The phases of a run, with a clock that is played here."""

from __future__ import annotations

import subprocess
import sys
import time

from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.backend.clock import Clock
from tracetypes.compiler.store.metrics import Batch


class Now:
    """Time as the test says."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def batch(seconds: float) -> Batch:
    return Batch(0, 1, 0, None, {}, {}, seconds)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 80)), max_size=8), st.booleans())
def test_the_phases_add_up_to_all_of_the_time(batches: list[tuple[int, int]], two: bool) -> None:
    """Also where queries overlap, and an epoch says that it took longer than everything so far."""
    now = Now()
    clock = Clock(now, began=97.0)
    clock.lap("start of Python")
    now.seconds += 2
    clock.lap("start of Spark")
    told = clock.around(lambda batch: None)
    for wait, seconds in batches:
        now.seconds += wait
        told(batch(seconds))
        if two:
            told(batch(2 * seconds))
    now.seconds += 1
    clock.end()
    assert sum(clock.spent.values()) == now.seconds - 97.0
    assert min(clock.spent.values()) >= 0
    assert (clock.spent["start of Python"], clock.spent["start of Spark"]) == (3.0, 2.0)


def test_micro_batches_begin_with_the_first_one_and_end_with_the_last_one() -> None:
    now = Now()
    clock = Clock(now)
    told = clock.around(lambda batch: None)
    for _ in range(2):
        now.seconds += 10
        told(batch(4))
    now.seconds += 3
    clock.end()
    assert clock.spent == {"start of queries": 6.0, "micro-batches": 14.0, "stop": 3.0}


def test_a_run_of_no_micro_batch() -> None:
    now = Now()
    clock = Clock(now)
    now.seconds += 5
    clock.end()
    assert clock.spent == {"start of queries": 5.0}


def test_the_time_of_a_process_begins_when_it_does() -> None:
    """The parent's clock is that of the child: its start lies between before and after its launch, to a tick of the kernel."""
    code = "from tracetypes.compiler.backend.clock import Clock; print(Clock.of_process()._at)"
    before = time.monotonic()
    began = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert before - 0.05 <= began
    assert began <= time.monotonic()
