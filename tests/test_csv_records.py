"""CSV by RFC 4180: where records end, however a text is cut; and what is written is what is read."""

from __future__ import annotations

import csv as csv_module
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.test_parsed import leaf_of, rows_of
from tracetypes import RunError, U, Unit, UsageError, csv, csv_records
from tracetypes.compiler.connectors import disk, record_blocks, record_ends, text_reader
from tracetypes.compiler.connectors.arrivals import Arrivals
from tracetypes.compiler.connectors.encodings import MARK, as_utf8
from tracetypes.compiler.connectors.file_splits import Reading, Split
from tracetypes.compiler.connectors.line_streams import LineSource
from tracetypes.compiler.connectors.record_blocks import RecordBlocks
from tracetypes.compiler.connectors.record_ends import row_ends
from tracetypes.compiler.connectors.sink_files import open_sink_file
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.local.streams import lines_reader
from tracetypes.formats import Csv
from tracetypes.parsing import rows_of_text
from tracetypes.records import UNIT
from tracetypes.sources import reader

Line: TypeAlias = tuple[bytes, bool, bool]
"""A record or the line of a reject, whether it is a record, and whether it is doubtful."""


BOUNDS = st.sampled_from([5, 12, 13, csv_records.BOUND])
"""Of a record, also so small that they matter."""


@contextmanager
def bounded(bound: int, block: int = disk.BLOCK) -> Iterator[None]:
    """A context with another bound, and blocks of another size."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (csv_records, record_blocks, record_ends, text_reader):
            patch.setattr(module, "BOUND", bound)
        patch.setattr(record_blocks, "_WINDOW", max(1, bound // 2))
        patch.setattr(disk, "BLOCK", block)
        yield


def by_letters(text: bytes, bound: int, separator: bytes = b",") -> list[Line]:
    """The rule once more, letter by letter."""
    lines, start, until = list[Line](), 0, 0
    while start < len(text):
        at, state, sound = start, "cell", True
        while True:
            letter = text[at : at + 1]
            if state == "quoted":
                if not letter:
                    sound = False
                    break
                state = "quote" if letter == b'"' else "quoted"
            elif letter in (b"", b"\r", b"\n"):
                break
            elif letter == separator:
                state = "cell"
            elif letter == b'"' and state != "bare":
                state = "quoted"
            elif state == "quote" or letter == b'"':
                sound = False
                break
            else:
                state = "bare"
            at += 1
        sound = sound and at - start <= bound
        if not sound:
            ends = [at for at in (text.find(b"\n", start), text.find(b"\r", start)) if at >= 0]
            at = min(ends, default=len(text))
        lines.append((text[start:at], sound, start < until))
        until = until if sound else max(until, start + bound)
        start = at + (2 if text[at : at + 2] == b"\r\n" else 1)
    return lines


PARTS = [b'"', b'"', b"a", b",", b"\n", b"\n", b"\r\n", b'"x"', b'"a\nb"', b'""', b"longlong", "é".encode()]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=25).map(b"".join) | st.lists(st.sampled_from([*PARTS, b"\r"]), max_size=25).map(
    b"".join
)


def cut(data: st.DataObject, text: bytes) -> list[bytes]:
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=4).map(sorted))
    return [text[start:end] for start, end in pairwise([0, *places, len(text)])]


# ------------------------------------------------------------------------------------------------- the definition


@given(text=TEXTS, bound=BOUNDS)
def test_the_definition_is_the_rule_letter_by_letter(text: bytes, bound: int) -> None:
    with bounded(bound):
        assert list(csv_records.RecordCutter(",").records(text)) == [line[:2] for line in by_letters(text, bound)]


@given(text=TEXTS, data=st.data(), bound=BOUNDS)
def test_blocks_of_any_size_have_the_records_of_the_whole(text: bytes, data: st.DataObject, bound: int) -> None:
    wanted, found, whole = by_letters(text, bound), list[tuple[bytes, bool]](), b""
    with bounded(bound):
        for some in RecordBlocks(csv_records.RecordCutter(",")).of(cut(data, text)):
            whole += some.text
            assert all(one.rows for one in some.stretches)
            assert all(len(one.rows[0]) > bound for one in some.stretches if one.too_long)
            found += [(row, one.doubtful) for one in some.stretches for row in one.rows]
    assert whole == text
    agree(found, wanted)


def agree(found: list[tuple[bytes, bool]], wanted: list[Line]) -> None:
    """The same records and rejected lines, and the same records are doubtful."""
    assert [row for row, _ in found] == [row for row, _, _ in wanted]
    sound = [at for at, (_, sound, _) in enumerate(wanted) if sound]
    assert [found[at][1] for at in sound] == [wanted[at][2] for at in sound]


@pytest.mark.parametrize("separator", ["\t", "§"])
@given(text=TEXTS, data=st.data(), bound=BOUNDS)
def test_any_character_separates_cells(separator: str, text: bytes, data: st.DataObject, bound: int) -> None:
    raw, cutter = text.replace(b",", separator.encode()), csv_records.RecordCutter(separator)
    with bounded(bound):
        blocks = RecordBlocks(cutter).of(cut(data, raw))
        found = [row for some in blocks for stretch in some.stretches for row in stretch.rows]
        assert found == [row for row, _ in cutter.records(raw)]
    if separator == "\t":
        assert [row.replace(b"\t", b",") for row in found] == [row for row, _, _ in by_letters(text, bound)]


# ----------------------------------------------------------------------------------------------------- files


@attrs.frozen
class Note:
    """A row of text."""

    ts: int
    name: str
    note: str | None


NOTE = leaf_of(U[Unit, Note])


def read_splits(path: Path, splits: Sequence[Split], format: Csv) -> tuple[list[Any], int]:
    """The rows of a file in splits, each with a reader of its own; and how many are doubtful."""
    rows, doubtful = list[Any](), 0
    for split in splits:
        notes = SplitNotes()
        taken = TextReader(NOTE, format, None, reader(NOTE.source).read).of_splits([(Reading(split), notes)])
        rows += [(row.kind, row.value) for row in rows_of(NOTE, taken)]
        doubtful += notes.doubtful
    return rows, doubtful


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("in")


def whole(path: Path) -> Split:
    stat = path.stat()
    return Split(1, str(path), 0, stat.st_size, stat.st_mtime_ns, 0, stat.st_size)


def lines_of(text: bytes, doubtful: int) -> list[tuple[bytes, bool]]:
    """The records and rejected lines of a part of a text, and whether each is doubtful."""
    stretches = RecordBlocks(csv_records.RecordCutter(","), doubtful).cut(text, last=True).stretches
    return [(row, one.doubtful) for one in stretches for row in one.rows]


ROWS = st.lists(
    st.sampled_from(
        [
            b"1,a,b\n",
            b'2,"a\n3,c,d\n","e"\n',
            b'4,a"b,c\n',
            b'5,"a,b\n',
            b"6,,\r\n",
            b'7,"","x""y"\r\n',
            b"\n",
            b"8,long,line\n",
            b"9,a\n",
        ]
    ),
    max_size=12,
)


def expected(text: bytes, bound: int) -> tuple[list[Any], int]:
    """The kinds and values of the rows of a file, by the rule, and how many are doubtful."""
    rows, count = list[Any](), 0
    _, *lines = by_letters(text, bound)
    for line, sound, doubtful in lines:
        if not line.strip():
            continue
        (row,) = list(rows_of_text(csv(columns=["ts", "name", "note"]), NOTE.layout, line)) if sound else [None]
        value = reader(NOTE.source).read(*row) if isinstance(row, tuple) else None
        rows.append(("item", value.value) if value is not None else ("reject", None))
        count += doubtful and value is not None
    return rows, count


@given(
    lines=ROWS, most=st.integers(1, 30), block=st.integers(1, 30), marked=st.booleans(), compressed=st.booleans(), bound=BOUNDS
)
@example(lines=[b'2,"a\n3,c,d\n","e"\n'] * 3, most=1, block=7, marked=True, compressed=False, bound=13)
@example(lines=[b'5,"a,b\n', *[b"9,a,b\n"] * 9], most=7, block=7, marked=False, compressed=False, bound=20)
def test_a_file_in_splits_has_the_records_of_the_whole(
    place: Path, lines: list[bytes], most: int, block: int, marked: bool, compressed: bool, bound: int
) -> None:
    header = b"ts,name,note\n" if bound > 12 else b"a,b,c\n"
    text, format = header + b"".join(lines), csv(columns=None if bound > 12 else ["ts", "name", "note"])
    path = place / ("in.csv.gz" if compressed else "in.csv")
    content = MARK + text if marked else text
    path.write_bytes(gzip.compress(content) if compressed else content)
    with bounded(bound, block):
        splits = [whole(path)] if compressed else list(row_ends(format).splits(whole(path), most))
        found, doubtful = read_splits(path, splits, format)
    wanted, count = expected(text, bound)
    assert sorted(found, key=repr) == sorted(wanted if bound > 12 else [("reject", None), *wanted], key=repr)
    assert [one for one in found if one[0] == "item"] == [one for one in wanted if one[0] == "item"]
    assert doubtful == count


@given(lines=ROWS, data=st.data(), bound=BOUNDS)
def test_a_file_that_grows_has_the_records_of_the_whole(place: Path, lines: list[bytes], data: st.DataObject, bound: int) -> None:
    """Each time it is taken up to its last whole record."""
    text, path = b"ts,name,note\n" + b"".join(lines), place / "in.csv"
    ends, taken, content, found = row_ends(csv()), [(0, 0)], b"", list[tuple[bytes, bool]]()
    with bounded(bound):
        for part in cut(data, text):
            content += part
            path.write_bytes(content)
            start, end = taken[-1][1], ends.last(str(path), taken[-1][1], len(content))
            if end > start:
                after = ends.after(str(path), taken)
                assert after is not None
                assert after[0] == start
                found += lines_of(content[start:end], after[1])
                taken.append((start, end))
        after = ends.after(str(path), taken)
        if after is not None:
            found += lines_of(text[after[0] :], after[1])
            agree(found, by_letters(text, bound))


@pytest.mark.parametrize(
    ("taken", "more", "whole"),
    [
        (b"a,b\n", b"c", True),
        (b"a,b", b"\nc", True),
        (b"a,b", b"c", False),
        (b'a,"b\n', b'c"\n', False),
        (b'a,"b"', b"\n", True),
        (b'a,"b"', b'"\n', False),
        (b"a,b\r", b"\n", True),
        (b"a,b\r", b"c\n", True),
        (b"a,b\r", b"\rc", True),
        (b"a,b", b"\rc", True),
        (b'a,"b\n', b'c"d\n', True),
        (b'a"b\n', b"c\n", True),
    ],
)
def test_a_taken_part_is_known_to_end_with_a_record(tmp_path: Path, taken: bytes, more: bytes, whole: bool) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(taken + more)
    after = row_ends(csv()).after(str(path), [(0, len(taken))])
    assert (after is not None) == whole


# ---------------------------------------------------------------------------------------------------- streams


@given(texts=st.lists(ROWS.map(b"".join), min_size=1, max_size=3), data=st.data(), bound=BOUNDS)
def test_a_stream_has_the_records_of_each_sender(texts: list[bytes], data: st.DataObject, bound: int) -> None:
    leaf = attrs.evolve(NOTE, source=attrs.evolve(NOTE.source, format=csv(columns=["ts", "name", "note"])))
    arrivals, wanted, count = Arrivals(), list[Any](), 0
    source = LineSource(leaf, arrivals, "here")
    with bounded(bound):
        for text in texts:
            assert source.take(iter(cut(data, text)))
            rows, doubtful = expected(b"x\n" + text, bound)
            wanted += rows
            count += doubtful
        notes, parts = SplitNotes(), arrivals.between(0, arrivals.end_of_epoch(0))
        found = [(row.kind, row.value) for row in rows_of(leaf, lines_reader(leaf, None)(parts, notes))]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert notes.doubtful == count


# ---------------------------------------------------------------------------------------------------- writers

CELL = st.text(st.sampled_from("a\",;\n\r \t'é日#\\0"), max_size=4) | st.sampled_from(["NA", "NULL", "nan", "\ufeff", '"', '""'])
NOTES = st.lists(st.builds(Note, st.integers(0, 99), CELL, st.none() | CELL), min_size=1, max_size=6)


def ours(rows: list[Note], format: Csv, path: Path) -> None:
    schema = pa.schema([("ts", pa.int64()), ("name", pa.string()), ("note", pa.string())])
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    with closing(open_sink_file(format, str(path))) as file:
        file.write(pa.RecordBatch.from_pydict(columns, schema=schema))


def python(rows: list[Note], format: Csv, path: Path) -> None:
    """It writes None as nothing, and an empty text with quotes only where all cells have them."""
    out = io.StringIO()
    writer = csv_module.writer(out, delimiter=format.separator or ",")
    writer.writerow(["note", "ts", "name"])
    for row in rows:
        writer.writerow([row.note, row.ts, row.name])
    path.write_text(out.getvalue(), encoding=format.encoding, newline="")


def pandas(rows: list[Note], format: Csv, path: Path) -> None:
    frame = pd.DataFrame({"ts": [row.ts for row in rows], "name": [row.name for row in rows], "note": [row.note for row in rows]})
    frame.to_csv(path, index=False, sep=format.separator or ",", na_rep=format.null, quoting=csv_module.QUOTE_NONNUMERIC)


def duck(rows: list[Note], format: Csv, path: Path) -> None:
    table = pa.Table.from_pylist(list(map(attrs.asdict, rows)))
    DUCK.from_arrow(table).write_csv(str(path), sep=format.separator, na_rep=format.null)


DUCK = duckdb.connect()
Writer: TypeAlias = Callable[[list[Note], Csv, Path], None]


@pytest.mark.parametrize("writer", [ours, python, pandas, duck], ids=lambda one: one.__name__)
@given(rows=NOTES, separator=st.sampled_from([",", ";", "\t"]), null=st.sampled_from(["", "NA"]), block=st.integers(1, 40))
def test_what_others_write_is_what_we_read(
    place: Path, writer: Writer, rows: list[Note], separator: str, null: str, block: int
) -> None:
    format, path = csv(separator=separator, null=null), place / "in.csv"
    if writer is python:  # it writes an empty text and None as nothing
        format = csv(separator=separator)
        rows = [attrs.evolve(row, note=row.note or None) for row in rows]
    if writer is pandas:  # it puts quotes around what stands for None, too
        rows = [attrs.evolve(row, note=row.note or "x") for row in rows]
    if writer is duck:
        rows = [attrs.evolve(row, name=row.name.replace("\0", ""), note=row.note and row.note.replace("\0", "")) for row in rows]
    path.unlink(missing_ok=True)
    writer(rows, format, path)
    with bounded(csv_records.BOUND, block):
        found, _ = read_splits(path, list(row_ends(format).splits(whole(path), block)), format)
    assert found == [("item", row) for row in rows]


@attrs.frozen
class Kinds:
    """Columns of which nothing, and an empty text, mean something."""

    a: str | None
    b: bytes | None
    c: int | None


KINDS = st.builds(Kinds, st.none() | CELL, st.none() | st.binary(max_size=2), st.none() | st.integers(0, 2))


@given(rows=st.lists(KINDS), null=st.sampled_from(["", "0", "NA"]))
def test_nothing_and_an_empty_value_are_different(place: Path, rows: list[Kinds], null: str) -> None:
    path, layout = place / "kinds.csv", leaf_of(U[Unit, Kinds], time=lambda r: 0).layout
    file = open_sink_file(csv(null=null), str(path))
    columns = {name: [getattr(row, name) for row in rows] for name in "abc"}
    schema = pa.schema([("a", pa.string()), ("b", pa.binary()), ("c", pa.int64())])
    file.write(pa.RecordBatch.from_pydict(columns, schema=schema))
    file.close()
    assert list(rows_of_text(csv(null=null), layout, path.read_bytes())) == [(UNIT, row) for row in rows]


@given(rows=st.lists(st.none() | CELL), null=st.sampled_from(["", "NA"]))
def test_each_line_of_a_file_of_one_column_is_a_row(place: Path, rows: list[str | None], null: str) -> None:
    path, layout = place / "one.csv", leaf_of(U[Unit, str | None], time=lambda r: 0).layout
    file = open_sink_file(csv(null=null), str(path))
    file.write(pa.RecordBatch.from_pydict({"value": rows}, schema=pa.schema([("value", pa.string())])))
    file.close()
    assert [one[1] for one in rows_of_text(csv(null=null), layout, path.read_bytes()) if isinstance(one, tuple)] == rows


# -------------------------------------------------------------------------------------------------- encodings


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "utf-8-sig", "shift_jis", "iso2022_jp"])
@given(data=st.data())
def test_text_of_other_encodings(encoding: str, data: st.DataObject) -> None:
    letters = "aé€\n," if encoding in ("cp1252", "utf-16", "utf-16-le", "utf-8-sig") else "a日本\n,"
    text = data.draw(st.text(st.sampled_from(letters)))
    raw = text.encode(encoding)
    name = csv(encoding=encoding).encoding
    assert b"".join(as_utf8(cut(data, raw), name)) == text.encode()


def test_what_is_no_text_of_an_encoding_is_a_reject() -> None:
    text = b"".join(as_utf8([b"1,a,\x81\xc3\xa9\n2,b,c\n"], "shift_jis"))
    first, second, _ = text.split(b"\n")
    with pytest.raises(UnicodeDecodeError):
        first.decode()
    assert second == b"2,b,c"


@pytest.mark.parametrize("encoding", ["utf-99", "base64", "undefined", ""])
def test_an_unknown_encoding_is_refused_by_name(encoding: str) -> None:
    with pytest.raises(UsageError, match=f"encoding '{encoding}'") as failed:
        csv(encoding=encoding)
    assert failed.value.code == "TT115"


@pytest.mark.parametrize(("null", "separator"), [('"', ","), ("a,b", ","), ("\n", ","), ("a b", None), (" ", None)])
def test_the_text_for_none_is_a_bare_cell(null: str, separator: str | None) -> None:
    with pytest.raises(UsageError, match="TT115"):
        csv(null=null, separator=separator)


# ------------------------------------------------------------------------------------------------- what is refused


def test_a_sink_refuses_what_no_source_reads(place: Path) -> None:
    with pytest.raises(RunError, match="longer than a record of CSV") as failed:
        ours([Note(1, "a" * csv_records.BOUND, None)], csv(), place / "a.csv")
    assert failed.value.code == "TT209"
    with pytest.raises(RunError, match="'日' is not in cp1252"):
        ours([Note(1, "日", None)], csv(encoding="cp1252"), place / "b.csv")
