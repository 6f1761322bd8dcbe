"""The inputs of a run, opened for Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs
from pyspark.sql import SparkSession

from tracetypes.compiler.backend.backend import Opening
from tracetypes.compiler.connectors.program_rows import Rows, as_program_lines, write_rows
from tracetypes.compiler.spark.data_frames import FrameInput
from tracetypes.compiler.spark.delta import TableInput
from tracetypes.compiler.spark.files import FileInput
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.kafka import TopicInput
from tracetypes.compiler.spark.scripted import ScriptInput

__all__ = ["OPENINGS"]


def _files(spark: SparkSession, opening: Opening) -> Input:
    return FileInput(spark, opening.leaf, opening.address, opening.files_per_step, opening.order)


def _topic(spark: SparkSession, opening: Opening) -> Input:
    return TopicInput(spark, opening.leaf, opening.address, bounded=opening.bounded)


def _table(spark: SparkSession, opening: Opening) -> Input:
    return TableInput(spark, opening.leaf, opening.address, opening.files_per_step, bounded=opening.bounded)


def _script(spark: SparkSession, opening: Opening) -> Input:
    return ScriptInput(spark, opening.leaf, opening.address.job)


def _iterable(spark: SparkSession, opening: Opening) -> Input:
    """To its end."""
    return _rows(spark, attrs.evolve(opening, address=Rows((tuple(opening.address.rows),), text=False)))


def _rows(spark: SparkSession, opening: Opening) -> Input:
    """As files."""
    directory, rows = Path(opening.scratch) / opening.leaf.source.name, opening.address
    write_rows(opening.leaf, rows, directory)
    leaf = opening.leaf if rows.text else as_program_lines(opening.leaf)
    return FileInput(spark, leaf, str(directory), rows.files_per_step or opening.files_per_step)


OPENINGS: Final[Mapping[str, Callable[[SparkSession, Opening], Input]]] = {
    "files": _files,
    "objects": _files,
    "topic": _topic,
    "table": _table,
    "script": _script,
    "rows": _rows,
    "iterable": _iterable,
    "columns": FrameInput,
}
"""By the kind of the connector."""
