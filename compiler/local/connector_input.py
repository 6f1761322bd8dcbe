"""The input of a source that a connector opens by the public protocol."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tracetypes.compiler.backend.backend import Opening
from tracetypes.compiler.connectors.connector_source import ConnectorSource
from tracetypes.compiler.local.input_interface import LocalInput, SplitReader, SplitRows
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.places import Place
from tracetypes.connectors import Connector, Split

__all__ = ["ConnectorInput"]


@attrs.frozen
class ConnectorReader:
    """Reads splits of a source, in any process."""

    source: ConnectorSource

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[Split], SplitRows]:
        """Columns."""
        read = self.source.reader(leaf, verifier)
        return lambda split: SplitRows((split.number, 0, 0), read(split))


class ConnectorInput(LocalInput):
    """A source of a connector."""

    def __init__(self, opening: Opening, kind: str, connector: Connector) -> None:
        self.source = ConnectorSource.of(opening.leaf, connector, opening.address, bounded=opening.bounded)
        self.identity = self.source.identity(kind)

    def splits(self, files: InputFiles | None, place: Place) -> ConnectorSource:
        """Its own."""
        return self.source

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[Split], SplitRows]:
        """Columns."""
        return ConnectorReader(self.source).reader(leaf, verifier)

    def for_worker(self) -> SplitReader:
        """The source alone."""
        return ConnectorReader(self.source)
