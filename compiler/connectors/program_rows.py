"""Rows of the program itself as an input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs

from tracetypes.compiler.plan.plan import FromSource
from tracetypes.conformance import name_of
from tracetypes.errors import UsageError
from tracetypes.records import UNIT, show

__all__ = ["Rows", "write_rows"]


@attrs.frozen
class Rows:
    """Rows in memory as the input of a source, for tests. Each list is a file, in this order; a micro-batch has
    ``files_per_step`` of them. Each row is a value, or a pair ``(key, value)`` if the rows have a key column. With ``text`` a row
    that is a text is a line of a file."""

    files: tuple[tuple[Any, ...], ...]
    files_per_step: int | None = None
    text: bool = True


def write_rows(leaf: FromSource, rows: Rows, directory: Path) -> None:
    """Write rows as files of JSON lines into a new directory. Raises :class:`UsageError` ``TT402``."""
    directory.mkdir()
    for number, of_file in enumerate(rows.files):
        path = directory / f"{number:06d}.jsonl"
        path.write_text("".join(_line(leaf, row, rows.text) for row in of_file))
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))


def _line(leaf: FromSource, row: Any, text: bool) -> str:
    if text and isinstance(row, str):
        return row + "\n"
    try:
        key, value = row if leaf.layout.keyed else (UNIT, row)
        return json.dumps(leaf.layout.plain(key, value)) + "\n"
    except (TypeError, ValueError, AttributeError) as error:
        rows = f"pairs of {name_of(leaf.layout.key)} and " if leaf.layout.keyed else ""
        raise UsageError(
            "TT402",
            f"source {leaf.source.name!r}: {show(row)} is none of its rows",
            fix=f"give {rows}{name_of(leaf.layout.value)}",
        ) from error
