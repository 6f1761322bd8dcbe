"""Seeded data of the Yahoo Streaming Benchmark: events of users who look at advertisements, and the tables behind them.

    python -m examples.yahoo_data DIR --events N --files N --seed S [--users N] [--keys N] [--skew] [--format json]

Writes ``DIR/events/part-NNNNN.parquet`` (or ``.jsonl``) and the SQLite database ``DIR/reference.sqlite`` with the tables
``ads(ad_id, campaign_id)`` and ``users(user_id, location)``. The shape is that of the published generator: 100 campaigns of
10 advertisements, 100 users, 100 pages, uniform draws; ``--skew`` moves each event by up to 50 ms and one in 100,000 back by
up to 60 s. Locations are not public: they are drawn too, as numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import uuid
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import attrs

START = 1_700_000_000_000
"""The time of the first event, ms since the epoch."""

AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENT_TYPES = ("view", "click", "purchase")
SKEW, LATE, LATEST = 50, 1 / 100_000, 60_000
"""Of ``--skew``: milliseconds to and fro, the share of late events, and how late they are at most (ms)."""


@attrs.frozen
class Tables:
    """What the database holds. ``campaign_of``: the campaign of each advertisement; ``location_of``: the number of the place
    where a user lives."""

    campaign_of: dict[str, str]
    location_of: dict[str, int]

    def write(self, path: Path) -> None:
        """Write the SQLite database."""
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE ads (ad_id TEXT PRIMARY KEY, campaign_id TEXT NOT NULL)")
            database.execute("CREATE TABLE users (user_id TEXT PRIMARY KEY, location INTEGER NOT NULL)")
            database.executemany("INSERT INTO ads VALUES (?, ?)", self.campaign_of.items())
            database.executemany("INSERT INTO users VALUES (?, ?)", self.location_of.items())

    @classmethod
    def read(cls, path: Path) -> Tables:
        """Read a database that :meth:`write` wrote. Raises sqlite3.Error when it is not there."""
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            campaigns = dict(database.execute("SELECT ad_id, campaign_id FROM ads"))
            locations = dict(database.execute("SELECT user_id, location FROM users"))
        return cls(campaigns, locations)


def tables(*, users: int = 100, campaigns: int = 100, ads: int = 10, locations: int = 50, seed: int = 1) -> Tables:
    """Seeded tables; ``ads`` of each campaign."""
    chance = random.Random(seed)

    def identifier() -> str:
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))

    campaign_ids = [identifier() for _ in range(campaigns)]
    campaign_of = {identifier(): campaign for campaign in campaign_ids for _ in range(ads)}
    return Tables(campaign_of, {identifier(): chance.randrange(locations) for _ in range(users)})


def write_events(
    directory: Path,
    known: Tables,
    *,
    events: int,
    files: int = 8,
    rate: int = 20_000,
    pages: int = 100,
    skew: bool = False,
    format: str = "parquet",
    seed: int = 1,
) -> None:
    """Write ``events`` events, ``rate`` a second of event time, in order of their times but for ``skew``.

    ``format``: ``"parquet"``, or ``"json"`` for JSON lines. Columns: all text, but ``event_time`` (ms, 64 bit).
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(seed)
    names = random.Random(seed + 1)
    page_ids = [str(uuid.UUID(int=names.getrandbits(128), version=4)) for _ in range(pages)]
    addresses = [".".join(str(names.randrange(256)) for _ in range(4)) for _ in range(1_000)]
    texts = {
        "user_id": list(known.location_of),
        "page_id": page_ids,
        "ad_id": list(known.campaign_of),
        "ad_type": list(AD_TYPES),
        "event_type": list(EVENT_TYPES),
        "ip_address": addresses,
    }
    bounds = [events * n // files for n in range(files + 1)]
    for n, (first, after) in enumerate(pairwise(bounds)):
        count = after - first
        times = START + np.arange(first, after, dtype=np.int64) * 1_000 // rate
        if skew:
            times += chance.integers(-SKEW, SKEW + 1, count)
            late = chance.random(count) < LATE
            times[late] -= chance.integers(0, LATEST, int(late.sum()))
        columns = {
            name: pa.DictionaryArray.from_arrays(
                pa.array(chance.integers(0, len(drawn), count, dtype=np.int32)), pa.array(drawn)
            ).cast(pa.string())
            for name, drawn in texts.items()
        }
        order = ["user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address"]
        table = pa.table({name: columns.get(name, times) for name in order})
        path = directory / f"part-{n:05d}.{'parquet' if format == 'parquet' else 'jsonl'}"
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
    parser.add_argument("--rate", type=int, default=20_000, help="events a second of event time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", "--keys", type=int, default=100)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--locations", type=int, default=50)
    parser.add_argument("--skew", action="store_true", help="events out of order, and a few late")
    parser.add_argument("--format", choices=["parquet", "json"], default="parquet")
    given = parser.parse_args()
    known = tables(users=given.users, locations=given.locations, seed=given.seed)
    write_events(
        given.directory / "events",
        known,
        events=given.events,
        files=given.files,
        rate=given.rate,
        pages=given.pages,
        skew=given.skew,
        format=given.format,
        seed=given.seed,
    )
    known.write(given.directory / "reference.sqlite")
    print(f"{given.events:,} events in {given.directory / 'events'}, tables in {given.directory / 'reference.sqlite'}")


if __name__ == "__main__":
    main()
