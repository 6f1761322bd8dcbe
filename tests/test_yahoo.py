"""The queries of the Yahoo Streaming Benchmark against recounts: by DuckDB where SQL says it, else in plain Python."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import yahoo, yahoo_data
from examples.yahoo import (
    Action,
    Actions,
    ClusterUsers,
    CountActions,
    EachBlock,
    Event,
    Features,
    History,
    LastTenBlocks,
    Locate,
    Summarise,
    Views,
    ViewsByCampaign,
    cluster,
)
from tracetypes import UNIT, Dataflow, Item, Marker, Trace, check, interpret_rows
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib import clusters
from tracetypes.testing import law_tests
from tracetypes.trace import Element, blocks

duckdb = pytest.importorskip("duckdb")


@attrs.frozen
class World:
    """Generated data. ``path``: of the directory."""

    path: Path
    known: yahoo_data.Tables
    events: list[Event]

    @property
    def database(self) -> str:
        """The SQLite file."""
        return str(self.path / "reference.sqlite")

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of a query over ``events``, ``ads`` and ``users``."""
        with duckdb.connect() as database:
            database.execute(f"CREATE VIEW events AS SELECT * FROM '{self.path}/events/*.parquet'")
            tables: list[tuple[str, str, Mapping[str, str | int]]] = [
                ("ads", "campaign_id VARCHAR", self.known.campaign_of),
                ("users", "location BIGINT", self.known.location_of),
            ]
            for name, column, of in tables:
                database.execute(f"CREATE TABLE {name} ({name[:-1]}_id VARCHAR, {column})")
                database.executemany(f"INSERT INTO {name} VALUES (?, ?)", list(of.items()))
            found: list[tuple[Any, ...]] = database.execute(query).fetchall()
        return found


def world(path: Path, *, events: int, skew: bool = False, rate: int = 100, seed: int = 3) -> World:
    known = yahoo_data.tables(users=30, campaigns=5, ads=4, locations=4, seed=seed)
    yahoo_data.write_events(path / "events", known, events=events, files=3, rate=rate, skew=skew, seed=seed)
    known.write(path / "reference.sqlite")
    with duckdb.connect() as database:
        rows = database.execute(f"SELECT * FROM read_parquet('{path}/events/*.parquet', filename = false)").fetchall()
    return World(path, known, [Event(*row) for row in rows])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("yahoo"), events=3_000)


def answer(flow: Dataflow, events: list[Event]) -> Trace[Element]:
    """What a flow says of events in this order; none may be late."""
    traces, arranged = interpret_rows(check(flow), {"events": events})
    assert not arranged["events"].late
    assert not arranged["events"].rejects
    (trace,) = traces.values()
    return trace


def items(trace: Trace[Element]) -> list[Item]:
    return [one for one in trace if isinstance(one, Item)]


def test_the_generator_draws_what_the_benchmark_says(data: World) -> None:
    assert len(data.events) == 3_000
    assert {e.event_type for e in data.events} == set(yahoo_data.EVENT_TYPES)
    assert {e.user_id for e in data.events} == set(data.known.location_of)
    assert {e.ad_id for e in data.events} == set(data.known.campaign_of)
    assert len(set(data.known.campaign_of.values())) == 5
    assert [e.event_time for e in data.events] == [yahoo_data.START + n * 10 for n in range(3_000)]
    assert yahoo_data.Tables.read(Path(data.database)) == data.known
    assert yahoo_data.tables() == yahoo_data.tables()
    assert yahoo_data.tables() != yahoo_data.tables(seed=2)
    assert len(yahoo_data.tables().campaign_of) == 1_000


def test_the_generator_writes_json_lines_too(tmp_path: Path) -> None:
    known = yahoo_data.tables()
    for format in ("json", "parquet"):
        yahoo_data.write_events(tmp_path / format, known, events=100, files=2, format=format)
    lines = [
        json.loads(line) for part in sorted((tmp_path / "json").iterdir()) for line in part.read_text().splitlines()
    ]
    with duckdb.connect() as database:
        rows = database.execute(f"SELECT * FROM '{tmp_path}/parquet/*.parquet'").fetchall()
    assert [tuple(line.values()) for line in lines] == rows


@pytest.mark.parametrize("how", ["database", "table"])
def test_query_1_finds_the_campaign_of_each_event(data: World, how: str) -> None:
    flow = yahoo.query_1(data.database) if how == "database" else yahoo.query_1_in_memory(data.known)
    found = items(answer(flow, data.events))
    columns = "ad_id, campaign_id, user_id, page_id, ad_type, event_type, event_time, ip_address"
    wanted = data.sql(f"SELECT {columns} FROM events JOIN ads USING (ad_id)")
    assert sorted((one.key, *attrs.astuple(one.value)) for one in found) == sorted(wanted)
    assert len(wanted) == 3_000


def test_query_1_leaves_unknown_advertisements_out(data: World) -> None:
    unknown = attrs.evolve(data.events[0], ad_id="none")
    for flow in (yahoo.query_1(data.database), yahoo.query_1_in_memory(data.known)):
        assert len(items(answer(flow, [unknown, data.events[1]]))) == 1


def test_query_2_counts_the_actions_of_each_user(data: World) -> None:
    trace = answer(yahoo.query_2(), data.events)
    wanted = data.sql(
        """
        WITH touched AS (
            SELECT user_id, event_time // 1000 + 1 AS ending,
                count(*) FILTER (event_type = 'view') AS v, count(*) FILTER (event_type = 'click') AS c,
                count(*) FILTER (event_type = 'purchase') AS p
            FROM events GROUP BY ALL)
        SELECT ending, user_id, sum(v) OVER past, sum(c) OVER past, sum(p) OVER past
        FROM touched WINDOW past AS (PARTITION BY user_id ORDER BY ending)
        """
    )
    found = [
        (block.marker.timestamp if block.marker else None, one.key, *attrs.astuple(one.value))
        for block in blocks(trace)
        for one in block.items
    ]
    assert len(found) == len(items(trace)) > 500
    assert sorted(found) == sorted(tuple(int(x) if i != 1 else x for i, x in enumerate(row)) for row in wanted)
    assert isinstance(items(trace)[0].value, Actions)


def test_the_results_of_query_2_are_persisted(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    rows = [("a", 1, 5), ("b", 1, 7), ("a", 2, 6), ("b", 0, 4)]
    for n, (key, at, views) in enumerate(rows):
        row = {"key": key, "views": views, "clicks": 0, "purchases": 1, "at": f"2023-11-14T22:13:2{at}.000000Z"}
        (tmp_path / f"out/part-run-{n:08d}-0000.jsonl").write_text(json.dumps(row) + "\n")
    for _ in range(2):
        assert yahoo.persist(tmp_path / "out", tmp_path / "actions.sqlite") == 2
        with closing(sqlite3.connect(tmp_path / "actions.sqlite")) as database:
            found = database.execute("SELECT user_id, views FROM actions ORDER BY user_id").fetchall()
        assert found == [("a", 6), ("b", 7)]


def test_query_3_summarises_each_location(data: World) -> None:
    last: dict[int, History] = {one.key: one.value for one in items(answer(yahoo.query_3(data.known), data.events))}
    wanted = data.sql(
        """
        SELECT location, count(*) FILTER (event_type = 'view'), count(*) FILTER (event_type = 'click'),
            count(*) FILTER (event_type = 'purchase'), min(event_time), max(event_time)
        FROM events JOIN users USING (user_id) GROUP BY location
        """
    )
    assert {(key, *attrs.astuple(value)) for key, value in last.items()} == set(wanted)
    assert len(wanted) == 4


def windows(data: World, slide: int) -> set[tuple[str, int, int]]:
    """Campaign, end (s) and views of the windows of 10 s that hold any, one at each multiple of ``slide`` seconds."""
    last = max(e.event_time for e in data.events) // 1_000 + 10
    return set(
        data.sql(
            f"""
            SELECT campaign_id, w.e, count(*)
            FROM events JOIN ads USING (ad_id)
                JOIN generate_series({yahoo_data.START // 1000 - 70}, {last}) AS w(e)
                ON event_time // 1000 < w.e AND event_time // 1000 >= w.e - 10 AND w.e % {slide} = 0
            WHERE event_type = 'view' GROUP BY ALL
            """
        )
    )


def views(trace: Trace[Element]) -> set[tuple[str, int, int]]:
    found = [(one.key, one.value.end, one.value.views) for one in items(trace) if isinstance(one.value, Views)]
    assert len(set(found)) == len(found)
    return set(found)


def test_query_4_counts_the_last_ten_seconds(data: World) -> None:
    trace = answer(yahoo.query_4(data.known), data.events)
    assert views(trace) == windows(data, 1)
    for block in blocks(trace):
        assert all(block.marker == Marker(one.value.end * 1_000_000) for one in block.items)


def test_query_5_counts_ten_seconds_each(data: World) -> None:
    assert views(answer(yahoo.query_5(data.known), data.events)) == windows(data, 10)


def test_out_of_order_within_the_delay_changes_nothing(tmp_path: Path) -> None:
    skewed = world(tmp_path, events=2_000, skew=True)
    assert [e.event_time for e in skewed.events] != sorted(e.event_time for e in skewed.events)
    assert views(answer(yahoo.query_4(skewed.known, delay=60.1), skewed.events)) == windows(skewed, 1)
    assert views(answer(yahoo.query_5(skewed.known, delay=60.1), skewed.events)) == windows(skewed, 10)


def k_means(users: dict[str, tuple[int, int, int]], k: int) -> list[tuple[int, float, float, float]]:
    """Lloyd's algorithm, by the words of the docstring."""
    ranked = sorted(users, key=lambda user: (sum(users[user]), user))
    k = min(k, len(ranked))
    centres: list[tuple[float, ...]] = [users[ranked[(2 * n + 1) * len(ranked) // (2 * k)]] for n in range(k)]
    for at in range(11):
        groups: list[list[tuple[int, int, int]]] = [[] for _ in range(k)]
        for user in ranked:
            apart = [sum((a - b) ** 2 for a, b in zip(users[user], centre, strict=True)) for centre in centres]
            groups[apart.index(min(apart))].append(users[user])
        moved = [
            tuple(sum(axis) / len(group) for axis in zip(*group, strict=True)) if group else centre
            for group, centre in zip(groups, centres, strict=True)
        ]
        if at == 10 or moved == centres:
            break
        centres = moved
    return [
        (len(group), centre[0], centre[1], centre[2]) for group, centre in zip(groups, centres, strict=True) if group
    ]


def test_query_6_clusters_the_users_of_each_location(data: World) -> None:
    trace = answer(yahoo.query_6(data.known, k=3, period=10), data.events)
    found: dict[tuple[int, int], list[tuple[int, float, float, float]]] = defaultdict(list)
    for one in items(trace):
        value = one.value
        assert value.number == len(found[one.key, value.end]) or value.number > 0
        found[one.key, value.end].append((value.users, value.views, value.clicks, value.purchases))
    wanted = {}
    names = ("view", "click", "purchase")
    for end in range(yahoo_data.START // 1_000 + 10, yahoo_data.START // 1_000 + 31, 10):
        for place in set(data.known.location_of.values()):
            users: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
            for e in data.events:
                if data.known.location_of[e.user_id] == place and e.event_time < end * 1_000:
                    users[e.user_id][names.index(e.event_type)] += 1
            wanted[place, end] = k_means({user: (v, c, p) for user, (v, c, p) in users.items()}, 3)
    assert dict(found) == wanted
    assert len(wanted) == 12


def test_clusters_do_not_depend_on_the_order_of_users() -> None:
    users = {f"u{n}": (n % 7, n * n % 5, n % 3) for n in range(50)}
    assert cluster(users, 4) == cluster(dict(reversed(users.items())), 4) == k_means(users, 4)
    assert sum(size for size, *_ in cluster(users, 4)) == 50
    assert cluster({"a": (1, 2, 3)}, 4) == [(1, 1.0, 2.0, 3.0)]


@given(users=st.dictionaries(st.text(max_size=2), st.tuples(*[st.integers(0, 4)] * 3), min_size=1), k=st.integers(1, 5))
def test_few_and_many_users_are_clustered_alike(users: dict[str, tuple[int, int, int]], k: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for few in (0, 1_000):
            patch.setattr(clusters, "FEW", few)
            assert cluster(users, k) == k_means(users, k)


@pytest.mark.parametrize("number", range(1, 7))
def test_every_deployment_gives_the_same_trace(data: World, number: int) -> None:
    flows = {
        1: yahoo.query_1(data.database),
        2: yahoo.query_2(delay=1),
        3: yahoo.query_3(data.known, delay=1),
        4: yahoo.query_4(data.known, delay=1),
        5: yahoo.query_5(data.known, delay=1),
        6: yahoo.query_6(data.known, delay=1, period=5),
    }
    checked = check(flows[number])
    events = data.events[:1_200]
    traces, arranged = interpret_rows(checked, {"events": events})
    for seed in range(3):
        planned = plan(checked, parallelism=1 + seed, key_groups=4)
        got = simulate(planned, {"events": events}, seed=seed)
        assert got.trace == traces[planned.sink.name]
        assert len(got.late) == len(arranged["events"].late) == 0


EVENTS = st.builds(
    Event,
    user_id=st.sampled_from(["a", "b", "c"]),
    page_id=st.just("p"),
    ad_id=st.sampled_from(["x", "y", "z"]),
    ad_type=st.sampled_from(yahoo_data.AD_TYPES),
    event_type=st.sampled_from([*yahoo_data.EVENT_TYPES, "other"]),
    event_time=st.integers(0, 10**13),
    ip_address=st.just("127.0.0.1"),
)
USERS = st.sampled_from(["a", "b", "c"])
COUNTS = st.integers(0, 9)

test_count_actions_is_lawful = law_tests(CountActions(), items=st.tuples(USERS, EVENTS), max_examples=20)
test_locate_is_lawful = law_tests(Locate({"a": 1, "b": 2}), items=st.tuples(st.just(UNIT), EVENTS), max_examples=20)
test_summarise_is_lawful = law_tests(
    Summarise(),
    items=st.tuples(
        st.integers(0, 2), st.builds(Action, st.sampled_from(yahoo_data.EVENT_TYPES), st.integers(0, 10**13))
    ),
    max_examples=20,
)
test_views_by_campaign_is_lawful = law_tests(
    ViewsByCampaign({"x": "one", "y": "two"}), items=st.tuples(st.just(UNIT), EVENTS), max_examples=50
)
test_last_ten_blocks_is_lawful = law_tests(LastTenBlocks(), max_examples=20)
test_each_block_is_lawful = law_tests(EachBlock(), max_examples=20)
test_cluster_users_is_lawful = law_tests(
    ClusterUsers(2, 1),
    items=st.tuples(st.integers(0, 2), st.builds(Features, USERS, COUNTS, COUNTS, COUNTS)),
    max_examples=20,
)
