"""Sessions of a web log: the definition and the adversary against a recount by DuckDB, and the generator."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from examples import web_log, web_log_data
from examples.web_log import Hour, Stay, Visit, visit
from tracetypes import UNIT, Item, check, interpret_rows
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.trial.simulate import simulate_program

duckdb: Any = pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")

Rows = Counter[tuple[Any, ...]]

SMALL = {"rate": 15, "visitors": 24, "active": 10, "late": 40}
"""Visitors stay away for half an hour, about as long as the gap."""

PERIOD, DELAY, GAP = 60, int(web_log.DELAY.total_seconds()), int(web_log.GAP.total_seconds())

VISITS = "SELECT *, CASE WHEN visitor % 3 = 0 THEN 'user-' || visitor ELSE '10.0.0.' || visitor END AS name FROM visits"

SESSIONS = f"""
    WITH begun AS (
        SELECT *, coalesce(time - lag(time) OVER (PARTITION BY name ORDER BY time) > {GAP}, true) AS begins FROM ({VISITS})
    ), numbered AS (
        SELECT *, sum(begins::INTEGER) OVER (PARTITION BY name ORDER BY time) AS number FROM begun
    )
    SELECT name, min(time) AS start, max(time) AS until, count(*) AS pages, count_if(status >= 400) AS errors,
        first(page ORDER BY time, page, status, bytes, referrer) AS entry,
        last(page ORDER BY time, page, status, bytes, referrer) AS exit,
        first(referrer ORDER BY time, page, status, bytes, referrer) AS referrer, sum(bytes)::BIGINT AS bytes
    FROM numbered GROUP BY name, number
    """

RECOUNTS = {
    "sessions": SESSIONS,
    "hours": f"""
        SELECT until // 3600 * 3600, count(*), count_if(pages = 1), avg(pages), sum(bytes)::BIGINT FROM ({SESSIONS}) GROUP BY ALL
        """,
    "late": f"SELECT name, count(*) FROM ({VISITS.replace('FROM visits', 'FROM late')}) GROUP BY name",
}


def is_late(times: list[int]) -> list[bool]:
    """Which visits come behind a marker that later ones before them have caused."""
    found, newest = [], 0
    for time in times:
        found.append((time // PERIOD + 1) * PERIOD <= (newest - DELAY) // PERIOD * PERIOD)
        newest = time if time > newest else newest
    return found


def wanted(visits: Any) -> dict[str, Rows]:
    """What DuckDB says, by sink."""
    late = pa.array(is_late(visits["time"].to_pylist()))
    with duckdb.connect() as database:
        database.register("visits", visits.filter(pa.compute.invert(late)))
        database.register("late", visits.filter(late))
        return {name: Counter(database.execute(sql).fetchall()) for name, sql in RECOUNTS.items()}


def second(time: dt.datetime) -> int:
    return int(time.timestamp())


def shown(key: Any, value: Any) -> tuple[Any, ...]:
    """An item of an answer as DuckDB shows it."""
    match value:
        case Stay(start, end, pages, errors, entry, exit, referrer, bytes):
            return key, second(start), second(end), pages, errors, entry, exit, referrer, bytes
        case Hour(start, one):
            return second(start), one.sessions, one.bounces, one.pages, one.bytes
        case _:
            raise AssertionError(value)


def rows_shown(pairs: Iterable[tuple[Any, Any]]) -> Rows:
    """Keys and values of an answer; the counts of late visits of each visitor together."""
    rows: Rows = Counter()
    late: Counter[Any] = Counter()
    for key, value in pairs:
        if isinstance(value, int):
            late[key] += value
        else:
            rows[shown(key, value)] += 1
    return rows + Counter(late.items())


def found(trace: Any) -> Rows:
    """The items of an answer, without markers."""
    return rows_shown((one.key, one.value) for one in trace.items if isinstance(one, Item))


@cache
def compiled() -> tuple[Any, Any]:
    checked = check(web_log.flow)
    return checked, program(checked, parallelism=2, key_groups=3)


def agree(visits: int, seed: int) -> dict[str, Rows]:
    """The definition and the adversary give what DuckDB counts."""
    table = web_log_data.table(visits, seed=seed, **SMALL)
    expected, rows = wanted(table), {"log": list(web_log_data.lines(table, cut=50))}
    checked, plans = compiled()
    traces, streams = interpret_rows(checked, rows)
    assert {name: found(trace) for name, trace in traces.items()} == expected
    assert [at for at, _ in streams["log"].rejects] == [50 + 51 * n for n in range(visits // 50)]
    results = simulate_program(plans, rows, seed=seed)
    assert {name: results[name].trace for name in traces} == traces
    return expected


def test_sessions_are_what_duckdb_counts() -> None:
    expected = agree(2_000, 3)
    stays = Counter(name for name, *_ in expected["sessions"].elements())
    assert min(stays.values()) < max(stays.values()), "some come back within the gap"
    assert expected["hours"].total() > 1
    assert expected["late"].total() > 5


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 40))
def test_many_logs_are_what_duckdb_counts(seed: int) -> None:
    agree(4_000, seed)


def line(second: int, page: str = "/", user: str = "ann") -> str:
    minute, second = divmod(second, 60)
    return f'h - {user} [01/Jan/2024:{minute // 60:02}:{minute % 60:02}:{second:02} +0000] "GET {page} HTTP/1.1" 200 5 "-" "x"'


def test_a_session_goes_on_within_the_gap_and_a_visit_behind_the_delay_is_late() -> None:
    rows = [line(0, "/a"), line(GAP, "/b"), line(2 * GAP + 1, "/c"), line(60), line(2 * GAP + 1, "/d", user="-")]
    traces, streams = interpret_rows(check(web_log.flow), {"log": rows})
    stays = [(one.key, one.value.entry, one.value.exit) for one in traces["sessions"].items if isinstance(one, Item)]
    assert stays == [("ann", "/a", "/b"), ("ann", "/c", "/c"), ("h", "/d", "/d")]
    assert [one.value for one in streams["log"].late] == [rows[3]]
    assert found(traces["late"]) == Counter([("ann", 1)])
    midnight = int(dt.datetime(2024, 1, 1, tzinfo=dt.UTC).timestamp())
    assert found(traces["hours"]) == Counter([(midnight, 1, 0, 2.0, 10), (midnight + 3600, 2, 2, 1.0, 10)])


def test_real_lines() -> None:
    """The example of the documentation of Apache, and one with an escaped quote."""
    apache = (
        '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 '
        '"http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"'
    )
    zone = dt.timezone(dt.timedelta(hours=-7))
    time = dt.datetime(2000, 10, 10, 13, 55, 36, tzinfo=zone)
    assert visit(UNIT, apache) == ("frank", Visit(time, "/apache_pb.gif", 200, 2326, "http://www.example.com/start.html"))
    quoted = '::1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/2.0" 304 - "-" "an \\"agent\\""'
    assert visit(UNIT, quoted) == ("::1", Visit(time, "/", 304, 0, "-"))
    wrong = [apache[:-1], apache.replace("Oct", "Okt"), apache.replace("10/Oct", "32/Oct"), apache.replace("GET ", "GET"), "-"]
    _, streams = interpret_rows(check(web_log.flow), {"log": [apache, *wrong]})
    assert [at for at, _ in streams["log"].rejects] == [1, 2, 3, 4, 5]


def test_a_log_is_the_same_every_time_and_in_any_number_of_files(tmp_path: Path) -> None:
    for files in (1, 3):
        web_log_data.write(tmp_path / str(files), 500, files=files, cut=100, late=50)
    one, *more = ("".join(part.read_text() for part in sorted((tmp_path / n).iterdir())) for n in ("1", "3"))
    assert one.count("\n") > 500
    whole = [row for row in more[0].splitlines() if web_log.LINE.fullmatch(row)]
    assert whole == [row for row in one.splitlines() if web_log.LINE.fullmatch(row)]
    assert len(whole) == 500
    times = [part.stat().st_mtime for part in sorted((tmp_path / "3").iterdir())]
    assert times == sorted(set(times))
    assert web_log_data.table(500, seed=1).equals(web_log_data.table(500))
    assert not web_log_data.table(500, seed=2).equals(web_log_data.table(500))
