"""Tables of a real PostgreSQL as sinks: every type, added rows and rows by key, kills, other drivers, TLS, refusals."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import tracetypes
from tests.local.test_each_batch import READINGS, sorted_readings, write
from tests.local.test_streams import Crash, clicks, line
from tests.stdlib.postgres import Server
from tracetypes import Dataflow, RunError, TraceTypesError, U, UInt64, UsageError, cli, decimal, every
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.columns.batches import END, schema_of_rows
from tracetypes.compiler.connectors import postgres_address
from tracetypes.compiler.connectors.postgres_address import PostgresAddress
from tracetypes.compiler.connectors.postgres_sink import PostgresSink
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.store.connector_output import sink_request
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.fencing import Starts
from tracetypes.testing import check_connector

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")


class Base:
    """A database of its own."""

    def __init__(self, server: Server, name: str) -> None:
        self.server, self.name = server, name
        with psycopg.connect(server.connection, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')

    def address(self, **options: str) -> str:
        settings = "&".join(f"{name}={value}" for name, value in {"table": "counts", **options}.items())
        return f"postgres://tracetypes@127.0.0.1:{self.server.port}/{self.name}?{settings}"

    def rows(self, query: str) -> list[Any]:
        where = self.server.connection.replace("dbname=postgres", f"dbname={self.name}")
        with psycopg.connect(where, autocommit=True) as connection:
            cursor = connection.execute("SET TimeZone TO 'UTC'")
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def base(postgres: Server) -> Base:
    return Base(postgres, "sinks")


def run(address: str, tmp_path: Path, flow: Dataflow | None = None, **options: Any) -> Any:
    options = {"checkpoint": tmp_path / "checkpoint", "files_per_step": 1, "backend": "local", **options}
    flow = flow or clicks()
    (source,) = {one.name for one in flow.graph.sources}
    (sink,) = {one.name for one in flow.graph.sinks}
    return tracetypes.run(flow, {source: str(tmp_path / "in")}, {sink: address}, **options)


COUNTS = "SELECT key, sum(value)::int FROM counts GROUP BY key ORDER BY key"


@attrs.frozen
class Inner:
    a: int
    b: str | None


@attrs.frozen
class Every:
    ts: int
    number: int | None
    large: UInt64
    price: Annotated[Decimal, decimal(10, 2)]
    part: float
    name: str | None
    raw: bytes
    day: dt.date
    at: dt.datetime
    yes: bool
    inner: Inner | None
    many: list[int]


FIRST, LAST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC)
NO, LEAP, LARGE = Decimal("0.00"), dt.date(2024, 2, 29), UInt64(2**64 - 1)
EVERY = [
    Every(1, None, LARGE, Decimal("1.50"), float("inf"), None, b"\0\xff", LEAP, FIRST, True, None, []),
    Every(2, -(2**63), UInt64(0), Decimal("-3.25"), 0.1, "", b"", dt.date(1, 1, 1), LAST, False, Inner(1, '"x"'), [1, 2]),
    Every(3, 7, UInt64(1), NO, 1e-300, 'a,"b"\n\\.\n\\N é', b"\\x", LEAP, FIRST, True, Inner(2, None), [3]),
]


def test_every_type(base: Base, tmp_path: Path) -> None:
    flow = Dataflow("every")
    source = flow.source("rows", U[str, Every], key=lambda r: str(r.ts), markers=every(seconds=10, time=lambda r: r.ts))
    flow.sink("all", source, marker="until")
    inputs, outputs = {"rows": EVERY}, {"all": base.address(table="all")}
    tracetypes.run(flow, inputs, outputs, backend="local", checkpoint=tmp_path / "c")
    kinds = dict(base.rows("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'all'"))
    assert kinds == {
        "key": "text",
        "ts": "bigint",
        "number": "bigint",
        "large": "numeric",
        "price": "numeric",
        "part": "double precision",
        "name": "text",
        "raw": "bytea",
        "day": "date",
        "at": "timestamp with time zone",
        "yes": "boolean",
        "inner": "jsonb",
        "many": "jsonb",
        "until": "timestamp with time zone",
    }
    names = [one.name for one in attrs.fields(Every)]
    quoted = ", ".join(f'"{name}"' for name in names)
    found = base.rows(f'SELECT {quoted} FROM "all" ORDER BY ts')
    plain = [attrs.asdict(one) for one in EVERY]
    assert [dict(zip(names, row, strict=True)) for row in found] == plain


# --------------------------------------------------------------------------------------------------------- once


STEPS = [(PostgresSink, "write"), (PostgresSink, "_note"), (RunStore, "commit"), (LocalLog, "end"), (LocalLog, "begin")]


@pytest.mark.parametrize("mode", ["append", pytest.param("upsert", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_run_that_is_killed_writes_each_row_once(
    base: Base, tmp_path: Path, step: tuple[Any, str], when: str, mode: str
) -> None:
    owner, name = step
    real, calls, at = getattr(owner, name), list[int](), 3 if name == "_note" else 2
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    write(tmp_path / "in", 1, line("a", 13), line("a", 14), line("b", 25))
    address = base.address(mode=mode) if mode == "append" else base.address(mode=mode, key="key,until")

    def call(*args: Any, **options: Any) -> Any:
        calls.append(0)
        if len(calls) == at and when == "before":
            raise Crash
        result = real(*args, **options)
        if len(calls) == at:
            raise Crash
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        with pytest.raises(RunError, match="Crash"):
            run(address, tmp_path, drain=False)
    write(tmp_path / "in", 2, line("a", 26), line("c", 47))
    run(address, tmp_path, files_per_step=None, drain=False)
    assert base.rows(COUNTS) == [("a", 4), ("b", 2)]
    assert len(base.rows("SELECT 1 FROM counts")) == 5


def test_another_run_adds_its_rows(base: Base, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    for number in range(2):
        run(base.address(), tmp_path, checkpoint=tmp_path / str(number))
    assert base.rows(COUNTS) == [("a", 2), ("b", 2)]
    assert len(base.rows("SELECT DISTINCT run FROM tracetypes_epochs")) == 2


def test_a_copy_of_a_checkpoint_is_shut_out(base: Base, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    run(base.address(), tmp_path, drain=False)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    write(tmp_path / "in", 1, line("b", 25))
    run(base.address(), tmp_path, drain=False)
    with pytest.raises(RunError, match=r"TT209 .*public.counts of postgres://127.0.0.1.* is written by another driver"):
        run(base.address(), tmp_path, checkpoint=tmp_path / "copy")
    assert base.rows(COUNTS) == [("a", 1), ("b", 1)]


def test_a_driver_that_another_one_has_shut_out_writes_nothing(base: Base) -> None:
    plan = compile_program(clicks()).plans[0]
    request, columns = sink_request(plan, base.address(), "11111111")
    one, other = (PostgresSink(request) for _ in range(2))
    one.begin(Starts((1,), -1))
    other.begin(Starts((1, 2), -1))
    batch = pa.RecordBatch.from_pylist([{"key": "a", "value": 1, END: 0}], schema_of_rows(plan.layout))
    rows = pa.Table.from_batches([columns.of(batch)])
    with pytest.raises(RunError, match=r"TT209 .*is written by another driver"):
        one.write(0, rows)
    other.write(0, rows)
    other.write(0, rows)
    for sink in (one, other):
        sink.close()
    assert base.rows(COUNTS) == [("a", 1)]


def test_it_keeps_the_promises_of_connectors(base: Base) -> None:
    """It is one of the public protocol."""

    def stored() -> list[dict[str, Any]]:
        there = base.rows("SELECT 1 FROM pg_class WHERE relname = 'counts'")
        return [{"number": one, "text": text} for one, text in base.rows("SELECT number, text FROM counts")] if there else []

    assert check_connector(sink=PostgresSink, address=base.address(), stored=stored, kills=4) == 4


def test_a_server_that_is_back_between_epochs_is_asked_again(base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_epoch, calls = PostgresSink.write, list[int]()

    def cut(self: PostgresSink, *args: Any) -> None:
        base.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tracetypes'")
        calls.append(0)
        write_epoch(self, *args)

    monkeypatch.setattr(PostgresSink, "write", cut)
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    write(tmp_path / "in", 1, line("b", 25))
    run(base.address(), tmp_path)
    assert base.rows(COUNTS) == [("a", 1), ("b", 2)]
    assert len(calls) > 1


# ------------------------------------------------------------------------------------------------------- by key


def newest(**options: Any) -> Dataflow:
    """The clicks themselves: a flow without state, whose rows leave when they come."""
    flow = Dataflow("newest")
    markers = every(seconds=10, delay=1000, time=lambda c: c.ts)
    source = flow.source("clicks", U[str, stdlib_row], key=lambda c: c.page, markers=markers)
    flow.sink("newest", source, marker="until", **options)
    return flow


@attrs.frozen
class Price:
    page: str
    ts: int
    cents: int | None


stdlib_row = Price
ROWS = st.tuples(st.sampled_from("ab"), st.integers(0, 29), st.none() | st.integers(0, 3))


@examples(max_examples=5)
@given(files=st.lists(st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=3), data=st.data())
def test_one_row_of_each_key_whatever_the_cut(
    postgres: Server, files: list[list[Any]], data: st.DataObject, tmp_path_factory: Any
) -> None:
    """That of the newest marker, then the largest by its columns."""
    base, tmp_path = Base(postgres, "upserts"), tmp_path_factory.mktemp("upserts")
    rows = data.draw(st.permutations([row for file in files for row in file]))
    cuts = iter(rows)
    for number, file in enumerate(files):
        lines = [json.dumps(dict(zip(("page", "ts", "cents"), next(cuts), strict=True))).encode() + b"\n" for _ in file]
        write(tmp_path / "in", number, *lines)
    run(base.address(mode="upsert"), tmp_path, newest())

    def size(row: Sequence[Any]) -> tuple[Any, ...]:
        return row[1] // 10, row[1], -1 if row[2] is None else row[2]  # jsonb: null comes before numbers

    expected = {}
    for row in sorted(rows, key=size):
        expected[row[0]] = (row[0], row[1], row[2])
    assert base.rows("SELECT page, ts, cents FROM counts ORDER BY key") == [expected[key] for key in sorted(expected)]


def test_the_last_row_of_a_block_by_position_stays(base: Base, tmp_path: Path) -> None:
    """Neither the one that came last, nor the one with the newest time."""
    for block, row in ((READINGS[:4], ("one", 3, "d", 3)), (READINGS[4:7], ("one", 15, "x", 2))):
        write(tmp_path / "in", block[0].ts, *(json.dumps(attrs.asdict(one)).encode() + b"\n" for one in block))
        checkpoint = tmp_path / str(block[0].ts)
        run(base.address(table="sorted", mode="upsert"), tmp_path, sorted_readings(), checkpoint=checkpoint)
        assert base.rows("SELECT key, ts, name, place FROM sorted") == [row]


def test_a_row_without_a_marker_is_replaced(base: Base, tmp_path: Path) -> None:
    """In a table with the name that SQL has for new rows, whose names need quotes."""
    base.rows('CREATE TABLE excluded (key text PRIMARY KEY, page text, ts int, cents int, until timestamptz, "Not ""ours" int)')
    base.rows("INSERT INTO excluded VALUES ('a', 'a', 99, 7, NULL, 1), ('b', 'b', 99, 7, '2024-01-01', 2)")
    write(tmp_path / "in", 0, *(f'{{"page": "{page}", "ts": 1, "cents": 2}}\n'.encode() for page in "ab"))
    run(base.address(table="excluded", mode="upsert"), tmp_path, newest())
    assert base.rows("SELECT * FROM excluded ORDER BY key") == [
        ("a", "a", 1, 2, dt.datetime(1970, 1, 1, 0, 0, 10, tzinfo=dt.UTC), 1),
        ("b", "b", 99, 7, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), 2),
    ]


# ------------------------------------------------------------------------------------------------------- refused


@attrs.frozen
class Precise:
    ts: int
    part: float
    price: Annotated[Decimal, decimal(10, 2)]
    at: dt.datetime
    name: str


FITTING = {"part": "numeric", "price": "numeric(20,2)", "at": "timestamptz(6)", "name": "varchar(3)", "ts": "numeric(5,0)"}


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        ("part", "numeric(10,2)", r"its column part is numeric\(10,2\), which rounds"),
        ("price", "numeric(20,1)", r"its column price is numeric\(20,1\), which rounds"),
        ("ts", "numeric(5,-2)", r"its column ts is numeric\(5,-2\), which rounds"),
        ("at", "timestamptz(3)", r"its column at is timestamp\(3\) with time zone, which rounds"),
        ("name", "name", "name name"),
        ("name", "char(5)", r"name character\(5\)"),
        ("", "", ""),
    ],
)
def test_columns_that_would_change_values(base: Base, tmp_path: Path, column: str, kind: str, said: str) -> None:
    flow = Dataflow("precise")
    source = flow.source("rows", U[str, Precise], key=lambda r: r.name, markers=every(seconds=10, time=lambda r: r.ts))
    flow.sink("all", source)
    columns = ", ".join(f"{name} {kind if name == column else fitting}" for name, fitting in FITTING.items())
    base.rows(f"CREATE TABLE precise (key text, {columns})")
    row = Precise(1, 0.126, Decimal("1.25"), FIRST.replace(microsecond=600001), "ab")

    def go() -> None:
        outputs = {"all": base.address(table="precise")}
        tracetypes.run(flow, {"rows": [row]}, outputs, backend="local", checkpoint=tmp_path / "c")

    if not column:
        go()
        found = base.rows("SELECT ts, part, price, at, name FROM precise")
        assert found == [(1, Decimal("0.126"), row.price, row.at, "ab")]
        return
    with pytest.raises(RunError, match=f"TT209 .*{said}"):
        go()
    assert not base.rows("SELECT 1 FROM precise")


def test_a_table_with_other_columns(base: Base, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    base.rows("CREATE TABLE counts (key text, value boolean)")
    with pytest.raises(RunError, match=r"TT209 .* it has key text, value boolean; the sink has key text, value bigint, until"):
        run(base.address(), tmp_path)
    base.rows("DROP TABLE counts")
    base.rows("CREATE TABLE counts (number int NOT NULL, key text, value int, until timestamptz)")
    with pytest.raises(RunError, match=r"TT209 .*number must have a value"):
        run(base.address(), tmp_path, checkpoint=tmp_path / "two")
    base.rows("ALTER TABLE counts ALTER number ADD GENERATED ALWAYS AS IDENTITY")
    run(base.address(), tmp_path, checkpoint=tmp_path / "three")
    assert base.rows(COUNTS) == [("a", 1), ("b", 1)]
    with pytest.raises(RunError, match=r"TT209 .*no unique or exclusion constraint"):
        run(base.address(mode="upsert"), tmp_path, checkpoint=tmp_path / "four")


def test_TT218_a_table_that_was_made_anew(base: Base, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    run(base.address(), tmp_path, drain=False)
    base.rows("DROP TABLE counts")
    with pytest.raises(RunError, match=r"TT218 sink 'counts': table postgres://.* is another one than it began with"):
        run(base.address(), tmp_path)


def test_TT218_a_table_that_is_made_anew_during_the_run(
    base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_epoch, calls = PostgresSink.write, list[int]()

    def anew(self: PostgresSink, *args: Any) -> None:
        calls.append(0)
        if len(calls) == 2:
            base.rows("CREATE TABLE other (LIKE counts); DROP TABLE counts; ALTER TABLE other RENAME TO counts")
        write_epoch(self, *args)

    monkeypatch.setattr(PostgresSink, "write", anew)
    for number in range(3):
        write(tmp_path / "in", number, line("a", 20 * number), line("b", 20 * number))
    with pytest.raises(RunError, match=r"TT218 public.counts of .* has changed since the run began: it was made anew"):
        run(base.address(), tmp_path)
    assert not base.rows(COUNTS)


def test_a_text_that_no_table_has(base: Base, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, line("a\\u0000", 1), line("b", 12))
    with pytest.raises(RunError, match=r"TT209 .*invalid byte sequence"):
        run(base.address(), tmp_path)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgres://u@h/db", "names no table"),
        ("postgres://u@h/db?table=t&mode=replace", "has the mode 'replace'"),
        ("postgres://u@h/db?table=t&key=a", "has a key, and adds rows"),
        ("postgres://u@h/db?table=t&sslmod=require", "has sslmod=, which is no setting"),
        (f"postgres://u@h/db?table={'t' * 64}", "has a name of more than 63 bytes"),
        ("postgres://u@h:99999/db?table=t", "has a port that is no number up to 65535"),
        ("postgres://u@h:5x/db?table=t", "has a port that is no number up to 65535"),
        ("postgres://u@h/db?table=t&table=u", "has a setting twice"),
    ],
)
def test_addresses_that_are_refused(address: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"TT402 .*{said}"):
        PostgresAddress.of(address)


@pytest.mark.parametrize("address", ["postgres://u:unsaid-7f3@h/db?table=t", "postgresql://u@h/db?table=t&password=unsaid-7f3"])
def test_a_password_is_no_part_of_an_address(address: str) -> None:
    with pytest.raises(UsageError, match=r"TT402 .*has a password, which would stand in logs") as caught:
        PostgresAddress.of(address)
    assert "unsaid-7f3" not in str(caught.value)


def test_what_a_sink_needs_for_a_key(base: Base, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, line("a", 1))
    flow = Dataflow("no marker")
    source = flow.source("clicks", U[str, Price], key=lambda c: c.page, markers=every(seconds=10, time=lambda c: c.ts))
    flow.sink("newest", source)
    with pytest.raises(UsageError, match=r"TT402 .*no marker= column"):
        run(base.address(mode="upsert"), tmp_path, flow)
    with pytest.raises(UsageError, match="TT402 key=shop: sink 'newest' has no such column"):
        run(base.address(mode="upsert", key="shop"), tmp_path, newest())
    with pytest.raises(UsageError, match="TT402 key=cents: sink 'newest' may be None there"):
        run(base.address(mode="upsert", key="cents"), tmp_path, newest())
    with pytest.raises(UsageError, match=r"TT402 .*keeps no checkpoint"):
        run(base.address(), tmp_path, checkpoint=None)
    with pytest.raises(UsageError, match=r"(?s)TT402 .*which is no input"):
        tracetypes.run(clicks(), {"clicks": base.address()}, {"counts": []}, backend="local")


def test_no_server_and_no_TLS(base: Base, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, line("a", 1))
    with pytest.raises(RunError, match=r"TT209 table public.counts of postgres://127.0.0.1:\d+/sinks cannot be written: .*SSL"):
        run(base.address(sslmode="require"), tmp_path)
    with pytest.raises(RunError, match=r"TT209 .*database \"none\" does not exist"):
        run(base.address().replace("/sinks", "/none"), tmp_path)


def test_another_machine_must_show_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def connect(**settings: str) -> None:
        seen.append(settings)
        raise ConnectionError

    monkeypatch.setattr(psycopg, "connect", connect)
    for name in ("PGSSLMODE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    for host in ("db.example", "127.0.0.1", "db.example&sslmode=disable"):
        host, _, more = host.partition("&")
        with pytest.raises(ConnectionError):
            PostgresAddress.of(f"postgres://u@{host}/db?table=t&{more}").connect()
    for name in ("db.example", "/run/postgresql"):
        monkeypatch.setenv("PGHOST", name)
        with pytest.raises(ConnectionError):
            PostgresAddress.of("postgres:///db?table=t").connect()
    assert [one.get("sslmode") for one in seen] == ["verify-full", None, "disable", "verify-full", None]
    assert seen[0].get("sslrootcert") == "system"


def test_TLS_and_a_password_in_a_file(postgres: Server, base: Base, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    data = postgres.folder / "data"
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1".split()  # noqa: SIM905
    files = ["-keyout", str(data / "server.key"), "-out", str(data / "server.crt")]
    subprocess.run(["openssl", *words, *files], check=True, capture_output=True)
    owner = data.stat()
    for name in ("server.key", "server.crt"):
        shutil.chown(data / name, owner.st_uid, owner.st_gid)
    (data / "server.key").chmod(0o600)
    shutil.copy(data / "server.crt", tmp_path / "root.crt")
    rules = data / "pg_hba.conf"
    before = rules.read_text()
    try:
        base.rows("ALTER SYSTEM SET ssl = on")
        base.rows("DROP OWNED BY writer") if base.rows("SELECT 1 FROM pg_roles WHERE rolname = 'writer'") else None
        base.rows("DROP ROLE IF EXISTS writer")
        base.rows("CREATE ROLE writer LOGIN PASSWORD 'unsaid-7f3'")
        base.rows("GRANT ALL ON SCHEMA public TO writer")
        rules.write_text("hostssl sinks writer 127.0.0.1/32 scram-sha-256\n" + before)
        base.rows("SELECT pg_reload_conf()")
        write(tmp_path / "in", 0, line("a", 1), line("b", 12))
        (tmp_path / "pass").write_text(f"127.0.0.1:{postgres.port}:sinks:writer:unsaid-7f3\n")
        (tmp_path / "pass").chmod(0o600)
        options = {"sslmode": "verify-full", "sslrootcert": str(tmp_path / "root.crt"), "passfile": str(tmp_path / "pass")}
        address = base.address(**options).replace("tracetypes@", "writer@")
        run(address, tmp_path)
        assert base.rows(COUNTS) == [("a", 1), ("b", 1)]
        (tmp_path / "pass").write_text(f"127.0.0.1:{postgres.port}:sinks:writer:wrong-7f3\n")
        with pytest.raises(TraceTypesError, match=r"TT209 .*password authentication failed") as caught:
            run(address, tmp_path, checkpoint=tmp_path / "two")
        assert "7f3" not in str(caught.value)
    finally:
        rules.write_text(before)
        base.rows("ALTER SYSTEM RESET ssl")
        base.rows("SELECT pg_reload_conf()")
    everything = b"".join(one.read_bytes() for one in (tmp_path / "checkpoint").rglob("*") if one.is_file())
    assert b"unsaid-7f3" not in everything


def test_the_command_line(base: Base, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    words = ["-i", f"clicks={tmp_path}/in", "-o", f"counts={base.address()}", "--checkpoint", f"{tmp_path}/c"]
    assert cli.main(["run", f"{__file__}:command", "--backend", "local", *words]) == 0
    assert base.rows(COUNTS) == [("a", 1), ("b", 1)]
    assert postgres_address.LONGEST == 63


command = clicks()
