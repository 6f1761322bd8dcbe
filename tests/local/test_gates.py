"""Gates on the local backend: it agrees with the definition, nothing behind a closed gate runs, and what a gate reports."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import some
from tests.test_gates import FLOWS, ROWS, Latest, Reading, answered, flow_of
from tracetypes import Dataflow, check, interpret_rows, run
from tracetypes.bounds import Bound
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.backend.run import run_program
from tracetypes.compiler.backend.run_options import Places, RunOptions
from tracetypes.compiler.backend.summary import Summary
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.gates.kernel import GateKernel
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.plan.program import Program, program
from tracetypes.compiler.store import gate_channel
from tracetypes.compiler.store.gate_channel import FilePiece, last_record
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.metrics_table import Table
from tracetypes.compiler.store.output_interface import SideOutputs
from tracetypes.compiler.store.outputs import MemoryOutput
from tracetypes.gates import sequence, time, value
from tracetypes.trace import Element, Item, Trace

Files = list[list[tuple[str, Reading]]]


def run_files(
    flow: Dataflow | Program, files: Files, checkpoint: str, *, drain: bool = True, **options: Any
) -> tuple[dict[str, Trace[Element]], Summary]:
    """The traces at the sinks; each file is an epoch."""
    compiled = program(check(flow), parallelism=2, key_groups=3) if isinstance(flow, Dataflow) else flow
    outputs = {
        segment.name: MemoryOutput(plan)
        for segment, plan in zip(compiled.segments, compiled.plans, strict=True)
        if segment.sends is None
    }
    places = Places(
        inputs={"in": Rows(tuple(map(tuple, files)), files_per_step=1)},
        outputs={name: lambda plan, run, output=output: output for name, output in outputs.items()},  # type: ignore[misc]
        checkpoint=checkpoint,
        side_outputs=partial(SideOutputs, Path(checkpoint, "_late"), Path(checkpoint, "_rejects")),
    )
    summary = run_program(LocalBackend(2), compiled, places, RunOptions(drain=drain), **options)
    return {name: output.answer.trace for name, output in outputs.items()}, summary


@settings(max_examples=some(20))
@given(FLOWS, st.lists(ROWS, min_size=1, max_size=4), st.booleans())
def test_runs_agree_with_the_definition(case: Latest, files: Files, drain: bool) -> None:
    rows = [pair for file in files for pair in file]
    (trace,) = interpret_rows(check(case.flow()), {"in": rows}, drain=drain)[0].values()
    with tempfile.TemporaryDirectory() as checkpoint:
        traces, _ = run_files(case.flow(), files, checkpoint, drain=drain)
    assert answered(traces["out"]) == answered(trace)


@settings(max_examples=some(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FLOWS, st.lists(ROWS, min_size=4, max_size=6))
def test_files_that_are_merged_while_a_gate_is_closed(monkeypatch: pytest.MonkeyPatch, case: Latest, files: Files) -> None:
    for name, limit in (("MERGED", 2), ("TABLE", 3), ("FILE", 4)):
        monkeypatch.setattr(gate_channel, name, limit)
    rows = [pair for file in files for pair in file]
    (trace,) = interpret_rows(check(case.flow()), {"in": rows})[0].values()
    with tempfile.TemporaryDirectory() as checkpoint:
        traces, _ = run_files(case.flow(), files, checkpoint)
    assert traces["out"] == trace


@pytest.mark.parametrize("bound", [sequence(1000), value(units=1000, columns="ozone")])
def test_what_was_held_is_read_and_sent_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: Bound) -> None:
    sizes: list[int] = []
    tables = FilePiece.tables

    def watched(piece: FilePiece, first: int, last: int) -> Iterator[pa.Table]:
        for table in tables(piece, first, last):
            sizes.append(table.num_rows)
            yield table

    for name, limit in (("MERGED", 3), ("TABLE", 2), ("FILE", 10)):
        monkeypatch.setattr(gate_channel, name, limit)
    monkeypatch.setattr(FilePiece, "tables", watched)
    monkeypatch.setattr(ChannelRetention, "clean", lambda _: None)
    flow = flow_of(lambda s: s.gate(bound, latest_by=lambda reading: reading.ts))
    traces, _ = run_files(flow, HOURS, str(tmp_path))
    assert sum(isinstance(one, Item) for one in traces["out"].items) == 48
    assert max(sizes) == 2
    (rows,) = tmp_path.glob("channels/*/rows")
    assert sorted(pq.read_metadata(file).num_rows for file in rows.iterdir()) == [8, 10, 10, 10, 10]


def test_a_gate_that_is_closed_for_long_holds_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_channel, "MERGED", 3)
    run_files(flow_of(lambda s: s.gate(sequence(1000))), HOURS, str(tmp_path), drain=False)
    names = sorted(file.name for file in tmp_path.glob("channels/*/held/*"))
    assert names == ["00000008-m2.parquet", "00000011-m1.parquet"]


HOURS: Files = [[(key, Reading(float(hour), None, hour * 10)) for key in "abcd"] for hour in range(12)]


def counting() -> tuple[dict[str, int], Callable[[Batch], None]]:
    """How many micro-batches each query has."""
    counts: dict[str, int] = {}

    def count(batch: Batch) -> None:
        counts[batch.query] = counts.get(batch.query, 0) + 1

    return counts, count


def test_nothing_behind_a_closed_gate_runs(tmp_path: Path) -> None:
    counts, count = counting()
    compiled = program(check(flow_of(lambda s: s.gate(sequence(1000), name="closed"))), key_groups=3)
    table = Table(compiled)

    def both(batch: Batch) -> None:
        count(batch)
        table.add(batch)

    traces, summary = run_files(compiled, HOURS, str(tmp_path), drain=False, on_batch=both)
    assert list(traces["out"].items) == []
    assert counts == {"gate--closed": 12}
    assert "out: 0 micro-batches" in table.lines()
    report = summary.gates["gate--closed"]
    assert (report.markers, report.executions, report.held, report.saved) == (11, 0, 11, 11)
    channel = tmp_path / "channels" / "gate--closed"
    assert list((channel / "manifests").iterdir()) == []
    assert len(list((channel / "held").iterdir())) == 12
    record = last_record(channel / "gate")
    assert record is not None
    assert record["lines"] == []


def test_what_lies_behind_runs_as_often_as_the_gate_opens(tmp_path: Path) -> None:
    """Each file closes a block and is an epoch. The end lets one more through."""
    counts, count = counting()
    flow = flow_of(lambda s: s.latest(value(units=4, columns="ozone"), latest_by=lambda reading: reading.ts))
    _, summary = run_files(flow, HOURS, str(tmp_path), on_batch=count)
    report = summary.gates["latest"]
    assert (report.markers, report.executions, report.held) == (12, 3, 0)
    assert counts["out"] <= 4


def test_held_rows_are_removed_when_they_have_gone_on(tmp_path: Path) -> None:
    run_files(flow_of(lambda s: s.gate(sequence(10))), HOURS, str(tmp_path))
    assert list(tmp_path.glob("channels/*/held/*")) == []
    assert len(list(tmp_path.glob("channels/*/gate/*.json"))) == 1


def test_TT243_a_gate_that_may_hold_for_ever(tmp_path: Path) -> None:
    warnings: list[str] = []
    for number, bound in enumerate((sequence(1000), sequence(1000) | time(10_000), sequence(5))):
        flow = flow_of(lambda s, bound=bound: s.gate(bound))  # type: ignore[misc]
        run_files(flow, HOURS, str(tmp_path / str(number)), drain=False, notify=warnings.append)
    assert len(warnings) == 1
    assert warnings[0].startswith("TT243 warning: gate holds what came with the last 11 markers\n    bound:    sequence(1000)\n")


def test_a_gate_goes_on_in_another_process(tmp_path: Path) -> None:
    """The container is that of the last execution, and what was held since then."""
    make = lambda s: s.gate(value(units=4, columns="ozone"), latest_by=lambda r: r.ts)  # noqa: E731
    whole, _ = run_files(flow_of(make), HOURS, str(tmp_path / "whole"))
    rows = tmp_path / "rows"
    rows.mkdir()
    out: list[Any] = []
    for hour, file in enumerate(HOURS):
        lines = "".join(f'{{"key": "{key}", "ozone": {one.ozone}, "dust": null, "ts": {one.ts}}}\n' for key, one in file)
        (rows / f"{hour:02d}.jsonl").write_text(lines)
        if hour % 4 < 3:
            continue
        options: Any = {"backend": "local", "checkpoint": tmp_path / "parts", "drain": hour == 11}
        result = run(flow_of(make), {"in": str(rows)}, {"out": out}, **options)
    assert result.gates["gate"].executions == 3
    assert sorted(map(repr, out)) == sorted(repr((one.key, one.value)) for one in whole["out"].items if isinstance(one, Item))


def test_what_was_held_is_read_block_by_block_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[int] = []
    close = GateKernel.close

    def count_blocks(kernel: GateKernel, marker: int) -> None:
        blocks.append(len(kernel.waiting))
        close(kernel, marker)

    monkeypatch.setattr(GateKernel, "close", count_blocks)
    rows = tmp_path / "rows"
    rows.mkdir()
    for hour, file in enumerate(HOURS):
        lines = "".join(f'{{"key": "{key}", "ozone": {one.ozone}, "dust": null, "ts": {one.ts}}}\n' for key, one in file)
        (rows / f"{hour:02d}.jsonl").write_text(lines)
        if hour < 10:
            continue
        blocks.clear()
        flow = flow_of(lambda s: s.gate(value(units=1000, columns="ozone"), latest_by=lambda r: r.ts))
        run(flow, {"in": str(rows)}, {"out": tmp_path / "out"}, backend="local", checkpoint=tmp_path / "checkpoint", drain=False)
    assert len(blocks) > 10
    assert max(blocks) <= 2


def test_another_bound_needs_another_checkpoint(tmp_path: Path) -> None:
    run_files(flow_of(lambda s: s.gate(sequence(10))), HOURS, str(tmp_path), drain=False)
    with pytest.raises(Exception, match="TT211") as raised:
        run_files(flow_of(lambda s: s.gate(sequence(11))), HOURS, str(tmp_path), drain=False)
    assert "gate" in str(raised.value)
