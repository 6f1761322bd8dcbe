"""An item that emits very many rows: they leave in pieces where they go into files, a run in the middle of them can be stopped,
and where they have to be held they are refused."""

from __future__ import annotations

import errno
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pyarrow.dataset as ds
import pytest

import tracetypes
from tracetypes import Dataflow, Emit, EmitValue, Marker, OperatorFailed, OpKeyedOrdered, OpStateless, U, every, sort
from tracetypes.compiler.columns import turns
from tracetypes.compiler.columns.machine.compilation import compilation
from tracetypes.compiler.runtime import emitter, limits, ordered_kernel, ordered_machine
from tracetypes.compiler.runtime.emissions import MOST_EMITTED, Emissions
from tracetypes.compiler.store.staging import Dispatch, unwritable
from tracetypes.errors import RunError, UsageError


@attrs.frozen
class Reading:
    room: str
    ts: int
    x: float


@attrs.frozen
class Gaps(OpKeyedOrdered[str, Reading, Reading, Reading | None]):
    """The README's FillGaps."""

    def initial_state(self) -> Reading | None:
        return None

    def on_item(self, state: Reading | None, key: str, value: Reading, emit: EmitValue[Reading]) -> Reading | None:
        if state is None:
            emit(value)
            return value
        gap = value.ts - state.ts
        for n in range(1, gap + 1):
            emit(Reading(key, state.ts + n, state.x + n * (value.x - state.x) / gap))
        return value


@attrs.frozen
class MarkedGaps(Gaps):
    """Emits its state at each marker, too."""

    def on_marker(self, state: Reading | None, key: str, marker: Marker, emit: EmitValue[Reading]) -> Reading | None:
        if state is not None:
            emit(state)
        return state


@attrs.frozen
class AtMarkers(OpKeyedOrdered[str, Reading, Reading, int]):
    """Emits few rows at items, and many at each marker."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Reading, emit: EmitValue[Reading]) -> int:
        emit(value)
        return state + 1

    def on_marker(self, state: int, key: str, marker: Marker, emit: EmitValue[Reading]) -> int:
        for n in range(400):
            emit(Reading(key, n, -1.0))
        return state


@attrs.frozen
class Careless(Gaps):
    """Goes on whatever happens while it emits."""

    def on_item(self, state: Reading | None, key: str, value: Reading, emit: EmitValue[Reading]) -> Reading | None:
        for n in range(value.ts if value.ts > 1_000 else 1):
            with suppress(Exception):
                emit(Reading(key, n, 0.0))
        return value


@attrs.frozen
class Lists(OpKeyedOrdered[str, Reading, list[int], int]):
    """Emits values that may change afterwards, which are checked at once."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Reading, emit: EmitValue[list[int]]) -> int:
        for n in range(state, value.ts):
            emit([n, value.ts])
        return value.ts


@attrs.frozen
class Later(OpStateless[str, Reading, str, Reading]):
    """A stateless operator that stays Python, behind the gaps."""

    def on_item(self, key: str, value: Reading, emit: Emit[str, Reading]) -> None:
        if hash(value) % 3:
            emit(key, value)


def flow(*ops: Any) -> Dataflow:
    one = Dataflow("gaps")
    markers = every(seconds=10, time=lambda r: r.ts, delay=40)
    stream: Any = one.source("in", U[str, Reading], key=lambda r: r.room, markers=markers).through(sort(by=lambda r: r.ts))
    for op in ops:
        stream = stream.through(op)
    one.sink("out", stream, marker="block", position=None if isinstance(ops[-1], OpStateless) else "place")
    return one


def readings(gap: int) -> list[Reading]:
    """Three rooms with little gaps, and one of them with a large one."""
    small = [Reading(f"r{n}", at, float(at + n)) for at in range(0, 40, 4) for n in range(3)]
    return [*small, Reading("r1", 36 + gap, 1.0), Reading("r2", 36 + gap, 2.0), Reading("r1", 38 + gap, 2.0)]


def rows(table: Any) -> list[Any]:
    """Rows by key, each in the order in which it is there; those without an order sorted."""
    names = ["key"] if "place" in table.column_names else table.column_names
    return sorted(table.to_pylist(), key=lambda row: [row[name] for name in names])


def in_file(one: Dataflow, inputs: list[Reading], path: Path, **options: Any) -> tuple[list[Any], Any]:
    result = tracetypes.run(one, {"in": inputs}, {"out": str(path)}, backend="local", **options)
    return rows(ds.dataset(path, format="parquet").to_table()), result


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few emissions are much from here on. The sizes of the pieces that are sent; an operator never holds much more."""
    sizes, right, look = list[int](), emitter.ToSink.piece, Emissions._look

    def counted(self: Any, flowing: Any, marker: Marker, before: Mapping[Any, int]) -> Any:
        sizes.append(len(flowing.values))
        return right(self, flowing, marker, before)

    def bounded(self: Emissions) -> None:
        assert self.pieces.send is None or len(self.values) < 600
        look(self)

    monkeypatch.setattr(limits, "HELD", 500)
    monkeypatch.setattr(limits, "LOOK", 64)
    monkeypatch.setattr(emitter.ToSink, "piece", counted)
    monkeypatch.setattr(Emissions, "_look", bounded)
    return sizes


CHAINS: dict[str, tuple[Any, ...]] = {
    "gaps": (Gaps(),),
    "marked": (MarkedGaps(),),
    "at markers": (AtMarkers(),),
    "lists": (Lists(),),
    "behind": (MarkedGaps(), Later()),
    "second": (Gaps(), Gaps()),
}


@pytest.mark.parametrize(
    ("name", "parallelism"),
    [
        pytest.param(name, tasks, marks=[pytest.mark.nightly] if name == "at markers" else [])
        for name, tasks in zip(CHAINS, [1, 2, 1, 1, 1, 2], strict=True)
    ],
)
def test_rows_leave_in_pieces(name: str, parallelism: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    options = {"parallelism": parallelism, "processes": "never"}
    expected, _ = in_file(flow(*CHAINS[name]), readings(3_000), tmp_path / "whole.parquet", **options)
    sizes = request.getfixturevalue("pieces")
    found, _ = in_file(flow(*CHAINS[name]), readings(3_000), tmp_path / "pieces.parquet", **options)
    assert found == expected
    assert len(sizes) > 5


@pytest.mark.parametrize("op", [Gaps(), Careless()])
def test_a_piece_that_cannot_be_written_ends_the_run(
    op: Gaps, tmp_path: Path, pieces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No operator is blamed for a full disk, and none hides it."""
    right, calls = Dispatch.passed, list[None]()

    def full(self: Dispatch, messages: Any) -> Any:
        if isinstance(messages, list):  # a piece
            calls.append(None)
            if len(calls) == 2:
                raise unwritable(OSError(errno.ENOSPC, "No space left on device"))
        return right(self, messages)

    monkeypatch.setattr(Dispatch, "passed", full)
    with pytest.raises(RunError, match="No space left on device") as failed:
        in_file(flow(op), readings(3_000), tmp_path / "out.parquet", processes="never")
    assert failed.value.code == "TT209"
    assert len(calls) == 2


@pytest.mark.parametrize("run", ["columns", "machine"])
def test_columns_leave_what_is_too_much_to_python(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    """And go on with what comes behind it."""
    expected, _ = in_file(flow(Gaps()), readings(3_000), tmp_path / "whole.parquet", processes="never")
    sizes = request.getfixturevalue("pieces")
    monkeypatch.setattr(limits, "MANY", 2)
    for module in (turns, ordered_kernel, ordered_machine):
        monkeypatch.setattr(module, "MOST", 1_000)
    if run == "machine":
        pytest.importorskip("numba")
        monkeypatch.setattr(limits, "COMPILED", 0)
        wait = compilation

        def compiled(code: Any) -> Any:
            one = wait(code)
            one.start()
            if one._thread is not None:
                one._thread.join()
            return one

        monkeypatch.setattr(ordered_kernel, "compilation", compiled)
    found, _ = in_file(flow(Gaps()), readings(3_000), tmp_path / "pieces.parquet", processes="never")
    assert found == expected
    assert sizes


@pytest.mark.nightly
def test_worker_processes_send_pieces(tmp_path: Path) -> None:
    gap = limits.HELD + 100_000
    found, _ = in_file(flow(Gaps()), readings(gap), tmp_path / "out.parquet", parallelism=2, processes="always")
    assert [row["ts"] for row in found if row["key"] == "r1"] == list(range(gap + 39))


def test_a_run_stops_in_the_middle_of_an_item(tmp_path: Path, pieces: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the last piece, as there are a thousand million rows."""
    enough, counted = threading.Event(), emitter.ToSink.piece

    def third(self: Any, *args: Any) -> Any:
        if len(pieces) == 3:
            enough.set()
        return counted(self, *args)

    monkeypatch.setattr(emitter.ToSink, "piece", third)
    for parallelism in (1, 2):
        enough.clear()
        pieces.clear()
        out = tmp_path / f"out-{parallelism}.parquet"
        options: dict[str, Any] = {"parallelism": parallelism, "processes": "never", "backend": "local"}
        inputs = [*readings(10**9), Reading("later", 10**9 + 100, 0.0)]
        run = tracetypes.start(flow(Gaps()), {"in": inputs}, {"out": str(out)}, **options)
        assert enough.wait(60)
        run.stop()
        result = run.wait(60)
        assert result.stopped
        assert not list(out.rglob("*.parquet"))
        assert not [path for path in out.rglob("rows-*") if path.is_file()]


def test_TT233_rows_that_have_to_be_held(pieces: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory nothing leaves before the end of a block."""
    monkeypatch.setattr(limits, "MOST_EMITTED", 400)
    with pytest.raises(OperatorFailed, match=r"Gaps has emitted 4\d\d rows of one block") as failed:
        tracetypes.run(flow(Gaps()), {"in": readings(10**9)}, {"out": []}, backend="local", processes="never")
    assert failed.value.code == "TT233"
    assert "item ('r1', Reading(room='r1', ts=1000000036, x=1.0))" in str(failed.value)
    monkeypatch.setenv(MOST_EMITTED, "20000")
    out = list[Any]()
    monkeypatch.setattr(Emissions, "_look", lambda self: None)
    tracetypes.run(flow(Gaps()), {"in": readings(3_000)}, {"out": out}, backend="local", processes="never")
    assert len(out) > 6_000


def test_TT233_between_operators(tmp_path: Path, pieces: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of two operators of a stage holds what it emits, though files are behind the second."""
    monkeypatch.setenv(MOST_EMITTED, "400")
    with pytest.raises(OperatorFailed, match="TT233"):
        in_file(flow(Gaps(), Gaps()), readings(10**9), tmp_path / "out.parquet", processes="never")


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1e6"])
def test_TT402_no_number_of_rows(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MOST_EMITTED, text)
    with pytest.raises(UsageError, match="TT402"):
        tracetypes.run(flow(Gaps()), {"in": readings(1)}, {"out": []}, backend="local", processes="never")
