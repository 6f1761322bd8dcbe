"""Functions that JSON may write: the value of a field, and comparisons with it. They are ordinary Python, so they are traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["COMPARISONS", "field_of", "function_of"]

COMPARISONS: Final = ("above", "below", "is", "is_not")


def field_of(name: str) -> Callable[[Any], Any]:
    """A function that gives a field of a record."""

    def get(value: Any) -> Any:
        return getattr(value, name)

    return get


def function_of(field: str | None, comparison: str | None, bound: Any, *, with_key: bool) -> Callable[..., Any]:
    """A function of a value, or of a key and a value. ``field``: None for the value itself. ``comparison``: None if none."""
    function = _compared(field, comparison, bound)

    def of_pair(key: Any, value: Any) -> Any:
        return function(value)

    return of_pair if with_key else function


def _compared(field: str | None, comparison: str | None, bound: Any) -> Callable[[Any], Any]:
    get = _itself if field is None else field_of(field)

    def above(value: Any) -> bool:
        return bool(get(value) > bound)

    def below(value: Any) -> bool:
        return bool(get(value) < bound)

    def equal(value: Any) -> bool:
        return bool(get(value) == bound)

    def different(value: Any) -> bool:
        return bool(get(value) != bound)

    functions = {None: get, "above": above, "below": below, "is": equal, "is_not": different}
    return functions[comparison]


def _itself(value: Any) -> Any:
    return value
