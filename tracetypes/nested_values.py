"""What a state or an aggregate holds that is not of its declared type. A type that ``isinstance`` cannot ask is not checked."""

from __future__ import annotations

import types
import typing
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin

from tracetypes.record_classes import by_class, fields_of
from tracetypes.templates import substitute
from tracetypes.value_tests import value_test

__all__ = ["Wrong", "wrong_inside"]

Wrong: TypeAlias = tuple[str, Any, Any]
"""Where in a value it is, as text, what is there, and the type that it should have."""

_MOST: Final = 100
"""Values of one container that are looked at."""

_DEEPEST: Final = 8


def wrong_inside(annotation: Any, value: Any) -> Wrong | None:
    """The first value inside of one that is of the annotated type, whose own type is another than declared."""
    return next(_wrong(annotation, value, "", 0), None)


def _wrong(annotation: Any, value: Any, at: str, depth: int) -> Iterator[Wrong]:
    """``value`` itself is of the type."""
    if depth > _DEEPEST:
        return
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Union or isinstance(annotation, types.UnionType):
        fits = [one for one in args if (test := value_test(one)) is None or test(value)]
        found = [wrong for one in fits if (wrong := next(_wrong(one, value, at, depth), None)) is not None]
        yield from found[:1] if len(found) == len(fits) else ()
        return
    for where, inner, type_ in _held(origin or annotation, args, value):
        test = value_test(type_)
        if test is not None and not test(inner):
            yield f"{at}{where}", inner, type_
        else:
            yield from _wrong(type_, inner, f"{at}{where}", depth + 1)


def _held(cls: Any, args: tuple[Any, ...], value: Any) -> Iterable[Wrong]:
    """What a value holds: where, what, and of which type it should be."""
    if not isinstance(cls, type):
        return ()
    if cls is tuple and isinstance(value, list | tuple):
        each = args[:1] * len(value) if args[1:] == (...,) else args
        return [
            (f"[{at}]", one, type_) for at, (one, type_) in enumerate(zip(islice(value, _MOST), each, strict=False))
        ]
    if args and issubclass(cls, Mapping) and isinstance(value, Mapping):
        key_type, type_ = args if len(args) == 2 else (args[0], int if issubclass(cls, Counter) else Any)
        pairs = list(islice(value.items(), _MOST))
        return [*((f"[{key!r}]", one, type_) for key, one in pairs), *((".keys()", key, key_type) for key, _ in pairs)]
    if len(args) == 1 and issubclass(cls, Collection) and isinstance(value, Collection) and fields_of(cls) is None:
        return [(f"[{at}]", one, args[0]) for at, one in enumerate(islice(value, _MOST))]
    bound = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
    fields = {} if fields_of(cls) is None or not isinstance(value, cls) else _field_types(cls)
    some = [(name, type_) for name, type_ in fields.items() if hasattr(value, name)]
    return [(f".{name}", getattr(value, name), substitute(type_, bound)) for name, type_ in some]


@by_class
def _field_types(cls: type[Any]) -> dict[str, Any]:
    """The types of the fields of a record class. Those of a base with type parameters are left out: these mean others there."""
    names = fields_of(cls) or ()
    try:
        hints = typing.get_type_hints(cls, include_extras=True) if names else {}
    except Exception:  # names that only the author's file knows
        return {}
    own = typing.cast("dict[str, Any]", getattr(cls, "__annotations__", {}))
    return {name: hints[name] for name in names if name in hints and (name in own or not _is_generic(hints[name]))}


def _is_generic(annotation: Any) -> bool:
    return isinstance(annotation, TypeVar) or bool(getattr(annotation, "__parameters__", ()))
