"""Predictions of a regression tree that was trained before.

Running needs no scikit-learn; :func:`train_regression_tree` and :func:`tree_of` need it (``pip install
'tracetypes[learn]'``), once, on the author's machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.errors import UsageError
from tracetypes.forests import single
from tracetypes.graph import extend
from tracetypes.stdlib.signatures import KeyedOperator, OrderedOperator, on_ordered
from tracetypes.stdlib.windows import whole
from tracetypes.templates import Emit, EmitValue, OpKeyedOrdered, OpStateless

__all__ = [
    "Lagged",
    "Lags",
    "Predict",
    "Predicted",
    "RegressionTree",
    "lagged",
    "predict",
    "single",
    "train_regression_tree",
    "tree_of",
]

K = TypeVar("K")
V = TypeVar("V")


@attrs.frozen
class RegressionTree:
    """A binary regression tree as plain tuples with a place for each node. The root is node 0.

    In node ``n`` an item whose feature ``feature[n]`` is at most ``threshold[n]`` goes on to ``left[n]``, any other to
    ``right[n]``. An item whose feature is NaN goes left if ``missing_left[n]``. A leaf has ``left[n] == -1`` and
    predicts ``value[n]``.
    """

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]
    missing_left: tuple[bool, ...]

    def predict(self, features: Sequence[float]) -> float:
        """The prediction for one item. Features are compared as 32-bit floats, as scikit-learn does. Features beyond
        their range count as infinities."""
        node = 0
        while self.left[node] >= 0:
            x = single(features[self.feature[node]])
            goes_left = self.missing_left[node] if x != x else x <= self.threshold[node]
            node = self.left[node] if goes_left else self.right[node]
        return self.value[node]


@attrs.frozen
class Predicted(Generic[V]):
    """An item with the prediction of a model."""

    item: V
    prediction: float


@attrs.frozen
class Predict(OpStateless[K, V, K, Predicted[V]]):
    """See :func:`predict`."""

    _word = "predict"
    _in_python = "goes through the nodes of a tree, one after the other"

    tree: RegressionTree
    features: Callable[[V], Sequence[float]]

    def on_item(self, key: K, value: V, emit: Emit[K, Predicted[V]]) -> None:
        emit(key, Predicted(value, self.tree.predict(self.features(value))))


def predict(tree: RegressionTree, features: Callable[[V], Sequence[float]]) -> KeyedOperator[V, Predicted[V]]:
    """Each item with the tree's prediction for its ``features``, which are in the order of the training.

    Costs the depth of the tree; no state. The tree comes from :func:`train_regression_tree` or :func:`tree_of`. This
    one has a single decision:

    >>> tree = RegressionTree((0, -1, -1), (2.5, 0.0, 0.0), (1, -1, -1), (2, -1, -1), (0.0, 10.0, 20.0), (False,) * 3)
    >>> preview(predict(tree, lambda x: (x,)), U[str, float], [("a", 2.0), ("a", 3.0)])
    [[('a', Predicted(item=2.0, prediction=10.0)), ('a', Predicted(item=3.0, prediction=20.0))]]
    """
    op: Any = Predict(tree, features)
    return lambda upstream: extend(upstream, op)


@attrs.frozen
class Lagged(Generic[V]):
    """An item with the numbers of the last items of its key up to itself, the oldest first."""

    item: V
    numbers: tuple[float, ...]


@attrs.frozen
class Lags(OpKeyedOrdered[K, V, Lagged[V], tuple[float, ...]]):
    """See :func:`lagged`. The state is the last numbers."""

    _word = "lagged"

    number: Callable[[V], float]
    items: int

    def initial_state(self) -> tuple[float, ...]:
        return ()

    def on_item(self, state: tuple[float, ...], key: K, value: V, emit: EmitValue[Lagged[V]]) -> tuple[float, ...]:
        numbers = (*state, float(self.number(value)))[-self.items :]
        if len(numbers) == self.items:
            emit(Lagged(value, numbers))
        return numbers


def lagged(number: Callable[[V], float], *, items: int) -> OrderedOperator[V, Lagged[V]]:
    """Each item with the numbers of the last ``items`` items of its key, from the first item that has so many.

    A forecast is made from this: train on ``numbers[:-1]`` with the target ``numbers[-1]``, predict from
    ``numbers[1:]``. Raises :class:`UsageError` ``TT121`` for fewer than one item.

    >>> preview(lagged(lambda x: x, items=2), O[str, float], [("a", 1.0), ("a", 4.0)], [("a", 9.0)])
    [[('a', Lagged(item=4.0, numbers=(1.0, 4.0)))], [('a', Lagged(item=9.0, numbers=(4.0, 9.0)))]]
    """
    whole("items", items)
    return on_ordered(Lags(number, items))


def tree_of(trained: Any) -> RegressionTree:
    """A trained ``sklearn.tree.DecisionTreeRegressor`` of one output as plain tuples.

    Raises :class:`UsageError` ``TT121`` for another model, an untrained one, or one with several outputs.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree_of(DecisionTreeRegressor(random_state=0).fit([[1.0], [3.0]], [10.0, 20.0])).predict((2.5,))
    20.0
    """
    inner = getattr(trained, "tree_", None)
    if inner is None or getattr(inner, "value", None) is None or inner.value.shape[1:] != (1, 1):
        raise UsageError(
            "TT121",
            f"{type(trained).__name__} is no trained regression tree of one output",
            fix="pass a DecisionTreeRegressor after fit(X, y) with one number for each row in y",
        )
    missing = getattr(inner, "missing_go_to_left", None)
    return RegressionTree(
        feature=tuple(int(f) for f in inner.feature),
        threshold=tuple(float(t) for t in inner.threshold),
        left=tuple(int(n) for n in inner.children_left),
        right=tuple(int(n) for n in inner.children_right),
        value=tuple(float(v) for v in inner.value[:, 0, 0]),
        missing_left=(False,) * inner.node_count if missing is None else tuple(bool(m) for m in missing),
    )


def train_regression_tree(
    rows: Sequence[V],
    *,
    features: Callable[[V], Sequence[float]],
    target: Callable[[V], float],
    max_depth: int | None = None,
    min_samples_leaf: int = 1,
    seed: int = 0,
) -> RegressionTree:
    """A CART regression tree (Breiman et al., 1984) that predicts ``target`` from ``features``, by scikit-learn.

    The tree depends only on the rows, their order and the seed. Raises :class:`UsageError` ``TT121`` without rows, and
    ``TT401`` without scikit-learn.

    >>> tree = train_regression_tree([1, 2, 8, 9], features=lambda n: (n,), target=lambda n: 10.0 if n < 5 else 20.0)
    >>> tree.predict((3.0,)), tree.predict((7.0,))
    (10.0, 20.0)
    """
    if not rows:
        raise UsageError("TT121", "there are no rows to learn from", fix="give one row or more")
    try:
        from sklearn.tree import DecisionTreeRegressor
    except ImportError as error:
        raise UsageError(
            "TT401", f"training needs scikit-learn, which is not here ({error})", fix="pip install 'tracetypes[learn]'"
        ) from None
    model = DecisionTreeRegressor(max_depth=max_depth, min_samples_leaf=min_samples_leaf, random_state=seed)
    return tree_of(model.fit([list(features(row)) for row in rows], [target(row) for row in rows]))
