"""The paper's traces, and what the benchmark makes of their figures. The benchmark itself runs at night, on a few flows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks._reuse_cpu import MOST, Costs, Feeds, Pace, cpu
from benchmarks._reuse_kills import Walk, kills
from benchmarks._reuse_traces import TRACES, Step, Trace, trace
from benchmarks._reuse_workloads import Workload, riot_workload

FLOWS = [f"flow{number}" for number in range(21)]


def there_after(some: Trace) -> list[set[str]]:
    """The flows behind each step."""
    there, found = set(some.before), list[set[str]]()
    for step in some.steps:
        assert (step.flow in there) == (step.do == "remove"), "nobody comes twice, and nobody goes who is not there"
        there ^= {step.flow}
        found.append(set(there))
    return found


def test_sequential() -> None:
    some = trace("sequential", FLOWS, first=15)
    assert not some.before
    assert [step.do for step in some.steps] == ["submit"] * 21 + ["remove"] * 21
    there = there_after(some)
    assert there[20] == set(FLOWS)
    assert not there[-1]


@pytest.mark.parametrize("name", TRACES[1:])
def test_walk(name: str) -> None:
    some = trace(name, FLOWS, first=15)
    assert len(some.before) == 15
    there = there_after(some)
    assert not there[-1]
    assert [step.do for step in some.steps[100:]] == ["remove"] * len(there[99])
    assert 30 < Counter(step.do for step in some.steps[:100])["submit"] < 70
    assert sum(map(len, there[:100])) > 1400
    assert some == trace(name, FLOWS[::-1], first=15), "the seed decides, not the order of the flows"


def test_walks_differ() -> None:
    assert trace("walk 1", FLOWS, first=15).steps != trace("walk 2", FLOWS, first=15).steps


def test_a_walk_goes_on_at_its_ends() -> None:
    some = trace("walk 1", ["only"], first=1, walk=4)
    assert some.steps == (*(Step("remove", "only"), Step("submit", "only")) * 2, Step("remove", "only"))


def test_the_ceiling() -> None:
    """Two flows share an operator of 3 seconds; one has it twice, and each has one of 1 second."""
    costs = Costs({"shared": 3.0, "a": 1.0, "b": 1.0}, {"x": ["shared", "shared", "a"], "y": ["shared", "b"]})
    steps = (Step("submit", "x"), Step("submit", "y"), Step("remove", "x"), Step("remove", "y"))
    assert costs.ceiling(Trace("", (), steps)) == 1 - (4 + 5 + 4) / (7 + 11 + 4)


@pytest.mark.parametrize(
    ("pace", "files", "rows"),
    [(Pace(10, 5.0, 7), 5, 10), (Pace(10, 0.5, 7), 1, 5), (Pace(1000, 2.0, 7), 2, 1000), (Pace(MOST, 5.0, 7), 1, 7)],
)
def test_pace(pace: Pace, files: int, rows: int) -> None:
    assert (pace.ticks, pace.rows) == (files, rows)


@pytest.mark.parametrize("alone", [False, True])
def test_both_sides_get_the_same_files(alone: bool, tmp_path: Path) -> None:
    feeds = Feeds(riot_workload(), tmp_path, Pace(2, 1.0, 0), alone=alone)
    feeds.put()
    for flow in ("stats-GRID", "predict-GRID"):
        feeds.comes(flow)
        feeds.put()
    feeds.stay(["predict-GRID"])
    feeds.put()
    folders = {flow: tmp_path / feeds.of(flow) / "GRID" for flow in ("stats-GRID", "predict-GRID")}
    places = {flow: sorted(one.name for one in folder.iterdir()) for flow, folder in folders.items()}
    if alone:
        assert places == {"stats-GRID": ["000001.jsonl", "000002.jsonl"], "predict-GRID": ["000002.jsonl", "000003.jsonl"]}
    else:
        assert places["predict-GRID"] == ["000001.jsonl", "000002.jsonl", "000003.jsonl"]
    text = (tmp_path / feeds.of("predict-GRID") / "GRID" / "000002.jsonl").read_text()
    assert [json.loads(line)["id"] for line in text.splitlines()] == [4, 5]
    assert not (tmp_path / "feeds" / "TAXI").exists()


def test_shares() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from benchmarks._reuse_figures import shares

    assert shares([{"1": 3, "2": 1}, {"2": 2, "7": 4}]) == {2: 0.3, 7: 0.4}


def few() -> Workload:
    """Three flows that share."""
    workload = riot_workload()
    names = ("stats-average-GRID", "etl-senml-GRID", "etl-annotate-GRID")
    return workload._replace(flows={name: workload.flows[name] for name in names}, first=2)


@pytest.mark.nightly
def test_cpu(tmp_path: Path) -> None:
    (line,) = cpu(few(), ["sequential"], [Pace(10, 0.1, 0)], walk=1)
    assert line["tasks"]["alone"][2] == 21
    assert line["tasks"]["merged"][2] == 13
    assert line["left"]["merged"]["segments"] == line["left"]["merged"]["channel_bytes"] == 0
    assert 0 < line["ceiling"] < 1
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from benchmarks._reuse_figures import draw

    draw([line], tmp_path / "figures.svg")
    assert (tmp_path / "figures.svg").read_text().count("sharing off") == 1


@pytest.mark.nightly
def test_kills() -> None:
    (line,) = kills(few(), 2, walk=4)
    assert (line["kills"], line["lost_flows"], line["different_traces"], line["which"]) == (2, 0, 0, [])
    assert line["rows"] > 100
    assert line["left"]["segments"] == line["left"]["channel_bytes"] == 0


@pytest.mark.nightly
def test_a_lost_row_is_seen(tmp_path: Path) -> None:
    """A walk whose output misses a row has another trace."""
    walk = Walk(few(), tmp_path / "walk")
    step = Step("submit", "etl-senml-GRID")
    walk.put()
    walk.take(step)
    walk.settle(step)
    walk.put()
    walk.take(Step("remove", "etl-senml-GRID"))
    walk.process.close()
    whole = walk.traces()
    assert [one.total() for one in whole.values()] == [40]
    file = next(path for path in (tmp_path / "walk" / "out").rglob("*.jsonl") if path.stat().st_size)
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    assert walk.traces() != whole
