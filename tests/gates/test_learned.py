"""Learned gates: virtual executions, training, models on disk, phases, and what they save."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from tests.gates.waves import same, sensors, workflow
from tracetypes import UsageError
from tracetypes.compiler.gates.learned.forest import forest_of
from tracetypes.compiler.gates.learned.knowledge import KnowledgeBase, subject_of
from tracetypes.compiler.gates.learned.learner import Learner, Phase
from tracetypes.compiler.gates.learned.models import Models
from tracetypes.compiler.gates.learned.quality import Standards, Trained
from tracetypes.compiler.gates.learned.reports import correlation, report
from tracetypes.compiler.gates.learned.steps import Example, Step, Tolerance, Values, VirtualExecutions, gates_before
from tracetypes.compiler.gates.learned.training import CLASSIFIERS, areas, train
from tracetypes.compiler.gates.learned.workflow import Every, Learned, Oracle, Replay, Sometimes, Wave, Workflow
from tracetypes.forests import Forest
from tracetypes.impacts import magnitude, relative_magnitude, root_mean_square
from tracetypes.learned_gates import Subject

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

BOUND = 0.1
WAVES = 96


class Always:
    """Runs all steps."""

    def decides(self, step: int, features: Sequence[Sequence[float]], needed: bool) -> bool:
        return True

    def after(self, features: Sequence[Sequence[float]], containers: Mapping[str, Values]) -> None:
        pass


@cache
def examples(waves: int = WAVES, bound: float = BOUND) -> Sequence[Example]:
    steps = workflow(bound)
    virtual, found = VirtualExecutions(steps), []
    for sources in sensors(waves, seed=1):
        containers = dict(sources)
        for step in steps:
            containers[step.name] = step.compute(*(containers[name] for name in step.reads))
        found.append(virtual.take(containers))
    return found


@cache
def trained() -> Trained:
    return train(examples(), subject(), Standards(), trees=20)


def subject(bound: float = BOUND) -> Subject:
    return subject_of("graph", workflow(bound))


def test_without_an_aim_thresholds_are_one_half() -> None:
    thresholds = train(examples(), subject(), Standards(aim=0.0), trees=5).model.thresholds
    assert thresholds == ((0.5, 0.5), (0.5,))  # of the first step for itself and for the one behind it


def test_no_threshold_is_below_the_floor() -> None:
    for floor in (0.2, 0.4):
        thresholds = train(examples(), subject(), Standards(aim=1.0, floor=floor), trees=5).model.thresholds
        assert min(one for own in thresholds for one in own) == floor


def test_a_step_runs_for_one_behind_it_that_seldom_needs_it() -> None:
    """The first feature says when the step itself has to run, every third wave; the second one when the step behind needs it."""
    about = Subject("graph", ("first", "last"), (0.5, 0.5), ((0,), (1,)), ((0, 1), (1,)), (("second",), ()))
    waves = [
        Example(n, ((own, seldom), (seldom,)), (own, seldom), (True, True), (max(own, seldom) > 0.5, seldom > 0.5))
        for n in range(240)
        for own, seldom in [(float(n % 3 == 0), float(n % 40 == 7))]
    ]
    model = train(waves, about, Standards(), trees=20).model
    assert [model.runs(0, told) for told in ((0, 0), (1, 0), (0, 1))] == [False, True, True]
    assert [model.runs(1, told) for told in ((0,), (1,))] == [False, True]


def test_virtual_executions_by_hand() -> None:
    """One number. The step doubles it; it has to run once its output is off by more than 5."""
    steps = [Step("double", ("x",), Tolerance(5.0, magnitude(same), root_mean_square(same)))]
    for accumulates, labels in ((False, [1, 0, 0, 1, 0]), (True, [1, 0, 1, 1, 0])):
        gate = Tolerance(5.0, magnitude(same), root_mean_square(same), accumulates)
        virtual = VirtualExecutions([Step("double", ("x",), gate)])
        found = [virtual.take({"x": {0: x}, "double": {0: 2 * x}}) for x in (10.0, 11.0, 9.0, 13.0, 11.0)]
        assert [one.labels[0] for one in found] == [bool(one) for one in labels]
        # Since the last virtual execution: the difference to its state, or the sum of the differences from wave to wave.
        assert [one.impacts[0] for one in found] == ([10, 1, 3, 4, 2] if accumulates else [10, 1, 1, 3, 2])
        assert [one.errors[0] for one in found] == ([20, 2, 6, 8, 4] if accumulates else [20, 2, 2, 6, 4])
    assert gates_before(steps) == [frozenset({0})]


def test_a_step_behind_one_that_did_not_run_sees_its_old_output_and_is_not_asked() -> None:
    gate = Tolerance(5.0, magnitude(same), root_mean_square(same))
    virtual = VirtualExecutions([Step("first", ("x",), gate), Step("copy", ("first",)), Step("last", ("copy",), gate)])
    waves = [
        virtual.take({**{name: {0: x} for name in ("x", "first", "copy")}, "last": {0: y}})
        for x, y in ((10.0, 10.0), (12.0, 12.0), (16.0, 13.0), (17.0, 20.0))
    ]
    assert [one.asked for one in waves] == [(True, True), (True, False), (True, True), (True, True)]
    # At the third wave the first step runs for itself, at the fourth because the last one needs it.
    assert [one.labels for one in waves] == [(True, True), (False, False), (True, False), (True, True)]
    assert [one.impacts[1] for one in waves] == [10, 0, 6, 7]


def test_the_forest_is_the_classifier() -> None:
    from sklearn.ensemble import RandomForestClassifier

    generator = np.random.default_rng(0)
    rows = generator.random((200, 3))
    labels = np.stack([rows[:, 0] > 0.5, rows[:, 1] + rows[:, 2] > 1.2], axis=1)
    classifier = RandomForestClassifier(20, random_state=0).fit(rows, labels)
    forest = Forest.from_json(json.loads(json.dumps(attrs.asdict(forest_of(classifier)))))
    fresh = generator.random((100, 3))
    theirs = np.stack([one[:, 1] for one in classifier.predict_proba(fresh)], axis=1)
    assert np.allclose([forest.probabilities(row) for row in fresh.tolist()], theirs, atol=1e-12)
    single = RandomForestClassifier(5, random_state=0).fit(rows, labels[:, 0])
    ours = [forest_of(single).probabilities(row)[0] for row in fresh.tolist()]
    assert np.allclose(ours, single.predict_proba(fresh)[:, 1], atol=1e-12)


def test_training_is_the_same_each_time_and_good_where_the_error_follows_the_impact() -> None:
    one, other = trained(), train(examples(), subject(), Standards(), trees=20)
    assert one == other
    assert not Standards(accuracy=0.8, recall=0.9).problems(one.quality)


def test_a_model_goes_to_disk_and_comes_back(tmp_path: Path) -> None:
    models, about = Models(tmp_path), subject()
    one = trained()
    assert [models.add(one, WAVES), models.add(one, WAVES)] == models.versions == [1, 2]
    loaded = models.load(1, about)
    assert attrs.evolve(loaded, model=attrs.evolve(loaded.model, version=0)) == one


def test_bad_models_are_refused(tmp_path: Path) -> None:
    models, about = Models(tmp_path), subject()
    models.add(trained(), WAVES)
    with pytest.raises(UsageError, match=r"TT253.*model 7"):
        models.load(7, about)
    with pytest.raises(UsageError, match=r"TT251.*another dataflow: bounds"):
        models.load(1, subject(0.2))
    with pytest.raises(UsageError, match=r"TT251.*another dataflow: graph 'graph', here 'other'"):
        models.load(1, subject_of("other", workflow(BOUND)))
    path = tmp_path / "model-000001.json"
    good = path.read_text()
    for bad, why in (
        (good.replace('"threshold": [0.', '"threshold": [1.', 1), "SHA-256 differs"),
        (good[:-500], "JSONDecodeError"),
        (good.replace('"format": 2', '"format": 1'), "its format is 1, ours 2"),
        (good.replace('"quality"', '"qualities"'), "KeyError"),
        ("[]", "TypeError"),
    ):
        path.write_text(bad)
        assert bad != good
        with pytest.raises(UsageError, match=rf"TT253.*{why}"):
            models.load(1, about)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"right": (0, -1, -1)}, "would not end"),
        ({"left": (7, -1, -1)}, "would not end"),
        ({"feature": (1, -1, -1)}, "a number that there is not"),
        ({"threshold": (float("nan"), 0.0, 0.0)}, "a number that there is not"),
        ({"roots": (3,)}, "outside of its nodes"),
        ({"probability": ((0.0,), (1.5,), (0.0,))}, "not between 0 and 1"),
        ({"probability": ((0.0,), (1.0, 0.0), (0.0,))}, "not about the same labels"),
        ({"threshold": (0.5,)}, "different lengths"),
    ],
)
def test_numbers_that_are_no_trees_are_refused(change: dict[str, Any], why: str) -> None:
    good = Forest(1, (0,), (0, -1, -1), (0.5, 0.0, 0.0), (1, -1, -1), (2, -1, -1), ((0.0,), (1.0,), (0.0,)))
    assert (good.probabilities([0.5]), good.probabilities([0.6])) == ((1.0,), (0.0,))
    with pytest.raises(UsageError, match=rf"TT253.*{why}"):
        attrs.evolve(good, **change)


def test_too_little_to_learn_from() -> None:
    with pytest.raises(UsageError, match=r"(?s)TT254.*5 examples.*at least 20"):
        train(examples(5), subject(), Standards())
    with pytest.raises(UsageError, match=r"(?s)TT255.*'areas' always has to run.*larger bound"):
        train(examples(bound=1e-9), subject(1e-9), Standards())
    seldom = [attrs.evolve(one, labels=(False, False)) for one in examples()]
    with pytest.raises(UsageError, match=r"(?s)TT255.*'areas' never has to run.*smaller bound"):
        train(seldom, subject(), Standards())


def test_the_knowledge_base_survives_a_cut(tmp_path: Path) -> None:
    path, waves = tmp_path / "knowledge.jsonl", examples(30)
    KnowledgeBase(path, subject()).add(waves[:20])
    data = path.read_bytes()
    for cut in (1, 50, len(data.splitlines()[-1])):
        path.write_bytes(data[:-cut])
        again = KnowledgeBase(path, subject())
        assert again.examples == waves[:19]
        again.add(waves[:20])  # an epoch that runs again adds only what is not there
        assert path.read_bytes() == data
    with pytest.raises(UsageError, match=r"TT251.*bounds \(0.1, 0.1\), here \(0.3, 0.3\)"):
        KnowledgeBase(path, subject(0.3))
    path.write_bytes(data.replace(b'"wave": 3,', b'"wave": null,'))
    with pytest.raises(UsageError, match=r"TT252.*line 5"):
        KnowledgeBase(path, subject())


def learner(path: Path, **options: object) -> Learner:
    about = subject()
    return Learner(KnowledgeBase(path / "knowledge.jsonl", about), Models(path), waves=WAVES, trees=20, **options)  # type: ignore[arg-type]


def test_the_phases(tmp_path: Path) -> None:
    one = learner(tmp_path)
    steps = workflow(BOUND)
    run = Workflow(steps, Learned(one, steps))
    source = list(sensors(3 * WAVES, seed=1))
    training = run.run(source[:WAVES])
    assert all(all(wave.ran) for wave in training)  # in training everything runs
    assert (one.phase, one.version, one.shortfall) == (Phase.APPLICATION, 1, "")
    waves = run.run(source[WAVES:])
    for gate in report(waves, one.subject.steps, one.subject.bounds):
        assert gate.confidence >= 0.85
    assert sum(one.saved for one in report(waves, one.subject.steps, one.subject.bounds)) > 0.5
    again = learner(tmp_path)  # a new process goes on with the newest model
    assert (again.phase, again.version) == (Phase.APPLICATION, 1)
    wave = [(impact,) for impact in waves[0].impacts]
    assert [again.decide(n, wave) for n in range(2)] == [one.decide(n, wave) for n in range(2)]
    again.retrain()
    assert again.version == 0
    assert again.decide(0, ((0.0,), (0.0,)))


def test_a_model_that_falls_short_is_not_used(tmp_path: Path) -> None:
    one = learner(tmp_path, standards=Standards(accuracy=1.01), more=10)
    for example in examples(WAVES + 5):
        one.learn(example)
    assert (one.phase, one.models.versions) == (Phase.TRAINING, [])
    assert "asked 1.01" in one.shortfall


def test_drift_begins_a_training(tmp_path: Path) -> None:
    one = learner(tmp_path, drift=0.5)
    waves = examples()
    for example in waves:
        one.learn(example)
    for example in waves[:60]:
        one.observe(example.impacts)
    assert one.phase is Phase.APPLICATION
    for _ in range(60):
        one.observe((0.9, 0.9))
    assert one.version == 0


def test_a_workflow_whose_steps_all_run_is_the_synchronous_one() -> None:
    waves = Workflow(workflow(BOUND), Always()).run(sensors(20, seed=4))
    assert all(error == 0 for wave in waves for error in wave.errors)


@pytest.mark.parametrize("accumulates", [False, True])
def test_the_oracle_keeps_all_bounds(accumulates: bool) -> None:
    steps = workflow(BOUND, accumulates=accumulates)
    waves = Workflow(steps, Oracle()).run(sensors(60, seed=2))
    assert max(error for wave in waves for error in wave.errors) <= BOUND
    assert report(waves, ("areas", "index"), (BOUND, BOUND))[0].saved > 0


def test_a_replay_of_recorded_waves_is_the_workflow_where_steps_read_sources_only() -> None:
    steps = workflow(BOUND)[:1]
    recorded = [{**sources, "areas": steps[0].compute(sources["sensors"])} for sources in sensors(40, seed=5)]
    one = Workflow(steps, Every(3)).run(sensors(40, seed=5))
    assert Replay(steps, Every(3)).run(recorded) == one


def test_the_naive_deciders() -> None:
    waves = Workflow(workflow(BOUND), Every(2)).run(sensors(41, seed=2))
    assert sum(wave.ran[0] for wave in waves) == 21  # the first always runs: it has no output yet
    coin = Workflow(workflow(BOUND), Sometimes(0.5, seed=1)).run(sensors(200, seed=2))
    assert 70 < sum(wave.ran[0] for wave in coin) < 130


def test_reports() -> None:
    waves = [Wave((0.0,), (True,), (0.0,)), Wave((0.1,), (False,), (0.3,)), Wave((0.2,), (False,), (0.05,))]
    (one,) = report(waves, ("step",), (0.1,))
    assert (one.executions, one.saved, one.confidence, one.largest) == (1, 1 - 1 / 3, 2 / 3, 0.3)
    assert one.violations == pytest.approx((0.2,))
    assert list(one.confidences) == [1, 1 / 2, 2 / 3]
    pairs = [Example(n, ((float(n),),), (2.0 * n if n else -9.0,), (True,), (n == 0,)) for n in range(5)]
    assert correlation(pairs, 0) == pytest.approx(1)


@pytest.mark.nightly
def test_the_six_classifiers() -> None:
    found = areas(examples(200), subject())
    assert set(found) == set(CLASSIFIERS)
    assert all(0.5 < area <= 1 for area in found.values())


def test_a_bound_must_be_positive() -> None:
    with pytest.raises(UsageError, match="TT121"):
        Tolerance(0.0, relative_magnitude(same), relative_magnitude(same))


def test_the_file_of_words_can_be_read_by_a_person(tmp_path: Path) -> None:
    Models(tmp_path).add(trained(), WAVES)
    words = json.loads((tmp_path / "model-000001.json").read_text())
    assert words["subject"]["steps"] == ["areas", "index"]
    assert words["examples"] == WAVES
