"""Windows, ordered operators, joins and models that mypy --strict accepts, with the types that it finds."""

from datetime import datetime, timedelta
from typing import assert_type

import attrs

from tracetypes import ROW_POSITION, Dataflow, O, Stream, U, every, sort
from tracetypes.stdlib import (
    AsOf,
    Cluster,
    Joined,
    Predicted,
    RegressionTree,
    Session,
    Windowed,
    asof_join,
    calendar_window,
    count,
    count_window,
    current,
    deduplicate,
    diff,
    equi_join,
    ewm_mean,
    frame,
    interpolate,
    interval_join,
    kmeans,
    lag,
    map_values,
    mean,
    over,
    pairwise,
    predict,
    scan,
    session,
    session_join,
    sliding,
    table_join,
    time_window,
    tumbling,
    window_join,
)


@attrs.frozen
class Reading:
    scalar: float
    ts: int


@attrs.frozen
class Price:
    cents: int
    ts: int


def scalar(reading: Reading) -> float:
    return reading.scalar


flow = Dataflow("good")
hub = flow.source("hub", U[str, Reading], markers=every(seconds=10, time=lambda r: r.ts))
prices = flow.source("prices", U[str, Price], markers=every(seconds=10, time=lambda p: p.ts))

assert_type(hub.through(tumbling(count(), panes=6)), Stream[U[str, int]])
assert_type(hub.through(sliding(mean(of=scalar), panes=6)), Stream[U[str, float]])
assert_type(hub.through(sliding(mean(of=scalar), panes=6, ends=True)), Stream[U[str, Windowed[float]]])
minute = timedelta(minutes=1)
assert_type(hub.through(sliding(mean(of=scalar), size=minute, slide=30)), Stream[U[str, float]])
assert_type(hub.through(tumbling(count(), size=60, offset=minute / 2, ends=True)), Stream[U[str, Windowed[int]]])
starts = hub.through(tumbling(count(), size=60, ends=True)).through(map_values(lambda w: w.start, to=datetime))
assert_type(starts, Stream[U[str, datetime]])
assert_type(hub.through(kmeans(lambda r: (r.scalar,), k=3)), Stream[U[str, Cluster]])


@attrs.frozen
class Framed:
    now: Reading
    before: float | None
    mean: float


def without_number(before: Reading, at: int, number: None) -> Reading:
    return before


def predicted(tree: RegressionTree) -> None:
    assert_type(hub.through(predict(tree, lambda r: (r.scalar, r.ts))), Stream[U[str, Predicted[Reading]]])


ordered = hub.through(sort(by=lambda r: r.ts))
filled = interpolate(time=lambda r: r.ts, number=scalar, make=lambda r, ts, x: Reading(x, ts))
for_gaps = interpolate(time=lambda r: r.ts, make=without_number, method="null")
assert_type(ordered.through(for_gaps), Stream[O[str, Reading]])
last_one = interpolate(
    time=lambda r: r.ts, number=scalar, make=lambda r, ts, x: Reading(x, ts), method="last", every="day", zone="Europe/Berlin"
)
assert_type(ordered.through(last_one), Stream[O[str, Reading]])
assert_type(ordered.through(filled), Stream[O[str, Reading]])
assert_type(ordered.through(session(count(), gap=30, time=lambda r: r.ts)), Stream[O[str, Session[int]]])
assert_type(ordered.through(count_window(mean(of=scalar), items=3)), Stream[O[str, float]])
assert_type(ordered.through(count_window(mean(of=scalar), items=3, slide=1)), Stream[O[str, float]])
framed = over(Framed, now=current(), before=lag(scalar), mean=frame(mean(of=scalar), rows=3))
assert_type(ordered.through(framed), Stream[O[str, Framed]])
varying = ordered.through(session(count(), gap=lambda r: r.scalar, max_gap=60, time=lambda r: r.ts))
assert_type(varying, Stream[O[str, Session[int]]])
days = ordered.through(calendar_window(count(), every="day", zone="Europe/Berlin", time=lambda r: r.ts, ends=True))
assert_type(days, Stream[O[str, Windowed[int]]])
windows = ordered.through(time_window(mean(of=scalar), size=60, time=lambda r: r.ts, grace=5))
assert_type(windows, Stream[O[str, float]])
ended = ordered.through(time_window(count(), size=60, time=lambda r: r.ts, ends=True))
assert_type(ended, Stream[O[str, Windowed[int]]])
assert_type(ordered.through(diff(lambda r: r.scalar)), Stream[O[str, float]])
assert_type(ordered.through(pairwise(lambda a, b: b.ts - a.ts, to=int)), Stream[O[str, int]])
assert_type(ordered.through(scan(mean(of=scalar))), Stream[O[str, float]])
assert_type(ordered.through(deduplicate(lambda r: r.ts, items=10)), Stream[O[str, Reading]])
assert_type(ordered.through(ewm_mean(lambda r: r.scalar, alpha=0.1)), Stream[O[str, float]])

near = interval_join(hub, prices, before=5, after=0, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
assert_type(near, Stream[O[str, Joined[Reading, Price]]])
left_or_none = interval_join(
    hub, prices, how="left", before=5, after=0, left_time=lambda r: r.ts, right_time=lambda p: p.ts
)
assert_type(left_or_none, Stream[O[str, Joined[Reading, Price | None]]])
either = interval_join(hub, prices, how="full", before=5, after=0, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
assert_type(either, Stream[O[str, Joined[Reading | None, Price | None]]])
alone = interval_join(hub, prices, how="anti", before=5, after=0, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
assert_type(alone, Stream[O[str, Reading]])
known = asof_join(hub, prices, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
assert_type(known, Stream[O[str, AsOf[Reading, Price]]])
ahead = asof_join(hub, prices, direction="forward", tolerance=5, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
assert_type(ahead, Stream[O[str, AsOf[Reading, Price]]])
known_only = asof_join(hub, prices, how="inner", strict=True, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
assert_type(known_only, Stream[O[str, Joined[Reading, Price]]])
both_sides = asof_join(hub, prices, how="full", tolerance=5, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
assert_type(both_sides, Stream[O[str, Joined[Reading | None, Price | None]]])

of_sessions = session_join(hub, prices, gap=9, how="left", left_time=lambda r: r.ts, right_time=lambda p: p.ts)
assert_type(of_sessions, Stream[O[str, Joined[Reading, Price | None]]])
assert_type(window_join(hub, prices, size=60), Stream[U[str, Joined[Reading, Price]]])
assert_type(window_join(hub, prices, panes=6, how="left"), Stream[U[str, Joined[Reading, Price | None]]])
assert_type(window_join(ordered, prices, size=60, how="right"), Stream[U[str, Joined[Reading | None, Price]]])
assert_type(window_join(hub, prices, size=60, how="full"), Stream[U[str, Joined[Reading | None, Price | None]]])
assert_type(window_join(hub, prices, size=60, how="semi"), Stream[U[str, Reading]])
assert_type(window_join(hub, prices, size=60, slide=20), Stream[U[str, Joined[Reading, Price]]])
own = window_join(hub, prices, size=60, how="anti", left_time=lambda r: r.ts, right_time=lambda p: p.ts, grace=5)
assert_type(own, Stream[U[str, Reading]])

latest = table_join(hub, prices, left_time=lambda r: r.ts, table_time=lambda p: p.ts, deleted=lambda p: p.cents < 0)
assert_type(latest, Stream[O[str, Joined[Reading, Price]]])
maybe = table_join(hub, prices, how="left", left_time=lambda r: r.ts, table_time=lambda p: p.ts)
assert_type(maybe, Stream[O[str, Joined[Reading, Price | None]]])
without = table_join(hub, prices, how="anti", left_time=lambda r: r.ts, table_time=lambda p: p.ts)
assert_type(without, Stream[O[str, Reading]])
log = prices.through(sort(by=lambda p: p.ts))
in_log = table_join(hub, log, left_time=lambda r: r.ts, table_time=lambda p: p.ts, order=ROW_POSITION)
assert_type(in_log, Stream[O[str, Joined[Reading, Price]]])
by_number = table_join(hub, log, how="left", left_time=lambda r: r.ts, table_time=lambda p: p.ts, order=lambda p: p.cents)
assert_type(by_number, Stream[O[str, Joined[Reading, Price | None]]])
of_log = asof_join(hub, log, left_time=lambda r: r.ts, right_time=lambda p: p.ts, order=ROW_POSITION)
assert_type(of_log, Stream[O[str, AsOf[Reading, Price]]])
assert_type(equi_join(hub, prices, within=60), Stream[U[str, Joined[Reading, Price]]])
assert_type(equi_join(hub, prices, blocks=6, how="full"), Stream[U[str, Joined[Reading | None, Price | None]]])
assert_type(equi_join(hub, prices, blocks=6, how="semi"), Stream[U[str, Reading]])
of_last = equi_join(hub, prices, items=9, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
assert_type(of_last, Stream[O[str, Joined[Reading, Price]]])

# An operator in a variable needs no annotation, and has the type of the stream that it is used on.
rises = diff(scalar)
counts = scan(count())
blocks_of_two = tumbling(count(), panes=2)
assert_type(ordered.through(rises), Stream[O[str, float]])
assert_type(ordered.through(counts), Stream[O[str, int]])
assert_type(ordered.through(blocks_of_two), Stream[U[str, int]])
