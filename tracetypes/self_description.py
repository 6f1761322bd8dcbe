"""What an operator or aggregate tells of itself: its name, its parameters, the type arguments that it knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tracetypes.redaction import names_of

__all__ = ["SelfDescribing", "name_of_operator"]


class SelfDescribing:
    """The base of operators and aggregates, which tell messages and the checker what they are."""

    _is_keyed: ClassVar[bool] = True
    """Does the template bring items together by key?"""

    _is_template: ClassVar[bool] = False
    """Does the class itself declare the methods that subclasses define?"""

    _word: ClassVar[str] = ""
    """The function by which authors make it. Empty: they name the class."""

    _in_python: ClassVar[str] = ""
    """Why columns cannot hold what it keeps, where that is so: a sentence without its subject."""

    def _stands_for(self) -> SelfDescribing:
        """What authors made when this came of it: itself, unless a parameter put it around another."""
        return self

    def _name(self) -> str:
        """What authors wrote to make it, for messages."""
        return self._word or type(self).__name__

    def _parts(self) -> Iterator[tuple[str, object]]:
        """What authors gave it, by the names of parameters."""
        cls: Any = type(self)
        return ((name, getattr(self, name, None)) for name in names_of(cls) or ())

    def type_arguments(self) -> Mapping[str, Any]:
        """Type arguments of this class that the instance knows. None by default.

        Keys are names of type parameters of the class that defines the method. Values are annotations, which may
        contain type variables that the stream binds: ``{"W": float}``, or ``{"W": list[V]}``. (``Count[str, int]()``
        does not help at run time: a frozen instance cannot remember its ``[str, int]``.)
        """
        return {}


def name_of_operator(op: object) -> str:
    """What authors wrote to make an operator; the name of its class where it is none."""
    return op._name() if isinstance(op, SelfDescribing) else type(op).__name__
