"""The inputs of a run, opened for Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
from pyspark.sql import SparkSession

from tracetypes.compiler.connectors.files import Order
from tracetypes.compiler.connectors.program_rows import Rows, write_rows
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.plan.plan import FromSource, Plan
from tracetypes.compiler.spark.delta import TableInput
from tracetypes.compiler.spark.files import FileInput
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.kafka import TopicInput
from tracetypes.compiler.spark.scripted import Scripted, ScriptInput

__all__ = ["OPENINGS", "Rows", "RunInput", "open_all"]


RunInput: TypeAlias = str | Rows | Scripted
"""What is given as the input of a source."""


def open_all(
    spark: SparkSession,
    plans: Sequence[Plan],
    inputs: Mapping[str, RunInput],
    scratch: str,
    files_per_step: int | None,
    orders: Mapping[str, Order],
    *,
    bounded: bool,
) -> dict[str, Input]:
    """The inputs of sources by name. ``orders``: of files, by modification time if not told otherwise; ``bounded``: without what
    comes later."""
    leaves = {leaf.source.name: leaf for plan in plans for leaf in plan.sources}
    return {
        name: OPENINGS[connector_of(inputs[name]).kind](
            Opening(spark, leaf, scratch, files_per_step, orders.get(name, "modified"), bounded), inputs[name]
        )
        for name, leaf in leaves.items()
    }


@attrs.frozen
class Opening:
    """The circumstances in which an input is opened. ``scratch``: a directory of the run. ``bounded``: later rows are
    not read."""

    spark: SparkSession
    leaf: FromSource
    scratch: str
    files_per_step: int | None
    order: Order
    bounded: bool

    def files(self, address: Any) -> Input:
        """From a path."""
        return FileInput(self.spark, self.leaf, address, self.files_per_step, self.order)

    def topic(self, address: Any) -> Input:
        """From an address."""
        return TopicInput(self.spark, self.leaf, address, bounded=self.bounded)

    def table(self, address: Any) -> Input:
        """From an address."""
        return TableInput(self.spark, self.leaf, address, self.files_per_step, bounded=self.bounded)

    def script(self, address: Any) -> Input:
        """From its job."""
        return ScriptInput(self.spark, self.leaf, address.job)

    def iterable(self, address: Any) -> Input:
        """From :class:`LazyRows`, to their end."""
        return self.rows(Rows((tuple(address.rows),), text=False))

    def rows(self, address: Any) -> Input:
        """From :class:`Rows`: files."""
        directory = Path(self.scratch) / self.leaf.source.name
        write_rows(self.leaf, address, directory)
        return FileInput(self.spark, self.leaf, str(directory), address.files_per_step or self.files_per_step)


OPENINGS: Final[Mapping[str, Callable[[Opening, Any], Input]]] = {
    "files": Opening.files,
    "topic": Opening.topic,
    "table": Opening.table,
    "script": Opening.script,
    "rows": Opening.rows,
    "iterable": Opening.iterable,
}
"""By the kind of the connector."""
