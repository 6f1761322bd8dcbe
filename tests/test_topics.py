"""Records of Kafka as rows: keys, values, headers, markers and heartbeats; no broker is needed for that."""

from __future__ import annotations

import datetime as dt
import json
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.strategies import key_schemas, keys, schemas, values
from tracetypes import Dataflow, RunError, U, Unit, UsageError, check, csv, every, in_band, json_lines, kafka, parquet
from tracetypes.canonical import canonical
from tracetypes.compiler.connectors import kafka_splits
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.kafka_splits import AtMost, TopicSplits
from tracetypes.compiler.connectors.kafka_splits import Place as Offsets
from tracetypes.compiler.connectors.kafka_topic import TopicDescription
from tracetypes.formats import JsonLines, Kafka, Layout, format_of
from tracetypes.parsing import Headers, record_parser, record_writer, to_bytes
from tracetypes.records import Record, UnitValue
from tracetypes.schemas import schema_of
from tracetypes.sources import record_reader


@attrs.frozen
class Click:
    page: str
    ts: int
    tenant: str | None = None
    visit: int | None = None


@attrs.frozen
class Place:
    x: int
    y: int


TIMED = every(seconds=10, time=lambda click: click.ts)


def row_of(edge: Any, raw: bytes | None, value: bytes | None, headers: Headers = (), **options: Any) -> Any:
    """What a source makes of one record."""
    flow = Dataflow("topic")
    flow.sink("out", flow.source("in", edge, **{"markers": TIMED, **options}))
    checked = check(flow)
    (source,) = checked.graph.sources
    return record_reader(source, checked.layout(source))(raw, value, headers)


def test_a_record_of_fields_is_a_json_object() -> None:
    row = row_of(U[str, Click], b"k", b'{"page": "/", "ts": 12, "more": 1}')
    assert (row.kind, row.key, row.value, row.time) == ("item", "k", Click("/", 12), 12_000_000)


def test_a_key_may_be_made_of_the_value() -> None:
    assert row_of(U[str, Click], None, b'{"page": "/", "ts": 12}', key=lambda click: click.page).key == "/"
    assert row_of(U[Unit, Click], b"ignored", b'{"page": "/", "ts": 12}').kind == "item"


@pytest.mark.parametrize(
    ("of", "raw", "key"),
    [
        (int, b"17", 17),
        (str, b'"17"', '"17"'),
        (bytes, b"\xff", b"\xff"),
        (bool, b"true", True),
        (Place, b'{"x": 1, "y": 2}', Place(1, 2)),
        (dt.date, b"2026-01-02", dt.date(2026, 1, 2)),
    ],
)
def test_keys(of: Any, raw: bytes, key: Any) -> None:
    assert row_of(U[of, Click], raw, b'{"page": "/", "ts": 12}').key == key


def test_values_that_are_no_records() -> None:
    assert row_of(U[str, str], b"k", b"{", markers=in_band()).value == "{"
    assert row_of(U[str, bytes], b"k", b"\xff", markers=in_band()).value == b"\xff"
    assert row_of(U[str, float], b"k", b"1.5", markers=in_band()).value == 1.5
    assert row_of(U[str, int | None], b"k", None, markers=in_band()).value is None


@given(st.text() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans() | st.binary())
def test_what_is_written_is_read_back(one: Any) -> None:
    of: Any = type(one)
    written = to_bytes(schema_of(of), one)
    assert row_of(U[str, of], b"k", written, markers=in_band()).value == one


@given(st.data())
def test_keys_and_values_of_all_types_are_read_back(data: DataObject) -> None:
    """Headers are text, too."""
    key, value = data.draw(key_schemas()), data.draw(schemas())
    layout = Layout(key, value)
    pair = data.draw(st.tuples(keys(key), values(value)))
    form = kafka()
    if isinstance(value, Record):
        names = [name for name, of in value.fields if not isinstance(of, UnitValue)]
        form = kafka(headers=data.draw(st.lists(st.sampled_from(names), unique=True)))
    found = record_parser(form, layout)(*record_writer(form, layout)(*pair))
    assert canonical(key)(found[0]) == canonical(key)(pair[0])
    assert canonical(value)(found[1]) == canonical(value)(pair[1])


@given(st.builds(Click, st.text(), st.integers(0, 2**37), st.none() | st.text(), st.none() | st.integers(0, 9)))
def test_records_are_read_back_as_they_are_written(click: Click) -> None:
    for form in (kafka(), kafka(headers=["tenant", "visit"])):
        layout = Layout(schema_of(str), schema_of(Click))
        row = row_of(U[str, Click], *record_writer(form, layout)("k", click), format=form)
        assert (row.key, row.value) == ("k", click)


def test_how_records_are_written() -> None:
    assert to_bytes(schema_of(Click), Click("ü", 1)) == '{"page": "ü", "ts": 1, "tenant": null, "visit": null}'.encode()
    assert to_bytes(schema_of(int | None), None) is None


def test_fields_come_from_headers() -> None:
    form = kafka(headers=["tenant", "visit"])
    value = json.dumps({"page": "/", "ts": 1, "tenant": "forged"}).encode()
    headers = [("tenant", b"old"), ("visit", b"7"), ("tenant", b"new"), ("other", b"x")]
    assert row_of(U[str, Click], b"k", value, headers, format=form).value == Click("/", 1, "new", 7)
    assert row_of(U[str, Click], b"k", value, format=form).value == Click("/", 1)


@pytest.mark.parametrize(
    ("key", "value", "headers", "reason"),
    [
        (None, b"{}", (), ".key is missing, expected str"),
        (b"\xff", b"{}", (), r".key is b'\xff', expected UTF-8 (invalid start byte at byte 0)"),
        (b"k", b"{", (), ""),
        (b"k", None, (), " is missing, expected Click"),
        (b"k", b'{"page": "/"}', (), ".ts is missing, expected int"),
        (b"k", b'{"page": "/", "ts": 1}', [("visit", b"x")], ".visit is 'x', expected int"),
        (b"k", None, [("tracetypes-marker", b"soon")], "tracetypes-marker: 'soon' is no time"),
        (b"k", None, [("tracetypes-marker", None)], "tracetypes-marker: '' is no time"),
    ],
)
def test_rejects(key: bytes | None, value: bytes | None, headers: Headers, reason: str) -> None:
    row = row_of(U[str, Click], key, value, headers, format=kafka(headers=["visit"]))
    assert row.kind == "reject"
    assert reason in row.reason


@pytest.mark.parametrize("markers", [TIMED, in_band()])
@pytest.mark.parametrize("raw", [b"12", b"12.0", b"1970-01-01T00:00:12Z"])
def test_markers_and_heartbeats(markers: Any, raw: bytes) -> None:
    row = row_of(U[str, Click], None, None, [("a", b"b"), ("tracetypes-marker", raw)], markers=markers)
    assert (row.kind, row.time) == ("marker", 12_000_000)
    row = row_of(U[str, Click], None, None, [("beat", raw)], markers=markers, format=kafka(marker="beat"))
    assert (row.kind, row.time) == ("marker", 12_000_000)


def test_the_unit_of_a_marker_is_that_of_the_source() -> None:
    headers = [("tracetypes-marker", b"12")]
    assert row_of(U[str, Click], None, None, headers, markers=in_band(unit="ms")).time == 12_000


def test_files_are_read_by_their_ending() -> None:
    assert format_of("a.jsonl", kafka()) == JsonLines()
    assert row_of(U[str, Click], b"k", b'{"page": "/", "ts": 1}', format=json_lines()).kind == "item"


@pytest.mark.parametrize("form", [csv(), parquet()])
def test_records_are_no_files(form: Any) -> None:
    with pytest.raises(RunError) as error:
        row_of(U[str, Click], None, None, format=form)
    assert error.value.code == "TT207"


def test_wrong_formats() -> None:
    assert kafka() == Kafka()
    for wrong in ({"headers": "tenant"}, {"headers": [""]}, {"marker": ""}, {"headers": ["a"], "marker": "a"}):
        with pytest.raises(UsageError) as error:
            kafka(**wrong)
        assert error.value.code == "TT115"
    with pytest.raises(UsageError) as error:
        row_of(U[str, Click], None, None, format=kafka(headers=["nobody"]))
    assert error.value.code == "TT402"
    with pytest.raises(UsageError) as error:
        in_band(time=lambda click: click.ts)  # type: ignore[call-overload]
    assert error.value.code == "TT115"


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=4), st.integers(1, 9), st.data())
def test_a_backlog_is_read_in_small_splits(ranges: list[tuple[int, int]], most: int, data: DataObject) -> None:
    since = Offsets({at: start for at, (start, _) in enumerate(ranges)})
    idle = frozenset(data.draw(st.sets(st.sampled_from(range(len(ranges))))))
    until = Offsets({at: start + count * (at not in idle) for at, (start, count) in enumerate(ranges)}, idle)
    topic = TopicSplits(Address.of("kafka://localhost:1/t"), None, "t", AtMost(most, 1_000))
    splits = topic.splits(since.offset, until.offset)
    for partition, (start, _) in enumerate(ranges):
        mine = [(begin, end) for at, begin, end, parts, _ in splits if at == partition and parts == len(ranges)]
        read = [offset for begin, end in mine for offset in range(begin, end)]
        assert read == list(range(start, until.next[partition])), "each record once, in order"
        assert all(end - begin <= most for begin, end in mine)
        marked = {still for at, *_, still in splits if at == partition}
        assert marked == ({True} if partition in idle else {False} if read else set())


def test_an_epoch_of_a_large_backlog_is_bounded() -> None:
    topic = TopicSplits(Address.of("kafka://localhost:1/t"), {0: 90, 1: 7}, "t", AtMost(5, 20))
    topic.__dict__["watch"] = Waiting({0: 100, 1: 7})
    ends, at = [], topic.begin()
    while (after := topic.end(at)) != at:
        ends.append(after)
        at = after
    assert ends == [{"0": 20, "1": 7}, {"0": 40, "1": 7}, {"0": 60, "1": 7}, {"0": 80, "1": 7}, {"0": 90, "1": 7}]


def test_a_quiet_topic_is_asked_again_after_a_tenth_of_its_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1 s later at most; and at once when something was there just now."""
    now, slept = [100.0], list[float]()
    monkeypatch.setattr(kafka_splits, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=slept.append))
    topic = TopicSplits(Address.of("kafka://localhost:1/t"), None, "t")
    waiting = Waiting({0: 0})
    topic.__dict__["watch"] = waiting
    at = topic.begin()
    for silence in (0.0, 0.02, 0.5, 7.0):
        now[0] = 100.0 + silence
        assert topic.end(at) == at
    waiting.ends[0] = 3
    after = topic.end(at)
    assert topic.end(after) == after
    assert slept == pytest.approx([0.0, 0.002, 0.05, 0.1, 0.0])


class Waiting:
    """A topic with records from offset 0 on."""

    def __init__(self, ends: dict[int, int]) -> None:
        self.ends = ends

    def described(self) -> TopicDescription:
        return TopicDescription("t", tuple(sorted(self.ends)))

    def offsets(self, partitions: list[int], *, first: bool = False) -> dict[int, int]:
        return {partition: 0 if first else self.ends[partition] for partition in partitions}

    def bounds(self, partitions: list[int]) -> tuple[dict[int, int], dict[int, int]]:
        return self.offsets(partitions, first=True), self.offsets(partitions)
