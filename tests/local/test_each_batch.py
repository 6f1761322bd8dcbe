"""Functions as outputs: what they get, and that an epoch that a crash interrupts brings the same rows again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import tracetypes
from tests.local.test_streams import Crash, clicks, line
from tracetypes import Dataflow, Epoch, RunError, U, UsageError, each_batch, every, sort
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.local.workers import Workers
from tracetypes.compiler.store.function_output import FunctionOutput
from tracetypes.compiler.store.run_store import RunStore


class Store:
    """Keeps the rows of each epoch, and how often it came."""

    def __init__(self) -> None:
        self.rows: dict[Epoch, Counter[str]] = {}
        self.calls: list[int] = []
        self.fails_at = -1

    def __call__(self, rows: Any, epoch: Epoch) -> None:
        bag = Counter(json.dumps(row, default=str, sort_keys=True) for row in rows.to_pylist())
        assert self.rows.setdefault(epoch, bag) == bag
        assert rows.num_rows
        self.calls.append(epoch.number)
        if epoch.number == self.fails_at:
            self.fails_at = -1
            raise ValueError("the store is down")

    @property
    def counts(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for bag in self.rows.values():
            for text, often in bag.items():
                row = json.loads(text)
                found[row["key"]] += row["value"] * often
        return dict(found)


def write(directory: Path, number: int, *rows: bytes) -> None:
    directory.mkdir(exist_ok=True)
    (directory / f"{number}.jsonl").write_bytes(b"".join(rows))


def run(function: Any, tmp_path: Path, flow: Dataflow | None = None, **options: Any) -> Any:
    outputs = {"counts": each_batch(function)}
    options = {"checkpoint": tmp_path / "checkpoint", "files_per_step": 1, **options}
    return tracetypes.run(flow or clicks(), {"clicks": str(tmp_path / "in")}, outputs, backend="local", **options)


def test_a_function_gets_tables(tmp_path: Path) -> None:
    seen: list[tuple[pa.Table, Epoch]] = []
    write(tmp_path / "in", 0, line("a", 1), line("b", 2), line("a", 15))
    write(tmp_path / "in", 1, line("a", 3), b"nonsense\n", line("a", 16))
    result = run(lambda rows, epoch: seen.append((rows, epoch)), tmp_path)
    assert [epoch.number for _, epoch in seen] == sorted(epoch.number for _, epoch in seen)
    assert {(epoch.sink, epoch.run) for _, epoch in seen} == {("counts", seen[0][1].run)}
    assert {epoch.id for _, epoch in seen} == {f"{epoch.run}/counts/{epoch.number}" for _, epoch in seen}
    rows = [row for table, _ in seen for row in table.to_pylist()]
    assert sorted((row["key"], row["value"], row["until"].second) for row in rows) == [("a", 1, 10), ("a", 2, 20), ("b", 1, 10)]
    assert seen[0][0].schema.names == ["key", "value", "until"]
    assert not any(pa.types.is_dictionary(kind) for table, _ in seen for kind in table.schema.types)
    assert (result.late, result.rejects) == ({"clicks": 1}, {"clicks": 1})
    assert list((tmp_path / "checkpoint" / "_late").rglob("*.jsonl"))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "step",
    [(Workers, "run"), (FunctionOutput, "_call"), (RunStore, "commit"), (LocalLog, "end"), (LocalLog, "begin")],
    ids=str,
)
def test_an_epoch_that_a_crash_interrupts_has_the_same_rows(tmp_path: Path, step: tuple[Any, str], when: str) -> None:
    """Though more files have come meanwhile, which an epoch that nobody has seen may take as well."""
    owner, name = step
    real, calls, store = getattr(owner, name), list[int](), Store()
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    write(tmp_path / "in", 1, line("a", 13), line("b", 25))

    def call(*args: Any, **options: Any) -> Any:
        calls.append(0)
        if len(calls) == 2 and when == "before":
            raise Crash
        result = real(*args, **options)
        if len(calls) == 2:
            raise Crash
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        with pytest.raises(RunError, match="Crash"):
            run(store, tmp_path, drain=False)
    write(tmp_path / "in", 2, line("a", 26), line("c", 47))
    run(store, tmp_path, files_per_step=None, drain=False)
    assert store.counts == {"a": 3, "b": 2}
    assert len({epoch.run for epoch in store.rows}) == 1


@pytest.mark.parametrize("called", [True, False])
def test_rows_that_a_function_has_seen_may_not_change(tmp_path: Path, called: bool) -> None:
    """The epoch is repeated as it was. One for which nothing was called may take other rows."""
    store = Store()
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))

    def dies(self: FunctionOutput, rows: Any, epoch: Epoch) -> None:
        if called:
            self.function(rows, epoch)
        else:
            self.note.unlink()
        raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FunctionOutput, "_call", dies)
        with pytest.raises(RunError, match="Crash"):
            run(store, tmp_path, drain=False)
    write(tmp_path / "in", 0, line("b", 2), line("b", 12))
    if called:
        with pytest.raises(RunError, match=r"TT231 .*its rows are in the function of sink .counts."):
            run(store, tmp_path, drain=False)
    else:
        run(store, tmp_path, drain=False)
        assert store.counts == {"b": 1}


def test_an_error_of_the_function_ends_the_run_and_the_same_rows_come_again(tmp_path: Path) -> None:
    store = Store()
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    store.fails_at = 0
    with pytest.raises(RunError, match=r"TT209 the function of sink 'counts' failed with micro-batch 0: ValueError: the store"):
        run(store, tmp_path)
    run(store, tmp_path)
    assert store.calls[:2] == [0, 0]
    assert store.counts == {"a": 1, "b": 1}


def test_a_run_that_starts_anew_calls_with_another_name(tmp_path: Path) -> None:
    store = Store()
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    run(store, tmp_path)
    run(store, tmp_path, overwrite=True)
    assert store.counts == {"a": 2, "b": 2}
    runs = {epoch.run for epoch in store.rows}
    assert len(runs) == 2
    (note,) = (tmp_path / "checkpoint" / "called").iterdir()
    assert note.stem in runs


@attrs.frozen
class Reading:
    ts: int
    name: str


def sorted_readings() -> Dataflow:
    """The readings of ten seconds by name. ``place`` is the position in this order."""
    flow = Dataflow("sorted")
    markers = every(seconds=10, time=lambda r: r.ts)
    readings = flow.source("readings", U[str, Reading], key=lambda r: "one", markers=markers)
    flow.sink("sorted", readings.through(sort(by=lambda r: r.name)), marker="until", position="place")
    return flow


READINGS = list(map(Reading, [1, 4, 3, 9, 15, 12, 18, 21], "cadbxwvz"))
IN_ORDER = [(10, 0, "a"), (10, 1, "b"), (10, 2, "c"), (10, 3, "d"), (20, 0, "v"), (20, 1, "w"), (20, 2, "x"), (30, 0, "z")]


@pytest.mark.parametrize("epochs", ["one", "more"])
def test_a_function_gets_the_position_of_each_row(tmp_path: Path, epochs: str) -> None:
    """In its block: so rows that an epoch has in any order can be put in theirs."""
    folder, tables = tmp_path / "in", list[pa.Table]()
    lines = [json.dumps(attrs.asdict(row)).encode() + b"\n" for row in READINGS]
    for number in range(0, len(lines), 3 if epochs == "more" else 10):
        write(folder, number, *lines[number : number + (3 if epochs == "more" else 10)])
    outputs = {"sorted": each_batch(lambda rows, _: tables.append(rows))}
    options: Any = {"checkpoint": tmp_path / "checkpoint", "files_per_step": 1}
    tracetypes.run(sorted_readings(), {"readings": str(folder)}, outputs, backend="local", **options)
    assert {tuple(table.schema.names) for table in tables} == {("key", "ts", "name", "until", "place")}
    rows = [row for table in tables for row in table.to_pylist()]
    assert sorted((int(row["until"].timestamp()), row["place"], row["name"]) for row in rows) == IN_ORDER


def test_what_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "in", 0, line("a", 1))
    with pytest.raises(UsageError, match="TT402 each_batch got 3, which is no function"):
        each_batch(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="TT402 rows is 'pandas'"):
        each_batch(print, rows="pandas")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"TT402 a function keeps no checkpoint"):
        run(print, tmp_path, checkpoint=None)
    inputs: Any = {"clicks": str(tmp_path / "in")}
    with pytest.raises(UsageError, match="TT402 the function of sink 'counts' takes a DataFrame of Spark"):
        tracetypes.run(clicks(), inputs, {"counts": each_batch(print, rows="spark")}, backend="local", checkpoint="c")
    outputs: Any = {"counts": print}
    with pytest.raises(UsageError, match=r"TT402 the output of sink 'counts' is .*print") as caught:
        tracetypes.run(clicks(), inputs, outputs, backend="local")
    assert "each_batch(function)" in caught.value.fix
