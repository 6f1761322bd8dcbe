"""The Java process of the driver. It starts with the session, and ends with or before the process that started it.

Only this module uses what is private to Spark's gateway to that process; :mod:`.log` does so for what is private to its
checkpoint.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tracetypes.compiler.store.locks import JavaLock

__all__ = [
    "end",
    "hadoop_version",
    "has_class",
    "java",
    "java_lock",
    "java_process",
    "quiet_accumulators",
    "running_context",
    "set_hadoop",
    "submitted_conf",
]

PATIENCE = 10
"""Seconds for the Java process to end by itself when its driver has ended."""

_WATCH = """
trap '' INT TERM HUP
read -r _
n=0
while kill -0 "$0" 2>/dev/null; do
    [ $n -lt %d ] || { kill -9 "$0"; exit; }
    n=$((n + 1))
    sleep 0.1
done
"""
"""Reads a pipe of the driver, which ends with the driver however that ends, and then sees that the Java process ends too: Spark
ends it when its own pipe ends, but may stand still for good where a context was just being made."""


def submitted_conf() -> SparkConf | None:
    """The settings that ``spark-submit`` was given, where it has started this process; None elsewhere."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    SparkContext._ensure_initialized()
    return SparkConf(_jvm=SparkContext._jvm)


@contextmanager
def java(conf: SparkConf, log: Path) -> Iterator[None]:
    """A context in which a new session has a Java process, which ends if the session fails or is interrupted. Does
    nothing if there is one.

    ``log``: the file for what it and the Python workers print. Nobody would read a pipe, and they would hold it open.
    """
    log.touch()
    if {"SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"} & os.environ.keys() or SparkContext._gateway is not None:
        yield
        return
    started: list[subprocess.Popen[bytes]] = []
    launch: Callable[..., Any] = launch_gateway
    try:
        with log.open("wb") as file, _noted(started):
            gateway = launch(conf, {"stdout": file, "stderr": file, "process_group": 0})
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        yield
    except BaseException:
        SparkContext._gateway = SparkContext._jvm = None
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        raise


@contextmanager
def _noted(started: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Note and watch what Spark starts from its beginning on: ``launch_gateway`` tells of the process only when that is up."""
    popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen

    def noted(*command: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = popen(*command, **options)
        started.append(process)
        atexit.register(_end, process, _watched(process))
        return process

    vars(java_gateway)["Popen"] = noted
    try:
        yield
    finally:
        vars(java_gateway)["Popen"] = popen


def _watched(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """See that a process ends when this one has ended."""
    return subprocess.Popen(
        ["/bin/sh", "-c", _WATCH % (10 * PATIENCE), str(process.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes], watch: subprocess.Popen[bytes]) -> None:
    """Let the Java process end before this one does."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _say_no_more()
    for one in (process, watch):
        with suppress(OSError):
            if one.stdin is not None:
                one.stdin.close()
        try:
            one.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def _say_no_more() -> None:
    """Do not tell the Java process what Python has forgotten: a thread of py4j does, and prints a traceback if Java ends
    meanwhile."""
    if SparkContext._gateway is not None:
        SparkContext._gateway._gateway_client.is_connected = False


def end(spark: SparkSession, patience: float) -> None:
    """Stop a session and let its Java process end, killed where it takes longer than so many seconds. No session can be started
    in this process behind it."""
    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    spark.stop()
    _say_no_more()
    if process is not None and process.stdin is not None:
        process.stdin.close()
        try:
            process.wait(patience)
        except BaseException:
            process.kill()
            process.wait()
            raise


def quiet_accumulators(context: SparkContext) -> None:
    """Print no traceback if the Java process ends before this one."""
    accumulators = getattr(context, "_accumulatorServer", None)
    if accumulators is not None:
        accumulators.handle_error = lambda *_: None


def running_context() -> SparkContext | None:
    """The context of this process; None in workers."""
    return SparkContext._active_spark_context


def java_process(spark: SparkSession) -> int | None:
    """The number of the Java process of a session, if it is known."""
    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    return process.pid if process is not None else None


def java_lock(spark: SparkSession) -> tuple[JavaLock, int | None]:
    """The class by which the Java process of a session locks files, and its number if it is known."""
    gateway: Any = spark.sparkContext._gateway

    def lock(path: Path) -> Callable[[], None] | None:
        file = gateway.jvm.java.io.RandomAccessFile(str(path), "rw")
        try:
            locked = file.getChannel().tryLock() is not None
        except Py4JError as error:
            if "OverlappingFileLockException" not in str(error):
                raise
            locked = False
        if not locked:
            file.close()
            return None

        def release() -> None:
            with suppress(Py4JError, OSError):  # there may be no Java process any more
                file.close()

        return release

    return lock, java_process(spark)


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether the Java process of a session has a class."""
    jvm: Any = spark.sparkContext._jvm
    try:
        jvm.java.lang.Class.forName(name, True, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    except Py4JError:
        return False
    return True


def hadoop_version(spark: SparkSession) -> str:
    """The version of Hadoop that it has."""
    jvm: Any = spark.sparkContext._jvm
    return str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())


def set_hadoop(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Set options of Hadoop, but for those that somebody has chosen for the session."""
    context: Any = spark.sparkContext
    for name, value in settings.items():
        if not context.getConf().contains(f"spark.hadoop.{name}"):
            context._jsc.hadoopConfiguration().set(name, value)
