"""What gates save and cost, in numbers and in pictures."""

import json
import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from tracetypes import (
    Dataflow,
    EmitValue,
    OpKeyedOrdered,
    Shadow,
    U,
    UsageError,
    check,
    every,
    shadow,
    sweep_figures,
)
from tracetypes.compiler.gates.reports import Decisions, ShadowReport, agreement, pearson
from tracetypes.forests import Forest
from tracetypes.gate_check import digest
from tracetypes.gates import Bound, adaptive, sequence, value
from tracetypes.impacts import magnitude, root_mean_square
from tracetypes.learned_gates import Model, Subject, learned


@attrs.frozen
class Level:
    sensor: int
    hour: int
    level: float


@attrs.frozen
class Twice(OpKeyedOrdered[int, Level, float, None]):
    def initial_state(self) -> None:
        return None

    def on_item(self, state: None, key: int, value: Level, emit: EmitValue[float]) -> None:
        emit(2 * value.level)


@attrs.frozen
class Copy(OpKeyedOrdered[int, float, float, None]):
    def initial_state(self) -> None:
        return None

    def on_item(self, state: None, key: int, value: float, emit: EmitValue[float]) -> None:
        emit(value)


def flow(bound: Bound, behind: Bound | None = None) -> Dataflow:
    """Doubles levels; with a bound ``behind`` they are copied behind a second gate."""
    graph = Dataflow("twice")
    levels = graph.source("in", U[int, Level], key=lambda one: one.sensor, markers=every(seconds=1, time=lambda one: one.hour))
    twice = levels.latest(bound, latest_by=lambda one: one.hour, name="twice").through(Twice())
    graph.sink("out", twice if behind is None else twice.gate(behind, name="copy").through(Copy()), marker="at")
    return graph


def stump(*thresholds: float, errors: tuple[float, ...], names: tuple[str, ...] = ("twice", "copy")) -> Model:
    """A model that lets a step run where its impact is above a threshold: a tree for each step."""
    steps = len(thresholds)
    own = tuple((n,) for n in range(steps))
    forests = tuple(
        Forest(1, (0,), (0, -1, -1), (threshold, 0.0, 0.0), (1, -1, -1), (2, -1, -1), ((0.0,), (0.0,), (1.0,)))
        for threshold in thresholds
    )
    gates = [learned(name, error=error) for name, error in zip(names, errors, strict=False)][:steps]
    graph = digest(check(flow(*gates)).graph)
    return Model(Subject(graph, names[:steps], errors, own, own, ((),) * steps), forests, ((0.5,),) * steps, 1)


def rows(levels: list[float]) -> list[Level]:
    return [Level(7, hour, level) for hour, level in enumerate(levels)]


def bound(name: str, error: float, model: Model, **more: Any) -> Bound:
    return learned(name, error=error, columns="level" if name == "twice" else (), impact=magnitude(float),
                   variation=root_mean_square(float), model=model, **more)


@pytest.mark.parametrize("accumulates", [False, True])
def test_a_learned_gate_by_hand(accumulates: bool) -> None:
    """One number. The gate opens when the level is more than 3 off; its output is wrong by more than 5 when it is 2.5 off."""
    levels = [10.0, 11.0, 13.0, 12.0, 14.0, 11.0, 17.0, 17.0]
    found = shadow(flow(bound("twice", 5.0, stump(3.0, errors=(5.0,)), accumulates=accumulates)), {"in": rows(levels)})
    one = found["twice"]
    assert one.decisions is not None
    then = levels[0]
    impacts, stale, ran, errors = [levels[0]], [2 * levels[0]], [True], [0.0]
    sums = 0.0
    for before, now in pairwise(levels):
        sums += abs(now - before)
        impacts.append(sums if accumulates else abs(now - then))
        stale.append(2 * impacts[-1])
        ran.append(impacts[-1] > 3 or len(ran) == len(levels) - 1)
        errors.append(0.0 if ran[-1] else 2 * abs(now - then))
        if ran[-1]:
            then, sums = now, 0.0
    assert list(one.decisions.impacts) == impacts
    assert list(one.decisions.stale) == pytest.approx(stale)
    assert list(one.ran) == ran
    assert list(one.errors) == pytest.approx(errors)
    assert one.decisions.needed == tuple(error > 5 for error in one.decisions.stale)
    needed = [error > 5 for error in stale]
    both = sum(a and b for a, b in zip(ran, needed, strict=True))
    assert one.agreement is not None
    assert one.agreement.precision == both / sum(ran)
    assert one.agreement.recall == both / sum(needed)
    assert (one.missed, one.spare) == (sum(needed) - both, sum(ran) - both)
    assert one.missed + one.spare > 0
    assert one.predicted == tuple(0.0 if runs else error for runs, error in zip(one.ran, one.decisions.stale, strict=True))
    if not accumulates:
        assert one.deviations == pytest.approx([0.0] * len(levels))
    assert one.decisions.correlation == pytest.approx(1)
    assert found.times == tuple(1_000_000 * (hour + 1) for hour in range(len(levels)))


def test_a_gate_behind_a_gate_is_needed_through_it_and_asked_only_where_a_marker_comes() -> None:
    model = stump(3.0, 1.0, errors=(5.0, 1.0))
    first, second = bound("twice", 5.0, model), bound("copy", 1.0, model)
    found = shadow(flow(first, second), {"in": rows([10.0, 11.0, 12.0, 15.0, 15.0])})
    one, other = found["twice"], found["copy"]
    assert one.ran == other.came == (True, False, False, True, True)
    assert (other.ungated, other.markers, other.executions) == (5, 3, sum(other.ran))
    assert other.saved == 1 - sum(other.ran) / 5
    assert one.decisions is not None
    assert other.decisions is not None
    assert one.decisions.stale[1] == 2.0  # within its own bound, but the step behind it would be off by more than 1
    assert one.decisions.needed[1]
    assert not other.decisions.needed[1]  # nothing came to it
    assert other.errors[1] == 2.0
    assert other.deviations[1] == 0.0


def test_shares_of_decisions() -> None:
    found = agreement([True, True, False, False, True], [True, False, True, False, True])
    assert (found.accuracy, found.precision, found.recall) == (3 / 5, 2 / 3, 2 / 3)
    assert attrs.astuple(agreement([], [])) == (1.0, 1.0, 1.0)
    assert attrs.astuple(agreement([False], [True])) == (0.0, 1.0, 0.0)
    assert pearson([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert math.isnan(pearson([1, 1], [1, 2]))
    assert math.isnan(pearson([], []))


def noisy(markers: int = 80) -> list[Level]:
    chance = random.Random(3)
    return [
        Level(sensor, hour, 50 + 20 * math.sin(hour / 6 + sensor) + chance.gauss(0, 2))
        for hour in range(markers)
        for sensor in range(4)
    ]


def test_a_table_and_json() -> None:
    model = stump(120.0, 240.0, errors=(12.0, 12.0))
    found = shadow(flow(bound("twice", 12.0, model), bound("copy", 12.0, model)), {"in": noisy()})
    saved, learns = (part.splitlines() for part in str(found).split("\n\n"))
    assert [line.split()[0] for line in saved] == ["ungated", "twice", "copy", "sink"]
    assert [line.split()[0] for line in learns] == ["bound", "twice", "copy"]
    assert all(len(line) <= 110 for line in (*saved, *learns))
    plain = json.loads(found.json())
    assert plain["markers"] == [1_000_000 * (hour + 1) for hour in range(80)]
    twice, _, sink = plain["reports"]
    assert len(twice["errors"]) == len(twice["impacts"]) == len(twice["needed"]) == 80
    assert twice["recall"] == found["twice"].agreement.recall  # type: ignore[union-attr]
    assert "recall" not in sink
    with pytest.raises(KeyError, match="there are twice, copy, sink out"):
        found["other"]


def test_numbers_that_are_none_are_null() -> None:
    no = Decisions((math.inf,), (math.nan,), (True,), math.nan)
    one = ShadowReport("one", (True,), (True,), (False,), (math.inf,), 0.1, no)
    plain = json.loads(Shadow((one,), (0,)).json())["reports"][0]
    assert (plain["errors"], plain["impacts"], plain["stale"], plain["correlation"]) == ([None], [None], [None], None)
    assert "nan" not in str(Shadow((one,))).split()


def test_a_gate_that_looks_at_the_load_is_refused() -> None:
    """Also where gates learn: a replay knows nothing of the machine."""
    loaded = flow(adaptive(sequence(2), sequence(9), frame=10))
    with pytest.raises(UsageError, match=r"(?s)TT402.*looks at the load of the machine.*load=False"):
        shadow(loaded, {"in": rows([1.0])})
    assert shadow(flow(adaptive(sequence(2), sequence(9), frame=10, load=False)), {"in": rows([1.0])})["twice"].executions == 1


# ----------------------------------------------------------------------------------------------------- inputs


LINES = [f'{{"sensor": {one.sensor}, "hour": {one.hour}, "level": {one.level}}}\n' for one in noisy(12)]


def test_files_are_read_as_the_run_reads_them(tmp_path: Path) -> None:
    """By name, with numbers as numbers; rejects and blank lines are no items. CSV, gzip and Parquet alike."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    import gzip

    whole = shadow(flow(sequence(9)), {"in": noisy(12)})
    lines, more, columns = tmp_path / "lines", tmp_path / "more", tmp_path / "columns"
    for folder in (lines, more, columns):
        folder.mkdir()
    (lines / "part-10.jsonl").write_text("".join(LINES[20:]) + "no row\n\n")
    (lines / "part-9.jsonl").write_text("".join(LINES[:20]))
    with gzip.open(more / "one.csv.gz", "wt") as file:
        file.write("sensor,hour,level\n" + "".join(f"{one.sensor},{one.hour},{one.level}\n" for one in noisy(12)))
    pq.write_table(pa.Table.from_pylist([attrs.asdict(one) for one in noisy(12)]), columns / "one.parquet", row_group_size=7)
    for folder in (lines, more, columns):
        assert shadow(flow(sequence(9)), {"in": folder}) == whole
    assert shadow(flow(sequence(9)), {"in": lines}, order={"in": "modified"}) != whole  # part-10 is older: the rest is late


def test_inputs_that_cannot_be_read_twice(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    gated = flow(sequence(9))
    for one, shown in (
        ("kafka://nobody:9092/topic", "kafka://"),
        ("tcp://127.0.0.1:9", "tcp://"),
        ("mqtt://nobody/topic", "mqtt://"),
        ("-", "-"),
        ("delta:table", "delta:"),
        (iter(noisy(2)), "list_iterator"),
    ):
        given: Any = one
        with pytest.raises(UsageError, match=rf"(?s)TT402.*source 'in' reads .*{shown}"):
            shadow(gated, {"in": given})
    with pytest.raises(UsageError, match="TT402 there is no source 'other'"):
        shadow(gated, {"in": [], "other": []})
    with pytest.raises(UsageError, match="TT402 source 'in' has no input"):
        shadow(gated, {})


# ---------------------------------------------------------------------------------------------------- pictures


def painted(path: Path, colour: str) -> int:
    """How many pixels of a picture have a colour."""
    image, colours = pytest.importorskip("matplotlib.image").imread(path), pytest.importorskip("matplotlib.colors")
    return int((abs(image[..., :3] - colours.to_rgb(colour)).max(axis=2) < 0.01).sum())


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    model = stump(120.0, 240.0, errors=(12.0, 12.0))
    found = shadow(flow(bound("twice", 12.0, model), bound("copy", 12.0, model)), {"in": noisy()})
    paths = found.figures(tmp_path / "new" / "figures")
    learned = ["confidence.png", "decisions.png", "deviations.png", "impacts.png"]
    assert [path.name for path in paths] == ["errors.png", "executions.png", *learned]
    blue, red, dark = "#0072b2", "#c8102e", "#2f6b3a"
    colours = {"errors.png": (blue, red), "decisions.png": (red, dark)}
    for path in paths:
        for colour in colours.get(path.name, (blue,)):
            # where dots are half transparent their colour is not pure
            assert path.name == "impacts.png" or painted(path, colour) > 50, (path.name, colour)
        assert painted(path, "black") > 500
    plain = {items: shadow(flow(sequence(items)), {"in": noisy()}) for items in (9, 30)}
    paths = plain[9].figures(tmp_path)
    assert [path.name for path in paths] == ["errors.png", "executions.png"]
    both = sweep_figures(plain, tmp_path, label="items")
    assert [path.name for path in both] == ["executions_by_bound.png", "errors_by_bound.png"]
    assert all(painted(path, blue) > 500 for path in both)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"TT402 pictures cannot be written to .*file"):
        plain[9].figures(tmp_path / "file")
    with pytest.raises(UsageError, match="TT402 there is no shadow to draw"):
        sweep_figures({}, tmp_path)
    with pytest.raises(UsageError, match="TT402 the shadows have no gate in common"):
        sweep_figures({1: Shadow(()), 2: plain[9]}, tmp_path)


def test_pictures_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.delitem(sys.modules, "tracetypes.compiler.gates.figures", raising=False)
    found = shadow(flow(sequence(9)), {"in": noisy(3)})
    with pytest.raises(UsageError, match=r"(?s)TT401 pictures need matplotlib.*tracetypes\[plots\]"):
        found.figures(tmp_path)


# ------------------------------------------------------------------------------------------------------- pages


@pytest.mark.nightly
def test_the_table_of_the_page() -> None:
    """docs/gates.md shows what is really printed."""
    from examples import air_quality, air_quality_data

    readings = [air_quality.Reading(**row) for row in air_quality_data.table(side=10).to_pylist()]
    gates = air_quality.Bounds(c=sequence(percent=80), f=value(percent=20, columns="level"))
    found = str(shadow(air_quality.flow(gates, side=10), {"readings": readings}))
    assert found in (Path(__file__).parents[2] / "docs" / "gates.md").read_text(encoding="utf-8")
