"""What an object is, as a text, and the objects that the text leaves to descriptions of their own."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

import attrs

__all__ = ["NOTHING", "SCALARS", "Description", "Hide", "Reads", "Unidentified", "refuse"]

Hide: TypeAlias = Callable[[str], str]
"""A keyed hash for secrets."""

SCALARS: Final = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType)
"""The types of values whose ``repr`` says all, and which no code can tell from equal ones."""


class Unidentified(Exception):
    """Nothing can say whether another object is the same. The text says why, in words for users."""


def refuse(reason: str | None) -> None:
    """Raise :class:`Unidentified` if there is a reason."""
    if reason is not None:
        raise Unidentified(reason)


@final
@attrs.frozen
class Reads:
    """What code looks at beside values. ``attributes``: names of attributes, or what may be one. ``everything``: attributes whose
    names are not known. ``names``: of functions, classes and modules. ``shown``: records as text, so the names of their classes.
    ``types``: classes as values. ``docs``: docstrings."""

    attributes: frozenset[str] = frozenset()
    everything: bool = False
    names: bool = False
    shown: bool = False
    types: bool = False
    docs: bool = False

    def __or__(self, other: Reads) -> Reads:
        return Reads(
            self.attributes | other.attributes,
            self.everything or other.everything,
            self.names or other.names,
            self.shown or other.shown,
            self.types or other.types,
            self.docs or other.docs,
        )


NOTHING: Final = Reads()


@final
@attrs.frozen(eq=False)
class Description:
    """An object. ``text`` has an ``@`` for each of the ``parts``, which are objects with descriptions of their own.

    ``members``: what counts only if code reads an attribute of that name; ``always``: the names of those that count in any
    case. ``class_name``, ``name`` and ``docs`` count only if code looks at them. ``constants``: values that a class holds by
    name. ``uses``: after how many steps something inside of an attribute of that name goes on (:mod:`.uses`), whosever it is;
    ``assigned``: names of attributes that are assigned, but for those of the first parameter."""

    text: str
    parts: tuple[Any, ...] = ()
    reads: Reads = NOTHING
    members: Mapping[str, Any] = attrs.field(factory=dict)
    always: frozenset[str] = frozenset()
    class_name: str = ""
    name: str = ""
    docs: str = ""
    constants: Mapping[str, Any] = attrs.field(factory=dict)
    uses: Mapping[str, int] = attrs.field(factory=dict)
    assigned: frozenset[str] = frozenset()
