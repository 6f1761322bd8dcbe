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
from tracetypes.formats import ProgramLines
from tracetypes.parsing import line_of_dict
from tracetypes.record_copies import never_refuses
from tracetypes.records import UNIT, show

__all__ = ["LazyRows", "Rows", "as_program_lines", "has_length", "in_program", "is_arrow", "is_lazy", "line_of", "write_rows"]


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


def has_length(rows: object) -> bool:
    """Whether the number of rows is known, as that of a table or DataFrame is."""
    return isinstance(rows, Sized)


def is_lazy(rows: object) -> bool:
    """Whether it is an iterable without a length, or Arrow data."""
    return is_arrow(rows) or (isinstance(rows, Iterable) and not isinstance(rows, Sized))


def in_program(rows: Any) -> Rows | LazyRows:
    """Rows of the program as an input."""
    return LazyRows(rows) if is_lazy(rows) else Rows((tuple(rows),), text=False)


def as_program_lines(leaf: FromSource) -> FromSource:
    """A source whose rows are lines of :func:`line_of`, whatever the format that its author declared."""
    declared = leaf.source.format
    format = ProgramLines(None if declared is None else declared.zone)
    return attrs.evolve(leaf, source=attrs.evolve(leaf.source, format=format))


def write_rows(leaf: FromSource, rows: Rows, directory: Path) -> None:
    """Write rows as files of JSON lines into a new directory. Raises :class:`UsageError` ``TT402``."""
    directory.mkdir()
    for number, of_file in enumerate(rows.files):
        path = directory / f"{number:06d}.jsonl"
        lines = (row + "\n" if rows.text and isinstance(row, str) else line_of(leaf, row, made=not rows.text) for row in of_file)
        path.write_text("".join(lines))
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))


def line_of(leaf: FromSource, row: Any, *, made: bool = True) -> str:
    """A row as one of :class:`ProgramLines`; as a line of JSON if it is not ``made``. Raises :class:`UsageError` ``TT402``."""
    layout = leaf.layout
    try:
        if (line := line_of_dict(layout, row)) is not None:
            return line + "\n"
        key, value = row if layout.keyed else (UNIT, row)
        plain = layout.plain(key, value)
        sees = made and not (never_refuses(layout.key) and never_refuses(layout.value))
        return json.dumps([plain] if sees else plain) + "\n"
    except (TypeError, ValueError, AttributeError) as error:
        rows = f"pairs of {name_of(leaf.layout.key)} and " if leaf.layout.keyed else ""
        raise UsageError(
            "TT402",
            f"source {leaf.source.name!r}: {show(row)} is none of its rows",
            fix=f"give {rows}{name_of(leaf.layout.value)}",
        ) from error
