"""What ``explain`` says of sources and sinks comes from their connectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.shapes import Reading
from tracetypes import Dataflow, U, check, csv, every, json_lines, kafka, parquet, run, sort
from tracetypes.compiler.local.wording import LocalWording
from tracetypes.compiler.plan.explain import Wording, explain
from tracetypes.compiler.runtime import limits, ordered_kernel, ordered_machine
from tracetypes.compiler.spark.wording import SparkWording
from tracetypes.stdlib import deduplicate, diff

ROWS = [("a", Reading(1, 1))]


def said(format: Any = None, given: object = None, *, sink: Any = None) -> str:
    flow = Dataflow("said")
    source = flow.source("in", U[str, Reading], markers=every(seconds=1, time=lambda r: r.ts), format=format)
    flow.sink("out", source, format=sink)
    wording = SparkWording({} if given is None else {"in": given})
    return explain(check(flow), wording, parallelism=2, key_groups=4)


@pytest.mark.parametrize(
    ("format", "given", "found", "read"),
    [
        (None, None, "Catalyst  find files", "columns of Parquet, or of text that Python parses;"),
        (csv(), None, "Catalyst  find files", "columns of text that Python parses;"),
        (json_lines(), "in.jsonl", "Catalyst  find files", "columns of text that Python parses;"),
        (parquet(), None, "Catalyst  find files", "columns of Parquet;"),
        (kafka(), None, "Kafka     find new offsets", "columns of records, which Python parses;"),
        (None, "kafka://host:9092/readings", "Kafka     find new offsets", "columns of records"),
        (None, "delta:tables/readings", "Delta     find the files that new versions", "columns of Parquet;"),
        (None, ROWS, "Python    take rows of the program", "columns of these rows;"),
    ],
)
def test_each_kind_of_source(format: Any, given: object, found: str, read: str) -> None:
    lines = said(format, given).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("    source 'in' :"))
    assert lines[at + 1].startswith(f"        {found}")
    assert lines[at + 2].startswith(f"        Arrow     {read}")
    others = {"Catalyst  find files", "Kafka     find", "Delta     find", "Python    take"}
    assert sum(other in "\n".join(lines) for other in others) == 1


def test_sinks() -> None:
    assert "files are moved into place with the commit" in said()
    assert "Kafka     send rows in a transaction" in said(sink=kafka())
    assert "files are moved" not in said(sink=kafka())


@pytest.mark.parametrize("wording", [LocalWording(), SparkWording()])
@pytest.mark.parametrize("installed", [True, False])
def test_operators_that_numba_would_make_machine_code_of(
    wording: Wording, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so behind these operators alone, and only where numba is missing."""
    monkeypatch.setattr(ordered_machine, "available", lambda: installed)
    hints = []
    ops: list[Any] = [diff(lambda r: r.value), deduplicate(by=lambda r: r.value)]
    for op in ops:
        flow = Dataflow("said")
        rows = flow.source("in", U[str, Reading], markers=every(seconds=1, time=lambda r: r.ts))
        flow.sink("out", rows.through(sort(by=lambda r: r.ts)).through(op))
        lines = explain(check(flow), wording, parallelism=2, key_groups=4).splitlines()
        hints += [lines[at - 1].split()[1] for at, line in enumerate(lines) if 'pip install "tracetypes[fast]"' in line]
    assert hints == ([] if installed else ["diff"])


@pytest.mark.parametrize(("installed", "many"), [(False, 3), (False, 4), (True, 3)])
def test_the_summary_of_a_run_names_what_numba_would_make_faster(
    installed: bool, many: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only where so many rows came that it would have been compiled."""
    for module in (ordered_machine, ordered_kernel):
        monkeypatch.setattr(module, "available", lambda: installed)
    monkeypatch.setattr(limits, "COMPILED", many)
    flow = Dataflow("said")
    rows = flow.source("in", U[str, Reading], markers=every(seconds=1, time=lambda r: r.ts))
    flow.sink("out", rows.through(sort(by=lambda r: r.ts)).through(diff(lambda r: r.value)))
    inputs = {"in": [("a", Reading(n, n)) for n in range(3)]}
    result = run(flow, inputs=inputs, outputs={"out": tmp_path}, backend="local")
    assert list(result.faster) == ([] if installed or many > 3 else ["diff"])
