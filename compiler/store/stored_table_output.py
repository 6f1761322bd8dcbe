"""A Delta table on an object store as a sink, exactly once, by delta-rs.

::

    TABLE/day=1/part-RUN-00000012-START-0001.parquet     part 1 of epoch 12, named by the start that wrote it
    TABLE/_tracetypes/RUN/staged/rows-...                what workers have sent
    TABLE/_delta_log/...                                 the log, whose entries are put on a condition

Workers send their files under hidden names, the store copies them, and one commit adds them with the number of the epoch. A
start never writes over a file of another one. Files of an epoch without a commit are in no version of the table; ``vacuum``
removes them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import pyarrow.parquet as pq

from tracetypes.compiler.connectors.delta_store_sink import StoredTableSink
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.files import open_file, state_of
from tracetypes.compiler.connectors.object_writes import copy_object, in_parallel, object_names, remove_objects, upload
from tracetypes.compiler.connectors.partitioned_files import files_in
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import File, Message
from tracetypes.compiler.store.output_interface import (
    HIDDEN,
    Frontiers,
    Output,
    SideOutputs,
    latest,
    rows_file,
    side_outputs_of,
)
from tracetypes.compiler.store.staging import Staging
from tracetypes.compiler.store.uploads import files_below
from tracetypes.fencing import Starts
from tracetypes.formats import Parquet

__all__ = ["StoredTableOutput"]


class StoredTableOutput(Output):
    """The table; late and rejected rows go to directories."""

    side_outputs: SideOutputs

    def __init__(self, plan: Plan, address: str, run: str, late: str | None, rejects: str | None) -> None:
        self.side_outputs = side_outputs_of(address, run, late, rejects)
        self.plan, self.run, self.table = plan, run, StoredTableSink(plan, address, run)
        self.folder = str(self.table.path)
        format = plan.sink.format if isinstance(plan.sink.format, Parquet) else Parquet()
        staged = f"{self.folder}/{HIDDEN}/{run}/staged"
        self.delivery: Staging = Staging.of(plan.layout, plan.sink, format, staged, unsigned=False)
        self.start = 0

    @property
    def identity(self) -> EndpointIdentity:
        """The table, with its id."""
        return self.table.identity

    def begin(self, starts: Starts) -> None:
        """Shut out other drivers."""
        super().begin(starts)
        self.table.begin(starts)
        self.start = starts.mine

    def visible(self, batch: int) -> str | None:
        """The table, if its transaction shows that the micro-batch is in it."""
        return self.folder if self.table.holds(batch) else super().visible(batch)

    @property
    def newest(self) -> int | None:
        """By the transaction of the run."""
        return latest(self.table.last()[0], super().newest)

    def tidy(self) -> None:
        """Remove what workers have sent in failed attempts."""
        with suppress(OSError):
            remove_objects(object_names(self.delivery.directory))
        super().tidy()

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Write a micro-batch, unless it was committed."""
        self.side_outputs.take(messages, batch, frontiers, self.delivery.directory)
        if not self.table.holds(batch):
            with tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch:
                files = rows_file(self.plan, self.delivery.at(scratch), messages)
                here: list[tuple[Path, PurePath]] = [one for path in files for one in files_in(path)]
                staged = list(self._staged(messages))
                folders = [folder for _, folder in (*here, *staged)]
                names = [str(folder / self._name(batch, number)) for number, folder in enumerate(folders)]
                places = [f"{self.folder}/{name}" for name in names]
                in_parallel(upload, [(file, place) for (file, _), place in zip(here, places, strict=False)])
                in_parallel(copy_object, [(one, place) for (one, _), place in zip(staged, places[len(here) :], strict=True)])
            if names:
                self.table.commit_files(batch, [_described(name, place) for name, place in zip(names, places, strict=True)])
        self.tidy()

    def _name(self, batch: int, number: int) -> str:
        return f"part-{self.run}-{batch:08d}-{self.start:x}-{number:04d}.parquet"

    def _staged(self, messages: Sequence[Message]) -> Iterator[tuple[str, PurePath]]:
        """What workers have sent, with the folder of each below the table."""
        for message in messages:
            if isinstance(message.body, File) and message.body.holds == "rows":
                place = f"{self.delivery.directory}/{message.body.name}"
                if self.delivery.partition_by:
                    yield from ((f"{place}/{one}", PurePath(one).parent) for one in sorted(files_below(place)))
                else:
                    yield place, PurePath()


def _described(name: str, place: str) -> tuple[str, int, float, int]:
    """The name of a file in the table, its size, its time and how many rows it has."""
    state = state_of(place)
    assert state is not None
    source: Any = open_file(place, state)
    with pq.ParquetFile(source) as file:
        return name, state.size, state.modified / 1e9, file.metadata.num_rows
