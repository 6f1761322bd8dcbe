"""How many operators the paper's dataflows need: exact numbers, which an independent count has found, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import reuse
from benchmarks._reuse_flows import INFERRED, OPMW, TEMPLATES, Counts, counts, dag, opmw, processes, riot, submitted
from tracetypes.compiler.workspace.classes import classified
from tracetypes.compiler.workspace.definitions import (
    AncestorGraph,
    ancestor_graph,
    are_equivalent_graphs,
    are_equivalent_without_streams,
    de_duplicated,
)
from tracetypes.compiler.workspace.merge import merge, unmerge
from tracetypes.compiler.workspace.running import Running

needs_opmw = pytest.mark.skipif(not OPMW.exists(), reason="there is no ../shared/data/opmw_fragflow")


@needs_opmw
def test_opmw_with_data() -> None:
    assert counts(opmw(OPMW / TEMPLATES)) == Counts(22, 43, 271, 215, 113)


@needs_opmw
def test_the_processes_of_opmw() -> None:
    flows = {name: processes(flow) for name, flow in opmw(OPMW / TEMPLATES).items()}
    assert counts(flows) == Counts(22, 28, 91, 79, 51)


def classes(equivalent: Callable[[AncestorGraph, AncestorGraph], bool]) -> int:
    """How many classes the tasks of the templates with inferred types have."""
    found: list[tuple[str, AncestorGraph]] = []
    for name, flow in opmw(OPMW / INFERRED).items():
        once = de_duplicated(dag(name, flow))
        for task in once.tasks:
            graph = ancestor_graph(once, task)
            if not any(type == task.type and equivalent(graph, other) for type, other in found):
                found.append((task.type, graph))
    return len(found)


@needs_opmw
def test_inferred_types() -> None:
    """The bijection of the paper, which ignores streams, takes two pairs of different tasks for equal."""
    assert counts(opmw(OPMW / INFERRED)) == Counts(22, 26, 271, 215, 100)
    assert classes(are_equivalent_graphs) == 100
    assert classes(are_equivalent_without_streams) == 98


@needs_opmw
def test_tasks_that_read_a_stream_twice() -> None:
    """With streams as a set, de-duplication would take half of their input from three tasks."""
    wanted = [one for name, flow in opmw(OPMW / TEMPLATES).items() for one in classified(submitted(name, flow))]
    twice = {one.cls for one in wanted if len(set(one.inputs)) < len(one.inputs)}
    assert len(twice) == 3


def test_riot() -> None:
    flows = riot()
    assert counts(flows) == Counts(21, 19, 138, 138, 75)
    sizes = [len(flow.types) for flow in flows.values()]
    assert (min(sizes), max(sizes)) == (4, 8)


def test_what_is_left_after_the_drain() -> None:
    running = Running()
    for name, flow in riot().items():
        running.apply(merge(running, submitted(name, flow)))
    assert len(running.components.all()) == 3, "a running dataflow for each source"
    for name in riot():
        running.apply(unmerge(running, name))
    assert not running.operators
    assert not running.components.all()


def test_the_benchmark_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It compares what it has written with what runs. Its times are not looked at."""
    monkeypatch.chdir(tmp_path)
    reuse.decide(200, 80)
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert line["operators"] > 100
    assert line["component"] <= line["operators"]
    assert not list(tmp_path.iterdir())


@needs_opmw
def test_the_benchmark_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        reuse.main(["--count"])
    assert stopped.value.code == 0
    merged = [json.loads(line)["merged"] for line in capsys.readouterr().out.splitlines()]
    assert merged == [113, 51, 100, 75]
