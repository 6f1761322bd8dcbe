"""Data traces: sequences of tagged items up to the swapping of independent neighbours (data-trace-types, section 3).

A :class:`TraceType` is the paper's ``X = (A, D)``: a tag for every item, a set of values for every tag, and a symmetric
dependence relation ``D`` on tags. Two sequences are the same trace when one becomes the other by swapping adjacent items
with independent tags. :class:`Trace` is the congruence class; it is represented by one sequence and compared by its Foata
normal form. ``U[K, V]`` and ``O[K, V]`` are instances: :func:`stream_type`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, Generic, TypeVar

import attrs

from tracetypes.canonical import canonical
from tracetypes.conformance import conformer, has_floats, key_conformer, name_of, positive_zeros
from tracetypes.edges import EdgeType
from tracetypes.elements import Elements, Piece, elements, is_long, pieces
from tracetypes.errors import DataError
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import Marker
from tracetypes.records import Mismatch, Schema, show
from tracetypes.schemas import schema_of

__all__ = [
    "MARKER",
    "Block",
    "Item",
    "StreamType",
    "Tagged",
    "TagsType",
    "Trace",
    "TraceType",
    "blocks",
    "closed",
    "stream_type",
    "stretches",
]

I = TypeVar("I")
Step = tuple[Any, ...]


class TraceType(ABC, Generic[I]):
    """``(Sigma, T, D)``: what items there are, their tags, and which tags depend on each other."""

    @abstractmethod
    def tag(self, item: I) -> Hashable:
        """The tag of an item."""

    @abstractmethod
    def dependent(self, one: Hashable, other: Hashable) -> bool:
        """The dependence relation ``D``; symmetric."""

    @abstractmethod
    def order(self, item: I) -> Any:
        """A comparable key that is equal for identical items only: it orders the items of a step of the normal form."""

    @abstractmethod
    def admit(self, item: I) -> I:
        """The item, or a :class:`DataError` ``TT201`` when its tag or value is not of this type."""

    def normal_form(self, items: Sequence[I]) -> tuple[Step, ...]:
        """Foata normal form: steps of pairwise independent items, each item in the earliest possible step.

        Two sequences are equivalent exactly when their normal forms are equal. Each step is a sorted tuple of
        :meth:`order` keys.
        """
        last: dict[Hashable, int] = {}
        before: dict[Hashable, list[Hashable]] = {}
        steps: list[list[Any]] = []
        for item in items:
            tag = self.tag(item)
            if tag not in before:
                before[tag] = [t for t in before if self.dependent(tag, t)]
                for t in before:
                    if t != tag and self.dependent(t, tag):
                        before[t].append(tag)
                if self.dependent(tag, tag):
                    before[tag].append(tag)
            level = 1 + max((last[t] for t in before[tag] if t in last), default=-1)
            last[tag] = max(level, last.get(tag, -1))
            if level == len(steps):
                steps.append([])
            steps[level].append(self.order(item))
        return tuple(tuple(sorted(step)) for step in steps)

    def residual(self, prefix: Sequence[I], whole: Sequence[I]) -> list[I] | None:
        """The ``w`` with ``prefix . w = whole`` as traces, or None when ``prefix`` is no prefix of ``whole``."""
        rest = list(whole)
        for item in prefix:
            key, tag = self.order(item), self.tag(item)
            for at, candidate in enumerate(rest):
                if self.order(candidate) == key:
                    del rest[at]
                    break
                if self.dependent(self.tag(candidate), tag):
                    return None
            else:
                return None
        return rest


def _sequence(items: Iterable[I]) -> Sequence[I]:
    return items if isinstance(items, Elements) else tuple(items)


@attrs.frozen
class Trace(Generic[I]):
    """A data trace: ``items`` is one of the sequences it stands for, a tuple or, with long pauses, like one. Equality, ``<=``
    (prefix) and ``+`` are of traces."""

    type: TraceType[I]
    items: Sequence[I] = attrs.field(converter=_sequence)

    @items.validator
    def _admit(self, _: object, items: Sequence[I]) -> None:
        admit = self.type.admit
        admitted = (piece if isinstance(piece, MarkerRuns) else admit(piece) for piece in pieces(items))
        object.__setattr__(self, "items", elements(admitted))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace) or other.type != self.type:
            return NotImplemented
        return len(self.items) == len(other.items) and self.normal_form() == other.normal_form()

    def __hash__(self) -> int:
        return hash(len(self.items))

    def __le__(self, other: Trace[I]) -> bool:
        return self.type == other.type and self.type.residual(self.items, other.items) is not None

    def __lt__(self, other: Trace[I]) -> bool:
        return len(self.items) < len(other.items) and self <= other

    def __add__(self, other: Trace[I]) -> Trace[I]:
        if self.type != other.type:
            raise DataError("TT201", "traces of different types cannot be concatenated", fix="use one type for both")
        return Trace(self.type, elements(chain(pieces(self.items), pieces(other.items))))

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[I]:
        return iter(self.items)

    def normal_form(self) -> tuple[Step, ...]:
        """See :meth:`TraceType.normal_form`."""
        return self.type.normal_form(self.items)

    def apply(self, type: TraceType[Any], step: Callable[[I], Iterable[Any]]) -> Trace[Any]:
        """The trace of all that a one-step description emits while it reads ``items`` from left to right."""
        return Trace(type, tuple(out for item in self.items for out in step(item)))


# ------------------------------------------------------------------------------------- any finite alphabet


@attrs.frozen(repr=False)
class Tagged:
    """``(tag, value)`` of a :class:`TagsType`."""

    tag: Hashable
    value: Any = None

    def __repr__(self) -> str:
        return f"({self.tag}, {self.value!r})" if self.value is not None else f"{self.tag}"


def _symmetric(pairs: Iterable[tuple[Hashable, Hashable]]) -> frozenset[tuple[Hashable, Hashable]]:
    relation = frozenset(pairs)
    return relation | frozenset((b, a) for a, b in relation)


@attrs.frozen
class TagsType(TraceType[Tagged]):
    """A trace type given by its parts: a Python type for each tag, and the dependent pairs (closed symmetrically)."""

    values: Mapping[Hashable, type[Any]]
    dependence: frozenset[tuple[Hashable, Hashable]] = attrs.field(converter=_symmetric)

    @dependence.validator
    def _known(self, _: object, pairs: frozenset[tuple[Hashable, Hashable]]) -> None:
        for tag in {tag for pair in pairs for tag in pair} - set(self.values):
            raise DataError("TT201", f"the dependence names {tag!r}", fix=f"use one of the tags {list(self.values)}")

    def tag(self, item: Tagged) -> Hashable:
        return item.tag

    def dependent(self, one: Hashable, other: Hashable) -> bool:
        return (one, other) in self.dependence

    def order(self, item: Tagged) -> Any:
        return (repr(item.tag), repr(item.value))

    def admit(self, item: Tagged) -> Tagged:
        if item.tag not in self.values:
            raise DataError("TT201", f"{item} has no tag of this type", fix=f"use one of {list(self.values)}")
        if not isinstance(item.value, self.values[item.tag]):
            cls = self.values[item.tag].__name__
            raise DataError(
                "TT201", f"{item} holds a {type(item.value).__name__}", fix=f"tag {item.tag} takes {cls}"
            )
        return item


# ------------------------------------------------------------------------------------------ U and O streams


@attrs.frozen
class Item:
    """A key-value pair."""

    key: Any
    value: Any

    def __repr__(self) -> str:
        return f"({self.key!r}, {self.value!r})"


class _MarkerTag:
    """The tag ``#``."""

    def __repr__(self) -> str:
        return "#"


MARKER: Final = _MarkerTag()
Element = Item | Marker


@attrs.frozen
class Block:
    """The items between two markers. ``marker`` is the one that ends it, None for what came after the last marker."""

    items: tuple[Item, ...]
    marker: Marker | None


@attrs.frozen
class StreamType(TraceType[Element]):
    """``U[K, V]`` or ``O[K, V]``: alphabet ``K + {#}``; ``#`` depends on all tags, and in ``O`` each key on itself."""

    ordered: bool
    key: Schema
    value: Schema

    def tag(self, item: Element) -> Hashable:
        return MARKER if isinstance(item, Marker) else item.key

    def dependent(self, one: Hashable, other: Hashable) -> bool:
        return one is MARKER or other is MARKER or (self.ordered and one == other)

    def order(self, item: Element) -> Any:
        if isinstance(item, Marker):
            return (0, item.micros)
        return (1, _key_order(self.key)(item.key), canonical(self.value)(item.value))

    def admit(self, item: Element) -> Element:
        if isinstance(item, Marker):
            return item
        try:
            key, value = key_conformer(self.key)(item.key), conformer(self.value)(item.value)
        except Mismatch as error:
            types = f"({name_of(self.key)}, {name_of(self.value)})"
            raise DataError("TT201", f"the item {show(item)}: {error}", fix=f"give pairs {types}") from None
        return item if key is item.key and value is item.value else Item(key, value)

    def normal_form(self, items: Sequence[Element]) -> tuple[Step, ...]:
        """Block by block: equal to the Foata normal form up to regrouping, in time n log n for any number of keys. A long pause
        is one step."""
        key_order, value_order = _key_order(self.key), canonical(self.value)
        steps: list[Step] = []
        empty: list[range] = []

        def pause() -> None:
            markers = MarkerRuns(empty)
            steps.extend([(markers,)] if is_long(markers) else (step for one in markers for step in ((), (one,))))
            empty.clear()

        for block in stretches(pieces(items)):
            if isinstance(block, MarkerRuns):
                empty.extend(block.ranges)
                continue
            if block.marker is not None and not block.items:
                empty.append(range(block.marker.micros, block.marker.micros + 1))
                continue
            pause()
            if self.ordered:
                runs: dict[Any, list[Any]] = {}
                for item in block.items:
                    runs.setdefault(key_order(item.key), []).append(value_order(item.value))
                steps.append(tuple((key, tuple(runs[key])) for key in sorted(runs)))
            else:
                rows = [(key_order(i.key), value_order(i.value)) for i in block.items]
                steps.append(tuple(sorted(rows)))
            if block.marker is not None:
                steps.append((block.marker.micros,))
        return tuple(steps)


@cache
def _key_order(schema: Schema) -> Callable[[Any], Any]:
    """The canonical order of keys: equal keys (0.0 and -0.0) are one."""
    order = canonical(schema)
    return (lambda key: order(positive_zeros(schema, key))) if has_floats(schema) else order


def blocks(items: Iterable[Element]) -> Iterator[Block]:
    """The blocks of a stream, the open one (marker None, maybe empty) last. Markers must increase strictly."""
    for one in stretches(items):
        assert isinstance(one, Block)
        yield one


def stretches(items: Iterable[Piece[Element]]) -> Iterator[Block | MarkerRuns]:
    """The same of the pieces of a stream: of a pause its markers."""
    block: list[Item] = []
    last: int | None = None
    for item in items:
        if isinstance(item, Item):
            block.append(item)
            continue
        first = item.micros if isinstance(item, Marker) else item[0]
        if last is not None and first <= last:
            text = f"marker {Marker(first)} follows {Marker(last)}"
            raise DataError("TT201", text, fix="markers increase strictly in time")
        if isinstance(item, Marker):
            last = first
            yield Block(tuple(block), item)
        else:
            last = item[-1]
            if block:
                yield Block(tuple(block), Marker(first))
                item = item.after(first)
            if item:
                yield item
        block = []
    yield Block(tuple(block), None)


def closed(trace: Trace[Element]) -> Trace[Element]:
    """The part of a stream up to its last marker: what has been answered."""
    items, end = trace.items, len(trace.items)
    while end and not isinstance(items[end - 1], Marker):
        end -= 1
    return Trace(trace.type, items[:end])


def stream_type(edge: EdgeType) -> StreamType:
    """The data-trace type of an edge."""
    return StreamType(edge.ordered, schema_of(edge.key), schema_of(edge.value))
