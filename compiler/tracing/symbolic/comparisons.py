"""Comparisons with Python's meaning."""

from __future__ import annotations

import datetime as dt
import math
import types
from typing import Any, Final

from tracetypes.compiler.tracing.expr import Const
from tracetypes.compiler.tracing.kinds import BOOLEAN, EXACT, FLOAT, INTEGER, TIMESTAMP
from tracetypes.compiler.tracing.operations.basic import ENUM_VALUE
from tracetypes.compiler.tracing.symbolic.allowed import compares_as_known, compares_by_value, plain_enum
from tracetypes.compiler.tracing.symbolic.arithmetic import Arithmetic, is_duration
from tracetypes.compiler.tracing.symbolic.known import CLASSES, COMPARISONS, EXACT_FLOATS, NUMBERS, ORDER, SYMBOLS
from tracetypes.compiler.tracing.symbolic.paths import Undo, isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedEmit,
    TracedMethod,
    TracedRange,
    TracedSymbol,
    describe,
)
from tracetypes.record_classes import fields_of, is_generated
from tracetypes.records import INT_MAX, INT_MIN, EnumOf, Optional, Unit

__all__ = ["Comparisons"]

_MOST_MEMBERS: Final = 32
"""Members of an enum of which it is asked whether all but one were excluded."""


class Comparisons(Arithmetic):
    """``==``, ``<``, ``is`` and the like."""

    def compare(self, name: str, a: Any, b: Any) -> Any:
        """``==``, ``<``, ``is``, ``in`` and the like."""
        if name in ("Is", "IsNot"):
            answer = self.same(self.settle(a), self.settle(b))
            return answer if name == "Is" else self.negation(answer)
        if name in ("In", "NotIn"):
            answer = self.contains(self.settle(a), b if isa(b, TracedRange) else self.settle(b))
            return answer if name == "In" else self.negation(answer)
        a, b = self.settle(a), self.settle(b)
        function, turned = COMPARISONS[name]
        if isa(a, Proxy) or isa(b, Proxy):
            return self.compare_scalars(name, a, b)
        if not self.holds((a, b)):
            return function(a, b)
        both = [(f"__{function.__name__}__", a, b), (f"__{COMPARISONS[turned][0].__name__}__", b, a)]
        if type(a) is not type(b) and issubclass(type(b), type(a)):
            both.reverse()
        for method_name, first, second in both:
            answer = self.compare_by(method_name, first, second)
            if answer is not NotImplemented:
                return answer
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
            answer = self.compare_by("__eq__", first, second)
            return answer if answer is NotImplemented else self.negation(answer)
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
        if isa(a, TracedSymbol) and isinstance(self.kind(a), EnumOf):
            return self.compare_member(name, a, b, turned=False)
        if isa(b, TracedSymbol) and isinstance(self.kind(b), EnumOf):
            return self.compare_member(name, b, a, turned=True)
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
        return self.make(ORDER[name], BOOLEAN, first, second)

    def compare_member(self, name: str, member: TracedSymbol, other: Any, *, turned: bool) -> Any:
        """A member of an enum that is not known, with another value. ``turned``: it is the second of the two."""
        kind: Any = self.kind(member)
        by_value = compares_by_value(kind.cls)
        if by_value is None:
            self.refuse(f"compares a {kind.cls.__name__}, which has comparisons of its own")
        mine, theirs = self.enum_value(member), self.value_of_member(kind, other)
        if theirs is None and not by_value:
            if name != "Eq" or isa(other, Proxy) or type(other) not in (str, int, bool, float, bytes, types.NoneType):
                self.refuse_operator(name, member, other)
            return False
        if name != "Eq" and not by_value:
            self.refuse_operator(name, member, other)
        if name == "Eq" and theirs is not None and not isa(other, Proxy) and self.is_left_alone(mine, other):
            return True
        theirs = other if theirs is None else theirs
        return self.compare_scalars(name, theirs, mine) if turned else self.compare_scalars(name, mine, theirs)

    def is_left_alone(self, mine: TracedSymbol, member: Any) -> bool:
        """Whether a value of an enum was found to be none of the other members on this path."""
        others = [one for one in type(member) if one is not member]
        if len(others) > _MOST_MEMBERS:
            return False
        equal = (self.compare_scalars("Eq", mine, one.value) for one in others)
        return bool(others) and all(isa(one, TracedSymbol) and self.known(one) is False for one in equal)

    def value_of_member(self, kind: EnumOf, other: Any) -> Any:
        """The value of a member of the same enum; None if the other value is none."""
        if isa(other, TracedSymbol):
            return self.enum_value(other) if self.kind(other) == kind else None
        return other.value if type(other) is kind.cls else None

    def enum_value(self, member: TracedSymbol) -> TracedSymbol:
        """``member.value``."""
        kind: Any = self.kind(member)
        return self.make(ENUM_VALUE, kind.item, member._expr)

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
                number = float(value)
            except OverflowError:
                number = math.inf
            if number != value:
                self.refuse("compares a float with an integer that no float equals")
            return number
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
                if isa(x, TracedSymbol) and isinstance(kind := self.kind(x), EnumOf):
                    value = self.value_of_member(kind, y)
                    if value is not None:
                        return self.compare_scalars("Eq", self.enum_value(x), value)
                    if not isa(y, Proxy):
                        return False
            self.refuse("uses is on a value")
        if a is not None and b is not None and a is not b and (self.holds(a) or self.holds(b)):
            self.refuse("uses is on a value")
        return a is b
