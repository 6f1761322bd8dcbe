"""Lives of runs as real processes, for :mod:`benchmarks.torture`: kills, Ctrl-C, second starts. The model is that of tests."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks._killed import STEPS
from tests.spark.life import DRAWN, FLOWS, GRAPHS, OPERATIONS, REFUSED, Ended, Life, Start, Wrong
from tests.spark.test_exactly_once import children, command_of
from tests.spark.test_processes import in_session, wait_for
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.spark.log import SparkLog

__all__ = ["PROGRAMS", "VICTIMS", "FileLife", "Processes", "TableLife", "command", "launch"]

ROOT = Path(__file__).parents[1]
PATIENCE = 300
VICTIMS: Final = {
    "spark": ("driver", "all", "jvm", "worker"),
    "local": ("driver", "driver", *(f"at {step}" for step in STEPS if step not in ("table", "topic"))),
}
"""Who is ended by SIGKILL, by backend. ``at``: the process, in a step of its work."""

PROGRAMS: Final = {"spark": ["--master", "local[2]"], "local": ["--backend", "local"]}
LOGS: Final[Mapping[str, Callable[[Path], SparkLog | LocalLog]]] = {"spark": SparkLog, "local": LocalLog}
STARTING: Final = {"spark": 6.0, "local": 2.0}
"""Seconds that a start takes, about."""

STARTS = 4
"""How often a run is started before it is led to its end."""


def command(life: Life, backend: str, start: Start, checkpoint: str = "checkpoint") -> list[str]:
    """The arguments of a start."""
    root, name = life.root, life.name
    words = ["run", f"tests.spark.life:{name}_{start.version}", *PROGRAMS[backend]]
    words += ["--files-per-step", "1", "--parallelism", "2", "--progress", "lines"]
    words += ["--checkpoint", str(root / checkpoint), "--late", str(root / "late"), "--rejects", str(root / "rejects")]
    words += ["-i", f"readings={start.address or root / 'in'}"]
    for sink in FLOWS[name, start.version].graph.sinks:
        words += ["-o", f"{sink.name}={life.place(sink.name)}"]
    words += [] if start.drain else ["--no-drain"]
    return [*words, "--appended", "read"] if start.appended else words


def launch(words: Sequence[str], kill: Sequence[str] = ()) -> subprocess.Popen[str]:
    """The command line in a session of its own, as a shell would make it. ``kill``: the arguments of :mod:`._killed`."""
    program = ["benchmarks._killed", *kill] if kill else ["tracetypes.cli"]
    return subprocess.Popen(
        [sys.executable, "-m", *program, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


class Processes:
    """Starts runs as processes. ``until``: ``stop`` is Ctrl-C, all else who is ended by SIGKILL; ``after``: micro-batches
    before that, -1 for a moment while it starts."""

    def __init__(self, chance: random.Random, backend: str) -> None:
        self.chance, self.backend = chance, backend

    def __call__(self, life: Life, start: Start) -> Ended:
        inside = start.until.startswith("at ")
        moment = str(int(self.chance.choice((0, 300, 3_000, 30_000)) * self.chance.random()))
        kill = [start.until.removeprefix("at "), str(max(start.after, 0) // 2), moment] if inside else []
        process = launch(command(life, self.backend, start), kill)
        assert process.stderr is not None
        stderr, second, hit, later = "", None, False, False
        try:
            if start.after < 0 and start.until and not inside:
                time.sleep(STARTING[self.backend] * self.chance.choice((1.0, 0.1)) * self.chance.random())
                hit = self.hit(process, start.until)
            else:
                countdown = start.after
                for line in process.stderr:
                    stderr += line
                    if " batch " not in f" {line}":
                        continue
                    later = second is not None
                    if start.second and second is None:
                        second = self.second(life, start, process)
                    countdown -= 1
                    if countdown < 0 and start.until and not hit and not inside:
                        time.sleep(self.chance.random() * 0.5)
                        hit = self.hit(process, start.until)
            processes = in_session(process.pid)
            stderr += process.communicate(timeout=PATIENCE)[1]
            hit = hit or (inside and process.returncode == -signal.SIGKILL)
            wait_for([*processes, *in_session(process.pid)])  # until nobody writes any more
        finally:
            for pid in in_session(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if "Traceback" in stderr:
            raise Wrong(f"a traceback: {stderr}", silent=False)
        if start.until and not hit:
            life.happened.update({f"start {start.until}": -1, "start": 1})
        if second is not None and "TT221" not in second and not later:
            second = None  # the first one may have come to its end
        code = process.returncode
        error = re.search(r"^tracetypes: (TT\d+)(.*)", stderr, re.M | re.S)
        if hit and code and (code in (130, -signal.SIGINT, -signal.SIGKILL) or (error and error[1] in ("TT213", "TT214"))):
            return Ended(interrupted=True, second=second)
        if code and not error:
            raise Wrong(f"it ended with status {code}: {stderr}", silent=False)
        return Ended(error[1], error[1] + error[2], second=second) if code and error else Ended(second=second)

    def hit(self, process: subprocess.Popen[str], who: str) -> bool:
        """Stop or kill something. Was it there?"""
        if process.poll() is not None:
            return False
        if who == "stop":
            os.killpg(process.pid, signal.SIGINT)
            return True
        below = {pid: command_of(pid) for pid in children(process.pid)}
        victims = {
            "driver": [process.pid],
            "all": [process.pid, *below],
            "jvm": [pid for pid, words in below.items() if b"java" in words],
            "worker": [pid for pid, words in below.items() if b"pyspark.daemon" in words][-1:],
        }[who]
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(victims)

    def second(self, life: Life, start: Start, first: subprocess.Popen[str]) -> str:
        """Another run, while the first one works, or rather stands still: what it says."""
        os.kill(first.pid, signal.SIGSTOP)
        try:
            before = set(rows(life.root))
            own = "checkpoint" if start.second == "checkpoint" else "other"
            other = launch(command(life, self.backend, start, own))
            stderr = other.communicate(timeout=PATIENCE)[1]
            if not other.returncode and own == "other":  # the first one was over
                for file in set(rows(life.root)) - before:
                    file.unlink()
            return stderr if other.returncode else f"it ran: {stderr}"
        finally:
            os.kill(first.pid, signal.SIGCONT)


def rows(root: Path) -> Iterator[Path]:
    """All files of outputs."""
    for place in (*root.glob("out-*"), root / "late", root / "rejects"):
        yield from place.rglob("part-*")


class FileLife(Life):
    """A life with operations and starts at random, over any of the graphs."""

    def __init__(self, root: Path, chance: random.Random, backend: str) -> None:
        super().__init__(root, chance.choice(list(GRAPHS)), Processes(chance, backend), LOGS[backend])
        alone = () if self.name in ("two_sinks", "windows") else ("at channel", "at clean")
        self.chance, self.victims = chance, [one for one in VICTIMS[backend] if one not in alone]

    def table(self) -> str:
        """A table with rows that have nothing to do with the files."""
        path = self.root / "table"
        if not path.exists():
            write_deltalake(path, pa.Table.from_pylist([{"id": "a", "ts": 1, "watts": 1}]))
        return f"delta:{path}"

    def live(self) -> None:
        """A few starts, and then to the end."""
        chance = self.chance
        for _ in range(chance.randint(1, 3)):
            self.add(half=chance.random() < 0.2)
        for _ in range(STARTS):
            for _ in range(chance.randint(1, 4)):
                OPERATIONS[chance.choice(DRAWN)](self, chance.randrange(6))
            if self.finished:
                break
            if self.is_begun and chance.random() < 0.15:
                other = Start(version=self.version or 0, address=self.table())
                self.start(Start(version=REFUSED) if chance.random() < 0.5 else other)
            self.start(
                Start(
                    version=chance.choice([self.version or 0] * 4 + [0, 1, 2]),
                    drain=chance.random() < 0.2,
                    appended=chance.random() < 0.5,
                    until=chance.choice(["", "stop", *self.victims]),
                    after=chance.randint(-1, 2),
                    second=chance.choice(["", "checkpoint", "output"]),
                )
            )
        self.end()


class TableLife(FileLife):
    """The same with Delta tables as outputs."""

    def __init__(self, root: Path, chance: random.Random, backend: str) -> None:
        super().__init__(root, chance, backend)
        self.victims += ["at table"] * 3 if backend == "local" else []

    def place(self, sink: str) -> str:
        """A table."""
        return f"delta:{super().place(sink)}"

    def rows_at(self, output: Path) -> Counter[str]:
        """The rows of the table."""
        if not DeltaTable.is_deltatable(str(output)):
            return Counter()
        return Counter(
            json.dumps({**row, "at": row["at"].astimezone(dt.UTC).isoformat()}, sort_keys=True)
            for row in DeltaTable(output).to_pyarrow_table().to_pylist()
        )

    def may_be_visible(self, batch: int) -> bool:
        """Has a table taken it?"""
        logs = [path.read_text() for path in self.root.glob("out-*/_delta_log/*.json")]
        transactions = (json.loads(line).get("txn") for text in logs for line in text.splitlines())
        epochs = (one for one in transactions if one is not None and not one["appId"].endswith("-start"))
        return any(one["version"] == batch for one in epochs) or super().may_be_visible(batch)
