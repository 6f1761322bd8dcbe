"""The core of the tracer: expressions, decisions, and what is tried without one."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import re
import sys
import types
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NoReturn

import attrs

from tracetypes.asked import LookupTable
from tracetypes.compiler.tracing.expr import Call, Const, Emission, Expr, Input, Kind, Pack, Value
from tracetypes.compiler.tracing.functions import FUNCTIONS, SCALARS
from tracetypes.compiler.tracing.identity import exact
from tracetypes.compiler.tracing.symbolic.allowed import VIEWS
from tracetypes.compiler.tracing.symbolic.known import (
    BOOLEAN,
    CLASSES,
    FLOAT,
    INTEGER,
    KINDS,
    NUMBERS,
    STRING,
    TIMESTAMP,
    WIDEST,
    fields_of,
    problem_of,
    super_of,
)
from tracetypes.compiler.tracing.symbolic.paths import Raised, Stop, Undo, Way, isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Observer,
    Proxy,
    TracedDeferred,
    TracedDuration,
    TracedEmit,
    TracedMethod,
    TracedParts,
    TracedSymbol,
    describe,
    expr_of,
)
from tracetypes.compiler.tracing.symbolic.shapes import Fixed, Given, Nested, Shape
from tracetypes.compiler.tracing.syntax import PREFIX, is_rewritten
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    UNIT,
    Optional,
    Record,
    UnitValue,
)

__all__ = ["Core"]

_FOLDS: Final = ("percent", "str.format")
_MOST_NODES: Final = 20_000
_MOST_DEPTH: Final = 150


class Core(Observer):
    """What the layers of the tracer share: expressions, decisions, and trials."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.run: Way | None = None
        self.home: str | None = None
        self.interned: dict[Any, Expr] = {}
        self.depths: dict[int, int] = {}
        self.functions: dict[int, tuple[Any, Any]] = {}
        self.tables: dict[Any, tuple[Any, Mapping[Any, Any]]] = {}
        self.contents: dict[Any, Mapping[Any, Any]] = {}
        self.layouts: dict[Any, Any] = {}
        self.checked: set[tuple[int, type[Any]]] = set()
        self.touched: dict[tuple[str | int, ...], Input] = {}
        """The inputs that the author's code has read as attributes."""

    @property
    def now(self) -> Way:
        if self.run is None:
            raise Stop("uses a value after the call has ended")
        return self.run

    # -------------------------------------------------------------------------------------------- refusing

    def line(self, traceback: types.TracebackType | None = None) -> str:
        """The author's line that is being run, with its file where that is not the operator's."""
        found: tuple[types.CodeType, int] | None = None
        while traceback is not None:
            if is_rewritten(traceback.tb_frame.f_code):
                found = traceback.tb_frame.f_code, traceback.tb_lineno
            traceback = traceback.tb_next
        frame = sys._getframe(1) if found is None else None
        while frame is not None and found is None:
            if is_rewritten(frame.f_code):
                found = frame.f_code, frame.f_lineno
            frame = frame.f_back
        if found is None:
            return ""
        file = found[0].co_filename.removeprefix(PREFIX)
        return f" at line {found[1]}" + ("" if file in (self.home, "") else f" of {PurePath(file).name}")

    def refuse(self, what: str) -> NoReturn:
        """Give up."""
        stop = Stop(what + self.line())
        if self.run is not None:
            self.run.ended = stop
        raise stop

    def raises(self) -> NoReturn:
        """End this path in an exception."""
        raised = Raised()
        if self.run is not None and self.run.ended is None:
            self.run.ended = raised
        raise raised

    # ------------------------------------------------------------------------------------------ expressions

    def intern(self, expr: Expr) -> Expr:
        """The one object that stands for an expression in this trace."""
        match expr:
            case Input(path, kind):
                key: Any = ("input", path, kind)
                depth = 0
            case Const(value, kind):
                key, depth = ("const", exact(value), kind), 0
            case Call(op, args, kind, table, path):
                key = (op, tuple(map(id, args)), kind, id(table), path)
                depth = 1 + max((self.depths[id(arg)] for arg in args), default=0)
        if (found := self.interned.get(key)) is not None:
            return found
        if len(self.interned) > _MOST_NODES or depth > _MOST_DEPTH:
            self.refuse("makes an expression that is too large")
        self.interned[key] = expr
        self.depths[id(expr)] = depth
        return expr

    def make(
        self,
        op: str,
        kind: Kind,
        *args: Expr,
        table: Mapping[Any, Any] | LookupTable | None = None,
        path: tuple[str | int, ...] = (),
        partial: bool = False,
    ) -> TracedSymbol:
        """An operation on expressions that are not all constant. ``partial``: Python raises for some arguments."""
        made = self.intern(Call(op, args, kind, table, path))
        if partial:
            self.now.partial[id(made)] = made
        return TracedSymbol(self, made)

    def applied(self, op: str, *args: Any) -> Any:
        """A function of ``FUNCTIONS``; None where it does not take such arguments."""
        function = FUNCTIONS.get(op)
        kinds = None if function is None else function.kinds(len(args))
        if function is None or kinds is None or (op == "repr" and self.kind(args[0]) == TIMESTAMP):
            return None
        made = []
        for at, (kind, arg) in enumerate(zip(kinds, args, strict=True)):
            own = self.kind(arg)
            if kind == FLOAT and own in NUMBERS:
                arg = self.as_number(arg, FLOAT)
            elif own not in SCALARS if kind is None else own != kind:
                return None
            if at in function.fixed:
                if isa(arg, Proxy):
                    return None
                self.bounded(op, arg, TIMESTAMP in map(self.kind, args))
            made.append(self.expr(arg))
        return self.make(op, function.gives, *made, partial=not function.total)

    def bounded(self, op: str, constant: Any, times: bool) -> None:
        """Refuse a constant that asks for very long text, or lets a value say how long it is, or shows of a time what
        columns do not keep (its ``fold``)."""
        widths = [constant] if type(constant) is int else list(map(int, re.findall(r"\d+", constant)))
        if any(width > WIDEST for width in widths):
            self.refuse(f"makes text of more than {WIDEST} characters")
        if (op == "percent" and "*" in constant) or (op == "str.format" and re.search(r"{[^{}]*{[^{]", constant)):
            self.refuse("formats a value by a width that is not constant")
        if times and op in _FOLDS and re.search(r"%[^a-zA-Z%]*[ra]|![ra]|{[^{}:]*[.\[]", constant):
            self.refuse("shows a datetime as only Python does")

    def kind(self, value: Any) -> Kind | None:
        """The kind of a scalar, symbolic or not; None for what is no scalar (None, records, ...)."""
        if isa(value, TracedSymbol):
            return expr_of(value).kind
        return KINDS.get(type(value))

    def expr(self, value: Any) -> Expr:
        """A scalar as an expression."""
        if isa(value, TracedSymbol):
            return expr_of(value)
        kind = self.kind(value)
        if kind is None:
            self.refuse(f"uses {describe(value)} where a scalar is needed")
        if kind == INTEGER and not INT_MIN <= value <= INT_MAX:
            self.refuse("uses an integer beyond 64 bits")
        if kind == STRING:
            try:
                value.encode()
            except UnicodeEncodeError:
                self.refuse("uses text that is not valid Unicode")
        if kind == TIMESTAMP:
            self.check_time(value)
        return self.intern(Const(value, kind))

    def check_time(self, value: dt.datetime, what: str = "uses") -> None:
        """Columns keep no zone and no fold: a time that may become a part of a value is one of UTC."""
        if value.tzinfo is None:
            self.refuse(f"{what} a datetime without a time zone")
        if value.tzinfo is not dt.UTC or value.fold:
            self.refuse(f"{what} a datetime of a zone other than UTC")

    def instant(self, value: Any) -> Expr:
        """A time of which only the instant counts, as for an order or a difference."""
        if not isa(value, Proxy) and isinstance(value.tzinfo, dt.timezone):
            value = value.astimezone(dt.UTC).replace(fold=0)
        return self.expr(value)

    def class_of(self, value: Any) -> type[Any]:
        """The class that an author sees."""
        if not isa(value, Proxy):
            return type(value)
        if isa(value, TracedDuration):
            return dt.timedelta
        if isa(value, TracedParts):
            return list
        kind = self.kind(value)
        found = CLASSES.get(type(kind))
        if found is None:
            self.refuse(f"looks into a {type(kind).__name__}")
        return found

    def input(self, path: tuple[str | int, ...], kind: Kind) -> Any:
        """What stands for an argument or a part of it."""
        match kind:
            case UnitValue():
                return UNIT
            case Record(cls, fields):
                return self.record(cls, [(name, self.input((*path, name), inner)) for name, inner in fields])
            case Optional():
                return TracedDeferred(self, self.intern(Input(path, kind)))
            case _:
                return TracedSymbol(self, self.intern(Input(path, kind)))

    def record(self, cls: type[Any], fields: Sequence[tuple[str, Any]]) -> Any:
        """An instance with these fields, made without its constructor, through which they have been already."""
        if issubclass(cls, tuple):
            return tuple.__new__(cls, [value for _, value in fields])
        problem = problem_of(cls, construct=False)
        if problem is not None and problem != "has converters":
            self.refuse(f"{cls.__name__} {problem}")
        made = object.__new__(cls)
        for name, value in fields:
            object.__setattr__(made, name, value)
        return made

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
            return value
        held = expr_of(value)
        if self.decide(self.intern(Call("is_null", (held,), BOOLEAN))):
            return None
        if not value._made:
            assert isinstance(held.kind, Optional)
            item = held.kind.item
            if isinstance(held, Input):
                value._made.append(self.input(held.path, item))
            else:
                value._made.append(TracedSymbol(self, self.intern(attrs.evolve(held, kind=item))))
        return value._made[0]

    def looked_at(self, value: TracedDeferred) -> bool:
        """Was it decided whether the value is None?"""
        return id(self.intern(Call("is_null", (expr_of(value),), BOOLEAN))) in self.now.known

    def seen(self, value: Any) -> Any:
        """The value itself where that takes no decision."""
        return self.settle(value) if isa(value, TracedDeferred) and self.looked_at(value) else value

    def value_of(self, value: Any, what: str) -> Value:
        """What is emitted or returned, as the tree has it."""
        if isa(value, TracedDeferred):
            if not self.looked_at(value):
                return expr_of(value)
            value = self.settle(value)
        if value is None:
            return self.intern(Const(None, None))
        if isa(value, TracedSymbol):
            return expr_of(value)
        kind = self.kind(value)
        if kind is not None:
            if kind == INTEGER and not INT_MIN <= value <= INT_MAX:
                self.refuse(f"{what} an integer beyond 64 bits")
            if kind == TIMESTAMP:
                self.check_time(value, what)
            return self.intern(Const(value, kind))
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

    def check_constant(self, value: Any) -> None:
        """As :meth:`expr` does, without keeping it."""
        if type(value) is int and not INT_MIN <= value <= INT_MAX:
            self.refuse("looks up an integer beyond 64 bits")
        if type(value) is dt.datetime:
            self.check_time(value)
        if type(value) is str and not value.isascii():
            self.expr(value)

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
    def as_number(self, value: Any, kind: Kind) -> Any:
        """A number as Python converts it before arithmetic with one of ``kind``."""

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
        """A container that the function has made."""

    @abstractmethod
    def changed(self, value: Any) -> Any:
        """A container that is about to be changed."""
