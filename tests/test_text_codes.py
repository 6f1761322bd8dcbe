"""Numbers for distinct texts are those of Arrow's dictionary, whatever texts came before."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.texts import of_one_length
from tracetypes.compiler.columns import text_codes as module
from tracetypes.compiler.columns import text_table
from tracetypes.compiler.columns.text_codes import RecentTexts, text_codes


@contextmanager
def small() -> Iterator[pytest.MonkeyPatch]:
    """A few texts count as many, and as distinct; none came before."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {"SOME": 2, "MANY": 2, "LARGEST": 6, "TABLES": 2}.items():
            patch.setattr(module, name, size)
        for name, size in {"BLOCK": 4, "PIECE": 2, "SAMPLE": 3}.items():
            patch.setattr(text_table, name, size)
        patch.setattr(module, "_mostly_distinct", lambda _: True)
        patch.setattr(module, "RECENT_TEXTS", RecentTexts())
        yield patch


def check(texts: pa.Array) -> None:
    codes, number = text_codes(texts)
    expected = texts.dictionary_encode()
    assert codes.dtype == np.int64
    assert codes.tolist() == expected.indices.fill_null(0).to_pylist()
    assert number == max(len(expected.dictionary), 1)


some_texts = st.integers(0, 70).flatmap(of_one_length) | st.lists(st.none() | st.binary(max_size=12), max_size=12)


@given(some_texts, st.integers(0, 3), st.booleans())
def test_they_are_as_arrow_numbers_them(texts: list[bytes | None], start: int, is_text: bool) -> None:
    with small():
        if is_text:
            check(pa.array([None if text is None else text.hex() for text in texts], pa.string())[start:])
        else:
            check(pa.array(texts, pa.binary())[start:])


columns = st.lists(st.text("ab", min_size=8, max_size=8), min_size=1, max_size=9, unique=True).flatmap(
    lambda known: st.lists(
        st.lists(st.sampled_from(known) | st.text("ab", min_size=8, max_size=8) | st.just("9 letters"), max_size=24), max_size=8
    )
)


@given(columns)
def test_what_came_before_changes_nothing(columns: list[list[str]]) -> None:
    """Texts that are known, new or of another length, with tables that grow, become too large and are dropped."""
    with small():
        for texts in columns:
            check(pa.array(texts, pa.string()))


@given(st.integers(8, 40).flatmap(of_one_length), st.integers(0, 63))
def test_texts_of_the_same_hash_are_told_apart(texts: list[bytes], bits: int) -> None:
    """Hashes of few bits."""
    hashes = text_table.hashes_of
    with small() as patch:
        patch.setattr(module, "hashes_of", lambda octets: hashes(octets) >> np.uint64(bits))
        check(pa.array(texts, pa.binary()))


def test_all_bytes_are_compared() -> None:
    """Also the last ones, which are no whole word."""
    with small() as patch:
        patch.setattr(module, "hashes_of", lambda octets: np.zeros(len(octets), np.uint64))
        for width in range(8, 65):
            for place in range(width):
                check(pa.array([b"a" * width] * 9 + [b"a" * place + b"b" + b"a" * (width - place - 1)]))


def noted(patch: pytest.MonkeyPatch, name: str) -> list[int]:
    """How many texts a function was asked for, each time."""
    asked: list[int] = []
    function = getattr(module, name)

    def note(*arguments: Any) -> Any:
        asked.append(len(arguments[-1]))
        return function(*arguments)

    patch.setattr(module, name, note)
    return asked


def test_a_hash_decides_where_most_are_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only there."""
    monkeypatch.setattr(module, "RECENT_TEXTS", RecentTexts())
    by_hash = noted(monkeypatch, "_by_hash")
    distinct = pa.array([f"{n * 7919 % 100_003:036d}" for n in range(70_000)])
    check(distinct)
    assert by_hash == [70_000]
    check(pa.array([f"{n % 1000:036d}" for n in range(70_000)]))
    check(distinct[:1000])
    assert by_hash == [70_000]


def test_a_table_decides_where_most_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only there: texts of which each comes once are not kept, nor are those that a run has left."""
    recent = RecentTexts()
    monkeypatch.setattr(module, "RECENT_TEXTS", recent)
    by_hash, by_table = noted(monkeypatch, "_by_hash"), noted(monkeypatch, "_by_table")
    random_ones = random.Random(4)
    users = [f"{random_ones.getrandbits(112):036d}" for _ in range(20_100)]
    once = pa.array(users[:20_000] + [f"{n:036d}" for n in range(60_000)])
    again = pa.array(random_ones.choices(users[:20_000], k=80_000))
    with recent:
        check(once)
        check(again)
        assert (by_hash, by_table) == ([80_000, 80_000], [])
        check(again)
        check(again[::-1][:5_000])
        assert (by_hash, by_table) == ([80_000, 80_000], [80_000, 5_000])
        before = recent.table_of(text_table.of_one_length(again, 36, 36))
        check(pa.array(random_ones.choices(users, k=80_000)))
        after = recent.table_of(text_table.of_one_length(again, 36, 36))
        assert before is not None
        assert after is not None
        assert len(before) < len(after) <= 20_100
        check(pa.array([f"{n:036d}" for n in range(70_000)]))
        assert by_hash == [80_000, 80_000, 70_000]
    assert recent.table_of(text_table.of_one_length(again, 36, 36)) is None


def test_threads_share_tables() -> None:
    """Texts of all threads are numbered as by themselves, while tables come, grow and go."""
    with small() as patch:
        patch.setattr(module, "LARGEST", 40)
        errors: list[BaseException] = []

        def work(seed: int) -> None:
            chosen = random.Random(seed)
            try:
                for _ in range(300):
                    known = range(chosen.choice([5, 30, 60]))
                    check(pa.array([f"{chosen.choice(known):08d}" for _ in range(90)]))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert len(module.RECENT_TEXTS._tables) <= 2
