"""What a run has read is freed at once: nothing large waits until Python looks for cycles. Epochs leave nothing, and what they
have freed goes back to the system."""

from __future__ import annotations

import gc
import os
import platform
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.local.leftovers import EPOCHS, watch_epochs
from tracetypes import Dataflow, Emit, OpStateless, U, every, run
from tracetypes.compiler.local import heap
from tracetypes.compiler.local.placement import has_gil
from tracetypes.compiler.runtime.chunks import Arrays, Chunk, PlacedChunk
from tracetypes.compiler.runtime.flows import Flow
from tracetypes.compiler.runtime.messages import Items
from tracetypes.formats import Format, JsonLines, Parquet
from tracetypes.stdlib import aggregate, count

LARGE = (Arrays, Chunk, PlacedChunk, Flow, Items)


@attrs.frozen
class Event:
    page: str
    value: int
    ts: int


@attrs.frozen
class Odd(OpStateless[str, Event, str, Event]):
    def on_item(self, key: str, value: Event, emit: Emit[str, Event]) -> None:
        if value.value % 2:
            emit(key, value)


@attrs.frozen
class Hidden(OpStateless[str, Event, str, Event]):
    """The same by Python that nobody looks into."""

    def on_item(self, key: str, value: Event, emit: Emit[str, Event]) -> None:
        if int(str(value.value)) % 2:
            emit(key, value)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("op", [Odd(), Hidden()], ids=["columns", "Python"])
@pytest.mark.parametrize("format", [Parquet(), JsonLines()], ids=["Parquet", "JSON"])
def test_rows_are_freed_at_once(
    tmp_path: Path, format: Format, op: OpStateless[str, Event, str, Event], parallelism: int
) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    for file in range(3):
        times = [file * 100 + n for n in range(100)]
        if isinstance(format, Parquet):
            table = pa.table({"page": [f"p{n % 7}" for n in times], "value": times, "ts": times})
            pq.write_table(table, rows / f"{file}.parquet")
        else:
            lines = "".join(f'{{"page": "p{n % 7}", "value": {n}, "ts": {n}}}\n' for n in times)
            (rows / f"{file}.jsonl").write_text(lines)
    flow = Dataflow("pages")
    times_of = every(seconds=50, time=lambda event: event.ts)
    events = flow.source("in", U[str, Event], key=lambda event: event.page, markers=times_of, format=format)
    flow.sink("items", events.through(op))
    flow.sink("counts", events.through(op).through(aggregate(count())))
    items: list[object] = []
    run(flow, {"in": str(rows)}, {"items": items, "counts": tmp_path / "counts"}, backend="local", parallelism=parallelism)
    assert len(items) == 150
    assert [type(one).__name__ for one in gc.get_objects() if type(one) in LARGE] == []


@pytest.mark.parametrize("parallelism", [1, 2])
def test_an_epoch_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallelism: int) -> None:
    ended = threading.Semaphore(1)
    leftovers = watch_epochs(monkeypatch, ended.release)

    def events() -> Iterator[Event]:
        for number in range(EPOCHS):
            ended.acquire()  # so that each row is an epoch
            yield Event(f"p{number % 7}", number, number)

    flow = Dataflow("pages")
    stream = flow.source("in", U[str, Event], key=lambda event: event.page, markers=every(seconds=5, time=lambda event: event.ts))
    flow.sink("counts", stream.through(Odd()).through(aggregate(count())))
    run(flow, {"in": events()}, {"counts": tmp_path / "counts"}, backend="local", parallelism=parallelism)
    # With several threads, one of them may make its kernels in between. Without a GIL Python frees some objects later.
    assert leftovers.of_an_epoch < (0.5 if parallelism == 1 and has_gil() else 5.0)


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc" or not has_gil(), reason="Python has another allocator"
)
def test_freed_memory_goes_back() -> None:
    pieces = [bytearray(1_000) for _ in range(60_000)]
    held = pieces[::300]  # nearly nothing, but everywhere
    pieces.clear()
    before = resident()
    heap.give_back()
    assert resident() < before - 30e6
    assert len(held) == 200


def test_memory_is_given_back_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now, times = [100.0], list[float]()
    monkeypatch.setattr(heap, "give_back", lambda: times.append(now[0]))
    freed = heap.FreedMemory(lambda: now[0])
    for now[0], worked in [(110.0, False), (111.0, True), (112.0, True), (120.0, True), (121.0, True), (131.0, False)]:
        if worked:
            freed.used()
        freed.look()
    assert times == [111.0, 121.0]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_run_gives_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallelism: int) -> None:
    given = list[int]()
    monkeypatch.setattr(heap, "PERIOD", 0.0)
    monkeypatch.setattr(heap, "give_back", lambda: given.append(1))
    flow = Dataflow("pages")
    stream = flow.source("in", U[str, Event], key=lambda event: event.page, markers=every(seconds=5, time=lambda event: event.ts))
    flow.sink("counts", stream.through(aggregate(count())))
    run(flow, {"in": [Event("p", n, n) for n in range(20)]}, {"counts": []}, backend="local", parallelism=parallelism)
    assert given
