"""The outputs of a run, exactly once: files that are moved into place with each micro-batch, a topic, a table, or a
list in memory.

Few rows of a micro-batch come to the driver, which writes them; many are in files that workers wrote. When no part of
the micro-batch must be read again, its files are moved to the output directory, under names with the run and the
number, and a commit record is written into the checkpoint. The files of a micro-batch without a record are removed, and
it is written again. A reader may see some files of a micro-batch before the others; it never sees one twice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from tracetypes.compiler.connectors.delta import SCHEME
from tracetypes.compiler.connectors.delta_sink import TableSink
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.kafka_sink import TopicSink
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.connectors.store_address import is_store
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Drain, Message, Metrics, Report, SideRows, StageProgress, Verified
from tracetypes.compiler.runtime.side_rows import placed
from tracetypes.compiler.store import output_interface
from tracetypes.compiler.store.connector_output import ConnectorOutput
from tracetypes.compiler.store.object_output import ObjectOutput
from tracetypes.compiler.store.output_interface import (
    HIDDEN,
    Attempts,
    Frontiers,
    Output,
    SideOutputs,
    items_of,
    latest,
    newest_in,
    placed_rows,
    refuse_folders,
    refuse_nested,
    remove_shown,
    shown_in,
    side_outputs_of,
    with_folders,
)
from tracetypes.compiler.store.output_trace import Answer, Collector
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.small_files import writable
from tracetypes.compiler.store.staging import DROP, SEND, Staging
from tracetypes.compiler.store.stored_table_output import StoredTableOutput
from tracetypes.compiler.store.stream_outputs import MqttOutput, SocketOutput
from tracetypes.errors import RunError, UsageError
from tracetypes.fencing import Starts
from tracetypes.formats import Csv, Format, Parquet, ending_of, sink_format
from tracetypes.marker_runs import MarkerRuns

__all__ = ["FileOutput", "MemoryOutput", "NoOutput", "TableOutput", "TopicOutput", "open_output"]

class FileOutput(Output):
    """Files in a directory: JSON lines, CSV or Parquet."""

    side_outputs: SideOutputs

    def __init__(self, plan: Plan, path: str, run: str, late: str | None, rejects: str | None) -> None:
        if "://" in path:
            raise RunError(
                "TT209", f"{path} is not a local directory", fix="write to a directory of a local or mounted disk"
            )
        self.plan, self.path, self.run, self.attempts = plan, Path(os.path.abspath(path)), run, Attempts()
        self.format: Format = sink_format(path, plan.sink.format)
        late_place = Path(os.path.abspath(late)) if late else self.path / "_late"
        rejects_place = Path(os.path.abspath(rejects)) if rejects else self.path / "_rejects"
        if isinstance(self.format, Csv):
            refuse_nested(plan)
        places = [Path(os.path.realpath(place)) for place in (self.path, late_place, rejects_place)]
        if len(set(places)) < 3:
            raise UsageError(
                "TT402",
                f"output, late items and rejects: {', '.join(map(str, places))}",
                fix="give each a directory of its own with --output, --late and --rejects",
            )
        self.side_outputs = SideOutputs(late_place, rejects_place, run)
        self.staged = self.path / HIDDEN / run
        self.delivery: Staging = Staging.of(plan.layout, plan.sink, self.format, str(self.staged))

    @property
    def places(self) -> Mapping[str, Place]:
        """The directory, and those of late items and rejects."""
        return {"the output directory": self.path, **super().places}

    @property
    def identity(self) -> EndpointIdentity:
        """Files have no identity: they may be moved."""
        return EndpointIdentity("files")

    def begin(self, starts: Starts) -> None:
        """Make the directories."""
        writable(self.path)
        super().begin(starts)

    def visible(self, batch: int) -> str | None:
        """The directory with files of the micro-batch, which have its number in their names; None if there are none."""
        return shown_in(with_folders(self.path), self.run, batch) or super().visible(batch)

    @property
    def newest(self) -> int | None:
        """By the names of files."""
        return latest(newest_in(with_folders(self.path), self.run), super().newest)

    def undo(self, batch: int) -> None:
        """Remove the files of a micro-batch without a commit."""
        if self.attempts.may_have_left(batch):
            remove_shown(with_folders(self.path), self.run, batch)

    def tidy(self) -> None:
        """Remove the files of failed attempts."""
        shutil.rmtree(self.staged, ignore_errors=True)
        super().tidy()

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Write a micro-batch."""
        self.undo(batch)
        for number, (file, folder) in enumerate(placed_rows(self.plan, self.delivery, messages)):
            name = f"part-{self.run}-{batch:08d}-{number:04d}.{ending_of(self.format)}"
            output_interface.move(file, self.path / folder / name)
        self.side_outputs.take(messages, batch, frontiers, self.staged)
        self.tidy()


class MemoryOutput(Output):
    """Collects the trace at the sink, late items and rejects on the driver: for tests."""

    delivery = SEND

    def __init__(self, plan: Plan) -> None:
        self.plan, self.collector = plan, Collector(plan)
        self.taken: set[int] = set()

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Collect a micro-batch."""
        if batch in self.taken:
            return
        self.taken.add(batch)
        for message in messages:
            match message.body:
                case SideRows() as rows:
                    self.collector.take(Message(0, placed(rows, frontiers)))
                case Report() | Drain() | Metrics() | Verified():
                    pass
                case _:
                    self.collector.take(message)

    @property
    def answer(self) -> Answer:
        """The answer so far."""
        return self.collector.answer(self.plan.region.stream)


class TopicOutput(Output):
    """A Kafka topic; late and rejected rows go to directories. The rows of a micro-batch come to the driver, which
    sends them in one transaction."""

    delivery = SEND
    side_outputs: SideOutputs

    def __init__(self, plan: Plan, address: str, run: str, late: str | None, rejects: str | None) -> None:
        self.side_outputs = side_outputs_of(address, run, late, rejects)
        self.plan, self.topic = plan, TopicSink(plan, address, run)

    @property
    def identity(self) -> EndpointIdentity:
        """The topic, with the broker's id."""
        return self.topic.identity

    def begin(self, starts: Starts) -> None:
        """Shut out other drivers."""
        super().begin(starts)
        self.topic.transactions.begin(starts)

    def visible(self, batch: int) -> str | None:
        """The topic, if the offset committed with the rows shows that the micro-batch is in it."""
        return str(self.topic.address) if self.topic.transactions.holds(batch) else super().visible(batch)

    @property
    def newest(self) -> int | None:
        """By the offset that was committed with the rows."""
        return latest(self.topic.transactions.last()[0], super().newest)

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Send a micro-batch."""
        self.side_outputs.take(messages, batch, frontiers, Path())
        last = self.plan.stages[-1].number
        progress = [message.body for message in messages if isinstance(message.body, StageProgress)]
        markers = MarkerRuns(runs for one in progress if one.stage == last for runs in one.markers.ranges)
        self.topic.put(batch, items_of(self.plan, messages), markers)


class TableOutput(Output):
    """A Delta table; late and rejected rows go to directories. Files are staged in a hidden directory of the table."""

    side_outputs: SideOutputs

    def __init__(self, plan: Plan, address: str, run: str, late: str | None, rejects: str | None) -> None:
        self.side_outputs = side_outputs_of(address, run, late, rejects)
        self.plan, self.run, self.table, self.attempts = plan, run, TableSink(plan, address, run), Attempts()
        self.path = self.table.path
        self.staged = self.path / HIDDEN / run
        format = plan.sink.format if isinstance(plan.sink.format, Parquet) else Parquet()
        self.delivery: Staging = Staging.of(
            plan.layout, plan.sink, format, str(self.staged), unsigned=False
        )

    @property
    def written(self) -> Mapping[str, Place]:
        """The places, and the table, into which several runs may write."""
        return {"the table": self.path, **self.places}

    @property
    def identity(self) -> EndpointIdentity:
        """The table, with its id."""
        return self.table.identity

    def begin(self, starts: Starts) -> None:
        """Shut out other drivers."""
        writable(self.path)
        super().begin(starts)
        self.table.begin(starts)

    def visible(self, batch: int) -> str | None:
        """The table, if its transaction shows that the micro-batch is in it."""
        return str(self.path) if self.table.holds(batch) else super().visible(batch)

    @property
    def newest(self) -> int | None:
        """By the transaction of the run."""
        return latest(self.table.last()[0], super().newest)

    def tidy(self) -> None:
        """Remove the files of failed attempts."""
        shutil.rmtree(self.staged, ignore_errors=True)
        super().tidy()

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Write a micro-batch. Takes back first what has no commit yet."""
        self.side_outputs.take(messages, batch, frontiers, self.staged)
        if not self.table.holds(batch):
            if self.attempts.may_have_left(batch):
                remove_shown(with_folders(self.path), self.run, batch)
            files: list[Path] = []
            for file, folder in placed_rows(self.plan, self.delivery, messages):
                files.append(self.path / folder / f"part-{self.run}-{batch:08d}-{len(files):04d}.parquet")
                output_interface.move(file, files[-1])
            if files:
                self.table.commit(batch, files)
        self.tidy()


class NoOutput(Output):
    """Computes everything and keeps nothing: for benchmarks, like Spark's ``noop``."""

    delivery = DROP

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """There is nothing to do."""


Opens: TypeAlias = Callable[[Plan, str, str, str | None, str | None], Output]
"""An output from a plan, an address, the run's name and the directories of late and rejected rows."""

OUTPUTS: Final[Mapping[str, Opens]] = {
    "files": FileOutput,
    "objects": ObjectOutput,
    "topic": TopicOutput,
    "table": lambda plan, address, *about: (
        (StoredTableOutput if is_store(address.removeprefix(SCHEME)) else TableOutput)(plan, address, *about)
    ),
    "socket": SocketOutput,
    "mqtt": MqttOutput,
    "nowhere": lambda plan, *_: NoOutput(plan),
}
"""By the kind of the connector."""


IN_FOLDERS: Final = frozenset({"files", "objects", "table", "nowhere"})
"""Those that take ``partition_by``."""


def open_output(plan: Plan, path: str, run: str, late: str | None = None, rejects: str | None = None) -> Output:
    """The output for a path, or for an address of a topic or table. ``noop:`` keeps nothing."""
    connector = connector_of(path)
    if connector.opens is not None or connector.kind not in IN_FOLDERS:
        refuse_folders(plan, path)
    if connector.opens is not None:
        return ConnectorOutput(plan, connector.kind, connector.opens, side_outputs_of(path, run, late, rejects), path)
    return OUTPUTS[connector.kind](plan, path, run, late, rejects)
