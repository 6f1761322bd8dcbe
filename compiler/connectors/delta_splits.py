"""A Delta table as source splits: the files that versions add."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import attrs

from tracetypes.compiler.connectors.delta import (
    PAUSE,
    Log,
    Place,
    TableWatch,
    check_table,
    open_table,
    path_of,
    refuse_format,
)
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.errors import RunError

__all__ = ["TableSource", "TableSplits"]


@attrs.frozen
class TableSource:
    """A table as the input of a source. ``id``: of the table. ``until``: the last version to read, None for no end. ``most``: the
    largest number of files in an epoch."""

    path: Path
    id: str
    until: int | None
    most: int | None

    @classmethod
    def of(cls, leaf: FromSource, address: str, most: int | None, *, bounded: bool) -> TableSource:
        """From an address. ``bounded``: up to the version that is the last one now."""
        path = path_of(address)
        refuse_format(f"source {leaf.source.name!r}", leaf.source.format)
        table = open_table(path)
        check_table(leaf, table, str(path))
        return cls(path, str(table.metadata().id), table.version() if bounded else None, most)

    @property
    def identity(self) -> EndpointIdentity:
        """The identity of the table."""
        return EndpointIdentity("table", str(self.path), self.id)

    def splits(self) -> TableSplits:
        """The splits of the table."""
        return TableSplits(Log(self.path), self.id, self.until, self.most)


class TableSplits:
    """Splits of a table. An offset ``{"table": ID, "version": 3, "file": 1}`` is the next place to read. A split is a
    file: its path, version, number within it, and the values of partition columns as JSON. ``until``: the last
    version to read, None for no end. ``most``: the largest number of files in an epoch."""

    def __init__(self, log: Log, table: str, until: int | None, most: int | None) -> None:
        self.log, self.table, self.until, self.most = log, table, until, most
        self.watch = TableWatch(log, table)

    def begin(self) -> dict[str, Any]:
        """The first version. Raises if it is gone, because the order of the rows of earlier versions would be unknown."""
        if (first := self.log.versions()[0]) > 0:
            raise RunError(
                "TT208",
                f"the log of {self.log.table} begins with version {first}: the order of its first files is gone",
                fix="copy the table to a new one, and keep its log (delta.logRetentionDuration)",
            )
        return self.offset(Place(0, 0))

    def offset(self, place: Place) -> dict[str, Any]:
        """A place as an offset."""
        return {"table": self.table, **place._asdict()}

    def end(self, since: dict[str, Any]) -> dict[str, Any]:
        """The end of the next epoch. Waits a moment if nothing is new, because a backend may ask again at once."""
        place = Place(since["version"], since["file"])
        first, _ = self.log.versions()
        if place.version < first:
            raise self.log.changed(f"its log begins with version {first}, and version {place.version} comes next")
        end = self.log.end(place, self.until, self.most)
        self.watch.check()
        if end == place:
            time.sleep(PAUSE)
        return self.offset(end)

    def splits(self, since: dict[str, Any], until: dict[str, Any]) -> list[tuple[str, int, int, str]]:
        """The files between two offsets."""
        start, end = (Place(offset["version"], offset["file"]) for offset in (since, until))
        splits = [
            (added.path, place.version, place.file, json.dumps(added.partition))
            for place, added in self.log.between(start, end)
        ]
        self.watch.check()
        return splits
