"""Graphs of many operators, of every shape: what must not recurse, and not grow with anything but the graph."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.shapes import SHAPES, Half, Reading, Total, source_of
from tracetypes import Dataflow, Marker, OpStateless, check, interpret_rows
from tracetypes.check import Checked
from tracetypes.compiler.plan.explain import explain
from tracetypes.compiler.plan.fingerprint import fingerprint
from tracetypes.compiler.plan.plan import Plan, links
from tracetypes.compiler.plan.program import Program, program
from tracetypes.compiler.spark.wording import SparkWording
from tracetypes.compiler.trial.simulate import simulate_program

Emit = Callable[[str, Reading], None]


@contextmanager
def shallow(frames: int = 250) -> Iterator[None]:
    """Frames for what each part needs of its own, and too few for one for each operator."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def built(shape: str, operators: int) -> Checked:
    flow = Dataflow("large")
    SHAPES[shape](flow, operators)
    return check(flow)


def rows(checked: Checked) -> dict[str, list[tuple[str, Reading]]]:
    return {
        source.name: [("a", Reading(1, 1)), ("b", Reading(2, 2)), ("a", Reading(3, 4))]
        for source in checked.graph.sources[:2]
    }


def shipped(plan: Plan) -> Plan:
    made: Plan = pickle.loads(cloudpickle.dumps(plan))
    return made


def all_shipped(made: Program) -> Program:
    return attrs.evolve(made, plans=tuple(map(shipped, made.plans)))


@pytest.mark.parametrize("shape", SHAPES)
def test_no_part_recurses_with_the_graph(shape: str) -> None:
    with shallow():
        checked = built(shape, 500)
        interpret_rows(checked, rows(checked))
        made = all_shipped(program(checked, parallelism=2, key_groups=2))
        for plan in made.plans:
            fingerprint(plan)
        text = explain(checked, SparkWording(), parallelism=2, key_groups=2)
    assert all(f"sink {sink.name!r}" in text for sink in checked.graph.sinks)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(SHAPES)), st.integers(2, 24), st.integers(0, 9))
def test_a_shipped_program_of_any_shape_gives_the_defined_traces(shape: str, operators: int, seed: int) -> None:
    checked = built(shape, operators)
    expected, _ = interpret_rows(checked, rows(checked))
    got = simulate_program(all_shipped(program(checked, parallelism=2, key_groups=2)), rows(checked), seed=seed)
    assert {name: got[name].trace for name in expected} == expected


def test_diamonds_do_not_double_the_work() -> None:
    """Each shared stream is looked at once: forty diamonds would need a million million looks."""
    made = program(built("diamonds", 120))
    assert sum(len(stage.region.nodes) for plan in made.plans for stage in plan.stages) < 1_000


def test_sources_that_join_a_chain_share_what_lies_behind() -> None:
    (plan,) = program(built("comb", 60)).plans
    (stage,) = plan.stages
    first, second, third = links(stage.region)[:3]
    assert [len(link.path) for link in (first, second, third)] == [30, 29, 28]
    assert first.path[1:] == second.path
    text = explain(built("comb", 60), SparkWording(), parallelism=1, key_groups=2)
    assert "28 more, from Scale" in text
    assert ": as for source 'source-0'" in text


# ------------------------------------------------------------------------------------------------- long paths


@attrs.frozen
class Opaque(OpStateless[str, Reading, str, Reading]):
    """Nobody can trace it."""

    number: int

    def on_item(self, key: str, value: Reading, emit: Emit) -> None:
        emit(key, Reading(value.value + len(repr(self.number)) % 2, value.ts))
        if self.number % 150 == 70:
            emit(key, value)


@attrs.frozen
class Hinted(Opaque):
    """It wants to know what is to come."""

    def prefetch(self, items: Any) -> None:
        assert items


@attrs.frozen
class Loud(Opaque):
    """One of many emits at markers."""

    def on_marker(self, marker: Marker, emit: Emit) -> None:
        if self.number == 100:
            emit("loud", Reading(self.number, 0))


@pytest.mark.parametrize("operator", [Opaque, Hinted, Loud, Half])
@pytest.mark.parametrize("operators", [200, pytest.param(1_000, marks=pytest.mark.nightly)])
def test_a_long_path_of_operators_runs(operator: Any, operators: int) -> None:
    flow = Dataflow("long")
    stream = source_of(flow, 0)
    for number in range(operators):
        stream = stream.through(operator(number % 2 if operator is Half else number))
    flow.sink("out", stream.through(Total()))
    checked = check(flow)
    expected, _ = interpret_rows(checked, rows(checked))
    with shallow(500):
        got = simulate_program(program(checked, parallelism=2, key_groups=2), rows(checked), seed=3)
    assert got["out"].trace == expected["out"]
