"""The directory that makes a run one run across restarts: the commits of a query, and its drain.

::

    CHECKPOINT/commits/00000031.json    the result of an epoch
    CHECKPOINT/control/                 a file in here ends the sources
    CHECKPOINT/finished                 the drain was answered
    CHECKPOINT/differences.json         where traced answers differed from plain Python

A backend has its own records beside these. The store asks it only which epochs were begun and ended
(:class:`EpochLog`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.store.compatibility import CompatibleCheckpoint
from tracetypes.compiler.store.endpoint_identities import keep_identities
from tracetypes.compiler.store.input_files import InputFiles, records_of
from tracetypes.compiler.store.metrics import instant
from tracetypes.compiler.store.output_interface import Output
from tracetypes.compiler.store.places import Place, create, replace
from tracetypes.compiler.store.small_files import apart, read_json, read_own, write_json
from tracetypes.compiler.store.starts import next_start
from tracetypes.compiler.wire.seals import seal, unseal
from tracetypes.fencing import another_driver

__all__ = ["KEPT", "TAKEN", "RunStore"]

TAKEN: Final = "taken"
"""What a record has that a later start has put, so that this one cannot commit."""

KEPT = 100
"""How many commit records a checkpoint keeps, as many epochs as Spark keeps in its logs; sometimes a few more."""

AT_ONCE = 10
"""How many old ones are removed at once: 100 files would hold up an epoch for 15 ms."""


class RunStore:
    """The checkpoint of one query: its graph, commits, the drain. ``changed``: the changes of the graph since the last
    start."""

    output: Output
    """Where it goes on, when it has begun."""

    def __init__(self, of: CompatibleCheckpoint) -> None:
        self.path, self.changed, self.run, self.log = of.path, of.changed, of.run, of.log
        of.write()
        self.control.mkdir(exist_ok=True)
        self.files: dict[str, InputFiles] = {}
        """The files of readings that the driver lists, by label."""
        self._last: tuple[int, dict[str, Any]] | None = None
        """The last epoch that was committed here, and its record as a file gives it back."""
        self._until_clean = 0
        """How many commits from now the old records are removed."""

    @property
    def control(self) -> Place:
        """The directory in which a file drains the sources."""
        return self.path / "control"

    @property
    def differences(self) -> list[Difference]:
        """The differences between traced answers and plain Python in this run, also before it was started again."""
        path = self.path / "differences.json"
        about = read_json(path)
        return [] if about is None else [Difference(*parts) for parts in about["differences"]]

    def differs(self, difference: Difference) -> str:
        """Record a difference, with what of the run was committed before it."""
        differences = [one.parts for one in self.differences]
        write_json(self.path / "differences.json", {"differences": [*differences, difference.parts]})
        number, _ = self.next
        marker = self.before(number).get("marker")
        upto = "" if marker is None else f", answers up to {instant(marker)}"
        return f"micro-batches 0 to {number - 1}{upto}" if number else "nothing"

    @property
    def drained(self) -> bool:
        """Whether the sources have ended."""
        return any(file.read_bytes() for file in self.control.iterdir() if not file.name.startswith("."))

    @property
    def finished(self) -> bool:
        """Whether the drain has been answered."""
        return read_own(self.path / "finished", self.run) is not None

    def finish(self) -> None:
        """Record that the drain has been answered."""
        write_json(self.path / "finished", {"run": self.run})

    def drain(self) -> None:
        """End the sources."""
        replace(self.control / f"drain-{len(list(self.control.iterdir()))}", b"drain\n")

    def undrain(self) -> None:
        """Take back a drain without an answer: the sources may go on."""
        for file in self.control.iterdir():
            replace(file, b"")  # the backend's log may name it

    def committed(self, epoch: int) -> dict[str, Any] | None:
        """The commit record of an epoch."""
        record = read_own(self.path / "commits" / f"{epoch:08d}.json", self.run)
        if record is not None and TAKEN in record:
            raise another_driver(str(self.path), "a later start has taken over")
        return record

    def commit(self, epoch: int, record: dict[str, Any]) -> None:
        """Record that an epoch is out. Only the last records are kept."""
        records, file = self.path / "commits", f"{epoch:08d}.json"
        text = seal(record | {"run": self.run}, file)
        records.mkdir(exist_ok=True)
        if not create(records / file, text.encode()):
            raise another_driver(str(self.path), "a later start has taken over")
        self._last = epoch, unseal(text.encode(), file)
        del self._last[1]["run"]
        if not self._until_clean:
            self._clean(records)
            self._until_clean = AT_ONCE
        self._until_clean -= 1

    def _clean(self, records: Place) -> None:
        """Remove old commit records, and what a writer that was killed has left."""
        names = sorted(one.name for one in records.iterdir())
        epochs = [name for name in names if not name.startswith(".")]
        old = epochs[:-KEPT]
        if self.files:
            records_of_old = [(read_json(records / name) or {"files": {}})["files"] for name in old]
            for label, files in self.files.items():
                files.keep(about[label] for about in records_of_old if label in about)
        for name in {*names} - {*epochs} | {*old}:
            (records / name).unlink()

    def about(self, label: str) -> list[tuple[int, dict[str, Any]]]:
        """What the commit records say of the files of a reading, by epoch."""
        return records_of(self.path, label)

    def before(self, epoch: int) -> dict[str, Any]:
        """The last commit record before an epoch; empty if there is none. A rescale is an epoch without a record."""
        if self._last is not None and self._last[0] == epoch - 1:
            return self._last[1]
        records = (self.committed(number) for number in range(epoch - 1, -1, -1))
        return next((record for record in records if record is not None), {})

    @property
    def next(self) -> tuple[int, dict[str, Any]]:
        """The number of the next epoch, and the newest event times before it."""
        number = self.log.ended + 1
        return number, self.before(number).get("newest", {})

    def visible(self) -> str | None:
        """Where rows of an unfinished epoch may have been seen."""
        number, _ = self.next
        return self.output.visible(number) if self.log.begun >= number else None

    def keep_identities(self, inputs: Mapping[str, EndpointIdentity]) -> None:
        """Record which inputs the run began with, or check that they are the same. Raises :class:`RunError` ``TT218``."""
        keep_identities(self.path / "inputs.json", "source", inputs, begun=self.log.begun >= 0)

    def begin(self, output: Output, sink: str) -> None:
        """Go on with an output, which must be the one that the run began with. Raises :class:`RunError` ``TT209``,
        ``TT218``."""
        last = self.log.begun

        def compare() -> None:
            identity = output.identity
            if identity is not None:
                keep_identities(self.path / "outputs.json", "sink", {sink: identity}, begun=last >= 0)

        if last >= 0:
            compare()
        self._belongs_to_log()
        output.begin(next_start(self.path, last))
        self._belongs_to_output(output)
        self.output = output
        if last < 0:  # now there is a table, if there was none
            compare()

    def rescales(self) -> None:
        """The backend ends an epoch that only puts states into other parts: it has no commit record."""
        write_json(self.path / "rescales.json", {"run": self.run, "epochs": [*self._rescales, self.log.ended + 1]})

    @property
    def _rescales(self) -> list[int]:
        about = read_own(self.path / "rescales.json", self.run)
        return [] if about is None else list(about["epochs"])

    @property
    def _records(self) -> list[int]:
        """The epochs with commit records, in order."""
        records = self.path / "commits"
        names = [one.name for one in records.iterdir() if one.name[0] != "."] if records.is_dir() else []
        return sorted(int(name.partition(".")[0]) for name in names)

    @property
    def sent(self) -> list[int]:
        """The last epochs of which the output has sent something, by their commit records."""
        return [epoch for epoch in self._records if (self.committed(epoch) or {}).get("sends")]

    def _belongs_to_log(self) -> None:
        """Compare the commit records with the backend's log. Raises :class:`RunError` ``TT227``."""
        records, log = self.path / "commits", self.log
        there, rescales = self._records, self._rescales
        newest = there[-1] if there else -1
        if newest > log.begun:
            knows = f"of micro-batch {log.begun}" if log.begun >= 0 else "of no micro-batch"
            what = f"the log of the backend {log.backend!r} knows {knows}, and micro-batch {newest} was committed"
            raise apart(records / f"{newest:08d}.json", what, "The states of what was committed are lost")
        ended = next((epoch for epoch in range(log.ended, -1, -1) if epoch not in rescales), -1)
        if ended >= 0 and ended not in there:
            what = f"the log has ended micro-batch {ended}, and its commit record is gone"
            raise apart(records / f"{ended:08d}.json", what, "The newest event times and the files that were read are lost")

    def _belongs_to_output(self, output: Output) -> None:
        """Compare the newest epoch in the output with the log. Raises :class:`RunError` ``TT227``."""
        newest, begun = output.newest, self.log.begun
        there = ", ".join(map(str, output.written.values())) or "the output"
        if output.notes_each and self._records and self._records[-1] > (-1 if newest is None else newest):
            what = f"micro-batch {self._records[-1]} was committed, and what its gate decided is gone"
            raise apart(self.path, what, "Rows that the gate holds are lost")
        if newest is not None and newest > begun:
            what = f"{there} has rows of micro-batch {newest}, and the checkpoint knows none behind {begun}: it is older"
            raise apart(self.path, what, "Rows would come twice")
