"""Dataflows that are no trees, for the tests of channels, as targets of the command line too."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tests.spark.flows import TEN, Fragile, Reading, Sum, id_of, ts_of
from tracetypes import Dataflow, OpKeyedOrdered, OpStateless, U, every, merge, sort
from tracetypes.gates import sequence, time, value


@attrs.frozen
class Big(OpStateless[str, Reading, str, Reading]):
    """Native: readings of 5 watts and more."""

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        if value.watts >= 5:
            emit(key, value)


@attrs.frozen
class Renamed(OpStateless[str, Reading, str, Reading]):
    """Native: under other keys."""

    suffix: str

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        emit(key + self.suffix, Reading(value.id + self.suffix, value.ts, value.watts))


@attrs.frozen
class Opaque(OpStateless[str, Reading, str, Reading]):
    """Python: a function that nobody can look into."""

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        watts = int.from_bytes(value.watts.to_bytes(8, "little", signed=True), "little", signed=True)
        emit(key, Reading(value.id, value.ts, watts + 1))


@attrs.frozen
class Steps(OpKeyedOrdered[str, Reading, Reading, int]):
    """Differences of neighbours."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Reading, emit: Callable[[Reading], None]) -> int:
        emit(Reading(value.id, value.ts, value.watts - state))
        return value.watts


EDGE = U[str, Reading]


def tree() -> Dataflow:
    """One sink, one consumer each."""
    flow = Dataflow("tree")
    rows = flow.source("readings", EDGE, key=id_of, markers=TEN)
    flow.sink("sums", rows.through(Big()).through(Sum()))
    return flow


def two_sinks() -> Dataflow:
    """A keyed stream with two consumers: a sum goes out, and what it was made of."""
    flow = Dataflow("two-sinks")
    rows = flow.source("readings", U[str, Reading], key=id_of, markers=every(seconds=10, time=ts_of, delay=10))
    sums = rows.through(Sum())
    flow.sink("sums", sums, marker="at")
    flow.sink("large", sums.through(Big()), marker="at")
    return flow


def fragile(flag: str) -> Dataflow:
    """The same where the branch behind the channel fails for sums of -1 while there is a file ``flag``."""
    flow = Dataflow("fragile")
    rows = flow.source("readings", U[str, Reading], key=id_of, markers=every(seconds=10, time=ts_of, delay=10))
    sums = rows.through(Sum())
    flow.sink("sums", sums, marker="at")
    flow.sink("large", sums.through(Fragile(flag)), marker="at")
    return flow


def cheap() -> Dataflow:
    """A native stream with two consumers, which is computed twice."""
    flow = Dataflow("cheap")
    rows = flow.source("readings", U[str, Reading], key=id_of, markers=every(seconds=10, time=ts_of, delay=10))
    big = rows.through(Big())
    flow.sink("sums", big.through(Sum()), marker="at")
    flow.sink("large", big, marker="at")
    return flow


def diamond() -> Dataflow:
    """A Python stream that is split and comes together again, and a sink on the way."""
    flow = Dataflow("diamond")
    rows = flow.source("readings", U[str, Reading], key=id_of, markers=every(seconds=10, time=ts_of, delay=10))
    shared = rows.through(Opaque())
    left = shared.through(Sum())
    right = shared.through(Renamed("-r")).through(sort(by=ts_of)).through(Steps())
    flow.sink("left", left, marker="at")
    flow.sink("both", merge(left, right).through(Big()), marker="at")
    return flow


def ordered() -> Dataflow:
    """An ordered stream with two consumers that look at the order, and two sources of different speed."""
    flow = Dataflow("ordered")
    rows = flow.source("readings", U[str, Reading], key=id_of, markers=TEN)
    more = flow.source("plugs", U[str, Reading], key=id_of, markers=every(seconds=5, time=ts_of))
    steps = merge(rows, more.through(Renamed("-p"))).through(sort(by=ts_of)).through(Steps())
    flow.sink("once", steps, marker="at", position="place")
    flow.sink("twice", steps.through(Steps()), marker="at", position="place")
    return flow


def gates() -> Dataflow:
    """A gate that holds, one that hands its container on, and one behind another."""
    flow = Dataflow("gates")
    rows = flow.source("readings", U[str, Reading], key=id_of, markers=every(seconds=10, time=ts_of, delay=10))
    held = rows.through(Opaque()).gate(sequence(14), name="held")
    steps = held.through(sort(by=ts_of)).through(Steps())
    flow.sink("steps", steps, marker="at")
    flow.sink("sums", steps.latest(value(units=2, columns="watts"), name="changed").through(Sum()), marker="at")
    flow.sink("straight", rows.latest(sequence(percent=60) & time(20), latest_by=ts_of), marker="at")
    return flow


def chain() -> Dataflow:
    """Three keyed operators, two exchanges, one query."""
    flow = Dataflow("chain")
    rows = flow.source("readings", EDGE, key=id_of, markers=every(seconds=10, time=ts_of, delay=10))
    steps = rows.through(Opaque()).through(sort(by=ts_of)).through(Steps())
    flow.sink("sums", steps.through(Renamed("-s")).through(Sum()), marker="at")
    return flow


def straight() -> Dataflow:
    """No keyed operator at all."""
    flow = Dataflow("straight")
    rows = flow.source("readings", EDGE, key=id_of, markers=every(seconds=10, time=ts_of, delay=10))
    flow.sink("large", rows.through(Opaque()).through(Big()), marker="at")
    return flow


def dead_letters() -> Dataflow:
    """Sums of readings, and of what came too late for them; what could not be read."""
    flow = Dataflow("dead-letters")
    rows = flow.source("readings", EDGE, key=id_of, markers=TEN)
    flow.sink("sums", merge(rows, rows.late().through(Renamed("-late"))).through(Sum()), marker="at")
    flow.sink("rejects", rows.rejects(), marker="at")
    return flow


FLOWS: dict[str, Callable[[], Dataflow]] = {f.__name__: f for f in (two_sinks, cheap, diamond, ordered, gates)}
two_sinks_flow, cheap_flow, diamond_flow, ordered_flow, gates_flow = (make() for make in FLOWS.values())
chain_flow, straight_flow, dead_letters_flow = chain(), straight(), dead_letters()
