"""Files of Avro as sources."""

from __future__ import annotations

import datetime as dt
import io
import json
import zlib
from pathlib import Path
from typing import Any

import attrs
import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetypes
from tracetypes import Dataflow, RunError, U, Unit, UsageError, avro, check, every
from tracetypes.compiler.connectors.avro_files import MAGIC, blocks_of, header_of
from tracetypes.compiler.connectors.registered_values import avro_encoder
from tracetypes.foreign_schemas import schema_text
from tracetypes.formats import format_of
from tracetypes.schemas import schema_of


@attrs.frozen
class Order:
    shop: str
    ts: int
    at: dt.datetime | None
    words: list[str]


SCHEMA: Any = json.loads(schema_text(schema_of(Order), "avro"))
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


def orders(count: int) -> list[Order]:
    """Rows in order."""
    return [Order(f"shop {n}", n, None if n % 3 else NOON + dt.timedelta(seconds=n), ["é"] * (n % 4)) for n in range(count)]


def write(path: Path, rows: list[Any], schema: Any = SCHEMA, **options: Any) -> Path:
    """As another program writes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [attrs.asdict(one) for one in rows], **options)
    return path


def flow_of(edge: Any = U[Unit, Order], **options: Any) -> Dataflow:
    """Rows go straight to the sink."""
    flow = Dataflow("orders")
    flow.sink("out", flow.source("orders", edge, markers=every(seconds=10, time=lambda order: order.ts), **options))
    return flow


def run(path: Path, flow: Dataflow | None = None, **options: Any) -> tuple[list[Any], Any]:
    """The rows that a run on the local backend gives, and what it did."""
    rows: list[Any] = []
    result = tracetypes.run(flow or flow_of(), {"orders": str(path)}, {"out": rows}, backend="local", **options)
    return rows, result


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_files_are_read(tmp_path: Path, codec: str) -> None:
    """However their blocks are packed."""
    path = write(tmp_path / "in.avro", orders(3_000), codec=codec, sync_interval=500)
    rows, result = run(path)
    assert sorted(rows, key=lambda one: one.ts) == orders(3_000)
    assert not result.rejected_rows


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_blocks_that_need_no_other_library(tmp_path: Path, codec: str) -> None:
    """Arrow unpacks them. Behind one of snappy is a checksum."""
    sync, memory = bytes(range(16)), type("Memory", (), {"latest": lambda *_: None, "register": lambda *_: 1})()
    encode = avro_encoder(memory, "orders", schema_of(Order))
    data = b"".join(encode(one)[5:] for one in orders(10))  # type: ignore[index]
    packed = pa.compress(data, {"zstandard": "zstd"}.get(codec, codec), asbytes=True)
    packed += zlib.crc32(data).to_bytes(4, "big") if codec == "snappy" else b""

    def number(value: int) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema("long"), value)
        return out.getvalue()

    def text(value: bytes) -> bytes:
        return number(len(value)) + value

    entries = {b"avro.schema": json.dumps(SCHEMA).encode(), b"avro.codec": codec.encode()}
    meta = number(2) + b"".join(text(name) + text(value) for name, value in entries.items()) + number(0)
    path = tmp_path / "in.avro"
    path.write_bytes(MAGIC + meta + sync + number(10) + text(packed) + sync)
    assert sorted(run(path)[0], key=lambda one: one.ts) == orders(10)
    path.write_bytes(MAGIC + meta + sync + number(10) + text(packed[:-1] + b"\0") + sync)
    with pytest.raises(RunError, match=r"TT208 .*in.avro cannot be read as Avro"):
        run(path)


@given(st.integers(0, 40), st.integers(10, 200), st.integers(1, 9))
def test_each_block_is_in_one_part(count: int, block: int, parts: int) -> None:
    """The parts of a file together are the file, in order, wherever they are cut."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(SCHEMA), [attrs.asdict(one) for one in orders(count)], sync_interval=block)
    path = _scratch / "cut.avro"
    path.write_bytes(out.getvalue())
    header = header_of(str(path))
    found = [one for part in range(parts) for one in blocks_of(str(path), header, part, parts)]
    assert found == list(blocks_of(str(path), header))
    assert sum(records for records, _ in found) == count


_scratch = Path()


@pytest.fixture(autouse=True, scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    global _scratch
    _scratch = tmp_path_factory.mktemp("cut")


def test_a_large_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetypes.compiler.store import input_files

    monkeypatch.setattr(input_files, "LARGE", 1_000)
    path = write(tmp_path / "in.avro", orders(2_000), sync_interval=400)
    assert sorted(run(path, parallelism=2)[0], key=lambda one: one.ts) == orders(2_000)


def test_columns_of_folders_and_keys(tmp_path: Path) -> None:
    """The file wins; a column ``key`` is the key."""

    @attrs.frozen
    class Row:
        country: str
        ts: int

    fields = [{"name": "ts", "type": "long"}, {"name": "key", "type": "string"}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    for country in ("PT", "DE"):
        path = tmp_path / "in" / f"country={country}" / "0.avro"
        path.parent.mkdir(parents=True)
        with path.open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema(schema), [{"ts": n, "key": f"k{n}"} for n in range(3)])
    rows, _ = run(tmp_path / "in", flow_of(U[str, Row]))
    assert sorted(rows, key=repr) == sorted([(f"k{n}", Row(c, n)) for c in ("PT", "DE") for n in range(3)], key=repr)


@pytest.mark.parametrize("change", [{"name": "ts", "type": "string"}, {"name": "other", "type": "long"}])
def test_TT203_a_file_of_another_record(tmp_path: Path, change: Any) -> None:
    fields = [change if one["name"] == "ts" else one for one in SCHEMA["fields"]]
    path = write(tmp_path / "in.avro", [], {**SCHEMA, "fields": fields})
    with pytest.raises(RunError, match=r"TT203 .*in.avro: .ts is (string|missing).*expected int"):
        run(path)


def test_a_value_that_does_not_fit_is_a_reject(tmp_path: Path) -> None:
    """A null where something must be, and a day that Python does not have."""

    @attrs.frozen
    class Row:
        ts: int
        day: dt.date

    day = {"type": "int", "logicalType": "date"}
    fields: list[Any] = [{"name": "ts", "type": ["null", "long"]}, {"name": "day", "type": day}]
    path, rows = tmp_path / "in.avro", [{"ts": 1, "day": 0}, {"ts": None, "day": 0}, {"ts": 2, "day": 2**31 - 1}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), rows)
    found, result = run(path, flow_of(U[Unit, Row]))
    assert found == [Row(1, dt.date(1970, 1, 1))]
    assert [one.reason for one in result.rejected_rows] == [
        ".ts is None, expected int",
        ".day is 2147483647, expected date of the years 1 to 9999",
    ]


@pytest.mark.parametrize("damage", ["cut", "header", "block", "text"])
def test_TT208_a_broken_file(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / "in.avro", orders(300), sync_interval=300)
    data = bytearray(path.read_bytes())
    match damage:
        case "cut":
            del data[-30:]
        case "header":
            data[1] = 0
        case "block":
            data[-8] ^= 1
        case _:
            data[header_of(str(path)).end + 3] = 0xFF
    path.write_bytes(data)
    with pytest.raises(RunError, match=r"TT208 .*in.avro cannot be read as Avro"):
        run(path)


def test_times_without_a_zone(tmp_path: Path) -> None:
    """Need that of the format."""

    @attrs.frozen
    class Row:
        ts: int
        at: dt.datetime

    fields = [{"name": "ts", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-micros"}}]
    path = tmp_path / "in.avro"
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields}), [{"ts": 1, "at": 0}])
    with pytest.raises(RunError, match=r"TT203 .*local-timestamp-micros"):
        run(path, flow_of(U[Unit, Row]))
    rows, _ = run(path, flow_of(U[Unit, Row], format=avro(zone="Europe/Berlin")))
    assert rows == [Row(1, dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC))]


def test_no_sink_writes_Avro(tmp_path: Path) -> None:
    assert format_of("in.avro", None) == avro()
    flow = flow_of()
    flow.sink("more", flow.source("others", U[Unit, Order], markers=every(seconds=1, time=lambda o: o.ts)), format=avro())
    with pytest.raises(Exception, match="TT119"):
        check(flow)
    path = write(tmp_path / "in.avro", orders(2))
    with pytest.raises(RunError, match="TT207"):
        tracetypes.run(flow_of(), {"orders": str(path)}, {"out": str(tmp_path / "out.avro")}, backend="local")
    with pytest.raises(RunError, match=r"TT208 .*is Avro"):
        tracetypes.read(path, Order)
    with pytest.raises(UsageError, match="TT115"):
        avro(zone="Nowhere")


def test_files_in_the_order_of_their_times(tmp_path: Path) -> None:
    """``--order time`` reads them to find their least ones."""
    write(tmp_path / "in" / "a.avro", orders(100)[50:])
    write(tmp_path / "in" / "b.avro", orders(50))
    rows, result = run(tmp_path / "in", flow_of(), order={"orders": "time"})
    assert (len(rows), len(result.late_rows)) == (100, 0)
    assert run(tmp_path / "in", flow_of())[1].late_rows
