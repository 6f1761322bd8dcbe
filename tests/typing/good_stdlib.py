"""Programs with operators of the standard library that mypy --strict accepts, with the types that it finds."""

from collections.abc import Iterator
from datetime import datetime
from typing import assert_type

import attrs

from tracetypes import Dataflow, O, Stream, U, desc, every, sort
from tracetypes.stdlib import (
    Counted,
    Line,
    Postgres,
    Ranked,
    RankedIn,
    Sqlite,
    aggregate,
    approx_count_distinct,
    bit_and,
    bit_or,
    both,
    collect,
    collect_set,
    correlation,
    count,
    count_distinct,
    covariance,
    enrich,
    evaluate,
    exact_quantile,
    exact_quantiles,
    explode,
    fast_sum,
    filter,
    first,
    flat_map,
    histogram,
    key_by,
    last,
    lookup_join,
    map,
    map_values,
    max,
    mean,
    median,
    min,
    mode,
    preview,
    quantile,
    quantiles,
    regression,
    running,
    stddev,
    struct,
    sum,
    top,
    top_distinct,
    variance,
    window_ranks,
)


@attrs.frozen
class Reading:
    watts: float
    events: int
    ts: int


@attrs.frozen
class Stats:
    n: int
    mean: float


@attrs.frozen
class Sensor:
    room: str
    since: datetime


@attrs.frozen
class Placed:
    watts: float
    room: str


def words(key: str, reading: Reading) -> Iterator[tuple[int, str]]:
    yield reading.ts, key


def events(reading: Reading) -> int | None:
    return reading.events if reading.watts else None


flow = Dataflow("good")
readings = flow.source("readings", U[str, Reading], markers=every(seconds=10, time=lambda r: r.ts))
floats = flow.source("floats", U[str, float], markers=every(seconds=10, time=lambda x: 0))
integers = flow.source("integers", U[str, int], markers=every(seconds=10, time=lambda n: n))

# Lambdas know what they are given, and what they return is known.
assert_type(readings.through(map(lambda k, r: (r.ts, k), to=tuple[int, str])), Stream[U[int, str]])
assert_type(readings.through(map_values(lambda r: r.watts * 2, to=float)), Stream[U[str, float]])
maybe = readings.through(map_values(events))
assert_type(maybe, Stream[U[str, int | None]])
assert_type(integers.through(map_values(float)), Stream[U[str, float]])
assert_type(readings.through(filter(lambda k, r: r.watts > 1 and k != "")), Stream[U[str, Reading]])
assert_type(readings.through(flat_map(words)), Stream[U[int, str]])
assert_type(readings.through(flat_map(lambda k, r: [(k, r.ts)] * 2, to=tuple[str, int])), Stream[U[str, int]])
assert_type(readings.through(key_by(lambda k, r: (k, r.ts), to=tuple[str, int])), Stream[U[tuple[str, int], Reading]])

lists = flow.source("lists", U[str, list[int]], markers=every(seconds=10, time=len))
assert_type(lists.through(explode()), Stream[U[str, int]])
assert_type(readings.through(running(top(3, by=lambda r: r.watts))).through(explode()), Stream[U[str, Reading]])
assert_type(readings.through(explode(lambda r: [r.ts, r.events], to=int)), Stream[U[str, int]])
assert_type(
    readings.through(explode(lambda r: [r.ts], combine=lambda r, n: Placed(r.watts, str(n)), to=Placed)),
    Stream[U[str, Placed]],
)

# An ordered stream passes; its order is forgotten.
ordered = readings.through(sort(by=lambda r: r.ts))
assert_type(ordered, Stream[O[str, Reading]])
assert_type(readings.through(sort(by=lambda r: (desc(r.watts), r.ts))), Stream[O[str, Reading]])
assert_type(readings.through(running(top(3, by=lambda r: desc((r.ts, desc(r.watts)))))), Stream[U[str, list[Reading]]])
assert_type(ordered.through(filter(lambda k, r: True)), Stream[U[str, Reading]])

# Look-up joins.
rooms = {1: "hall"}
assert_type(
    integers.through(enrich(rooms, by=lambda k, n: n, combine=lambda n, room: room.upper(), to=str)),
    Stream[U[str, str]],
)
left = integers.through(enrich(rooms, by=lambda k, n: n, combine=lambda n, room: room or "", to=str, how="left"))
assert_type(left, Stream[U[str, str]])
sensors = Sqlite(path="sensors.db", table="sensors", key="id", row=Sensor)
server = Postgres(connection="host=db", table="sensors", key="id", row=Sensor)
placed = readings.through(lookup_join(sensors, by=lambda k, r: k, combine=lambda r, s: Placed(r.watts, s.room), to=Placed))
assert_type(placed, Stream[U[str, Placed]])
kept = readings.through(
    lookup_join(server, by=lambda k, r: k, combine=lambda r, s: s.room if s else "", to=str, how="left", cache=10)
)
assert_type(kept, Stream[U[str, str]])

# Aggregates.
assert_type(readings.through(aggregate(count())), Stream[U[str, int]])
assert_type(readings.through(running(sum(lambda r: r.watts, to=float))), Stream[U[str, float]])
assert_type(readings.through(running(sum(lambda r: r.events, to=int))), Stream[U[str, int]])
assert_type(integers.through(running(sum(to=int))), Stream[U[str, int]])
assert_type(floats.through(aggregate(sum(to=float))), Stream[U[str, float]])
assert_type(readings.through(aggregate(fast_sum(lambda r: r.watts))), Stream[U[str, float]])
assert_type(floats.through(aggregate(mean())), Stream[U[str, float]])
assert_type(integers.through(aggregate(variance())), Stream[U[str, float]])
assert_type(readings.through(aggregate(mean(lambda r: r.events))), Stream[U[str, float]])
assert_type(readings.through(aggregate(min(lambda r: str(r.ts), to=str))), Stream[U[str, str]])
assert_type(integers.through(aggregate(max(to=int))), Stream[U[str, int]])
assert_type(readings.through(running(last(by=lambda r: (r.ts, r.watts)))), Stream[U[str, Reading]])
assert_type(readings.through(running(top(3, by=lambda r: r.watts))), Stream[U[str, list[Reading]]])
assert_type(readings.through(running(last(by=lambda r: r.ts, ties=True))), Stream[U[str, list[Reading]]])
assert_type(readings.through(running(first(by=lambda r: r.ts))), Stream[U[str, Reading]])
assert_type(readings.through(running(first(by=lambda r: r.ts, where=lambda r: r.ts > 1))), Stream[U[str, Reading | None]])
ranked = readings.through(running(top(3, by=lambda r: r.watts, ties=True, ranks=True))).through(explode())
assert_type(ranked, Stream[U[str, Ranked[Reading]]])
assert_type(readings.through(running(collect())), Stream[U[str, list[Reading]]])
assert_type(readings.through(running(collect(lambda r: r.ts, to=int, by=lambda r: r.watts))), Stream[U[str, list[int]]])
assert_type(readings.through(running(count_distinct(lambda r: r.ts))), Stream[U[str, int]])
assert_type(readings.through(running(approx_count_distinct())), Stream[U[str, int]])
assert_type(floats.through(aggregate(quantile(0.99))), Stream[U[str, float]])
assert_type(readings.through(aggregate(quantiles([0.5, 0.99], lambda r: r.watts))), Stream[U[str, list[float]]])
assert_type(floats.through(aggregate(stddev())), Stream[U[str, float]])
assert_type(readings.through(aggregate(stddev(lambda r: r.watts, where=lambda r: r.ts > 1))), Stream[U[str, float | None]])
assert_type(readings.through(aggregate(covariance(lambda r: r.watts, lambda r: r.ts))), Stream[U[str, float]])
assert_type(readings.through(running(correlation(lambda r: r.watts, lambda r: r.ts))), Stream[U[str, float]])
assert_type(readings.through(running(regression(lambda r: r.watts, lambda r: r.ts))), Stream[U[str, Line]])
assert_type(integers.through(aggregate(bit_or())), Stream[U[str, int]])
assert_type(readings.through(aggregate(bit_and(lambda r: r.events, where=lambda r: r.ts > 1))), Stream[U[str, int | None]])
assert_type(integers.through(aggregate(median())), Stream[U[str, float]])
assert_type(readings.through(aggregate(exact_quantile(0.9, lambda r: r.watts))), Stream[U[str, float]])
assert_type(floats.through(aggregate(exact_quantiles([0.5, 0.9]))), Stream[U[str, list[float]]])
assert_type(readings.through(aggregate(mode())), Stream[U[str, Reading]])
assert_type(readings.through(aggregate(mode(lambda r: r.ts, where=lambda r: r.ts > 1))), Stream[U[str, int | None]])
assert_type(readings.through(aggregate(histogram(lambda r: r.ts))).through(explode()), Stream[U[str, Counted[int]]])
ranks = readings.through(aggregate(window_ranks(lambda r: r.watts, tiles=4))).through(explode())
assert_type(ranks, Stream[U[str, RankedIn[Reading]]])
assert_type(integers.through(aggregate(collect_set())), Stream[U[str, list[int]]])
assert_type(readings.through(aggregate(top_distinct(3, lambda r: r.watts))), Stream[U[str, list[float]]])
assert_type(readings.through(aggregate(count(where=lambda r: r.watts > 1))), Stream[U[str, int]])
assert_type(readings.through(running(sum(lambda r: r.watts, to=float, where=lambda r: r.ts > 1))), Stream[U[str, float]])
assert_type(integers.through(running(sum(to=int, where=lambda n: n > 1))), Stream[U[str, int]])
assert_type(readings.through(aggregate(mean(lambda r: r.watts, where=lambda r: r.ts > 1))), Stream[U[str, float | None]])
assert_type(floats.through(aggregate(variance(where=lambda x: x > 1))), Stream[U[str, float | None]])
assert_type(readings.through(aggregate(min(lambda r: r.ts, to=int, where=lambda r: r.ts > 1))), Stream[U[str, int | None]])
assert_type(integers.through(aggregate(max(to=int, where=lambda n: n > 1))), Stream[U[str, int | None]])
assert_type(
    readings.through(running(last(by=lambda r: r.ts, where=lambda r: r.watts > 1))), Stream[U[str, Reading | None]]
)
assert_type(floats.through(aggregate(quantile(0.5, where=lambda x: x > 1))), Stream[U[str, float | None]])
assert_type(
    readings.through(aggregate(both(count(where=lambda r: r.ts > 1), mean(lambda r: r.watts), Stats))),
    Stream[U[str, Stats]],
)
assert_type(readings.through(aggregate(both(count(), mean(lambda r: r.watts), Stats))), Stream[U[str, Stats]])
assert_type(
    readings.through(aggregate(both(count(), mean(lambda r: r.watts), lambda n, m: m / n if n else None))),
    Stream[U[str, float | None]],
)
assert_type(readings.through(aggregate(struct(Stats, n=count(), mean=mean(lambda r: r.watts)))), Stream[U[str, Stats]])

# Helpers.
assert_type(evaluate(mean(), [1.0, 2.0]), float)
assert_type(evaluate(sum(to=int), [1, 2]), int)
preview(aggregate(count()), U[str, Reading], [("a", Reading(1.0, 2, 3))])
