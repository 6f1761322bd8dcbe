"""The expressions of a trace: each once, and only those that columns can have."""

from __future__ import annotations

import datetime as dt
import re
import sys
import types
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from tracetypes.blame import Called
from tracetypes.compiler.tracing.cache_keys import scalar_key
from tracetypes.compiler.tracing.expr import Call, Const, Expr, Input, Kind
from tracetypes.compiler.tracing.kinds import FLOAT, INTEGER, STRING, TIMESTAMP
from tracetypes.compiler.tracing.operations.functions import (
    FORMAT_FIELDS,
    FUNCTIONS,
    IN_UTC,
    PERCENT,
    REPR,
    TIMES_OF_TEXT,
)
from tracetypes.compiler.tracing.operations.operation import SCALARS, Operation
from tracetypes.compiler.tracing.symbolic.known import CLASSES, KINDS, NUMBERS, WIDEST, ZONES
from tracetypes.compiler.tracing.symbolic.paths import Raised, Stop, TracePath, isa
from tracetypes.compiler.tracing.symbolic.proxies import (
    Observer,
    Proxy,
    TracedDuration,
    TracedMatch,
    TracedParts,
    TracedSymbol,
    describe,
    expr_of,
    word_of,
)
from tracetypes.compiler.tracing.symbolic.stack import calls_of
from tracetypes.lookup_table import LookupTable
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
)

__all__ = ["Expressions", "has_no_zone"]

_FOLDS: Final = (PERCENT, FORMAT_FIELDS)
_MOST_NODES: Final = 20_000
_MOST_DEPTH: Final = 150


class Expressions(Observer):
    """What a trace knows, and the expressions that it makes."""

    def __init__(self, limit: int, *, fields: bool, instants: bool) -> None:
        """``fields``: what is emitted or returned has the fields of optional records. ``instants``: of a time that is returned,
        only the instant counts."""
        self.limit, self.fields, self.instants = limit, fields, instants
        self.run: TracePath | None = None
        self.interned: dict[Any, Expr] = {}
        self.depths: dict[int, int] = {}
        self.functions: dict[int, tuple[Any, Any]] = {}
        self.tables: dict[Any, tuple[Any, Mapping[Any, Any]]] = {}
        self.contents: dict[Any, Mapping[Any, Any]] = {}
        self.layouts: dict[Any, Any] = {}
        self.checked: set[tuple[int, type[Any]]] = set()
        self.zones: dict[int, bool] = {}
        """Whether an expression is a time in a zone that only the row knows."""
        self.touched: dict[tuple[str | int, ...], Input] = {}
        """The inputs that the author's code has read as attributes."""

    @property
    def now(self) -> TracePath:
        if self.run is None:
            raise Stop("uses a value after the call has ended")
        return self.run

    def calls(self, traceback: types.TracebackType | None = None) -> tuple[Called, ...]:
        """The calls under way, the outermost first: those of a traceback, or of now."""
        places: list[tuple[types.FrameType, int]] = []
        at = sys._getframe(1) if traceback is None else None
        while at is not None:
            places.insert(0, (at, at.f_lineno))
            at = at.f_back
        while traceback is not None:
            places.append((traceback.tb_frame, traceback.tb_lineno))
            traceback = traceback.tb_next
        return calls_of(places, {copy.__code__: function for function, copy in self.functions.values()})

    def refuse(self, what: str, *inside: Called) -> NoReturn:
        """Give up. ``inside``: a call that was about to begin."""
        stop = Stop(what, (*self.calls(), *inside))
        if self.run is not None:
            self.run.ended = stop
        raise stop

    def raises(self) -> NoReturn:
        """End this path in an exception."""
        raised = Raised()
        if self.run is not None and self.run.ended is None:
            self.run.ended = raised
        raise raised

    def intern(self, expr: Expr) -> Expr:
        """The one object that stands for an expression in this trace."""
        match expr:
            case Input(path, kind):
                key: Any = ("input", path, kind)
                depth = 0
            case Const(value, kind):
                key, depth = ("const", scalar_key(value), kind), 0
            case Call(op, args, kind, table, path):
                key = (op, tuple(map(id, args)), kind, id(table), path)
                depth = 1 + max((self.depths[id(arg)] for arg in args), default=0)
        if (same := self.interned.get(key)) is not None:
            return same
        if len(self.interned) > _MOST_NODES or depth > _MOST_DEPTH:
            self.refuse("makes an expression that is too large")
        self.interned[key] = expr
        self.depths[id(expr)] = depth
        return expr

    def make(
        self,
        op: Operation,
        kind: Kind,
        *args: Expr,
        table: Mapping[Any, Any] | LookupTable | None = None,
        path: tuple[str | int, ...] = (),
        partial: bool = False,
    ) -> TracedSymbol:
        """An operation on expressions that are not all constant. ``partial``: Python raises for some arguments."""
        call = self.intern(Call(op, args, kind, table, path))
        if partial:
            self.now.partial[id(call)] = call
        return TracedSymbol(self, call)

    def named(self, name: str, *args: Any) -> Any:
        """The function of ``FUNCTIONS`` with this name, as :meth:`applied`; None if there is none."""
        op = FUNCTIONS.get(name)
        return None if op is None else self.applied(op, *args)

    def applied(self, op: Operation, *args: Any) -> Any:
        """A function of Python; None where it does not take such arguments."""
        kinds, gives = op.signature.kinds(len(args)), op.signature.gives
        if kinds is None or gives is None or (op is REPR and self.kind(args[0]) == TIMESTAMP):
            return None
        exprs = []
        for at, (kind, arg) in enumerate(zip(kinds, args, strict=True)):
            own = self.kind(arg)
            if kind == FLOAT and own in NUMBERS:
                arg = self.as_number(arg, FLOAT)
            elif own not in SCALARS if kind is None else own != kind:
                return None
            if at in op.fixed:
                if isa(arg, Proxy):
                    return None
                self.bounded(op, arg, TIMESTAMP in map(self.kind, args))
            exprs.append(self.expr(arg) if op is IN_UTC else self.only_utc(self.expr(arg)))
        return self.make(op, gives, *exprs, partial=not op.is_total)

    def bounded(self, op: Operation, constant: Any, times: bool) -> None:
        """Refuse a constant that asks for very long text, or lets a value say how long it is, or shows of a time what
        columns do not keep (its ``fold``)."""
        widths = [constant] if type(constant) is int else list(map(int, re.findall(r"\d+", constant)))
        if any(width > WIDEST for width in widths):
            self.refuse(f"makes text of more than {WIDEST} characters")
        if (op is PERCENT and "*" in constant) or (op is FORMAT_FIELDS and re.search(r"{[^{}]*{[^{]", constant)):
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

    def only_utc(self, expr: Expr) -> Expr:
        """The same, where more than the instant of a time counts: a time of a row in another zone than UTC has no value."""
        return self.without_zones(expr, {}) if self.has_zone_of_row(expr) else expr

    def without_zones(self, expr: Expr, done: dict[int, Expr]) -> Expr:
        """:meth:`only_utc` of an expression and its parts, each once."""
        if not isinstance(expr, Call) or not self.has_zone_of_row(expr):
            return expr
        if id(expr) not in done:
            op = expr.op
            if (times := ZONES.get(op)) is not None:
                if has_no_zone(expr):
                    self.refuse("uses a datetime without a time zone")
                op = times.only_utc
                self.now.partial.pop(id(expr), None)  # where this has no value, the new one has none
            args = [self.without_zones(arg, done) for arg in expr.args]
            symbol = self.make(op, TIMESTAMP, *args, table=expr.table, path=expr.path, partial=not op.is_total)
            done[id(expr)] = expr_of(symbol)
        return done[id(expr)]

    def has_zone_of_row(self, expr: Expr) -> bool:
        """Whether it is a time in a zone that may be another one in each row."""
        if not isinstance(expr, Call) or expr.kind != TIMESTAMP or expr.op is IN_UTC:
            return False
        if (known := self.zones.get(id(expr))) is None:
            known = self.zones[id(expr)] = expr.op in ZONES or any(map(self.has_zone_of_row, expr.args))
        return known

    def in_utc(self, time: Any) -> Any:
        """``time.replace(tzinfo=UTC)``."""
        expr = expr_of(time)
        if isinstance(expr, Call) and (times := ZONES.get(expr.op)) is not None:
            self.now.partial.pop(id(expr), None)
            return self.make(times.in_utc, TIMESTAMP, *expr.args, partial=True)
        return TracedSymbol(self, self.only_utc(expr))

    def clock(self, time: Any) -> Expr:
        """A time of which only the fields are read, such as its hour."""
        expr = expr_of(time)
        return expr_of(self.in_utc(time)) if has_no_zone(expr) else self.only_utc(expr)

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
        if isa(value, TracedMatch):
            return re.Match
        kind = self.kind(value)
        cls = CLASSES.get(type(kind))
        if cls is None:
            self.refuse(f"looks into a {word_of(kind)}")
        return cls

    def check_constant(self, value: Any) -> None:
        """As :meth:`expr` does, without keeping it."""
        if type(value) is int and not INT_MIN <= value <= INT_MAX:
            self.refuse("looks up an integer beyond 64 bits")
        if type(value) is dt.datetime:
            self.check_time(value)
        if type(value) is str and not value.isascii():
            self.expr(value)

    @abstractmethod
    def as_number(self, value: Any, kind: Kind) -> Any:
        """A number as Python converts it before arithmetic with one of ``kind``."""


def has_no_zone(expr: Expr) -> bool:
    """Whether it is a call of ``strptime`` whose times never have a zone."""
    if not isinstance(expr, Call) or expr.op is not TIMES_OF_TEXT["strptime"].instant:
        return False
    form = expr.args[1]
    return isinstance(form, Const) and not re.search("%:?z", form.value.replace("%%", ""))
