"""The return types of functions, for operators whose output type does not follow from the stream alone.

Types are never inferred from data. A class returns its instances; a function returns the type of its return annotation. What a
lambda returns follows from its code and the types of its arguments. For anything else the author declares the type with ``to=``.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, get_args, get_origin

from tracetypes.calls import like
from tracetypes.errors import UsageError
from tracetypes.open_types import INFERENCE, TypeUnknown
from tracetypes.records import show
from tracetypes.schemas import show_type
from tracetypes.stdlib.lambda_types import missing_attribute, type_of_lambda

__all__ = ["element_of", "function_or_none", "needed_function", "pair_of", "returned", "same_values"]


def function_or_none(caller: str, of: Any) -> Any:
    """``of`` itself. Raises :class:`UsageError` ``TT121`` if it is neither None nor a function."""
    if of is not None and not callable(of):
        raise UsageError(
            "TT121", f"{caller} was given {show(of)}, which is no function", fix="pass a function of a value"
        )
    return of


def needed_function(caller: str, name: str, function: Any) -> Any:
    """``function`` itself. Raises :class:`UsageError` ``TT121`` if it is no function."""
    if not callable(function):
        raise UsageError(
            "TT121",
            f"{caller} was given {name}={show(function)}, which is no function",
            fix=f"pass a function of a value: {name}=lambda value: ...",
        )
    return function


def returned(function: object, to: object, caller: str, *, arguments: Sequence[Any] | None = None) -> Any:
    """The type that ``function`` returns: ``to``, or the return annotation if ``to`` is None. ``arguments``: the types of
    its arguments, None for each that is not known; what a lambda returns follows from them and its code.

    Messages name ``caller``. Raises :class:`UsageError` ``TT120`` if an annotation cannot be resolved, and
    :class:`TypeUnknown` if there is neither ``to`` nor an annotation, and the type does not follow from the arguments.
    """
    if not callable(function):
        raise UsageError("TT121", f"{caller} was given {show(function)}, which is no function", fix="pass a function")
    if to is not None:
        return to
    if isinstance(function, type):
        return function
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if isinstance(inner, type):
        return inner
    if not hasattr(inner, "__annotations__"):  # an instance of a class that can be called
        inner = type(inner).__call__
    try:
        hints = typing.get_type_hints(inner, include_extras=True)
    except NameError as error:
        raise UsageError(
            "TT120",
            f"{caller}: the annotations of {_name(function)} cannot be resolved ({error})",
            fix=f"define the name at module level, or pass {caller}(..., to=<the type>)",
        ) from error
    except TypeError:  # a builtin: it has no annotations
        hints = {}
    if "return" not in hints and arguments is not None:
        found = type_of_lambda(function, arguments)
        if found is None and None not in arguments:
            found = INFERENCE.returned(function, arguments)
        if found is not None:
            return found
        if (missing := missing_attribute(function, arguments)) is not None:
            of, name, fields = missing
            what = f"{caller}: {_name(function)} reads {name!r} of {of.__name__}, which has no such"
            if fields:
                fix = like(name, fields) or f"its fields are {', '.join(fields)}"
                raise UsageError("TT120", f"{what} field", fix=fix)
            raise UsageError("TT120", f"{what} attribute", fix=like(name, dir(of)) or f"see the attributes of {of.__name__}")
        _check_count(function, caller, len(arguments))
    if "return" not in hints:
        raise TypeUnknown(
            "TT120",
            f"{caller} does not know what {_name(function)} returns",
            fix=f"pass {caller}(..., to=<the type>), or annotate what the function returns",
        )
    annotation: Any = hints["return"]
    return annotation


def _check_count(function: Callable[..., Any], caller: str, count: int) -> None:
    """Raises :class:`UsageError` ``TT121`` if a function cannot be called with so many arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin without one
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        which = "a value" if count == 1 else "a key and a value" if count == 2 else f"{count} arguments"
        raise UsageError(
            "TT121",
            f"{caller} calls {_name(function)} with {which}, and it takes {signature}: {error}",
            fix=f"write a function of {which}",
        ) from error


def pair_of(annotation: Any, caller: str) -> tuple[Any, Any]:
    """The key type and the value type of ``tuple[L, W]``. Raises :class:`UsageError` ``TT120``."""
    args = get_args(annotation)
    if get_origin(annotation) is not tuple or len(args) != 2 or args[1] is ...:
        raise UsageError(
            "TT120",
            f"{caller} needs pairs of a key and a value, and found {show_type(annotation)}",
            fix="annotate the function with tuple[K, V], or pass to=tuple[K, V]",
        )
    return args[0], args[1]


def element_of(
    annotation: Any,
    caller: str,
    what: str = "Iterator[tuple[K, V]] or list[tuple[K, V]]",
    declared: str = "to=tuple[K, V]",
) -> Any:
    """``T`` of ``list[T]``, ``Iterator[T]``, ``tuple[T, ...]`` and other iterables. Raises :class:`UsageError` ``TT120``,
    whose fix names an annotation that is ``what``, or what is ``declared`` instead."""
    origin, args = get_origin(annotation), get_args(annotation)
    iterable = isinstance(origin, type) and issubclass(origin, Iterable)
    if not iterable or not args or (origin is tuple and args[1:] != (...,)):
        raise UsageError(
            "TT120",
            f"{caller} needs a function that returns an iterable, and found {show_type(annotation)}",
            fix=f"annotate it with {what}, or pass {declared}",
        )
    return args[0]


def same_values(annotations: Iterable[Any], caller: str) -> Any:
    """The one type among the value types of several parts. A type variable takes any.

    Raises :class:`UsageError` ``TT120`` if two of them are concrete and differ.
    """
    result: Any = None
    for annotation in annotations:
        if result is None or (isinstance(result, TypeVar) and _narrower(annotation, result)):
            result = annotation
        elif not isinstance(annotation, TypeVar) and annotation != result:
            raise UsageError(
                "TT120",
                f"{caller}: its parts take values of {show_type(result)} and of {show_type(annotation)}",
                fix="let all parts take the same values, with a function of the value: of=...",
            )
    return result


def _narrower(annotation: Any, than: TypeVar) -> bool:
    if not isinstance(annotation, TypeVar):
        return True
    return bool(annotation.__constraints__) and not than.__constraints__


def _name(function: object) -> str:
    return getattr(function, "__qualname__", None) or show(function)
