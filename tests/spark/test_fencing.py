"""Two drivers of one run, with a copy of its checkpoint or past its locks: a topic or table takes each micro-batch from one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tests.spark import flows
from tracetypes import RunError, check
from tracetypes.compiler.connectors.delta_sink import TableSink
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.store.starts import next_start

PLAN = plan(check(flows.delayed), parallelism=1, key_groups=1)


class Driver:
    """A driver that writes to a table, as far as its checkpoint goes."""

    def __init__(self, root: Path, checkpoint: str, begun: int = -1) -> None:
        self.root = root
        (root / checkpoint).mkdir(exist_ok=True)
        self.sink = TableSink(PLAN, f"delta:{root / 'table'}", "run")
        self.sink.begin(next_start(root / checkpoint, begun))

    def answer(self, batch: int, *, asked: bool = True) -> None:
        """Commit a micro-batch of one row. ``asked``: whether it is there is asked before, as runs do."""
        if asked and self.sink.holds(batch):
            return
        file = self.root / "table" / f"part-{id(self)}-{batch}.parquet"
        pq.write_table(pa.Table.from_pylist([_row(batch)], self.sink.schema), file)
        self.sink.commit(batch, [file])


def _row(batch: int) -> dict[str, Any]:
    return dict.fromkeys(TableSink(PLAN, "delta:/none", "x").schema.names) | {"watts": batch}


def batches(root: Path) -> list[int]:
    """What is in the table."""
    return sorted(one["watts"] for one in DeltaTable(root / "table").to_pyarrow_table().to_pylist())


def test_TT209_the_older_driver_is_shut_out(tmp_path: Path) -> None:
    older = Driver(tmp_path, "checkpoint")
    older.answer(0)
    newer = Driver(tmp_path, "checkpoint", begun=0)
    with pytest.raises(RunError, match=r"^TT209 .*table is written by another driver of the same run"):
        older.answer(1, asked=False)  # it was between its question and its commit when the other one started
    with pytest.raises(RunError, match="it has started since, and has shut this one out"):
        older.answer(1)
    newer.answer(0)
    newer.answer(1)
    with pytest.raises(RunError, match="it has started since, and has shut this one out"):
        older.answer(1)
    newer.answer(2)
    assert batches(tmp_path) == [0, 1, 2]


def test_TT209_a_checkpoint_whose_copy_has_written(tmp_path: Path) -> None:
    first = Driver(tmp_path, "first")
    first.answer(0)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    Driver(tmp_path, "copy", begun=0).answer(1)
    with pytest.raises(RunError, match="its last writer is a start that is not known here"):
        Driver(tmp_path, "first", begun=1)
    assert batches(tmp_path) == [0, 1]


def test_TT209_a_copy_whose_original_has_written_more(tmp_path: Path) -> None:
    first = Driver(tmp_path, "first")
    first.answer(0)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    first.answer(1)
    with pytest.raises(RunError, match="it holds micro-batch 1 of the run, which this checkpoint has not begun"):
        Driver(tmp_path, "copy", begun=0)
    assert batches(tmp_path) == [0, 1]


def test_one_checkpoint_goes_on(tmp_path: Path) -> None:
    """A kill before and after the commit of a micro-batch; a table that was written before starts were known."""
    old = TableSink(PLAN, f"delta:{tmp_path / 'table'}", "run")
    (tmp_path / "table").mkdir()
    file = tmp_path / "table" / "part-0.parquet"
    pq.write_table(pa.Table.from_pylist([_row(0)], old.schema), file)
    old.commit(0, [file])
    for batch in (1, 2, 3):
        driver = Driver(tmp_path, "checkpoint", begun=batch - 1)
        driver.answer(batch - 1)
        driver.answer(batch)
    assert batches(tmp_path) == [0, 1, 2, 3]


def test_others_write_to_the_table(tmp_path: Path) -> None:
    driver = Driver(tmp_path, "checkpoint")
    driver.answer(0)
    write_deltalake(tmp_path / "table", pa.Table.from_pylist([_row(90)], driver.sink.schema), mode="append")
    driver.answer(1)
    DeltaTable(tmp_path / "table").optimize.compact()
    driver.answer(1)
    driver.answer(2)
    assert batches(tmp_path) == [0, 1, 2, 90]


def test_what_is_kept_of_starts(tmp_path: Path) -> None:
    for _ in range(130):
        starts = next_start(tmp_path, 5)
    kept = json.loads((tmp_path / "starts.json").read_text())["starts"]
    assert len(kept) == 100
    assert kept[-1] == starts.mine
