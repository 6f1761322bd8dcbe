"""Nexmark, queries 0 to 8: people offer items at auctions, and others bid for them.

    python -m examples.nexmark_data DIR --events 100000
    tracetypes run examples/nexmark.py:flow --input persons=DIR/persons --input auctions=DIR/auctions --input bids=DIR/bids \\
        --output query_0=OUT/0 ... --output query_8=OUT/8

``flow`` has all nine queries; ``dataflow(5, 7)`` builds a dataflow of these two. The queries are those of the Nexmark suites of
Flink and Beam. Where these differ: windows are 10 s long and those of query 5 begin every 5 s, as in Beam; a sale needs a bid of
at least the reserve, as in Beam; query 8 emits each person once, as in Flink. Windows and bounds go by event time. Markers come
every second, and the column ``at`` of a sink is the marker that ends the block of a result.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs

from tracetypes import UNIT, Dataflow, EmitValue, Marker, O, OpKeyedOrdered, Stream, U, Unit, every, sort
from tracetypes.stdlib import (
    Joined,
    Windowed,
    aggregate,
    count,
    count_window,
    equi_join,
    explode,
    filter,
    interval_join,
    key_by,
    last,
    map,
    map_values,
    mean,
    running,
    sliding,
    tumbling,
    window_join,
)


@attrs.frozen
class Person:
    """Somebody who sells or bids. Times: ms since the epoch."""

    id: int
    name: str
    email_address: str
    credit_card: str
    city: str
    state: str
    date_time: int


@attrs.frozen
class Auction:
    """An item on offer. Prices: cents."""

    id: int
    item_name: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int
    seller: int
    category: int


@attrs.frozen
class Bid:
    """An offer for an item."""

    auction: int
    bidder: int
    price: int
    date_time: int


def date_time(event: Person | Auction | Bid) -> int:
    """Event time."""
    return event.date_time


@attrs.define(slots=False)
class Events:
    """The streams of a dataflow; each is there if a query asks for it."""

    flow: Dataflow
    markers = every(seconds=1, time=date_time, unit="ms")

    @cached_property
    def persons(self) -> Stream[U[int, Person]]:
        """By their number."""
        return self.flow.source("persons", U[int, Person], key=lambda person: person.id, markers=self.markers)

    @cached_property
    def auctions(self) -> Stream[U[int, Auction]]:
        """By their number."""
        return self.flow.source("auctions", U[int, Auction], key=lambda auction: auction.id, markers=self.markers)

    @cached_property
    def bids(self) -> Stream[U[int, Bid]]:
        """By their auction."""
        return self.flow.source("bids", U[int, Bid], key=lambda bid: bid.auction, markers=self.markers)

    @cached_property
    def sales(self) -> Stream[O[int, Sale]]:
        """Auctions that have ended with a winner."""
        during = interval_join(
            self.auctions, self.bids, before=0, after=LONGEST, left_time=date_time, right_time=date_time, unit="ms"
        )
        return during.through(Winner())


def query_0(events: Events) -> Stream[U[int, Bid]]:
    """Pass through."""
    return events.bids


@attrs.frozen
class BidInEuros:
    """A bid whose price is in euro cents."""

    auction: int
    bidder: int
    price: float
    date_time: int


def in_euros(bid: Bid) -> BidInEuros:
    """At a fixed rate."""
    return BidInEuros(bid.auction, bid.bidder, 0.908 * bid.price, bid.date_time)


def query_1(events: Events) -> Stream[U[int, BidInEuros]]:
    """Currency conversion: bids in euros."""
    return events.bids.through(map_values(in_euros))


def query_2(events: Events) -> Stream[U[int, Bid]]:
    """Selection: bids for auctions of some numbers."""
    return events.bids.through(filter(lambda auction, _: auction % 123 == 0))


@attrs.frozen
class Suggestion:
    """Who offers an item nearby."""

    name: str
    city: str
    state: str
    auction: int


NEAR = 20
"""Seconds between a person's and an auction's block that query 3 joins at most, and so keeps both."""


def suggestion(pair: Joined[Person, Auction]) -> Suggestion:
    """A pair as a suggestion."""
    return Suggestion(pair.left.name, pair.left.city, pair.left.state, pair.right.id)


def query_3(events: Events) -> Stream[U[int, Suggestion]]:
    """Local item suggestion: who sells items of category 10 in Oregon, Idaho and California; a person may come before or after
    the auction."""
    local = events.persons.through(filter(lambda _, person: person.state in ("OR", "ID", "CA")))
    of_category = events.auctions.through(filter(lambda _, auction: auction.category == 10))
    by_seller = of_category.through(key_by(lambda _, auction: auction.seller, to=int))
    return equi_join(local, by_seller, within=NEAR).through(map_values(suggestion))


LONGEST = dt.timedelta(seconds=60)
"""How long an auction lasts at most."""


@attrs.frozen
class Sale:
    """An auction that has ended, at the price of its highest bid."""

    auction: int
    seller: int
    category: int
    price: int
    expires: int


@attrs.frozen
class Winner(OpKeyedOrdered[int, Joined[Auction, Bid], Sale, Sale | None]):
    """The highest bid of an auction, at the first marker after its end."""

    def initial_state(self) -> Sale | None:
        return None

    def on_item(self, state: Sale | None, key: int, value: Joined[Auction, Bid], emit: EmitValue[Sale]) -> Sale | None:
        auction, bid = value.left, value.right
        if bid.date_time > auction.expires or bid.price < (auction.reserve if state is None else state.price):
            return state
        return Sale(key, auction.seller, auction.category, bid.price, auction.expires)

    def on_marker(self, state: Sale | None, key: int, marker: Marker, emit: EmitValue[Sale]) -> Sale | None:
        if state is None or marker.micros <= state.expires * 1_000:
            return state
        emit(state)
        return None

    def linger(self) -> dt.timedelta:
        return LONGEST

    def next_due(self, state: Sale | None, key: int) -> int | None:
        return None if state is None else state.expires * 1_000 + 1


def query_4(events: Events) -> Stream[U[int, float]]:
    """Average price for a category: of all sales so far, whenever there is a new one."""
    by_category = events.sales.through(key_by(lambda _, sale: sale.category, to=int))
    return by_category.through(running(mean(lambda sale: sale.price)))


@attrs.frozen
class Bids:
    """How many bids an auction has in a window."""

    auction: int
    bids: int
    end: dt.datetime


def in_window(auction: int, window: Windowed[int]) -> tuple[Unit, Bids]:
    """A count with what it is the count of, beside those of the other auctions."""
    return UNIT, Bids(auction, window.value, window.end)


def query_5(events: Events) -> Stream[U[Unit, Bids]]:
    """Hot items: the auctions with the most bids of a window, all that tie."""
    counts = events.bids.through(sliding(count(), size=10, slide=5, ends=True)).through(map(in_window))
    return counts.through(aggregate(last(by=lambda one: one.bids, ties=True))).through(explode())


def query_6(events: Events) -> Stream[O[int, float]]:
    """Average selling price of a seller: of the last ten sales, after each."""
    by_seller = events.sales.through(key_by(lambda _, sale: sale.seller, to=int))
    in_order = by_seller.through(sort(by=lambda sale: (sale.expires, sale.auction)))
    return in_order.through(count_window(mean(lambda sale: sale.price), items=10, slide=1))


def query_7(events: Events) -> Stream[U[Unit, Bid]]:
    """Highest bid: of each window, all that tie."""
    together = events.bids.through(key_by(lambda *_: UNIT, to=Unit))
    return together.through(tumbling(last(by=lambda bid: bid.price, ties=True), size=10)).through(explode())


def query_8(events: Events) -> Stream[U[int, Person]]:
    """Monitor new users: who came and offered something within one window."""
    by_seller = events.auctions.through(key_by(lambda _, auction: auction.seller, to=int))
    return window_join(events.persons, by_seller, size=10, how="semi")


def dataflow(*numbers: int) -> Dataflow:
    """A dataflow with these queries."""
    queries: list[Callable[[Events], Stream[Any]]] = [
        query_0,
        query_1,
        query_2,
        query_3,
        query_4,
        query_5,
        query_6,
        query_7,
        query_8,
    ]
    graph = Dataflow("nexmark")
    events = Events(graph)
    for number in numbers:
        graph.sink(f"query_{number}", queries[number](events), marker="at")
    return graph


flow = dataflow(*range(9))
