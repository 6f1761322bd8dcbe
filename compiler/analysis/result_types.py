"""The types of what functions return, by tracing them: for the operators of the library that are not told."""

from __future__ import annotations

import datetime as dt
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from types import FunctionType, GenericAlias
from typing import Annotated, Any, Final

from tracetypes.compiler.tracing.expr import Branch, Const, Leaf, Pack, Tree, Value
from tracetypes.compiler.tracing.kinds import Exact
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace
from tracetypes.errors import DataError
from tracetypes.records import (
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    Optional,
    Record,
    String,
    Timestamp,
    UInt64,
    Unit,
    UnitValue,
    Unsigned,
)
from tracetypes.schemas import schema_of

__all__ = ["type_returned"]

_NONE: Final = type(None)
_SCALARS: Final[Mapping[type[Any], Any]] = {
    Boolean: bool,
    Integer: int,
    Float: float,
    String: str,
    Bytes: bytes,
    Timestamp: dt.datetime,
    Date: dt.date,
    Unsigned: UInt64,
    UnitValue: Unit,
}


def type_returned(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The type that a function returns for arguments of these types, as an annotation. None: it is not known, because the
    function cannot be traced, or returns what has no type of ours."""
    if not isinstance(function, FunctionType):
        return None
    try:
        tree = trace(function, [Given(f"argument{at}", schema_of(one)) for at, one in enumerate(arguments)], emits=None)
        return _together([_of_value(leaf.result) for leaf in _leaves(tree) if not leaf.raises])
    except (DataError, Untraceable, TypeError):
        return None


def _leaves(tree: Tree) -> Iterator[Leaf]:
    pending: list[Tree] = [tree]
    while pending:
        match pending.pop():
            case Branch(then=then, otherwise=otherwise):
                pending += (then, otherwise)
            case Leaf() as leaf:
                yield leaf


def _of_value(value: Value | None) -> Any:
    match value:
        case None | Const(value=None):
            return _NONE
        case Pack(cls=cls, parts=parts) if cls is tuple:
            several = [_of_value(part) for part in parts]
            return None if None in several else GenericAlias(tuple, tuple(several))
        case Pack(cls=cls):
            return None if getattr(cls, "__parameters__", ()) else cls
        case _:
            return _of_kind(value.kind)


def _of_kind(kind: Any) -> Any:
    match kind:
        case None | Exact():
            return None
        case Optional(item=item):
            inner = _of_kind(item)
            return None if inner is None else typing.Optional[inner]  # noqa: UP045
        case DecimalOf():
            return Annotated[Decimal, kind]
        case EnumOf(cls=cls):
            return cls
        case Record(cls=cls):
            return None if getattr(cls, "__parameters__", ()) else cls
        case ListOf(item=item, frozen=frozen):
            inner = _of_kind(item)
            return None if inner is None else GenericAlias(tuple, (inner, ...)) if frozen else GenericAlias(list, (inner,))
        case _:
            return _SCALARS.get(type(kind))


def _together(several: Sequence[Any]) -> Any:
    """The type of a value that has one of these types; None where there is no such type of ours."""
    bare: list[Any] = []
    missing = False
    for one in several:
        args = typing.get_args(one) if typing.get_origin(one) is typing.Union else (one,)
        missing = missing or _NONE in args
        bare += [arg for arg in args if arg is not _NONE and arg not in bare]
    if not bare or None in bare:
        return None
    if len(bare) > 1:
        if not all(one in (int, float) for one in bare):
            return None
        bare = [float]
    return typing.Optional[bare[0]] if missing else bare[0]  # noqa: UP045
