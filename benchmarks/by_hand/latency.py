"""Counts and sums of each key and second, from a topic to a topic, as an expert would write it: Spark's connector, a native
window, append mode. Runs until it is ended.

    python -m benchmarks.by_hand.latency SERVERS FROM TO CHECKPOINT DELAY_MS PARALLELISM [--until-empty]
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracetypes.compiler.spark.session import session


def query(spark: SparkSession, servers: str, topic: str, delay: int) -> DataFrame:
    """The results as records. ``delay``: milliseconds that an event may come late."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    event = F.from_json(F.col("value").cast("string"), "key long, value long, ts long").alias("e")
    events = records.select(event).select("e.key", "e.value", F.timestamp_millis("e.ts").alias("ts"))
    window = F.window("ts", "1 second")
    sums = events.withWatermark("ts", f"{delay} milliseconds").groupBy(window, "key")
    totals = sums.agg(F.count("*").alias("count"), F.sum("value").alias("total"))
    end = F.unix_millis("window.end").alias("end")
    return totals.select(
        F.col("key").cast("string").alias("key"), F.to_json(F.struct(end, "count", "total")).alias("value")
    )


def main() -> None:
    """Run it."""
    servers, topic, to, checkpoint, delay, parallelism, *more = sys.argv[1:]
    spark = session(parallelism=int(parallelism))
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    writer = query(spark, servers, topic, int(delay)).writeStream.outputMode("append").format("kafka")
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", to)
    writer = writer.option("checkpointLocation", checkpoint)
    started = time.time()
    if more:
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        for progress in running.recentProgress:
            told = json.loads(progress.json)
            print(json.dumps({"rows": told["numInputRows"], "seconds": told["durationMs"]["triggerExecution"] / 1e3}))
        print(json.dumps({"whole": time.time() - started}))
    else:
        writer.start().awaitTermination()


if __name__ == "__main__":
    main()
