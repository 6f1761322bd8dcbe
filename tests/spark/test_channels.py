"""What lies in channels and checkpoints of a run with many micro-batches: it stays bounded, and a crash while it is cleaned away
changes nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark import dags
from tests.spark.test_dags import Job
from tests.spark.test_exactly_once import Crash, crashing
from tracetypes import RunError, check
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark import log
from tracetypes.compiler.spark.channels import reader_of
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.store import file_channel, run_store
from tracetypes.compiler.store.compatibility import claim
from tracetypes.compiler.store.file_channel import ChannelOutput, FileChannel
from tracetypes.compiler.store.places import on_disk
from tracetypes.compiler.store.run_store import RunStore

COMPACT = "spark.sql.streaming.fileSource.log.compactInterval"


def files(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.rglob("*") if file.is_file() and not file.name.startswith("."))


class Lockstep:
    """Lets the sender of a channel wait for its readers, so that they take one manifest a micro-batch; counts files meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, readers: int) -> None:
        self.changed, self.readers = threading.Condition(), readers
        self.sent: set[int] = set()
        self.taken: dict[Path, int] = {}
        self.most, self.over = 0, False
        take, commit = ChannelOutput.take, RunStore.commit

        def taking(output: ChannelOutput, messages: Any, batch: int, frontiers: Any) -> None:
            with self.changed:
                self.changed.wait_for(self.level, timeout=60)
            take(output, messages, batch, frontiers)
            found = files(on_disk(output.channel.path))
            self.most = max(self.most, len(found))
            self.sent |= {batch for name in found if name == f"{batch:08d}.jsonl"}

        def committing(kept: RunStore, batch: int, record: dict[str, Any]) -> None:
            commit(kept, batch, record)
            with self.changed:
                self.taken[on_disk(kept.path)] = batch + 1
                self.changed.notify_all()

        monkeypatch.setattr(ChannelOutput, "take", taking)
        monkeypatch.setattr(RunStore, "commit", committing)

    def level(self) -> bool:
        """Have the readers taken what was sent, or will they never?"""
        reading = [count for path, count in self.taken.items() if path.name in ("sums", "large")]
        return self.over or not self.sent or sum(count >= len(self.sent) for count in reading) == self.readers

    def end(self) -> None:
        """Nobody is to wait any more."""
        with self.changed:
            self.over = True
            self.changed.notify_all()


@pytest.mark.nightly
def test_a_long_run_leaves_a_bounded_number_of_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it ends while it removes files. Spark goes on with a log of its own that was shortened."""
    job = Job(spark, tmp_path, dags.two_sinks(), files=8)
    monkeypatch.setattr(log, "NOTED", 1)
    monkeypatch.setattr(run_store, "KEPT", 3)
    spark.conf.set(COMPACT, 2)
    lockstep = Lockstep(monkeypatch, readers=2)
    dies = crashing(3, file_channel.remove, first=False)

    def dying(file: Path) -> None:
        try:
            dies(file)
        except Crash:
            lockstep.end()
            raise

    try:
        with monkeypatch.context() as broken:
            broken.setattr(file_channel, "remove", dying)
            with pytest.raises((Crash, RunError)) as crashed:
                job()
        assert "Crash" in f"{crashed.type.__name__} {crashed.value}"
        lockstep.over = False
        job()
    finally:
        spark.conf.unset(COMPACT)
    job.is_right()
    assert len(lockstep.sent) > 6
    assert lockstep.most <= 8  # rows and a manifest of what comes, of what is taken, and of what is committed by all
    root = tmp_path / "checkpoint"
    assert files(root / "channels") == []
    for name in ("sums", "large"):
        assert len(files(root / "queries" / name / "commits")) == 3
        logs = sorted(
            (root / "queries" / name / "spark/sources/0").glob("[0-9]*.compact"), key=lambda log: log.stat().st_mtime
        )
        assert len(logs) > 2
        assert len(logs[-1].read_text().splitlines()) <= 1 + 2 + 2


@pytest.mark.nightly
def test_a_run_with_channels_goes_on_at_another_parallelism(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, dags.diamond(), files=2)
    job.at_several_parallelisms()
    job.is_right()
    assert files(tmp_path / "checkpoint/channels") == []


# --------------------------------------------------------------------------------------------- without Spark


class Reader:
    """A query that reads a channel, and what Spark would have noted of it."""

    def __init__(self, path: Path, channel: FileChannel) -> None:
        self.kept, self.channel = SparkLog(path), channel
        self.spark = on_disk(self.kept.path)

    def log(self, batch: int, *manifests: tuple[int, int], name: str = "") -> None:
        """A log of files of Spark's second source: in which micro-batch which manifest was taken."""
        found = [
            {"path": (on_disk(self.channel.manifests) / f"{number:08d}.jsonl").as_uri(), "timestamp": 1, "batchId": taken}
            for taken, number in manifests
        ]
        self.write(f"sources/1/{name or batch}", ["v1", *map(json.dumps, found)])

    def commits(self, batch: int, last: int) -> None:
        """A micro-batch, with the last log of files that it took."""
        self.write(f"offsets/{batch}", ["v1", "{}", "-", json.dumps({"logOffset": last})])
        self.write(f"commits/{batch}", ["v1", "{}"])

    def write(self, name: str, lines: list[str]) -> None:
        (self.spark / name).parent.mkdir(parents=True, exist_ok=True)
        (self.spark / name).write_text("\n".join(lines))

    @property
    def taken(self) -> list[int]:
        return reader_of(self.channel).places(self.kept)


@pytest.fixture
def channel(tmp_path: Path) -> FileChannel:
    """With three micro-batches: the second of the sender had nothing to send."""
    made = FileChannel("shared", tmp_path / "a channel#1")
    for number in (0, 2, 3):
        (on_disk(made.manifests) / f"{number:08d}.jsonl").write_text("")
        (on_disk(made.rows) / f"{number:08d}-0000.parquet").write_text("")
    return made


def test_what_a_reader_needs_no_more(tmp_path: Path, channel: FileChannel) -> None:
    reader = Reader(tmp_path / "reader", channel)
    assert reader.taken == []
    reader.log(0, (0, 0), (0, 2))
    assert reader.taken == []  # it was begun, no more
    reader.commits(0, 0)
    assert reader.taken == [3]
    reader.log(1, (0, 0), (0, 2), (1, 3), name="1.compact")
    (reader.spark / "sources/1/0").unlink()
    assert reader.taken == [3]
    reader.commits(1, 1)
    assert reader.taken == [4]
    assert reader_of(FileChannel("other", tmp_path / "other")).places(reader.kept) == []


def test_only_what_all_readers_have_taken_is_removed(tmp_path: Path, channel: FileChannel) -> None:
    ahead, behind = Reader(tmp_path / "ahead", channel), Reader(tmp_path / "behind", channel)
    joint = ChannelRetention(reader_of(channel))
    joint.join("ahead", ahead.kept)
    joint.join("behind", behind.kept)
    ahead.log(0, (0, 0), (0, 2), (0, 3))
    ahead.commits(0, 0)
    joint.clean()
    assert len(files(on_disk(channel.path))) == 6  # one was never started
    behind.log(0, (0, 0))
    behind.commits(0, 0)
    joint.clean()
    assert files(on_disk(channel.path)) == ["00000002-0000.parquet", "00000002.jsonl", "00000003-0000.parquet", "00000003.jsonl"]
    twice = ChannelRetention(reader_of(channel))
    twice.join("twice", ahead.kept, 2)
    twice.clean()
    assert len(files(on_disk(channel.path))) == 4  # it was seen to read once only


def test_a_log_of_files_is_shortened(tmp_path: Path, channel: FileChannel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "NOTED", 2)
    reader = Reader(tmp_path / "reader", channel)
    reader.log(3, *[(at, at) for at in range(4)], name="3.compact")
    compact = reader.spark / "sources/1/3.compact"
    before = compact.read_text()
    reader_of(channel).trim(reader.kept)
    assert compact.read_text() == before
    reader.log(9, *[(at, at) for at in range(10)], name="9.compact")
    reader_of(FileChannel("other", tmp_path / "other")).trim(reader.kept)
    compact = reader.spark / "sources/1/9.compact"
    assert len(compact.read_text().splitlines()) == 11
    reader_of(channel).trim(reader.kept)
    lines = compact.read_text().splitlines()
    assert lines[0] == "v1"
    assert [json.loads(line)["batchId"] for line in lines[1:]] == [8, 9]


def test_the_last_commit_records_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are told, whatever their numbers: a rescale is a batch without one."""
    monkeypatch.setattr(run_store, "KEPT", 2)
    monkeypatch.setattr(run_store, "AT_ONCE", 1)
    kept = RunStore(claim(tmp_path, plan(check(dags.straight())), SparkLog))
    for number in (0, 1, 7, 8):
        kept.commit(number, {"rows": number})
        (tmp_path / "commits/.00000099.json.left").write_text("{")
    kept.commit(9, {"rows": 9})
    assert sorted(file.name for file in (tmp_path / "commits").iterdir()) == ["00000008.json", "00000009.json"]
    assert kept.before(12) == {"rows": 9}
    assert kept.before(9) == {"rows": 8}
