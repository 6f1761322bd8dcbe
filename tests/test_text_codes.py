"""Numbers for distinct texts are those of Arrow's dictionary, and places in a table those of its look-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.columns import text_codes as module
from tracetypes.compiler.columns.text_codes import TextTable, text_codes


@contextmanager
def small() -> Iterator[pytest.MonkeyPatch]:
    """A few texts count as many, and as distinct."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY", 2)
        patch.setattr(module, "LARGE", 1)
        patch.setattr(module, "BLOCK", 4)
        patch.setattr(module, "_mostly_distinct", lambda _: True)
        yield patch


def check(texts: pa.Array) -> None:
    codes, number = text_codes(texts)
    expected = texts.dictionary_encode()
    assert codes.dtype == np.int64
    assert codes.tolist() == expected.indices.fill_null(0).to_pylist()
    assert number == max(len(expected.dictionary), 1)


def of_one_length(width: int) -> st.SearchStrategy[list[bytes]]:
    """Texts of few letters, so that many are equal or differ in one place."""
    text = st.lists(st.sampled_from([b"a", b"b"]), min_size=width, max_size=width).map(b"".join)
    return st.lists(text, min_size=1, max_size=4).flatmap(lambda some: st.lists(st.sampled_from(some), max_size=20))


some_texts = st.integers(0, 70).flatmap(of_one_length) | st.lists(st.none() | st.binary(max_size=12), max_size=12)


@given(some_texts, st.integers(0, 3), st.booleans())
def test_they_are_as_arrow_numbers_them(texts: list[bytes | None], start: int, is_text: bool) -> None:
    with small():
        if is_text:
            check(pa.array([None if text is None else text.hex() for text in texts], pa.string())[start:])
        else:
            check(pa.array(texts, pa.binary())[start:])


@given(st.integers(8, 40).flatmap(of_one_length), st.integers(0, 63))
def test_texts_of_the_same_hash_are_told_apart(texts: list[bytes], bits: int) -> None:
    """Hashes of few bits."""
    hashes = module._hashes
    with small() as patch:
        patch.setattr(module, "_hashes", lambda words: hashes(words) >> np.uint64(bits))
        check(pa.array(texts, pa.binary()))


def test_all_bytes_are_compared() -> None:
    """Also the last ones, which are no whole word."""
    with small() as patch:
        patch.setattr(module, "_hashes", lambda words: np.zeros(len(words[0]), np.uint64))
        for width in range(8, 65):
            for place in range(width):
                check(pa.array([b"a" * width] * 9 + [b"a" * place + b"b" + b"a" * (width - place - 1)]))


def test_a_hash_decides_where_most_are_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only there."""
    asked: list[int] = []
    by_hash = module._by_hash

    def noted(words: Sequence[Any]) -> tuple[Any, int] | None:
        asked.append(len(words))
        return by_hash(words)

    monkeypatch.setattr(module, "_by_hash", noted)
    distinct = pa.array([f"{n * 7919 % 100_003:036d}" for n in range(70_000)])
    check(distinct)
    assert asked == [5]
    check(pa.array([f"{n % 1000:036d}" for n in range(70_000)]))
    check(distinct[:1000])
    assert asked == [5]


def check_places(table: pa.Array, texts: pa.Array) -> None:
    expected = pc.index_in(texts, value_set=table).fill_null(-1)
    assert TextTable(table).places(texts).tolist() == expected.to_pylist()


@given(st.data(), st.integers(0, 63))
def test_places_are_as_arrow_finds_them(data: st.DataObject, bits: int) -> None:
    """Texts that are there and others, of the same length and others, with hashes of all bits and of few."""
    hashes = module._hashes
    widths = st.integers(0, 40)
    table = list(dict.fromkeys(data.draw(widths.flatmap(of_one_length))))
    texts = data.draw(widths.flatmap(of_one_length) | of_one_length(len(table[0]) if table else 8))
    texts += data.draw(st.lists(st.sampled_from(table), max_size=8)) if table else []
    with small() as patch:
        patch.setattr(module, "_hashes", lambda words: hashes(words) >> np.uint64(bits))
        check_places(pa.array(table, pa.binary()), pa.array(texts, pa.binary()))


def test_lengths_of_as_many_words_are_told_apart() -> None:
    """Of 33 and of 40 bytes, which are five words both."""
    with small():
        table = pa.array([b"a" * 40, b"b" * 40])
        check_places(table, pa.array([b"a" * 33] * 3))
        check_places(table, pa.array([b"b" * 40, b"c" * 40, b"a" * 40]))


def test_a_large_table_is_looked_up_by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    are_equal = module._are_equal

    def noted(words: Sequence[Any], others: Sequence[Any], places: Any) -> bool:
        found.append(are_equal(words, others, places))
        return found[-1]

    monkeypatch.setattr(module, "_are_equal", noted)
    table = pa.array([f"{n:036d}" for n in range(20_000)])
    check_places(table, pa.array([f"{n * 7919 % 40_009:036d}" for n in range(70_000)]))
    assert found == [True]
    check_places(table[:1000], pa.array([f"{n % 2000:036d}" for n in range(70_000)]))
    assert found == [True]
