"""The laws of an operator, by its template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tracetypes.equations.operators import Examples, equations_of
from tracetypes.equations.silence import Timed
from tracetypes.equations.subject import subject_of
from tracetypes.laws.law import Law
from tracetypes.laws.strategies import item_strategy, streams_of
from tracetypes.markers import TimeUnit
from tracetypes.templates import Operator

__all__ = ["check_laws", "law_tests", "laws"]


def laws(
    op: Operator,
    *,
    items: SearchStrategy[tuple[Any, Any]] | None = None,
    types: tuple[Any, Any] | None = None,
    time: Timed | None = None,
    unit: TimeUnit = "s",
) -> tuple[Law, ...]:
    """The laws of an operator.

    ``items``: a strategy of ``(key, value)`` pairs, for an operator that assumes something of its input; by default
    every pair of its types. ``types``: ``(K, V)`` of a generic operator that leaves them open. ``time`` and ``unit``: as in
    :func:`tracetypes.every`, for an operator that lingers for a time: what it emits in silence can be tried only where the
    markers fit the times of the values.
    """
    subject = subject_of(op, types)
    drawn = item_strategy(subject, items)
    bag = st.lists(drawn, min_size=1, max_size=3).map(tuple)
    examples: Mapping[Examples, SearchStrategy[Any]] = {
        "nothing": st.none(),
        "streams": streams_of(drawn, blocks=3, size=4),
        "short streams": streams_of(drawn, blocks=2, size=3),
        "long streams": streams_of(drawn, blocks=8, size=2),
        "three bags": st.tuples(bag, bag, bag),
    }
    return tuple(
        Law(
            name=one.name, code=one.code, equation=one.text, subject=subject, examine=one.examine, examples=examples[one.of]
        )
        for one in equations_of(op, time=time, unit=unit)
    )


def check_laws(
    op: Operator,
    *,
    items: SearchStrategy[tuple[Any, Any]] | None = None,
    types: tuple[Any, Any] | None = None,
    max_examples: int = 200,
    time: Timed | None = None,
    unit: TimeUnit = "s",
) -> None:
    """Check all laws of an operator; see :func:`laws` for ``items``, ``types``, ``time`` and ``unit``.

    Raises :class:`LawBroken` with the smallest counter-example to the first law that is broken. Deterministic, silent,
    and needs no pytest. ``max_examples``: how many examples each law is tried on.
    """
    __tracebackhide__ = True
    for law in laws(op, items=items, types=types, time=time, unit=unit):
        law.check(max_examples)


def law_tests(
    *ops: Operator,
    items: SearchStrategy[tuple[Any, Any]] | None = None,
    types: tuple[Any, Any] | None = None,
    max_examples: int = 200,
    time: Timed | None = None,
    unit: TimeUnit = "s",
) -> Callable[[Law], None]:
    """A test function for pytest with one test for each law of each operator: ``test_laws = law_tests(Total(), Mean())``."""
    import pytest

    every = [law for op in ops for law in laws(op, items=items, types=types, time=time, unit=unit)]

    @pytest.mark.parametrize("law", every, ids=[f"{law}".replace(": ", "-").replace(" ", "_") for law in every])
    def test_law(law: Law) -> None:
        __tracebackhide__ = True
        law.check(max_examples)

    return test_law
