"""A run with many keys stops and goes on: with as many tasks as before, with more, with fewer. Seconds until the next answer.

    python -m benchmarks.rescale [--keys N] [--runs N]

The flow is that of ``benchmarks/keyed_state.py``. Two files are answered at the first parallelism; then the run goes on over two
more, and the time until their micro-batch is committed is taken. ``same`` is the price of going on at all. At the end all
counts are compared with a recount. Prints a JSON line for each change.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks._compare import say, versions
from benchmarks._counts import small as flow
from benchmarks.keyed_state import make
from tracetypes import check
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import Batch, run
from tracetypes.compiler.spark.session import session
from tracetypes.compiler.store.outputs import FileOutput


class Job:
    """One run, over the first files of a directory."""

    def __init__(self, spark: SparkSession, data: Path, root: Path) -> None:
        self.spark, self.data, self.root = spark, data, root
        (root / "in").mkdir()

    def go(self, files: int, parallelism: int, *, drain: bool = False) -> float:
        """Go on with more files; seconds until the first micro-batch is committed."""
        for part in sorted(self.data.glob("*.parquet"))[:files]:
            if not (self.root / "in" / part.name).exists():
                shutil.copy2(part, self.root / "in" / part.name)
        query_plan = plan(check(flow), parallelism=parallelism)
        start, times = time.monotonic(), list[float]()

        def first(batch: Batch) -> None:
            times.append(time.monotonic() - start)

        out = FileOutput(query_plan, str(self.root / "out.parquet"), "run", None, None)
        source, checkpoint = {"events": str(self.root / "in")}, str(self.root / "checkpoint")
        run(self.spark, query_plan, source, out, checkpoint=checkpoint, files_per_step=2, drain=drain, on_batch=first)
        return times[0]

    def exact(self) -> bool:
        """Is the last answer for every key that of a recount?"""
        last = self.spark.read.parquet(str(self.root / "out.parquet")).groupBy("key").agg(F.max("count").alias("count"))
        want = self.spark.read.parquet(str(self.root / "in")).groupBy("key").agg(F.count("*").alias("count"))
        return last.count() == want.count() and last.exceptAll(want).isEmpty()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    spark = session(parallelism=2)
    with tempfile.TemporaryDirectory(prefix="tracetypes-benchmark-") as directory:
        data = Path(directory, "data")
        data.mkdir()
        make(data, 4 * arguments.keys, arguments.keys)
        for change, to in (("same", 2), ("2 to 4", 4), ("2 to 1", 1)):
            seconds, exact = list[float](), True
            for number in range(arguments.runs + 1):  # the first warms up
                root = Path(directory, f"{to}-{number}")
                root.mkdir()
                job = Job(spark, data, root)
                job.go(4, 2)
                seconds.append(job.go(6, to))
                job.go(8, to, drain=True)
                exact = exact and job.exact()
                shutil.rmtree(root)
            say(
                benchmark="rescale",
                change=change,
                keys=arguments.keys,
                seconds=round(statistics.median(seconds[1:]), 2),
                all=[round(one, 2) for one in seconds],
                exact=exact,
                versions=versions(),
            )


if __name__ == "__main__":
    main()
