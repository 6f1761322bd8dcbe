"""A stateful operator per key (running count and mean): ours against the same by hand, one Python call per key.

    python -m benchmarks.keyed_state [--events N] [--keys N,N,...] [--runs N]

Same Parquet files, same files a micro-batch, same session, nothing kept on either side (Spark's noop sink), every side
warmed up, medians. Each answer is compared with a recount. Prints a JSON line for each number of keys.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks._counts import FILES, FILES_PER_STEP, SECONDS
from benchmarks._counts import small as flow
from benchmarks.by_hand import keyed_state as by_hand
from tracetypes import __version__, check
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.spark.session import session
from tracetypes.compiler.store.outputs import NoOutput


def make(root: Path, count: int, keys: int) -> None:
    """``count`` events with uniform keys in ``FILES`` files, in the order of time."""
    chance, each = np.random.default_rng(keys), count // FILES
    for n in range(FILES):
        ts = 1_700_000_000 + (np.arange(each) + n * each) * SECONDS // count
        table = pa.table({"key": chance.integers(0, keys, each), "value": chance.integers(0, 1_000, each), "ts": ts})
        pq.write_table(table, root / f"part-{n:05d}.parquet")


def ours(spark: SparkSession, root: Path, parallelism: int, output: Any = None) -> float:
    """Seconds of a whole run, the drain included."""
    query_plan = plan(check(flow), parallelism=parallelism)
    checkpoint = tempfile.mkdtemp()
    start = time.monotonic()
    sink = NoOutput(query_plan) if output is None else output(query_plan)
    run(spark, query_plan, {"events": str(root)}, sink, checkpoint=checkpoint, files_per_step=FILES_PER_STEP)
    seconds = time.monotonic() - start
    shutil.rmtree(checkpoint)
    return seconds


def other(spark: SparkSession, root: Path, query: Callable[[DataFrame], DataFrame]) -> float:
    """Seconds of a whole run by hand."""
    checkpoint = tempfile.mkdtemp()
    start = time.monotonic()
    schema = spark.read.parquet(str(root)).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_STEP).parquet(str(root))
    writer = query(frame).writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    writer.format("noop").trigger(availableNow=True).start().awaitTermination()
    seconds = time.monotonic() - start
    shutil.rmtree(checkpoint)
    return seconds


def verify(spark: SparkSession, root: Path, parallelism: int) -> bool:
    """Is our last answer for every key the count and mean of a recount?"""
    from tracetypes.compiler.store.outputs import FileOutput

    with tempfile.TemporaryDirectory() as out:
        ours(spark, root, parallelism, lambda query_plan: FileOutput(query_plan, out, "verify", None, None))
        last = spark.read.json(f"{out}/*.jsonl").groupBy("key").agg(F.max("count").alias("count"))
        want = spark.read.parquet(str(root)).groupBy("key").agg(F.count("*").alias("count"))
        return last.count() == want.count() and last.exceptAll(want).isEmpty()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--keys", default="1000,10000,100000")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--other-runs", type=int, help="runs of the other side (default: as ours; one from 50,000 keys)"
    )
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--only-ours", action="store_true", help="leave the others out, for profiling")
    arguments = parser.parse_args()
    spark = session(parallelism=arguments.parallelism)
    others = {
        "applyInPandasWithState": by_hand.apply_in_pandas_with_state,
        "transformWithState": by_hand.transform_with_state,
    }
    for keys in map(int, arguments.keys.split(",")):
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch)
            make(root, arguments.events, keys)
            exact = verify(spark, root, arguments.parallelism)
            mine = [ours(spark, root, arguments.parallelism) for _ in range(arguments.runs)]
            theirs: dict[str, float] = {}
            for name, query in {} if arguments.only_ours else others.items():
                small = Path(scratch) / "warm"
                small.mkdir(exist_ok=True)
                make(small, 8_000, 100)
                other(spark, small, query)
                times = arguments.other_runs or (arguments.runs if keys < 50_000 else 1)
                theirs[name] = statistics.median(other(spark, root, query) for _ in range(times))
                shutil.rmtree(small)
            best = min(theirs.values(), default=0.0)
            line = {
                "benchmark": "keyed_state",
                "keys": keys,
                "events": arguments.events,
                "ours": round(statistics.median(mine), 2),
                "ours_all": [round(s, 2) for s in mine],
                "other": round(best, 2),
                "others": {name: round(s, 2) for name, s in theirs.items()},
                "ratio": round(best / statistics.median(mine), 1),
                "exact": exact,
                "parallelism": arguments.parallelism,
                "versions": {
                    "tracetypes": __version__,
                    "pyspark": pyspark.__version__,
                    "python": platform.python_version(),
                },
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
