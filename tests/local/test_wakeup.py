"""Segments that follow their inputs sleep until something comes, and wake when it does."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import tracetypes
from tracetypes import Dataflow, U, every, json_lines
from tracetypes.compiler.backend.control import Bell
from tracetypes.compiler.local import folder_watch
from tracetypes.compiler.local.channels import ManifestSplits
from tracetypes.compiler.local.folder_watch import FolderWatch
from tracetypes.compiler.local.segment import LocalSegment
from tracetypes.compiler.local.wakeup import ASLEEP, LONGEST, SHORTEST, Wakeup
from tracetypes.stdlib import aggregate, count, map_values

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says that a folder has changed")

PATIENCE = 20.0
"""Seconds after which something has not happened. Nothing waits so long if all is well."""


@attrs.frozen
class Row:
    ts: int
    value: int


def put(folder: Path, name: str, *times: int) -> None:
    """Move a file of rows into a folder."""
    (folder / ".part").write_text("".join(json.dumps({"key": "a", "ts": ts, "value": 1}) + "\n" for ts in times))
    (folder / ".part").rename(folder / name)


def soon(holds: Callable[[], bool]) -> bool:
    """Whether something becomes true."""
    until = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < until:
        time.sleep(0.002)
    return holds()


# ------------------------------------------------------------------------------------------------------ how long


class Slept(threading.Event):
    """Notes for how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        return self.is_set()


@pytest.mark.parametrize(
    ("idle", "is_woken", "rest", "seconds"),
    [
        (0.0, False, 0.0, SHORTEST),
        (0.5, False, 0.0, 0.05),
        (60.0, False, 0.0, LONGEST),
        (0.0, True, 0.0, SHORTEST),
        (4.0, True, 0.0, 2.0),
        (60.0, True, 0.0, ASLEEP),
        (60.0, True, 0.25, 0.25),
    ],
)
def test_how_long_a_segment_sleeps(idle: float, is_woken: bool, rest: float, seconds: float) -> None:
    now, news = [10.0], Slept()
    wakeup = Wakeup(news, lambda: now[0])
    wakeup.worked()
    now[0] += idle
    wakeup.wait(is_woken=is_woken, rest=rest)
    assert news.seconds == [pytest.approx(seconds)]


def test_what_came_since_the_look_is_not_slept_over() -> None:
    news = threading.Event()
    wakeup = Wakeup(news, lambda: 0.0)
    news.set()
    wakeup.look()
    assert not news.is_set()
    news.set()  # while the segment looks
    wakeup.wait(is_woken=True)
    assert news.is_set()


def test_a_bell_that_was_rung_is_heard_once() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    bell.wait(PATIENCE)
    bell.wait(0.001)  # it was rung twice before the first wait, and there is nothing left to hear


# ------------------------------------------------------------------------------------------------------- folders


@linux
def test_changes_of_a_folder_are_heard(tmp_path: Path) -> None:
    watch, bell = FolderWatch(), threading.Event()
    (tmp_path / "old").mkdir()
    watch.watch(str(tmp_path), bell)
    assert watch.hears(bell)

    def heard(change: Callable[[], Any]) -> bool:
        bell.clear()
        change()
        return bell.wait(PATIENCE)

    assert heard(lambda: put(tmp_path, "a", 1))
    assert heard(lambda: put(tmp_path / "old", "a", 1))
    assert heard((tmp_path / "old" / "a").touch)
    assert heard((tmp_path / "new").mkdir)
    assert soon(lambda: str(tmp_path / "new") in watch._folders.values())
    assert heard(lambda: put(tmp_path / "new", "a", 1))
    (tmp_path.parent / f"{tmp_path.name}-else" / "below").mkdir(parents=True)
    assert heard(lambda: (tmp_path.parent / f"{tmp_path.name}-else").rename(tmp_path / "moved"))
    assert soon(lambda: str(tmp_path / "moved" / "below") in watch._folders.values())
    assert heard(lambda: put(tmp_path / "moved" / "below", "a", 1))
    assert watch.hears(bell)


@linux
def test_a_file_that_grows_is_heard(tmp_path: Path) -> None:
    watch, bell = FolderWatch(), threading.Event()
    put(tmp_path, "a", 1)
    watch.watch(str(tmp_path / "a"), bell)
    with (tmp_path / "a").open("a") as file:
        file.write("more\n")
    assert bell.wait(PATIENCE)
    assert watch.hears(bell)


@linux
def test_two_who_watch_one_folder(tmp_path: Path) -> None:
    watch, first, second = FolderWatch(), threading.Event(), threading.Event()
    watch.watch(str(tmp_path), first)
    watch.watch(str(tmp_path), second)
    put(tmp_path, "a", 1)
    assert first.wait(PATIENCE)
    assert second.wait(PATIENCE)
    watch.leave(first)
    assert len(watch._folders) == 1
    second.clear()
    put(tmp_path, "b", 1)
    assert second.wait(PATIENCE)
    watch.leave(second)
    assert not watch._folders
    assert not watch._bells


@linux
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_link_to_a_file_is_not_heard(tmp_path: Path, when: str) -> None:
    """Its file may change elsewhere."""
    watch, bell, folder = FolderWatch(), threading.Event(), tmp_path / "in"
    folder.mkdir()
    put(tmp_path, "a", 1)
    if when == "before":
        (folder / "a").symlink_to(tmp_path / "a")
    watch.watch(str(folder), bell)
    if when == "after":
        (folder / "a").symlink_to(tmp_path / "a")
    assert soon(lambda: not watch.hears(bell))


@linux
def test_a_folder_that_is_gone_is_not_heard(tmp_path: Path) -> None:
    watch, bell = FolderWatch(), threading.Event()
    (tmp_path / "in").mkdir()
    watch.watch(str(tmp_path / "in"), bell)
    (tmp_path / "in").rmdir()
    assert soon(lambda: not watch.hears(bell))


@linux
def test_a_folder_below_that_another_machine_writes_to_is_not_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mounted").mkdir()
    stat = os.stat

    def other_device(path: Any, **how: Any) -> Any:
        about = stat(path, **how)
        return about if not str(path).endswith("mounted") else os.stat_result((*about[:2], about.st_dev + 1, *about[3:10]))

    monkeypatch.setattr(os, "stat", other_device)
    monkeypatch.setattr(folder_watch, "_is_local", lambda path: not path.endswith("mounted"))
    watch, bell = FolderWatch(), threading.Event()
    watch.watch(str(tmp_path), bell)
    assert not watch.hears(bell)


@linux
def test_nobody_hears_when_the_system_ends_it(tmp_path: Path) -> None:
    watch, bell = FolderWatch(), threading.Event()
    watch.watch(str(tmp_path), bell)
    assert watch.hears(bell)
    broken = watch._inotify
    watch._inotify = None  # what the thread reads next
    (tmp_path / "a").touch()
    assert soon(lambda: not watch.hears(bell))
    assert bell.is_set()
    other = threading.Event()
    watch.watch(str(tmp_path), other)
    assert watch.hears(other)
    broken.close()


@pytest.mark.parametrize("why", ["another machine writes to it", "the package is missing"])
def test_what_is_not_heard_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    if why == "the package is missing":
        monkeypatch.setitem(sys.modules, "inotify_simple", None)
    else:
        monkeypatch.setattr(folder_watch, "LOCAL", frozenset())
    watch, bell = FolderWatch(), threading.Event()
    watch.watch(str(tmp_path), bell)
    assert not watch.hears(bell)
    watch.leave(bell)
    assert watch.hears(bell)


# -------------------------------------------------------------------------------------------------------- a run


@linux
def test_a_run_is_woken_by_files_and_senders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of three segments, two of which read a channel. Nobody looks by himself here."""
    monkeypatch.setattr(Wakeup, "wait", lambda self, rest=0.0, **_: self._news.wait(rest or 2 * PATIENCE))
    flow = Dataflow("sleeps")
    rows = flow.source("rows", U[str, Row], markers=every(seconds=1, time=lambda row: row.ts), format=json_lines())
    shared = rows.through(map_values(lambda row: row.value + 1, to=int)).through(aggregate(count()))
    flow.sink("plain", shared)
    flow.sink("more", shared.through(map_values(lambda n: n + 1, to=int)))
    folder, outputs = tmp_path / "in", [tmp_path / "plain", tmp_path / "more"]
    folder.mkdir()
    put(folder, "1.jsonl", 1, 2)

    def lines() -> list[int]:
        return [sum(path.read_text().count("\n") for path in output.glob("*.jsonl")) for output in outputs]

    places = {"rows": folder}, dict(zip(("plain", "more"), outputs, strict=True))
    run = tracetypes.start(flow, *places, checkpoint=tmp_path / "ck", backend="local", follow=True)
    try:
        assert soon(lambda: lines() == [1, 1])
        for number in (2, 3):
            put(folder, f"{number}.jsonl", 2 * number - 1, 2 * number)
            assert soon(lambda number=number: lines() >= [number, number])  # type: ignore[misc]
    finally:
        run.stop()
    run.wait()


def test_a_request_to_stop_is_not_slept_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes just before the segment begins to look."""
    segments: list[LocalSegment] = []
    begin, look = LocalSegment.begin, Wakeup.look

    def beginning(self: LocalSegment) -> LocalSegment:
        segments.append(self)
        return begin(self)

    def looking(self: Wakeup) -> None:
        for segment in segments:
            segment.stop()
        look(self)

    monkeypatch.setattr(LocalSegment, "begin", beginning)
    monkeypatch.setattr(Wakeup, "look", looking)
    monkeypatch.setattr(Wakeup, "wait", lambda self, **_: pytest.fail("it sleeps"))
    (tmp_path / "in").mkdir()
    flow = Dataflow("sleeps")
    rows = flow.source("rows", U[str, Row], markers=every(seconds=1, time=lambda row: row.ts), format=json_lines())
    flow.sink("out", rows.through(map_values(lambda row: row.value + 1, to=int)))
    tracetypes.start(flow, {"rows": tmp_path / "in"}, {"out": tmp_path / "out"}, backend="local", follow=True).wait()


def test_what_was_sent_may_be_seen_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a broker shows a transaction some time after it was committed. Each end of a channel is seen at the fourth look here."""
    looks: Counter[str] = Counter()
    now = ManifestSplits.end

    def later(splits: ManifestSplits, since: Any) -> Any:
        until = now(splits, since)
        looks[json.dumps([id(splits), until])] += 1
        return until if looks[json.dumps([id(splits), until])] > 3 else since

    monkeypatch.setattr(ManifestSplits, "end", later)
    flow = Dataflow("late")
    rows = flow.source("rows", U[str, Row], markers=every(seconds=1, time=lambda row: row.ts))
    shared = rows.through(map_values(lambda row: row.value + 1, to=int)).through(aggregate(count()))
    flow.sink("plain", shared)
    flow.sink("more", shared.through(map_values(lambda n: n + 1, to=int)))
    outputs: dict[str, Any] = {"plain": [], "more": []}
    tracetypes.run(flow, {"rows": [("a", Row(ts, 1)) for ts in range(3)]}, outputs, backend="local", checkpoint=tmp_path / "ck")
    assert [len(rows) for rows in outputs.values()] == [3, 3]
    assert looks
