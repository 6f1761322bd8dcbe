"""Rows of a sink as objects of a store, exactly once.

::

    ADDRESS/part-RUN-SINK-00000012-0000.jsonl        part 0 of epoch 12
    ADDRESS/day=1/part-RUN-SINK-00000012-0001.jsonl  with ``partition_by``
    ADDRESS/_tracetypes/RUN/start.json               the last start of the run
    ADDRESS/_tracetypes/RUN/epochs/00000012.json     the parts of the epoch, and the start of the run that writes them
    ADDRESS/_tracetypes/RUN/staged/rows-...          what workers have sent

Workers send their files under hidden names. The driver first writes which parts the epoch has, then copies what workers have sent
to the names of the parts, inside the store, and then the commit record is written. An epoch that is taken again reads which parts
it had, notes the new ones, and removes the old ones. So a plain listing sees what one of a disk sees: maybe some parts of an
epoch before others, and never a row twice. The note of an epoch is put on a condition, so of two drivers of one run one is shut
out; and a driver behind which the run was started again stops at its next epoch, however far the other one is.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from urllib.parse import quote

from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.object_writes import (
    Note,
    copy_object,
    in_parallel,
    object_names,
    put_if,
    read_note,
    remove_objects,
    upload,
)
from tracetypes.compiler.connectors.partitioned_files import files_in
from tracetypes.compiler.connectors.store_address import StoreAddress
from tracetypes.compiler.connectors.store_clients import require_client
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import File, Message
from tracetypes.compiler.store.output_interface import (
    HIDDEN,
    Attempts,
    Frontiers,
    Output,
    SideOutputs,
    latest,
    refuse_nested,
    rows_file,
    side_outputs_of,
)
from tracetypes.compiler.store.staging import Staging
from tracetypes.compiler.store.uploads import FILES, files_below
from tracetypes.errors import RunError
from tracetypes.fencing import Starts, another_driver
from tracetypes.formats import Csv, Format, ending_of, sink_format

__all__ = ["ObjectOutput"]


class ObjectOutput(Output):
    """Objects below an address: JSON lines, CSV or Parquet. Late and rejected rows go to directories."""

    side_outputs: SideOutputs
    starts: Starts

    def __init__(self, plan: Plan, address: str, run: str, late: str | None, rejects: str | None) -> None:
        require_client()
        self.side_outputs = side_outputs_of(address, run, late, rejects)
        self.plan, self.run, self.attempts = plan, run, Attempts()
        StoreAddress.of(address)
        self.folder = address.rstrip("/")
        self.format: Format = sink_format(self.folder, plan.sink.format)
        if isinstance(self.format, Csv):
            refuse_nested(plan)
        self.home = f"{self.folder}/{HIDDEN}/{run}"
        self.delivery: Staging = Staging.of(plan.layout, plan.sink, self.format, f"{self.home}/staged")
        self.epochs: list[int] = []
        """Those of which this process has written the parts, and of which the note is still there."""

    @property
    def identity(self) -> EndpointIdentity:
        """Objects have none, as files have none."""
        return EndpointIdentity("objects")

    def begin(self, starts: Starts) -> None:
        """See that objects can be written, and that no other driver has written for this run. Raises :class:`RunError`
        ``TT209``."""
        super().begin(starts)
        self.starts = starts
        try:
            newest = self._newest
            if newest is not None:
                starts.check_writer(self.folder, self._epoch(newest)[1])
            if not put_if(self._last_start, json.dumps({"start": starts.mine}).encode(), read_note(self._last_start)):
                raise another_driver(self.folder, "it starts at the same time")
        except OSError as error:
            fix = f"see the cause; credentials come from {StoreAddress.listed(self.folder).variables}"
            raise RunError("TT209", f"{self.folder} cannot be written: {error}", fix=fix) from None

    def visible(self, batch: int) -> str | None:
        """The address, if parts of the micro-batch were noted."""
        return self.folder if read_note(self._note(batch)) is not None else super().visible(batch)

    @property
    def newest(self) -> int | None:
        """By the notes."""
        return latest(self._newest, super().newest)

    @property
    def _newest(self) -> int | None:
        names = (PurePath(one).stem for one in object_names(f"{self.home}/epochs"))
        return max((int(name) for name in names if name.isdecimal()), default=None)

    @property
    def _last_start(self) -> str:
        return f"{self.home}/start.json"

    def _note(self, batch: int) -> str:
        return f"{self.home}/epochs/{batch:08d}.json"

    def _epoch(self, batch: int) -> tuple[Note | None, int | None, list[str]]:
        """What was noted of an epoch: the start that wrote it, and the parts that there may be."""
        note = read_note(self._note(batch))
        if note is None:
            return None, None, []
        about = json.loads(note.content)
        return note, about["start"], sorted({*about["parts"], *about.get("old", ())})

    def tidy(self) -> None:
        """Remove what workers have sent in failed attempts."""
        with suppress(OSError):
            remove_objects(object_names(f"{self.home}/staged"))
        super().tidy()

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Write a micro-batch."""
        self.side_outputs.take(messages, batch, frontiers, self.delivery.directory)
        before, start, old = self._epoch(batch) if self.attempts.may_have_left(batch) else (None, None, [])
        if start is not None and start not in self.starts.known:
            raise another_driver(self.folder, f"it has written micro-batch {batch}")
        with tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch:
            here = [one for path in rows_file(self.plan, self.delivery.at(scratch), messages) for one in files_in(path)]
            sent = [message.body for message in messages if isinstance(message.body, File)]
            staged = [one for file in sent if file.holds == "rows" for one in self._staged(file.name)]
            folders = [folder for _, folder in (*here, *staged)]
            parts = [self._part(batch, number, folder) for number, folder in enumerate(folders)]
            if parts or before is not None:
                self._begin(batch, parts, old, before)
                remove_objects([f"{self.folder}/{one}" for one in old])
                places = [f"{self.folder}/{one}" for one in parts]
                in_parallel(upload, [(file, place) for (file, _), place in zip(here, places, strict=False)])
                in_parallel(copy_object, [(one, place) for (one, _), place in zip(staged, places[len(here) :], strict=True)])
        names = [f"{file.name}/{FILES}" if file.holds == "rows" and self.delivery.partition_by else file.name for file in sent]
        remove_objects([*(one for one, _ in staged if self.delivery.partition_by), *(self._sent(name) for name in names)])
        super().tidy()

    def _begin(self, batch: int, parts: list[str], old: list[str], before: Note | None) -> None:
        """Note the parts of an epoch, before any of them is there, and those that are to be removed. Until this has been written,
        another driver may have taken over, and nothing may be removed."""
        last = read_note(self._last_start)  # the other one may be so far that its note of this epoch is gone again
        if last is None or json.loads(last.content)["start"] != self.starts.mine:
            raise another_driver(self.folder, "it was started later")
        content = json.dumps({"start": self.starts.mine, "parts": parts, "old": old}).encode()
        if not put_if(self._note(batch), content, before):
            raise another_driver(self.folder, f"it has written micro-batch {batch}")
        if batch not in self.epochs:
            self.epochs.append(batch)
        while len(self.epochs) > 2:
            remove_objects([self._note(self.epochs.pop(0))])

    def _part(self, batch: int, number: int, folder: PurePath) -> str:
        sink = quote(self.plan.sink.name, safe="")
        return str(folder / f"part-{self.run}-{sink}-{batch:08d}-{number:04d}.{ending_of(self.format)}")

    def _sent(self, name: str) -> str:
        """The address of what a worker has sent."""
        return f"{self.delivery.directory}/{name}"

    def _staged(self, name: str) -> list[tuple[str, PurePath]]:
        """The objects of rows that a worker has sent under a name, with the folder of each below the output."""
        place = self._sent(name)
        if not self.delivery.partition_by:
            return [(place, PurePath())]
        return [(f"{place}/{one}", PurePath(one).parent) for one in sorted(files_below(place))]
