"""Expressions: what tracing makes of an operator's Python, and what the native back ends take.

The meaning of every expression is Python's, value for value (:func:`evaluate` is the definition). A back end that would give
another value, or none, must say so for the rows in question; they are then run in Python. An expression never holds a wrong
number: where Python raises, or where an integer leaves 64 bits, :func:`evaluate` raises :class:`Undefined`.

========================================  =================================================================================
``add sub mul neg abs floordiv mod``      Integer x Integer -> Integer, Float x Float -> Float; ``floordiv`` and ``mod`` of
                                          negatives as in Python; undefined for a zero divisor and beyond 64 bits
``truediv``                               Integer x Integer or Float x Float -> Float; undefined for a zero divisor
``to_float``                              Integer or Boolean -> Float
``to_int``                                Boolean -> Integer; Float -> Integer towards zero, undefined for NaN and beyond 64
``round``                                 Float -> Integer, half to even; undefined for NaN and beyond 64 bits
``eq lt le``                              two of one schema -> Boolean; NaN as in Python
``not and or``                            Boolean -> Boolean, all arguments evaluated
``if``                                    condition, then, otherwise: only the chosen one is evaluated
``is_null``                               an input of optional schema -> Boolean
``length lower upper strip lstrip``       String -> Integer or String
``rstrip``
``startswith endswith contains``          String, String -> Boolean
``replace``                               String, String, String -> String
``concat``                                String, String -> String
``slice``                                 String, Integer or None constant, Integer or None constant -> String (``s[a:b]``)
``to_str``                                Integer or String or Boolean -> String
``micros``                                Timestamp -> Integer, microseconds since the epoch
``add_micros``                            Timestamp, Integer -> Timestamp; undefined outside of the years 1 to 9999
``year month day hour minute second``     Timestamp -> Integer; ``year month day weekday`` of Date too
``microsecond weekday``
``date``                                  Timestamp -> Date
``exact``                                 Float -> Exact, the ``ExactSum`` of one float; ``add`` adds Exacts
``exact_value``                           Exact -> Float, rounded once
``has``                                   ``table`` holds the key (an Integer, String or Boolean argument) -> Boolean
``lookup``                                the ``path`` inside the value that ``table`` holds for the key; undefined without one
========================================  =================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, final

import attrs

from tracetypes.records import Schema

__all__ = [
    "Branch",
    "Call",
    "Const",
    "Emission",
    "Exact",
    "Expr",
    "Input",
    "Kind",
    "Leaf",
    "Pack",
    "Tree",
    "Undefined",
    "Value",
]


class Undefined(Exception):
    """The expression has no value for these inputs: Python would raise, or a number would leave its type."""


@final
@attrs.frozen
class Exact:
    """Stands where a schema does for an :class:`tracetypes.ExactSum`, which only aggregates and states hold."""


Kind: TypeAlias = Schema | Exact


@final
@attrs.frozen
class Input:
    """A scalar of what an operator is given. ``path``: the name of the argument, then fields of records and places in
    tuples: ``("value", "ts")``, ``("state", 0)``."""

    path: tuple[str | int, ...]
    kind: Kind


@final
@attrs.frozen
class Const:
    """A value that does not depend on the inputs; None for a missing optional."""

    value: Any
    kind: Kind | None


@final
@attrs.frozen(eq=False)
class Call:
    """An operation of the table above. ``table`` and ``path``: of ``has`` and ``lookup`` only."""

    op: str
    args: tuple[Expr, ...]
    kind: Kind
    table: Mapping[Any, Any] | None = None
    path: tuple[str | int, ...] = ()


Expr: TypeAlias = Input | Const | Call


@final
@attrs.frozen(eq=False)
class Pack:
    """A record (``cls`` its class, ``names`` its fields in the order of its schema) or a tuple (``cls`` is tuple)."""

    cls: type[Any]
    names: tuple[str, ...]
    parts: tuple[Value, ...]


Value: TypeAlias = Expr | Pack


@final
@attrs.frozen(eq=False)
class Emission:
    """One call of ``emit``; ``key`` None where the template's emit takes a value only."""

    key: Value | None
    value: Value


@final
@attrs.frozen(eq=False)
class Leaf:
    """The end of a path through an operator: what it emitted, in order, and what it returned. ``raises``: it ends in an
    exception (or in something that must be done in Python); then nothing else counts."""

    emissions: tuple[Emission, ...] = ()
    result: Value | None = None
    raises: bool = False


@final
@attrs.frozen(eq=False)
class Branch:
    """A decision. The condition is evaluated for the rows that get here, and only for these."""

    condition: Expr
    then: Tree
    otherwise: Tree


Tree: TypeAlias = Leaf | Branch
