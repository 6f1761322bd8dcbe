"""``deduplicate`` over columns: whole runs tell what the definition does."""

from __future__ import annotations

import datetime as dt
import enum
import math
import random
from collections import Counter
from functools import cache
from typing import Any, Final

import attrs
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.over_columns import Plans, check_runs, count_runs, plans_of, refuse_objects
from tracetypes import Dataflow, OpKeyedOrdered, U, every, interpret_rows, sort
from tracetypes.compiler.analysis.duplicates import TracedDuplicates
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.growing import GrowingArray
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.duplicates import DuplicatesKernel, Sequences
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.name_states import NameState, NameStates, NameTable
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib import deduplicate


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Row:
    """An item. ``ts``: seconds."""

    key: str
    ts: int
    whole: int
    real: float
    text: str
    note: str | None
    flag: bool
    color: Color | None = None


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
REALS: Final = st.sampled_from([0.0, 1.0, math.nan, math.inf, 0.5] * 6 + [-0.0])
ROWS: Final = st.builds(
    Row,
    key=st.sampled_from("abc"),
    ts=st.integers(0, 40),
    whole=st.sampled_from([0, 1, 2, 3, 4, 5, 6, -(2**63), 2**62]),
    real=REALS,
    text=st.sampled_from(["", "x", "xy", "é", "long text " * 3, "long text " * 40]),
    note=st.sampled_from([None, "", "x"]),
    flag=st.booleans(),
    color=st.sampled_from([None, *Color]),
)

NAMES: dict[str, Any] = {
    "integer": lambda r: r.whole,
    "float": lambda r: r.real,
    "text": lambda r: r.text,
    "optional": lambda r: r.note,
    "enum": lambda r: r.color,
    "nested": lambda r: (r.text, (abs(r.real), r.flag, r.note, r.color), EPOCH + dt.timedelta(seconds=r.whole % 7)),
    "always one": lambda r: 1,
    "no value": lambda r: r.whole * 2,
    "raises": lambda r: 7 // (2**62 - r.whole),
}
KINDS: dict[str, Any] = {
    "all": {},
    "recent": {"items": 3},
    "one": {"items": 1},
    "within": {"seconds": 6, "time": lambda r: r.ts},
    "other times": {"seconds": 4, "time": lambda r: r.ts - 9 if r.flag else r.ts},
}


@cache
def compiled(name: str, kind: str) -> Plans:
    flow, markers = Dataflow("deduplicate"), every(seconds=5, time=lambda r: r.ts, delay=3)
    rows = flow.source("in", U[str, Row], key=lambda r: r.key, markers=markers)
    op: Any = deduplicate(NAMES[name], **KINDS[kind])
    flow.sink("out", rows.through(sort(by=lambda r: r.ts)).through(op))
    return plans_of(flow)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Few items are many here. Counts items over columns."""
    return count_runs(monkeypatch, DuplicatesKernel)


CASES = [*((name, "all") for name in NAMES), *((name, kind) for name in ("nested",) for kind in KINDS if kind != "all")]


@pytest.mark.parametrize(("name", "kind"), [*CASES, ("float", "within"), ("text", "other times")])
def test_runs_over_columns_tell_the_trace_of_the_definition(name: str, kind: str, columns: Counter[str]) -> None:
    plans = compiled(name, kind)
    check_runs(plans, TracedDuplicates, {"in": st.lists(ROWS, max_size=40)}, tame(60), columns)


# ------------------------------------------------------------------------------------------------------- columns


def tame(count: int, keys: str = "abcd") -> dict[str, list[Any]]:
    """Items with many ties, whose names come again, some of them after a while."""
    chance = random.Random(1)
    return {
        "in": [
            Row(
                key=chance.choice(keys),
                ts=at // 4,
                whole=chance.randrange(3 + at // 6),
                real=chance.choice([0.0, 1.5, math.nan]),
                text=f"name {chance.randrange(3 + at // 9)}",
                note=chance.choice([None, "x"]),
                flag=chance.random() < 0.5,
                color=chance.choice([None, *Color]),
            )
            for at in range(count)
        ]
    }


@pytest.mark.parametrize(("name", "kind"), [*(("nested", kind) for kind in KINDS if kind != "other times"), ("integer", "all")])
def test_tame_items_never_go_back_to_objects(
    name: str, kind: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_objects(monkeypatch)
    monkeypatch.setattr(NameState, "to_objects", refused)
    checked, one, _ = compiled(name, kind)
    rows = tame(400)
    assert simulate(one, rows, seed=3, steps=5).trace == interpret_rows(checked, rows)[0]["out"]
    assert columns["items"] == 400


def refused(self: NameState) -> Any:
    raise AssertionError("states become objects")


def test_other_numbers_of_key_groups_go_on(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """States as columns are joined and divided."""
    monkeypatch.setattr(NameState, "to_objects", refused)
    for kind in ("all", "recent", "within"):
        checked, _, _ = compiled("nested", kind)
        plans = [plan(checked, parallelism=1, key_groups=groups) for groups in (3, 1, 4, 2)]
        rows = tame(300, keys="abcdefghijklmn")
        expected = interpret_rows(checked, rows)[0]["out"]
        assert simulate(plans[0], rows, seed=1, steps=4, then=plans[1:]).trace == expected


@pytest.mark.parametrize(
    ("name", "kind", "item"),
    [
        ("integer", "all", 2**63),
        ("integer", "all", "text"),
        ("integer", "all", True),
        ("float", "all", -0.0),
        ("nested", "within", ("", (0.0,))),
        ("text", "all", None),
        ("enum", "all", "red"),
    ],
)
def test_names_that_columns_do_not_hold_stay_in_python(name: str, kind: str, item: Any) -> None:
    form: Any = compiled(name, kind)[1].stages[-1].steps[-1].ordered
    state = {"a": {item: 1} if kind == "within" else {item}}
    with pytest.raises(Undefined):
        NameStates(form).of(state)


@pytest.mark.parametrize("kind", ["all", "recent", "within"])
def test_states_have_one_form(kind: str) -> None:
    """As objects, as columns, and as objects again."""
    step = compiled("nested", kind)[1].stages[-1].steps[-1]
    form, op = step.ordered, step.operator
    assert isinstance(form, TracedDuplicates)
    assert isinstance(op, OpKeyedOrdered)
    states: dict[str, Any] = {}
    for row in tame(60)["in"]:
        state = states[row.key] if row.key in states else op.initial_state()
        states[row.key] = op.on_item(state, row.key, row, lambda value: None)
    columns, (first, _, third, *_) = NameStates(form).of(states), states
    assert columns.to_objects() == states
    assert columns.of_keys(np.array([2, 0])).to_objects() == {third: states[third], first: states[first]}
    assert loads(dumps(columns)).to_objects() == states


def test_a_wrong_answer_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are forgotten, a horizon that is too short, names that markers do not remove, and a log out of order."""
    late, removals, add = Sequences.late, DuplicatesKernel._removals, GrowingArray.add

    def forgetful(self: Any, slots: Any, names: Any, hashes: Any) -> Any:
        return np.full(len(slots), -1)

    def short(self: Any, earlier: Any, horizon: Any, removal: Any) -> Any:
        return late(self, earlier, horizon // 2, removal)

    def no_removals(self: Any, state: Any, markers: Any) -> Any:
        return removals(self, state, markers)[:0]

    def backwards(self: Any, values: Any) -> None:
        add(self, values[::-1])

    twins: list[tuple[str, Any, str, Any]] = [
        ("all", NameTable, "find", forgetful),
        ("within", Sequences, "late", short),
        ("recent", Sequences, "late", short),
        ("within", DuplicatesKernel, "_removals", no_removals),
        ("recent", GrowingArray, "add", backwards),
    ]
    for kind, owner, name, broken in twins:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            planned = attrs.evolve(plan(compiled("text", kind)[0], key_groups=1), verify_every=20)
            with pytest.raises(Difference):
                simulate(planned, tame(400), seed=1, steps=4)
