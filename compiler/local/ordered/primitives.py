"""The atomic operations that the structures are built on. A test or a simulation injects its own locks and counters.

The flag of the non-blocking buffer and the counters and queue holders of the hybrid queue are lists and cannot be replaced. The
tests that step through the structures pause before each ``append`` and ``pop`` of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeAlias

import attrs

__all__ = ["AtomicCounter", "Counter", "Flag", "Lock", "Primitives", "Unit"]

Unit: TypeAlias = Any
"""What flows between operators: a batch or a ``Mark``."""


Flag: TypeAlias = list[None]
"""A flag that is tested and set (try_lock) as a list with one element: who pops it has the flag, and who finds nothing does
not. ``append`` and ``pop`` are one call each, atomic with a GIL and, by the lock of the list, without one. A pair takes 15 ns,
``acquire(False)`` and ``release`` of a lock 84."""


class Lock(Protocol):
    """A lock. ``acquire(False)`` makes it a flag that is tested and set (try_lock)."""

    def acquire(self, blocking: bool = True, /) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Counter(Protocol):
    """An integer to which amounts are added atomically."""

    def fetch_add(self, amount: int) -> int:
        """Add an amount. Returns the value before."""
        ...


class AtomicCounter:
    """A counter under a lock, which is needed with a GIL too: ``+=`` is three steps. A closure takes half a method's time."""

    __slots__ = ("fetch_add",)

    def __init__(self, value: int = 0) -> None:
        lock = threading.Lock()
        acquire, release = lock.acquire, lock.release

        def fetch_add(amount: int) -> int:
            nonlocal value
            acquire()
            before = value
            value = before + amount
            release()
            return before

        self.fetch_add = fetch_add


@attrs.frozen
class Primitives:
    """Constructors of locks and counters."""

    lock: Callable[[], Lock] = threading.Lock
    counter: Callable[[int], Counter] = AtomicCounter
