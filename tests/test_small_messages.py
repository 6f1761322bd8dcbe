"""Odd inputs and settings, each with a message that says what is wrong and what to do."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import tracetypes
from tracetypes import Dataflow, RunError, U, UsageError, every
from tracetypes.cli import epoch_lines
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.columns.batches import END, POSITION
from tracetypes.compiler.connectors.files import files_of, state_of, walk
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.mqtt import MqttAddress
from tracetypes.compiler.connectors.sink_files import VisibleColumns
from tracetypes.compiler.connectors.socket_address import SocketAddress
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.state import StageState, items_waiting
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.topic_channel import Topics
from tracetypes.progress import Progress
from tracetypes.stdlib import interval_join


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (SocketAddress.of, "tcp://[::1"),
        (SocketAddress.of, "tcp-listen://::1]:9"),
        (Address.of, "kafka://[::1/topic"),
        (MqttAddress.of, "mqtt://[::1/topic?client=a"),
        (Topics.of, "kafka://[::1"),
    ],
)
def test_TT402_an_address_that_cannot_be_taken_apart(of: Any, text: str) -> None:
    with pytest.raises(UsageError, match=r"TT402 .*is no (address|place)"):
        of(text)


def test_TT208_a_file_name_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9.jsonl"), "wb") as file:
        file.write(b'{"n": 1}\n')
    with pytest.raises(RunError, match=r"TT208 .*caf\\xe9.jsonl cannot be read: its name is not UTF-8"):
        files_of("rows", str(tmp_path))
    with pytest.raises(RunError, match=r"TT208 .*caf\\xe9.jsonl cannot be read: its name is not UTF-8"):
        deque(walk(str(tmp_path)), maxlen=0)


def test_TT208_a_symbolic_link_to_itself_is_to_be_removed(tmp_path: Path) -> None:
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    with pytest.raises(RunError, match="TT208") as caught:
        state_of(str(tmp_path / "loop.jsonl"))
    assert caught.value.fix == "remove the symbolic link, which leads to itself"


@attrs.frozen
class Row:
    ts: int


def flow_of(marker: str | None = None) -> Dataflow:
    flow = Dataflow("small")
    rows = flow.source("rows", U[str, Row], key=lambda r: "k", markers=every(seconds=10, time=lambda r: r.ts))
    flow.sink("out", rows, marker=marker)
    return flow


@pytest.mark.parametrize("micros", [-(10**17), 10**18])
def test_TT209_a_marker_outside_the_years_of_a_time(micros: int) -> None:
    planned = plan(tracetypes.check(flow_of("closed")))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["k"]), pa.array([1], pa.int64()), pa.array([micros], pa.int64()), pa.array([0], pa.int64())],
        names=["key", "ts", END, POSITION],
    )
    with pytest.raises(RunError, match=r"TT209 the column 'closed' cannot hold a marker -?\d+ us after 1970") as caught:
        VisibleColumns(planned.layout, planned.sink).of(batch)
    assert "every(..., unit=" in caught.value.fix
    ends = pa.array([10_000_000], pa.int64())
    assert VisibleColumns(planned.layout, planned.sink).of(batch.set_column(2, END, ends)).num_columns == 3


def test_TT121_the_bounds_of_an_interval_have_their_signs() -> None:
    flow, markers = Dataflow("near"), every(seconds=10, time=lambda time: time)
    left, right = (flow.source(name, U[str, int], markers=markers) for name in ("left", "right"))
    with pytest.raises(UsageError, match=r"no time lies within \[\+1 s, \+0 s\]"):
        interval_join(left, right, before=-1, after=0, left_time=lambda time: time, right_time=lambda time: time)


def test_items_that_wait_in_open_blocks_are_counted() -> None:
    ends = pa.array([10, 20], pa.int64())
    blocks = {10: (["a", "b"], [1, 2]), 20: [((0,), "a", 1)], 30: {"a": 5}}
    assert items_waiting(StageState([], open_blocks=blocks, tables=[(ends, None, None)])) == 5


def test_a_query_that_only_writes_says_what_it_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    tell = epoch_lines(Progress(quiet=False), compile_program(flow_of()))
    for read, written, shown in ((0, 7, "7 rows written,"), (7, 7, "7 rows,"), (0, 0, "0 rows,")):
        tell(Batch(0, read, 1, None, {}, {}, 0.5, "", written=written))
        assert shown in capsys.readouterr().err
