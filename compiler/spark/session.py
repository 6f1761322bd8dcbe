"""A Spark session for the backend: its necessary settings, and messages that it should not print."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession

from tracetypes.compiler.spark import archive
from tracetypes.compiler.spark.java import java, quiet_accumulators, submitted_conf
from tracetypes.compiler.spark.prints import share
from tracetypes.errors import RunError

__all__ = ["configure", "groups_to_ids", "session"]

_LOG4J = """status = off
rootLogger.level = off
rootLogger.appenderRef.c.ref = c
appender.c.type = Console
appender.c.name = c
appender.c.target = SYSTEM_ERR
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %m%n
"""

_SHORT = 60
"""Bytes of the path of a directory for sockets at most: their own names have 42, and a whole path may have 107."""

_RUNTIME = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # On local disks the default begins ten processes (chmod, readlink) for each file that it writes, this one two.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def session(*, parallelism: int, master: str | None = None) -> SparkSession:
    """The running session, configured; or a new local one with ``parallelism`` task slots.

    Raises :class:`RunError` ``TT213`` if there is no Java to run it.
    """
    running = SparkSession.getActiveSession()
    if running is None:
        submitted = submitted_conf()
        os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
        if submitted is None:  # otherwise spark-submit has said which interpreter and modules there are
            os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
            paths = [path for path in sys.path if path and Path(path).is_dir()]
            os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
        scratch = Path(tempfile.mkdtemp(prefix="tracetypes-"))
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        quiet, log = scratch / "log4j2.properties", scratch / "jvm.log"
        quiet.write_text(_LOG4J)
        before = signal.getsignal(signal.SIGINT)
        settings = {
            "spark.app.name": "tracetypes",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": os.environ.get("TRACETYPES_DRIVER_MEMORY", "4g"),
            "spark.driver.extraJavaOptions": f"-Xss16m -Dlog4j2.configurationFile=file:{quiet} {archive.options()}".rstrip(),
            "spark.python.worker.reuse": "true",
            "spark.scheduler.mode": "FAIR",
            # Spark's driver-side worker for transformWithState cannot read functions that are sent as broadcasts.
            "spark.broadcast.UDFCompressionThreshold": "1g",
            "spark.sql.execution.pyspark.udf.faulthandler.enabled": "false",
        }
        config = _chosen(master, parallelism, os.environ)
        if config is not None:
            settings |= {"spark.master": config, **_sockets(config, scratch)}
        conf = submitted or SparkConf()
        for name, value in settings.items():
            if submitted is None or not submitted.contains(name):
                conf.set(name, value)
        try:
            with java(conf, log):
                running = SparkSession.Builder().config(conf=conf).getOrCreate()
        except Exception as error:
            lines = [*log.read_text(errors="replace").splitlines(), *str(error).splitlines()]
            warnings = [line for line in lines if line and not line.startswith("WARNING: ")]
            raise RunError(
                "TT213",
                f"Spark did not start: {next(iter(warnings), type(error).__name__)}",
                fix="install a Java 17 or 21 (Debian: apt-get install openjdk-17-jre-headless) and set JAVA_HOME",
            ) from error
        running.sparkContext.setLogLevel("OFF")
        quiet_accumulators(running.sparkContext)
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
    share(running.sparkContext)
    configure(running, parallelism)
    return running


def _chosen(master: str | None, parallelism: int, environment: Mapping[str, str]) -> str | None:
    """The master; None where somebody else has chosen it."""
    elsewhere = {"SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"} & environment.keys()  # the latter under spark-submit
    return master or environment.get("SPARK_MASTER") or (None if elsewhere else f"local[{parallelism}]")


def _sockets(master: str, scratch: Path) -> dict[str, str]:
    """Reach Python workers on this machine through Unix domain sockets in a directory of ours: over loopback TCP the first rows
    of a task come 40 ms late."""
    if not master.startswith("local") or len(os.fsencode(scratch)) > _SHORT:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(scratch),
    }


def configure(spark: SparkSession, parallelism: int, pause: int = 10) -> None:
    """Set what a query takes from its session when it starts. ``pause``: milliseconds between two looks of an idle query at its
    sources; those by default are Spark's."""
    for name, value in _RUNTIME.items():
        spark.conf.set(name, value)
    spark.conf.set("spark.sql.shuffle.partitions", str(parallelism))
    spark.conf.set("spark.sql.files.minPartitionNum", str(parallelism))
    spark.conf.set("spark.sql.streaming.pollingDelay", str(pause))


def groups_to_ids(key_groups: int) -> list[int]:
    """The number that stands for each key group in Spark's grouping column.

    Spark sends a group to partition ``murmur3(id) mod partitions``. These ids hit every residue modulo the number of key
    groups once, so that key groups spread evenly over any number of partitions that divides it (0 and 1 do not, over 2).
    """
    ids: dict[int, int] = {}
    candidate = 0
    while len(ids) < key_groups:
        ids.setdefault(_murmur3(candidate) % key_groups, candidate)
        candidate += 1
    return [ids[group] for group in range(key_groups)]


def _murmur3(value: int, seed: int = 42) -> int:
    """Spark's ``hash`` of an int, as a signed number: Murmur3 x86 32 bit of four bytes."""
    mask = 0xFFFFFFFF

    def rotate(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    k = (rotate((value & mask) * 0xCC9E2D51 & mask, 15) * 0x1B873593) & mask
    h = (rotate(seed ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & mask
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h
