"""The DataFrames that a caller gives ``transform`` as inputs, and what of them is refused."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType

from tracetypes.check import Checked
from tracetypes.errors import RunError, UsageError
from tracetypes.markers import InBand, span_as_micros
from tracetypes.nodes import RowPosition, Source, title
from tracetypes.records import show

__all__ = ["column_of", "need_choice_of_late", "parts_of", "places_of", "refuse", "session_of", "spans_of"]


def need_choice_of_late(late: object) -> None:
    """Raise ``TT402`` unless it is one of the two."""
    if late not in ("count", "rows"):
        raise UsageError("TT402", f"late is {show(late)}", fix='give "count" or "rows"')


def parts_of(parts: Mapping[str, str], inputs: Mapping[str, DataFrame]) -> Mapping[str, str]:
    """Raise ``TT402`` for an unknown source, ``TT203`` for an unknown column."""
    for name, column in parts.items():
        if name not in inputs:
            raise UsageError("TT402", f"parts= has {name!r}, and there is no such source", fix="name a source")
        if column not in inputs[name].columns:
            has = ", ".join(map(repr, inputs[name].columns))
            raise RunError(
                "TT203", f"the DataFrame of source {name!r} has no column {show(column)}; it has {has}", fix="name one of them"
            )
    return parts


def places_of(checked: Checked, position: Mapping[str, str], inputs: Mapping[str, DataFrame]) -> Mapping[str, str]:
    """Raise ``TT402`` for a source that is unknown or is not ordered by position, ``TT203`` for a column that is unknown or has
    no whole numbers."""
    ordered = {source.name for source in checked.graph.sources if isinstance(source.ordered_by, RowPosition)}
    for name, column in position.items():
        if name not in ordered:
            what = "which is not ordered by ROW_POSITION" if name in inputs else "and there is no such source"
            raise UsageError("TT402", f"position= has {name!r}, {what}", fix="name a source that is")
        types = {field.name: field.dataType for field in inputs[name].schema}
        if column not in types:
            has = ", ".join(map(repr, types))
            raise RunError(
                "TT203", f"the DataFrame of source {name!r} has no column {show(column)}; it has {has}", fix="name one of them"
            )
        if not isinstance(types[column], LongType | IntegerType | ShortType | ByteType):
            found = types[column].simpleString()
            raise RunError(
                "TT203",
                f"position= of {name!r}: the column {column!r} is {found}, expected int",
                fix="name a column of whole numbers, such as the offset",
            )
    return position


def spans_of(idle: Mapping[str, float], inputs: Mapping[str, DataFrame]) -> dict[str, int]:
    """Microseconds, by source. Raises ``TT402``."""
    for name in idle:
        if name not in inputs:
            raise UsageError("TT402", f"idle= has {name!r}, and there is no such source", fix="name a source")
    return {name: span_as_micros(f"idle= of {name!r}", span, code="TT402") for name, span in idle.items()}


def session_of(checked: Checked, inputs: Mapping[str, DataFrame]) -> tuple[SparkSession, bool]:
    """The session of the inputs, and whether they are streams. Raises :class:`UsageError` ``TT402``."""
    sources = list(dict.fromkeys(source.name for source in checked.graph.sources))
    for name in inputs:
        if name not in sources:
            raise UsageError("TT402", f"there is no source {name!r}", fix=f"the sources are {', '.join(map(repr, sources))}")
    for name in sources:
        if name not in inputs:
            raise UsageError("TT402", f"source {name!r} has no input", fix=f"give inputs={{{name!r}: a DataFrame}}")
        if not isinstance(inputs[name], DataFrame):
            found = type(inputs[name]).__name__
            raise UsageError("TT402", f"the input of source {name!r} is a {found}", fix="give a DataFrame of PySpark")
    first = inputs[sources[0]]
    for name in sources[1:]:
        if not _same(first.sparkSession, inputs[name].sparkSession):
            raise UsageError(
                "TT402",
                f"the inputs of sources {sources[0]!r} and {name!r} are of two sessions",
                fix="make both DataFrames with one SparkSession",
            )
    static = [name for name in sources if not inputs[name].isStreaming]
    streams = [name for name in sources if inputs[name].isStreaming]
    if static and streams:
        raise UsageError(
            "TT402",
            f"the input of source {static[0]!r} is a static DataFrame beside the stream of {streams[0]!r}",
            fix="join it to the stream before (a broadcast join), or read both as streams or both as static DataFrames",
        )
    return first.sparkSession, bool(streams)


def _same(one: SparkSession, other: SparkSession) -> bool:
    if one is other:
        return True
    mine, theirs = (getattr(session, "_jsparkSession", None) for session in (one, other))
    return mine is not None and theirs is not None and bool(mine.equals(theirs))


def refuse(source: Source, *, streams: bool, placed: bool = False) -> None:
    """Raise :class:`UsageError` ``TT430`` for a source that a DataFrame cannot be. ``placed``: a column has the order."""
    where = f"{title(source)} ({source.where})"
    if source.output != "items":
        fix = 'take them from outcomes() with late="rows", or run the flow with run()'
        raise UsageError("TT430", f"{where} reads {source.output} as a stream", fix=fix)
    if isinstance(source.ordered_by, RowPosition) and not placed:
        fix = f'name a column that has the order, as position={{{source.name!r}: "offset"}}'
        raise UsageError("TT430", f"{where} is ordered by the position of its rows, and a DataFrame has none", fix=fix)
    how = source.markers
    if isinstance(how, InBand):
        fix = "take markers from the times of rows: every(...)"
        raise UsageError("TT430", f"{where} has markers in band, and the rows of a DataFrame have no order", fix=fix)
    given = {"ahead": how.ahead, "per": how.per, "closes_after": how.closes_after if streams else None}
    for name, value in given.items():
        if value is not None:
            fix = f"leave {name}= out, or run the flow with run()"
            raise UsageError("TT430", f"{where} has {name}=, which a query of Spark's cannot follow", fix=fix)


def column_of(name: str) -> Column:
    """A column of a DataFrame, whatever its name."""
    return F.col(f"`{name.replace('`', '``')}`")
