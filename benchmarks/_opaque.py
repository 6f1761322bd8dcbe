"""Operators that run as Python, in a module that imports little: each worker process imports it."""

from __future__ import annotations

import hashlib
from typing import Final

import attrs

from tracetypes import Dataflow, Emit, EmitValue, OpKeyedOrdered, OpStateless, U, every, sort

__all__ = ["FLOWS"]


@attrs.frozen
class Event:
    """A row of the files of benchmarks/keyed_state.py."""

    value: int
    ts: int


def digest(value: int) -> int:
    """64 bits of a hash. No compiler looks into ``hashlib``."""
    hash_ = hashlib.blake2b(value.to_bytes(8, "little", signed=True), digest_size=8).digest()
    return int.from_bytes(hash_, "little", signed=True)


@attrs.frozen
class Digest(OpStateless[int, Event, int, int]):
    """The digest of each value."""

    def on_item(self, key: int, value: Event, emit: Emit[int, int]) -> None:
        emit(key, digest(value.value))


@attrs.frozen
class Chain(OpKeyedOrdered[int, Event, int, int]):
    """The digest of each value with the one before."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: int, value: Event, emit: EmitValue[int]) -> int:
        now = digest(value.value ^ state)
        emit(now)
        return now


@attrs.frozen
class Difference(OpKeyedOrdered[int, Event, int, int]):
    """The difference of each value to the one before."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: int, value: Event, emit: EmitValue[int]) -> int:
        emit(value.value - state)
        return value.value


def keyed(name: str, op: OpKeyedOrdered[int, Event, int, int]) -> Dataflow:
    """Events in order, and an operator."""
    one = Dataflow(name)
    events = one.source("events", U[int, Event], markers=every(seconds=50, time=lambda e: e.ts))
    one.sink("out", events.through(sort(by=lambda event: event.ts)).through(op))
    return one


def map_flow() -> Dataflow:
    """Events, and their digests."""
    one = Dataflow("map")
    events = one.source("events", U[int, Event], markers=every(seconds=50, time=lambda e: e.ts))
    one.sink("out", events.through(Digest()))
    return one


FLOWS: Final[dict[str, Dataflow]] = {
    "map": map_flow(),
    "keyed": keyed("keyed", Chain()),
    "cheap": keyed("cheap", Difference()),
}
