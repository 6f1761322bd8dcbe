"""Sessions of a web log as an expert would write them in PySpark Structured Streaming: native expressions and session windows, no
Python. Each function takes the frame of lines; lines may not come later than the watermark, or Spark drops them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

DELAY, GAP = "2 minutes", "30 minutes"
STAMP = "dd/MMM/yyyy:HH:mm:ss Z"
LINE = r'^(\S+) \S+ (\S+) \[([^]]+)\] "[A-Z]+ (\S+)[^"]*" (\d{3}) (\d+|-) "((?:[^"\\]|\\.)*)" "(?:[^"\\]|\\.)*"$'
TEXTS = ("host", "ident", "user", "day", "zone", "request", "status", "bytes", "referrer", "agent")
CELLS = ", ".join(f"{name} string" for name in TEXTS)


def floor(lines: DataFrame) -> DataFrame:
    """All lines, and nothing after the scan."""
    return lines.select("value")


def _sessions(visits: DataFrame) -> DataFrame:
    """Sessions of ``host, user, stamp, page, status, bytes, referrer``, which are text."""
    timed = visits.select(
        F.when(F.col("user") == "-", F.col("host")).otherwise(F.col("user")).alias("visitor"),
        F.to_timestamp("stamp", STAMP).alias("ts"),
        "page",
        F.col("status").cast("long").alias("status"),
        F.when(F.col("bytes") == "-", 0).otherwise(F.col("bytes").cast("long")).alias("bytes"),
        "referrer",
    )
    by = F.struct("ts", "page", "status", "bytes", "referrer")
    windows = timed.withWatermark("ts", DELAY).groupBy(F.session_window("ts", GAP), "visitor")
    sessions = windows.agg(
        F.min("ts").alias("start"),
        F.max("ts").alias("end"),
        F.count("*").alias("pages"),
        F.count_if(F.col("status") >= 400).alias("errors"),
        F.min_by("page", by).alias("entry"),
        F.max_by("page", by).alias("exit"),
        F.min_by("referrer", by).alias("referrer"),
        F.sum("bytes").alias("bytes"),
    )
    return sessions.drop("session_window")


def by_expression(lines: DataFrame) -> DataFrame:
    """A regular expression for each part of a line."""
    names = ("host", "user", "stamp", "page", "status", "bytes", "referrer")
    parts = [F.regexp_extract("value", LINE, at).alias(name) for at, name in enumerate(names, 1)]
    return _sessions(lines.where(F.rlike("value", F.lit(LINE))).select(*parts))


def by_cells(lines: DataFrame) -> DataFrame:
    """A line is nearly CSV with blanks: one pass takes it apart. It checks less of a line than the other way."""
    cells = F.from_csv("value", CELLS, {"sep": " "}).alias("line")
    rows = lines.select(cells).select("line.*").where("status is not null and request is not null")
    return _sessions(
        rows.select(
            "host",
            "user",
            F.expr("concat(substring(day, 2), ' ', substring(zone, 1, 5))").alias("stamp"),
            F.split_part("request", F.lit(" "), F.lit(2)).alias("page"),
            "status",
            "bytes",
            F.replace("referrer", F.lit('"'), F.lit('\\"')).alias("referrer"),  # from_csv takes backslashes away
        )
    )


Query = Callable[[DataFrame], DataFrame]

WAYS: Mapping[str, Query] = {"from_csv": by_cells, "regexp_extract": by_expression}
