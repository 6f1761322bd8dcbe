"""Seeded data of TPCx-BB (BigBench), of the tables and columns that queries 1, 2, 3, 4 and 15 read.

    python -m examples.tpcx_bb_data DIR --clicks N --lines N --days N --files N --seed S [--users N] [--items N] [--hot P]

Writes ``DIR/web_clickstreams`` and ``DIR/store_sales`` as ``part-NNNNN.parquet`` (or ``.jsonl``), in the order of their
times, ``DIR/item.parquet`` and ``DIR/web_page.parquet``. As in the published generator at scale factor 1: the names of
columns, the numbers of items, categories, stores and pages, tickets of 1 to 14 lines, and the three items that are frequent
everywhere. A user's clicks come in visits: pages with items, then perhaps the cart, perhaps an order. Every fifth visit is of
nobody known. Left out: all other columns. Prices are cents, not decimals.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import attrs

DAY = 86_400

EPOCH = 25_567
"""The number of 1970-01-01: date 0 is 1900-01-01."""

START = 37_134
"""The number of the first day, 2001-09-02: there begins the year of query 15."""

CATEGORIES, STORES, PAGES = 10, 12, 60
FREQUENT = (10_000, 10_001, 10_002)
"""Items that are frequent at any scale."""

TYPES = ("general", "review", "dynamic", "general", "review", "order", "welcome", "protected", "feedback", "ad")
"""Of pages, in turns."""


@attrs.frozen
class Tables:
    """The tables that streams are joined with. ``category_of``: of each item; ``type_of``: of each page."""

    category_of: dict[int, int]
    type_of: dict[int, str]


def tables(*, items: int = 18_000, seed: int = 1) -> Tables:
    """Items and pages. Categories are drawn, but for the frequent items, which are of categories 1, 2 and 3."""
    import numpy as np

    drawn = np.random.default_rng([seed, 0]).integers(1, CATEGORIES + 1, items)
    categories = {number: int(one) for number, one in enumerate(drawn, 1)}
    return Tables(
        {**categories, **{item: place for place, item in enumerate(FREQUENT, 1)}},
        {page: TYPES[page % len(TYPES)] for page in range(1, PAGES + 1)},
    )


def frequent(chance: Any, size: int, items: int, share: float) -> Any:
    """Item numbers: of the frequent ones in ``share`` of all cases, else any, the first ones more often."""
    import numpy as np

    any_item = 1 + (items * chance.random(size) ** 2).astype(np.int64)
    return np.where(chance.random(size) < share, np.array(FREQUENT)[chance.integers(0, len(FREQUENT), size)], any_item)


def store_sales(lines: int, *, days: int = 30, items: int = 18_000, hot: float = 0.05, seed: int = 1) -> Any:
    """A table of Arrow: so many lines of tickets. The sales of a category rise or fall over the days, each at its own rate.
    ``hot``: the share of lines with a frequent item."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng([seed, 1])
    sizes = chance.integers(1, 15, lines)
    ticket = np.repeat(np.arange(1, lines + 1), sizes)[:lines]
    time = START * DAY + ticket * (days * DAY - 1) // int(ticket[-1])
    item = frequent(chance, lines, items, hot)
    category_of = tables(items=items, seed=seed).category_of
    category = np.array([category_of[one] for one in item.tolist()])
    slope = (category - (CATEGORIES + 1) / 2) / CATEGORIES  # from -0.45 to 0.45
    factor = 1 + slope * (2 * (time / DAY - START) / days - 1)
    return pa.table(
        {
            "ss_sold_date_sk": time // DAY,
            "ss_sold_time_sk": time % DAY,
            "ss_item_sk": item,
            "ss_store_sk": 1 + chance.integers(0, STORES, lines)[ticket - 1],
            "ss_ticket_number": ticket,
            "ss_net_paid": np.round(chance.integers(100, 20_000, lines) * factor).astype(np.int64),
        }
    )


def web_clickstreams(
    clicks: int, *, days: int = 30, users: int = 100_000, items: int = 18_000, hot: float = 0.05, seed: int = 1
) -> Any:
    """A table of Arrow: so many clicks. A visit has 2 to 40 clicks, some minutes apart; one break in fifty lasts about
    an hour."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng([seed, 2])
    sizes = np.minimum(1 + chance.geometric(0.15, clicks), 40)
    visit = np.repeat(np.arange(clicks), sizes)[:clicks]
    first = np.concatenate([[True], visit[1:] != visit[:-1]])
    last = np.concatenate([first[1:], [True]])
    place = np.arange(clicks) - np.flatnonzero(first)[visit]
    breaks = np.where(chance.random(clicks) < 0.02, 3_000 + chance.integers(0, 2_000, clicks), chance.integers(5, 400, clicks))
    passed = np.cumsum(np.where(first, 0, breaks))
    passed -= passed[np.flatnonzero(first)][visit]
    begin = np.sort(chance.integers(0, days * DAY, int(visit[-1]) + 1))
    time = START * DAY + np.minimum(begin[visit] + passed, days * DAY - 1)

    by_type = {name: np.array([p for p, one in tables(seed=seed).type_of.items() if one == name]) for name in set(TYPES)}

    def page(name: str) -> Any:
        return by_type[name][chance.integers(0, len(by_type[name]), clicks)]

    kind = chance.random(int(visit[-1]) + 1)[visit]  # one visit of three fills a cart, half of these order
    cart, order = (kind < 1 / 3) & (place * 2 >= sizes[visit]), (kind < 1 / 6) & last
    looks = np.where(chance.random(clicks) < 0.5, page("review"), page("general"))
    user = np.where(chance.random(clicks) < 0.2, -1, chance.integers(1, users + 1, clicks))[visit]
    item = frequent(chance, clicks, items, hot)
    columns: dict[str, Any] = {
        "wcs_click_date_sk": pa.array(time // DAY),
        "wcs_click_time_sk": pa.array(time % DAY),
        "wcs_sales_sk": pa.array(np.arange(1, clicks + 1), mask=~order | (user < 0)),
        "wcs_item_sk": pa.array(item, mask=~order & (chance.random(clicks) < 0.1)),
        "wcs_web_page_sk": pa.array(
            np.where(order, page("order"), np.where(cart, page("dynamic"), looks)), mask=chance.random(clicks) < 0.01
        ),
        "wcs_user_sk": pa.array(user, mask=user < 0),
    }
    return pa.table(columns).take(pa.array(np.argsort(time, kind="stable")))


def write(
    directory: Path,
    *,
    clicks: int,
    lines: int,
    days: int = 30,
    users: int = 100_000,
    items: int = 18_000,
    hot: float = 0.05,
    files: int = 8,
    seed: int = 1,
    format: str = "parquet",
) -> None:
    """Write all tables, the streams in so many files each. ``format``: ``"parquet"``, or ``"json"`` for JSON lines."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    streams = {
        "web_clickstreams": web_clickstreams(clicks, days=days, users=users, items=items, hot=hot, seed=seed),
        "store_sales": store_sales(lines, days=days, items=items, hot=hot, seed=seed),
    }
    for name, table in streams.items():
        (directory / name).mkdir(parents=True, exist_ok=True)
        for n in range(files):
            begin, end = table.num_rows * n // files, table.num_rows * (n + 1) // files
            path = directory / name / f"part-{n:05d}.{'parquet' if format == 'parquet' else 'jsonl'}"
            part = table.slice(begin, end - begin)
            if format == "parquet":
                pq.write_table(part, path)
            else:
                path.write_text("".join(f"{json.dumps(row)}\n" for row in part.to_pylist()))
            at = (START - EPOCH) * DAY + n
            os.utime(path, (at, at))  # files are taken in the order of these times
    for name, table in reference(tables(items=items, seed=seed)).items():
        pq.write_table(pa.table(table), directory / f"{name}.parquet")


def reference(those: Tables) -> dict[str, Any]:
    """The tables of items and pages, as tables of Arrow."""
    import pyarrow as pa

    return {
        "item": pa.table({"i_item_sk": list(those.category_of), "i_category_id": list(those.category_of.values())}),
        "web_page": pa.table({"wp_web_page_sk": list(those.type_of), "wp_type": list(those.type_of.values())}),
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--clicks", type=int, default=100_000)
    parser.add_argument("--lines", type=int, default=100_000, help="lines of tickets")
    parser.add_argument("--days", type=int, default=30, help="of event time")
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--items", type=int, default=18_000)
    parser.add_argument("--hot", type=float, default=0.05, help="the share of frequent items")
    parser.add_argument("--files", type=int, default=8, help="of each stream")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=["parquet", "json"], default="parquet")
    options = vars(parser.parse_args())
    directory = options.pop("directory")
    write(directory, **options)
    print(f"{options['clicks']:,} clicks and {options['lines']:,} lines in {directory}")


if __name__ == "__main__":
    main()
