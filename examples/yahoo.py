"""Data-trace types, section 6: queries I to VI of the Yahoo Streaming Benchmark (there Figures 3 and 4).

    python -m examples.yahoo_data DIR --events 100000
    YAHOO_DATABASE=DIR/reference.sqlite tracetypes run examples/yahoo.py:four --input events=DIR/events --output views=OUT

The flows are ``one`` to ``six``; ``query_1`` to ``query_6`` build them for other tables, markers and delays. Markers come
every second of event time, as in the paper, but where a docstring says otherwise. ``delay`` (seconds) is how far events may
lie behind the newest one: 0 for generated events, 60.1 for those of ``--skew``.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import attrs

from examples.yahoo_data import Tables, tables
from tracetypes import (
    Dataflow,
    Emit,
    EmitValue,
    Marker,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Stream,
    U,
    Unit,
    every,
    sort,
    stdlib,
)
from tracetypes.markers import EventTime
from tracetypes.stdlib import Aggregate, Sqlite, enrich, lloyd, lookup_join, running, struct


@attrs.frozen
class Event:
    """A user's action on an advertisement. ``event_time``: ms since the epoch."""

    user_id: str
    page_id: str
    ad_id: str
    ad_type: str
    event_type: str
    event_time: int
    ip_address: str


def _events(flow: Dataflow, seconds: float, delay: float) -> Stream[U[Unit, Event]]:
    markers: EventTime[Event] = every(seconds=seconds, time=lambda e: e.event_time, unit="ms", delay=delay)
    return flow.source("events", U[Unit, Event], markers=markers)


def _by_user(flow: Dataflow, seconds: float, delay: float) -> Stream[U[str, Event]]:
    markers: EventTime[Event] = every(seconds=seconds, time=lambda e: e.event_time, unit="ms", delay=delay)
    return flow.source("events", U[str, Event], key=lambda e: e.user_id, markers=markers)


# ---------------------------------------------------------------------------------------------------- query I


@attrs.frozen
class Advertisement:
    """What the database knows of an advertisement."""

    campaign_id: str


@attrs.frozen
class Enriched:
    """An event with its campaign."""

    campaign_id: str
    user_id: str
    page_id: str
    ad_type: str
    event_type: str
    event_time: int
    ip_address: str


def enriched(event: Event, campaign: str) -> Enriched:
    """The event without its advertisement, which is the key."""
    return Enriched(
        campaign,
        event.user_id,
        event.page_id,
        event.ad_type,
        event.event_type,
        event.event_time,
        event.ip_address,
    )


def enriched_by_row(event: Event, row: Advertisement) -> Enriched:
    """The same from a row of the database."""
    return enriched(event, row.campaign_id)


def _by_advertisement(flow: Dataflow, seconds: float, delay: float) -> Stream[U[str, Event]]:
    markers: EventTime[Event] = every(seconds=seconds, time=lambda e: e.event_time, unit="ms", delay=delay)
    return flow.source("events", U[str, Event], key=lambda e: e.ad_id, markers=markers)


def query_1(database: str, *, seconds: float = 1, delay: float = 0) -> Dataflow:
    """Query I: enrich each event with its campaign, from a database; a single stateless stage.

    ``database``: the path of the SQLite file; each worker asks it once for what it does not know. Events of unknown
    advertisements are left out.
    """
    flow = Dataflow("yahoo-1")
    ads = Sqlite(path=database, table="ads", key="ad_id", row=Advertisement)
    found = lookup_join(ads, by=lambda ad, _: ad, combine=enriched_by_row)
    flow.sink("enriched", _by_advertisement(flow, seconds, delay).through(found))
    return flow


def query_1_in_memory(known: Tables, *, seconds: float = 1, delay: float = 0) -> Dataflow:
    """Query I with a table that was read from the database before, and that each worker holds whole."""
    flow = Dataflow("yahoo-1-in-memory")
    found = enrich(known.campaign_of, by=lambda ad, _: ad, combine=enriched)
    flow.sink("enriched", _by_advertisement(flow, seconds, delay).through(found))
    return flow


# --------------------------------------------------------------------------------------------------- query II


Counts = tuple[int, int, int]
"""Views, clicks, purchases."""


@attrs.frozen
class Actions:
    """Actions so far."""

    views: int
    clicks: int
    purchases: int


def counts_of(event_type: str) -> Counts:
    """One action as counts."""
    return 1 if event_type == "view" else 0, 1 if event_type == "click" else 0, 1 if event_type == "purchase" else 0


CountsSoFar = tuple[Counts, bool]
"""Of all blocks; did the last one hold any?"""


@attrs.frozen
class CountActions(OpKeyedUnordered[str, Event, str, Actions, CountsSoFar, Counts]):
    """A user's actions so far, told at each marker whose block held any."""

    skips_untouched = True

    def lift(self, key: str, value: Event) -> Counts:
        return counts_of(value.event_type)

    def identity(self) -> Counts:
        return 0, 0, 0

    def combine(self, a: Counts, b: Counts) -> Counts:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2]

    def initial_state(self) -> CountsSoFar:
        return self.identity(), False

    def update_state(self, state: CountsSoFar, agg: Counts) -> CountsSoFar:
        return self.combine(state[0], agg), sum(agg) > 0

    def on_marker(self, new_state: CountsSoFar, key: str, marker: Marker, emit: Emit[str, Actions]) -> None:
        if new_state[1]:
            emit(key, Actions(*new_state[0]))


def query_2(*, seconds: float = 1, delay: float = 0) -> Dataflow:
    """Query II: actions of each user; a single keyed stage, whose intermediate results are persisted in a database.

    In the paper the operator writes them into the database itself. Here the state is kept by the backend (Spark: in RocksDB,
    an embedded database, and in its checkpoint), and the sink sends each intermediate result out exactly once;
    :func:`persist` puts what the sink wrote into a table by user. Written by the operator, a result would be there again
    whenever a step is done again. Events that are neither view, click nor purchase count for nothing.
    """
    flow = Dataflow("yahoo-2")
    events = _by_user(flow, seconds, delay)
    flow.sink("actions", events.through(CountActions()), marker="at")
    return flow


def persist(output: Path, database: Path) -> int:
    """Put the rows that query II wrote to ``output`` (JSON lines) into the table ``actions`` of a SQLite database.

    A row by user, the latest marker's; running it again changes nothing. Gives the number of users.
    """
    import json
    from contextlib import closing

    with closing(sqlite3.connect(database)) as to, to:
        to.execute(
            "CREATE TABLE IF NOT EXISTS actions "
            "(user_id TEXT PRIMARY KEY, at TEXT, views INTEGER, clicks INTEGER, purchases INTEGER)"
        )
        for part in sorted(output.glob("part-*.jsonl")):
            with part.open() as lines:
                to.executemany(
                    "INSERT INTO actions VALUES (:key, :at, :views, :clicks, :purchases) ON CONFLICT (user_id) DO UPDATE "
                    "SET at = excluded.at, views = excluded.views, clicks = excluded.clicks, "
                    "purchases = excluded.purchases WHERE excluded.at > at",
                    map(json.loads, lines),
                )
        return int(to.execute("SELECT COUNT(*) FROM actions").fetchone()[0])


# -------------------------------------------------------------------------------------------------- query III


@attrs.frozen
class Action:
    """What happened when (ms since the epoch)."""

    event_type: str
    time: int


@attrs.frozen
class Locate(OpStateless[Unit, Event, int, Action]):
    """Actions under the location of their user."""

    location_of: dict[str, int]

    def on_item(self, key: Unit, value: Event, emit: Emit[int, Action]) -> None:
        if value.user_id in self.location_of:
            emit(self.location_of[value.user_id], Action(value.event_type, value.event_time))


@attrs.frozen
class History:
    """All of a location's actions: how many, and when the first and the last were (ms since the epoch)."""

    views: int
    clicks: int
    purchases: int
    first: int
    last: int


NEVER = 2**62
"""ms: later than any event."""

Summary = tuple[int, int, int, int, int]
"""Views, clicks, purchases; the first and the last time."""

SummarySoFar = tuple[Summary, bool]
"""Of all blocks; did the last one hold any?"""


@attrs.frozen
class Summarise(OpKeyedUnordered[int, Action, int, History, SummarySoFar, Summary]):
    """The whole history of a location, told at each marker whose block held any of it."""

    skips_untouched = True

    def lift(self, key: int, value: Action) -> Summary:
        return (*counts_of(value.event_type), value.time, value.time)

    def identity(self) -> Summary:
        return 0, 0, 0, NEVER, -NEVER

    def combine(self, a: Summary, b: Summary) -> Summary:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2], min(a[3], b[3]), max(a[4], b[4])

    def initial_state(self) -> SummarySoFar:
        return self.identity(), False

    def update_state(self, state: SummarySoFar, agg: Summary) -> SummarySoFar:
        return self.combine(state[0], agg), agg[3] < NEVER

    def on_marker(self, new_state: SummarySoFar, key: int, marker: Marker, emit: Emit[int, History]) -> None:
        if new_state[1]:
            emit(key, History(*new_state[0]))


def query_3(known: Tables, *, seconds: float = 1, delay: float = 0) -> Dataflow:
    """Query III: enrich with the location, then aggregate the whole history of each location."""
    flow = Dataflow("yahoo-3")
    located = _events(flow, seconds, delay).through(Locate(known.location_of))
    flow.sink("histories", located.through(Summarise()), marker="at")
    return flow


# ------------------------------------------------------------------------------------------- queries IV and V


@attrs.frozen
class ViewsByCampaign(OpStateless[Unit, Event, str, int]):
    """The times of views (ms), under their campaigns. Views of unknown advertisements are left out."""

    campaign_of: dict[str, str]

    def on_item(self, key: Unit, value: Event, emit: Emit[str, int]) -> None:
        if value.event_type == "view" and value.ad_id in self.campaign_of:
            emit(self.campaign_of[value.ad_id], value.event_time)


@attrs.frozen
class Views:
    """Views in the window that ends at ``end`` (s since the epoch, not part of it)."""

    end: int
    views: int


Panes = tuple[int, int, int, int, int, int, int, int, int, int]
"""Views of the last ten blocks, the newest first."""


@attrs.frozen
class LastTenBlocks(OpKeyedUnordered[str, int, str, Views, Panes, int]):
    """At each marker how many items the last ten blocks held, where they held any."""

    forgets_idle = True

    def lift(self, key: str, value: int) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> Panes:
        return 0, 0, 0, 0, 0, 0, 0, 0, 0, 0

    def update_state(self, state: Panes, agg: int) -> Panes:
        return (agg, *state[:9])

    def on_marker(self, new_state: Panes, key: str, marker: Marker, emit: Emit[str, Views]) -> None:
        views = sum(new_state)
        if views > 0:
            emit(key, Views(marker.timestamp, views))

    def linger(self) -> int:
        return 9


@attrs.frozen
class EachBlock(OpKeyedUnordered[str, int, str, Views, int, int]):
    """At each marker how many items its block held, where it held any."""

    skips_untouched = True

    def lift(self, key: str, value: int) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return agg

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Emit[str, Views]) -> None:
        if new_state > 0:
            emit(key, Views(marker.timestamp, new_state))


def query_4(known: Tables, *, delay: float = 0) -> Dataflow:
    """Query IV: views of each campaign within the last 10 s, at the end of each second."""
    flow = Dataflow("yahoo-4")
    views = _events(flow, 1, delay).through(ViewsByCampaign(known.campaign_of))
    flow.sink("views", views.through(LastTenBlocks()))
    return flow


def query_5(known: Tables, *, delay: float = 0) -> Dataflow:
    """Query V: the same over windows of 10 s that do not overlap. A window is a block: markers come every 10 s."""
    flow = Dataflow("yahoo-5")
    views = _events(flow, 10, delay).through(ViewsByCampaign(known.campaign_of))
    flow.sink("views", views.through(EachBlock()))
    return flow


# --------------------------------------------------------------------------------------------------- query VI


@attrs.frozen
class Visits:
    """A user's actions, and their location."""

    location: int
    views: int
    clicks: int
    purchases: int


def visit(event: Event, location: int) -> Visits:
    """One action where it happened."""
    return Visits(location, *counts_of(event.event_type))


@attrs.frozen
class Features:
    """What is known of a user."""

    user_id: str
    views: int
    clicks: int
    purchases: int


def at_location(user: str, so_far: Visits) -> tuple[int, Features]:
    """A user's features under their location."""
    return so_far.location, Features(user, so_far.views, so_far.clicks, so_far.purchases)


@attrs.frozen
class Cluster:
    """A group of users of a location. ``end``: s since the epoch; the rest but ``users``: means."""

    end: int
    number: int
    users: int
    views: float
    clicks: float
    purchases: float


def cluster(users: dict[str, Counts], k: int, rounds: int = 10) -> list[tuple[int, *tuple[float, ...]]]:
    """Lloyd's k-means over users: for each cluster that is not empty its size and its centre.

    Deterministic in the users alone: the first centres are the users at equal steps in the order of activity, then id; sums
    are of integers and exact; a user between two centres goes to the first.
    """
    by_activity: dict[int, list[str]] = {}
    for user, (views, clicks, purchases) in users.items():
        by_activity.setdefault(views + clicks + purchases, []).append(user)
    ranked = [user for activity in sorted(by_activity) for user in sorted(by_activity[activity])]
    k = min(k, len(ranked))
    first = [users[ranked[(2 * n + 1) * len(ranked) // (2 * k)]] for n in range(k)]
    return [(size, *centre) for size, centre in lloyd(list(users.values()), first, rounds)]


Users = dict[str, Counts]
"""Each user's latest features."""


@attrs.frozen
class ClusterUsers(OpKeyedOrdered[int, Features, Cluster, Users]):
    """K-means over the users of a location, each at their latest features, at the whole multiples of ``period`` (s)."""

    k: int
    period: int

    def initial_state(self) -> Users:
        return {}

    def on_item(self, state: Users, key: int, value: Features, emit: EmitValue[Cluster]) -> Users:
        state[value.user_id] = (value.views, value.clicks, value.purchases)
        return state

    def on_marker(self, state: Users, key: int, marker: Marker, emit: EmitValue[Cluster]) -> Users:
        if marker.timestamp % self.period == 0:
            for number, (users, *centre) in enumerate(cluster(state, self.k)):
                emit(Cluster(marker.timestamp, number, users, *centre))
        return state


def query_6(known: Tables, *, seconds: int = 1, delay: float = 0, k: int = 4, period: int = 10) -> Dataflow:
    """Query VI: enrich with the location, features of each user, then every ``period`` seconds clusters of each location.

    The order by user is not needed for the answer: it makes the type say that a state of many users may be changed in place.
    """
    flow = Dataflow("yahoo-6")
    locate = enrich(known.location_of, by=lambda user, _: user, combine=visit)
    so_far: Aggregate[Visits, Any, Visits] = struct(
        Visits,
        location=stdlib.max(of=lambda v: v.location, to=int),
        views=stdlib.sum(of=lambda v: v.views, to=int),
        clicks=stdlib.sum(of=lambda v: v.clicks, to=int),
        purchases=stdlib.sum(of=lambda v: v.purchases, to=int),
    )
    features = _by_user(flow, seconds, delay).through(locate).through(running(so_far)).through(stdlib.map(at_location))
    flow.sink("clusters", features.through(sort(by=lambda f: f.user_id)).through(ClusterUsers(k, period)))
    return flow


DATABASE = os.environ.get("YAHOO_DATABASE", "yahoo-data/reference.sqlite")
"""The database that ``one`` asks, and whose tables the other flows hold; without it: the generator's default tables."""

TABLES = Tables.read(Path(DATABASE)) if Path(DATABASE).is_file() else tables()

one = query_1(DATABASE)
two = query_2()
three = query_3(TABLES)
four = query_4(TABLES)
five = query_5(TABLES)
six = query_6(TABLES)
