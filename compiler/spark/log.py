"""Spark's own log of a query: the layout of its checkpoint and the numbers of its state stores. No other module knows
these.

::

    CHECKPOINT/spark/offsets/7              begun: configuration, and a line for each source, up to where it is read
    CHECKPOINT/spark/commits/7              ended
    CHECKPOINT/spark/sources/1/7            of a source of files: those that micro-batch 7 takes, a line each
    CHECKPOINT/spark/sources/1/9.compact    all files up to micro-batch 9
    CHECKPOINT/spark/state/0/3/8.changelog  state of operator 0, partition 3, after micro-batch 7

Spark promises none of this. ``tests/spark/test_spark_log.py`` runs a query and fails if a new Spark does it
differently. :mod:`.java` has what is private to Spark's Java process.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlparse

from pyspark.sql import SparkSession

from tracetypes.compiler.plan.fingerprint import Fingerprint
from tracetypes.compiler.spark.session import groups_to_ids
from tracetypes.compiler.store.inspection import CheckpointView, StageAbout
from tracetypes.compiler.store.places import Place, place_of, remove_folder, replace, spark_address
from tracetypes.errors import UsageError

__all__ = ["SparkLog", "operator_numbers", "stage_states"]

NOTED = 100
"""Of so many micro-batches of a reader the log of a source of files is kept, at least."""

_STATE = re.compile(r"\.?(\d+)(?:_[^.]*)?\.(?:changelog|zip|delta|snapshot)(?:\.crc)?")
"""Names of files of state: they begin with the number of the micro-batch that follows."""


class SparkLog:
    """Spark's own checkpoint of one query."""

    backend = "spark"

    def __init__(self, checkpoint: Place) -> None:
        self.path = checkpoint / "spark"
        self._shortened: dict[tuple[Place, Place], Place] = {}

    # ----------------------------------------------------------------------------------------- micro-batches

    @property
    def begun(self) -> int:
        """The number of the last micro-batch that Spark has begun; -1 for none."""
        return self._last("offsets")

    @property
    def ended(self) -> int:
        """The number of the last micro-batch that Spark knows to be over; -1 for none."""
        return self._last("commits")

    def _last(self, log: str) -> int:
        return max((int(p.name) for p in (self.path / log).glob("[0-9]*")), default=-1)

    def refuse(self, old: Fingerprint, new: Fingerprint) -> None:
        """Raise :class:`UsageError` ``TT402`` if ``closes_after=`` was added or left out since the run began: what Spark reads
        may not change."""
        if self.begun >= 0 and (changed := old.closing ^ new.closing):
            name = min(changed)
            closes = name in new.closing
            raise UsageError(
                "TT402",
                f"the run in {self.path.parent} began with{'out' if closes else ''} closes_after= of {name}, "
                "and Spark cannot change that",
                fix=f"{'leave it out' if closes else 'give it'}, or start anew with another --checkpoint and output",
            )

    def offsets(self, batch: int) -> list[Any]:
        """The end of reading of each source with a micro-batch; None for a source that has sent nothing."""
        offsets = self.path / "offsets" / str(batch)
        lines = offsets.read_text().splitlines()[2:] if offsets.exists() else []
        return [json.loads(line) if line.startswith("{") else None for line in lines]

    @property
    def taken(self) -> list[Any]:
        """The end of reading of each source that is committed."""
        return self.offsets(self.ended)

    def clean(self) -> None:
        """Remove the files of a start that was killed before Spark had begun a micro-batch. Spark would refuse half a
        file of its log, and nothing else there means anything yet."""
        if self.begun < 0:
            remove_folder(self.path)

    # -------------------------------------------------------------------------------------- sources of files

    @property
    def source_logs(self) -> set[Place]:
        """The logs of all sources of files."""
        return set((self.path / "sources").glob("*/[0-9]*"))

    @property
    def listed(self) -> list[Place]:
        """The files that all logs of sources name."""
        return list(self.noted(self.source_logs))

    @staticmethod
    def noted(logs: Iterable[Place]) -> Iterator[Place]:
        """The files that some logs name."""
        for log in logs:
            for line in log.read_text().splitlines():
                if line.startswith("{") and "path" in (entry := json.loads(line)):
                    yield _path(entry)

    def took_from(self, directory: Place, batch: int) -> bool:
        """Whether a micro-batch, or one before it, has taken a file of a directory."""
        for at, offset in enumerate(self.offsets(batch)):
            for log in _logs(self.path / "sources" / str(at)) if offset else ():
                for entry in map(json.loads, _below(log)):
                    if _path(entry).parent == directory.absolute() and entry["batchId"] <= offset["logOffset"]:
                        return True
        return False

    def taken_files(self) -> Iterator[Iterator[Place]]:
        """For each source of files the last committed files, and some before them, in order."""
        for at, offset in enumerate(self.taken):
            if offset is not None and "logOffset" in offset:
                last = offset["logOffset"]
                log = next((log for log in _logs(self.path / "sources" / str(at)) if _number(log) >= last), None)
                entries = map(json.loads, () if log is None else _below(log))
                yield (_path(entry) for entry in entries if entry["batchId"] <= last)

    def moved(self, before: Place, after: Place) -> None:
        """Spark knows files that it has read by their whole paths, and a query by an id: it stops one that runs if another one of
        its id starts."""
        metadata = self.path / "metadata"
        if metadata.exists():
            _rewrite(metadata, json.dumps({"id": str(uuid.uuid4())}))
        for source in (self.path / "sources").glob("[0-9]*"):
            for log in _logs(source):
                entries = [json.loads(line) for line in _below(log)]
                for entry in entries:
                    inside = str(_path(entry)).removeprefix(f"{before}/")
                    if inside != str(_path(entry)):
                        entry["path"] = _url(after / inside)
                _rewrite(log, "\n".join([_version(log), *map(json.dumps, entries)]))

    def shorten(self, directory: Place) -> None:
        """Shorten the logs of sources that read a directory, between two micro-batches. With every tenth micro-batch Spark
        writes all names that it ever recorded anew. It takes the newest of these files, if there is one, for all names before
        it."""
        for source in (self.path / "sources").glob("[0-9]*"):
            compact = next((log for log in reversed(_logs(source)) if log.name.endswith(".compact")), None)
            if compact is None or self._shortened.get((source, directory)) == compact:
                continue
            self._shortened[source, directory] = compact
            noted: list[tuple[int, str]] = []
            for line in _below(compact):
                entry = json.loads(line)
                if _path(entry).parent != directory.absolute():
                    break
                noted.append((entry["batchId"], line))
            if len({batch for batch, _ in noted}) > 2 * NOTED:
                lines = (line for batch, line in noted if batch > _number(compact) - NOTED)
                _rewrite(compact, "".join(f"{line}\n" for line in [_version(compact), *lines]))

    # ----------------------------------------------------------------------------------------------- state

    @property
    def tasks(self) -> int | None:
        """The number of parts of the state; None if there is no state yet."""
        first = self.path / "offsets" / str(self.begun)
        if not (self.path / "state").is_dir() or not first.exists():
            return None
        for line in first.read_text().splitlines():
            if line.startswith("{") and "conf" in (about := json.loads(line)):
                return int(about["conf"]["spark.sql.shuffle.partitions"])
        return None

    @property
    def stores(self) -> int:
        """The number of stateful operators with a state."""
        return len(list((self.path / "state").glob("[0-9]*")))

    def forget(self) -> None:
        """Remove the state that attempts at the next micro-batch have left. They may have read other rows, and Spark
        does not replace an existing file of state."""
        following = self.ended + 1
        for file in (self.path / "state").rglob("*"):
            version = _STATE.fullmatch(file.name)
            if version is not None and int(version[1]) > following:
                file.unlink()

    def repartition(self, spark: SparkSession, tasks: int) -> None:
        """Spread the state over another number of parts."""
        spark._streamingCheckpointManager.repartition(spark_address(self.path), tasks)

    def states(self, spark: SparkSession, operator: int, batch: int) -> Iterator[tuple[int, bytes]]:
        """The state of each group of an operator after a micro-batch, by Spark's number of the group."""
        reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
        column = "value.groupState.state"  # of applyInPandasWithState, as which the last operator runs
        if operator:
            reader, column = reader.option("stateVarName", "state"), "value.state"
        frame = reader.load(spark_address(self.path.absolute())).selectExpr("key.group AS id", f"{column} AS state")
        for row in frame.toLocalIterator():
            yield row["id"], bytes(row["state"])


def stage_states(spark: SparkSession, view: CheckpointView, stage: StageAbout) -> Iterator[tuple[int, bytes]]:
    """The states of a stage by key group."""
    groups = {id: group for group, id in enumerate(groups_to_ids(view.key_groups))}
    for id, state in SparkLog(view.path).states(spark, operator_numbers(view.stages)[stage.number], view.batch):
        yield groups[id], state


def operator_numbers(stages: Sequence[StageAbout]) -> dict[int, int]:
    """Spark's number of the operator of each stage.

    Spark numbers the stateful operators of a query from the sink upwards, each before those that it reads from, and the inputs of
    a union from left to right: ``IncrementalExecution`` walks the physical plan from its root.
    """
    reads = {stage.number: stage.reads for stage in stages}
    order: list[int] = []

    def visit(number: int) -> None:
        order.append(number)
        for earlier in reads[number]:
            visit(earlier)

    visit(stages[-1].number)
    return {number: operator for operator, number in enumerate(order)}


def _path(entry: Mapping[str, Any]) -> Place:
    """The place of a file that Spark has read."""
    url = urlparse(entry["path"])
    return place_of(f"s3://{url.netloc}{unquote(url.path)}" if url.scheme == "s3a" else unquote(url.path))


def _url(place: Place) -> str:
    """The same as Spark notes it."""
    scheme, found, rest = spark_address(place).rpartition("://")
    return f"{scheme or 'file'}{found or '://'}{quote(rest)}"


def _logs(source: Place) -> list[Place]:
    return sorted(source.glob("[0-9]*"), key=_number)


def _version(log: Place) -> str:
    """The first line of a log."""
    return log.read_text().partition("\n")[0]


def _below(log: Place) -> Iterator[str]:
    """The lines below the first one, which names the version."""
    yield from log.read_text().splitlines()[1:]


def _rewrite(file: Place, text: str) -> None:
    """Write a file of Spark's anew. Hadoop keeps a checksum beside it on a disk; where there is none, it takes what it finds."""
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    replace(file, text.encode())


def _number(log: Place) -> int:
    return int(re.split(r"\D", log.name, maxsplit=1)[0])
