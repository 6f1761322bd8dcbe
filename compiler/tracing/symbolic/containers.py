"""Records, sequences and text: parts of values, and whether they are in one another."""

from __future__ import annotations

import datetime as dt
import inspect
import types
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tracetypes.compiler.tracing.expr import Call, Const
from tracetypes.compiler.tracing.kinds import BOOLEAN, FLOAT, INTEGER, STRING
from tracetypes.compiler.tracing.operations import basic, functions
from tracetypes.compiler.tracing.symbolic.allowed import (
    ATTRIBUTES,
    CONTAINERS,
    DURATION_ATTRIBUTES,
    DURATION_METHODS,
    ITERATED,
    METHODS,
    PURE,
    has_plain_value,
    module_of,
)
from tracetypes.compiler.tracing.symbolic.arithmetic import is_duration
from tracetypes.compiler.tracing.symbolic.known import CLASSES, DAY, TIME_FIELDS, super_of
from tracetypes.compiler.tracing.symbolic.paths import Undo, isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedDeferred,
    TracedDuration,
    TracedMatch,
    TracedMethod,
    TracedParts,
    TracedRange,
    TracedSymbol,
    describe,
    expr_of,
    word_of,
)
from tracetypes.compiler.tracing.symbolic.tables import Tables
from tracetypes.record_classes import fields_of
from tracetypes.records import INT_MAX, INT_MIN, Boolean, Date, EnumOf, Integer, Optional, Timestamp

__all__ = ["Containers"]

FEW: Final = 16
"""Members of a container that are compared one by one."""


class Containers(Tables):
    """Parts of values."""

    def contains(self, part: Any, whole: Any) -> Any:
        """``part in whole``."""
        if isa(whole, TracedSymbol):
            if self.kind(whole) == STRING and self.kind(part) == STRING:
                return self.make(basic.CONTAINS, BOOLEAN, whole._expr, self.expr(part))
            self.refuse(f"uses in on {describe(whole)}")
        if isa(whole, TracedParts):
            answer = self.applied(whole._split.has, whole._text, part, *whole._how)
            return False if answer is None and self.kind(part) != STRING else answer
        if isa(whole, type({}.keys())):
            whole = whole.mapping
        if isa(whole, TracedRange):
            if whole._step != 1 if type(whole._step) is int else True:
                self.refuse("uses in on a range of values with a step")
            if self.kind(part) not in (BOOLEAN, INTEGER):
                self.refuse(f"looks for {describe(part)} in a range of values")
            return self.within(self.as_number(part, INTEGER), whole._start, whole._stop)
        if not self.holds(part):
            if not self.holds(whole) or type(whole) in (dict, set):
                return part in whole
            if isa(getattr(type(whole), "__contains__", None), types.FunctionType):
                return self.condition(self.call(type(whole).__contains__, whole, part))
            if type(whole) in (list, tuple):
                return self.contains_any(part, whole)
            self.refuse(f"uses in on {describe(whole)}")
        if type(whole) is str and self.kind(part) == STRING:
            return self.make(basic.CONTAINS, BOOLEAN, self.expr(whole), part._expr)
        if type(whole) in (list, tuple):
            kind = self.kind(part)
            others = any(self.kind(one) != kind for one in whole)
            if kind is None or kind == FLOAT or others or len(whole) <= FEW or self.holds(whole):
                return self.contains_any(part, whole)
            return self.has(self.members(whole, kind), part)
        if type(whole) in (set, frozenset):
            return self.contains_hashed(part, whole)
        if self.is_table(whole):
            return self.has(self.mapping(whole), part)
        if isa(whole, range) and whole.step == 1 and self.kind(part) == INTEGER:
            return self.within(part, whole.start, whole.stop)
        self.refuse(f"uses in on {describe(whole)}")

    def within(self, part: Any, start: Any, stop: Any) -> Any:
        """``start <= part < stop``."""
        first, second = self.compare("LtE", start, part), self.compare("Lt", part, stop)
        return self.joined(True, first, second) if isa(first, TracedSymbol) else first and second

    def contains_hashed(self, part: Any, whole: Any) -> Any:
        """``part in whole`` for a set. It is compared with the members where values that are equal have one hash."""
        kind = self.kind(part)
        if kind in (INTEGER, STRING, BOOLEAN):
            return self.has(self.members(whole, kind), part)
        hashed = isinstance(kind, EnumOf) or all(map(self.is_hashed_by_value, (part, *whole)))
        if len(whole) > FEW or not hashed:
            self.refuse(f"looks up {describe(part)}")
        return self.contains_any(part, sorted(whole, key=repr))

    def is_hashed_by_value(self, part: Any) -> bool:
        """Whether equal values have one hash: scalars, and tuples of them."""
        if type(part) is tuple:
            return all(map(self.is_hashed_by_value, part))
        if isa(part, TracedSymbol | TracedDeferred):
            kind = expr_of(part).kind
            return not isinstance(kind.item if isinstance(kind, Optional) else kind, EnumOf)
        if part is None:
            return True
        return is_duration(part) or self.kind(part) is not None

    def contains_any(self, part: Any, whole: Sequence[Any]) -> Any:
        answer: Any = False
        for one in whole:
            one = self.settle(one)
            if isa(part, Proxy) or isa(one, Proxy):
                here = self.compare_inside("Eq", part, one)
            else:
                here = part is one or self.compare("Eq", one, part)
            if isa(answer, TracedSymbol) and (isa(here, TracedSymbol) or isa(here, bool)):
                answer = self.joined(False, answer, here) if here is not False else answer
            elif here is True or answer is True:
                answer = True
            else:
                answer = here
        return answer

    # ----------------------------------------------------------------------------------- attributes and items

    def attribute(self, value: Any, name: str) -> Any:
        """``value.name``."""
        value = self.settle(value)
        if name == "__class__":
            return self.class_of(value)
        if isa(value, TracedSymbol):
            return self.symbol_attribute(value, name)
        if isa(value, TracedDuration):
            return self.duration_attribute(value, name)
        if isa(value, TracedParts):
            self.refuse(f"calls {name} of a list of text")
        if isa(value, TracedMatch):
            return TracedMethod(self, value, name)
        if isa(value, type | types.ModuleType):
            return getattr(value, name)
        if isa(value, super):
            bases, value = super_of(value)
            return self.member(value, name, bases, inherited=True)
        return self.member(value, name, type(value).__mro__)

    def member(self, value: Any, name: str, bases: tuple[type[Any], ...], *, inherited: bool = False) -> Any:
        """What is found in one of these classes, of a value that is no scalar; a field, where it is one."""
        holds = self.holds(value)
        cls = next((base for base in bases if name in base.__dict__), None)
        member = None if cls is None else cls.__dict__[name]
        if type(member) is property and (holds or module_of(type(value)) not in PURE):
            return self.seen(self.call(member.fget, value))
        if not holds and not inherited:
            return getattr(value, name)
        if cls is not None and cls in CONTAINERS:
            if name not in CONTAINERS[cls]:
                self.refuse(f"calls {name} of {describe(value)}")
            return getattr(value, name)
        if name in (fields_of(type(value)) or ()) and not inherited:
            return self.seen(self.touch(getattr(value, name)))
        if cls is None:
            if inherited:
                raise AttributeError(name)
            self.refuse(f"reads {name}, which {type(value).__name__} does not have")
        return self.bound(name, member, value)

    def bound(self, name: str, member: Any, value: Any) -> Any:
        """A member of a class, as an instance sees it."""
        if isa(member, types.FunctionType):
            return types.MethodType(member, value)
        if isa(member, classmethod):
            return types.MethodType(member.__func__, type(value))
        if isa(member, staticmethod):
            return member.__func__
        if hasattr(type(member), "__get__"):
            self.refuse(f"reads the computed attribute {name}")
        return member

    def symbol_attribute(self, value: TracedSymbol, name: str) -> Any:
        kind = self.kind(value)
        cls = CLASSES.get(type(kind))
        if isinstance(kind, EnumOf) and name == "value" and has_plain_value(kind.cls):
            return self.enum_value(value)
        if cls is None:
            self.refuse(f"looks into a {word_of(kind)}")
        if name in METHODS.get(type(kind), ()):
            return TracedMethod(self, value, name)
        if name not in ATTRIBUTES.get(type(kind), ()):
            if not hasattr(cls, name):
                raise AttributeError(name)
            self.refuse(f"{'calls' if callable(getattr(cls, name)) else 'reads'} {cls.__name__}.{name}")
        match kind:
            case Timestamp() if name == "tzinfo":
                if self.has_zone_of_row(value._expr):
                    self.refuse("reads the zone of a time that a text names")
                return dt.UTC
            case Timestamp() | Date():
                return self.make(TIME_FIELDS[name], INTEGER, self.clock(value))
            case Integer() | Boolean():
                return self.as_number(value, INTEGER)
            case _:
                return value

    def duration_attribute(self, value: TracedDuration, name: str) -> Any:
        micros = value._micros
        if name in DURATION_METHODS:
            return TracedMethod(self, value, name)
        if name not in DURATION_ATTRIBUTES:
            self.refuse(f"{'calls' if callable(getattr(dt.timedelta, name)) else 'reads'} timedelta.{name}")
        match name:
            case "days":
                return self.binary("FloorDiv", micros, DAY)
            case "seconds":
                return self.binary("FloorDiv", self.binary("Mod", micros, DAY), 1_000_000)
            case _:
                return self.binary("Mod", micros, 1_000_000)

    def slice(self, start: Any, stop: Any, step: Any) -> slice:
        """``start:stop:step``."""
        return slice(self.settle(start), self.settle(stop), self.settle(step))

    def item(self, whole: Any, index: Any) -> Any:
        """``whole[index]``."""
        whole, index = self.settle(whole), self.settle(index)
        if isa(whole, TracedSymbol):
            if self.kind(whole) == STRING:
                return self.character(whole, index)
            self.refuse(f"takes an item of {describe(whole)}")
        if isa(whole, TracedDuration):
            raise TypeError("timedelta has no items")
        if isa(whole, TracedParts):
            part = self.applied(whole._split.part, whole._text, index, *whole._how)
            if part is None:
                self.refuse("takes several parts of a text that is split")
            return part
        method = getattr(type(whole), "__getitem__", None)
        if isa(method, types.FunctionType) and (self.holds(whole) or self.holds(index)):
            return self.call(method, whole, index)
        if self.holds(index):
            if isa(index, TracedSymbol) and self.is_table(whole):
                return self.entry(self.mapping(whole), index)
            if isa(index, TracedSymbol) and type(whole) in (tuple, list):
                return self.element(whole, self.as_number(index, INTEGER))
            self.refuse(f"looks up {describe(index)} in {describe(whole)}")
        if self.holds(whole) and method not in (tuple.__getitem__, list.__getitem__, dict.__getitem__):
            self.refuse(f"takes an item of {describe(whole)}")
        if hasattr(type(whole), "__missing__") and (id(whole) not in self.now.owned or self.now.is_outside(whole)):
            self.refuse(f"looks up in a {type(whole).__name__}, which changes by that")
        part = self.seen(whole[index])
        return self.own(part) if type(whole) is list and isa(index, slice) else part

    def element(self, whole: Sequence[Any], index: TracedSymbol) -> Any:
        if self.holds(whole):
            self.refuse("takes an item of a sequence by a place that is not known")
        table = self.table(whole, "places", lambda: {at: whole[at] for at in range(-len(whole), len(whole))})
        match index._expr:
            case Call(basic.MOD, (_, Const(divisor))) if 0 < divisor <= len(whole):
                self.table_key(table, index)
                return self.look_up(table, index)
        return self.entry(table, index)

    def character(self, text: TracedSymbol, index: Any) -> Any:
        if isa(index, slice):
            if any(type(at) not in (int, types.NoneType) for at in (index.start, index.stop, index.step)):
                self.refuse("takes a slice of a str with places that are not constant")
            if index.step not in (None, 1):
                if (index.start, index.stop) != (None, None):
                    if index.step < 0:
                        self.refuse("takes a slice of a str backwards, between two places")
                    text = self.character(text, slice(index.start, index.stop))
                return self.applied(functions.STEP, text, index.step)
            bounds = [
                self.intern(Const(None, None)) if at is None else self.expr(min(max(at, INT_MIN), INT_MAX))
                for at in (index.start, index.stop)
            ]
            return self.make(basic.SLICE, STRING, text._expr, *bounds)
        if type(index) is not int:
            self.refuse("takes a character of a str at a place that is not constant")
        place = index + 1 if index >= 0 else -index
        if not self.truth(self.compare("LtE", place, self.length(text))):
            raise IndexError
        return self.character(text, slice(index, index + 1 or None))

    def length(self, value: Any) -> Any:
        if isa(value, TracedSymbol):
            if self.kind(value) != STRING:
                self.refuse(f"takes the length of {describe(value)}")
            return self.make(basic.LENGTH, INTEGER, value._expr)
        if isa(value, TracedParts):
            return self.applied(value._split.length, value._text, *value._how)
        return len(value)

    # ---------------------------------------------------------------------------------- containers and the rest

    def own(self, value: Any) -> Any:
        """A container that the function has just made."""
        if isa(value, dict | set) and any(map(self.holds, value)):
            self.refuse("hashes a value")
        self.now.owned[id(value)] = value
        return value

    def place(self, index: Any) -> Any:
        """A key or place of a container that is about to be changed there."""
        index = self.settle(index)
        if self.holds(index):
            self.refuse("hashes a value")
        return index

    def entries(self, value: Any) -> Any:
        """``**value``."""
        value = self.settle(value)
        if self.holds(value) and type(value) is not dict:
            self.refuse(f"takes {describe(value)} for a mapping")
        return value

    def changed(self, value: Any) -> Any:
        """A container that is about to be changed."""
        value = self.settle(value)
        if self.now.trials:
            raise Undo
        if id(value) not in self.now.owned:
            self.refuse(f"changes {describe(value)} that outlives the call")
        if self.now.is_outside(value):
            self.refuse(f"changes {describe(value)} in a loop over a range of values")
        return value

    def iterate(self, value: Any, names: int | None = None) -> Any:
        """What a loop or an assignment to several names takes apart; so many names there are, where that is known."""
        value = self.settle(value)
        if isa(value, TracedParts) and names is not None:
            if not self.truth(self.compare("Eq", self.length(value), names)):
                raise ValueError("another number of values to unpack")
            return [self.item(value, at) for at in range(names)]
        if isa(value, Proxy):
            self.refuse(f"iterates over {describe(value)}")
        if isa(value, tuple | list) and any(isa(one, TracedDeferred) for one in value):
            return [self.seen(one) for one in value]
        if isa(value, Iterator):
            self.begun(value)
        method = getattr(type(value), "__iter__", None)
        if self.holds(value) and method not in ITERATED and not isa(value, Iterator):
            if not isa(method, types.FunctionType):
                self.refuse(f"iterates over {describe(value)}")
            value = self.call(method, value)
            if not isa(value, types.GeneratorType):
                self.refuse(f"iterates over {describe(value)}")
        return value

    def begun(self, iterator: Any) -> None:
        """An iterator is about to go on: on trial it must not, and in the turn of a loop it must have begun there."""
        if self.now.trials:
            raise Undo
        is_new = isa(iterator, types.GeneratorType) and inspect.getgeneratorstate(iterator) == inspect.GEN_CREATED
        if self.now.is_outside(iterator) and not is_new:
            self.refuse("goes on with an iterator in a loop over a range of values")

    def unpack(self, value: Any, names: Sequence[Any]) -> Any:
        """What is assigned to names: True for a name, False for ``*name``, and a sequence for several names in one place."""
        starred = False in names
        value = self.iterate(value, None if starred else len(names))
        if all(isinstance(one, bool) for one in names):
            return value
        parts = list(value)
        for at, inner in enumerate(names):
            place = at if not starred or at < names.index(False) else len(parts) - len(names) + at
            if not isinstance(inner, bool) and 0 <= place < len(parts) and len(parts) >= len(names) - starred:
                parts[place] = self.unpack(parts[place], inner)
        return parts

    def unpacked(self, value: Any, names: Sequence[Any]) -> Iterator[Any]:
        """The elements of a loop over tuples."""
        return (self.unpack(one, names) for one in value)
