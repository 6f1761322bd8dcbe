"""The columns that run the standard library tell what its Python tells, for blocks of any size.

The adversary runs each operator with columns forced, over values at the edges of their types; the interpreter defines what
must come out. Which uses run over columns is written down, and that they do is looked at: a fall-back gives right answers.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracetypes import Checked, Dataflow, OperatorFailed, Stream, U, check, desc, every, interpret_rows, sort, stdlib
from tracetypes.compiler.analysis.monoids import monoid_of, results
from tracetypes.compiler.columns.ordering import Sorter
from tracetypes.compiler.plan.explain import combining_run, keyed_runs, stateless_runs
from tracetypes.compiler.plan.plan import Plan, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.column_states import Columnar
from tracetypes.compiler.runtime.emitter import PathOutput
from tracetypes.compiler.runtime.messages import Aggregates, Items, Partials
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.runtime.summaries import needed_rows
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.schemas import schema_of
from tracetypes.stdlib.lookups import SESSIONS, Sqlite
from tracetypes.stdlib.per_block import AggregatePerBlock

ts: Any = stdlib


@attrs.frozen
class Reading:
    """What all streams here are of."""

    room: str
    second: int
    n: int
    big: int
    x: float
    half: float
    text: str
    note: str | None
    at: dt.datetime


@attrs.frozen
class Stats:
    n: int
    mean: float
    most: float


@attrs.frozen
class Some:
    """Of some of the values."""

    warm: int
    noted: int
    total: float
    mean: float | None
    low: float | None
    high: dt.datetime | None
    inverse: float
    small: int


@attrs.frozen
class Noted:
    """A reading with what a table says of its room."""

    x: float
    note: str | None
    name: str | None


@attrs.frozen
class Place:
    """A row of a table."""

    name: str
    limit: float


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SMALL = (0, 1, -1, 5, 2**40, -(2**40), 2**57, -(2**57))
"""Integers whose sums fit."""
INTEGERS = (0, 1, -1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 0.1, 1 / 3, -7.25, 2.5, 1e16, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf)
TEXTS = ("", "a", "b", "é", "日本", "a\x00b", "\U0001f600")
MOMENTS = tuple(EPOCH + dt.timedelta(microseconds=micros) for micros in (-(10**15), -1, 0, 1, 1_700_000_000_123_456))


def readings(floats: tuple[float, ...] = FLOATS) -> st.SearchStrategy[list[Reading]]:
    """A few blocks of a few keys, out of order, some items late."""
    reading = st.builds(
        Reading,
        room=st.sampled_from(("a", "b", "", "é")),
        second=st.integers(0, 20),
        n=st.sampled_from(SMALL),
        big=st.sampled_from(INTEGERS),
        x=st.sampled_from(floats),
        half=st.integers(-4, 4).map(lambda n: n / 2),
        text=st.sampled_from(TEXTS),
        note=st.sampled_from((None, "", "é")),
        at=st.sampled_from(MOMENTS),
    )
    return st.lists(reading, max_size=24).map(later)


def later(rows: list[Reading]) -> list[Reading]:
    """Each some time after the ones before it, so that blocks end while others are open."""
    return [attrs.evolve(row, second=row.second + 2 * at) for at, row in enumerate(rows)]


def room(reading: Reading) -> str:
    return reading.room


def second(reading: Reading) -> int:
    return reading.second


def n(reading: Reading) -> int:
    return reading.n


def soon(reading: Reading) -> int:
    """A time that a datetime can be."""
    return reading.n % 10**9


def big(reading: Reading) -> int:
    return reading.big


def x(reading: Reading) -> float:
    return reading.x


def half(reading: Reading) -> float:
    return reading.half


def text(reading: Reading) -> str:
    return reading.text


def note(reading: Reading) -> str | None:
    return reading.note


def moment(reading: Reading) -> dt.datetime:
    return reading.at


def day(reading: Reading) -> dt.date:
    return reading.at.date()


def positive(reading: Reading) -> bool:
    return reading.x > 0


def large(reading: Reading) -> bool:
    return reading.n > 0 and reading.text != ""


def inverse(reading: Reading) -> float:
    return 1 / reading.n


def scaled(count: int, most: float) -> float:
    return float(count) * most


# ------------------------------------------------------------------------------------------------ the comparison

Build = Callable[[Stream[Any]], Stream[Any]]


def flow_of(build: Build) -> Checked:
    """Readings by room, blocks of ten seconds."""
    flow = Dataflow("kernels")
    source = flow.source("in", U[str, Reading], key=room, markers=every(seconds=10, time=second, delay=15))
    flow.sink("out", build(source))
    return check(flow)


@attrs.frozen
class Compiled:
    """A dataflow and its plans: one task and one key group, and several of both."""

    checked: Checked
    plans: tuple[Plan, ...]

    @classmethod
    def of(cls, build: Build) -> Compiled:
        """Of what is done with readings."""
        checked = flow_of(build)
        return cls(checked, tuple(plan(checked, parallelism=n, key_groups=groups) for n, groups in ((1, 1), (2, 3))))

    def agrees(self, rows: list[Reading], seed: int, *, verified: bool = True) -> None:
        """A run of one of the plans tells the definition's trace. ``verified``: some rows are compared with Python, too."""
        (wanted,) = interpret_rows(self.checked, {"in": rows})[0].values()
        one = self.plans[seed % 2] if verified else attrs.evolve(self.plans[seed % 2], verify_every=0)
        got = simulate(one, {"in": rows}, seed=seed, steps=1 + seed % 3, pieces=1 + seed % 4).trace
        assert got == wanted


def several(function: Any) -> Any:
    """For each case a part of the examples of the profile: there are many cases."""
    least = settings().max_examples // 6
    quiet = [*settings().suppress_health_check, HealthCheck.function_scoped_fixture]
    return settings(max_examples=least, suppress_health_check=quiet)(function)


@pytest.fixture(autouse=True)
def few_is_many() -> Iterator[None]:
    """Columns are used for blocks of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MANY", 1)
        patch.setattr(limits, "FLUSH", 3)
        yield


SEEDS = st.integers(0, 999)


# ------------------------------------------------------------------------------------------------ aggregates

OVER_COLUMNS: dict[str, Any] = {
    "count": ts.count(),
    "sum of int": ts.sum(n),
    "sum of float": ts.sum(x),
    "fast sum": ts.fast_sum(half),  # of what it adds without rounding: else no two deployments agree
    "mean": ts.mean(x),
    "mean of int": ts.mean(big),
    "min": ts.min(x),
    "max": ts.max(x),
    "min of int": ts.min(big),
    "max of int": ts.max(big),
    "min of datetime": ts.min(moment),
    "max of datetime": ts.max(moment),
    "max of date": ts.max(day),
    "min of bool": ts.min(positive),
    "both": ts.both(ts.count(), ts.max(x), scaled),
    "struct": ts.struct(Stats, n=ts.count(), mean=ts.mean(x), most=ts.max(x)),
    "variance": ts.variance(x),
    "variance of a population": ts.variance(x, population=True),
    "stddev": ts.stddev(x, population=True),
    "covariance": ts.covariance(x, n),
    "correlation": ts.correlation(half, x),
    "regression": ts.regression(n, x),
    "correlation, where": ts.correlation(x, big, where=positive),
    "bit_and": ts.bit_and(big),
    "bit_or": ts.bit_or(n),
    "bit_xor, where": ts.bit_xor(n, where=positive),
    "struct, variance": ts.struct(Stats, n=ts.sum(n), mean=ts.variance(x), most=ts.min(x)),
    "count, where": ts.count(where=positive),
    "sum of int, where": ts.sum(n, where=positive),
    "sum of float, where": ts.sum(inverse, where=lambda reading: reading.n != 0),
    "mean, where": ts.mean(x, where=large),
    "variance, where": ts.variance(half, where=positive),
    "min, where": ts.min(x, where=lambda reading: reading.note is not None),
    "max of datetime, where": ts.max(moment, where=large),
    "struct, where": ts.struct(
        Some,
        warm=ts.count(where=positive),
        noted=ts.count(where=lambda reading: reading.note == "é"),
        total=ts.sum(x, where=large),
        mean=ts.mean(big, where=lambda reading: reading.half < 0),
        low=ts.min(x, where=lambda reading: reading.half > 0),
        high=ts.max(moment, where=lambda reading: reading.text == "a"),
        inverse=ts.sum(inverse, where=lambda reading: reading.n > 0),
        small=ts.sum(n, where=lambda reading: reading.n < 6),
    ),
}
"""Aggregates that are combined over columns, and whose states are columns."""

IN_PYTHON: dict[str, Any] = {
    "max of str": ts.max(text),
    "last": ts.last(by=second),
    "top": ts.top(2, by=x),
    "top, ties": ts.top(2, by=lambda reading: desc(reading.text), ties=True, ranks=True),
    "first, ties": ts.first(by=second, ties=True),
    "last by float": ts.last(by=lambda reading: (reading.half > 0, reading.x)),
    "top, where": ts.top(2, by=x, ties=True, where=positive),
    "both, first and last": ts.both(ts.first(by=x), ts.last(by=text), lambda a, b: [a, b], to=list[Reading]),
    "collect": ts.collect(x, by=text),
    "count_distinct": ts.count_distinct(note),
    "count_distinct of float": ts.count_distinct(x),
    "approx_count_distinct": ts.approx_count_distinct(big, precision=4),
    "quantile": ts.quantile(0.5, x),
    "quantiles": ts.quantiles([0, 0.25, 1], x),
    "last, where": ts.last(by=second, where=positive),
    "median": ts.median(x),
    "exact_quantiles": ts.exact_quantiles([0, 0.3, 1], big),
    "collect_set": ts.collect_set(x),
    "distinct, largest": ts.top_distinct(2, text),
}
"""Aggregates that Python combines, but for blocks that are answered from their items alone."""

CHOSEN = {name for name in IN_PYTHON if name.startswith(("last", "first", "top", "both", "max of str"))}
"""Of these the aggregates of a few items of a block, which columns choose before the exchange."""

AGGREGATES = OVER_COLUMNS | IN_PYTHON
USES: dict[str, Callable[[Any], Any]] = {
    "aggregate": ts.aggregate,
    "running": ts.running,
    "sliding": functools.partial(ts.sliding, panes=3),
    "sliding, ends": functools.partial(ts.sliding, panes=3, slide=2, ends=True),
    "tumbling": functools.partial(ts.tumbling, panes=2),
    "tumbling, ends": functools.partial(ts.tumbling, panes=2, ends=True),
    "ten panes": functools.partial(ts.sliding, panes=10),
    "joined blocks": functools.partial(ts.sliding, panes=4, slide=2, ends=True),
    "two stacks": functools.partial(ts.sliding, panes=3, method="two stacks"),
}


ALL_CASES = [
    (aggregate, use)
    for aggregate in AGGREGATES
    for use in USES
    if use in ("aggregate", "sliding, ends")
    or (use == "joined blocks" and aggregate in ("sum of float", "struct", "max of str", "last"))
    or (
        use != "joined blocks"
        and "where" not in aggregate
        and (aggregate not in IN_PYTHON or use in ("running", "two stacks"))
    )
]
IN_TURN = ("sliding", "tumbling", "tumbling, ends", "ten panes", "two stacks")
"""How a window keeps its panes does not depend on what is in them: of these each aggregate has two in every run, all by night."""

CASES = [
    pytest.param(aggregate, use, marks=pytest.mark.nightly)
    if use in IN_TURN and (IN_TURN.index(use) - list(AGGREGATES).index(aggregate)) % len(IN_TURN) > 1
    else (aggregate, use)
    for aggregate, use in ALL_CASES
]


def combines(aggregate: str) -> bool:
    """Are its items combined over columns?"""
    return aggregate not in IN_PYTHON


def keeps(aggregate: str, use: str) -> bool:
    """Are its states columns?"""
    return combines(aggregate) and use != "two stacks"


def ends(aggregate: str, use: str) -> bool:
    """Are its blocks answered over columns, from their items alone?"""
    return use in ("aggregate", "joined blocks", "sliding, ends") and aggregate in IN_PYTHON and not aggregate.startswith("both")


@functools.cache
def used(aggregate: str, use: str) -> Compiled:
    return Compiled.of(USES[use](AGGREGATES[aggregate]))


@pytest.mark.parametrize(("aggregate", "use"), CASES)
@several
@given(rows=readings(), seed=SEEDS)
def test_aggregates(aggregate: str, use: str, rows: list[Reading], seed: int) -> None:
    used(aggregate, use).agrees(rows, seed)


def test_conditions_do_not_multiply_paths() -> None:
    """Eight aggregates with seven conditions: one path, and one more where it is asked whether a note is None."""
    monoid = monoid_of(AggregatePerBlock(OVER_COLUMNS["struct, where"]), schema_of(str), schema_of(Reading))
    assert len(list(results(monoid.lift))) == 2


def test_kmeans() -> None:
    """Whatever the order in which points come."""
    build = ts.kmeans(place, k=2, panes=2)
    rows = [attrs.evolve(TAME[at], x=float(at % 3 - 1), half=at / 2) for at in range(len(TAME))]
    for seed in range(6):
        Compiled.of(build).agrees(rows, seed)


def place(reading: Reading) -> tuple[float, float]:
    return reading.x, reading.half


@pytest.mark.parametrize("use", ["aggregate", "running", "sliding"])
@pytest.mark.parametrize("numbers", [(2**62, 2**62), (-(2**62), -(2**62), -1)])
def test_a_sum_beyond_64_bits_is_refused_as_the_definition_does(use: str, numbers: tuple[int, ...]) -> None:
    one = used("sum of int", use)
    rows = [attrs.evolve(TAME[0], n=number) for number in numbers]
    for seed in range(4):
        with pytest.raises(OperatorFailed) as caught:
            one.agrees(rows, seed)
        assert caught.value.code == "TT206"
        with pytest.raises(OperatorFailed) as caught:
            simulate(one.plans[seed % 2], {"in": rows}, seed=seed)
        assert caught.value.code == "TT206"


# ------------------------------------------------------------------------------------------------ stateless


def by_text(key: str, reading: Reading) -> str:
    return reading.text


def by_room(key: str, reading: Reading) -> str:
    return reading.room


def text_and_number(key: str, reading: Reading) -> tuple[str, float]:
    return reading.text, reading.x * reading.half


def more(reading: Reading) -> float:
    return -reading.x if reading.note is None else reading.x + reading.n


def some(key: str, reading: Reading) -> bool:
    return reading.x <= 1.0 or reading.note == "é"


def several_of(key: str, reading: Reading) -> Iterator[tuple[str, float]]:
    yield key, reading.x
    if reading.n > 0:
        yield reading.text, reading.half / reading.n


def pair_of(reading: Reading) -> list[float]:
    return [reading.x, reading.half * 2]


def scaled_note(reading: Reading, number: float) -> Noted:
    return Noted(-number, reading.note, None)


def parts_of(reading: Reading) -> list[str]:
    return reading.text.split("a")


def noted(reading: Reading, row: Place) -> Noted:
    return Noted(reading.x, reading.note, row.name)


def noted_or_not(reading: Reading, row: Place | None) -> Noted:
    return Noted(reading.x, reading.note, None if row is None else row.name)


def features(reading: Reading) -> tuple[float, ...]:
    return reading.x, reading.half


PLACES = {"a": Place("attic", 0.5), "é": Place("Küche", -0.0)}
TREE = ts.RegressionTree((0, -1, 1, -1, -1), (0.1, 0.0, 0.5, 0.0, 0.0), (1, -1, 3, -1, -1), (2, -1, 4, -1, -1),
                         (0.0, 1.0, 0.0, 2.0, 3.0), (True,) + (False,) * 4)  # fmt: skip
STATELESS: dict[str, tuple[Any, bool]] = {
    "map": (ts.map(text_and_number), True),
    "map_values": (ts.map_values(more), True),
    "filter": (ts.filter(some), True),
    "flat_map": (ts.flat_map(several_of), True),
    "explode": (ts.explode(pair_of), True),
    "explode, combine": (ts.explode(pair_of, combine=scaled_note), True),
    "explode, parts": (ts.explode(parts_of), False),
    "key_by": (ts.key_by(by_text), True),
    "enrich": (ts.enrich(PLACES, by=by_room, combine=noted), True),
    "enrich, left": (ts.enrich(PLACES, by=by_room, combine=noted_or_not, how="left"), True),
    "predict": (ts.predict(TREE, features), False),
}
"""Each with whether it runs over columns."""


def before_a_stage(op: Any) -> Build:
    return lambda source: source.through(op)


def behind_a_stage(op: Any) -> Build:
    return lambda source: source.through(sort(by=second)).through(op)


@functools.cache
def stateless(name: str, where: Callable[[Any], Build]) -> Compiled:
    return Compiled.of(where(STATELESS[name][0]))


@pytest.mark.parametrize("where", [before_a_stage, behind_a_stage])
@pytest.mark.parametrize("name", STATELESS)
@several
@given(rows=readings(), seed=SEEDS)
def test_stateless(name: str, where: Callable[[Any], Build], rows: list[Reading], seed: int) -> None:
    stateless(name, where).agrees(rows, seed)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Sqlite[Place]]:
    """The table of places as a file."""
    path = tmp_path / "places.db"
    connection = sqlite3.connect(path)
    connection.execute('CREATE TABLE places (room TEXT PRIMARY KEY, name TEXT, "limit" REAL)')
    connection.executemany("INSERT INTO places VALUES (?, ?, ?)", [(k, *attrs.astuple(p)) for k, p in PLACES.items()])
    connection.commit()
    connection.close()
    yield Sqlite(path=str(path), table="places", key="room", row=Place)
    SESSIONS.close()


LEFT = {"combine": noted_or_not, "how": "left"}


@pytest.mark.parametrize("where", [before_a_stage, behind_a_stage])
@pytest.mark.parametrize("how", [{"combine": noted}, LEFT], ids=["inner", "left"])
def test_look_up(how: dict[str, Any], where: Callable[[Any], Build], places: Sqlite[Place]) -> None:
    compiled = Compiled.of(where(ts.lookup_join(places, by=by_room, **how)))

    @several
    @given(rows=readings(), seed=SEEDS)
    def agrees(rows: list[Reading], seed: int) -> None:
        compiled.agrees(rows, seed)

    agrees()


# ------------------------------------------------------------------------------------------------ ordered


def remade(reading: Reading, time: int, number: float) -> Reading:
    return attrs.evolve(reading, second=time, half=number)


@attrs.frozen
class Framed:
    now: int
    before: float | None
    total: int
    mean: float
    most: float


def unnoted(reading: Reading, time: int, note: None) -> Reading:
    return attrs.evolve(reading, second=time, note=note)


ORDERED: dict[str, Any] = {
    "interpolate": ts.interpolate(time=second, number=half, make=remade, step=2),
    "interpolate, last": ts.interpolate(time=second, number=half, make=remade, method="last", max_gap=9),
    "interpolate, next": ts.interpolate(time=second, number=half, make=remade, method="next", step=3),
    "interpolate, null": ts.interpolate(time=second, make=unnoted, method="null", step=2),
    "over": ts.over(
        Framed, now=ts.current(n), before=ts.lag(x, 2), total=ts.frame(ts.sum(n), rows=2), mean=ts.frame(ts.mean(half)),
        most=ts.frame(ts.max(x), rows=0),
    ),
    "diff": ts.diff(x),
    "scan": ts.scan(ts.mean(x)),
    "scan, last": ts.scan(ts.last(by=half)),
    "deduplicate": ts.deduplicate(x),
    "deduplicate, within": ts.deduplicate(note, seconds=15, time=second),
    "ewm_mean": ts.ewm_mean(x, alpha=0.25),
    "lagged": ts.lagged(x, items=2),
    "session": ts.session(ts.max(x), gap=5, time=second),
    "count window": ts.count_window(ts.sum(x), items=3),
    "sliding count window": ts.count_window(ts.sum(x), items=3, slide=1),
    "time window": ts.time_window(
        ts.both(ts.count(), ts.fast_sum(x), scaled), size=2e-6, time=soon, unit="us", ends=True
    ),
}
ORDERS: dict[str, Any] = {"integer": second, "float": half, "text": text, "moment": moment}


@functools.cache
def ordered(name: str, order: str) -> Compiled:
    op = ORDERED.get(name)
    by = ORDERS[order]
    return Compiled.of(
        lambda source: source.through(sort(by=by)) if op is None else source.through(sort(by=by)).through(op)
    )


@pytest.mark.parametrize("order", ORDERS)
@several
@given(rows=readings(), seed=SEEDS)
def test_sorts(order: str, rows: list[Reading], seed: int) -> None:
    ordered("sort", order).agrees(rows, seed)


@pytest.mark.parametrize("name", ORDERED)
@several
@given(rows=readings(), seed=SEEDS)
def test_ordered(name: str, rows: list[Reading], seed: int) -> None:
    ordered(name, "integer").agrees(rows, seed)


# ------------------------------------------------------------------------------------------------ what is reached

TAME = [
    Reading(
        room="ab"[at % 2],
        second=at,
        n=at % 5,
        big=-at,
        x=at / 4,
        half=at % 7 / 2,
        text=f"text {at % 3}",
        note=None if at % 3 else "note",
        at=EPOCH + dt.timedelta(seconds=at),
    )
    for at in range(48)
]
"""Nothing here is beyond what columns hold."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what was done over columns; and ``given up``, when a row or block had to be done by Python after all."""
    found = Counter[str]()

    def watch(cls: Any, method: str, name: Callable[..., Iterable[str]]) -> None:
        whole = getattr(cls, method)

        def watched(self: Any, *args: Any, **named: Any) -> Any:
            result = whole(self, *args, **named)
            found.update(name(self, result, *args))
            return result

        monkeypatch.setattr(cls, method, watched)

    watch(Undefined, "__init__", lambda *_: ["given up"])
    watch(Columnar, "_block", lambda *_: ["state"])
    watch(Sorter, "rows", lambda *_: ["sorted"])
    watch(Sorter, "rows_of_columns", lambda *_: ["sorted"])

    def chosen(*args: Any) -> Any:
        rows = needed_rows(*args)
        found.update(["chosen"])
        return rows

    monkeypatch.setattr("tracetypes.compiler.runtime.partitioner.needed_rows", chosen)
    watch(PathOutput, "columns", lambda self, result, *_: ["passed"] if self.path and result else [])
    step = StageKernel.step

    def stepped(self: StageKernel, state: Any, group: int, messages: Iterable[Any]) -> Any:
        taken = list(messages)
        found.update(
            type(one.body).__name__.lower() for one in taken if isinstance(one.body, Items | Aggregates | Partials)
        )
        return step(self, state, group, taken)

    monkeypatch.setattr(StageKernel, "step", stepped)
    return found


@pytest.mark.parametrize(("aggregate", "use"), CASES)
def test_aggregates_run_over_columns_where_it_is_said(aggregate: str, use: str, seen: Counter[str]) -> None:
    one = used(aggregate, use)
    for seed, planned in enumerate(one.plans):
        (stage,) = planned.stages
        combining, (kept,) = combining_run(stage), keyed_runs(stage)
        assert combining is not None
        assert (combining.native, kept.native) == (combines(aggregate), keeps(aggregate, use) or ends(aggregate, use))
        seen.clear()
        one.agrees(TAME, seed, verified=False)
        assert (seen["aggregates"] > 0) == combines(aggregate)
        assert (seen["items"] + seen["partials"] == 0) == combines(aggregate)
        assert (seen["chosen"] > 0) == (aggregate in CHOSEN or ends(aggregate, use))
        assert (seen["state"] > 0) == keeps(aggregate, use)
        if combines(aggregate) or aggregate in CHOSEN or ends(aggregate, use):
            assert not seen["given up"]


@pytest.mark.parametrize("name", STATELESS)
def test_stateless_operators_run_over_columns_where_it_is_said(name: str, seen: Counter[str]) -> None:
    native = STATELESS[name][1]
    for seed in range(2):
        (link,) = links(stateless(name, before_a_stage).plans[seed].stages[0].region)
        assert [one.native for one in stateless_runs(link)] == [native]
        (link,) = links(stateless(name, behind_a_stage).plans[seed].region)
        assert [one.native for one in stateless_runs(link)] == [native]
        stateless(name, before_a_stage).agrees(TAME, seed, verified=False)
        seen.clear()
        stateless(name, behind_a_stage).agrees(TAME, seed, verified=False)
        assert (seen["passed"] > 0) == native
        assert not seen["given up"]


@pytest.mark.parametrize("how", [{"combine": noted}, LEFT], ids=["inner", "left"])
def test_look_ups_run_over_columns(how: dict[str, Any], places: Sqlite[Place], seen: Counter[str]) -> None:
    compiled = Compiled.of(behind_a_stage(ts.lookup_join(places, by=by_room, **how)))
    compiled.agrees(TAME, 1)
    assert seen["passed"] > 0
    assert not seen["given up"]


@pytest.mark.parametrize("order", ORDERS)
def test_sorts_run_over_columns(order: str, seen: Counter[str]) -> None:
    ordered("sort", order).agrees(TAME, 1)
    assert seen["sorted"] > 0
    assert not seen["given up"]
