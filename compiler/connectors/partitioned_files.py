"""Rows of a sink in folders ``NAME=VALUE``, a file or more for each combination of values."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tracetypes.compiler.connectors.folders import NULL, folder_name
from tracetypes.compiler.connectors.sink_files import SinkFile, open_sink_file, plain_cells
from tracetypes.errors import RunError
from tracetypes.formats import Format
from tracetypes.records import show

__all__ = ["PartitionedFiles", "files_in"]

TOGETHER: Final = 32 << 20
"""Bytes of rows that wait, so that a folder gets many at once."""

OPEN: Final = 64
"""Files that are open at once."""

LONGEST: Final = 255
"""Bytes of the name of a folder, on most file systems."""


class PartitionedFiles:
    """Files of a format in a directory, in folders for the values of some columns, which the files do not have."""

    codes = False

    def __init__(self, format: Format, path: str, columns: Sequence[str]) -> None:
        self.format, self.path, self.columns = format, path, columns
        self.waiting: list[Any] = []
        self.bytes = self.count = 0
        self.open: dict[PurePath, SinkFile] = {}
        """By folder; the one that was used last is the last one."""

    def write(self, batch: Any) -> None:
        """As for :class:`SinkFile`. Raises :class:`RunError` ``TT228`` for a value that a folder cannot have."""
        self.waiting.append(batch)
        self.bytes += batch.nbytes
        if self.bytes > TOGETHER:
            self._flush()

    def close(self) -> None:
        """Write what waits, and close all files."""
        self._flush()
        for file in self.open.values():
            file.close()
        self.open = {}

    def _flush(self) -> None:
        batches = pa.Table.from_batches(self.waiting).combine_chunks().to_batches() if self.waiting else []
        self.waiting, self.bytes = [], 0
        for batch in batches:
            for folder, rows in _by_folder(batch, self.columns):
                file = self.open.pop(folder, None) or self._opened(folder)
                self.open[folder] = file
                file.write(rows)

    def _opened(self, folder: PurePath) -> SinkFile:
        if len(self.open) >= OPEN:
            self.open.pop(next(iter(self.open))).close()
        place = Path(self.path, folder)
        place.mkdir(parents=True, exist_ok=True)
        self.count += 1
        return open_sink_file(self.format, str(place / f"{self.count:08d}"))


def files_in(staged: Path) -> Iterator[tuple[Path, PurePath]]:
    """The files that were written at a place, with the folder of each."""
    if not staged.is_dir():
        yield staged, PurePath()
        return
    for directory, below, names in os.walk(staged):
        below.sort()
        for name in sorted(names):
            yield Path(directory, name), PurePath(directory).relative_to(staged)


def _by_folder(batch: Any, columns: Sequence[str]) -> Iterator[tuple[PurePath, Any]]:
    """The rows of each folder, in their order, without the columns of the folders."""
    folders, numbers = [PurePath()], np.zeros(batch.num_rows, np.int64)
    for name in columns:
        some, codes = _folders_of(name, batch.column(name))
        there, numbers = np.unique(numbers * len(some) + codes, return_inverse=True)
        folders = [folders[one // len(some)] / some[one % len(some)] for one in there.tolist()]
    rest = batch.select([name for name in batch.schema.names if name not in columns])
    order = np.argsort(numbers, kind="stable")
    sorted_rows, ends = rest.take(pa.array(order)), np.cumsum(np.bincount(numbers, minlength=len(folders))).tolist()
    start = 0
    for folder, end in zip(folders, ends, strict=True):
        yield folder, sorted_rows.slice(start, end - start)
        start = end


def _folders_of(name: str, column: Any) -> tuple[list[str], Any]:
    """The names of the folders for the values of a column, and the number of each row's folder."""
    kind = column.type
    bits = column.view(pa.int64()) if pa.types.is_floating(kind) else column  # -0.0 is not 0.0
    coded = bits.dictionary_encode()
    values = coded.dictionary.view(kind) if pa.types.is_floating(kind) else coded.dictionary
    names = [_folder(name, cell) for cell in plain_cells(values)]
    if coded.null_count:
        names.append(_folder(name, None))
    return names, coded.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False).astype(np.int64)


def _folder(name: str, text: str | None) -> str:
    folder = folder_name(name, text)
    if text in ("", NULL) or len(os.fsencode(folder)) > LONGEST:
        raise RunError(
            "TT228",
            f"partition_by={name!r}: {show(text)} cannot be the value of a folder, expected a text that is not empty, "
            f"not {NULL}, and with its name at most {LONGEST} bytes long",
            fix="partition by another column, or map these values to others before the sink (None where there is none)",
        )
    return folder
