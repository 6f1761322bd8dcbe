"""Aggregates: commutative monoids with a way in and a way out, for windows and running results.

An :class:`Aggregate` is written in plain Python over tuples and records of numbers. Where its methods can be traced, a
backend combines columns instead of objects, before the exchange and behind it.

Each aggregate has a function of a lower-case name. ``of`` is what of a value is aggregated, by default the value itself;
``to`` is its type, which is needed where the result is of that type and ``of`` has no return annotation. All of them are
lawful bit for bit, whoever combines what first; :func:`fast_sum` is not, and says so.

>>> evaluate(mean(), [1.0, 2.0, 4.5])
2.5
>>> evaluate(sum(of=len, to=int), ["a", "bc"])
3
"""

from __future__ import annotations

import builtins
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar, cast, overload

import attrs

from tracetypes.algebra import ExactSum, greatest, least
from tracetypes.errors import DataError, UsageError
from tracetypes.markers import Marker
from tracetypes.places import Orderable
from tracetypes.records import (
    Boolean,
    Bytes,
    Date,
    Float,
    Integer,
    Record,
    Schema,
    String,
    Timestamp,
    schema_of,
    show,
    show_type,
)
from tracetypes.stdlib.annotations import function_or_none, returned, same_values
from tracetypes.stdlib.orders import order_of, place_of
from tracetypes.stdlib.signatures import KeyedOperator
from tracetypes.templates import Emit, OpKeyedUnordered, type_arguments
from tracetypes.typed import Typed

__all__ = [
    "Aggregate",
    "AggregatePerBlock",
    "Measured",
    "Number",
    "Real",
    "Running",
    "aggregate",
    "both",
    "count",
    "evaluate",
    "fast_sum",
    "last",
    "max",
    "mean",
    "min",
    "running",
    "struct",
    "sum",
    "top",
    "types_of",
    "variance",
]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
W1 = TypeVar("W1")
W2 = TypeVar("W2")
Number = TypeVar("Number", int, float)
Real = TypeVar("Real", bound=float)
"""``Number`` for mypy, which finds bounded variables more often than constrained ones."""


class Aggregate(Typed, ABC, Generic[V, A, W]):
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

    def fold(self, agg: A, values: Sequence[V]) -> A:
        """``combine(agg, lift(value))`` for one value after the other, for operators that have many values at once. May be
        overridden where the same can be had faster."""
        for value in values:
            agg = self.combine(agg, self.lift(value))
        return agg


def types_of(aggregate: Aggregate[Any, Any, Any]) -> tuple[Any, Any]:
    """``V`` and ``W`` of an aggregate as annotations, with type variables where the stream will bind them.

    For operators that are written upon aggregates: ``{"V": ..., "W": ...}`` is what their ``type_arguments`` return.

    >>> types_of(max(of=len, to=int))
    (~V, <class 'int'>)
    >>> types_of(sum(to=float))
    (<class 'float'>, <class 'float'>)
    """
    value, _, result = type_arguments(aggregate, Aggregate)
    return value, result


def evaluate(aggregate: Aggregate[V, Any, W], values: Iterable[V]) -> W:
    """What an aggregate tells of one value or more.

    >>> evaluate(max(to=int), [3, 1, 2])
    3
    """
    agg = aggregate.identity()
    for value in values:
        agg = aggregate.combine(agg, aggregate.lift(value))
    return aggregate.result(agg)


# ------------------------------------------------------------------------------------------------- numbers


@attrs.frozen
class Count(Aggregate[V, int, int]):
    """See :func:`count`."""

    def lift(self, value: V) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def result(self, agg: int) -> int:
        return agg

    def fold(self, agg: int, values: Sequence[V]) -> int:
        return agg + len(values)


def count() -> Aggregate[Any, Any, int]:
    """How many values.

    >>> evaluate(count(), ["a", "b", "b"])
    3
    """
    return Count()


@attrs.frozen
class Measured(Aggregate[V, A, W]):
    """``of`` of a value, or the value itself. Subclasses name in ``measured`` the type of what is aggregated."""

    of: Callable[[V], Any] | None

    @property
    def measured(self) -> Any:
        """The type of ``of(value)``."""
        return Number

    def type_arguments(self) -> Mapping[str, Any]:
        return {"V": self.measured} if self.of is None else {}

    def measure(self, value: V) -> Any:
        """What of a value is aggregated."""
        return value if self.of is None else self.of(value)

    def measures(self, values: Sequence[V]) -> Iterable[Any]:
        """What of each value is aggregated."""
        return values if self.of is None else map(self.of, values)


@attrs.frozen
class IntegerSum(Measured[V, int, int], Generic[V]):
    """See :func:`sum`."""

    @property
    def measured(self) -> Any:
        return int

    def lift(self, value: V) -> int:
        return cast(int, self.measure(value))

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def result(self, agg: int) -> int:
        return agg


@attrs.frozen
class FloatSum(Measured[V, ExactSum, float], Generic[V]):
    """See :func:`sum`."""

    @property
    def measured(self) -> Any:
        return float

    def lift(self, value: V) -> ExactSum:
        return ExactSum.of(self.measure(value))

    def identity(self) -> ExactSum:
        return ExactSum()

    def combine(self, a: ExactSum, b: ExactSum) -> ExactSum:
        return a + b

    def result(self, agg: ExactSum) -> float:
        return agg.value()


@attrs.frozen
class FastSum(Measured[V, float, float], Generic[V]):
    """See :func:`fast_sum`."""

    @property
    def measured(self) -> Any:
        return float

    def lift(self, value: V) -> float:
        return cast(float, self.measure(value) + 0.0)

    def identity(self) -> float:
        return 0.0

    def combine(self, a: float, b: float) -> float:
        return a + b

    def result(self, agg: float) -> float:
        return agg

    def fold(self, agg: float, values: Sequence[V]) -> float:
        for number in self.measures(values):
            agg += number
        return agg


@overload
def sum(of: None = None, *, to: type[Real]) -> Aggregate[Real, Any, Real]: ...
@overload
def sum(of: Callable[[V], Real], *, to: type[Real] | None = None) -> Aggregate[V, Any, Real]: ...
def sum(of: Any = None, *, to: Any = None) -> Any:
    """The sum. ``to``: ``int`` or ``float``.

    Integers are added exactly; a sum beyond 64 bits is refused where it is emitted (TT206). Floats are added without
    rounding (:class:`tracetypes.ExactSum`), and the true sum is rounded once: the same bits at every parallelism.
    Raises :class:`UsageError` ``TT120`` when the type is not known, ``TT121`` when it is neither.

    >>> evaluate(sum(to=float), [1e16, 1.0, -1e16])
    1.0
    """
    return _numbers("sum", of, to, {int: IntegerSum, float: FloatSum})


def fast_sum(of: Callable[[V], float] | None = None) -> Aggregate[V, Any, float]:
    """The sum of floats by plain addition. It gives up that the answer is a function of the input: float addition is not
    associative, so the last bits differ between runs, deployments and recoveries. ``check_laws`` says TT302. Where values
    are added up in the order of a stream, as by :func:`tracetypes.stdlib.time_window`, they do not.

    >>> evaluate(fast_sum(), [1e16, 1.0, -1e16])
    0.0
    """
    return FastSum(function_or_none("fast_sum", of))


@attrs.frozen
class Mean(Measured[V, tuple[ExactSum, int], float], Generic[V]):
    """See :func:`mean`."""

    def lift(self, value: V) -> tuple[ExactSum, int]:
        return ExactSum.of(self.measure(value)), 1

    def identity(self) -> tuple[ExactSum, int]:
        return ExactSum(), 0

    def combine(self, a: tuple[ExactSum, int], b: tuple[ExactSum, int]) -> tuple[ExactSum, int]:
        return a[0] + b[0], a[1] + b[1]

    def result(self, agg: tuple[ExactSum, int]) -> float:
        return agg[0].over(agg[1])


@overload
def mean(of: None = None) -> Aggregate[Real, Any, float]: ...
@overload
def mean(of: Callable[[V], float]) -> Aggregate[V, Any, float]: ...
def mean(of: Any = None) -> Any:
    """The arithmetic mean of numbers taken as floats: the float nearest to the true mean.

    >>> evaluate(mean(), [1e308, 1e308, 1e308])
    1e+308
    """
    return Mean(function_or_none("mean", of))


Moments = tuple[int, ExactSum, ExactSum]


@attrs.frozen
class Variance(Measured[V, Moments, float], Generic[V]):
    """See :func:`variance`. The monoid: how many, the exact sum, and the exact sum of squares."""

    population: bool

    def lift(self, value: V) -> Moments:
        number = self.measure(value)
        return 1, ExactSum.of(number), ExactSum.of_square(number)

    def identity(self) -> Moments:
        return 0, ExactSum(), ExactSum()

    def combine(self, a: Moments, b: Moments) -> Moments:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2]

    def result(self, agg: Moments) -> float:
        n, ones, squares = agg
        parts = n if self.population else n - 1
        if parts == 0 or squares.nans or squares.infinities[0]:
            return math.nan
        # (n * sum(x^2) - sum(x)^2) / (n * parts) cancels in floating point, but these are whole numbers.
        shift = builtins.max(squares.shift, 2 * ones.shift)
        spread = n * (squares.numerator << (shift - squares.shift))
        spread -= ones.numerator * ones.numerator << (shift - 2 * ones.shift)
        try:
            return spread / (n * parts << shift)
        except OverflowError:
            return math.inf


@overload
def variance(of: None = None, *, population: bool = False) -> Aggregate[Real, Any, float]: ...
@overload
def variance(of: Callable[[V], float], *, population: bool = False) -> Aggregate[V, Any, float]: ...
def variance(of: Any = None, *, population: bool = False) -> Any:
    """The variance of numbers taken as floats: the float nearest to the true one; NaN when a number is not finite.

    Of a sample (divided by ``n - 1``; NaN for one number) or of the whole ``population`` (divided by ``n``).

    >>> evaluate(variance(), [1e9, 1e9 + 1, 1e9 + 2])
    1.0
    """
    return Variance(function_or_none("variance", of), population)


# ------------------------------------------------------------------------------------------------- extremes


@attrs.frozen
class _Extreme(Measured[V, W | None, W], Generic[V, W]):
    """The best value of a total order."""

    to: Any
    floats: bool = attrs.field(init=False, repr=False)

    @floats.default
    def _floats(self) -> bool:
        return isinstance(_ordered(self.to, type(self).__name__.lower()), Float)

    @property
    def measured(self) -> Any:
        return self.to

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": self.to, **super().type_arguments()}

    def lift(self, value: V) -> W | None:
        # -0.0 and 0.0 are equal and yet two values: which of them comes out must not depend on the order.
        return cast(W, self.measure(value) + 0.0 if self.floats else self.measure(value))

    def identity(self) -> W | None:
        return None

    def result(self, agg: W | None) -> W:
        return cast(W, agg)

    def fold(self, agg: W | None, values: Sequence[V]) -> W | None:
        for one in self.measures(values):
            if one != agg:
                agg = self.combine(agg, one + 0.0 if self.floats else one)
        return agg


@attrs.frozen
class Min(_Extreme[V, W], Generic[V, W]):
    """See :func:`min`."""

    def combine(self, a: W | None, b: W | None) -> W | None:
        return least(a, b)  # type: ignore[arg-type]


@attrs.frozen
class Max(_Extreme[V, W], Generic[V, W]):
    """See :func:`max`."""

    def combine(self, a: W | None, b: W | None) -> W | None:
        return greatest(a, b)  # type: ignore[arg-type]


@overload
def min(of: None = None, *, to: type[W]) -> Aggregate[W, Any, W]: ...
@overload
def min(of: Callable[[V], W], *, to: type[W] | None = None) -> Aggregate[V, Any, W]: ...
def min(of: Any = None, *, to: Any = None) -> Any:
    """The smallest. ``to``: a scalar type with an order (numbers, bool, str, bytes, datetime, date). Of floats, NaN wins
    over all, and -0.0 counts as 0.0.

    >>> evaluate(min(to=str), ["b", "a"])
    'a'
    """
    return Min(function_or_none("min", of), _type_of("min", of, to))


@overload
def max(of: None = None, *, to: type[W]) -> Aggregate[W, Any, W]: ...
@overload
def max(of: Callable[[V], W], *, to: type[W] | None = None) -> Aggregate[V, Any, W]: ...
def max(of: Any = None, *, to: Any = None) -> Any:
    """The largest; see :func:`min`.

    >>> evaluate(max(of=abs, to=float), [-3.0, 2.0])
    3.0
    """
    return Max(function_or_none("max", of), _type_of("max", of, to))


Placed = tuple[Any, Any, V]
"""A value behind its place in an order, and its place among those that are equal there."""


@attrs.frozen
class Last(Aggregate[V, "Placed[V] | None", V]):
    """See :func:`last`."""

    by: Callable[[V], Any]

    def lift(self, value: V) -> Placed[V] | None:
        return place_of(self.by(value)), order_of(value), value

    def identity(self) -> Placed[V] | None:
        return None

    def combine(self, a: Placed[V] | None, b: Placed[V] | None) -> Placed[V] | None:
        if a is None or b is None:
            return a or b
        return b if a[:2] < b[:2] else a

    def result(self, agg: Placed[V] | None) -> V:
        return cast("Placed[V]", agg)[2]


def last(by: Callable[[V], Orderable]) -> Aggregate[V, Any, V]:
    """The value that is last in the order of ``by``, such as its time; of several the last in the canonical order of whole
    values, so that the order of arrival does not count.

    >>> evaluate(last(by=lambda text: len(text)), ["ab", "b", "aa"])
    'ab'
    """
    return Last(function_or_none("last", by))


@attrs.frozen
class Top(Aggregate[V, tuple["Placed[V]", ...], list[V]], Generic[V]):
    """See :func:`top`. The monoid: the best ``k``, best first."""

    k: int
    by: Callable[[V], Any]

    def lift(self, value: V) -> tuple[Placed[V], ...]:
        return ((place_of(self.by(value)), order_of(value), value),)

    def identity(self) -> tuple[Placed[V], ...]:
        return ()

    def combine(self, a: tuple[Placed[V], ...], b: tuple[Placed[V], ...]) -> tuple[Placed[V], ...]:
        if len(b) == 1 and len(a) == self.k and b[0][:2] <= a[-1][:2]:
            return a
        return tuple(sorted(a + b, key=itemgetter(0, 1), reverse=True)[: self.k])

    def result(self, agg: tuple[Placed[V], ...]) -> list[V]:
        return [value for _, _, value in agg]


def top(k: int, by: Callable[[V], Orderable]) -> Aggregate[V, Any, list[V]]:
    """The ``k`` values (1 or more) with the largest ``by(value)``, largest first; among equals those that are last in the
    canonical order of whole values. Equal values count as often as they come.

    >>> evaluate(top(2, by=abs), [1, -5, 3])
    [-5, 3]
    """
    if type(k) is not int or k < 1:
        raise UsageError("TT121", f"top was given k={show(k)}", fix="pass a whole number from 1")
    return Top(k, function_or_none("top", by))


# ------------------------------------------------------------------------------------------------- products


@attrs.frozen
class Both(Aggregate[V, tuple[Any, Any], W], Generic[V, W]):
    """See :func:`both`."""

    a: Aggregate[V, Any, Any]
    b: Aggregate[V, Any, Any]
    into: Callable[[Any, Any], W]
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"V": same_values((types_of(self.a)[0], types_of(self.b)[0]), "both"), "W": self.to}

    def lift(self, value: V) -> tuple[Any, Any]:
        return self.a.lift(value), self.b.lift(value)

    def identity(self) -> tuple[Any, Any]:
        return self.a.identity(), self.b.identity()

    def combine(self, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        return self.a.combine(a[0], b[0]), self.b.combine(a[1], b[1])

    def result(self, agg: tuple[Any, Any]) -> W:
        return self.into(self.a.result(agg[0]), self.b.result(agg[1]))

    def fold(self, agg: tuple[Any, Any], values: Sequence[V]) -> tuple[Any, Any]:
        return self.a.fold(agg[0], values), self.b.fold(agg[1], values)


def both(
    a: Aggregate[V, Any, W1], b: Aggregate[V, Any, W2], into: Callable[[W1, W2], W], *, to: type[W] | None = None
) -> Aggregate[V, Any, W]:
    """Two aggregates of the same values, and ``into(result of a, result of b)`` of their results: a record, or a function.

    >>> evaluate(both(count(), max(to=int), lambda n, most: [n, most], to=list[int]), [7, 5])
    [2, 7]
    """
    made: Both[V, W] = Both(_part("both", a), _part("both", b), into, returned(into, to, "both"))
    made.type_arguments()
    return made


@attrs.frozen
class Struct(Aggregate[V, tuple[Any, ...], W], Generic[V, W]):
    """See :func:`struct`."""

    to: Callable[..., W]
    names: tuple[str, ...]
    parts: tuple[Aggregate[V, Any, Any], ...]

    def type_arguments(self) -> Mapping[str, Any]:
        return {"V": same_values((types_of(part)[0] for part in self.parts), "struct"), "W": self.to}

    def lift(self, value: V) -> tuple[Any, ...]:
        return tuple([part.lift(value) for part in self.parts])

    def identity(self) -> tuple[Any, ...]:
        return tuple([part.identity() for part in self.parts])

    def combine(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.combine(a[at], b[at]) for at, part in enumerate(self.parts)])

    def result(self, agg: tuple[Any, ...]) -> W:
        return self.to(
            **{name: part.result(agg[at]) for at, (name, part) in enumerate(zip(self.names, self.parts, strict=True))}
        )

    def fold(self, agg: tuple[Any, ...], values: Sequence[V]) -> tuple[Any, ...]:
        return tuple([part.fold(agg[at], values) for at, part in enumerate(self.parts)])


def struct(to: type[W], **parts: Aggregate[V, Any, Any]) -> Aggregate[V, Any, W]:
    """A record of several aggregates of the same values, one for each field of ``to``, by name.

    Raises :class:`UsageError` ``TT121`` when the names are not the fields of ``to``, or a result does not fit its field.

    >>> @attrs.frozen
    ... class Range:
    ...     low: int
    ...     high: int
    >>> evaluate(struct(Range, low=min(to=int), high=max(to=int)), [3, 1, 2])
    Range(low=1, high=3)
    """
    made: Struct[V, W] = Struct(to, tuple(parts), tuple(_part("struct", part) for part in parts.values()))
    schema = schema_of(to)
    if not isinstance(schema, Record) or {name for name, _ in schema.fields} != set(parts):
        fields = ", ".join(name for name, _ in schema.fields) if isinstance(schema, Record) else "no fields"
        raise UsageError(
            "TT121",
            f"struct was given {', '.join(parts) or 'nothing'} for {show_type(to)}, which has {fields}",
            fix="name one aggregate for each field of the record",
        )
    for name, field in schema.fields:
        found = types_of(parts[name])[1]
        if not _fits(found, field):
            raise UsageError(
                "TT121",
                f"struct: {show_type(to)}.{name} cannot hold {show_type(found)}",
                fix="change the type of the field, or the aggregate",
            )
    made.type_arguments()
    return made


def _part(caller: str, part: object) -> Aggregate[Any, Any, Any]:
    if not isinstance(part, Aggregate):
        raise UsageError("TT121", f"{caller} was given {show(part)}, which is no aggregate", fix="pass e.g. count()")
    return part


def _fits(found: Any, field: Schema) -> bool:
    if isinstance(found, TypeVar) or getattr(found, "__parameters__", None):
        return True
    made = schema_of(found)
    return made == field or (isinstance(made, Integer) and isinstance(field, Float))


# ------------------------------------------------------------------------------------------------- arguments

_ORDERED: Final = (Boolean, Integer, Float, String, Bytes, Timestamp, Date)


def _type_of(caller: str, of: Any, to: Any) -> Any:
    if of is None and to is None:
        raise UsageError(
            "TT120", f"{caller} does not know the type of the values", fix=f"pass it: {caller}(to=int), for example"
        )
    return to if of is None else returned(of, to, caller)


def _ordered(to: Any, caller: str) -> Schema:
    try:
        schema = schema_of(to)
    except DataError as error:
        raise UsageError("TT121", f"{caller}: {error.message}", fix=error.fix) from None
    if not isinstance(schema, _ORDERED):
        raise UsageError(
            "TT121",
            f"{caller} was given values of {show_type(to)}, which have no total order of their own",
            fix="compare a scalar: of=lambda value: ..., or take last(by=...) or top(1, by=...)",
        )
    return schema


def _numbers(caller: str, of: Any, to: Any, classes: Mapping[Any, Callable[[Any], Any]]) -> Any:
    found = _type_of(caller, of, to)
    if found not in classes:
        raise UsageError(
            "TT121", f"{caller} was given values of {show_type(found)}", fix="add int or float: to=int or to=float"
        )
    return classes[found](function_or_none(caller, of))


# ------------------------------------------------------------------------------------------------- operators

Touched = tuple[int, A]
"""How many items of the block, and an aggregate."""


@attrs.frozen
class _PerBlock(OpKeyedUnordered[K, V, K, W, "Touched[A]", "Touched[A]"], Generic[K, V, W, A]):
    """Emits at each marker for the keys that the block held, and for no other."""

    skips_untouched = True

    aggregate: Aggregate[V, A, W]

    def type_arguments(self) -> Mapping[str, Any]:
        value, result = types_of(self.aggregate)
        return {"V": value, "W": result}

    def lift(self, key: K, value: V) -> Touched[A]:
        return 1, self.aggregate.lift(value)

    def identity(self) -> Touched[A]:
        return 0, self.aggregate.identity()

    def combine(self, a: Touched[A], b: Touched[A]) -> Touched[A]:
        return a[0] + b[0], self.aggregate.combine(a[1], b[1])

    def initial_state(self) -> Touched[A]:
        return 0, self.aggregate.identity()

    def on_marker(self, new_state: Touched[A], key: K, marker: Marker, emit: Emit[K, W]) -> None:
        if new_state[0] > 0:
            emit(key, self.aggregate.result(new_state[1]))


@attrs.frozen
class AggregatePerBlock(_PerBlock[K, V, W, A], Generic[K, V, W, A]):
    """See :func:`aggregate`."""

    def update_state(self, state: Touched[A], agg: Touched[A]) -> Touched[A]:
        return agg


@attrs.frozen
class Running(_PerBlock[K, V, W, A], Generic[K, V, W, A]):
    """See :func:`running`."""

    def update_state(self, state: Touched[A], agg: Touched[A]) -> Touched[A]:
        return agg[0], self.aggregate.combine(state[1], agg[1])


def aggregate(agg: Aggregate[V, Any, W]) -> KeyedOperator[V, W]:
    """``U[K, V] -> U[K, W]``: the aggregate of each key and block, at the marker that ends the block. Keys without items
    in the block are silent. A tumbling window as long as the blocks.

    >>> preview(aggregate(sum(to=int)), U[str, int], [("a", 1), ("a", 2), ("b", 3)], [("a", 4)])
    [[('a', 3), ('b', 3)], [('a', 4)]]
    """
    made: AggregatePerBlock[Any, V, W, Any] = AggregatePerBlock(_part("aggregate", agg))
    return made


def running(aggregate: Aggregate[V, Any, W]) -> KeyedOperator[V, W]:
    """``U[K, V] -> U[K, W]``: the aggregate of all items of a key so far, at each marker whose block held one of its items.

    >>> preview(running(sum(to=int)), U[str, int], [("a", 1), ("a", 2), ("b", 3)], [("a", 4)])
    [[('a', 3), ('b', 3)], [('a', 7)]]
    """
    made: Running[Any, V, W, Any] = Running(_part("running", aggregate))
    return made
