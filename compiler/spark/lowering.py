"""From a plan to one streaming DataFrame of messages.

::

    listings, topics -> mapInArrow(Scan) ---+
                    control file (drain)  --+-> groupBy(key group).stateful(KeyedTask) -> ... -> messages
    earlier stage ------------------------- +

Every edge is ``(group int, kind tinyint, header binary, payload binary)``; a payload is a batch of items in Arrow. A stage is
one stateful operator grouped by key group: ``applyInPandasWithState`` for the last one (it is twice as fast),
``transformWithStateInPandas`` for those before it (Spark allows the other only once in a query). Where no operator is keyed
there is no stage: the sources send rows of the sink, and the driver closes the blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracetypes.compiler.backend.closing_clocks import closes_by_clock
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import ChannelLink, SourceLink, Stage, StageLink, links
from tracetypes.compiler.spark.channels import ChannelReader, channel_messages
from tracetypes.compiler.spark.files import literal
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.scan import End
from tracetypes.compiler.spark.session import groups_to_ids
from tracetypes.compiler.spark.tasks import KeyedTask, Processor
from tracetypes.compiler.spark.wire import MESSAGES, ShippedPlan
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.staging import SEND, Delivery
from tracetypes.compiler.wire.messages import Kind

__all__ = ["lower"]


def lower(
    spark: SparkSession,
    parcel: ShippedPlan,
    inputs: Mapping[str, Input],
    files: Mapping[str, InputFiles],
    channels: Mapping[str, ChannelReader],
    control: str,
    delivery: Delivery,
    clock: str = "",
) -> DataFrame:
    """The messages that leave the last stage of a plan. ``files``: the files of readings that the driver lists, by
    label. ``channels``: those that the plan reads. ``control``: a directory in which a file means that the sources
    have ended. ``delivery``: the way of the sink's rows. ``clock``: a directory of what the clocks of sources decide."""
    plan = parcel.plan
    ids = groups_to_ids(plan.key_groups)
    if is_straight(plan):
        (stage,) = plan.stages
        sources = [link for link in links(stage.region) if isinstance(link, SourceLink)]
        arriving = [_scanned(parcel, stage, link, inputs, files, ids, delivery) for link in sources]
        return reduce(DataFrame.unionAll, [*arriving, _drain(spark, control, ids[:1]), *_clock(spark, clock, stage, ids[:1])])
    frames: dict[int, DataFrame] = {}
    for stage in plan.stages:
        frames[stage.number] = _stage(spark, parcel, stage, inputs, files, channels, frames, ids, control, delivery, clock)
    return frames[plan.stages[-1].number]


def _stage(
    spark: SparkSession,
    parcel: ShippedPlan,
    stage: Stage,
    inputs: Mapping[str, Input],
    files: Mapping[str, InputFiles],
    channels: Mapping[str, ChannelReader],
    frames: Mapping[int, DataFrame],
    ids: list[int],
    control: str,
    delivery: Delivery,
    clock: str,
) -> DataFrame:
    plan, arriving = parcel.plan, list[DataFrame]()
    for link in links(stage.region):
        match link:
            case SourceLink():
                arriving.append(_scanned(parcel, stage, link, inputs, files, ids, SEND))
            case ChannelLink(leaf=leaf):
                arriving.append(channel_messages(spark, parcel, stage, link, ids, channels[leaf.name]))
            case StageLink(leaf=leaf):
                arriving.append(frames[leaf.stage])
    if any(isinstance(link, SourceLink) for link in links(stage.region)):
        arriving += [_drain(spark, control, ids), *_clock(spark, clock, stage, ids)]
    together = reduce(DataFrame.unionAll, arriving)
    grouped = together.groupBy("group")
    last = stage is plan.stages[-1]
    task_of_group = KeyedTask(plan, stage, ids, delivery if last else SEND)
    if last:
        task_of_group.packed(parcel)
        return grouped.applyInPandasWithState(task_of_group.__call__, MESSAGES, "state binary", "append", "NoTimeout")
    return grouped.transformWithStateInPandas(
        Processor(task_of_group.packed(ShippedPlan(plan, embedded=True))), MESSAGES, "append", "None"
    )


def _scanned(
    parcel: ShippedPlan,
    stage: Stage,
    link: SourceLink,
    inputs: Mapping[str, Input],
    files: Mapping[str, InputFiles],
    ids: list[int],
    delivery: Delivery,
) -> DataFrame:
    """The messages of a source."""
    end = End(parcel.plan, stage, link, ids, delivery)
    frame, scan = inputs[link.leaf.source.name].scanned(end, files.get(link.leaf.label))
    if link.leaf.has_clock:  # its rows are decided one after the other
        frame = frame.coalesce(1)
    return frame.mapInArrow(scan.packed(parcel), MESSAGES)


def _drain(spark: SparkSession, control: str, ids: list[int]) -> DataFrame:
    """One message to each key group for each line in the control directory."""
    lines = spark.readStream.format("text").option("maxFileAge", "36500d").load(literal(control))
    groups = ", ".join(map(str, ids))
    kind = f"CAST({int(Kind.DRAIN)} AS TINYINT) AS kind"
    return lines.selectExpr(f"explode(array({groups})) AS group", kind, "X'' AS header", "X'' AS payload")


def _clock(spark: SparkSession, directory: str, stage: Stage, ids: list[int]) -> list[DataFrame]:
    """What the clocks of the stage's sources have decided, to each key group. A line has the label of a reading and,
    behind a tab, the header of the message; the last one is of no reading (:mod:`.clock_files`)."""
    leaves = [link.leaf for link in links(stage.region) if isinstance(link, SourceLink)]
    labels = [leaf.label for leaf in leaves if closes_by_clock(leaf)]
    if not labels:
        return []
    lines = spark.readStream.format("text").load(literal(directory))
    groups = ", ".join(map(str, ids))
    kind = f"CAST({int(Kind.REPORT)} AS TINYINT) AS kind"
    header = "CAST(substring_index(value, '\\t', -1) AS BINARY) AS header"
    mine = lines.where(F.substring_index("value", "\t", 1).isin(labels))
    return [mine.selectExpr(f"explode(array({groups})) AS group", kind, header, "X'' AS payload")]
