"""Rows of the program itself as an input."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sized
from pathlib import Path
from typing import Any

import attrs

from tracetypes.compiler.plan.plan import FromSource
from tracetypes.conformance import name_of
from tracetypes.errors import UsageError
from tracetypes.records import UNIT, show

__all__ = ["LazyRows", "Rows", "in_program", "is_arrow", "is_lazy", "line_of", "write_rows"]


@attrs.frozen
class Rows:
    """Rows in memory as the input of a source, for tests. Each list is a file, in this order; a micro-batch has
    ``files_per_step`` of them. Each row is a value, or a pair ``(key, value)`` if the rows have a key column. With ``text`` a row
    that is a text is a line of a file."""

    files: tuple[tuple[Any, ...], ...]
    files_per_step: int | None = None
    text: bool = True


@attrs.frozen(eq=False)
class LazyRows:
    """An iterable of rows without a length, or Arrow data, as the input of a source."""

    rows: Any


def is_arrow(data: object) -> bool:
    """Whether it is a table, a record batch, or another object that is Arrow data."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def is_lazy(rows: object) -> bool:
    """Whether it is an iterable without a length, or Arrow data."""
    return is_arrow(rows) or (isinstance(rows, Iterable) and not isinstance(rows, Sized))


def in_program(rows: Any) -> Rows | LazyRows:
    """Rows of the program as an input."""
    return LazyRows(rows) if is_lazy(rows) else Rows((tuple(rows),), text=False)


def write_rows(leaf: FromSource, rows: Rows, directory: Path) -> None:
    """Write rows as files of JSON lines into a new directory. Raises :class:`UsageError` ``TT402``."""
    directory.mkdir()
    for number, of_file in enumerate(rows.files):
        path = directory / f"{number:06d}.jsonl"
        path.write_text("".join(row + "\n" if rows.text and isinstance(row, str) else line_of(leaf, row) for row in of_file))
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))


def line_of(leaf: FromSource, row: Any) -> str:
    """A row as a line of JSON. Raises :class:`UsageError` ``TT402``."""
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
