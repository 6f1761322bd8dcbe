"""Which items an operator needs: columns choose those that the definition chooses, and a run sends no others."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import Dataflow, Marker, U, check, desc, every, interpret_rows, stdlib
from tracetypes.canonical import canonical
from tracetypes.choices import Choice
from tracetypes.compiler.analysis.choices import choices_in
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import choosing
from tracetypes.compiler.runtime.flows import KeyedFlow
from tracetypes.compiler.runtime.messages import Items
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.runtime.summaries import needed_rows
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.edges import EdgeType
from tracetypes.errors import LawBroken
from tracetypes.stdlib.per_block import AggregatePerBlock
from tracetypes.templates import Emit, OpKeyedUnordered
from tracetypes.testing import laws
from tracetypes.trace import stream_type

ts: Any = stdlib


@attrs.frozen
class Reading:
    """Something of each kind of value."""

    n: int
    x: float
    text: str
    note: str | None
    at: dt.datetime
    on: bool


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FLOATS = (0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 5e-324)
READINGS = st.builds(
    Reading,
    n=st.sampled_from((0, 1, -1, 2**62, 2**63 - 1, -(2**63))),
    x=st.sampled_from(FLOATS),
    text=st.sampled_from(("", "a", "b", "é", "\U0001f600", "\ufffd")),
    note=st.sampled_from((None, "", "é")),
    at=st.sampled_from((EPOCH, EPOCH + dt.timedelta(microseconds=1), EPOCH - dt.timedelta(days=400))),
    on=st.booleans(),
)
ROWS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"), READINGS), min_size=1, max_size=30)

CHOICES: dict[str, tuple[Choice[Reading], ...]] = {
    "integer": (Choice(lambda r: r.n),),
    "integer, first": (Choice(lambda r: r.n, first=True),),
    "float": (Choice(lambda r: r.x),),
    "float, ties": (Choice(lambda r: r.x, ties="all"),),
    "float, first": (Choice(lambda r: r.x, first=True, ties="all"),),
    "text": (Choice(lambda r: r.text),),
    "time, two": (Choice(lambda r: r.at, 2),),
    "day": (Choice(lambda r: r.at.date(), 2, "all"),),
    "bool, three": (Choice(lambda r: r.on, 3),),
    "pair": (Choice(lambda r: (r.on, desc(r.x))),),
    "pair, two, first, ties": (Choice(lambda r: (desc(r.text), r.n), 2, "all", first=True),),
    "where": (Choice(lambda r: r.n, 2, where=lambda r: r.note is not None),),
    "where it would raise": (Choice(lambda r: 1 / r.x, where=lambda r: r.x != 0),),
    "constant": (Choice(lambda r: 0, 2),),
    "two": (Choice(lambda r: r.n), Choice(lambda r: r.x, first=True, ties="all")),
}
STREAM = stream_type(EdgeType(False, str, Reading))


@attrs.frozen
class Choosing(OpKeyedUnordered[str, Reading, str, int, int, int]):
    """Only says which items it needs."""

    choices: tuple[Choice[Reading], ...]

    def lift(self, key: str, value: Reading) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return agg

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Emit[str, int]) -> None:
        if new_state:
            emit(key, new_state)

    def chooses(self) -> tuple[Choice[Reading], ...]:
        return self.choices


TRACED = {name: choices_in(Choosing(choices), STREAM) for name, choices in CHOICES.items()}


def agree(name: str, rows: list[tuple[int, str, Reading]]) -> None:
    """Columns choose what the definition does: equal values stand for each other."""
    traced, whole = TRACED[name], canonical(STREAM.value)
    assert not isinstance(traced, Opaque), traced
    ends, keys, values = (list(column) for column in zip(*rows, strict=True))
    flow = KeyedFlow.of(
        from_arrow(STREAM.key, array(STREAM.key, keys)), from_arrow(STREAM.value, array(STREAM.value, values)), len(rows)
    )
    found = Counter((ends[row], keys[row], whole(values[row])) for row in needed_rows(traced, flow, np.array(ends)).tolist())
    for group in {(end, key) for end, key, _ in rows}:
        mine = [value for end, key, value in rows if (end, key) == group]
        wanted = Counter((*group, whole(mine[at])) for at in {at for one in CHOICES[name] for at in one.rows(mine, whole)})
        some = Counter({one: count for one, count in found.items() if one[:2] == group})
        assert some.total() == 1 if not wanted else some == wanted or (len(CHOICES[name]) > 1 and wanted <= some)


@pytest.mark.parametrize("name", CHOICES)
@given(rows=ROWS)
def test_columns_choose_as_the_definition(name: str, rows: list[tuple[int, str, Reading]]) -> None:
    agree(name, rows)


BROKEN: dict[tuple[str, str], Callable[..., Any]] = {
    ("float, first", "place_columns"): lambda columns: [columns.values.view(np.int64)],
    ("integer", "canonical_columns"): lambda columns: [],
    ("time, two", "_place_in"): lambda group: np.zeros(len(group), np.int64),
    ("float, first", "_turned"): lambda columns, *, first: list(columns),
}


@pytest.mark.parametrize(("name", "function"), BROKEN)
def test_what_chooses_wrongly_is_noticed(name: str, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, function, BROKEN[name, function])
    one = Reading(0, 0.0, "", None, EPOCH, on=False)
    many = [attrs.evolve(one, x=x, text=text, n=n % 2) for n, x in enumerate(FLOATS) for text in "ba"]
    with pytest.raises(AssertionError):
        agree(name, [(0, "a", reading) for reading in many])


@pytest.mark.parametrize(
    ("by", "why"),
    [(lambda r: r.note, "gives something else than numbers"), (lambda r: [r.n, r.x], ""), (lambda r: hash(r.text), "")],
)
def test_what_columns_cannot_order_is_chosen_by_none(by: Callable[[Reading], Any], why: str) -> None:
    refused = choices_in(Choosing((Choice(by),)), STREAM)
    assert isinstance(refused, Opaque)
    assert why in refused.reason


@attrs.frozen
class Wrong(Choosing):
    """It counts its items, and says that it needs one."""


@pytest.mark.parametrize("aggregate", [stdlib.min(to=float), stdlib.max(to=float)], ids=["min", "max"])
def test_extremes_of_floats_need_nan(aggregate: Any) -> None:
    """Both are NaN where a value is."""
    values = [0.0, math.nan, 1.0]
    assert 1 in {row for choice in aggregate.chooses() for row in choice.rows(values, lambda value: 0)}


def test_an_operator_that_needs_more_than_it_says() -> None:
    items = st.tuples(st.sampled_from("ab"), READINGS)
    (law,) = [law for law in laws(Wrong(CHOICES["integer"]), items=items) if law.name == "choices"]
    with pytest.raises(LawBroken, match="TT314 Wrong: it says which items it needs, and the others change what it emits"):
        law.check(60)
    right = laws(AggregatePerBlock(ts.last(by=lambda r: r.n)), items=items, types=(str, Reading))
    (law,) = [law for law in right if law.name == "choices"]
    law.check(60)


def test_a_run_sends_what_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many items of a key and block a few go across the exchange, and the answer is the definition's."""
    flow = Dataflow("choices")
    source = flow.source("in", U[str, int], key=lambda n: "ab"[n % 2], markers=every(seconds=100, time=lambda n: n // 10))
    flow.sink("out", source.through(ts.tumbling(ts.top(3, by=lambda n: n % 7, ties=True), size=200)))
    checked, rows = check(flow), {"in": list(range(4_000))}
    (wanted,) = interpret_rows(checked, rows)[0].values()
    sent, step = Counter[str](), StageKernel.step

    def stepped(self: StageKernel, state: Any, group: int, messages: Any) -> Any:
        taken = list(messages)
        sent.update({"items": sum(one.body.batch.num_rows for one in taken if isinstance(one.body, Items))})
        return step(self, state, group, taken)

    monkeypatch.setattr(StageKernel, "step", stepped)
    for seed in range(3):
        assert simulate(plan(checked, parallelism=2), rows, seed=seed).trace == wanted
    assert 0 < sent["items"] < 3 * 4_000 // 4
