"""From scikit-learn's random forests to our own."""

from __future__ import annotations

from typing import Any

from tracetypes.forests import Forest

__all__ = ["forest_of"]


def forest_of(trained: Any) -> Forest:
    """A trained ``RandomForestClassifier`` of boolean labels: one column of labels or more."""
    classes = [list(one) for one in (trained.classes_ if trained.n_outputs_ > 1 else [trained.classes_])]
    roots: list[int] = []
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    probability: list[tuple[float, ...]] = []
    for estimator in trained.estimators_:
        tree, start = estimator.tree_, len(feature)
        roots.append(start)
        for node in range(tree.node_count):
            is_leaf = tree.children_left[node] < 0
            feature.append(-1 if is_leaf else int(tree.feature[node]))
            threshold.append(0.0 if is_leaf else float(tree.threshold[node]))
            left.append(-1 if is_leaf else start + int(tree.children_left[node]))
            right.append(-1 if is_leaf else start + int(tree.children_right[node]))
            probability.append(
                tuple(_share(tree.value[node][label], names) for label, names in enumerate(classes))
                if is_leaf
                else (0.0,) * len(classes)
            )
    return Forest(
        int(trained.n_features_in_),
        tuple(roots),
        tuple(feature),
        tuple(threshold),
        tuple(left),
        tuple(right),
        tuple(probability),
    )


def _share(weights: Any, names: list[Any]) -> float:
    """The share of the true ones."""
    whole = float(sum(weights[: len(names)]))
    return min(1.0, float(weights[names.index(True)]) / whole) if True in names and whole > 0 else 0.0
