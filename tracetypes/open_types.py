"""Operators whose types are not known before a stream says which items it has.

What a lambda returns follows from what it gets. A function of the library that needs this type, and gets no ``to=``, returns an
:class:`OpenOperator`. On a stream it becomes the operator that it stands for. Where the type of the stream is not known because
of a mistake before it, it stays as it is: the check reports the mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from tracetypes.errors import DataError, Location, UsageError, caller
from tracetypes.graph import DISPLAY, Stream, extend
from tracetypes.schemas import schema_of
from tracetypes.self_description import SelfDescribing

__all__ = ["INFERENCE", "Inference", "OpenOperator", "TypeUnknown"]


class TypeUnknown(UsageError):
    """Nothing says what a function returns (``TT120``)."""


@attrs.define
class Inference:
    """What functions return. A layer above this one registers it. ``returned``: the type that a function returns for arguments of
    these types, as an annotation; None if it is not known. Nothing is called with values."""

    returned: Callable[[Callable[..., Any], Sequence[Any]], Any] = lambda function, arguments: None


INFERENCE: Final = Inference()
"""What is registered."""


@attrs.frozen(eq=False)
class OpenOperator(SelfDescribing):
    """An operator whose types follow from the stream. ``word``: the function that made it. ``make``: the operator for a key and a
    value of these types. ``unknown``: what is said where nothing knows them. ``where``: the author's line."""

    word: str
    make: Callable[[Any, Any], Callable[[Stream[Any]], Stream[Any]]]
    unknown: UsageError
    where: Location = attrs.field(factory=caller)

    def _name(self) -> str:
        return self.word

    def __call__(self, upstream: Stream[Any]) -> Stream[Any]:
        """Append the operator to a stream; use :meth:`Stream.through`."""
        edge: Any = DISPLAY.edge(upstream)
        if edge is None or not (_has_schema(edge.key) and _has_schema(edge.value)):
            return extend(upstream, self)
        return self.make(edge.key, edge.value)(upstream)


def _has_schema(annotation: Any) -> bool:
    try:
        schema_of(annotation)
    except DataError:
        return False
    return True
