"""``explain`` and errors name the part that is to blame, in the words of its author, and a line of the author's.

Aggregates are nested at random with one part in them that columns cannot hold, in each operator of the library. Then it is known
which part, where, and in whose line.
"""

from __future__ import annotations

import datetime as dt
import inspect
import json
import random
import re
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_overloads

import attrs
import pytest

from tests.test_version import operators
from tracetypes import Dataflow, Emit, EmitValue, Marker, O, OpKeyedOrdered, OpStateless, U, check, every, sort
from tracetypes import stdlib as ts
from tracetypes.compiler.plan.explain import explain
from tracetypes.compiler.spark.wording import SparkWording
from tracetypes.errors import OperatorFailed
from tracetypes.self_description import SelfDescribing

HERE = Path(__file__)


@attrs.frozen
class Row:
    ts: int
    x: float
    n: int
    text: str
    when: dt.datetime


@attrs.frozen
class Two:
    one: float
    other: float


def x(row: Row) -> float:
    return row.x


def ts_of(row: Row) -> int:
    return row.ts


def n(row: Row) -> int:
    return row.n


def centre(row: Row) -> float:
    return statistics.fmean([row.x])  # blame: centre


def through_another(row: Row) -> float:
    return centre(row) + 1.0


def size(row: Row) -> int:
    return len(json.dumps(row.text))  # blame: size


@attrs.frozen
class Spread(ts.Aggregate[Row, "tuple[int, ...]", float]):
    """Keeps all numbers."""

    def lift(self, value: Row) -> tuple[int, ...]:
        return (value.n,)

    def identity(self) -> tuple[int, ...]:
        return ()

    def combine(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:  # blame: Spread
        return a + b

    def result(self, agg: tuple[int, ...]) -> float:
        return float(max(agg) - min(agg))


@attrs.frozen
class Product(ts.Aggregate[Row, int, float]):
    def lift(self, value: Row) -> int:
        return value.n

    def identity(self) -> int:
        return 1

    def combine(self, a: int, b: int) -> int:  # blame: Product
        return a * b

    def result(self, agg: int) -> float:
        return float(agg)


@attrs.frozen
class Central(ts.Aggregate[Row, "tuple[float, int]", float]):
    def lift(self, value: Row) -> tuple[float, int]:
        return value.x, 1

    def identity(self) -> tuple[float, int]:
        return 0.0, 0

    def combine(self, a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]

    def result(self, agg: tuple[float, int]) -> float:
        return statistics.fmean([agg[0] / agg[1]])  # blame: Central


@attrs.frozen
class Doubled(ts.Aggregate[Row, Any, float]):
    """An author's aggregate upon one of the library."""

    inner: ts.Aggregate[Row, Any, float]

    def lift(self, value: Row) -> Any:
        return self.inner.lift(value)

    def identity(self) -> Any:
        return self.inner.identity()

    def combine(self, a: Any, b: Any) -> Any:
        return self.inner.combine(a, b)

    def result(self, agg: Any) -> float:
        return self.inner.result(agg) * 2


@attrs.frozen
class Guilty:
    """An aggregate that columns cannot hold: what is to blame, and how it is shown. ``line``: the mark on the author's line;
    None: that of the operator."""

    made: ts.Aggregate[Row, Any, Any]
    name: str
    shown: str
    why: str
    line: str | None = None


ANY_SIZE, ANY_LIST = "keeps a list of buckets of any length", "keeps a list of any length"
GUILTY = {
    "min": Guilty(ts.min(lambda r: r.text, to=str), "min", "min", "compares text, bytes, decimals"),
    "max": Guilty(ts.max(lambda r: r.text, to=str), "max", "max", "compares text, bytes, decimals"),
    "last": Guilty(ts.last(n), "last", "last", "compares whole values"),
    "top": Guilty(ts.top(2, n), "top", "top", "keeps a list of values"),
    "first": Guilty(ts.first(n), "first", "first", "compares whole values"),
    "first ties": Guilty(ts.first(n, ties=True), "first", "first", "keeps a list of values"),
    "last ties": Guilty(ts.last(n, ties=True), "last", "last", "keeps a list of values"),
    "ranks": Guilty(ts.top(2, n, ties=True, ranks=True), "top", "top", "keeps a list of values"),
    "collect": Guilty(ts.collect(n), "collect", "collect", "keeps a list of any length"),
    "count_distinct": Guilty(ts.count_distinct(n), "count_distinct", "count_distinct", "keeps a set of any size"),
    "approx_count_distinct": Guilty(
        ts.approx_count_distinct(n), "approx_count_distinct", "approx_count_distinct", "keeps a sketch in bytes"
    ),
    "quantile": Guilty(ts.quantile(0.5, x), "quantile", "quantile", ANY_SIZE),
    "quantiles": Guilty(ts.quantiles([0.5], x), "quantiles", "quantiles", ANY_SIZE),
    "exact_quantile": Guilty(ts.exact_quantile(0.5, x), "exact_quantile", "exact_quantile", ANY_LIST),
    "exact_quantiles": Guilty(ts.exact_quantiles([0.5], x), "exact_quantiles", "exact_quantiles", ANY_LIST),
    "median": Guilty(ts.median(x), "median", "median", ANY_LIST),
    "collect_set": Guilty(ts.collect_set(n), "collect_set", "collect_set", "keeps a set of any size"),
    "top_distinct": Guilty(ts.top_distinct(2, n), "top_distinct", "top_distinct", "keeps a list of values"),
    "window_ranks": Guilty(ts.window_ranks(n), "window_ranks", "window_ranks", ANY_LIST),
    "histogram": Guilty(ts.histogram(n), "histogram", "histogram", "keeps a count for each different value"),
    "mode": Guilty(ts.mode(n), "mode", "mode", "keeps a count for each different value"),
    "sum": Guilty(ts.sum(centre), "centre", "sum(of=centre)", "calls statistics.fmean, which uses try", "centre"),
    "mean": Guilty(
        ts.mean(through_another), "centre", "mean(of=through_another)", "calls statistics.fmean, which", "centre"
    ),
    "fast_sum": Guilty(ts.fast_sum(centre), "centre", "fast_sum(of=centre)", "calls statistics.fmean", "centre"),
    "count": Guilty(ts.sum(size), "size", "sum(of=size)", "calls json.dumps, which calls", "size"),
    "lambda": Guilty(
        ts.sum(of=lambda r: json.loads(r.text), to=int),  # blame: lambda
        "lambda",
        "sum(of=lambda)",
        "calls json.loads, which",
        "lambda",
    ),
    "Spread": Guilty(Spread(), "Spread", "Spread", "gives tuples of different length", "Spread"),
    "Product": Guilty(Product(), "Product", "Product", "combines by no sum, minimum or maximum", "Product"),
    "Central": Guilty(Central(), "Central", "Central", "calls statistics.fmean, which", "Central"),
    "both": Guilty(
        ts.both(ts.count(), ts.quantile(0.5, x), lambda one, other: one + other, to=float),
        "quantile",
        "both(b=quantile)",
        ANY_SIZE,
    ),
    "where": Guilty(ts.quantile(0.5, x, where=lambda r: r.n > 0), "quantile", "quantile", ANY_SIZE),
    "whose": Guilty(ts.max(lambda r: r.text, to=str, where=lambda r: r.n > 0), "max", "max", "compares text"),
    "centred": Guilty(
        ts.count(where=lambda row: centre(row) > 0), "centre", "count(where=lambda)", "calls statistics.fmean", "centre"
    ),
    "struct": Guilty(
        ts.struct(Two, one=ts.mean(x), other=ts.quantile(0.5, x)), "quantile", "struct(other=quantile)", ANY_SIZE
    ),
}
IN_PYTHON = frozenset(
    {"sum", "mean", "fast_sum", "count", "lambda", "Spread", "Product", "Central", "centred", "histogram", "mode", "window_ranks"}
)
"""What ends in Python in any window. Others end over columns where windows do not overlap."""

COLUMNAR: dict[str, Callable[[], ts.Aggregate[Row, Any, Any]]] = {
    "count": lambda: ts.count(),
    "sum": lambda: ts.sum(n),
    "float sum": lambda: ts.sum(x),
    "fast_sum": lambda: ts.fast_sum(x),
    "mean": lambda: ts.mean(x),
    "min": lambda: ts.min(n),
    "max": lambda: ts.max(x),
    "variance": lambda: ts.variance(x),
    "stddev": lambda: ts.stddev(x),
    "covariance": lambda: ts.covariance(x, n),
    "correlation": lambda: ts.correlation(x, n),
    "regression": lambda: ts.regression(x, n),
    "bit_and": lambda: ts.bit_and(n),
    "bit_or": lambda: ts.bit_or(n),
    "bit_xor": lambda: ts.bit_xor(n),
    "time": lambda: ts.max(lambda r: r.when, to=dt.datetime),
}
UNORDERED: dict[str, Callable[[Any], Any]] = {
    "aggregate": ts.aggregate,
    "running": ts.running,
    "tumbling": lambda agg: ts.tumbling(agg, size=2),
    "sliding": lambda agg: ts.sliding(agg, size=1),  # as long as it slides
}
ORDERED: dict[str, Callable[[Any], Any]] = {
    "session": lambda agg: ts.session(agg, gap=5, time=ts_of),
    "count_window": lambda agg: ts.count_window(agg, items=3),
    "time_window": lambda agg: ts.time_window(agg, size=10, time=ts_of),
    "scan": ts.scan,
}


def first(one: Any, other: Any) -> float:
    return 0.0 if one is None else 1.0


def nested(chance: random.Random, inner: Guilty, depth: int) -> tuple[ts.Aggregate[Row, Any, Any], str]:
    """An aggregate around another, among some that columns hold, and how it is shown."""
    made, shown = inner.made, inner.shown
    for _ in range(depth):
        beside = COLUMNAR[chance.choice(sorted(COLUMNAR))]()
        match chance.randrange(4):
            case 0:
                made, shown = ts.both(made, beside, first, to=float), f"both(a={shown})"
            case 1:
                made, shown = ts.both(beside, made, first, to=float), f"both(b={shown})"
            case 2:
                names = ["one", "other"]
                chance.shuffle(names)
                number = ts.both(made, beside, first, to=float)
                parts: Any = {names[0]: number, names[1]: ts.mean(x)}
                made, shown = ts.struct(Two, **parts), f"struct({names[0]}=both(a={shown}))"
                made, shown = ts.both(made, beside, of_two, to=float), f"both(a={shown})"
            case _:
                made, shown = Doubled(made), f"Doubled(inner={shown})"
    return made, shown


def of_two(one: Two, other: Any) -> float:
    return one.one


def explained(operator: Any, *, ordered: bool = False, by: Callable[[Row], Any] = ts_of) -> list[str]:
    flow = Dataflow("explained")
    rows: Any = flow.source("rows", U[str, Row], markers=every(seconds=1, time=ts_of))
    if ordered:
        rows = rows.through(sort(by=by))
    flow.sink("out", rows.through(operator))  # blame: the operator
    return explain(check(flow), SparkWording({}), parallelism=2, key_groups=4).splitlines()


def marked(name: str) -> str:
    """The line of this file with that mark, as messages show it."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    (at,) = [at for at, line in enumerate(lines, 1) if line.endswith(f"# blame: {name}")]
    return f"{HERE.name}:{at}: {lines[at - 1].strip()}"


def reasons(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The reasons and what stands under each. Fails where a place of the package is named."""
    for at, line in enumerate(lines):
        if not line.startswith("    source") and "because" in line:
            assert ours(line) is None, line
            below = lines[at + 1].strip() if lines[at + 1].startswith(18 * " " + "at ") else ""
            assert ours(below) is None, below
            yield line.strip().removeprefix("because "), below


OURS = re.compile(r"stdlib|compiler/|site-packages|tracetypes/|\bline \d|\b(?:" + "|".join(
    sorted(path.name for folder in ("stdlib", "compiler", "tracetypes") for path in (HERE.parents[1] / folder).rglob("*.py"))
).replace(".", r"\.") + r")\b")  # fmt: skip


def ours(text: str) -> re.Match[str] | None:
    """A place within the package that a text names."""
    return OURS.search(text)


def blamed(lines: list[str], guilty: Guilty, nest: str) -> None:
    """Both reasons are that part's."""
    found = list(reasons(lines))
    assert found, "nothing runs in Python"
    for reason, place in found:
        subject, _, why = reason.removeprefix("`").partition("` ")
        assert subject == guilty.name
        assert why.startswith(f"in `{nest}` {guilty.why}"), reason
        if guilty.line is None and "Doubled(" in nest:
            assert re.search(rf"{HERE.name}:\d+: (return self\.inner\.|def combine)", place)
        else:
            assert place.endswith(marked(guilty.line or "the operator"))


@pytest.mark.parametrize("word", sorted(UNORDERED))
def test_each_aggregate_in_each_operator(word: str) -> None:
    for name, guilty in GUILTY.items():
        lines = explained(UNORDERED[word](guilty.made))
        if word != "running" and name not in IN_PYTHON:
            assert not list(reasons(lines))
        else:
            blamed(lines, guilty, f"{word}({guilty.shown})")
    for made in COLUMNAR.values():
        assert not list(reasons(explained(UNORDERED[word](made()))))


@pytest.mark.parametrize("word", ["aggregate", "tumbling"])
@pytest.mark.parametrize(
    "made", [ts.collect(n, by=centre), ts.quantile(0.5, centre), ts.top(2, centre), ts.count_distinct(centre)]
)
def test_the_function_of_an_aggregate_that_could_run_over_columns(made: Any, word: str) -> None:
    found = list(reasons(explained(UNORDERED[word](made))))
    assert found
    for reason, place in found:
        assert reason.startswith("`centre` in ")
        assert place.endswith(marked("centre"))


@pytest.mark.parametrize("seed", range(4))
def test_nests(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(12):
        word, name = chance.choice(sorted(UNORDERED)), chance.choice(sorted(GUILTY))
        made, shown = nested(chance, GUILTY[name], chance.randint(1, 3))
        lines = explained(UNORDERED[word](made))
        if word != "running" and name not in IN_PYTHON and "Doubled(" not in shown:
            assert not list(reasons(lines))
        else:
            blamed(lines, GUILTY[name], f"{word}({shown})")


def test_nests_in_ordered_operators_and_beside_others() -> None:
    """The aggregate is to blame."""
    for word, made in ORDERED.items():
        for name in ("struct", "lambda"):
            found = list(reasons(explained(made(GUILTY[name].made), ordered=True)))
            if name == "struct" and word != "scan":
                assert not found
            else:
                ((reason, _),) = found
                assert reason.startswith(f"`{GUILTY[name].name}` ")


def test_the_aggregate_whose_elements_columns_do_not_hold_is_named() -> None:
    for made in (ts.scan(ts.last(ts_of)), ts.count_window(ts.last(ts_of), items=3, slide=1)):
        ((reason, _),) = reasons(explained(made, ordered=True))
        assert reason.startswith("`last` in ")
        assert "compares whole values" in reason


@attrs.frozen
class Listed(OpKeyedOrdered[str, Row, int, list[int]]):
    """Its state is a list."""

    def initial_state(self) -> list[int]:  # blame: Listed
        return [0]

    def on_item(self, state: list[int], key: str, value: Row, emit: EmitValue[int]) -> list[int]:
        return [value.ts]


@attrs.frozen
class Growing(OpKeyedOrdered[str, Row, int, tuple[int, ...]]):
    """Its state is longer each time."""

    def initial_state(self) -> tuple[int, ...]:
        return ()

    def on_item(self, state: Any, key: str, value: Row, emit: EmitValue[int]) -> tuple[int, ...]:  # blame: Growing
        return (*state, value.ts)


@attrs.frozen
class Duration(OpKeyedOrdered[str, Row, int, dt.timedelta | None]):
    """A marker returns what columns do not hold."""

    def initial_state(self) -> dt.timedelta | None:
        return None

    def on_item(
        self, state: dt.timedelta | None, key: str, value: Row, emit: EmitValue[int]
    ) -> dt.timedelta | None:
        return state

    def on_marker(self, state: Any, key: str, marker: Marker, emit: EmitValue[int]) -> Any:  # blame: Duration
        return dt.timedelta(seconds=1)


@pytest.mark.parametrize("op", [Listed(), Growing(), Duration()])
def test_the_method_that_returns_what_columns_do_not_hold_is_named(op: Any) -> None:
    ((reason, place),) = reasons(explained(op, ordered=True))
    name = type(op).__name__
    assert reason.startswith(f"`{name}` returns ")
    assert place.endswith(marked(name))


def fmean_of(row: Row) -> float:
    return statistics.fmean([row.x])  # blame: fmean_of


def rounded_fmean(row: Row) -> int:
    return round(statistics.fmean([row.x]))  # blame: rounded_fmean


def dumped(row: Row, at: int, number: float) -> Row:
    return attrs.evolve(row, ts=at, x=number, text=json.dumps(at))  # blame: dumped


def moved(row: Row, at: int, number: float) -> Row:
    return attrs.evolve(row, ts=at, x=number)


@pytest.mark.parametrize(
    ("functions", "guilty", "name", "why"),
    [
        ({}, None, "", ""),
        ({"time": rounded_fmean}, rounded_fmean, "interpolate(time=rounded_fmean)", "calls statistics.fmean"),
        ({"number": fmean_of}, fmean_of, "interpolate(number=fmean_of)", "calls statistics.fmean"),
        ({"make": dumped}, dumped, "interpolate(make=dumped)", "calls json.dumps"),
    ],
)
def test_each_function_of_an_interpolation(
    functions: dict[str, Any], guilty: Callable[..., Any] | None, name: str, why: str
) -> None:
    given: dict[str, Any] = {"time": ts_of, "number": x, "make": moved, **functions}
    found = [one for one in reasons(explained(ts.interpolate(**given), ordered=True)) if "by=" not in one[0]]
    if guilty is None:
        assert not found
        for method in ("last", "next", "null"):
            assert not [*reasons(explained(ts.interpolate(**given, method=method), ordered=True))]
        return
    ((reason, place),) = found
    assert reason.startswith(f"`{guilty.__name__}` in `{name}` {why}"), reason
    assert place.endswith(marked(guilty.__name__))


@pytest.mark.parametrize(
    ("by", "line", "why"),
    [
        (fmean_of, "fmean_of", "calls statistics.fmean"),
        (lambda row: row, "the operator", "gives something else than numbers, times, texts, and tuples and desc() of these"),
    ],
)
def test_the_sort_before_an_interpolation(by: Callable[[Row], Any], line: str, why: str) -> None:
    lines = explained(ts.interpolate(time=ts_of, number=x, make=moved), ordered=True, by=by)
    _, (reason, place) = reasons(lines)
    assert reason.startswith(f"the function by= of the sort before it {why}")
    assert place.endswith(marked(line))


def test_a_long_window_is_to_blame_itself() -> None:
    """Its aggregate has columns, and its state has none. One that overlaps no other has no state."""
    reason = "`sliding` keeps its panes in a list of any length", f"at {relative()}{marked('the operator')}"
    assert list(reasons(explained(ts.sliding(ts.sum(n), panes=100)))) == [reason]
    assert not list(reasons(explained(ts.tumbling(ts.sum(n), size=100))))


def relative() -> str:
    """What stands before a file's name in messages."""
    return f"{HERE.parent.relative_to(Path.cwd())}/" if HERE.is_relative_to(Path.cwd()) else f"{HERE.parent}/"


@attrs.frozen
class Judged(OpStateless[str, Row, str, float]):
    """Of an author, with a function of theirs."""

    limit: float

    def on_item(self, key: str, value: Row, emit: Emit[str, float]) -> None:
        emit(key, min(self.limit, through_another(value)))


@attrs.frozen
class Tried(OpStateless[str, Row, str, float]):
    def on_item(self, key: str, value: Row, emit: Emit[str, float]) -> None:
        try:  # blame: Tried
            emit(key, 1 / value.x)
        except ZeroDivisionError:
            emit(key, 0.0)


@attrs.frozen
class Local(OpStateless[str, Row, str, float]):
    def on_item(self, key: str, value: Row, emit: Emit[str, float]) -> None:
        class Inside:  # blame: Local
            pass

        emit(key, value.x)


def near_centre(key: str, row: Row) -> bool:
    return centre(row) > 0


def at_centre(key: str, row: Row) -> tuple[str, float]:
    return key, centre(row)


def all_centres(key: str, row: Row) -> list[tuple[str, float]]:
    return [(key, centre(row))]


def combined(row: Row, found: int) -> float:
    return centre(row) * found


def of_centre(row: Row) -> tuple[float]:
    return (centre(row),)


def of_x(row: Row) -> tuple[float]:
    return (row.x,)


@attrs.frozen
class Room:
    id: int
    area: float


def by_centre(key: str, row: Row) -> int:
    return 1 if centre(row) > 0 else 2


TREE = ts.RegressionTree((0, -1, -1), (2.5, 0.0, 0.0), (1, -1, -1), (2, -1, -1), (0.0, 10.0, 20.0), (False,) * 3)
def numbers(row: Row) -> list[float]:
    return [centre(row)]


CENTRE = "calls statistics.fmean, which uses try"
STATELESS: dict[str, tuple[Callable[[], Any], str, str, str]] = {
    "map": (lambda: ts.map(at_centre), "centre", "map(function=at_centre)", CENTRE),
    "map_values": (lambda: ts.map_values(centre), "centre", "map_values(function=centre)", CENTRE),
    "explode": (lambda: ts.explode(numbers), "centre", "explode(get=numbers)", CENTRE),
    "filter": (lambda: ts.filter(near_centre), "centre", "filter(predicate=near_centre)", CENTRE),
    "flat_map": (lambda: ts.flat_map(all_centres), "centre", "flat_map(function=all_centres)", CENTRE),
    "key_by": (lambda: ts.key_by(by_centre), "centre", "key_by(by=by_centre)", CENTRE),
    "enrich": (
        lambda: ts.enrich({"a": 2}, by=lambda key, row: key, combine=combined, to=float),
        "centre",
        "enrich(combine=combined)",
        CENTRE,
    ),
    "predict": (lambda: ts.predict(TREE, of_centre), "centre", "predict(features=of_centre)", CENTRE),
    "predict alone": (lambda: ts.predict(TREE, of_x), "predict", "", "goes through the nodes of a tree"),
    "lookup_join": (
        lambda: ts.lookup_join(
            ts.Sqlite(path="rooms.sqlite", table="rooms", key="id", row=Room),
            by=by_centre,
            combine=lambda row, room: row.x,
            to=float,
        ),
        "centre",
        "lookup_join(by=by_centre)",
        CENTRE,
    ),
    "Judged": (lambda: Judged(1.0), "centre", "Judged(through_another)", CENTRE),
    "Tried": (Tried, "Tried", "", "uses try"),
    "Local": (Local, "Local", "", "has a ClassDef"),
}


@pytest.mark.parametrize("case", sorted(STATELESS))
def test_stateless_operators(case: str) -> None:
    made, name, nest, why = STATELESS[case]
    ((reason, place),) = reasons(explained(made()))
    subject = f"`{name}` in `{nest}`" if nest else f"`{name}`"
    assert reason.startswith(f"{subject} {why}")
    assert place.endswith(marked(name if name != "predict" else "the operator"))


def test_a_function_of_many_is_told_by_its_parameter() -> None:
    """Two lambdas of a line have one name and one line."""
    operator = ts.enrich({"a": 2}, by=lambda key, row: key, combine=lambda row, found: json.loads(str(row)), to=int)
    ((reason, _),) = reasons(explained(operator))
    assert reason.startswith("`lambda` in `enrich(combine=lambda)` calls str")


ELSEWHERE = {
    "interpolate",
    "diff",
    "pairwise",
    "deduplicate",
    "ewm_mean",
    "lagged",
    "kmeans",
    "interval_join",
    "asof_join",
    "calendar_window",
    "over",
}
"""Operators without aggregates that take the items of a key one after the other, or hold them."""


JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "interval_join": lambda a, b: ts.interval_join(a, b, left_time=ts_of, right_time=ts_of, before=1, after=1),
    "interval_join, outer": lambda a, b: ts.interval_join(
        a, b, how="full", left_time=ts_of, right_time=ts_of, before=1, after=1
    ),
    "interval_join, semi": lambda a, b: ts.interval_join(a, b, how="semi", left_time=ts_of, right_time=ts_of, before=1, after=1),
    "asof_join": lambda a, b: ts.asof_join(a, b, left_time=ts_of, right_time=ts_of),
    "session_join": lambda a, b: ts.session_join(a, b, gap=3, left_time=ts_of, right_time=ts_of),
    "equi_join": lambda a, b: ts.equi_join(a, b, blocks=2),
    "equi_join of items": lambda a, b: ts.equi_join(a, b, items=2, left_time=ts_of, right_time=ts_of),
    "table_join": lambda a, b: ts.table_join(a, b, left_time=ts_of, table_time=ts_of),
    "window_join": lambda a, b: ts.window_join(a, b, size=2),
    "window_join by times": lambda a, b: ts.window_join(a, b, size=2, left_time=ts_of, right_time=ts_of),
}
ORDER = ("the function by= is called", "the items of a key", "its items come from")


@pytest.mark.parametrize("case", sorted(JOINS))
def test_joins(case: str) -> None:
    flow = Dataflow("joined")
    rows: list[Any] = [flow.source(name, U[str, Row], markers=every(seconds=1, time=ts_of)) for name in "ab"]
    flow.sink("out", JOINS[case](*rows))
    lines = explain(check(flow), SparkWording({}), parallelism=2, key_groups=4).splitlines()
    for reason, place in reasons(lines):
        if not reason.startswith(ORDER):
            assert reason.startswith(f"`{case.replace(',', ' ').partition(' ')[0]}` ")
            assert re.search(rf"{HERE.name}:\d+: .*ts\.{case.replace(',', ' ').partition(' ')[0]}\(", place)


def test_every_function_of_the_library_is_here() -> None:
    """Another operator or aggregate must come with what it says of itself."""
    known = {*GUILTY, *COLUMNAR, *UNORDERED, *ORDERED, *STATELESS, *JOINS, *ELSEWHERE}
    for name in ts.__all__:
        function = getattr(ts, name)
        signatures = [function, *(get_overloads(function) if inspect.isfunction(function) else ())]
        made = [str(getattr(one, "__annotations__", {}).get("return", "")) for one in signatures]
        if any(one.startswith(("Aggregate[", "Stream[")) or "Operator[" in one for one in made):
            assert name in known, name


def test_every_class_of_the_library_has_the_name_of_a_function() -> None:
    """Its own, or that of a private class above it: that of another class is of another function."""
    for cls in operators():
        if not inspect.isabstract(cls) and not cls.__name__.startswith("_"):
            family = [cls, *(base for base in cls.__mro__ if base.__name__.startswith("_"))]
            own = any(vars(one).keys() & {"_word", "_name"} for one in family)
            inherits = any("_name" in vars(base) for base in cls.__mro__ if base is not SelfDescribing)
            assert own or inherits, cls
            assert cls._word in ("", *ts.__all__), cls


@pytest.mark.parametrize(
    "text",
    [
        "reads ExactSum.nans at line 52 of algebra.py",
        "uses try at line 445",
        "at stdlib/orders.py:31: try:",
        "at /lib/python3/site-packages/tracetypes/stdlib/sums.py:3",
        "calls _json.encode at line 3 of encoder.py",
    ],
)
def test_places_of_the_package_are_known(text: str) -> None:
    assert ours(text) is not None


def broken(row: Row) -> float:
    raise LookupError("no such thing")  # blame: broken


@attrs.frozen
class Breaks(Product):
    def result(self, agg: int) -> float:
        raise LookupError("no such thing")  # blame: Breaks


BROKEN = Guilty(ts.sum(broken), "broken", "sum(of=broken)", "", "broken")
RAISES: dict[str, tuple[Callable[[], Any], str]] = {
    **{
        name: (partial(made, BROKEN.made), f"`broken` in `{name}(sum(of=broken))`")
        for name, made in {**UNORDERED, **ORDERED}.items()
    },
    "map_values": (lambda: ts.map_values(broken), "`broken` in `map_values(function=broken)`"),
    "key_by": (lambda: ts.key_by(by_broken), "`broken` in `key_by(by=by_broken)`"),
    "diff": (lambda: ts.diff(broken), "`broken` in `diff(number=broken)`"),
    "where": (lambda: ts.aggregate(ts.count(where=where_broken)), "`broken` in `aggregate(count(where=where_broken))`"),
    "Breaks": (lambda: ts.running(ts.both(Breaks(), ts.count(), first, to=float)), "`Breaks` in `running(both(a=Breaks))`"),
    "last": (lambda: ts.aggregate(ts.last(broken)), "`broken` in `aggregate(last(by=broken))`"),
}


def by_broken(key: str, row: Row) -> float:
    return broken(row)


def where_broken(row: Row) -> bool:
    return broken(row) > 0


@pytest.mark.parametrize("case", sorted(RAISES))
def test_what_raises_is_named_with_its_operator(case: str) -> None:
    made, who = RAISES[case]
    row = Row(1, 1.0, 1, "a", dt.datetime(2024, 1, 1, tzinfo=dt.UTC))
    edge: Any = O[str, Row] if case in ORDERED or case == "diff" else U[str, Row]
    with pytest.raises(OperatorFailed) as caught:
        ts.preview(made(), edge, [("a", row)], [("b", attrs.evolve(row, ts=2))])
    assert caught.value.message.startswith(f"{who} raised LookupError: no such thing\n    at:       ")
    assert str(caught.value.where) + ": " + caught.value.line == relative() + marked("Breaks" if case == "Breaks" else "broken")
    assert ours(str(caught.value).replace(HERE.name, "")) is None
