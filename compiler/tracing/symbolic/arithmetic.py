"""Arithmetic with Python's meaning."""

from __future__ import annotations

import datetime as dt
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tracetypes.compiler.tracing.expr import Call, Const, Exact, Kind
from tracetypes.compiler.tracing.kinds import BOOLEAN, EXACT, FLOAT, INTEGER, STRING, TIMESTAMP
from tracetypes.compiler.tracing.operations import basic, functions
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.compiler.tracing.symbolic.allowed import VIEWS
from tracetypes.compiler.tracing.symbolic.decisions import Decisions
from tracetypes.compiler.tracing.symbolic.known import (
    ARITHMETIC,
    BITWISE,
    IN_PLACE,
    LOGICAL,
    MICROSECOND,
    NUMBERS,
    OPERATORS,
    SHIFTS,
    SIGNS,
    SYMBOLS,
    UNARY,
)
from tracetypes.compiler.tracing.symbolic.paths import isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedDuration,
    TracedSymbol,
    describe,
)
from tracetypes.record_classes import is_generated
from tracetypes.records import Boolean, Float, Integer, String, Timestamp

__all__ = ["Arithmetic", "is_duration"]


def is_duration(value: Any) -> bool:
    return type(value) in (TracedDuration, dt.timedelta)


class Arithmetic(Decisions):
    """Operators."""

    # ------------------------------------------------------------------------------------------- arithmetic

    def refuse_operator(self, name: str, *values: Any) -> NoReturn:
        kinds = " and ".join(describe(value) for value in values)
        self.refuse(f"uses {SYMBOLS[name]} on {kinds}")

    def of_author(self, first: Any, name: str) -> Callable[..., Any] | None:
        """The author's own operator."""
        method = getattr(type(first), name, None)
        return method if isa(method, types.FunctionType) and not is_generated(method) else None

    def binary(self, name: str, a: Any, b: Any) -> Any:
        """An arithmetic operator."""
        a, b = self.settle(a), self.settle(b)
        function = OPERATORS[name]
        if name == "Mod" and type(a) is str and self.holds(b):
            return self.percent(a, b)
        if not isa(a, Proxy) and not isa(b, Proxy):
            plain = function.__name__.strip("_")
            if self.holds((a, b)):
                both = [(f"__{plain}__", a, b), (f"__r{plain}__", b, a)]
                overrides = getattr(type(a), both[1][0], None) is not getattr(type(b), both[1][0], None)
                if type(a) is type(b):
                    del both[1]
                elif overrides and issubclass(type(b), type(a)):
                    both.reverse()
                for method_name, first, second in both:
                    if method := self.of_author(first, method_name):
                        result = self.call(method, first, second)
                        if result is NotImplemented:
                            self.refuse_operator(name, a, b)
                        return result
                if not all(isa(x, (tuple, list, dict, int)) for x in (a, b)) or name not in ("Add", "Mult", "BitOr"):
                    self.refuse_operator(name, a, b)
            result = function(a, b)
            return self.own(result) if type(result) in (list, dict, set) else result
        if is_duration(a) or is_duration(b):
            return self.with_duration(name, a, b)
        if a is None or b is None:
            raise TypeError(f"{SYMBOLS[name]} of None")
        kinds = (self.kind(a), self.kind(b))
        match name, kinds:
            case "Add", (String(), String()):
                return self.make(basic.CONCAT, STRING, self.expr(a), self.expr(b))
            case "Add", (Exact(), Exact()):
                return self.make(basic.ADD, EXACT, self.expr(a), self.expr(b))
            case "Sub", (Timestamp(), Timestamp()):
                return self.duration(self.binary("Sub", self.micros(a), self.micros(b)))
            case "BitAnd" | "BitOr" | "BitXor", (Boolean(), Boolean()):
                if name == "BitXor":
                    return self.negation(self.compare("Eq", a, b))
                return self.make(LOGICAL[name], BOOLEAN, self.expr(a), self.expr(b))
            case "BitAnd" | "BitOr" | "BitXor", (Boolean() | Integer(), Boolean() | Integer()):
                return self.make(BITWISE[name], INTEGER, *(self.expr(self.as_number(x, INTEGER)) for x in (a, b)))
            case "LShift" | "RShift", (Boolean() | Integer(), Boolean() | Integer()):
                return self.applied(SHIFTS[name], self.as_number(a, INTEGER), self.as_number(b, INTEGER))
            case "Mult", (String(), Integer()) | (Integer(), String()):
                text, times = (a, b) if self.kind(a) == STRING else (b, a)
                result = self.applied(functions.REPEAT, text, times)
                return self.refuse_operator(name, a, b) if result is None else result
            case "Pow", (Boolean() | Integer(), _) if type(b) is int and b >= 0:
                return self.power(a, b)
            case "Pow", (Boolean() | Integer() | Float(), Boolean() | Integer() | Float()) if (
                FLOAT in kinds or type(b) is int
            ):
                return self.applied(functions.POW, a, b)
            case "Add" | "Sub" | "Mult" | "Div" | "FloorDiv" | "Mod", (
                Boolean() | Integer() | Float(),
                Boolean() | Integer() | Float(),
            ):
                return self.arithmetic(ARITHMETIC[name], a, b)
            case _:
                self.refuse_operator(name, a, b)

    def percent(self, text: str, values: Any) -> Any:
        """``text % values``."""
        parts = tuple(map(self.settle, values if type(values) is tuple else (values,)))
        result = self.applied(functions.PERCENT, text, *parts)
        if result is None:
            self.refuse(f"formats {' and '.join(map(describe, parts))} with %")
        return result

    def arithmetic(self, op: Operation, a: Any, b: Any) -> Any:
        kind: Kind = FLOAT if FLOAT in (self.kind(a), self.kind(b)) else INTEGER
        a, b = self.as_number(a, kind), self.as_number(b, kind)
        partial = False
        if op in (basic.FLOORDIV, basic.MOD, basic.TRUEDIV):
            if not isa(b, Proxy) and b == 0:
                raise ZeroDivisionError
            partial = isa(b, Proxy)
        elif kind == INTEGER and not isa(a, Proxy) and a == 0 and op is basic.ADD:
            return b
        elif kind == INTEGER and not isa(b, Proxy) and b == 0 and op in (basic.ADD, basic.SUB):
            return a
        return self.make(op, FLOAT if op is basic.TRUEDIV else kind, self.expr(a), self.expr(b), partial=partial)

    def as_number(self, value: Any, kind: Kind) -> Any:
        """A number as Python converts it before arithmetic with one of ``kind``."""
        own = self.kind(value)
        if own == kind:
            return value
        if not isa(value, TracedSymbol):
            return float(value) if kind == FLOAT else int(value)
        if kind == FLOAT:
            return self.make(basic.TO_FLOAT, FLOAT, value._expr)
        return self.make(basic.TO_INT, INTEGER, value._expr)

    def power(self, a: Any, b: int) -> Any:
        if b > 16:
            self.refuse("uses ** with an exponent that is more than 16")
        if b == 0:
            return 1
        base = product = self.as_number(a, INTEGER)
        for _ in range(b - 1):
            product = self.arithmetic(basic.MUL, product, base)
        return product

    def unary(self, name: str, value: Any) -> Any:
        """``not``, ``-``, ``+`` or ``~``."""
        if name == "Not":
            return self.negation(value)
        value = self.settle(value)
        function = UNARY[name]
        if not isa(value, Proxy):
            if self.holds(value):
                if method := self.of_author(value, f"__{function.__name__}__"):
                    return self.call(method, value)
                self.refuse_operator(name, value)
            return function(value)
        if isa(value, TracedDuration) and name != "Invert":
            return self.duration(self.unary(name, value._micros))
        kind = self.kind(value)
        if name == "Invert" and kind == INTEGER:
            return self.make(basic.INVERT, INTEGER, value._expr)
        if name == "Invert" or kind not in NUMBERS:
            self.refuse_operator(name, value)
        value = self.as_number(value, INTEGER) if kind == BOOLEAN else value
        return value if name == "UAdd" else self.make(SIGNS[name], value._expr.kind, value._expr)

    def negation(self, value: Any) -> Any:
        """``not value``."""
        condition = self.condition(value)
        if not isa(condition, TracedSymbol):
            return not condition
        if isinstance(condition._expr, Call) and condition._expr.op is basic.NOT:
            return TracedSymbol(self, condition._expr.args[0])
        return self.make(basic.NOT, BOOLEAN, condition._expr)

    def in_place(self, name: str, a: Any, b: Any) -> Any:
        """``a += b`` and the like, for a variable ``a``."""
        a, b = self.settle(a), self.settle(b)
        if isa(a, Proxy) or getattr(type(a), f"__i{OPERATORS[name].__name__.strip('_')}__", None) is None:
            return self.binary(name, a, b)
        extends = type(a) is list and (type(b) in (tuple, list, *VIEWS) or isa(b, Iterator))
        if name not in IN_PLACE or (self.holds(b) and not extends):
            self.refuse("changes an object in place")
        return IN_PLACE[name](self.changed(a), self.iterate(b) if name == "Add" else b)

    def in_place_at(self, name: str, whole: Any, index: Any, value: Any) -> None:
        """``whole[index] += value`` and the like."""
        self.changed(whole)[index] = self.in_place(name, self.item(whole, index), value)

    # ------------------------------------------------------------------------------------------- durations

    def duration(self, micros: Any) -> Any:
        return TracedDuration(self, micros) if isa(micros, Proxy) else dt.timedelta(microseconds=micros)

    def micros(self, value: Any) -> Any:
        """Microseconds since the epoch of a Timestamp."""
        expr = self.instant(value)
        if isinstance(expr, Const):
            return (expr.value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // MICROSECOND
        return self.make(basic.MICROS, INTEGER, expr)

    def micros_of(self, value: Any) -> Any:
        """Microseconds of a duration."""
        return value._micros if isa(value, TracedDuration) else value // MICROSECOND

    def with_duration(self, name: str, a: Any, b: Any) -> Any:
        first, second = is_duration(a), is_duration(b)
        if first and second:
            x, y = self.micros_of(a), self.micros_of(b)
            if name in ("Add", "Sub", "Mod"):
                return self.duration(self.binary(name, x, y))
            if name in ("Div", "FloorDiv"):
                return self.binary(name, x, y)
        elif self.kind(a) == TIMESTAMP and name in ("Add", "Sub"):
            micros = self.micros_of(b)
            return self.moved(a, micros if name == "Add" else self.unary("USub", micros))
        elif self.kind(b) == TIMESTAMP and name == "Add":
            return self.moved(b, self.micros_of(a))
        elif name == "Mult" and self.kind(b if first else a) in (BOOLEAN, INTEGER):
            return self.duration(self.binary("Mult", *((self.micros_of(a), b) if first else (a, self.micros_of(b)))))
        elif first and name == "FloorDiv" and self.kind(b) in (BOOLEAN, INTEGER):
            return self.duration(self.binary("FloorDiv", self.micros_of(a), b))
        self.refuse_operator(name, a, b)

    def moved(self, time: Any, micros: Any) -> Any:
        if not isa(micros, Proxy) and micros == 0:
            return time
        return self.make(basic.ADD_MICROS, TIMESTAMP, self.expr(time), self.expr(micros), partial=True)
