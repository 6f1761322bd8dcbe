"""Calls of builtins and of functions of the standard library: ``len``, ``min``, ``sorted``, ``math.isnan`` and so on."""

from __future__ import annotations

import datetime as dt
import functools
import math
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, final

from tracetypes.algebra import greatest, least
from tracetypes.compiler.tracing.expr import Call
from tracetypes.compiler.tracing.kinds import BOOLEAN, EXACT, FLOAT, INTEGER, STRING
from tracetypes.compiler.tracing.operations import basic, functions
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.compiler.tracing.symbolic.allowed import (
    LENGTHS,
    may_call,
)
from tracetypes.compiler.tracing.symbolic.known import COMPARED, DAY, NUMBERS, name_of_function
from tracetypes.compiler.tracing.symbolic.paths import Undo, isa
from tracetypes.compiler.tracing.symbolic.patterns import Patterns
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedDeferred,
    TracedPlace,
    describe,
    expr_of,
)
from tracetypes.compiler.tracing.syntax import is_rewritten
from tracetypes.records import Boolean, Bytes, Date, Integer, Optional, String, Timestamp
from tracetypes.sort_keys import Desc, sort_key

__all__ = ["BuiltinCalls"]


@final
class _Sorted:
    """What is sorted, compared by the tracer."""

    __slots__ = ("tracer", "value")

    def __init__(self, tracer: Patterns, value: Any) -> None:
        self.tracer, self.value = tracer, value

    def __lt__(self, other: _Sorted) -> bool:
        return self.tracer.truth(self.tracer.compare("Lt", self.value, other.value))


class BuiltinCalls(Patterns):
    """What becomes of a call of a builtin."""

    def call_constant(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A call of what is known to give the same for the same constants."""
        if self.holds((args, tuple(keywords.values()), getattr(function, "__self__", None))) or not may_call(function):
            self.refuse(f"calls {name_of_function(function)}")
        return function(*args, **keywords)

    def call_len(self, value: Any) -> Any:
        value = self.settle(value)
        method = getattr(type(value), "__len__", None)
        if not isa(value, Proxy) and self.holds(value) and method not in LENGTHS:
            self.refuse(f"looks at a {type(value).__name__}, which has a length of its own")
        return self.length(value)

    def call_bool(self, value: Any = False) -> Any:
        return self.condition(value)

    def call_int(self, *args: Any, **keywords: Any) -> Any:
        value: Any = self.settle(args[0]) if args else 0
        if not isa(value, Proxy):
            return self.call_constant(int, args, keywords)
        kind = self.kind(value)
        if kind == STRING and (result := self.applied(functions.INT_OF, value, *args[1:], *keywords.values())) is not None:
            return result
        if len(args) > 1 or keywords or kind not in NUMBERS:
            self.refuse(f"converts {describe(value)} to int")
        if kind == FLOAT:
            return self.make(basic.TO_INT, INTEGER, value._expr, partial=True)
        return self.as_number(value, INTEGER)

    def call_float(self, *args: Any) -> Any:
        value = self.settle(args[0]) if args else 0.0
        if not isa(value, Proxy):
            return self.call_constant(float, args, {})
        if self.kind(value) == STRING:
            return self.applied(functions.FLOAT_OF, value)
        if self.kind(value) not in NUMBERS:
            self.refuse(f"converts {describe(value)} to float")
        return self.as_number(value, FLOAT)

    def call_str(self, *args: Any, **keywords: Any) -> Any:
        if len(args) == 1 and not keywords and isa(self.settle(args[0]), Proxy):
            return self.to_str(self.settle(args[0]))
        return self.call_constant(str, args, keywords)

    def to_str(self, value: Any) -> Any:
        kind = self.kind(value)
        if kind == STRING:
            return value
        if kind in (INTEGER, BOOLEAN):
            return self.make(basic.TO_STR, STRING, value._expr)
        return self.in_words(functions.STR, value)

    def in_words(self, op: Operation, value: Any, *how: Any) -> Any:
        """``str(value)``, ``repr(value)`` or ``format(value, how)``."""
        result = self.applied(op, value, *how)
        if result is None:
            self.refuse(f"turns {describe(value)} into text")
        return result

    def call_repr(self, value: Any, /) -> Any:
        value = self.settle(value)
        return self.in_words(functions.REPR, value) if isa(value, Proxy) else self.call_constant(repr, (value,), {})

    def call_format(self, value: Any, spec: Any = "", /) -> Any:
        return self.text((value, -1, self.settle(spec)))

    def call_abs(self, value: Any) -> Any:
        return self.unary("Abs", value)

    def call_round(self, *args: Any, **keywords: Any) -> Any:
        value: Any = self.settle(args[0]) if args else None
        if not isa(value, Proxy):
            return self.call_constant(round, args, keywords)
        kind = self.kind(value)
        digits = [self.settle(one) for one in (*args[1:], *keywords.values()) if one is not None]
        if digits and kind in NUMBERS:
            rounded = self.applied(functions.ROUND_DIGITS, value, *digits) if kind == FLOAT else self.round_tens(value, *digits)
            if rounded is not None:
                return rounded
        if digits or kind not in NUMBERS:
            self.refuse(f"rounds {describe(value)} to digits" if digits else f"rounds {describe(value)}")
        if kind == FLOAT:
            return self.make(basic.ROUND, INTEGER, value._expr, partial=True)
        return self.as_number(value, INTEGER)

    def round_tens(self, value: Any, digits: Any) -> Any:
        value = self.as_number(value, INTEGER)
        if type(digits) is int and digits >= 0:
            return value
        return self.applied(functions.ROUND_TENS, value, digits)

    def call_trunc(self, value: Any, /) -> Any:
        value = self.settle(value)
        if isa(value, Proxy) and self.kind(value) not in NUMBERS:
            self.refuse(f"calls math.trunc with {describe(value)}")
        return self.call_int(value) if isa(value, Proxy) else math.trunc(value)

    def call_fromtimestamp(self, *args: Any, **keywords: Any) -> Any:
        value, zone = self.settle(args[0]), (*args[1:], *keywords.values())
        if not isa(value, Proxy):
            return self.call_constant(dt.datetime.fromtimestamp, args, keywords)
        if len(zone) != 1 or zone[0] is not dt.UTC or self.kind(value) not in NUMBERS:
            self.refuse(f"calls datetime.fromtimestamp with {describe(value)} and another zone than UTC")
        return self.applied(functions.FROM_TIMESTAMP, value)

    def call_min(self, *args: Any, **keywords: Any) -> Any:
        return self.extreme("Lt", args, **keywords)

    def call_max(self, *args: Any, **keywords: Any) -> Any:
        return self.extreme("Gt", args, **keywords)

    def extreme(self, name: str, args: tuple[Any, ...], *, key: Any = None, **keywords: Any) -> Any:
        """``min`` and ``max``: the first of those that none is ``name`` than."""
        values = [self.settle(one) for one in (self.iterate(args[0]) if len(args) == 1 else args)]
        if not values:
            if "default" in keywords:
                return keywords["default"]
            raise ValueError("of nothing")
        marks = values if key is None else [self.settle(self.call(key, value)) for value in values]
        best, mark = values[0], marks[0]
        for value, other in zip(values[1:], marks[1:], strict=True):
            better = self.compare(name, other, mark)
            if key is None:
                best = mark = self.either(better, value, best)
            elif self.truth(better):
                best, mark = value, other
        return best

    def call_least(self, a: Any, b: Any, /) -> Any:
        return self.extreme_of_optional(basic.LEAST, least, a, b)

    def call_greatest(self, a: Any, b: Any, /) -> Any:
        return self.extreme_of_optional(basic.GREATEST, greatest, a, b)

    def extreme_of_optional(self, op: Operation, function: Any, a: Any, b: Any) -> Any:
        """``least`` and ``greatest``: one expression where their Python would ask of each whether it is None."""
        a, b = self.seen(a), self.seen(b)
        if a is None or b is None:
            return b if a is None else a
        deferred = [isa(x, TracedDeferred) for x in (a, b)]
        kinds = [expr_of(x).kind if later else self.kind(x) for x, later in zip((a, b), deferred, strict=True)]
        kind, *others = {kind.item if isinstance(kind, Optional) else kind for kind in kinds}
        if not any(deferred) or others or not isinstance(kind, COMPARED):
            return self.call_function(function, (a, b), {})
        args = [expr_of(x) if later else self.expr(x) for x, later in zip((a, b), deferred, strict=True)]
        if not all(deferred):
            return self.make(op, kind, *args)
        return TracedDeferred(self, self.intern(Call(op, tuple(args), Optional(kind))), kind)

    def call_sort_key(self, value: Any, /, *, nan: bool = False, giver: str = "") -> Any:
        if not self.holds((value,)):
            return sort_key(value, nan=nan, giver=giver)
        if not self.has_place(value, nan):
            self.refuse(f"sorts by {describe(value)}")
        return TracedPlace(self)

    def has_place(self, value: Any, nan: bool) -> bool:
        """Whether a value certainly has a place in an order. ``nan``: NaN has one, too."""
        value = self.settle(value)
        if isa(value, tuple | list):
            return all(self.has_place(one, nan) for one in value)
        if isa(value, Desc):
            return self.has_place(value.value, nan)
        kind = self.kind(value)
        return isinstance(kind, Boolean | Integer | String | Bytes | Timestamp | Date) or (nan and kind == FLOAT)

    def call_sum(self, values: Any, /, start: Any = 0) -> Any:
        total = self.settle(start)
        if self.kind(total) == STRING or isa(total, str | bytes | bytearray):
            raise TypeError("sum() cannot sum text")
        for value in self.iterate(values):
            value = self.settle(value)
            if sys.version_info >= (3, 12) and self.kind(value) == FLOAT and self.holds((total, value)):
                self.refuse("calls sum on floats, which this Python compensates")
            total = self.binary("Add", total, value)
        return total

    def call_any(self, values: Any, /) -> bool:
        return any(self.truth(value) for value in self.iterate(values))

    def call_all(self, values: Any, /) -> bool:
        return all(self.truth(value) for value in self.iterate(values))

    def call_divmod(self, a: Any, b: Any, /) -> Any:
        a, b = self.settle(a), self.settle(b)
        if not isa(a, Proxy) and not isa(b, Proxy):
            return self.call_constant(divmod, (a, b), {})
        return self.binary("FloorDiv", a, b), self.binary("Mod", a, b)

    def call_pow(self, *args: Any, **keywords: Any) -> Any:
        if len(args) == 2 and not keywords:
            return self.binary("Pow", *args)
        return self.call_constant(pow, args, keywords)

    def call_getattr(self, value: Any, name: str, *default: Any) -> Any:
        if default and self.holds(value):
            self.refuse("calls getattr with a default")
        return self.attribute(value, name) if not default else getattr(value, name, *default)

    def call_sorted(self, values: Any, /, *, key: Any = None, reverse: bool = False) -> Any:
        items = [self.settle(one) for one in self.iterate(values)]
        keyed = [(_Sorted(self, one if key is None else self.settle(self.call(key, one))), one) for one in items]
        keyed.sort(key=operator.itemgetter(0), reverse=self.truth(reverse))
        return self.own([one for _, one in keyed])

    def call_map(self, function: Any, /, *values: Any) -> Any:
        return (self.call(function, *one) for one in zip(*map(self.iterate, values), strict=False))

    def call_filter(self, function: Any, values: Any, /) -> Any:
        return (one for one in self.iterate(values) if self.truth(one if function is None else self.call(function, one)))

    def call_reduce(self, function: Any, values: Any, /, *start: Any) -> Any:
        return functools.reduce(functools.partial(self.call, function), self.iterate(values), *start)

    def call_next(self, values: Any, /, *default: Any) -> Any:
        if self.now.trials:
            raise Undo
        if type(values) is not types.GeneratorType or not is_rewritten(values.gi_code):
            self.refuse("calls next")
        if self.now.outside is not None:
            self.refuse("calls next in a loop over a range of values")
        return self.settle(next(values, *default))

    def call_isnan(self, value: Any, /) -> Any:
        return self.float_test(math.isnan, value, lambda x: self.compare("NotEq", x, x))

    def call_isinf(self, value: Any, /) -> Any:
        return self.float_test(math.isinf, value, lambda x: self.compare("Eq", self.unary("Abs", x), math.inf))

    def call_isfinite(self, value: Any, /) -> Any:
        return self.float_test(math.isfinite, value, lambda x: self.compare("Lt", self.unary("Abs", x), math.inf))

    def float_test(self, function: Callable[[float], bool], value: Any, test: Callable[[Any], Any]) -> Any:
        value = self.settle(value)
        if not isa(value, Proxy):
            return function(value)
        if self.kind(value) not in NUMBERS:
            self.refuse(f"calls math.{function.__name__}")
        return test(self.as_number(value, FLOAT))

    def call_timedelta(self, *args: Any, **keywords: Any) -> Any:
        names = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
        sizes = dict(zip(names, (DAY, 1_000_000, 1, 1_000, 60_000_000, 3_600_000_000, 7 * DAY), strict=True))
        units = {**dict(zip(names, args, strict=False)), **keywords}
        if not any(isa(value, Proxy) for value in units.values()):
            return dt.timedelta(*args, **keywords)
        total: Any = 0
        for name, value in units.items():
            value = self.settle(value)
            if self.kind(value) not in (BOOLEAN, INTEGER):
                self.refuse("makes a timedelta of what is no integer")
            total = self.binary("Add", total, self.binary("Mult", value, sizes[name]))
        return self.duration(total)

    def exact_of(self, function: types.MethodType, *values: Any) -> Any:
        """``ExactSum.of``, ``ExactSum.of_square`` or ``ExactSum.of_product``."""
        values = tuple(map(self.settle, values))
        if not any(isa(value, Proxy) for value in values):
            return function(*values)
        for value in values:
            if self.kind(value) not in NUMBERS:
                self.refuse(f"sums up {describe(value)}")
        numbers = [self.expr(self.as_number(value, FLOAT)) for value in values]
        return self.make(basic.EXACT_SUMS[function.__name__], EXACT, *numbers)
