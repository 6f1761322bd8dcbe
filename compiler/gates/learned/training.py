"""Training: examples become a model, whose quality is known before it decides.

One multi-label random forest learns all steps at once (scikit-learn). Ten-fold cross-validation gives each example a
probability from a forest that has not seen it. From these come the measures of quality and, for each step, the threshold above
which it runs: the largest one, at most one half, that keeps the recall asked for. A lower threshold runs steps too often, but
rarely too late.
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
    rows = _Rows.of(examples, subject)
    chances = rows.out_of_fold(partial(_forest, seed, trees), seed)
    asked = [rows.step == n for n in range(len(subject.steps))]
    thresholds = tuple(_threshold(chances[one, n], rows.labels[one, n], standards.aim) for n, one in enumerate(asked))
    quality = tuple(_quality(chances[one, n], rows.labels[one, n], thresholds[n]) for n, one in enumerate(asked))
    return Trained(Model(subject, rows.forest(seed, trees), thresholds), quality)


def fitted(examples: Sequence[Example], subject: Subject, seed: int = 0, trees: int = TREES) -> Forest:
    """The forest of a model alone, without the test phase. Raises what :func:`train` raises."""
    return _Rows.of(examples, subject).forest(seed, trees)


def areas(examples: Sequence[Example], subject: Subject, seed: int = 0) -> dict[str, float]:
    """The area under the ROC curve of each of the paper's six classifiers, the mean over the steps (section 3) that have both
    labels at ten waves or more; nothing if none has. Each step has a classifier of its own, since not all of the six know several
    labels."""
    rows = _Rows.of(examples, subject)
    found: dict[str, list[float]] = {name: [] for name in CLASSIFIERS}
    for n in range(len(subject.steps)):
        own = rows.of_step(n)
        if min(own.labels.sum(), (~own.labels).sum()) < FOLDS:
            continue  # nearly always the same: a fold has nothing to learn from
        for name, make in CLASSIFIERS.items():
            found[name].append(_area(own.out_of_fold(partial(make, seed), seed)[:, 0], own.labels[:, 0]))
    return {name: float(np.mean(one)) for name, one in found.items() if one}


@attrs.frozen(eq=False)
class _Rows:
    """What classifiers see: a row for each step that is asked at a wave. ``impacts``: those that are there then. ``labels``: of
    the whole wave. ``wave`` and ``step``: of each row."""

    impacts: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    wave: np.ndarray[Any, Any]
    step: np.ndarray[Any, Any]

    @classmethod
    def of(cls, examples: Sequence[Example], subject: Subject) -> _Rows:
        """Of examples that teach something about each step."""
        if len(examples) < 2 * FOLDS:
            fix = f"train for at least {2 * FOLDS} waves, or give a knowledge base that has them"
            raise UsageError("TT254", f"there are {len(examples)} examples to learn from", fix=fix)
        for n, name in enumerate(subject.steps):
            labels = [one.labels[n] for one in examples]
            if len(set(labels)) < 2:
                what, other = ("always", "larger") if any(labels) else ("never", "smaller")
                fix = f"train for more waves, or give a {other} bound, or leave the gate out"
                text = f"step {name!r} {what} has to run in {len(labels)} waves, which teaches nothing"
                raise UsageError("TT255", text, fix=fix)
        places = [(one, n) for one in examples for n in range(len(subject.steps)) if one.asked[n]]
        return cls(
            np.array([subject.told(n, one.impacts) for one, n in places]),
            np.array([one.labels for one, _ in places]),
            np.array([one.wave for one, _ in places]),
            np.array([n for _, n in places]),
        )

    def forest(self, seed: int, trees: int) -> Forest:
        """Of all rows."""
        return forest_of(_forest(seed, trees).fit(self.impacts, _shaped(self.labels)))

    def of_step(self, step: int) -> _Rows:
        """The rows and the label of one step."""
        own = self.step == step
        return _Rows(self.impacts[own], self.labels[own][:, [step]], self.wave[own], self.step[own])

    def out_of_fold(self, make: Callable[[], Any], seed: int) -> np.ndarray[Any, Any]:
        """The probability of each label, rows by labels, from a classifier that was trained without the row's fold. A fold has
        whole waves."""
        waves = np.unique(self.wave)
        fold = np.zeros(int(waves.max()) + 1, dtype=int)
        fold[np.random.default_rng(seed).permutation(waves)] = np.arange(len(waves)) % FOLDS
        chances = np.zeros(self.labels.shape)
        for number in range(FOLDS):
            tested = fold[self.wave] == number
            if not tested.any():
                continue
            impacts, labels = self.impacts[~tested], self.labels[~tested]
            if any(len(np.unique(labels[:, n])) < 2 for n in range(labels.shape[1])):
                chances[tested] = labels.mean(axis=0)
                continue
            chance = make().fit(impacts, _shaped(labels)).predict_proba(self.impacts[tested])
            chances[tested] = np.stack([one[:, 1] for one in (chance if isinstance(chance, list) else [chance])], axis=1)
        return chances


def _shaped(labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return labels[:, 0] if labels.shape[1] == 1 else labels


def _threshold(chances: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], aim: float) -> float:
    """The largest threshold up to one half that finds a share of ``aim`` of the waves at which the step has to run."""
    if not labels.any():
        return 0.5
    needed = np.sort(chances[labels])
    miss = int((1 - aim) * len(needed) + 1e-9)
    return float(min(0.5, max(needed[miss], 0.01))) if miss < len(needed) else 0.5


def _quality(chances: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], threshold: float) -> Quality:
    found = agreement((chances >= threshold).tolist(), labels.tolist())
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
