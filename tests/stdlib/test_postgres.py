"""Look-ups in a real PostgreSQL: keys and columns of all types. Never is a row found and dropped."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.stdlib.postgres import Server
from tracetypes.errors import OperatorFailed
from tracetypes.stdlib.lookups import Session
from tracetypes.stdlib.postgres import Postgres, columns_of

ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)

STORED: dict[str, Any] = {
    "uuid": ID,
    "int2": 7,
    "int4": 7,
    "int8": 7,
    "numeric": decimal.Decimal("0.1"),
    "numeric(10, 2)": 7,
    "float4": 0.1,
    "float8": 0.1,
    "bool": True,
    "text": "Ab",
    "varchar(9)": "Ab",
    "char(5)": "Ab",
    "name": "Ab",
    "text COLLATE nocase": "Ab",
    "varchar(9) COLLATE nocase": "Ab",
    "color": "Ab",
    "small": 7,
    "bytea": b"Ab",
    "date": NOON.date(),
    "timestamp": NOON.replace(tzinfo=None),
    "timestamptz": NOON,
}
"""Types of key columns, with the value that the only row has."""

KEYS: list[Any] = [
    *(
        str(ID),
        str(ID).upper(),
        ID,
        "7",
        "07",
        7,
        7.0,
        decimal.Decimal(7),
        "0.1",
        0.1,
        decimal.Decimal("0.1"),
        True,
        "t",
    ),
    *("Ab", "AB", "Ab   ", "color", b"Ab", NOON, NOON.replace(tzinfo=None), NOON.date(), NOON.isoformat()),
    *(NOON.astimezone(dt.timezone(dt.timedelta(hours=5))), "2026-01-02", "a\0b", "\ud800", float("nan"), float("inf")),
    *(2**63, -(2**70), 0, False, b"", ""),
]


@attrs.frozen
class Row:
    """A row."""

    room: str


@pytest.fixture(scope="module")
def server(postgres: Server) -> Server:
    """A table for each type."""
    import psycopg

    with psycopg.connect(postgres.connection) as connection:
        connection.execute(
            "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        connection.execute("CREATE TYPE color AS ENUM ('Ab', 'Cd')")
        connection.execute("CREATE DOMAIN small AS int4 CHECK (VALUE < 10)")
        for number, (kind, stored) in enumerate(STORED.items()):
            connection.execute(f"CREATE TABLE k{number} (id {kind}, room text)")
            connection.execute(f"INSERT INTO k{number} VALUES (%s, 'attic')", [stored])
        connection.execute("CREATE TABLE columns (id int, n numeric, u uuid, j json, b jsonb, t timestamp)")
        connection.execute(
            "INSERT INTO columns VALUES (1, 0.1, %s, '{\"a\": 1.50}', '{\"a\": 2}', '2026-01-02'), "
            "(2, NULL, NULL, NULL, NULL, NULL)",
            [ID],
        )
    return postgres


def session(server: Server, table: str, row: Any = Row, **more: Any) -> Session:
    """A session."""
    return Session(Postgres(connection=server.connection, table=table, key="id", row=row, **more), 100)


@pytest.fixture
def raw(server: Server) -> Iterator[Any]:
    """A connection without any care."""
    import psycopg

    with psycopg.connect(server.connection, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(("number", "kind"), list(enumerate(STORED)), ids=list(STORED))
def test_no_row_is_found_and_dropped(server: Server, raw: Any, number: int, kind: str) -> None:
    """A key has the row that the server finds for it, or its type is refused."""
    import psycopg

    answers = dict[str, int]()
    for key in KEYS:
        try:
            (count,) = raw.execute(f"SELECT count(*) FROM k{number} WHERE id = ANY(%s)", [[key]]).fetchone()
        except (psycopg.Error, UnicodeEncodeError):
            count = 0
        one = session(server, f"k{number}")
        try:
            row = one.row(key)
        except OperatorFailed as refused:
            answer = refused.code
        else:
            assert row == (Row("attic") if count and key == key else None)
            assert row is None or key == STORED[kind]
            answer = "no row" if row is None else "a row"
        answers[answer] = answers.get(answer, 0) + 1
        one.close()
    assert answers["TT215"] > len(KEYS) // 2
    readable = kind.partition("(")[0] not in ("char", "float4", "color") and "nocase" not in kind
    assert (answers.get("a row", 0) > 0) == readable


@pytest.mark.parametrize(
    ("kind", "key", "said", "fix"),
    [
        ("uuid", str(ID), "column id is uuid, and by= returned '12345678-", "let by= return a uuid.UUID"),
        ("int4", "7", "column id is int4, and by= returned '7'", "let by= return an int"),
        ("small", "7", "column id is int4, and by= returned '7'", "let by= return an int"),
        ("char(5)", "Ab", "column id is bpchar, and", "ask a view that has id::text AS id"),
        ("color", "Ab", "column id is color, and", "ask a view that has id::text AS id"),
        ("text COLLATE nocase", "AB", "column id is text in a collation", 'a view that has id COLLATE "C" AS id'),
        ("numeric", 0.1, "column id is numeric, and by= returned 0.1", "let by= return a decimal.Decimal"),
        ("timestamp", NOON, "column id is timestamp, and by= returned", "let by= return a datetime without a zone"),
    ],
)
def test_TT215_a_key_is_not_of_its_columns_type(server: Server, kind: str, key: Any, said: str, fix: str) -> None:
    one = session(server, f"k{list(STORED).index(kind)}")
    with pytest.raises(OperatorFailed) as refused:
        one.row(key)
    one.close()
    assert refused.value.code == "TT215"
    assert said in refused.value.message
    assert fix in str(refused.value)


def test_the_views_that_are_proposed_help(server: Server, raw: Any) -> None:
    wanted = {"char(5)": "id::text AS id", "color": "id::text AS id", "float4": "id::float8 AS id"}
    wanted["text COLLATE nocase"] = 'id COLLATE "C" AS id'
    for at, (kind, column) in enumerate(wanted.items()):
        raw.execute(f"CREATE VIEW v{at} AS SELECT {column}, room FROM k{list(STORED).index(kind)}")
        one = session(server, f"v{at}")
        key = 0.10000000149011612 if kind == "float4" else "Ab"
        assert one.row(key) == Row("attic")
        one.close()


@attrs.frozen
class Inner:
    """What a JSON column holds."""

    a: float


@attrs.frozen
class Texts:
    """Columns as texts."""

    n: str | None
    u: str | None
    j: str | None
    b: str | None


@attrs.frozen
class Values:
    """Columns as values."""

    n: float | None
    j: Inner | None
    b: Inner | None


@attrs.frozen
class Whole:
    """What no column is."""

    n: int


@attrs.frozen
class Instant:
    """A time that needs a zone."""

    t: dt.datetime | None


def test_columns_are_read_with_the_types_of_the_record(server: Server) -> None:
    for row, wanted in (
        (Texts, Texts("0.1", str(ID), '{"a": 1.50}', '{"a": 2}')),
        (Values, Values(0.1, Inner(1.5), Inner(2.0))),
    ):
        one = session(server, "columns", row)
        found = one.rows([1, 2, 3])
        one.close()
        assert found == {1: wanted, 2: row(*[None] * len(attrs.fields(row)))}


@pytest.mark.parametrize(
    ("row", "said", "fix"),
    [
        (Whole, "column n is numeric, and Whole.n is int", "declare it as float or str"),
        (Instant, "column t is timestamp, and Instant.t is", "t AT TIME ZONE 'UTC' AS t"),
    ],
)
def test_TT215_a_column_that_is_not_read(server: Server, row: type[Any], said: str, fix: str) -> None:
    one = session(server, "columns", row)
    with pytest.raises(OperatorFailed) as refused:
        one.row(2)
    assert refused.value.code == "TT215"
    assert said in refused.value.message
    assert fix in str(refused.value)


def test_a_text_that_the_encoding_of_the_database_lacks_has_no_row(
    server: Server, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the encoding of the client is makes no difference."""
    import psycopg

    raw.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    other = server.connection.replace("dbname=postgres", "dbname=latin")
    for connection, texts in ((server.connection, ["é", "日本"]), (other, ["é"])):
        with psycopg.connect(connection) as made:
            made.execute("CREATE TABLE odd (id text, room text)")
            for text in texts:
                made.execute("INSERT INTO odd VALUES (%s, 'attic')", [text])
        for encoding in ("UTF8", "LATIN1"):
            monkeypatch.setenv("PGCLIENTENCODING", encoding)
            one = Session(Postgres(connection=connection, table="odd", key="id", row=Row), 10)
            assert sorted(one.rows(["é", "日本", "é\0"])) == texts
            one.close()


def test_columns_of_other_keys_are_refused() -> None:
    assert columns_of((1, 2)) == columns_of(None) == ()


@pytest.mark.parametrize(
    ("change", "asked", "said"),
    [
        ("id TYPE int USING id::int", "2", "has found the row id = 2, and by= returned none that is equal to that"),
        ("id TYPE char(5)", "2", "has found the row id = '2    ', and by= returned none that is equal to that"),
        ("id TYPE text COLLATE nocase", "b", "has found the row id = 'B', and by= returned none that is equal to that"),
        ("room TYPE int USING length(room)", "2", "row id = '2'"),
    ],
)
def test_TT215_a_column_gets_another_type_while_a_run_asks(
    server: Server, raw: Any, change: str, asked: str, said: str
) -> None:
    raw.execute("DROP TABLE IF EXISTS changing")
    raw.execute("CREATE TABLE changing (id text, room text)")
    raw.execute("INSERT INTO changing VALUES ('1', 'attic'), ('2', 'attic')")
    if "nocase" in change:
        raw.execute("INSERT INTO changing VALUES ('B', 'attic')")
    one = session(server, "changing")
    assert one.row("1") == Row("attic")
    raw.execute(f"ALTER TABLE changing ALTER {change}")
    with pytest.raises(OperatorFailed) as refused:
        one.row(asked)
    one.close()
    assert refused.value.code == "TT215"
    assert said in refused.value.message
