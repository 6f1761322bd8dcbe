"""A dataflow as DataFrames: what the caller gives and gets are DataFrames, and the query is the caller's.

::

    source DataFrame -> mapInArrow(BagScan) ---+
    another one      -> mapInArrow(BagScan) ---+-> groupBy(key group).stateful(BagTask) -> ... -> mapInArrow(Unpacked)
    earlier stage    --------------------------+

The edges are those of :mod:`.lowering`. Nothing comes from a driver of ours: the frontier of the flow is in the state of each key
group, and goes on with the reports of each micro-batch (:mod:`~tracetypes.compiler.runtime.bag_frontier`). Static DataFrames are
one bag each, and their end ends the sources: stages are stateless functions of a key group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, Literal

import attrs
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from tracetypes.calls import need_whole
from tracetypes.check import Checked
from tracetypes.compiler.analysis.pickles import shipped
from tracetypes.compiler.backend.compilation import check_once
from tracetypes.compiler.connectors.read_columns import Filled, may_lack, places_read
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import FromSource, Plan, SourceLink, Stage, StageLink, links
from tracetypes.compiler.plan.planner import DEFAULT_KEY_GROUPS
from tracetypes.compiler.plan.program import whole_plan
from tracetypes.compiler.runtime.bag_frontier import other_sources
from tracetypes.compiler.spark.bag_tasks import OUTCOME, BagScan, BagTask, StraightScan, Unpacked, schema_of_sink
from tracetypes.compiler.spark.files import check_types, numbered, read_as, spark_type
from tracetypes.compiler.spark.frame_inputs import (
    column_of,
    need_choice_of_late,
    parts_of,
    places_of,
    refuse,
    session_of,
    spans_of,
)
from tracetypes.compiler.spark.query_checkpoint import made_by
from tracetypes.compiler.spark.session import groups_to_ids
from tracetypes.compiler.spark.tasks import Processor
from tracetypes.compiler.spark.wire import MESSAGES, ShippedPlan
from tracetypes.compiler.wire.messages import Kind
from tracetypes.errors import UsageError
from tracetypes.graph import Dataflow
from tracetypes.records import UnitValue

__all__ = ["Transformed", "transform"]

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
THRESHOLD: Final = "spark.broadcast.UDFCompressionThreshold"
MARGIN: Final = 1 << 16
"""Bytes that a function has beside the plan."""
STORE: Final = "spark.sql.streaming.stateStore.providerClass"


class Transformed(Mapping[str, DataFrame]):
    """What :func:`transform` returns: a DataFrame for each sink, by its name."""

    def __init__(self, lowerings: Mapping[str, _Lowering], sources: Mapping[str, tuple[str, ...]]) -> None:
        """``sources``: of each sink, the names of its sources."""
        self._lowerings, self._counts = dict(lowerings), sources
        self._frames = {sink: lowering.outcomes(texts=False) for sink, lowering in lowerings.items()}

    def __getitem__(self, sink: str) -> DataFrame:
        frame = self._frames[sink]
        names = [name for name in frame.columns if name not in OUTCOME]
        observed = frame.observe(f"tracetypes.{sink}", *_metrics(self._counts[sink]))
        return observed.where(F.col("_outcome") == "row").select(*(column_of(name) for name in names))

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        return f"<DataFrames of {', '.join(map(repr, self._frames))}>"

    def outcomes(self, sink: str) -> DataFrame:
        """All rows of a sink: its own, and the late and rejected ones of its sources. Behind the columns of the sink:

        * ``_outcome`` (string): ``row``, ``late`` or ``reject``; the columns of the sink are null for the last two;
        * ``_source``, ``_reason``, ``_row`` (string): of late and rejected rows the source, the reason, and the row as JSON;
        * ``_block`` (timestamp): the end of the block of late rows;
        * ``_count`` (bigint): how many rows it stands for: with ``late="count"`` one row has all late rows of a source and block.

        Raises :class:`KeyError` if there is no such sink."""
        return self._lowerings[sink].outcomes(texts=True)


def transform(
    flow: Dataflow | Checked,
    inputs: Mapping[str, DataFrame],
    *,
    key_groups: int | None = None,
    parts: Mapping[str, str] | None = None,
    position: Mapping[str, str] | None = None,
    idle: Mapping[str, float] | None = None,
    late: Literal["count", "rows"] = "count",
) -> Transformed:
    """The sinks of a dataflow as DataFrames, for DataFrames as its sources. Nothing runs yet, and no setting is changed.

    ``inputs``: for each source a DataFrame with the columns that a file of the source has: ``key`` if its items have a key that
    no ``key=`` computes, then the fields of the record, or ``value``. Their order does not matter, and further ones are ignored.
    All are static, or all are streams.

    The result has a DataFrame for each sink, with the columns that the sink has in ``run``: ``key``, then the fields of the
    value or ``value``, then those that ``marker=`` and ``position=`` of the sink name.

    **Static** DataFrames are bounded inputs: all blocks close and no row is late. **Streams**: the rows of a micro-batch are a
    bag, and a row is late if *earlier* micro-batches closed its block: up to the smallest frontier of all sources.
    ``query.lastProgress.observedMetrics`` has the counts of late and rejected rows under ``tracetypes.SINK``: ``rows``, ``late``,
    ``rejects``, and for each source ``late.SOURCE`` and ``rejects.SOURCE``.

    ``key_groups``: by default 16, or ``spark.sql.shuffle.partitions`` if that is more. ``late``: ``"count"`` counts late rows,
    ``"rows"`` keeps each with its reason in :meth:`Transformed.outcomes`.

    ``parts``: for a source, the column whose values count as sources of their own, such as ``partition`` of Kafka: each has its
    own newest time. ``position``: for a source that is ordered by ``ROW_POSITION``, the column of whole numbers that has the
    order, such as ``offset`` of Kafka; no two rows of a key have the same. ``idle``: for a source, after how many seconds without
    a row the others do not wait for it (or for a part of it), by the times that Spark's log has of micro-batches. It means
    nothing for static DataFrames.

    Raises :class:`CheckFailed`; :class:`UsageError` ``TT402`` for inputs that do not fit the flow or each other and for wrong
    arguments, ``TT430`` for what a DataFrame cannot do, ``TT431`` for a setting of the session that is missing; :class:`RunError`
    ``TT203`` for columns that do not fit a record.
    """
    need_choice_of_late(late)
    if key_groups is not None:
        need_whole("key_groups", key_groups)
    checked = check_once(flow)
    spark, streams = session_of(checked, inputs)
    parts, spans = parts_of(parts or {}, inputs), spans_of(idle or {}, inputs)
    places = places_of(checked, position or {}, inputs)
    if key_groups is None:
        key_groups = max(DEFAULT_KEY_GROUPS, int(spark.conf.get("spark.sql.shuffle.partitions") or 0))
    sinks = list(checked.graph.sinks)
    plans = {sink.name: whole_plan(checked, sink, key_groups) for sink in sinks}
    for plan in plans.values():
        for leaf in plan.sources:
            refuse(leaf.source, streams=streams, placed=leaf.source.name in places)
            frame = inputs[leaf.source.name]
            check_types(leaf, f"the DataFrame of source {leaf.source.name!r}", {one.name: one.dataType for one in frame.schema})
    options = _Options(streams, streams and late == "rows", parts if streams or places else {}, spans if streams else {}, places)
    lowerings = {name: _Lowering(spark, plan, inputs, options) for name, plan in plans.items()}
    sources = {name: tuple(dict.fromkeys(leaf.source.name for leaf in plan.sources)) for name, plan in plans.items()}
    return Transformed(lowerings, sources)


# --------------------------------------------------------------------------------------------------------- the plan


@attrs.frozen
class _Options:
    """Whether the inputs are streams, whether late rows are shown, and ``parts``, ``idle`` (microseconds) and ``position``."""

    streams: bool
    shows: bool
    parts: Mapping[str, str]
    idle: Mapping[str, int]
    position: Mapping[str, str]


class _Lowering:
    """From a plan to one DataFrame."""

    def __init__(self, spark: SparkSession, plan: Plan, inputs: Mapping[str, DataFrame], options: _Options) -> None:
        self.spark, self.plan, self.inputs, self.options, self.streams = spark, plan, inputs, options, options.streams
        self.ids = groups_to_ids(plan.key_groups)
        self.whole = True
        self.parcel = ShippedPlan(plan)
        shown = schema_of_sink(plan.layout, plan.sink)
        taken = sorted(set(shown.names) & set(OUTCOME))
        if taken:
            fix = "name the field otherwise"
            raise UsageError("TT430", f"sink {plan.sink.name!r} has a column {taken[0]!r}, which outcomes() has, too", fix=fix)
        self.rows: StructType = from_arrow_schema(pa.schema([*shown, *(pa.field(*one) for one in OUTCOME.items())]))
        self.unpacked = Unpacked(plan.layout, plan.sink, to_arrow_schema(self.rows, timezone="UTC"))

    def outcomes(self, *, texts: bool) -> DataFrame:
        """The rows of the sink, and what went aside. ``texts``: rejected rows are wanted as text, not only counted."""
        plan = self.plan
        self.whole = texts or self.options.shows
        if is_straight(plan):
            (stage,) = plan.stages
            parts = [
                self.straight(stage, link) for link in links(stage.region) if isinstance(link, SourceLink)
            ]
            return reduce(DataFrame.unionAll, parts)
        if self.streams and len(plan.stages) > 1:
            self._require_rocksdb()
        frames: dict[int, DataFrame] = {}
        for stage in plan.stages:
            frames[stage.number] = self.stage(stage, frames)
        return frames[plan.stages[-1].number].mapInArrow(self.unpacked.__call__, self.rows)

    def _require_rocksdb(self) -> None:
        """Raise :class:`UsageError` ``TT431`` unless states are in RocksDB, as ``transformWithStateInPandas`` wants."""
        found = self.spark.conf.get(STORE, "")
        if found != ROCKSDB:
            raise UsageError(
                "TT431",
                f"sink {self.plan.sink.name!r} has {len(self.plan.stages)} stateful operators, which Spark keeps in RocksDB only",
                fix=f'spark.conf.set("{STORE}", "{ROCKSDB}") before transform',
            )
        size = len(shipped(self.plan))
        threshold = _bytes_in(self.spark.conf.get(THRESHOLD, "1m"))
        if size > threshold - MARGIN:  # Spark's worker beside the driver cannot read broadcasts
            raise UsageError(
                "TT431",
                f"sink {self.plan.sink.name!r}: its plan has {size:,} bytes, and Spark sends functions of more than "
                f"{threshold:,} bytes as broadcasts, which stateful operators before the last one cannot read",
                fix=f'start the session with .config("{THRESHOLD}", "1g"), or take large tables out of the flow',
            )

    def filled(self, stage: Stage, link: SourceLink) -> Filled | None:
        """What makes the columns of the layout of those that are read; None if all are."""
        read = None if self.whole else places_read(stage, link)
        return None if read is None else Filled(link.leaf.layout, read)

    def columns(self, leaf: FromSource, filled: Filled | None, marks: Sequence[Column] = ()) -> DataFrame:
        """The columns of a source, in the types of its record."""
        frame = self.inputs[leaf.source.name]
        types = {one.name: one.dataType for one in frame.schema}
        columns: list[Column] = []
        for name, schema in leaf.layout.columns:
            column = F.lit(None).cast(spark_type(schema))
            if name in types and not isinstance(schema, UnitValue):
                column = read_as(column_of(name), types[name], schema)
            columns.append(column)
        behind = list(marks)
        if filled is not None and (needed := may_lack(leaf.layout, filled.read)):
            behind.insert(0, reduce(Column.__or__, [columns[at].isNull() for at in needed]).alias("_gap"))
        read = range(len(columns)) if filled is None else filled.read
        return frame.select(*(columns[at].alias(numbered(at)) for at in read), *behind)

    def straight(self, stage: Stage, link: SourceLink) -> DataFrame:
        """Rows of the sink and outcomes, of a source whose rows need no stage."""
        filled = self.filled(stage, link)
        scan = StraightScan(self.plan, stage, link, self.unpacked, filled)
        return self.columns(link.leaf, filled).mapInArrow(scan.packed(self.parcel), self.rows)

    def marks(self, leaf: FromSource) -> list[Column]:
        """The part of the source, and when the micro-batch was planned, if somebody asks for one of them."""
        part = self.options.parts.get(leaf.source.name)
        if part is None and not self.options.idle:
            return []
        name = F.lit("") if part is None else column_of(part).cast("string")
        return [name.alias("_part"), F.unix_micros(F.current_timestamp()).alias("_now")]

    def places(self, leaf: FromSource) -> list[Column]:
        """The place of each row in the order of the source, if a column has it."""
        place = self.options.position.get(leaf.source.name)
        return [] if place is None else [column_of(place).cast("long").alias("_place")]

    def read(self, scan: BagScan, marks: Sequence[Column]) -> DataFrame:
        """The messages of a source."""
        marks = [*self.places(scan.link.leaf), *marks] if scan.places else marks
        return self.columns(scan.link.leaf, scan.filled, marks).mapInArrow(scan.packed(self.parcel), MESSAGES)

    def reports(self, reading: Stage, link: SourceLink) -> DataFrame:
        """How far a source has come, for a stage that does not read it."""
        marks = self.marks(link.leaf)
        scan = BagScan(self.plan, reading, link, self.ids, counts=True, shows=False, reports_only=True, marks=bool(marks))
        return self.read(scan, marks)

    def stage(self, stage: Stage, frames: Mapping[int, DataFrame]) -> DataFrame:
        """The messages that leave a stage."""
        arriving: list[DataFrame] = []
        for link in links(stage.region):
            match link:
                case SourceLink():
                    marks = self.marks(link.leaf)
                    filled = self.filled(stage, link)
                    switches = {"counts": self.streams, "shows": self.options.shows, "marks": bool(marks)}
                    switches["places"] = stage.restores and bool(self.places(link.leaf))
                    arriving.append(self.read(BagScan(self.plan, stage, link, self.ids, **switches, filled=filled), marks))
                case StageLink(leaf=leaf):
                    arriving.append(frames[leaf.stage])
                case _:
                    raise AssertionError("a plan without channels reads one")
        if not self.streams:
            arriving.append(self._ends())
        else:
            arriving += [self.reports(reading, link) for reading, link in other_sources(self.plan, stage)]
        grouped = reduce(DataFrame.unionAll, arriving).groupBy("group")
        maker = made_by(self.plan, self.options.parts) if self.streams else ""
        task = BagTask(self.plan, stage, self.ids, ends=not self.streams, made_by=maker, idle=self.options.idle)
        if not self.streams:
            task = task.packed(self.parcel)
            return grouped.applyInArrow(lambda key, table: task.table(key, table), MESSAGES)
        if stage is self.plan.stages[-1]:
            call: Any = task.packed(self.parcel).__call__
            return grouped.applyInPandasWithState(call, MESSAGES, "state binary", "append", "NoTimeout")
        processor = Processor(task.packed(ShippedPlan(self.plan, embedded=True)))
        return grouped.transformWithStateInPandas(processor, MESSAGES, "append", "None")

    def _ends(self) -> DataFrame:
        """A message to each key group, so that each ends its sources, also without a row."""
        ids = ", ".join(map(str, self.ids))
        kind = f"CAST({int(Kind.DRAIN)} AS TINYINT) AS kind"
        return self.spark.range(1).selectExpr(f"explode(array({ids})) AS group", kind, "X'' AS header", "X'' AS payload")


def _bytes_in(size: str | None) -> int:
    """A number of bytes as Spark's settings have them, such as ``1m``."""
    text = (size or "1m").lower().removesuffix("b")
    units = {"k": 10, "m": 20, "g": 30, "t": 40}
    return int(text[:-1]) << units[text[-1]] if text[-1] in units else int(text)


def _metrics(sources: tuple[str, ...]) -> list[Column]:
    """What a query observes of a sink."""

    def total(name: str, *where: Column) -> Column:
        mine = reduce(Column.__and__, where)
        return F.coalesce(F.sum(F.when(mine, F.col("_count"))), F.lit(0)).alias(name)

    outcome = F.col("_outcome")
    metrics = [total("rows", outcome == "row"), total("late", outcome == "late"), total("rejects", outcome == "reject")]
    for source in sources:
        mine = F.col("_source") == source
        metrics += [total(f"late.{source}", outcome == "late", mine), total(f"rejects.{source}", outcome == "reject", mine)]
    return metrics
