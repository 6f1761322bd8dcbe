"""Proxies for unknown values. Every operation on them goes to the tracer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn, Protocol, final

from tracetypes.compiler.tracing.expr import Expr, Kind
from tracetypes.compiler.tracing.operations.functions import Split
from tracetypes.compiler.tracing.symbolic.known import CLASSES
from tracetypes.compiler.tracing.symbolic.paths import isa
from tracetypes.records import DecimalOf, EnumOf, Unsigned

__all__ = [
    "Observer",
    "Proxy",
    "TracedDeferred",
    "TracedDuration",
    "TracedEmit",
    "TracedLeft",
    "TracedMatch",
    "TracedMethod",
    "TracedParts",
    "TracedPlace",
    "TracedRange",
    "TracedSymbol",
    "describe",
    "expr_of",
    "word_of",
]


class Observer(Protocol):
    """The receiver of operations on proxies: the tracer."""

    @abstractmethod
    def truth(self, value: Any) -> bool:
        """A condition of ``if``, ``while`` and the like."""

    @abstractmethod
    def compare(self, name: str, a: Any, b: Any) -> Any:
        """A comparison."""

    @abstractmethod
    def compare_inside(self, name: str, a: Any, b: Any) -> Any:
        """A comparison by code that was not compiled again."""

    @abstractmethod
    def call_method(self, owner: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """``owner.name(*args, **keywords)``."""

    @abstractmethod
    def emit(self, pairs: bool, args: tuple[Any, ...]) -> None:
        """One call of the author's ``emit``."""

    @abstractmethod
    def refuse(self, what: str) -> NoReturn:
        """Give up."""


def _compared(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._tracer.compare_inside(name, self, other)


def _needs(what: str) -> Callable[..., Any]:
    return lambda self, *args: self._tracer.refuse(what)


class Proxy:
    """Stands for an unknown value. Receives the operations of code that was not compiled again."""

    __slots__ = ("_tracer",)
    _tracer: Observer

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        self._tracer.refuse("asks a value for its class")

    def __getattr__(self, name: str) -> Any:
        self._tracer.refuse(f"reads {name} of a value")

    def __bool__(self) -> bool:
        return self._tracer.truth(self)

    __eq__ = _compared("Eq")
    __ne__ = _compared("NotEq")
    __lt__ = _compared("Lt")
    __le__ = _compared("LtE")
    __gt__ = _compared("Gt")
    __ge__ = _compared("GtE")
    __hash__ = _needs("hashes a value")
    __iter__ = _needs("iterates over a value")
    __len__ = _needs("takes a length")
    __getitem__ = __contains__ = _needs("takes a part of a value")
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


_COMPUTING = """
    add sub mul truediv floordiv mod pow and or xor lshift rshift matmul radd rsub rmul rtruediv rfloordiv rmod rpow rand
    ror rxor rlshift rrshift rmatmul neg pos invert abs
"""
for _name in _COMPUTING.split():
    setattr(Proxy, f"__{_name}__", _needs("computes with a value"))


@final
class TracedSymbol(Proxy):
    """A scalar, never None."""

    __slots__ = ("_expr",)

    def __init__(self, tracer: Observer, expr: Expr) -> None:
        self._tracer, self._expr = tracer, expr


@final
class TracedDeferred(Proxy):
    """A value of optional schema for which it is not decided whether it is None. ``item``: the value if it is not None."""

    __slots__ = ("_expr", "_item", "_settled")

    def __init__(self, tracer: Observer, expr: Expr, item: Kind) -> None:
        self._tracer, self._expr, self._item = tracer, expr, item
        self._settled: list[Any] = []


@final
class TracedDuration(Proxy):
    """A ``timedelta``; ``_micros`` is an Integer symbol or an int."""

    __slots__ = ("_micros",)

    def __init__(self, tracer: Observer, micros: Any) -> None:
        self._tracer, self._micros = tracer, micros


@final
class TracedParts(Proxy):
    """The list of ``str.split`` and the like, for a text and the other arguments of the call."""

    __slots__ = ("_how", "_split", "_text")

    def __init__(self, tracer: Observer, split: Split, text: Any, how: tuple[Any, ...]) -> None:
        self._tracer, self._split, self._text, self._how = tracer, split, text, how


@final
class TracedRange(Proxy):
    """A ``range`` of which a bound or the step is not known: Integer symbols or ints."""

    __slots__ = ("_start", "_step", "_stop")

    def __init__(self, tracer: Observer, start: Any, stop: Any, step: Any) -> None:
        self._tracer, self._start, self._stop, self._step = tracer, start, stop, step


@final
class TracedLeft(Proxy):
    """What a turn of a loop over such a range has left in a variable, for another turn or what comes behind the loop."""

    __slots__ = ("_name",)

    def __init__(self, tracer: Observer, name: str) -> None:
        self._tracer, self._name = tracer, name


@final
class TracedPlace(Proxy):
    """The place of a value in an order, for comparisons in Python: it can be kept, and not used."""

    __slots__ = ()

    def __init__(self, tracer: Observer) -> None:
        self._tracer = tracer


@final
class TracedMatch(Proxy):
    """A match of a regular expression in a text. ``how``: the method that found it, the pattern, its flags."""

    __slots__ = ("_how", "_text")

    def __init__(self, tracer: Observer, text: Any, how: tuple[Any, ...]) -> None:
        self._tracer, self._text, self._how = tracer, text, how


@final
class TracedMethod:
    """A method of a symbol, not called yet. It can only be called: the tracer refuses everything else."""

    __slots__ = ("name", "owner", "tracer")

    def __init__(self, tracer: Observer, owner: Any, name: str) -> None:
        self.tracer, self.owner, self.name = tracer, owner, name

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.tracer.call_method(self.owner, self.name, args, keywords)


@final
class TracedEmit:
    """The author's ``emit``."""

    __slots__ = ("pairs", "tracer")

    def __init__(self, tracer: Observer, emits: str) -> None:
        self.tracer, self.pairs = tracer, emits == "pairs"

    def __call__(self, *args: Any) -> None:
        self.tracer.emit(self.pairs, args)


def expr_of(value: Any) -> Expr:
    expr: Expr = value._expr
    return expr


def word_of(kind: Kind | None) -> str:
    """The name of a scalar of a kind, as an author knows it."""
    match kind:
        case EnumOf(cls, _):
            return cls.__name__
        case DecimalOf():
            return "Decimal"
        case Unsigned():
            return "uint64"
        case _:
            cls_ = CLASSES.get(type(kind))
            return type(kind).__name__ if cls_ is None else cls_.__name__


def describe(value: Any) -> str:
    if isa(value, TracedSymbol):
        return f"a {word_of(value._expr.kind)}"
    if isa(value, TracedDuration):
        return "a timedelta"
    if isa(value, TracedParts):
        return "a list of text"
    if isa(value, TracedRange):
        return "a range of values"
    if isa(value, TracedLeft):
        return f"{value._name} as a turn of a loop over a range of values has left it"
    if isa(value, TracedMatch):
        return "a match"
    if isa(value, TracedPlace):
        return "a place in an order"
    if isa(value, Proxy):
        return "a value"
    if isa(value, TracedMethod | TracedEmit):
        return "a method"
    if value is None:
        return "None"
    return f"a {type(value).__name__}"
