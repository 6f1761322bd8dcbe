"""A bell wakes whoever waits, and a wait ends at its timeout."""

from __future__ import annotations

import threading
import time

from tracetypes.compiler.backend.control import Bell

GUARD = 60.0
"""Seconds after which something hangs."""


def test_who_waits_next_has_heard_it() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    bell.wait(GUARD)
    bell.wait(0.0)


def test_all_who_wait_hear_it() -> None:
    bell, seconds = Bell(), []

    def wait() -> None:
        bell.wait(GUARD)
        seconds.append(1)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for one in threads:
        one.start()
    while len(bell._waiting) < 3:
        time.sleep(0.001)
    bell.ring()
    for one in threads:
        one.join(GUARD / 2)
    assert len(seconds) == 3


def test_no_wait_lasts_for_ever() -> None:
    """A queue of which several threads take may let one of them wait for ever."""
    bell, over = Bell(), threading.Event()

    def wait(seconds: float) -> None:
        while not over.is_set():
            bell.wait(seconds)

    threads = [threading.Thread(target=wait, args=(n / 10_000,), daemon=True) for n in range(1, 9)]
    for one in threads:
        one.start()
    for _ in range(5_000):
        bell.ring()
        time.sleep(0.00005)
    over.set()
    for one in threads:
        one.join(GUARD / len(threads))
    assert not any(one.is_alive() for one in threads)
