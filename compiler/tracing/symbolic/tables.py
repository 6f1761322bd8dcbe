"""Tables: containers that are looked into by a key that is not known yet."""

from __future__ import annotations

import datetime as dt
import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tracetypes.compiler.tracing.cache_keys import ObjectKey, scalar_key
from tracetypes.compiler.tracing.kinds import BOOLEAN, INTEGER, STRING, TIMESTAMP, Kind
from tracetypes.compiler.tracing.operations.basic import HAS, LOOKUP
from tracetypes.compiler.tracing.symbolic.allowed import (
    MAPPINGS,
)
from tracetypes.compiler.tracing.symbolic.comparisons import Comparisons
from tracetypes.compiler.tracing.symbolic.known import CLASSES, COLUMNS, at_path
from tracetypes.compiler.tracing.symbolic.paths import isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedSymbol,
    describe,
)
from tracetypes.conformance import name_of
from tracetypes.lookup_table import LookupTable
from tracetypes.record_classes import fields_of
from tracetypes.records import UNIT, UnitValue

__all__ = ["Table", "Tables"]


_PLAIN: Final = (types.NoneType, bool, int, float, str, bytes, dt.datetime, dt.date)
"""Classes whose values are equal to those of their own class only, or are numbers."""


def _members(kind: Kind, whole: Iterable[Any]) -> Iterator[Any]:
    """The members that may be equal to a scalar of a kind, as values of its class."""
    cls = CLASSES[type(kind)]
    for one in whole:
        if cls in (int, bool) and type(one) in (int, bool, float):
            if one in (0, 1) if cls is bool else one == one // 1:
                yield cls(one)
        elif type(one) is cls or type(one) not in _PLAIN:
            yield one


def _content(value: Any) -> Any:
    """What is equal only for values that nobody can tell apart. Raises ``TypeError`` where that cannot be said."""
    content = scalar_key(value)
    if not isinstance(content, ObjectKey):
        return content
    cls = type(value)
    names = fields_of(cls)
    if cls is not tuple and names is None:
        raise TypeError(f"{cls.__name__} may hold more than can be seen")
    parts = value if names is None else [getattr(value, name) for name in names]
    return cls, tuple(map(_content, parts))


class Table:
    """A constant table. Equal to another one if no function can tell them apart; contents are compared only if their
    sizes are equal."""

    def __init__(self, entries: Mapping[Any, Any]) -> None:
        self.entries = entries

    def __hash__(self) -> int:
        return len(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.content is not None and self.content == other.content

    @functools.cached_property
    def content(self) -> Any:
        """The content as a key of a cache. None if there is none."""
        try:
            return tuple((_content(k), _content(v)) for k, v in self.entries.items())
        except TypeError:
            return None


class Tables(Comparisons):
    """Look-ups."""

    def members(self, whole: Any, kind: Kind) -> Mapping[Any, Any]:
        """The table of the members of a set, tuple or list to which a scalar of a kind may be equal."""
        return self.table(whole, f"members {kind}", lambda: dict.fromkeys(sorted(_members(kind, whole), key=repr)))

    def is_table(self, whole: Any) -> bool:
        return type(whole) in MAPPINGS

    def table(self, whole: Any, role: str, make: Callable[[], dict[Any, Any]]) -> Mapping[Any, Any]:
        """The one mapping that stands for a container, or one with the same content, in this trace."""
        entry = self.tables.get((role, id(whole)))
        if entry is not None and id(whole) not in self.now.owned:
            return entry[1]
        new = Table(make())
        if id(whole) in self.now.owned and new.content is None:
            self.refuse("looks up in a table that it makes itself")
        table = self.contents.setdefault(new, new.entries)
        self.tables[role, id(whole)] = (whole, table)
        return table

    def mapping(self, whole: Any) -> Mapping[Any, Any]:
        """The table of a dict."""
        return self.table(whole, "dict", lambda: dict(whole))

    def has(self, table: Mapping[Any, Any], key: Any) -> Any:
        key = self.table_key(table, key)
        return self.make(HAS, BOOLEAN, key._expr, table=table) if table else False

    def table_key(self, table: Mapping[Any, Any], key: Any) -> Any:
        kind = self.kind(key)
        cls = CLASSES[type(kind)] if isa(key, TracedSymbol) and kind in (INTEGER, STRING, BOOLEAN) else None
        if not isa(key, TracedSymbol) or cls is None:
            self.refuse(f"looks up {describe(key)}")
        if (id(table), cls) not in self.checked:
            if not set(map(type, table)) <= {cls}:
                self.refuse(f"looks up {describe(key)} in a table with other keys")
            self.checked.add((id(table), cls))
        return key

    def look_up(self, table: Mapping[Any, Any], key: Any) -> Any:
        """What the table holds for a key that it holds."""
        if id(table) not in self.layouts:
            self.layouts[id(table)] = self.layout(list(table.values()))
        return self.part(table, table, key, self.layouts[id(table)], ())

    def layout(self, values: list[Any]) -> Any:
        """A kind, None for only None, a pair of class and parts, or (None, layout) where some are None."""
        some = [value for value in values if value is not None]
        if not some:
            return None
        if len(some) < len(values):
            return (None, self.layout(some))
        classes = {type(value) for value in values}
        (cls, *others) = classes
        if others:
            self.refuse("looks up in a table with values of several types")
        kind = self.kind(values[0])
        if kind is not None:
            if kind in (INTEGER, TIMESTAMP, STRING):
                for value in values if kind == TIMESTAMP else set(values):
                    self.check_constant(value)
            return kind
        if cls is tuple:
            if len({len(value) for value in values}) > 1:
                self.refuse("looks up in a table with tuples of several lengths")
            return (tuple, [(at, self.layout([value[at] for value in values])) for at in range(len(values[0]))])
        names = fields_of(cls)
        if names is None:
            self.refuse(f"looks up in a table of {describe(values[0])}")
        return (cls, [(name, self.layout([getattr(value, name) for value in values])) for name in names])

    def part(
        self,
        table: Mapping[Any, Any],
        full: Mapping[Any, Any],
        key: TracedSymbol,
        layout: Any,
        path: tuple[str | int, ...],
    ) -> Any:
        if layout is None:
            return None
        if not isinstance(layout, tuple):
            if isinstance(layout, UnitValue):
                return UNIT
            return self.make(LOOKUP, layout, key._expr, table=full, path=path)
        cls, inner = layout
        if cls is None:
            mark = ("some", id(full), path)
            if mark not in self.tables:
                some = {k: None for k, value in full.items() if at_path(value, path) is not None}
                self.tables[mark] = (full, some)
            if not self.truth(self.make(HAS, BOOLEAN, key._expr, table=self.tables[mark][1])):
                return None
            return self.part(table, full, key, inner, path)
        parts = [(name, self.part(table, full, key, one, (*path, name))) for name, one in inner]
        return tuple(value for _, value in parts) if cls is tuple else self.record(cls, parts)

    def get(self, whole: Any, key: Any, default: Any) -> Any:
        """``whole.get(key, default)``."""
        table = self.mapping(whole)
        has = self.has(table, key)
        if has is False:
            return default
        if id(table) not in self.layouts:
            self.layouts[id(table)] = self.layout(list(table.values()))
        if self.layouts[id(table)] == self.kind(default) is not None and not isa(default, Proxy):
            return self.either(has, self.look_up(table, key), default)
        return self.look_up(table, key) if self.truth(has) else default

    def ask(self, table: LookupTable, key: Any) -> Any:
        """``table.get(key)``: a record, or None."""
        key, schema = self.settle(key), table.row
        if self.kind(key) not in (INTEGER, STRING, BOOLEAN) or not isa(key, TracedSymbol):
            self.refuse(f"asks a table for {describe(key)}")
        for name, kind in schema.fields:
            if not isa(kind, COLUMNS):
                self.refuse(f"asks a table whose {name} is {name_of(kind)}")
        if not self.truth(self.make(HAS, BOOLEAN, key._expr, table=table)):
            return None
        return self.record(
            schema.cls,
            [(name, self.make(LOOKUP, kind, key._expr, table=table, path=(name,))) for name, kind in schema.fields],
        )

    def entry(self, table: Mapping[Any, Any], key: Any) -> Any:
        """``table[key]``."""
        if not self.truth(self.has(table, key)):
            raise KeyError
        return self.look_up(table, key)
