"""What a run has read is freed at once: nothing large waits until Python looks for cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracetypes import Dataflow, Emit, OpStateless, U, every, run
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
