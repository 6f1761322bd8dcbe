"""What instances of generic classes know of their own types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = ["Typed"]


class Typed:
    """What instances of generic classes know of their own types."""

    _is_keyed: ClassVar[bool] = True
    """Does the template bring items together by key?"""

    def type_arguments(self) -> Mapping[str, Any]:
        """Types for type parameters of this class that the instance knows; by default none.

        Keys are the names of parameters of the class that defines the method, values annotations, which may hold type
        variables that the upstream edge will bind: ``{"W": float}``, or ``{"W": list[V]}``. (``Count[str, int]()`` at run
        time does not do: a frozen instance refuses to remember its ``[str, int]``.)
        """
        return {}
