"""The Air Quality Health Index of Canada, of real stations and of a province, with a gate in front of the province.

    tracetypes run examples/air_quality_hours.py:ungated --input hours=FILE.csv --output stations=OUT/stations \\
        --output province=OUT/province

Rows are hours of stations: ``site_id,date_utc,pm25_1hr,o3_1hr,no2_1hr``, in the order of time, in ug/m3 and ppb. The index of a
station is a function of its means of three hours, of which two must be there; each mean is rounded to 0.1. The index of the
province is the mean and the largest of all stations that have one of the last ``OLD`` hours. Stations come and go: the real ones
have thousands of gaps.
"""

from __future__ import annotations

import datetime as dt
import math

import attrs

from tracetypes import UNIT, Dataflow, EmitValue, O, OpKeyedOrdered, Stream, U, Unit, csv, every, sort
from tracetypes.gates import Bound
from tracetypes.stdlib import aggregate, collect, map

HOUR, OLD = 3_600, 6


@attrs.frozen
class Hour:
    """What a station has measured in an hour."""

    site_id: int
    date_utc: dt.datetime
    pm25_1hr: float
    o3_1hr: float
    no2_1hr: float


@attrs.frozen
class Index:
    """``number``: 1 to 10, and 11 for all above. ``hour``: since the epoch."""

    site: int
    hour: int
    exact: float
    number: int


@attrs.frozen
class Province:
    """Of the last indices of all stations."""

    stations: int
    average: float
    largest: int


def index(ozone: float, dioxide: float, dust: float) -> float:
    """The index, not rounded. ``ozone`` and ``dioxide``: ppb; ``dust``: ug/m3; means of three hours."""
    risks = math.expm1(0.000537 * ozone), math.expm1(0.000871 * dioxide), math.expm1(0.000487 * dust)
    return 1_000 / 10.4 * math.fsum(risks)


def hour_of(one: Hour) -> int:
    """Hours since the epoch."""
    return int(one.date_utc.timestamp()) // HOUR


@attrs.frozen
class Stations(OpKeyedOrdered[int, Hour, Index, tuple[Hour, ...]]):
    """The index of a station, of an hour and the two before."""

    def initial_state(self) -> tuple[Hour, ...]:
        return ()

    def on_item(self, state: tuple[Hour, ...], key: int, value: Hour, emit: EmitValue[Index]) -> tuple[Hour, ...]:
        now = hour_of(value)
        last = (*(one for one in state if now - hour_of(one) < 3), value)
        if len(last) > 1:
            measured = zip(*((one.o3_1hr, one.no2_1hr, one.pm25_1hr) for one in last), strict=True)
            exact = index(*(round(math.fsum(some) / len(last), 1) for some in measured))
            emit(Index(key, now, exact, min(max(round(exact), 1), 11)))
        return last


@attrs.frozen
class Together(OpKeyedOrdered[Unit, list[Index], Province, dict[int, Index]]):
    """The province, from the last index of each station."""

    def initial_state(self) -> dict[int, Index]:
        return {}

    def on_item(self, state: dict[int, Index], key: Unit, value: list[Index], emit: EmitValue[Province]) -> dict[int, Index]:
        latest = {**state, **{one.site: one for one in value}}
        now = max(one.hour for one in latest.values())
        recent = {site: one for site, one in latest.items() if now - one.hour < OLD}
        average = math.fsum(one.exact for one in recent.values()) / len(recent)
        emit(Province(len(recent), average, max(one.number for one in recent.values())))
        return recent


def flow(bound: Bound | None = None) -> Dataflow:
    """The dataflow. ``bound``: when the province is worth its execution; None: each hour."""
    graph = Dataflow("air-quality-hours")
    hours = graph.source(
        "hours", U[int, Hour], key=lambda one: one.site_id,
        markers=every(seconds=HOUR, time=lambda one: one.date_utc), format=csv(),
    )
    stations = hours.through(sort(by=lambda one: one.date_utc)).through(Stations())
    known: Stream[O[int, Index]] = stations if bound is None else stations.latest(bound, name="province")
    beside = known.through(map(lambda _, one: (UNIT, one), to=tuple[Unit, Index]))
    graph.sink("stations", stations, marker="at")
    graph.sink("province", beside.through(aggregate(collect())).through(sort(by=len)).through(Together()), marker="at")
    return graph


ungated = flow()
