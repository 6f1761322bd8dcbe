"""The law of a sort: equal values have equal places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from tracetypes.canonical import canonical
from tracetypes.errors import LawBroken
from tracetypes.laws.strategies import search, values_of
from tracetypes.records import Schema, show
from tracetypes.schemas import schema_of
from tracetypes.sort_keys import Orderable
from tracetypes.sort_keys import sort_key as place_of

__all__ = ["check_order", "sort_law"]

V = TypeVar("V")


def check_order(by: Callable[[V], Orderable], value: type[V], *, max_examples: int = 200) -> None:
    """The law of a SORT: whatever order values come in, they go out in one. What ``by`` gives must have a place in the order
    (:mod:`tracetypes.sort_keys`), and be the same each time.

    ``by``: as of ``sort`` or ``ordered_by``; ``value``: the type of the values. Raises :class:`LawBroken` ``TT312`` with the
    smallest values that break it. Deterministic.
    """
    __tracebackhide__ = True
    sort_law(by, schema_of(value), max_examples)


def sort_law(by: Callable[[Any], Any], schema: Schema, max_examples: int) -> None:
    """See :func:`check_order`."""
    whole = canonical(schema)

    def ordered(some: Iterable[Any]) -> list[Any]:
        return [at for _, at in sorted((place_of(by(one)), whole(one)) for one in some)]

    @search(max_examples)
    @given(st.lists(values_of(schema, key=False), min_size=1, max_size=4))
    def judge(some: list[Any]) -> None:
        try:
            one, other = ordered(some), ordered(reversed(some))
        except Exception as error:
            raise LawBroken(
                "TT312",
                f"by fails or gives what has no place in an order: {type(error).__name__}: {error}\n    values:   {show(some)}",
                fix="let by give a number other than NaN, a text, bytes, a time, a day or a tuple of these for every value",
            ) from None
        if one != other:
            raise LawBroken(
                "TT312",
                f"two orders of arrival, two answers: by gives different places for equal values\n    values:   {show(some)}",
                fix="let by depend on the value alone",
            )

    try:
        judge()
    except Flaky as error:  # it does not fail again: by draws lots
        raise LawBroken(
            "TT312",
            f"two calls of by, two answers: {str(error).partition(chr(10))[0]}",
            fix="let by depend on the value alone",
        ) from None
