"""Lines of JSON that are read at once: the same rows and rejects as line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import example, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.test_simulate import FIRST
from tracetypes import Dataflow, U, every
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.connectors import json_blocks, text
from tracetypes.compiler.connectors.json_blocks import JsonBlock
from tracetypes.compiler.connectors.line_block import LineBlock
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.formats import JsonLines
from tracetypes.plain_data import json_decoder
from tracetypes.records import Integer, Record, String
from tracetypes.sources import reader


@attrs.frozen
class Event:
    key: int
    ts: int
    amount: float
    ok: bool
    note: str | None
    size: float | None
    """Not all of them have to be there."""


def totals() -> Dataflow:
    flow = Dataflow("totals")
    flow.sink(
        "out", flow.source("in", U[int, Event], key=lambda e: e.key, markers=every(seconds=1, time=lambda e: e.ts))
    )
    return flow


LEAF = compile_program(totals()).plans[0].sources[0]


def rows_of(lines: Sequence[bytes], *, at_once: bool) -> tuple[list[str], list[str]]:
    """The items in their order, and the rejects, as text."""
    items: list[str] = []
    rejects: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        if at_once:
            patch.setattr(text, "FEWEST", 2)
            patch.setattr(text, "PIECES", 2)
        else:
            patch.setattr(text, "FEWEST", 1 << 30)
        of = TextReader(LEAF, JsonLines(), None, reader(LEAF.source).read)
        for one in of.of_text(b"".join(line + b"\n" for line in lines), 0, SplitNotes()):
            if isinstance(one, Chunk):
                keys = from_array(LEAF.items.key, one.column(("key",)))
                values = from_array(LEAF.items.value, one.column(("value",)))
                items += map(repr, zip(one.times.tolist(), keys, values, strict=True))
            elif one.row.kind == "reject":
                rejects.append(f"{one.show()}: {one.row.reason}")
            else:
                items.append(repr((one.row.time, one.row.key, one.row.value)))
    return items, sorted(rejects)


INTEGERS = ["0", "-0", "7", "-7", "9223372036854775807", "9223372036854775808", "-9223372036854775808"]
INTEGERS += ["1.0", "1e2", "01", "+1", "1" * 30]
FLOATS = ["-0.0", "0.5", "1E400", "-1e400", "5e-324", "1e-400", "1.7976931348623159e308", ".5", "1."]
FLOATS += ["0.1e1", "NaN", "Infinity", "-Infinity"]
FLOATS += ["Inf", "-Inf", "inf", "nan", "123456789012345678901234567890", "0." + "1" * 60]
OTHERS = [
    "null",
    "true",
    "false",
    "tru",
    '"NaN"',
    '"1"',
    "{}",
    "[]",
    '{"a":[1,{}]}',
    "[[[]]]",
    "",
    "'x'",
    '"Inf"',
    ": Inf",
    "//",
]
TEXTS = ['""', '"a"', '"}{"', '"} x"', r'"\u0000"', r'"\ud800"', r'"\ud83d\ude00"', '"é"', '"\t"', r'"\x"', r'"\/"']
TEXTS += ['"Inf "', '"[["', '"', '"a\0"']
VALUES = st.sampled_from([*INTEGERS, *FLOATS, *OTHERS, *TEXTS])
NAMES = st.sampled_from(["key", "ts", "amount", "ok", "note", "size", "other", r"\u006bey", "", "Key"])
GOOD = {"key": "1", "ts": "2", "amount": "0.5", "ok": "true", "note": '"n"', "size": "1.5"}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line that is nearly right, or right."""
    fields = dict(GOOD)
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
        fields[draw(NAMES)] = draw(VALUES)
    for name in draw(st.sets(st.sampled_from(list(GOOD)), max_size=1)):
        fields.pop(name, None)
    parts = [f'"{name}"{draw(st.sampled_from([":", " : "]))}{value}' for name, value in fields.items()]
    if draw(st.integers(0, 5)) == 0:
        parts.append(f'"{draw(NAMES)}":{draw(VALUES)}')
    whole = (
        "{"
        + draw(st.sampled_from([",", ", ", ",,"]) if draw(st.integers(0, 9)) == 0 else st.just(",")).join(parts)
        + "}"
    )
    before = draw(st.sampled_from(["", "", "", "", "", " ", "\ufeff", "[", "{", "null ", "\t"]))
    strange = [" ", "}", "{}", " {}", " null {}", ",{}", "\r", "\0", "\0{}", "]}", "//{}"]
    behind = draw(st.sampled_from(["", "", "", "", "", *strange]))
    raw = (before + whole + behind).encode()
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(raw)))
        other = draw(st.sampled_from([b"\xff", b"", b"\xc3", b"{", b"}", b"\0", b" "]))
        raw = raw[:at] + other + raw[at + draw(st.integers(0, 2)) :]
    return raw.replace(b"\n", b"")


@st.composite
def values(draw: st.DrawFn) -> bytes:
    """A line with strange values where they may be."""
    numbers, texts = st.sampled_from([*FLOATS, *INTEGERS]), st.sampled_from(TEXTS)
    other = st.sampled_from([*FLOATS, *INTEGERS, *OTHERS, *TEXTS])
    fields = GOOD | {"amount": draw(numbers), "note": draw(texts), "other": draw(other)}
    fields |= {name: GOOD[name] for name in draw(st.sets(st.sampled_from(["amount", "note"])))}
    return ("{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}").encode()


def good(number: int) -> bytes:
    return json.dumps({"key": number, "ts": number, "amount": number / 4, "ok": True, "note": None, "size": 2}).encode()


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(st.one_of(lines(), values(), st.integers(0, 9).map(good)), min_size=1, max_size=8))
@example([good(1), b'{"key":1', b'"ts":2}'])
@example([good(1), good(2) + good(3), b'{"key":' + b"\t" * 3])
@example([b'{"other":' + b"[" * 2_000 + b"]" * 2_000 + b"}", good(1)])
@example([good(1)[:-1] + b',"other":' + b"1" * 5_000 + b"}", good(1)])
@example([b"null", good(1), b'{"a":1} null {}'])
def test_the_same_rows_and_rejects(some: list[bytes]) -> None:
    assert rows_of(some, at_once=True) == rows_of(some, at_once=False)


@given(
    st.lists(st.sampled_from([b"a", b"", b" ", b"\t\x0b\x0c", b"\x01", b"b\r", b"\r", b"c\rd", b"\x85", b" e "])),
    st.booleans(),
    st.data(),
)
def test_a_block_has_the_lines_that_are_not_blank(some: list[bytes], ended: bool, data: st.DataObject) -> None:
    text = b"\n".join(some) + (b"\n" if ended else b"")
    lines, block = list(filter(bytes.strip, text.splitlines())), LineBlock.of(text)
    assert list(block) == lines == [block[at] for at in range(len(block))]
    start, stop = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    assert (
        list(block[start:stop])
        == lines[start:stop]
        == [*map(block[start:stop].__getitem__, range(len(block[start:stop])))]
    )
    mask = np.array([data.draw(st.booleans()) for _ in lines], bool)
    kept = [line for line, keep in zip(lines, mask, strict=True) if keep]
    assert list(block.where(mask)) == kept == [block.where(mask)[at] for at in range(len(kept))]


def test_good_lines_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_chunks_by_cell", lambda *args: pytest.fail("by cell"))
    assert rows_of([good(number) for number in range(300)], at_once=True)[1] == []


def test_a_bad_line_leaves_the_others_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    by_cell: list[int] = []
    slow = text._chunks_by_cell

    def counted(*args: Any) -> Any:
        by_cell.append(len(args[-1]))
        return slow(*args)

    monkeypatch.setattr(text, "_chunks_by_cell", counted)
    some = [good(number) for number in range(3_000)]
    some[1_700] = b'{"key": 1.5}'
    some[100] = b"nonsense"
    of = TextReader(LEAF, JsonLines(), None, reader(LEAF.source).read)
    rows = list(of.of_text(b"\n".join(some), 0, SplitNotes()))
    assert sum(len(one) if isinstance(one, Chunk) else 1 for one in rows) == 3_000
    assert by_cell
    assert sum(by_cell) < 256


def caught() -> bool:
    """Is there a list of lines that is read differently?"""

    def differs(some: list[bytes]) -> bool:
        return rows_of(some, at_once=True) != rows_of(some, at_once=False)

    try:
        find(st.lists(values(), min_size=2, max_size=3), differs, settings=FIRST)
    except NoSuchExample:
        return False
    return True


def test_floats_without_a_second_look_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JsonBlock, "_is_settled", lambda self, array: True)
    assert caught()


def test_numbers_that_only_arrow_knows_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_blocks, "_INFINITE", re.compile(rb"InfInfInf"))
    assert caught()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_field_that_is_there_twice_is_a_reject(at_once: bool) -> None:
    """Nobody knows which value counts. Fields that no record needs do not matter."""
    twice, other = good(2)[:-1] + b', "ts": 5}', good(3)[:-1] + b', "x": 1, "x": {"y": 1, "y": 2}}'
    items, rejects = rows_of([good(1), twice, other, good(4)], at_once=at_once)
    assert len(items) == 3
    (reject,) = rejects
    assert reject.endswith(".ts is there twice, expected int")


FIELDS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", ":", r"\u0061", r"\u003a", ""]),
        st.sampled_from(["1", '":"', '"::"', r'"\u003a"', r'"\""', '"x"', "[]", '[":"]', '{"a":1}', '{"a":1,"a":2}', "null"]),
    ),
    max_size=4,
)


@given(FIELDS, st.sampled_from([":", " : "]))
def test_a_quick_look_finds_each_field_that_is_there_twice(fields: list[tuple[str, str]], colon: str) -> None:
    """As to look at every object does, whatever colons are in names and texts."""
    line = "{" + ",".join(f'"{name}"{colon}{value}' for name, value in fields) + "}"
    quick, careful = json_decoder([Integer(), String()]), json_decoder([Record(Event, (("key", Integer()),)), Integer()])
    assert quick is not careful
    assert repr(quick.decode(line)) == repr(careful.decode(line))
