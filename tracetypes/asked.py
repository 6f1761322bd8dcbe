"""Tables that lie elsewhere, such as in a database, and are asked for the rows of keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tracetypes.records import Record

__all__ = ["LookupTable"]


class LookupTable(ABC):
    """A table of records by key. What it answers should not change while a run goes on.

    An operator asks ``get(key)`` for single items. Where the operator runs over columns, it is asked for all keys of a column
    at once instead. It is shipped with the operator, so it is plain data, and opens connections when it needs them.
    """

    @property
    @abstractmethod
    def row(self) -> Record:
        """The schema of its rows."""

    @abstractmethod
    def get(self, key: Any, /) -> Any:
        """The row of a key, None where there is none."""

    @abstractmethod
    def rows(self, keys: Sequence[Any], /) -> Mapping[Any, Any]:
        """The rows of those keys that have one."""

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found
