"""Aggregates whose types are not known before a stream says which values it has, and the functions that take them."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar

import attrs

from tracetypes.errors import UsageError
from tracetypes.open_types import OpenOperator, TypeUnknown
from tracetypes.records import show
from tracetypes.stdlib.aggregates import Aggregate, types_of
from tracetypes.templates import substitute

__all__ = ["OpenAggregate", "aggregates_for", "over_aggregates", "results_for", "settled", "settled_aggregate"]

P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen(eq=False)
class OpenAggregate(Aggregate[Any, Any, Any]):
    """An aggregate whose types follow from the values. ``word``: the function that made it. ``make``: the aggregate for values of
    a type. ``unknown``: what is said where nothing knows the type."""

    word: str
    make: Callable[[Any], Aggregate[Any, Any, Any]]
    unknown: UsageError

    def _name(self) -> str:
        return self.word

    def type_arguments(self) -> NoReturn:
        raise self.unknown

    def lift(self, value: Any) -> NoReturn:
        raise self.unknown

    def identity(self) -> NoReturn:
        raise self.unknown

    def combine(self, a: Any, b: Any) -> NoReturn:
        raise self.unknown

    def result(self, agg: Any) -> NoReturn:
        raise self.unknown


def settled_aggregate(word: str, make: Callable[[Any], Any], parts: Sequence[Any] | None = None) -> Any:
    """What ``make(None)`` makes without knowing the values; an open aggregate if it has to know them. ``parts``: the aggregates
    of which it is made, if there are any: where their results do not depend on the values, the values tell nothing more."""
    try:
        return make(None)
    except TypeUnknown as error:
        if parts is not None and not any(_depends(part) for part in parts):
            raise
        return OpenAggregate(word, make, error)


def _depends(part: Any) -> bool:
    """Whether the result of an aggregate depends on the type of the values."""
    if isinstance(part, OpenAggregate):
        return True
    result = types_of(part)[1]
    return isinstance(result, TypeVar) or bool(getattr(result, "__parameters__", ()))


def settled(word: str, make: Callable[[Any, Any], Any]) -> Any:
    """What ``make(None, None)`` makes without knowing the key and the value; an open operator if it has to know them."""
    try:
        return make(None, None)
    except TypeUnknown as error:
        return OpenOperator(word, make, error)


def over_aggregates(function: Callable[P, R]) -> Callable[P, R]:
    """A function that makes an operator of aggregates, also of open ones: then it makes an open operator."""

    @functools.wraps(function)
    def operator(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and isinstance(args[0], types.FunctionType | type):
            name = args[0].__name__
            what = f"{function.__name__} was given {show(args[0])}, which is no aggregate"
            fix = "give an aggregate, such as sum(lambda value: ...)" if name == "<lambda>" else f"call it: {name}()"
            raise UsageError("TT121", what, fix=fix)
        parts = [one for one in (*args, *kwargs.values()) if isinstance(one, OpenAggregate)]
        if not parts:
            return function(*args, **kwargs)

        def make(key: Any, value: Any) -> Any:
            made: Any = function
            named = {name: _for_values(one, value) for name, one in kwargs.items()}
            return made(*aggregates_for(args, value), **named)

        op: Any = OpenOperator(function.__name__, make, parts[0].unknown)
        return op  # type: ignore[no-any-return]

    return operator


def aggregates_for(parts: Iterable[Any], value: Any) -> list[Any]:
    """Aggregates for values of a type, the open ones among them as well. None: the type is not known."""
    return [_for_values(part, value) for part in parts]


def _for_values(part: Any, value: Any) -> Any:
    return part.make(value) if isinstance(part, OpenAggregate) and value is not None else part


def results_for(parts: Iterable[Aggregate[Any, Any, Any]], value: Any) -> tuple[Any, ...]:
    """The types of the results of aggregates for values of a type, or of any type if it is None."""
    results = []
    for part in parts:
        takes, result = types_of(part)
        results.append(substitute(result, {takes: value}) if isinstance(takes, TypeVar) and value is not None else result)
    return tuple(results)
