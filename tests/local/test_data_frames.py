"""Frames of the program as inputs: tables of Arrow, DataFrames of pandas and Polars. How a run goes on with them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetypes
from tests.local.test_streams import COUNTS, Crash, clicks, counted
from tracetypes import ROW_POSITION, Dataflow, O, RunError, U, Unit, UsageError, every
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.connectors import data_frames
from tracetypes.compiler.connectors.data_frames import DataFrameInput, DataFrameSplits
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.local.workers import Workers
from tracetypes.compiler.store.outputs import FileOutput
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.stdlib import count, scan

TABLE = pa.table({"ts": pa.array([1, 2, 15, None, 3], pa.int32()), "page": ["a", "b", "a", "c", "a"], "more": [0] * 5})


def in_polars() -> Any:
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(TABLE.to_pydict())


def in_pandas() -> Any:
    times = pd.array([1, 2, 15, None, 3], "Int64")
    return pd.DataFrame({"ts": times, "page": pd.Categorical(list("abaca"))}, index=list("vwxyz"))


@pytest.mark.parametrize(
    "given",
    [
        lambda: TABLE,
        lambda: TABLE.combine_chunks().to_batches()[0],
        lambda: pa.concat_tables([TABLE.slice(0, 2), TABLE.slice(2, 0), TABLE.slice(2)]),
        lambda: TABLE.set_column(1, "page", TABLE["page"].dictionary_encode()),
        in_pandas,
        in_polars,
    ],
    ids=["table", "record batch", "chunks", "categories", "pandas", "polars"],
)
@pytest.mark.parametrize("processes", ["never", "always"])
def test_frames(given: Callable[[], Any], processes: Any) -> None:
    """By the rules of Parquet files. A row that does not fit is a reject."""
    rows, result = counted(given(), processes=processes)
    assert rows == COUNTS
    assert (result.read, result.late, result.rejects) == ({"clicks": 5}, {"clicks": 1}, {"clicks": 1})
    assert "ts" in result.rejected_rows[0].reason


def test_frames_that_do_not_fit() -> None:
    with pytest.raises(RunError, match=r"(?s)TT203 the frame of source 'clicks' has no column 'ts'; it has 'page'"):
        counted(TABLE.select(["page"]))
    with pytest.raises(RunError, match=r"(?s)TT203 the frame of source 'clicks': the column 'ts' is string, expected int"):
        counted(pa.table({"page": ["a"], "ts": ["1"]}))
    with pytest.raises(RunError, match=r"(?s)TT203 the frame of source 'clicks': the column 'ts' is double, expected int"):
        counted(pd.DataFrame({"page": ["a", "b"], "ts": [1, None]}))
    with pytest.raises(UsageError, match=r"(?s)TT402 the input of source 'clicks' is .* has no columns of Arrow"):
        counted(pa.chunked_array([[1, 2]]))


def test_what_no_source_reads_is_not_looked_at() -> None:
    """Columns that Arrow does not have, two of one name, and the index of pandas."""
    frame = in_pandas()
    frame.insert(0, "mixed", [1, "a", None, 1j, b""])
    frame.insert(0, "twice", 1)
    frame.insert(0, "twice", 2, allow_duplicates=True)
    assert counted(frame)[0] == COUNTS
    polars = pytest.importorskip("polars", reason="polars is not installed")
    assert counted(in_polars().with_columns(polars.Series("wide", [2**100] * 5, dtype=polars.Int128)))[0] == COUNTS


def test_frames_of_pandas_and_Polars_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match=r"TT402 the frame of source 'clicks' has 'page' as its index") as caught:
        counted(in_pandas().set_index("page"))
    assert "reset_index()" in caught.value.fix
    with pytest.raises(RunError, match=r"TT203 the frame of source 'clicks' has 2 columns 'ts'"):
        counted(pd.DataFrame([[1, 2, "a"]], columns=["ts", "ts", "page"]))
    for wrong in (["a", 1], [1, 2**70]):
        with pytest.raises(UsageError, match=r"TT402 the input of source 'clicks' is a pandas.DataFrame, which has no columns"):
            counted(pd.DataFrame({"ts": pd.Series(wrong, dtype=object), "page": ["a", "b"]}))
    polars = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(UsageError, match=r"TT402 the input of source 'clicks' is <LazyFrame") as caught:
        counted(polars.LazyFrame({"ts": [1], "page": ["a"]}))
    assert "collect()" in caught.value.fix


def test_an_empty_frame_ends_at_once() -> None:
    assert counted(TABLE.slice(0, 0))[0] == []


# ------------------------------------------------------------------------------------------------- a run that goes on


@attrs.frozen
class Reading:
    ts: int


def numbered() -> Dataflow:
    """Each row with the number of rows before it, in the order of the frame."""
    flow = Dataflow("numbered")
    markers = every(seconds=10, time=lambda r: r.ts)
    readings = flow.source("readings", O[Unit, Reading], ordered_by=ROW_POSITION, markers=markers)
    flow.sink("numbers", readings.through(scan(count())))
    return flow


def read(path: Path) -> list[int]:
    lines = [line for file in path.glob("part-*") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["value"] for line in lines)


@pytest.fixture(autouse=True)
def _small_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_frames, "MOST", 4)
    monkeypatch.setattr(data_frames, "SMALLEST", 1)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "step",
    [(Workers, "run"), (FileOutput, "take"), (RunStore, "commit"), (LocalLog, "end"), (LocalLog, "begin")],
    ids=str,
)
def test_a_run_that_was_killed_goes_on_with_the_same_rows(tmp_path: Path, step: tuple[Any, str], when: str) -> None:
    """In its second epoch. The frame is another object, in other pieces."""
    owner, name = step
    real, calls = getattr(owner, name), list[int]()
    times = [n // 3 for n in range(30)]

    def call(*args: Any, **options: Any) -> Any:
        calls.append(0)
        if len(calls) == 2 and when == "before":
            raise Crash
        result = real(*args, **options)
        if len(calls) == 2:
            raise Crash
        return result

    def run(frame: Any, **options: Any) -> Any:
        outputs = {"numbers": str(tmp_path / "out")}
        return tracetypes.run(numbered(), {"readings": frame}, outputs, backend="local", **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        with pytest.raises(RunError, match="Crash"):
            run(pa.table({"ts": times, "other": times}))
    with pytest.raises(RunError, match=r"TT218 source 'readings': the run has taken [48] of the 30 rows of its frame"):
        run(pa.table({"ts": [*times[:-1], 99]}))
    again = pd.DataFrame({"ts": times})
    run(again)
    assert read(tmp_path / "out") == list(range(1, 31))


def test_a_frame_that_was_taken_is_not_taken_again_and_another_one_is_new(tmp_path: Path) -> None:
    def run(times: list[int], kind: Any = None) -> Any:
        outputs = {"numbers": str(tmp_path / "out")}
        frame = pa.table({"ts": pa.array(times, kind)})
        return tracetypes.run(numbered(), {"readings": frame}, outputs, backend="local", drain=False)

    run(list(range(0, 50, 5)))
    before = read(tmp_path / "out")
    assert before == list(range(1, 9))  # the block of the last rows is open
    for kind in (None, pa.int16(), pa.uint64(), pa.decimal128(9)):
        assert run(list(range(0, 50, 5)), kind).rows == 0
    assert read(tmp_path / "out") == before
    run(list(range(50, 80, 5)))
    assert read(tmp_path / "out") == list(range(1, 15))


def test_a_run_cannot_change_between_rows_of_a_list_and_a_frame(tmp_path: Path) -> None:
    def run(given: Any) -> Any:
        outputs = {"numbers": str(tmp_path / "out")}
        return tracetypes.run(numbered(), {"readings": given}, outputs, backend="local", drain=False)

    run([Reading(1)])
    with pytest.raises(RunError, match="TT218 source 'readings': it began with files, and is given a frame"):
        run(pa.table({"ts": [1]}))


def test_a_run_that_follows_waits_behind_a_frame(tmp_path: Path) -> None:
    rows: list[Any] = []
    run = tracetypes.start(clicks(), {"clicks": TABLE}, {"counts": rows}, backend="local")
    assert run.running
    assert run.drain().drained
    assert sorted(rows) == COUNTS


# -------------------------------------------------------------------------------------------------------- the digest


def digest(table: Any, flow: Dataflow | None = None) -> str:
    leaf = compile_program(flow or clicks()).plans[0].sources[0]
    return DataFrameInput(leaf, table).digest


def test_the_digest_depends_on_rows_alone() -> None:
    whole = pa.table({"page": ["a", "b", None, "a"], "ts": [1, 2, None, 4]})
    pieces = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    beside = pa.concat_tables([whole, whole]).combine_chunks().slice(4)
    assert digest(whole) == digest(pieces) == digest(beside) == digest(whole.append_column("more", [[0] * 4]))
    numbers = whole["ts"].fill_null(77).combine_chunks()
    below = pa.Array.from_buffers(pa.int64(), 4, [whole["ts"].chunk(0).buffers()[0], numbers.buffers()[1]])
    assert below.null_count == 1
    assert digest(whole.set_column(1, "ts", below)) == digest(whole)


@attrs.frozen
class Mixed:
    page: str
    ts: int
    part: float | None
    at: dt.datetime


def mixed() -> Dataflow:
    flow = Dataflow("mixed")
    flow.sink("all", flow.source("rows", U[Unit, Mixed], markers=every(seconds=10, time=lambda r: r.ts)))
    return flow


def test_the_digest_does_not_depend_on_the_package_or_its_types() -> None:
    """Or the rows of a run would come twice when pandas has another type of texts or of times."""
    rows: dict[str, Any] = {"page": ["a", "b", "a"], "ts": [1, 2, None], "part": [0.5, None, 2.0]}
    rows["at"] = [dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]
    table, frame = pa.table(rows), pd.DataFrame(rows).astype({"ts": "Int64"})
    tables = [
        frame,
        frame.astype({"page": "category", "part": "float32", "at": "datetime64[ms, Europe/Berlin]"}),
        frame.astype({"page": "string", "at": "datetime64[ns, UTC]"}),
        table.cast(pa.schema([("page", pa.large_string()), ("ts", pa.int8()), ("part", pa.float32()), table.schema.field("at")])),
        table.set_column(1, pa.field("ts", pa.int64(), metadata={"id": "7"}), table["ts"]),
    ]
    assert {digest(one, mixed()) for one in tables} == {digest(table, mixed())}
    polars = pytest.importorskip("polars", reason="polars is not installed")
    lazy = polars.DataFrame(rows)
    assert {digest(one, mixed()) for one in (lazy, lazy.with_columns(page=polars.col("page").cast(polars.Categorical)))} == {
        digest(table, mixed())
    }


def test_rows_that_do_not_fit_have_a_digest_of_their_own() -> None:
    """They are rejects, and those that were read are these."""
    tables = [pa.table({"page": ["a", "b"], "ts": pa.array([1, large], pa.uint64())}) for large in (None, 2**63, 2**63 + 1)]
    assert len({digest(table) for table in tables}) == 3


def test_other_rows_have_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_frames, "HASHED", 2)
    one = pa.table({"page": ["a", "b", "c"], "ts": [1, 2, 3]})
    others = [
        one.slice(1),
        one.take([1, 0, 2]),
        one.set_column(1, "ts", [[1, 2, None]]),
        one.set_column(1, "ts", [[1, 2, 0]]),
        one.set_column(0, "page", [["ab", "", "c"]]),
        one.set_column(0, "page", [["a", "b", "d"]]),
    ]
    assert len({digest(table) for table in [one, *others]}) == 7


@given(st.integers(0, 40), st.lists(st.sampled_from(["goes on", "another"]), max_size=6))
def test_splits_are_all_rows_once(rows: int, starts: list[str]) -> None:
    """However often a run is started again, the numbers of rows go on."""
    number, splits, count = 0, DataFrameSplits("clicks", "0", rows), 0
    since = splits.begin()
    for start in [*starts, "goes on"]:
        while (until := splits.end(since)) != since:
            for first, at, end in splits.splits(since, until):
                assert first == count
                assert 0 <= at < end <= rows
                count += end - at
            assert splits.splits(since, until) == DataFrameSplits("clicks", splits.digest, rows).splits(since, until)
            since = until
        assert count == (number + 1) * rows
        if start == "another":
            number += 1
            splits = DataFrameSplits("clicks", str(number), rows)
    assert splits.end(since) in (since, {**since, "frame": splits.digest, "row": 0})


def test_a_frame_of_spark_needs_an_order() -> None:
    class DataFrame:
        isStreaming = False

    DataFrame.__module__ = "pyspark.sql.classic.dataframe"
    with pytest.raises(UsageError, match=r"TT402 .*rows have no order") as caught:
        counted(DataFrame())
    assert "ordered(frame, by=" in caught.value.fix
    DataFrame.isStreaming = True
    with pytest.raises(UsageError, match=r"TT402 .*is a streaming DataFrame") as caught:
        counted(DataFrame())
    assert "transform(flow, inputs)" in caught.value.fix
