"""Spark gives the interpreter's traces, late items and rejects, at every parallelism and however files are cut."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import SparkSession

from examples import home_energy, sensors
from tests.graphs import Announce, Case, Left, OrderHash, Right, RunningSum, Total, cases, modulo_three, own_value
from tests.spark import flows
from tests.spark.flows import Flat, Plug, Rich
from tests.spark.support import defined, differences, often, row
from tests.strategies import Hue, Step
from tracetypes import (
    ROW_POSITION,
    Dataflow,
    ExactSum,
    Item,
    Marker,
    O,
    OperatorFailed,
    OpKeyedUnordered,
    OpStateless,
    Trace,
    U,
    Unit,
    check,
    csv,
    every,
    json_lines,
    merge,
    parquet,
    sort,
)
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import collect, run
from tracetypes.compiler.store.output_trace import Answer
from tracetypes.compiler.store.outputs import open_output
from tracetypes.formats import Format, Layout
from tracetypes.records import UNIT
from tracetypes.trace import Element

DATA = Path(__file__).parents[2] / "../shared/data"
Lines = Mapping[str, Sequence[str]]


def cut(lines: Sequence[str], chance: random.Random) -> tuple[tuple[str, ...], ...]:
    """Lines in files, some of them empty."""
    at = sorted(chance.randint(0, len(lines)) for _ in range(chance.randint(0, 3)))
    return tuple(tuple(lines[a:b]) for a, b in zip([0, *at], [*at, len(lines)], strict=True))


def on_spark(
    spark: SparkSession,
    flow: Dataflow,
    lines: Lines,
    *,
    seed: int = 0,
    parallelism: int = 2,
    key_groups: int = 3,
    drain: bool = True,
) -> Answer:
    """Run lines in files at random."""
    chance = random.Random(seed)
    rows = {name: Rows(cut(some, chance), chance.choice((None, 1, 2))) for name, some in lines.items()}
    planned = plan(check(flow), parallelism=parallelism, key_groups=key_groups)
    return collect(spark, planned, rows, drain=drain).answer


def agree(spark: SparkSession, flow: Dataflow, lines: Lines, **options: Any) -> Trace[Element]:
    """Assert that Spark gives what is defined, and give that."""
    expected = defined(flow, lines, drain=options.get("drain", True))
    answer = on_spark(spark, flow, lines, **options)
    assert differences(flow, answer, expected) == []
    return expected[0]


# --------------------------------------------------------------------------------------------- random graphs


def as_lines(layout: Layout, rows: Iterable[Any]) -> list[str]:
    """Rows of a random graph as JSON; what cannot be written becomes a line that is no row either."""
    made = []
    for one in rows:
        key, value = one if layout.keyed else (UNIT, one)
        try:
            made.append(json.dumps(layout.plain(key, value)))
        except (AttributeError, TypeError, ValueError, KeyError):
            made.append(json.dumps(repr(one)))
    return made


def agrees(spark: SparkSession, case: Case) -> None:
    checked = case.checked
    lines = {source.name: as_lines(checked.layout(source), case.rows[source.name]) for source in checked.graph.sources}
    drain = case.drain or is_straight(plan(checked))  # whose rows do not wait for their markers
    options = {"parallelism": case.parallelism, "key_groups": case.key_groups, "drain": drain, "seed": case.seed}
    agree(spark, case.flow, lines, **options)


# Shrinking would take hours here; tests/test_simulate.py finds the same faults and shrinks.
QUICK = set(Phase) - {Phase.shrink, Phase.explain}


@settings(max_examples=1, phases=QUICK, suppress_health_check=list(HealthCheck))
@given(cases(most_operators=3))
def test_random_graphs(spark: SparkSession, case: Case) -> None:
    agrees(spark, case)


@pytest.mark.nightly
@settings(max_examples=400, phases=QUICK, suppress_health_check=list(HealthCheck))
@given(cases(most_sources=4, most_operators=5))
def test_many_random_graphs(spark: SparkSession, case: Case) -> None:
    agrees(spark, case)


# -------------------------------------------------------------------------------------------------- examples


def hub(count: int, seed: int = 5) -> list[str]:
    """Measurements for examples/sensors.py: out of order within its delay, some beyond it, some that are none."""
    chance = random.Random(seed)
    rows = []
    for n in range(count):
        ts = n // 3 - chance.choice((0, 0, 1, 2, 9, 25))
        rows.append(row(id=f"sensor-{chance.randint(0, 8)}", scalar=chance.randint(-50, 50) / 4, ts=ts))
    rows[7:7] = [row(id="sensor-1", scalar=None, ts=1), "{"]
    return rows


@pytest.mark.parametrize("flow", often([sensors.filled, sensors.largest]), ids=lambda f: str(f.name))
def test_sensors(spark: SparkSession, flow: Dataflow) -> None:
    trace = agree(spark, flow, {"hub": hub(300)}, parallelism=3, key_groups=5, seed=3)
    assert sum(isinstance(one, Item) for one in trace) > 60


def home(tmp_path: Path, seconds: int, plugs: int) -> Path:
    path = tmp_path / "readings.txt"
    home_energy.write(path, seconds, plugs)
    return path


def check_home(spark: SparkSession, path: Path, parallelism: int) -> Trace[Element]:
    checked = check(home_energy.flow)
    answer = collect(spark, plan(checked, parallelism=parallelism), {"readings": str(path)}).answer
    format = home_energy.flow.graph.sources[0].format
    expected = defined(checked, {"readings": path.read_text().splitlines()}, format=format)  # type: ignore[arg-type]
    assert differences(checked, answer, expected) == []
    return expected[0]


@pytest.mark.repeated
def test_home_energy(spark: SparkSession, tmp_path: Path) -> None:
    trace = check_home(spark, home(tmp_path, 45, 40), 3)
    assert sum(isinstance(one, Item) for one in trace) > 150


SMARTGRID = DATA / "lightsaber/smartgrid-data.txt"


@pytest.mark.repeated
@pytest.mark.skipif(not SMARTGRID.exists(), reason="there is no ../shared/data/lightsaber/smartgrid-data.txt")
def test_home_energy_on_real_measurements(spark: SparkSession) -> None:
    trace = check_home(spark, SMARTGRID, 2)
    assert sum(isinstance(one, Marker) for one in trace) == 9 + 1  # blocks, and one of silence for the last windows


# ------------------------------------------------------------------------------------- what another system said


@attrs.frozen
class Metered:
    """A row of the DEBS 2014 samples."""

    id: int
    timestamp: int
    value: float
    property: int
    plug: int
    household: int
    house: int


@attrs.frozen
class House:
    """Load and readings: of the slice, and of all slices so far."""

    watts: float
    readings: int
    all_watts: float
    all_readings: int


Sums = tuple[ExactSum, int]


@attrs.frozen
class Loads(OpKeyedUnordered[int, Metered, int, House, tuple[Sums, Sums], Sums]):
    """Total load of a key, slice by slice."""

    def lift(self, key: int, value: Metered) -> Sums:
        return ExactSum.of(value.value), 1

    def identity(self) -> Sums:
        return ExactSum(), 0

    def combine(self, a: Sums, b: Sums) -> Sums:
        return a[0] + b[0], a[1] + b[1]

    def initial_state(self) -> tuple[Sums, Sums]:
        return self.identity(), self.identity()

    def update_state(self, state: tuple[Sums, Sums], agg: Sums) -> tuple[Sums, Sums]:
        return agg, self.combine(state[1], agg)

    def on_marker(
        self, new_state: tuple[Sums, Sums], key: int, marker: Marker, emit: Callable[[int, House], None]
    ) -> None:
        (now, count), (total, number) = new_state
        emit(key, House(now.value(), count, total.value(), number))


@attrs.frozen
class Rekey(OpStateless[Unit, Metered, int, Metered]):
    """By house (``part`` 100), or by house and plug or household."""

    which: str

    def on_item(self, key: Unit, value: Metered, emit: Callable[[int, Metered], None]) -> None:
        if value.property == 1:
            emit(value.house * 100 + (value.household if self.which == "household" else 0), value)


DEBS = DATA / "debs2014"
RECORDED = DEBS / "flumina_debs_sequential_output.txt"


def recorded() -> dict[int, dict[str, dict[int, tuple[float, int, float, int]]]]:
    """The recorded slices: end (ms) -> level -> key -> watts and readings of the slice, and of all so far."""
    import re

    number, many = r"(-?\d+(?:\.\d+)?)", r"\s*"
    pair = rf"\{{{many}{number},{many}(\d+)\}}"
    per_key = rf"{many}=>{many}\{{{pair},{many}#\{{0{many}=>{many}{pair}\}}\}}"
    slices: dict[int, dict[str, dict[int, tuple[float, int, float, int]]]] = {}
    text = RECORDED.read_text()
    starts = [m.start() for m in re.finditer(r"^\{\d{13},0,", text, re.M)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end]
        levels: dict[str, dict[int, tuple[float, int, float, int]]] = {"house": {}, "household": {}}
        body = part[part.index("#{0 => {{", part.index("},\n #{")) :]
        for key, *cells in re.findall(rf"(?:^|[\s#{{])(\d+){per_key}", body):
            levels["house"][int(key) * 100] = (float(cells[0]), int(cells[1]), float(cells[2]), int(cells[3]))
        for house, below, *cells in re.findall(rf"\{{(\d+),(\d+)\}}{per_key}", body):
            key = int(house) * 100 + int(below)
            levels["household"][key] = (float(cells[0]), int(cells[1]), float(cells[2]), int(cells[3]))
        slices[int(part[1:14])] = levels
    return slices


@pytest.mark.skipif(not RECORDED.exists(), reason="there is no ../shared/data/debs2014")
@pytest.mark.parametrize("level", often(["house", "household"]))
def test_totals_that_another_system_recorded(spark: SparkSession, level: str) -> None:
    """DEBS 2014, loads of two houses: every slice in the recorded output of a sequential Erlang program (Flumina)."""
    slices = recorded()
    assert len(slices) == 2
    assert slices[1377986401500]["house"] == {
        0: (442.88199999999995, 64, 442.88199999999995, 64),
        100: (16.456, 4, 16.456, 4),
    }
    assert [len(one["household"]) for one in slices.values()] == [16, 16]
    flow = Dataflow("debs")
    columns = ["id", "timestamp", "value", "property", "plug", "household", "house"]
    names = ("one", "other")
    sources = [
        flow.source(
            name,
            U[Unit, Metered],
            markers=every(seconds=1, time=lambda m: m.timestamp * 1000 + 500 - 500, unit="ms"),
            format=csv(columns=columns),
        )
        for name in names
    ]
    flow.sink("totals", merge(*sources).through(Rekey(level)).through(Loads()))
    checked = check(flow)
    paths = {name: str(DEBS / f"sample_debs_house_{n}_load.csv") for n, name in enumerate(names)}
    lines = {name: Path(path).read_text().splitlines() for name, path in paths.items()}
    trace, _ = defined(checked, lines, format=csv(columns=columns))
    assert collect(spark, plan(checked, parallelism=2, key_groups=4), paths).answer.trace == trace
    found: dict[int, dict[int, tuple[float, int, float, int]]] = {}
    now: dict[int, tuple[float, int, float, int]] = {}
    for one in trace:
        if isinstance(one, Marker):
            found[one.micros // 1000], now = now, {}
        else:
            now[one.key] = attrs.astuple(one.value)
    for at, (end, levels) in enumerate(sorted(slices.items())):
        mine = found[1377986402000 + 1000 * at]
        assert end == 1377986401500 + 1000 * at
        for key, (watts, readings, all_watts, all_readings) in levels[level].items():
            assert mine[key] == pytest.approx((watts, readings, all_watts, all_readings), abs=1e-9)
        assert mine.keys() == levels[level].keys()


# --------------------------------------------------------------------------------------------------- corners


def banded(*markers: int | None) -> list[str]:
    """Rows of a source with markers in band: a marker for a number, two readings for None."""
    made: list[str] = []
    for at, marker in enumerate(markers):
        if marker is not None:
            made.append(row(id="#", ts=marker, watts=0))
        else:
            made += [row(id="ab"[at % 2], ts=at, watts=at + 1), row(id="c", ts=0, watts=1)]
    return made


@pytest.mark.parametrize("drain", often([True, False]))
def test_markers_in_band(spark: SparkSession, drain: bool) -> None:
    """Empty blocks, markers that do not lie after the last one, an open block at the end."""
    lines = banded(None, 5, 7, None, None, 7, None, 6, 9, None)
    trace = agree(spark, flows.banded(), {"readings": lines}, drain=drain, seed=2)
    assert [one.timestamp for one in trace if isinstance(one, Marker)] == [5, 7, 9, 9][: 4 if drain else 3]


def numbers(*values: int, key: Any = "a") -> list[str]:
    return [row(key=key if value % 3 else "b", value=value) for value in values]


def test_two_sources_of_different_periods(spark: SparkSession) -> None:
    flow = Dataflow("periods")
    one = flow.source("one", U[str, int], markers=every(seconds=4, time=own_value))
    other = flow.source("other", U[str, int], markers=every(seconds=10, delay=3, time=own_value))
    flow.sink("out", merge(one, other).through(Total[str]()))
    lines = {"one": numbers(*range(0, 40, 3)), "other": numbers(*range(1, 60, 7), 2, 90)}
    trace = agree(spark, flow, lines, seed=4)
    ends = [one.timestamp for one in trace if isinstance(one, Marker)]
    assert {4, 8, 10, 12, 20, 40, 100} <= set(ends)
    trace = agree(spark, flow, lines, seed=5, drain=False)
    assert max(one.timestamp for one in trace if isinstance(one, Marker)) == 36


@pytest.mark.parametrize("by", often([ROW_POSITION, lambda r: -r.watts]), ids=["row position", "a function"])
def test_an_ordered_source(spark: SparkSession, by: Any) -> None:
    lines = [row(id="abc"[n % 3], ts=n // 9, watts=n * 37 % 50) for n in range(200)]
    flow = flows.ordered(by)
    expected = defined(flow, {"readings": lines})
    assert differences(flow, on_spark(spark, flow, {"readings": lines}, parallelism=3, seed=1), expected) == []
    shuffled = random.Random(1).sample(lines[:90], 90) + lines[90:]
    assert (defined(flow, {"readings": shuffled})[0] == expected[0]) is (by is not ROW_POSITION)


def merged_ordered(keys: tuple[Any, Any]) -> Dataflow:
    flow = Dataflow("merged")
    one = flow.source("one", O[keys[0], int], markers=TEN, ordered_by=ROW_POSITION)  # type: ignore[valid-type]
    other = flow.source("other", O[keys[1], int], markers=TEN, ordered_by=ROW_POSITION)  # type: ignore[valid-type]
    flow.sink("out", merge(one, other).through(OrderHash()))
    return flow


TEN = every(seconds=10, time=own_value)


def test_merge_of_ordered_streams(spark: SparkSession) -> None:
    one = [row(key={"id": v % 2}, value=v) for v in (3, 1, 9, 5, 14, 12, 13, 28)]
    agree(spark, merged_ordered((Left, Right)), {"one": one, "other": one[::-1] + one}, parallelism=3)


@pytest.mark.repeated
def test_merge_of_ordered_streams_with_a_common_key(spark: SparkSession) -> None:
    one = [row(key=f"one-{v % 2}", value=v) for v in (3, 1, 9, 5)]
    other = [row(key=f"other-{v % 2}", value=v) for v in (3, 1, 9, 5)]
    flow = merged_ordered((str, str))
    agree(spark, flow, {"one": one, "other": other})
    for overlapping in (defined, lambda flow, lines: on_spark(spark, flow, lines)):
        with pytest.raises(OperatorFailed, match="'one-1' comes from two ordered inputs"):
            overlapping(flow, {"one": one, "other": [*other, one[0]]})


@pytest.mark.repeated
def test_stateless_operators_speak_once_a_marker(spark: SparkSession) -> None:
    """Before a stage, after it, behind a merge, and without any keyed operator."""
    say = ("a", "new", "z")
    both = Dataflow("speaking")
    one = both.source("one", U[str, int], markers=TEN).through(Announce(say))
    other = both.source("other", U[str, int], markers=every(seconds=5, time=own_value))
    merged = merge(one, other).through(Announce(("m",)))
    both.sink("out", merged.through(Total[str]()).through(Announce(say)))
    lines = {"one": numbers(*range(0, 60, 4)), "other": numbers(*range(1, 35, 3))}
    agree(spark, both, lines, parallelism=4, key_groups=4)
    only = Dataflow("only")
    only.sink("out", only.source("one", U[str, int], markers=TEN).through(Announce(say)))
    trace = agree(spark, only, {"one": lines["one"]}, parallelism=4, key_groups=4)
    spoken = Counter(one.key for one in trace if isinstance(one, Item) and one.key in ("new", "z"))
    assert spoken == {"new": 6, "z": 6}


@pytest.mark.repeated
@pytest.mark.parametrize("drain", often([True, False]))
def test_three_keyed_stages(spark: SparkSession, drain: bool) -> None:
    flow = Dataflow("stages")
    rows = flow.source("one", U[str, int], markers=TEN)
    first = rows.through(sort(by=modulo_three)).through(RunningSum[str]())
    second = first.through(ByLast()).through(sort(by=lambda v: -v)).through(OrderHash[int]())
    flow.sink("out", second.through(ByLast()).through(Total[int]()))
    planned = plan(check(flow), parallelism=2, key_groups=3)
    assert len(planned.stages) == 3
    lines = numbers(*(n * 7 % 90 // 3 + n // 4 for n in range(120)))
    trace = agree(spark, flow, {"one": lines}, drain=drain, seed=6)
    assert sum(isinstance(one, Item) for one in trace) > 10


@attrs.frozen
class ByLast(OpStateless[Any, int, int, int]):
    """Rekey."""

    def on_item(self, key: Any, value: int, emit: Callable[[int, int], None]) -> None:
        emit(value % 5, value)


# ------------------------------------------------------------------------------------------- formats, there and back

MOMENT = dt.datetime(2013, 9, 1, 1, 2, 3, 456789, dt.UTC)
DAY = dt.date(2013, 9, 1)
FLATS = [
    Flat(MOMENT, DAY, "a", True, 1.5, None),
    Flat(MOMENT, DAY, "", False, -0.0, 0),
    Flat(MOMENT + dt.timedelta(microseconds=1), dt.date(1, 1, 1), ' "quoted", \\ é ', False, 1e300, -(2**63)),
    Flat(MOMENT, dt.date(9999, 12, 31), "true", True, float("inf"), 2**63 - 1),
    Flat(MOMENT, DAY, "\\", True, 5e-324, 1),
    Flat(MOMENT, DAY, "a\\\"b\t'", True, 0.1 + 0.2, 1),
    Flat(MOMENT, DAY, "NaN", True, float("-inf"), 1),
    Flat(MOMENT, DAY, "#x", True, float("nan"), 1),
    Flat(dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC), DAY, "-", True, 1.0, 1),
]
DIGITS = Decimal(f"0.{'12' * 19}")
FLATS = [
    attrs.evolve(
        one,
        size=(0, 2**63, 2**64 - 1)[at % 3],
        money=Decimal(("0.00", "-0.01", "9999999999999999.99", "-1E+3")[at % 4]),
        wide=(None, DIGITS, -DIGITS)[at % 3],
        side=("left", "right")[at % 2],
        number=(1, None, -2)[at % 3],
        hue=list(Hue)[at % 3],
        step=list(Step)[at % 3],
    )
    for at, one in enumerate(FLATS)
]
RICHES = [
    Rich(
        ts=one.ts,
        day=one.day,
        name=one.name,
        flag=one.flag,
        amount=one.amount,
        raw=bytes([0, 255, at]),
        maybe=one.maybe,
        note=(None, "", 'a\nb\r\n"c"', "\x00\u2028")[at % 4],
        inner=Plug(None if at % 2 else "x", at, one.amount),
        inners=[Plug("y", 1, 2.0), None][: at % 3],
        numbers=(1, 2)[: at % 3],
        flat=None if at % 2 else one,
        prices=[one.money, Decimal("0.10")][: at % 3],
        hues=tuple(Hue)[at % 4 :],
    )
    for at, one in enumerate(FLATS)
]


def keyed(record: Any, format: Format | None, sink: Format | None) -> Dataflow:
    """A flow that only copies: rows with a key column in, and out."""
    flow = Dataflow("copy")
    markers = every(seconds=10**9, time=flows.ts_of)
    flow.sink("out", flow.source("rows", U[str, record], markers=markers, format=format), format=sink)
    return flow


@pytest.mark.parametrize("format", often([json_lines(), parquet(), csv(), csv(separator="\t"), csv(separator=";")], 2), ids=str)
def test_what_a_sink_wrote_a_source_reads_back(spark: SparkSession, tmp_path: Path, format: Format) -> None:
    flat = isinstance(format, type(csv()))
    record: Any = Flat if flat else Rich
    values: Sequence[Any] = FLATS if flat else RICHES
    first, again = (check(keyed(record, given, format)) for given in (json_lines(), format))
    layout = first.layout(first.graph.sources[0])
    lines = [json.dumps(layout.plain(f"k{at}", value)) for at, value in enumerate(values)]
    trace, arranged = defined(first, {"rows": lines})
    assert arranged["rows"].rejects == ()
    planned = plan(first, key_groups=2)
    directory = str(tmp_path / "out")
    rows = Rows((tuple(lines),))
    run(spark, planned, {"rows": rows}, open_output(planned, directory, "run"), checkpoint=str(tmp_path / "c"))
    back = collect(spark, plan(again, key_groups=2), {"rows": directory}).answer
    assert (back.rejects, back.late) == ([], [])
    assert back.trace == trace


@pytest.mark.parametrize("format", often([json_lines(), parquet(), csv()]), ids=str)
def test_units(spark: SparkSession, tmp_path: Path, format: Format) -> None:
    """Values that are Unit can be written and read too."""
    write, read = Dataflow("write"), Dataflow("read")
    rows = write.source("rows", U[str, int], markers=TEN)
    write.sink("out", rows.through(Nothing()), format=format)
    read.sink("out", read.source("rows", U[str, Unit], markers=every(seconds=1, time=lambda v: 0), format=format))
    planned = plan(check(write), key_groups=2)
    out, given = str(tmp_path / "out"), Rows((tuple(numbers(1, 2, 30)),))
    run(spark, planned, {"rows": given}, open_output(planned, out, "x"), checkpoint=str(tmp_path / "c"))
    answer = collect(spark, plan(check(read), key_groups=2), {"rows": out}).answer
    assert Counter(one.key for one in answer.trace if isinstance(one, Item)) == {"a": 2, "b": 1}


@attrs.frozen
class Nothing(OpStateless[str, int, str, Unit]):
    """Values that say nothing."""

    def on_item(self, key: str, value: int, emit: Callable[[str, Unit], None]) -> None:
        emit(key, UNIT)
