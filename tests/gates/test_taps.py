"""Containers of taps: they are what a dictionary would be, and what has changed is found by columns."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes.compiler.gates.taps import Together
from tracetypes.impacts import relative_magnitude, variation

WRITTEN = st.dictionaries(st.integers(0, 40), st.sampled_from([0.0, -0.0, 1.0, 2.5]), max_size=30)


@settings(max_examples=some(40))
@given(st.lists(st.tuples(WRITTEN, WRITTEN), min_size=1, max_size=4))
def test_a_container_is_a_dictionary(waves: list[tuple[dict[int, float], dict[int, float]]]) -> None:
    together, expected = Together(), dict[Any, float]()
    states: list[tuple[Any, dict[Any, float]]] = [({}, {})]
    for feeds in waves:
        both = dict(zip("ab", feeds, strict=True))
        named: Any = [(name, SimpleNamespace(writes={(key,): x for key, x in one.items()})) for name, one in both.items()]
        expected = expected | {(name, key): x for name, one in both.items() for key, x in one.items()}
        states.append((together.take(named), expected))
    for now, plain in states:
        assert (dict(now), len(now)) == (plain, len(plain))
    for (before, plain_before), (now, plain_now) in pairwise(states):
        found, wanted = now.changes(before), [(x, plain_before.get(k)) for k, x in plain_now.items() if x != plain_before.get(k)]
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
        assert now.changes(dict(before)) == now.changes(plain_before)
        assert variation(relative_magnitude(), now, before) == variation(relative_magnitude(), plain_now, plain_before)
