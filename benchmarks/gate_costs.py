"""What gates cost, and what of the saved executions is left as saved processor time; on the local backend.

    python -m benchmarks.gate_costs [--parts promise,open,detectors,learned] [--side N] [--sides 50,100,150,200] [--waves N]
                                    [--sigmas 20,80] [--percents 10] [--runs N] [--seed S]

All seconds are those of the processor, of the process tree, the least of ``--runs`` runs in turns. The flow is the part of air
quality (``examples/air_quality.py``) that leads to the gated step, and what lies behind it.

* ``promise``: of the steps behind a gate. ``cost``: what they cost without a gate, which is the whole flow less the same one
  without them. ``promised``: that times the share of the executions that were saved; ``rows``: that times the share of the rows
  that were not handed on, since a container gate hands on only the latest. ``saved``: what the gated flow took less.
* ``open``: a gate that is always open against the same cut with a plain channel.
* ``detectors``: of a gate, in microseconds for each detector and wave: ``gate`` is the time where it decides; ``whole`` what the
  flow takes more than the same without a gate, the channel and its reading among it.
* ``learned``: the parts of the overhead that SmartFlux names, in milliseconds a wave, and in percent of what a wave takes.
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

import tracetypes
from benchmarks._compare import say, scratch, versions
from benchmarks._waves import containers_of
from examples import air_quality, air_quality_data
from examples.air_quality import Cell, Reading, in_front
from tracetypes import UNIT, Dataflow, U, Unit, check, every, gates, sort
from tracetypes.compiler.gates.container import RunningContainer
from tracetypes.compiler.gates.kernel import GateKernel, Passed
from tracetypes.compiler.gates.learned.flows import TrainingRun
from tracetypes.compiler.gates.learned.knowledge import KnowledgeBase
from tracetypes.compiler.gates.learned.quality import Standards
from tracetypes.compiler.gates.learned.steps import VirtualExecutions
from tracetypes.compiler.gates.learned.training import fitted, train
from tracetypes.compiler.store.file_channel import FileChannel
from tracetypes.compiler.store.gate_channel import FilePiece, GateChannel, GateOutput
from tracetypes.gates import Bound
from tracetypes.learned_gates import Model, learned
from tracetypes.stdlib import aggregate, count, map_values
from tracetypes.stdlib import map as map_items


def processor() -> float:
    """Seconds of this process and of those below it that have ended."""
    return sum(os.times()[:4])


def begin(side: int) -> tuple[Dataflow, Any]:
    """Steps A and B."""
    graph = Dataflow("air-quality")
    readings = graph.source(
        "readings", U[Cell, Reading], key=lambda one: Cell(one.x, one.y),
        markers=every(seconds=air_quality.HOUR, time=lambda one: one.hour * air_quality.HOUR),
    )
    return graph, readings.through(map_values(air_quality.combined))


def without(side: int, step: str) -> Dataflow:
    """What leads to a step, and the number of rows that it would read."""
    graph, levels = begin(side)
    if step == "F":
        levels = air_quality.zones(in_front("C", levels, None), side).through(sort(by=air_quality.zero))
        levels = levels.through(air_quality.HotSpots())
    together = levels.through(map_items(lambda _, one: (UNIT, one), to=tuple[Unit, air_quality.Level]))
    graph.sink("out", together.through(aggregate(count())), marker="at")
    return graph


def with_step(side: int, step: str, bound: Bound | None) -> Dataflow:
    """A step and what lies behind it."""
    graph, levels = begin(side)
    if step == "D":
        graph.sink("out", air_quality.chart(in_front("D", levels, bound), side), marker="at")
        return graph
    zones = air_quality.zones(in_front("C", levels, bound if step == "C" else None), side)
    hot = zones.through(sort(by=air_quality.zero)).through(air_quality.HotSpots())
    graph.sink("out", air_quality.index(in_front("F", hot, bound if step == "F" else None), side), marker="at")
    return graph


def count_flow(side: int, bound: Bound | None, *, holds: bool = False) -> Dataflow:
    """A gate in front of nearly nothing."""
    graph, levels = begin(side)
    if holds:
        levels = levels.gate()
    elif bound is not None:
        levels = levels.latest(bound, latest_by=air_quality.zero)
    together = levels.through(map_items(lambda _, one: (UNIT, one), to=tuple[Unit, air_quality.Level]))
    graph.sink("out", together.through(aggregate(count())), marker="at")
    return graph


@attrs.define
class Rows:
    """That came to gates, and that went on."""

    came: int = 0
    went: int = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count while a flow runs."""
        passed = GateKernel.passed

        def count_rows(kernel: GateKernel, held: Any, new: Any, *others: Any) -> Passed[Any]:
            self.came += sum(map(rows_of, new))
            rest = passed(kernel, held, new, *others)
            self.went += sum(map(rows_of, rest.whole))
            return attrs.evolve(rest, rows=self.going(rest.rows))

        with mock.patch.object(GateKernel, "passed", count_rows):
            yield

    def going(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Tables that go on."""
        for table in tables:
            self.went += table.num_rows
            yield table


def rows_of(one: Any) -> int:
    """Of a piece."""
    return int(pq.read_metadata(one.path).num_rows) if isinstance(one, FilePiece) else int(one.table.num_rows)


def seconds_of(flow: Dataflow, rows: Path) -> tuple[float, Any]:
    """Of the processor, and the result."""
    with scratch() as root:
        gc.collect()
        before = processor()
        result = tracetypes.run(flow, inputs={"readings": str(rows)}, outputs={"out": str(root / "out")}, backend="local")
        return processor() - before, result


def least(sides: Mapping[str, Callable[[], Dataflow]], rows: Path, runs: int) -> tuple[dict[str, float], dict[str, Any]]:
    """The least seconds of each side, run in turns, and a result of each."""
    seconds: dict[str, float] = {}
    results: dict[str, Any] = {}
    for _ in range(runs):
        for name, make in sides.items():
            one, results[name] = seconds_of(make(), rows)
            seconds[name] = min(one, seconds.get(name, one))
    return seconds, results


def promise(arguments: argparse.Namespace, rows: Path) -> None:
    """For steps C, D and F."""
    side = arguments.side
    for step in arguments.steps.split(","):
        column = "hot" if step == "F" else None
        bounds: dict[str, Bound] = {
            f"sigma {sigma} %": gates.value(percent=sigma, columns=column) if column else gates.sequence(percent=sigma)
            for sigma in numbers(arguments.sigmas)
        }
        bounds |= {f"value {each} %": gates.value(percent=each, columns="level") for each in numbers(arguments.percents)}
        sides: dict[str, Callable[[], Dataflow]] = {
            "whole": lambda step=step: with_step(side, step, None),  # type: ignore[misc]
            "without": lambda step=step: without(side, step),  # type: ignore[misc]
        }
        for name, bound in bounds.items():
            sides[name] = lambda step=step, bound=bound: with_step(side, step, bound)  # type: ignore[misc]
        seconds, results = least(sides, rows, arguments.runs)
        cost = seconds["whole"] - seconds["without"]
        for name, bound in bounds.items():
            (report,) = results[name].gates.values()
            counter = Rows()
            with counter.watching():
                seconds_of(with_step(side, step, bound), rows)
            executions, rows_saved = 1 - report.executions / report.markers, 1 - counter.went / counter.came
            saved = seconds["whole"] - seconds[name]
            say(
                benchmark="promise",
                step=step,
                bound=name,
                detectors=side**2,
                executions=round(100 * (1 - executions), 1),
                rows=round(100 * (1 - rows_saved), 1),
                whole=round(seconds["whole"], 2),
                cost=round(cost, 2),
                gated=round(seconds[name], 2),
                saved=round(saved, 2),
                promised={"executions": round(executions * cost, 2), "rows": round(rows_saved * cost, 2)},
                ratio={"executions": ratio(saved, executions * cost), "rows": ratio(saved, rows_saved * cost)},
            )


def numbers(text: str) -> list[int]:
    """Of an option."""
    return [int(one) for one in text.split(",") if one]


def ratio(one: float, other: float) -> float | None:
    """To hundredths; None of nearly nothing."""
    return round(one / other, 2) if other > 0.01 else None


def always_open(arguments: argparse.Namespace, rows: Path) -> None:
    """A gate that is always open, and a channel."""
    pairs: list[tuple[float, float]] = []
    for _ in range(arguments.runs + 1):
        gated, _ = seconds_of(count_flow(arguments.side, None, holds=True), rows)
        with mock.patch.object(GateChannel, "output", FileChannel.output):
            plain, _ = seconds_of(count_flow(arguments.side, None, holds=True), rows)
        pairs.append((gated, plain))
    gated, plain = (min(pair[n] for pair in pairs[1:]) for n in (0, 1))
    say(benchmark="open", gated=round(gated, 3), plain=round(plain, 3), more=round(100 * (gated / plain - 1), 1))


def detectors(arguments: argparse.Namespace, root: Path) -> None:
    """For grids of several sizes."""
    for side in map(int, arguments.sides.split(",")):
        rows = root / f"in-{side}"
        air_quality_data.write(rows, side=side, waves=arguments.waves, tendency="rising", seed=arguments.seed)
        plain = min(seconds_of(count_flow(side, None), rows)[0] for _ in range(arguments.runs))
        waves = side**2 * arguments.waves / 1e6
        for sigma in numbers(arguments.sigmas):
            whole = gate = float("inf")
            for _ in range(arguments.runs):
                spent = Spent()
                with spent.watching({"gate": [(GateOutput, "take")]}):
                    seconds, result = seconds_of(count_flow(side, gates.sequence(percent=sigma)), rows)
                whole, gate = min(seconds, whole), min(gate, spent.seconds["gate"])
            (report,) = result.gates.values()
            say(
                benchmark="detectors",
                detectors=side**2,
                sigma=sigma,
                executions=round(100 * report.executions / report.markers, 1),
                rows=result.rows,
                gate=round(gate / waves, 3),
                whole=round((whole - plain) / waves, 3),
                plain=round(plain / waves, 3),
            )


class Spent:
    """Processor seconds in methods, in the thread of each call, without those in other methods that are timed."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.own = threading.local()

    def timer(self, name: str, function: Any) -> Any:
        """A function whose seconds are counted."""

        def call(*some: Any, **named: Any) -> Any:
            inner: list[float] = self.own.__dict__.setdefault("inner", [])
            inner.append(0.0)
            start = time.thread_time()
            try:
                return function(*some, **named)
            finally:
                seconds = time.thread_time() - start
                self.seconds[name] = self.seconds.get(name, 0.0) + seconds - inner.pop()
                if inner:
                    inner[-1] += seconds

        return call

    @contextmanager
    def watching(self, methods: Mapping[str, Sequence[tuple[Any, str]]]) -> Iterator[None]:
        """Count while a flow runs. ``methods``: classes and names of methods, by the name of their part."""
        with ExitStack() as patches:
            for part, some in methods.items():
                for owner, name in some:
                    patches.enter_context(mock.patch.object(owner, name, self.timer(part, getattr(owner, name))))
            yield


PARTS: Mapping[str, Sequence[tuple[Any, str]]] = {
    "i, accesses": [(GateKernel, "see"), (GateKernel, "close")],
    "ii, impacts": [(RunningContainer, "measured")],
    "vi, previous states, and what is held and goes on": [(GateOutput, "take")],
    "vii, classification": [(Model, "runs")],
}
"""Of a run. The others are of the training."""


def overhead(arguments: argparse.Namespace, rows: Path) -> None:
    """What SmartFlux names, for the three steps of air quality."""
    options = {"waves": arguments.waves, "seed": arguments.seed, "tendency": "rising"}

    def flow(model: Model | None) -> Dataflow:
        steps = {"c": "zones", "e": "hot spots", "f": "index"}
        bounds = {name: learned(step, error=0.1, columns="level", model=model) for name, step in steps.items()}
        return air_quality.flow(air_quality.Bounds(**bounds), arguments.side)

    table = air_quality_data.table(side=arguments.side, **options)
    run = TrainingRun(check(flow(None)))
    waves = containers_of(run, "readings", [Reading(**row) for row in table.to_pylist()])
    spent, virtual = Spent(), VirtualExecutions(run.steps)
    for change in virtual.errors.values():
        change.see = spent.timer("iii, errors", change.see)  # type: ignore[method-assign]
    examples = [virtual.take(wave) for wave in waves]
    with scratch() as root:
        spent.timer("iv, training set", KnowledgeBase(root / "knowledge.jsonl", run.subject).add)(examples)
    model = spent.timer("v, model, with its test", train)(examples, run.subject, Standards(), arguments.seed).model
    spent.timer("v, its forest alone", fitted)(examples, run.subject, arguments.seed)
    with scratch() as root:
        outputs = {name: str(root / name) for name in ("chart", "hot_spots", "index")}
        before = processor()
        tracetypes.run(flow(None), inputs={"readings": str(rows)}, outputs=outputs, backend="local")
        plain = processor() - before
    with scratch() as root, spent.watching(PARTS):
        outputs = {name: str(root / name) for name in ("chart", "hot_spots", "index")}
        tracetypes.run(flow(model), inputs={"readings": str(rows)}, outputs=outputs, backend="local")
    say(
        benchmark="learned",
        detectors=arguments.side**2,
        wave=round(1_000 * plain / arguments.waves, 2),
        parts={name: round(1_000 * one / arguments.waves, 3) for name, one in sorted(spent.seconds.items())},
        percent={name: round(100 * one / plain, 2) for name, one in sorted(spent.seconds.items())},
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="promise,open,detectors,learned")
    parser.add_argument("--steps", default="C,D,F")
    parser.add_argument("--side", type=int, default=50)
    parser.add_argument("--sides", default="50,100,150,200")
    parser.add_argument("--waves", type=int, default=air_quality_data.WAVES)
    parser.add_argument("--files", type=int, default=4, help="of the input, for all but detectors")
    parser.add_argument("--sigmas", default="20,80")
    parser.add_argument("--percents", default="10", help="of values")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    options = {"side": arguments.side, "waves": arguments.waves, "tendency": "rising", "seed": arguments.seed}
    with scratch() as root:
        rows = root / "in"
        air_quality_data.write(rows, files=arguments.files, **options)
        if "promise" in parts:
            promise(arguments, rows)
        if "open" in parts:
            always_open(arguments, rows)
        if "detectors" in parts:
            detectors(arguments, root)
        if "learned" in parts:
            overhead(arguments, rows)
    say(**versions())


if __name__ == "__main__":
    main()
