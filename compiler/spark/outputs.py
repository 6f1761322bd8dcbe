"""Where a run's output goes, exactly once: files that are moved into place batch by batch, or a list in memory.

A batch is written to a hidden staging directory, its files are moved to the output directory under names that hold the run
and the batch, and a commit record is written into the checkpoint. A batch that was begun and not committed is removed and
written again. A reader may see some files of a batch before the others; it never sees one twice.
"""

from __future__ import annotations

import json
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, NullType, StringType, StructField, StructType

from tracetypes.compiler.columns import END, POSITION, schema_of_rows
from tracetypes.compiler.kernels import reason_of
from tracetypes.compiler.messages import Kind, Message, Piece, header
from tracetypes.compiler.plan import Plan
from tracetypes.compiler.simulate import Answer, Collector
from tracetypes.compiler.spark.tasks import AsideTask, SinkTask
from tracetypes.errors import RunError, UsageError
from tracetypes.formats import Csv, Format, JsonLines, Parquet, format_of

__all__ = ["Asides", "FileOutput", "MemoryOutput", "NoOutput", "Output", "open_output"]

HIDDEN = "_tracetypes"

INSTANT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
"""Spark would write milliseconds."""

PLAIN_CSV = {
    "header": "true",
    "emptyValue": "",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
"""RFC 4180, and text as it is: Spark would escape quotes by backslashes, and trim."""


@attrs.frozen
class Asides:
    """What goes aside of a batch: how many rows are ``late`` and ``rejects``, by source; ``frontiers`` as of
    :class:`AsideTask`; ``told``: messages to whoever follows the run."""

    late: Mapping[str, int] = attrs.Factory(dict)
    rejects: Mapping[str, int] = attrs.Factory(dict)
    frontiers: Mapping[tuple[int, Piece], int] = attrs.Factory(dict)
    told: tuple[Message, ...] = ()


class Output(ABC):
    """Takes the messages of one micro-batch after the other."""

    @abstractmethod
    def take(self, messages: DataFrame, batch: int, asides: Callable[[], Asides]) -> None:
        """Write a batch. ``asides`` is asked once the rows are computed and before they are shown to anybody: it may raise,
        and then nothing of the batch is. Idempotent in ``batch``."""

    def undo(self, batch: int) -> None:  # noqa: B027
        """Remove what a batch that did not commit may have left."""


class FileOutput(Output):
    """Files in a directory: JSON lines, CSV or Parquet."""

    def __init__(self, plan: Plan, path: str, run: str, late: str | None, rejects: str | None) -> None:
        self.plan, self.path, self.run = plan, Path(os.path.abspath(path)), run
        self.format: Format = format_of(path, plan.sink.format, JsonLines())
        self.late = Path(os.path.abspath(late)) if late else self.path / "_late"
        self.rejects = Path(os.path.abspath(rejects)) if rejects else self.path / "_rejects"
        if isinstance(self.format, Csv):
            refuse_nested(plan)
        places = [Path(os.path.realpath(place)) for place in (self.path, self.late, self.rejects)]
        if len(set(places)) < 3:
            raise UsageError(
                "TT402",
                f"output, late items and rejects: {', '.join(map(str, places))}",
                fix="give each a directory of its own with --output, --late and --rejects",
            )
        for directory in (self.path, self.late, self.rejects):
            writable(directory)

    def undo(self, batch: int) -> None:
        """Remove what a batch that did not commit may have left."""
        for directory in [self.path, *_below(self.late), *_below(self.rejects)]:
            for left in directory.glob(f"part-{self.run}-{batch:08d}-*"):
                left.unlink()

    def take(self, messages: DataFrame, batch: int, asides: Callable[[], Asides]) -> None:
        """Write a batch."""
        self.undo(batch)
        frame = rows_of(self.plan, messages)
        stage = self.path / HIDDEN / f"batch-{batch:08d}"
        writer = frame.write.mode("overwrite")
        match self.format:
            case JsonLines():
                writer.option("ignoreNullFields", "false").option("timestampFormat", INSTANT).json(str(stage))
            case Csv(separator=separator):
                writer.options(sep=separator or " ", timestampFormat=INSTANT, **PLAIN_CSV).csv(str(stage))
            case Parquet():
                writer.parquet(str(stage))
        aside_of = asides()
        self._move(stage, self.path, batch, self.format.extension)
        for kind, sources, directory in (
            (Kind.LATE, aside_of.late, self.late),
            (Kind.REJECT, aside_of.rejects, self.rejects),
        ):
            for source in sources:
                chosen = messages.where(F.col("kind") == int(kind)).where(
                    F.get_json_object(F.col("header").cast("string"), "$.source") == source
                )
                lines = chosen.select("kind", "header", "payload").mapInArrow(
                    AsideTask(aside_of.frontiers), "value string"
                )
                aside = directory / HIDDEN / f"batch-{batch:08d}"  # it may lie on another disk than the output
                lines.write.mode("overwrite").text(str(aside))
                (directory / source).mkdir(parents=True, exist_ok=True)
                self._move(aside, directory / source, batch, "jsonl")

    def _move(self, stage: Path, to: Path, batch: int, extension: str) -> None:
        parts = sorted(p for p in stage.iterdir() if p.name.startswith("part-") and p.stat().st_size > 0)
        for number, part in enumerate(parts):
            os.replace(part, to / f"part-{self.run}-{batch:08d}-{number:04d}.{extension}")
        for left in stage.iterdir():
            left.unlink()
        stage.rmdir()


class MemoryOutput(Output):
    """Collects the trace at the sink, late items and rejects on the driver: for tests."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.collector = plan, Collector(plan)
        self.taken: set[int] = set()

    def take(self, messages: DataFrame, batch: int, asides: Callable[[], Asides]) -> None:
        """Collect a batch."""
        if batch in self.taken:
            return
        rows = messages.collect()
        aside_of = asides()
        self.taken.add(batch)
        for row in rows:
            message = Message(0, row["kind"], bytes(row["header"] or b""), bytes(row["payload"] or b""))
            if message.kind == Kind.LATE:
                head = message.head
                message = message._replace(
                    header=header(source=head["source"], reason=reason_of(head, aside_of.frontiers))
                )
            if message.kind not in (Kind.REPORT, Kind.DRAIN):
                self.collector.take(message)
        for message in aside_of.told:
            self.collector.take(message)

    @property
    def answer(self) -> Answer:
        """What has come so far."""
        return self.collector.answer(self.plan.region.stream)


class NoOutput(Output):
    """Computes everything and keeps nothing: for benchmarks. Spark's ``noop``."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def take(self, messages: DataFrame, batch: int, asides: Callable[[], Asides]) -> None:
        """Compute a batch."""
        rows_of(self.plan, messages).write.mode("overwrite").format("noop").save()
        asides()


def rows_of(plan: Plan, messages: DataFrame) -> DataFrame:
    """The sink's rows in a micro-batch."""
    schema = from_arrow_schema(schema_of_rows(plan.layout))
    rows = messages.where(F.col("kind") == int(Kind.ROWS)).select("payload").mapInArrow(SinkTask(plan), schema)
    columns = [
        F.col(f"`{name}`").cast(_without_void(schema[name].dataType)).alias(name) for name, _ in plan.layout.columns
    ]
    if plan.sink.marker is not None:
        columns.append(F.timestamp_micros(F.col(END)).alias(plan.sink.marker))
    if plan.sink.position is not None:
        columns.append(F.col(POSITION).alias(plan.sink.position))
    return rows.select(*columns)


def _without_void(type: DataType) -> DataType:
    """The type with text for void, which no format can hold: Unit is written as a missing text."""
    match type:
        case NullType():
            return StringType()
        case ArrayType(elementType=item):
            return ArrayType(_without_void(item))
        case StructType(fields=fields):
            return StructType([StructField(field.name, _without_void(field.dataType)) for field in fields])
        case _:
            return type


def open_output(plan: Plan, path: str, run: str, late: str | None = None, rejects: str | None = None) -> Output:
    """The output for a path. ``noop:`` keeps nothing."""
    if path == "noop:":
        return NoOutput(plan)
    if "://" in path:
        raise RunError(
            "TT209", f"{path} is not a local directory", fix="write to a directory of a local or mounted disk"
        )
    return FileOutput(plan, path, run, late, rejects)


def refuse_nested(plan: Plan) -> None:
    """CSV has flat columns only."""
    for field in from_arrow_schema(schema_of_rows(plan.layout)):
        if field.dataType.typeName() in ("struct", "array"):
            raise RunError(
                "TT207",
                f"sink {plan.sink.name!r}: CSV cannot hold the nested column {field.name!r}",
                fix="write JSON lines or Parquet: declare format=json_lines() at the sink, or name the output *.parquet",
            )


def writable(directory: Path) -> None:
    """Make a directory. Raises :class:`RunError` ``TT209`` when it cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / f".{HIDDEN}-{uuid.uuid4().hex}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise RunError(
            "TT209",
            f"{directory} cannot be written: {error.strerror or error}",
            fix="give a directory you may write to",
        ) from error


def _below(directory: Path) -> list[Path]:
    return [p for p in directory.iterdir() if p.is_dir()] if directory.is_dir() else []


def write_json(path: Path, content: Any) -> None:
    """Write a small file so that it is there whole or not at all, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with temporary.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
