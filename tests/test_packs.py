"""Small files that are read together have the rows of each by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_parsed import leaf_of, rows_of
from tracetypes import RunError, U, Unit, csv, json_lines
from tracetypes.compiler.connectors import disk, packs, text, text_reader
from tracetypes.compiler.connectors.encodings import MARK
from tracetypes.compiler.connectors.file_splits import Reading, Split
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.formats import Csv, JsonLines
from tracetypes.sources import reader


@attrs.frozen
class Note:
    ts: int
    name: str
    note: str | None


NOTE = leaf_of(U[Unit, Note])

LINES = {
    "csv": ["1,a,b", '2,"a\r\nb",""', "3,a", "x,a,b", "", " ", '4,"', "5,é,b", "name,ts,note", "ts,name,note", "6,a,b,c"],
    "json": ['{"ts": 1, "name": "a"}', '{"ts": 2, "name": "b", "note": "c"}', "{}", "", " ", "[", '{"ts": "x", "name": "a"}'],
}
HEADS = ["ts,name,note\n", "note,ts,name\r\n", "ts,name\n", ""]


def texts(kind: str) -> st.SearchStrategy[bytes]:
    rows = st.lists(st.tuples(st.sampled_from(LINES[kind]), st.sampled_from(["\n", "\n", "\r\n", "\r"])), max_size=6)
    whole = st.tuples(st.sampled_from(HEADS if kind == "csv" else [""]), rows, st.booleans(), st.booleans())

    def joined_text(of: tuple[str, list[tuple[str, str]], bool, bool]) -> bytes:
        head, lines, marked, ended = of
        joined = head + "".join(line + end for line, end in lines)
        return (MARK if marked else b"") + (joined if ended else joined.rstrip("\r\n")).encode()

    return whole.map(joined_text)


def read(format: Csv | JsonLines, files: Sequence[Sequence[Split]]) -> tuple[list[str], list[str], list[int]]:
    """Items in order, rejects, and doubtful rows by file, of files that are read in these packs."""
    of = TextReader(NOTE, format, ["ts", "name", "note"], reader(NOTE.source).read)
    rows, doubtful = list[Any](), list[int]()
    for pack in files:
        readings = [(Reading(split), SplitNotes()) for split in pack]
        rows += rows_of(NOTE, of.of_splits(readings))
        doubtful += [notes.doubtful for _, notes in readings]
    items = [repr(row) for row in rows if row.kind == "item"]
    return items, sorted(repr(row) for row in rows if row.kind != "item"), doubtful


def answer(format: Csv | JsonLines, files: Sequence[Sequence[Split]]) -> Any:
    """What :func:`read` returns or raises: a header may be none."""
    try:
        return read(format, files)
    except RunError as error:
        return str(error)


@pytest.mark.parametrize("kind", ["csv", "json"])
@given(data=st.data(), at_once=st.sampled_from([1, 3, text.AT_ONCE]), block=st.sampled_from([8, 64, disk.BLOCK]))
def test_files_together_have_the_rows_of_each_alone(kind: str, data: st.DataObject, at_once: int, block: int) -> None:
    some = data.draw(st.lists(texts(kind), min_size=1, max_size=5))
    format = csv() if kind == "csv" else json_lines()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_reader, "AT_ONCE", at_once)
        patch.setattr(text_reader, "BLOCK", block)
        splits = []
        for rank, content in enumerate(some):
            path = Path(folder, f"{rank}.txt")
            path.write_bytes(content)
            stat = path.stat()
            splits.append(Split(1, str(path), rank, stat.st_size, stat.st_mtime_ns, 0, stat.st_size))
        assert answer(format, [splits]) == answer(format, [[split] for split in splits])


@given(st.lists(st.integers(0, 3 << 20), max_size=60), st.integers(1, 8))
def test_packs_are_all_splits_in_order_and_small(sizes: list[int], tasks: int) -> None:
    splits = [Split(1, str(rank), rank, size, 1, 0, size) for rank, size in enumerate(sizes)]
    made = list(packs.packs(splits, tasks))
    assert [split for pack in made for split in pack] == splits
    weights = [sum(packs.OPEN + split.weight for split in pack) for pack in made]
    for pack, weight in zip(made, weights, strict=True):
        assert pack
        assert len(pack) == 1 or weight <= packs.LARGEST
        assert len(pack) == 1 or weight * packs.TURNS * tasks <= sum(weights)
