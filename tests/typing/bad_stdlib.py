"""Programs with operators of the standard library that mypy --strict refuses. A comment marks each line."""

import attrs

from tracetypes import Dataflow, O, Stream, U, desc, every
from tracetypes.stdlib import (
    Sqlite,
    aggregate,
    both,
    collect,
    count,
    enrich,
    explode,
    filter,
    key_by,
    last,
    lookup_join,
    map,
    map_values,
    mean,
    running,
    sum,
    top,
)


@attrs.frozen
class Reading:
    watts: float
    ts: int


@attrs.frozen
class Sensor:
    room: str


flow = Dataflow("bad")
readings = flow.source("readings", U[str, Reading], markers=every(seconds=10, time=lambda r: r.ts))

# The lambda knows what it is given.
readings.through(map_values(lambda r: r.volts, to=float))  # E: attr-defined "volts"
readings.through(filter(lambda k, r: r.wats > 1))  # E: attr-defined "wats"
readings.through(aggregate(mean(lambda r: r.wats)))  # E: attr-defined "wats"
readings.through(key_by(lambda k, r: r.room, to=str))  # E: attr-defined "room"

readings.through(explode(lambda r: r.wats, to=int))  # E: attr-defined "wats"

# No list.
readings.through(explode())  # E: arg-type "Reading"
readings.through(explode(lambda r: r.ts, to=int))  # E: arg-type # E: return-value "int" "Iterable[int]"

# What it returns is what `to` says. (pyright takes `type[str]` for a `type[int | str]`.)
readings.through(map_values(lambda r: r.ts, to=str))  # E: arg-type # E: return-value "int" "str"  # P: accepts
readings.through(map(lambda k, r: (r.ts, k), to=tuple[str, str]))  # E: arg-type # E: return-value  # P: accepts
readings.through(aggregate(sum(lambda r: r.watts, to=int)))  # E: arg-type # E: return-value  # P: accepts

# `where` takes a value and gives a bool; what no value gives may be None.
readings.through(aggregate(count(where=lambda r: r.wats > 1)))  # E: attr-defined "wats"
readings.through(aggregate(count(where=lambda r: r.ts)))  # E: arg-type # E: return-value "int" "bool"
means: Stream[U[str, float]] = readings.through(aggregate(mean(lambda r: r.watts, where=lambda r: r.ts > 1)))  # E: arg-type

# Values that are no numbers.
readings.through(aggregate(sum(to=float)))  # E: arg-type "Reading"

# No order.
readings.through(running(last(by=lambda r: complex(r.ts))))  # E: arg-type # E: return-value
readings.through(running(last(by=lambda r: desc(complex(r.ts)))))  # E: arg-type "complex"
readings.through(running(top("3", by=lambda r: r.ts)))  # E: call-overload "str"

rows: Stream[U[str, list[Reading]]] = readings.through(running(top(3, by=lambda r: r.ts, ranks=True)))  # E: arg-type
readings.through(running(collect(lambda r: r.wats, to=int)))  # E: attr-defined "wats"

# The record does not take these results.
readings.through(aggregate(both(count(), mean(lambda r: r.watts), Sensor)))  # E: arg-type "Sensor"

# The result is no stream of that type.
totals: Stream[U[str, int]] = readings.through(aggregate(mean(lambda r: r.watts)))  # E: arg-type
orders: Stream[O[str, int]] = readings.through(aggregate(count()))  # E: arg-type

# In a left join the row may be missing.
rooms = {"a": "hall"}
readings.through(enrich(rooms, by=lambda k, r: k, combine=lambda r, s: s[0], to=str, how="left"))  # E: call-overload
db = Sqlite(path="sensors.db", table="sensors", key="id", row=Sensor)
readings.through(lookup_join(db, by=lambda k, r: k, combine=lambda r, s: s.room, to=str, how="left"))  # E: call-overload
readings.through(lookup_join(db, by=lambda k, r: k, combine=lambda r, s: s.floor, to=str))  # E: attr-defined "floor"

# An aggregate is no operator, and an operator no aggregate.
readings.through(count())  # E: arg-type
readings.through(aggregate(aggregate(count())))  # E: arg-type
