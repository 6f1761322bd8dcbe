"""The look-up join: the same answers from SQLite, PostgreSQL and a dict; few questions; errors that lose nothing."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import cloudpickle
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.stdlib.postgres import Server
from tests.strategies import some
from tracetypes import Dataflow, LawBroken, OperatorFailed, U, UsageError, check, every, stdlib
from tracetypes.compiler.columns.column import inputs_of
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.evaluation import run
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.compiler.tracing.tracer import Untraceable, trace_on_item
from tracetypes.records import String
from tracetypes.stdlib import enrich, lookup_join, lookups, preview
from tracetypes.stdlib.lookups import SESSIONS, Database, LookupJoin, Postgres, Session, Sqlite
from tracetypes.testing import check_deployments, check_laws

ts: Any = stdlib
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


@attrs.frozen
class Sensor:
    """A row."""

    room: str
    limit: float | None
    active: bool
    since: dt.datetime


@attrs.frozen
class Wrong:
    """The same table with a wrong type."""

    room: int


ROWS: dict[str, Sensor] = {
    "a": Sensor("kitchen", 1.5, True, MOMENT),
    "b": Sensor("hall", None, False, MOMENT),
    "x' OR '1'='1": Sensor("roof", 0.0, True, MOMENT),
    "é": Sensor("日本", -1.0, True, MOMENT),
}
ITEMS = [("m", "a"), ("m", "b"), ("n", "a"), ("n", "no such"), ("n", "x' OR '1'='1"), ("o", "é"), ("o", "' OR 1=1 --")]


@pytest.fixture(autouse=True)
def no_sessions() -> Iterator[None]:
    """Each test begins without connections and leaves none."""
    SESSIONS.close()
    yield
    SESSIONS.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Sqlite[Sensor]:
    """A file with the rows, and a table with a key that is there twice."""
    path = tmp_path / "sensors and #1.db"
    connection = sqlite3.connect(path)
    connection.execute(
        'CREATE TABLE sensors (id TEXT PRIMARY KEY, room TEXT, "limit" REAL, active INTEGER, since TEXT)'
    )
    rows = [(key, row.room, row.limit, int(row.active), row.since.isoformat()) for key, row in ROWS.items()]
    connection.executemany("INSERT INTO sensors VALUES (?, ?, ?, ?, ?)", rows)
    connection.execute("CREATE TABLE twice AS SELECT * FROM sensors UNION ALL SELECT * FROM sensors")
    connection.commit()
    connection.close()
    return Sqlite(path=str(path), table="sensors", key="id", row=Sensor)


@pytest.fixture(scope="module")
def server(postgres: Server) -> Server:
    """A server with the rows."""
    import psycopg

    with psycopg.connect(postgres.connection) as connection:
        connection.execute(
            'CREATE TABLE sensors (id text PRIMARY KEY, room text, "limit" float8, active bool, since timestamptz)'
        )
        for key, row in ROWS.items():
            connection.execute("INSERT INTO sensors VALUES (%s, %s, %s, %s, %s)", (key, *attrs.astuple(row)))
        connection.execute("CREATE TABLE twice AS SELECT * FROM sensors UNION ALL SELECT * FROM sensors")
    return postgres


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database[Sensor]:
    """The same table in both."""
    if request.param == "sqlite":
        made: Database[Sensor] = request.getfixturevalue("sqlite")
        return made
    return Postgres(connection=request.getfixturevalue("server").connection, table="sensors", key="id", row=Sensor)


def described(value: str, row: Sensor) -> str:
    return f"{value}: {row}"


def described_or_not(value: str, row: Sensor | None) -> str:
    return f"{value}: {row}"


def operator(database: Database[Any], **more: Any) -> LookupJoin[str, str, str]:
    """A look-up by the value."""
    made: Any = ts.lookup_join(database, **{"by": lambda key, value: value, "combine": described, **more})
    assert isinstance(made, LookupJoin)
    return made


# ------------------------------------------------------------------------------------------------- answers


def test_it_answers_as_a_dict_does(database: Database[Sensor]) -> None:
    inner = preview(operator(database), U[str, str], ITEMS)
    assert inner == preview(enrich(ROWS, by=lambda key, value: value, combine=described), U[str, str], ITEMS)
    assert len(inner[0]) == 5
    left = preview(operator(database, how="left", combine=described_or_not), U[str, str], ITEMS)
    table = enrich(ROWS, by=lambda key, value: value, combine=described_or_not, how="left")
    assert left == preview(table, U[str, str], ITEMS)
    assert len(left[0]) == 7


def test_a_key_that_is_missing_has_no_row(database: Database[Sensor]) -> None:
    nobody: Any = {"by": lambda key, value: None}
    assert preview(operator(database, **nobody), U[str, str], ITEMS) == [[]]
    kept = preview(operator(database, how="left", combine=described_or_not, **nobody), U[str, str], ITEMS)
    assert len(kept[0]) == 7


@pytest.mark.parametrize("how", [{}, {"how": "left", "combine": described_or_not}], ids=["inner", "left"])
def test_laws(how: dict[str, Any], sqlite: Sqlite[Sensor]) -> None:
    check_laws(operator(sqlite, **how), types=(str, str), max_examples=some(40))


def test_a_look_up_that_counts_breaks_a_law(sqlite: Sqlite[Sensor]) -> None:
    met: list[str] = []

    def counted(value: str, row: Sensor | None) -> str:
        met.append(value)
        return f"{len(met)}: {row}"

    with pytest.raises(LawBroken):
        check_laws(operator(sqlite, how="left", combine=counted), types=(str, str), max_examples=40)


def test_any_deployment_gives_the_same(sqlite: Sqlite[Sensor]) -> None:
    flow = Dataflow("deployed")
    texts = flow.source("in", U[str, str], markers=every(seconds=1, time=len))
    flow.sink("out", texts.through(operator(sqlite, how="left", combine=described_or_not)))
    assert check(flow).types[1].value is str
    assert check_deployments(flow, max_examples=10)


# ------------------------------------------------------------------------------------------------- questions


@attrs.frozen(kw_only=True)
class Counting(Sqlite[Any]):
    """Counts how many keys each question has."""

    asked: list[int] = attrs.field(factory=list, eq=False)

    def ask(self, connection: Any, keys: Sequence[Any]) -> Iterable[Sequence[Any]]:
        self.asked.append(len(keys))
        return super().ask(connection, keys)


@pytest.fixture
def counting(sqlite: Sqlite[Sensor]) -> Counting:
    """The same table, counting."""
    return Counting(path=sqlite.path, table="sensors", key="id", row=Sensor)


def emitted(op: LookupJoin[str, str, str], items: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for key, value in items:
        op.on_item(key, value, lambda key, value: out.append((key, value)))
    return out


def test_a_batch_is_asked_for_at_once(counting: Counting) -> None:
    op = operator(counting)
    op.prefetch(ITEMS)
    assert counting.asked == [6]
    hinted = emitted(op, ITEMS)
    assert counting.asked == [6]
    op.prefetch(ITEMS)
    assert counting.asked == [6]
    SESSIONS.close()
    assert emitted(op, ITEMS) == hinted
    assert counting.asked == [6, 1, 1, 1, 1, 1, 1]


@attrs.frozen(kw_only=True)
class Tenant(Sqlite[Any]):
    """Of one of many tenants, who do not count in ``==``."""

    of: str = attrs.field(eq=False, repr=False)

    def ask(self, connection: Any, keys: Sequence[Any]) -> Iterable[Sequence[Any]]:
        return [(key, self.of, *rest) for key, _, *rest in super().ask(connection, keys)]


def test_equal_databases_are_asked_each(sqlite: Sqlite[Sensor]) -> None:
    one, other = (Tenant(path=sqlite.path, table="sensors", key="id", row=Sensor, of=of) for of in ("one", "other"))
    assert one == other
    for database in (one, other, one):
        ((_, value),) = emitted(operator(database), ITEMS[:1])
        assert f"room={database.of!r}" in value


def test_connections_are_bounded(sqlite: Sqlite[Sensor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MOST_SESSIONS", 3)
    for _ in range(10):
        assert emitted(operator(Sqlite(path=sqlite.path, table="sensors", key="id", row=Sensor)), ITEMS[:1])
    assert len(SESSIONS.open) == 3


def test_large_batches_are_asked_for_in_parts(counting: Counting) -> None:
    op = operator(counting)
    op.prefetch([("m", str(n)) for n in range(1_200)])
    assert counting.asked == [500, 500, 200]


def test_rows_that_change(counting: Counting) -> None:
    """What is cached is not asked for again; another run asks."""
    op = operator(counting)
    before = emitted(op, ITEMS[:1])
    with sqlite3.connect(counting.path) as connection:
        connection.execute("UPDATE sensors SET room = 'another'")
    assert emitted(op, ITEMS[:1]) == before
    SESSIONS.close()
    ((_, now),) = emitted(op, ITEMS[:1])
    assert "another" in now
    assert [now] != [value for _, value in before]


def test_the_cache_is_bounded(counting: Counting) -> None:
    op = operator(counting, cache=2)
    expected = emitted(operator(counting), ITEMS)
    counting.asked.clear()
    assert emitted(op, [*ITEMS[:3], ITEMS[0]]) == [*expected[:3], expected[0]]
    assert counting.asked == [1, 1]
    emitted(op, [("n", "no such"), ("n", "a"), ("n", "b")])
    assert counting.asked == [1, 1, 1, 1], "b was not used for the longest time, and went first"
    op.prefetch(ITEMS)
    assert len(SESSIONS.of(counting, 2).cache) == 2


def test_a_hint_that_fails_leaves_the_error_to_the_item(counting: Counting) -> None:
    op = operator(counting, by=lambda key, value: value.no_such_attribute)
    op.prefetch(ITEMS)
    told = r"(?s)`lambda` in `lookup_join\(by=lambda\)` raised AttributeError.*item \('m', 'a'\)"
    with pytest.raises(OperatorFailed, match=told):
        preview(op, U[str, str], ITEMS)


# --------------------------------------------------------------------------------------------------- columns


@attrs.frozen
class Room:
    """Columns that are never null."""

    room: str
    active: bool
    since: dt.datetime


@attrs.frozen
class Found:
    """A value with its row."""

    value: str
    room: str
    active: bool
    since: dt.datetime


def found(value: str, row: Room) -> Found:
    return Found(value, row.room, row.active, row.since)


def found_or_not(value: str, row: Room | None) -> Found:
    return Found(value, "", False, MOMENT) if row is None else Found(value, row.room, row.active, row.since)


def over_columns(op: Any, items: Sequence[tuple[str, str]], *, coded: bool) -> list[tuple[Any, Any]]:
    """What the operator's tree gives for columns of items, in their order."""
    columns = [pa.array([item[place] for item in items], pa.string()) for place in range(2)]
    columns = [column.dictionary_encode() for column in columns] if coded else columns
    key, value = [from_arrow(String(), column) for column in columns]
    tree = trace_on_item(op, String(), String())
    made: list[tuple[int, Any, Any]] = []
    for one in run(tree, inputs_of({"key": key, "value": value}), len(items)).emissions:
        rows = range(len(items)) if one.rows is None else one.rows.tolist()
        assert one.key is not None
        made += zip(rows, values_of(one.key, len(rows)), values_of(one.value, len(rows)), strict=True)
    return [(key, value) for _, key, value in sorted(made, key=lambda pair: pair[0])]


@pytest.fixture
def rooms(counting: Counting) -> Counting:
    """The same table without the column that may be null."""
    return Counting(path=counting.path, table="sensors", key="id", row=Room)


@given(items=st.lists(st.sampled_from(ITEMS)), coded=st.booleans(), left=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_give_what_items_give(
    rooms: Counting, items: list[tuple[str, str]], *, coded: bool, left: bool
) -> None:
    op: Any = operator(rooms, **({"how": "left", "combine": found_or_not} if left else {"combine": found}))
    assert over_columns(op, items, coded=coded) == emitted(op, items)


def test_a_column_is_asked_for_at_once_and_each_key_once(rooms: Counting) -> None:
    op: Any = operator(rooms, combine=found)
    assert len(over_columns(op, ITEMS * 50, coded=False)) == 5 * 50
    assert rooms.asked == [6]
    assert len(over_columns(op, ITEMS * 50, coded=True)) == 5 * 50
    assert rooms.asked == [6], "the rows are remembered"


def test_a_column_may_have_more_keys_than_are_remembered(rooms: Counting) -> None:
    op: Any = operator(rooms, combine=found, cache=2)
    assert len(over_columns(op, ITEMS, coded=False)) == 5
    assert rooms.asked == [2, 2, 2]


def test_a_database_that_fails_is_left_to_the_item(tmp_path: Path) -> None:
    op: Any = operator(Sqlite(path=tmp_path / "none.sqlite", table="sensors", key="id", row=Room), combine=found)
    with pytest.raises(Undefined):
        over_columns(op, ITEMS, coded=False)
    with pytest.raises(OperatorFailed, match="TT215"):
        emitted(op, ITEMS)


def test_columns_that_may_be_null_are_read_by_the_item(sqlite: Sqlite[Sensor]) -> None:
    with pytest.raises(Untraceable, match=r"asks a table whose limit is float \| None"):
        trace_on_item(operator(sqlite), String(), String())


# ------------------------------------------------------------------------------------------------- sessions


def test_nothing_that_is_open_is_shipped(database: Database[Sensor]) -> None:
    op = operator(database)
    expected = emitted(op, ITEMS)
    script = (
        "import sys, cloudpickle\n"
        "op, items = cloudpickle.loads(sys.stdin.buffer.read())\n"
        "out = []\n"
        "for key, value in items:\n"
        "    op.on_item(key, value, lambda key, value: out.append((key, value)))\n"
        "sys.stdout.buffer.write(repr(out).encode())\n"
    )
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        shipped = cloudpickle.dumps((op, ITEMS))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    other = subprocess.run([sys.executable, "-c", script], input=shipped, capture_output=True)
    assert other.returncode == 0, other.stderr.decode()
    assert other.stdout.decode() == repr(expected)


def test_a_fork_opens_its_own(sqlite: Sqlite[Sensor], monkeypatch: pytest.MonkeyPatch) -> None:
    here = SESSIONS.of(sqlite, 5)
    assert SESSIONS.of(sqlite, 5) is here
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        assert SESSIONS.of(sqlite, 5) is not here
        SESSIONS.close()
    SESSIONS.close()
    SESSIONS.inherited.clear()


def test_nothing_is_written(sqlite: Sqlite[Sensor]) -> None:
    connection = sqlite.connect()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM sensors")
    connection.close()


def test_nothing_is_written_to_a_server(server: Server) -> None:
    psycopg = pytest.importorskip("psycopg")
    opened = Postgres(connection=server.connection, table="sensors", key="id", row=Sensor).connect()
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        opened.connection.execute("DELETE FROM sensors")
    opened.close()


# ------------------------------------------------------------------------------------------------- errors


def test_TT215_a_file_that_is_not_there(tmp_path: Path) -> None:
    nowhere = Sqlite(path=str(tmp_path / "none.db"), table="sensors", key="id", row=Sensor)
    with pytest.raises(OperatorFailed, match="unable to open") as caught:
        preview(operator(nowhere), U[str, str], ITEMS)
    assert caught.value.code == "TT215"
    assert not list(tmp_path.iterdir())


def test_TT215_a_table_that_is_not_there(database: Database[Sensor]) -> None:
    with pytest.raises(OperatorFailed, match="nothing_of_the_kind") as caught:
        preview(operator(attrs.evolve(database, table="nothing_of_the_kind")), U[str, str], ITEMS)
    assert caught.value.code == "TT215"


def test_TT215_several_rows_for_a_key(database: Database[Sensor]) -> None:
    with pytest.raises(OperatorFailed, match="has several rows with id = 'a'") as caught:
        preview(operator(attrs.evolve(database, table="twice")), U[str, str], ITEMS)
    assert caught.value.code == "TT215"


def test_TT215_a_row_that_does_not_fit(database: Database[Sensor]) -> None:
    wrong: Any = attrs.evolve(database, row=Wrong)  # type: ignore[arg-type]
    with pytest.raises(OperatorFailed, match=r"row id = 'a': .room is 'kitchen', expected int") as caught:
        preview(operator(wrong), U[str, str], ITEMS)
    assert caught.value.code == "TT215"


def test_a_key_that_cannot_be_there_has_no_row(database: Database[Sensor]) -> None:
    """A NUL, half a character, and what is not equal to itself."""
    impossible = ["a\0", "\0", "\ud800", "a"]
    left: Any = operator(database, how="left", combine=described_or_not)
    items = [("m", key) for key in impossible]
    assert emitted(left, items) == [*((k, f"{v}: None") for k, v in items[:-1]), ("m", f"a: {ROWS['a']}")]
    session = Session(database, 10)
    assert session.rows(impossible) == {"a": ROWS["a"]}
    assert session.row(float("nan")) is None
    session.close()


def test_TT215_a_row_that_no_key_asked_for(tmp_path: Path) -> None:
    """SQLite takes a text for the number that it says, and another text for equal where a column says so."""
    path = tmp_path / "odd.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE numbers (id INTEGER, room TEXT)")
        connection.execute("CREATE TABLE texts (id TEXT COLLATE NOCASE, room TEXT)")
        connection.execute("INSERT INTO numbers VALUES (7, 'attic')")
        connection.execute("INSERT INTO texts VALUES ('Ab', 'attic')")
    connection.close()
    for table, key, stored in (("numbers", "7", 7), ("texts", "AB", "Ab")):
        session = Session(Sqlite(path=path, table=table, key="id", row=OnlyRoom), 10)
        with pytest.raises(OperatorFailed, match=f"has found the row id = {stored!r}, and by= returned none") as caught:
            session.row(key)
        assert caught.value.code == "TT215"
        session.close()
    session = Session(Sqlite(path=path, table="numbers", key="id", row=OnlyRoom), 10)
    assert session.rows([2**63, 7, -(2**70)]) == {7: OnlyRoom("attic")}
    session.close()


@attrs.frozen
class OnlyRoom:
    """One column."""

    room: str


def test_TT215_a_server_that_died_loses_nothing(server: Server) -> None:
    database = Postgres(connection=server.connection, table="sensors", key="id", row=Sensor)
    op = operator(database, cache=1)
    expected = emitted(op, ITEMS)
    server.stop()
    try:
        with pytest.raises(OperatorFailed) as caught:
            emitted(op, ITEMS)
        assert caught.value.code == "TT215"
        assert "cannot be asked: OperationalError" in caught.value.message
        assert server.connection not in str(caught.value)
    finally:
        server.start()
    assert emitted(op, ITEMS) == expected


def test_a_connection_that_was_lost_is_opened_again(server: Server) -> None:
    database = Postgres(connection=server.connection, table="sensors", key="id", row=Sensor)
    op = operator(database, cache=1)
    expected = emitted(op, ITEMS)
    server.stop()
    server.start()
    assert emitted(op, ITEMS) == expected


def test_a_secret_is_not_shown() -> None:
    made = Postgres(connection="password=geheim", table="t", key="id", row=Sensor)
    assert "geheim" not in repr(made) + made.named()


@attrs.frozen
class Dashed:
    """A field that could not be a column elsewhere."""

    größe: int


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Sqlite(path="x", table='t" --', key="id", row=Sensor), "Sqlite was given the table"),
        (lambda: Sqlite(path="x", table="t", key="id; DROP", row=Sensor), "Sqlite was given the key"),
        (lambda: Sqlite(path="x", table="t", key="", row=Sensor), "Sqlite was given the key ''"),
        (lambda: Sqlite(path="x", table="t", key="id", row=Dashed), "Sqlite was given the row 'größe'"),
        (lambda: Sqlite(path="x", table="t", key="id", row=int), "no record"),
        (lambda: Postgres(connection="x", table="t", key="id", row=Sensor, schema="a.b"), "the schema 'a.b'"),
        (lambda: ts.lookup_join({}, by=len, combine=described), "lookup_join was given {}"),
        (lambda: operator(Sqlite(path="x", table="t", key="id", row=Sensor), how="outer"), "how='outer'"),
        (lambda: operator(Sqlite(path="x", table="t", key="id", row=Sensor), cache=0), "cache=0"),
        (lambda: operator(Sqlite(path="x", table="t", key="id", row=Sensor), by=3), "no function"),
    ],
)
def test_TT121_what_cannot_be_meant(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.code == "TT121"
    assert text in caught.value.message


def test_TT120_what_is_combined_must_be_declared(sqlite: Sqlite[Sensor]) -> None:
    op = lookup_join(sqlite, by=lambda key, value: value, combine=lambda value, row: hash(row.room))
    flow = Dataflow("wrong")
    with pytest.raises(UsageError, match=r"TT120 lookup_join does not know what .*<lambda> returns"):
        flow.source("in", U[str, int], markers=every(seconds=1, time=lambda n: n)).through(op)


def test_TT401_without_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match="tracetypes\\[postgres\\]") as caught:
        Session(Postgres(connection="x", table="t", key="id", row=Sensor), 1).row("a")
    assert caught.value.code == "TT401"
