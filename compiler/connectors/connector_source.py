"""A source that a connector opens by the public protocol, and how its rows become those of a source of the flow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs

from tracetypes.compiler.analysis.pickles import shipped
from tracetypes.compiler.connectors.arrivals import Part
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.iterables import Columns, columns_reader
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.connectors import Connector, Offset, Source, SourceRequest, Split
from tracetypes.errors import CodedError, RunError
from tracetypes.formats import Parquet
from tracetypes.records import show
from tracetypes.redaction import redact

__all__ = ["ConnectorSource"]

T = TypeVar("T")


@attrs.frozen(eq=False)
class ConnectorSource:
    """A source, whose errors say where they come from. ``place``: its address, for people."""

    source: Source
    place: str

    @classmethod
    def of(cls, leaf: FromSource, connector: Connector, address: str, *, bounded: bool) -> ConnectorSource:
        """The source at an address. Raises :class:`RunError` ``TT207`` for a format that is no columns, and ``TT208``."""
        assert connector.source is not None  # the backend has refused it
        if leaf.source.format is not None and not isinstance(leaf.source.format, Parquet):
            raise RunError(
                "TT207",
                f"source {leaf.source.name!r}: {address} gives columns, and no {type(leaf.source.format).__name__}",
                fix="leave format out",
            )
        names = tuple(name for name, _ in leaf.layout.columns)
        place = redact(address)
        request = SourceRequest(address=address, source=leaf.source.name, columns=names, bounded=bounded)
        with _failing(place):
            source = connector.source(request)
        try:
            shipped(source)
        except Exception as error:
            raise RunError(
                "TT208",
                f"{place} cannot be read: its source cannot be sent to workers: {error}",
                fix="let it open what cannot be pickled when it needs it, not before",
            ) from error
        return cls(source, place)

    def identity(self, kind: str) -> EndpointIdentity:
        """By what the source says. ``kind``: of the connector in the registry."""
        with _failing(self.place):
            return EndpointIdentity(kind, self.place, self.source.identity)

    def begin(self) -> Offset:
        """The offset at which a new run begins."""
        with _failing(self.place):
            return _plain("begin()", self.source.begin())

    def end(self, since: Offset) -> Offset:
        """The end of the next epoch."""
        with _failing(self.place):
            return _plain("end()", self.source.end(since))

    def splits(self, since: Offset, until: Offset) -> Sequence[Split]:
        """The splits between two offsets."""
        with _failing(self.place):
            splits = self.source.splits(since, until) if since != until else ()
            return [Split(number, _plain("a split", about)) for number, about in splits]

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[Split], Iterator[TakenRow | Chunk]]:
        """Reads splits, in one thread."""
        rows = columns_reader(leaf, verifier)

        def read(split: Split) -> Iterator[TakenRow | Chunk]:
            with _failing(self.place):
                tables = iter(self.source.read(split))
            while True:
                with _failing(self.place):
                    data = next(tables, None)
                    if data is None:
                        return
                    table = _as_table(data)
                yield from rows([Part(Columns(table), table.num_rows, 0)])

        return read


def _plain(what: str, value: T) -> T:
    """A value as a checkpoint gives it back. Raises TypeError for what JSON has not."""
    try:
        plain: T = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} is {show(value)}, which is no plain data ({error})") from None
    return plain


def _as_table(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    raise TypeError(f"read() gives {show(data)}, and no table or record batch of Arrow")


@contextmanager
def _failing(place: str) -> Iterator[None]:
    """A context that says which source failed."""
    try:
        yield
    except CodedError:
        raise
    except Exception as error:
        raise RunError(
            "TT208",
            f"{place} cannot be read: {type(error).__name__}: {error}",
            fix="see the cause; run again to go on",
        ) from error
