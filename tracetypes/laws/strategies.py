"""Hypothesis strategies: values of a type, rows of a source, streams of an operator; and the settings of every search."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, assert_never, get_args

from hypothesis import HealthCheck, Phase, Verbosity, reject, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tracetypes.check import Checked
from tracetypes.conformance import conformer, construct, datetime_of, key_problem, name_of
from tracetypes.equations.subject import Elements, Subject
from tracetypes.errors import UsageError
from tracetypes.markers import Marker
from tracetypes.nodes import Source
from tracetypes.records import (
    UNIT,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    Mismatch,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
    show,
)
from tracetypes.schemas import schema_of
from tracetypes.trace import Element, Item, StreamType

__all__ = ["item_strategy", "keys_of", "rows_of", "search", "slices", "streams_of", "values", "values_of"]


# Everything is drawn from short pools, simplest first: counter-examples read like examples, equal values meet often,
# and the sequence of examples is the same on every machine.
_WHOLE: Final = tuple(sorted(range(-10, 11), key=lambda n: (abs(n), n < 0)))
_INTEGERS: Final = (*_WHOLE[:4] * 5, *_WHOLE, 100, -100, 1000, -1000)
_ROUNDED: Final = (0.1, 0.2, 0.3, -0.1, 0.7, 1.1, -2.6, 3.3, -4.5, 99.9, 1e-3, 1 / 3)


_FLOATS: Final = (
    *(0.0, 1.0, -1.0, 2.0, 0.5, -3.0),
    *_ROUNDED * 2,
    *(1000.0, 1e16, -1e16, -0.0, math.inf, -math.inf, math.nan, -0.0, math.nan),
)


_UNSIGNED: Final = (0, 1, 2, 3, 10, 100, 1000)
_UNITS: Final = (0, 1, -1, 2, 5, 10, 250, -199, 1000, -12345)
_TEXTS: Final = ("a", "b", "c", "", "ab", "A", "é", "日本", "🙂", " ", "0")
_BYTES: Final = (b"a", b"b", b"", b"ab", b"\x00", b"\xff")
_MICROS: Final = tuple(round(s * 1_000_000) for s in (0, 1, 2, -1, 10, 60, 1000, -1000, 0.000001, 0.5))
_DAYS: Final = (0, 1, -1, 7, 31, 58, 59, 365, 789, -365)
_KEYS: Final = 4


def search(max_examples: int, *, shrink: bool = True) -> settings:
    """Settings of a search for counter-examples. It draws the same examples in every run, stores nothing and prints nothing."""
    return settings(
        max_examples=max_examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )


def values(annotation: Any) -> SearchStrategy[Any]:
    """Values of a type that has a schema (or of a :data:`~tracetypes.records.Schema`), the awkward ones included.

    None, NaN, infinities, ``-0.0``, ``0.1``, empty and non-ASCII texts are among them. Numbers, times and dates stay
    within 1000 of zero (of the epoch, in seconds or days): a program that adds or multiplies a few of them stays within
    64 bits, and one that counts from one to the next ends. Give your own strategy where size is the point.
    """
    return values_of(annotation if isinstance(annotation, get_args(Schema)) else schema_of(annotation), key=False)


def keys_of(schema: Schema) -> SearchStrategy[Any]:
    """A few values only, so that items meet: no None, no NaN."""
    return values_of(schema, key=True)


def values_of(schema: Schema, *, key: bool) -> SearchStrategy[Any]:
    def pool(every: Sequence[Any]) -> SearchStrategy[Any]:
        return st.sampled_from(every[:_KEYS] if key else every)

    match schema:
        case Boolean():
            return st.sampled_from((False, True))
        case Integer():
            return pool(_INTEGERS)
        case Float():
            return pool(_FLOATS)
        case Unsigned():
            return pool(_UNSIGNED)
        case DecimalOf(precision, scale):
            units = [unit for unit in _UNITS if abs(unit) < 10**precision]
            return pool(units).map(lambda unit: Decimal((int(unit < 0), tuple(map(int, str(abs(unit)))), -scale)))
        case LiteralOf(_, allowed):
            return pool(allowed)
        case EnumOf(cls, _):
            return pool(list(cls))
        case String():
            return st.sampled_from(("a", "b", "", "é")) if key else pool(_TEXTS)
        case Bytes():
            return pool(_BYTES)
        case Timestamp():
            return pool(_MICROS).map(datetime_of)
        case Date():
            return pool(_DAYS).map(lambda days: dt.date(1970, 1, 1) + dt.timedelta(days))
        case UnitValue():
            return st.just(UNIT)
        case Optional(item):
            return st.one_of(values_of(item, key=key), st.none())
        case ListOf(item, frozen):
            inner = item.item if key and isinstance(item, Optional) else item
            listed = st.lists(values_of(inner, key=key), max_size=2 if key else 3)
            return listed.map(tuple) if frozen else listed
        case Record(cls, fields):
            names = [name for name, _ in fields]
            parts = st.tuples(*(values_of(inner, key=key) for _, inner in fields))
            return parts.map(lambda drawn: _record(cls, dict(zip(names, drawn, strict=True))))
        case OneOf(members):
            return st.one_of(*(values_of(member, key=key) for member in members))
        case _:
            assert_never(schema)


def _record(cls: type[Any], fields: dict[str, Any]) -> Any:
    try:
        return construct(cls, fields, "")
    except Mismatch:  # the author's validators: no such value exists
        reject()


_GAPS: Final = (10, 1, 1000)


def streams_of(items: SearchStrategy[Item], *, blocks: int, size: int) -> SearchStrategy[Elements]:
    """Up to so many blocks of up to so many items; markers some seconds apart."""
    block = st.tuples(st.lists(items, max_size=size), st.sampled_from(_GAPS))

    def joined(drawn: list[tuple[list[Item], int]]) -> Elements:
        out: list[Element] = []
        seconds = 0
        for items, gap in drawn:
            seconds += gap
            out += [*items, Marker(seconds * 1_000_000)]
        return tuple(out)

    return st.lists(block, min_size=1, max_size=blocks).map(joined)


def slices(rows: Sequence[Any], size: int = 40) -> SearchStrategy[list[Any]]:
    """Pieces of a recorded input, in its order: for ``rows`` of :func:`check_deployments`."""
    starts = st.integers(0, max(0, len(rows) - 1))
    return st.builds(lambda start, length: list(rows[start : start + length]), starts, st.integers(0, size))


def rows_of(
    checked: Checked, source: Source, strategies: Mapping[str, SearchStrategy[list[Any]]] | None
) -> SearchStrategy[list[Any]]:
    if strategies is not None and source.name in strategies:
        return strategies[source.name]
    layout = checked.layout(source)
    row = values(layout.value)
    if layout.keyed:
        return st.lists(st.tuples(values(layout.key), row), max_size=20)
    return st.lists(row, max_size=20)


def item_strategy(subject: Subject, items: SearchStrategy[tuple[Any, Any]] | None) -> SearchStrategy[Item]:
    """Items that an operator takes, from a strategy of pairs; by default all that its types allow."""
    takes = subject.takes
    drawn = st.tuples(keys_of(takes.key), values(takes.value)) if items is None else items
    return drawn.map(lambda pair: _fitted(takes, pair))


def _fitted(stream: StreamType, pair: Any) -> Item:
    try:
        key, value = pair
        if problem := key_problem(stream.key, key):
            raise ValueError(problem)
        return Item(conformer(stream.key)(key), conformer(stream.value)(value))
    except (Mismatch, TypeError, ValueError) as error:
        types = f"({name_of(stream.key)}, {name_of(stream.value)})"
        raise UsageError(
            "TT407", f"items drew {show(pair)}: {error}", fix=f"let the strategy draw pairs {types}"
        ) from None
