"""Data-trace types, section 6: queries I to VI of the Yahoo Streaming Benchmark (there Figures 3 and 4).

    python -m examples.yahoo_data DIR --events 100000
    YAHOO_DATABASE=DIR/reference.sqlite tracetypes run examples/yahoo.py:four --input events=DIR/events --output views=OUT

The flows are ``one`` to ``six``; ``query_1`` to ``query_6`` build them for other tables, markers and delays. Markers come
every second of event time, as in the paper, but where a docstring says otherwise. ``delay`` (seconds) is how far events may
lie behind the newest one: 0 for generated events, 60.1 for those of ``--skew``.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import attrs

from examples.yahoo_data import Tables, tables
from tracetypes import Dataflow, Marker, OpKeyedOrdered, OpKeyedUnordered, OpStateless, Stream, U, Unit, every, sort
from tracetypes.stdlib import Sqlite, enrich, look_up


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
    return flow.source(
        "events",
        U[Unit, Event],
        markers=every(seconds=seconds, time=lambda e: e.event_time, unit="ms", delay=delay),
    )


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
    markers = every(seconds=seconds, time=lambda e: e.event_time, unit="ms", delay=delay)
    return flow.source("events", U[str, Event], key=lambda e: e.ad_id, markers=markers)


def query_1(database: str, *, seconds: float = 1, delay: float = 0) -> Dataflow:
    """Query I: enrich each event with its campaign, from a database; a single stateless stage.

    ``database``: the path of the SQLite file; each worker asks it once for what it does not know. Events of unknown
    advertisements are left out.
    """
    flow = Dataflow("yahoo-1")
    ads = Sqlite(path=database, table="ads", key="ad_id", row=Advertisement)
    found = look_up(ads, by=lambda ad, _: ad, combine=enriched_by_row)
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


def add(a: Counts, b: Counts) -> Counts:
    """Counts of both."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@attrs.frozen
class CountActions(OpKeyedUnordered[str, Event, str, Actions, tuple[int, int, int, bool], Counts]):
    """A user's actions so far, told at each marker whose block held any. The last part of the state: did it?"""

    skips_untouched = True

    def lift(self, key: str, value: Event) -> Counts:
        return counts_of(value.event_type)

    def identity(self) -> Counts:
        return 0, 0, 0

    def combine(self, a: Counts, b: Counts) -> Counts:
        return add(a, b)

    def initial_state(self) -> tuple[int, int, int, bool]:
        return 0, 0, 0, False

    def update_state(self, state: tuple[int, int, int, bool], agg: Counts) -> tuple[int, int, int, bool]:
        return state[0] + agg[0], state[1] + agg[1], state[2] + agg[2], agg[0] + agg[1] + agg[2] > 0

    def on_marker(
        self, new_state: tuple[int, int, int, bool], key: str, marker: Marker, emit: Callable[[str, Actions], None]
    ) -> None:
        if new_state[3]:
            emit(key, Actions(new_state[0], new_state[1], new_state[2]))


def query_2(*, seconds: float = 1, delay: float = 0) -> Dataflow:
    """Query II: actions of each user; a single keyed stage, whose intermediate results are persisted in a database.

    In the paper the operator writes them into the database itself. Here the state is kept by the backend (Spark: in RocksDB,
    an embedded database, and in its checkpoint), and the sink sends each intermediate result out exactly once;
    :func:`persist` puts what the sink wrote into a table by user. Written by the operator, a result would be there again
    whenever a step is done again. Events that are neither view, click nor purchase count for nothing.
    """
    flow = Dataflow("yahoo-2")
    events = flow.source(
        "events",
        U[str, Event],
        key=lambda e: e.user_id,
        markers=every(seconds=seconds, time=lambda e: e.event_time, unit="ms", delay=delay),
    )
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

    def on_item(self, key: Unit, value: Event, emit: Callable[[int, Action], None]) -> None:
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


@attrs.frozen
class Summarise(OpKeyedUnordered[int, Action, int, History, tuple[int, int, int, int, int, bool], Summary]):
    """The whole history of a location, told at each marker whose block held any of it."""

    skips_untouched = True

    def lift(self, key: int, value: Action) -> Summary:
        views, clicks, purchases = counts_of(value.event_type)
        return views, clicks, purchases, value.time, value.time

    def identity(self) -> Summary:
        return 0, 0, 0, NEVER, -NEVER

    def combine(self, a: Summary, b: Summary) -> Summary:
        first = a[3] if a[3] < b[3] else b[3]
        last = a[4] if a[4] > b[4] else b[4]
        return a[0] + b[0], a[1] + b[1], a[2] + b[2], first, last

    def initial_state(self) -> tuple[int, int, int, int, int, bool]:
        return 0, 0, 0, NEVER, -NEVER, False

    def update_state(
        self, state: tuple[int, int, int, int, int, bool], agg: Summary
    ) -> tuple[int, int, int, int, int, bool]:
        first = state[3] if state[3] < agg[3] else agg[3]
        last = state[4] if state[4] > agg[4] else agg[4]
        return state[0] + agg[0], state[1] + agg[1], state[2] + agg[2], first, last, agg[3] < NEVER

    def on_marker(
        self,
        new_state: tuple[int, int, int, int, int, bool],
        key: int,
        marker: Marker,
        emit: Callable[[int, History], None],
    ) -> None:
        if new_state[5]:
            emit(key, History(new_state[0], new_state[1], new_state[2], new_state[3], new_state[4]))


def query_3(known: Tables, *, seconds: float = 1, delay: float = 0) -> Dataflow:
    """Query III: enrich with the location, then summarise the whole history of each location."""
    flow = Dataflow("yahoo-3")
    flow.sink(
        "histories", _events(flow, seconds, delay).through(Locate(known.location_of)).through(Summarise()), marker="at"
    )
    return flow


# ------------------------------------------------------------------------------------------- queries IV and V


@attrs.frozen
class ViewsByCampaign(OpStateless[Unit, Event, str, int]):
    """The times of views (ms), under their campaigns. Views of unknown advertisements are left out."""

    campaign_of: dict[str, str]

    def on_item(self, key: Unit, value: Event, emit: Callable[[str, int], None]) -> None:
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

    def on_marker(self, new_state: Panes, key: str, marker: Marker, emit: Callable[[str, Views], None]) -> None:
        views = sum(new_state)
        if views > 0:
            emit(key, Views(marker.timestamp, views))


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

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Callable[[str, Views], None]) -> None:
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
class Visit:
    """What happened where."""

    location: int
    event_type: str


@attrs.frozen
class LocateUser(OpStateless[Unit, Event, str, Visit]):
    """Events under their user, with the user's location."""

    location_of: dict[str, int]

    def on_item(self, key: Unit, value: Event, emit: Callable[[str, Visit], None]) -> None:
        if value.user_id in self.location_of:
            emit(value.user_id, Visit(self.location_of[value.user_id], value.event_type))


@attrs.frozen
class Features:
    """What is known of a user."""

    user_id: str
    views: int
    clicks: int
    purchases: int


Seen = tuple[int, int, int, int]
"""Views, clicks, purchases, and the location: a user has one, -1 stands for none yet."""


@attrs.frozen
class ExtractFeatures(OpKeyedUnordered[str, Visit, int, Features, tuple[int, int, int, int, bool], Seen]):
    """A user's features so far, sent to their location at each marker whose block held any action of theirs."""

    skips_untouched = True

    def lift(self, key: str, value: Visit) -> Seen:
        views, clicks, purchases = counts_of(value.event_type)
        return views, clicks, purchases, value.location

    def identity(self) -> Seen:
        return 0, 0, 0, -1

    def combine(self, a: Seen, b: Seen) -> Seen:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] if a[3] > b[3] else b[3]

    def initial_state(self) -> tuple[int, int, int, int, bool]:
        return 0, 0, 0, -1, False

    def update_state(self, state: tuple[int, int, int, int, bool], agg: Seen) -> tuple[int, int, int, int, bool]:
        location = state[3] if state[3] > agg[3] else agg[3]
        return state[0] + agg[0], state[1] + agg[1], state[2] + agg[2], location, agg[3] >= 0

    def on_marker(
        self,
        new_state: tuple[int, int, int, int, bool],
        key: str,
        marker: Marker,
        emit: Callable[[int, Features], None],
    ) -> None:
        if new_state[4]:
            emit(new_state[3], Features(key, new_state[0], new_state[1], new_state[2]))


@attrs.frozen
class Cluster:
    """A group of users of a location. ``end``: s since the epoch; the rest but ``users``: means."""

    end: int
    number: int
    users: int
    views: float
    clicks: float
    purchases: float


FEW = 16
"""Users up to which plain Python is faster than NumPy's calls."""

Centre = tuple[float, float, float]


def cluster(users: dict[str, Counts], k: int, rounds: int = 10) -> list[tuple[int, float, float, float]]:
    """Lloyd's k-means over users: for each cluster that is not empty its size and its centre.

    Deterministic in the users alone: the first centres are the users at equal steps in the order of activity, then id; sums
    are of integers and exact; a user between two centres goes to the first.
    """
    k = min(k, len(users))
    ranks = [(2 * n + 1) * len(users) // (2 * k) for n in range(k)]
    return (_cluster_few if len(users) <= FEW else _cluster_many)(users, ranks, rounds)


def _cluster_few(users: dict[str, Counts], ranks: list[int], rounds: int) -> list[tuple[int, float, float, float]]:
    ranked = sorted([(x + y + z, user) for user, (x, y, z) in users.items()])
    points = list(users.values())
    centres: list[Centre] = [tuple(map(float, users[ranked[rank][1]])) for rank in ranks]  # type: ignore[misc]
    nearest: list[int] = []
    for at in range(rounds + 1):
        before, nearest, numbered = nearest, [], list(enumerate(centres))
        for x, y, z in points:
            least, found = math.inf, 0
            for n, (a, b, c) in numbered:
                a -= x
                b -= y
                c -= z
                distance = a * a + b * b + c * c
                if distance < least:
                    least, found = distance, n
            nearest.append(found)
        if at == rounds or nearest == before:
            break
        parts: list[list[Counts]] = [[] for _ in centres]
        for point, found in zip(points, nearest, strict=True):
            parts[found].append(point)
        centres = [_mean(part) if part else centre for part, centre in zip(parts, centres, strict=True)]
    return [(nearest.count(n), *centre) for n, centre in enumerate(centres) if n in nearest]


def _mean(users: list[Counts]) -> Centre:
    views, clicks, purchases = map(sum, zip(*users, strict=True))
    return views / len(users), clicks / len(users), purchases / len(users)


def _cluster_many(users: dict[str, Counts], ranks: list[int], rounds: int) -> list[tuple[int, float, float, float]]:
    import numpy as np

    k, names = len(ranks), list(users)
    points = np.fromiter(chain.from_iterable(users.values()), np.int64, 3 * len(users)).reshape(-1, 3)
    activity = points.sum(axis=1)
    ranked = np.sort(activity)
    first = []
    for rank in ranks:
        alike = np.flatnonzero(activity == ranked[rank]).tolist()
        alike.sort(key=names.__getitem__)
        first.append(alike[rank - int(ranked.searchsorted(ranked[rank]))])
    axes = np.ascontiguousarray(points.T)
    centres = points[first].astype(np.float64)
    for at in range(rounds + 1):
        apart = axes[:, None, :] - centres.T[:, :, None]
        distances = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]
        nearest = distances.argmin(axis=0)
        sizes = np.bincount(nearest, minlength=k)
        if at == rounds:
            break
        # Sums of integers in doubles: exact up to 2**53.
        sums = np.stack([np.bincount(nearest, weights=axis, minlength=k) for axis in axes], axis=1)
        moved = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        if (moved == centres).all():
            break
        centres = moved
    return [(int(sizes[n]), *map(float, centres[n])) for n in range(k) if sizes[n]]  # type: ignore[misc]


@attrs.frozen
class ClusterUsers(OpKeyedOrdered[int, Features, Cluster, dict[str, Counts]]):
    """K-means over the users of a location, each at their latest features, at the whole multiples of ``period`` (s)."""

    k: int
    period: int

    def initial_state(self) -> dict[str, Counts]:
        return {}

    def on_item(
        self, state: dict[str, Counts], key: int, value: Features, emit: Callable[[Cluster], None]
    ) -> dict[str, Counts]:
        state[value.user_id] = (value.views, value.clicks, value.purchases)
        return state

    def on_marker(
        self, state: dict[str, Counts], key: int, marker: Marker, emit: Callable[[Cluster], None]
    ) -> dict[str, Counts]:
        if marker.timestamp % self.period == 0 and state:
            for number, (users, views, clicks, purchases) in enumerate(cluster(state, self.k)):
                emit(Cluster(marker.timestamp, number, users, views, clicks, purchases))
        return state


def query_6(known: Tables, *, seconds: int = 1, delay: float = 0, k: int = 4, period: int = 10) -> Dataflow:
    """Query VI: enrich with the location, features of each user, then every ``period`` seconds clusters of each location.

    The order by user is not needed for the answer: it makes the type say that a state of many users may be changed in place.
    """
    flow = Dataflow("yahoo-6")
    features = _events(flow, seconds, delay).through(LocateUser(known.location_of)).through(ExtractFeatures())
    ordered = features.through(sort(by=lambda f: f.user_id))
    flow.sink("clusters", ordered.through(ClusterUsers(k, period)))
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
