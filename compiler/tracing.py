"""Tracing: an operator's Python methods, called with symbolic arguments, as the trees of :mod:`tracetypes.compiler.expr`.

A method is run once for each way through it. Its arguments are symbols that record what is done with them; a condition on
symbols is a decision, and the method is run again for each outcome that was not seen yet. The author's functions are
compiled again first (:mod:`tracetypes.compiler.syntax`), so that every operation passes through the :class:`_Tracer`.

A tree is never wrong. For every row :func:`tracetypes.compiler.expr.run` gives what the method would have given, or it is
undefined: where Python raises, where an integer leaves 64 bits, and where the answer would depend on something that
expressions cannot say (is a NaN in a tuple the same object as another; is an integer beyond 2**53 less than a float). What
cannot be traced raises :class:`Untraceable` with the reason and the author's line.
"""

from __future__ import annotations

import builtins
import dataclasses
import datetime as dt
import enum
import functools
import math
import operator
import struct
import sys
import types
import typing
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NewType, NoReturn, TypeAlias, final

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.asked import AskedTable
from tracetypes.compiler.expr import (
    Branch,
    Call,
    Const,
    Emission,
    Exact,
    Expr,
    Input,
    Kind,
    Leaf,
    Pack,
    Tree,
    Value,
)
from tracetypes.compiler.syntax import TRACER, NoSource, is_rewritten, rewritten
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    UNIT,
    Boolean,
    Bytes,
    Date,
    Float,
    Integer,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    Unit,
    UnitValue,
    name_of,
)
from tracetypes.templates import OpKeyedUnordered, OpStateless

__all__ = [
    "Fixed",
    "Given",
    "Nested",
    "Shape",
    "Untraceable",
    "shape_of",
    "trace",
    "trace_function",
    "trace_lift",
    "trace_method",
    "trace_on_item",
]

_BOOLEAN: Final = Boolean()
_INTEGER: Final = Integer()
_FLOAT: Final = Float()
_STRING: Final = String()
_TIMESTAMP: Final = Timestamp()
_DATE: Final = Date()
_EXACT: Final = Exact()
_NUMBERS: Final = (_BOOLEAN, _INTEGER, _FLOAT)

_MOST_NODES: Final = 20_000
_MOST_CONDITIONS: Final = 200_000
_MOST_DEPTH: Final = 150
_EXACT_FLOATS: Final = 2**53
_DAY: Final = 86_400_000_000
_MICROSECOND: Final = dt.timedelta(microseconds=1)


class Untraceable(Exception):
    """The function cannot be written as a tree; the text says why, for a person."""


# ------------------------------------------------------------------------------------------------------ shapes


@final
@attrs.frozen
class Given:
    """An argument of a known schema; its scalars are inputs ``(name, field, ...)``."""

    name: str
    schema: Schema


@final
@attrs.frozen(eq=False)
class Fixed:
    """An argument that is known now and never another."""

    value: Any


@final
@attrs.frozen(eq=False)
class Nested:
    """An aggregate or a state: tuples and records as in ``template``, whose leaves say the kinds of the scalars.

    A leaf None of no kind is always None.
    """

    name: str
    template: Value


Shape: TypeAlias = Given | Fixed | Nested


def shape_of(value: Value, name: str) -> Value:
    """The same structure with inputs ``(name, field or place, ...)`` for its scalars. A None of no kind stays."""
    return _shape(value, (name,))


def _shape(value: Value, path: tuple[str | int, ...]) -> Value:
    if isinstance(value, Pack):
        steps: Iterable[str | int] = value.names or range(len(value.parts))
        parts = tuple(_shape(part, (*path, step)) for part, step in zip(value.parts, steps, strict=True))
        return Pack(value.cls, value.names, parts)
    return value if value.kind is None or isinstance(value.kind, UnitValue) else Input(path, value.kind)


# -------------------------------------------------------------------------------------------------- interface

Emits: TypeAlias = Literal["pairs", "values", None]


def trace(function: Callable[..., Any], arguments: Sequence[Shape], *, emits: Emits, limit: int = 64) -> Tree:
    """The tree of a function of these arguments.

    ``emits``: a last argument ``emit`` is added that takes a key and a value, or a value only; None: it is not. With
    ``"pairs"`` what the function returns does not count. ``limit``: the most paths. Raises :class:`Untraceable`.
    """
    return _Explorer(function, tuple(arguments), emits, limit).tree()


def trace_method(op: object, method: str, arguments: Sequence[Shape], *, emits: Emits, limit: int = 64) -> Tree:
    """The tree of a method of an operator, aggregate or other frozen object. Raises :class:`Untraceable`."""
    return trace(getattr(op, method), arguments, emits=emits, limit=limit)


def trace_on_item(op: OpStateless[Any, Any, Any, Any], key: Schema, value: Schema, *, limit: int = 64) -> Tree:
    """The tree of ``on_item`` of a stateless operator; inputs ``key`` and ``value``. Raises :class:`Untraceable`."""
    return trace(op.on_item, (Given("key", key), Given("value", value)), emits="pairs", limit=limit)


def trace_lift(
    op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], key: Schema, value: Schema, *, limit: int = 64
) -> Tree:
    """The tree of ``lift``; inputs ``key`` and ``value``. Raises :class:`Untraceable`."""
    return trace(op.lift, (Given("key", key), Given("value", value)), emits=None, limit=limit)


def trace_function(function: Callable[[Any], Any], schema: Schema, *, limit: int = 64) -> Tree:
    """The tree of a function of one value, as of ``every(time=...)`` and ``key=``; input ``value``.

    Raises :class:`Untraceable`.
    """
    return trace(function, (Given("value", schema),), emits=None, limit=limit)


# ------------------------------------------------------------------------------------------------ control flow


def _isa(value: Any, classes: Any) -> bool:
    """``isinstance`` of what a value really is: symbols say that they are of the author's classes."""
    return issubclass(type(value), classes)


class _Stop(BaseException):
    """Untraceable, on its way out; no ``except Exception`` holds it up."""


class _Raised(BaseException):
    """This path ends in an exception, or must be done in Python."""


class _Undo(BaseException):
    """This cannot be done on trial."""


@final
@attrs.define(eq=False)
class _Run:
    """One way through the function."""

    forced: tuple[bool, ...]
    trail: list[tuple[Expr, bool]] = attrs.Factory(list)
    known: dict[int, bool] = attrs.Factory(dict)
    emissions: list[Emission] = attrs.Factory(list)
    partial: dict[int, Expr] = attrs.Factory(dict)
    """What was computed and may be undefined where Python raises, by identity."""
    owned: dict[int, Any] = attrs.Factory(dict)
    """Containers that the function made itself, by identity."""
    trials: int = 0
    conditions: int = 0
    ended: BaseException | None = None


@final
class _Explorer:
    """Runs a function once for each way through it: depth first, the outcome True before False."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Shape, ...], emits: Emits, limit: int) -> None:
        self.function, self.arguments, self.emits, self.limit = function, arguments, emits, limit
        self.tracer = _Tracer(limit)
        self.paths = 0
        self.first_exception: str | None = None
        self.returned = False

    def tree(self) -> Tree:
        try:
            made = self.explore(())
            if not self.returned:
                raise _Stop(f"always raises {self.first_exception}")
            return made
        except _Stop as stop:
            raise Untraceable(str(stop)) from None

    def explore(self, forced: tuple[bool, ...]) -> Tree:
        self.paths += 1
        if self.paths > self.limit:
            raise _Stop(f"takes more than {self.limit} ways")
        run, leaf = self.once(forced)
        again, other = self.once(tuple(taken for _, taken in run.trail))
        if [id(c) for c, _ in run.trail] != [id(c) for c, _ in again.trail] or not _same_leaf(leaf, other):
            raise _Stop("is not deterministic: two runs of the same path differ")
        tree = self.guarded(run, leaf)
        for at in reversed(range(len(forced), len(run.trail))):
            before = tuple(taken for _, taken in run.trail[:at])
            tree = Branch(run.trail[at][0], tree, self.explore((*before, False)))
        return tree

    def once(self, forced: tuple[bool, ...]) -> tuple[_Run, Leaf]:
        """Run it, taking the decisions in ``forced`` and then the outcome True."""
        tracer = self.tracer
        run = tracer.run = _Run(forced)
        leaf: Leaf | None = None
        try:
            arguments = [tracer.argument(shape) for shape in self.arguments]
            if self.emits is not None:
                arguments.append(_Emit(tracer, self.emits))
            returned = tracer.call(self.function, *arguments)
            if type(returned) is types.GeneratorType:
                raise _Stop("yields instead of calling emit")
            result = None if self.emits == "pairs" else tracer.value_of(returned, "returns")
            leaf = Leaf(tuple(run.emissions), result)
        except _Raised:
            self.first_exception = self.first_exception or "an exception"
        except RecursionError:
            raise _Stop("recurses too deep") from None
        except Exception as error:
            if any(name in str(error) for name in ("_Symbol", "_Deferred", "_Duration", "_Method", "_Emit")):
                raise _Stop(f"needs a real value ({type(error).__name__}){tracer.line(error.__traceback__)}") from error
            self.first_exception = self.first_exception or f"{type(error).__name__}: {error}"
        finally:
            tracer.run = None
        if isinstance(run.ended, _Stop):
            raise run.ended
        if leaf is None or run.ended is not None:
            return run, Leaf(raises=True)
        self.returned = True
        if len(run.trail) < len(forced):
            raise _Stop("is not deterministic: two runs of the same path differ")
        return run, leaf

    def guarded(self, run: _Run, leaf: Leaf) -> Tree:
        """What Python computed for nothing may still have raised: then the path must not give an answer."""
        if leaf.raises or not run.partial:
            return leaf
        reached: set[int] = set()
        for condition, _ in run.trail:
            _reach(condition, reached)
        for emission in leaf.emissions:
            if emission.key is not None:
                _reach(emission.key, reached)
            _reach(emission.value, reached)
        if leaf.result is not None:
            _reach(leaf.result, reached)
        tree: Tree = leaf
        for expr in reversed(run.partial.values()):
            if id(expr) not in reached:
                _reach(expr, reached)
                tree = Branch(self.tracer.intern(Call("eq", (expr, expr), _BOOLEAN)), tree, tree)
        return tree


def _reach(value: Value, reached: set[int]) -> None:
    """All that is evaluated whenever ``value`` is."""
    pending: list[Value] = [value]
    while pending:
        at = pending.pop()
        if id(at) in reached:
            continue
        reached.add(id(at))
        if isinstance(at, Pack):
            pending.extend(at.parts)
        elif isinstance(at, Call):
            pending.extend(at.args[:1] if at.op == "if" else at.args)


def _same_leaf(a: Leaf, b: Leaf) -> bool:
    def same(x: Value | None, y: Value | None) -> bool:
        if isinstance(x, Pack) and isinstance(y, Pack):
            return x.cls is y.cls and len(x.parts) == len(y.parts) and all(map(same, x.parts, y.parts))
        return x is y

    return (
        a.raises == b.raises
        and len(a.emissions) == len(b.emissions)
        and all(same(x.key, y.key) and same(x.value, y.value) for x, y in zip(a.emissions, b.emissions, strict=True))
        and same(a.result, b.result)
    )


# ---------------------------------------------------------------------------------------------------- proxies


def _binary(name: str, *, reflected: bool = False) -> Callable[[Any, Any], Any]:
    if reflected:
        return lambda self, other: self._tracer.binary(name, other, self)
    return lambda self, other: self._tracer.binary(name, self, other)


def _compared(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._tracer.compare_inside(name, self, other)


def _unary(name: str) -> Callable[[Any], Any]:
    return lambda self: self._tracer.unary(name, self)


def _needs(what: str) -> Callable[..., Any]:
    return lambda self, *args: self._tracer.refuse(what)


class _Proxy:
    """Stands for a value that is not known. What is done to it in code that was not compiled again arrives here."""

    __slots__ = ("_tracer",)
    _tracer: _Tracer

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        return self._tracer.class_of(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._tracer.attribute(self, name)

    def __bool__(self) -> bool:
        return self._tracer.truth(self)

    def __getitem__(self, index: Any) -> Any:
        return self._tracer.item(self, index)

    def __contains__(self, part: Any) -> bool:
        return self._tracer.truth(self._tracer.compare("In", part, self))

    __eq__ = _compared("Eq")
    __ne__ = _compared("NotEq")
    __lt__ = _compared("Lt")
    __le__ = _compared("LtE")
    __gt__ = _compared("Gt")
    __ge__ = _compared("GtE")
    __add__, __radd__ = _binary("Add"), _binary("Add", reflected=True)
    __sub__, __rsub__ = _binary("Sub"), _binary("Sub", reflected=True)
    __mul__, __rmul__ = _binary("Mult"), _binary("Mult", reflected=True)
    __truediv__, __rtruediv__ = _binary("Div"), _binary("Div", reflected=True)
    __floordiv__, __rfloordiv__ = _binary("FloorDiv"), _binary("FloorDiv", reflected=True)
    __mod__, __rmod__ = _binary("Mod"), _binary("Mod", reflected=True)
    __pow__, __rpow__ = _binary("Pow"), _binary("Pow", reflected=True)
    __and__, __rand__ = _binary("BitAnd"), _binary("BitAnd", reflected=True)
    __or__, __ror__ = _binary("BitOr"), _binary("BitOr", reflected=True)
    __xor__, __rxor__ = _binary("BitXor"), _binary("BitXor", reflected=True)
    __lshift__, __rlshift__ = _binary("LShift"), _binary("LShift", reflected=True)
    __rshift__, __rrshift__ = _binary("RShift"), _binary("RShift", reflected=True)
    __matmul__, __rmatmul__ = _binary("MatMult"), _binary("MatMult", reflected=True)
    __neg__, __pos__, __invert__ = _unary("USub"), _unary("UAdd"), _unary("Invert")
    __abs__ = _unary("Abs")
    __hash__ = _needs("hashes a value")
    __iter__ = _needs("iterates over a value")
    __len__ = _needs("takes a length")
    __int__ = __index__ = _needs("converts a value to int")
    __float__ = __complex__ = _needs("converts a value to float")
    __str__ = __repr__ = _needs("turns a value into text")
    __format__ = _needs("formats a value")
    __bytes__ = _needs("turns a value into bytes")
    __round__ = __trunc__ = __floor__ = __ceil__ = _needs("rounds a value")
    __divmod__ = __rdivmod__ = _needs("calls divmod")
    __call__ = _needs("calls a value")
    __setitem__ = __delitem__ = _needs("changes a value")
    __enter__ = __exit__ = __next__ = __await__ = _needs("uses a value in a way that is not known")
    __copy__ = __deepcopy__ = __reduce_ex__ = _needs("copies a value")


@final
class _Symbol(_Proxy):
    """A scalar, never None."""

    __slots__ = ("_expr",)

    def __init__(self, tracer: _Tracer, expr: Expr) -> None:
        self._tracer, self._expr = tracer, expr


@final
class _Deferred(_Proxy):
    """A value of optional schema that nobody looked at."""

    __slots__ = ("_input", "_made")

    def __init__(self, tracer: _Tracer, input: Expr) -> None:
        self._tracer, self._input = tracer, input
        self._made: list[Any] = []


@final
class _Duration(_Proxy):
    """A ``timedelta``; ``_micros`` is an Integer symbol or an int."""

    __slots__ = ("_micros",)

    def __init__(self, tracer: _Tracer, micros: Any) -> None:
        self._tracer, self._micros = tracer, micros


@final
class _Method:
    """A method of a symbol, not called yet."""

    __slots__ = ("name", "owner", "tracer")

    def __init__(self, tracer: _Tracer, owner: Any, name: str) -> None:
        self.tracer, self.owner, self.name = tracer, owner, name

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.tracer.call_method(self.owner, self.name, args, keywords)


@final
class _Emit:
    """The author's ``emit``."""

    __slots__ = ("pairs", "tracer")

    def __init__(self, tracer: _Tracer, emits: str) -> None:
        self.tracer, self.pairs = tracer, emits == "pairs"

    def __call__(self, *args: Any) -> None:
        self.tracer.emit(self.pairs, args)


# --------------------------------------------------------------------------------------------- known functions

_OPERATORS: Final[Mapping[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "Add": (operator.add, "add"),
    "Sub": (operator.sub, "sub"),
    "Mult": (operator.mul, "mul"),
    "Div": (operator.truediv, "truediv"),
    "FloorDiv": (operator.floordiv, "floordiv"),
    "Mod": (operator.mod, "mod"),
    "Pow": (operator.pow, "pow"),
    "BitAnd": (operator.and_, "and"),
    "BitOr": (operator.or_, "or"),
    "BitXor": (operator.xor, "xor"),
    "LShift": (operator.lshift, "lshift"),
    "RShift": (operator.rshift, "rshift"),
    "MatMult": (operator.matmul, "matmul"),
}
_IN_PLACE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.iadd,
    "Mult": operator.imul,
    "BitAnd": operator.iand,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "Sub": operator.isub,
}
_COMPARISONS: Final[Mapping[str, tuple[Callable[[Any, Any], Any], str, str]]] = {
    "Eq": (operator.eq, "eq", "Eq"),
    "NotEq": (operator.ne, "ne", "NotEq"),
    "Lt": (operator.lt, "lt", "Gt"),
    "LtE": (operator.le, "le", "GtE"),
    "Gt": (operator.gt, "gt", "Lt"),
    "GtE": (operator.ge, "ge", "LtE"),
}
_UNARY: Final[Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "USub": (operator.neg, "neg"),
    "UAdd": (operator.pos, "pos"),
    "Invert": (operator.invert, "invert"),
    "Abs": (abs, "abs"),
}
_SYMBOLS: Final[Mapping[str, str]] = {
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "Pow": "**",
    "BitAnd": "&",
    "BitOr": "|",
    "BitXor": "^",
    "LShift": "<<",
    "RShift": ">>",
    "MatMult": "@",
    "USub": "-",
    "UAdd": "+",
    "Invert": "~",
    "Abs": "abs",
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
}

_CHANGING: Final = frozenset(
    [
        "add",
        "append",
        "appendleft",
        "clear",
        "difference_update",
        "discard",
        "extend",
        "extendleft",
        "insert",
        "intersection_update",
        "move_to_end",
        "pop",
        "popitem",
        "popleft",
        "remove",
        "reverse",
        "rotate",
        "setdefault",
        "sort",
        "subtract",
        "symmetric_difference_update",
        "update",
        "__setitem__",
        "__delitem__",
        "__iadd__",
        "__ior__",
        "__setattr__",
        "__delattr__",
    ]
)
_IMMUTABLE: Final = (str, bytes, tuple, frozenset, int, float, dt.date, dt.timedelta, types.MappingProxyType)
_IMPURE_MODULES: Final = frozenset(
    [
        "time",
        "random",
        "_random",
        "secrets",
        "uuid",
        "os",
        "posix",
        "io",
        "_io",
        "socket",
        "subprocess",
        "threading",
        "_thread",
        "sys",
        "logging",
        "tempfile",
    ]
)
_IMPURE: Final = frozenset(
    {"breakpoint", "delattr", "eval", "exec", "globals", "id", "input", "locals", "open", "print", "setattr", "vars"}
)
_CLOCKS: Final = frozenset({"now", "today", "utcnow"})
_ALLOWED: Final[tuple[Any, ...]] = (tuple, list, dict, set, frozenset, enumerate, zip, reversed, iter, range, slice)
"""Builtins that only store, count or compare what they are given."""

_TOTAL: Final = frozenset(
    [
        "to_float",
        "eq",
        "lt",
        "le",
        "not",
        "and",
        "or",
        "is_null",
        "length",
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "startswith",
        "endswith",
        "contains",
        "replace",
        "concat",
        "slice",
        "to_str",
        "micros",
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "microsecond",
        "weekday",
        "date",
        "exact",
        "exact_value",
        "exact_over",
        "has",
    ]
)
_CLASSES: Final[Mapping[Any, type[Any]]] = {
    Boolean: bool,
    Integer: int,
    Float: float,
    String: str,
    Bytes: bytes,
    Timestamp: dt.datetime,
    Date: dt.date,
    UnitValue: Unit,
    Exact: ExactSum,
}
_COLUMNS: Final = (Boolean, Integer, Float, String, Bytes, Timestamp, Date)
"""What the columns of an asked table may hold."""

_KINDS: Final[Mapping[type[Any], Kind]] = {cls: kind() for kind, cls in _CLASSES.items()}
_TEXT_METHODS: Final = ("lower", "upper", "strip", "lstrip", "rstrip", "startswith", "endswith", "replace")
_TIME_FIELDS: Final = ("year", "month", "day", "hour", "minute", "second", "microsecond")


def _generated(function: Any) -> bool:
    """Was the function written by attrs, dataclasses or collections?"""
    code = getattr(function, "__code__", None)
    return code is not None and (
        code.co_filename.startswith("<attrs generated")
        or code.co_qualname.startswith("__create_fn__")
        or function.__globals__.get("__name__", "").startswith("namedtuple_")
    )


def _fields(cls: type[Any]) -> tuple[str, ...] | None:
    """The fields of a record class in the order of its schema, or None."""
    if attrs.has(cls):
        return tuple(a.name for a in attrs.fields(cls))
    if dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple(cls._fields)
    return None


def _problem(cls: type[Any], *, construct: bool) -> str | None:
    """Why instances of a record class cannot be made from symbols, or from their own fields again.

    ``construct``: the author calls the class; otherwise the fields have been through its constructor already.
    """
    if attrs.has(cls):
        if any(not a.init or a.alias != a.name for a in attrs.fields(cls)):
            return "has fields that are not arguments"
        if any(a.converter is not None for a in attrs.fields(cls)):
            return "has converters"
        if construct and any(a.validator is not None for a in attrs.fields(cls)):
            return "has validators"
        if construct and any(getattr(a.default, "takes_self", False) for a in attrs.fields(cls)):
            return "has defaults that depend on other fields"
        made = cls.__new__ is object.__new__ and _generated(cls.__init__)
        hooks: tuple[str, ...] = ("__attrs_post_init__", "__attrs_pre_init__")
    elif dataclasses.is_dataclass(cls):
        if any(not f.init for f in dataclasses.fields(cls)):
            return "has fields that are not arguments"
        made, hooks = cls.__new__ is object.__new__ and _generated(cls.__init__), ("__post_init__",)
    else:
        made, hooks = cls.__init__ is object.__init__ and _generated(cls.__new__), ()
    if not made or any(hasattr(cls, hook) for hook in hooks):
        return "has a constructor of its own"
    if "__getattribute__" in {name for base in cls.__mro__[:-1] for name in base.__dict__ if base is not tuple}:
        return "defines __getattribute__"
    return None


# ------------------------------------------------------------------------------------------------------ tracer


@final
class _Tracer:
    """What rewritten code calls, and what proxies do. Lives as long as one trace; ``run`` is the current path."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.run: _Run | None = None
        self.interned: dict[Any, Expr] = {}
        self.depths: dict[int, int] = {}
        self.functions: dict[int, tuple[Any, Any]] = {}
        self.tables: dict[Any, tuple[Any, Mapping[Any, Any]]] = {}
        self.contents: dict[Any, Mapping[Any, Any]] = {}
        self.layouts: dict[Any, Any] = {}
        self.checked: set[tuple[int, type[Any]]] = set()

    @property
    def now(self) -> _Run:
        if self.run is None:
            raise _Stop("uses a value after the call has ended")
        return self.run

    # -------------------------------------------------------------------------------------------- refusing

    def line(self, traceback: types.TracebackType | None = None) -> str:
        """The author's line that is being run."""
        found: int | None = None
        while traceback is not None:
            if is_rewritten(traceback.tb_frame.f_code):
                found = traceback.tb_lineno
            traceback = traceback.tb_next
        frame = sys._getframe(1) if found is None else None
        while frame is not None and found is None:
            if is_rewritten(frame.f_code):
                found = frame.f_lineno
            frame = frame.f_back
        return "" if found is None else f" at line {found}"

    def refuse(self, what: str) -> NoReturn:
        """Give up."""
        stop = _Stop(what + self.line())
        if self.run is not None:
            self.run.ended = stop
        raise stop

    def raises(self) -> NoReturn:
        """End this path in an exception."""
        raised = _Raised()
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
                plain = struct.pack("<d", value) if type(value) is float else value
                key, depth = ("const", type(value), plain, kind), 0
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
        table: Mapping[Any, Any] | AskedTable | None = None,
        path: tuple[str | int, ...] = (),
        partial: bool = False,
    ) -> _Symbol:
        """An operation on expressions that are not all constant. ``partial``: Python raises for some arguments."""
        made = self.intern(Call(op, args, kind, table, path))
        if partial:
            self.now.partial[id(made)] = made
        return _Symbol(self, made)

    def kind(self, value: Any) -> Kind | None:
        """The kind of a scalar, symbolic or not; None for what is no scalar (None, records, ...)."""
        if _isa(value, _Symbol):
            return _expr_of(value).kind
        return _KINDS.get(type(value))

    def expr(self, value: Any) -> Expr:
        """A scalar as an expression."""
        if _isa(value, _Symbol):
            return _expr_of(value)
        kind = self.kind(value)
        if kind is None:
            self.refuse(f"uses {_describe(value)} where a scalar is needed")
        if kind == _INTEGER and not INT_MIN <= value <= INT_MAX:
            self.refuse("uses an integer beyond 64 bits")
        if kind == _STRING:
            try:
                value.encode()
            except UnicodeEncodeError:
                self.refuse("uses text that is not valid Unicode")
        if kind == _TIMESTAMP:
            if value.tzinfo is None:
                self.refuse("uses a datetime without a time zone")
            if not isinstance(value.tzinfo, dt.timezone):
                self.refuse("uses a datetime of a zone other than UTC")
            if value.tzinfo is not dt.UTC:
                value = value.astimezone(dt.UTC)
        return self.intern(Const(value, kind))

    def class_of(self, value: _Proxy) -> type[Any]:
        """The class that an author sees."""
        if _isa(value, _Deferred):
            made = self.settle(value)
            return made.__class__  # type: ignore[no-any-return]
        if _isa(value, _Duration):
            return dt.timedelta
        kind = self.kind(value)
        found = _CLASSES.get(type(kind))
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
                return _Deferred(self, self.intern(Input(path, kind)))
            case _:
                return _Symbol(self, self.intern(Input(path, kind)))

    def record(self, cls: type[Any], fields: Sequence[tuple[str, Any]]) -> Any:
        """An instance with these fields, made without its constructor, through which they have been already."""
        if issubclass(cls, tuple):
            return tuple.__new__(cls, [value for _, value in fields])
        problem = _problem(cls, construct=False)
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

    def settle(self, value: Any) -> Any:
        """The value itself where it was not looked at yet: now it is decided whether it is None."""
        if not _isa(value, _Deferred):
            return value
        input: Expr = value._input
        if self.decide(self.intern(Call("is_null", (input,), _BOOLEAN))):
            return None
        if not value._made:
            assert isinstance(input, Input)
            assert isinstance(input.kind, Optional)
            value._made.append(self.input(input.path, input.kind.item))
        return value._made[0]

    def value_of(self, value: Any, what: str) -> Value:
        """What is emitted or returned, as the tree has it."""
        if _isa(value, _Deferred):
            input: Expr = value._input
            if id(self.intern(Call("is_null", (input,), _BOOLEAN))) not in self.now.known:
                return input
            value = self.settle(value)
        if value is None:
            return self.intern(Const(None, None))
        if _isa(value, _Symbol):
            return _expr_of(value)
        kind = self.kind(value)
        if kind is not None:
            if kind == _INTEGER and not INT_MIN <= value <= INT_MAX:
                self.refuse(f"{what} an integer beyond 64 bits")
            return self.intern(Const(value, kind))
        if type(value) is tuple:
            return Pack(tuple, (), tuple(self.value_of(part, what) for part in value))
        names = None if _isa(value, _Proxy | type) else _fields(type(value))
        if names is None:
            self.refuse(f"{what} {_describe(value)}")
        if problem := _problem(type(value), construct=False):
            self.refuse(f"{what} a {type(value).__name__}, which {problem}")
        parts = value if _isa(value, tuple) else [getattr(value, name) for name in names]
        return Pack(type(value), names, tuple(self.value_of(part, what) for part in parts))

    def emit(self, pairs: bool, args: tuple[Any, ...]) -> None:
        """One call of the author's ``emit``."""
        if self.now.trials:
            raise _Undo
        if len(args) != 1 + pairs:
            raise TypeError("emit takes a key and a value" if pairs else "emit takes a value")
        key = self.value_of(args[0], "emits") if pairs else None
        self.now.emissions.append(Emission(key, self.value_of(args[-1], "emits")))

    # -------------------------------------------------------------------------------------------- decisions

    def decide(self, condition: Expr) -> bool:
        """The outcome of a condition on this path."""
        run = self.now
        if isinstance(condition, Const):
            return bool(condition.value)
        if isinstance(condition, Call) and condition.op == "not":
            return not self.decide(condition.args[0])
        if (known := run.known.get(id(condition))) is not None:
            return known
        if run.trials:
            raise _Undo
        at = len(run.trail)
        if at >= self.limit:
            self.refuse(f"takes more than {self.limit} decisions on one way")
        taken = run.forced[at] if at < len(run.forced) else True
        run.trail.append((condition, taken))
        run.known[id(condition)] = taken
        return taken

    def condition(self, value: Any) -> Any:
        """``bool(value)`` as a bool or a Boolean symbol."""
        value = self.settle(value)
        if _isa(value, _Duration):
            return self.compare("NotEq", value._micros, 0)
        if not _isa(value, _Symbol):
            method = getattr(type(value), "__bool__", None)
            if method is None:
                self.length_of_its_own(value)
            elif _isa(method, types.FunctionType) and self.holds(value):
                made = self.settle(self.call(method, value))
                if self.kind(made) != _BOOLEAN:
                    raise TypeError("__bool__ should return bool")
                return made
            return bool(value)
        match self.kind(value):
            case Boolean():
                return value
            case Integer():
                return self.compare("NotEq", value, 0)
            case Float():
                return self.compare("NotEq", value, 0.0)
            case String():
                return self.compare("NotEq", self.length(value), 0)
            case Timestamp() | Date() | Exact():
                return True
            case kind:
                self.refuse(f"looks into a {type(kind).__name__}")

    def truth(self, value: Any) -> bool:
        """A condition of ``if``, ``while`` and the like."""
        self.now.conditions += 1
        if self.now.conditions > _MOST_CONDITIONS:
            self.refuse("does not end")
        condition = self.condition(value)
        return self.decide(condition._expr) if _isa(condition, _Symbol) else condition

    def known(self, condition: _Symbol) -> bool | None:
        """The outcome if it was decided."""
        expr, turned = condition._expr, False
        while isinstance(expr, Call) and expr.op == "not":
            expr, turned = expr.args[0], not turned
        found = self.now.known.get(id(expr))
        return None if found is None else found != turned

    def attempt(self, thunk: Callable[[], Any]) -> tuple[Any, dict[int, Expr]] | None:
        """What an expression without effects gives, and what in it may be undefined; None if it takes a decision."""
        run = self.now
        before, run.partial = run.partial, {}
        ended = run.ended
        run.trials += 1
        try:
            made = self.settle(thunk())
            return made, run.partial
        except (_Undo, _Stop, _Raised, Exception):
            run.ended = ended
            return None
        finally:
            run.trials -= 1
            run.partial = before

    def attempt_scalar(self, thunk: Callable[[], Any]) -> tuple[Any, bool] | None:
        """A scalar that says by itself all that may be undefined in it, and whether there is something; or None."""
        tried = self.attempt(thunk)
        if tried is None or (_isa(tried[0], _Proxy) and not _isa(tried[0], _Symbol)):
            return None
        made, partial = tried
        if self.kind(made) is None or isinstance(self.kind(made), UnitValue):
            return None
        reached: set[int] = set()
        _reach(self.expr(made), reached)
        return (made, bool(partial)) if reached.issuperset(partial) else None

    def choose(self, plain: bool, test: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """``then if test else otherwise``. ``plain``: both may be evaluated on trial."""
        condition = self.condition(test)
        if _isa(condition, _Symbol) and (known := self.known(condition)) is not None:
            condition = known
        if not _isa(condition, _Symbol):
            return then() if condition else otherwise()
        if plain:
            first, second = self.attempt_scalar(then), self.attempt_scalar(otherwise)
            if first is not None and second is not None and self.kind(first[0]) == self.kind(second[0]):
                return self.counted(self.either(condition, first[0], second[0]), first[1] or second[1])
        return then() if self.decide(condition._expr) else otherwise()

    def counted(self, value: Any, partial: bool) -> Any:
        """The value, which may be undefined where Python raises if ``partial`` says so."""
        if partial:
            expr = self.expr(value)
            self.now.partial[id(expr)] = expr
        return value

    def either(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """One of two scalars; without a decision if they are of one kind."""
        if not _isa(condition, _Symbol):
            return then if condition else otherwise
        if (known := self.known(condition)) is not None:
            return then if known else otherwise
        kind = self.kind(then)
        if kind is None or kind != self.kind(otherwise) or isinstance(kind, UnitValue):
            return then if self.decide(condition._expr) else otherwise
        first, second = self.expr(then), self.expr(otherwise)
        if first is second:
            return then
        return self.make("if", kind, condition._expr, first, second)

    def all_of(self, plain: bool, first: Any, *others: Callable[[], Any]) -> Any:
        """``first and ...``."""
        return self.junction(plain, True, first, others)

    def any_of(self, plain: bool, first: Any, *others: Callable[[], Any]) -> Any:
        """``first or ...``."""
        return self.junction(plain, False, first, others)

    def junction(self, plain: bool, conjunction: bool, first: Any, others: Sequence[Callable[[], Any]]) -> Any:
        value = self.settle(first)
        for thunk in others:
            if plain and _isa(value, _Symbol) and self.kind(value) == _BOOLEAN and self.known(value) is None:
                other = self.attempt_scalar(thunk)
                if other is not None and self.kind(other[0]) == _BOOLEAN:
                    value = self.counted(self.joined(conjunction, value, other[0]), other[1])
                    continue
            if self.truth(value) is not conjunction:
                return value
            value = self.settle(thunk())
        return value

    def joined(self, conjunction: bool, a: _Symbol, b: Any) -> Any:
        """``a and b`` or ``a or b`` of two Booleans."""
        if not _isa(b, _Symbol):
            return a if b is conjunction else b
        second = self.expr(b)
        if _is_total(second):
            return self.make("and" if conjunction else "or", _BOOLEAN, a._expr, second)
        fixed = self.expr(not conjunction)
        return self.make("if", _BOOLEAN, a._expr, *((second, fixed) if conjunction else (fixed, second)))

    def chain(self, names: tuple[str, ...], plain: bool, first: Any, *others: Callable[[], Any]) -> Any:
        """``a < b < c``."""
        left = [first]

        def step(name: str, thunk: Callable[[], Any]) -> Any:
            a, b = left[0], thunk()
            left[0] = b
            return self.compare(name, a, b)

        tried = self.attempt(lambda: [first, *(thunk() for thunk in others)]) if plain else None
        if tried is not None and not tried[1]:
            pairs = zip(names, tried[0], tried[0][1:], strict=False)
            steps = [functools.partial(self.compare, name, a, b) for name, a, b in pairs]
            return self.junction(True, True, steps[0](), steps[1:])
        return self.in_turn([functools.partial(step, name, thunk) for name, thunk in zip(names, others, strict=True)])

    def in_turn(self, steps: Sequence[Callable[[], Any]]) -> Any:
        value: Any = True
        for step in steps:
            value = step()
            if not self.truth(value):
                return value
        return value

    # ------------------------------------------------------------------------------------------- arithmetic

    def refuse_operator(self, name: str, *values: Any) -> NoReturn:
        kinds = " and ".join(_describe(value) for value in values)
        self.refuse(f"uses {_SYMBOLS[name]} on {kinds}")

    def overloaded(self, name: str, *args: Any) -> Callable[..., Any] | None:
        """The author's own operator of the first argument, if it holds symbols."""
        method = getattr(type(args[0]), name, None)
        if _isa(method, types.FunctionType) and not _generated(method) and self.holds(args):
            return method
        return None

    def binary(self, name: str, a: Any, b: Any) -> Any:
        """An arithmetic operator."""
        a, b = self.settle(a), self.settle(b)
        function, op = _OPERATORS[name]
        if not _isa(a, _Proxy) and not _isa(b, _Proxy):
            for suffix, first, second in (("__", a, b), ("__r", b, a)):
                if method := self.overloaded(f"{suffix}{function.__name__.strip('_')}__", first, second):
                    made = self.call(method, first, second)
                    if made is NotImplemented:
                        self.refuse_operator(name, a, b)
                    return made
            made = function(a, b)
            return self.own(made) if type(made) in (list, dict, set) else made
        if _isa(a, _Duration | dt.timedelta) or _isa(b, _Duration | dt.timedelta):
            return self.with_duration(name, a, b)
        if a is None or b is None:
            raise TypeError(f"{_SYMBOLS[name]} of None")
        kinds = (self.kind(a), self.kind(b))
        match name, kinds:
            case "Add", (String(), String()):
                return self.make("concat", _STRING, self.expr(a), self.expr(b))
            case "Add", (Exact(), Exact()):
                return self.make("add", _EXACT, self.expr(a), self.expr(b))
            case "Sub", (Timestamp(), Timestamp()):
                return self.duration(self.binary("Sub", self.micros(a), self.micros(b)))
            case "BitAnd" | "BitOr" | "BitXor", (Boolean(), Boolean()):
                if name == "BitXor":
                    return self.negation(self.compare("Eq", a, b))
                return self.make(op, _BOOLEAN, self.expr(a), self.expr(b))
            case "Pow", (Boolean() | Integer(), _) if type(b) is int:
                return self.power(a, b)
            case "Add" | "Sub" | "Mult" | "Div" | "FloorDiv" | "Mod", (
                Boolean() | Integer() | Float(),
                Boolean() | Integer() | Float(),
            ):
                return self.arithmetic(op, a, b)
            case _:
                self.refuse_operator(name, a, b)

    def arithmetic(self, op: str, a: Any, b: Any) -> Any:
        kind: Kind = _FLOAT if _FLOAT in (self.kind(a), self.kind(b)) else _INTEGER
        a, b = self.as_number(a, kind), self.as_number(b, kind)
        partial = False
        if op in ("floordiv", "mod", "truediv"):
            if not _isa(b, _Proxy) and b == 0:
                raise ZeroDivisionError
            partial = _isa(b, _Proxy)
        elif kind == _INTEGER and not _isa(a, _Proxy) and a == 0 and op == "add":
            return b
        elif kind == _INTEGER and not _isa(b, _Proxy) and b == 0 and op in ("add", "sub"):
            return a
        return self.make(op, _FLOAT if op == "truediv" else kind, self.expr(a), self.expr(b), partial=partial)

    def as_number(self, value: Any, kind: Kind) -> Any:
        """A number as Python converts it before arithmetic with one of ``kind``."""
        own = self.kind(value)
        if own == kind:
            return value
        if not _isa(value, _Symbol):
            return float(value) if kind == _FLOAT else int(value)
        if kind == _FLOAT:
            return self.make("to_float", _FLOAT, value._expr)
        return self.make("to_int", _INTEGER, value._expr)

    def power(self, a: Any, b: int) -> Any:
        if not 0 <= b <= 16:
            self.refuse("uses ** with an exponent that is not between 0 and 16")
        if b == 0:
            return 1
        base = made = self.as_number(a, _INTEGER)
        for _ in range(b - 1):
            made = self.arithmetic("mul", made, base)
        return made

    def unary(self, name: str, value: Any) -> Any:
        """``not``, ``-``, ``+`` or ``~``."""
        if name == "Not":
            return self.negation(value)
        value = self.settle(value)
        function, op = _UNARY[name]
        if not _isa(value, _Proxy):
            if method := self.overloaded(f"__{op}__", value):
                return self.call(method, value)
            return function(value)
        if _isa(value, _Duration) and name != "Invert":
            return self.duration(self.unary(name, value._micros))
        kind = self.kind(value)
        if name == "Invert" or kind not in _NUMBERS:
            self.refuse_operator(name, value)
        value = self.as_number(value, _INTEGER) if kind == _BOOLEAN else value
        return value if name == "UAdd" else self.make(op, value._expr.kind, value._expr)

    def negation(self, value: Any) -> Any:
        """``not value``."""
        condition = self.condition(value)
        if not _isa(condition, _Symbol):
            return not condition
        if isinstance(condition._expr, Call) and condition._expr.op == "not":
            return _Symbol(self, condition._expr.args[0])
        return self.make("not", _BOOLEAN, condition._expr)

    def in_place(self, name: str, a: Any, b: Any) -> Any:
        """``a += b`` and the like, for a variable ``a``."""
        a = self.settle(a)
        if _isa(a, list | dict | set) or (not _isa(a, (_Proxy, *_IMMUTABLE)) and name in _IN_PLACE):
            method = getattr(type(a), f"__i{_OPERATORS[name][0].__name__.strip('_')}__", None)
            if _isa(method, types.FunctionType):
                self.refuse("changes an object in place")
            if method is not None:
                return _IN_PLACE[name](self.changed(a), b)
        return self.binary(name, a, b)

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
        function, op, turned = _COMPARISONS[name]
        if _isa(a, _Proxy) or _isa(b, _Proxy):
            return self.compare_scalars(name, a, b)
        for method_op, first, second in ((op, a, b), (_COMPARISONS[turned][1], b, a)):
            if method := self.overloaded(f"__{method_op}__", first, second):
                made = self.call(method, first, second)
                if made is NotImplemented:
                    self.refuse_operator(name, a, b)
                return made
        return function(a, b)

    def compare_inside(self, name: str, a: Any, b: Any) -> Any:
        """A comparison by a container, which takes two values that are the same object for equal."""
        a, b = self.settle(a), self.settle(b)
        if name in ("Eq", "NotEq") and self.kind(a) == _FLOAT and self.kind(b) == _FLOAT:
            both = [self.compare_scalars("NotEq", x, x) for x in (a, b) if _isa(x, _Proxy) or x != x]
            if len(both) == 2 and self.truth(both[0]) and self.truth(both[1]):
                self.raises()
        if _isa(a, _Proxy) or _isa(b, _Proxy):
            return self.compare_scalars(name, a, b)
        return _COMPARISONS[name][0](a, b)

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
        if _isa(a, _Duration | dt.timedelta) and _isa(b, _Duration | dt.timedelta):
            return self.compare(name, self.micros_of(a), self.micros_of(b))
        a, b = _plain_enum(a), _plain_enum(b)
        if a is None or b is None:
            return self.unequal(name)
        kinds = (self.kind(a), self.kind(b))
        if _EXACT in kinds or None in kinds or any(isinstance(k, Optional | Unit) for k in kinds):
            self.refuse_operator(name, a, b)
        if kinds[0] != kinds[1]:
            if kinds[0] in _NUMBERS and kinds[1] in _NUMBERS:
                return self.compare_numbers(name, a, b)
            if any(type(kind) not in _CLASSES for kind in kinds):
                self.refuse_operator(name, a, b)
            return self.unequal(name)
        kind = kinds[0]
        if type(kind) not in _CLASSES:
            self.refuse_operator(name, a, b)
        if kind == _TIMESTAMP and any(type(x) is dt.datetime and x.tzinfo is None for x in (a, b)):
            return self.unequal(name)
        if kind == _BOOLEAN and name == "Eq":
            for x, y in ((a, b), (b, a)):
                if not isinstance(y, _Proxy):
                    return x if y else self.negation(x)
        if kind == _BOOLEAN and name != "Eq":
            a, b, kind = self.as_number(a, _INTEGER), self.as_number(b, _INTEGER), _INTEGER
        if kind == _INTEGER:
            for x, turned in ((b, False), (a, True)):
                if not _isa(x, _Proxy) and not INT_MIN <= x <= INT_MAX:
                    return name != "Eq" and (x > INT_MAX) is not turned
        first, second = self.expr(a), self.expr(b)
        if first is second:
            if name == "Lt":
                return False
            if kind != _FLOAT:
                return True
        if name == "Eq" and _isa(first, Const):
            first, second = second, first
        return self.make({"Eq": "eq", "Lt": "lt", "LtE": "le"}[name], _BOOLEAN, first, second)

    def unequal(self, name: str) -> bool:
        """Of values that are never equal and have no order."""
        if name != "Eq":
            raise TypeError(f"{_SYMBOLS[name]} between these types")
        return False

    def compare_numbers(self, name: str, a: Any, b: Any) -> Any:
        """Of different kinds. Python compares an integer and a float by their true values."""
        a = self.as_number(a, _INTEGER) if self.kind(a) == _BOOLEAN else a
        b = self.as_number(b, _INTEGER) if self.kind(b) == _BOOLEAN else b
        if self.kind(a) == self.kind(b):
            return self.compare_scalars(name, a, b)
        if self.kind(a) == _FLOAT:
            if _isa(a, _Proxy):
                return self.compare_scalars(name, a, self.exact_float(b))
            return self.compare_constant(name, a, b, constant_first=True)
        if _isa(b, _Proxy):
            return self.compare_scalars(name, self.exact_float(a), b)
        return self.compare_constant(name, b, a, constant_first=False)

    def exact_float(self, value: Any) -> Any:
        """An integer as the float of the same value; a row without one must be done in Python."""
        if not _isa(value, _Symbol):
            try:
                made = float(value)
            except OverflowError:
                made = math.inf
            if made != value:
                self.refuse("compares a float with an integer that no float equals")
            return made
        within = self.joined(
            True,
            self.compare_scalars("LtE", -_EXACT_FLOATS, value),
            self.compare_scalars("LtE", value, _EXACT_FLOATS),
        )
        if self.now.trials and self.known(within) is None:
            raise _Undo
        if not self.truth(within):
            self.raises()
        return self.as_number(value, _FLOAT)

    def compare_constant(self, name: str, constant: float, value: _Symbol, *, constant_first: bool) -> Any:
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
        if _isa(a, _Proxy) or _isa(b, _Proxy):
            if a is None or b is None:
                return False
            for x, y in ((a, b), (b, a)):
                if _isa(y, bool) and self.kind(x) == _BOOLEAN:
                    return self.compare_scalars("Eq", x, y)
            self.refuse("uses is on a value")
        if a is not None and b is not None and a is not b and (self.holds(a) or self.holds(b)):
            self.refuse("uses is on a value")
        return a is b

    def contains(self, part: Any, whole: Any) -> Any:
        """``part in whole``."""
        if _isa(whole, _Symbol):
            if self.kind(whole) == _STRING and self.kind(part) == _STRING:
                return self.make("contains", _BOOLEAN, whole._expr, self.expr(part))
            self.refuse(f"uses in on {_describe(whole)}")
        if _isa(whole, type({}.keys())):
            whole = whole.mapping
        if not self.holds(part):
            if type(whole) in (list, tuple) and self.holds(whole):
                return self.contains_any(part, whole)
            if isinstance(getattr(type(whole), "__contains__", None), types.FunctionType) and self.holds(whole):
                return self.condition(self.call(type(whole).__contains__, whole, part))
            return part in whole
        if type(whole) is str and self.kind(part) == _STRING:
            return self.make("contains", _BOOLEAN, self.expr(whole), part._expr)
        if type(whole) in (list, tuple):
            kind = self.kind(part)
            if len(whole) <= 16 or self.holds(whole) or any(self.kind(one) != kind for one in whole) or kind == _FLOAT:
                return self.contains_any(part, whole)
            return self.has(self.members(whole), part)
        if type(whole) in (set, frozenset):
            return self.has(self.members(whole), part)
        if self.is_table(whole):
            return self.has(self.mapping(whole), part)
        if _isa(whole, range) and whole.step == 1 and self.kind(part) == _INTEGER:
            return self.joined(True, self.compare("LtE", whole.start, part), self.compare("Lt", part, whole.stop))
        self.refuse(f"uses in on {_describe(whole)}")

    def members(self, whole: Any) -> Mapping[Any, Any]:
        """The table that holds the members of a set, tuple or list."""
        return self.table(whole, "members", lambda: dict.fromkeys(sorted(whole, key=repr)))

    def contains_any(self, part: Any, whole: Sequence[Any]) -> Any:
        made: Any = False
        for one in whole:
            one = self.settle(one)
            scalar = _isa(part, _Symbol) and (self.kind(one) is not None or one is None)
            here = self.compare_inside("Eq", part, one) if scalar else part == one
            if _isa(made, _Symbol) and (_isa(here, _Symbol) or _isa(here, bool)):
                made = self.joined(False, made, here) if here is not False else made
            elif here is True or made is True:
                made = True
            else:
                made = here
        return made

    # ------------------------------------------------------------------------------------------------ tables

    def is_table(self, whole: Any) -> bool:
        return type(whole) in (dict, OrderedDict, types.MappingProxyType)

    def table(self, whole: Any, role: str, make: Callable[[], dict[Any, Any]]) -> Mapping[Any, Any]:
        """The one mapping that stands for a container, or one with the same content, in this trace."""
        known = self.tables.get((role, id(whole)))
        if known is not None and id(whole) not in self.now.owned:
            return known[1]
        made = make()
        try:
            content: Any = (role, tuple((type(k), k, type(v), v) for k, v in made.items()))
            table = self.contents.setdefault(content, made)
        except TypeError:
            if id(whole) in self.now.owned:
                self.refuse("looks up in a table that it makes itself")
            table = made
        self.tables[role, id(whole)] = (whole, table)
        return table

    def mapping(self, whole: Any) -> Mapping[Any, Any]:
        """The table of a dict."""
        return self.table(whole, "dict", lambda: dict(whole))

    def has(self, table: Mapping[Any, Any], key: Any) -> Any:
        key = self.table_key(table, key)
        return self.make("has", _BOOLEAN, key._expr, table=table) if table else False

    def table_key(self, table: Mapping[Any, Any], key: Any) -> Any:
        kind = self.kind(key)
        cls = _CLASSES[type(kind)] if _isa(key, _Symbol) and kind in (_INTEGER, _STRING, _BOOLEAN) else None
        if not _isa(key, _Symbol) or cls is None:
            self.refuse(f"looks up {_describe(key)}")
        if (id(table), cls) not in self.checked:
            if any(type(k) is not cls for k in table):
                self.refuse(f"looks up {_describe(key)} in a table with other keys")
            self.checked.add((id(table), cls))
        return key

    def look_up(self, table: Mapping[Any, Any], key: Any) -> Any:
        """What the table holds for a key that it holds."""
        if id(table) not in self.layouts:
            self.layouts[id(table)] = self.layout(list(table.values()))
        return self.part(table, table, key, self.layouts[id(table)], ())

    def layout(self, values: list[Any]) -> Any:
        """A kind, None for only None, a pair of class and parts, or (None, layout) where some are None."""
        some = [value for value in values if value is not None]
        if not some:
            return None
        if len(some) < len(values):
            return (None, self.layout(some))
        classes = {type(value) for value in values}
        (cls, *others) = classes
        if others:
            self.refuse("looks up in a table with values of several types")
        kind = self.kind(values[0])
        if kind is not None:
            for value in values:
                if kind in (_INTEGER, _TIMESTAMP, _STRING):
                    self.check_constant(value)
            return kind
        if cls is tuple:
            if len({len(value) for value in values}) > 1:
                self.refuse("looks up in a table with tuples of several lengths")
            return (tuple, [(at, self.layout([value[at] for value in values])) for at in range(len(values[0]))])
        names = _fields(cls)
        if names is None:
            self.refuse(f"looks up in a table of {_describe(values[0])}")
        return (cls, [(name, self.layout([getattr(value, name) for value in values])) for name in names])

    def check_constant(self, value: Any) -> None:
        """As :meth:`expr` does, without keeping it."""
        if type(value) is int and not INT_MIN <= value <= INT_MAX:
            self.refuse("looks up an integer beyond 64 bits")
        if type(value) is dt.datetime and value.tzinfo is not dt.UTC:
            self.refuse("looks up a datetime of a zone other than UTC")
        if type(value) is str and not value.isascii():
            self.expr(value)

    def part(
        self, table: Mapping[Any, Any], full: Mapping[Any, Any], key: _Symbol, layout: Any, path: tuple[str | int, ...]
    ) -> Any:
        if layout is None:
            return None
        if not isinstance(layout, tuple):
            if isinstance(layout, UnitValue):
                return UNIT
            return self.make("lookup", layout, key._expr, table=full, path=path)
        cls, inner = layout
        if cls is None:
            mark = ("some", id(full), path)
            if mark not in self.tables:
                some = {k: None for k, value in full.items() if _at(value, path) is not None}
                self.tables[mark] = (full, some)
            if not self.truth(self.make("has", _BOOLEAN, key._expr, table=self.tables[mark][1])):
                return None
            return self.part(table, full, key, inner, path)
        parts = [(name, self.part(table, full, key, one, (*path, name))) for name, one in inner]
        return tuple(value for _, value in parts) if cls is tuple else self.record(cls, parts)

    def get(self, whole: Any, key: Any, default: Any) -> Any:
        """``whole.get(key, default)``."""
        table = self.mapping(whole)
        has = self.has(table, key)
        if has is False:
            return default
        if id(table) not in self.layouts:
            self.layouts[id(table)] = self.layout(list(table.values()))
        if self.layouts[id(table)] == self.kind(default) is not None and not _isa(default, _Proxy):
            return self.either(has, self.look_up(table, key), default)
        return self.look_up(table, key) if self.truth(has) else default

    def ask(self, table: AskedTable, key: Any) -> Any:
        """``table.get(key)``: a record, or None."""
        key, schema = self.settle(key), table.row
        if self.kind(key) not in (_INTEGER, _STRING, _BOOLEAN) or not _isa(key, _Symbol):
            self.refuse(f"asks a table for {_describe(key)}")
        for name, kind in schema.fields:
            if not _isa(kind, _COLUMNS):
                self.refuse(f"asks a table whose {name} is {name_of(kind)}")
        if not self.truth(self.make("has", _BOOLEAN, key._expr, table=table)):
            return None
        return self.record(
            schema.cls,
            [(name, self.make("lookup", kind, key._expr, table=table, path=(name,))) for name, kind in schema.fields],
        )

    # ----------------------------------------------------------------------------------- attributes and items

    def attribute(self, value: Any, name: str) -> Any:
        """``value.name``."""
        value = self.settle(value)
        if _isa(value, _Symbol):
            return self.symbol_attribute(value, name)
        if _isa(value, _Duration):
            return self.duration_attribute(value, name)
        if _isa(value, type | types.ModuleType):
            return getattr(value, name)
        for base in type(value).__mro__:
            if name in base.__dict__:
                found = base.__dict__[name]
                if _isa(found, property) and self.holds(value):
                    return self.settle(self.call(found.fget, value))
                break
        else:
            found = None
        if self.holds(value) and not _isa(value, tuple | list | dict | set):
            known = _fields(type(value)) or ()
            computed = _isa(found, functools.cached_property | types.MemberDescriptorType)
            if name not in known and (computed or (found is None and hasattr(type(value), "__getattr__"))):
                self.refuse(f"reads the computed attribute {name}")
            if name not in known and found is None:
                self.refuse(f"reads {name}, which {type(value).__name__} does not have")
        return self.settle(getattr(value, name))

    def symbol_attribute(self, value: _Symbol, name: str) -> Any:
        kind = self.kind(value)
        match kind:
            case Timestamp() if name in _TIME_FIELDS:
                return self.make(name, _INTEGER, value._expr)
            case Timestamp() if name == "tzinfo":
                return dt.UTC
            case Date() if name in ("year", "month", "day"):
                return self.make(name, _INTEGER, value._expr)
            case Integer() | Boolean() if name in ("real", "numerator"):
                return self.as_number(value, _INTEGER)
            case Float() if name == "real":
                return value
        cls = _CLASSES.get(type(kind))
        if cls is None:
            self.refuse(f"looks into a {type(kind).__name__}")
        if not hasattr(cls, name):
            raise AttributeError(name)
        return _Method(self, value, name)

    def duration_attribute(self, value: _Duration, name: str) -> Any:
        micros = value._micros
        match name:
            case "days":
                return self.binary("FloorDiv", micros, _DAY)
            case "seconds":
                return self.binary("FloorDiv", self.binary("Mod", micros, _DAY), 1_000_000)
            case "microseconds":
                return self.binary("Mod", micros, 1_000_000)
            case _:
                return _Method(self, value, name)

    def slice(self, start: Any, stop: Any, step: Any) -> slice:
        """``start:stop:step``."""
        return slice(self.settle(start), self.settle(stop), self.settle(step))

    def item(self, whole: Any, index: Any) -> Any:
        """``whole[index]``."""
        whole, index = self.settle(whole), self.settle(index)
        if _isa(whole, _Symbol):
            if self.kind(whole) == _STRING:
                return self.character(whole, index)
            self.refuse(f"takes an item of {_describe(whole)}")
        if _isa(whole, _Duration):
            raise TypeError("timedelta has no items")
        method = getattr(type(whole), "__getitem__", None)
        if _isa(method, types.FunctionType) and (self.holds(whole) or self.holds(index)):
            return self.call(method, whole, index)
        if self.holds(index):
            if _isa(index, _Symbol) and self.is_table(whole):
                return self.found(self.mapping(whole), index)
            if _isa(index, _Symbol) and type(whole) in (tuple, list):
                return self.element(whole, self.as_number(index, _INTEGER))
            self.refuse(f"looks up {_describe(index)} in {_describe(whole)}")
        if hasattr(type(whole), "__missing__") and id(whole) not in self.now.owned:
            self.refuse(f"looks up in a {type(whole).__name__}, which changes by that")
        return self.settle(whole[index])

    def found(self, table: Mapping[Any, Any], key: Any) -> Any:
        if not self.truth(self.has(table, key)):
            raise KeyError
        return self.look_up(table, key)

    def element(self, whole: Sequence[Any], index: _Symbol) -> Any:
        if self.holds(whole):
            self.refuse("takes an item of a sequence by a place that is not known")
        table = self.table(whole, "places", lambda: {at: whole[at] for at in range(-len(whole), len(whole))})
        match index._expr:
            case Call("mod", (_, Const(divisor))) if 0 < divisor <= len(whole):
                self.table_key(table, index)
                return self.look_up(table, index)
        return self.found(table, index)

    def character(self, text: _Symbol, index: Any) -> Any:
        if _isa(index, slice):
            if index.step not in (None, 1) or any(
                type(at) not in (int, types.NoneType) for at in (index.start, index.stop)
            ):
                self.refuse("takes a slice of a str with places that are not constant")
            bounds = [
                self.intern(Const(None, None)) if at is None else self.expr(min(max(at, INT_MIN), INT_MAX))
                for at in (index.start, index.stop)
            ]
            return self.make("slice", _STRING, text._expr, *bounds)
        if type(index) is not int:
            self.refuse("takes a character of a str at a place that is not constant")
        place = index + 1 if index >= 0 else -index
        if not self.truth(self.compare("LtE", place, self.length(text))):
            raise IndexError
        return self.character(text, slice(index, index + 1 or None))

    def length(self, value: Any) -> Any:
        if _isa(value, _Symbol):
            if self.kind(value) != _STRING:
                self.refuse(f"takes the length of {_describe(value)}")
            return self.make("length", _INTEGER, value._expr)
        return len(value)

    # ---------------------------------------------------------------------------------- containers and the rest

    def own(self, value: Any) -> Any:
        """A container that the function has just made."""
        self.now.owned[id(value)] = value
        return value

    def changed(self, value: Any) -> Any:
        """A container that is about to be changed."""
        value = self.settle(value)
        if self.now.trials:
            raise _Undo
        if id(value) not in self.now.owned:
            self.refuse(f"changes {_describe(value)} that outlives the call")
        return value

    def iterate(self, value: Any) -> Any:
        """What a loop or an assignment to several names takes apart."""
        value = self.settle(value)
        if _isa(value, _Proxy):
            self.refuse(f"iterates over {_describe(value)}")
        if _isa(value, tuple | list) and any(_isa(one, _Deferred) for one in value):
            return [self.settle(one) for one in value]
        method = getattr(type(value), "__iter__", None)
        if _isa(method, types.FunctionType) and self.holds(value):
            return self.call(method, value)
        if self.now.trials and _isa(value, Iterator):
            raise _Undo
        return value

    def unpacked(self, value: Any) -> Iterator[Any]:
        """The elements of a loop over tuples."""
        return (self.iterate(one) for one in value)

    def subject(self, value: Any, *names: str) -> Any:
        """What ``match`` looks at; ``names``: the attributes that its patterns read."""
        value = self.settle(value)
        pending = [value]
        while pending:
            at = pending.pop()
            if _isa(at, _Proxy) or _fields(type(at)) is None:
                continue
            if any(isinstance(getattr(type(at), name, None), property) for name in names):
                self.refuse("matches a property")
            pending.extend(at if _isa(at, tuple) else [getattr(at, name) for name in _fields(type(at)) or ()])
        return value

    def text(self, *parts: Any) -> Any:
        """An f-string."""
        made: Any = ""
        for part in parts:
            if _isa(part, tuple):
                value, conversion, spec = part
                value = self.settle(value)
                if _isa(value, _Proxy) or _isa(spec, _Proxy):
                    if conversion not in (-1, ord("s")) or _isa(spec, _Proxy) or spec != "":
                        self.refuse("formats a value")
                    part = self.to_str(value)
                elif self.holds(value):
                    self.refuse("formats a value")
                else:
                    conversions: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
                    turned = conversions.get(conversion)
                    part = format(value if turned is None else turned(value), spec)
            if part != "" if _isa(part, str) and not _isa(part, _Proxy) else True:
                made = (
                    part
                    if _isa(made, str) and not _isa(made, _Proxy) and made == ""
                    else (self.binary("Add", made, part))
                )
        return made

    def holds(self, value: Any, depth: int = 0) -> bool:
        """Are there symbols in it?"""
        if _isa(value, _Proxy | _Method | _Emit):
            return True
        cls = type(value)
        if cls in (int, float, str, bool, bytes, types.NoneType) or depth > 12:
            return False
        if _isa(value, tuple):
            return any(self.holds(one, depth + 1) for one in value)
        if cls in (list, set, dict) or _isa(value, list | set | dict):
            if id(value) not in self.now.owned:
                return False
            parts = [*value.keys(), *value.values()] if _isa(value, dict) else value
            return any(self.holds(one, depth + 1) for one in parts)
        if _isa(value, types.FunctionType):
            return is_rewritten(value.__code__) and value.__closure__ is not None
        if _isa(value, types.MethodType):
            return self.holds(value.__self__, depth + 1)
        if _isa(value, types.BuiltinMethodType):
            return not isinstance(value.__self__, types.ModuleType | type) and self.holds(value.__self__, depth + 1)
        if _isa(value, functools.partial):
            return self.holds((value.func, value.args, tuple(value.keywords.values())), depth + 1)
        if _isa(value, slice):
            return self.holds((value.start, value.stop, value.step), depth + 1)
        if _isa(value, types.GeneratorType | enumerate | zip | map | filter | reversed):
            return True
        if _isa(value, Iterator):
            return True
        if _isa(value, type | enum.Enum | types.ModuleType):
            return False
        names = _fields(cls)
        return names is not None and any(self.holds(getattr(value, name, None), depth + 1) for name in names)

    # ------------------------------------------------------------------------------------------------- calls

    def call(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
        """``function(*args, **keywords)``."""
        function = self.settle(function)
        if _isa(function, _Method | _Emit):
            return function(*args, **keywords)
        if _isa(function, _Proxy):
            self.refuse("calls a value")
        if _isa(function, types.MethodType):
            if function.__self__ is ExactSum and function.__name__ == "of":
                return self.exact_of(*args, **keywords)
            if _isa(function.__self__, AskedTable) and function.__name__ == "get" and not keywords and len(args) == 1:
                return self.ask(function.__self__, args[0])
            return self.call(function.__func__, function.__self__, *args, **keywords)
        if _isa(function, functools.partial):
            return self.call(function.func, *function.args, *args, **{**function.keywords, **keywords})
        if function is typing.cast:
            return args[1]
        if _isa(function, NewType):
            return args[0]
        if (
            function in _KNOWN_FUNCTIONS
            if _isa(function, types.FunctionType | types.BuiltinFunctionType | type)
            else False
        ):
            return getattr(self, "call_" + _KNOWN_FUNCTIONS[function])(*args, **keywords)
        if _isa(function, types.FunctionType):
            return self.call_function(function, args, keywords)
        args = tuple(map(self.settle, args)) if _fields_or_none(function) is None else args
        if _isa(function, type):
            return self.construct(function, args, keywords)
        if _isa(function, types.BuiltinFunctionType | types.BuiltinMethodType | types.MethodWrapperType):
            return self.call_builtin(function, args, keywords)
        if _isa(function, operator.attrgetter | operator.itemgetter | operator.methodcaller):
            return self.call_getter(function, *args)
        wrapped = getattr(function, "__wrapped__", None)
        if _isa(function, functools._lru_cache_wrapper) and wrapped is not None:
            return self.call(wrapped, *args, **keywords)
        method = getattr(type(function), "__call__", None)  # noqa: B004
        if _isa(method, types.FunctionType):
            return self.call(method, function, *args, **keywords)
        return self.call_native(function, args, keywords)

    def call_native(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        name = _name(function)
        module = str(getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__)
        owner = getattr(function, "__self__", None)
        if (
            module.split(".")[0] in _IMPURE_MODULES
            or (module == "builtins" and name in _IMPURE)
            or type(owner).__module__.split(".")[0] in _IMPURE_MODULES
            or (name.rpartition(".")[2] in _CLOCKS and owner in (dt.datetime, dt.date))
        ):
            self.refuse(f"calls {name}")
        if self.holds((args, tuple(keywords.values()), owner)):
            self.refuse(f"calls {name}")
        return function(*args, **keywords)

    def call_function(self, function: types.FunctionType, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if is_rewritten(function.__code__):
            if self.now.trials:
                raise _Undo
            return function(*args, **keywords)
        if not self.holds((args, tuple(keywords.values()))):
            return self.call_native(function, args, keywords)
        if self.now.trials and function.__module__ != "tracetypes.algebra":
            raise _Undo
        if function is attrs.evolve or function is dataclasses.replace:
            return self.evolve(*args, **keywords)
        if function.__name__ == "_replace" and args and hasattr(args[0], "_fields"):
            return self.evolve(*args, **keywords)
        if _generated(function) or function.__module__ in ("collections", "attr._make"):
            return function(*args, **keywords)
        if str(function.__module__).split(".")[0] in _IMPURE_MODULES:
            self.refuse(f"calls {_name(function)}")
        return self.again(function)(*args, **keywords)

    def again(self, function: types.FunctionType) -> types.FunctionType:
        """The author's function, compiled again."""
        found = self.functions.get(id(function))
        if found is not None:
            return found[1]  # type: ignore[no-any-return]
        try:
            code = rewritten(function.__code__)
        except NoSource as error:
            self.refuse(f"calls {_name(function)}: {error}")
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

    def evolve(self, *args: Any, **changes: Any) -> Any:
        """``attrs.evolve``, ``dataclasses.replace`` and ``_replace``, without looking at what stays."""
        (record,) = args
        record = self.settle(record)
        names = _fields(type(record)) or ()
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
            return value.__class__ if _isa(value, _Proxy) else type(value)
        if cls in _ALLOWED:
            args = tuple(self.iterate(arg) if cls is not slice else arg for arg in args)
            made = cls(*args, **keywords)
            return self.own(made) if cls in (list, dict, set) else made
        if not self.holds((args, tuple(keywords.values()))):
            return self.call_native(cls, args, keywords)
        if _fields(cls) is None:
            self.refuse(f"makes a {cls.__name__}")
        if problem := _problem(cls, construct=True):
            self.refuse(f"makes a {cls.__name__}, which {problem}")
        return cls(*args, **keywords)

    def call_builtin(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        owner, name = getattr(function, "__self__", None), function.__name__
        if owner is None or _isa(owner, types.ModuleType | type):
            if function in _ALLOWED:
                return function(*map(self.iterate, args), **keywords)
            return self.call_native(function, args, keywords)
        if name in _CHANGING and not _isa(owner, _IMMUTABLE):
            self.changed(owner)
            if name == "sort" and keywords.get("key") is not None:
                keywords = {**keywords, "key": functools.partial(self.call, keywords["key"])}
            return function(*args, **keywords)
        if not self.holds((args, tuple(keywords.values()))):
            if not self.holds(owner):
                return self.call_native(function, args, keywords)
            if type(owner) in (list, dict, set, tuple) or _isa(owner, tuple) or name in ("__eq__", "__ne__"):
                return self.settle(function(*args, **keywords))
            self.refuse(f"calls {name}")
        if name == "get" and self.is_table(owner) and not keywords and len(args) in (1, 2):
            if _isa(args[0], _Symbol):
                return self.get(owner, args[0], args[1] if len(args) == 2 else None)
            if not self.holds(args[0]):
                return self.settle(function(*args))
        if type(owner) is str and not keywords:
            return self.call_method(owner, name, args, keywords)
        if type(owner) in (list, tuple) and name in ("index", "count"):
            return function(*args, **keywords)
        if _isa(owner, set | frozenset) and name == "__contains__":
            return self.contains(args[0], owner)
        self.refuse(f"calls {_name(function)}")

    def call_getter(self, function: Any, *args: Any) -> Any:
        parts = function.__reduce__()[1]
        (value,) = args
        if _isa(function, operator.methodcaller):
            if not isinstance(parts[0], str) or function.__reduce__()[0] is not operator.methodcaller:
                self.refuse("calls a methodcaller with keywords")
            return self.call(self.attribute(value, parts[0]), *parts[1:])
        if _isa(function, operator.itemgetter):
            made = [self.item(value, part) for part in parts]
        else:
            made = [functools.reduce(self.attribute, part.split("."), value) for part in parts]
        return made[0] if len(made) == 1 else tuple(made)

    # ------------------------------------------------------------------------------------- builtin functions

    def call_len(self, value: Any) -> Any:
        value = self.settle(value)
        self.length_of_its_own(value)
        return self.length(value)

    def length_of_its_own(self, value: Any) -> None:
        """Refuse an author's ``__len__``: Python looks at what it returns."""
        method = getattr(type(value), "__len__", None)
        if not _isa(value, _Proxy) and _isa(method, types.FunctionType) and self.holds(value):
            self.refuse(f"looks at a {type(value).__name__}, which has a length of its own")

    def call_bool(self, value: Any = False) -> Any:
        return self.condition(value)

    def call_int(self, *args: Any, **keywords: Any) -> Any:
        value: Any = self.settle(args[0]) if args else 0
        if not _isa(value, _Proxy):
            return self.call_native(int, args, keywords)
        kind = self.kind(value)
        if len(args) > 1 or keywords or kind not in _NUMBERS:
            self.refuse(f"converts {_describe(value)} to int")
        if kind == _FLOAT:
            return self.make("to_int", _INTEGER, value._expr, partial=True)
        return self.as_number(value, _INTEGER)

    def call_float(self, *args: Any) -> Any:
        value = self.settle(args[0]) if args else 0.0
        if not _isa(value, _Proxy):
            return self.call_native(float, args, {})
        if self.kind(value) not in _NUMBERS:
            self.refuse(f"converts {_describe(value)} to float")
        return self.as_number(value, _FLOAT)

    def call_str(self, *args: Any, **keywords: Any) -> Any:
        if len(args) == 1 and not keywords and _isa(self.settle(args[0]), _Proxy):
            return self.to_str(self.settle(args[0]))
        return self.call_native(str, args, keywords)

    def to_str(self, value: Any) -> Any:
        kind = self.kind(value)
        if kind == _STRING:
            return value
        if kind not in (_INTEGER, _BOOLEAN):
            self.refuse(f"turns {_describe(value)} into text")
        return self.make("to_str", _STRING, value._expr)

    def call_abs(self, value: Any) -> Any:
        return self.unary("Abs", value)

    def call_round(self, *args: Any, **keywords: Any) -> Any:
        value: Any = self.settle(args[0]) if args else None
        if not _isa(value, _Proxy):
            return self.call_native(round, args, keywords)
        kind = self.kind(value)
        if (len(args) > 1 and args[1] is not None) or keywords or kind not in _NUMBERS:
            self.refuse(
                f"rounds {_describe(value)} to digits" if len(args) > 1 or keywords else f"rounds {_describe(value)}"
            )
        if kind == _FLOAT:
            return self.make("round", _INTEGER, value._expr, partial=True)
        return self.as_number(value, _INTEGER)

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

    def call_sum(self, values: Any, /, start: Any = 0) -> Any:
        total = self.settle(start)
        for value in self.iterate(values):
            value = self.settle(value)
            if sys.version_info >= (3, 12) and self.kind(value) == _FLOAT and self.holds((total, value)):
                self.refuse("calls sum on floats, which this Python compensates")
            total = self.binary("Add", total, value)
        return total

    def call_any(self, values: Any, /) -> bool:
        return any(self.truth(value) for value in self.iterate(values))

    def call_all(self, values: Any, /) -> bool:
        return all(self.truth(value) for value in self.iterate(values))

    def call_divmod(self, a: Any, b: Any, /) -> Any:
        a, b = self.settle(a), self.settle(b)
        if not _isa(a, _Proxy) and not _isa(b, _Proxy):
            return self.call_native(divmod, (a, b), {})
        return self.binary("FloorDiv", a, b), self.binary("Mod", a, b)

    def call_pow(self, *args: Any, **keywords: Any) -> Any:
        if len(args) == 2 and not keywords:
            return self.binary("Pow", *args)
        return self.call_native(pow, args, keywords)

    def call_isinstance(self, value: Any, classes: Any, /) -> bool:
        return isinstance(self.settle(value), classes)  # asks for its __class__

    def call_getattr(self, value: Any, name: str, *default: Any) -> Any:
        if default and self.holds(value):
            self.refuse("calls getattr with a default")
        return self.attribute(value, name) if not default else getattr(value, name, *default)

    def call_sorted(self, values: Any, /, *, key: Any = None, reverse: bool = False) -> Any:
        made = [self.settle(one) for one in self.iterate(values)]
        made.sort(key=None if key is None else functools.partial(self.call, key), reverse=reverse)
        return self.own(made)

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
            raise _Undo
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
        if not _isa(value, _Proxy):
            return function(value)
        if self.kind(value) not in _NUMBERS:
            self.refuse(f"calls math.{function.__name__}")
        return test(self.as_number(value, _FLOAT))

    def call_timedelta(self, *args: Any, **keywords: Any) -> Any:
        names = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
        sizes = dict(zip(names, (_DAY, 1_000_000, 1, 1_000, 60_000_000, 3_600_000_000, 7 * _DAY), strict=True))
        given = {**dict(zip(names, args, strict=False)), **keywords}
        if not any(_isa(value, _Proxy) for value in given.values()):
            return dt.timedelta(*args, **keywords)
        total: Any = 0
        for name, value in given.items():
            value = self.settle(value)
            if self.kind(value) not in (_BOOLEAN, _INTEGER):
                self.refuse("makes a timedelta of what is no integer")
            total = self.binary("Add", total, self.binary("Mult", value, sizes[name]))
        return self.duration(total)

    def exact_of(self, value: Any) -> Any:
        value = self.settle(value)
        if not _isa(value, _Proxy):
            return ExactSum.of(value)
        if self.kind(value) not in _NUMBERS:
            self.refuse(f"sums up {_describe(value)}")
        return self.make("exact", _EXACT, self.as_number(value, _FLOAT)._expr)

    # --------------------------------------------------------------------------------- methods of scalars

    def call_method(self, owner: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A method of a str, datetime, date, timedelta or ExactSum."""
        args = tuple(map(self.settle, args))
        if _isa(owner, _Duration):
            if name == "total_seconds" and not args and not keywords:
                return self.binary("Div", owner._micros, 1_000_000)
            self.refuse(f"calls timedelta.{name}")
        kind, plain = self.kind(owner), not args and not keywords
        match kind:
            case String() if name in _TEXT_METHODS and not keywords:
                if (made := self.text_method(owner, name, args)) is not None:
                    return made
            case Timestamp() if name == "date" and plain:
                return self.make("date", _DATE, owner._expr)
            case Timestamp() | Date() if name in ("weekday", "isoweekday") and plain:
                made = self.make("weekday", _INTEGER, owner._expr)
                return made if name == "weekday" else self.binary("Add", made, 1)
            case Timestamp() if name == "timestamp" and plain:
                return self.binary("Div", self.micros(owner), 1_000_000)
            case Timestamp() if name == "astimezone" and args == (dt.UTC,):
                return owner
            case Exact() if name == "value" and plain:
                return self.make("exact_value", _FLOAT, owner._expr)
            case Exact() if name == "over" and len(args) == 1 and not keywords and self.kind(args[0]) == _INTEGER:
                return self.make("exact_over", _FLOAT, self.expr(owner), self.expr(args[0]))
            case Float() if name == "is_integer" and plain:
                pass
        cls = _CLASSES.get(type(kind))
        self.refuse(f"calls {'' if cls is None else cls.__name__ + '.'}{name}")

    def text_method(self, owner: Any, name: str, args: tuple[Any, ...]) -> Any:
        text = self.expr(owner)
        if name in ("lower", "upper") and not args:
            return self.make(name, _STRING, text)
        if name in ("strip", "lstrip", "rstrip") and args in ((), (None,)):
            return self.make(name, _STRING, text)
        if name in ("startswith", "endswith") and len(args) == 1:
            if type(args[0]) is tuple:
                made: Any = False
                for one in args[0]:
                    here = self.text_method(owner, name, (one,))
                    made = here if made is False else self.joined(False, made, here)
                return made
            if self.kind(args[0]) == _STRING:
                return self.make(name, _BOOLEAN, text, self.expr(args[0]))
        if name == "replace" and len(args) == 2 and all(self.kind(arg) == _STRING for arg in args):
            return self.make(name, _STRING, text, *map(self.expr, args))
        return None

    # ------------------------------------------------------------------------------------------------- times

    def duration(self, micros: Any) -> Any:
        return _Duration(self, micros) if _isa(micros, _Proxy) else dt.timedelta(microseconds=micros)

    def micros(self, value: Any) -> Any:
        """Microseconds since the epoch of a Timestamp."""
        expr = self.expr(value)
        if isinstance(expr, Const):
            return (expr.value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // _MICROSECOND
        return self.make("micros", _INTEGER, expr)

    def micros_of(self, value: Any) -> Any:
        """Microseconds of a duration."""
        return value._micros if _isa(value, _Duration) else value // _MICROSECOND

    def with_duration(self, name: str, a: Any, b: Any) -> Any:
        first, second = _isa(a, _Duration | dt.timedelta), _isa(b, _Duration | dt.timedelta)
        if first and second:
            x, y = self.micros_of(a), self.micros_of(b)
            if name in ("Add", "Sub", "Mod"):
                return self.duration(self.binary(name, x, y))
            if name in ("Div", "FloorDiv"):
                return self.binary(name, x, y)
        elif self.kind(a) == _TIMESTAMP and name in ("Add", "Sub"):
            micros = self.micros_of(b)
            return self.moved(a, micros if name == "Add" else self.unary("USub", micros))
        elif self.kind(b) == _TIMESTAMP and name == "Add":
            return self.moved(b, self.micros_of(a))
        elif name == "Mult" and self.kind(b if first else a) in (_BOOLEAN, _INTEGER):
            return self.duration(self.binary("Mult", *((self.micros_of(a), b) if first else (a, self.micros_of(b)))))
        elif first and name == "FloorDiv" and self.kind(b) in (_BOOLEAN, _INTEGER):
            return self.duration(self.binary("FloorDiv", self.micros_of(a), b))
        self.refuse_operator(name, a, b)

    def moved(self, time: Any, micros: Any) -> Any:
        if not _isa(micros, _Proxy) and micros == 0:
            return time
        return self.make("add_micros", _TIMESTAMP, self.expr(time), self.expr(micros), partial=True)


# ------------------------------------------------------------------------------------------------------- helpers

_KNOWN_FUNCTIONS: Final[Mapping[Any, str]] = {
    **{
        getattr(builtins, name): name
        for name in [
            "abs",
            "all",
            "any",
            "bool",
            "divmod",
            "filter",
            "float",
            "getattr",
            "int",
            "isinstance",
            "len",
            "map",
            "max",
            "min",
            "next",
            "pow",
            "round",
            "sorted",
            "str",
            "sum",
        ]
    },
    functools.reduce: "reduce",
    math.isnan: "isnan",
    math.isinf: "isinf",
    math.isfinite: "isfinite",
    dt.timedelta: "timedelta",
}


def _is_total(expr: Expr) -> bool:
    """Has it a value for all inputs?"""
    pending, seen = [expr], set[int]()
    while pending:
        at = pending.pop()
        if isinstance(at, Call) and id(at) not in seen:
            seen.add(id(at))
            if at.op not in _TOTAL:
                return False
            pending.extend(at.args)
    return True


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = getattr(value, step) if isinstance(step, str) else value[step]
    return value


def _plain_enum(value: Any) -> Any:
    """A member of an enum of text or integers, which equals them."""
    cls: Any = type(value)
    if issubclass(cls, enum.Enum):
        for plain in (str, int):
            if issubclass(cls, plain) and cls.__eq__ is plain.__eq__:
                return plain.__str__(value) if plain is str else int(value)
    return value


def _expr_of(value: Any) -> Expr:
    expr: Expr = value._expr
    return expr


def _fields_or_none(function: Any) -> tuple[str, ...] | None:
    return _fields(function) if _isa(function, type) else None


def _name(function: Any) -> str:
    name = str(
        getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    )
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module and module not in ("builtins", "__main__") and "." not in name else name


def _describe(value: Any) -> str:
    if _isa(value, _Symbol):
        kind = value._expr.kind
        cls = _CLASSES.get(type(kind))
        return f"a {type(kind).__name__ if cls is None else cls.__name__}"
    if _isa(value, _Duration):
        return "a timedelta"
    if _isa(value, _Proxy):
        return "a value"
    if value is None:
        return "None"
    return f"a {type(value).__name__}"
