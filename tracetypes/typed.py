"""The types that instances of generic classes know of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = ["Typed"]


class Typed:
    """An instance of a generic class that knows some of its type arguments."""

    _is_keyed: ClassVar[bool] = True
    """Does the template bring items together by key?"""

    def type_arguments(self) -> Mapping[str, Any]:
        """Type arguments of this class that the instance knows. None by default.

        Keys are names of type parameters of the class that defines the method. Values are annotations, which may
        contain type variables that the stream binds: ``{"W": float}``, or ``{"W": list[V]}``. (``Count[str, int]()``
        does not help at run time: a frozen instance cannot remember its ``[str, int]``.)
        """
        return {}
