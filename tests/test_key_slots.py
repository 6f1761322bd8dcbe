"""The slots of the keys of ordered operators are those of a dict, whether keys are grouped or looked up in a hash table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Literal
from unittest import mock

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import Hue, Money, Pair, Step
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.ordered_states import OrderedState, add_keys, keep_keys, slots_of
from tracetypes.schemas import schema_of


@attrs.frozen
class Key:
    """A key with parts that may be missing."""

    name: str | None
    number: int | None
    share: float | None
    pair: Pair


TEXTS = st.text(max_size=3) | st.sampled_from(["a" * 7, "a" * 8, "a" * 9, "a" * 300, "a" * 299 + "b", "\0", "\0\0"])
SHARES = st.sampled_from([0.0, 0.5, -1.5, float("inf")])
PAIRS = st.builds(Pair, st.integers(-2, 2), st.booleans())
KEYS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    bytes: TEXTS.map(str.encode),
    int: st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    float: SHARES,
    bool: st.booleans(),
    dt.date: st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 5)),
    Pair: PAIRS,
    # What is missing differs from what stands in its place.
    Key: st.builds(
        Key,
        st.sampled_from([None, "", "a"]),
        st.sampled_from([None, 0]),
        st.sampled_from([None, 0.0]),
        st.just(Pair(0, False)),
    ),
    Hue: st.sampled_from(Hue),
    Step: st.sampled_from(Step),
    Money: st.sampled_from([Decimal("0.00"), Decimal("-1.25"), Decimal("12345.67")]),
    Literal["left", "right"]: st.sampled_from(["left", "right"]),
}


@contextmanager
def way(*, table: bool) -> Iterator[None]:
    with mock.patch.object(limits, "LARGE", 0 if table else 1 << 40):
        yield


@pytest.mark.parametrize("table", [False, True], ids=["groups", "hash table"])
@pytest.mark.parametrize("kind", KEYS, ids=str)
@given(data=st.data())
def test_slots_are_those_of_a_dict(kind: Any, table: bool, data: st.DataObject) -> None:
    schema = schema_of(kind)
    assert has_codes(schema)
    state = OrderedState(from_arrow(schema, array(schema, [])), 0, Column(None, None), ("", b""))
    slots: dict[Any, int] = {}
    for keys in data.draw(st.lists(st.lists(KEYS[kind], unique=True, max_size=5), max_size=4)):
        columns = from_arrow(schema, array(schema, keys))
        with way(table=table):
            before = slots_of(state, columns, len(keys))
            assert before.tolist() == [slots.get(key, -1) for key in keys]
            after = add_keys(state, columns, before)
        for key in keys:
            slots.setdefault(key, len(slots))
        assert after.tolist() == [slots[key] for key in keys]
        assert values_of(state.keys, state.count) == list(slots)
        if data.draw(st.integers(0, 3)) == 0:
            keys = data.draw(st.lists(st.sampled_from(list(slots)), unique=True)) if slots else []
            keep_keys(state, np.array([slots[key] for key in keys], np.int64))
            slots = {key: slot for slot, key in enumerate(keys)}
