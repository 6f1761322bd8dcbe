"""Seeded data of Nexmark: people who offer and buy at auctions, the auctions, and the bids.

    python -m examples.nexmark_data DIR --events N --files N --seed S [--rate N] [--hot N] [--active N] [--format json]

Writes ``DIR/persons``, ``DIR/auctions`` and ``DIR/bids``, each as ``part-NNNNN.parquet`` (or ``.jsonl``). The shape is that of
Beam's generator: of 50 events one is a person, three are auctions and 46 are bids; times rise with the number of the event; three
of four auctions have a hot seller, every second bid goes to a hot auction, and three of four bids come from a hot bidder. Other
sellers, bidders and auctions are drawn from the latest ones and a few that do not exist yet. Left out: the text that pads events,
and the channels and addresses of bids.
"""

from __future__ import annotations

import argparse
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

START = 1_700_000_000_000
"""The time of the first event, ms since the epoch."""

FIRST = 1_000
"""The first number of a person and of an auction."""

PEOPLE, AUCTIONS, TOTAL = 1, 3, 50
"""Persons and auctions among so many events."""

AHEAD = 10
"""Persons and auctions that others name before they exist."""

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CATEGORIES = 5


def tables(
    events: int,
    *,
    rate: int = 10_000,
    hot: int = 100,
    active: int = 1_000,
    in_flight: int = 100,
    seed: int = 1,
    first: int = 0,
) -> dict[str, Any]:
    """Tables of Arrow: the persons, auctions and bids among so many events.

    ``rate``: events a second of event time. ``hot``: of so many persons or auctions in a row the first is hot. ``active``: how
    many persons sell and bid. ``in_flight``: how many auctions are open at a time. ``first``: the number of the first event.
    """
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng([seed, first])
    number = np.arange(first, first + events, dtype=np.int64)
    time = START + number * 1_000 // rate
    last_person = number // TOTAL
    rest = np.minimum(number % TOTAL, PEOPLE + AUCTIONS - 1)
    last_auction = np.maximum(number // TOTAL * AUCTIONS + rest - PEOPLE, 0)

    def share(hot_of: int) -> Any:
        """Which events are hot: ``hot_of - 1`` of ``hot_of``."""
        return chance.integers(0, hot_of, events) > 0

    def a_person() -> Any:
        so_far = np.minimum(last_person + 1, active)
        return last_person + 1 - so_far + chance.integers(0, so_far + AHEAD)

    def an_auction() -> Any:
        least = np.maximum(last_auction - in_flight, 0)
        return least + chance.integers(0, last_auction - least + 1 + AHEAD)

    def cents() -> Any:
        return np.round(10 ** (chance.random(events) * 6) * 100).astype(np.int64)

    def texts(*values: str) -> Any:
        return np.array(values)[chance.integers(0, len(values), events)]

    def table(where: Any, **columns: Any) -> Any:
        return pa.table({name: pa.array(column[where]) for name, column in columns.items()})

    kind = number % TOTAL
    first_name, last_name = texts(*FIRST_NAMES), texts(*LAST_NAMES)
    open_until = (number + in_flight * TOTAL // AUCTIONS) * 1_000 // rate + START
    initial = cents()
    return {
        "persons": table(
            kind < PEOPLE,
            id=FIRST + last_person,
            name=np.char.add(np.char.add(first_name, " "), last_name),
            email_address=np.char.add(np.char.lower(last_name), "@example.com"),
            credit_card=np.char.mod("%016d", chance.integers(0, 10**16, events)),
            city=texts(*CITIES),
            state=texts(*STATES),
            date_time=time,
        ),
        "auctions": table(
            (kind >= PEOPLE) & (kind < PEOPLE + AUCTIONS),
            id=FIRST + last_auction,
            item_name=np.char.mod("item %d", chance.integers(0, 1_000, events)),
            initial_bid=initial,
            reserve=initial + cents(),
            date_time=time,
            expires=time + 1 + chance.integers(0, np.maximum((open_until - time) * 2, 1)),
            seller=FIRST + np.where(share(4), last_person // hot * hot, a_person()),
            category=10 + chance.integers(0, CATEGORIES, events),
        ),
        "bids": table(
            kind >= PEOPLE + AUCTIONS,
            auction=FIRST + np.where(share(2), last_auction // hot * hot, an_auction()),
            bidder=FIRST + np.where(share(4), last_person // hot * hot + 1, a_person()),
            price=cents(),
            date_time=time,
        ),
    }


def write(directory: Path, events: int, *, files: int = 8, format: str = "parquet", **options: int) -> None:
    """Write so many events, ``files`` files of each kind. ``format``: ``"parquet"``, or ``"json"`` for JSON lines. ``given``: as
    in :func:`tables`."""
    import pyarrow.parquet as pq

    bounds = [events * n // files for n in range(files + 1)]
    for n, (begin, end) in enumerate(pairwise(bounds)):
        for name, table in tables(end - begin, first=begin, **options).items():
            path = directory / name / f"part-{n:05d}.{'parquet' if format == 'parquet' else 'jsonl'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if format == "parquet":
                pq.write_table(table, path)
            else:
                path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
            os.utime(path, (START // 1_000 + n, START // 1_000 + n))  # files are taken in the order of these times


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    parser.add_argument("--hot", type=int, default=100, help="of so many persons or auctions in a row the first is hot")
    parser.add_argument("--active", type=int, default=1_000, help="persons who sell and bid")
    parser.add_argument("--in-flight", type=int, default=100, help="auctions that are open at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=["parquet", "json"], default="parquet")
    options = vars(parser.parse_args())
    directory, events = options.pop("directory"), options.pop("events")
    write(directory, events, **options)
    print(f"{events:,} events in {directory}")


if __name__ == "__main__":
    main()
