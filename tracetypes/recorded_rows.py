"""Rows of a file, for tests."""

from __future__ import annotations

import itertools
from typing import Any

from tracetypes.check import Checked
from tracetypes.errors import UsageError
from tracetypes.formats import Avro, Parquet, format_of
from tracetypes.nodes import Source
from tracetypes.parsing import rows_of_text
from tracetypes.records import Mismatch

__all__ = ["recorded_rows"]


def recorded_rows(checked: Checked, source: Source, path: str, most: int = 2_000) -> list[Any]:
    """The first rows of a text file that fit a source."""
    layout, format = checked.layout(source), format_of(path, source.format)
    if isinstance(format, Parquet | Avro):
        raise UsageError("TT402", f"{path} is {type(format).__name__}", fix="give rows as JSON lines or CSV")
    try:
        with open(path, "rb") as file:
            text = b"".join(itertools.islice(file, most))
    except OSError as error:
        raise UsageError("TT402", f"{path}: {error.strerror}", fix="give a file with rows of the source") from error
    pairs = (pair for pair in rows_of_text(format, layout, text) if not isinstance(pair, Mismatch))
    rows = [(key, value) if layout.keyed else value for key, value in pairs]
    if not rows:
        raise UsageError(
            "TT402", f"no row of {path} fits source {source.name!r}", fix="give a file with rows of the source"
        )
    return rows
