"""Constant tables become columns, at once where all their values are plain, and otherwise one value after the other."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.columns import groups
from tracetypes.compiler.columns import lookup_tables as module
from tracetypes.compiler.columns.column import Column, take_column
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.evaluation import evaluate
from tracetypes.compiler.columns.groups import codes_of, groups_of
from tracetypes.compiler.columns.lookup_tables import index_of, new_entries, table_entries, table_keys
from tracetypes.compiler.columns.runs import NumberRuns
from tracetypes.compiler.tracing.cache_keys import ObjectKey
from tracetypes.compiler.tracing.expr import Call, Input, Kind
from tracetypes.compiler.tracing.operations import basic
from tracetypes.records import INT_MAX, INT_MIN, Boolean, Float, Integer, Optional, String

KINDS = (Boolean(), Integer(), Float(), String())
ODD = (INT_MAX, INT_MAX + 1, INT_MIN, INT_MIN - 1, "a", "é", "\ud800", "\udc00", "", 1.5, 2.0, True, None)
"""Values at the bounds of a kind, and halves of a character."""

anything = st.sampled_from(ODD) | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
contents = (
    st.text(max_size=3) | st.sampled_from(["\ud800", "\udc00"]),
    st.integers() | st.sampled_from(ODD[:4]),
    anything,
)
tables: st.SearchStrategy[dict[Any, Any]] = st.sampled_from(contents).flatmap(
    lambda one: st.dictionaries(one, one, min_size=1, max_size=5)
)


class Entry(NamedTuple):
    """An entry with a field."""

    content: Any


@given(tables, st.sampled_from(KINDS), st.booleans())
def test_entries_are_those_that_are_looked_at_one_by_one(table: dict[Any, Any], kind: Kind, nested: bool) -> None:
    path: tuple[str | int, ...] = ("content",) if nested else ()
    whole: dict[Any, Any] = {key: Entry(value) for key, value in table.items()} if nested else table
    column = new_entries(ObjectKey(whole), path, kind)
    ones = [*table_entries(whole, path, kind), None]
    undefined = column.undefined.tolist()
    assert undefined == [one is None for one in ones]
    for place, one in enumerate(ones):
        if one is not None:
            row = take_column(column, np.array([place]))
            assert values_of(Column(kind, row.values, row.valid), 1) == (values_of(one, 1) if one.kind else [None])


@given(tables, st.sampled_from([Integer(), String(), Boolean()]))
def test_keys_have_the_places_of_those_that_fit(table: dict[Any, Any], kind: Kind) -> None:
    def fits(key: Any) -> bool:
        if isinstance(kind, String):
            return type(key) is str and key.encode(errors="ignore").decode() == key
        return type(key) in (bool, int, float) and INT_MIN <= key <= INT_MAX and key == int(key)

    assert table_keys(table, kind) == {key: place for place, key in enumerate(table) if fits(key)}


def test_threads_that_come_together_build_a_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, same = list[int](), ObjectKey({"a": 1, "b": 2})

    def slowly(table: Any, kind: Any) -> Any:
        asked.append(1)
        time.sleep(0.02)
        return table_keys(table, kind)

    monkeypatch.setattr(module, "table_keys", slowly)
    found = list[Any]()
    threads = [threading.Thread(target=lambda: found.append(index_of(same, String()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(asked), len(found), len(set(map(id, found)))) == (1, 4, 1)


WORDS = st.sampled_from(["red", "green", "blue"])


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), WORDS | st.none(), min_size=1),
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=30),
    st.booleans(),
)
def test_groups_of_what_is_looked_up(table: dict[str, str | None], keys: list[str], coded: bool) -> None:
    """Equal texts of a table are one key, and no text of a row is looked at to tell."""
    keys = [key for key in keys if key in table]
    if not keys or all(table[key] is None for key in keys):
        return
    kind = String() if None not in table.values() else Optional(String())
    key, texts = Input(("row",), String()), pa.array(keys)
    column = from_arrow(String(), texts.dictionary_encode() if coded else texts)
    assert isinstance(column, Column)
    found = evaluate(Call(basic.LOOKUP, (key,), kind, table=table, path=()), lambda _: column, len(keys))
    assert isinstance(found, Column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "text_codes", lambda _: pytest.fail("a text is looked at"))
        some = groups_of(found, len(keys))
    values = [table[key] for key in keys]
    assert len(set(zip(some.of_row.tolist(), values, strict=True))) == len(set(values)) == some.number
    codes, bound = codes_of(NumberRuns.of_one(0, len(keys)), found, len(keys))
    assert codes.max() < bound
    if coded and None not in values and {*values} == {*table.values()}:  # no number is that of nothing
        assert bound == len({*values})
    taken = take_column(found, some.any_row)
    assert groups_of(taken, some.number).number == some.number
    loaded = pickle.loads(pickle.dumps(taken))  # as a column of any dictionary
    assert type(loaded.storage) is DictionaryEncoded
    assert values_of(loaded, some.number) == values_of(taken, some.number)
