"""What a channel keeps: everything that a reader has not committed, or somebody has pinned."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.store.channel import Kept
from tracetypes.compiler.store.file_channel import FileChannel
from tracetypes.compiler.store.places import on_disk


class Log:
    """What a segment has committed of the channel, for each time that it reads it."""

    def __init__(self, *places: int) -> None:
        self.places = list(places)


class Reader:
    """A channel that notes before which place its entries were removed."""

    def __init__(self) -> None:
        self.removed = 0
        self.channel = self

    def places(self, log: Log) -> list[int]:
        return log.places

    def remove(self, before: int) -> None:
        self.removed = max(self.removed, before)


def sender(ended: int) -> Any:
    return SimpleNamespace(log=SimpleNamespace(ended=ended, begun=ended))


def test_readers_come_and_go() -> None:
    reader = Reader()
    kept = ChannelRetention(reader, sender(9))
    slow: Any = Log(2)
    fast: Any = Log(7)
    kept.join("slow", slow)
    kept.join("fast", fast)
    kept.clean()
    assert (reader.removed, kept.readers) == (2, ("slow", "fast"))
    kept.leave("slow")
    kept.clean()
    assert (reader.removed, kept.readers) == (7, ("fast",))
    kept.leave("fast")
    kept.leave("fast")
    kept.clean()
    assert reader.removed == 10  # nobody reads what was sent


def test_a_pin_keeps_what_a_reader_needs_that_has_not_joined() -> None:
    reader = Reader()
    kept = ChannelRetention(reader, sender(9))
    kept.pin("new", 4)
    kept.clean()
    assert reader.removed == 4
    new: Any = Log(6)
    kept.join("new", new)
    kept.clean()
    assert reader.removed == 6


def test_a_reader_that_reads_twice_needs_all_until_both_have_begun() -> None:
    reader = Reader()
    kept = ChannelRetention(reader, sender(9))
    log: Any = Log(5)
    kept.join("twice", log, 2)
    kept.clean()
    assert reader.removed == 0
    log.places.append(3)
    kept.clean()
    assert reader.removed == 3


def test_a_channel_without_sender_and_readers_keeps_all() -> None:
    reader = Reader()
    ChannelRetention(reader).clean()
    assert reader.removed == 0


def test_what_a_channel_keeps_for_each_reader(tmp_path: Path) -> None:
    channel = FileChannel("counts", tmp_path / "counts")
    for number, size in ((1, 10), (2, 20), (3, 40)):
        (on_disk(channel.rows) / f"{number:08d}-0000.parquet").write_bytes(bytes(size))
        (on_disk(channel.manifests) / f"{number:08d}.jsonl").write_bytes(bytes(5))
        os.utime(on_disk(channel.manifests) / f"{number:08d}.jsonl", (0, 1000 * number))
    kept = ChannelRetention(SimpleNamespace(channel=channel, places=lambda log: log.places), sender(3))
    slow: Any = Log(2)
    ready: Any = Log(4)
    kept.join("slow", slow)
    kept.join("ready", ready)
    kept.pin("new", 3)
    assert kept.kept_for() == {"slow": Kept(70, 2000), "ready": Kept(0, None), "new": Kept(45, 3000)}
    kept.clean()
    slow.places[0] = 3
    kept.clean()
    assert kept.kept_for() == {"slow": Kept(45, 3000), "ready": Kept(0, None), "new": Kept(45, 3000)}
    assert sorted(os.listdir(on_disk(channel.rows))) == ["00000003-0000.parquet"]


NAMES = st.sampled_from("abc")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), NAMES, st.integers(0, 9)),
        st.tuples(st.just("pin"), NAMES, st.integers(0, 9)),
        st.tuples(st.sampled_from(["leave", "commit"]), NAMES, st.integers(1, 3)),
    ),
    max_size=some(20),
)


@given(STEPS)
def test_nothing_is_removed_that_somebody_needs(steps: list[tuple[str, str, int]]) -> None:
    """A reader joins at or behind its own pin, and at or behind what was removed: as an attachment does."""
    reader = Reader()
    kept = ChannelRetention(reader, sender(20))
    needs: dict[str, int] = {}
    logs: dict[str, Any] = {}
    for step, name, place in steps:
        place = max(place, reader.removed) if step in ("join", "pin") else place
        if step == "join" and name not in logs:
            logs[name] = Log(needs.get(name, place))
            kept.join(name, logs[name])
            needs[name] = logs[name].places[0]
        elif step == "pin" and name not in logs:
            kept.pin(name, place)
            needs[name] = place
        elif step == "commit" and name in logs:
            logs[name].places[0] += place
            needs[name] += place
        elif step == "leave":
            kept.leave(name)
            needs.pop(name, None)
            logs.pop(name, None)
        kept.clean()
        assert all(reader.removed <= need for need in needs.values())
        assert reader.removed >= min([*needs.values(), 21])


def test_a_channel_that_is_removed_keeps_nothing(tmp_path: Path) -> None:
    """A workspace removes channels in one thread and asks what they keep in another."""
    channel = FileChannel("c", tmp_path / "c")
    (on_disk(channel.rows) / "00000003-0000.parquet").write_bytes(b"1234")
    assert channel.kept(0).size == 4
    shutil.rmtree(on_disk(channel.path))
    assert channel.kept(0) == Kept(0, None)
