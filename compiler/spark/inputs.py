"""The inputs of a run, opened for Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from pyspark.sql import SparkSession

from tracetypes.compiler.connectors.delta import is_table, opened, path_of
from tracetypes.compiler.connectors.kafka import is_topic
from tracetypes.compiler.plan.plan import FromSource, Plan
from tracetypes.compiler.spark.delta import TableInput
from tracetypes.compiler.spark.files import existing, open_input
from tracetypes.compiler.spark.kafka import TopicInput
from tracetypes.compiler.spark.lowering import Input
from tracetypes.compiler.spark.scripted import Scripted, ScriptInput
from tracetypes.errors import UsageError

__all__ = ["Given", "Rows", "look_for", "open_all", "require"]


@attrs.frozen
class Rows:
    """Rows in memory as the input of a source, for tests: a file a list, in this order; ``files_per_step`` of them a
    micro-batch. Each row is a value, or a pair ``(key, value)`` where the rows have a key column; text is taken as a line."""

    files: tuple[tuple[Any, ...], ...]
    files_per_step: int | None = None


Given: TypeAlias = str | Rows | Scripted
"""What is given as the input of a source."""


def open_all(
    spark: SparkSession,
    plans: Sequence[Plan],
    inputs: Mapping[str, Given],
    scratch: str,
    files_per_step: int | None,
    *,
    bounded: bool,
) -> dict[str, Input]:
    leaves = {leaf.source.name: leaf for plan in plans for leaf in plan.sources}
    return {
        name: _opened(spark, leaf, inputs[name], scratch, files_per_step, bounded=bounded)
        for name, leaf in leaves.items()
    }


def require(sources: Iterable[str], inputs: Mapping[str, object]) -> None:
    """Every source must have an input, and every input a source. Raises :class:`UsageError` ``TT402``."""
    names = set(sources)
    for name in sorted(set(inputs) - names):
        raise UsageError("TT402", f"there is no source {name!r}", fix=f"the sources are {', '.join(sorted(names))}")
    for name in sorted(names - set(inputs)):
        raise UsageError("TT402", f"source {name!r} has no input", fix=f"give --input {name}=PATH")


def look_for(source: str, address: str) -> None:
    """See that there is an input on a local disk. It needs no Spark. Raises :class:`RunError` ``TT208``."""
    if is_table(address):
        opened(path_of(address))
    elif not is_topic(address):
        existing(source, address)


def _opened(
    spark: SparkSession, leaf: FromSource, given: Given, scratch: str, files_per_step: int | None, *, bounded: bool
) -> Input:
    if isinstance(given, str) and is_topic(given):
        return TopicInput(spark, leaf, given, bounded=bounded)
    if isinstance(given, str) and is_table(given):
        return TableInput(spark, leaf, given, files_per_step, bounded=bounded)
    if isinstance(given, str):
        return open_input(spark, leaf, given, files_per_step)
    if isinstance(given, Scripted):
        return ScriptInput(spark, leaf, given.job)
    directory = Path(scratch) / leaf.source.name
    directory.mkdir()
    for number, rows in enumerate(given.files):
        path = directory / f"{number:06d}.jsonl"
        path.write_text("".join(_line(leaf, row) for row in rows))
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    return open_input(spark, leaf, str(directory), given.files_per_step or files_per_step)


def _line(leaf: FromSource, row: Any) -> str:
    if isinstance(row, str):
        return row + "\n"
    from tracetypes.records import UNIT

    key, value = row if leaf.layout.keyed else (UNIT, row)
    return json.dumps(leaf.layout.plain(key, value)) + "\n"
