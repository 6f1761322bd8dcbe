"""States of another number of key groups: a run that goes on with them answers as if it had them from the start."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.graphs import Case, cases
from tests.test_simulate import FIRST, differences
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits, regroup
from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.store.output_trace import Answer
from tracetypes.compiler.trial import simulate


def regrouped(case: Case, groups: list[int]) -> Answer:
    """The answer of a run with one number of key groups after the other."""
    first, *then = [plan(case.checked, key_groups=count) for count in groups]
    return simulate.simulate(
        first, case.rows, seed=case.seed, steps=case.steps + 3, pieces=case.pieces, drain=case.drain, then=then
    )


@settings(max_examples=settings().max_examples)
@given(cases(), st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_other_key_groups_give_the_same_answer(case: Case, groups: list[int]) -> None:
    assert differences(case, regrouped(case, groups)) == []


@settings(max_examples=settings().max_examples)
@given(cases(), st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_so_do_states_as_columns(case: Case, groups: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MANY", 1)
        patch.setattr(limits, "PIECES", 2)
        assert differences(case, regrouped(case, groups)) == []


def caught() -> bool:
    """Is there a run that answers something else?"""

    def differs(case: Case) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "MANY", 1 + case.seed % 2 * 63)
            try:
                return differences(case, regrouped(case, [3, 1, 2])) != []
            except Exception:
                return True

    try:
        find(cases(), differs, settings=FIRST)
    except NoSuchExample:
        return False
    return True


@pytest.mark.nightly
def test_open_blocks_that_get_lost_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regroup, "_joined_block", lambda one, other: one)
    assert caught()


@pytest.mark.nightly
def test_keys_that_go_to_another_group_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    by_group = regroup._by_group
    monkeypatch.setattr(regroup, "_by_group", lambda content, group_of, count: by_group(content, group_of, count)[::-1])
    assert caught()


@pytest.mark.nightly
def test_open_aggregates_that_get_lost_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    divided = regroup._divided_columns

    def forgetful(key: Any, state: ColumnState, count: int) -> list[ColumnState]:
        return [attrs.evolve(one, open_aggregates=[]) for one in divided(key, state, count)]

    monkeypatch.setattr(regroup, "_divided_columns", forgetful)
    assert caught()


@pytest.mark.nightly
def test_rows_of_columns_that_go_to_another_group_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = regroup._rows_by_group
    monkeypatch.setattr(regroup, "_rows_by_group", lambda *args: rows(*args)[::-1])
    monkeypatch.setattr(regroup, "_divided_tables", lambda key, tables, count: [list(tables), *[[] for _ in range(count - 1)]])
    assert caught()


