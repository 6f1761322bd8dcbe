"""The header of a file of CSV: its first record that is not blank."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from tracetypes.compiler.connectors.encodings import as_utf8
from tracetypes.compiler.connectors.file_splits import decompressed, is_compressed
from tracetypes.compiler.connectors.files import open_file, state_of
from tracetypes.compiler.connectors.folders import folder_texts
from tracetypes.compiler.connectors.record_blocks import RecordBlocks
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.csv_records import RecordCutter
from tracetypes.errors import RunError
from tracetypes.formats import Csv
from tracetypes.parsing import header_problem, is_blank, split_header

__all__ = ["first_record", "header_of", "read_header"]

HEAD = 1 << 16
"""Bytes that are read at once for a header."""


def header_of(path: str, format: Csv) -> Sequence[str]:
    """The columns in the header of a file; none if it has no header. Raises :class:`RunError` ``TT208``, ``TT203``."""
    state = state_of(path)
    if state is not None and not state.size:
        return []
    try:
        with open_file(path, state) as raw, decompressed(path, raw) if is_compressed(path) else raw as file:
            first = first_record(as_utf8(iter(lambda: file.read(HEAD), b""), format.encoding), format)
    except (OSError, EOFError, zlib.error) as error:
        raise RunError("TT208", f"{path} cannot be read: {error}", fix="see whether the file is whole") from error
    return split_header(format, first.decode("utf-8", "replace"))


def first_record(blocks: Iterable[bytes], format: Csv) -> bytes:
    """The first record of a text that is not blank; nothing if there is none."""
    for some in RecordBlocks(RecordCutter(format.separator)).of(blocks):
        for stretch in some.stretches:
            for row in stretch.rows:
                if not is_blank(format, row):
                    return row
    return b""


def read_header(format: Csv, leaf: FromSource, raw: bytes, where: str) -> Sequence[str]:
    """The columns in a header. Folders above the file have others. Raises :class:`RunError` ``TT203``."""
    columns = split_header(format, raw.decode("utf-8", "replace"))
    outside = folder_texts(where, [name for name, _ in leaf.layout.columns], leaf.source.file_name)
    problem = header_problem(format, leaf.layout, columns, where, outside)
    if problem is not None:
        raise problem
    return columns
