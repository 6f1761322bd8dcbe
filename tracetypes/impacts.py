"""How much a container has changed: input impacts and output errors of gates (Esteves et al., SmartFlux, 2016, sections 2 and 4).

A *container* maps keys to their latest values. A :class:`Variation` looks at each element that differs between two states of a
container, and folds what it sees in a commutative monoid. So the number does not depend on the order of the elements, nor on how
they are spread over key groups. The published text has lost its four equations; the docstrings say how we read its words.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.errors import UsageError
from tracetypes.self_description import SelfDescribing

__all__ = [
    "Compared",
    "Variation",
    "combined",
    "magnitude",
    "net_change",
    "relative_error",
    "relative_magnitude",
    "root_mean_square",
    "variation",
]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

_NUMBER: Any = float
"""For elements that are numbers."""


class Variation(SelfDescribing, ABC, Generic[V, A]):
    """An input impact or an output error: a commutative monoid ``A`` over changed elements ``V``, and a number made of it.

    The three methods are those of the paper's interface. Instances are frozen, all methods are pure.
    """

    _is_template = True

    @abstractmethod
    def process_element(self, current: V, previous: V | None) -> A:
        """What one changed element adds. ``previous``: None for a new element, whose latest state counts as zero."""

    @abstractmethod
    def identity(self) -> A:
        """What no element adds."""

    @abstractmethod
    def aggregate(self, a: A, b: A) -> A:
        """Both together. Associative and commutative."""

    @abstractmethod
    def compute(self, agg: A, modified: int, total: int) -> float:
        """The number. ``modified``: elements that changed. ``total``: elements of the container, at least 1."""

    def of_elements(self, changes: Sequence[tuple[V, V | None]], total: int) -> float:
        """The number of changed elements with their previous states. Override it if there is a faster way."""
        agg = self.identity()
        for current, previous in changes:
            agg = self.aggregate(agg, self.process_element(current, previous))
        return self.compute(agg, len(changes), total)


@runtime_checkable
class Compared(Protocol):
    """A state of a container that finds by itself what has changed."""

    def changes(self, before: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
        """The elements that differ from another state, each with that; None stands for a new element's."""


def variation(function: Variation[V, Any], now: Mapping[K, V], before: Mapping[K, V]) -> float:
    """The change of a container between two states. 0 if it is empty. Elements never leave a container.

    >>> variation(magnitude(float), {"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 1.0})
    2.0
    """
    if isinstance(now, Compared):
        changes = now.changes(before)
    else:
        changes = [(current, before.get(key)) for key, current in now.items() if current != before.get(key)]
    return function.of_elements(changes, len(now)) if now else 0.0


def combined(impacts: Mapping[str, float]) -> float:
    """The impact of several predecessors: the geometric mean (section 2). 0 if one of them changed nothing."""
    if not impacts or min(impacts.values()) <= 0:
        return 0.0
    if len(impacts) == 1:
        return next(iter(impacts.values()))
    return math.exp(math.fsum(map(math.log, impacts.values())) / len(impacts))


Difference = tuple[ExactSum, ExactSum]
"""Sums of absolute differences and of what they are divided by."""


@attrs.frozen
class _Sums(Variation[V, Difference]):
    """A variation made of two exact sums, over the numbers that ``of`` takes from elements."""

    of: Callable[[V], float]

    def process_element(self, current: V, previous: V | None) -> Difference:
        now, before = float(self.of(current)), 0.0 if previous is None else float(self.of(previous))
        return ExactSum.of(abs(now - before)), ExactSum.of(self._size(now, before))

    @staticmethod
    def _size(now: float, before: float) -> float:
        """What an element adds to the sum by which is divided."""
        return max(abs(now), abs(before))

    def identity(self) -> Difference:
        return ExactSum(), ExactSum()

    def aggregate(self, a: Difference, b: Difference) -> Difference:
        return a[0] + b[0], a[1] + b[1]

    def compute(self, agg: Difference, modified: int, total: int) -> float:
        return self._number(agg[0].value(), agg[1].value(), modified, total)

    def of_elements(self, changes: Sequence[tuple[V, V | None]], total: int) -> float:
        of = self.of
        numbers = [(float(of(now)), 0.0 if before is None else float(of(before))) for now, before in changes]
        try:  # fsum rounds the exact sum once, as ExactSum does
            difference, size = math.fsum(abs(a - b) for a, b in numbers), math.fsum(self._size(a, b) for a, b in numbers)
        except (OverflowError, ValueError):
            return super().of_elements(changes, total)
        return self._number(difference, size, len(changes), total)

    def _number(self, difference: float, size: float, modified: int, total: int) -> float:
        """What the rounded sums come to."""
        if difference == 0:
            return 0.0
        return min(1.0, difference / size * modified / total) if size > 0 else 1.0


@attrs.frozen
class _Magnitude(_Sums[V]):
    """See :func:`magnitude`."""

    _word = "magnitude"

    def _number(self, difference: float, size: float, modified: int, total: int) -> float:
        return difference * modified


@attrs.frozen
class _RelativeMagnitude(_Sums[V]):
    """See :func:`relative_magnitude`."""

    _word = "relative_magnitude"


@attrs.frozen
class _RelativeError(_Sums[V]):
    """See :func:`relative_error`."""

    _word = "relative_error"

    @staticmethod
    def _size(now: float, before: float) -> float:
        return abs(now)


@attrs.frozen
class _NetChange(Variation[V, ExactSum]):
    """See :func:`net_change`."""

    _word = "net_change"

    of: Callable[[V], float]

    def process_element(self, current: V, previous: V | None) -> ExactSum:
        return ExactSum.of(float(self.of(current)) - (0.0 if previous is None else float(self.of(previous))))

    def identity(self) -> ExactSum:
        return ExactSum()

    def aggregate(self, a: ExactSum, b: ExactSum) -> ExactSum:
        return a + b

    def compute(self, agg: ExactSum, modified: int, total: int) -> float:
        return abs(agg.value()) / total


@attrs.frozen
class _RootMeanSquare(Variation[V, ExactSum]):
    """See :func:`root_mean_square`."""

    _word = "root_mean_square"

    of: Callable[[V], float]
    scale: float

    def process_element(self, current: V, previous: V | None) -> ExactSum:
        return ExactSum.of_square(float(self.of(current)) - (0.0 if previous is None else float(self.of(previous))))

    def identity(self) -> ExactSum:
        return ExactSum()

    def aggregate(self, a: ExactSum, b: ExactSum) -> ExactSum:
        return a + b

    def compute(self, agg: ExactSum, modified: int, total: int) -> float:
        return math.sqrt(agg.over(total)) / self.scale


def magnitude(of: Callable[[V], float] = _NUMBER) -> Variation[V, Any]:
    """Equation 1: the sum of the absolute differences of changed elements, times their number."""
    return _Magnitude(of)


def relative_magnitude(of: Callable[[V], float] = _NUMBER) -> Variation[V, Any]:
    """Equation 2: equation 1 by the sum of the larger of both states of each changed element, times the number of all elements.

    Between 0, nothing has changed, and 1: all elements are new, or differ by as much as they are worth.
    """
    return _RelativeMagnitude(of)


def relative_error(of: Callable[[V], float] = _NUMBER) -> Variation[V, Any]:
    """Equation 3: as equation 2, relative to the correct (the updated) state. At most 1."""
    return _RelativeError(of)


def net_change(of: Callable[[V], float] = _NUMBER) -> Variation[V, Any]:
    """The absolute value of the sum of the differences, by the number of all elements. Changes of elements cancel each other, so
    the noise of many elements counts little.

    >>> variation(net_change(float), {"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 2.0})
    0.5
    """
    return _NetChange(of)


def root_mean_square(of: Callable[[V], float] = _NUMBER, *, scale: float = 1.0) -> Variation[V, Any]:
    """Equation 4: the root of the mean of the squared differences over all elements, in units of ``scale``.

    Raises :class:`UsageError` ``TT121`` for a scale that is not a positive number.
    """
    if not 0 < scale < math.inf:
        raise UsageError("TT121", f"scale is {scale!r}", fix="give a positive number, such as the range of the values")
    return _RootMeanSquare(of, float(scale))
