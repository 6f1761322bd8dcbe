"""What an aggregate that keeps many values says of its result, so that it can be computed by columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from tracetypes.choices import Choice
from tracetypes.sort_keys import Orderable

__all__ = [
    "Clustering",
    "Distinct",
    "ExactRanks",
    "Listing",
    "OfAggregate",
    "OfBag",
    "Ranking",
    "Registers",
    "Summary",
    "ValuesOfRanks",
    "WholeBlock",
]

V = TypeVar("V")


@attrs.frozen(eq=False, kw_only=True)
class _OfBag(Generic[V]):
    """A function of a bag of values: of those for which ``where`` is true. ``if_any``: it is None where there is none.
    ``owners``: the aggregates whose part it is, the outermost first, if it is one of several parts."""

    where: Callable[[V], bool] | None = None
    if_any: bool = False
    owners: tuple[Any, ...] = ()


@attrs.frozen(eq=False, kw_only=True)
class Listing(_OfBag[V]):
    """The list of ``of(value)``, or of all values, in the order of ``by(value)``, where that is equal in the canonical order of
    what is listed. ``to``: the type of ``of(value)``. ``distinct``: of what is equal as keys only the last in that
    order. ``largest``: only so many, the last ones, the last one first."""

    of: Callable[[V], Any] | None
    to: Any
    by: Callable[[V], Orderable] | None = None
    distinct: bool = False
    largest: int | None = None


@attrs.frozen(eq=False, kw_only=True)
class Ranking(_OfBag[V]):
    """The list of the values of a choice that takes the last ones: the last one first, then in that order. ``ranked``: a record
    of ``rank`` and ``value`` in place of each."""

    choice: Choice[V]
    ranked: type[Any] | None = None


@attrs.frozen(eq=False, kw_only=True)
class Distinct(_OfBag[V]):
    """How many of ``of(value)``, or of all values, are different as keys."""

    of: Callable[[V], Any] | None


@attrs.frozen(eq=False, kw_only=True)
class Registers(_OfBag[V]):
    """The estimate of a HyperLogLog sketch of ``of(value)``, or of all values, with ``2**precision`` registers. ``register``: of
    what is measured, the number of a register times 64 plus the rank there. ``estimate``: from how many registers there are of
    each rank, from 0 to ``65 - precision``. Equal keys have the same register and rank."""

    of: Callable[[V], Any] | None
    precision: int
    register: Callable[[Any], int]
    estimate: Callable[[Sequence[int]], int]


@attrs.frozen(eq=False, kw_only=True)
class ValuesOfRanks(_OfBag[V]):
    """Of the numbers ``of(value)``, or of all values, those of rank ``floor(q * (n - 1))``, as the list of one for each ``q``, or
    where it is ``alone`` the only one; NaN if a number is NaN. In place of a number stands the ``middle`` of its bucket: each
    power of two has ``cuts`` of the same width."""

    of: Callable[[V], Any] | None
    cuts: int
    qs: tuple[float, ...]
    alone: bool
    middle: Callable[[int], float]


@attrs.frozen(eq=False, kw_only=True)
class ExactRanks(_OfBag[V]):
    """Of the numbers ``of(value)``, or of all values, those of rank ``q * (n - 1)``, as the list of one for each ``q``, or where
    it is ``alone`` the only one; NaN if a number is NaN. Between two ranks, ``part`` behind the first one, it is
    ``a * (1 - part) + b * part`` of their numbers."""

    of: Callable[[V], Any] | None
    qs: tuple[float, ...]
    alone: bool


@attrs.frozen(eq=False, kw_only=True)
class OfAggregate(_OfBag[V]):
    """The result of an aggregate, an object with ``lift``, ``identity``, ``combine`` and ``result``, which has no summary of its
    own. ``choice``: the one value that it needs, or None."""

    aggregate: Any
    choice: Choice[V] | None


@attrs.frozen(eq=False, kw_only=True)
class Clustering(_OfBag[V]):
    """The clusters of the points ``of(value)``, tuples of floats of one length without -0.0: what ``clusters`` gives for a list
    of those that are finite, in any order. ``to``: a record of ``number``, ``centre`` and ``points``. They are k-means by Lloyd's
    algorithm, at most ``iterations`` rounds, from ``k`` centres by k-means++. ``draws``: random numbers for these. Points are
    sorted first, means are rounded once, and of equally near centres the first one wins."""

    of: Callable[[V], Any]
    k: int
    draws: tuple[float, ...]
    iterations: int
    clusters: Callable[[Sequence[Any]], Sequence[Any]]
    to: type[Any]


OfBag: TypeAlias = (
    Listing[V]
    | Ranking[V]
    | Distinct[V]
    | Registers[V]
    | ValuesOfRanks[V]
    | ExactRanks[V]
    | Clustering[V]
    | OfAggregate[V]
)


@attrs.frozen(eq=False)
class Summary(Generic[V]):
    """The result of an aggregate: ``result`` of what its ``parts`` are of the bag of values."""

    parts: tuple[OfBag[V], ...]
    result: Callable[[tuple[Any, ...]], Any]


@attrs.frozen(eq=False)
class WholeBlock(Generic[V]):
    """What an operator emits of a block, or of a window that is one for it, for each key that has items in it: ``emits`` of the
    key, the result of a summary of these items, the marker, and ``emit``; without one, what its methods make of the aggregate.
    ``always``: it does so at each marker, whatever the block; otherwise at the end of each window
    (:meth:`tracetypes.OpKeyedUnordered.tumbles`). Its state before a block makes no difference to that. ``each``: the summary has
    one part, a list, and ``emits`` is called with each of its elements, in order.

    ``reach``: a window has so many blocks more than one, and overlaps others. It ends at each marker that lies on ``grid`` (size
    and offset in microseconds; None: at each marker), and its items are those of the last ``reach + 1`` blocks. Then there is a
    summary, and a state is what ``update_state`` makes of the aggregates of these blocks, one after the other, from the first."""

    summary: Summary[V] | None
    emits: Callable[[Any, Any, Any, Any], None]
    always: bool
    each: bool = False
    reach: int = 0
    grid: tuple[int, int] | None = None
