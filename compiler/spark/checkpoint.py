"""The directory that makes a run one run across restarts: our commits beside Spark's own checkpoint."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.spark.lowering import Input
from tracetypes.compiler.store.compatibility import CompatibleCheckpoint, last_batch
from tracetypes.compiler.store.identity import keep
from tracetypes.compiler.store.inputs import InputFiles, records_of
from tracetypes.compiler.store.metrics import instant
from tracetypes.compiler.store.outputs import Output
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.compiler.store.starts import next_start

__all__ = ["KEPT", "Checkpoint"]


_STATE = re.compile(r"\.?(\d+)(?:_[^.]*)?\.(?:changelog|zip|delta|snapshot)(?:\.crc)?")
"""Names of Spark's files of state: they begin with the number of the micro-batch that follows."""

KEPT = 100
"""How many commit records a checkpoint keeps, as many micro-batches as Spark keeps in its logs; sometimes twice as many."""


class Checkpoint:
    """The directory that makes a run one run across restarts: Spark's checkpoint, the graph, commits, the drain.
    ``changed``: in what the graph is another than that which was here before."""

    def __init__(self, of: CompatibleCheckpoint) -> None:
        self.path, self.changed, self.run = of.path, of.changed, of.run
        of.write()
        self.control.mkdir(exist_ok=True)
        self.files: dict[str, InputFiles] = {}
        """The files of readings that the driver lists, by label."""

    @property
    def spark(self) -> str:
        """Spark's own checkpoint."""
        return str(self.path / "spark")

    @property
    def control(self) -> Path:
        """A file in here drains the sources."""
        return self.path / "control"

    @property
    def differences(self) -> list[Difference]:
        """Where traced answers differed from plain Python in this run, also before it was started again."""
        path = self.path / "differences.json"
        return [Difference(*one["difference"]) for one in json.loads(path.read_text())] if path.exists() else []

    def differs(self, difference: Difference) -> str:
        """Keep a difference; what of the run was committed before it."""
        known = [{"difference": one.parts} for one in self.differences]
        write_json(self.path / "differences.json", [*known, {"difference": difference.parts}])
        number, _ = self.next
        marker = self.before(number).get("marker")
        upto = "" if marker is None else f", answers up to {instant(marker)}"
        return f"micro-batches 0 to {number - 1}{upto}" if number else "nothing"

    @property
    def drained(self) -> bool:
        """Have the sources ended?"""
        return any(file.stat().st_size for file in self.control.iterdir() if not file.name.startswith("."))

    @property
    def finished(self) -> bool:
        """Has the drain been answered?"""
        return (self.path / "finished").exists()

    def finish(self) -> None:
        """The drain has been answered."""
        write_json(self.path / "finished", {})

    def drain(self) -> None:
        """End the sources."""
        temporary = self.control / f".drain-{uuid.uuid4().hex}"
        temporary.write_text("drain\n")
        os.replace(temporary, self.control / f"drain-{len(os.listdir(self.control))}")

    def took_drain(self, batch: int) -> bool:
        """Is the drain part of a batch, or of one before it?"""
        for at, offset in enumerate(self.offsets(batch)):
            for log in (self.path / "spark" / "sources" / str(at)).glob("[0-9]*") if offset else ():
                for entry in map(json.loads, log.read_text().splitlines()[1:]):
                    path = Path(unquote(urlparse(entry["path"]).path))
                    if path.parent == self.control.absolute() and entry["batchId"] <= offset["logOffset"]:
                        return True
        return False

    def undrain(self) -> None:
        """Take back a drain that nobody has answered: the sources may go on."""
        for file in self.control.iterdir():
            file.write_text("")  # Spark's log may name it

    def committed(self, batch: int) -> dict[str, Any] | None:
        """The commit record of a batch."""
        found: dict[str, Any] | None = read_json(self.path / "commits" / f"{batch:08d}.json")
        return found

    def commit(self, batch: int, record: dict[str, Any]) -> None:
        """Record that a batch is out. Of the records before it only the last ones are kept."""
        records = self.path / "commits"
        write_json(records / f"{batch:08d}.json", record)
        names = sorted(os.listdir(records))
        written = [name for name in names if not name.startswith(".")]
        old = written[:-KEPT] if len(written) > 2 * KEPT else []
        if self.files:
            gone = [read_json(records / name)["files"] for name in old]
            for label, files in self.files.items():
                files.keep(about[label] for about in gone if label in about)
        for name in {*names} - {*written} | {*old}:  # some may have been left by a writer that was killed
            (records / name).unlink()

    def about(self, label: str) -> list[tuple[int, dict[str, Any]]]:
        """What the commit records say of the files of a reading, by micro-batch."""
        return records_of(self.path, label)

    def before(self, batch: int) -> dict[str, Any]:
        """The last commit record before a batch; empty when there is none. A rescale is a batch of Spark's without a record."""
        found = (self.committed(number) for number in range(batch - 1, -1, -1))
        return next((record for record in found if record is not None), {})

    def last(self, log: str) -> int:
        """The number of the last batch in one of Spark's logs: ``offsets`` (begun) or ``commits`` (ended); -1 for none."""
        return last_batch(self.path, log)

    @property
    def taken(self) -> list[Any]:
        """Up to where Spark has taken each source for good: its own offsets, None for a source that has sent nothing."""
        return self.offsets(self.last("commits"))

    def offsets(self, batch: int) -> list[Any]:
        """Up to where Spark has taken each source with a batch."""
        offsets = self.path / "spark" / "offsets" / str(batch)
        lines = offsets.read_text().splitlines()[2:] if offsets.exists() else []
        return [json.loads(line) if line.startswith("{") else None for line in lines]

    def clean(self) -> None:
        """Remove what a start has left that was killed before Spark had begun a batch: Spark would refuse half a file of its
        log there, and nothing else in its checkpoint means anything yet."""
        if self.last("offsets") < 0:
            shutil.rmtree(self.spark, ignore_errors=True)

    def forget(self) -> None:
        """Remove the state that attempts at the next micro-batch have left. They may have read something else, and Spark leaves a
        file of state that is there as it is."""
        number, _ = self.next
        for file in Path(self.spark, "state").rglob("*"):
            version = _STATE.fullmatch(file.name)
            if version is not None and int(version[1]) > number:
                file.unlink()

    def keep(self, inputs: Mapping[str, Input]) -> None:
        """Keep which inputs the run began with, or see that they are the same. Raises :class:`RunError` ``TT218``."""
        given = {name: given.identity for name, given in inputs.items()}
        keep(self.path / "inputs.json", "source", given, begun=self.last("offsets") >= 0)

    def begin(self, output: Output, sink: str) -> None:
        """Go on with an output, which must be what the run began with. Raises :class:`RunError` ``TT209``, ``TT218``."""
        begun = self.last("offsets")

        def compare() -> None:
            identity = output.identity
            if identity is not None:
                keep(self.path / "outputs.json", "sink", {sink: identity}, begun=begun >= 0)

        if begun >= 0:
            compare()
        output.begin(next_start(self.path, begun))
        if begun < 0:  # now there is a table, if there was none
            compare()

    @property
    def next(self) -> tuple[int, dict[str, Any]]:
        """The number of the batch that Spark will run next, and the newest event times before it."""
        number = self.last("commits") + 1
        return number, self.before(number).get("newest", {})

    @property
    def tasks(self) -> int | None:
        """In how many parts Spark keeps the state; None where there is no state yet."""
        begun = self.path / "spark" / "offsets" / str(self.last("offsets"))
        if not (self.path / "spark" / "state").is_dir() or not begun.exists():
            return None
        for line in begun.read_text().splitlines():
            if line.startswith("{") and "conf" in (about := json.loads(line)):
                return int(about["conf"]["spark.sql.shuffle.partitions"])
        return None
