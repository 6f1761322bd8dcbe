"""The log of a Delta table."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlparse

import attrs
import pyarrow as pa

from tracetypes.compiler.connectors.parquet import check_columns
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.errors import RunError, UsageError
from tracetypes.fencing import another_one
from tracetypes.formats import Format, Kafka, Parquet

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = [
    "FEATURES",
    "PAUSE",
    "SCHEME",
    "Added",
    "Log",
    "Place",
    "TableWatch",
    "check_table",
    "open_table",
    "path_of",
    "refuse_format",
    "require_deltalake",
]


SCHEME = "delta:"


PAUSE = 0.1
"""Seconds before a table without new versions is looked at again."""


FEATURES = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""What a table may ask of its readers. (Of deletion vectors that they are seen: the versions that have some are refused.)"""


def path_of(address: str) -> Path:
    """The directory of a table. Raises :class:`UsageError` ``TT402`` for a wrong address, and ``TT401`` without the
    package."""
    text = address.removeprefix(SCHEME)
    if not text or "://" in text:
        raise UsageError("TT402", f"{address} is no address of a table", fix="write delta:DIRECTORY; outputs may be on delta:s3://")
    require_deltalake()
    return Path(os.path.abspath(text))


def require_deltalake() -> None:
    """Raises :class:`UsageError` ``TT401`` if the package is not installed."""
    if importlib.util.find_spec("deltalake") is None:
        raise UsageError("TT401", "deltalake is not installed", fix="pip install 'tracetypes[delta]'")


def refuse_format(what: str, format: Format | Kafka | None) -> None:
    """Refuse a source or sink that declares another format than that of a table's files. Raises :class:`RunError` ``TT207``."""
    if format is not None and not isinstance(format, Parquet):
        raise RunError(
            "TT207",
            f"{what}: files of a table are not {type(format).__name__}",
            fix="declare format=parquet() or no format",
        )


class Place(NamedTuple):
    """A place in a log: the next file is the ``file``-th that this version adds."""

    version: int
    file: int


@attrs.frozen
class Added:
    """A file of rows that a version adds. ``partition``: the values of the table's partition columns, as text."""

    path: str
    partition: dict[str, str | None]


@attrs.frozen
class Log:
    """The log of a table."""

    table: Path

    def entry(self, version: int) -> Path:
        """The file of a version."""
        return self.table / "_delta_log" / f"{version:020d}.json"

    def versions(self) -> tuple[int, int]:
        """The first version that the log still has, and the last one that it knows. Raises :class:`RunError` ``TT218``."""
        directory = self.entry(0).parent
        names = [path.name for path in directory.glob("[0-9]" * 20 + ".*")]
        first = [int(name[:20]) for name in names if name[20:] == ".json"]
        checkpoints = [int(name[:20]) for name in names if name[20:].startswith(".checkpoint.")]
        if not first:
            raise self.changed("its log is gone")
        return min(first), max(first + checkpoints)

    def hole(self, version: int, last: int) -> RunError:
        """The error for a missing version in the middle."""
        return RunError(
            "TT208",
            f"version {version} of {self.table} is missing in its log, which goes on to version {last}",
            fix="put the file back, or start anew with a copy of the table",
        )

    def changed(self, why: str) -> RunError:
        """The error for a table that is not the one that the run began with."""
        return another_one(str(self.table), why)

    def added(self, version: int) -> list[Added]:
        """The files that a version adds, in the order of its actions. Raises :class:`RunError` ``TT219`` if it removes
        rows."""
        files: list[Added] = []
        with self.trouble(version):
            lines = self.entry(version).read_text(encoding="utf-8").splitlines()
            actions = [json.loads(line) for line in lines if line.strip()]
        operation = next((action["commitInfo"].get("operation") for action in actions if "commitInfo" in action), None)
        for action in actions:
            for kind in ("add", "remove"):
                about = action.get(kind)
                if about is None or not about.get("dataChange", True):
                    continue
                if kind == "remove" or about.get("deletionVector") is not None:
                    raise RunError(
                        "TT219",
                        f"version {version} of {self.table} removes rows" + (f" ({operation})" if operation else ""),
                        fix="a stream cannot take rows back: read a table that is only appended to, or start anew behind that "
                        "version with a copy of the table",
                    )
                files.append(Added(self.place(about["path"]), about.get("partitionValues") or {}))
        return files

    def place(self, path: str) -> str:
        """The file of an action. Its path is quoted, and usually relative to the table."""
        named = urlparse(path)
        if named.scheme not in ("", "file"):
            raise RunError(
                "TT208", f"{self.table}: {path} is not on a local disk", fix="give a table with files of its own"
            )
        return str(self.table / unquote(named.path))

    @contextmanager
    def trouble(self, version: int) -> Iterator[None]:
        """A context that turns errors of reading the log into errors of tracetypes."""
        try:
            yield
        except (OSError, ValueError) as error:
            raise RunError(
                "TT208",
                f"version {version} of {self.table} cannot be read: {error}",
                fix="see whether the log of the table is whole, then run again",
            ) from error

    def end(self, start: Place, until: int | None, most: int | None) -> Place:
        """The place after the next files: up to version ``until``, and at most ``most`` of them. The place itself if
        there are none. Raises :class:`RunError` ``TT208`` for a hole in the log."""
        version, number = start
        files = 0
        last = max(self.versions()[1], -1 if until is None else until)
        while until is None or version <= until:
            if not self.entry(version).exists():
                if version <= last:  # each is written when the one before it is there
                    raise self.hole(version, last)
                break
            count = len(self.added(version))
            if most is not None and count - number > most - files:
                number += most - files
                files = most
                break
            files += count - number
            version, number = version + 1, 0
        return Place(version, number) if files else start

    def between(self, start: Place, end: Place) -> Iterator[tuple[Place, Added]]:
        """The files between two places."""
        for version in range(start.version, end.version + 1):
            if version < end.version or end.file:
                files = self.added(version)
                last = end.file if version == end.version else len(files)
                for number in range(start.file if version == start.version else 0, last):
                    yield Place(version, number), files[number]


@attrs.define
class TableWatch:
    """Watches whether a table is still the one with this id. It opens the table only if the log begins with another
    file."""

    log: Log
    id: str
    first_file: tuple[int, ...] | None = attrs.field(init=False, default=None)
    """The first version when the table was last opened: a file, and its times."""

    def check(self) -> None:
        """Raises :class:`RunError` ``TT218`` if the table was removed, or removed and made anew."""
        first, _ = self.log.versions()
        try:
            about = self.log.entry(first).stat()
        except OSError:
            file = None
        else:
            file = (first, about.st_ino, about.st_mtime_ns, about.st_ctime_ns)
        if file is None or file != self.first_file:
            if str(open_table(self.log.table).metadata().id) != self.id:
                raise self.log.changed("it was removed and made anew")
            self.first_file = file


def open_table(path: Path) -> DeltaTable:
    """A table. Raises :class:`RunError` ``TT208`` if there is none, or none that can be read here."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(path)
        protocol, configuration = table.protocol(), table.metadata().configuration
    except (DeltaError, OSError) as error:
        raise RunError(
            "TT208", f"{path} cannot be read as a Delta table: {error}", fix="give an existing table"
        ) from error
    mapped = configuration.get("delta.columnMapping.mode", "none") != "none"
    unknown = (set(protocol.reader_features or ()) - FEATURES - {"columnMapping"}) | (
        {"columnMapping"} if mapped else set()
    )
    if unknown:
        raise RunError(
            "TT208",
            f"{path} asks its readers for {', '.join(sorted(unknown))}",
            fix="copy it to a table without that",
        )
    return table


def check_table(leaf: FromSource, table: DeltaTable, where: str) -> None:
    """Check that a table has the columns of a source. Raises :class:`RunError` ``TT203``."""
    columns, format = pa.schema(table.schema()), leaf.source.format
    for name in table.metadata().partition_columns:  # whose values are text in the log
        kind = columns.field(name).type
        if name in dict(leaf.layout.columns) and pa.types.is_timestamp(kind) and kind.tz is None:
            raise RunError(
                "TT203",
                f"{where}: the partition column {name!r} has times without a zone",
                fix="write the table with instants, or read the column as text in another table",
            )
    zone = format.zone if isinstance(format, Parquet) else None
    check_columns(leaf.layout, columns, lambda _: zone, where)
