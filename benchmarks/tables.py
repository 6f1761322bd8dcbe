"""What frames, as-of joins, gap filling and statistics cost on the local backend, beside DuckDB's batch answer.

    python -m benchmarks.tables [--items N] [--keys N] [--cases NAME,NAME] [--repeat N] [--parallelism N]

Items of Parquet files, nearly in the order of their times, with a marker a minute; no two of a key have one time. Prints a JSON
line for each case, medians of ``--repeat`` runs: ``ours`` and ``duckdb`` are million items a second by wall clock, Parquet to
Parquet, with ``--parallelism`` threads; ``ratio`` is the time of ours over that of DuckDB. The items of both sides of a join
count. Before anything is timed, both sides must have as many rows and the same sums of their numbers.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tracetypes
from benchmarks._compare import say, scratch, versions
from benchmarks.ordered_operators import answer
from tracetypes import Dataflow, U, every, sort
from tracetypes import stdlib as ts

FILES: Final = 4
START: Final = 1_700_000_000
STEP: Final = 2
"""Seconds between two items of a key."""


@attrs.frozen
class Tick:
    """An item. ``at``: seconds."""

    at: int
    size: int
    price: float


@attrs.frozen
class Framed:
    """What frames are computed."""

    at: int
    before: int | None
    of_rows: int
    mean: float


@attrs.frozen
class Ahead:
    """An item with the one behind it."""

    at: int
    behind: int | None


@attrs.frozen
class Statistics:
    """Of a minute."""

    deviation: float
    correlation: float
    middle: float


def at(tick: Tick) -> int:
    """Its time."""
    return tick.at


def size(tick: Tick) -> int:
    """Its size."""
    return tick.size


def price(tick: Tick) -> float:
    """Its price."""
    return tick.price


def made(before: Tick, second: int, number: float) -> Tick:
    """A tick for a gap."""
    return Tick(second, before.size, number)


def frames(ticks: Any) -> Any:
    """A lag, a frame of rows and one of time."""
    columns: dict[str, Any] = {
        "at": ts.current(at),
        "before": ts.lag(size),
        "of_rows": ts.frame(ts.sum(size), rows=9),
        "mean": ts.frame(ts.mean(size), seconds=60, time=at),
    }
    return ticks.through(sort(by=at)).through(ts.over(Framed, **columns))


def few_rows(ticks: Any) -> Any:
    """A lag, a frame of rows and one of all."""
    columns: dict[str, Any] = {
        "at": ts.current(at),
        "before": ts.lag(size),
        "of_rows": ts.frame(ts.sum(size), rows=9),
        "mean": ts.frame(ts.mean(size)),
    }
    return ticks.through(sort(by=at)).through(ts.over(Framed, **columns))


def leads(ticks: Any) -> Any:
    """The item behind each item."""
    columns: dict[str, Any] = {"at": ts.current(at), "behind": ts.lead(size, wait=3600, time=at)}
    return ticks.through(sort(by=at)).through(ts.over(Ahead, **columns))


def as_of(**how: Any) -> Callable[[Any, Any], Any]:
    """An as-of join."""

    def join(left: Any, right: Any) -> Any:
        joined = ts.asof_join(left, right, left_time=at, right_time=at, **how)
        return joined.through(ts.map_values(pair_of, to=Ahead))

    return join


def pair_of(pair: Any) -> Ahead:
    """The time of a left item, and the size of its partner."""
    return Ahead(pair.left.at, None if pair.right is None else pair.right.size)


MINUTE: Final = ts.struct(
    Statistics, deviation=ts.stddev(price), correlation=ts.correlation(size, price), middle=ts.median(price)
)

ASOF = "SELECT l.key, l.t AS ts, r.size AS behind FROM rows l ASOF {kind} JOIN more r ON l.key = r.key AND l.t {sign} r.t"
OVER = "OVER (PARTITION BY key ORDER BY t{})"

CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "frames": (
        frames,
        f"SELECT key, t AS ts, lag(size) {OVER.format('')} AS before, sum(size) {OVER.format(' ROWS 9 PRECEDING')}::BIGINT "
        f"AS of_rows, avg(size) {OVER.format(' RANGE 60 PRECEDING')} AS mean FROM rows",
    ),
    "frames of rows": (
        few_rows,
        f"SELECT key, t AS ts, lag(size) {OVER.format('')} AS before, sum(size) {OVER.format(' ROWS 9 PRECEDING')}::BIGINT "
        f"AS of_rows, avg(size) {OVER.format(' ROWS UNBOUNDED PRECEDING')} AS mean FROM rows",
    ),
    "lead": (leads, f"SELECT key, t AS ts, lead(size) {OVER.format('')} AS behind FROM rows"),
    "frame of rows, count_window": (
        lambda ticks: ticks.through(sort(by=at)).through(ts.count_window(ts.sum(size), items=10, slide=1)),
        f"SELECT key, sum(size) {OVER.format(' ROWS 9 PRECEDING')}::BIGINT AS value FROM rows",
    ),
    "as-of": (as_of(), ASOF.format(kind="LEFT", sign=">=")),
    "as-of, strict, inner": (as_of(strict=True, how="inner"), ASOF.format(kind="", sign=">")),
    "as-of, forward": (as_of(direction="forward", how="inner"), ASOF.format(kind="", sign="<=")),
    "gaps, last": (
        lambda ticks: ticks.through(sort(by=at)).through(ts.interpolate(time=at, number=price, make=made, method="last")),
        f"""SELECT key, unnest(range(t, coalesce(lead(t) {OVER.format("")}, t + 1))) AS ts, size, price FROM rows""",
    ),
    "statistics of a minute": (
        lambda ticks: ticks.through(ts.tumbling(MINUTE, size=60)),
        """SELECT key, stddev_samp(price) AS deviation, corr(size, price) AS correlation,
           median(price) AS middle FROM rows GROUP BY key, t // 60""",
    ),
}
"""Our operator, and DuckDB's expression."""


def write(folder: Path, items: int, keys: int, seed: int) -> None:
    """The items of a side: for each key one every other second, some of them left out."""
    chance = np.random.default_rng(seed)
    turns = -(-items * 10 // (9 * keys))
    key, turn = np.tile(np.arange(keys), turns), np.repeat(np.arange(turns), keys)
    some = np.flatnonzero(chance.random(len(key)) < 0.9)[:items]
    names = pa.array([f"key {number}" for number in range(keys)])
    columns = {
        "key": pa.DictionaryArray.from_arrays(pa.array(key[some].astype(np.int32)), names).cast(pa.string()),
        "t": START + turn[some] * STEP + seed % STEP,
        "size": chance.integers(1, 100, len(some)),
        "price": np.round(chance.random(len(some)) * 100, 2),
    }
    table = pa.table(columns).rename_columns(["key", "at", "size", "price"])
    folder.mkdir()
    for number, start in enumerate(range(0, len(table), -(-len(table) // FILES))):
        pq.write_table(table.slice(start, -(-len(table) // FILES)), folder / f"{number}.parquet")


@attrs.frozen
class Case:
    """An operator over data."""

    name: str
    data: Path
    parallelism: int

    @property
    def sources(self) -> list[str]:
        """The tables that it reads."""
        return ["rows", "more"] if self.name.startswith("as-of") else ["rows"]

    def ours(self, output: Path) -> None:
        """Run the flow."""
        flow = Dataflow("tables")
        markers: Any = every(seconds=60, time=at, delay=10)
        streams: list[Any] = [flow.source(name, U[str, Tick], markers=markers) for name in self.sources]
        flow.sink("out", CASES[self.name][0](*streams))
        inputs: dict[str, Any] = {name: self.data / name for name in self.sources}
        tracetypes.run(flow, inputs=inputs, outputs={"out": output}, backend="local", parallelism=self.parallelism)

    def duckdb(self, output: Path) -> None:
        """DuckDB's expression."""
        with duckdb.connect(config={"threads": self.parallelism}) as database:
            for name in self.sources:
                database.execute(f"CREATE VIEW {name} AS SELECT * RENAME (\"at\" AS t) FROM '{self.data / name}/*.parquet'")
            database.execute(f"COPY ({CASES[self.name][1]}) TO '{output}' (FORMAT parquet)")


def compare(case: Case) -> int:
    """Run both sides once, and compare their answers. The rows of ours."""
    with scratch() as output:
        case.ours(output / "ours.parquet")
        case.duckdb(output / "duckdb.parquet")
        (rows, sums), (others, other_sums) = answer(output / "ours.parquet"), answer(output / "duckdb.parquet")
    alike = [math.isclose(*pair, rel_tol=1e-6, abs_tol=1e-3) for pair in zip(sums, other_sums, strict=True)]
    if rows != others or not all(alike):
        raise RuntimeError(f"{case.name}: ours has {rows} rows, {sums}; DuckDB {others} rows, {other_sums}")
    return rows


def seconds_of(side: Callable[[Path], None]) -> float:
    """How long a side takes."""
    with scratch() as output:
        start = time.perf_counter()
        side(output / "out.parquet")
        return time.perf_counter() - start


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--cases", default=",".join(name.replace(",", ";") for name in CASES), help="with ; for , in a name")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--parallelism", type=int, default=2)
    given = parser.parse_args()
    say(benchmark="tables", items=given.items, keys=given.keys, parallelism=given.parallelism, **versions())
    with scratch() as data:
        for number, name in enumerate(("rows", "more")):
            write(data / name, given.items, given.keys, number)
        for name in given.cases.split(","):
            case = Case(name.replace(";", ","), data, given.parallelism)
            count, rows = given.items * len(case.sources), compare(case)
            times = [(seconds_of(case.ours), seconds_of(case.duckdb)) for _ in range(given.repeat)]
            ours, other = (statistics.median(one) for one in zip(*times, strict=True))
            rates = {"ours": round(count / ours / 1e6, 3), "duckdb": round(count / other / 1e6, 3)}
            say(case=case.name, items=count, out=rows, **rates, ratio=round(ours / other, 2))


if __name__ == "__main__":
    main()
