"""Fire risk of a forest: the definition and the local backend against a recount by numpy, with and without gates."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import tracetypes
from examples import forest_fire, forest_fire_data
from examples.air_quality import Cell
from examples.forest_fire import (
    HIGH,
    HOT,
    SIDE,
    Area,
    Bounds,
    Forest,
    Overview,
    Place,
    Reading,
    Sensor,
    Weather,
    groups,
)
from examples.forest_fire_data import PERIOD, fires_of
from tests.stdlib.small import by_marker
from tracetypes import UNIT, check, interpret_rows
from tracetypes.gates import sequence, time, value
from tracetypes.testing import law_tests

np: Any = pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

SMALL: dict[str, Any] = {"side": 10, "waves": 20, "fires": 2, "seed": 3}
COLUMNS = ["temperature", "precipitation", "wind"]


@cache
def burning() -> dict[Cell, int]:
    """The areas that burn."""
    return {Cell(fire.x // SIDE, fire.y // SIDE): fire.wave for fire in fires_of(**SMALL)}


def rows() -> list[Reading]:
    return [Reading(**row) for row in forest_fire_data.table(**SMALL).to_pylist()]


UNGATED = Bounds()


def flow(bounds: Bounds = UNGATED) -> Any:
    return forest_fire.flow(bounds, SMALL["side"], burning())


def traces(graph: Any) -> dict[str, Any]:
    found, arranged = interpret_rows(check(graph), {"readings": rows()})
    assert not any(one.late or one.rejects for one in arranged.values())
    return found


def by_wave(trace: Any) -> dict[int, dict[Any, Any]]:
    """The results of each wave that has some, by key."""
    found: dict[int, dict[Any, Any]] = {}
    for (at, key), values in by_marker(trace.items).items():
        assert len(values) == 1
        found.setdefault(at // PERIOD - 1, {})[key] = values[0]
    return found


def recount() -> dict[int, tuple[float, Forest, set[Cell]]]:
    """Of each wave the average of the map, the forest, and the areas to which somebody is sent."""
    frame = forest_fire_data.table(**SMALL).to_pandas()
    frame["wave"] = frame["second"] // PERIOD
    side, found = SMALL["side"], {}
    for wave, part in frame.groupby(["wave", "y", "x"])[COLUMNS].mean().groupby(level="wave"):
        grids = {name: part[name].to_numpy().reshape(side, side) for name in COLUMNS}
        warm = np.minimum(2 * grids["temperature"], 100)
        chart = (warm[:-1, :-1] + warm[1:, :-1] + warm[:-1, 1:] + warm[1:, 1:]).mean() / 4
        areas = {name: grid.reshape(side // SIDE, SIDE, side // SIDE, SIDE).mean(axis=(1, 3)) for name, grid in grids.items()}
        risks = np.clip(2 * (areas["temperature"] - 15) + areas["wind"] - 10 * areas["precipitation"], 0, 100)
        sizes = sizes_of(risks >= HIGH)
        sent = {Cell(int(x), int(y)) for y, x in np.argwhere(areas["temperature"] >= HOT)} & set(burning())
        found[int(wave)] = (float(chart), Forest(float(risks.mean()), len(sizes), max(sizes, default=0)), sent)
    return found


def sizes_of(high: Any) -> list[int]:
    """Sizes of groups: each cell takes the smallest number of its group until nothing changes."""
    label = np.where(high, np.arange(1, high.size + 1).reshape(high.shape), 0)
    for _ in range(high.size):
        around = np.pad(label, 1)
        for dy, dx in ((0, 1), (2, 1), (1, 0), (1, 2)):
            other = around[dy : dy + high.shape[0], dx : dx + high.shape[1]]
            label = np.where((label > 0) & (other > 0), np.minimum(label, other), label)
    return [int(one) for one in np.unique(label[label > 0], return_counts=True)[1]]


def same(one: Any, other: Forest) -> bool:
    return bool(one.risk == pytest.approx(other.risk, rel=1e-9) and (one.groups, one.largest) == (other.groups, other.largest))


def test_each_wave_is_what_numpy_computes() -> None:
    found = {name: by_wave(trace) for name, trace in traces(flow()).items()}
    expected = recount()
    assert set(found["forest"]) == set(found["thermal"]) == set(expected) == set(range(SMALL["waves"]))
    for wave, (chart, forest, sent) in expected.items():
        assert found["thermal"][wave][UNIT].average == pytest.approx(chart, rel=1e-9)
        assert same(found["forest"][wave][UNIT], forest)
        orders = found["orders"].get(wave, {})
        assert set(orders) == sent
        assert all(one.fire == burning()[area] for area, one in orders.items())
    assert 0 < sum(len(sent) for _, _, sent in expected.values()) < SMALL["waves"] * 2
    assert len({forest.largest for _, forest, _ in expected.values()}) > 1


def test_behind_a_gate_a_step_sees_the_weather_of_its_execution() -> None:
    """All sensors report at each wave, so three reports of each are three waves."""
    bounds = Bounds(areas=sequence(3 * SMALL["side"] ** 2), thermal=time(5 * PERIOD))
    found = {name: by_wave(trace) for name, trace in traces(flow(bounds)).items()}
    last = SMALL["waves"] - 1
    assert sorted(found["forest"]) == sorted({*range(2, last, 3), last})
    assert sorted(found["thermal"]) == sorted({*range(0, last, 5), last})
    for wave, (chart, forest, sent) in recount().items():
        if wave in found["forest"]:
            assert same(found["forest"][wave][UNIT], forest)
            assert set(found["orders"].get(wave, {})) == sent
        if wave in found["thermal"]:
            assert found["thermal"][wave][UNIT].average == pytest.approx(chart, rel=1e-9)


ALL = Bounds(
    areas=value(percent=2, columns="temperature"),
    thermal=value(units=1, columns="temperature"),
    risks=value(units=0.5, columns="temperature") | time(4 * PERIOD),
    forest=value(units=3, columns="level"),
)


@pytest.mark.parametrize("bounds", [pytest.param(UNGATED, marks=pytest.mark.nightly), ALL], ids=["ungated", "gated"])
def test_the_local_backend_gives_the_definition(tmp_path: Path, bounds: Bounds) -> None:
    forest_fire_data.write(tmp_path, files=3, **SMALL)
    expected = traces(flow(bounds))
    outputs: dict[str, list[Any]] = {name: [] for name in expected}
    inputs = {"readings": str(tmp_path)}
    tracetypes.run(flow(bounds), inputs=inputs, outputs=outputs, backend="local", parallelism=2, key_groups=4)
    for name, trace in expected.items():
        items = [one for one in trace.items if hasattr(one, "value")]
        shown = [(one.key, one.value) if name == "orders" else one.value for one in items]
        assert sorted(map(repr, outputs[name])) == sorted(map(repr, shown)), name
        assert len(shown) > 0
        assert bounds == UNGATED or name == "orders" or len(shown) < SMALL["waves"]


def test_a_sensor_that_is_silent_counts_with_its_last_weather() -> None:
    op, at = Area(), Cell(0, 0)
    emitted: list[Weather] = []
    state = op.on_item(
        op.initial_state(), at, [Sensor(0, 0, Weather(20.0, 1.0, 4.0)), Sensor(1, 0, Weather(30.0, 3.0, 8.0))], emitted.append
    )
    op.on_item(state, at, [Sensor(0, 0, Weather(40.0, 1.0, 4.0))], emitted.append)
    assert emitted == [Weather(25.0, 2.0, 6.0), Weather(35.0, 2.0, 6.0)]


def test_groups_lie_side_by_side() -> None:
    assert sorted(groups([(0, 0), (0, 1), (1, 1), (2, 2), (5, 5), (5, 6)])) == [1, 2, 3]
    assert groups([]) == []
    assert sorted(sizes_of(np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]], bool))) == [1, 1, 3]


def test_weather_goes_with_the_day_and_fires_are_hot() -> None:
    frame = forest_fire_data.table(side=6, fires=0).to_pandas()
    by_hour = frame.groupby(frame["second"] // 3_600 % 24)[COLUMNS].mean()
    assert by_hour["temperature"].idxmax() in (13, 14)
    assert by_hour["precipitation"].idxmax() in (16, 17)
    assert by_hour["temperature"].max() - by_hour["temperature"].min() > 8
    assert frame["temperature"].max() < HOT
    burnt = forest_fire_data.table(**SMALL).to_pandas()
    for fire in fires_of(**SMALL):
        at = burnt[(burnt["x"] == fire.x) & (burnt["y"] == fire.y)]
        assert at[at["second"] >= fire.wave * PERIOD]["temperature"].min() > 80
    assert rows() == rows()


WEATHERS = st.builds(Weather, *[st.floats(-20, 100)] * 3)
SENSORS = st.lists(st.builds(Sensor, st.integers(0, 2), st.integers(0, 2), WEATHERS), min_size=1, max_size=3)
test_laws_of_areas = law_tests(Area(), items=st.tuples(st.builds(Cell, st.just(0), st.integers(0, 1)), SENSORS), max_examples=20)
PLACES = st.lists(st.builds(Place, st.integers(0, 2), st.integers(0, 2), st.floats(0, 100)), min_size=1, max_size=3)
test_laws_of_the_forest = law_tests(Overview(), items=st.tuples(st.just(UNIT), PLACES), max_examples=20)
