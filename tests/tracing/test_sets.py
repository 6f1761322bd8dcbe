"""``in`` on constant sets: traced for every scalar, and tuples of scalars, with Python's meaning."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs import inputs_of
from tests.strategies import some
from tracetypes.compiler.tracing.expr import Undefined, run
from tracetypes.compiler.tracing.operations.operation import SCALARS
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace
from tracetypes.records import Bytes, Optional, Schema

NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)

POOL: Sequence[Any] = (
    *(None, False, True, 0, 1, 2, -1, 2**40, 0.0, -0.0, 1.0, 2.5, math.inf, math.nan, "", "a", "1", b"", b"a"),
    *(NOON, NOON.replace(tzinfo=None), NOON.astimezone(dt.timezone(dt.timedelta(hours=1))), NOON.date(), (1, "a"), ()),
)

VALUES: dict[Schema, list[Any]] = {
    kind: [one for one in POOL if type(one) is cls and getattr(one, "tzinfo", dt.UTC) is dt.UTC]
    for kind, cls in {**SCALARS, Bytes(): bytes}.items()
}


def means(program: Callable[..., Any], kinds: Sequence[Schema], rows: Sequence[tuple[Any, ...]]) -> None:
    names = "ab"[: len(kinds)]
    tree = trace(program, [Given(name, kind) for name, kind in zip(names, kinds, strict=True)], emits=None)
    for row in rows:
        try:
            result = run(tree, inputs_of(**dict(zip(names, row, strict=True))))[1]
        except Undefined:  # whether NaN is in a container depends on which object it is
            assert any(value != value for value in row)
        else:
            assert result is program(*row), row


MEMBERS = st.lists(st.sampled_from(POOL), max_size=8) | st.lists(st.sampled_from(POOL), max_size=8).map(
    lambda found: [*found, *map(str, range(20)), *range(20, 40)]
)


@pytest.mark.parametrize("of", VALUES, ids=lambda kind: type(kind).__name__)
@settings(max_examples=some(40), deadline=None)
@given(members=MEMBERS, optional=st.booleans(), frozen=st.booleans())
def test_a_scalar_in_a_set(of: Schema, members: list[Any], optional: bool, frozen: bool) -> None:
    whole: Any = frozenset(members) if frozen else set(members)
    rows = [(value,) for value in [*VALUES[of], *([None] if optional else [])]]
    try:
        means(lambda a: a in whole, [Optional(of) if optional else of], rows)
    except Untraceable as error:
        assert (len(whole) > 16 and "looks up" in str(error)) or () in whole or (1, "a") in whole  # noqa: PT017


@settings(max_examples=some(40), deadline=None)
@given(st.sets(st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", None])), max_size=4))
def test_a_tuple_in_a_set(whole: set[tuple[int, str | None]]) -> None:
    integer, string = (next(kind for kind, cls in SCALARS.items() if cls is wanted) for wanted in (int, str))
    rows = [(a, b) for a in (0, 1, 2, 3) for b in ("a", "b", "c", None)]
    means(lambda a, b: (a, b) in whole, [integer, Optional(string)], rows)


def test_many_members_are_looked_up() -> None:
    (string,) = (kind for kind, cls in SCALARS.items() if cls is str)
    whole = {*map(str, range(1000)), 7, None, 2.5}
    means(lambda a: a in whole, [string], [("7",), ("x",), ("999",)])
