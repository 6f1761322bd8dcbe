"""Kills runs at random moments, changes their inputs and graphs, and compares what came out with the definition.

    python -m benchmarks.torture [--kills N] [--operations N] [--kafka N] [--seed N] [--files N] [--graphs NAME,...] [--cluster]
        [--backend local] [--tables N]

**Kills.** The command line runs in a process of its own, over files, a file a micro-batch. At a seeded moment after a seeded
number of batches one of these is ended by SIGKILL: the driver alone (its JVM lives on for a moment), the driver with its JVM and
workers, the JVM, or one Python worker. Then the same command is started again, until it is done. In every other start Spark tries
a task that failed again, as a cluster does: there single Python workers are killed (``retried``), one after the other, while the
run goes on. A round is right when the files of each sink hold the trace of the interpreter, each row once, and the late and
rejected rows are told of once. Rounds go on until there were enough kills.

With ``--cluster`` these runs go to a standalone master with two workers on this machine (``tests/spark/cluster.py``), and whole
executors are killed one after the other, where single Python workers are killed otherwise.

With ``--backend local`` operators in Python run in worker processes from the first row on. Killed are the driver, the driver with
all processes below it, one worker process, or the fork server from which they come; in every other start worker processes and
servers, one after the other (``retried``), while the run goes on.

**Operations.** A round is a life as of ``tests/spark/life.py``, with real processes: between starts files are added, replaced,
appended to, cut, touched, renamed, removed and put back, and the graph changes; while a run works another one is started, it is
stopped or killed. The model says what each start must do. A start that ends in an error that is asked for, with the name of the
file, is counted under its code. ``silent``: it ended well, and should not have, or its outputs are not the trace.

With ``--backend local`` the process is also killed inside of the steps of its work, such as a commit of SQLite or a file that is
written, after so many microseconds (``at``; see ``benchmarks/_killed.py``).

**Tables** (``--tables``). The same to Delta tables.

**Topics** (``--kafka``). The same from a topic to a topic, with a broker that is killed and restarted, another topic, a topic
that is deleted and made anew, a partition that is added.

Prints a JSON line for each round and one for all of a kind.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks._compare import say, versions
from benchmarks._life import FileLife, TableLife
from tests.spark import dags
from tests.spark.broker import running
from tests.spark.cluster import Cluster, cluster, driver_environment
from tests.spark.life import Wrong
from tests.spark.support import all_defined, row, rows_in, rows_of, side_outputs, write_lines
from tests.spark.test_exactly_once import children, command_of
from tracetypes import Dataflow, check

ROOT = Path(__file__).parents[1]

GRAPHS = {
    "chain": dags.chain,
    "straight": dags.straight,
    "two_sinks": dags.two_sinks,
    "cheap": dags.cheap,
    "diamond": dags.diamond,
    "ordered": dags.ordered,
}
VICTIMS = {"spark": ("driver", "all", "jvm", "worker"), "local": ("driver", "all", "server", "worker")}
PARENTS = {"spark": b"pyspark.daemon", "local": b"multiprocessing.forkserver"}
"""Of processes that run operators."""

MOST_EXECUTORS = 4
"""Executors that are killed in one start at most: a master gives up a run that lost ten of them without a success."""


def parents(pid: int) -> dict[int, int]:
    """The processes below one, each with the one that began it."""
    numbers: dict[int, int] = {}
    for child in children(pid):
        with suppress(OSError, ValueError):
            numbers[child] = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
    return numbers


class Round:
    """One graph over random rows, run to its end in spite of kills."""

    def __init__(
        self, root: Path, graph: str, seed: int, files: int, cluster: Cluster | None = None, backend: str = "spark"
    ) -> None:
        self.root, self.graph, self.chance, self.cluster = root, graph, random.Random(seed), cluster
        self.backend = backend
        self.flow: Dataflow = GRAPHS[graph]()
        self.rows: dict[str, list[str]] = {source.name: [] for source in self.flow.graph.sources}
        for source, lines in self.rows.items():
            for number in range(files):
                some = [self.line(number * 10 + n // 4) for n in range(40)]
                some += ["{"] if self.chance.random() < 0.3 else []
                write_lines(root / source / f"{number:03d}.jsonl", some, at=number + 1)
                lines += some
        self.kills: Counter[str] = Counter()

    def line(self, ts: int) -> str:
        """A row, late now and then."""
        chance = self.chance
        late = 60 if chance.random() < 0.03 else chance.randint(0, 8)
        return row(id=f"k{chance.randrange(9)}", ts=max(ts - late, 0), watts=chance.randrange(20))

    def start(self, *, retries: bool) -> subprocess.Popen[str]:
        """The command line. ``retries``: a task that failed is tried again."""
        command = [sys.executable, "-m", "tracetypes.cli", "run", f"tests.spark.dags:{self.graph}_flow"]
        command += ["--backend", self.backend, *(["--processes", "always"] if self.backend == "local" else [])]
        command += ["--files-per-step", "1", "--parallelism", "2", "--checkpoint", str(self.root / "checkpoint")]
        command += ["--late", str(self.root / "late"), "--rejects", str(self.root / "rejects")]
        for source in self.rows:
            command += ["-i", f"{source}={self.root / source}"]
        for sink in self.flow.graph.sinks:
            command += ["-o", f"{sink.name}={self.root / f'out-{sink.name}'}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_MASTER": "local[2,8]" if retries else "local[2]"}
        if self.cluster is not None:
            environment = driver_environment({**environment, "SPARK_MASTER": self.cluster.master})
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def attempt(self, *, kill: bool) -> bool:
        """Start it; kill something, or let it come to its end. Is it done?"""
        retries = kill and self.chance.random() < 0.5
        process = self.start(retries=retries)
        assert process.stderr is not None
        if retries:
            return self.harass(process)
        if kill:
            batches = self.chance.randint(0, 2)
            for line in process.stderr:
                batches -= "micro-batch " in line and "rows" in line
                if batches < 0 or "done:" in line:
                    break
            time.sleep(self.chance.random() * (0.8 if self.backend == "spark" else 0.05))
            self.kill(process)
            time.sleep(self.chance.random() * 0.5)
            with suppress(ProcessLookupError):  # what is left of it: two runs at a time are not asked for
                os.killpg(process.pid, signal.SIGKILL)
        return self.is_done(process, must=not kill)

    def harass(self, process: subprocess.Popen[str]) -> bool:
        """Kill one Python worker after the other, on a cluster one executor after the other, until it comes to its end. Is it
        done?"""
        assert process.stderr is not None
        lines: list[str] = []
        reading = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
        reading.start()
        victim, most, pause = ("executor", MOST_EXECUTORS, 10.0) if self.cluster else ("retried", 30, 1.0)
        pause = 0.2 if self.backend == "local" else pause
        began = self.kills[victim]
        while process.poll() is None and self.kills[victim] < (began if self.cluster else 0) + most:
            time.sleep(pause * (0.1 + self.chance.random() * 0.9))
            victims = self.cluster.executors() if self.cluster else self.workers(process.pid)
            if self.backend == "local" and self.chance.random() < 0.2:
                victims = self.servers(process.pid)
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(self.chance.choice(victims), signal.SIGKILL)
                    self.kills[victim] += 1
        code = process.wait(timeout=300)
        reading.join(10)
        return code == 0 or "is finished: " in "".join(lines)

    def workers(self, driver: int) -> list[int]:
        """The processes that run Python for a driver."""
        if self.cluster is not None:
            return self.cluster.python_workers()
        return [pid for pid, parent in parents(driver).items() if PARENTS[self.backend] in command_of(parent)]

    def servers(self, driver: int) -> list[int]:
        """The process from which those are forked."""
        return [pid for pid, one in parents(driver).items() if one == driver and PARENTS[self.backend] in command_of(pid)]

    def is_done(self, process: subprocess.Popen[str], *, must: bool) -> bool:
        """Has it come to its end? ``must``: nothing was done to it."""
        assert process.stderr is not None
        stderr = process.stderr.read()
        code = process.wait(timeout=300)
        done = code == 0 or "is finished: " in stderr
        if must and not done:
            raise RuntimeError(f"{self.graph} ended with status {code}: {stderr}")
        return done

    def kill(self, process: subprocess.Popen[str]) -> None:
        """End something."""
        victim = self.chance.choice(VICTIMS[self.backend])
        below = {pid: command_of(pid) for pid in children(process.pid)}
        victims = {
            "driver": [process.pid],
            "all": [process.pid, *below],
            "jvm": [pid for pid, command in below.items() if b"java" in command],
            "worker": self.workers(process.pid)[-1:],
            "server": self.servers(process.pid),
        }[victim]
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.kills[victim if victims else "nobody"] += bool(victims)

    def differences(self) -> list[str]:
        """What of the output is not as defined."""
        checked = check(self.flow)
        traces, arranged = all_defined(checked, self.rows)
        names: list[str] = []
        for sink in checked.graph.sinks:
            if rows_in(self.root / f"out-{sink.name}", "at") != rows_of(checked, sink, traces[sink.name]):
                names.append(f"sink {sink.name}")
        for name, one in arranged.items():
            late, rejects = Counter(x.reason for x in one.late), Counter(reason for _, reason in one.rejects)
            if Counter(x["reason"] for x in side_outputs(self.root / "late", name)) != late:
                names.append(f"late rows of {name}")
            if Counter(x["reason"] for x in side_outputs(self.root / "rejects", name)) != rejects:
                names.append(f"rejected rows of {name}")
        return names


def kill_rounds(number: int, arguments: argparse.Namespace, on: Cluster | None) -> int:
    """Rounds until there were enough kills; how many of them were wrong."""
    graphs = arguments.graphs.split(",")
    kills: Counter[str] = Counter()
    wrong = rounds = 0
    while sum(kills.values()) < number:
        graph, seed = graphs[rounds % len(graphs)], arguments.seed + rounds
        root = Path(tempfile.mkdtemp(prefix="tracetypes-torture-"))
        try:
            one = Round(root, graph, seed, arguments.files, on, arguments.backend)
            while not one.attempt(kill=sum(one.kills.values()) < arguments.files):
                pass
            differences = one.differences()
        finally:
            shutil.rmtree(root, ignore_errors=True)
        rounds += 1
        kills += one.kills
        wrong += bool(differences)
        say(benchmark="torture", graph=graph, seed=seed, kills=dict(one.kills), differences=differences)
    say(
        benchmark="torture",
        rounds=rounds,
        seeds=[arguments.seed, arguments.seed + rounds - 1],
        graphs=graphs,
        kills=sum(kills.values()),
        victims=dict(kills),
        traces_that_differ=wrong,
        versions=versions(),
    )
    return wrong


def lives(number: int, what: str, seed: int, make: Callable[[Path, random.Random], Lively]) -> int:
    """Lives until there were enough operations; how many of them were wrong."""
    happened: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    silent = differ = loud = rounds = 0
    while sum(happened.values()) < number:
        root = Path(tempfile.mkdtemp(prefix="tracetypes-torture-"))
        one = make(root, random.Random(seed + rounds))
        wrong: Wrong | None = None
        try:
            one.live()
        except Wrong as error:
            wrong = error
            silent, differ, loud = silent + error.silent, differ + error.differs, loud + (not error.silent)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        happened += one.happened
        ended += one.ended
        about = {"operations": dict(one.happened), "ended": dict(one.ended)}
        story = {} if wrong is None else {"wrong": str(wrong), "story": one.story}
        say(benchmark="torture", graph=one.name, seed=seed + rounds, **about, **story)
        rounds += 1
    say(
        benchmark="torture",
        lives=what,
        rounds=rounds,
        seeds=[seed, seed + rounds - 1],
        operations=sum(happened.values()),
        victims=dict(happened.most_common()),
        ended=dict(ended.most_common()),
        silent=silent,
        traces_that_differ=differ,
        wrong_errors=loud,
        versions=versions(),
    )
    return silent + loud


class Lively(Protocol):
    """A life: over files, or from topic to topic."""

    name: str
    happened: Counter[str]
    ended: Counter[str]
    story: list[str]

    def live(self) -> None: ...


def main() -> None:
    """Rounds until there was enough of each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--operations", type=int, default=300)
    parser.add_argument("--kafka", type=int, default=0, help="operations on topics and their broker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--cluster", action="store_true", help="kill on a standalone cluster of two workers on this machine")
    parser.add_argument("--backend", choices=("spark", "local"), default="spark")
    parser.add_argument("--tables", type=int, default=0, help="operations on files that become tables")
    arguments = parser.parse_args()
    with cluster() if arguments.cluster else nullcontext() as on:
        wrong = kill_rounds(arguments.kills, arguments, on) if arguments.kills else 0
    if arguments.operations:
        wrong += lives(arguments.operations, "files", arguments.seed, partial(FileLife, backend=arguments.backend))
    if arguments.tables:
        wrong += lives(arguments.tables, "tables", arguments.seed, partial(TableLife, backend=arguments.backend))
    if arguments.kafka:
        from benchmarks._topics import TopicLife

        with running() as broker:
            topics = partial(TopicLife, broker=broker, backend=arguments.backend)
            wrong += lives(arguments.kafka, "topics", arguments.seed, lambda root, chance: topics(root, chance=chance))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
