"""TPCx-BB (BigBench), queries 1, 2, 3, 4 and 15: what customers of a retailer click on and buy, as streams.

    python -m examples.tpcx_bb_data DIR --clicks 1000000 --lines 1000000
    tracetypes run examples/tpcx_bb.py:flow --input web_clickstreams=DIR/web_clickstreams --input store_sales=DIR/store_sales \\
        --output query_1=OUT/1 --output query_2=OUT/2 --output query_3=OUT/3 --output query_4=OUT/4 --output query_15=OUT/15

These are the queries that the paper *Scaling Ordered Stream Processing on Shared-Memory Multicores* makes streams of (there
Table 1): lines of tickets from stores, and clicks in an online shop. Parameters are the published ones (:class:`Parameters`).

What changes in a stream: the benchmark asks once, of all data. Here each query answers for a window and goes on: query 1 for
each hour, as in the paper, queries 2, 3 and 4 for each day, query 15 at the end of each day for the year up to then. With a
window as long as the data (``size=``) the answer is that of the benchmark. A session belongs to the window of its last click,
views before a purchase to that of the purchase; a ticket has one time. Markers come every hour, and the column ``at`` of a
sink is the marker that ends the block of a result. For a window ``[s, e)`` that is the one at ``e``; a session is over when
nothing has come for an hour, so in queries 2 and 4 it is the one an hour behind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import combinations
from typing import Any

import attrs

from examples.tpcx_bb_data import DAY, EPOCH, Tables, tables
from tracetypes import UNIT, Dataflow, EmitValue, O, OpKeyedOrdered, Stream, U, Unit, every, sort
from tracetypes.stdlib import (
    Ranked,
    Session,
    aggregate,
    collect,
    count,
    enrich,
    explode,
    filter,
    flat_map,
    key_by,
    last,
    map,
    map_values,
    max,
    mean,
    running,
    session,
    struct,
    sum,
    top,
    tumbling,
)

HOUR = 3_600


@attrs.frozen
class StoreSale:
    """A line of a ticket. Days are numbered from 1900-01-01, times are seconds of the day, prices cents."""

    ss_sold_date_sk: int
    ss_sold_time_sk: int
    ss_item_sk: int
    ss_store_sk: int
    ss_ticket_number: int
    ss_net_paid: int


@attrs.frozen
class Click:
    """A page that somebody looked at. ``wcs_sales_sk``: the order that it made; ``wcs_user_sk``: None of somebody not known."""

    wcs_click_date_sk: int
    wcs_click_time_sk: int
    wcs_sales_sk: int | None
    wcs_item_sk: int | None
    wcs_web_page_sk: int | None
    wcs_user_sk: int | None


def sold_at(line: StoreSale) -> int:
    """Event time, seconds since the epoch."""
    return (line.ss_sold_date_sk - EPOCH) * DAY + line.ss_sold_time_sk


def clicked_at(click: Click) -> int:
    """Event time, seconds since the epoch."""
    return (click.wcs_click_date_sk - EPOCH) * DAY + click.wcs_click_time_sk


@attrs.frozen
class Parameters:
    """Of the queries. ``frequent``: a pair of query 1 is sold more often than that. ``first`` and ``last``: days of the year of
    query 15; windows begin with the first. ``size``: seconds of the windows of the other queries."""

    stores: tuple[int, ...] = (10, 20, 33, 40, 50)
    categories: tuple[int, ...] = (1, 2, 3)
    frequent: int = 50
    item: int = 10_001
    views: int = 5
    before: int = 10 * DAY
    categories_viewed: tuple[int, ...] = (2, 3)
    store: int = 10
    first: int = 37_134
    last: int = 37_499
    size: int | None = None


@attrs.define(slots=False)
class Events:
    """The streams of a dataflow, each there if a query asks for it, the tables, and the parameters."""

    flow: Dataflow
    tables: Tables
    given: Parameters

    @cached_property
    def sales(self) -> Stream[U[int, StoreSale]]:
        """Lines by their ticket."""
        markers = every(seconds=HOUR, time=sold_at)
        return self.flow.source("store_sales", U[int, StoreSale], key=lambda line: line.ss_ticket_number, markers=markers)

    @cached_property
    def clicks(self) -> Stream[U[Unit, Click]]:
        """All clicks."""
        return self.flow.source("web_clickstreams", U[Unit, Click], markers=every(seconds=HOUR, time=clicked_at))

    @cached_property
    def views(self) -> Stream[O[int, View]]:
        """Clicks of each user on items, in order."""
        by_user = self.clicks.through(filter(lambda _, click: click.wcs_user_sk is not None and click.wcs_item_sk is not None))
        return by_user.through(map(view)).through(sort(by=lambda view: (view.time, view.sale, view.item)))

    def items(self, *categories: int) -> dict[int, int]:
        """Of the items those of some categories."""
        return {item: category for item, category in self.tables.category_of.items() if category in categories}


@attrs.frozen
class View:
    """A click of a user on an item. ``sale``: the number of the order, -1 if it made none."""

    time: int
    sale: int
    item: int


def view(_: Unit, click: Click) -> tuple[int, View]:
    """By its user."""
    user, item, sale = click.wcs_user_sk, click.wcs_item_sk, click.wcs_sales_sk
    return -1 if user is None else user, View(clicked_at(click), -1 if sale is None else sale, -1 if item is None else item)


@attrs.frozen
class Pair:
    """Two items, the smaller number first."""

    item_1: int
    item_2: int


@attrs.frozen
class Together:
    """How often two items came together."""

    item_1: int
    item_2: int
    count: int


def pairs(_: int, items: list[int]) -> list[tuple[Pair, Unit]]:
    """The pairs of different items."""
    return [(Pair(*pair), UNIT) for pair in combinations(sorted(set(items)), 2)]


def together(pair: Pair, count: int) -> tuple[Unit, Together]:
    """A count with what it is the count of, beside those of the other pairs."""
    return UNIT, Together(pair.item_1, pair.item_2, count)


def place(pair: Together) -> tuple[int, int, int]:
    """The order of the answers: the most frequent first, then by number."""
    return pair.count, -pair.item_1, -pair.item_2


def begin(given: Parameters, size: int) -> int:
    """The offset of windows of which one begins with the year."""
    return (given.first - EPOCH) * DAY % size


def ranking(
    pairs: Stream[U[Pair, Unit]], most: int, given: Parameters, *, size: int = DAY, wait: int = 0, least: int = 0
) -> Stream[U[Unit, Ranked[Together]]]:
    """The pairs that come most often in a window, ``most`` of them, and more than ``least`` times."""
    size = given.size or size
    counts = pairs.through(tumbling(count(), size=size, offset=begin(given, size) + wait))
    often = counts.through(filter(lambda _, count: count > least)).through(map(together))
    return often.through(aggregate(top(most, by=place, ranks=True))).through(explode())


def query_1(events: Events) -> Stream[U[Unit, Ranked[Together]]]:
    """The 100 pairs of items that are sold together most often: of some categories, in some stores, on one ticket, more than 50
    times in a window."""
    given, table = events.given, events.items(*events.given.categories)
    lines = events.sales.through(filter(lambda _, line: line.ss_store_sk in given.stores))
    wanted = lines.through(enrich(table, by=lambda _, line: line.ss_item_sk, combine=lambda line, _: line.ss_item_sk, to=int))
    return ranking(wanted.through(aggregate(collect())).through(flat_map(pairs)), 100, given, size=HOUR, least=given.frequent)


def query_2(events: Events) -> Stream[U[Unit, Ranked[Together]]]:
    """The 30 items that are looked at most often in a session with a given item. A session ends with a break of an hour."""
    wanted = events.given.item

    def with_wanted(_: int, visit: Session[list[int]]) -> list[tuple[Pair, Unit]]:
        items = set(visit.value)
        return [(Pair(item, wanted), UNIT) for item in items - {wanted}] if wanted in items else []

    visits = events.views.through(session(collect(lambda view: view.item, to=int), gap=HOUR, time=lambda view: view.time))
    return ranking(visits.through(flat_map(with_wanted)), 30, events.given, wait=HOUR)


@attrs.frozen
class LastViews(OpKeyedOrdered[int, View, int, tuple[View, ...]]):
    """At each purchase of an item the last views of the user before it, of so many seconds."""

    item: int
    views: int
    before: int

    def initial_state(self) -> tuple[View, ...]:
        return ()

    def on_item(self, state: tuple[View, ...], key: int, value: View, emit: EmitValue[int]) -> tuple[View, ...]:
        if value.item == self.item and value.sale >= 0:
            for one in state:
                if one.time >= value.time - self.before:
                    emit(one.item)
        return (*state, value)[-self.views :]


def query_3(events: Events) -> Stream[U[Unit, Ranked[Together]]]:
    """The 30 items of some categories that are most often among the last 5 that a user looked at before buying a given item, at
    most 10 days before."""
    given, table = events.given, events.items(*events.given.categories_viewed)
    before = events.views.through(LastViews(given.item, given.views, given.before))
    wanted = before.through(enrich(table, by=lambda _, item: item, combine=lambda item, _: item, to=int))
    return ranking(wanted.through(map(lambda _, item: (Pair(given.item, item), UNIT), to=tuple[Pair, Unit])), 30, given)


@attrs.frozen
class Page:
    """A page that a user looked at."""

    user: int
    time: int
    type: str


@attrs.frozen
class Visit:
    """A session. ``last``: its last page with a cart or an order."""

    pages: int
    last: Page | None


VISIT = struct(
    Visit, pages=count(), last=last(by=lambda page: (page.time, page.type), where=lambda page: page.type in ("dynamic", "order"))
)


def abandoned(_: int, visit: Session[Visit]) -> bool:
    """Whether the cart was touched again after the last order, if any."""
    return visit.value.last is not None and visit.value.last.type == "dynamic"


def page_of(_: Unit, click: Click) -> int:
    """The number of its page, -1 if it has none."""
    return -1 if click.wcs_web_page_sk is None else click.wcs_web_page_sk


def page(click: Click, type: str) -> Page:
    """A click with the type of its page."""
    return Page(-1 if click.wcs_user_sk is None else click.wcs_user_sk, clicked_at(click), type)


def query_4(events: Events) -> Stream[U[Unit, float]]:
    """The average number of pages of sessions of which the cart was abandoned."""
    known = events.clicks.through(filter(lambda _, click: click.wcs_user_sk is not None and click.wcs_sales_sk is None))
    pages = known.through(enrich(events.tables.type_of, by=page_of, combine=page))
    by_user = pages.through(key_by(lambda _, page: page.user, to=int)).through(sort(by=lambda page: (page.time, page.type)))
    visits = by_user.through(session(VISIT, gap=HOUR, time=lambda page: page.time)).through(filter(abandoned))
    together = visits.through(key_by(lambda *_: UNIT, to=Unit))
    size = events.given.size or DAY
    offset = begin(events.given, size) + HOUR
    return together.through(tumbling(mean(lambda visit: visit.value.pages), size=size, offset=offset))


@attrs.frozen
class Sold:
    """What a category sold on a day."""

    day: int
    cents: int


@attrs.frozen
class SoldInCategory:
    """A line with the category of its item."""

    category: int
    day: int
    cents: int


def in_category(line: StoreSale, category: int) -> SoldInCategory:
    """A line with the category of its item."""
    return SoldInCategory(category, line.ss_sold_date_sk, line.ss_net_paid)


def day(line: SoldInCategory) -> int:
    """All lines of a window of query 15 are of one day."""
    return line.day


SOLD = struct(Sold, day=max(day), cents=sum(lambda line: line.cents, to=int))


@attrs.frozen
class Sums:
    """Of a regression of cents over days."""

    n: int
    x: int
    y: int
    xy: int
    xx: int


@attrs.frozen
class Line:
    """Sales fitted by a line: cents a day, and cents at day 0."""

    slope: float
    intercept: float


SUMS = struct(
    Sums,
    n=count(),
    x=sum(lambda sold: sold.day, to=int),
    y=sum(lambda sold: sold.cents, to=int),
    xy=sum(lambda sold: sold.day * sold.cents, to=int),
    xx=sum(lambda sold: sold.day * sold.day, to=int),
)


def line(of: Sums) -> Line:
    """Least squares."""
    slope = (of.n * of.xy - of.x * of.y) / (of.n * of.xx - of.x * of.x)
    return Line(slope, (of.y - slope * of.x) / of.n)


def query_15(events: Events) -> Stream[U[int, Line]]:
    """The categories whose sales in a store are flat or decline: a line through the sales of each day, of a year up to then."""
    store, first, last = events.given.store, events.given.first, events.given.last
    lines = events.sales.through(filter(lambda _, x: x.ss_store_sk == store and first <= x.ss_sold_date_sk <= last))
    sold = lines.through(enrich(events.tables.category_of, by=lambda _, line: line.ss_item_sk, combine=in_category))
    days = sold.through(key_by(lambda _, line: line.category, to=int)).through(tumbling(SOLD, size=DAY))
    several = days.through(running(SUMS)).through(filter(lambda _, sums: sums.n > 1))
    return several.through(map_values(line)).through(filter(lambda _, line: line.slope <= 0))


def dataflow(*numbers: int, those: Tables | None = None, given: Parameters = Parameters()) -> Dataflow:
    """A dataflow with these queries. ``those``: the tables of items and pages; None: those of the generator."""
    queries: dict[int, Callable[[Events], Stream[Any]]] = {1: query_1, 2: query_2, 3: query_3, 4: query_4, 15: query_15}
    graph = Dataflow("tpcx-bb")
    events = Events(graph, tables() if those is None else those, given)
    for number in numbers:
        graph.sink(f"query_{number}", queries[number](events), marker="at")
    return graph


flow = dataflow(1, 2, 3, 4, 15)
