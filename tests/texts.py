"""Texts of one length for tests."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["of_one_length"]


def of_one_length(width: int) -> st.SearchStrategy[list[bytes]]:
    """Texts of few letters, so that many are equal or differ in one place."""
    text = st.lists(st.sampled_from([b"a", b"b"]), min_size=width, max_size=width).map(b"".join)
    return st.lists(text, min_size=1, max_size=4).flatmap(lambda some: st.lists(st.sampled_from(some), max_size=20))
