"""Delta tables on local or mounted disks as sources and as the sink.

As sources: the log of a table says in which order its files came, by version and within a version by the order of its actions.
That is the source order. Spark only keeps the place in the log (a Python data source whose rows are names of files), and the
workers read the files as they read any Parquet. A version that takes rows away has no place in a stream, and is refused.

As the sink: files are written as for a sink of Parquet, moved into the table's directory, and one commit adds them, together
with the number of the micro-batch as the version of an application of the run's own. A micro-batch whose commit went through
is not committed again.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain as chained
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlparse

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tracetypes.compiler.columns.arrow import schema_of_rows
from tracetypes.compiler.connectors.row_files import Shown
from tracetypes.compiler.plan.plan import FromSource, Plan
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Piece
from tracetypes.compiler.runtime.source import Taken
from tracetypes.compiler.spark.files import check_types
from tracetypes.compiler.spark.scan import ParquetScan, taker
from tracetypes.compiler.spark.wire import settle, told
from tracetypes.compiler.store.input_identity import InputIdentity
from tracetypes.errors import RunError, UsageError
from tracetypes.formats import Parquet, Row
from tracetypes.records import Optional, UnitValue

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["TableInput", "TableScan", "TableSink", "is_table"]

SCHEME = "delta:"

PAUSE = 0.1
"""Seconds before a table without new versions is looked at again."""

FEATURES = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""What a table may ask of its readers. (Of deletion vectors that they are seen: the versions that have some are refused.)"""

CONSTRAINT = "delta.constraints."
"""The settings of a table that are CHECK constraints."""

COMPUTED = ("delta.invariants", "delta.generationExpression", "delta.identity.")
"""What a column says of itself that has conditions or values of its own."""

WRITTEN = FEATURES | {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "columnMapping",
    "generatedColumns",
    "identityColumns",
    "invariants",
}
"""What a table may ask of its writers. (Of constraints and mapped columns that they are seen: tables with some are refused.)"""

FILES = "path string, version bigint, number bigint, partition string"


def is_table(address: str) -> bool:
    """Does an ``--input`` or ``--output`` name a Delta table?"""
    return address.startswith(SCHEME)


def path_of(address: str) -> Path:
    """The directory of a table. Raises :class:`UsageError` ``TT402`` for what is none, and ``TT401`` without the package."""
    text = address.removeprefix(SCHEME)
    if not text or "://" in text:
        raise UsageError("TT402", f"{address} is no address of a table", fix="write delta:DIRECTORY, on a local disk")
    if importlib.util.find_spec("deltalake") is None:
        raise UsageError("TT401", "deltalake is not installed", fix="pip install 'tracetypes[delta]'")
    return Path(os.path.abspath(text))


# ----------------------------------------------------------------------------------------------------- log


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
        """The first version that the log still has, and the last one that it knows of. Raises :class:`RunError` ``TT218``."""
        directory = self.entry(0).parent
        names = [path.name for path in directory.glob("[0-9]" * 20 + ".*")]
        first = [int(name[:20]) for name in names if name[20:] == ".json"]
        checkpoints = [int(name[:20]) for name in names if name[20:].startswith(".checkpoint.")]
        if not first:
            raise self.changed("its log is gone")
        return min(first), max(first + checkpoints)

    def hole(self, version: int, last: int) -> RunError:
        """The error for a hole."""
        return RunError(
            "TT208",
            f"version {version} of {self.table} is missing in its log, which goes on to version {last}",
            fix="put the file back, or start anew with a copy of the table",
        )

    def changed(self, why: str) -> RunError:
        """The error for a table that is no longer what a run began with."""
        return RunError(
            "TT218",
            f"{self.table} has changed since the run began: {why}",
            fix="give another --checkpoint and output to start anew",
        )

    def added(self, version: int) -> list[Added]:
        """The files that a version adds, in the order of its actions. Raises :class:`RunError` ``TT219`` when it removes rows."""
        found: list[Added] = []
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
                found.append(Added(self.place(about["path"]), about.get("partitionValues") or {}))
        return found

    def place(self, path: str) -> str:
        """The file of an action: its path is quoted, and relative to the table as a rule."""
        named = urlparse(path)
        if named.scheme not in ("", "file"):
            raise RunError(
                "TT208", f"{self.table}: {path} is not on a local disk", fix="give a table with files of its own"
            )
        return str(self.table / unquote(named.path))

    @contextmanager
    def trouble(self, version: int) -> Iterator[None]:
        """Inside, a log that cannot be read is an error of ours."""
        try:
            yield
        except (OSError, ValueError) as error:
            raise RunError(
                "TT208",
                f"version {version} of {self.table} cannot be read: {error}",
                fix="see whether the log of the table is whole, then run again",
            ) from error

    def end(self, start: Place, until: int | None, most: int | None) -> Place:
        """Behind the files from a place on: up to version ``until``, and ``most`` of them. The place itself if there are none.
        Raises :class:`RunError` ``TT208`` for a hole in the log."""
        version, number = start
        taken = 0
        last = max(self.versions()[1], -1 if until is None else until)
        while until is None or version <= until:
            if not self.entry(version).exists():
                if version <= last:  # each is written when the one before it is there
                    raise self.hole(version, last)
                break
            count = len(self.added(version))
            if most is not None and count - number > most - taken:
                number += most - taken
                taken = most
                break
            taken += count - number
            version, number = version + 1, 0
        return Place(version, number) if taken else start

    def between(self, start: Place, end: Place) -> Iterator[tuple[Place, Added]]:
        """The files between two places."""
        for version in range(start.version, end.version + 1):
            if version < end.version or end.file:
                files = self.added(version)
                last = end.file if version == end.version else len(files)
                for number in range(start.file if version == start.version else 0, last):
                    yield Place(version, number), files[number]


def opened(path: Path) -> DeltaTable:
    """A table. Raises :class:`RunError` ``TT208`` when there is none, or none that can be read here."""
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


# -------------------------------------------------------------------------------------------------- source


class TableInput:
    """A table as the input of a source. ``bounded``: up to the version that is the last one now."""

    def __init__(
        self, spark: SparkSession, leaf: FromSource, address: str, files_per_step: int | None, *, bounded: bool
    ) -> None:
        self.spark, self.path, self.files_per_step = spark, path_of(address), files_per_step
        if leaf.source.format is not None and not isinstance(leaf.source.format, Parquet):
            raise RunError(
                "TT207",
                f"source {leaf.source.name!r}: files of a table are not {type(leaf.source.format).__name__}",
                fix="declare format=parquet() or no format",
            )
        table = opened(self.path)
        columns = StructType.fromJson(json.loads(table.schema().to_json()))
        check_types(leaf, str(self.path), {field.name: field.dataType for field in columns})
        self.table, self.until = str(table.metadata().id), table.version() if bounded else None

    @property
    def identity(self) -> InputIdentity:
        """Which table it is."""
        return InputIdentity("table", str(self.path), self.table)

    @property
    def at_once(self) -> bool:
        """Does one micro-batch take all that there is?"""
        return self.files_per_step is None

    def frame(self) -> DataFrame:
        """A row for each file."""
        self.spark.dataSource.register(Table)
        about = {"path": str(self.path), "table": self.table, "until": self.until, "most": self.files_per_step}
        return self.spark.readStream.format(Table.name()).option("about", json.dumps(about)).load()


class Table(DataSource):
    """The files of a table, for Spark."""

    @classmethod
    def name(cls) -> str:
        """By which Spark knows it."""
        return "tracetypes-table"

    def schema(self) -> str:
        """Of its rows."""
        return FILES

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Called by Spark."""
        about = json.loads(self.options["about"])
        return TableReader(Log(Path(about["path"])), about["table"], about["until"], about["most"])


class OneFile(InputPartition):
    """A file of a version."""

    def __init__(self, place: Place, added: Added) -> None:
        self.row = (added.path, place.version, place.file, json.dumps(added.partition))


class TableReader(DataSourceStreamReader):
    """Tells Spark which files there are. Spark's offsets are ``{"table": ID, "version": 3, "file": 1}``: what comes next."""

    def __init__(self, log: Log, table: str, until: int | None, most: int | None) -> None:
        self.log, self.table, self.until, self.most = log, table, until, most
        self.seen: tuple[int, ...] | None = None
        """The first version when the table was last opened: a file, and its time."""

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins: with the first version."""
        return told(self.begin)

    def begin(self) -> dict[str, Any]:
        """The same. The order of what versions before the first one added is not known."""
        if (first := self.log.versions()[0]) > 0:
            raise RunError(
                "TT208",
                f"the log of {self.log.table} begins with version {first}: the order of its first files is gone",
                fix="copy the table to a new one, and keep its log (delta.logRetentionDuration)",
            )
        return self.offset(Place(0, 0))

    def offset(self, place: Place) -> dict[str, Any]:
        """A place, for Spark's log."""
        return {"table": self.table, **place._asdict()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends."""
        return told(lambda: self.end(start))

    def end(self, start: dict[str, Any]) -> dict[str, Any]:
        """The same. Waits a moment when nothing is new: Spark would ask again at once."""
        place = Place(start["version"], start["file"])
        first, _ = self.log.versions()
        if place.version < first:
            raise self.log.changed(f"its log begins with version {first}, and version {place.version} comes next")
        end = self.log.end(place, self.until, self.most)
        self.is_same(first)
        if end == place:
            time.sleep(PAUSE)
        return self.offset(end)

    def is_same(self, first: int) -> None:
        """See that what was just read is of the table that the run began with. Raises :class:`RunError` ``TT218``."""
        try:
            about = self.log.entry(first).stat()
        except OSError:
            seen = None
        else:
            seen = (first, about.st_ino, about.st_mtime_ns, about.st_ctime_ns)
        if seen is None or seen != self.seen:
            if str(opened(self.log.table).metadata().id) != self.table:
                raise self.log.changed("it was removed and made anew")
            self.seen = seen

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[OneFile]:
        """A task for each file."""
        return told(lambda: self.files(*(Place(offset["version"], offset["file"]) for offset in (start, end))))

    def files(self, start: Place, end: Place) -> list[OneFile]:
        """The same."""
        found = [OneFile(place, added) for place, added in self.log.between(start, end)]
        self.is_same(self.log.versions()[0])
        return found

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, int, str]]:
        """The name of the file: :class:`TableScan` reads the rows."""
        assert isinstance(partition, OneFile)
        yield partition.row
        settle()


class TableScan(ParquetScan):
    """Files of a table. In: ``path``, ``version``, ``number`` within it, and the values of partition columns as JSON."""

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[Taken | Chunk]]]:
        """Reads the files."""
        take = taker(self.leaf, read, self.verifier)
        for batch in batches:
            for row in batch.to_pylist():
                tables = self.tables(row["path"], 0, 1, json.loads(row["partition"]))
                yield (row["version"], row["number"], 0), chained.from_iterable(map(take, tables))


# ---------------------------------------------------------------------------------------------------- sink


class TableSink:
    """A table that the files of a sink are added to, those of each micro-batch once."""

    def __init__(self, plan: Plan, address: str, run: str) -> None:
        self.path, self.application = path_of(address), f"tracetypes-{run}-{plan.sink.name}"
        if plan.sink.format is not None and not isinstance(plan.sink.format, Parquet):
            raise RunError(
                "TT207",
                f"sink {plan.sink.name!r}: files of a table are not {type(plan.sink.format).__name__}",
                fix="declare format=parquet() or no format",
            )
        empty = pa.RecordBatch.from_pylist([], schema_of_rows(plan.layout))
        self.schema = Shown(plan.layout, plan.sink).of(empty).schema
        self.may_be_null = {name for name, one in plan.layout.columns if isinstance(one, Optional | UnitValue)}

    @cached_property
    def table(self) -> DeltaTable:
        """The table; a new one if there is none. Raises :class:`RunError` ``TT209`` for one of other columns."""
        from deltalake import DeltaTable
        from deltalake import Schema as DeltaSchema

        with self.trouble():
            if not DeltaTable.is_deltatable(str(self.path)):
                DeltaTable.create(self.path, schema=self.schema, mode="ignore")
            table = DeltaTable(self.path)
            wanted, found = (
                {field.name: field.type.to_json().strip('"') for field in one.fields}
                for one in (DeltaSchema.from_arrow(self.schema), table.schema())
            )
            partitions = table.metadata().partition_columns
        self.keeps(table)
        if found != wanted or partitions:
            parts = f", in partitions by {', '.join(partitions)}" if partitions else ""
            raise RunError(
                "TT209",
                f"{self.path} is a table of {_columns(found)}{parts}; the sink has {_columns(wanted)}",
                fix="write to a table of its own: it is made when there is none",
            )
        return table

    def keeps(self, table: DeltaTable) -> None:
        """See that a table asks nothing of its rows that this sink does not keep. Raises :class:`RunError` ``TT209``."""
        with self.trouble():
            settings, fields = table.metadata().configuration, table.schema().fields
            features = set(table.protocol().writer_features or ()) - WRITTEN
        asked = [
            f"CHECK constraint {name.removeprefix(CONSTRAINT)}: {text}"
            for name, text in settings.items()
            if name.startswith(CONSTRAINT)
        ]
        for field in fields:
            if not field.nullable and field.name in self.may_be_null:
                asked.append(f"column {field.name} is NOT NULL, and the sink may have None there")
            asked += [f"column {field.name} has {name}" for name in field.metadata if name.startswith(COMPUTED)]
        if settings.get("delta.columnMapping.mode", "none") != "none":
            asked.append("its columns are mapped")
        asked += [f"it asks its writers for {name}" for name in sorted(features)]
        if asked:
            raise RunError(
                "TT209",
                f"{self.path} asks of its rows what a sink does not check: {'; '.join(asked)}",
                fix="write to a table of its own: it is made when there is none",
            )

    def holds(self, batch: int) -> bool:
        """Has a micro-batch been committed?"""
        with self.trouble():
            self.table.update_incremental()
            known = self.table.transaction_version(self.application)
        self.keeps(self.table)
        return known is not None and known >= batch

    def commit(self, batch: int, files: Sequence[Path]) -> None:
        """Add the files of a micro-batch, which lie in the table's directory."""
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        actions: list[AddAction | RemoveAction] = [
            AddAction(
                path=file.name,
                size=file.stat().st_size,
                partition_values={},
                modification_time=int(file.stat().st_mtime * 1000),
                data_change=True,
                stats=json.dumps({"numRecords": pq.read_metadata(file).num_rows}),
            )
            for file in files
        ]
        with self.trouble():
            self.table.create_write_transaction(
                actions,
                "append",
                self.table.schema(),
                commit_properties=CommitProperties(app_transactions=[Transaction(self.application, batch)]),
            )

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """Inside, what the package raises becomes one of our errors."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except (DeltaError, OSError) as error:
            raise RunError(
                "TT209", f"the table {self.path} cannot be written: {error}", fix="see the cause; run again to go on"
            ) from error


def _columns(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in found.items())
