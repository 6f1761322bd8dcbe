"""A program of :mod:`tests.spark.test_connect`, in a process of its own: it has one session, that of Spark Connect.

    python -m tests.spark.connect DIRECTORY      # prints the rows of a static and of a streaming DataFrame, as JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.spark.flows import Reading
from tracetypes import Dataflow, U, every, stdlib
from tracetypes.spark import transform

COLUMNS = "id string, ts long, watts int"
BAGS = [
    [Reading("a", 3, 1), Reading("b", 31, 2)],
    [Reading("a", 12, 16), Reading("c", 66, 64)],
    [Reading("a", 41, 256)],
]


def counts() -> Dataflow:
    """How many rows each meter has every 10 s."""
    flow = Dataflow("counts")
    markers = every(seconds=10, time=lambda r: r.ts)
    meters = flow.source("meters", U[str, Reading], key=lambda r: r.id, markers=markers)
    flow.sink("counts", meters.through(stdlib.aggregate(stdlib.count())))
    return flow


def rows_of(frame: DataFrame) -> list[tuple[str, int]]:
    """Its rows, sorted."""
    return sorted((row["key"], row["value"]) for row in frame.collect())


def main(directory: Path) -> None:
    """Answer both."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    rows = [(row.id, row.ts, row.watts) for bag in BAGS for row in bag]
    static = rows_of(transform(counts(), {"meters": spark.createDataFrame(rows, COLUMNS)})["counts"])
    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).option("maxFileAge", "36500d")
    frame = transform(counts(), {"meters": stream.json(str(directory / "in"))}, key_groups=3)["counts"]
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    writer.trigger(availableNow=True).start(str(directory / "out")).awaitTermination()
    streamed = rows_of(spark.read.parquet(str(directory / "out")))
    print(json.dumps({"static": static, "stream": streamed}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
