"""Which values are of a declared type, for states and aggregates, whose types need no schema.

Only the value itself is looked at, not what it contains. What is accepted where an operator emits is accepted here, too: an
``int`` for a ``float``, a tuple for a list.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from numbers import Integral, Real
from typing import Annotated, Any, Final, Literal, NewType, TypeAlias, Union, get_args, get_origin

__all__ = ["Test", "excludes_none", "value_test"]

Test: TypeAlias = Callable[[Any], bool]


def value_test(annotation: Any) -> Test | None:
    """Whether a value is of the annotated type. None where ``isinstance`` cannot tell, or every value is."""
    while isinstance(annotation, NewType) or get_origin(annotation) is Annotated or hasattr(annotation, "__value__"):
        if isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        else:
            annotation = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation.__value__
    origin = get_origin(annotation)
    if origin is Union or isinstance(annotation, types.UnionType):
        return _any([value_test(one) for one in get_args(annotation)])
    if origin is Literal:
        return lambda value: any(value is one or (type(value) is type(one) and value == one) for one in get_args(annotation))
    if annotation is None:
        return lambda value: value is None
    return _of_class(origin or annotation)


def excludes_none(annotation: Any) -> bool:
    """Whether None is certainly no value of the annotated type."""
    test = value_test(annotation)
    return test is not None and not test(None)


def _any(tests: list[Test | None]) -> Test | None:
    known = [test for test in tests if test is not None]
    return None if len(known) < len(tests) else lambda value: any(test(value) for test in known)


_WIDER: Final[dict[Any, tuple[type[Any], ...]]] = {
    int: (Integral,),
    float: (Real,),
    complex: (Real, complex),
    bytes: (bytes, bytearray, memoryview),
    list: (list, tuple),
    tuple: (list, tuple),
}
"""What else is accepted for a class."""


def _of_class(cls: Any) -> Test | None:
    if not isinstance(cls, type) or cls in (object, Any) or typing.is_typeddict(cls) or getattr(cls, "_is_protocol", False):
        return None
    classes = _WIDER.get(cls, (cls,))
    try:
        isinstance(None, classes)
    except Exception:
        return None

    def test(value: Any) -> bool:
        if isinstance(value, classes):
            return True
        held = _held(value)
        return held is not value and test(held)

    return test


def _held(value: Any) -> Any:
    """The value of Python that a scalar of numpy holds."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value
