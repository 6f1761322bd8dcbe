"""Interpolation as columns of numbers emits what the operator emits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.runtime.interpolation import emissions_of
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.stdlib.ordered import Interpolate

Reading = tuple[int, float]

times = st.integers(-20, 60)
numbers = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324]))
keyed = st.lists(st.tuples(st.booleans(), st.lists(st.tuples(times, numbers), min_size=1, max_size=6)), max_size=4)


@given(keyed, st.integers(1, 3), st.sampled_from([None, 0, 5]))
def test_as_the_operator(keys: list[tuple[bool, list[Reading]]], step: int, max_gap: int | None) -> None:
    """Also where time runs backwards; the first reading of a key may be its state."""
    operator: Interpolate[int, Reading] = Interpolate(
        lambda r: r[0], lambda r: r[1], lambda r, time, number: (time, number), step, max_gap
    )
    before: list[int] = []
    fresh: list[bool] = []
    rows: list[Reading] = []
    expected: list[Reading] = []
    for key, (has_state, readings) in enumerate(keys):
        state = None
        for place, reading in enumerate(readings):
            before.append(len(rows) - 1 if place else -1)
            fresh.append(not has_state or place > 0)
            rows.append(reading)
            state = operator.on_item(state, key, reading, expected.append if fresh[-1] else lambda value: None)
    time, number = np.array([r[0] for r in rows], np.int64), np.array([r[1] for r in rows], np.float64)
    out = emissions_of(np.array(before, np.int64), time, number, np.array(fresh, np.bool_), step, max_gap)
    times_out, numbers_out = time[out.cause], number[out.cause]
    times_out[out.between], numbers_out[out.between] = out.time, out.number
    assert list(map(repr, zip(times_out.tolist(), numbers_out.tolist(), strict=True))) == list(map(repr, expected))


@pytest.mark.parametrize("last", [1 << 53, -(1 << 53), (1 << 63) - 1, -(1 << 63), 1 << 40])
def test_left_to_the_operator(last: int) -> None:
    time, fresh = np.array([0, last], np.int64), np.ones(2, np.bool_)
    with pytest.raises(Undefined):
        emissions_of(np.array([-1, 0], np.int64), time, np.zeros(2), fresh, 1, None)
