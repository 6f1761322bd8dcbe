"""Delta tables as sinks: each epoch is one commit, with the application's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tracetypes.compiler.columns.arrow import schema_of_rows
from tracetypes.compiler.connectors.delta import FEATURES, path_of
from tracetypes.compiler.connectors.row_files import Shown
from tracetypes.compiler.plan.plan import Plan
from tracetypes.errors import RunError
from tracetypes.formats import Parquet
from tracetypes.records import Optional, UnitValue

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
