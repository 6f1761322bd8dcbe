"""From scikit-learn's random forests to our own."""

from __future__ import annotations

from typing import Any

import numpy as np

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
        goes_on = tree.children_left >= 0
        shares = np.stack([_shares(tree.value[:, n, : len(names)], names) for n, names in enumerate(classes)], axis=1)
        shares[goes_on] = 0.0
        roots.append(start)
        feature += np.where(goes_on, tree.feature, -1).tolist()
        threshold += np.where(goes_on, tree.threshold, 0.0).tolist()
        left += np.where(goes_on, start + tree.children_left, -1).tolist()
        right += np.where(goes_on, start + tree.children_right, -1).tolist()
        probability += map(tuple, shares.tolist())
    return Forest(
        int(trained.n_features_in_),
        tuple(roots),
        tuple(feature),
        tuple(threshold),
        tuple(left),
        tuple(right),
        tuple(probability),
    )


def _shares(weights: np.ndarray[Any, Any], names: list[Any]) -> np.ndarray[Any, Any]:
    """The share of the true ones in each node. ``weights``: nodes by classes."""
    if True not in names:
        return np.zeros(len(weights))
    whole = weights.sum(axis=1)
    shares: np.ndarray[Any, Any] = np.zeros(len(weights))
    np.divide(weights[:, names.index(True)], whole, out=shares, where=whole > 0)
    np.minimum(shares, 1.0, out=shares)
    return shares
