"""The inputs of a run, opened for Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
from pyspark.sql import SparkSession

from tracetypes.compiler.connectors.files import Order
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.plan.plan import FromSource, Plan
from tracetypes.compiler.spark.delta import TableInput
from tracetypes.compiler.spark.files import FileInput
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.kafka import TopicInput
from tracetypes.compiler.spark.scripted import Scripted, ScriptInput
from tracetypes.conformance import name_of
from tracetypes.errors import UsageError
from tracetypes.records import UNIT, show

__all__ = ["OPENINGS", "Rows", "RunInput", "look_for", "open_all", "require"]


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


def require(sources: Iterable[str], inputs: Mapping[str, object]) -> None:
    """Check that every source has an input, and every input a source. Raises :class:`UsageError` ``TT402``."""
    names = set(sources)
    for name in sorted(set(inputs) - names):
        raise UsageError("TT402", f"there is no source {name!r}", fix=f"the sources are {', '.join(sorted(names))}")
    for name in sorted(names - set(inputs)):
        raise UsageError("TT402", f"source {name!r} has no input", fix=f"give --input {name}=PATH")


def look_for(source: str, address: str) -> None:
    """Check that an input on a local disk exists. Needs no Spark. Raises :class:`RunError` ``TT208``."""
    connector_of(address).look_for(source, address)


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

    def rows(self, address: Any) -> Input:
        """From :class:`Rows`: files."""
        directory = Path(self.scratch) / self.leaf.source.name
        directory.mkdir()
        for number, rows in enumerate(address.files):
            path = directory / f"{number:06d}.jsonl"
            path.write_text("".join(_line(self.leaf, row, address.text) for row in rows))
            os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
        return FileInput(self.spark, self.leaf, str(directory), address.files_per_step or self.files_per_step)


OPENINGS: Final[Mapping[str, Callable[[Opening, Any], Input]]] = {
    "files": Opening.files,
    "topic": Opening.topic,
    "table": Opening.table,
    "script": Opening.script,
    "rows": Opening.rows,
}
"""By the kind of the connector."""


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
