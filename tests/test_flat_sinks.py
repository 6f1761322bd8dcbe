"""Rows of a sink whose records are columns of their own: ``sink(..., flat=True)``."""

from __future__ import annotations

import csv as csv_files
import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import attrs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetypes
from tracetypes import CheckFailed, Dataflow, U, Unit, UsageError, check, column, csv, every, json_lines, parquet
from tracetypes.compiler.columns.batches import Batch, rows
from tracetypes.compiler.connectors.kafka_sink import TopicSink
from tracetypes.compiler.connectors.sink_files import VisibleColumns
from tracetypes.compiler.plan.planner import plan
from tracetypes.flat_columns import flat_row, sink_columns
from tracetypes.formats import Layout
from tracetypes.graph import Dataflow as Flow
from tracetypes.schemas import schema_of
from tracetypes.stdlib import count, tumbling


class Account(NamedTuple):
    bank: str
    number: int


@attrs.frozen
class Place:
    town: str
    x: Annotated[int | None, column("at x")]


@attrs.frozen
class Payment:
    ts: int
    place: Place | None
    words: list[Place]


PAYMENTS = [
    (Account(f"bank {n % 3}", n), Payment(n, None if n % 2 else Place(f"town {n}", n if n % 4 else None), [Place("a", 1)]))
    for n in range(40)
]


def flow_of(edge: Any = U[Account, Payment], **options: Any) -> Dataflow:
    """Rows go straight to the sink."""
    flow = Flow("payments")
    rows = flow.source("payments", edge, markers=every(seconds=10, time=lambda payment: payment.ts))
    flow.sink("out", rows, **{"flat": True, **options})
    return flow


def expected() -> list[dict[str, Any]]:
    """The rows as they are to be."""
    made = []
    for key, value in PAYMENTS:
        place = {"town": None, "at x": None} if value.place is None else {"town": value.place.town, "at x": value.place.x}
        made.append({"bank": key.bank, "number": key.number, "ts": value.ts, **place, "words": [{"town": "a", "at x": 1}]})
    return made


@pytest.mark.parametrize("format", [json_lines(), parquet()])
def test_records_are_columns(tmp_path: Path, format: Any) -> None:
    """The key, and a record that may be missing. Lists stay."""
    tracetypes.run(flow_of(format=format), {"payments": PAYMENTS}, {"out": str(tmp_path / "out")}, backend="local")
    found: list[Any] = []
    for file in sorted((tmp_path / "out").glob("part-*")):
        found += pq.read_table(file).to_pylist() if format == parquet() else map(json.loads, file.read_text().splitlines())
    assert sorted(found, key=lambda one: one["ts"]) == expected()
    assert list(found[0]) == ["bank", "number", "ts", "town", "at x", "words"]


def test_the_terminal_has_the_same_columns(capsys: pytest.CaptureFixture[str]) -> None:
    tracetypes.run(flow_of(), {"payments": PAYMENTS}, {"out": "-"}, backend="local")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(lines, key=lambda one: one["ts"]) == expected()


def test_windows_of_windows_are_flat_enough_for_csv(tmp_path: Path) -> None:
    """A key that is a record and a window around a number, as CSV in folders."""
    flow = Dataflow("payments")
    rows = flow.source("payments", U[Account, Payment], markers=every(seconds=10, time=lambda payment: payment.ts))
    counted = rows.through(tumbling(count(), size=20, ends=True))
    flow.sink("out", counted, flat=True, format=csv(), partition_by="bank")
    tracetypes.run(flow, {"payments": PAYMENTS}, {"out": str(tmp_path / "out")}, backend="local")
    files = sorted((tmp_path / "out").glob("bank=*/part-*"))
    assert {file.parent.name for file in files} == {"bank=bank 0", "bank=bank 1", "bank=bank 2"}
    with files[0].open() as file:
        header = next(csv_files.reader(file))
    assert header[0] == "number"
    assert "key" not in header


def test_TT119_two_columns_of_one_name() -> None:
    """Also with the columns of marker and position."""

    @attrs.frozen
    class Sent:
        ts: int
        bank: str

    with pytest.raises(CheckFailed, match=r"(?s)TT119.*two columns named 'bank'"):
        check(flow_of(U[Account, Sent]))
    with pytest.raises(CheckFailed, match=r"(?s)TT119.*two columns named 'town'"):
        check(flow_of(marker="town"))
    check(flow_of(U[Account, Sent], flat=False))
    with pytest.raises(CheckFailed, match=r"(?s)TT119.*CSV for the nested column 'key'"):
        check(flow_of(U[Account, Sent], flat=False, format=csv()))


def test_TT402_a_topic_has_no_columns() -> None:
    with pytest.raises(UsageError, match=r"TT402 .*flat=True"):
        TopicSink(plan(check(flow_of())), "kafka://127.0.0.1:1/topic", "run")


@given(st.data())
def test_columns_of_arrow_are_those_of_single_rows(data: Any) -> None:
    """Files and the terminal have the same values."""
    sink = next(iter(check(flow_of()).graph.sinks))
    layout = Layout(schema_of(Account), schema_of(Payment))
    places = st.builds(Place, st.text(max_size=2), st.none() | st.integers(0, 9))
    payments = st.builds(Payment, st.integers(0, 9), st.none() | places, st.lists(places, max_size=2))
    some = data.draw(st.lists(st.tuples(st.builds(Account, st.text(max_size=2), st.integers(0, 9)), payments), max_size=4))
    batch = Batch([key for key, _ in some], [value for _, value in some], [0] * len(some), [0] * len(some))
    shown = VisibleColumns(layout, sink).of(rows(layout, batch))
    assert shown.schema.names == [name for name, _ in sink_columns(layout, sink)]
    assert shown.to_pylist() == [flat_row(layout.columns, layout.plain(key, value)) for key, value in some]


def test_nothing_changes_without_records(tmp_path: Path) -> None:
    """Flat rows stay as they are."""

    @attrs.frozen
    class Sent:
        ts: int

    layout = Layout(schema_of(Unit), schema_of(Sent))
    sink = next(iter(check(flow_of(U[Unit, Sent])).graph.sinks))
    assert sink_columns(layout, sink) == layout.columns
