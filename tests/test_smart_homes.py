"""The smart-homes pipeline against a recount in plain Python and against scikit-learn's own predictions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st

from examples import smart_homes, smart_homes_data
from examples.home_energy import KEPT, MAX_GAP, Average, Load, Measurement, Plug, device_of
from examples.smart_homes import PAST, Past, Predict, features_of, remember
from tracetypes import Dataflow, Item, check, interpret_rows
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.nodes import Apply
from tracetypes.stdlib import RegressionTree
from tracetypes.stdlib.item_windows import TimeWindow
from tracetypes.testing import law_tests

SMARTGRID = Path(__file__).parents[1] / "../shared/data/lightsaber/smartgrid-data.txt"


def values(flow: Dataflow, rows: list[Measurement]) -> dict[str, list[Any]]:
    """What comes out for each type of device, in order."""
    (trace,) = interpret_rows(check(flow), {"readings": rows})[0].values()
    found: dict[str, list[Any]] = defaultdict(list)
    for one in trace:
        if isinstance(one, Item):
            found[one.key].append(one.value)
    return found


def recount(rows: Iterable[Measurement]) -> dict[tuple[str, int], list[float]]:
    """All loads of a type of device at a second, gaps filled in."""
    plugs: dict[Plug, list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        if row.property == 1:
            plugs[Plug(row.house, row.household, row.plug)].append((row.timestamp, row.value))
    loads: dict[tuple[str, int], list[float]] = defaultdict(list)
    for plug, series in plugs.items():
        device = device_of(plug)
        if device not in KEPT:
            continue
        before: tuple[int, float] | None = None
        for at, watts in sorted(series):
            if before is None or at - before[0] > MAX_GAP:
                loads[device, at].append(watts)
            else:
                span = at - before[0]
                for second in range(before[0] + 1, at + 1):
                    part = (second - before[0]) / span
                    loads[device, second].append(before[1] * (1 - part) + watts * part)
            before = at, watts
    return loads


def check_averages(rows: list[Measurement]) -> int:
    loads = recount(rows)
    found = values(smart_homes.averages(), rows)
    assert {(device, one.ts) for device, many in found.items() for one in many} == set(loads)
    for device, many in found.items():
        assert [one.ts for one in many] == sorted({one.ts for one in many})
        for one in many:
            here = loads[device, one.ts]
            assert one.loads == len(here)
            assert one.watts == pytest.approx(math.fsum(here) / len(here), rel=1e-9, abs=1e-9)
    return len(loads)


def generated(homes: int, seconds: int, *, day: int = 0) -> list[Measurement]:
    start = smart_homes_data.START + day * 86_400
    return smart_homes_data.measurements(smart_homes_data.generate(homes, seconds, seed=5 + day, start=start))


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    return generated(2, 150)


def test_the_generator_makes_gaps_and_doubles() -> None:
    table = smart_homes_data.generate(3, 400, seed=2).to_pandas()
    assert table["timestamp"].is_monotonic_increasing
    assert len(table.groupby(["house", "household", "plug"])) == 3 * 24
    loads = table[table["property"] == 1]
    gaps = loads.groupby(["house", "household", "plug"])["timestamp"].diff().dropna()
    assert {0, 1, 2, 3, 4, 25} == set(gaps)
    assert 1.8 < gaps.mean() < 2.2
    assert smart_homes_data.generate(1, 60).equals(smart_homes_data.generate(1, 60))
    assert not smart_homes_data.generate(1, 60).equals(smart_homes_data.generate(1, 60, seed=2))


def test_files_are_spans_of_time(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    count = smart_homes_data.write(tmp_path, homes=1, seconds=100, files=4)
    parts = [pq.read_table(path)["timestamp"].to_numpy() for path in sorted(tmp_path.iterdir())]
    assert sum(map(len, parts)) == count
    assert [part.min() // 25 for part in parts] == [part.max() // 25 for part in parts]


def test_each_second_is_averaged_once(rows: list[Measurement]) -> None:
    assert check_averages(rows) > 500


@pytest.mark.skipif(not SMARTGRID.exists(), reason="there is no ../shared/data/lightsaber/smartgrid-data.txt")
def test_each_second_of_real_measurements_is_averaged_once() -> None:
    lines = [line.split() for line in SMARTGRID.read_text().splitlines()]
    found = [Measurement(int(ts), float(value), *map(int, place)) for ts, value, *place in lines]
    assert len(found) == 33_628
    assert check_averages(found) > 200
    predicted = values(smart_homes.flow, found)
    assert sum(map(len, predicted.values())) > 200


def test_every_second_is_predicted_by_the_tree_of_its_device(rows: list[Measurement]) -> None:
    models = smart_homes_data.train(smart_homes_data.histories(generated(1, 900)), leaves=8)
    averages = values(smart_homes.averages(), rows)
    found = values(smart_homes.predictions(smart_homes_data.trees_of(models)), rows)
    assert set(found) == set(averages) == KEPT
    for device, many in averages.items():
        watts = {one.ts: one.watts for one in many}
        features = []
        for one in many:
            minute = [watts[ts] for ts in range(one.ts - PAST + 1, one.ts + 1) if ts in watts]
            features.append((one.ts % 86_400, one.watts, sum(minute) / 3_600))
        assert [one.consumed for one in found[device]] == [consumed for _, _, consumed in features]
        assert [one.predicted for one in found[device]] == models[device].predict(features).tolist()
        assert [(one.ts, one.watts) for one in found[device]] == [(one.ts, one.watts) for one in many]


def test_the_past_is_a_minute() -> None:
    past: Past = ()
    for ts in range(100):
        past = remember(past, Average(ts, 36.0, 1))
    assert [one.ts for one in past] == list(range(40, 100))
    assert features_of(past) == (99.0, 36.0, 0.6)


def test_examples_look_ten_minutes_ahead() -> None:
    history = [Average(ts, float(ts), 1) for ts in range(1_000, 1_700)]
    known, consumed = smart_homes_data.examples_of(history)
    assert len(known) == len(consumed) == 100
    assert consumed[0] == pytest.approx(sum(range(1_001, 1_601)) / 3_600)


def test_the_trees_of_the_repository_are_those_of_all_devices(tmp_path: Path) -> None:
    trees = smart_homes.read_trees(smart_homes.TREES)
    assert set(trees) == KEPT
    smart_homes.write_trees(tmp_path / "trees.json", trees)
    assert smart_homes.read_trees(tmp_path / "trees.json") == trees
    for tree in trees.values():
        assert isinstance(tree, RegressionTree)
        assert len({len(part) for part in attrs.astuple(tree)}) == 1


@pytest.mark.nightly  # a test above has the predictions of trees every time
def test_learned_trees_beat_the_mean_on_another_day() -> None:
    models = smart_homes_data.train(smart_homes_data.histories(generated(1, 3_000)))
    later = smart_homes_data.histories(generated(1, 3_000, day=1))
    better = []
    for device, tree in smart_homes_data.trees_of(models).items():
        known, consumed = smart_homes_data.examples_of(later[device])
        mean = sum(consumed) / len(consumed)
        error = sum((tree.predict(f) - c) ** 2 for f, c in zip(known, consumed, strict=True))
        better.append(error < sum((mean - c) ** 2 for c in consumed))
    assert sum(better) >= 4  # of 5: the cycle of fridges does not repeat each day


def test_every_deployment_gives_the_same_trace(rows: list[Measurement]) -> None:
    checked = check(smart_homes.flow)
    (trace,) = interpret_rows(checked, {"readings": rows})[0].values()
    for seed in range(3):
        answer = simulate(plan(checked, parallelism=1 + seed, key_groups=4), {"readings": rows}, seed=seed)
        assert answer.trace == trace
        assert not answer.late


WATTS = st.floats(0, 5_000)
DEVICE = st.sampled_from(sorted(KEPT))

test_averages_are_lawful = law_tests(
    *(
        one.op
        for one in smart_homes.averages().graph.nodes
        if isinstance(one, Apply) and isinstance(one.op, TimeWindow)
    ),
    items=st.tuples(DEVICE, st.builds(Load, st.integers(0, 30), WATTS)),
    types=(str, Load),
    max_examples=20,
)
test_predict_is_lawful = law_tests(
    Predict(smart_homes.read_trees(smart_homes.TREES)),
    items=st.tuples(DEVICE, st.builds(Average, st.integers(0, 300), WATTS, st.integers(1, 9))),
    max_examples=20,
)
