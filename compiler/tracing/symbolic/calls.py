"""Calls: of the author's functions, of builtins, and of methods of scalars."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import math
import operator
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, NewType, final

import attrs

from tracetypes.algebra import ExactSum, greatest, least
from tracetypes.asked import LookupTable
from tracetypes.compiler.tracing.expr import Call, Exact
from tracetypes.compiler.tracing.symbolic.allowed import (
    CHANGING,
    COMPARING,
    CONTAINERS,
    LENGTHS,
    PURE,
    may_call,
    module_of,
)
from tracetypes.compiler.tracing.symbolic.known import (
    ALLOWED,
    APPLIED,
    BOOLEAN,
    CLASSES,
    COMPARED,
    DATE,
    DAY,
    EXACT,
    FLOAT,
    INTEGER,
    KNOWN_FUNCTIONS,
    NUMBERS,
    STRING,
    TIME_FIELDS,
    fields_of,
    fields_or_none,
    is_generated,
    name_of_function,
    problem_of,
)
from tracetypes.compiler.tracing.symbolic.paths import Undo, isa
from tracetypes.compiler.tracing.symbolic.patterns import Patterns
from tracetypes.compiler.tracing.symbolic.proxies import (
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
from tracetypes.compiler.tracing.syntax import TRACER, NoSource, is_rewritten, rewritten
from tracetypes.records import Date, Optional, String, Timestamp

__all__ = ["Tracer"]


@final
class _Sorted:
    """What is sorted, compared by the tracer."""

    __slots__ = ("tracer", "value")

    def __init__(self, tracer: Tracer, value: Any) -> None:
        self.tracer, self.value = tracer, value

    def __lt__(self, other: _Sorted) -> bool:
        return self.tracer.truth(self.tracer.compare("Lt", self.value, other.value))


@final
class Tracer(Patterns):
    """What rewritten code calls, and what proxies do. Lives as long as one trace; ``run`` is the current path."""

    # ------------------------------------------------------------------------------------------------- calls

    def call(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
        """``function(*args, **keywords)``."""
        if isa(function, TracedMethod | TracedEmit):
            return function(*args, **keywords)
        function = self.settle(function)
        if isa(function, Proxy):
            self.refuse("calls a value")
        if isa(function, types.MethodType):
            if function.__self__ is ExactSum and function.__name__ == "of":
                return self.exact_of(*args, **keywords)
            if isa(function.__self__, LookupTable) and function.__name__ == "get" and not keywords and len(args) == 1:
                return self.ask(function.__self__, args[0])
            return self.call(function.__func__, function.__self__, *args, **keywords)
        if isa(function, functools.partial):
            return self.call(function.func, *function.args, *args, **{**function.keywords, **keywords})
        if function is typing.cast:
            return args[1]
        if isa(function, NewType):
            return args[0]
        if not isa(function, types.FunctionType) and fields_or_none(function) is None:
            args = tuple(map(self.settle, args))
            keywords = {name: self.settle(value) for name, value in keywords.items()}
        if (
            function in KNOWN_FUNCTIONS
            if isa(function, types.FunctionType | types.BuiltinFunctionType | type)
            else False
        ):
            return getattr(self, "call_" + KNOWN_FUNCTIONS[function])(*args, **keywords)
        if isa(function, types.FunctionType):
            return self.call_function(function, args, keywords)
        if isa(function, types.BuiltinFunctionType) and function in APPLIED and self.holds(args) and not keywords:
            return self.call_applied(function, args)
        if isa(function, type):
            return self.construct(function, args, keywords)
        if isa(function, types.BuiltinFunctionType | types.BuiltinMethodType | types.MethodWrapperType):
            return self.call_builtin(function, args, keywords)
        if isa(function, operator.attrgetter | operator.itemgetter | operator.methodcaller):
            return self.call_getter(function, *args)
        wrapped = getattr(function, "__wrapped__", None)
        if isa(function, functools._lru_cache_wrapper) and wrapped is not None:
            return self.call(wrapped, *args, **keywords)
        method = getattr(type(function), "__call__", None)  # noqa: B004
        if isa(method, types.FunctionType):
            return self.call(method, function, *args, **keywords)
        return self.call_constant(function, args, keywords)

    def call_constant(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A call of what is known to give the same for the same constants."""
        if self.holds((args, tuple(keywords.values()), getattr(function, "__self__", None))) or not may_call(function):
            self.refuse(f"calls {name_of_function(function)}")
        return function(*args, **keywords)

    def call_applied(self, function: Any, args: tuple[Any, ...]) -> Any:
        """A function of numbers or text that expressions have."""
        if function in (math.floor, math.ceil) and len(args) == 1 and self.kind(args[0]) in (BOOLEAN, INTEGER):
            return self.as_number(args[0], INTEGER)
        made = self.applied(APPLIED[function], *args)
        if made is None:
            self.refuse(f"calls {name_of_function(function)} with {' and '.join(map(describe, args))}")
        return made

    def call_function(self, function: types.FunctionType, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if is_rewritten(function.__code__):
            if self.now.trials:
                raise Undo
            return function(*args, **keywords)
        holds = self.holds((args, tuple(keywords.values())))
        if not holds and module_of(function) in PURE:
            return function(*args, **keywords)
        if self.now.trials and function.__module__ != "tracetypes.algebra":
            raise Undo
        for one, fits in ((attrs.evolve, attrs.has), (dataclasses.replace, dataclasses.is_dataclass)):
            if function is one:
                return self.evolve(fits, *args, **keywords)
        if function.__module__ == "collections" and args and hasattr(args[0], "_fields"):
            if function.__name__ == "_replace":
                return self.evolve(lambda cls: issubclass(cls, tuple), *args, **keywords)
            if function.__name__ == "_asdict":
                return self.own(dict(zip(args[0]._fields, args[0], strict=True)))
        if is_generated(function):
            return self.call_generated(function, args, keywords)
        return self.again(function)(*args, **keywords)

    def call_generated(self, function: types.FunctionType, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A method that attrs, dataclasses or collections have written."""
        if function.__name__ in COMPARING and len(args) == 2 and not keywords:
            return self.compare_by(function.__name__, *args)
        if self.holds((args, tuple(keywords.values()))):
            self.refuse(f"calls {name_of_function(function)}, which is generated")
        return function(*args, **keywords)

    def again(self, function: types.FunctionType) -> types.FunctionType:
        """The author's function, compiled again."""
        found = self.functions.get(id(function))
        if found is not None:
            return found[1]  # type: ignore[no-any-return]
        try:
            code = rewritten(function.__code__)
        except NoSource as error:
            self.refuse(f"calls {name_of_function(function)}: {error}")
        names = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        made = types.FunctionType(
            code,
            {**function.__globals__, TRACER: self},
            function.__name__,
            function.__defaults__,
            tuple(names[name] for name in code.co_freevars),
        )
        made.__kwdefaults__ = function.__kwdefaults__
        self.functions[id(function)] = (function, made)
        return made

    def evolve(self, fits: Callable[[Any], bool], /, *args: Any, **changes: Any) -> Any:
        """``attrs.evolve``, ``dataclasses.replace`` and ``_replace``, without looking at what stays."""
        (record,) = args
        record = self.settle(record)
        if not fits(self.class_of(record)):
            raise TypeError("another kind of record")
        names = fields_of(type(record)) or ()
        old = dict(
            zip(names, record if isinstance(record, tuple) else [getattr(record, n) for n in names], strict=True)
        )
        if not set(changes) <= set(old):
            raise TypeError("an unexpected field")
        return self.construct(type(record), (), {**old, **changes})

    def construct(self, cls: type[Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A call of a class."""
        if cls is type and len(args) == 1:
            (value,) = args
            return self.class_of(value)
        if cls in ALLOWED:
            return self.store(cls, args, keywords)
        if not self.holds((args, tuple(keywords.values()))):
            return self.call_constant(cls, args, keywords)
        if fields_of(cls) is None:
            self.refuse(f"makes a {cls.__name__}")
        if problem := problem_of(cls, construct=True):
            self.refuse(f"makes a {cls.__name__}, which {problem}")
        return cls(*args, **keywords)

    def store(self, cls: type[Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A builtin class that only stores, counts or goes through what it is called with."""
        if cls is slice:
            return slice(*args)
        if cls is dict and self.holds(args) and type(args[0]) is not dict:
            parts = [tuple(self.iterate(one)) for one in self.iterate(args[0])]
            args = (parts,)
            if self.holds([key for key, *_ in parts]):
                self.refuse("hashes a value")
        args = tuple(self.iterate(arg) for arg in args)
        if cls in (set, frozenset):
            args = tuple(map(list, args))
            if any(self.holds(one) for arg in args for one in arg):
                self.refuse("hashes a value")
        made = cls(*args, **keywords)
        return self.own(made) if cls in (list, dict, set) else made

    def call_builtin(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        owner, name = getattr(function, "__self__", None), function.__name__
        if owner is None or isa(owner, types.ModuleType | type):
            if function in (iter, reversed) and len(args) == 1:
                return function(self.iterate(args[0]))
            return self.call_constant(function, args, keywords)
        base: Any = next((cls for cls in CONTAINERS if isa(owner, cls)), None)
        if name in CHANGING.get(base, ()):
            return self.change(owner, name, args, keywords)
        held = self.holds((args, tuple(keywords.values())))
        if name == "get" and held and self.is_table(owner) and not keywords and len(args) in (1, 2):
            if isa(args[0], TracedSymbol):
                return self.get(owner, args[0], args[1] if len(args) == 2 else None)
            if not self.holds(args[0]):
                return self.settle(function(*args))
        if base is not None and name in CONTAINERS[base] and (held or self.holds(owner)):
            if name in ("index", "count"):
                return self.find(owner, name, *args)
            if held:
                self.refuse(f"calls {name_of_function(function)}")
            made = function(*args, **keywords)
            return self.own(made) if name == "copy" else self.settle(made)
        if held and type(owner) is str:
            return self.call_method(owner, name, args, keywords)
        return self.call_constant(function, args, keywords)

    def change(self, owner: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A method that changes a list, dict or set."""
        self.changed(owner)
        if name == "sort":
            owner[:] = self.call_sorted(tuple(owner), **keywords)
            return None
        if name == "remove" and isa(owner, list):
            del owner[self.find(owner, "index", *args)]
            return None
        if name == "extend":
            args = tuple(map(self.iterate, args))
        elif isa(owner, set) or name == "update":
            if self.holds([one for one in args if type(one) is not dict]):
                self.refuse("hashes a value")
        elif isa(owner, dict) or name == "pop":
            self.place(args[:1])
        return getattr(owner, name)(*args, **keywords)

    def find(self, owner: Any, name: str, value: Any, /) -> int:
        """``owner.index(value)`` or ``owner.count(value)``."""
        found = 0
        for at, one in enumerate(owner):
            if self.truth(self.contains_any(value, (one,))):
                if name == "index":
                    return at
                found += 1
        if name == "index":
            raise ValueError("is not in it")
        return found

    def call_getter(self, function: Any, *args: Any) -> Any:
        parts = function.__reduce__()[1]
        (value,) = args
        if isa(function, operator.methodcaller):
            if not isinstance(parts[0], str) or function.__reduce__()[0] is not operator.methodcaller:
                self.refuse("calls a methodcaller with keywords")
            return self.call(self.attribute(value, parts[0]), *parts[1:])
        if isa(function, operator.itemgetter):
            made = [self.item(value, part) for part in parts]
        else:
            made = [functools.reduce(self.attribute, part.split("."), value) for part in parts]
        return made[0] if len(made) == 1 else tuple(made)

    # ------------------------------------------------------------------------------------- builtin functions

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
        if kind == STRING and (made := self.applied("int", value, *args[1:], *keywords.values())) is not None:
            return made
        if len(args) > 1 or keywords or kind not in NUMBERS:
            self.refuse(f"converts {describe(value)} to int")
        if kind == FLOAT:
            return self.make("to_int", INTEGER, value._expr, partial=True)
        return self.as_number(value, INTEGER)

    def call_float(self, *args: Any) -> Any:
        value = self.settle(args[0]) if args else 0.0
        if not isa(value, Proxy):
            return self.call_constant(float, args, {})
        if self.kind(value) == STRING:
            return self.applied("float", value)
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
            return self.make("to_str", STRING, value._expr)
        return self.in_words("str", value)

    def in_words(self, op: str, value: Any, *how: Any) -> Any:
        """``str(value)``, ``repr(value)`` or ``format(value, how)``."""
        made = self.applied(op, value, *how)
        if made is None:
            self.refuse(f"turns {describe(value)} into text")
        return made

    def call_repr(self, value: Any, /) -> Any:
        value = self.settle(value)
        return self.in_words("repr", value) if isa(value, Proxy) else self.call_constant(repr, (value,), {})

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
            rounded = self.applied("round_digits", value, *digits) if kind == FLOAT else self.round_tens(value, *digits)
            if rounded is not None:
                return rounded
        if digits or kind not in NUMBERS:
            self.refuse(f"rounds {describe(value)} to digits" if digits else f"rounds {describe(value)}")
        if kind == FLOAT:
            return self.make("round", INTEGER, value._expr, partial=True)
        return self.as_number(value, INTEGER)

    def round_tens(self, value: Any, digits: Any) -> Any:
        value = self.as_number(value, INTEGER)
        if type(digits) is int and digits >= 0:
            return value
        return self.applied("round_tens", value, digits)

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
        return self.applied("datetime.fromtimestamp", value)

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
        return self.extreme_of_optional("least", least, a, b)

    def call_greatest(self, a: Any, b: Any, /) -> Any:
        return self.extreme_of_optional("greatest", greatest, a, b)

    def extreme_of_optional(self, op: str, function: Any, a: Any, b: Any) -> Any:
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
        return TracedDeferred(self, self.intern(Call(op, tuple(args), Optional(kind))))

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
        made = [self.settle(one) for one in self.iterate(values)]
        keyed = [(_Sorted(self, one if key is None else self.settle(self.call(key, one))), one) for one in made]
        keyed.sort(key=operator.itemgetter(0), reverse=self.truth(reverse))
        return self.own([one for _, one in keyed])

    def call_map(self, function: Any, /, *values: Any) -> Any:
        return (self.call(function, *one) for one in zip(*map(self.iterate, values), strict=False))

    def call_filter(self, function: Any, values: Any, /) -> Any:
        return (
            one for one in self.iterate(values) if self.truth(one if function is None else self.call(function, one))
        )

    def call_reduce(self, function: Any, values: Any, /, *start: Any) -> Any:
        return functools.reduce(functools.partial(self.call, function), self.iterate(values), *start)

    def call_next(self, values: Any, /, *default: Any) -> Any:
        if self.now.trials:
            raise Undo
        if type(values) is not types.GeneratorType or not is_rewritten(values.gi_code):
            self.refuse("calls next")
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
        given = {**dict(zip(names, args, strict=False)), **keywords}
        if not any(isa(value, Proxy) for value in given.values()):
            return dt.timedelta(*args, **keywords)
        total: Any = 0
        for name, value in given.items():
            value = self.settle(value)
            if self.kind(value) not in (BOOLEAN, INTEGER):
                self.refuse("makes a timedelta of what is no integer")
            total = self.binary("Add", total, self.binary("Mult", value, sizes[name]))
        return self.duration(total)

    def exact_of(self, value: Any) -> Any:
        value = self.settle(value)
        if not isa(value, Proxy):
            return ExactSum.of(value)
        if self.kind(value) not in NUMBERS:
            self.refuse(f"sums up {describe(value)}")
        return self.make("exact", EXACT, self.as_number(value, FLOAT)._expr)

    # --------------------------------------------------------------------------------- methods of scalars

    def call_method(self, owner: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A method of a str, datetime, date, timedelta or ExactSum."""
        args = tuple(map(self.settle, args))
        if isa(owner, TracedDuration):
            if name == "total_seconds" and not args and not keywords:
                return self.binary("Div", owner._micros, 1_000_000)
            self.refuse(f"calls timedelta.{name}")
        kind, plain = self.kind(owner), not args and not keywords
        keywords = {at: self.settle(value) for at, value in keywords.items()}
        match kind:
            case String():
                if (made := self.text_method(owner, name, args, keywords)) is not None:
                    return made
            case Timestamp() if name == "replace" and not args:
                if (made := self.replaced(owner, keywords)) is not None:
                    return made
            case Timestamp() if name == "date" and plain:
                return self.make("date", DATE, owner._expr)
            case Timestamp() | Date() if name in ("weekday", "isoweekday") and plain:
                made = self.make("weekday", INTEGER, owner._expr)
                return made if name == "weekday" else self.binary("Add", made, 1)
            case Timestamp() if name == "timestamp" and plain:
                return self.binary("Div", self.micros(owner), 1_000_000)
            case Timestamp() if name == "astimezone" and len(args) == 1 and args[0] is dt.UTC and not keywords:
                return owner
            case Exact() if name == "value" and plain:
                return self.make("exact_value", FLOAT, owner._expr)
            case Exact() if name == "over" and len(args) == 1 and not keywords and self.kind(args[0]) == INTEGER:
                return self.make("exact_over", FLOAT, self.expr(owner), self.expr(args[0]))
        cls = CLASSES.get(type(kind))
        full = f"{'' if cls is None else cls.__name__ + '.'}{name}"
        if isinstance(kind, Timestamp | Date):
            if full == "datetime.isoformat" and not args and set(keywords) <= {"sep", "timespec"}:
                args = (keywords.get("sep", "T"), keywords.get("timespec", "auto"))
                keywords = {}
            made = None if keywords else self.applied(full, owner, *args)
            if made is not None:
                return made
        given = [*map(describe, args), *keywords]
        self.refuse(f"calls {full}" + (f" with {' and '.join(given)}" if given else ""))

    def replaced(self, time: Any, fields: dict[str, Any]) -> Any:
        """``time.replace(hour=0)`` and the like."""
        if not fields or any(name not in TIME_FIELDS or self.kind(fields[name]) != INTEGER for name in fields):
            return None
        known = {"hour": 24, "minute": 60, "second": 60, "microsecond": 1_000_000, "day": 28}
        if all(
            name in known and type(at) is int and (name == "day") <= at < known[name] for name, at in fields.items()
        ):
            size = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "microsecond": 1, "day": DAY}
            moved: Any = 0
            for name, at in fields.items():
                more = self.binary("Sub", at, self.attribute(time, name))
                moved = self.binary("Add", moved, self.binary("Mult", more, size[name]))
            return self.moved(time, moved)
        return self.applied(
            "datetime.replace", time, *(fields.get(name, self.attribute(time, name)) for name in TIME_FIELDS)
        )

    def text_method(self, owner: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if name in ("split", "rsplit") and set(keywords) <= {"sep", "maxsplit"}:
            how = (*args, *(keywords[at] for at in ("sep", "maxsplit") if at in keywords))
            if "sep" not in keywords and "maxsplit" in keywords and len(args) != 1:
                return None
            how = () if len(how) == 1 and how[0] is None else how
            if tuple(map(self.kind, how)) in ((), (STRING,), (STRING, INTEGER)) and isa(owner, TracedSymbol):
                return TracedParts(self, name, owner, how)
            return None
        if keywords:
            return None
        if name == "join" and len(args) == 1:
            return self.joined_text(owner, args[0])
        if name in ("partition", "rpartition") and len(args) == 1 and self.kind(args[0]) == STRING:
            return tuple(self.applied(name, owner, at, args[0]) for at in range(3))
        made = self.simple_method(owner, name, args)
        return self.applied(f"str.{name}", owner, *args) if made is None else made

    def joined_text(self, separator: Any, texts: Any) -> Any:
        """``separator.join(texts)``."""
        parts = [self.settle(one) for one in self.iterate(texts)]
        if any(self.kind(part) != STRING for part in parts):
            return None
        return functools.reduce(
            lambda a, b: self.binary("Add", self.binary("Add", a, separator), b), parts[1:], parts[0] if parts else ""
        )

    def simple_method(self, owner: Any, name: str, args: tuple[Any, ...]) -> Any:
        """What expressions have as an operation of its own."""
        text = self.expr(owner)
        if name in ("lower", "upper") and not args:
            return self.make(name, STRING, text)
        if name in ("strip", "lstrip", "rstrip") and args in ((), (None,)):
            return self.make(name, STRING, text)
        if name in ("startswith", "endswith") and len(args) == 1:
            if type(args[0]) is tuple:
                made: Any = False
                for one in args[0]:
                    here = self.simple_method(owner, name, (self.settle(one),))
                    made = here if made is False else self.joined(False, made, here)
                return made
            if self.kind(args[0]) == STRING:
                return self.make(name, BOOLEAN, text, self.expr(args[0]))
        if name == "replace" and len(args) == 2 and all(self.kind(arg) == STRING for arg in args):
            return self.make(name, STRING, text, *map(self.expr, args))
        return None

    def text(self, *parts: Any) -> Any:
        """An f-string."""
        made: Any = ""
        for part in parts:
            if isa(part, tuple):
                value, conversion, spec = part
                value = self.settle(value)
                if isa(value, Proxy) or isa(spec, Proxy):
                    if isa(spec, Proxy) or conversion == ord("a"):
                        self.refuse(
                            "formats a value by a text that is not constant" if isa(spec, Proxy) else "formats !a"
                        )
                    if conversion != -1 and isa(value, Proxy):
                        value = self.to_str(value) if conversion == ord("s") else self.in_words("repr", value)
                    part = self.to_str(value) if spec == "" else self.in_words("format", value, spec)
                elif self.holds(value):
                    self.refuse(f"formats {describe(value)}")
                else:
                    conversions: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
                    turned = conversions.get(conversion)
                    part = format(value if turned is None else turned(value), spec)
            if part != "" if isa(part, str) and not isa(part, Proxy) else True:
                made = (
                    part if isa(made, str) and not isa(made, Proxy) and made == "" else (self.binary("Add", made, part))
                )
        return made
