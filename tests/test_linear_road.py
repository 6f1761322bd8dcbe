"""Linear Road: the definition and the local backend against a recount in plain Python, published vectors, and the generator."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest

import tracetypes
from examples import linear_road, linear_road_data
from examples.linear_road import (
    AREA,
    Accidents,
    Area,
    Areas,
    Bounds,
    Car,
    Level,
    Positions,
    Recent,
    Report,
    Segment,
    Stop,
    Stops,
    Toll,
    Tolls,
    around,
)
from examples.linear_road_gates import learned_bounds
from tests.stdlib.small import by_marker
from tracetypes import O, check, interpret_rows
from tracetypes.compiler.gates.learned.flows import TrainingRun
from tracetypes.gates import sequence, time, value
from tracetypes.stdlib import preview
from tracetypes.testing import law_tests

VECTORS = Path(__file__).parents[1] / "../shared/data/linear_road/aeolus_expected.json"
REPORTS = Path(__file__).parents[1] / "../shared/data/lightsaber/lrb-data-small-ht.txt"
SMALL: dict[str, Any] = {"waves": 16, "segments": 3, "cars": 2_400, "begin": 7.5, "crashes": 0.04, "seed": 3}
UNGATED = Bounds()


@cache
def rows() -> tuple[Report, ...]:
    pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    return tuple(Report(**row) for row in linear_road_data.table(**SMALL).to_pylist())


def traces(reports: Iterable[Report], bounds: Bounds = UNGATED) -> dict[str, Any]:
    found, arranged = interpret_rows(check(linear_road.flow(bounds)), {"reports": list(reports)})
    assert not any(one.late or one.rejects for one in arranged.values())
    return found


class Minute:
    """All that is known at the end of a minute, from all reports so far."""

    def __init__(self, reports: list[Report], at: int) -> None:
        by_car: dict[int, list[Report]] = defaultdict(list)
        for one in reports:
            by_car[one.vid].append(one)
        self.speeds: dict[Segment, list[int]] = defaultdict(list)
        self.cars: Counter[Segment] = Counter()
        standing: Counter[tuple[Segment, int, int]] = Counter()
        self.segments = {place(one) for one in reports}
        for some in by_car.values():
            last_in = {place(one): one for one in some}
            for where, last in last_in.items():
                if last.time >= at - 300:
                    self.speeds[where].append(last.speed)
                self.cars[where] += last.time >= at - 60
            places = [(one.lane, one.position) for one in some[-4:]]
            if len(places) == 4 and len(set(places)) == 1 and some[-1].lane != 4:
                standing[place(some[-1]), *places[0]] += 1
        self.accidents = {where for (where, _, _), number in standing.items() if number > 1}

    def toll(self, where: Segment) -> Toll:
        speeds, cars = self.speeds[where], self.cars[where]
        speed = sum(speeds) / len(speeds) if speeds else -1.0
        ahead = {attrs.evolve(where, number=where.number + step * (-1 if where.direction else 1)) for step in range(5)}
        costs = cars > 50 and speed < 40 and not ahead & self.accidents
        return Toll(where.number, speed, cars, 2 * (cars - 50) ** 2 if costs else 0)

    def congestion(self, area: Area) -> int:
        inside = [
            self.toll(one).speed
            for one in self.segments
            if (one.xway, one.direction, one.number // AREA) == (area.xway, area.direction, area.number)
        ]
        moving = [speed for speed in inside if speed >= 0]
        average = sum(moving) / len(moving) if moving else 60
        return 3 if average < 40 else 2 if average < 55 else 1


def place(one: Report) -> Segment:
    return Segment(one.xway, one.direction, one.segment)


def states(trace: Any, minutes: Iterable[int]) -> dict[int, dict[Any, Any]]:
    """The last result of each key at the end of each minute."""
    blocks = by_marker(trace.items)
    state: dict[Any, Any] = {}
    found = {}
    for at in minutes:
        state = {**state, **{key: values[-1] for (end, key), values in blocks.items() if end == at}}
        found[at] = state
    return found


def agree(reports: tuple[Report, ...], *, least: int) -> None:
    """The definition is the recount at each minute."""
    found = traces(reports)
    minutes = range(60, reports[-1].time // 60 * 60 + 61, 60)
    tolls, areas = states(found["tolls"], minutes), states(found["areas"], minutes)
    questions = {one.qid: one for one in reports if one.type == 4}
    answers = {(at, one.qid): one for (at, _), some in by_marker(found["answers"].items).items() for one in some}
    costs, crashes = 0, 0
    for at in minutes:
        past = Minute([one for one in reports if one.type == 0 and one.time < at], at)
        near = {toll.at for where in past.accidents for toll, _ in around(where, Level(1.0))}
        for where, toll in tolls[at].items():
            assert same(toll, past.toll(where)) or (where in near and toll.speed == -1), (at, where)
            costs += toll.toll > 0
        assert past.segments <= set(tolls[at])
        assert areas[at] == {area: past.congestion(area) for area in areas[at]}
        crashes += len(past.accidents)
        for qid, one in questions.items():
            if at - 60 <= one.time < at:
                first, last = sorted((one.origin, one.destination))
                way = [past.toll(Segment(one.xway, one.direction, number)) for number in range(first, last + 1)]
                seconds = sum(3_600 / each.speed if each.speed > 0 else 60 for each in way)
                assert answers[at, qid].seconds == pytest.approx(seconds)
                assert answers[at, qid].cost == sum(each.toll for each in way)
    assert len(answers) == len(questions)
    assert min(costs, crashes) >= least


def same(one: Toll, other: Toll) -> bool:
    return attrs.evolve(one, speed=0.0) == attrs.evolve(other, speed=0.0) and bool(one.speed == pytest.approx(other.speed))


def test_each_minute_is_what_a_recount_computes() -> None:
    agree(rows(), least=5)


ALL = Bounds(
    positions=sequence(400) | time(180),
    speeds=value(percent=20, columns="speed") | time(120),
    cars=sequence(percent=20),
    accidents=sequence(percent=50) | time(180),
    tolls=value(percent=10, columns="level") | time(300),
    areas=sequence(percent=50),
)


@pytest.mark.nightly  # tests/test_forest_fire.py and tests/local/test_gates.py have gates on the local backend every time
@pytest.mark.parametrize("bounds", [UNGATED, ALL], ids=["ungated", "gated"])
def test_the_local_backend_gives_the_definition(tmp_path: Path, bounds: Bounds) -> None:
    expected = traces(rows(), bounds)
    linear_road_data.write(tmp_path, files=3, **SMALL)
    outputs: dict[str, list[Any]] = {name: [] for name in expected}
    graph = linear_road.flow(bounds)
    tracetypes.run(graph, inputs={"reports": str(tmp_path)}, outputs=outputs, backend="local", parallelism=2, key_groups=4)
    for name, trace in expected.items():
        shown = [(one.key, one.value) for one in trace.items if hasattr(one, "value")]
        assert sorted(map(repr, outputs[name])) == sorted(map(repr, shown)), name
        assert shown


def test_gates_that_learn_are_open_before_they_have_learned() -> None:
    plain, learning = traces(rows()), traces(rows(), learned_bounds(0.1))
    assert learning["areas"] == plain["areas"]
    run = TrainingRun(check(linear_road.flow(learned_bounds(0.1))))
    assert run.subject.behind == ((0, 2, 3), (1, 2, 3), (2, 3), (3,))
    assert [len(one) for one in run.subject.features] == [9, 9, 10, 5]


def test_a_gate_saves_executions_and_loses_no_query() -> None:
    plain, gated = traces(rows()), traces(rows(), ALL)
    counts = [len({at for at, _ in by_marker(found["tolls"].items)}) for found in (plain, gated)]
    assert counts[1] < counts[0]
    asked = {one.qid for one in rows() if one.type == 4}
    for found in (plain, gated):
        assert {one.value.qid for one in found["answers"].items if hasattr(one, "value")} == asked


def report(time: int, vid: int, lane: int, position: int) -> Report:
    return Report(0, time, vid, 50, 0, lane, 0, position // 5_280, position, *[-1] * 6)


@pytest.mark.skipif(not VECTORS.exists(), reason="there is no ../shared/data/linear_road/aeolus_expected.json")
def test_stopped_cars_of_another_implementation() -> None:
    vectors = json.loads(VECTORS.read_text())["stopped_cars"]
    items = [
        (int(vid), report(at, int(vid), lane, position)) for vid, some in vectors["input"].items() for lane, at, position in some
    ]
    ((*cars,),) = preview(Positions(), O[int, Report], sorted(items, key=lambda item: item[1].time))
    stopped = [(key, car.time, car.position) for key, car in cars if car.stands >= 4 and car.lane != 4]
    expected = [tuple(one) for one in vectors["expected_vid_time_pos"]]
    assert sorted(stopped) == sorted(one for one in expected if one[0] > 0)
    ((*stops,),) = preview(Stops(), O[int, Car], cars)
    gone = [(-key, stop.time, stop.position) for key, stop in stops if not stop.stands]
    assert sorted(gone) == sorted(one for one in expected if one[0] < 0)


@pytest.mark.skipif(not REPORTS.exists(), reason="there is no ../shared/data/lightsaber/lrb-data-small-ht.txt")
def test_real_reports_are_what_a_recount_computes() -> None:
    numbers = [[int(one) for one in line.split()] for line in REPORTS.read_text().splitlines()]
    found = [
        Report(0, at, vid, speed, xway, lane, direction, position // 5_280, position, *[-1] * 6)
        for at, vid, speed, xway, lane, direction, position in numbers
        if at <= 130
    ]
    assert len(found) == 4_096
    agree(tuple(found), least=0)


def test_an_accident_takes_the_toll_away_upstream() -> None:
    east, west = Segment(0, 0, 6), Segment(0, 1, 6)
    assert [fact.at.number for fact, _ in around(east, Level(1.0))] == [6, 5, 4, 3, 2]
    assert [fact.at.number for fact, _ in around(west, Level(1.0))] == [6, 7, 8, 9, 10]
    cars = [report(30 * tick, vid, 1, 100) for tick in range(5) for vid in (1, 2)] + [report(150, 1, 1, 900)]
    positions = preview(Positions(), O[int, Report], [(one.vid, one) for one in cars])[0]
    stops = sorted(preview(Stops(), O[int, Car], positions)[0], key=lambda pair: pair[1].time)
    at = Segment(0, 0, 0)
    found = preview(Accidents(), O[Segment, Stop], [(at, one) for _, one in stops[:2]], [(at, one) for _, one in stops[2:]])
    assert found == [[(at, Level(1.0))], [(at, Level(0.0))]]


def test_traffic_has_rush_hours_and_accidents() -> None:
    pytest.importorskip("pyarrow")
    frame = linear_road_data.table(waves=1_440, segments=4, cars=300).to_pandas()
    reports = frame[frame["type"] == 0]
    hours = reports.groupby((reports["time"] // 3_600 + linear_road_data.BEGIN) % 24)["vid"].nunique()
    assert min(hours[8], hours[18]) > 2 * max(hours[2], hours[13])
    assert (reports["speed"] == 0).sum() > 20
    assert reports.groupby("vid")["time"].apply(lambda times: set(times.diff().dropna()) <= {30}).all()
    assert reports["segment"].between(0, 3).all()
    assert (reports["position"] // linear_road_data.MILE == reports["segment"]).all()
    assert frame["time"].is_monotonic_increasing
    assert 50 < len(reports) / (frame["type"] == 4).sum() < 200


test_laws = law_tests(
    Positions(), Recent(300, count=False), Recent(60, count=True), Stops(), Accidents(), Tolls(), Areas(), max_examples=15
)
