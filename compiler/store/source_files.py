"""The files of a source: their format, header and order, and the errors that can be found before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import attrs
import pyarrow as pa

from tracetypes.compiler.connectors.avro_file_rows import check_avro
from tracetypes.compiler.connectors.csv_header import header_of
from tracetypes.compiler.connectors.files import Order, by_name, files_of, is_there
from tracetypes.compiler.connectors.folders import folder_texts
from tracetypes.compiler.connectors.least_time import least_time
from tracetypes.compiler.connectors.parquet import check_file, open_parquet
from tracetypes.compiler.connectors.record_ends import row_ends
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.store.input_files import InputFiles, by_time
from tracetypes.compiler.store.places import Place
from tracetypes.errors import RunError
from tracetypes.formats import Avro, Csv, Format, Kafka, Parquet, format_of
from tracetypes.parsing import header_problem

__all__ = ["SourceFiles"]


@attrs.define(eq=False)
class SourceFiles:
    """A file, or a directory with all files below it. ``is_listed``: whether the driver lists them and the workers read them: on
    a local or mounted disk, or on an object store. Raises :class:`RunError` ``TT207``, ``TT208``."""

    leaf: FromSource
    path: str
    order: Order = "modified"
    is_listed: bool = True
    least: dict[tuple[str, int], int | None] = attrs.field(init=False, factory=dict)
    """The least times that are known, by path and modification time: a source may be read several times."""
    format: Format = attrs.field(init=False)
    header: Sequence[str] | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.is_listed:
            is_there(self.leaf.source.name, self.path)
        self.format = self._format()
        self.header = self._header()

    @cached_property
    def names(self) -> list[str]:
        """Those that are there, in order. A run whose format is declared may never ask for them."""
        names = files_of(self.leaf.source.name, self.path)
        return names if self.order == "modified" or not self.is_listed else sorted(names, key=by_name)

    def _format(self) -> Format:
        declared = self.leaf.source.format
        if isinstance(declared, Kafka) and declared.envelope is not None:
            name = self.leaf.source.name
            raise RunError("TT207", f"source {name!r}: changes of Debezium come from a topic", fix="give it a topic: kafka://...")
        if declared is not None and not isinstance(declared, Kafka):
            return declared
        if not self.names and declared is None:
            raise RunError(
                "TT207",
                f"{self.path} holds no files yet, so their format is unknown",
                fix="put a file into it, or declare format=csv(...), json_lines() or parquet() at the source",
            )
        return format_of(self.names[0] if self.names else self.path, declared)

    def _header(self) -> Sequence[str] | None:
        if not isinstance(self.format, Csv) or self.format.columns is not None:
            if isinstance(self.format, Csv) and self.format.columns is not None:
                outside = self._in_folders(self.names[0]) if self.names else ()
                problem = header_problem(self.format, self.leaf.layout, self.format.columns, "format=csv(columns=...)", outside)
                if problem is not None:
                    raise problem
            return None
        for name in self.names:
            columns = header_of(name, self.format)
            if columns:
                problem = header_problem(self.format, self.leaf.layout, columns, name, self._in_folders(name))
                if problem is not None:
                    raise problem
                return columns
        return [name for name, _ in self.leaf.layout.columns]

    def _in_folders(self, name: str) -> Collection[str]:
        """The columns of the source that the folders above a file have."""
        return folder_texts(name, [column for column, _ in self.leaf.layout.columns], self.leaf.source.file_name)

    def place(self, path: str, modified: int) -> Any:
        """What sorts files that are found together. Files without a time are the first ones."""
        match self.order:
            case "modified":
                return by_time(path, modified)
            case "name":
                return by_name(path)
            case "time":
                if (path, modified) not in self.least:
                    self.least[path, modified] = least_time(self.leaf, self.format, self.header, path)
                least = self.least[path, modified]
                return least is not None, least, by_name(path)

    def input_files(self, checkpoint: Place, label: str, **options: Any) -> InputFiles:
        """The files of a reading that the driver lists. ``options``: those of :class:`InputFiles`."""
        options |= {"is_text": not isinstance(self.format, Parquet | Avro), "ends": row_ends(self.format)}
        return InputFiles.of(checkpoint, label, path=self.path, place=self.place, **options)

    def check_first(self) -> None:
        """Whether the first file has all columns, of types that the workers read. Later ones are asked when they are read."""
        if isinstance(self.format, Avro):
            for name in self.names[:1]:
                check_avro(self.leaf, name)
            return
        for name in self.names[:1] if isinstance(self.format, Parquet) else ():
            try:
                with open_parquet(name) as file:
                    check_file(self.leaf.layout, self.leaf.source.format, file, name, self._in_folders(name))
            except (OSError, pa.ArrowException) as error:
                raise RunError(
                    "TT208", f"{name} cannot be read as Parquet: {error}", fix="give Parquet files, or another format"
                ) from error

