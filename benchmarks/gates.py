"""Gates: the applications of Flux and SmartFlux with gates against the same without, on the local backend.

    python -m benchmarks.gates [--applications air,forest,road,hours] [--side N] [--waves N] [--steps C,D,E,F,CE]
                               [--sigmas 20,40,60,80] [--percents 5,10,20] [--tendencies rising,falling,uniform] [--hours FILE]
                               [--seed S]

A line for each bound, on the same seeded data: ``executions`` of the gated steps, of so many ``waves`` that came to the gate;
``share``, in percent; ``processor``, the seconds of this process, and ``ungated``, those of the flow without gates; ``error``
of each output, the mean and the largest over the waves: the sum of the absolute differences between what is there and what
would be there without gates, over all keys, as a share of the sum of the latter, which is averaged over the waves.
``largest`` is the largest difference of a single number. ``published``: what figures 9 and 18 of Flux say, in percent.

Sigma of air quality is, for steps C, D and E, the percentage of the keys in front of the step (detectors, zones) that were
written since its last execution; for step F the zones that have become or ceased to be hot spots, in percent of the hot spots
then. Figure 15 is ``C and E`` together. ``value`` of a step: the gate waits until the numbers in front of it have changed by so
many percent. In the other applications all gates do so; nothing is tuned to their data. ``hours`` are the real hours of
stations, from ``--hours``.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

import tracetypes
from benchmarks._compare import say, scratch, versions
from benchmarks._waves import hours_of
from examples import (
    air_quality,
    air_quality_data,
    air_quality_hours,
    forest_fire,
    forest_fire_data,
    linear_road,
    linear_road_data,
)
from tracetypes import Dataflow, gates
from tracetypes.gates import Bound

PUBLISHED = {("C", 25): 80.0, ("C", 80): 48.0, ("F", 20): 30.0, ("F", 80): 5.0}
"""Executions in percent, by step and sigma."""

Row = Mapping[str, Any]


@attrs.frozen
class Application:
    """What is run. ``period``: seconds of a wave. ``numbers``: of each output that is compared, the number of a row."""

    name: str
    source: str
    outputs: tuple[str, ...]
    period: int
    numbers: Mapping[str, Callable[[Row], float]]
    write: Callable[[Path], None]
    flow: Callable[[Any], Dataflow]
    ungated: Any
    bounds: Mapping[str, Any]


def air(arguments: argparse.Namespace, tendency: Any) -> Application:
    """Air quality, with a gate in front of one step, or of several."""
    options: dict[str, Any] = {"side": arguments.side, "waves": arguments.waves, "tendency": tendency, "seed": arguments.seed}
    bounds: dict[str, air_quality.Bounds] = {}
    for sigma in numbers(arguments.sigmas):
        written, spots = gates.sequence(percent=sigma), gates.value(percent=sigma, columns="hot")
        for steps in arguments.steps.split(","):
            name = f"{' and '.join(steps)} at {sigma} %"
            bounds[name] = air_quality.Bounds(**dict.fromkeys(steps.lower(), spots if steps == "F" else written))
    for percent in numbers(arguments.percents):
        for steps in arguments.steps.split(","):
            name, changed = f"{' and '.join(steps)} at a value of {percent} %", gates.value(percent=percent, columns="level")
            bounds[name] = air_quality.Bounds(**dict.fromkeys(steps.lower(), changed))
    return Application(
        f"air quality, {tendency}",
        "readings",
        ("chart", "hot_spots", "index"),
        air_quality.HOUR,
        {"index": lambda row: row["value"], "hot_spots": lambda row: row["level"], "chart": lambda row: row["average"]},
        lambda path: air_quality_data.write(path, **options),
        lambda given: air_quality.flow(given, arguments.side),
        air_quality.Bounds(),
        bounds,
    )


def forest(arguments: argparse.Namespace, _: Any) -> Application:
    """Fire risk of a forest: bounds on the temperature or the risk, in front of all steps that tolerate error."""
    options: dict[str, Any] = {"side": arguments.side // 5 * 5, "seed": arguments.seed}
    fires = forest_fire_data.fires_of(**options)
    burning = {air_quality.Cell(one.x // forest_fire.SIDE, one.y // forest_fire.SIDE): one.wave for one in fires}
    return Application(
        "forest fire",
        "readings",
        ("thermal", "forest", "orders"),
        forest_fire_data.PERIOD,
        {"forest": lambda row: row["risk"], "thermal": lambda row: row["average"]},
        lambda path: forest_fire_data.write(path, **options),
        lambda given: forest_fire.flow(given, options["side"], burning),
        forest_fire.Bounds(),
        {
            f"{percent} %": forest_fire.Bounds(
                areas=gates.value(percent=percent),
                thermal=gates.value(percent=percent),
                risks=gates.value(percent=percent),
                forest=gates.value(percent=percent, columns="level"),
            )
            for percent in numbers(arguments.percents)
        },
    )


def road(arguments: argparse.Namespace, _: Any) -> Application:
    """Linear Road: bounds on the speed of cars, and on what is known of segments."""
    options: dict[str, Any] = {"waves": arguments.minutes, "cars": arguments.cars, "seed": arguments.seed}
    return Application(
        "Linear Road",
        "reports",
        ("tolls", "areas", "answers"),
        60,
        {"tolls": lambda row: max(row["speed"], 0.0), "areas": lambda row: row["value"]},
        lambda path: linear_road_data.write(path, **options),
        linear_road.flow,
        linear_road.Bounds(),
        {
            f"{percent} %": linear_road.Bounds(
                speeds=gates.value(percent=percent, columns="speed"),
                cars=gates.value(percent=percent, columns="cars"),
                accidents=gates.value(percent=percent, columns="position"),
                tolls=gates.value(percent=percent, columns="level"),
                areas=gates.value(percent=percent, columns="speed"),
            )
            for percent in numbers(arguments.percents)
        },
    )


def real(arguments: argparse.Namespace, _: Any) -> Application:
    """The real hours of stations: bounds on what comes to the province."""

    def write(path: Path) -> None:
        path.mkdir()
        with (path / "hours.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(("site_id", "date_utc", "pm25_1hr", "o3_1hr", "no2_1hr"))
            for one in hours_of(arguments.hours):
                table.writerow((one.site_id, one.date_utc.isoformat(), one.pm25_1hr, one.o3_1hr, one.no2_1hr))

    bounds: dict[str, Bound] = {f"written {sigma} %": gates.sequence(percent=sigma) for sigma in numbers(arguments.sigmas)}
    bounds |= {f"value {percent} %": gates.value(percent=percent, columns="exact") for percent in numbers(arguments.percents)}
    return Application(
        "hours",
        "hours",
        ("stations", "province"),
        air_quality.HOUR,
        {"province": lambda row: row["average"]},
        write,
        air_quality_hours.flow,
        None,
        bounds,
    )


def numbers(text: str) -> list[int]:
    """Of an option."""
    return [int(one) for one in text.split(",") if one]


APPLICATIONS = {"air": air, "forest": forest, "road": road, "hours": real}


def rows_of(path: Path) -> Iterator[Row]:
    """The rows of an output."""
    for part in sorted(path.glob("*.jsonl")):
        yield from map(json.loads, part.read_text().splitlines())


def by_wave(path: Path, application: Application, output: str) -> dict[int, dict[str, float]]:
    """The numbers that were written at each wave, by key."""
    found: dict[int, dict[str, float]] = {}
    for row in rows_of(path):
        at = dt.datetime.fromisoformat(row["at"]).timestamp()
        numbers = found.setdefault(round(at / application.period), {})
        numbers[json.dumps(row.get("key"))] = application.numbers[output](row)
    return found


def errors(plain: dict[int, dict[str, float]], gated: dict[int, dict[str, float]]) -> dict[str, float]:
    """How far what is there is from what would be there, over the waves of which there is something."""
    there: dict[str, float] = {}
    here: dict[str, float] = {}
    sums, whole, largest = [], 0.0, 0.0
    for wave in sorted({*plain, *gated}):
        there |= plain.get(wave, {})
        here |= gated.get(wave, {})
        away = [abs(here.get(key, 0.0) - number) for key, number in there.items()]
        sums.append(sum(away))
        whole += sum(map(abs, there.values()))
        largest = max(largest, *away)
    average = whole / len(sums)
    return {"mean": round(sum(sums) / whole, 4), "largest_share": round(max(sums) / average, 4), "largest": round(largest, 2)}


def run(application: Application, root: Path, bounds: Any, name: str) -> tuple[float, Any]:
    """Seconds of processor time, and the result."""
    outputs = {output: str(root / name / output) for output in application.outputs}
    gc.collect()
    before = time.process_time()
    graph = application.flow(bounds)
    result = tracetypes.run(graph, inputs={application.source: str(root / "in")}, outputs=outputs, backend="local")
    return time.process_time() - before, result


def measure(application: Application) -> None:
    """Run an application with each of its bounds, and print a line for each."""
    with scratch() as root:
        application.write(root / "in")
        ungated, _ = run(application, root, application.ungated, "plain")
        plain = {output: by_wave(root / "plain" / output, application, output) for output in application.numbers}
        gc.freeze()  # so that rows of before cost the runs to come nothing
        for number, (name, bounds) in enumerate(application.bounds.items()):
            seconds, result = run(application, root, bounds, f"{number}")
            reports = {gate.rpartition("--")[2]: one for gate, one in result.gates.items()}
            sigma = int(name.split()[-2]) if application.name.startswith("air") and "value" not in name else None
            say(
                benchmark="gates",
                application=application.name,
                bound=name,
                rows=result.rows,
                waves={step: one.markers for step, one in reports.items()},
                executions={step: one.executions for step, one in reports.items()},
                share={step: round(100 * one.executions / one.markers, 1) for step, one in reports.items()},
                published={step: PUBLISHED[step, sigma] for step in reports if sigma and (step, sigma) in PUBLISHED},
                processor=round(seconds, 2),
                ungated=round(ungated, 2),
                error={
                    output: errors(plain[output], by_wave(root / f"{number}" / output, application, output))
                    for output in application.numbers
                },
                versions=versions(),
            )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applications", default="air,forest,road")
    parser.add_argument("--side", type=int, default=50, help="detectors or sensors on a side")
    parser.add_argument("--waves", type=int, default=air_quality_data.WAVES, help="hours of air quality")
    parser.add_argument("--minutes", type=int, default=1_000, help="of Linear Road")
    parser.add_argument("--cars", type=int, default=1_800, help="of Linear Road that enter in half an hour")
    parser.add_argument("--steps", default="C,D,E,F,CE", help="of air quality")
    parser.add_argument("--sigmas", default="20,40,60,80")
    parser.add_argument("--percents", default="5,10,20")
    parser.add_argument("--hours", type=Path, help="the file of the real hours, .csv or .csv.gz")
    parser.add_argument("--tendencies", default=",".join(air_quality_data.TENDENCIES))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.applications.split(","):
        for tendency in arguments.tendencies.split(",") if name == "air" else [None]:
            measure(APPLICATIONS[name](arguments, tendency))


if __name__ == "__main__":
    main()
