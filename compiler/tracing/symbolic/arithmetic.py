"""Arithmetic and comparisons with Python's meaning."""

from __future__ import annotations

import datetime as dt
import math
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tracetypes.compiler.tracing.expr import Call, Const, Exact, Kind
from tracetypes.compiler.tracing.symbolic.allowed import VIEWS, compares_as_known, plain_enum
from tracetypes.compiler.tracing.symbolic.decisions import Decisions
from tracetypes.compiler.tracing.symbolic.known import (
    BOOLEAN,
    CLASSES,
    COMPARISONS,
    EXACT,
    EXACT_FLOATS,
    FLOAT,
    IN_PLACE,
    INTEGER,
    MICROSECOND,
    NUMBERS,
    OPERATORS,
    STRING,
    SYMBOLS,
    TIMESTAMP,
    UNARY,
    fields_of,
    is_generated,
)
from tracetypes.compiler.tracing.symbolic.paths import Undo, isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedDuration,
    TracedEmit,
    TracedMethod,
    TracedSymbol,
    describe,
)
from tracetypes.records import INT_MAX, INT_MIN, Boolean, Float, Integer, Optional, String, Timestamp, Unit

__all__ = ["Arithmetic"]


def is_duration(value: Any) -> bool:
    return type(value) in (TracedDuration, dt.timedelta)


class Arithmetic(Decisions):
    """Operators and comparisons."""

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
        function, op = OPERATORS[name]
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
                        made = self.call(method, first, second)
                        if made is NotImplemented:
                            self.refuse_operator(name, a, b)
                        return made
                if not all(isa(x, (tuple, list, dict, int)) for x in (a, b)) or name not in ("Add", "Mult", "BitOr"):
                    self.refuse_operator(name, a, b)
            made = function(a, b)
            return self.own(made) if type(made) in (list, dict, set) else made
        if is_duration(a) or is_duration(b):
            return self.with_duration(name, a, b)
        if a is None or b is None:
            raise TypeError(f"{SYMBOLS[name]} of None")
        kinds = (self.kind(a), self.kind(b))
        match name, kinds:
            case "Add", (String(), String()):
                return self.make("concat", STRING, self.expr(a), self.expr(b))
            case "Add", (Exact(), Exact()):
                return self.make("add", EXACT, self.expr(a), self.expr(b))
            case "Sub", (Timestamp(), Timestamp()):
                return self.duration(self.binary("Sub", self.micros(a), self.micros(b)))
            case "BitAnd" | "BitOr" | "BitXor", (Boolean(), Boolean()):
                if name == "BitXor":
                    return self.negation(self.compare("Eq", a, b))
                return self.make(op, BOOLEAN, self.expr(a), self.expr(b))
            case "BitAnd" | "BitOr" | "BitXor", (Boolean() | Integer(), Boolean() | Integer()):
                return self.make(f"bit_{op}", INTEGER, *(self.expr(self.as_number(x, INTEGER)) for x in (a, b)))
            case "LShift" | "RShift", (Boolean() | Integer(), Boolean() | Integer()):
                return self.applied(op, self.as_number(a, INTEGER), self.as_number(b, INTEGER))
            case "Mult", (String(), Integer()) | (Integer(), String()):
                text, times = (a, b) if self.kind(a) == STRING else (b, a)
                made = self.applied("repeat", text, times)
                return self.refuse_operator(name, a, b) if made is None else made
            case "Pow", (Boolean() | Integer(), _) if type(b) is int and b >= 0:
                return self.power(a, b)
            case "Pow", (Boolean() | Integer() | Float(), Boolean() | Integer() | Float()) if (
                FLOAT in kinds or type(b) is int
            ):
                return self.applied("pow", a, b)
            case "Add" | "Sub" | "Mult" | "Div" | "FloorDiv" | "Mod", (
                Boolean() | Integer() | Float(),
                Boolean() | Integer() | Float(),
            ):
                return self.arithmetic(op, a, b)
            case _:
                self.refuse_operator(name, a, b)

    def percent(self, text: str, values: Any) -> Any:
        """``text % values``."""
        parts = tuple(map(self.settle, values if type(values) is tuple else (values,)))
        made = self.applied("percent", text, *parts)
        if made is None:
            self.refuse(f"formats {' and '.join(map(describe, parts))} with %")
        return made

    def arithmetic(self, op: str, a: Any, b: Any) -> Any:
        kind: Kind = FLOAT if FLOAT in (self.kind(a), self.kind(b)) else INTEGER
        a, b = self.as_number(a, kind), self.as_number(b, kind)
        partial = False
        if op in ("floordiv", "mod", "truediv"):
            if not isa(b, Proxy) and b == 0:
                raise ZeroDivisionError
            partial = isa(b, Proxy)
        elif kind == INTEGER and not isa(a, Proxy) and a == 0 and op == "add":
            return b
        elif kind == INTEGER and not isa(b, Proxy) and b == 0 and op in ("add", "sub"):
            return a
        return self.make(op, FLOAT if op == "truediv" else kind, self.expr(a), self.expr(b), partial=partial)

    def as_number(self, value: Any, kind: Kind) -> Any:
        """A number as Python converts it before arithmetic with one of ``kind``."""
        own = self.kind(value)
        if own == kind:
            return value
        if not isa(value, TracedSymbol):
            return float(value) if kind == FLOAT else int(value)
        if kind == FLOAT:
            return self.make("to_float", FLOAT, value._expr)
        return self.make("to_int", INTEGER, value._expr)

    def power(self, a: Any, b: int) -> Any:
        if b > 16:
            self.refuse("uses ** with an exponent that is more than 16")
        if b == 0:
            return 1
        base = made = self.as_number(a, INTEGER)
        for _ in range(b - 1):
            made = self.arithmetic("mul", made, base)
        return made

    def unary(self, name: str, value: Any) -> Any:
        """``not``, ``-``, ``+`` or ``~``."""
        if name == "Not":
            return self.negation(value)
        value = self.settle(value)
        function, op = UNARY[name]
        if not isa(value, Proxy):
            if self.holds(value):
                if method := self.of_author(value, f"__{op}__"):
                    return self.call(method, value)
                self.refuse_operator(name, value)
            return function(value)
        if isa(value, TracedDuration) and name != "Invert":
            return self.duration(self.unary(name, value._micros))
        kind = self.kind(value)
        if name == "Invert" and kind == INTEGER:
            return self.make("invert", INTEGER, value._expr)
        if name == "Invert" or kind not in NUMBERS:
            self.refuse_operator(name, value)
        value = self.as_number(value, INTEGER) if kind == BOOLEAN else value
        return value if name == "UAdd" else self.make(op, value._expr.kind, value._expr)

    def negation(self, value: Any) -> Any:
        """``not value``."""
        condition = self.condition(value)
        if not isa(condition, TracedSymbol):
            return not condition
        if isinstance(condition._expr, Call) and condition._expr.op == "not":
            return TracedSymbol(self, condition._expr.args[0])
        return self.make("not", BOOLEAN, condition._expr)

    def in_place(self, name: str, a: Any, b: Any) -> Any:
        """``a += b`` and the like, for a variable ``a``."""
        a, b = self.settle(a), self.settle(b)
        if isa(a, Proxy) or getattr(type(a), f"__i{OPERATORS[name][0].__name__.strip('_')}__", None) is None:
            return self.binary(name, a, b)
        taken = type(a) is list and (type(b) in (tuple, list, *VIEWS) or isa(b, Iterator))
        if name not in IN_PLACE or (self.holds(b) and not taken):
            self.refuse("changes an object in place")
        return IN_PLACE[name](self.changed(a), self.iterate(b) if name == "Add" else b)

    def in_place_at(self, name: str, whole: Any, index: Any, value: Any) -> None:
        """``whole[index] += value`` and the like."""
        self.changed(whole)[index] = self.in_place(name, self.item(whole, index), value)

    # ------------------------------------------------------------------------------------------- comparisons

    def compare(self, name: str, a: Any, b: Any) -> Any:
        """``==``, ``<``, ``is``, ``in`` and the like."""
        if name in ("Is", "IsNot"):
            made = self.same(self.settle(a), self.settle(b))
            return made if name == "Is" else self.negation(made)
        if name in ("In", "NotIn"):
            made = self.contains(self.settle(a), self.settle(b))
            return made if name == "In" else self.negation(made)
        a, b = self.settle(a), self.settle(b)
        function, op, turned = COMPARISONS[name]
        if isa(a, Proxy) or isa(b, Proxy):
            return self.compare_scalars(name, a, b)
        if not self.holds((a, b)):
            return function(a, b)
        both = [(f"__{op}__", a, b), (f"__{COMPARISONS[turned][1]}__", b, a)]
        if type(a) is not type(b) and issubclass(type(b), type(a)):
            both.reverse()
        for method_name, first, second in both:
            made = self.compare_by(method_name, first, second)
            if made is not NotImplemented:
                return made
        if name not in ("Eq", "NotEq"):
            raise TypeError(f"{SYMBOLS[name]} between these types")
        if a is not b and type(a) is type(b):
            self.refuse("uses is on a value")
        return (a is b) is (name == "Eq")

    def compare_by(self, method_name: str, first: Any, second: Any) -> Any:
        """``first.__eq__(second)`` and the like, where one of them holds symbols; it may be NotImplemented."""
        method: Any = getattr(type(first), method_name)
        default: Any = getattr(object, method_name)
        if method_name == "__ne__" and (method == default or is_generated(method)):
            made = self.compare_by("__eq__", first, second)
            return made if made is NotImplemented else self.negation(made)
        if isa(method, types.FunctionType) and not is_generated(method):
            return self.call(method, first, second)
        if method == default:
            return NotImplemented
        for one in (first, second):
            self.met_by_python(one)
        return method(first, second)

    def met_by_python(self, value: Any) -> None:
        """Refuse what Python cannot compare itself without code that is not known, if it meets it."""
        if isa(value, Proxy):
            return
        cls: Any = type(value)
        if not compares_as_known(cls) or isa(value, TracedMethod | TracedEmit):
            self.refuse(f"compares {describe(value)}, which has comparisons of its own")
        names = fields_of(type(value))
        if isa(value, tuple | list):
            parts: Any = value
        elif isa(value, dict):
            parts = value.values()
        else:
            parts = [getattr(value, name) for name in names or ()]
            if self.holds(value) and cls.__eq__ is object.__eq__:
                self.refuse("uses is on a value")
        for part in parts:
            self.met_by_python(part)

    def compare_inside(self, name: str, a: Any, b: Any) -> Any:
        """A comparison by a container, which takes two values that are the same object for equal."""
        a, b = self.settle(a), self.settle(b)
        if name in ("Eq", "NotEq") and self.kind(a) == FLOAT and self.kind(b) == FLOAT:
            both = [self.compare_scalars("NotEq", x, x) for x in (a, b) if isa(x, Proxy) or x != x]
            if len(both) == 2 and self.truth(both[0]) and self.truth(both[1]):
                self.raises()
        if isa(a, Proxy) or isa(b, Proxy):
            return self.compare_scalars(name, a, b)
        return COMPARISONS[name][0](a, b)

    def compare_scalars(self, name: str, a: Any, b: Any) -> Any:
        match name:
            case "NotEq":
                return self.negation(self.compare_scalars("Eq", a, b))
            case "Gt":
                return self.compare_scalars("Lt", b, a)
            case "GtE":
                return self.compare_scalars("LtE", b, a)
            case _:
                pass
        if is_duration(a) and is_duration(b):
            return self.compare(name, self.micros_of(a), self.micros_of(b))
        a, b = plain_enum(a), plain_enum(b)
        if a is None or b is None:
            return self.unequal(name)
        kinds = (self.kind(a), self.kind(b))
        if EXACT in kinds or None in kinds or any(isinstance(k, Optional | Unit) for k in kinds):
            self.refuse_operator(name, a, b)
        if kinds[0] != kinds[1]:
            if kinds[0] in NUMBERS and kinds[1] in NUMBERS:
                return self.compare_numbers(name, a, b)
            if any(type(kind) not in CLASSES for kind in kinds):
                self.refuse_operator(name, a, b)
            return self.unequal(name)
        kind = kinds[0]
        if type(kind) not in CLASSES:
            self.refuse_operator(name, a, b)
        if kind == TIMESTAMP and any(type(x) is dt.datetime and x.tzinfo is None for x in (a, b)):
            return self.unequal(name)
        read = self.instant if kind == TIMESTAMP else self.expr
        if kind == BOOLEAN and name == "Eq":
            for x, y in ((a, b), (b, a)):
                if not isinstance(y, Proxy):
                    return x if y else self.negation(x)
        if kind == BOOLEAN and name != "Eq":
            a, b, kind = self.as_number(a, INTEGER), self.as_number(b, INTEGER), INTEGER
        if kind == INTEGER:
            for x, turned in ((b, False), (a, True)):
                if not isa(x, Proxy) and not INT_MIN <= x <= INT_MAX:
                    return name != "Eq" and (x > INT_MAX) is not turned
        first, second = read(a), read(b)
        if first is second:
            if name == "Lt":
                return False
            if kind != FLOAT:
                return True
        if name == "Eq" and isa(first, Const):
            first, second = second, first
        return self.make({"Eq": "eq", "Lt": "lt", "LtE": "le"}[name], BOOLEAN, first, second)

    def unequal(self, name: str) -> bool:
        """Of values that are never equal and have no order."""
        if name != "Eq":
            raise TypeError(f"{SYMBOLS[name]} between these types")
        return False

    def compare_numbers(self, name: str, a: Any, b: Any) -> Any:
        """Of different kinds. Python compares an integer and a float by their true values."""
        a = self.as_number(a, INTEGER) if self.kind(a) == BOOLEAN else a
        b = self.as_number(b, INTEGER) if self.kind(b) == BOOLEAN else b
        if self.kind(a) == self.kind(b):
            return self.compare_scalars(name, a, b)
        if self.kind(a) == FLOAT:
            if isa(a, Proxy):
                return self.compare_scalars(name, a, self.exact_float(b))
            return self.compare_constant(name, a, b, constant_first=True)
        if isa(b, Proxy):
            return self.compare_scalars(name, self.exact_float(a), b)
        return self.compare_constant(name, b, a, constant_first=False)

    def exact_float(self, value: Any) -> Any:
        """An integer as the float of the same value; a row without one must be done in Python."""
        if not isa(value, TracedSymbol):
            try:
                made = float(value)
            except OverflowError:
                made = math.inf
            if made != value:
                self.refuse("compares a float with an integer that no float equals")
            return made
        within = self.joined(
            True,
            self.compare_scalars("LtE", -EXACT_FLOATS, value),
            self.compare_scalars("LtE", value, EXACT_FLOATS),
        )
        if self.now.trials and self.known(within) is None:
            raise Undo
        if not self.truth(within):
            self.raises()
        return self.as_number(value, FLOAT)

    def compare_constant(self, name: str, constant: float, value: TracedSymbol, *, constant_first: bool) -> Any:
        """A constant float with an Integer symbol."""
        if constant != constant:
            return False
        if math.isinf(constant):
            return name != "Eq" and (constant < 0) is constant_first
        floor = math.floor(constant)
        if floor == constant:
            return (
                self.compare_scalars(name, floor, value) if constant_first else self.compare_scalars(name, value, floor)
            )
        if name == "Eq":
            return False
        return self.compare_scalars("Lt", floor, value) if constant_first else self.compare_scalars("LtE", value, floor)

    def same(self, a: Any, b: Any) -> Any:
        """``a is b``."""
        if isa(a, Proxy) or isa(b, Proxy):
            if a is None or b is None:
                return False
            for x, y in ((a, b), (b, a)):
                if isa(y, bool) and self.kind(x) == BOOLEAN:
                    return self.compare_scalars("Eq", x, y)
            self.refuse("uses is on a value")
        if a is not None and b is not None and a is not b and (self.holds(a) or self.holds(b)):
            self.refuse("uses is on a value")
        return a is b

    def duration(self, micros: Any) -> Any:
        return TracedDuration(self, micros) if isa(micros, Proxy) else dt.timedelta(microseconds=micros)

    def micros(self, value: Any) -> Any:
        """Microseconds since the epoch of a Timestamp."""
        expr = self.instant(value)
        if isinstance(expr, Const):
            return (expr.value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // MICROSECOND
        return self.make("micros", INTEGER, expr)

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
        return self.make("add_micros", TIMESTAMP, self.expr(time), self.expr(micros), partial=True)
