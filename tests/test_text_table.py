"""Places of texts in a table are those that Arrow finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.texts import of_one_length
from tracetypes.compiler.columns import text_table as module
from tracetypes.compiler.columns.text_table import FixedWidthTable, TextTable


def check_places(table: pa.Array, texts: pa.Array) -> None:
    expected = pc.index_in(texts, value_set=table).fill_null(-1)
    assert TextTable(table).places(texts).tolist() == expected.to_pylist()


def small(patch: pytest.MonkeyPatch) -> None:
    """A few texts count as many."""
    for name, size in {"LARGE": 1, "SOME": 1, "BLOCK": 4, "PIECE": 2, "SAMPLE": 3}.items():
        patch.setattr(module, name, size)


@given(st.data(), st.integers(0, 63), st.integers(0, 4))
def test_places_are_as_arrow_finds_them(data: st.DataObject, bits: int, extra: int) -> None:
    """Texts that are there and others, of the same length and others, with hashes of all bits and of few, and with few slots."""
    hashes = module.hashes_of
    widths = st.integers(0, 66)
    table = list(dict.fromkeys(data.draw(widths.flatmap(of_one_length))))
    texts = data.draw(widths.flatmap(of_one_length) | of_one_length(len(table[0]) if table else 8))
    texts += data.draw(st.lists(st.sampled_from(table), max_size=8)) if table else []
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        patch.setattr(module, "EXTRA", extra)
        patch.setattr(module, "hashes_of", lambda *arguments: hashes(*arguments) << np.uint64(bits))
        check_places(pa.array(table, pa.binary()), pa.array(texts, pa.binary()))


def test_lengths_of_as_many_words_are_told_apart() -> None:
    """Of 33 and of 40 bytes, which are five words both."""
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        table = pa.array([b"a" * 40, b"b" * 40])
        check_places(table, pa.array([b"a" * 33] * 3))
        check_places(table, pa.array([b"b" * 40, b"c" * 40, b"a" * 40]))


def test_all_bytes_are_compared() -> None:
    """A text that differs in one byte from the one at its place is not that one. The hash is of other bytes, or of none."""
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        patch.setattr(module, "hashes_of", lambda octets, _: np.zeros(len(octets), np.uint64))
        for width in range(8, 65):
            table = FixedWidthTable.of(np.full((1, width), ord("a"), np.uint8))
            assert table is not None
            others = np.full((width + 1, width), ord("a"), np.uint8)
            others[np.arange(width), np.arange(width)] = ord("b")
            assert table.places(others).tolist() == [-1] * width + [0], width


@pytest.mark.parametrize("width", [8, 13, 36, 64])
def test_a_large_table(width: int) -> None:
    """Texts are contested in several levels; some texts are missing."""
    table = pa.array([f"{n * 3_999:0{width}d}" for n in range(20_000)])
    texts = pa.array([f"{n * 7919 % 25_003 * 3_999:0{width}d}" for n in range(70_000)])
    built = TextTable(table)._of_one_length
    assert built is not None
    assert len(built.levels) > 2
    check_places(table, texts)
    check_places(table, pa.array([f"{n:0{width}d}" for n in range(70_000)]))


def test_words_that_are_the_same_in_all_texts_are_not_hashed() -> None:
    table = TextTable(pa.array([f"https://example.com/{n:08d}/index.html" for n in range(1000)]))._of_one_length
    assert table is not None
    assert table.words in ((16,), (24,))


def test_texts_of_the_same_hash_have_no_slots() -> None:
    """Arrow looks them up."""
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        patch.setattr(module, "hashes_of", lambda octets, _: np.zeros(len(octets), np.uint64))
        table = pa.array([b"a" * 9, b"b" * 9])
        assert TextTable(table)._of_one_length is None
        check_places(table, pa.array([b"b" * 9, b"c" * 9]))
