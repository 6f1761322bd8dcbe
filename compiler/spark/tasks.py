"""The functions that Spark's Python workers run: thin shells around the kernels."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain as chained
from itertools import groupby, pairwise
from typing import Any

import attrs
import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tracetypes.compiler.chunks import Chunk
from tracetypes.compiler.columns import arrow_type, builder, from_array, has_gaps, never_refuses, schema_of_rows
from tracetypes.compiler.kernels import SourceKernel, StageKernel, StageState, Taken
from tracetypes.compiler.messages import Kind, Message, Piece, dumps, loads
from tracetypes.compiler.plan import FromSource, Link, Plan, Stage
from tracetypes.errors import CodedError, RunError, envelope
from tracetypes.formats import Csv, Format, JsonLines, Parquet, Row, split_header, text_parser
from tracetypes.markers import MICROS, EventTime
from tracetypes.records import (
    UNIT,
    Boolean,
    Integer,
    Mismatch,
    Record,
    String,
    Timestamp,
    UnitValue,
    name_of,
)
from tracetypes.sources import field_of, reader

__all__ = ["BEFORE", "MESSAGES", "AsideTask", "KeyedTask", "Processor", "SentError", "SinkTask", "SourceTask"]

MESSAGES = "group int, kind tinyint, header binary, payload binary"
_ARROW = pa.schema([("group", pa.int32()), ("kind", pa.int8()), ("header", pa.binary()), ("payload", pa.binary())])
BEFORE = "tracetypes.before"
"""Local property with the newest event time of each source before the coming micro-batch, and before single pieces."""

FLUSH = 8 << 20
"""Bytes of payload of one Arrow batch of messages, about."""


@contextmanager
def no_collector() -> Iterator[None]:
    """Without Python's cycle collector, which walks all the millions of records of a step again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class SentError(Exception):
    """Carries one of our errors, or a request to read again, through Spark as text."""


def _guard(call: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    try:
        yield from call()
    except CodedError as error:
        raise SentError(envelope(error)) from error


def _to_arrow(messages: Iterable[Message], ids: list[int]) -> Iterator[pa.RecordBatch]:
    held: list[Message] = []
    size = 0
    for message in messages:
        held.append(message)
        size += len(message.payload) + 64
        if size > FLUSH:
            yield _batch(held, ids)
            held, size = [], 0
    if held:
        yield _batch(held, ids)


def _batch(messages: list[Message], ids: list[int]) -> pa.RecordBatch:
    columns = [
        pa.array([ids[m.group] for m in messages], pa.int32()),
        pa.array([int(m.kind) for m in messages], pa.int8()),
        pa.array([m.header for m in messages], pa.binary()),
        pa.array([m.payload for m in messages], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


# ------------------------------------------------------------------------------------------------- sources


class SourceTask:
    """``mapInArrow`` of a source: rows with their place in, messages out.

    In: the columns of the file (``raw`` bytes of a line for text formats, else the layout's columns), then ``_time``,
    ``_file``, ``_start``: the piece that the row belongs to. Rows of a piece are adjacent and in order.
    """

    def __init__(
        self, plan: Plan, stage: Stage, link: Link, ids: list[int], format: Format, header: list[str] | None
    ) -> None:
        self.stage, self.link, self.key_groups, self.ids = stage, link, plan.key_groups, ids
        self.format, self.header = format, header

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _guard(lambda: self.run(batches))

    @property
    def leaf(self) -> FromSource:
        """The source."""
        assert isinstance(self.link.leaf, FromSource)
        return self.link.leaf

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All pieces of a task."""
        read = reader(self.leaf.source).read
        taker = self.row_taker(read) if isinstance(self.format, Parquet) else self.text_taker(self.format, read)
        before = _Before(self.leaf.source.name)
        for piece, runs in groupby(_runs(batches), key=lambda run: run[0]):
            kernel = SourceKernel(self.stage, self.link, self.key_groups)
            taken = chained.from_iterable(taker(piece, part) for _, part in runs)
            yield from _to_arrow(kernel.piece(piece, taken, before.of(piece)), self.ids)

    def text_taker(
        self, format: Csv | JsonLines, read: Callable[[Any, Any], Row]
    ) -> Callable[[Piece, pa.RecordBatch], Iterator[Taken | Chunk]]:
        """Parses lines."""
        parse = text_parser(format, self.leaf.layout, self.header)
        headed: set[Piece] = set()

        def take(piece: Piece, batch: pa.RecordBatch) -> Iterator[Taken | Chunk]:
            for raw in batch.column(0).to_pylist():
                if not raw or raw.isspace():
                    continue
                if self.header is not None and piece[2] == 0 and piece not in headed:
                    headed.add(piece)
                    self.check_header(raw)
                    continue
                yield Taken(_parsed(raw, parse, read), lambda raw=raw: raw.decode("utf-8", "backslashreplace"))  # type: ignore[misc]

        return take

    def check_header(self, raw: bytes) -> None:
        """Every file must have the header of the first."""
        assert isinstance(self.format, Csv)
        found = split_header(self.format, raw.decode("utf-8", "replace"))
        if found != self.header:
            raise RunError(
                "TT203",
                f"source {self.leaf.source.name!r}: a file has the columns {', '.join(found)}; "
                f"the first file has {', '.join(self.header or [])}",
                fix="give all files of a source the same columns in the same order",
            )

    def row_taker(self, read: Callable[[Any, Any], Row]) -> Callable[[Piece, pa.RecordBatch], Iterator[Taken | Chunk]]:
        """Takes rows that come as columns of the layout."""
        layout = self.leaf.layout
        schemas = [schema for _, schema in layout.columns]
        names = [name for name, _ in layout.columns]
        value = layout.value
        make: Callable[[list[list[Any]]], list[Any]] = lambda columns: columns[0]  # noqa: E731
        if layout.opened and isinstance(value, Record):
            make = builder(value.cls, tuple(name for name, _ in value.fields))

        columnar = Columns.of(self.leaf)

        def pairs(columns: list[Any]) -> tuple[list[Any], list[Any]]:
            whole = [from_array(schema, column) for schema, column in zip(schemas, columns, strict=True)]
            values = make(whole[1:] if layout.keyed else whole)
            return (whole[0] if layout.keyed else [UNIT] * len(values)), values

        def take(piece: Piece, batch: pa.RecordBatch) -> Iterator[Taken | Chunk]:
            chunk = columnar.chunk(batch, read) if columnar is not None else None
            if chunk is not None:
                yield chunk
                return
            columns = [batch.column(at) for at in range(len(schemas))]

            def show(row: int) -> str:
                cells = {name: column[row].as_py() for name, column in zip(names, columns, strict=True)}
                return json.dumps(cells, ensure_ascii=False, default=str)

            bad: dict[int, str] = {}
            for name, schema, column in zip(names, schemas, columns, strict=True):
                for row in range(batch.num_rows) if has_gaps(schema, column) else ():
                    if row not in bad and has_gaps(schema, column.slice(row, 1)):
                        bad[row] = str(Mismatch(f".{name}", column[row].as_py(), name_of(schema)))
            kept = pa.array([row for row in range(batch.num_rows) if row not in bad], pa.int64())
            try:
                keys, values = pairs([column.take(kept) for column in columns] if bad else columns)
            except Exception:  # the author's own validators: find the rows
                keys, values = [], []
                for row in kept.to_pylist():
                    try:
                        key, value = pairs([column.slice(row, 1) for column in columns])
                    except Exception as error:
                        bad[row] = f"{type(error).__name__}: {error}"
                    else:
                        keys += key
                        values += value
            rest = zip(keys, values, strict=True)
            for row in range(batch.num_rows):
                if row in bad:
                    yield Taken(Row("reject", reason=bad[row]), partial(show, row))
                else:
                    yield Taken(read(*next(rest)), partial(show, row))

        return take


@attrs.frozen
class Columns:
    """How to take a :class:`Chunk` from a batch of the layout's columns: only when the key is a column, the event time is
    a field of whole numbers or datetimes, and every column is required."""

    leaf: FromSource
    time: int
    key: int | None
    first: int

    @classmethod
    def of(cls, leaf: FromSource) -> Columns | None:
        """None where rows must be looked at one by one."""
        how, layout, source = leaf.source.markers, leaf.layout, leaf.source
        if not never_refuses(layout.value) or not never_refuses(layout.key):
            return None
        if not isinstance(how, EventTime) or not layout.opened or isinstance(source.ordered_by, Callable):  # type: ignore[arg-type]
            return None
        names = [name for name, _ in layout.columns]
        time = field_of(how.time)
        key = "key" if layout.keyed else field_of(source.key) if source.key is not None else None
        if time not in names or (source.key is not None and key is None):
            return None
        schemas = dict(layout.columns)
        simple = (Integer, Boolean, String, Timestamp, UnitValue)
        if not isinstance(schemas[time], Integer | Timestamp):
            return None
        if not isinstance(leaf.stream.key, simple) or (key is not None and schemas[key] != leaf.stream.key):
            return None
        at = names.index(key) if key is not None else None
        return cls(leaf, names.index(time), at, 1 if layout.keyed else 0)

    def chunk(self, batch: pa.RecordBatch, read: Callable[[Any, Any], Row]) -> Chunk | None:
        """The chunk of a batch, or None when a row of it might be rejected."""
        layout, value = self.leaf.layout, self.leaf.layout.value
        assert isinstance(value, Record)
        count = len(layout.columns)
        schemas = [schema for _, schema in layout.columns]
        if any(has_gaps(schema, batch.column(at)) for at, schema in enumerate(schemas)):
            return None
        how = self.leaf.source.markers
        assert isinstance(how, EventTime)
        column = batch.column(self.time)
        if isinstance(schemas[self.time], Timestamp):
            times = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
        else:
            factor = MICROS[how.unit]
            times = column.to_numpy(zero_copy_only=False)
            if len(times) and max(-int(times.min()), int(times.max())) > 2**61 // factor:
                return None
            times = times * factor
        keys = pa.nulls(batch.num_rows) if self.key is None else batch.column(self.key)
        columns = [batch.column(at) for at in range(self.first, count)]
        values = pa.StructArray.from_arrays(columns, fields=list(arrow_type(value)))

        def row(at: int) -> Row:
            key = UNIT if not layout.keyed else from_array(layout.key, batch.column(0).slice(at, 1))[0]
            return read(key, from_array(value, values.slice(at, 1))[0])

        return Chunk(times, keys, values, row)


def _parsed(raw: bytes, parse: Callable[[str], tuple[Any, Any]], read: Callable[[Any, Any], Row]) -> Row:
    try:
        key, value = parse(raw.decode())
    except UnicodeDecodeError as error:
        return Row("reject", reason=f"not UTF-8: {error.reason} at byte {error.start}")
    except Mismatch as error:
        return Row("reject", reason=str(error))
    return read(key, value)


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Piece, pa.RecordBatch]]:
    """Batches cut where the piece changes."""
    for batch in _larger(batches):
        count = batch.num_rows
        if count == 0:
            continue
        places = [batch.column(batch.num_columns - 3 + at).to_numpy(zero_copy_only=False) for at in range(3)]
        changes = np.zeros(count, bool)
        for place in places:
            changes[1:] |= place[1:] != place[:-1]
        starts = [0, *np.nonzero(changes)[0].tolist(), count]
        for start, end in pairwise(starts):
            piece = (int(places[0][start]), int(places[1][start]), int(places[2][start]))
            yield piece, batch.slice(start, end - start)


def _larger(batches: Iterator[pa.RecordBatch], rows: int = 100_000) -> Iterator[pa.RecordBatch]:
    """Batches joined to about ``rows`` rows: what is done once a batch is done less often."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, count = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


class _Before:
    """What the driver knows of a source before this micro-batch."""

    def __init__(self, source: str) -> None:
        context = TaskContext.get()
        told = context.getLocalProperty(BEFORE) if context is not None else None
        known = json.loads(told) if told else {}
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        current = str(known.get("batch")) == str(batch)
        self.newest: int | None = known.get("newest", {}).get(source) if current else None
        self.pieces = {tuple(piece): newest for piece, newest in known.get("pieces", {}).get(source, [])}

    def of(self, piece: Piece) -> int | None:
        """The newest event time before a piece, as far as is known."""
        return self.pieces.get(piece, self.newest)


# ------------------------------------------------------------------------------------------------- stages


class KeyedTask:
    """A stage, one key group and micro-batch at a call: for ``applyInPandasWithState``."""

    def __init__(self, plan: Plan, stage: Stage, ids: list[int]) -> None:
        self.plan, self.number, self.ids = plan, stage.number, ids

    @cached_property
    def kernel(self) -> StageKernel:
        """The kernel, made once in each task."""
        return StageKernel(self.plan, self.plan.stages[self.number])

    @cached_property
    def groups(self) -> dict[int, int]:
        """Key groups by Spark's id."""
        return {id: group for group, id in enumerate(self.ids)}

    def step(self, id: int, frames: Iterable[pd.DataFrame], before: bytes | None) -> tuple[bytes, list[Message]]:
        """Run the step of a group."""
        group = self.groups[id]
        messages = [
            Message(group, kind, bytes(header or b""), bytes(payload or b""))
            for frame in frames
            for kind, header, payload in zip(
                frame["kind"].tolist(), frame["header"].tolist(), frame["payload"].tolist(), strict=True
            )
        ]
        with no_collector():
            state: StageState = self.kernel.fresh() if before is None else loads(before)
            out = list(self.kernel.step(state, group, messages))
            return dumps(state), out

    def frame(self, messages: list[Message]) -> pd.DataFrame:
        """Messages as Spark wants them from a pandas function."""
        return pd.DataFrame(
            {
                "group": np.array([self.ids[m.group] for m in messages], np.int32),
                "kind": np.array([int(m.kind) for m in messages], np.int8),
                "header": [m.header for m in messages],
                "payload": [m.payload for m in messages],
            }
        )

    def __call__(self, key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        return _guard(lambda: self.run(key, frames, state))

    def run(self, key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        """One call of Spark."""
        after, out = self.step(int(key[0]), frames, bytes(state.get[0]) if state.exists else None)
        state.update((after,))
        if out:
            yield self.frame(out)


class Processor(StatefulProcessor):
    """The same for ``transformWithStateInPandas``, which may stand before another stateful operator."""

    def __init__(self, task: KeyedTask) -> None:
        self.task = task

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark."""
        self.state = handle.getValueState("state", "state binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Called by Spark."""
        return _guard(lambda: self.run(key, rows))

    def run(self, key: Any, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """One call of Spark."""
        known = self.state.get() if self.state.exists() else None
        after, out = self.task.step(int(key[0]), rows, None if known is None else bytes(known[0]))
        self.state.update((after,))
        yield self.task.frame(out)

    def close(self) -> None:
        """Called by Spark."""


# ------------------------------------------------------------------------------------------------- sinks


class SinkTask:
    """``mapInArrow`` before a sink: ``ROWS`` messages in, the sink's rows out, without a Python object a row."""

    def __init__(self, plan: Plan) -> None:
        self.schema = schema_of_rows(plan.layout)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                yield from pa.ipc.open_stream(payload.as_py())


class AsideTask:
    """``mapInArrow`` of late and rejected rows: one JSON object a line."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lines = []
            for kind, header, payload in zip(
                batch.column("kind").to_pylist(),
                batch.column("header").to_pylist(),
                batch.column("payload").to_pylist(),
                strict=True,
            ):
                text = payload.decode("utf-8", "backslashreplace")
                row = json.loads(text) if kind == Kind.LATE else text
                reason = json.loads(header)["reason"]
                lines.append(json.dumps({"reason": reason, "row": row}, ensure_ascii=False))
            yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["value"])
