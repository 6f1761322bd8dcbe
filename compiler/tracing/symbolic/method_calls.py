"""Methods of scalars: texts, times, durations, exact sums; and f-strings."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from typing import Any

from tracetypes.compiler.tracing.expr import Exact
from tracetypes.compiler.tracing.kinds import BOOLEAN, DATE, FLOAT, INTEGER, STRING
from tracetypes.compiler.tracing.operations import basic, functions
from tracetypes.compiler.tracing.symbolic.builtin_calls import BuiltinCalls
from tracetypes.compiler.tracing.symbolic.known import CLASSES, DAY, TEXT_METHODS, TEXT_TESTS, TIME_FIELDS
from tracetypes.compiler.tracing.symbolic.paths import isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedDuration,
    TracedParts,
    TracedSymbol,
    describe,
)
from tracetypes.records import Date, String, Timestamp

__all__ = ["MethodCalls"]


class MethodCalls(BuiltinCalls):
    """What becomes of a call of a method."""

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
                if (result := self.text_method(owner, name, args, keywords)) is not None:
                    return result
            case Timestamp() if name == "replace" and not args:
                if (result := self.replaced(owner, keywords)) is not None:
                    return result
            case Timestamp() if name == "date" and plain:
                return self.make(basic.DATE_OF, DATE, self.clock(owner))
            case Timestamp() | Date() if name in ("weekday", "isoweekday") and plain:
                result = self.make(basic.WEEKDAY, INTEGER, self.clock(owner))
                return result if name == "weekday" else self.binary("Add", result, 1)
            case Timestamp() if name == "timestamp" and plain:
                return self.binary("Div", self.micros(owner), 1_000_000)
            case Timestamp() if name == "astimezone" and len(args) == 1 and args[0] is dt.UTC and not keywords:
                return self.applied(functions.IN_UTC, owner) if self.has_zone_of_row(owner._expr) else owner
            case Exact() if name == "value" and plain:
                return self.make(basic.EXACT_VALUE, FLOAT, owner._expr)
            case Exact() if name == "over" and len(args) == 1 and not keywords and self.kind(args[0]) == INTEGER:
                return self.make(basic.EXACT_OVER, FLOAT, self.expr(owner), self.expr(args[0]), partial=True)
            case Exact() if name in basic.EXACT_STATISTICS and not keywords:
                op = basic.EXACT_STATISTICS[name]
                if tuple(map(self.kind, (owner, *args))) == op.signature.takes:
                    return self.make(op, FLOAT, *map(self.expr, (owner, *args)))
        cls = CLASSES.get(type(kind))
        full = f"{'' if cls is None else cls.__name__ + '.'}{name}"
        if isinstance(kind, Timestamp | Date):
            if full == "datetime.isoformat" and not args and set(keywords) <= {"sep", "timespec"}:
                args = (keywords.get("sep", "T"), keywords.get("timespec", "auto"))
                keywords = {}
            result = None if keywords else self.named(full, owner, *args)
            if result is not None:
                return result
        arguments = [*map(describe, args), *keywords]
        self.refuse(f"calls {full}" + (f" with {' and '.join(arguments)}" if arguments else ""))

    def replaced(self, time: Any, fields: dict[str, Any]) -> Any:
        """``time.replace(hour=0)`` and the like."""
        if set(fields) == {"tzinfo"} and fields["tzinfo"] is dt.UTC:  # another zone may be equal to it
            return self.in_utc(time)
        if not fields or any(name not in TIME_FIELDS or self.kind(fields[name]) != INTEGER for name in fields):
            return None
        limits = {"hour": 24, "minute": 60, "second": 60, "microsecond": 1_000_000, "day": 28}
        if all(
            name in limits and type(at) is int and (name == "day") <= at < limits[name] for name, at in fields.items()
        ):
            size = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "microsecond": 1, "day": DAY}
            moved: Any = 0
            for name, at in fields.items():
                more = self.binary("Sub", at, self.attribute(time, name))
                moved = self.binary("Add", moved, self.binary("Mult", more, size[name]))
            return self.moved(time, moved)
        return self.applied(
            functions.TIME_REPLACE, time, *(fields.get(name, self.attribute(time, name)) for name in TIME_FIELDS)
        )

    def text_method(self, owner: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if name in functions.SPLITS and set(keywords) <= {"sep", "maxsplit"}:
            how = (*args, *(keywords[at] for at in ("sep", "maxsplit") if at in keywords))
            if "sep" not in keywords and "maxsplit" in keywords and len(args) != 1:
                return None
            how = () if len(how) == 1 and how[0] is None else how
            if tuple(map(self.kind, how)) in ((), (STRING,), (STRING, INTEGER)) and isa(owner, TracedSymbol):
                return TracedParts(self, functions.SPLITS[name], owner, how)
            return None
        if keywords:
            return None
        if name == "join" and len(args) == 1:
            return self.joined_text(owner, args[0])
        if name in functions.PARTITIONS and len(args) == 1 and self.kind(args[0]) == STRING:
            return tuple(self.applied(functions.PARTITIONS[name], owner, at, args[0]) for at in range(3))
        result = self.simple_method(owner, name, args)
        return self.named(f"str.{name}", owner, *args) if result is None else result

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
        if name in TEXT_METHODS and (not args or (args == (None,) and name.endswith("strip"))):
            return self.make(TEXT_METHODS[name], STRING, text)
        if name in TEXT_TESTS and len(args) == 1:
            if type(args[0]) is tuple:
                result: Any = False
                for one in args[0]:
                    here = self.simple_method(owner, name, (self.settle(one),))
                    result = here if result is False else self.joined(False, result, here)
                return result
            if self.kind(args[0]) == STRING:
                return self.make(TEXT_TESTS[name], BOOLEAN, text, self.expr(args[0]))
        if name == "replace" and len(args) == 2 and all(self.kind(arg) == STRING for arg in args):
            return self.make(basic.REPLACE, STRING, text, *map(self.expr, args))
        return None

    def text(self, *parts: Any) -> Any:
        """An f-string."""
        text: Any = ""
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
                        value = self.to_str(value) if conversion == ord("s") else self.in_words(functions.REPR, value)
                    part = self.to_str(value) if spec == "" else self.in_words(functions.FORMAT, value, spec)
                elif self.holds(value):
                    self.refuse(f"formats {describe(value)}")
                else:
                    conversions: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
                    turned = conversions.get(conversion)
                    part = format(value if turned is None else turned(value), spec)
            if part != "" if isa(part, str) and not isa(part, Proxy) else True:
                text = (
                    part if isa(text, str) and not isa(text, Proxy) and text == "" else (self.binary("Add", text, part))
                )
        return text
