"""A random forest as plain numbers: decides without scikit-learn and numpy, and is stored as JSON.

Features are compared as 32-bit floats, as scikit-learn does, so the probabilities are those of the classifier that a forest was
made from, up to the rounding of their mean.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import attrs

from tracetypes.errors import UsageError

__all__ = ["Forest", "single"]


def single(x: float) -> float:
    """The nearest 32-bit float, as a float."""
    try:
        nearest: float = struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)
    return nearest


@attrs.frozen
class Forest:
    """Trees over ``features`` numbers, in the same tuples, one behind the other. ``roots``: the first node of each tree.

    In node ``n`` a row whose feature ``feature[n]`` is at most ``threshold[n]`` goes on to node ``left[n]``, any other to
    ``right[n]``. A leaf has ``left[n] == -1``, and ``probability[n]`` for each label. Raises :class:`UsageError` ``TT253`` for
    numbers that are no such trees.
    """

    features: int
    roots: tuple[int, ...]
    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    probability: tuple[tuple[float, ...], ...]

    def __attrs_post_init__(self) -> None:
        if problem := self._problem():
            raise UsageError("TT253", f"the model is damaged: {problem}", fix="train again, or restore the file from a copy")

    def _problem(self) -> str | None:
        nodes = len(self.feature)
        if any(len(one) != nodes for one in (self.threshold, self.left, self.right, self.probability)):
            return "its columns have different lengths"
        if len({len(one) for one in self.probability}) != 1 or not self.probability[0]:
            return "its leaves are not about the same labels"
        if not self.roots or not all(0 <= root < nodes for root in self.roots):
            return "a tree begins outside of its nodes"
        for node, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            if left == right == -1:
                continue
            if not (node < left < nodes and node < right < nodes):
                return "a node goes on to one before it or to none, so a decision would not end"
            if not 0 <= self.feature[node] < self.features or not math.isfinite(self.threshold[node]):
                return "a decision is about a number that there is not"
        if not all(0 <= one <= 1 for leaf in self.probability for one in leaf):
            return "a probability is not between 0 and 1"
        return None

    @property
    def labels(self) -> int:
        """How many labels it knows."""
        return len(self.probability[0])

    def probabilities(self, row: Sequence[float]) -> tuple[float, ...]:
        """The probability of each label: the mean over the trees. ``row``: of ``features`` numbers."""
        numbers = [single(one) for one in row]
        leaves = [self.probability[self._leaf(root, numbers)] for root in self.roots]
        return tuple(math.fsum(one) / len(leaves) for one in zip(*leaves, strict=True))

    def _leaf(self, node: int, numbers: Sequence[float]) -> int:
        while self.left[node] >= 0:
            goes_left = numbers[self.feature[node]] <= self.threshold[node]
            node = self.left[node] if goes_left else self.right[node]
        return node

    @classmethod
    def from_json(cls, one: dict[str, Any]) -> Forest:
        """Of ``attrs.asdict`` as JSON gives it back. Raises :class:`UsageError` ``TT253`` if it is none."""
        try:
            return cls(
                features=int(one["features"]),
                roots=tuple(map(int, one["roots"])),
                feature=tuple(map(int, one["feature"])),
                threshold=tuple(map(float, one["threshold"])),
                left=tuple(map(int, one["left"])),
                right=tuple(map(int, one["right"])),
                probability=tuple(tuple(map(float, leaf)) for leaf in one["probability"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            text = f"the model is damaged: {type(error).__name__}: {error}"
            raise UsageError("TT253", text, fix="train again, or restore the file from a copy") from None
