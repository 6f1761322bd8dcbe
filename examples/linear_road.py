"""Linear Road as SmartFlux runs it (there figure 5): tolls by traffic, with gates in front of the steps that tolerate error.

    python -m examples.linear_road_data DIR --waves 1440
    tracetypes run examples/linear_road.py:ungated --input reports=DIR --output tolls=OUT/tolls --output areas=OUT/areas \\
        --output answers=OUT/answers

* 1: position reports and queries are separated. It is executed at each wave, a minute.
* 2a: where each car is, and whether it stands still: four reports in a row from one place, but not from the exit lane. Each
  segment gets its cars of the minute, how many they are and how fast.
* 3a: the average speed in a segment: of the cars that have reported there in the last 5 minutes, of each the last report.
* 3b: the number of cars that have reported there in the last minute.
* 3c: accidents: two cars or more stand still in one place.
* 4: the congestion of a segment: its speed, its cars, and its toll, ``2 * (cars - 50) ** 2`` if there are more than 50 cars, the
  speed is below 40, and there is no accident in it or the next 4 segments.
* 5a: the congestion of an area of ``AREA`` segments, by the average of its speeds: 1 is low, 2 medium, 3 high.
* 2b: queries, in the order in which they are answered: by time.
* 5b: time and cost of a journey, by the last speeds and tolls of its segments; a segment without a speed takes a minute.

The gate in front of step 2a holds reports, and those of 3a and 3b hold minutes of segments, so that none is lost; the others
hand on the latest values. ``linear_road_gates.py`` has gates that learn. Steps 2b and 5b have no gate. But a reply is made of
what step 4 has written, and waits for the marker of its next execution.
"""

from __future__ import annotations

import datetime as dt
from math import fsum
from typing import Literal, TypeAlias, TypeVar

import attrs

from tracetypes import Dataflow, EmitValue, Marker, O, OpKeyedOrdered, Stream, U, every, merge, sort
from tracetypes.gates import Bound
from tracetypes.stdlib import aggregate, collect, filter, flat_map, key_by, map, map_values

EXIT, STANDS, REACH, AREA = 4, 4, 4, 5
"""The exit lane; reports from one place of a car that stands still; segments before an accident; segments of an area."""


@attrs.frozen
class Report:
    """A row of the benchmark. ``type``: 0 of a report, 4 of a query for a journey. ``position``: feet."""

    type: int
    time: int
    vid: int
    speed: int
    xway: int
    lane: int
    direction: int
    segment: int
    position: int
    qid: int
    origin: int
    destination: int
    weekday: int
    minute: int
    day: int


@attrs.frozen
class Segment:
    """A mile of an expressway, in one direction: 0 is east."""

    xway: int
    direction: int
    number: int


@attrs.frozen
class Car:
    """The last report of a car. ``stands``: how many reports in a row came from there."""

    time: int
    vid: int
    speed: int
    at: Segment
    lane: int
    position: int
    stands: int


@attrs.frozen
class Bounds:
    """When each step is worth its execution. None: at each wave."""

    positions: Bound | None = None
    speeds: Bound | None = None
    cars: Bound | None = None
    accidents: Bound | None = None
    tolls: Bound | None = None
    areas: Bound | None = None


@attrs.frozen
class Positions(OpKeyedOrdered[int, Report, Car, Car | None]):
    """Step 2a."""

    def initial_state(self) -> Car | None:
        return None

    def on_item(self, state: Car | None, key: int, value: Report, emit: EmitValue[Car]) -> Car:
        same = state is not None and (state.lane, state.position) == (value.lane, value.position)
        at = Segment(value.xway, value.direction, value.segment)
        stands = state.stands + 1 if state is not None and same else 1
        car = Car(value.time, key, value.speed, at, value.lane, value.position, stands)
        emit(car)
        return car


@attrs.frozen
class Fact:
    """What is known of a segment. ``source``: the segment of an accident, else the segment itself."""

    at: Segment
    kind: Literal["speed", "cars", "accident"]
    source: int


@attrs.frozen
class Level:
    """A number; -1 if there is none."""

    level: float


@attrs.frozen
class Visit:
    """The last report of a car in a segment."""

    vid: int
    time: int
    speed: int


@attrs.frozen
class Minute:
    """The cars in a segment: their number, their average speed, and the last report of each. ``time``: of the newest."""

    time: int
    cars: int
    speed: float
    visits: list[Visit]


def minute(cars: list[Car]) -> Minute:
    """What comes to a segment in a minute. The last report of a car counts."""
    last = {car.vid: Visit(car.vid, car.time, car.speed) for car in sorted(cars, key=lambda car: car.time)}
    visits = list(last.values())
    return Minute(max(one.time for one in visits), len(visits), fsum(one.speed for one in visits) / len(visits), visits)


Seen: TypeAlias = tuple[float, dict[int, tuple[int, int]]]
"""What was emitted last, and the time and speed of each car."""


@attrs.frozen
class Recent(OpKeyedOrdered[Segment, Minute, Level, Seen]):
    """Steps 3a and 3b: the average speed, or the number, of cars that have reported in the last ``seconds``."""

    seconds: int
    count: bool

    def initial_state(self) -> Seen:
        return -1.0, {}

    def on_item(self, state: Seen, key: Segment, value: Minute, emit: EmitValue[Level]) -> Seen:
        return state[0], {**state[1], **{one.vid: (one.time, one.speed) for one in value.visits}}

    def on_marker(self, state: Seen, key: Segment, marker: Marker, emit: EmitValue[Level]) -> Seen:
        recent = {vid: one for vid, one in state[1].items() if one[0] >= marker.timestamp - self.seconds}
        speed = fsum(one for _, one in recent.values()) / len(recent) if recent else -1.0
        known = float(len(recent)) if self.count else speed
        if known != state[0]:
            emit(Level(known))
        return known, recent

    def linger(self) -> dt.timedelta:
        return dt.timedelta(seconds=self.seconds)


@attrs.frozen
class Stop:
    """A car stands still somewhere from now on, or not any more."""

    time: int
    vid: int
    at: Segment
    lane: int
    position: int
    stands: bool


@attrs.frozen
class Stops(OpKeyedOrdered[int, Car, Stop, Stop | None]):
    """Where cars stop and go on."""

    def initial_state(self) -> Stop | None:
        return None

    def on_item(self, state: Stop | None, key: int, value: Car, emit: EmitValue[Stop]) -> Stop | None:
        stop = Stop(value.time, key, value.at, value.lane, value.position, True)
        stands = value.stands >= STANDS and value.lane != EXIT
        if state is not None and stands and (state.at, state.lane, state.position) == (stop.at, stop.lane, stop.position):
            return state
        if state is not None:
            emit(attrs.evolve(state, time=value.time, stands=False))
        if stands:
            emit(stop)
        return stop if stands else None


Standing: TypeAlias = tuple[bool, tuple[tuple[int, int, int], ...]]
"""Whether there was an accident, and the lane, position and number of each car that stands still."""


@attrs.frozen
class Accidents(OpKeyedOrdered[Segment, Stop, Level, Standing]):
    """Step 3c."""

    def initial_state(self) -> Standing:
        return False, ()

    def on_item(self, state: Standing, key: Segment, value: Stop, emit: EmitValue[Level]) -> Standing:
        place = value.lane, value.position, value.vid
        others = tuple(one for one in state[1] if one != place)
        return state[0], (*others, place) if value.stands else others

    def on_marker(self, state: Standing, key: Segment, marker: Marker, emit: EmitValue[Level]) -> Standing:
        places = [place for *place, _ in state[1]]
        accident = any(places.count(place) > 1 for place in places)
        if accident != state[0]:
            emit(Level(float(accident)))
        return accident, state[1]


def around(at: Segment, accident: Level) -> list[tuple[Fact, Level]]:
    """The segments from which an accident is near."""
    back = 1 if at.direction else -1
    near = (at.number + back * far for far in range(REACH + 1))
    return [(Fact(Segment(at.xway, at.direction, one), "accident", at.number), accident) for one in near]


@attrs.frozen
class Known:
    """A fact and its number."""

    kind: str
    source: int
    level: float


@attrs.frozen
class Toll:
    """The congestion of a segment. ``speed`` is -1 if nobody has reported."""

    number: int
    speed: float
    cars: int
    toll: int


Facts: TypeAlias = tuple[Toll | None, dict[tuple[str, int], float]]
"""What was emitted last, and all that is known."""


@attrs.frozen
class Tolls(OpKeyedOrdered[Segment, list[Known], Toll, Facts]):
    """Step 4."""

    def initial_state(self) -> Facts:
        return None, {}

    def on_item(self, state: Facts, key: Segment, value: list[Known], emit: EmitValue[Toll]) -> Facts:
        facts = {**state[1], **{(one.kind, one.source): one.level for one in value}}
        speed, cars = facts.get(("speed", key.number), -1.0), round(facts.get(("cars", key.number), 0.0))
        accident = any(level > 0 for (kind, _), level in facts.items() if kind == "accident")
        toll = Toll(key.number, speed, cars, 2 * (cars - 50) ** 2 if cars > 50 and speed < 40 and not accident else 0)
        if toll != state[0]:
            emit(toll)
        return toll, facts


@attrs.frozen
class Area:
    """Some segments of an expressway, in one direction."""

    xway: int
    direction: int
    number: int


def area(at: Segment, _: Toll) -> Area:
    """The area of a segment."""
    return Area(at.xway, at.direction, at.number // AREA)


def congestion(speed: float) -> int:
    """1 is low, 2 medium, 3 high."""
    return 3 if speed < 40 else 2 if speed < 55 else 1


Speeds: TypeAlias = tuple[int, dict[int, float]]
"""What was emitted last, 0 at first, and the speed of each segment."""


@attrs.frozen
class Areas(OpKeyedOrdered[Area, list[Toll], int, Speeds]):
    """Step 5a."""

    def initial_state(self) -> Speeds:
        return 0, {}

    def on_item(self, state: Speeds, key: Area, value: list[Toll], emit: EmitValue[int]) -> Speeds:
        speeds = {**state[1], **{one.number: one.speed for one in value}}
        moving = [speed for speed in speeds.values() if speed >= 0]
        level = congestion(fsum(moving) / len(moving) if moving else 60.0)
        if level != state[0]:
            emit(level)
        return level, speeds


@attrs.frozen
class Road:
    """An expressway in one direction."""

    xway: int
    direction: int


@attrs.frozen
class Query:
    """How long, and how dear, is a journey between two segments? ``first`` is the smaller one."""

    time: int
    qid: int
    first: int
    last: int


@attrs.frozen
class Answer:
    """Seconds and cents."""

    qid: int
    seconds: float
    cost: int


@attrs.frozen
class Answers(OpKeyedOrdered[Road, Toll | Query, Answer, dict[int, Toll]]):
    """Step 5b."""

    def initial_state(self) -> dict[int, Toll]:
        return {}

    def on_item(self, state: dict[int, Toll], key: Road, value: Toll | Query, emit: EmitValue[Answer]) -> dict[int, Toll]:
        if isinstance(value, Toll):
            return {**state, value.number: value}
        way = [state[one] for one in range(value.first, value.last + 1) if one in state]
        speeds = [one.speed for one in way if one.speed > 0]
        seconds = fsum(3_600 / one for one in speeds) + 60 * (value.last + 1 - value.first - len(speeds))
        emit(Answer(value.qid, seconds, sum(one.toll for one in way)))
        return state


K = TypeVar("K")
V = TypeVar("V")


def zero(_: object) -> int:
    """No order: a step has at most one value of a key in a block."""
    return 0


def in_front(step: str, stream: Stream[U[K, V]], bound: Bound | None) -> Stream[O[K, V]]:
    """The gate of a step: the latest value of each key that has changed."""
    return stream.through(sort(by=zero)) if bound is None else stream.latest(bound, latest_by=zero, name=step)


def answered_at(one: Toll | Query) -> tuple[bool, int, int]:
    """Tolls of a minute before its queries."""
    return (True, one.time, one.qid) if isinstance(one, Query) else (False, one.number, 0)


def held(step: str, minutes: Stream[U[Segment, Minute]], bound: Bound | None) -> Stream[O[Segment, Minute]]:
    """Segments behind the gate of step 3a or 3b, minute by minute."""
    due = minutes if bound is None else minutes.gate(bound, latest_by=zero, name=step)
    return due.through(sort(by=lambda one: one.time))


def flow(bounds: Bounds = Bounds()) -> Dataflow:
    """The dataflow."""
    graph = Dataflow("linear-road")
    reports = graph.source(
        "reports", U[int, Report], key=lambda report: report.vid,
        markers=every(seconds=60, time=lambda report: report.time),
    )
    positions = reports.through(filter(lambda _, report: report.type == 0))
    due = positions if bounds.positions is None else positions.gate(bounds.positions, name="2a")
    cars = due.through(sort(by=lambda report: report.time)).through(Positions())
    by_segment = cars.through(key_by(lambda _, car: car.at, to=Segment))
    minutes = by_segment.through(aggregate(collect())).through(map_values(minute))

    speeds = held("3a", minutes, bounds.speeds).through(Recent(300, count=False))
    counts = held("3b", minutes, bounds.cars).through(Recent(60, count=True))
    stops = (cars if bounds.accidents is None else cars.latest(bounds.accidents, name="3c")).through(Stops())
    at_stops = stops.through(key_by(lambda _, stop: stop.at, to=Segment)).through(sort(by=lambda stop: (stop.time, stop.vid)))
    facts = merge(
        speeds.through(map(lambda at, one: (Fact(at, "speed", at.number), one), to=tuple[Fact, Level])),
        counts.through(map(lambda at, one: (Fact(at, "cars", at.number), one), to=tuple[Fact, Level])),
        at_stops.through(Accidents()).through(flat_map(around)),
    )
    known = in_front("4", facts, bounds.tolls).through(
        map(lambda fact, one: (fact.at, Known(fact.kind, fact.source, one.level)), to=tuple[Segment, Known])
    )
    tolls = known.through(aggregate(collect())).through(sort(by=len)).through(Tolls())
    by_area = in_front("5a", tolls, bounds.areas).through(key_by(area))

    asked = reports.through(filter(lambda _, report: report.type == 4)).through(map(query))
    by_road = tolls.through(map(lambda at, toll: (Road(at.xway, at.direction), toll), to=tuple[Road, Toll | Query]))
    graph.sink("tolls", tolls, marker="at")
    graph.sink("areas", by_area.through(aggregate(collect())).through(sort(by=len)).through(Areas()), marker="at")
    graph.sink("answers", merge(by_road, asked).through(sort(by=answered_at)).through(Answers()), marker="at")
    return graph


def query(_: int, report: Report) -> tuple[Road, Toll | Query]:
    """Step 2b: a query by its road."""
    first, last = min(report.origin, report.destination), max(report.origin, report.destination)
    return Road(report.xway, report.direction), Query(report.time, report.qid, first, last)


ungated = flow()
