"""Changes of rows as Debezium sends them."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any

import attrs
import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_column_names import Message
from tests.test_registered_records import address, framed, reading, registry, taken
from tracetypes import (
    Change,
    CheckFailed,
    Dataflow,
    RunError,
    U,
    Unit,
    UsageError,
    check,
    debezium,
    every,
    interpret_rows,
)
from tracetypes.compiler.connectors.kafka_sink import TopicSink
from tracetypes.compiler.plan.plan import FromSource, SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.store.source_files import SourceFiles
from tracetypes.sources import record_reader
from tracetypes.stdlib import table_join
from tracetypes.trace import Item

__all__ = ["registry"]


@attrs.frozen
class Account:
    id: int
    owner: str
    cents: int | None


@attrs.frozen
class AccountKey:
    id: int


AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC)
MILLIS = int(AT.timestamp() * 1000)
LSN = "00000027:00000758:0005"
ANN, BOB = {"id": 1, "owner": "Ann", "cents": 5}, {"id": 1, "owner": "Bob", "cents": None}


def leaf_of(edge: Any = U[Unit, Change[Account]], format: Any = None, **options: Any) -> FromSource:
    """The source of a flow."""
    flow = Dataflow("changes")
    markers = every(seconds=10, time=lambda change: change.at)
    flow.sink("out", flow.source("accounts", edge, markers=markers, format=format or debezium(row=Account), **options))
    (link,) = links(plan(check(flow)).stages[0].region)
    assert isinstance(link, SourceLink)
    return link.leaf


def row_of(value: Any, raw_key: Any = None, edge: Any = U[Unit, Change[Account]], **options: Any) -> Any:
    """What a source makes of a record of JSON."""
    leaf = leaf_of(edge, **options)
    key, raw = (None if one is None else json.dumps(one).encode() for one in (raw_key, value))
    return record_reader(leaf.source, leaf.layout)(key, raw, ())


def envelope(op: str, before: Any, after: Any, **source: Any) -> dict[str, Any]:
    """An envelope; of PostgreSQL if nothing is said."""
    origin = {"version": "3.0", "connector": "postgresql", "name": "db", "ts_ms": MILLIS, "lsn": 7, "table": "accounts", **source}
    return {"before": before, "after": after, "source": origin, "op": op, "ts_ms": MILLIS + 99, "transaction": None}


@pytest.mark.parametrize("schema", [False, True])
def test_an_envelope_is_a_change(schema: bool) -> None:
    """With the schema of JSON beside it, or without."""

    def sent(value: Any) -> Any:
        return {"schema": {"type": "struct"}, "payload": value} if schema else value

    row = row_of(sent(envelope("u", ANN, BOB)))
    assert (row.kind, row.time) == ("item", MILLIS * 1000)
    assert row.value == Change("update", Account(1, "Ann", 5), Account(1, "Bob", None), (7,), AT)
    assert row_of(sent(envelope("c", None, ANN))).value == Change("create", None, Account(1, "Ann", 5), (7,), AT)
    assert row_of(sent(envelope("d", ANN, None))).value.operation == "delete"
    assert row_of(sent(envelope("r", None, ANN))).value.operation == "read"
    assert row_of(sent(envelope("t", None, None))).value == Change("truncate", None, None, (7,), AT)


def test_keys() -> None:
    """A record, or the only field of one."""
    value = envelope("c", None, ANN)
    for key in ({"id": 1}, {"schema": {}, "payload": {"id": 1}}):
        assert row_of(value, key, U[AccountKey, Change[Account]]).key == AccountKey(1)
        assert row_of(value, key, U[int, Change[Account]]).key == 1
    assert row_of(value, None, U[int, Change[Account]], key=lambda change: change.after.id).key == 1
    assert ".key" in row_of(value, {"id": 1, "more": 2}, U[int, Change[Account]]).reason


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ({"lsn": 2**63 - 1}, (2**63 - 1,)),
        ({"connector": "mysql", "file": "mysql-bin.000003", "pos": 154, "row": 2}, (3, 154, 2)),
        ({"connector": "mariadb", "file": "a.b.1000000", "pos": 4}, (1_000_000, 4, 0)),
        (
            {"connector": "sqlserver", "commit_lsn": LSN, "change_lsn": "00000027:00000758:0003", "event_serial_no": 1},
            (0x27, 0x758, 5, 0x27, 0x758, 3, 1),
        ),
        ({"connector": "sqlserver", "commit_lsn": LSN, "change_lsn": None}, (0x27, 0x758, 5, 0, 0, 0, 0)),
        ({"connector": "oracle", "scn": "2868546", "ssn": 2}, (2868546, 2)),
        ({"connector": "mongodb", "ord": 3}, (MILLIS, 3)),
    ],
)
def test_places_in_the_log(source: Any, position: tuple[int, ...]) -> None:
    assert row_of(envelope("c", None, ANN, **source)).value.position == position


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"connector": "cassandra"}, ".source.connector is 'cassandra'"),
        ({"lsn": None}, ".source.lsn is None"),
        ({"connector": "mysql", "file": "mysql-bin", "pos": 1}, "ends with its number"),
        ({"connector": "mysql", "file": "mysql-bin.000001"}, ".source.pos is None"),
        ({"connector": "sqlserver", "commit_lsn": "x"}, "hexadecimal"),
        ({"connector": "sqlserver"}, "hexadecimal"),
        ({"connector": "oracle", "scn": "a"}, ".source.scn is 'a'"),
        ({"ts_ms": None}, ".source.ts_ms is None"),
        ({"ts_ms": 10**17}, "years 1 to 9999"),
    ],
)
def test_what_has_no_place_is_a_reject(change: Any, words: str) -> None:
    row = row_of(envelope("c", None, ANN, **change))
    assert row.kind == "reject"
    assert words in row.reason


def test_other_rejects() -> None:
    assert "tombstones.on.delete" in row_of(None).reason
    assert ".op is 'm'" in row_of(envelope("m", None, None)).reason
    assert ".after.owner is missing" in row_of(envelope("c", None, {"id": 1})).reason
    assert row_of([1]).kind == "reject"


@given(st.lists(st.tuples(st.integers(1, 2_000_000), st.integers(0, 10**12)), min_size=2, max_size=5))
def test_places_are_ordered_as_numbers(places: list[tuple[int, int]]) -> None:
    """However many digits the name of a file has."""
    leaf = leaf_of()
    read = record_reader(leaf.source, leaf.layout)

    def position(file: int, pos: int) -> Any:
        value = envelope("c", None, ANN, connector="mysql", file=f"bin.{file:06}", pos=pos)
        return read(None, json.dumps(value).encode(), ()).value.position

    assert sorted(places) == sorted(places, key=lambda one: position(*one))


def test_the_place_is_the_order_of_a_table() -> None:
    """The latest row of each account, where several changes have one time."""

    @attrs.frozen
    class Use:
        account: int
        at: dt.datetime

    flow = Dataflow("accounts")
    markers: Any = every(seconds=10, time=lambda one: one.at)
    uses = flow.source("uses", U[int, Use], key=lambda use: use.account, markers=markers)
    changes = flow.source("changes", U[int, Change[Account]], markers=markers, format=debezium(row=Account))
    joined = table_join(
        uses,
        changes,
        left_time=lambda use: use.at,
        table_time=lambda change: change.at,
        deleted=lambda change: change.operation == "delete",
        order=lambda change: change.position,
    )
    flow.sink("out", joined)

    def change(number: int) -> Any:
        row = row_of(envelope("u", None, {**ANN, "cents": number}, connector="mysql", file=f"b.{number}", pos=1))
        return 1, row.value

    found, _ = interpret_rows(
        check(flow), {"changes": [change(1_000_000), change(999_999)], "uses": [Use(1, AT + dt.timedelta(seconds=1))]}
    )
    (joined_row,) = [one.value for one in found["out"] if isinstance(one, Item)]
    assert joined_row.right.position == (1_000_000, 1, 0)


def test_changes_of_avro(registry: Any) -> None:
    """With the schemas of the envelope and the key in a registry."""
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}, {"name": "owner", "type": "string"}]}
    row["fields"].append({"name": "cents", "type": ["null", "long"], "default": None})  # type: ignore[attr-defined]
    origin: Any = [{"name": name, "type": kind} for name, kind in (("connector", "string"), ("ts_ms", "long"), ("db", "string"))]
    origin.append({"name": "lsn", "type": ["null", "long"], "default": None})
    fields = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": origin}},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ]
    schema = {"type": "record", "name": "Envelope", "namespace": "db.accounts", "fields": fields}
    number = registry.add("orders-value", schema)
    out = io.BytesIO()
    value = {"before": None, "after": ANN, "op": "c", "source": {"connector": "postgresql", "ts_ms": MILLIS, "db": "x", "lsn": 9}}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    leaf = leaf_of(format=debezium(row=Account, value="avro"))
    messages: Any = [Message(None, framed(number, out.getvalue())), Message(None, framed(number, b""))]
    items, reasons, _ = taken(leaf, reading(leaf, address(registry, "")).together(messages))
    assert items == [Change("create", None, Account(1, "Ann", 5), (9,), AT)]
    assert len(reasons) == 1


def test_TT119_values_that_are_no_changes() -> None:
    with pytest.raises(CheckFailed, match=r"(?s)TT119.*debezium\(row=Account\).*Change\[Account\]"):
        leaf_of(U[Unit, Account])
    with pytest.raises(CheckFailed, match="TT119"):
        leaf_of(U[Unit, Change[AccountKey]])
    with pytest.raises(UsageError, match="TT115"):
        debezium(row="Account")  # type: ignore[arg-type]


def test_TT207_changes_are_only_read_from_topics(tmp_path: Any) -> None:
    leaf = leaf_of()
    (tmp_path / "in.jsonl").write_text("")
    with pytest.raises(RunError, match=r"TT207 .*come from a topic"):
        SourceFiles(leaf, str(tmp_path / "in.jsonl"))
    flow = Dataflow("changes")
    rows = flow.source("accounts", U[Unit, Account], markers=every(seconds=10, time=lambda one: one.id))
    flow.sink("out", rows, format=debezium(row=Account))
    with pytest.raises(RunError, match=r"TT207 .*only read"):
        TopicSink(plan(check(flow)), "kafka://127.0.0.1:1/topic", "run")
