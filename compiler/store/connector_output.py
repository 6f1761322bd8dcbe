"""An output that a connector opens by the public protocol: the rows of an epoch, its number and its start go there in one
transaction."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from tracetypes.compiler.columns.batches import schema_of_rows
from tracetypes.compiler.columns.coded_arrays import without_dictionaries
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.sink_files import VisibleColumns
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.store.output_interface import Frontiers, Output, SideOutputs, latest, rows_of
from tracetypes.compiler.store.staging import SEND
from tracetypes.connectors import Connector, Sink, SinkRequest
from tracetypes.errors import CodedError, RunError, UsageError
from tracetypes.fencing import Starts
from tracetypes.formats import Parquet
from tracetypes.records import Optional, UnitValue
from tracetypes.redaction import redact

__all__ = ["ConnectorOutput", "sink_request"]


def sink_request(plan: Plan, address: str, run: str) -> tuple[SinkRequest, VisibleColumns]:
    """What a run asks of the sink at an address, and what makes rows of that schema."""
    columns = VisibleColumns(plan.layout, plan.sink)
    empty = pa.RecordBatch.from_pylist([], schema_of_rows(plan.layout))
    optional = {name for name, one in columns.columns if isinstance(one, Optional | UnitValue)}
    types = columns.of(without_dictionaries(empty)).schema
    schema = pa.schema([field.with_nullable(field.name in optional) for field in types])
    request = SinkRequest(
        address=address,
        run=run,
        sink=plan.sink.name,
        schema=schema,
        keyed=plan.layout.keyed,
        marker=plan.sink.marker,
        position=plan.sink.position,
    )
    return request, columns


class ConnectorOutput(Output):
    """A sink of a connector; late and rejected rows go to directories. The rows of an epoch come to the driver. ``kind``: of the
    connector in the registry."""

    delivery = SEND
    side_outputs: SideOutputs

    def __init__(self, plan: Plan, kind: str, connector: Connector, side_outputs: SideOutputs, address: str) -> None:
        if connector.sink is None:
            raise UsageError("TT402", f"--output {address}: nothing is written to {kind}://", fix="give another output")
        if plan.sink.format is not None and not isinstance(plan.sink.format, Parquet):
            raise RunError(
                "TT207",
                f"sink {plan.sink.name!r}: {address} takes columns, and no {type(plan.sink.format).__name__}",
                fix="leave format out",
            )
        self.plan, self.kind, self.side_outputs, self.place = plan, kind, side_outputs, redact(address)
        self.starts: Starts | None = None
        request, self.columns = sink_request(plan, address, side_outputs.run)
        self.schema = request.schema
        with self._failing():
            self.sink: Sink = connector.sink(request)
        weakref.finalize(self, self.sink.close)

    @property
    def identity(self) -> EndpointIdentity:
        """By what the sink says."""
        with self._failing():
            return EndpointIdentity(self.kind, self.place, self.sink.identity)

    def begin(self, starts: Starts) -> None:
        """Shut out other drivers."""
        super().begin(starts)
        with self._failing():
            self.sink.begin(starts)
        self.starts = starts

    def visible(self, batch: int) -> str | None:
        """The address, if the number that was written with the rows shows that the epoch is there."""
        return self.place if self._last() >= batch else super().visible(batch)

    @property
    def newest(self) -> int | None:
        """By the number that was written with the rows."""
        return latest(self._last(), super().newest)

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Write an epoch."""
        self.side_outputs.take(messages, batch, frontiers, Path())
        rows = [self.columns.of(without_dictionaries(one)) for one in rows_of(self.plan, messages) if one.num_rows]
        if rows:
            table = pa.Table.from_batches(rows).cast(self.schema)
            with self._failing():
                self.sink.write(batch, table)

    def _last(self) -> int:
        """The last epoch that is there. Raises :class:`RunError` ``TT209`` if another driver has written it."""
        with self._failing():
            number, writer = self.sink.last()
        if self.starts is not None:
            self.starts.check_writer(self.place, writer)
        return number

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """A context that says which output failed."""
        try:
            yield
        except CodedError:
            raise
        except Exception as error:
            raise RunError(
                "TT209",
                f"{self.place} cannot be written: {type(error).__name__}: {error}",
                fix="see the cause; run again to go on",
            ) from error
