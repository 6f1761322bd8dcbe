"""Delta tables as sinks.

Files are written as for a sink of Parquet and moved into the table's directory. One commit adds them, and sets an
application transaction of the run to the number of the epoch. An epoch whose commit went through is not committed
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracetypes.compiler.columns.batches import schema_of_rows
from tracetypes.compiler.connectors.delta import FEATURES, Log, TableWatch, path_of, refuse_format
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.folders import folder_texts
from tracetypes.compiler.connectors.sink_files import VisibleColumns
from tracetypes.compiler.plan.plan import Plan
from tracetypes.errors import RunError
from tracetypes.fencing import Starts, another_driver
from tracetypes.records import Optional, UnitValue

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

__all__ = ["COMPUTED", "CONSTRAINT", "WRITTEN", "TableSink"]


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


class TableSink:
    """A table to which the files of a sink are added, those of each micro-batch once."""

    path: Any
    """The directory of the table."""
    options: dict[str, str] | None = None
    """How a store is reached, if it lies on one."""

    def __init__(self, plan: Plan, address: str, run: str) -> None:
        self.path, self.application = self.place(address), f"tracetypes-{run}-{plan.sink.name}"
        refuse_format(f"sink {plan.sink.name!r}", plan.sink.format)
        empty = pa.RecordBatch.from_pylist([], schema_of_rows(plan.layout))
        visible = VisibleColumns(plan.layout, plan.sink, unsigned=False)
        self.schema = visible.of(empty).schema
        self.starts: Starts | None = None
        """The starts of the run. Which one writes is the version of a second application transaction."""
        self.partition_by = list(plan.sink.partition_by)
        self.may_be_null = {name for name, one in visible.columns if isinstance(one, Optional | UnitValue)}

    @staticmethod
    def place(address: str) -> Any:
        """The directory of an address."""
        return path_of(address)

    @property
    def is_there(self) -> bool:
        """Whether there is a table."""
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(str(self.path), storage_options=self.options)

    @cached_property
    def table(self) -> DeltaTable:
        """The table; a new one if there is none. Raises :class:`RunError` ``TT209`` if it has other columns."""
        from deltalake import DeltaTable
        from deltalake import Schema as DeltaSchema

        with self.trouble():
            if not self.is_there:
                DeltaTable.create(
                    str(self.path), self.schema, mode="ignore", partition_by=self.partition_by, storage_options=self.options
                )
            table = DeltaTable(str(self.path), storage_options=self.options)
            expected, columns = (
                {field.name: field.type.to_json().strip('"') for field in one.fields}
                for one in (DeltaSchema.from_arrow(self.schema), table.schema())
            )
            partitions = table.metadata().partition_columns
        self.keeps(table)
        if columns != expected or partitions != self.partition_by:
            was, now = _partitions(partitions), _partitions(self.partition_by)
            raise RunError(
                "TT209",
                f"{self.path} is a table of {_columns(columns)}{was}; the sink has {_columns(expected)}{now}",
                fix="write to a table of its own: it is made when there is none",
            )
        return table

    @cached_property
    def watch(self) -> TableWatch:
        """The watch for this table."""
        return TableWatch(Log(self.path), str(self.table.metadata().id))

    def check_id(self) -> None:
        """Check that the table is the one that was opened. Raises :class:`RunError` ``TT218``."""
        self.watch.check()

    def keeps(self, table: DeltaTable) -> None:
        """Check that a table has no constraint that this sink does not keep. Raises :class:`RunError` ``TT209``."""
        with self.trouble():
            settings, fields = table.metadata().configuration, table.schema().fields
            features = set(table.protocol().writer_features or ()) - WRITTEN
        demands = [
            f"CHECK constraint {name.removeprefix(CONSTRAINT)}: {text}"
            for name, text in settings.items()
            if name.startswith(CONSTRAINT)
        ]
        for field in fields:
            if not field.nullable and field.name in self.may_be_null:
                demands.append(f"column {field.name} is NOT NULL, and the sink may have None there")
            demands += [f"column {field.name} has {name}" for name in field.metadata if name.startswith(COMPUTED)]
        if settings.get("delta.columnMapping.mode", "none") != "none":
            demands.append("its columns are mapped")
        demands += [f"it asks its writers for {name}" for name in sorted(features)]
        if demands:
            raise RunError(
                "TT209",
                f"{self.path} asks of its rows what a sink does not check: {'; '.join(demands)}",
                fix="write to a table of its own: it is made when there is none",
            )

    @property
    def identity(self) -> EndpointIdentity:
        """The identity of the table, without an id if there is no table."""
        with self.trouble():
            there = self.is_there
        return EndpointIdentity("table", str(self.path), str(self.table.metadata().id) if there else "")

    def begin(self, starts: Starts) -> None:
        """Shut out other writers of this run: from now on their commits fail. Then check that this checkpoint knows
        what was committed. Raises :class:`RunError` ``TT209``."""
        number, writer = self.last()
        starts.check(str(self.path), writer, number)
        self.starts = starts
        self.write([], {f"{self.application}-start": starts.mine})
        number, _ = self.last()
        starts.check(str(self.path), starts.mine, number)

    def holds(self, batch: int) -> bool:
        """Whether a micro-batch has been committed. Raises :class:`RunError` ``TT209`` if another driver has written
        since."""
        number, writer = self.last()
        if self.starts is not None and writer != self.starts.mine:
            raise another_driver(str(self.path), "it has started since, and has shut this one out")
        self.keeps(self.table)
        return number >= batch

    def last(self) -> tuple[int, int | None]:
        """The number of the last committed micro-batch, and the last start that wrote. Raises :class:`RunError`
        ``TT218`` if the table was removed since it was opened."""
        table = self.table
        self.check_id()
        with self.trouble():
            table.update_incremental()
            version = self.table.transaction_version(self.application)
            writer = self.table.transaction_version(f"{self.application}-start")
        return -1 if version is None else version, writer

    def commit(self, batch: int, files: Sequence[Path]) -> None:
        """Add the files of a micro-batch, which lie in the table's directory."""
        about = [(file, file.stat(), pq.read_metadata(file).num_rows) for file in files]
        self.commit_files(
            batch, [(one.relative_to(self.path).as_posix(), it.st_size, it.st_mtime, rows) for one, it, rows in about]
        )

    def commit_files(self, batch: int, files: Sequence[tuple[str, int, float, int]]) -> None:
        """Add files by their names in the table, with their sizes, times and numbers of rows."""
        from deltalake.transaction import AddAction

        actions = [
            AddAction(
                path=name,
                size=size,
                partition_values=folder_texts(name, self.partition_by),
                modification_time=int(time * 1000),
                data_change=True,
                stats=json.dumps({"numRecords": rows}),
            )
            for name, size, time, rows in files
        ]
        # A commit in between that has one of these as well fails this one: so do two drivers of one run.
        start = {} if self.starts is None else {f"{self.application}-start": self.starts.mine}
        self.write(actions, {self.application: batch, **start})

    def write(self, actions: Sequence[AddAction], versions: Mapping[str, int]) -> None:
        """Make a commit. ``versions``: of application transactions."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        transactions = [Transaction(name, version) for name, version in versions.items()]
        with self.trouble():
            try:
                self.table.create_write_transaction(
                    list(actions),
                    "append",
                    self.table.schema(),
                    commit_properties=CommitProperties(app_transactions=transactions),
                )
            except CommitFailedError as error:
                if "Concurrent transaction" in str(error):
                    raise another_driver(str(self.path), str(error)) from error
                raise

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """A context that turns exceptions of the package into errors of tracetypes."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except (DeltaError, OSError) as error:
            raise RunError(
                "TT209", f"the table {self.path} cannot be written: {error}", fix="see the cause; run again to go on"
            ) from error


def _partitions(columns: Sequence[str]) -> str:
    return f", in partitions by {', '.join(columns)}" if columns else ""


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
