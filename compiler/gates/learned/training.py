"""Training: examples become a model, whose quality is known before it decides.

Each step has a multi-label random forest (scikit-learn). Its labels are the step and those behind it: whether the error of each
is above its bound. The step runs if one of the labels is likely. So a step behind that seldom needs it is not lost among the many
waves at which the step itself has to run. Ten-fold cross-validation gives each example probabilities from a forest that has not
seen it. From these come the measures of quality and the threshold of each label: the largest one, at most one half, that keeps
the recall that is asked for. A lower threshold runs steps too often, but rarely too late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
import numpy as np

from tracetypes.compiler.gates.learned.forest import forest_of
from tracetypes.compiler.gates.learned.quality import TREES, Quality, Standards, Trained
from tracetypes.compiler.gates.learned.steps import Example
from tracetypes.compiler.gates.reports import agreement
from tracetypes.errors import UsageError
from tracetypes.forests import Forest
from tracetypes.learned_gates import Model, Subject

__all__ = ["CLASSIFIERS", "areas", "fitted", "train"]

FOLDS: Final = 10


def train(
    examples: Sequence[Example], subject: Subject, standards: Standards, seed: int = 0, trees: int = TREES
) -> Trained:
    """A model of the examples of a subject.

    Raises :class:`UsageError` ``TT254`` without enough examples and ``TT255`` if a step always or never has to run.
    """
    thresholds, quality = list[tuple[float, ...]](), list[Quality]()
    steps = _rows(examples, subject)
    for rows in steps:
        chances = rows.out_of_fold(partial(_forest, seed, trees), seed)
        own = tuple(
            _threshold(chances[:, n], rows.labels[:, n], standards.aim, standards.floor) for n in range(chances.shape[1])
        )
        thresholds.append(own)
        quality.append(_quality((chances / np.array(own)).max(axis=1), rows.runs))
    return Trained(Model(subject, tuple(rows.forest(seed, trees) for rows in steps), tuple(thresholds)), tuple(quality))


def fitted(examples: Sequence[Example], subject: Subject, seed: int = 0, trees: int = TREES) -> tuple[Forest, ...]:
    """The forests of a model alone, without the test phase. Raises what :func:`train` raises."""
    return tuple(rows.forest(seed, trees) for rows in _rows(examples, subject))


def areas(examples: Sequence[Example], subject: Subject, seed: int = 0) -> dict[str, float]:
    """The area under the ROC curve of each of the paper's six classifiers, the mean over the steps (section 3) that have both
    labels at ten waves or more; nothing if none has. The label is whether the step has to run, since not all of the six know
    several."""
    found: dict[str, list[float]] = {name: [] for name in CLASSIFIERS}
    for rows in _rows(examples, subject):
        if min(rows.runs.sum(), (~rows.runs).sum()) < FOLDS:
            continue  # nearly always the same: a fold has nothing to learn from
        own = attrs.evolve(rows, labels=rows.runs[:, None])
        for name, make in CLASSIFIERS.items():
            found[name].append(_area(own.out_of_fold(partial(make, seed), seed)[:, 0], own.runs))
    return {name: float(np.mean(one)) for name, one in found.items() if one}


@attrs.frozen(eq=False)
class _Rows:
    """What the classifier of a step sees: a row for each wave at which it is asked. ``features``: those that it is told.
    ``labels``: of the step and those behind it, whether the error is above the bound. ``runs``: whether the step has to run."""

    features: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    runs: np.ndarray[Any, Any]

    def forest(self, seed: int, trees: int) -> Forest:
        """Of all rows."""
        return forest_of(_forest(seed, trees).fit(self.features, _shaped(self.labels)))

    def out_of_fold(self, make: Callable[[], Any], seed: int) -> np.ndarray[Any, Any]:
        """The probability of each label, rows by labels, from a classifier that was trained without the row's fold."""
        fold = np.random.default_rng(seed).permutation(len(self.runs)) % FOLDS
        chances = np.zeros(self.labels.shape)
        for number in range(FOLDS):
            tested = fold == number
            if not tested.any():
                continue
            features, labels = self.features[~tested], self.labels[~tested]
            some = [n for n in range(labels.shape[1]) if len(np.unique(labels[:, n])) == 2]
            chances[tested] = labels.mean(axis=0)
            if some:
                chance = make().fit(features, _shaped(labels[:, some])).predict_proba(self.features[tested])
                chances[np.ix_(tested, some)] = np.stack(
                    [one[:, 1] for one in (chance if isinstance(chance, list) else [chance])], axis=1
                )
        return chances


def _rows(examples: Sequence[Example], subject: Subject) -> list[_Rows]:
    """The rows of each step. Raises what :func:`train` raises."""
    if len(examples) < 2 * FOLDS:
        fix = f"train for at least {2 * FOLDS} waves, or give a knowledge base that has them"
        raise UsageError("TT254", f"there are {len(examples)} examples to learn from", fix=fix)
    steps = list[_Rows]()
    for n, name in enumerate(subject.steps):
        runs = [one.labels[n] for one in examples]
        if len(set(runs)) < 2:
            what, other = ("always", "larger") if any(runs) else ("never", "smaller")
            fix = f"train for more waves, or give a {other} bound, or leave the gate out"
            raise UsageError("TT255", f"step {name!r} {what} has to run in {len(runs)} waves, which teaches nothing", fix=fix)
        asked = [one for one in examples if one.asked[n]]
        steps.append(
            _Rows(
                np.array([subject.told(n, one.features) for one in asked]),
                np.array([[one.errors[other] > subject.bounds[other] for other in subject.behind[n]] for one in asked]),
                np.array([one.labels[n] for one in asked]),
            )
        )
    return steps


def _shaped(labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return labels[:, 0] if labels.shape[1] == 1 else labels


def _threshold(chances: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], aim: float, floor: float) -> float:
    """The largest threshold from ``floor`` to one half that finds a share of ``aim`` of the waves with the label."""
    if not labels.any():
        return 0.5
    needed = np.sort(chances[labels])
    miss = int((1 - aim) * len(needed) + 1e-9)
    return float(min(0.5, max(needed[miss], floor))) if miss < len(needed) else 0.5


def _quality(chances: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> Quality:
    """``chances``: in units of the threshold."""
    found = agreement((chances >= 1).tolist(), labels.tolist())
    return Quality(found.accuracy, found.precision, found.recall, area=_area(chances, labels))


def _area(chances: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    from sklearn.metrics import roc_auc_score

    if len(np.unique(labels)) < 2:
        return 1.0  # it runs whenever it is asked: nothing can be taken for something else
    return float(roc_auc_score(labels, chances))


def _forest(seed: int, trees: int = TREES) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(trees, random_state=seed, class_weight="balanced_subsample", min_samples_leaf=2)


def _bayes(seed: int) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


def _tree(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(random_state=seed, min_samples_leaf=2)


def _logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def _network(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), MLPClassifier((16,), solver="lbfgs", max_iter=2000, random_state=seed))


def _vectors(seed: int) -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(random_state=seed), ensemble=False, cv=3))


CLASSIFIERS: Final[Mapping[str, Callable[[int], Any]]] = {
    "random forest": _forest,
    "support vector machine": _vectors,
    "naive Bayes": _bayes,
    "decision tree": _tree,
    "logistic regression": _logistic,
    "neural network": _network,
}
"""The paper's six. scikit-learn has no Bayes network and no J48: naive Bayes and CART stand for them."""
