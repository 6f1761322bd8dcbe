"""Learned gates: what SmartFlux saves on air quality and Linear Road, and how sure its bounds are (figures 8 to 12 of the paper).

    python -m benchmarks.learned_gates [--applications air,road] [--errors 5,10,20] [--seeds 1,2,3] [--side N] [--cars N]
                                       [--examples 100,200,384] [--tested N]

For each application, error bound and seed: the dataflow runs once with all gates open, and each step's containers are recorded at
each wave. The first waves of it are the training, the next ``--tested`` the test, as in the paper. A line for each number of
examples and each decider: the model, nothing but chance, every second and third wave, and an oracle that knows the error.
``executions``: the share of the waves at which steps ran, in percent of all waves and steps; ``confidence``: the share of the
waves at which the error of the last step was within its bound; ``accuracy``, ``precision`` and ``recall``: of the model's
decisions in the test waves, against the labels that these waves have; ``violations``: their number and the largest. A step that
runs is taken to have the output of its wave (``Replay``). ``published``: executions and confidence of the paper, in percent.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from benchmarks._compare import say, versions
from examples import air_quality, air_quality_data, linear_road, linear_road_data
from tracetypes import Dataflow, UsageError, check
from tracetypes.compiler.gates.learned.flows import TrainingRun
from tracetypes.compiler.gates.learned.quality import Standards
from tracetypes.compiler.gates.learned.reports import correlation, report
from tracetypes.compiler.gates.learned.steps import Example, VirtualExecutions
from tracetypes.compiler.gates.learned.training import areas, train
from tracetypes.compiler.gates.learned.workflow import Decider, Every, Modelled, Oracle, Replay, Sometimes
from tracetypes.learned_gates import Model, learned

PUBLISHED = {
    ("air", 5): (80, 95),
    ("air", 10): (60, 95),
    ("air", 20): (40, 90),
    ("road", 5): (70, 95),
    ("road", 10): (42, 95),
    ("road", 20): (25, 95),
}


@attrs.frozen
class Application:
    """``last``: the step that is the output. ``rows``: of some waves and a seed."""

    name: str
    source: str
    last: str
    flow: Callable[[float], Dataflow]
    rows: Callable[[int, int], list[Any]]


def air(arguments: argparse.Namespace) -> Application:
    """Air quality with gates in front of steps C, E and F."""

    def flow(error: float) -> Dataflow:
        steps = {"c": "zones", "e": "hot spots", "f": "index"}
        gates = {name: learned(step, error=error, columns="level") for name, step in steps.items()}
        return air_quality.flow(air_quality.Bounds(**gates), arguments.side)

    def rows(waves: int, seed: int) -> list[Any]:
        table = air_quality_data.table(side=arguments.side, waves=waves, seed=seed)
        return [air_quality.Reading(**row) for row in table.to_pylist()]

    return Application("air", "readings", "index", flow, rows)


def road(arguments: argparse.Namespace) -> Application:
    """Linear Road with gates in front of steps 3a, 3b, 4 and 5a."""

    def flow(error: float) -> Dataflow:
        return linear_road.flow(
            linear_road.Bounds(
                speeds=learned("speeds", error=error, columns="speed"),
                cars=learned("cars", error=error, columns="position"),
                tolls=learned("tolls", error=error, columns="level"),
                areas=learned("areas", error=error, columns="toll"),
            )
        )

    def rows(waves: int, seed: int) -> list[Any]:
        table = linear_road_data.table(waves=waves, cars=arguments.cars, seed=seed)
        return [linear_road.Report(**row) for row in table.to_pylist()]

    return Application("road", "reports", "areas", flow, rows)


def measure(one: Application, error: int, seed: int, arguments: argparse.Namespace) -> None:
    """All lines of an application, a bound and a seed."""
    numbers = sorted(map(int, arguments.examples.split(",")))
    run = TrainingRun(check(one.flow(error / 100)))
    waves = list(run.waves({one.source: one.rows(numbers[-1] + arguments.tested, seed)}))
    virtual = VirtualExecutions(run.steps)
    examples = [virtual.take(wave) for wave in waves]
    line = {"application": one.name, "error": error, "seed": seed}
    say(
        **line,
        correlation=[round(correlation(examples, n), 2) for n in range(len(run.subject.steps))],
        steps=run.subject.steps,
        **versions(),
    )
    tested = waves[numbers[-1] : numbers[-1] + arguments.tested]
    published = dict(zip(("executions", "confidence"), PUBLISHED[one.name, error], strict=True))
    for number in numbers:
        began = time.process_time()
        try:
            trained = train(examples[numbers[-1] - number : numbers[-1]], run.subject, Standards(), seed)
        except UsageError as refused:
            say(**line, examples=number, refused=refused.message)
            continue
        seconds = time.process_time() - began
        found = quality(trained.model, examples[numbers[-1] :])
        say(
            **line,
            decider="model",
            examples=number,
            **decided(run, Modelled(trained.model), tested, one.last),
            **found,
            training=round(seconds, 2),
            published=published,
        )
    others: list[tuple[str, Decider]] = [
        ("random", Sometimes(0.5, seed)),
        ("every second", Every(2)),
        ("every third", Every(3)),
        ("oracle", Oracle()),
    ]
    for name, decider in others:
        say(**line, decider=name, **decided(run, decider, tested, one.last))
    if arguments.areas:
        say(**line, areas={name: round(area, 3) for name, area in areas(examples, run.subject, seed).items()})


def decided(run: TrainingRun, decider: Decider, waves: Sequence[Any], last: str) -> dict[str, Any]:
    """What a decider saves on recorded waves, and how often the bound of the last step holds."""
    done = Replay(run.steps, decider).run(waves)
    reports = report(done, run.subject.steps, run.subject.bounds)
    output = next(one for one in reports if one.step == last)
    return {
        "executions": round(100 * statistics.fmean(1 - one.saved for one in reports), 1),
        "steps": {one.step: round(100 * (1 - one.saved), 1) for one in reports},
        "confidence": round(100 * output.confidence, 1),
        "violations": len(output.violations),
        "largest": round(max(output.violations, default=0.0), 3),
    }


def quality(model: Model, examples: Sequence[Example]) -> dict[str, Any]:
    """Of decisions about single waves that were not learned from."""
    pairs = [
        (model.runs(n, one.impacts), one.labels[n]) for one in examples for n in range(len(one.labels)) if one.asked[n]
    ]
    both = sum(runs and label for runs, label in pairs)
    return {
        "accuracy": round(100 * sum(runs == label for runs, label in pairs) / len(pairs), 1),
        "precision": round(100 * both / max(1, sum(runs for runs, _ in pairs)), 1),
        "recall": round(100 * both / max(1, sum(label for _, label in pairs)), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applications", default="air,road")
    parser.add_argument("--errors", default="5,10,20")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--side", type=int, default=16)
    parser.add_argument("--cars", type=int, default=150)
    parser.add_argument("--examples", default="100,200,384")
    parser.add_argument("--tested", type=int, default=384)
    parser.add_argument("--areas", action="store_true", help="compare the six classifiers, too")
    arguments = parser.parse_args()
    makers = {"air": air, "road": road}
    for name in arguments.applications.split(","):
        for error in map(int, arguments.errors.split(",")):
            for seed in map(int, arguments.seeds.split(",")):
                measure(makers[name](arguments), error, seed, arguments)


if __name__ == "__main__":
    main()
