"""Rows in files: layouts, lines of text, headers, and the format that a name tells."""

import csv as csv_module
import datetime as dt
import io
import json
import math
import zoneinfo
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.strategies import FLOATS, INTEGERS, Everything, Meter, Pair, Place, key_schemas, keys, schemas, values
from tracetypes import UNIT, RunError, Unit, UsageError, csv, json_lines, kafka, parquet, text_lines
from tracetypes.canonical import canonical
from tracetypes.conformance import conformer
from tracetypes.formats import Csv, Format, JsonLines, Layout, Parquet, format_of
from tracetypes.parsing import checked_key, header_problem, record_parser, split_header, text_parser
from tracetypes.records import Float, Integer, Mismatch, Schema, String, Timestamp, UnitValue
from tracetypes.schemas import schema_of


@attrs.frozen
class Reading:
    id: str
    watts: float
    note: str | None


@attrs.frozen
class Keyed:
    """Its field would hide the key."""

    key: int
    other: int


@attrs.frozen
class Valued:
    """Its field is called as the column of a value that is no record."""

    value: int
    other: int


@attrs.frozen
class Flat:
    """A field for each kind that CSV can hold."""

    flag: bool
    count: int
    level: float
    text: str
    octets: bytes
    maybe: int | None


@attrs.frozen
class Positive:
    level: int = attrs.field(validator=attrs.validators.gt(0))


READING = Layout(UnitValue(), schema_of(Reading))
KEYED_READING = Layout(String(), schema_of(Reading))


# -------------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.csv", Csv()),
        ("a.b.CSV.gz", Csv()),
        ("a.tsv", Csv(separator="\t")),
        ("a.json", JsonLines()),
        ("dir/a.jsonl.zst", JsonLines()),
        ("a.ndjson.bz2", JsonLines()),
        ("data.parquet/", Parquet()),
    ],
)
def test_the_format_that_a_name_tells(name: str, format: Format) -> None:
    assert format_of(name, None) == format
    assert format_of(name, Parquet()) == Parquet()


@pytest.mark.parametrize("name", ["a", "a.txt", "a.gz", "", "a.csv.bak", ".csv"])
def test_TT207_a_name_that_tells_no_format(name: str) -> None:
    with pytest.raises(RunError) as caught:
        format_of(name, None)
    assert caught.value.code == "TT207"
    assert repr(name) in caught.value.message
    assert format_of(name, None, JsonLines()) == JsonLines()


def test_formats_are_made_by_functions() -> None:
    assert csv() == Csv(",", None)
    assert csv(separator=None, columns=["a", "b"]) == Csv(None, ("a", "b"))
    assert (json_lines(), parquet()) == (JsonLines(), Parquet())
    made = csv(), json_lines(), parquet(), text_lines()
    assert [f.extension for f in made] == ["csv", "jsonl", "parquet", "txt"]


@pytest.mark.parametrize("separator", ["", ",,", '"', "\n"])
def test_TT115_a_separator_is_one_character(separator: str) -> None:
    with pytest.raises(UsageError, match="TT115 the separator is"):
        csv(separator=separator)


# --------------------------------------------------------------------------------------------------- layout


@pytest.mark.parametrize(
    ("key", "value", "columns"),
    [
        (Unit, Reading, ["id", "watts", "note"]),
        (str, Reading, ["key", "id", "watts", "note"]),
        (Unit, int, ["value"]),
        (str, int, ["key", "value"]),
        (str, Keyed, ["key", "value"]),
        (Unit, Keyed, ["key", "other"]),
        (str, Valued, ["key", "value", "other"]),
        (Place, Reading | None, ["key", "value"]),
    ],
)
def test_the_columns_of_a_layout(key: Any, value: Any, columns: list[str]) -> None:
    assert [name for name, _ in Layout(schema_of(key), schema_of(value)).columns] == columns


def test_a_reserved_column_closes_the_record() -> None:
    layout = Layout(String(), schema_of(Reading), ("watts",))
    assert not layout.opened
    assert [name for name, _ in layout.columns] == ["key", "value"]


@given(st.data())
def test_pairs_come_back(data: DataObject) -> None:
    key_schema, value_schema = data.draw(key_schemas()), data.draw(schemas())
    layout = Layout(key_schema, value_schema)
    key, value = data.draw(keys(key_schema)), data.draw(values(value_schema))
    plain = json.loads(json.dumps(layout.plain(key, value), allow_nan=False))
    assert list(plain) == [name for name, _ in layout.columns]
    key_again, value_again = layout.pair(plain)
    assert canonical(key_schema)(key_again) == canonical(key_schema)(key)
    assert canonical(value_schema)(value_again) == canonical(value_schema)(value)


def test_pairs_by_hand() -> None:
    assert KEYED_READING.plain("k", Reading("a", math.nan, None)) == {
        "key": "k",
        "id": "a",
        "watts": "NaN",
        "note": None,
    }
    assert READING.pair({"id": "a", "watts": 1, "more": 5}) == (UNIT, Reading("a", 1.0, None))


@pytest.mark.parametrize(
    ("layout", "plain", "message"),
    [
        (KEYED_READING, {"id": "a", "watts": 1}, ".key is missing, expected str"),
        (KEYED_READING, {"key": 5, "id": "a", "watts": 1}, ".key is 5, expected str"),
        (READING, {"id": "a"}, ".watts is missing, expected float"),
        (READING, {"id": "a", "watts": "1"}, ".watts is '1', expected float"),
        (Layout(String(), Integer()), {"key": "a"}, ".value is missing, expected int"),
        (
            Layout(String(), schema_of(Keyed)),
            {"key": "a", "value": {"key": 1}},
            ".value.other is missing, expected int",
        ),
    ],
)
def test_what_is_no_pair(layout: Layout, plain: dict[str, Any], message: str) -> None:
    with pytest.raises(Mismatch) as caught:
        layout.pair(plain)
    assert str(caught.value) == message


# ------------------------------------------------------------------------------------------------- JSON lines


def test_json_lines() -> None:
    parse = text_parser(JsonLines(), KEYED_READING, None)
    assert parse('{"key": "k", "id": "a", "watts": 1}') == ("k", Reading("a", 1.0, None))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "value is '', expected a JSON object (Expecting value"),
        ("{", "value is '{', expected a JSON object ("),
        ("[1]", "value is '[1]', expected a JSON object"),
        ("5", "value is '5', expected a JSON object"),
        ('{"id": "a", "watts": 1} x', 'value is \'{"id": "a", "watts": 1} x\', expected a JSON object (Extra data'),
        ("[" * 100_000, "value is '[[[["),
        ('{"id": "a", "watts": ' + "1" * 5_000 + "}", 'value is \'{"id": "a", "watts": 111'),
        ('{"id": "a", "watts": true}', ".watts is True, expected float"),
    ],
    ids=range(8),
)
def test_what_is_no_json_line(line: str, message: str) -> None:
    with pytest.raises(Mismatch) as caught:
        text_parser(JsonLines(), READING, None)(line)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 400


# -------------------------------------------------------------------------------------------------------- CSV


@pytest.mark.parametrize(
    ("format", "header", "line", "value"),
    [
        (csv(), None, "a,1.5,n", Reading("a", 1.5, "n")),
        (csv(), None, "a,1.5,", Reading("a", 1.5, None)),
        (csv(), None, ",1.5,", Reading("", 1.5, None)),
        (csv(), None, '"a,""b""",1.5,n', Reading('a,"b"', 1.5, "n")),
        (csv(separator=";"), None, "a;1.5;n", Reading("a", 1.5, "n")),
        (csv(separator="\t"), None, "a\t1.5\tn m", Reading("a", 1.5, "n m")),
        (csv(separator=None), None, "  a   1.5\tn", Reading("a", 1.5, "n")),
        (csv(columns=["note", "watts", "id"]), None, "n,1.5,a", Reading("a", 1.5, "n")),
        (csv(), ["x", "watts", "id"], "9,1.5,a", Reading("a", 1.5, None)),
        (csv(columns=["id", "x", "y"]), ["watts", "id", "note"], "1.5,a,n", Reading("a", 1.5, "n")),
    ],
)
def test_lines_of_csv(format: Csv, header: list[str] | None, line: str, value: Reading) -> None:
    assert text_parser(format, READING, header)(line) == (UNIT, value)


def test_lines_of_csv_with_a_key_and_of_single_values() -> None:
    assert text_parser(csv(), KEYED_READING, None)("k,a,1,n") == ("k", Reading("a", 1.0, "n"))
    assert text_parser(csv(), Layout(UnitValue(), Integer()), None)("5") == (UNIT, 5)
    assert text_parser(csv(), Layout(Integer(), Float()), None)("5,1") == (5, 1.0)


def test_a_column_that_the_file_does_not_have_is_missing_and_not_empty() -> None:
    parse = text_parser(csv(columns=["watts", "note"]), READING, None)
    with pytest.raises(Mismatch, match=r"\.id is missing, expected str"):
        parse("1.5,n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,1.5", "value is 'a,1.5', expected 3 columns (id, watts, note), not 2"),
        ("a,1.5,n,", "value is 'a,1.5,n,', expected 3 columns (id, watts, note), not 4"),
        ("", "value is '', expected 3 columns (id, watts, note), not 1"),
        ("a,x,n", ".watts is 'x', expected float"),
        ("a,,n", ".watts is '', expected float"),
        ("a, 1.5,n", ".watts is ' 1.5', expected float"),
        ('a,"1.5,n', "value is 'a,\"1.5,n', expected well-formed CSV ("),
        ('a,"1.5"x,n', "value is 'a,\"1.5\"x,n', expected well-formed CSV ("),
        ('"', "value is '\"', expected well-formed CSV ("),
    ],
)
def test_what_is_no_line_of_csv(line: str, message: str) -> None:
    with pytest.raises(Mismatch) as caught:
        text_parser(csv(), READING, None)(line)
    assert str(caught.value).startswith(message)


def test_a_record_may_refuse_its_line() -> None:
    layout = Layout(UnitValue(), schema_of(Positive))
    assert text_parser(csv(), layout, None)("5") == (UNIT, Positive(5))
    with pytest.raises(Mismatch, match=r"expected Positive \(ValueError: "):
        text_parser(csv(), layout, None)("0")


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029\x85"), max_size=5)


@given(st.data(), st.sampled_from([",", ";", "\t"]))
def test_lines_that_pythons_csv_writes_are_read(data: DataObject, separator: str) -> None:
    value = data.draw(
        st.builds(Flat, st.booleans(), INTEGERS, FLOATS, TEXTS, st.binary(max_size=3), st.none() | INTEGERS)
    )
    layout = Layout(UnitValue(), schema_of(Flat))
    cells = ["" if cell is None else str(cell) for cell in layout.plain(UNIT, value).values()]
    out = io.StringIO()
    csv_module.writer(out, delimiter=separator, lineterminator="").writerow(cells)
    _, again = text_parser(csv(separator=separator), layout, None)(out.getvalue())
    assert canonical(layout.value)(again) == canonical(layout.value)(value)


@given(st.text(max_size=20))
def test_any_line_is_read_or_refused(line: str) -> None:
    for layout in (READING, KEYED_READING, Layout(UnitValue(), schema_of(Flat))):
        for format in (csv(), csv(separator=None), json_lines()):
            with suppress(Mismatch):
                key, value = text_parser(format, layout, None)(line)
                assert conformer(layout.key)(key) is key
                assert conformer(layout.value)(value) is value


@given(st.data())
def test_any_json_is_read_or_refused(data: DataObject) -> None:
    names = st.sampled_from([*(f.name for f in attrs.fields(Everything)), "key", "value", "id", "place", "Place"])
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    plain = data.draw(
        st.recursive(
            leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6), max_leaves=12
        )
    )
    layout = Layout(UnitValue(), data.draw(st.sampled_from([schema_of(t) for t in (Everything, Meter, Place | Pair)])))
    with suppress(Mismatch):
        key, value = text_parser(json_lines(), layout, None)(json.dumps(plain))
        assert key is UNIT
        assert canonical(layout.value)(conformer(layout.value)(value)) == canonical(layout.value)(value)


# ----------------------------------------------------------------------------------------------------- headers


@pytest.mark.parametrize(
    ("format", "line", "names"),
    [
        (csv(), "id,watts, note", ["id", "watts", "note"]),
        (csv(), '"id","a,b"', ["id", "a,b"]),
        (csv(), "\ufeffid,watts", ["id", "watts"]),
        (csv(separator=None), "\ufeffid  watts", ["id", "watts"]),
        (csv(separator=";"), "id;watts", ["id", "watts"]),
        (csv(), "", []),
    ],
)
def test_headers(format: Csv, line: str, names: list[str]) -> None:
    assert split_header(format, line) == names


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (["id", "watts", "note"], None),
        (["watts", "id", "more"], None),
        (["id"], "in.csv has no column 'watts'; it has 'id'"),
        (["id", "watts", "id"], "in.csv has 2 columns 'id'"),
        (["id", "watts", "x", "x"], None),
        ([], "in.csv has no column 'id'; it has no columns"),
    ],
)
def test_TT203_a_header_that_lacks_a_column(found: list[str], missing: str | None) -> None:
    problem = header_problem(csv(), READING, found, "in.csv")
    assert (problem and (problem.code, problem.message)) == (missing and ("TT203", missing))


def test_TT203_a_header_with_a_stray_quote() -> None:
    with pytest.raises(RunError, match="TT203 the header of a file"):
        split_header(csv(), 'id,wa"tts')


# ------------------------------------------------------------------------------------------------------- zones


@attrs.frozen
class At:
    """A time wherever one can be."""

    at: dt.datetime
    maybe: dt.datetime | None = None
    several: tuple[dt.datetime, ...] = ()


NAIVE = st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1)) | st.sampled_from(
    [dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30), dt.datetime(2024, 10, 27, 3)]
)


@given(NAIVE, st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]))
def test_a_time_without_a_zone_needs_one_and_is_one_instant_in_it(at: dt.datetime, zone: str) -> None:
    schema, text, local = schema_of(At), at.isoformat(), at.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    first, last = (local.replace(fold=fold).astimezone(dt.UTC) for fold in (0, 1))
    for layout, line in (
        (Layout(UnitValue(), schema), json.dumps({"at": text, "maybe": text, "several": [text]})),
        (Layout(UnitValue(), schema), json.dumps({"at": "2020-01-01T00:00:00Z", "maybe": text, "several": []})),
    ):
        with pytest.raises(Mismatch, match="with a time zone"):
            text_parser(json_lines(), layout, None)(line)
        parse = text_parser(json_lines(zone=zone), layout, None)
        if first == last:
            assert parse(line)[1].maybe == first
        else:
            with pytest.raises(Mismatch, match="one instant in"):
                parse(line)
    cell = Layout(UnitValue(), Timestamp())
    with pytest.raises(Mismatch, match="with a time zone"):
        text_parser(csv(), cell, None)(text)
    with pytest.raises(Mismatch, match="with a time zone"):
        record_parser(kafka(), cell)(None, text.encode(), [])
    if first == last:
        assert text_parser(csv(zone=zone), cell, None)(text) == (UNIT, first)
        assert record_parser(kafka(zone=zone), cell)(None, text.encode(), []) == (UNIT, first)
    with_zone = first.isoformat()
    assert text_parser(csv(zone=zone), cell, None)(with_zone) == (UNIT, first)


@pytest.mark.parametrize("make", [csv, json_lines, parquet, kafka])
@pytest.mark.parametrize("zone", ["Berlin", "", "../UTC", "+01:00", "Europe"])
def test_TT115_a_zone_that_is_none(make: Callable[..., object], zone: str) -> None:
    with pytest.raises(UsageError, match="TT115 the zone"):
        make(zone=zone)


# -------------------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("schema", "key", "message"),
    [
        (Float(), math.nan, ".key is nan, expected a key (the key is NaN, which equals nothing, not even itself)"),
        (schema_of(int | None), None, ".key is None, expected a key (the key is None)"),
    ],
)
def test_what_cannot_be_a_key(schema: Schema, key: Any, message: str) -> None:
    with pytest.raises(Mismatch) as caught:
        checked_key(schema)(key)
    assert str(caught.value) == message


def test_what_can_be_a_key_is_given_back() -> None:
    assert checked_key(Float())(1.5) == 1.5
    kinds = ("a",)
    assert checked_key(schema_of(tuple[str, ...]))(kinds) is kinds
