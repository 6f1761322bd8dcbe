"""A seeded web log in the combined log format: visits out of order, some of them far too late, and lines that are cut off.

    python -m examples.web_log_data DIR --visits N --files N --seed S [--rate N] [--visitors N] [--late N] [--cut N]

Writes ``DIR/part-NNNNN.log``. At any moment some visitors are on the site. After ``STAY`` seconds others take their places, and
they come back later, so that a visitor has several sessions. One of three has logged in. A line comes up to ``DISORDER`` seconds
behind its time, and one of ``late`` visits ``TOO_LATE`` seconds behind it. Behind every ``cut`` lines comes one that is cut off.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

START = 1_700_002_800
"""The time of the first visit, seconds since the epoch: a full hour."""

DISORDER = 100
"""Seconds: less than ``examples.web_log.DELAY``."""

TOO_LATE = 5_000
"""Seconds."""

STAY = 1_200
"""Seconds that a visitor is on the site."""

PAGES = ("/", "/news", "/shop?page=2", "/shop/tea", "/shop/milk", "/shop/salt", "/basket", "/pay", "/about", "/login")
REFERRERS = ("-", "https://search.example/?q=tea", "https://news.example/", 'https://old.example/\\"quoted\\"')
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0", "Mozilla/5.0 (iPhone) Safari/604.1", "-")
STATUSES = (200, 200, 200, 200, 200, 200, 304, 302, 404, 500)
ZONES = (0, 3_600, -25_200)
"""Seconds by which the clocks of the servers differ from UTC; each line says so."""


def table(
    visits: int, *, rate: int = 1_200, visitors: int = 2_000, active: int = 200, late: int = 1_000, seed: int = 1, first: int = 0
) -> Any:
    """A table of Arrow: so many visits in the order in which their lines come.

    ``rate``: visits a minute of event time. ``active``: how many of the ``visitors`` are on the site at a time. ``late``: one of
    so many visits is far too late; 0 for none. ``first``: the number of the first visit.
    """
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng([seed, first])
    time = START + np.arange(first, first + visits, dtype=np.int64) * 60 // rate
    moved = (time - START) * active // STAY
    visitor = (moved + chance.integers(0, active, visits)) % visitors
    page = np.minimum(chance.geometric(0.3, visits) - 1, len(PAGES) - 1)
    status = np.array(STATUSES)[chance.integers(0, len(STATUSES), visits)]
    size = np.where(status < 300, chance.integers(100, 50_000, visits), 0)
    behind = chance.integers(0, DISORDER + 1, visits)
    if late:
        behind = np.where(chance.integers(0, late, visits) == 0, TOO_LATE, behind)
    order = np.argsort(time + behind, kind="stable")
    columns = {
        "visitor": visitor,
        "time": time,
        "page": np.array(PAGES)[page],
        "status": status,
        "bytes": size,
        "referrer": np.array(REFERRERS)[chance.integers(0, len(REFERRERS), visits)],
        "agent": np.array(AGENTS)[visitor % len(AGENTS)],
        "zone": np.array(ZONES)[visitor % len(ZONES)],
    }
    return pa.table({name: pa.array(column[order]) for name, column in columns.items()})


def name_of(visitor: int) -> str:
    """How the answer names a visitor: the user, or the host of one who has not logged in."""
    return host_of(visitor) if visitor % 3 else f"user-{visitor}"


def host_of(visitor: int) -> str:
    """An address."""
    return f"10.{visitor >> 16 & 255}.{visitor >> 8 & 255}.{visitor & 255}"


@lru_cache(maxsize=100_000)
def stamp(time: int, zone: int) -> str:
    """A time as servers write it."""
    return dt.datetime.fromtimestamp(time, dt.timezone(dt.timedelta(seconds=zone))).strftime("%d/%b/%Y:%H:%M:%S %z")


def lines(visits: Any, *, cut: int = 0) -> Iterator[str]:
    """The lines of a table. ``cut``: behind every so many lines comes one that is cut off."""
    columns = [visits[name].to_pylist() for name in visits.column_names]
    for number, (visitor, time, page, status, size, referrer, agent, zone) in enumerate(zip(*columns, strict=True), 1):
        user = "-" if visitor % 3 else f"user-{visitor}"
        request = f'"GET {page} HTTP/1.1" {status} {size or "-"}'
        line = f'{host_of(visitor)} - {user} [{stamp(time, zone)}] {request} "{referrer}" "{agent}"'
        yield line
        if cut and number % cut == 0:
            yield line[: 20 + number % 60]


def write(directory: Path, visits: int, *, files: int = 8, cut: int = 1_000, **options: int) -> None:
    """Write the lines of so many visits. ``options``: those of :func:`table`."""
    directory.mkdir(parents=True, exist_ok=True)
    whole = table(visits, **options)
    for n in range(files):
        begin, end = visits * n // files, visits * (n + 1) // files
        write_lines(directory / f"part-{n:05d}.log", lines(whole.slice(begin, end - begin), cut=cut), n)


def write_lines(path: Path, some: Iterable[str], number: int) -> None:
    """A file; a run takes files in the order of their times."""
    path.write_text("".join(f"{line}\n" for line in some))
    os.utime(path, (START + number, START + number))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--visits", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rate", type=int, default=1_200, help="visits a minute of event time")
    parser.add_argument("--visitors", type=int, default=2_000)
    parser.add_argument("--active", type=int, default=200, help="visitors who are on the site at a time")
    parser.add_argument("--late", type=int, default=1_000, help="one of so many visits comes far too late; 0: none")
    parser.add_argument("--cut", type=int, default=1_000, help="behind so many lines comes one that is cut off; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    options = vars(parser.parse_args())
    directory, visits = options.pop("directory"), options.pop("visits")
    write(directory, visits, **options)
    print(f"{visits:,} visits in {directory}")


if __name__ == "__main__":
    main()
