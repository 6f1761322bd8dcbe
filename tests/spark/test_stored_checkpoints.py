"""Runs on Spark whose inputs, outputs and checkpoint are on an object store: whatever is killed, each row is answered once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.spark import dags, flows, hadoop_aws
from tests.spark.cluster import ALONE, cluster, driver_environment, namespaces
from tests.spark.maven import Unavailable
from tests.spark.support import all_defined, rows_in, rows_of, side_outputs
from tests.spark.test_exactly_once import expect, files
from tests.spark.test_processes import until
from tests.store_server import KEY, SECRET, Server, bucket_of
from tracetypes import Dataflow, check

ROOT = Path(__file__).parents[2]

APART = ("--conf", "spark.shuffle.readHostLocalDisk=false")
"""Executors of one address read files of each other, unless they are told not to."""


@pytest.fixture
def server(object_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    made = bucket_of(object_server, monkeypatch)
    try:
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", hadoop_aws.submit_arguments(*APART))
    except Unavailable as why:
        pytest.skip(str(why))
    return made


def put_files(server: Server, place: Path, count: int = 2) -> list[str]:
    """Readings, some of them late or no rows; all lines in the order of their files."""
    lines = files(place / "in", count=count)
    for file in sorted((place / "in").iterdir()):
        server.put(f"in/{file.name}", file.read_bytes())
    return lines


def command(server: Server, *more: str) -> list[str]:
    words = [sys.executable, "-m", "tracetypes.cli", "run", "tests.spark.flows:delayed", "--backend", "spark"]
    words += ["--parallelism", "2", "--files-per-step", "1", "-i", f"readings={server.address('in')}"]
    return [*words, "-o", f"sums={server.address('out')}", "--checkpoint", server.address("checkpoint"), *more]


@contextmanager
def running(server: Server, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own, which is killed at the end."""
    process = subprocess.Popen(command(server, *more), cwd=ROOT, text=True, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def expect_answer(server: Server, place: Path, lines: list[str]) -> None:
    """That of the interpreter, with late rows and rejects, and no secret anywhere."""
    downloaded(server, "out", place / "out")
    for kind in ("_late", "_rejects"):
        downloaded(server, f"checkpoint/{kind}", place / "out" / kind)
    expect(check(flows.delayed), lines, place / "out")
    for key in server.keys():  # noqa: SIM118
        with suppress(FileNotFoundError):  # of what Hadoop's client puts for a directory
            content = server.content(key)
            assert KEY.encode() not in content
            assert SECRET.encode() not in content


@pytest.mark.nightly
def test_a_driver_is_killed_and_the_next_one_takes_over(server: Server, tmp_path: Path) -> None:
    lines = put_files(server, tmp_path)
    with running(server) as first:
        until(first, "batch 0:")
        first.send_signal(signal.SIGKILL)
        first.wait()
    with running(server) as second:
        until(second, "done:")
        assert second.wait(60) == 0
    expect_answer(server, tmp_path, lines)


def driver(server: Server, master: str, *more: str) -> subprocess.Popen[str]:
    """A driver for two workers, with a directory for temporary files that nobody else sees."""
    words = [*ALONE, str(ROOT), *command(server, "--master", master, *more)]
    return subprocess.Popen(words, cwd=ROOT, env=driver_environment(), text=True, stderr=subprocess.PIPE)


@pytest.mark.nightly
def test_driver_and_workers_share_no_directory(server: Server, tmp_path: Path) -> None:
    """Inputs, outputs and checkpoint are on the store, an executor is killed, and the trace is the same."""
    if not namespaces():
        pytest.skip("no mount namespaces here")
    lines = put_files(server, tmp_path, count=4)
    with cluster(workers=2, alone=True) as made:
        running = driver(server, made.master)
        try:
            until(running, "batch 1:")
            killed, _ = made.executors()
            os.kill(killed, signal.SIGKILL)
            until(running, "done:")
            assert running.wait(60) == 0
            assert killed not in made.executors()
        finally:
            running.kill()
            running.communicate()
    expect_answer(server, tmp_path, lines)


@pytest.mark.nightly
def test_they_would_fail_with_a_path_of_the_driver(server: Server, tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    if not namespaces():
        pytest.skip("no mount namespaces here")
    put_files(server, tmp_path)
    with cluster(workers=2, alone=True) as made:
        running = driver(server, made.master, *("--checkpoint", "/tmp/c", "--late", "/tmp/l", "--rejects", "/tmp/r"))
        try:
            assert running.communicate(timeout=300)[1].count("done:") == 0
            assert running.returncode != 0
        finally:
            running.kill()


KILLS = 10
"""Of each dataflow."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["two_sinks", "chain", "diamond"])
def test_drivers_are_killed_again_and_again(server: Server, tmp_path: Path, name: str) -> None:
    """With channels, with two stages of one query, and with both. A killed driver may leave a Java process that writes on."""
    flow: Dataflow = getattr(dags, f"{name}_flow")
    checked = check(flow)
    lines = put_files(server, tmp_path, count=3 * KILLS + 2)
    words = [sys.executable, "-m", "tracetypes.cli", "run", f"tests.spark.dags:{name}_flow", "--backend", "spark"]
    words += ["--parallelism", "2", "--files-per-step", "1", "-i", f"readings={server.address('in')}"]
    words += ["--checkpoint", server.address("checkpoint")]
    for sink in checked.graph.sinks:
        words += ["-o", f"{sink.name}={server.address(f'out-{sink.name}')}"]
    moments = random.Random(name)
    for left in reversed(range(KILLS + 1)):
        with subprocess.Popen(words, cwd=ROOT, text=True, stderr=subprocess.PIPE) as process:
            until(process, "batch" if left else "done:")
            if left:
                time.sleep(moments.uniform(0, 2))
                process.kill()
    traces, arranged = all_defined(checked, {"readings": lines})
    for sink in checked.graph.sinks:
        place = downloaded(server, f"out-{sink.name}", tmp_path / f"out-{sink.name}")
        assert rows_in(place, "at") == rows_of(checked, sink, traces[sink.name])
    late = Counter(one.reason for one in arranged["readings"].late)
    place = downloaded(server, "checkpoint/_late", tmp_path / "late")
    assert Counter(one["reason"] for one in side_outputs(place, "readings")) == late


def downloaded(server: Server, folder: str, place: Path) -> Path:
    """The rows of an output, as files."""
    place.mkdir(parents=True)
    for key in server.keys(folder):
        name = key.removeprefix(f"{folder}/")
        if "_tracetypes" not in name and not name.endswith("_here"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(server.content(key))
    return place
