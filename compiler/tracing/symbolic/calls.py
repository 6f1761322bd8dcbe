"""The tracer: calls of the author's functions, which are followed, and of all others."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, NewType, final

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.blame import called, owner_of
from tracetypes.compiler.tracing.expression_rewriter import TRACER
from tracetypes.compiler.tracing.kinds import BOOLEAN, INTEGER
from tracetypes.compiler.tracing.symbolic.allowed import (
    CHANGING,
    COMPARING,
    CONTAINERS,
    PURE,
    module_of,
)
from tracetypes.compiler.tracing.symbolic.known import (
    ALLOWED,
    APPLIED,
    KNOWN_FUNCTIONS,
    OPERATOR_FUNCTIONS,
    fields_or_none,
    name_of_function,
    problem_of,
)
from tracetypes.compiler.tracing.symbolic.paths import Undo, isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedEmit,
    TracedMethod,
    TracedSymbol,
    describe,
)
from tracetypes.compiler.tracing.symbolic.regular_expressions import RegularExpressions
from tracetypes.compiler.tracing.syntax import is_rewritten, rewritten
from tracetypes.function_source import NoSource
from tracetypes.lookup_table import LookupTable
from tracetypes.record_classes import arguments_of, fields_of, is_generated

__all__ = ["Tracer"]


@final
class Tracer(RegularExpressions):
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
            if function.__self__ is ExactSum and function.__name__ in ("of", "of_square", "of_product"):
                return self.exact_of(function, *args, **keywords)
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
        if isa(function, types.BuiltinFunctionType) and function in OPERATOR_FUNCTIONS and not keywords:
            count, name, first = OPERATOR_FUNCTIONS[function]
            if len(args) == count:
                return getattr(self, name)(*first, *args)
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

    def call_applied(self, function: Any, args: tuple[Any, ...]) -> Any:
        """A function of numbers or text that expressions have."""
        if function in (math.floor, math.ceil) and len(args) == 1 and self.kind(args[0]) in (BOOLEAN, INTEGER):
            return self.as_number(args[0], INTEGER)
        result = self.applied(APPLIED[function], *args)
        if result is None:
            self.refuse(f"calls {name_of_function(function)} with {' and '.join(map(describe, args))}")
        return result

    def call_function(self, function: types.FunctionType, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if is_rewritten(function.__code__):
            if self.now.trials and not self.now.pure:
                raise Undo
            return function(*args, **keywords)
        holds = self.holds((args, tuple(keywords.values())))
        if not holds and module_of(function) in PURE:
            return function(*args, **keywords)
        if self.now.trials and not self.now.pure and function.__module__ != "tracetypes.algebra":
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
        return self.again(function, args[0] if args else None)(*args, **keywords)

    def call_generated(self, function: types.FunctionType, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A method that attrs, dataclasses or collections have written."""
        if function.__name__ in COMPARING and len(args) == 2 and not keywords:
            return self.compare_by(function.__name__, *args)
        if self.holds((args, tuple(keywords.values()))):
            self.refuse(f"calls {name_of_function(function)}, which is generated")
        return function(*args, **keywords)

    def again(self, function: types.FunctionType, first: Any = None) -> types.FunctionType:
        """The author's function, compiled again. ``first``: its first argument."""
        entry = self.functions.get(id(function))
        if entry is not None:
            return entry[1]  # type: ignore[no-any-return]
        try:
            code = rewritten(function.__code__)
        except NoSource as error:
            self.refuse(str(error), called(function, error.line, owner_of(function.__code__, first)))
        names = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        copy = types.FunctionType(
            code,
            {**function.__globals__, TRACER: self},
            function.__name__,
            function.__defaults__,
            tuple(names[name] for name in code.co_freevars),
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        self.functions[id(function)] = (function, copy)
        return copy

    def evolve(self, fits: Callable[[Any], bool], /, *args: Any, **changes: Any) -> Any:
        """``attrs.evolve``, ``dataclasses.replace`` and ``_replace``, without looking at what stays."""
        (record,) = args
        record = self.settle(record)
        if not fits(self.class_of(record)):
            raise TypeError("another kind of record")
        names, arguments = fields_of(type(record)) or (), arguments_of(type(record))
        values = record if isinstance(record, tuple) else [getattr(record, n) for n in names]
        old = {arguments.get(name, name): value for name, value in zip(names, values, strict=True)}
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
        if cls is range and self.holds(args) and not keywords:
            return self.range_of(args)
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
        instance = cls(*args, **keywords)
        return self.own(instance) if cls in (list, dict, set) or isa(instance, Iterator) else instance

    def call_builtin(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        owner, name = getattr(function, "__self__", None), function.__name__
        if owner is None or isa(owner, types.ModuleType | type):
            if function in (iter, reversed) and len(args) == 1:
                return self.own(function(self.iterate(args[0])))
            return self.call_constant(function, args, keywords)
        base: Any = next((cls for cls in CONTAINERS if isa(owner, cls)), None)
        if name in CHANGING.get(base, ()):
            return self.change(owner, name, args, keywords)
        symbolic = self.holds((args, tuple(keywords.values())))
        if name == "get" and symbolic and self.is_table(owner) and not keywords and len(args) in (1, 2):
            if isa(args[0], TracedSymbol):
                return self.get(owner, args[0], args[1] if len(args) == 2 else None)
            if not self.holds(args[0]):
                return self.settle(function(*args))
        if base is not None and name in CONTAINERS[base] and (symbolic or self.holds(owner)):
            if name in ("index", "count"):
                return self.find(owner, name, *args)
            if symbolic:
                self.refuse(f"calls {name_of_function(function)}")
            result = function(*args, **keywords)
            return self.own(result) if name == "copy" else self.settle(result)
        if symbolic and isa(owner, re.Pattern):
            return self.call_pattern(owner, name, args, keywords)
        if symbolic and type(owner) is str:
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
        result = 0
        for at, one in enumerate(owner):
            if self.truth(self.contains_any(value, (one,))):
                if name == "index":
                    return at
                result += 1
        if name == "index":
            raise ValueError("is not in it")
        return result

    def call_getter(self, function: Any, *args: Any) -> Any:
        parts = function.__reduce__()[1]
        (value,) = args
        if isa(function, operator.methodcaller):
            if not isinstance(parts[0], str) or function.__reduce__()[0] is not operator.methodcaller:
                self.refuse("calls a methodcaller with keywords")
            return self.call(self.attribute(value, parts[0]), *parts[1:])
        if isa(function, operator.itemgetter):
            items = [self.item(value, part) for part in parts]
        else:
            items = [functools.reduce(self.attribute, part.split("."), value) for part in parts]
        return items[0] if len(items) == 1 else tuple(items)
