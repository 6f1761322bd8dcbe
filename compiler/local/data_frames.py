"""Data frames of the program, as this process reads them: each split brings its rows along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from tracetypes.compiler.connectors.arrivals import Part
from tracetypes.compiler.connectors.data_frames import DataFrameInput, DataFrameSplits
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.iterables import Columns, columns_reader
from tracetypes.compiler.local.input_interface import LocalInput, SplitReader, SplitRows
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.connectors import Offset

__all__ = ["LocalDataFrame", "LocalFrameSplits"]


@attrs.frozen(eq=False)
class LocalFrameSplits:
    """Splits with their rows: the number of the first one in the run, and a part. ``ranges``: has the offsets."""

    table: Any
    ranges: DataFrameSplits

    def begin(self) -> Offset:
        """Before the first row."""
        return self.ranges.begin()

    def end(self, since: Offset) -> Offset:
        """The end of the next epoch."""
        return self.ranges.end(since)

    def splits(self, since: Offset, until: Offset) -> Sequence[tuple[int, Part]]:
        """The rows between two offsets."""
        return [
            (number, Part(Columns(self.table.slice(start, end - start)), end - start, 0))
            for number, start, end in self.ranges.splits(since, until)
        ]


@attrs.frozen
class FrameReader:
    """Reads splits of a frame."""

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[tuple[int, Part]], SplitRows]:
        """Columns."""
        rows = columns_reader(leaf, verifier)
        return lambda split: SplitRows((split[0], 0, 0), rows([split[1]]))


class LocalDataFrame(LocalInput):
    """A frame of the program as the input of a source."""

    identity = EndpointIdentity("columns")

    def __init__(self, leaf: FromSource, data: Any) -> None:
        self.frame = DataFrameInput(leaf, data)

    def splits(self, files: InputFiles | None, place: Path) -> LocalFrameSplits:
        """Rows of the frame."""
        return LocalFrameSplits(self.frame.table, self.frame.splits())

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[tuple[int, Part]], SplitRows]:
        """Columns."""
        return FrameReader().reader(leaf, verifier)

    def for_worker(self) -> SplitReader:
        """Without the rows."""
        return FrameReader()
