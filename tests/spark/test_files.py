"""Files that change between runs and during them, that are gone, and lines that are appended: what is said, and what comes out.

Each change at each moment is tested in ``tests/test_inputs.py``, without Spark.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tracetypes
from tests.spark import flows
from tests.spark.support import defined, often, row, rows_at_sink, rows_in, side_outputs, write_lines
from tests.spark.test_exactly_once import Crash, crashing
from tracetypes import Dataflow, RunError, U, Unit, check, every
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark import batches
from tracetypes.compiler.spark.files import SCAN, FileInput
from tracetypes.compiler.spark.run import Batch, run
from tracetypes.compiler.store import output_interface
from tracetypes.compiler.store.outputs import FileOutput, open_output
from tracetypes.compiler.store.run_store import RunStore

ROWS = [[dict(id="abc"[n % 3], ts=10 * file + n, watts=n) for n in range(9)] for file in range(4)]


def text(rows: list[dict[str, Any]]) -> bytes:
    return "".join(row(**one) + "\n" for one in rows).encode()


def csv(rows: list[dict[str, Any]]) -> bytes:
    return ("id,ts,watts\n" + "".join(f"{one['id']},{one['ts']},{one['watts']}\n" for one in rows)).encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return bytes(out.getvalue())


WRITERS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "jsonl": text,
    "jsonl.gz": lambda rows: gzip.compress(text(rows), mtime=0),
    "csv": csv,
    "parquet": parquet,
}


class Job:
    """A run of a sum over files."""

    def __init__(self, spark: SparkSession, path: Path, kind: str = "jsonl") -> None:
        self.spark, self.path, self.kind = spark, path, kind
        self.checked = check(flows.sums)
        self.plan: Plan = plan(self.checked, parallelism=2, key_groups=3)
        (path / "in").mkdir()

    def put(self, number: int, rows: list[dict[str, Any]]) -> Path:
        """A file of the source."""
        file = self.path / f"in/{number}.{self.kind}"
        file.write_bytes(WRITERS[self.kind](rows))
        os.utime(file, (number + 1, number + 1))
        return file

    def __call__(self, **options: Any) -> None:
        run(
            self.spark,
            self.plan,
            {"readings": str(self.path / "in")},
            lambda name: open_output(self.plan, str(self.path / "out"), name),
            checkpoint=str(self.path / "checkpoint"),
            files_per_step=1,
            **options,
        )

    def is_right(self, *files: list[dict[str, Any]]) -> None:
        """The output is the answer to these files, in this order."""
        trace, arranged = defined(self.checked, {"readings": [row(**one) for file in files for one in file]})
        assert rows_in(self.path / "out", "at") == rows_at_sink(self.checked, trace)
        assert len(side_outputs(self.path / "out/_late", "readings")) == len(arranged["readings"].late)


@pytest.mark.repeated
@pytest.mark.parametrize("kind", WRITERS)
def test_TT230_a_file_that_changed_between_runs(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    job = Job(spark, tmp_path, kind)
    first = job.put(0, ROWS[0])
    job(drain=False)
    before = first.read_bytes()
    job.put(0, ROWS[0][:-1])
    job.put(1, ROWS[1])
    with pytest.raises(RunError, match=f"{first} has changed: it was {len(before):,} bytes") as failed:
        job(drain=False)
    assert failed.value.code == "TT230"
    first.write_bytes(before)  # equal bytes, another time
    job()
    job.is_right(*ROWS[:2])


@pytest.mark.nightly
def test_files_that_Spark_reads_are_known_by_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an address that is not local: other bytes under a known name are not noticed, a new name is read."""
    monkeypatch.setenv(SCAN, "spark")
    job = Job(spark, tmp_path, "jsonl")
    job.put(0, ROWS[0])
    job(drain=False)
    job.put(0, ROWS[0][:-1])
    job.put(1, ROWS[1])
    job()
    job.is_right(*ROWS[:2])


@pytest.mark.parametrize("kind", often(WRITERS))
def test_TT231_files_that_are_gone_of_a_micro_batch_that_was_seen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Between the moves and the commit record. Nothing is taken back; with the file there the run goes on."""
    job = Job(spark, tmp_path, kind)
    files = [job.put(number, ROWS[number]) for number in range(3)]
    with monkeypatch.context() as broken:
        broken.setattr(FileOutput, "take", crashing(1, FileOutput.take, first=False))
        with pytest.raises((Crash, RunError)):
            job()
    seen = rows_in(tmp_path / "out", "at")
    assert seen
    files[1].unlink()
    with pytest.raises(
        RunError, match=rf"its rows are in {tmp_path}/out, and its input {files[1]}, .* is gone"
    ) as failed:
        job()
    assert failed.value.code == "TT231"
    assert rows_in(tmp_path / "out", "at") == seen
    job.put(1, ROWS[1])
    job()
    job.is_right(*ROWS[:3])


def test_TT231_a_commit_record_without_the_state(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(spark, tmp_path)
    files = [job.put(number, ROWS[number]) for number in range(2)]
    with monkeypatch.context() as broken:
        broken.setattr(RunStore, "commit", crashing(0, RunStore.commit, first=False))
        with pytest.raises((Crash, RunError)):
            job()
    files[0].unlink()
    with pytest.raises(RunError, match="its rows are out and committed, and its state is still to come") as failed:
        job()
    assert failed.value.code == "TT231"
    job.put(0, ROWS[0])
    job()
    job.is_right(*ROWS[:2])


@pytest.mark.parametrize("change", often(["removed", "replaced"]))
def test_a_file_of_which_nobody_has_seen_anything(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    job = Job(spark, tmp_path)
    files = [job.put(number, ROWS[number]) for number in range(3)]
    with monkeypatch.context() as broken:
        broken.setattr(output_interface, "move", crashing(0, output_interface.move, first=True))
        with pytest.raises((Crash, RunError)):
            job()
    if change == "removed":
        files[1].unlink()
        job()
        job.is_right(ROWS[0], ROWS[2])
    else:
        job.put(1, ROWS[1][:4])
        job()
        job.is_right(ROWS[0], ROWS[1][:4], ROWS[2])


@pytest.mark.repeated
@pytest.mark.parametrize("kind", ["jsonl.gz", "parquet"])
def test_a_draining_run_goes_on_without_the_bad_file(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Drained means answered: others may come instead."""
    job = Job(spark, tmp_path, kind)
    job.put(0, ROWS[0])
    bad = job.put(1, ROWS[1])
    bad.write_bytes(bad.read_bytes()[:-6])
    with pytest.raises(RunError, match=f"{bad} cannot be read") as failed:
        job()
    assert failed.value.code == "TT208"
    bad.unlink()
    job.put(2, ROWS[2])
    job.put(3, ROWS[3])
    job()
    job.is_right(ROWS[0], ROWS[2], ROWS[3])
    with pytest.raises(RunError, match="is finished") as failed:
        job()
    assert failed.value.code == "TT212"


@pytest.mark.parametrize("change", ["its file is removed", "the run does not drain"])
def test_what_an_attempt_has_left_of_state_is_forgotten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Spark does not write over the state of the attempt that crashed. The run after the next one would read it."""
    job = Job(spark, tmp_path)
    files = [job.put(number, ROWS[number]) for number in range(3)]
    with monkeypatch.context() as broken:
        broken.setattr(FileOutput, "take", crashing(2, FileOutput.take, first=True))
        with pytest.raises((Crash, RunError)):
            job(drain=change == "the run does not drain")
    if change == "its file is removed":
        files[2].unlink()
    job(drain=False)
    job.put(3, ROWS[3])
    job()
    job.is_right(*(ROWS[number] for number in range(4) if number != 2 or files[2].exists()))


@pytest.mark.repeated
@pytest.mark.parametrize("drain", [True, False])
@pytest.mark.parametrize("visible", [True, False])
def test_lines_that_are_appended_after_a_crash(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drain: bool, visible: bool
) -> None:
    """To a file of the micro-batch that was under way."""
    job = Job(spark, tmp_path)
    whole = b"{\n" + text(ROWS[0])  # a reject, which is seen
    (tmp_path / "in/0.jsonl").write_bytes(whole[:-30])
    os.utime(tmp_path / "in/0.jsonl", (1, 1))
    with monkeypatch.context() as broken:
        broken.setattr(FileOutput, "take", crashing(0, FileOutput.take, first=not visible))
        with pytest.raises((Crash, RunError)):
            job(appended=True, drain=False)
    (tmp_path / "in/0.jsonl").write_bytes(whole)
    job.put(1, ROWS[1])
    job(appended=True, drain=drain)
    if not drain:
        job(appended=True)
    job.is_right(ROWS[0], ROWS[1])


def test_TT212_files_that_come_after_the_end(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end was answered, and the run killed before it could say so. The next start says which file nobody reads."""
    job = Job(spark, tmp_path)
    job.put(0, ROWS[0])
    with monkeypatch.context() as broken:
        broken.setattr(RunStore, "finish", crashing(0, RunStore.finish, first=True))
        with pytest.raises((Crash, RunError)):
            job()
    late = job.put(1, ROWS[1])
    with pytest.raises(RunError, match=f"everything was answered, and {late} came after that") as failed:
        job()
    assert failed.value.code == "TT212"
    job.is_right(ROWS[0])


# ---------------------------------------------------------------------------------------------------- --follow


class Enough(RunError):
    """Ends a run that follows."""


def following(*steps: Callable[[], None]) -> Callable[[Batch], None]:
    """After each micro-batch the next step; after the last one the run ends."""
    left = list(steps)

    def told(batch: Batch) -> None:
        if not left:
            raise Enough("TT000", "enough")
        left.pop(0)()

    return told


@pytest.mark.parametrize("kind", often(WRITERS))
def test_TT230_a_file_that_changes_between_micro_batches(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    job = Job(spark, tmp_path, kind)
    first = job.put(0, ROWS[0])

    def change() -> None:
        first.write_bytes(WRITERS[kind](ROWS[0][:-1]))

    with pytest.raises(RunError, match=f"{first} has changed") as failed:
        job(follow=True, on_batch=following(change))
    assert failed.value.code == "TT230"


def test_TT230_a_last_line_that_was_half_written(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    first = job.put(0, ROWS[0])
    first.write_bytes(text(ROWS[0])[:-5])

    def complete() -> None:
        first.write_bytes(text(ROWS[0]))

    with pytest.raises(RunError, match=f"{first} has changed") as failed:
        job(follow=True, on_batch=following(complete))
    assert failed.value.code == "TT230"


@pytest.mark.repeated
def test_appended_lines_of_a_run_that_follows_and_of_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole lines are read, each once, also when the run crashes before and after it commits."""
    job = Job(spark, tmp_path)
    log, whole = tmp_path / "in/log.jsonl", text([one for file in ROWS for one in file])
    cuts = [len(whole) * part // 7 for part in range(1, 8)]
    written = iter(cuts)

    def grow() -> None:
        log.write_bytes(whole[: next(written)])

    grow()
    with pytest.raises(Enough):
        job(follow=True, appended=True, on_batch=following(grow, grow))
    grow()
    with monkeypatch.context() as broken:
        broken.setattr(FileOutput, "take", crashing(0, FileOutput.take, first=False))
        with pytest.raises((Crash, RunError)):
            job(follow=True, appended=True)
    grow()
    with monkeypatch.context() as broken:
        broken.setattr(RunStore, "commit", crashing(1, RunStore.commit, first=False))
        with pytest.raises((Crash, RunError)):
            job(follow=True, appended=True, on_batch=following(grow, grow))
    log.write_bytes(whole)
    job(appended=True)
    job.is_right([one for file in ROWS for one in file])


@pytest.mark.repeated
def test_a_file_that_is_removed_before_it_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run itself goes on without it."""
    job = Job(spark, tmp_path)
    gone = job.put(0, ROWS[0])
    job.put(1, ROWS[1])
    begin = batches.EndOfSources.begin

    def listed(ending: Any) -> None:
        begin(ending)
        gone.unlink(missing_ok=True)

    monkeypatch.setattr(batches.EndOfSources, "begin", listed)
    job()
    job.is_right(ROWS[1])


def test_what_a_checkpoint_holds_of_files(spark: SparkSession, tmp_path: Path) -> None:
    """Listings that are committed are gone."""
    job = Job(spark, tmp_path)
    for number in range(4):
        job.put(number, ROWS[number])
    job()
    (home,) = (tmp_path / "checkpoint/inputs").iterdir()
    assert len(os.listdir(home / "steps")) <= 2
    records = [json.loads(path.read_text())["files"] for path in sorted((tmp_path / "checkpoint/commits").iterdir())]
    names = [Path(file[0]).name for record in records for file in record["readings"]["files"]]
    assert names == [f"{number}.jsonl" for number in range(4)]


def test_the_option(cli: Any, tmp_path: Path) -> None:
    flow = flows.here("sums")
    log = write_lines(tmp_path / "in/log.jsonl", [row(**one) for one in ROWS[0]], at=1)
    command = ["run", flow, "-i", f"readings={tmp_path}/in", "-o", f"sums={tmp_path}/out", "--quiet"]
    assert cli(*command, "--no-drain").code == 0
    write_lines(log, [row(**one) for one in [*ROWS[0], *ROWS[1]]], at=2)
    refused = cli(*command)
    assert refused.code == 1
    assert f"TT230 {log} has changed" in refused.err
    assert cli(*command, "--appended", "read").code == 0
    checked = check(flows.sums)
    trace, _ = defined(checked, {"readings": [row(**one) for one in [*ROWS[0], *ROWS[1]]]})
    assert rows_in(tmp_path / "out", "at") == rows_at_sink(checked, trace)


@attrs.frozen
class Overlooked:
    ts: int


def test_TT214_the_sources_end_before_a_file_was_taken(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Spark overlooks: no row is missing from a run that says that it is done."""
    empty = tmp_path / "empty"
    empty.mkdir()
    real: Any = FileInput.listing

    class Elsewhere:
        path, parts, tasks = empty, 2, 2

    monkeypatch.setattr(FileInput, "listing", lambda self, listings: real(self, Elsewhere()))
    flow = Dataflow("overlooked")
    flow.sink("out", flow.source("rows", U[Unit, Overlooked], markers=every(seconds=1, time=lambda r: r.ts)))
    write_lines(tmp_path / "in" / "0.jsonl", ['{"ts": 1}'])
    rows: list[Any] = []
    with pytest.raises(RunError, match=r"TT214 source 'rows' ended before Spark took .*0\.jsonl"):
        tracetypes.run(flow, {"rows": str(tmp_path / "in")}, {"out": rows}, backend="spark", parallelism=2)
