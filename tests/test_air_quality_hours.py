"""The Air Quality Health Index: published values, and the real hours of stations against a recount."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import tracetypes
from examples import air_quality_hours
from examples.air_quality_hours import HOUR, OLD, Hour, Index, Province, Stations, Together, index
from tests.stdlib.small import by_marker
from tracetypes import UNIT, check, interpret_rows
from tracetypes.gates import time, value
from tracetypes.testing import law_tests

REAL = Path(__file__).parents[1] / "../shared/data/aqhi_bc/example_obs.csv.gz"
FIRST = dt.datetime(2018, 8, 15, tzinfo=dt.UTC)


def hour(site: int, at: int, dust: float = 10.0, ozone: float = 30.0, dioxide: float = 20.0) -> Hour:
    return Hour(site, FIRST + dt.timedelta(hours=at), dust, ozone, dioxide)


def traces(hours: Iterable[Hour], bound: Any = None) -> dict[str, Any]:
    found, arranged = interpret_rows(check(air_quality_hours.flow(bound)), {"hours": list(hours)})
    assert not any(one.late or one.rejects for one in arranged.values())
    return found


def items(trace: Any) -> list[Any]:
    return [one.value for one in trace.items if hasattr(one, "value")]


def recount(hours: list[Hour]) -> tuple[dict[tuple[int, int], float], dict[int, Province]]:
    """The exact index by station and hour, and the province by hour; from all rows, by their times."""
    at = {(one.site_id, int(one.date_utc.timestamp()) // HOUR): one for one in hours}
    indices: dict[tuple[int, int], float] = {}
    for site, now in at:
        there = [at[site, one] for one in (now - 2, now - 1, now) if (site, one) in at]
        if len(there) > 1:
            ozone, dioxide, dust = (
                round(math.fsum(getattr(one, name) for one in there) / len(there), 1)
                for name in ("o3_1hr", "no2_1hr", "pm25_1hr")
            )
            risk = (math.exp(0.000537 * ozone) - 1) + (math.exp(0.000871 * dioxide) - 1) + (math.exp(0.000487 * dust) - 1)
            indices[site, now] = 10 / 10.4 * 100 * risk
    provinces = {}
    for now in sorted({now for _, now in indices}):
        latest: dict[int, float] = {}
        for before in range(now - OLD + 1, now + 1):
            latest |= {site: exact for (site, one), exact in indices.items() if one == before}
        numbers = [min(max(round(exact), 1), 11) for exact in latest.values()]
        provinces[now] = Province(len(latest), sum(latest.values()) / len(latest), max(numbers))
    return indices, provinces


def agree(hours: list[Hour]) -> dict[int, Province]:
    found = traces(hours)
    indices, provinces = recount(hours)
    assert {(one.site, one.hour): one.exact for one in items(found["stations"])} == pytest.approx(indices)
    assert len(items(found["stations"])) == len(indices)
    by_hour = {at // HOUR - 1: some for (at, _), some in by_marker(found["province"].items).items()}
    assert set(by_hour) == set(provinces)
    for now, (one,) in by_hour.items():
        other = provinces[now]
        assert (one.stations, one.largest) == (other.stations, other.largest)
        assert one.average == pytest.approx(other.average)
    return provinces


def test_published_values_of_the_index() -> None:
    assert index(30, 20, 10) == pytest.approx(3.720669, abs=1e-6)
    assert index(100, 100, 100) == pytest.approx(18.853761, abs=1e-6)


def test_two_of_three_hours_are_needed() -> None:
    hours = [hour(1, 0), hour(1, 1), hour(2, 1), hour(1, 4), hour(2, 3), hour(1, 6), hour(1, 7, dust=900.0, ozone=300.0)]
    found = items(traces(sorted(hours, key=lambda one: one.date_utc))["stations"])
    first = int(FIRST.timestamp()) // HOUR
    assert [(one.site, one.hour - first) for one in found] == [(1, 1), (2, 3), (1, 6), (1, 7)]
    assert [one.number for one in found] == [4, 4, 4, 11]


def test_stations_that_are_silent_for_long_do_not_count() -> None:
    hours = sorted([hour(site, at) for site in (1, 2) for at in range(3)] + [hour(1, at) for at in range(3, 12)], key=str)
    provinces = agree(sorted(hours, key=lambda one: one.date_utc))
    assert Counter(one.stations for one in provinces.values()) == {2: OLD + 1, 1: 11 - OLD - 1}


@pytest.mark.skipif(not REAL.exists(), reason="there is no ../shared/data/aqhi_bc/example_obs.csv.gz")
def test_real_hours_are_what_a_recount_computes(tmp_path: Path) -> None:
    """A week of August in which forests burnt."""
    with gzip.open(REAL, "rt") as file:
        rows = [row for row in csv.DictReader(file) if "2018-08-14" <= row["date_utc"] < "2018-08-21"]
    rows.sort(key=lambda row: row["date_utc"])
    hours = [
        Hour(int(row["site_id"]), dt.datetime.fromisoformat(row["date_utc"]), *(float(row[name]) for name in list(row)[2:]))
        for row in rows
    ]
    provinces = agree(hours)
    assert max(one.largest for one in provinces.values()) == 11
    assert len({one.stations for one in provinces.values()}) > 2
    path = tmp_path / "hours.csv"
    with path.open("w") as text:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    bound = value(percent=10, columns="exact") | time(12 * HOUR)
    outputs: dict[str, list[Any]] = {"stations": [], "province": []}
    result = tracetypes.run(
        air_quality_hours.flow(bound), inputs={"hours": str(path)}, outputs=outputs, backend="local", parallelism=2
    )
    expected = traces(hours, bound)
    assert sorted(map(repr, outputs["province"])) == sorted(map(repr, items(expected["province"])))
    assert len(outputs["stations"]) == len(items(expected["stations"]))
    assert result.rows == len(hours)
    (report,) = result.gates.values()
    assert 10 < report.executions < report.markers / 2


HOURS = st.builds(hour, st.integers(1, 2), st.integers(0, 9), *[st.floats(0, 1_000)] * 3)
test_laws_of_stations = law_tests(Stations(), items=HOURS.map(lambda one: (one.site_id, one)), max_examples=15)


def test_the_province_is_that_of_the_last_indices() -> None:
    emitted: list[Province] = []
    op, first = Together(), [Index(1, 5, 2.5, 3), Index(2, 5, 3.5, 4)]
    state = op.on_item(op.initial_state(), UNIT, first, emitted.append)
    op.on_item(state, UNIT, [Index(1, 6, 4.5, 5)], emitted.append)
    assert emitted == [Province(2, 3.0, 4), Province(2, 4.0, 5)]
