"""Laws of the aggregates of an ``OpKeyedUnordered``: a commutative monoid."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from tracetypes.equations.equality import floats_in
from tracetypes.equations.messages import advice_on_floats, message_of
from tracetypes.equations.subject import Drawn, Elements, Subject, items_in
from tracetypes.errors import LawBroken
from tracetypes.records import show

__all__ = ["associates", "commutes", "has_identity"]


def _monoid(
    code: str,
    letters: int,
    heading: str,
    sides: Callable[..., Iterable[tuple[str, Any, Any]]],
    fix: str,
) -> Callable[[Subject, Drawn, str], LawBroken | None]:
    """A law on so many aggregates ``a``, ``b``, ``c``, tried on those that were drawn in every arrangement."""

    def examine(subject: Subject, drawn: Drawn, law: str) -> LawBroken | None:
        subject.world.reset()
        values = [(subject.aggregate(items), items) for items in (drawn if letters > 1 else (*drawn, ()))]
        for chosen in itertools.permutations(values, letters):
            texts = [f"{show(value)}, from {_term(items)}" for value, items in chosen]
            for what, left, right in sides(subject, *(value for value, _ in chosen)):
                if not subject.agree(left, right, [value for value, _ in chosen]):
                    lines = [*zip("abc", texts, strict=False), ("left", show(left)), ("right", show(right))]
                    advice = _monoid_advice(code, [items for _, items in chosen], left, right) or fix
                    return LawBroken(code, message_of(f"{subject.name}: {heading}{what}", law, lines), fix=advice)
        return None

    return examine


def _monoid_advice(code: str, drawn: Sequence[Elements], left: Any, right: Any) -> str:
    if advice := advice_on_floats(drawn, left, right):
        return advice
    if code == "TT303" and _shuffled(left, right):
        return (
            "both sides hold the same parts in another order: use a bag such as collections.Counter, or sort in combine; "
            "where order matters use sort and OpKeyedOrdered"
        )
    if code == "TT302" and any(True for _ in floats_in([left, right])):
        return f"{_ADD_UP}; sum floats with tracetypes.ExactSum, for float addition is not associative either"
    return ""


def _term(items: Elements) -> str:
    """How an aggregate was made."""
    if not items:
        return "identity()"
    lifts = [f"lift({show(item.key)}, {show(item.value)})" for item in items_in(items)]
    term = lifts[0]
    for one in lifts[1:]:
        term = f"combine({term}, {one})"
    return term


def _shuffled(left: Any, right: Any) -> bool:
    return (
        type(left) is type(right)
        and isinstance(left, list | tuple | str | bytes)
        and sorted(map(repr, left)) == sorted(map(repr, right))
    )


def _identity_sides(subject: Subject, a: Any) -> Iterator[tuple[str, Any, Any]]:
    neutral = subject.aggregate(())
    yield ": combine(a, identity()) is not a", subject.combine(a, neutral), a
    yield ": combine(identity(), a) is not a", subject.combine(neutral, a), a


def _commutativity_sides(subject: Subject, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "", subject.combine(a, b), subject.combine(b, a)


def _associativity_sides(subject: Subject, a: Any, b: Any, c: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "", subject.combine(a, subject.combine(b, c)), subject.combine(subject.combine(a, b), c)


_ADD_UP: Final = (
    "aggregate what adds up (sums and counts, not means or differences), and compute the rest in update_state"
)


has_identity = _monoid(
    "TT301",
    1,
    "identity() is not neutral",
    _identity_sides,
    "let identity() return the value that combine leaves alone: 0 for a sum, None (and a test for it) for a maximum",
)


commutes = _monoid(
    "TT303",
    2,
    "combine is not commutative",
    _commutativity_sides,
    "let combine decide by what the items hold, not by which came first; where order matters use sort and OpKeyedOrdered",
)


associates = _monoid("TT302", 3, "combine is not associative", _associativity_sides, _ADD_UP)
