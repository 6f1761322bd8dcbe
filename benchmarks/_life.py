"""Lives of runs as real processes, for :mod:`benchmarks.torture`: kills, Ctrl-C, second starts. The model is that of tests."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from tests.spark.life import DRAWN, FLOWS, GRAPHS, OPERATIONS, REFUSED, Ended, Life, Start, Wrong
from tests.spark.test_exactly_once import children, command_of
from tests.spark.test_processes import in_session, wait_for

__all__ = ["VICTIMS", "FileLife", "Processes", "begun", "command"]

ROOT = Path(__file__).parents[1]
PATIENCE = 300
VICTIMS = ("driver", "all", "jvm", "worker")
STARTS = 4
"""How often a run is started before it is led to its end."""


def command(root: Path, name: str, start: Start, checkpoint: str = "checkpoint") -> list[str]:
    """The command line of a start."""
    words = [sys.executable, "-m", "tracetypes.cli", "run", f"tests.spark.life:{name}_{start.version}"]
    words += ["--files-per-step", "1", "--parallelism", "2", "--master", "local[2]", "--progress", "lines"]
    words += ["--checkpoint", str(root / checkpoint), "--late", str(root / "late"), "--rejects", str(root / "rejects")]
    words += ["-i", f"readings={start.address or root / 'in'}"]
    for sink in FLOWS[name, start.version].graph.sinks:
        words += ["-o", f"{sink.name}={root / f'out-{sink.name}'}"]
    words += [] if start.drain else ["--no-drain"]
    return [*words, "--appended", "read"] if start.appended else words


def begun(words: Sequence[str]) -> subprocess.Popen[str]:
    """A process in a session of its own, as a shell would make it."""
    return subprocess.Popen(
        words,
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

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def __call__(self, life: Life, start: Start) -> Ended:
        running = begun(command(life.root, life.name, start))
        assert running.stderr is not None
        heard, second, hit, later = "", None, False, False
        try:
            if start.after < 0 and start.until:
                time.sleep(self.chance.uniform(0.2, 6.0))
                hit = self.hit(running, start.until)
            else:
                left = start.after
                for line in running.stderr:
                    heard += line
                    if " batch " not in f" {line}":
                        continue
                    later = second is not None
                    if start.second and second is None:
                        second = self.second(life, start, running)
                    left -= 1
                    if left < 0 and start.until and not hit:
                        time.sleep(self.chance.random() * 0.5)
                        hit = self.hit(running, start.until)
            processes = in_session(running.pid)
            heard += running.communicate(timeout=PATIENCE)[1]
            wait_for([*processes, *in_session(running.pid)])  # until nobody writes any more
        finally:
            for pid in in_session(running.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if "Traceback" in heard:
            raise Wrong(f"a traceback: {heard}", silent=False)
        if start.until and not hit:
            life.happened.update({f"start {start.until}": -1, "start": 1})
        if second is not None and "TT221" not in second and not later:
            second = None  # the first one may have come to its end
        code = running.returncode
        found = re.search(r"^tracetypes: (TT\d+)(.*)", heard, re.M | re.S)
        if hit and code and (code in (130, -signal.SIGINT, -signal.SIGKILL) or (found and found[1] in ("TT213", "TT214"))):
            return Ended(interrupted=True, second=second)
        if code and not found:
            raise Wrong(f"it ended with status {code}: {heard}", silent=False)
        return Ended(found[1], found[1] + found[2], second=second) if code and found else Ended(second=second)

    def hit(self, running: subprocess.Popen[str], who: str) -> bool:
        """Stop or kill something. Was it there?"""
        if running.poll() is not None:
            return False
        if who == "stop":
            os.killpg(running.pid, signal.SIGINT)
            return True
        below = {pid: command_of(pid) for pid in children(running.pid)}
        chosen = {
            "driver": [running.pid],
            "all": [running.pid, *below],
            "jvm": [pid for pid, words in below.items() if b"java" in words],
            "worker": [pid for pid, words in below.items() if b"pyspark.daemon" in words][-1:],
        }[who]
        for pid in chosen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(chosen)

    def second(self, life: Life, start: Start, first: subprocess.Popen[str]) -> str:
        """Another run, while the first one works, or rather stands still: what it says."""
        os.kill(first.pid, signal.SIGSTOP)
        try:
            before = set(rows(life.root))
            own = "checkpoint" if start.second == "checkpoint" else "other"
            other = begun(command(life.root, life.name, start, own))
            said = other.communicate(timeout=PATIENCE)[1]
            if not other.returncode and own == "other":  # the first one was over
                for file in set(rows(life.root)) - before:
                    file.unlink()
            return said if other.returncode else f"it ran: {said}"
        finally:
            os.kill(first.pid, signal.SIGCONT)


def rows(root: Path) -> Iterator[Path]:
    """All files of outputs."""
    for place in (*root.glob("out-*"), root / "late", root / "rejects"):
        yield from place.rglob("part-*")


class FileLife(Life):
    """A life with operations and starts at random, over any of the graphs."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        super().__init__(root, chance.choice(list(GRAPHS)), Processes(chance))
        self.chance = chance

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
                    until=chance.choice(["", "stop", *VICTIMS]),
                    after=chance.randint(-1, 2),
                    second=chance.choice(["", "checkpoint", "output"]),
                )
            )
        self.end()
