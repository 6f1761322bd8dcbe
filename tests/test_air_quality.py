"""Air quality: the definition and the local backend against a recount by numpy, with and without gates, and the generator."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import tracetypes
from examples import air_quality, air_quality_data
from examples.air_quality import (
    HOUR,
    REACH,
    REFERENCE,
    Bounds,
    Changes,
    HotSpots,
    Map,
    Rating,
    Reading,
    Spot,
    learned_bounds,
)
from tests.stdlib.small import by_marker
from tracetypes import UNIT, check, interpret_rows
from tracetypes.gates import sequence, time, value
from tracetypes.impacts import variation
from tracetypes.testing import law_tests

np: Any = pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

SIDE, WAVES = 8, 16


def rows(tendency: Any, seed: int = 1, *, side: int = SIDE, waves: int = WAVES) -> list[Reading]:
    table = air_quality_data.table(side=side, waves=waves, tendency=tendency, seed=seed)
    return [Reading(**row) for row in table.to_pylist()]


class City:
    """All steps by numpy, each of the whole square, from the last reading of each detector."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.levels = np.full((side, side), np.nan)

    def read(self, readings: list[Reading]) -> None:
        for one in readings:
            sensors = [max(sensor, 0.01) for sensor in (one.ozone, one.dust, one.dioxide)]
            self.levels[one.y, one.x] = np.exp(np.mean(np.log(sensors)))

    def zones(self) -> Any:
        padded = np.pad(np.log(self.levels), REACH, constant_values=np.nan)
        around = np.lib.stride_tricks.sliding_window_view(padded, (2 * REACH + 1, 2 * REACH + 1))
        return np.exp(np.nanmean(around, axis=(2, 3)))

    def chart(self) -> float:
        between = self.levels[:-1, :-1] + self.levels[1:, :-1] + self.levels[:-1, 1:] + self.levels[1:, 1:]
        return float(between.mean() / 4)


def hot(zones: Any) -> Any:
    """Of the zones the hot spots, 0 for others."""
    return np.where(zones >= REFERENCE, zones, 0.0)


def index(hot: Any) -> float:
    number = np.count_nonzero(hot)
    return float(1 + 5 * number / hot.size + 5 * (hot.sum() / number if number else 0.0) / 100)


def states(trace: Any, side: int) -> dict[int, Any]:
    """The zones after each block of hot spots that says something, by its wave."""
    found, zones = {}, np.zeros((side, side))
    blocks: dict[int, dict[Any, float]] = {}
    for (at, cell), levels in by_marker(trace.items).items():
        blocks.setdefault(at, {})[cell] = levels[-1].level
    for at in sorted(blocks):
        for cell, level in blocks[at].items():
            zones[cell.y, cell.x] = level
        found[at // HOUR - 1] = zones.copy()
    return found


def single(trace: Any) -> dict[int, Any]:
    """The result of each wave that has one."""
    return {at // HOUR - 1: values[-1] for (at, _), values in by_marker(trace.items).items()}


def last_of(results: Mapping[int, Any], wave: int) -> Any:
    """The newest result up to a wave."""
    return results[max(at for at in results if at <= wave)]


def traces(graph: Any, readings: list[Reading]) -> dict[str, Any]:
    found, arranged = interpret_rows(check(graph), {"readings": readings})
    assert not any(one.late or one.rejects for one in arranged.values())
    return found


TENDENCIES = ["rising", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("falling", "uniform"))]


@pytest.mark.parametrize("tendency", TENDENCIES)
def test_each_wave_is_what_numpy_computes(tendency: Any) -> None:
    readings = rows(tendency)
    found = traces(air_quality.flow(side=SIDE), readings)
    city, spots, charts, indices = City(SIDE), states(found["hot_spots"], SIDE), single(found["chart"]), single(found["index"])
    seen = set()
    for wave in range(WAVES):
        city.read([one for one in readings if one.hour == wave])
        expected = hot(city.zones())
        if spots and wave >= min(spots):
            np.testing.assert_allclose(last_of(spots, wave), expected, rtol=1e-9)
            assert last_of(indices, wave) == pytest.approx(index(expected), rel=1e-9)
        else:
            assert not expected.any()
        assert last_of(charts, wave).average == pytest.approx(city.chart(), rel=1e-9)
        seen.add(round(index(expected), 2))
    assert len(seen) > 2, "the index changes"


def executions(readings: list[Reading], percent: float) -> list[int]:
    """The waves at which so many percent of the detectors have reported since the last one, and the last wave."""
    waves, changed = [], set()
    for wave in range(WAVES):
        changed |= {(one.x, one.y) for one in readings if one.hour == wave}
        if 100 * len(changed) >= percent * SIDE**2 or wave == WAVES - 1:
            waves.append(wave)
            changed = set()
    return waves


@pytest.mark.parametrize("tendency", TENDENCIES)
def test_behind_a_gate_the_map_is_that_of_its_last_execution(tendency: Any) -> None:
    readings = rows(tendency, 2)
    waves = executions(readings, 80)
    assert 2 < len(waves) < WAVES
    found = traces(air_quality.flow(Bounds(d=sequence(percent=80), c=sequence(percent=80)), SIDE), readings)
    charts, city, spots = single(found["chart"]), City(SIDE), states(found["hot_spots"], SIDE)
    assert sorted(charts) == waves
    assert set(spots) <= {*waves}
    for wave in range(WAVES):
        city.read([one for one in readings if one.hour == wave])
        if wave in waves:
            assert charts[wave].average == pytest.approx(city.chart(), rel=1e-9)
            if spots and wave >= min(spots):
                np.testing.assert_allclose(last_of(spots, wave), hot(city.zones()), rtol=1e-9)


ALL = Bounds(
    c=sequence(percent=50),
    d=value(units=5, columns="level") | time(6 * HOUR),
    e=sequence(percent=80),
    f=value(percent=20, columns="hot") | time(5 * HOUR),
)


def test_with_all_gates_the_end_is_the_same() -> None:
    """The last marker comes through every gate, so nothing is out of date at the end."""
    readings = rows("rising", 3)
    plain, gated = (traces(air_quality.flow(bounds, SIDE), readings) for bounds in (Bounds(), ALL))
    for name in ("chart", "index"):
        ends = [single(one[name]) for one in (plain, gated)]
        assert len(ends[1]) < len(ends[0])
        values = [end[max(end)] for end in ends]
        assert [getattr(one, "average", one) for one in values] == [pytest.approx(getattr(values[0], "average", values[0]))] * 2


@pytest.mark.parametrize("bounds", [pytest.param(Bounds(), marks=pytest.mark.nightly), ALL], ids=["ungated", "gated"])
def test_the_local_backend_gives_the_definition(tmp_path: Path, bounds: Bounds) -> None:
    air_quality_data.write(tmp_path, files=3, side=SIDE, waves=WAVES, tendency="rising", seed=3)
    graph = air_quality.flow(bounds, SIDE)
    expected = traces(graph, rows("rising", 3))
    outputs: dict[str, list[Any]] = {name: [] for name in expected}
    tracetypes.run(graph, inputs={"readings": str(tmp_path)}, outputs=outputs, backend="local", parallelism=2, key_groups=4)
    for name, trace in expected.items():
        items = [one for one in trace.items if hasattr(one, "value")]
        shown = [(one.key, one.value) if name == "hot_spots" else one.value for one in items]
        assert sorted(map(repr, outputs[name])) == sorted(map(repr, shown)), name


def test_a_picture_has_a_pixel_for_each_point() -> None:
    """Colours go from clean to dirty."""
    picture = air_quality_data.png([[0, 50, 100], [10, 90, 99.9]])
    assert picture.startswith(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02")
    begin = picture.index(b"IDAT") + 4
    pixels = zlib.decompress(picture[begin : begin + int.from_bytes(picture[begin - 8 : begin - 4], "big")])
    assert pixels[:10] == bytes([0, *air_quality_data.COLOURS[0], *air_quality_data.COLOURS[3], *air_quality_data.COLOURS[5]])
    assert len(pixels) == 20


def test_readings_are_smooth_and_have_their_tendency() -> None:
    for tendency, sign in zip(air_quality_data.TENDENCIES, (1, -1, 0), strict=True):
        frame = air_quality_data.table(side=20, tendency=tendency).to_pandas()
        sensors = frame[["ozone", "dust", "dioxide"]]
        assert sensors.min().min() >= 0
        assert sensors.max().max() <= 100
        days = sensors.mean(axis=1).groupby(frame["hour"] // 24).mean()
        assert np.sign(round((days.iloc[-1] - days.iloc[0]) / 20)) == sign
        shares = frame.groupby("hour").size() / 400
        assert shares.iloc[0] == 1
        assert 0.4 < shares.mean() < 0.6
        first = frame[frame["hour"] == 0].sort_values(["y", "x"])["ozone"].to_numpy().reshape(20, 20)
        assert np.abs(np.diff(first)).mean() < 6, "neighbours read about the same"
    assert rows("rising") == rows("rising") != rows("rising", 2)


test_laws_of_changes = law_tests(Changes(), max_examples=20)
test_laws_of_hot_spots = law_tests(HotSpots(), max_examples=20)
SPOTS = st.lists(st.builds(Spot, st.integers(0, 1), st.integers(0, 1), st.floats(0, 100)), min_size=1, max_size=4)
test_laws_of_the_map = law_tests(Map(2), items=st.tuples(st.just(UNIT), SPOTS), max_examples=20)


def test_the_rating_of_zones_that_all_change_is_the_change_of_the_index() -> None:
    now, before = {0: 60.0, 1: 80.0, 2: 10.0, 3: 49.0}, {0: 55.0, 1: 20.0, 2: 12.0, 3: 51.0}
    first, second = (1 + 5 * 2 / 4 + 5 * average / 100 for average in (53.0, 70.0))
    assert variation(Rating(), now, before) == pytest.approx((second - first) / second)
    assert variation(Rating(), now, {}) == pytest.approx((second - 1) / second)
    assert variation(Rating(), before, before) == 0


def test_gates_that_learn_are_open_before_they_have_learned() -> None:
    rows = [Reading(**row) for row in air_quality_data.table(side=5, waves=4, seed=1).to_pylist()]
    plain, learning = (
        interpret_rows(check(air_quality.flow(bounds, 5)), {"readings": rows})[0] for bounds in (Bounds(), learned_bounds(0.1))
    )
    assert learning["index"] == plain["index"]
