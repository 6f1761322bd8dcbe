"""Windows that need one item, such as the last one, or keep many values: over columns they tell what the definition tells."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes import Dataflow, Stream, U, check, every, interpret_rows, stdlib
from tracetypes.check import Checked
from tracetypes.compiler.columns.column import take
from tracetypes.compiler.plan.explain import keyed_runs
from tracetypes.compiler.plan.facts import closing_of
from tracetypes.compiler.plan.in_python import in_python, names_of
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import choosing, chosen_blocks, limits, summaries
from tracetypes.compiler.runtime.chosen_blocks import ChosenBlocks, WholeBlocks
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.trial.simulate import simulate

ts: Any = stdlib


@attrs.frozen
class Place:
    """Inside a value."""

    x: float
    note: str | None


@attrs.frozen
class Reading:
    """Something of each kind of value."""

    key: str
    ts: int
    n: int
    x: float
    text: str
    raw: bytes
    at: dt.datetime
    place: Place | None
    many: tuple[int, ...]


@attrs.frozen
class Numbers:
    """Of some values."""

    many: int
    total: float
    most: int
    low: float


@attrs.frozen
class Several:
    """Of some values."""

    numbers: Numbers
    last: Reading
    small: str
    late: Reading | None
    different: int
    middle: float
    texts: list[str]


DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

@attrs.frozen
class Listed:
    """A list and its length."""

    texts: list[str]
    length: int


def text_of(last: Reading, text: str) -> str:
    """Of two results."""
    return last.text + text


WINDOWS: dict[str, Callable[[], Any]] = {
    "last": lambda: ts.last(lambda r: r.n),
    "first": lambda: ts.first(lambda r: r.x),
    "last of times": lambda: ts.last(lambda r: (r.at, r.text)),
    "last where": lambda: ts.last(lambda r: r.n, where=lambda r: r.x > 0.0),
    "smallest text": lambda: ts.min(lambda r: r.text, to=str),
    "largest bytes": lambda: ts.max(lambda r: r.raw, to=bytes),
    "largest text where": lambda: ts.max(lambda r: r.text, to=str, where=lambda r: r.n > 0),
    "last of fractions": lambda: ts.last(lambda r: 6 / r.n),
    "collect": lambda: ts.collect(),
    "collect of": lambda: ts.collect(lambda r: r.x, to=float, by=lambda r: (r.text, r.x)),
    "collect of integers as floats": lambda: ts.collect(lambda r: r.n, to=float),
    "collect of optional": lambda: ts.collect(lambda r: r.place, to=Place | None),
    "collect of records": lambda: ts.collect(lambda r: Place(r.x, r.text), to=Place, by=lambda r: r.at),
    "collect where": lambda: ts.collect(lambda r: r.many, to=tuple[int, ...], where=lambda r: r.n > 0),
    "top": lambda: ts.top(2, lambda r: r.n),
    "top of text": lambda: ts.top(3, lambda r: (r.text, r.x), where=lambda r: r.n > 0),
    "top with ties": lambda: ts.top(2, lambda r: r.x, ties=True),
    "top with ranks": lambda: ts.top(2, lambda r: r.n, ranks=True),
    "top with ties and ranks": lambda: ts.top(2, lambda r: r.x, ties=True, ranks=True),
    "first with ties": lambda: ts.first(lambda r: r.text, ties=True, where=lambda r: r.n > 0),
    "distinct": lambda: ts.count_distinct(lambda r: r.x),
    "distinct records": lambda: ts.count_distinct(
        lambda r: Place(r.x, None if r.n > 0 else r.text), where=lambda r: r.n < 7
    ),
    "approximately distinct": lambda: ts.approx_count_distinct(lambda r: (r.text, r.x), precision=4),
    "approximately distinct where": lambda: ts.approx_count_distinct(
        lambda r: r.n, precision=4, where=lambda r: r.n > 0
    ),
    "quantile": lambda: ts.quantile(0.5, lambda r: r.x),
    "quantile of integers": lambda: ts.quantile(0.9, lambda r: r.n, accuracy=0.003),
    "quantile where": lambda: ts.quantile(0.2, lambda r: r.x, where=lambda r: r.n > 0),
    "quantiles": lambda: ts.quantiles([0, 0.3, 1], lambda r: r.x + 1.0),
    "quantiles where": lambda: ts.quantiles([0.5], lambda r: r.n, where=lambda r: r.x > 0.0),
    "median": lambda: ts.median(lambda r: r.x),
    "exact quantiles where": lambda: ts.exact_quantiles([0, 0.3, 1], lambda r: r.n, where=lambda r: r.x > 0.0),
    "different": lambda: ts.collect_set(lambda r: r.x, to=float),
    "different records": lambda: ts.collect_set(lambda r: Place(r.x, r.text), to=Place, where=lambda r: r.n < 7),
    "largest different": lambda: ts.top_distinct(2, lambda r: r.x, to=float),
    "largest different texts": lambda: ts.top_distinct(2, lambda r: r.text, to=str, where=lambda r: r.n > 0),
    "quantile of fractions": lambda: ts.quantile(0.5, lambda r: 6 / r.n),
    "both": lambda: ts.both(ts.collect(lambda r: r.text, to=str), ts.count(), Listed),
    "both of choices": lambda: ts.both(ts.last(lambda r: r.n), ts.min(lambda r: r.text, to=str), text_of, to=str),
    "both where": lambda: ts.both(
        ts.last(lambda r: r.n, where=lambda r: r.x > 0.0),
        ts.count(where=lambda r: r.n > 0),
        lambda last, n: n if last is None else last.n - n,
        to=int,
    ),
    "struct": lambda: ts.struct(
        Several,
        numbers=ts.struct(
            Numbers,
            many=ts.count(),
            total=ts.sum(lambda r: r.x, to=float),
            most=ts.max(lambda r: r.n, to=int),
            low=ts.min(lambda r: r.x, to=float),
        ),
        last=ts.last(lambda r: r.text),
        small=ts.min(lambda r: r.text, to=str),
        late=ts.first(lambda r: r.at, where=lambda r: r.n > 0),
        different=ts.count_distinct(lambda r: r.raw),
        middle=ts.quantile(0.5, lambda r: r.x),
        texts=ts.collect(lambda r: r.text, to=str, by=lambda r: r.n),
    ),
    "struct of fractions": lambda: ts.struct(
        Numbers,
        many=ts.sum(lambda r: r.n, to=int),
        total=ts.sum(lambda r: 6 / r.n, to=float),
        most=ts.count_distinct(lambda r: r.n),
        low=ts.quantile(0.2, lambda r: r.x),
    ),
}
"""Some values of fractions make them raise."""

EACH_BLOCK = frozenset({"first", "last where", "collect of", "top with ranks", "distinct", "approximately distinct", "quantiles"})
"""Those of blocks as they come, not of windows."""

READINGS = st.builds(
    Reading,
    key=st.sampled_from("abc"),
    ts=st.integers(0, 40),
    n=st.sampled_from([0, 1, 2, 7, -1, 2**63 - 1]),
    x=st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf]),
    text=st.sampled_from(["", "a", "b", "é", "\U0001f600", "\ufffd"]),
    raw=st.sampled_from([b"", b"\x00", b"\xff"]),
    at=st.sampled_from([DAY, DAY + dt.timedelta(microseconds=1)]),
    place=st.none() | st.builds(Place, st.sampled_from([0.0, -0.0, math.nan]), st.sampled_from([None, "", "x"])),
    many=st.sampled_from([(), (1,), (1, 2)]),
)


def flow_of(name: str, size: int = 10) -> Dataflow:
    flow = Dataflow(f"window {name}")
    source: Stream[Any] = flow.source(
        "in", U[str, Reading], key=lambda r: r.key, markers=every(seconds=5, time=lambda r: r.ts, delay=3)
    )
    each = name in EACH_BLOCK and size == 10
    operator = ts.aggregate(WINDOWS[name]()) if each else ts.tumbling(WINDOWS[name](), size=size, ends=True)
    flow.sink("out", source.through(operator))
    return flow


@cache
def compiled(name: str) -> tuple[Checked, Plan, Plan]:
    """A flow, its plan, and its plan in Python."""
    checked = check(flow_of(name))
    one = plan(checked, parallelism=2)
    return checked, one, in_python(one, list(names_of(one).values()))


@pytest.fixture(autouse=True)
def items_are_dropped_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_blocks, "FEWEST", 3)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Few items are many here. Counts windows over columns."""
    counts = Counter[str]()
    flows = WholeBlocks.flows

    def counted(self: WholeBlocks, flow: Any, ends: Any) -> Any:
        out = flows(self, flow, ends)
        counts["windows"] += out.count
        return out

    monkeypatch.setattr(WholeBlocks, "flows", counted)
    monkeypatch.setattr(limits, "MANY", 1)
    return counts


def outcome_of(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", WINDOWS)
def test_runs_over_columns_tell_the_trace_of_the_definition(name: str, columns: Counter[str]) -> None:
    checked, one, python = compiled(name)
    assert closing_of(one.stages[-1]) is not None
    assert [run.native for run in keyed_runs(one.stages[-1])] == [True]

    @settings(deadline=None, max_examples=some(12))
    @example([attrs.evolve(r, n=r.n + 1) for r in tame(40)], 1, False)
    @given(st.lists(READINGS, max_size=30), st.integers(0, 1000), st.booleans())
    def one_run(rows: list[Reading], seed: int, changing: bool) -> None:
        expected = outcome_of(lambda: interpret_rows(checked, {"in": rows})[0]["out"])
        plans = [python, one, python, one] if changing else []
        actual = outcome_of(
            lambda: simulate(one, {"in": rows}, seed=seed, steps=1 + seed % 5, pieces=1 + seed % 3, then=plans).trace
        )
        if isinstance(expected, str) or isinstance(actual, str):
            # Of several items that raise, either may be named.
            assert str(expected).partition(":")[0] == str(actual).partition(":")[0]
        else:
            assert actual == expected

    one_run()
    assert columns["windows"]


def tame(count: int) -> list[Reading]:
    """Items with many ties."""
    place = Place(0.0, "x")
    return [Reading("abcd"[n % 4], n // 20, n % 3, n % 5 - 2.0, "xyz"[n % 3], b"", DAY, place, (n % 2,)) for n in range(count)]


def test_the_choice_of_another_item_is_found(columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampled check finds a row of another item, and items of the block of another key."""
    checked, one, _ = compiled("last")
    rows = {"in": tame(200)}
    expected = interpret_rows(checked, rows)[0]["out"]
    assert simulate(one, rows, seed=1).trace == expected
    right = choosing.one_row_each

    def first_row(choice: Any, flow: Any, groups: Any) -> Any:
        return groups.first

    def of_another_key(choice: Any, flow: Any, groups: Any) -> Any:
        return np.roll(right(choice, flow, groups), 1)

    monkeypatch.setattr(chosen_blocks, "FEWEST", 1000)
    for broken in (first_row, of_another_key):
        monkeypatch.setattr(summaries, "one_row_each", broken)
        with pytest.raises(Difference):
            simulate(attrs.evolve(one, verify_every=1), rows, seed=1)


@pytest.mark.parametrize("name", ["collect of", "top", "distinct records", "approximately distinct", "quantile", "struct"])
def test_the_result_of_another_key_is_found(name: str, columns: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampled check finds what is computed of the items of another block or key."""
    _, one, _ = compiled(name)
    rows, right = {"in": [r if r.key > "a" else attrs.evolve(r, x=9.0, text="") for r in tame(200)]}, summaries.results_of

    def of_another(part: Any, flow: Any, groups: Any) -> Any:
        return take(right(part, flow, groups), np.roll(np.arange(groups.number), 1))

    simulate(attrs.evolve(one, verify_every=1), rows, seed=1)
    monkeypatch.setattr(chosen_blocks, "results_of", of_another)
    with pytest.raises(Difference):
        simulate(attrs.evolve(one, verify_every=1), rows, seed=1)


@pytest.mark.parametrize(
    ("name", "each", "fewest"),
    [
        *[("last", 1, 0), ("top", 2, 0), ("distinct", 5, 0), ("approximately distinct", 15, 0), ("both of choices", 2, 0)],
        *[("quantile", 0, 0), ("both where", 0, 0), ("last", 1, 10), ("quantile", 0, 10)],
    ],
)
def test_an_open_block_holds_what_the_aggregate_keeps_however_long_it_is_open(
    name: str, each: int, fewest: int, columns: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window of a thousand seconds in 20 epochs: the tables of a key group have some rows for each of its keys. A quantile
    counts items, and a sum needs all of them: such tables become aggregates when they are larger than the first one."""
    monkeypatch.setattr(summaries, "SMALL", 1)
    monkeypatch.setattr(chosen_blocks, "FEWEST", fewest)
    most, take = Counter[int](), ChosenBlocks.take

    def taken(self: ChosenBlocks, arrived: Any, placing: Any) -> int:
        count = take(self, arrived, placing)
        rows = sum(map(len, self.tables.ends))
        most[self.epoch.group] = max(most[self.epoch.group], rows)
        return count

    monkeypatch.setattr(ChosenBlocks, "take", taken)
    checked = check(flow_of(name, 1000))
    rows = {"in": tame(800)}
    wanted = interpret_rows(checked, rows)[0]["out"]
    made = attrs.evolve(plan(checked, parallelism=2), verify_every=0)
    assert simulate(made, rows, seed=5, steps=20).trace == wanted
    assert columns["windows"] == (4 if each else 0)
    assert 0 < max(most.values()) <= 12 * (each or 5) + fewest


@pytest.mark.parametrize("name", ["last where", "largest text where"])
def test_a_window_without_the_item_that_it_needs(name: str, columns: Counter[str]) -> None:
    checked, one, _ = compiled(name)
    rows = {"in": [attrs.evolve(r, n=0, x=-1.0) for r in tame(100)]}
    expected = interpret_rows(checked, rows)[0]["out"]
    assert simulate(one, rows, seed=2, steps=2).trace == expected
    assert columns["windows"]


def test_windows_that_overlap_by_very_many_blocks_are_no_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Dataflow("sliding")
    source: Stream[Any] = flow.source("in", U[str, Reading], key=lambda r: r.key, markers=every(seconds=5, time=lambda r: r.ts))
    flow.sink("out", source.through(ts.sliding(ts.last(lambda r: r.n), size=325, slide=5)))
    assert closing_of(plan(check(flow)).stages[-1]) is None
