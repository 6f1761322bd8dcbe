"""Uses of windows, ordered operators and joins that mypy --strict refuses."""

import attrs

from tracetypes import ROW_POSITION, Dataflow, U, every, sort
from tracetypes.stdlib import (
    asof_join,
    calendar_window,
    count,
    diff,
    equi_join,
    frame,
    interpolate,
    interval_join,
    lag,
    map_values,
    mean,
    over,
    scan,
    session,
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


def ts(reading: Reading) -> int:
    return reading.ts


def cents(price: Price) -> float:
    return price.cents


flow = Dataflow("bad")
hub = flow.source("hub", U[str, Reading], markers=every(seconds=10, time=lambda r: r.ts))
prices = flow.source("prices", U[int, Price], markers=every(seconds=10, time=lambda p: p.ts))

hub.through(sliding(mean(of=cents), panes=6))  # E: arg-type "Price" "Reading"
hub.through(session(count(), gap=30, time=lambda r: r.ts))  # E: type-var "SortTheStreamFirst[str, Reading]"
hub.through(time_window(mean(of=scalar), size=60, time=ts))  # E: type-var "SortTheStreamFirst[str, Reading]"
hub.through(calendar_window(count(), every="day", zone="UTC", time=ts))  # E: type-var "SortTheStreamFirst[str, Reading]"
calendar_window(count(), every="hour", zone="UTC", time=ts)  # E: call-overload "calendar_window"
framed = over(Price, cents=frame(mean(of=scalar), rows=3), ts=lag(ts))
hub.through(framed)  # E: type-var "SortTheStreamFirst[str, Reading]"
interpolate(time=ts, number=scalar, make=lambda r, at, x: r, method="first")  # E: call-overload "interpolate"
hub.through(diff(lambda r: r.scalar))  # E: type-var "SortTheStreamFirst[str, Reading]"
hub.through(scan(count()))  # E: type-var "SortTheStreamFirst[str, Reading]"
rises = diff(scalar)
hub.through(rises)  # E: type-var "SortTheStreamFirst[str, Reading]"
hub.through(sort(by=ts)).through(diff(lambda r: r.price))  # E: attr-defined "price"
latest = asof_join(hub, prices, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
flow.sink("latest", latest)  # E: type-var "KeysOfTwoTypes[str, int]"
near = interval_join(hub, prices, before=1, after=1, left_time=lambda r: r.ts, right_time=lambda p: p.ts)
near.through(tumbling(count(), panes=6))  # E: arg-type "KeysOfTwoTypes[str, int]"
sliding(count(), panes="6")  # E: call-overload
sliding(count())  # E: call-overload
tumbling(count(), panes=6, size=60)  # E: call-overload
sliding(count(), panes=6, slide=2.5)  # E: call-overload

# Keys of two types, and partners that may be missing.
flow.sink("mixed", window_join(hub, prices, size=60))  # E: type-var "KeysOfTwoTypes[str, int]"
more = flow.source("more", U[str, Price], markers=every(seconds=10, time=lambda p: p.ts))
window_join(hub, more, size=60, how="left").through(map_values(lambda j: j.right.cents, to=int))  # E: union-attr "None"
window_join(hub, more, size=60, how="anti").through(map_values(lambda j: j.left, to=Reading))  # E: attr-defined "left"
window_join(hub, more, size=60, how="cross")  # E: call-overload "window_join"
window_join(hub, more, size=60, left_time=lambda r: r.at, right_time=lambda p: p.ts)  # E: attr-defined "at"
joined = interval_join(hub, more, how="right", before=1, after=1, left_time=ts, right_time=lambda p: p.ts)
joined.through(map_values(lambda j: j.left.ts, to=int))  # E: union-attr "None"
interval_join(hub, more, how="cross", before=1, after=1, left_time=ts, right_time=ts)  # E: call-overload "interval_join"
flow.sink("mixed", equi_join(hub, prices, within=60))  # E: type-var "KeysOfTwoTypes[str, int]"
flow.sink("row", table_join(hub, prices, left_time=ts, table_time=lambda p: p.ts))  # E: type-var "KeysOfTwoTypes[str, int]"
table_join(hub, more, how="full", left_time=ts, table_time=lambda p: p.ts)  # E: call-overload "table_join"
table_join(hub, more, left_time=ts, table_time=lambda p: p.at)  # E: attr-defined "at"
table_join(hub, more, left_time=ts, table_time=lambda p: p.ts, order=ROW_POSITION)  # E: arg-type "table_join"
table_join(hub, more, left_time=ts, table_time=lambda p: p.ts, order=lambda p: p.at)  # E: attr-defined "at"
asof_join(hub, more, left_time=ts, right_time=lambda p: p.ts, order=ROW_POSITION)  # E: arg-type "asof_join"
asof_join(hub, more, how="right", left_time=ts, right_time=lambda p: p.ts)  # E: call-overload "asof_join"
whole = asof_join(hub, more, how="full", tolerance=5, left_time=ts, right_time=lambda p: p.ts)
whole.through(map_values(lambda j: j.left.ts, to=int))  # E: union-attr "None"
equi_join(hub, more, items=9)  # E: call-overload "equi_join"
equi_join(hub, more, items=9, how="left", left_time=ts, right_time=lambda p: p.ts)  # E: call-overload "equi_join"
