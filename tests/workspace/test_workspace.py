"""Workspaces on the local backend: flows come, share, leave and go on, and their answers are those that are counted by hand."""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import random
import re
import sys
import threading
import time
from builtins import sum as builtin_sum
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs
import pytest

from tests.workspace.clicks import Click, answer, rows, totals, write
from tracetypes import Dataflow, EmitValue, OpKeyedOrdered, U, every, sort
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.store.channel import Kept
from tracetypes.compiler.store.file_channel import FileChannel
from tracetypes.compiler.store.small_files import write_json
from tracetypes.compiler.workspace import new_flows
from tracetypes.compiler.workspace import workspace as workspaces
from tracetypes.compiler.workspace.code_copies import Sources
from tracetypes.compiler.workspace.drain_copies import DrainCopies
from tracetypes.compiler.workspace.launches import sources_of_launch
from tracetypes.compiler.workspace.reconciler import Reconciler
from tracetypes.compiler.workspace.segment_host import SegmentHost
from tracetypes.errors import CheckFailed, RunError, UsageError
from tracetypes.gates import sequence
from tracetypes.stdlib import aggregate, filter, map_values, sum, tumbling
from tracetypes.workspace import Workspace


@attrs.define
class Shop:
    """A folder of clicks, a workspace, and outputs by flow."""

    home: Path
    clicks: list[Click] = attrs.Factory(list)
    files: int = 0
    drawn: random.Random = attrs.Factory(lambda: random.Random(7))

    @property
    def folder(self) -> Path:
        return self.home / "clicks"

    def come(self, start: int, seconds: int = 600, count: int = 200) -> None:
        """A file of clicks, in the order of their times."""
        times = sorted(self.drawn.randrange(start, start + seconds) for _ in range(count))
        new = [Click(f"u{self.drawn.randrange(5)}", ts, self.drawn.randrange(-5, 20)) for ts in times]
        write(self.folder, self.files, new)
        self.files += 1
        self.clicks += new

    def submit(self, workspace: Workspace, name: str, flow: Dataflow | None = None, **options: Any) -> int:
        """Submit a flow. Returns the marker behind which it begins, in seconds."""
        view = workspace.submit(name, flow or totals(name), {"clicks": self.folder}, {"totals": self.home / name}, **options)
        return 0 if view.begins is None else int(view.begins.timestamp())

    def rows(self, name: str) -> list[tuple[int, str, int]]:
        return rows(self.home / name)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Code is not copied: it would be all tests."""
    monkeypatch.setattr(new_flows, "sources_of_launch", lambda launch: None)
    shop = Shop(tmp_path)
    shop.come(0)
    return shop


@pytest.fixture
def open_workspace(shop: Shop) -> Iterator[Callable[[], Workspace]]:
    """Opens the workspace. All are closed in the end."""
    there: list[Workspace] = []

    def open_it() -> Workspace:
        there.append(Workspace(shop.home / "workspace"))
        return there[-1]

    yield open_it
    for one in there:
        one.close()


def failing() -> Dataflow:
    """It fails at each row."""

    def broken(amount: int) -> int:
        return 1 // (amount - amount)

    flow = Dataflow("broken")
    how = every(seconds=60, time=lambda click: click.ts)
    clicks = flow.source("clicks", U[str, Click], key=lambda click: click.user, markers=how)
    flow.sink("totals", clicks.through(map_values(lambda click: click.amount, to=int)).through(map_values(broken)))
    return flow


def files_of(workspace: Path) -> list[str]:
    """The files of a workspace that are no database, lock or code."""
    return [str(one.relative_to(workspace)) for one in workspace.rglob("*") if one.is_file() and one.parent.name != "_lock"]


def test_a_flow_alone_answers_as_a_run_does(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    assert shop.submit(workspace, "ann") == 0
    shop.come(600)
    workspace.wait()
    closed = [one for one in answer(shop.clicks) if one[0] <= 900]
    assert shop.rows("ann") == closed
    workspace.remove("ann", drain=True)
    assert shop.rows("ann") == answer(shop.clicks)


def test_a_flow_that_joins_shares_what_runs(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    begins = shop.submit(workspace, "bob", totals("of bob", changes=True))
    assert begins == max(one.ts for one in shop.clicks) // 60 * 60
    view = workspace.show()
    assert view["bob"].brings == ("tumbling",)
    assert (view["ann"].operators, view["ann"].shared) == (5, 4)
    assert view.operators < view.submitted
    shop.come(600)
    workspace.wait()
    workspace.remove("bob", drain=True)
    workspace.remove("ann", drain=True)
    assert shop.rows("ann") == answer(shop.clicks)
    closed = max(end for end, _, _ in shop.rows("bob"))
    expected = answer(shop.clicks, changes=True, change=begins, sink=begins)
    assert shop.rows("bob") == [one for one in expected if one[0] <= closed]
    assert closed >= 900


def test_exact_states_begin_with_the_flow(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    begins = shop.submit(workspace, "bob", share="exact")
    assert begins == (max(one.ts for one in shop.clicks) // 60 + 1) * 60
    assert not workspace.show()["bob"].brings
    shop.come(500)
    workspace.wait()
    workspace.remove("bob", drain=True)
    workspace.remove("ann", drain=True)
    late = [one for one in shop.clicks[200:] if one.ts < 540]
    assert late
    assert shop.rows("bob") == answer(shop.clicks, window=begins, sink=begins)


def test_a_backfilled_flow_answers_as_if_it_had_always_run(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    assert shop.submit(workspace, "bob", backfill=True) == 0
    workspace.wait()
    assert shop.rows("bob") == shop.rows("ann") != []
    assert workspace.show()["bob"].shared == 0


def test_a_flow_begins_behind_a_marker(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    begins = shop.submit(workspace, "bob", share="exact", start=dt.datetime(1970, 1, 1, 0, 15, tzinfo=dt.UTC))
    assert begins == 900
    shop.come(600)
    workspace.wait()
    workspace.remove("bob", drain=True)
    assert shop.rows("bob") == answer(shop.clicks, window=900, sink=900)
    with pytest.raises(UsageError, match="TT402 what came behind 1970-01-01 00:01:00Z is gone: channels keep what is behind"):
        shop.submit(workspace, "cat", start=dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC))


def test_one_row_in_the_far_future(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """No block that has had an item may be open to a flow that joins."""
    workspace = open_workspace()
    flow = totals("ann", delay=600)
    shop.submit(workspace, "ann", flow)
    workspace.wait()
    write(shop.folder, 50, [Click("u1", 5_000, 1)])
    workspace.wait()
    begins = shop.submit(workspace, "bob", totals("bob", delay=600), share="exact")
    assert begins == 5_040
    write(shop.folder, 51, [Click("u1", 5_010, 2), Click("u1", 5_050, 3), Click("u2", 6_000, 4)])
    workspace.wait()
    workspace.remove("bob", drain=True)
    assert shop.rows("bob") == [(5_100, "u1", 3), (6_300, "u2", 4)]


def test_all_flows_go_on_when_the_workspace_is_opened_again(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    begins = shop.submit(workspace, "bob", totals("bob", changes=True))
    workspace.close()
    shop.come(600)
    workspace = open_workspace()
    assert [one.name for one in workspace.show().flows] == ["ann", "bob"]
    workspace.wait()
    shop.come(1200)
    workspace.wait()
    workspace.remove("ann", drain=True)
    assert workspace.show()["bob"].state == "running"
    shop.come(1800)
    workspace.wait()
    workspace.remove("bob", drain=True)
    assert shop.rows("bob") == answer(shop.clicks, changes=True, change=begins, sink=begins)
    ann = [one for one in answer(shop.clicks) if one[0] <= max(end for end, _, _ in shop.rows("ann"))]
    assert shop.rows("ann") == ann


def test_nothing_is_left_of_flows_that_are_removed(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    shop.submit(workspace, "bob", totals("bob", changes=True))
    workspace.wait()
    workspace.remove("ann", purge=True)
    workspace.remove("bob")
    view = workspace.show()
    assert (view.flows, view.operators, dict(view.segments)) == ((), 0, {})
    assert {one for one in files_of(shop.home / "workspace") if not one.startswith("workspace.db")} == set()
    assert not (shop.home / "ann").exists()
    assert (shop.home / "bob").exists()


def test_a_flow_that_is_accepted_starts_behind_the_answer(
    shop: Shop, open_workspace: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may share what has not started yet, and flows may go before they have started."""
    workspace, may_open = open_workspace(), threading.Event()
    opened = SegmentHost._opened

    def slow(host: SegmentHost, hosted: Any) -> Any:
        assert may_open.wait(60)
        return opened(host, hosted)

    monkeypatch.setattr(SegmentHost, "_opened", slow)
    started = list[str | None]()
    workspace.starts.watch = started.append
    shop.submit(workspace, "ann", wait=False)
    assert shop.submit(workspace, "bob", totals("bob", changes=True), wait=False) == 0
    shop.submit(workspace, "carl", totals("carl", size=120), wait=False)
    workspace.remove("carl", wait=False)
    view = workspace.show()
    assert [(one.name, one.state) for one in view.flows] == [("ann", "starting"), ("bob", "starting")]
    assert view["ann"].shared == view["ann"].operators - 1
    may_open.set()
    workspace.wait()
    assert {one.state for one in workspace.show().flows} == {"running"}
    assert started[:2] == ["ann", None]
    shop.come(600)
    workspace.remove("bob", drain=True)
    workspace.remove("ann", drain=True)
    assert shop.rows("ann") == answer(shop.clicks)
    assert shop.rows("bob") == answer(shop.clicks, changes=True)
    assert {one for one in files_of(shop.home / "workspace") if not one.startswith("workspace.db")} == set()


def test_an_output_has_one_writer_at_a_time(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """A flow that is removed without a wait may still write when the next one of its name is accepted."""
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    host = workspace._reconciler.host
    for wait in (False, True, False):
        workspace.wait()
        sink = workspace._reconciler.segments_of("ann")[-1]
        writer = host.segments[sink].running
        assert writer is not None
        workspace.remove("ann", wait=False)
        shop.submit(workspace, "ann", backfill=True, wait=wait)
        if not wait:
            workspace.wait()
        assert writer.wait(0)
        assert not host.is_leaving(sink)


def test_what_an_accepted_flow_fails_of_is_shown(
    shop: Shop, open_workspace: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, opened = open_workspace(), SegmentHost._opened

    def broken(host: SegmentHost, hosted: Any) -> Any:
        if not hosted.segment.sends and hosted.launch.flow == "ann":
            raise RunError("TT209", "it cannot be written", fix="")
        return opened(host, hosted)

    monkeypatch.setattr(SegmentHost, "_opened", broken)
    shop.submit(workspace, "ann", wait=False)
    shop.submit(workspace, "bob", wait=False)
    with pytest.raises(RunError, match="TT209"):
        workspace.wait("ann", 60)
    view = workspace.show()
    assert view["ann"].state == "failed"
    assert "TT209" in (view["ann"].error or "")
    workspace.wait("bob")
    workspace.remove("ann", wait=False)
    assert [one.name for one in workspace.show().flows] == ["bob"]


@attrs.frozen
class Exits(OpKeyedOrdered[str, int, int, int]):
    """It raises what ends a program, before it has seen a row."""

    def initial_state(self) -> int:
        raise SystemExit(3)

    def on_item(self, state: int, key: str, value: int, emit: EmitValue[int]) -> int:
        return state


def test_an_operator_that_exits_at_its_start_fails_alone(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    flow = Dataflow("exits")
    how = every(seconds=60, time=lambda click: click.ts)
    clicks = flow.source("clicks", U[str, Click], key=lambda click: click.user, markers=how)
    amounts = clicks.through(map_values(lambda click: click.amount, to=int)).through(sort(by=lambda amount: amount))
    flow.sink("totals", amounts.through(Exits()))
    for number in range(2):
        workspace = open_workspace()
        if number == 0:
            shop.submit(workspace, "ann", flow, wait=False)
        name = ("bob", "carl")[number]
        shop.submit(workspace, name, totals(name), wait=False)
        workspace.wait(name, 60)
        while (ann := workspace.show()["ann"]).state == "starting":
            time.sleep(0.01)
        assert ann.state in ("failed", "held")
        assert "SystemExit" in str(ann.error)
        segment = workspace._reconciler.segments_of("ann")[1]
        workspace._reconciler.host._supervisor._segments[segment].due = 0  # it starts again now
        workspace._reconciler.host.look()
        workspace.wait(name, 60)
        workspace.close()


def test_what_is_removed_while_it_is_opened_is_there_until_it_is_closed(
    shop: Shop, open_workspace: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is closed by a short run, which may write. Nobody else gets its output before that is over."""
    workspace, opens, may_open, starts, may_start = open_workspace(), *(threading.Event() for _ in range(4))
    opened, start = SegmentHost._opened, LocalBackend.start

    def slow(host: SegmentHost, hosted: Any) -> Any:
        opens.set()
        assert may_open.wait(60)
        return opened(host, hosted)

    def slow_start(backend: LocalBackend, segment: Any) -> Any:
        starts.set()
        assert may_start.wait(60)
        return start(backend, segment)

    monkeypatch.setattr(SegmentHost, "_opened", slow)
    monkeypatch.setattr(LocalBackend, "start", slow_start)
    shop.submit(workspace, "ann", wait=False)
    assert opens.wait(60)
    segment = workspace._reconciler.segments_of("ann")[0]
    workspace.remove("ann", wait=False)
    may_open.set()
    assert starts.wait(60)
    workspace._reconciler.host.look()
    is_there = workspace._reconciler.host.is_leaving(segment)
    may_start.set()
    assert is_there
    workspace._until_gone([segment])
    assert {one for one in files_of(shop.home / "workspace") if not one.startswith("workspace.db")} == set()


def test_a_channel_keeps_nothing_that_all_have_read(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    for start in range(600, 3_000, 600):
        shop.come(start)
        workspace.wait()
    kept = workspace.show().kept
    assert {name: set(readers) for name, readers in kept.items()} == {"1-0": {"1-3"}, "1-3": {"1-4"}}
    assert all(size == 0 for readers in kept.values() for size in readers.values())


def test_nobody_waits_while_files_of_channels_are_looked_at(
    shop: Shop, open_workspace: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those who submit, nor the readers of a channel."""
    workspace, looks, may_end = open_workspace(), threading.Event(), threading.Event()
    shop.submit(workspace, "ann")
    kept = FileChannel.kept

    def slow(channel: FileChannel, since: int) -> Kept:
        looks.set()
        assert may_end.wait(60)
        return kept(channel, since)

    monkeypatch.setattr(FileChannel, "kept", slow)
    with ThreadPoolExecutor() as threads:
        view = threads.submit(workspace.show)
        assert looks.wait(60)
        try:
            threads.submit(shop.submit, workspace, "bob").result(30)
            shop.come(600)
            threads.submit(workspace.wait).result(30)
            assert [one.name for one in workspace.show(channels=False).flows] == ["ann", "bob"]
        finally:
            may_end.set()
        assert set(view.result(30).kept) == {"1-0", "1-3"}


def test_TT402_nobody_joins_what_has_not_started(
    shop: Shop, open_workspace: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What such a segment has sent is not known, so no marker is behind all of it."""
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    workspace.close()
    for file in shop.folder.iterdir():
        file.write_text("")  # the source refuses to go on without what it has read
    workspace = open_workspace()
    for channel in workspace._reconciler.host.channels.values():
        monkeypatch.setattr(channel, "sender", None)
    with pytest.raises(UsageError, match="TT402 an operator that the flow would read does not run: tumbling"):
        shop.submit(workspace, "bob")
    assert [one.name for one in workspace.show().flows] == ["ann"]


def test_what_has_another_version_since_the_submit_is_shown(
    shop: Shop, open_workspace: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "empty.py").touch()
    sources = Sources(files={"empty.py": tmp_path / "code" / "empty.py"}, versions={"python": "2.7"})
    monkeypatch.setattr(new_flows, "sources_of_launch", lambda launch: sources)
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.close()
    workspace = open_workspace()
    (note,) = workspace.show()["ann"].notes
    assert note.startswith("since its submit: python was 2.7, and is 3.")


def test_a_flow_is_replaced(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    view = workspace.replace(
        "ann", totals("new", least=5), {"clicks": shop.folder}, {"totals": shop.home / "new"}, backfill=True, seconds=60
    )
    assert (view.name, view.operators) == ("ann", 5)
    assert [one.name for one in workspace.show().flows] == ["ann"]
    shop.come(600)
    workspace.wait()
    workspace.remove("ann", drain=True)
    assert shop.rows("new") == answer(shop.clicks, least=5)
    assert not any(end > 900 for end, _, _ in shop.rows("ann"))


WAITS = "has answered the blocks up to 1970-01-01 00:09:00, and waits for rows that close those up to 1970-01-01 00:10:00"

TOO_LATE = f"flow 'ann' {WAITS}, and they have not come in time; it runs on, and its successor is removed"


def test_a_flow_that_is_not_replaced_keeps_all_outputs(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """Outputs that others write, or that were there before, are not deleted with the flow that was to take over."""
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    before = shop.rows("ann")
    with pytest.raises(TimeoutError):  # the same stream into the same place: the sink is shared
        workspace.replace("ann", totals("ann"), {"clicks": shop.folder}, {"totals": shop.home / "ann"}, seconds=0)
    assert shop.rows("ann") == before != []
    (shop.home / "new").mkdir()
    (shop.home / "new" / "notes.txt").write_text("mine")
    with pytest.raises(TimeoutError):
        workspace.replace("ann", totals("new", least=5), {"clicks": shop.folder}, {"totals": shop.home / "new"}, seconds=0)
    assert (shop.home / "new" / "notes.txt").read_text() == "mine"
    workspace.remove("ann", drain=True)
    assert shop.rows("ann") == answer(shop.clicks)


def test_a_flow_takes_over_at_a_marker(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """It waits until the old flow has answered what the new one does not: up to the marker behind which that one begins."""
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    new = totals("new", least=5)
    arguments = ({"clicks": shop.folder}, {"totals": shop.home / "new"})
    before = shop.rows("ann")
    with pytest.raises(TimeoutError, match=TOO_LATE):
        workspace.replace("ann", new, *arguments, seconds=0.5)
    assert [one.name for one in workspace.show().flows] == ["ann"]
    assert (shop.rows("ann"), workspace.show()["ann"].notes) == (before, ())
    assert not (shop.home / "new").exists()
    with ThreadPoolExecutor(1) as pool:
        replaced = pool.submit(workspace.replace, "ann", new, *arguments, seconds=60)
        while not (notes := workspace.show()["ann"].notes):
            assert not replaced.done()
        assert re.fullmatch(r"ann\.\d+ is to take its place; this flow " + WAITS, notes[0])
        shop.come(600)
        view = replaced.result()
    assert view.begins is not None
    end = view.replaced["totals"]
    assert end >= view.begins
    assert view.notes == ()
    assert f"takes the place of a flow whose output 'totals' ends at {end:%Y-%m-%d %H:%M:%S}" in str(view)
    shop.come(1200)
    workspace.close()
    workspace = open_workspace()
    assert workspace.show()["ann"].replaced == view.replaced
    workspace.wait()
    workspace.remove("ann", drain=True)
    at = int(end.timestamp())
    assert [one for one in shop.rows("ann") if one[0] <= at] == [one for one in answer(shop.clicks) if one[0] <= at]
    expected = answer(shop.clicks, least=5, window=int(view.begins.timestamp()))
    assert [one for one in shop.rows("new") if one[0] > at] == [one for one in expected if one[0] > at] != []


def test_a_flow_that_shares_is_drained_with_its_open_blocks(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """The others go on with what it shares, and notice nothing."""
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    begins = shop.submit(workspace, "bob", totals("bob", changes=True), start="earliest")
    shop.submit(workspace, "cat", totals("cat"))
    workspace.wait()
    write(shop.folder, 50, [Click("u9", 899, 7)])
    workspace.remove("bob", drain=True)
    shop.clicks.append(Click("u9", 899, 7))
    assert shop.rows("bob") == answer(shop.clicks, changes=True, window=begins, change=begins)
    assert (900, "u9", 7) in shop.rows("bob")
    assert not any(end == 900 for end, _, _ in shop.rows("ann"))
    assert {one.name: one.state for one in workspace.show().flows} == {"ann": "running", "cat": "running"}
    assert not list((shop.home / "workspace" / "draining").iterdir())
    shop.come(900)
    workspace.wait()
    workspace.remove("cat", drain=True)
    workspace.remove("ann", drain=True)
    assert shop.rows("ann") == answer(shop.clicks)
    assert all(one.startswith("workspace.db") for one in files_of(shop.home / "workspace"))


def test_others_do_not_stop_for_a_drain(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """Only segments that the flow needs stop for a moment, and of those only what others need starts again."""
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    shop.submit(workspace, "bob", totals("bob", changes=True), start="earliest")
    workspace.wait()
    segments = workspace._reconciler.host.segments
    before = {name: one.running for name, one in segments.items()}
    own = {name for name, one in segments.items() if "bob" not in workspace._reconciler.flows_through(one.segment.root)}
    assert own == {"1-4"}  # Ann's sink
    workspace.remove("bob", drain=True)
    assert {name for name, one in segments.items() if one.running is before[name]} == own


def failing_at(sum_of_window: int) -> Dataflow:
    """It fails when a window with this sum closes."""

    def fail(total: int) -> int:
        assert total != sum_of_window, f"the sum is {total}"
        return total

    flow = Dataflow("failing_at")
    how = every(seconds=60, time=lambda click: click.ts)
    clicks = flow.source("clicks", U[str, Click], key=lambda click: click.user, markers=how)
    amounts = clicks.through(filter(lambda key, click: click.amount > 0)).through(map_values(lambda c: c.amount, to=int))
    sums = amounts.through(tumbling(sum(of=lambda amount: amount, to=int), size=300)).through(map_values(fail))
    flow.sink("totals", sums, marker="at")
    return flow


@pytest.mark.parametrize("shares", [False, True])
def test_a_drain_that_fails_says_so_and_keeps_the_blocks(
    shop: Shop, open_workspace: Callable[[], Workspace], *, shares: bool
) -> None:
    """Alone, the flow stays submitted. If it shares, its copy stays, and is drained again when the workspace is opened."""
    workspace = open_workspace()
    if shares:
        shop.submit(workspace, "ann", failing_at(-7777))
    shop.submit(workspace, "bob", failing_at(7777), start="earliest")
    write(shop.folder, 51, [Click("u9", 599, 7777)])
    workspace.wait()
    with pytest.raises(Exception, match="the sum is 7777"):
        workspace.remove("bob", drain=True)
    view = workspace.show()["bob"]
    assert (view.state, "the sum is 7777" in (view.error or "")) == ("draining" if shares else "failed", True)
    workspace.close()
    workspace = open_workspace()
    with pytest.raises(Exception, match="the sum is 7777"):
        workspace.wait("bob", 60)
    workspace.remove("bob", purge=True)
    assert not (shop.home / "bob").exists()
    assert [one.name for one in workspace.show().flows] == (["ann"] if shares else [])
    assert not list((shop.home / "workspace").glob("draining/*"))


def test_TT209_a_drain_without_room_leaves_the_flow(
    shop: Shop, open_workspace: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    shop.submit(workspace, "bob", totals("bob"), start="earliest")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(DrainCopies, "_copy", full)
        with pytest.raises(RunError, match=r"TT209 the states that flow 'bob' shares cannot be copied: .*No space left"):
            workspace.remove("bob", drain=True)
    workspace.wait()
    assert {one.state for one in workspace.show().flows} == {"running"}
    workspace.remove("bob", drain=True)
    assert shop.rows("bob") == answer(shop.clicks)


def test_flows_that_an_earlier_version_stopped_are_shown(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    (shop.home / "workspace").mkdir()
    write_json(shop.home / "workspace" / "stopped.json", {"flows": {"old": "flow 'old' was stopped"}})
    workspace = open_workspace()
    assert (workspace.show()["old"].error or "").startswith("TT232 flow 'old' was stopped\n    fix:      mend")
    workspace.remove("old")
    assert not (shop.home / "workspace" / "stopped.json").exists()


def test_a_drain_that_takes_longer_goes_on(
    shop: Shop, open_workspace: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown, waited for, and goes on when the workspace is opened again."""
    may_go_on = threading.Event()
    restore = Reconciler.restore

    def later(self: Reconciler, **options: bool) -> None:
        if options:
            may_go_on.wait(0.5)
        restore(self, **options)

    monkeypatch.setattr(Reconciler, "restore", later)
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    shop.submit(workspace, "bob", totals("bob"), start="earliest")
    workspace.wait()
    with pytest.raises(TimeoutError, match="the drain of 'bob' is not over"):
        workspace.remove("bob", drain=True, seconds=0.4)
    assert {one.name: one.state for one in workspace.show().flows} == {"ann": "running", "bob": "draining"}
    with pytest.raises(UsageError, match="TT402 flow 'bob' is being drained"):
        shop.submit(workspace, "bob", totals("bob"))
    workspace.close()
    workspace = open_workspace()
    assert workspace.show()["bob"].state == "draining"
    may_go_on.set()
    workspace.wait("bob")
    assert [one.name for one in workspace.show().flows] == ["ann"]
    assert shop.rows("bob") == answer(shop.clicks)
    workspace.remove("ann")


def test_TT217_a_flow_with_too_many_late_or_rejected_rows_stops_alone(
    shop: Shop, open_workspace: Callable[[], Workspace]
) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann", max_late=1)
    workspace.wait()
    write(shop.folder, 50, [Click("u1", 10, 1)])
    workspace.wait()
    shop.submit(workspace, "bob", totals("bob", least=1), max_rejects=0)
    shop.submit(workspace, "cat", totals("cat", least=2), max_late=0.5, max_rejects=1)
    write(shop.folder, 51, [Click("u2", 20, 1)])
    (shop.folder / ".52").write_text('{"user": "u3", "ts": "soon", "amount": 1}\n')
    (shop.folder / ".52").rename(shop.folder / "0052.jsonl")
    workspace.wait("cat")
    with pytest.raises(RunError, match="TT217 flow 'ann' was stopped: 2 rows were late"):
        workspace.wait("ann")
    with pytest.raises(RunError, match=r"TT217 flow 'bob' was stopped: 1 row was rejected \(clicks 1\), and at most 0 may be"):
        workspace.wait("bob")
    workspace.close()
    workspace = open_workspace()
    assert {one.name: one.state for one in workspace.show().flows} == {"ann": "stopped", "bob": "stopped", "cat": "running"}
    assert (shop.home / "ann" / "_late" / "clicks").exists()
    for options in ({"max_late": -1}, {"max_late": 1.5}, {"max_rejects": 0.5}, {"max_rejects": True}):
        with pytest.raises(UsageError, match=f"TT402 {next(iter(options))} is "):
            shop.submit(workspace, "dan", **options)


def test_who_fails_stops_nobody_else(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    shop.submit(workspace, "bob", failing())
    shop.come(600)
    workspace.wait("ann")
    with pytest.raises(Exception, match="division"):
        workspace.wait("bob", 30)
    view = workspace.show()
    assert view["ann"].state == "running"
    assert view["bob"].state == "failed"
    assert "division" in (view["bob"].error or "")
    workspace.remove("bob")
    shop.come(1200)
    workspace.wait()
    workspace.remove("ann", drain=True)
    assert shop.rows("ann") == answer(shop.clicks)


def test_TT232_a_flow_that_does_not_read_on_is_stopped(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "SELDOM", 0.0)
    with Workspace(shop.home / "workspace", most_kept=20_000) as workspace:
        shop.submit(workspace, "ann")
        workspace.wait()
        shop.submit(workspace, "bob", failing())
        until = time.monotonic() + 60
        while workspace.show()["bob"].state != "stopped":
            shop.come(600 * shop.files)
            workspace.wait("ann")
            assert time.monotonic() < until
        error = workspace.show()["bob"].error or ""
        assert re.match(
            r"TT232 flow 'bob' was stopped: sink 'totals' has not read [\d,]+ bytes, and at most 20,000 are kept\. It failed",
            error,
        )
        while {reader for readers in workspace.show().kept.values() for reader in readers} != {"1-3", "1-4"}:
            assert time.monotonic() < until
        assert list(workspace.show().segments) == ["1-0", "1-3", "1-4"]
    with Workspace(shop.home / "workspace") as workspace:
        assert workspace.show()["bob"].error == error
        with pytest.raises(RunError, match="TT232 flow 'bob' was stopped"):
            workspace.wait("bob")
        assert (shop.home / "bob").exists()
        workspace.remove("bob", purge=True)
        assert not (shop.home / "bob").exists()
        assert not (shop.home / "workspace" / "stopped.json").exists()
        shop.submit(workspace, "bob", totals("bob"), backfill=True)
        workspace.wait()
        assert workspace.show()["bob"].state == "running"
        assert shop.rows("bob") == shop.rows("ann") != []


def test_late_and_rejected_rows_are_in_the_outputs_of_all_flows(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    write(shop.folder, 50, [Click("u1", 10, 1)])
    workspace.wait()
    shop.submit(workspace, "bob", totals("bob", changes=True))
    write(shop.folder, 51, [Click("u2", 20, 1)])
    (shop.folder / ".52").write_text('{"user": "u3", "ts": "soon", "amount": 1}\n')
    (shop.folder / ".52").rename(shop.folder / "0052.jsonl")
    workspace.wait()

    def users(name: str, kind: str) -> list[str]:
        files = sorted((shop.home / name / f"_{kind}" / "clicks").glob("*.jsonl"))
        return sorted({user for file in files for user in re.findall(r"u\d", file.read_text())})

    assert (users("ann", "late"), users("bob", "late")) == (["u1", "u2"], ["u2"])
    assert users("ann", "rejects") == users("bob", "rejects") == ["u3"]
    view = workspace.show()["bob"]
    assert (view.rows, dict(view.late), dict(view.rejects)) == (2, {"clicks": 1}, {"clicks": 1})
    workspace.close()
    workspace = open_workspace()
    workspace.wait()
    assert users("ann", "late") == ["u1", "u2"]


def test_a_gate_in_a_workspace(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """What it holds is there when the workspace is open_workspace again."""
    flow = Dataflow("gated")
    how = every(seconds=60, time=lambda click: click.ts)
    clicks = flow.source("clicks", U[str, Click], key=lambda click: click.user, markers=how)
    amounts = clicks.through(map_values(lambda click: click.amount, to=int)).gate(sequence(10_000))
    flow.sink("totals", amounts.through(aggregate(sum(to=int))), marker="at")
    workspace = open_workspace()
    shop.submit(workspace, "ann", flow)
    workspace.wait()
    assert not shop.rows("ann")
    workspace.close()
    workspace = open_workspace()
    shop.come(600)
    workspace.wait()
    workspace.remove("ann", drain=True)
    found = shop.rows("ann")
    assert {end for end, _, _ in found} == {1_200}
    assert builtin_sum(value for _, _, value in found) == builtin_sum(one.amount for one in shop.clicks)


def test_a_restart_runs_the_copy_of_the_code(
    shop: Shop, open_workspace: Callable[[], Workspace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_flows, "sources_of_launch", sources_of_launch)
    code = tmp_path / "code"
    code.mkdir()
    source = (Path(__file__).parent / "clicks.py").read_text()
    (code / "shop_of_ann.py").write_text(source)
    monkeypatch.syspath_prepend(str(code))
    import shop_of_ann  # type: ignore[import-not-found]

    workspace = open_workspace()
    shop.submit(workspace, "ann", shop_of_ann.totals("ann", changes=True))
    workspace.wait()
    workspace.close()
    (code / "shop_of_ann.py").write_text("raise RuntimeError")
    with pytest.raises(UsageError, match=r"TT402 flow 'ann' runs the module 'shop_of_ann' that it was submitted with, and this"):
        open_workspace()
    for name in [name for name in sys.modules if name == "shop_of_ann"]:
        del sys.modules[name]
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(code)])
    shop.come(600)
    workspace = open_workspace()
    workspace.wait()
    copy = sys.modules["shop_of_ann"].__file__
    assert copy is not None
    assert Path(copy).is_relative_to(shop.home / "workspace" / "code")
    (code / "shop_of_ann.py").write_text(source + "\n# changed\n")
    spec = importlib.util.spec_from_file_location("shop_of_ann", code / "shop_of_ann.py")
    assert spec is not None
    assert spec.loader is not None
    changed = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "shop_of_ann", changed)
        spec.loader.exec_module(changed)
        with pytest.raises(UsageError, match=r"TT402 .*shop_of_ann.py is other code than that of flow 'ann', which runs"):
            shop.submit(workspace, "bob", changed.totals("bob"))
    workspace.remove("ann", drain=True)
    assert shop.rows("ann") == answer(shop.clicks, changes=True)


def test_TT402_what_a_workspace_refuses(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    inputs = {"clicks": shop.folder}

    def refused(match: str, name: str = "bob", **changes: Any) -> None:
        given: dict[str, Any] = {"flow": totals("bob"), "inputs": inputs, "outputs": {"totals": shop.home / "bob"}} | changes
        with pytest.raises(UsageError, match=match):
            workspace.submit(name, **given)
        assert [one.name for one in workspace.show().flows] == ["ann"]

    refused("TT402 there is a flow 'ann' already", name="ann")
    refused("TT402 the name of a flow is 'a b'", name="a b")
    refused(
        "TT402 the output of sink 'totals', .*, is written by flow 'ann'",
        flow=totals("bob", least=7),
        outputs={"totals": shop.home / "ann"},
    )
    refused("TT402 sink 'totals' has", outputs={"totals": []})
    refused("TT402 source 'clicks' has no address", inputs={})
    refused("TT402 there is no sink 'sums'", outputs={"sums": "x", "totals": shop.home / "bob"})
    refused("TT402 start is 'yesterday'", start="yesterday")
    refused("TT402 share is 'all'", share="all")
    with pytest.raises(UsageError, match=r"TT402 there is no flow 'bob'\n.*the flows are: ann"):
        workspace.remove("bob")
    with pytest.raises(RunError, match=r"TT221 the workspace .* is in use"):
        Workspace(shop.home / "workspace")
    with pytest.raises(CheckFailed):
        workspace.submit("bob", Dataflow("nothing"), {}, {})
    workspace.close()
    with pytest.raises(UsageError, match=r"TT402 the workspace .* is closed"):
        workspace.show()
    with pytest.raises(UsageError, match="TT402 backend is 'flink'"):
        Workspace(shop.home / "other", backend="flink")  # type: ignore[arg-type]


def test_TT402_a_full_disk_takes_no_flow(shop: Shop) -> None:
    with Workspace(shop.home / "workspace", floor=1 << 60) as workspace, pytest.raises(UsageError, match="TT402 the disk of"):
        shop.submit(workspace, "ann")


def test_the_merged_graph_is_shown(shop: Shop, open_workspace: Callable[[], Workspace]) -> None:
    """A box for each operator, with the flows that need it. Boxes stay where they are when flows come and go."""
    workspace = open_workspace()
    shop.submit(workspace, "ann")
    workspace.wait()
    before = workspace.show()
    shop.submit(workspace, "bob", totals("bob", changes=True))
    workspace.wait()
    view = workspace.show()
    by_title = {one.title: one for one in view.graph}
    assert [one.title for one in view.graph[:5]] == ["source 'clicks'", "filter", "map_values", "tumbling", "sink 'totals'"]
    assert (by_title["tumbling"].flows, by_title["Change"].flows) == (("ann", "bob"), ("bob",))
    (above,) = (one for one in view.graph if one.name in by_title["Change"].inputs)
    assert (above.title.lower()[:4], above.inputs) == ("sort", (by_title["tumbling"].name,))
    assert (by_title["filter"].state, by_title["tumbling"].state) == (None, "running")
    assert by_title["source 'clicks'"].written == len(shop.clicks)

    def boxes(svg: str) -> dict[str, str]:
        return dict(re.findall(r'data-piece="box ([^"]+)".*?(x="\d+" y="\d+")', svg, re.DOTALL))

    first, second = boxes(before.svg), boxes(view.svg)
    assert (len(first), len(second)) == (5, 8)
    assert first.items() <= second.items()
    assert 'aria-label="8 operators"' in view._repr_html_()
    workspace.remove("ann")
    third = boxes(workspace.show().svg)
    assert len(third) == 7
    assert third.items() <= second.items()
    ElementTree.fromstring(view.svg)
    assert (view["ann"].seconds > 0, view["ann"].saved > 0, before["ann"].saved) == (True, True, 0.0)


def test_a_workspace_without_flows_stays(shop: Shop) -> None:
    with Workspace(shop.home / "workspace") as workspace:
        workspace.wait()
        assert str(workspace.show()) == "0 flows with 0 operators; 0 run"
    assert os.path.exists(shop.home / "workspace" / "workspace.db")
