"""Lives of runs from a topic to a topic, for :mod:`benchmarks.torture`: what may happen to a topic and its broker.

The input is a topic of two partitions, the output another one. Records are added, a broker is killed and restarted between runs
and during them; a start is given another topic, which is refused. At the end of a life its topic may get a partition or be
deleted and made anew: then nothing goes on, and what was answered stays.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from benchmarks._life import PATIENCE, PROGRAMS, launch
from tests.spark.broker import Broker, Record, answers
from tests.spark.life import Wrong
from tests.spark.support import rows_at_sink, side_outputs
from tests.spark.test_exactly_once import children, command_of
from tests.spark.test_kafka import defined, record, topic_sums
from tests.spark.test_processes import in_session, wait_for

__all__ = ["TopicLife"]

PARTITIONS = 2

VICTIMS: Final = {"spark": ["jvm"], "local": [f"at {step}" for step in ("begin", "work", "topic", "commit", "end")]}
"""Who is killed beside the broker and the process of the command, by backend."""


class TopicLife:
    """A run from topic to topic, as often as it is started. ``happened``, ``ended``: as of a life over files."""

    name = "topics"

    def __init__(self, root: Path, broker: Broker, chance: random.Random, backend: str) -> None:
        self.root, self.broker, self.chance, self.backend = root, broker, chance, backend
        self.topic = f"life-{chance.getrandbits(40):x}"
        self.input, self.out = broker.create(self.topic, PARTITIONS), broker.create(f"{self.topic}-out", 1)
        self.records: list[Record] = []
        self.ts = 0
        self.happened: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.story: list[str] = []

    def did(self, what: str) -> None:
        """Count an operation."""
        self.happened[what] += 1
        self.story.append(what)

    def add(self) -> None:
        """Records more, some late, one that is none, one whose transaction is aborted."""
        self.did("records")
        chance, more = self.chance, list[Record]()
        for _ in range(chance.randint(5, 40)):
            self.ts += chance.randrange(3)
            late = chance.choice((0, 0, 0, 5, 60))
            more.append(
                record(chance.choice("abc"), self.ts - late, chance.randrange(99), chance.randrange(PARTITIONS))
            )
        more.append(Record(b"{", b"a", 0))
        self.broker.send(self.topic, more, transaction=chance.choice((True, None)))
        self.broker.send(self.topic, [record("a", self.ts + 999, 1, 1)], transaction=False)
        self.records += more

    def restart(self) -> None:
        """Kill the broker and start it at once."""
        self.did("broker restarted")
        self.broker.node.restart()

    def start(self, *, drain: bool = False, until: str = "", input: str | None = None, code: str | None = None) -> bool:
        """Start the run. ``until``: who is killed while it works, ``broker`` among them; ``input``: another input; ``code``: the
        error that is asked for. Was it left alone, and answered?"""
        self.did(f"start {until}".strip())
        words = ["run", "tests.spark.test_kafka:topic_sums", "--progress", "lines", *PROGRAMS[self.backend]]
        words += ["-i", f"readings={input or self.input}?records=40", "-o", f"sums={self.out}", "--key-groups", "2"]
        words += ["--checkpoint", str(self.root / "checkpoint"), "--parallelism", "2"]
        inside = until.startswith("at ")
        times, moment = self.chance.randrange(3), int(self.chance.choice((0, 300, 3_000, 30_000)) * self.chance.random())
        kill = [until.removeprefix("at "), str(times), str(moment)] if inside else []
        process = launch(words if drain else [*words, "--no-drain"], kill)
        stderr, hit = "", False
        assert process.stderr is not None
        try:
            for line in process.stderr:
                stderr += line
                if until and not inside and not hit and " batch " in f" {line}":
                    time.sleep(self.chance.random() * 0.3)
                    hit = self.hit(process, until)
            processes = in_session(process.pid)
            process.communicate(timeout=PATIENCE)
            hit = hit or (inside and process.returncode == -signal.SIGKILL)
            wait_for([*processes, *in_session(process.pid)])
        finally:
            for pid in in_session(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
        if "Traceback" in stderr:
            raise Wrong(f"a traceback: {stderr}", silent=False)
        error = re.search(r"^tracetypes: (TT\d+)", stderr, re.M)
        self.story.append(f"  status {process.returncode} {error[1] if error else ''}")
        if code is not None:
            if error is None or error[1] != code:
                raise Wrong(f"{code} is asked for: {stderr}", silent=process.returncode == 0)
            self.ended[code] += 1
            return False
        if process.returncode == 0:
            self.ended["answered"] += 1
            self.is_right(drain=drain)
            return drain
        if hit and (error is None or error[1] in ("TT208", "TT209", "TT214")):
            self.ended["interrupted"] += 1
            return False
        raise Wrong(f"status {process.returncode}: {stderr}", silent=False)

    def hit(self, process: subprocess.Popen[str], who: str) -> bool:
        """Kill something."""
        if who == "broker":
            self.broker.node.restart()
            return True
        below = {pid: command_of(pid) for pid in children(process.pid)}
        victims = [process.pid] if who == "driver" else [pid for pid, words in below.items() if b"java" in words]
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        return bool(victims)

    def is_right(self, *, drain: bool) -> None:
        """Is what was answered the trace of the records?"""
        trace, arranged = defined(topic_sums, self.records, PARTITIONS, drain=drain)
        rows = Counter(
            json.dumps(
                {
                    **json.loads(one.value or b""),
                    "key": (one.key or b"").decode(),
                    "at": dict(one.headers)["at"].decode(),
                },
                sort_keys=True,
            )
            for one in self.broker.read(f"{self.topic}-out")
        )
        expected = rows_at_sink(topic_sums, trace)
        if rows != expected:
            raise Wrong(f"{rows - expected} more and {expected - rows} less", silent=True, differs=True)
        for what, count in (("_late", len(arranged["readings"].late)), ("_rejects", len(arranged["readings"].rejects))):
            number = len(side_outputs(self.root / "checkpoint" / what, "readings"))
            if number != count:
                raise Wrong(f"{number} and not {count} rows in {what}", silent=True, differs=True)

    def live(self) -> None:
        """A few starts, then the end: drained, or with a topic that is none any more."""
        self.add()
        for _ in range(3):
            self.start(until=self.chance.choice(["", "broker", "driver", *VICTIMS[self.backend]]))
            assert answers(self.broker.address, seconds=PATIENCE)
            if self.chance.random() < 0.5:
                self.add()
            if self.chance.random() < 0.3:
                self.restart()
                assert answers(self.broker.address, seconds=PATIENCE)
        end = self.chance.choice(["drain", "partition added", "topic remade", "another topic"])
        if end == "another topic":
            self.start()
            self.did(end)
            self.start(input=self.out, code="TT218")
        elif end == "partition added":
            self.start()
            self.did(end)
            self.broker.grow(self.topic, PARTITIONS + 1)
            self.start(code="TT218")
            return self.is_right(drain=False)
        elif end == "topic remade":
            self.start()
            self.did(end)
            self.broker.remake(self.topic, PARTITIONS)
            self.broker.send(self.topic, self.records)
            self.start(code="TT218")
            return self.is_right(drain=False)
        assert self.start(drain=True)
        return None
