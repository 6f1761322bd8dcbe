"""The core of the tracer: what stands for values, what they are once somebody looks, and what is emitted."""

from __future__ import annotations

import enum
import functools
import types
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from tracetypes.compiler.tracing.expr import Call, Const, Emission, Expr, Input, Kind, Pack, Value
from tracetypes.compiler.tracing.kinds import BOOLEAN, INTEGER, TIMESTAMP
from tracetypes.compiler.tracing.operations.basic import IS_NULL
from tracetypes.compiler.tracing.symbolic.allowed import VIEWS, kind_of_member
from tracetypes.compiler.tracing.symbolic.expressions import Expressions, has_no_zone
from tracetypes.compiler.tracing.symbolic.known import problem_of, super_of
from tracetypes.compiler.tracing.symbolic.paths import Undo, isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedDeferred,
    TracedEmit,
    TracedLeft,
    TracedMethod,
    TracedPlace,
    TracedRange,
    TracedSymbol,
    describe,
    expr_of,
)
from tracetypes.compiler.tracing.symbolic.shapes import Fixed, Given, Nested, Shape
from tracetypes.compiler.tracing.syntax import is_rewritten
from tracetypes.record_classes import fields_of
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    UNIT,
    LiteralOf,
    Optional,
    Record,
    UnitValue,
)

__all__ = ["Core"]


class Core(Expressions):
    """Values that an author's code sees, and what becomes of those that it gives."""

    def input(self, path: tuple[str | int, ...], kind: Kind | None) -> Any:
        """What stands for an argument or a part of it. ``kind``: None for what is always None."""
        match kind:
            case None:
                return None
            case UnitValue():
                return UNIT
            case Record(cls, fields):
                return self.record(cls, [(name, self.input((*path, name), inner)) for name, inner in fields])
            case LiteralOf(item):
                return TracedSymbol(self, self.intern(Input(path, item)))
            case Optional(LiteralOf(item)):
                return TracedDeferred(self, self.intern(Input(path, Optional(item))), item)
            case Optional(item):
                return TracedDeferred(self, self.intern(Input(path, kind)), item)
            case _:
                return TracedSymbol(self, self.intern(Input(path, kind)))

    def record(self, cls: type[Any], fields: Sequence[tuple[str, Any]]) -> Any:
        """An instance with these fields, made without its constructor."""
        if issubclass(cls, tuple):
            return tuple.__new__(cls, [value for _, value in fields])
        if problem := problem_of(cls, construct=False):
            self.refuse(f"{cls.__name__} {problem}")
        instance = object.__new__(cls)
        for name, value in fields:
            object.__setattr__(instance, name, value)
        return instance

    def argument(self, shape: Shape) -> Any:
        """What a function is called with."""
        match shape:
            case Given(name, schema):
                return self.input((name,), schema)
            case Fixed(value):
                return value
            case Nested(name, template):
                return self.nested(template, (name,))

    def nested(self, template: Value, path: tuple[str | int, ...]) -> Any:
        if isinstance(template, Pack):
            steps: Iterable[str | int] = template.names or range(len(template.parts))
            parts = [self.nested(part, (*path, at)) for part, at in zip(template.parts, steps, strict=True)]
            if template.cls is tuple:
                return tuple(parts)
            return self.record(template.cls, list(zip(template.names, parts, strict=True)))
        return None if template.kind is None else self.input(path, template.kind)

    def touch(self, value: Any) -> Any:
        """A value that was read as an attribute."""
        if isa(value, TracedSymbol | TracedDeferred) and isinstance(expr := expr_of(value), Input):
            self.touched.setdefault(expr.path, expr)
        return value

    def settle(self, value: Any) -> Any:
        """The value itself where it was not looked at yet: now it is decided whether it is None."""
        if not isa(value, TracedDeferred):
            if isa(value, TracedMethod | TracedEmit):
                self.refuse("uses a method without calling it")
            if isa(value, TracedLeft):
                self.refuse(f"keeps {value._name} of a turn for later, in a loop over a range of values")
            if isa(value, TracedRange):
                self.refuse("uses a range of values other than in a for")
            if isa(value, TracedPlace):
                self.refuse("uses a place in an order")
            return value
        expr = value._expr
        if self.decide(self.intern(Call(IS_NULL, (expr,), BOOLEAN))):
            return None
        if not value._settled:
            if isinstance(expr, Input):
                value._settled.append(self.input(expr.path, value._item))
            else:
                value._settled.append(TracedSymbol(self, self.intern(attrs.evolve(expr, kind=value._item))))
        return value._settled[0]

    def looked_at(self, value: TracedDeferred) -> bool:
        """Was it decided whether the value is None?"""
        return id(self.intern(Call(IS_NULL, (expr_of(value),), BOOLEAN))) in self.now.known

    def seen(self, value: Any) -> Any:
        """The value itself where that takes no decision."""
        return self.settle(value) if isa(value, TracedDeferred) and self.looked_at(value) else value

    def value_of(self, value: Any, what: str) -> Value:
        """What is emitted or returned, as the tree has it."""
        if isa(value, TracedDeferred):
            is_record = isinstance(kind := expr_of(value).kind, Optional) and isinstance(kind.item, Record)
            if not self.looked_at(value) and not (is_record and self.fields):
                return expr_of(value)
            value = self.settle(value)
        if value is None:
            return self.intern(Const(None, None))
        if isa(value, TracedSymbol):
            expr = expr_of(value)
            if has_no_zone(expr):
                self.refuse(f"{what} a datetime without a time zone")
            # What is emitted becomes a time in UTC. What a method returns, such as a state, stays what it is.
            return expr if what == "emits" or self.instants else self.only_utc(expr)
        kind = self.kind(value)
        if kind is not None:
            if kind == INTEGER and not INT_MIN <= value <= INT_MAX:
                self.refuse(f"{what} an integer beyond 64 bits")
            if kind == TIMESTAMP:
                self.check_time(value, what)
            return self.intern(Const(value, kind))
        if isa(value, enum.Enum) and (member := kind_of_member(type(value))) is not None:
            return self.intern(Const(value, member))
        if type(value) is tuple:
            return Pack(tuple, (), tuple(self.value_of(part, what) for part in value))
        if isa(value, TracedMethod | TracedEmit):
            self.refuse(f"{what} {describe(value)}")
        names = None if isa(value, Proxy | type) else fields_of(type(value))
        if names is None:
            self.refuse(f"{what} {describe(value)}")
        if problem := problem_of(type(value), construct=False):
            self.refuse(f"{what} a {type(value).__name__}, which {problem}")
        parts = value if isa(value, tuple) else [getattr(value, name) for name in names]
        return Pack(type(value), names, tuple(self.value_of(part, what) for part in parts))

    def emit(self, pairs: bool, args: tuple[Any, ...]) -> None:
        """One call of the author's ``emit``."""
        if self.now.trials:
            raise Undo
        if len(args) != 1 + pairs:
            raise TypeError("emit takes a key and a value" if pairs else "emit takes a value")
        key = self.value_of(args[0], "emits") if pairs else None
        self.now.emissions.append(Emission(key, self.value_of(args[-1], "emits")))

    def holds(self, value: Any, depth: int = 0) -> bool:
        """Are there symbols in it?"""
        if isa(value, Proxy | TracedMethod | TracedEmit):
            return True
        cls = type(value)
        if cls in (int, float, str, bool, bytes, types.NoneType) or depth > 12:
            return False
        if isa(value, tuple):
            return any(self.holds(one, depth + 1) for one in value)
        if cls in (list, set, dict) or isa(value, list | set | dict):
            if id(value) not in self.now.owned:
                return False
            parts = [*value.keys(), *value.values()] if isa(value, dict) else value
            return any(self.holds(one, depth + 1) for one in parts)
        if isa(value, types.FunctionType):
            return is_rewritten(value.__code__)
        if isa(value, types.MethodType | types.MethodWrapperType):
            return self.holds(value.__self__, depth + 1)
        if isa(value, super):
            return self.holds(super_of(value)[1], depth + 1)
        if isa(value, VIEWS):
            return self.holds(tuple(value), depth + 1)
        if isa(value, types.BuiltinMethodType):
            return not isinstance(value.__self__, types.ModuleType | type) and self.holds(value.__self__, depth + 1)
        if isa(value, functools.partial):
            return self.holds((value.func, value.args, tuple(value.keywords.values())), depth + 1)
        if isa(value, slice):
            return self.holds((value.start, value.stop, value.step), depth + 1)
        if isa(value, types.GeneratorType | enumerate | zip | map | filter | reversed):
            return True
        if isa(value, Iterator):
            return True
        if isa(value, type | enum.Enum | types.ModuleType):
            return False
        names = fields_of(cls)
        return names is not None and any(self.holds(getattr(value, name, None), depth + 1) for name in names)

    # ------------------------------------------------------------------------------------------ of the layers above

    @abstractmethod
    def decide(self, condition: Expr) -> bool:
        """Which way a condition goes on this path."""

    @abstractmethod
    def call(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
        """``function(*args, **keywords)``."""

    @abstractmethod
    def call_function(self, function: types.FunctionType, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A call of one of the author's functions."""

    @abstractmethod
    def text(self, *parts: Any) -> Any:
        """An f-string."""

    @abstractmethod
    def contains(self, part: Any, whole: Any) -> Any:
        """``part in whole``."""

    @abstractmethod
    def item(self, whole: Any, index: Any) -> Any:
        """``whole[index]``."""

    @abstractmethod
    def iterate(self, value: Any, names: int | None = None) -> Any:
        """What a loop takes apart."""

    @abstractmethod
    def length(self, value: Any) -> Any:
        """``len(value)``."""

    @abstractmethod
    def own(self, value: Any) -> Any:
        """A container of the function."""

    @abstractmethod
    def changed(self, value: Any) -> Any:
        """A container that is about to be changed."""
