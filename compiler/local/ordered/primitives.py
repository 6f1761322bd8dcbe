"""The atomic operations that the structures are built on. A test or a simulation injects its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeAlias

import attrs

__all__ = ["AtomicCounter", "Counter", "Lock", "Primitives", "Unit"]

Unit: TypeAlias = Any
"""What flows between operators: a batch or a ``Mark``."""


class Lock(Protocol):
    """A lock. ``acquire(False)`` makes it a flag that is tested and set (try_lock)."""

    def acquire(self, blocking: bool = True, /) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Counter(Protocol):
    """An integer whose operations are atomic. Both return the value before."""

    def fetch_add(self, amount: int) -> int: ...

    def exchange(self, value: int) -> int: ...


class AtomicCounter:
    """A counter under a lock, which is needed with a GIL too: ``+=`` is three steps."""

    __slots__ = ("_lock", "_value")

    def __init__(self, value: int = 0) -> None:
        self._lock = threading.Lock()
        self._value = value

    def fetch_add(self, amount: int) -> int:
        with self._lock:
            before = self._value
            self._value = before + amount
        return before

    def exchange(self, value: int) -> int:
        with self._lock:
            before = self._value
            self._value = value
        return before


@attrs.frozen
class Primitives:
    """Constructors of locks and counters, and a clock in seconds."""

    lock: Callable[[], Lock] = threading.Lock
    counter: Callable[[int], Counter] = AtomicCounter
    clock: Callable[[], float] = time.perf_counter
