"""The session: which master it has, and how it reaches its Python workers."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tracetypes.compiler.spark import java
from tracetypes.compiler.spark.session import _chosen, _sockets

ENABLED, FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"


def test_workers_are_reached_through_unix_domain_sockets(spark: SparkSession) -> None:
    context = spark.sparkContext
    told = context.parallelize([0], 1).map(lambda _: os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED")).collect()
    assert told == ["True"]
    folder = Path(context.getConf().get(FOLDER, ""))
    assert folder.stat().st_mode & 0o077 == 0
    assert any(one.is_socket() for one in folder.iterdir())


def test_java_hears_nothing_more_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of py4j would print a traceback."""
    gateway = SimpleNamespace(_gateway_client=SimpleNamespace(is_connected=True))
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    process, watch = (subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(2))
    java._end(process, watch)
    assert process.returncode == watch.returncode == 0
    assert not gateway._gateway_client.is_connected


@pytest.mark.parametrize("master", ["local", "local[2]", "local[2,8]", "local-cluster[2,1,1024]"])
def test_sockets_where_all_is_on_this_machine(master: str) -> None:
    assert _sockets(master, Path("/tmp/tracetypes-0")) == {ENABLED: "true", FOLDER: "/tmp/tracetypes-0"}


@pytest.mark.parametrize(
    ("master", "scratch"),
    [("spark://host:7077", "/tmp/tracetypes-0"), ("yarn", "/tmp/t"), ("local[2]", "/tmp/" + "x" * 60)],
)
def test_no_sockets_on_a_cluster_or_with_a_path_that_is_too_long(master: str, scratch: str) -> None:
    assert _sockets(master, Path(scratch)) == {}


@pytest.mark.parametrize(
    ("master", "environment", "chosen"),
    [
        (None, {}, "local[3]"),
        ("local[7]", {"SPARK_MASTER": "spark://host:7077"}, "local[7]"),
        (None, {"SPARK_MASTER": "spark://host:7077"}, "spark://host:7077"),
        (None, {"PYSPARK_GATEWAY_PORT": "1"}, None),
        (None, {"SPARK_REMOTE": "sc://host"}, None),
        (None, {"SPARK_MASTER": "yarn", "PYSPARK_GATEWAY_PORT": "1"}, "yarn"),
    ],
)
def test_the_master(master: str | None, environment: dict[str, str], chosen: str | None) -> None:
    """Under spark-submit, which leaves the port of its gateway, the master that was given there counts."""
    assert _chosen(master, 3, environment) == chosen
