"""A standalone Spark cluster for tests and benchmarks: a master and workers as processes on loopback, for as long as they are
needed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import pyspark

from tracetypes.compiler.spark.archive import options

PATIENCE = 60.0
"""Seconds for a daemon to come up."""


QUICK = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {options()}".rstrip()
"""For Java processes that live for seconds."""


@attrs.frozen
class Cluster:
    """A cluster that runs. ``master``: its URL for ``--master``; ``workers``: the processes of its workers."""

    master: str
    workers: tuple[int, ...]

    def executors(self) -> list[int]:
        """The processes of the executors that live, of all drivers."""
        return [
            pid for pid, (parent, command) in _processes().items() if parent in self.workers and EXECUTOR in command
        ]

    def python_workers(self) -> list[int]:
        """The processes in which executors run Python."""
        known = _processes()
        daemons = {pid for pid, (parent, _) in known.items() if parent in self.executors()}
        return [pid for pid, (parent, _) in known.items() if parent in daemons]


EXECUTOR = b"CoarseGrainedExecutorBackend"


def _processes() -> dict[int, tuple[int, bytes]]:
    """All processes, each with its parent and its command line."""
    found: dict[int, tuple[int, bytes]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(place.name)] = parent, (place / "cmdline").read_bytes()
    return found


ALONE = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /tmp && mkdir -p "$0" && cd "$0" && exec "$@"')
"""Begins a command that has ``/tmp`` to itself. Then come a directory, in which it runs, and the command."""


def namespaces() -> bool:
    """Whether this machine lets us have such directories."""
    try:
        return subprocess.run([*ALONE, "/tmp", "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def cluster(
    workers: int = 2, *, cores: int = 1, python_path: str | None = None, alone: bool = False
) -> Iterator[Cluster]:
    """A cluster whose workers offer that many cores each. ``python_path``: where Python on its executors finds modules; that of
    this process unless given. ``alone``: each worker has ``/tmp`` to itself."""
    root = Path(tempfile.mkdtemp(prefix="tracetypes-cluster-"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)) if python_path is None else python_path,
        "SPARK_DAEMON_MEMORY": "256m",
        "JDK_JAVA_OPTIONS": QUICK,
    }
    started: list[subprocess.Popen[bytes]] = []

    def daemon(name: str, *words: str) -> Path:
        log = root / f"{name}.log"
        with log.open("wb") as file:
            command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *words]
            command = [*ALONE, str(root), *command] if alone and name != "master" else command
            process = subprocess.Popen(
                command, env=environment, cwd=root, stdout=file, stderr=file, stdin=subprocess.DEVNULL, process_group=0
            )
        started.append(process)
        return log

    try:
        at_once = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = daemon("master", "org.apache.spark.deploy.master.Master", *at_once)
        master = _said(log, rf"Starting Spark master at (spark://{re.escape('127.0.0.1')}:\d+)")
        size = ["--cores", str(cores), "--memory", "1g"]
        logs = [
            daemon(
                f"worker-{n}", "org.apache.spark.deploy.worker.Worker", *at_once, *size, "--work-dir", str(root), master
            )
            for n in range(workers)
        ]
        for log in logs:
            _said(log, r"Successfully registered with master (\S+)")
        yield Cluster(master, tuple(process.pid for process in started[1:]))
    finally:
        _end(started)
        shutil.rmtree(root, ignore_errors=True)


def driver_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a driver on this machine must know to use such a cluster."""
    known = os.environ if environment is None else environment
    return {**known, "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": QUICK}


def _said(log: Path, text: str) -> str:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = re.search(text, log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"Spark never said {text!r}: {log.read_text(errors='replace')[-2000:]}")


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    """End the daemons, and the executors and Python workers below them."""
    known = _processes()
    ending = {process.pid for process in started}
    while more := {pid for pid, (parent, _) in known.items() if parent in ending} - ending:
        ending |= more
    for pid in ending:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in started:
        process.wait()
