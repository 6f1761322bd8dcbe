"""From a dataflow with learned gates to a model, and back into the dataflow."""

import json
import math
import random
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest

import tracetypes
from tracetypes import (
    CheckFailed,
    Dataflow,
    EmitValue,
    Marker,
    OpKeyedOrdered,
    Standards,
    Training,
    U,
    UsageError,
    check,
    every,
    interpret_rows,
    load_model,
    shadow,
    train_gates,
)
from tracetypes.compiler.gates.learned.flows import TrainingRun
from tracetypes.compiler.gates.learned.steps import VirtualExecutions
from tracetypes.forests import Forest
from tracetypes.impacts import magnitude, net_change, relative_error
from tracetypes.learned_gates import Model, feature, learned
from tracetypes.stdlib import map_values
from tracetypes.trace import Item

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

HOUR = 3_600
WAVES = 60


@attrs.frozen
class Reading:
    sensor: int
    hour: int
    level: float


@attrs.frozen
class Excess(OpKeyedOrdered[int, Reading, float, float]):
    """How far a level is above 40."""

    def initial_state(self) -> float:
        return 0.0

    def on_item(self, state: float, key: int, value: Reading, emit: EmitValue[float]) -> float:
        emit(max(0.0, value.level - 40.0))
        return value.level


@attrs.frozen
class Twice(OpKeyedOrdered[int, float, float, None]):
    """Twice as much."""

    def initial_state(self) -> None:
        return None

    def on_item(self, state: None, key: int, value: float, emit: EmitValue[float]) -> None:
        emit(2 * value)


def is_high(level: float) -> bool:
    return level > 30.0


def flow(model: Model | None = None, *, error: float = 0.2, doubled: bool = False) -> Dataflow:
    graph = Dataflow("excess")
    markers = every(seconds=HOUR, time=lambda reading: reading.hour * HOUR)
    readings = graph.source("readings", U[int, Reading], key=lambda reading: reading.sensor, markers=markers)
    latest = readings.latest(learned("excess", error=error, columns="level", model=model), latest_by=lambda one: one.hour)
    excess = latest.through(Excess())
    if doubled:
        excess = excess.through(Twice())
    warned = excess.gate(learned("warning", error=error, model=model))
    graph.sink("excess", excess, marker="at")
    graph.sink("warning", warned.through(map_values(is_high)), marker="at")
    return graph


@cache
def rows(waves: int = WAVES) -> list[Reading]:
    chance = random.Random(1)
    return [
        Reading(sensor, hour, 50 + 30 * math.sin(hour / 5) + chance.gauss(0, 1)) for hour in range(waves) for sensor in range(6)
    ]


def training(path: Path, **options: Any) -> Training:
    return train_gates(flow(), {"readings": rows()}, path, trees=10, **options)


def test_a_model_saves_executions_and_both_backends_agree_on_them(tmp_path: Path) -> None:
    done = training(tmp_path / "models", standards=Standards(accuracy=0.0, recall=0.5))
    assert done.shortfall == []
    assert set(done.quality) == {"excess", "warning"}
    model = load_model(tmp_path / "models")
    assert model == done.model
    assert (model.version, str(model)) == (1, "model 1")
    traces, _ = interpret_rows(check(flow(model)), {"readings": rows()})
    ungated, _ = interpret_rows(check(flow()), {"readings": rows()})
    items = len(traces["excess"].items), len(ungated["excess"].items)
    assert items[0] < items[1]
    assert len(traces["warning"].items) <= len(ungated["warning"].items)
    outputs: dict[str, list[Any]] = {"excess": [], "warning": []}
    tracetypes.run(flow(model), inputs={"readings": rows()}, outputs=outputs, backend="local", parallelism=2)
    for name, found in outputs.items():
        items_of = [(one.key, one.value) for one in traces[name].items if isinstance(one, Item)]
        assert sorted(one[:2] for one in found) == sorted(items_of)


def test_the_waves_of_a_dataflow_are_those_of_a_recount() -> None:
    run = TrainingRun(check(flow()))
    virtual = VirtualExecutions(run.steps)
    found = [virtual.take(wave) for wave in run.waves({"readings": rows()})]
    assert len(found) == WAVES
    levels = [{one.sensor: one.level for one in rows() if one.hour == hour} for hour in range(WAVES)]
    shown: dict[int, float] = {}
    for hour, now in enumerate(levels):
        excess = {sensor: max(0.0, level - 40.0) for sensor, level in now.items()}
        differ = [sensor for sensor in excess if sensor not in shown or excess[sensor] != shown[sensor]]
        size = sum(excess[sensor] for sensor in differ)
        apart = sum(abs(excess[sensor] - shown.get(sensor, 0.0)) for sensor in differ)
        error = min(1.0, apart / size * len(differ) / 6) if apart and size else 1.0 if apart else 0.0
        assert found[hour].errors[0] == pytest.approx(error)
        assert found[hour].labels[0] == (error > 0.2 or found[hour].labels[1])
        if found[hour].labels[0]:
            shown = excess


def pair(sensor: int) -> int:
    return sensor // 2


PAIRS = feature(relative_error(), "level", by=pair)
CALM = feature(net_change(), "level", rows=lambda sensor: sensor > 3)


def featured(model: Model | None = None, *features: Any) -> Dataflow:
    graph = Dataflow("pairs")
    markers = every(seconds=HOUR, time=lambda reading: reading.hour * HOUR)
    readings = graph.source("readings", U[int, Reading], key=lambda reading: reading.sensor, markers=markers)
    bound = learned("excess", error=0.2, columns="level", features=features or (PAIRS, CALM), model=model)
    graph.sink("excess", readings.latest(bound, latest_by=lambda one: one.hour).through(Excess()), marker="at")
    return graph


def test_features_of_a_dataflow_are_those_of_a_recount() -> None:
    run = TrainingRun(check(featured()))
    virtual = VirtualExecutions(run.steps)
    found = [virtual.take(wave) for wave in run.waves({"readings": rows()})]
    then = dict.fromkeys(range(6), 0.0)
    for hour, one in enumerate(found):
        now = {reading.sensor: reading.level for reading in rows() if reading.hour == hour}
        means = [[(level[n] + level[n + 1]) / 2 for n in (0, 2, 4)] for level in (now, then)]
        apart = sum(abs(a - b) for a, b in zip(*means, strict=True)) / sum(means[0])
        net = abs(now[4] + now[5] - then[4] - then[5]) / 2
        assert list(one.features[0][1:]) == pytest.approx([min(1.0, apart), net])
        then = now if one.labels[0] else then


def test_a_gate_sees_the_features_that_it_was_trained_with(tmp_path: Path) -> None:
    done = train_gates(featured(), {"readings": rows()}, tmp_path, trees=10, standards=Standards(accuracy=0.0, recall=0.0))
    model = load_model(tmp_path)
    assert model.subject.features == (("relative_error(float) of level by pair", "net_change(float) of level where <lambda>"),)
    assert {forest.features for forest in model.forests} == {3}
    traces, _ = interpret_rows(check(featured(model)), {"readings": rows()})
    ungated, _ = interpret_rows(check(featured()), {"readings": rows()})
    assert 0 < len(traces["excess"].items) < len(ungated["excess"].items)
    outputs: dict[str, list[Any]] = {"excess": []}
    tracetypes.run(featured(model), inputs={"readings": rows()}, outputs=outputs, backend="local", parallelism=2)
    assert sorted(one[:2] for one in outputs["excess"]) == sorted(
        (one.key, one.value) for one in traces["excess"].items if isinstance(one, Item)
    )
    with pytest.raises(UsageError, match=r"TT251 model 1 knows 'excess' with the features .*net_change.*, here "):
        featured(done.model, PAIRS)
    with pytest.raises(UsageError, match=r"TT251.*another dataflow: features"):
        train_gates(featured(None, PAIRS), {"readings": rows()}, tmp_path)


def test_more_rows_add_to_the_knowledge(tmp_path: Path) -> None:
    training(tmp_path)
    again = training(tmp_path)
    assert [one.wave for one in again.examples] == list(range(2 * WAVES))
    assert len((tmp_path / "knowledge.jsonl").read_text().splitlines()) == 1 + 2 * WAVES


def test_rows_that_have_drifted_train_again(tmp_path: Path) -> None:
    lax = Standards(accuracy=0.0, recall=0.0)
    first = training(tmp_path, standards=lax)
    assert first.drift == {}
    known = (tmp_path / "knowledge.jsonl").read_text()
    same = training(tmp_path, standards=lax, drift=0.3)
    assert (same.model, same.drift) == (first.model, {"excess": 0.0, "warning": 0.0})
    assert (tmp_path / "knowledge.jsonl").read_text() == known
    calm = [attrs.evolve(one, level=55 + (one.level - 50) / 20) for one in rows()]
    moved = train_gates(flow(), {"readings": calm}, tmp_path, trees=10, standards=lax, drift=0.3)
    assert moved.model.version == 2
    assert moved.drift["excess"] > 0.3
    assert len(moved.examples) == 2 * WAVES
    with pytest.raises(UsageError, match=r"TT121 drift=30 is no distance"):
        training(tmp_path, drift=30)


def test_a_model_that_falls_short_is_not_stored(tmp_path: Path) -> None:
    done = training(tmp_path, standards=Standards(accuracy=1.01))
    assert done.model.version == 0
    assert "asked 1.01" in done.shortfall[0]
    with pytest.raises(UsageError, match=r"TT253.*has no model"):
        load_model(tmp_path)


def test_what_is_refused(tmp_path: Path) -> None:
    model = training(tmp_path, standards=Standards(accuracy=0.0, recall=0.0)).model
    with pytest.raises(CheckFailed, match=r"(?s)TT251.*trained with another graph"):
        check(flow(model, doubled=True))
    with pytest.raises(UsageError, match=r"(?s)TT251 model 1 knows 'excess' with an error of 0.2, here is 'excess' with 0.1"):
        flow(model, error=0.1)
    with pytest.raises(UsageError, match=r"(?s)TT251.*knows the steps excess, warning, here is 'other'"):
        learned("other", error=0.2, model=model)
    with pytest.raises(UsageError, match=r"TT121 error=0"):
        learned("other", error=0)
    with pytest.raises(UsageError, match=r"TT251.*bounds \(0.2, 0.2\), here \(0.3, 0.3\)"):
        train_gates(flow(error=0.3), {"readings": rows()}, tmp_path)
    plain = Dataflow("plain")
    plain.sink("out", plain.source("in", U[int, float], markers=every(seconds=1, time=float)))
    with pytest.raises(UsageError, match="TT121 the dataflow has no learned gate"):
        train_gates(plain, {"in": []}, tmp_path / "other")
    twice = Dataflow("twice")
    source = twice.source("in", U[int, float], markers=every(seconds=1, time=float))
    for name in ("a", "b"):
        twice.sink(name, source.gate(learned("same", error=0.1), latest_by=float))
    with pytest.raises(UsageError, match=r"TT121.*a second gate learns 'same'"):
        train_gates(twice, {"in": []}, tmp_path / "other")


def test_the_columns_of_a_learned_bound_are_checked() -> None:
    graph = Dataflow("wrong")
    source = graph.source("in", U[int, Reading], markers=every(seconds=1, time=lambda one: one.hour))
    graph.sink("out", source.gate(learned("step", error=0.1, columns="levle"), latest_by=lambda one: one.hour))
    with pytest.raises(CheckFailed, match=r"(?s)TT127.*'levle'.*name the column 'level'"):
        check(graph)


def test_a_knowledge_base_is_lines_of_json(tmp_path: Path) -> None:
    training(tmp_path)
    first, second = (json.loads(line) for line in (tmp_path / "knowledge.jsonl").read_text().splitlines()[:2])
    assert first["steps"] == ["excess", "warning"]
    assert (second["wave"], second["labels"]) == (0, [True, False])


def test_the_shadow_shows_what_gates_save_and_cost(tmp_path: Path) -> None:
    model = training(tmp_path, standards=Standards(accuracy=0.0, recall=0.0)).model
    found = shadow(flow(model), {"readings": rows()})
    assert [one.name for one in found] == ["excess", "warning", "sink excess", "sink warning"]
    excess = found["excess"]
    traces, _ = interpret_rows(check(flow(model)), {"readings": rows()})
    through = sum(isinstance(one, Marker) for one in traces["excess"].items)
    assert (excess.markers, excess.executions, excess.bound) == (WAVES, through, 0.2)
    assert excess.saved == 1 - through / WAVES
    assert len(excess.errors) == WAVES
    assert excess.confidences[-1] == 1 - len(excess.violations) / WAVES
    assert (excess.errors[0], excess.errors[-1]) == (0.0, 0.0)  # all markers but these may be held
    assert 0 < excess.mean < excess.largest
    assert str(found).splitlines()[1].split()[:4] == ["excess", str(WAVES), str(WAVES), str(through)]
    assert json.loads(found.json())["reports"][0]["errors"] == list(excess.errors)
    ungated = shadow(flow(), {"readings": rows()})
    assert all(one.largest == one.saved == 0 for one in ungated)


def test_a_shadow_needs_a_gate() -> None:
    plain = Dataflow("plain")
    plain.sink("out", plain.source("in", U[int, float], markers=every(seconds=1, time=float)))
    with pytest.raises(UsageError, match="TT121 the dataflow has no gate"):
        shadow(plain, {"in": []})


@pytest.mark.parametrize("accumulates", [False, True])
def test_changes_accumulate_or_cancel_in_a_dataflow(*, accumulates: bool) -> None:
    def alone(model: Model | None = None) -> Dataflow:
        graph = Dataflow("alone")
        markers = every(seconds=1, time=lambda one: one.hour)
        source = graph.source("levels", U[int, Reading], key=lambda one: one.sensor, markers=markers)
        bound = learned("out", error=0.1, columns="level", impact=magnitude(), accumulates=accumulates, model=model)
        graph.sink("out", source.latest(bound, latest_by=lambda one: one.hour))
        return graph

    leaves = (0.0,), (0.0,), (1.0,)  # runs at impacts above 25
    forest = Forest(1, (0,), (0, -1, -1), (25.0, 0.0, 0.0), (1, -1, -1), (2, -1, -1), leaves)
    model = Model(TrainingRun(check(alone())).subject, (forest,), ((0.5,),))
    levels = [10.0, 20.0, 10.0, 20.0, 10.0, 30.0, 40.0, 40.0, 30.0, 20.0, 0.0, 0.0]
    traces, _ = interpret_rows(check(alone(model)), {"levels": [Reading(0, at, level) for at, level in enumerate(levels)]})
    found = [one.value.hour for one in traces["out"].items if isinstance(one, Item)]
    wanted, shown, before, total = [0], levels[0], levels[0], 0.0
    for at, level in enumerate(levels[1:], 1):
        total = total + abs(level - before) if accumulates else abs(level - shown)
        before = level
        if total > 25 or at == len(levels) - 1:  # the last marker is let through
            wanted.append(at)
            shown, total = level, 0.0
    assert found == wanted
