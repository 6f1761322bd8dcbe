"""Checksums of texts are those of zlib."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.columns import text_sums as module
from tracetypes.compiler.columns.text_sums import text_sums


def check(texts: Sequence[str], start: int = 0) -> None:
    sums = text_sums(pa.array(texts, pa.string())[start:])
    assert sums.dtype == np.uint64
    assert sums.tolist() == [zlib.crc32(text.encode()) for text in texts[start:]]


def of_one_length(width: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.text(st.characters(max_codepoint=127), min_size=width, max_size=width), max_size=10)


@given(st.integers(0, 66).flatmap(of_one_length) | st.lists(st.text(max_size=9), max_size=10), st.integers(0, 2))
def test_they_are_those_of_zlib(texts: list[str], start: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY", 1)
        patch.setattr(module, "BLOCK", 4)
        check(texts, start)


def test_every_byte_counts_at_every_place() -> None:
    generator = np.random.default_rng(5)
    for width in range(1, module.WIDEST + 1):
        octets = generator.integers(0, 128, (2 * module.BLOCK + 7, width), np.uint8)
        check(["", *(bytes(row).decode() for row in octets)], 1)


def test_texts_of_several_bytes_a_letter() -> None:
    check(["ä€", "€ü"] * module.MANY)


def test_tables_are_used_for_many_texts_of_one_length_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    sums_of = module._sums_of

    def noted(octets: np.ndarray) -> np.ndarray:
        asked.append(len(octets))
        return sums_of(octets)  # type: ignore[no-any-return]

    monkeypatch.setattr(module, "_sums_of", noted)
    check(["abc"] * (module.MANY - 1))
    check(["abc"] * module.MANY + ["ab"])
    check([""] * module.MANY)
    assert asked == []
    check(["abc"] * module.MANY)
    assert asked == [module.MANY]
