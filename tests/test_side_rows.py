"""Late items and rejects: the text of rows and reasons is the same, many at once and one by one."""

from __future__ import annotations

import json
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dictionaries import encoded
from tests.strategies import Everything, schemas, values
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.json_text import json_text, json_texts
from tracetypes.compiler.runtime import side_rows
from tracetypes.compiler.runtime.chunks import Chunk, place
from tracetypes.compiler.runtime.messages import Message, SideRows
from tracetypes.compiler.runtime.side_rows import SideBuffer, late_rows, lines, placed, reasons, rejected_rows, texts
from tracetypes.markers import every
from tracetypes.plain_data import to_plain
from tracetypes.records import Record, Schema, String
from tracetypes.schemas import schema_of


@given(st.data(), schemas())
def test_columns_as_json_are_as_their_values(data: st.DataObject, schema: Schema) -> None:
    """Records of one field and of all kinds, nested, missing."""
    rows = data.draw(st.lists(values(schema), max_size=4))
    whole = array(schema, [*rows, *rows])
    expected = [json.dumps(to_plain(schema, one), ensure_ascii=False) for one in rows]
    assert json_texts(schema, whole) == expected * 2
    assert json_texts(schema, whole.slice(len(rows))) == expected
    chance = data.draw(st.randoms(use_true_random=False))
    assert json_texts(schema, encoded(schema, whole, chance)) == expected * 2


@given(st.lists(values(schema_of(Everything)), max_size=3))
def test_so_is_a_record_of_all_kinds(rows: list[Any]) -> None:
    schema = schema_of(Everything)
    assert json_texts(schema, array(schema, rows)) == [json.dumps(to_plain(schema, r), ensure_ascii=False) for r in rows]


def test_names_with_signs_are_names() -> None:
    schema = Record(Event, (('50%s "x"', schema_of(int)),))
    assert json_texts(schema, pa.array([{'50%s "x"': 3}])) == ['{"50%s \\"x\\"": 3}']


def test_half_a_character_stays_an_escape() -> None:
    assert json_text({"a": "\ud800é"}) == '{"a": "\\ud800\\u00e9"}'
    assert json_text({"a": "é"}) == '{"a": "é"}'


@attrs.frozen
class Event:
    ts: int
    text: str


TIMED = every(seconds=10, delay=5, time=lambda e: e.ts)
STRING, EVENT = String(), schema_of(Event)


def bodies(messages: Any) -> list[SideRows]:
    """What messages hold."""
    found = [message.body for message in messages]
    assert all(isinstance(one, SideRows) for one in found)
    return found


def one_by_one(events: list[Event], newest: int | None) -> SideBuffer:
    """The late ones of some events, by the definition."""
    buffer = SideBuffer("s", 3, (1, 2, 3), (STRING, EVENT))
    own: int | None = None
    for event in events:
        time = event.ts * 1_000_000
        block, closed = TIMED.block(time), None if newest is None else TIMED.frontier(newest)
        if closed is not None and block <= closed:
            buffer.add_late(event.text, event, block, closed, own=own is not None and block <= TIMED.frontier(own))
        newest = time if newest is None else max(newest, time)
        own = time if own is None else max(own, time)
    return buffer


@given(
    st.lists(st.builds(Event, st.integers(-50, 50), st.text(st.sampled_from('é"\\na'), max_size=2)), max_size=30),
    st.none() | st.integers(-40, 40),
)
def test_late_rows_of_chunks_are_those_that_come_one_by_one(events: list[Event], before: int | None) -> None:
    newest = None if before is None else before * 1_000_000
    times = np.array([event.ts for event in events], np.int64) * 1_000_000
    keys = pa.array([event.text for event in events], pa.string())
    chunk = Chunk.of(times, keys, array(EVENT, events))
    late = place(TIMED, chunk, newest).late
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_rows, "ROWS", 4)
        many = [] if late is None else bodies(late_rows("s", 3, (1, 2, 3), (STRING, EVENT), chunk, late))
    singles = bodies(one_by_one(events, newest).messages())
    assert all(one.batch.num_rows <= 4 for one in many)
    assert bool(many) == bool(singles)
    if not singles:
        return
    (single,) = singles
    assert pa.Table.from_batches([one.batch for one in many]).combine_chunks().to_batches()[0] == single.batch
    assert {(one.holds, one.source, one.link, one.piece) for one in many} == {("late", "s", 3, (1, 2, 3))}
    told = [json.loads(line) for line in lines(single)]
    assert [one["reason"] for one in told] == reasons(single)
    assert [one["row"]["key"] for one in told] == [one["row"]["value"]["text"] for one in told]


def test_why_rows_are_late_depends_on_what_came_before() -> None:
    (rows,) = bodies(one_by_one([Event(31, "a"), Event(1, "b"), Event(12, "c")], 25_000_000).messages())
    assert reasons(rows) == [
        "its block ended at #10, and #20 was already sent",
        "its block ended at #20, and #20 was already sent",
    ]
    assert rows.batch.column("own").to_pylist() == [True, True]
    moved = placed(rows, {(3, (1, 2, 3)): 40_000_000, (3, (9, 9, 9)): 90_000_000})
    assert reasons(moved)[1] == "its block ended at #20, and #40 was already sent"
    assert placed(rows, {(3, (1, 2, 3)): 10_000_000}).batch == rows.batch
    assert list(lines(rows)) == [
        '{"reason": "its block ended at #10, and #20 was already sent", "row": {"key": "b", "value": {"ts": 1, "text": "b"}}}\n',
        '{"reason": "its block ended at #20, and #20 was already sent", "row": {"key": "c", "value": {"ts": 12, "text": "c"}}}\n',
    ]


def test_rows_that_another_file_makes_late_are_not_late_by_their_own() -> None:
    (rows,) = bodies(one_by_one([Event(1, "a"), Event(2, "b"), Event(39, "c"), Event(3, "d")], 100_000_000).messages())
    assert rows.batch.column("own").to_pylist() == [False, False, False, True]


def test_rejects_are_told_as_they_came() -> None:
    rejects = rejected_rows("s", 0, (0, 0, 0), [('{"é', "no JSON"), ("x", 'a "quote"')]).body
    assert isinstance(rejects, SideRows)
    assert (texts(rejects), reasons(rejects)) == (['{"é', "x"], ["no JSON", 'a "quote"'])
    assert list(lines(rejects)) == [
        '{"reason": "no JSON", "row": "{\\"é"}\n',
        '{"reason": "a \\"quote\\"", "row": "x"}\n',
    ]


def test_a_reject_that_is_no_text_is_shown() -> None:
    buffer = SideBuffer("s", 0, (0, 0, 0), (STRING, EVENT))
    buffer.add_reject("a\udc80", "why")
    (found,) = bodies(buffer.messages())
    assert texts(found) == ["a\\xed\\xb2\\x80"]
    assert list(buffer.messages()) == []


def test_what_is_collected_is_sent_before_it_fills_the_memory() -> None:
    buffer = SideBuffer("s", 0, (0, 0, 0), (STRING, EVENT))
    buffer.add_reject("x" * (side_rows.BYTES + 1), "long")
    assert buffer.full
    sent: list[Message] = list(buffer.messages())
    assert (len(sent), buffer.full) == (1, False)
