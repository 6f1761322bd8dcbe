"""JSON lines by template: the same rows and rejects as the usual reader's, and no look behind the buffer."""

from __future__ import annotations

import datetime as dt
import enum
import json
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal

import attrs
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tracetypes import Dataflow, U, every
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.machine.code import MachineFunction
from tracetypes.compiler.columns.machine.compilation import compilation
from tracetypes.compiler.connectors import json_template, template_rows, text
from tracetypes.compiler.connectors.json_kernel import KERNEL
from tracetypes.compiler.connectors.json_template import Template, TemplateReader
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.formats import JsonLines, Layout
from tracetypes.records import Integer, String
from tracetypes.sources import reader


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Event:
    key: int
    ts: int
    user: str
    note: str | None
    amount: float
    size: float | None
    ok: bool
    maybe: bool | None
    at: dt.datetime
    day: dt.date | None
    color: Color
    side: Literal["left", "right"]


@cache
def leaf(zone: str | None = None, output: str = "items") -> FromSource:
    """A source, as one reads its items or its rejects."""
    flow = Dataflow("totals")
    marks = every(seconds=1, time=lambda e: e.ts)
    source = flow.source("in", U[int, Event], key=lambda e: e.key, markers=marks, format=JsonLines(zone=zone))
    flow.sink("out", source)
    flow.sink("rejects", source.rejects())
    leaves = [one for plan in compile_program(flow).plans for one in plan.sources]
    return next(one for one in leaves if one.source.output == output)


@cache
def machine() -> MachineFunction:
    """The kernel, which all tests of this process share."""
    function = compilation(KERNEL).wait()
    assert function is not None, compilation(KERNEL).problem
    return function


# ------------------------------------------------------------------------------------------------------- rows


def rows_of(of: FromSource, some: bytes, zone: str | None, *, by_template: bool, at_once: int = 1 << 20) -> list[str]:
    """The items and rejects in their order, as text; the rejects last where their places do not matter."""
    items, rejects = list[str](), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "FEWEST", 1 << 30)
        patch.setattr(json_template, "_OTHERS", 1)
        patch.setattr(template_rows, "AT_ONCE", at_once)
        patch.setattr(template_rows, "kernel", lambda _: machine() if by_template else None)
        rows = TextReader(of, JsonLines(zone=zone), None, reader(of.source).read)
        for one in rows.of_text(some, 0, SplitNotes()):
            if isinstance(one, Chunk):
                keys = from_array(of.items.key, one.column(("key",)))
                values = from_array(of.items.value, one.column(("value",)))
                items += map(repr, zip(one.times.tolist(), keys, values, strict=True))
            elif one.row.kind == "reject":
                (items if of.source.output == "rejects" else rejects).append(f"{one.show()}: {one.row.reason}")
            else:
                items.append(repr((one.row.time, one.row.key, one.row.value)))
    return items + rejects


GOOD: dict[str, str] = {
    "key": "1",
    "ts": "2",
    "user": '"u1"',
    "note": "null",
    "amount": "0.5",
    "other": '"x"',
    "size": "1.5",
    "ok": "true",
    "maybe": "null",
    "at": '"2020-02-29T12:34:56.789Z"',
    "day": '"2021-12-31"',
    "color": '"red"',
    "side": '"left"',
}
NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["0", "-0", "01", "-01", "--1", "-", "+1", "1.", ".5", "1e5", "1E-3", "1e", "1e+", "0e0", "-0.0", "-0e5", "0.0"]
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(2**52, 2**53).map("{}.5".format),
    st.sampled_from(
        ["9223372036854775807", "9223372036854775808", "1e400", "5e-324", "2.2250738585072011e-308", "1e23", "NaN"]
    ),
    st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
TEXTS = st.one_of(
    st.text(max_size=20).map(lambda one: json.dumps(one, ensure_ascii=False)),
    st.text(max_size=20).map(json.dumps),
    st.sampled_from(
        ['""', '"\x7f"', '"\t"', '"a', "a", '"a"b"', '"\u2028"', r'"\ud800"', '"red"', '"blue"', '"right"', '"green"']
    ),
)
TIMES = st.one_of(
    st.datetimes(timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=-5, minutes=-30))])).map(
        dt.datetime.isoformat
    ),
    st.datetimes().map(str),
    st.dates().map(str),
    st.from_regex(
        r"[12]\d\d\d-[01]\d-[0-3]\d[T ][0-2]\d:[0-6]\d:[0-6]\d(\.\d{0,8})?(Z|z|[+-][0-2]\d:[0-6]\d)?", fullmatch=True
    ),
    st.sampled_from(
        ["2020-01-01", "2021-02-29", "1900-02-29", "2000-02-29", "2020-01-01T24:00:00Z", "2020-01-01T00:00:00,5Z"]
    ),
).map('"{}"'.format)
OTHERS = st.sampled_from(
    ["null", "nul", "true", "false", "fals", "True", "{}", "[]", "[1]", '{"a":1}', "", " ", "NaN", "Infinity"]
)
VALUES = st.one_of(NUMBERS, TEXTS, TIMES, OTHERS)
RIGHT: dict[str, st.SearchStrategy[str]] = {
    **dict.fromkeys(("key", "ts"), st.integers(-(2**63), 2**63 - 1).map(str)),
    **dict.fromkeys(("amount", "size"), NUMBERS),
    **dict.fromkeys(("user", "note"), TEXTS),
    **dict.fromkeys(("at", "day"), TIMES),
    **dict.fromkeys(("color", "side"), TEXTS),
}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line that has the usual shape, or is broken at one place."""
    fields = dict(GOOD)
    for name in draw(st.lists(st.sampled_from(list(GOOD)), max_size=3)):
        fields[name] = draw(RIGHT.get(name, VALUES) if draw(st.integers(0, 3)) else VALUES)
    for name in draw(st.sets(st.sampled_from(list(GOOD)), max_size=1)) if draw(st.integers(0, 4)) == 0 else ():
        del fields[name]
    if draw(st.integers(0, 9)) == 0:
        fields = dict(draw(st.permutations(list(fields.items()))))
    colon, comma = draw(st.sampled_from([(": ", ", ")] * 6 + [(":", ","), (" :", " , ")]))
    parts = [f'"{name}"{colon}{value}' for name, value in fields.items()]
    if draw(st.integers(0, 9)) == 0:
        parts.append(draw(st.sampled_from(parts)))
    raw = (
        "{" + comma.join(parts) + "}" + draw(st.sampled_from([""] * 9 + [" ", "}", ",", "\r", " x", "\x00"]))
    ).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 3)) == 0:
        at, end = draw(st.integers(0, len(raw))), draw(st.sampled_from([0, 1, 1, 2, 1000]))
        raw = (
            raw[:at]
            + draw(st.sampled_from([b"", b"", b"\xff", b"\xc3", b"\xed\xa0\x80", b'"', b"\\", b"1", b" ", b"}"]))
            + raw[at + end :]
        )
    return raw.replace(b"\n", b"")


def usual_line() -> bytes:
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in GOOD.items()) + "}").encode()


GOOD_LINE = usual_line()
TEXT_OF_LINES = st.lists(
    st.one_of(lines(), lines(), st.just(GOOD_LINE), st.sampled_from([b"", b" ", b"\x0c", b"x"])), max_size=6
)


def put(name: str, value: str) -> bytes:
    """A line with another value."""
    before = f'"{name}": {GOOD[name]}'
    return GOOD_LINE.decode().replace(before, f'"{name}": {value}').encode()


CUT = [GOOD_LINE[: GOOD_LINE.index(f'"{name}": '.encode()) + len(name) + 4] for name in GOOD]
"""Lines that end where a value should begin."""


@settings(max_examples=4 * settings().max_examples)
@given(TEXT_OF_LINES, st.booleans(), st.sampled_from([None, "UTC", "Europe/Paris"]), st.integers(1, 4), st.booleans())
@example([line for cut in CUT for line in (cut, GOOD_LINE)], True, None, 100, False)
@example([put(name, "") for name in GOOD], True, "UTC", 100, False)
@example([put("amount", "-0"), put("amount", "-0.0"), put("amount", "-0e1")], False, None, 2, False)
@example([put("other", "-1.5e300"), put("other", "01"), put("other", '"a\\""')], False, None, 4, False)
@example([put("user", '"' + "é" * 9 + '"'), b"x", put("note", '"12345678"')], False, None, 4, True)
def test_the_same_rows_and_rejects(
    some: list[bytes], ended: bool, zone: str | None, at_once: int, rejects: bool
) -> None:
    whole = b"\n".join([GOOD_LINE, *some]) + (b"\n" if ended else b"")
    of = leaf(zone, "rejects" if rejects else "items")
    mine = rows_of(of, whole, zone, by_template=True, at_once=at_once)
    assert mine == rows_of(of, whole, zone, by_template=False)


@settings(max_examples=5 * settings().max_examples)
@example(["0E30", "-0e-30", "0.0e23", "-0.000e-23", "0e64", "0e-64", "0e65"])
@example([f"{2**52 + n}.{half}" for n in range(4) for half in ("5", "50", "49", "51")])
@given(st.lists(st.one_of(NUMBERS, st.floats(1e-30, 1e30).map(repr), st.floats(0, 1).map(repr)), min_size=1))
def test_floats_have_the_bits_of_python(numerals: list[str]) -> None:
    some = b"".join(put("amount", one) + b"\n" for one in ["1.5", *numerals])
    parsed = read(machine(), some)
    for line, number in zip(taken(some, parsed), parsed.columns[4].to_pylist(), strict=True):
        assert struct.pack("d", number) == struct.pack("d", float(json.loads(line)["amount"]))


def read(kernel: Any, some: bytes, layout: Layout | None = None) -> json_template.ParsedLines:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_template, "_OTHERS", 1)
        parsed = TemplateReader(layout or leaf().layout).read(kernel, some, 0, 1 << 20)
    assert parsed is not None
    return parsed


def taken(some: bytes, parsed: json_template.ParsedLines) -> list[bytes]:
    """The lines that were read by template."""
    left = list(parsed.others.lines)
    lines = [line for line in some.split(b"\n") if line.strip()]
    mine = [line for line in lines if not (left and left[0] == line and left.pop(0))]
    assert len(mine) == parsed.num_rows
    return mine


# ---------------------------------------------------------------------------------------------- what is taken


@pytest.mark.parametrize(
    "line",
    [
        put("key", "-123456789012345678"),
        put("amount", "0.1234567890123456"),
        put("amount", "1.7e-7"),
        put("amount", "123456789.123456789"),
        put("size", "null"),
        put("note", '"naïve 漢字 🎉"'),
        put("maybe", "false"),
        put("at", '"2020-01-01 00:00:00+05:30"'),
        put("at", '"1999-12-31T23:59:59.000001-01:00"'),
        put("day", "null"),
        put("other", "null"),
        put("other", "-1.5e+300"),
    ],
)
def test_common_values_are_taken(line: bytes) -> None:
    some = GOOD_LINE + b"\n" + line + b"\n"
    parsed = read(machine(), some)
    assert parsed.num_rows == 2
    assert not parsed.others.lines
    assert rows_of(leaf(), some, None, by_template=True) == rows_of(leaf(), some, None, by_template=False)


@pytest.mark.parametrize(
    "line",
    [
        put("key", "1.0"),
        put("key", "9223372036854775808"),
        put("key", "12345678901234567890"),
        put("user", r'"a\nb"'),
        put("user", '"a\x1fb"'),
        put("user", "null"),
        put("amount", "1e400"),
        put("amount", "12345678901234567890.5"),
        put("at", '"2020-01-01T00:00:00"'),
        put("at", '"2020-01-01T00:00:00.1234567Z"'),
        put("at", '"2020-01-01T24:00:00Z"'),
        put("at", '"2021-02-29T00:00:00Z"'),
        put("day", '"20200101"'),
        put("other", "[]"),
        put("ok", "1"),
        GOOD_LINE + b" ",
        GOOD_LINE[:-1],
        GOOD_LINE + GOOD_LINE,
        b"{}",
        put("user", '"\xed\xa0\x80"').replace(b"\xc3\xad\xc2\xa0\xc2\x80", b"\xed\xa0\x80"),
        put("user", '"?"').replace(b"?", b"\xc0\xaf"),
        put("user", '"?"').replace(b"?", b"\xc1\xbf"),
        put("user", '"?"').replace(b"?", b"\xe0\x9f\xbf"),
        put("user", '"?"').replace(b"?", b"\xf0\x8f\xbf\xbf"),
        put("user", '"?"').replace(b"?", b"\xff"),
        put("user", '"?"').replace(b"?", b"\xf4\x90\x80\x80"),
        put("user", '"?"').replace(b"?", b"\xe2\x82"),
    ],
)
def test_other_values_are_handed_over(line: bytes) -> None:
    parsed = read(machine(), GOOD_LINE + b"\n" + line + b"\n" + GOOD_LINE + b"\n")
    assert parsed.num_rows == 2
    assert parsed.others.lines == [line]
    assert parsed.others.before == [1]


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"{}",
        b' {"key": 1}',
        b"[" + GOOD_LINE[1:],
        GOOD_LINE.replace(b'"key"', rb'"\u006bey"'),
        GOOD_LINE.replace(b'"other"', b'"key"'),
        GOOD_LINE.replace(b'"user"', b'"other"'),
        put("other", "[]"),
        put("other", '{"a": 1}'),
        GOOD_LINE + b"}",
        GOOD_LINE.replace(b'"other"', b'"\xff"'),
    ],
)
def test_of_some_lines_there_is_no_template(line: bytes) -> None:
    assert Template.of(line + b"\n", leaf().layout) is None


def test_a_field_that_may_be_missing_is_null() -> None:
    line = GOOD_LINE.replace(b'"note": null, ', b"")
    parsed = read(machine(), line + b"\n" + line + b"\n")
    assert parsed.columns[3].to_pylist() == [None, None]
    assert parsed.columns[2].to_pylist() == ["u1", "u1"]


def test_where_many_lines_differ_the_usual_reader_takes_all() -> None:
    some = b"".join(GOOD_LINE + b"\nx\n" for _ in range(100))
    assert TemplateReader(leaf().layout).read(machine(), some, 0, 1 << 20) is None


def test_the_template_follows_the_lines() -> None:
    """A file with another shape, behind one without."""
    of, other = TemplateReader(leaf().layout), GOOD_LINE.replace(b": ", b":")
    for line in (GOOD_LINE, other, GOOD_LINE):
        parsed = of.read(machine(), (line + b"\n") * 50, 0, 1 << 20)
        assert parsed is not None
        assert parsed.num_rows == 50


def test_a_text_is_read_in_pieces() -> None:
    of, some = TemplateReader(leaf().layout), (GOOD_LINE + b"\n") * 50
    parsed = of.read(machine(), some, 0, 20)
    assert parsed is not None
    assert (parsed.num_rows, parsed.end) == (20, 20 * len(GOOD_LINE) + 20)


def test_a_long_text_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    some = b"".join(put("key", str(n)) + b"\n" for n in range(50))
    monkeypatch.setattr(json_template, "_PIECE", 1_000)
    of, keys, at = TemplateReader(leaf().layout), list[int](), 0
    while at < len(some):
        parsed = of.read(machine(), some, at, 1 << 20)
        assert parsed is not None
        assert at < parsed.end <= at + 1_000
        keys, at = [*keys, *parsed.columns[0].to_pylist()], parsed.end
    assert keys == list(range(50))
    monkeypatch.setattr(json_template, "_PIECE", 10)
    assert of.read(machine(), some, 0, 1 << 20) is None


# ------------------------------------------------------------------------------------------------ the buffer


class Checked:
    """An array that refuses what lies outside of it, as machine code does not."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, at: int) -> Any:
        assert 0 <= at < len(self.array)
        return self.array[at]

    def __setitem__(self, at: int, value: Any) -> None:
        assert 0 <= at < len(self.array)
        self.array[at] = value


def load64(column: Checked, at: int) -> Any:
    assert 0 <= at <= len(column.array) - 8
    return column.array[at : at + 8].view(np.uint64)[0]


def store64(column: Checked, at: int, value: Any) -> None:
    assert 0 <= at <= len(column.array) - 8
    column.array[at : at + 8].view(np.uint64)[0] = value


@cache
def in_python() -> Callable[..., int]:
    """The kernel as Python, in which each access is checked."""
    names: dict[str, Any] = {
        "int64": int,
        "int32": int,
        "uint64": np.uint64,
        "float64": float,
        "load64": load64,
        "store64": store64,
        "leading_zeros": lambda x: 64 - int(x).bit_length(),
        "trailing_zeros": lambda x: (int(x) & -int(x)).bit_length() - 1,
        "multiply_high": lambda a, b: np.uint64(int(a) * int(b) >> 64),
        "of_bits": lambda x: struct.unpack("d", struct.pack("Q", int(x)))[0],
    }
    exec(KERNEL.source, names)

    def kernel(*arguments: Any) -> int:
        wrapped = [Checked(one) if isinstance(one, np.ndarray) else one for one in arguments]
        with np.errstate(over="ignore"):
            return int(names["kernel"](*wrapped))

    return kernel


@given(st.lists(st.text(max_size=20), min_size=1), st.integers(0, 12))
def test_no_text_is_read_behind_the_buffer(texts: list[str], cut: int) -> None:
    """Nor any literal, at the end of a text whose last line is whole or not."""
    lines = [f'{{"value":1,"key":"{one}"}}'.encode("utf-8", "replace") for one in ["x", *texts]]
    whole = b"\n".join(lines).replace(b"\r", b"")
    whole = whole[: len(whole) - cut] + b"\n"
    layout = Layout(String(), Integer())
    checked, fast = read(in_python(), whole, layout), read(machine(), whole, layout)
    assert (checked.columns, checked.others) == (fast.columns, fast.others)


@given(TEXT_OF_LINES)
@example([])
@example([GOOD_LINE[: len(GOOD_LINE) - cut] for cut in range(0, 60, 7)])
def test_nothing_outside_of_the_buffers_is_read_or_written(some: list[bytes]) -> None:
    whole = (b"\n".join([GOOD_LINE, *some]) + b"\n").replace(b"\r", b"")
    checked, fast = read(in_python(), whole), read(machine(), whole)
    assert checked.others == fast.others
    assert [one.to_pylist() for one in checked.columns] == [one.to_pylist() for one in fast.columns]


# --------------------------------------------------------------------------------------------------- when


def chunks(some: bytes) -> Iterator[Any]:
    return TextReader(leaf(), JsonLines(), None, reader(leaf().source).read).of_text(some, 0, SplitNotes())


def test_code_is_looked_for_and_compiled_when_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[bool]()
    some = (GOOD_LINE + b"\n") * 300
    monkeypatch.setattr(template_rows, "_seen", 0)
    monkeypatch.setattr(template_rows, "LOOK", 2 * len(some))
    monkeypatch.setattr(template_rows, "COMPILE", 4 * len(some))
    monkeypatch.setattr(type(compilation(KERNEL)), "start", lambda self, *, only_kept=False: asked.append(only_kept))
    for _ in range(4):
        assert sum(map(len, chunks(some))) == 300
    assert asked == [True, True, False]
