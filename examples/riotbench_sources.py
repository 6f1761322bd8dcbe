"""The three sources of RIoTBench's dataflows: what a message has, the published parameters of the tasks, and seeded messages.

    python -m examples.riotbench_sources DIR --source CITY --messages 1000 --seed 1

Writes ``DIR/000000.jsonl``. RIoTBench is *RIoTBench: A Real-time IoT Benchmark for Distributed Stream Processing Platforms*
(Shukla, Chaturvedi, Simmhan, 2017). The parameters are those of github.com/dream-lab/riot-bench at c86414f,
``modules/tasks/src/main/resources/tasks_CITY.properties``, ``tasks_GRID.properties`` and ``tasks_TAXI.properties``. A comment
that begins with "chosen" says that nothing is published, or that what is published cannot be used, and why.

* ``GRID``: the smart meters of a power grid. No messages are published.
* ``CITY``: urban sensing. RIoTBench calls the same source SYS, too.
* ``TAXI``: trips of New York's taxis.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

__all__ = ["CITY", "DOMAINS", "GRID", "TAXI", "Domain", "Field", "Message", "Split", "messages", "write"]

EPOCH = 1_422_748_800
"""The first second of the published messages of CITY."""

SENSORS = 20
"""Sensors of a source. Chosen."""

STRANGERS, WILD = 0.05, 0.05
"""The share of messages from sensors that the Bloom filter does not know, and of numbers that are out of range. Chosen."""


@attrs.frozen
class Message:
    """A message as it comes: its number, its second, and its text in the format SenML, 100 to 600 bytes."""

    id: int
    at: int
    senml: str


@attrs.frozen
class Field:
    """A number of a message. ``low`` and ``high``: its valid range; None if none is published."""

    name: str
    unit: str
    low: float | None = None
    high: float | None = None


@attrs.frozen
class Split:
    """An inner node of a decision tree: values of a field below ``at`` go one way. A leaf is the number of its class."""

    field: int
    at: float
    below: Split | int
    above: Split | int


@attrs.frozen
class Domain:
    """A source with the parameters of its tasks. The name of each parameter in the files is beside its values below."""

    name: str
    sensor: str
    fields: tuple[Field, ...]
    averaged: tuple[str, ...]
    estimated: tuple[str, ...]
    interpolated: tuple[str, ...]
    interpolation_window: int
    average_window: int
    horizon: int
    plotted: int
    annotations: tuple[Field, ...]
    target: int
    tree: Split
    weights: tuple[float, ...]
    intercept: float
    # The same for all three sources:
    process_noise: float = 0.125  # STATISTICS.KALMAN_FILTER.PROCESS_NOISE
    sensor_noise: float = 0.32  # STATISTICS.KALMAN_FILTER.SENSOR_NOISE
    estimated_error: float = 30.0  # STATISTICS.KALMAN_FILTER.ESTIMATED_ERROR
    regression_window: int = 10  # PREDICT.SIMPLE_LINEAR_REGRESSION.WINDOW_SIZE_TRAIN
    buckets: int = 10  # AGGREGATE.DISTINCT_APPROX_COUNT.BUCKETS: the power of two
    false_positives: float = 0.01  # FILTER.BLOOM_FILTER_TRAIN.FALSEPOSITIVE_RATIO

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the numbers."""
        return tuple(one.name for one in self.fields)

    @property
    def sensors(self) -> tuple[str, ...]:
        """The identifiers that the Bloom filter knows."""
        return tuple(f"{self.name.lower()}{number:04d}" for number in range(SENSORS))

    @property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """FILTER.RANGE_FILTER.VALID_RANGE"""
        return {one.name: (one.low, one.high) for one in self.fields if one.low is not None and one.high is not None}


GRID = Domain(
    name="GRID",
    sensor="meterid",  # PARSE.ID_FIELD_SCHEMA
    fields=(Field("energyconsumed", "kwh", 1.828, 36.658),),
    averaged=("energyconsumed",),  # AGGREGATE.BLOCK_AVERAGE.USE_MSG_FIELD
    estimated=("energyconsumed",),  # STATISTICS.KALMAN_FILTER.USE_MSG_FIELDLIST
    interpolated=("energyconsumed",),  # STATISTICS.INTERPOLATION.USE_MSG_FIELD_LIST
    interpolation_window=5,  # STATISTICS.INTERPOLATION.WINDOW_SIZE
    average_window=10,  # AGGREGATE.BLOCK_COUNT.WINDOW_SIZE
    horizon=2,  # PREDICT.SIMPLE_LINEAR_REGRESSION.WINDOW_SIZE_PREDICT
    plotted=100,  # chosen: 8000 (AGGREGATE.ACCUMLATOR.TUPLE_WINDOW_SIZE) are of all meters together, these are of one
    annotations=(Field("zone", "string"),),  # chosen: no schema is published
    target=0,
    tree=Split(0, 8.0, 0, Split(0, 20.0, 1, 2)),  # chosen: no tree is published
    weights=(0.9,),  # chosen: no weights are published
    intercept=1.9,
)

CITY = Domain(
    name="CITY",
    sensor="source",
    fields=(
        Field("temperature", "far", -12.5, 43.1),
        Field("humidity", "per", 10.7, 95.2),
        Field("light", "per", 1345.0, 26282.0),
        Field("dust", "per", 186.61, 5188.21),
        Field("airquality_raw", "per", 17.0, 363.0),
    ),
    averaged=("temperature", "humidity", "light", "dust", "airquality_raw"),
    estimated=("temperature", "humidity", "light", "dust", "airquality_raw"),  # chosen: no list is published
    interpolated=("temperature", "humidity", "light", "dust", "airquality_raw"),
    interpolation_window=5,
    average_window=5,
    horizon=10,
    plotted=20,  # as in tasks.properties: tasks_CITY.properties has none
    annotations=(Field("location", "string"), Field("type", "string")),
    target=4,
    # chosen: the published tree is a Java object. Its classes are bad, good, very good, excellent.
    tree=Split(4, 60.0, Split(3, 600.0, 3, 2), Split(4, 200.0, Split(1, 60.0, 2, 1), 0)),
    weights=(0.8, 0.3, 0.0005, 0.03),  # chosen: the published weights are a Java object
    intercept=20.0,
)

TAXI = Domain(
    name="TAXI",
    sensor="taxi_identifier",
    fields=(
        Field("trip_time_in_secs", "second", 140.0, 3155.0),
        Field("trip_distance", "meter", 1.37, 29.86),
        Field("fare_amount", "dollar", 6.0, 201.0),
        Field("surcharge", "percentage"),
        Field("mta_tax", "percentage"),
        Field("tip_amount", "dollar", 0.65, 38.55),
        Field("tolls_amount", "dollar", 2.5, 18.0),
        Field("total_amount", "dollar"),
    ),
    averaged=(
        "trip_time_in_secs",
        "trip_distance",
        "fare_amount",
        "surcharge",
        "mta_tax",
        "tip_amount",
        "tolls_amount",
        "total_amount",
    ),
    estimated=(
        "trip_time_in_secs",
        "trip_distance",
        "fare_amount",
        "surcharge",
        "mta_tax",
        "tip_amount",
        "tolls_amount",
        "total_amount",
    ),
    interpolated=("trip_time_in_secs", "trip_distance"),
    interpolation_window=0,  # no interpolation
    average_window=10,
    horizon=10,
    plotted=10,
    annotations=(Field("taxi_company", "string"), Field("drivername", "string"), Field("taxi_city", "string")),
    target=2,
    tree=Split(2, 10.0, 0, Split(1, 8.0, 1, 2)),  # chosen, with the published classes bad, good, very good
    weights=(0.005, 2.5),  # chosen, with the published attributes time and distance
    intercept=3.0,
)

DOMAINS: Mapping[str, Domain] = {"GRID": GRID, "SYS": CITY, "TAXI": TAXI}
"""By the name that the source has in ``riotbench_flows.json``."""


def messages(domain: Domain, count: int, *, rate: int = 10, first: int = 0, seed: int = 1) -> Iterator[Message]:
    """So many messages, ``rate`` in each second. ``first``: the number of the first one. A message depends on its number and the
    seed alone."""
    for id in range(first, first + count):
        drawn = random.Random(f"{domain.name} {seed} {id}")
        stranger = drawn.random() < STRANGERS
        sensor = f"stranger{drawn.randrange(1000)}" if stranger else domain.sensors[drawn.randrange(SENSORS)]
        entries: list[dict[str, str]] = [{"u": "string", "n": domain.sensor, "sv": sensor}]
        for field in domain.fields:
            low, high = field.low or 0.0, field.high or 10.0
            value = drawn.uniform(low, high) if drawn.random() >= WILD else high + drawn.uniform(1.0, 10.0)
            entries.append({"v": f"{value:.2f}", "u": field.unit, "n": field.name})
        at = EPOCH + id // rate
        yield Message(id, at, json.dumps({"e": entries, "bt": 1000 * at}, separators=(",", ":")))


def write(folder: Path, number: int, rows: Iterable[Message]) -> None:
    """One more file, which appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number:06d}"
    hidden.write_text("".join(json.dumps(attrs.asdict(one)) + "\n" for one in rows))
    os.replace(hidden, folder / f"{number:06d}.jsonl")


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--source", choices=[one.name for one in DOMAINS.values()], default="CITY")
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    domain = next(one for one in DOMAINS.values() if one.name == given.source)
    write(given.directory, 0, messages(domain, given.messages, seed=given.seed))


if __name__ == "__main__":
    main()
