"""Aggregates: commutative monoids with a way in and a way out, for windows and running results.

An :class:`Aggregate` is written in plain Python over tuples and records of numbers. Where its methods can be traced, a
backend combines columns instead of objects, before the exchange and behind it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

__all__ = ["Aggregate"]

V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")


class Aggregate(ABC, Generic[V, A, W]):
    """A commutative monoid ``A`` over values ``V`` with results ``W``. Instances are frozen; all methods are pure."""

    @abstractmethod
    def lift(self, value: V) -> A:
        """One value as an element of the monoid."""

    @abstractmethod
    def identity(self) -> A:
        """The neutral element."""

    @abstractmethod
    def combine(self, a: A, b: A) -> A:
        """Associative and commutative."""

    @abstractmethod
    def result(self, agg: A) -> W:
        """What is told of the aggregate of one value or more."""
