"""Rows of text as columns are what they are one by one: the same items in the same order, the same rejects."""

from __future__ import annotations

import csv as csv_module
import datetime as dt
import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import Hue, Money, some
from tracetypes import UNIT, Dataflow, U, UInt64, Unit, check, every
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.connectors.source_rows import in_columns
from tracetypes.compiler.connectors.text import (
    Dialect,
    columns_of_csv,
    columns_of_json,
    columns_of_lines,
    decoded,
    fit_of_csv,
    fit_of_json,
    json_scan,
)
from tracetypes.compiler.plan.plan import FromSource, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.formats import Csv, JsonLines, TextLines
from tracetypes.parsing import Row, cell_splitter, is_blank, text_parser
from tracetypes.records import Mismatch
from tracetypes.sources import reader


@attrs.frozen
class Reading:
    """A field of each kind."""

    ts: int
    name: str
    watts: float | None
    on: bool
    place: str | None
    at: dt.datetime
    size: UInt64
    money: Money | None
    hue: Hue
    side: Literal["l", "r"] | None


@attrs.frozen
class Strict:
    """Refuses some values itself: such rows are never columns."""

    ts: int = attrs.field()

    @ts.validator
    def _positive(self, attribute: attrs.Attribute[int], value: int) -> None:
        if value < 0:
            raise ValueError("negative")


def leaf_of(
    edge: Any, *, key: Callable[[Any], Any] | None = None, time: Callable[[Any], int] = lambda r: r.ts
) -> FromSource:
    """The source of a small plan."""
    flow = Dataflow("parsed")
    source: Any = flow.source("rows", edge, key=key, markers=every(seconds=1, time=time))
    flow.sink("out", source)
    (link,) = links(plan(check(flow), parallelism=1).stages[0].region)
    assert isinstance(link.leaf, FromSource)
    return link.leaf


PLAIN, KEYED, BY_NAME, STRICT = (
    leaf_of(U[Unit, Reading]),
    leaf_of(U[str, Reading]),
    leaf_of(U[str, Reading], key=lambda r: r.name),
    leaf_of(U[Unit, Strict]),
)


def one(leaf: FromSource, format: Csv | JsonLines | TextLines, raw: bytes) -> TakenRow:
    """A row by itself, as the definition has it."""
    parse = text_parser(format, leaf.layout, None)
    try:
        row = reader(leaf.source).read(*parse(raw.decode()))
    except UnicodeDecodeError:
        row = Row("reject", reason="not UTF-8")
    except Mismatch as error:
        row = Row("reject", reason=str(error))
    return TakenRow(row, lambda: repr(raw))


def together(leaf: FromSource, format: Csv | JsonLines | TextLines, lines: list[bytes]) -> list[TakenRow | Chunk]:
    """Rows as the workers take them."""
    names = [name for name, _ in leaf.layout.columns]
    schemas = [schema for _, schema in leaf.layout.columns]
    if isinstance(format, Csv):
        split = cell_splitter(format, leaf.layout, None)
        cells: Any = lambda rows: columns_of_csv(list(map(decoded, rows)), split, len(names))  # noqa: E731
        fits = list(map(fit_of_csv, schemas))
    elif isinstance(format, TextLines):
        cells, fits = lambda rows: columns_of_lines(list(map(decoded, rows))), list(map(fit_of_json, schemas))
    else:
        scan = json_scan(schemas)
        cells = lambda rows: columns_of_json(list(map(decoded, rows)), names, scan)  # noqa: E731
        fits = list(map(fit_of_json, schemas))
    dialect = Dialect(cells, fits, partial(one, leaf, format))
    return list(in_columns(leaf, dialect)(lines))


def rows_of(leaf: FromSource, taken: Iterable[TakenRow | Chunk]) -> list[Row]:
    """The rows of what was taken; the time of each row of a chunk is that of its column."""
    rows: list[Row] = []
    for part in taken:
        if isinstance(part, Chunk):
            columns = zip((leaf.items.key, leaf.items.value), (("key",), ("value",)), strict=True)
            keys, values = (from_array(schema, part.column(path)) for schema, path in columns)
            rows += [Row("item", *one) for one in zip(keys, values, part.times.tolist(), strict=True)]
        else:
            rows.append(part.row)
    return rows


def agree(leaf: FromSource, format: Csv | JsonLines | TextLines, lines: list[bytes]) -> None:
    """Compare them, items and rejects apart."""
    wanted, found = [one(leaf, format, line).row for line in lines], rows_of(leaf, together(leaf, format, lines))
    for kinds in (("item", "marker"), ("reject",)):
        assert list(map(repr, [row for row in found if row.kind in kinds])) == list(
            map(repr, [row for row in wanted if row.kind in kinds])
        )


NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.sampled_from(
        [2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, True, "NaN", "1", None, 1.0, -0.0, float("nan")]
    ),
    st.floats(),
)
TEXTS: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=3), st.sampled_from(["", "é", "日本", "\ud800", "\x00", 5, None, [], {}])
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "key": TEXTS,
    "ts": st.one_of(st.integers(0, 100), NUMBERS),
    "name": TEXTS,
    "watts": NUMBERS,
    "on": st.sampled_from([True, False, True, False, 0, 1, "true", None]),
    "place": TEXTS,
    "at": st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05+02:00", "2026-01-02", "", 5, None]),
    "size": st.sampled_from([0, 2**63, 2**64, -1, 1.0, True, "1", None]),
    "money": st.sampled_from([0.1, 1e16, 0.001, 7, 10**30, "0.10", "1e-2", "", True, None, [], float("nan")]),
    "hue": st.sampled_from(["red", "blue", "RED", "", 1, True, None, {}, []]),
    "side": st.sampled_from(["l", "r", "L", "", 0, None, []]),
    "other": NUMBERS,
}
SOUND = {
    "key": st.text(max_size=2),
    "ts": st.integers(0, 100),
    "name": st.sampled_from(["a", "é"]),
    "watts": st.floats(allow_nan=False),
    "on": st.booleans(),
    "place": st.sampled_from(["", "b", None]),
    "at": st.just("2026-01-02T03:04:05Z"),
    "size": st.sampled_from([0, 2**64 - 1]),
    "money": st.sampled_from([0.1, "0.20", 3, None]),
    "hue": st.sampled_from(["red", "blue"]),
    "side": st.sampled_from(["l", None]),
}
TYPED = {"size": 2**63, "money": 0.1, "hue": "red"}
BROKEN = st.sampled_from(
    [b"", b"{", b"{}", b"[]", b"5", b'{"ts": 1} {"ts": 2}', b"\xff", "\ufeff{}".encode(), b'{"ts": 1, "ts": 2}', b"nul"]
)


def as_json(values: dict[str, Any]) -> bytes:
    return json.dumps(values).encode()


@st.composite
def json_lines(draw: st.DrawFn) -> list[bytes]:
    """Mostly rows that fit."""
    sound = st.fixed_dictionaries(SOUND).map(as_json)
    spaced = sound.map(lambda line: b" \t" + line + b"\r")
    twice = sound.map(lambda line: line + line)
    odd = st.fixed_dictionaries({}, optional=FIELDS).map(as_json)
    nearly = st.builds(
        lambda a, b: as_json({**a, **b}), st.fixed_dictionaries(SOUND), st.fixed_dictionaries({}, optional=FIELDS)
    )
    rare = draw(st.booleans())
    return draw(st.lists(st.one_of(sound, sound, spaced, twice, nearly, odd, BROKEN) if rare else sound, max_size=12))


@pytest.mark.parametrize("leaf", [PLAIN, KEYED, BY_NAME], ids=["plain", "keyed", "by name"])
@given(lines=json_lines())
@example(lines=[as_json({"key": "", "ts": 1, "name": "a", "watts": 1, "on": True, "at": "2026-01-02T03:04:05Z", **TYPED})] * 2)
def test_json(leaf: FromSource, lines: list[bytes]) -> None:
    agree(leaf, JsonLines(), lines)


LINES, BY_WORD = (
    leaf_of(U[Unit, str], time=len),
    leaf_of(U[str, str], key=lambda line: line.split()[0], time=lambda line: int(line.split()[1])),
)


@pytest.mark.parametrize("leaf", [LINES, BY_WORD], ids=["plain", "by a word"])
@given(
    lines=st.lists(
        st.text(st.sampled_from('a1 ,"{é\t'), min_size=1).map(str.encode) | st.sampled_from([b"a 1", b"b 2 c", b"\xff a"])
    )
)
def test_lines(leaf: FromSource, lines: list[bytes]) -> None:
    agree(leaf, TextLines(), lines)


def test_a_line_is_a_value_as_it_is() -> None:
    """With its quotes and spaces; not one that is no text."""
    lines = [b' "a", 1', "{é}".encode(), b"\xff"]
    rows = rows_of(LINES, together(LINES, TextLines(), lines))
    assert sorted((row.kind, row.value) for row in rows if row.kind == "item") == [("item", ' "a", 1'), ("item", "{é}")]
    assert [row.reason for row in rows if row.kind == "reject"] == ["not UTF-8"]


CELLS = st.one_of(
    st.integers(-5, 5).map(str),
    st.sampled_from(["", "007", "+1", " 1", "1_0", "1.5", "NaN", "inf", "true", "False", "é", "٣", "9" * 18, "9" * 19]),
    st.sampled_from(["red", "l", "0.001", "1e5", "-1", "18446744073709551616"]),
    st.sampled_from(["9223372036854775808", "2026-01-02T03:04:05Z", '"a', '"a,b"', '"a""b"']),
)


@pytest.mark.parametrize("leaf", [PLAIN, KEYED, BY_NAME], ids=["plain", "keyed", "by name"])
@given(data=st.data())
def test_csv(leaf: FromSource, data: st.DataObject) -> None:
    width = len(leaf.layout.columns)
    rare = data.draw(st.booleans())
    times: st.SearchStrategy[Any] = st.integers(0, 99)
    if rare:
        times = st.one_of(times, st.sampled_from(["٣", "", "-1", "9" * 19, "9" * 5_000]))
    sound = st.builds(
        lambda key, ts, watts, more: f"{key}{ts},n,{watts},true,,2026-01-02T03:04:05Z,{more}".encode(),
        st.just("k," if leaf is KEYED else ""),
        times,
        st.sampled_from(["", "1.5"]),
        st.sampled_from(["0,,red,l", "18446744073709551615,1e1,red,r", "9,.5,blue,"]),
    )
    odd = st.lists(CELLS, min_size=width - 1, max_size=width + 1).map(lambda cells: ",".join(cells).encode())
    rows = st.one_of(sound, sound, odd, st.just(b"\xff")) if rare else sound
    agree(leaf, Csv(), data.draw(st.lists(rows, max_size=12)))


# ---------------------------------------------------------------------- CSV, by another reader of RFC 4180


@attrs.frozen
class Texts:
    """A row of text, of which each line that is well-formed is an item."""

    ts: int
    name: str
    note: str


TEXT, TEXT_BY_NAME, TEXT_KEYED = (
    leaf_of(U[Unit, Texts]),
    leaf_of(U[str, Texts], key=lambda r: r.name),
    leaf_of(U[str, Texts]),
)


def by_rfc_4180(line: bytes, separator: str) -> list[str] | None:
    """The cells of a line by Python's strict reader, each quoted or bare as a whole; None where it is no row."""
    try:
        text = line.decode()
        (cells,) = csv_module.reader([text], delimiter=separator, strict=True)
    except (UnicodeDecodeError, csv_module.Error, ValueError):
        return None
    at = 0
    for number, cell in enumerate(cells):
        lead = separator if number else ""
        bare = "" if set(cell) & {'"', separator} else lead + cell
        quoted = lead + '"' + cell.replace('"', '""') + '"'
        one = quoted if text.startswith(quoted, at) else bare
        if not text.startswith(one, at) or (not one and (number or cell)):
            return None
        at += len(one)
    return cells if at == len(text) else None


PIECES = [
    b'"',
    b'"',
    b'""',
    b"\r",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xef\xbb\xbf",
    b"a",
    b"7",
    "é".encode(),
    b"\xff",
    b" ",
    b"'",
]


@st.composite
def raw_csv(draw: st.DrawFn, width: int, separator: bytes) -> bytes:
    """A file: cells of anything between separators, each row with a number in its place for a time."""
    broken = st.lists(st.sampled_from([*PIECES, separator]), max_size=4).map(b"".join)
    quoted = broken.map(lambda cell: b'"' + cell.replace(b'"', b'""') + b'"')
    cells = st.one_of(broken, quoted, st.sampled_from([b"", b"a", b'a"b', b'"a"b', b'a"', b'"a']))
    rows = st.lists(cells, min_size=width, max_size=width).map(lambda row: separator.join([*row[:-3], b"1", *row[-2:]]))
    return b"\n".join(draw(st.lists(st.one_of(rows, rows, broken), max_size=6)))


@pytest.mark.parametrize("leaf", [TEXT, TEXT_BY_NAME, TEXT_KEYED], ids=["plain", "by name", "keyed"])
@pytest.mark.parametrize("separator", [",", "\t", "|"])
@settings(max_examples=some(300))
@given(data=st.data())
def test_a_line_of_csv_is_exactly_its_cells_or_a_reject(leaf: FromSource, separator: str, data: st.DataObject) -> None:
    """Quotes, separators, line breaks, NULs and byte order marks anywhere: a row is what a strict reader says, in both ways."""
    width, format = len(leaf.layout.columns), Csv(separator)
    raw = data.draw(raw_csv(width, separator.encode()))
    lines = [line for line in re.split(b"\r\n|\r|\n", raw) if not is_blank(format, line)]
    agree(leaf, format, lines)
    for line in lines:
        row, cells = one(leaf, format, line).row, by_rfc_4180(line, separator)
        if cells is None or len(cells) != width or not (cells[-3].isascii() and cells[-3].isdigit()):
            assert row.kind == "reject"
        else:
            value = Texts(int(cells[-3]), *cells[-2:])
            key = {TEXT: UNIT, TEXT_BY_NAME: value.name, TEXT_KEYED: cells[0]}[leaf]
            assert (row.kind, row.key, row.value) == ("item", key, value)


@given(cells=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=2, max_size=2))
def test_a_cell_with_a_line_break_is_an_item_only_where_it_is_one_row(cells: list[str]) -> None:
    """Whoever has rows, not lines: a line break is part of a quoted cell, and never of another."""
    quoted = ",".join(['"1"', *('"' + cell.replace('"', '""') + '"' for cell in cells)])
    assert one(TEXT, Csv(), quoted.encode()).row.value == Texts(1, *cells)
    bare = ",".join(["1", *cells])
    sound = not any(set(cell) & set(',"\r\n') for cell in cells)
    assert (one(TEXT, Csv(), bare.encode()).row.kind == "item") >= sound
    if any(set(cell) & set("\r\n") for cell in cells) and '"' not in bare:
        assert one(TEXT, Csv(), bare.encode()).row.kind == "reject"


@pytest.mark.parametrize(
    ("format", "line", "blank"),
    [
        (Csv(), b"", True),
        (Csv(), b" \t", True),
        (Csv("\t"), b"\t\t", False),
        (Csv("\t"), b" ", True),
        (Csv(" "), b"  ", False),
        (Csv(None), b"\t ", True),
        (JsonLines(), b"\t ", True),
        (Csv(), b",", False),
    ],
)
def test_a_line_of_empty_cells_is_a_row(format: Csv | JsonLines, line: bytes, blank: bool) -> None:
    assert is_blank(format, line) == blank


def test_rows_that_fit_are_one_chunk_and_rejects_stand_before_it() -> None:
    whole = {"ts": 1, "name": "a", "watts": None, "on": True, "at": "2026-01-02T03:04:05Z", "size": 1}
    sound = as_json(whole | {"hue": next(iter(Hue)).value})
    (chunk,) = together(PLAIN, JsonLines(), [sound] * 3)
    assert isinstance(chunk, Chunk)
    aside, rest = together(PLAIN, JsonLines(), [sound, b"{", sound])
    assert isinstance(aside, TakenRow)
    assert isinstance(rest, Chunk)
    assert len(rest) == 2


def test_what_arrow_refuses_is_left_to_the_rows() -> None:
    """Half a character has no UTF-8."""
    lines = [
        as_json({"ts": 1, "name": name, "watts": 1.5, "on": True, "at": "2026-01-02T03:04:05Z"})
        for name in ("a", "\ud800")
    ]
    assert all(isinstance(part, TakenRow) for part in together(PLAIN, JsonLines(), lines))
    agree(PLAIN, JsonLines(), lines)


def test_records_with_code_of_their_own_are_never_columns() -> None:
    taken = together(STRICT, JsonLines(), [b'{"ts": 1}', b'{"ts": -1}'])
    assert [isinstance(part, Chunk) for part in taken] == [False, False]


# ------------------------------------------------------------------------------------------------- rows set aside


@attrs.frozen
class Line:
    """Its time and key are texts that may name none."""

    at: str
    of: str


NUMBERED = leaf_of(U[Unit, str], time=lambda line: int(line.split(" ")[0]))
NAMED = leaf_of(U[Unit, Line], time=lambda one: int(one.at))
BY_NUMBER = leaf_of(U[int, Line], key=lambda one: int(one.of), time=lambda one: int(one.at))


def raw_line(leaf: FromSource, at: str, of: str) -> bytes:
    return f"{at} {of}".encode() if leaf is NUMBERED else json.dumps({"at": at, "of": of}).encode()


@pytest.mark.parametrize("leaf", [NUMBERED, NAMED, BY_NUMBER], ids=["lines", "records", "keys"])
@settings(max_examples=some(40), deadline=None)
@given(
    st.lists(st.integers(-9, 99).map(str), min_size=40, max_size=60),
    st.dictionaries(st.integers(0, 59), st.sampled_from(["", "x", "9" * 25, "\x85"]), max_size=5),
    st.booleans(),
)
def test_a_few_rows_without_a_time_or_key_leave_the_others_as_columns(
    leaf: FromSource, numbers: list[str], bad: dict[int, str], in_key: bool
) -> None:
    pairs = [(number, "7") for number in numbers]
    for at, text in bad.items():
        if at < len(pairs):
            pairs[at] = ("5", text) if in_key else (text, "7")
    format: Any = TextLines() if leaf is NUMBERED else JsonLines()
    lines = [raw_line(leaf, *pair) for pair in pairs]
    agree(leaf, format, lines)
    found = together(leaf, format, lines)
    rejects = sum(isinstance(one, TakenRow) for one in found)
    assert [type(one) for one in found].count(Chunk) == (rejects <= 0.1 * len(lines))
    assert rejects in (len(lines), sum(row.kind == "reject" for row in rows_of(leaf, found)))


TEXTS_BY_KEY = leaf_of(U[str, str], time=lambda text: int(text.split("/")[0]))


@given(st.lists(st.tuples(st.text("ab", max_size=2), st.sampled_from(["5/x", "17/", "9", "x", "", "1" * 25, None])), max_size=30))
def test_a_text_with_a_key_is_a_column(pairs: list[tuple[str, str | None]]) -> None:
    """It has a column of its own, behind that of the key."""
    agree(TEXTS_BY_KEY, JsonLines(), [json.dumps({"key": key, "value": value}).encode() for key, value in pairs])
    agree(TEXTS_BY_KEY, Csv(), [f"{key},{value or ''}".encode() for key, value in pairs])
    sound = [json.dumps({"key": key, "value": "5/x"}).encode() for key, _ in pairs]
    assert all(isinstance(one, Chunk) for one in together(TEXTS_BY_KEY, JsonLines(), sound))
