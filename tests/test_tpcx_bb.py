"""TPCx-BB, queries 1, 2, 3, 4 and 15: the definition and the local backend against a recount by DuckDB, and the generator."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest

import tracetypes
from examples import tpcx_bb, tpcx_bb_data
from examples.tpcx_bb import Click, LastViews, Line, Parameters, StoreSale, View
from examples.tpcx_bb_data import DAY, EPOCH, START, reference
from tests.stdlib.small import by_marker
from tracetypes import O, check, interpret_rows
from tracetypes.stdlib import Ranked, preview
from tracetypes.testing import law_tests

duckdb: Any = pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")

Rows = Counter[tuple[Any, ...]]

NUMBERS = (1, 2, 3, 4, 15)
DAYS, ITEMS = 3, 100
SMALL: dict[str, Any] = {"items": ITEMS, "hot": 0.4}
GIVEN = Parameters(stores=(3, 4, 5, 10), frequent=1, categories_viewed=(2, 3, 4, 5, 6))
WHOLE = attrs.evolve(GIVEN, frequent=0, size=DAYS * DAY)
"""A window that begins and ends with the data."""

KINDS: dict[str, Any] = {"web_clickstreams": Click, "store_sales": StoreSale}


def generated(seed: int, *, days: int = DAYS) -> dict[str, Any]:
    """Tables of Arrow by source: visitors who come back, sessions that break, tickets with pairs that come again."""
    return {
        "web_clickstreams": tpcx_bb_data.web_clickstreams(2_500, days=days, users=60, seed=seed, **SMALL),
        "store_sales": tpcx_bb_data.store_sales(3_000, days=days, seed=seed, **SMALL),
    }


@cache
def tables() -> tpcx_bb_data.Tables:
    return tpcx_bb_data.tables(items=ITEMS)


def rows_of(streams: dict[str, Any]) -> dict[str, list[Any]]:
    """The same as records."""
    return {name: [KINDS[name](**row) for row in table.to_pylist()] for name, table in streams.items()}


TIMES = f"""
    CREATE VIEW sales AS SELECT *, (ss_sold_date_sk - {EPOCH}) * {DAY} + ss_sold_time_sk AS time
    FROM store_sales JOIN item ON ss_item_sk = i_item_sk;
    CREATE VIEW clicks AS SELECT *, (wcs_click_date_sk - {EPOCH}) * {DAY} + wcs_click_time_sk AS time FROM web_clickstreams;
    CREATE VIEW views AS SELECT *,
        row_number() OVER (PARTITION BY wcs_user_sk ORDER BY time, wcs_sales_sk NULLS FIRST, wcs_item_sk) AS place
    FROM clicks WHERE wcs_user_sk IS NOT NULL AND wcs_item_sk IS NOT NULL;
    CREATE VIEW pages AS SELECT * FROM clicks JOIN web_page ON wcs_web_page_sk = wp_web_page_sk
    WHERE wcs_user_sk IS NOT NULL AND wcs_sales_sk IS NULL;
    """


def sessions(of: str) -> str:
    """Rows with the number of their session within the user's."""
    return f"""
        SELECT *, sum(begins::INTEGER) OVER (PARTITION BY wcs_user_sk ORDER BY time) AS number FROM (
            SELECT *, coalesce(time - lag(time) OVER (PARTITION BY wcs_user_sk ORDER BY time) > 3600, true) AS begins FROM {of})
        """


def ranked(pairs: str, most: int, least: int) -> str:
    """The most frequent pairs of each window. ``pairs``: ``item_1``, ``item_2`` and ``due`` of each time they came together."""
    return f"""
        SELECT due, row_number() OVER (PARTITION BY due ORDER BY count(*) DESC, item_1, item_2) AS place, item_1, item_2, count(*)
        FROM ({pairs}) GROUP BY due, item_1, item_2 HAVING count(*) > {least} QUALIFY place <= {most}
        """


def recount(number: int, given: Parameters) -> str:
    """SQL for a query: the second of the marker, then the result."""
    size = given.size or (3_600 if number == 1 else DAY)
    due = f"((time - {(START - EPOCH) * DAY}) // {size} + 1) * {size} + {(START - EPOCH) * DAY}"
    match number:
        case 1:
            sold = f"""
                SELECT DISTINCT ss_ticket_number AS ticket, ss_item_sk AS item, {due} AS due FROM sales
                WHERE i_category_id IN {given.categories} AND ss_store_sk IN {given.stores}
                """
            pairs = f"""
                WITH sold AS ({sold}) SELECT a.item AS item_1, b.item AS item_2, a.due AS due
                FROM sold a JOIN sold b ON a.ticket = b.ticket AND a.item < b.item
                """
            return ranked(pairs, 100, given.frequent)
        case 2:
            pairs = f"""
                WITH seen AS (SELECT DISTINCT wcs_user_sk AS who, number, wcs_item_sk AS item,
                    {due.replace("time", "max(time) OVER (PARTITION BY wcs_user_sk, number)")} + 3600 AS due
                    FROM ({sessions("views")}))
                SELECT a.item AS item_1, b.item AS item_2, a.due AS due
                FROM seen a JOIN seen b USING (who, number) WHERE b.item = {given.item} AND a.item <> b.item
                """
            return ranked(pairs, 30, 0)
        case 3:
            pairs = f"""
                SELECT {given.item} AS item_1, v.wcs_item_sk AS item_2, {due.replace("time", "p.time")} AS due
                FROM views p JOIN views v ON p.wcs_user_sk = v.wcs_user_sk AND p.place - v.place BETWEEN 1 AND {given.views}
                JOIN item ON i_item_sk = v.wcs_item_sk
                WHERE p.wcs_sales_sk IS NOT NULL AND p.wcs_item_sk = {given.item} AND p.time - v.time <= {given.before}
                AND i_category_id IN {given.categories_viewed}
                """
            return ranked(pairs, 30, 0)
        case 4:
            return f"""
                WITH placed AS (SELECT *, row_number() OVER (PARTITION BY wcs_user_sk, number ORDER BY time, wp_type) AS place
                    FROM ({sessions("pages")})),
                visits AS (SELECT count(*) AS pages, max(time) AS until, max(place) FILTER (wp_type = 'dynamic') AS cart,
                    max(place) FILTER (wp_type = 'order') AS ordered FROM placed GROUP BY wcs_user_sk, number)
                SELECT {due.replace("time", "until")} + 3600 AS due, avg(pages) FROM visits WHERE cart > coalesce(ordered, 0)
                GROUP BY due
                """
        case _:
            return f"""
                WITH days AS (SELECT i_category_id AS category, ss_sold_date_sk AS day, sum(ss_net_paid) AS cents FROM sales
                    WHERE ss_store_sk = {given.store} AND ss_sold_date_sk BETWEEN {given.first} AND {given.last} GROUP BY ALL),
                sums AS (SELECT category, day, count(*) OVER past AS n, sum(day) OVER past AS x, sum(cents) OVER past AS y,
                    sum(day * cents) OVER past AS xy, sum(day * day) OVER past AS xx
                    FROM days WINDOW past AS (PARTITION BY category ORDER BY day)),
                lines AS (SELECT *, (n * xy - x * y)::DOUBLE / (n * xx - x * x)::DOUBLE AS slope FROM sums WHERE n > 1)
                SELECT (day + 1 - {EPOCH}) * {DAY}, category, slope, (y::DOUBLE - slope * x::DOUBLE) / n
                FROM lines WHERE slope <= 0
                """


def wanted(streams: dict[str, Any], given: Parameters = GIVEN) -> dict[int, Rows]:
    """What DuckDB says, by query."""
    with duckdb.connect() as database:
        for name, table in {**streams, **reference(tables())}.items():
            database.register(name, table)
        database.execute(TIMES)
        return {number: Counter(database.execute(recount(number, given)).fetchall()) for number in NUMBERS}


def shown(key: Any, value: Any) -> tuple[Any, ...]:
    """A result as DuckDB shows it, without the marker."""
    match value:
        case Ranked(place, pair):
            return place, pair.item_1, pair.item_2, pair.count
        case Line(slope, intercept):
            return key, slope, intercept
        case _:
            return (value,)


def found(elements: Any) -> Rows:
    """What the definition says."""
    return Counter((at, *shown(key, one)) for (at, key), values in by_marker(elements).items() for one in values)


def agree(streams: dict[str, Any], given: Parameters = GIVEN) -> dict[int, Rows]:
    """The definition is what DuckDB counts."""
    traces, arranged = interpret_rows(check(tpcx_bb.dataflow(*NUMBERS, those=tables(), given=given)), rows_of(streams))
    assert not any(one.late or one.rejects for one in arranged.values())
    expected = wanted(streams, given)
    for number in NUMBERS:
        assert found(traces[f"query_{number}"].items) == expected[number], number
    return expected


def test_all_queries_are_what_duckdb_counts() -> None:
    expected = agree(generated(2))
    assert [expected[number].total() >= least for number, least in zip(NUMBERS, (20, 60, 8, 3, 6), strict=True)] == [True] * 5
    assert max(row[1] for row in expected[2]) == 30, "more than the most frequent 30 are there"


def test_a_window_as_long_as_the_data_gives_the_answer_of_the_benchmark() -> None:
    expected = agree(generated(2), WHOLE)
    assert {len({row[0] for row in expected[number]}) for number in (1, 2, 3, 4)} == {1}
    assert max(row[1] for row in expected[1]) == 100
    assert len(expected[3]) > 5


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_many_days_are_what_duckdb_counts(seed: int) -> None:
    agree(generated(seed, days=5))
    agree(generated(seed), WHOLE)


def pairs_of(rows: Iterable[Any]) -> Rows:
    """Rows of an output list, as the recount has them, without markers."""
    return Counter(shown(*(row if isinstance(row, tuple) else (None, row))) for row in rows)


@pytest.mark.parametrize("format", ["parquet", pytest.param("json", marks=pytest.mark.nightly)])
def test_the_local_backend_gives_what_duckdb_counts(tmp_path: Path, format: str) -> None:
    options: dict[str, Any] = {"days": DAYS, "users": 60, "seed": 2, **SMALL}
    tpcx_bb_data.write(tmp_path, clicks=2_500, lines=3_000, files=3, format=format, **options)
    expected = wanted(generated(2))
    outputs: dict[str, list[Any]] = {f"query_{number}": [] for number in NUMBERS}
    graph = tpcx_bb.dataflow(*NUMBERS, those=tables(), given=GIVEN)
    inputs = {name: str(tmp_path / name) for name in KINDS}
    result = tracetypes.run(graph, inputs=inputs, outputs=outputs, backend="local", parallelism=2, key_groups=4)
    assert result.rows == 5_500
    for number in NUMBERS:
        without = Counter(row[1:] for row in expected[number].elements())
        assert pairs_of(outputs[f"query_{number}"]) == without, number


def test_last_views_are_at_most_so_many_and_so_old() -> None:
    op: LastViews = LastViews(item=7, views=2, before=100)
    clicks = [View(0, -1, 1), View(10, -1, 2), View(20, 5, 7), View(115, -1, 3), View(120, -1, 7), View(216, 6, 7)]
    emitted = preview(op, O[int, View], [(1, click) for click in clicks])
    assert emitted == [[(1, 1), (1, 2), (1, 7)]], "of the second purchase 115 is too old; the view without an order is none"


def test_published_parameters() -> None:
    given = Parameters()
    assert (given.stores, given.categories, given.frequent) == ((10, 20, 33, 40, 50), (1, 2, 3), 50)
    assert (given.item, given.views, given.before, given.categories_viewed) == (10_001, 5, 864_000, (2, 3))
    assert given.last - given.first + 1 == 366


def test_streams_have_the_published_shape() -> None:
    sales = tpcx_bb_data.store_sales(20_000).to_pandas()
    lines = sales.groupby("ss_ticket_number")
    assert set(lines.size()[:-1]) == set(range(1, 15))
    assert (lines[["ss_store_sk", "ss_sold_date_sk", "ss_sold_time_sk"]].nunique() == 1).all(axis=None)
    assert set(sales["ss_store_sk"]) == set(range(1, 13))
    assert 0.03 < sales["ss_item_sk"].isin(tpcx_bb_data.FREQUENT).mean() < 0.08
    clicks = tpcx_bb_data.web_clickstreams(20_000).to_pandas()
    for table, day, second in ((sales, "ss_sold_date_sk", "ss_sold_time_sk"), (clicks, "wcs_click_date_sk", "wcs_click_time_sk")):
        times = table[day] * DAY + table[second]
        assert times.is_monotonic_increasing
        assert START == table[day].min() < table[day].max() == START + 29
    assert 0.1 < clicks["wcs_user_sk"].isna().mean() < 0.3
    bought = clicks[clicks["wcs_sales_sk"].notna()]
    assert bought["wcs_item_sk"].notna().all()
    assert bought["wcs_user_sk"].notna().all()
    assert 0.005 < len(bought) / len(clicks) < 0.05
    categories = tpcx_bb_data.tables().category_of
    assert set(categories.values()) == set(range(1, 11))
    assert len(categories) == 18_000


def test_data_are_the_same_every_time(tmp_path: Path) -> None:
    assert generated(1) == generated(1)
    assert generated(1) != generated(2)
    tpcx_bb_data.write(tmp_path, clicks=50, lines=40, files=2, format="json")
    for name, rows in (("web_clickstreams", 50), ("store_sales", 40)):
        parts = sorted((tmp_path / name).iterdir())
        assert [part.stat().st_mtime for part in parts] == sorted({part.stat().st_mtime for part in parts})
        read = [json.loads(row) for part in parts for row in part.read_text().splitlines()]
        assert len(read) == rows
        assert set(read[0]) == {field.name for field in attrs.fields(KINDS[name])}
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/item.parquet'").fetchall() == [(18_000,)]
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/web_page.parquet'").fetchall() == [(60,)]


test_laws = law_tests(LastViews(item=7, views=2, before=100), max_examples=20)
