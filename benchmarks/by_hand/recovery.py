"""Count, sum and a kilobyte of luggage of each key as an expert would write it: Spark's own aggregation, in RocksDB.

    python -m benchmarks.by_hand.recovery FILES CHECKPOINT OUTPUT LUGGAGE PARALLELISM

Prints a line when a micro-batch is out, and one when all files are answered.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tracetypes.compiler.spark.session import session


def luggage(size: int) -> F.Column:  # type: ignore[name-defined]
    """``size`` bytes that do not compress, by key."""
    parts = [F.unhex(F.sha2(F.concat_ws("/", "key", F.lit(n)), 512)) for n in range(-(-size // 64))]
    return F.substring(F.concat(*parts), 1, size)


def query(events: DataFrame, size: int) -> DataFrame:
    """Update mode sends the keys that a micro-batch touched."""
    counted = events.withColumn("luggage", luggage(size)).groupBy("key")
    sums = counted.agg(F.count("*").alias("count"), F.sum("value").alias("total"), F.first("luggage").alias("luggage"))
    return sums.select(
        "key", "count", (F.col("total") / F.col("count")).alias("mean"), F.length("luggage").alias("held")
    )


def main() -> None:
    """Run it."""
    files, checkpoint, output, size, parallelism = sys.argv[1:]
    spark = session(parallelism=int(parallelism))
    schema = spark.read.parquet(files).schema
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(files)

    def out(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{output}/{batch}")
        print(f"micro-batch {batch}: out", flush=True)

    writer = query(events, int(size)).writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    writer.foreachBatch(out).trigger(availableNow=True).start().awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main()
