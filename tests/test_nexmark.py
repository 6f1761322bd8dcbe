"""Nexmark, queries 0 to 8: the definition against a recount by DuckDB, and the generator."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest

from examples import nexmark, nexmark_data
from examples.nexmark import Auction, Bid, Person
from tests.stdlib.small import by_marker
from tracetypes import Unit, check, interpret_rows
from tracetypes.testing import law_tests

duckdb: Any = pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")

Rows = Counter[tuple[Any, ...]]

SMALL = {"rate": 50, "hot": 10, "active": 40, "in_flight": 20}
"""A minute of 3,000 events in which hot keys change, auctions end, and some joins miss their bound."""

DEAREST = 1_000_000
"""Cents: a fifth of the bids offer more; cut down to it they tie."""


def generated(seed: int, *, ties: bool = False) -> dict[str, Any]:
    """Tables of Arrow by source. ``ties``: of bids that are as high."""
    tables = nexmark_data.tables(3_000, seed=seed, **SMALL)
    if ties:
        prices = pa.array([min(price, DEAREST) for price in tables["bids"]["price"].to_pylist()])
        tables["bids"] = tables["bids"].set_column(2, "price", prices)
    return tables


def rows_of(tables: dict[str, Any]) -> dict[str, list[Any]]:
    """The same as records."""
    kinds: dict[str, Any] = {"persons": Person, "auctions": Auction, "bids": Bid}
    return {name: [kinds[name](**row) for row in table.to_pylist()] for name, table in tables.items()}


SALES = """
    SELECT a.id, a.seller, a.category, max(b.price) AS price, a.expires, marker(a.expires) AS due
    FROM auctions a JOIN bids b ON a.id = b.auction
    WHERE b.date_time BETWEEN a.date_time AND a.expires AND b.price >= a.reserve GROUP BY ALL
    """

QUERIES = (
    "SELECT marker(date_time), auction, auction, bidder, price, date_time FROM bids",
    "SELECT marker(date_time), auction, auction, bidder, 0.908::DOUBLE * price, date_time FROM bids",
    "SELECT marker(date_time), auction, auction, bidder, price, date_time FROM bids WHERE auction % 123 = 0",
    """
    SELECT marker(greatest(p.date_time, a.date_time)), p.id, p.name, p.city, p.state, a.id
    FROM auctions a JOIN persons p ON a.seller = p.id
    WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA') AND abs(marker(a.date_time) - marker(p.date_time)) <= 20
    """,
    f"""
    WITH each AS (SELECT due, category, sum(price) AS total, count(*) AS sales FROM ({SALES}) GROUP BY ALL)
    SELECT due, category, sum(total) OVER past / sum(sales) OVER past
    FROM each WINDOW past AS (PARTITION BY category ORDER BY due)
    """,
    """
    WITH windows AS (SELECT *, unnest([5, 10]) + date_time // 5000 * 5 AS until FROM bids)
    SELECT until, NULL, auction, count(*), make_timestamp(until * 1000000) FROM windows GROUP BY auction, until
    QUALIFY rank() OVER (PARTITION BY until ORDER BY count(*) DESC) = 1
    """,
    f"""
    SELECT due, seller, row_number() OVER (PARTITION BY seller ORDER BY expires, id),
        avg(price) OVER (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
    FROM ({SALES})
    """,
    """
    WITH windows AS (SELECT *, date_time // 10000 * 10 + 10 AS until FROM bids)
    SELECT until, NULL, auction, bidder, price, date_time FROM windows
    QUALIFY price = max(price) OVER (PARTITION BY until)
    """,
    """
    SELECT DISTINCT p.date_time // 10000 * 10 + 10, p.id, p.*
    FROM persons p JOIN auctions a ON p.id = a.seller AND p.date_time // 10000 = a.date_time // 10000
    """,
)
"""The marker of each result in seconds, its key (NULL: there is none), and its value; in query 6 also its place among those of
its key."""


def wanted(number: int, tables: dict[str, Any]) -> Rows:
    """What DuckDB says."""
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        database.execute("CREATE MACRO marker(ms) AS ms // 1000 + 1")
        return Counter(database.execute(QUERIES[number]).fetchall())


def shown(number: int, key: Any, values: list[Any]) -> list[tuple[Any, ...]]:
    """Results of a key in their order as DuckDB shows them, without the marker. Its times have no zone."""
    name = None if isinstance(key, Unit) else key
    if number == 6:
        return [(name, place, value) for place, value in enumerate(values, 1)]
    if number == 4:
        return [(name, value) for value in values]
    records = [attrs.asdict(value) for value in values]
    return [(name, *(v.replace(tzinfo=None) if k == "end" else v for k, v in one.items())) for one in records]


def found(number: int, elements: Any) -> Rows:
    """What the definition says."""
    rows: Rows = Counter()
    past: dict[Any, list[Any]] = {}
    for (at, key), values in sorted(by_marker(elements).items(), key=lambda pair: pair[0][0]):
        before = past.setdefault(key, [])
        rows.update((at, *row) for row in shown(number, key, [*before, *values])[len(before) :])
        before += values
    return rows


def definition(tables: dict[str, Any]) -> dict[str, Any]:
    """The trace of each sink."""
    traces, arranged = interpret_rows(check(nexmark.flow), rows_of(tables))
    assert not any(one.late or one.rejects for one in arranged.values())
    return traces


@pytest.fixture(scope="module", params=[False, True], ids=["as drawn", "with ties"])
def world(request: pytest.FixtureRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables, and the trace of each sink."""
    tables = generated(4, ties=request.param)
    return tables, definition(tables)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_all_queries_are_what_duckdb_counts(seed: int) -> None:
    for ties in (False, True):
        tables = generated(seed, ties=ties)
        traces = definition(tables)
        assert [found(n, traces[f"query_{n}"].items) == wanted(n, tables) for n in range(9)] == [True] * 9


@pytest.mark.parametrize("number", range(9))
def test_a_query_is_what_duckdb_counts(world: tuple[dict[str, Any], dict[str, Any]], number: int) -> None:
    tables, traces = world
    expected = wanted(number, tables)
    assert found(number, traces[f"query_{number}"].items) == expected
    assert expected.total() >= (2_760, 2_760, 5, 5, 50, 13, 50, 6, 10)[number]


def test_what_is_counted_has_all_that_the_queries_distinguish() -> None:
    """Highest bids that tie, sellers of more than ten sales, and joins that the bound of query 3 cuts off."""
    tables = generated(4, ties=True)
    windows = Counter(row[0] for row in wanted(7, tables))
    assert max(windows.values()) > 1
    assert max(row[2] for row in wanted(6, tables)) > 10
    with duckdb.connect() as database:
        database.register("persons", tables["persons"])
        database.register("auctions", tables["auctions"])
        gaps = "SELECT count(*) FROM auctions a JOIN persons p ON a.seller = p.id WHERE a.category = 10 AND {}"
        assert database.execute(gaps.format("a.date_time - p.date_time > 21000")).fetchone()[0] > 0
        assert database.execute(gaps.format("a.date_time < p.date_time")).fetchone()[0] > 0


def table(rows: list[Any]) -> Any:
    """Records as a table of Arrow."""
    return pa.Table.from_pylist([attrs.asdict(row) for row in rows])


def agree(number: int, **rows: list[Any]) -> Rows:
    """What a query makes of rows, by the definition and by DuckDB."""
    (trace,) = interpret_rows(check(nexmark.dataflow(number)), rows)[0].values()
    expected = wanted(number, {name: table(some) for name, some in rows.items()})
    assert found(number, trace.items) == expected
    return expected


def test_suggestions_are_of_blocks_that_are_near_on_either_side() -> None:
    def at(second: int) -> int:
        return nexmark_data.START + second * 1_000

    persons = [Person(n, "Ann", "", "", "Bend", "OR", at(n) + n) for n in (0, 1, 2, 41, 42, 43)]
    auctions = [Auction(n, "", 1, 1, at(22), at(30), n, 10) for n in (0, 1, 2, 41, 42, 43)]
    expected = agree(3, persons=persons, auctions=auctions)
    assert {row[1] for row in expected} == {2, 41, 42}


def test_hot_items_are_all_that_tie() -> None:
    bids = [
        Bid(auction, 1, 100, nexmark_data.START + second * 1_000)
        for auction, second in [(1, 1), (2, 2), (1, 3), (3, 3), (2, 4), (3, 12)]
    ]
    expected = agree(5, bids=bids)
    assert Counter(row[2:4] for row in expected) == {(1, 2): 2, (2, 2): 2, (3, 1): 2}


def test_events_are_in_the_proportions_of_nexmark() -> None:
    tables = nexmark_data.tables(5_000)
    assert {name: table.num_rows for name, table in tables.items()} == {"persons": 100, "auctions": 300, "bids": 4_600}
    times = sorted(time for table in tables.values() for time in table["date_time"].to_pylist())
    assert times == [nexmark_data.START + n // 10 for n in range(5_000)]
    for name, count in (("persons", 100), ("auctions", 300)):
        assert tables[name]["id"].to_pylist() == [*range(1_000, 1_000 + count)]
        assert tables[name]["date_time"].to_pylist() == sorted(tables[name]["date_time"].to_pylist())
    hot = [auction % 100 == 0 for auction in tables["bids"]["auction"].to_pylist()]
    assert 0.48 < sum(hot) / len(hot) < 0.54
    lasted = [row["expires"] - row["date_time"] for row in tables["auctions"].to_pylist()]
    assert 1 <= min(lasted) < 50 < 250 < max(lasted) <= 2 * 1_667 // 10 + 1
    assert nexmark_data.tables(5_000) == tables != nexmark_data.tables(5_000, seed=2)


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_files_have_all_events_once(tmp_path: Path, format: str) -> None:
    nexmark_data.write(tmp_path, 500, files=3, format=format, rate=100)
    for name, count in (("persons", 10), ("auctions", 30), ("bids", 460)):
        parts = sorted((tmp_path / name).iterdir())
        rows = (
            [json.loads(line) for part in parts for line in part.read_text().splitlines()]
            if format == "json"
            else duckdb.sql(f"SELECT * FROM '{tmp_path}/{name}/*.parquet'").arrow().read_all().to_pylist()
        )
        assert len(parts) == 3
        assert len(rows) == count
        if name == "bids":
            assert [row["date_time"] for row in rows] == [
                nexmark_data.START + n * 10 for n in range(500) if n % 50 >= 4
            ]


test_laws = law_tests(nexmark.Winner(), max_examples=20)
