"""Tables outside the dataflow, such as in a database, which answer look-ups by key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tracetypes.records import Record

__all__ = ["LookupTable"]


class LookupTable(ABC):
    """A table of records by key. Its answers should not change while a run goes on.

    An operator calls ``get(key)`` for single items. If the operator runs over columns, the backend calls :meth:`rows`
    with all keys of a column instead. The table is shipped with the operator, so it is plain data, and opens
    connections only when it needs them.
    """

    @property
    @abstractmethod
    def row(self) -> Record:
        """The schema of the rows."""

    @abstractmethod
    def get(self, key: Any, /) -> Any:
        """The row of a key, or None."""

    @abstractmethod
    def rows(self, keys: Sequence[Any], /) -> Mapping[Any, Any]:
        """The rows of those keys that have a row."""

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def __getitem__(self, key: Any) -> Any:
        row = self.get(key)
        if row is None:
            raise KeyError(key)
        return row
