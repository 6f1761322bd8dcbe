"""Workspaces on Spark: flows come, share, leave and go on, and their answers are those that are counted by hand."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.workspace.clicks import Click, answer, totals
from tests.workspace.test_workspace import Shop, files_of
from tracetypes import Dataflow, U, every
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.spark.channel_ends import ChannelEnds
from tracetypes.compiler.spark.channels import reader_of
from tracetypes.compiler.store.file_channel import FileChannel, manifest_lines
from tracetypes.compiler.store.small_files import write_lines
from tracetypes.compiler.workspace import new_flows
from tracetypes.errors import UsageError
from tracetypes.stdlib import map_values
from tracetypes.workspace import Workspace


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Code is not copied: it would be all tests."""
    monkeypatch.setattr(new_flows, "sources_of_launch", lambda launch: None)
    shop = Shop(tmp_path)
    shop.come(0)
    return shop


def opened(shop: Shop) -> Workspace:
    return Workspace(shop.home / "workspace", backend="spark")


def test_flows_share_go_on_and_leave(shop: Shop) -> None:
    """Bob joins what runs for Ann. Both go on when the workspace is opened again. Bob leaves while Ann's segments go on."""
    with opened(shop) as workspace:
        shop.submit(workspace, "ann")
        workspace.wait()
        begins = shop.submit(workspace, "bob", totals("of bob", changes=True))
        assert begins == max(one.ts for one in shop.clicks) // 60 * 60
        view = workspace.show()
        assert (view["ann"].shared, view["bob"].brings) == (4, ("tumbling",))
        shop.come(600)
        workspace.wait()
        assert shop.rows("ann") == [one for one in answer(shop.clicks) if one[0] <= 900]
        with pytest.raises(UsageError, match=r"TT402 this backend cannot run cat:\s+source .clicks. reads"):
            workspace.submit("cat", totals("cat"), {"clicks": "mqtt://h/a?client=x"}, {"totals": shop.home / "cat"})
    shop.come(1200)
    with opened(shop) as workspace:
        workspace.wait()
        workspace.remove("bob", drain=True)  # the window up to 1800 stays open for Ann
        expected = answer(shop.clicks, changes=True, change=begins, sink=begins)
        assert workspace.show()["ann"].state == "running"
        shop.come(1800)
        workspace.remove("ann", drain=True)
        assert {one for one in files_of(shop.home / "workspace") if not one.startswith("workspace.db")} == set()
    assert shop.rows("ann") == answer(shop.clicks)
    assert shop.rows("bob") == expected


@pytest.mark.nightly
def test_who_fails_stops_nobody_else(shop: Shop) -> None:
    def broken(amount: int) -> int:
        return 1 // (amount - amount)

    flow = Dataflow("broken")
    how = every(seconds=60, time=lambda click: click.ts)
    clicks = flow.source("clicks", U[str, Click], key=lambda click: click.user, markers=how)
    flow.sink("totals", clicks.through(map_values(lambda click: click.amount, to=int)).through(map_values(broken)))
    with opened(shop) as workspace:
        shop.submit(workspace, "ann")
        workspace.wait()
        shop.submit(workspace, "bob", flow)
        shop.come(600)
        workspace.wait("ann")
        with pytest.raises(Exception, match="division"):
            workspace.wait("bob", 60)
        view = workspace.show()
        assert (view["ann"].state, view["bob"].state) == ("running", "failed")
        workspace.remove("bob")
        shop.come(1200)
        workspace.wait()
        workspace.remove("ann", drain=True)
    assert shop.rows("ann") == answer(shop.clicks)


KILLED = """
import sys
from pathlib import Path
from tests.workspace.clicks import totals
from tests.workspace.test_workspace import Shop
from tracetypes.compiler.workspace import new_flows
from tracetypes.workspace import Workspace

new_flows.sources_of_launch = lambda launch: None
home = Path(sys.argv[1])
workspace = Workspace(home / "workspace", backend="spark")
for name in ("ann", "bob"):
    if all(one.name != name for one in workspace.show().flows):
        view = workspace.submit(
            name, totals(name, changes=name == "bob"), {"clicks": home / "clicks"}, {"totals": home / name}, start="earliest"
        )
    print(name, flush=True)
if len(sys.argv) > 2:
    print("drain", flush=True)
    workspace.remove("bob", drain=True)
while True:
    workspace.wait()
    print("answered", flush=True)
"""


@pytest.mark.nightly
def test_kills_change_no_answer(shop: Shop) -> None:
    """The process is killed while flows start, while they answer, and while one is drained."""

    def until(line: str, seconds: float, *more: str) -> None:
        """Run until a line is printed and some seconds longer."""
        command = [sys.executable, "-c", KILLED, str(shop.home), *more]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert process.stdout is not None
        while process.stdout.readline().strip() not in (line, ""):
            pass
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    until("ann", 1.0)
    until("bob", 3.0)
    until("answered", 0.0)
    for at, seconds in enumerate((0.5, 2.0, 4.0)):
        shop.come(600 * (at + 1))
        until("bob", seconds)
    until("drain", 1.0, "drain")
    with opened(shop) as workspace:
        workspace.wait("ann")
        for name in [one.name for one in workspace.show().flows]:
            workspace.remove(name, drain=True)
    assert shop.rows("ann") == answer(shop.clicks)
    assert shop.rows("bob") == answer(shop.clicks, changes=True)


# ---------------------------------------------------------------------------------------------- parts


class Sender:
    """A sender that has committed so many epochs."""

    def __init__(self, ended: int, last: int) -> None:
        self.log, self.last = SimpleNamespace(ended=ended), last

    def before(self, place: int) -> Mapping[str, Any]:
        return {"sent": [self.last, self.last, None, 60]}


class Log:
    """What Spark has noted of files."""

    def __init__(self, *files: Path) -> None:
        self.listed = [file.absolute() for file in files]


def channel(path: Path) -> ChannelRetention:
    return ChannelRetention(reader_of(FileChannel("sums", path)))


def test_a_channel_ends_behind_all_that_spark_may_have_taken(tmp_path: Path) -> None:
    """Spark has taken an epoch that the sender has not committed yet: the end is behind it."""
    sums = channel(tmp_path / "sums")
    sums.sender = sender = Sender(3, 60)  # type: ignore[assignment]
    log = Log(tmp_path / "sums" / "manifests" / "00000004.jsonl")
    ends = ChannelEnds(tmp_path / "ends", {"sums": sums}, log)  # type: ignore[arg-type]
    ends.begin()
    assert ends.places == {}
    waited: list[int] = []

    def commit() -> bool:
        waited.append(sender.log.ended)
        sender.log.ended, sender.last = 4, 120
        return False

    ends.write({"sums": {60: 2}}, commit)
    assert (waited, ends.places) == ([3], {"sums": 5})
    name, line = (tmp_path / "ends" / "00000000").read_text().rstrip("\n").split("\t")
    entry = sums.reader.channel.contents.entry(line)
    assert (name, entry["complete"], entry["silence"]) == ("sums", True, [[180, 300, 60]])

    ends.begin()  # a restart: Spark has not taken the end
    assert ends.places == {}
    ends.write({"sums": {}}, lambda: True)
    taken = ChannelEnds(tmp_path / "ends", {"sums": sums}, Log(*log.listed, tmp_path / "ends" / "00000000"))  # type: ignore[arg-type]
    taken.begin()
    assert taken.places == {"sums": 5}


def test_a_channel_whose_sender_is_over_ends_by_itself(tmp_path: Path) -> None:
    sums = channel(tmp_path / "sums")
    sums.complete.set()
    ends = ChannelEnds(tmp_path / "ends", {"sums": sums}, Log())  # type: ignore[arg-type]
    ends.begin()
    ends.write({"sums": {}}, lambda: True)
    assert ends.places == {}


def test_a_slow_reader_gets_manifests_that_are_days_old(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's source of files leaves out what is a day older than the newest file that it has seen."""
    sums = reader_of(FileChannel("sums", tmp_path / "sums"))
    found: list[int] = []

    def send(number: int, days: float) -> None:
        manifest = tmp_path / "sums" / "manifests" / f"{number:08d}.jsonl"
        write_lines(manifest, manifest_lines([{"batch": number}], ""))
        os.utime(manifest, (time.time() - days * 86_400,) * 2)

    def take(lines: DataFrame, batch: int) -> None:
        found.extend(json.loads(row[0])["batch"] for row in lines.collect())

    def read() -> None:
        query = sums.lines(spark, 1).writeStream.trigger(availableNow=True).foreachBatch(take)
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    send(0, 9)
    send(1, 7)
    read()
    send(2, 5)
    send(3, 3)
    send(4, 0)
    read()
    assert sorted(found) == [0, 1, 2, 3, 4]


@pytest.mark.nightly
def test_a_backup_goes_on_elsewhere(shop: Shop) -> None:
    """Spark knows the files of channels by their whole paths: they are other ones now."""
    with opened(shop) as workspace:
        shop.submit(workspace, "ann")
        workspace.wait()
        workspace.backup(shop.home / "backup")
        shop.come(600)
        workspace.wait()
    for lost in ("workspace", "ann"):
        shutil.rmtree(shop.home / lost)
    Workspace.restore(shop.home / "backup", shop.home / "elsewhere")
    with Workspace(shop.home / "elsewhere", backend="spark") as workspace:
        shop.come(1200)
        workspace.wait()
        workspace.remove("ann", drain=True)
    assert shop.rows("ann") == answer(shop.clicks)
