"""Crashes at every point of a batch, killed processes and Ctrl-C: the files in the output are the trace, each row once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark import flows
from tests.spark.support import Lines, defined, row, rows_at_sink, rows_in, side_outputs, write_lines
from tracetypes import RunError, check
from tracetypes.check import Checked
from tracetypes.compiler.backend.summary import Summary
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark import batches, query
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.store import output_interface
from tracetypes.compiler.store.outputs import FileOutput, open_output
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.version import stamp

ROOT = Path(__file__).parents[2]


class Crash(Exception):
    """Stands for the end of the process."""


def files(directory: Path, count: int = 2, rows: int = 12) -> list[str]:
    """Files with readings, late ones and rejects among them; all lines in the order of arrival."""
    lines: list[str] = []
    for number in range(count):
        some = [row(id="abc"[n % 3], ts=number * 10 + n - 2, watts=number + n) for n in range(rows)]
        some += [row(id="late", ts=-40, watts=1), "{"] if number else []
        write_lines(directory / f"{number}.jsonl", some, at=number + 1)
        lines += some
    return lines


class Job:
    """One run, as often as it takes."""

    files_per_step: int | None = 1

    def __init__(self, spark: SparkSession, tmp_path: Path) -> None:
        self.spark, self.path = spark, tmp_path
        self.lines = files(tmp_path / "in")
        self.checked: Checked = check(flows.delayed)
        self.plan: Plan = plan(self.checked, parallelism=2, key_groups=3)

    def __call__(self, told: Callable[[Any], None] | None = None) -> Summary:
        out = str(self.path / "out")
        return run(
            self.spark,
            self.plan,
            {"readings": str(self.path / "in")},
            lambda name: open_output(self.plan, out, name),
            checkpoint=str(self.path / "checkpoint"),
            files_per_step=self.files_per_step,
            on_batch=told,
        )

    def is_right(self) -> None:
        expect(self.checked, self.lines, self.path / "out")


def expect(checked: Checked, lines: Lines, out: Path) -> None:
    """Assert that an output holds the trace of a run, its late rows and its rejects: each row once."""
    trace, arranged = defined(checked, {"readings": lines})
    assert rows_in(out, "at") == rows_at_sink(checked, trace)
    late = Counter(one.reason for one in arranged["readings"].late)
    assert Counter(one["reason"] for one in side_outputs(out / "_late", "readings")) == late
    rejects = Counter(reason for _, reason in arranged["readings"].rejects)
    assert Counter(one["reason"] for one in side_outputs(out / "_rejects", "readings")) == rejects


def crashing(after: int, real: Callable[..., Any], *, first: bool) -> Callable[..., Any]:
    """A function that does its work ``after`` times and then, before or after it does it once more, crashes; once."""
    left = [after]

    def call(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == -1 and first:
            raise Crash
        result = real(*args, **options)
        if left[0] == -1:
            raise Crash
        return result

    return call


def crash_and_go_on(job: Any, point: tuple[Any, str, bool, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose process ends at a point, and which runs again then."""
    owner, name, first, after = point
    with monkeypatch.context() as broken:
        broken.setattr(owner, name, crashing(after, getattr(owner, name), first=first))
        with pytest.raises((Crash, RunError)) as crashed:
            job()
    assert "Crash" in f"{crashed.type.__name__} {crashed.value}"
    job()
    job.is_right()


POINTS: dict[str, tuple[Any, str, bool, int]] = {
    "before anything is written": (FileOutput, "take", True, 1),
    "rows are staged, not moved": (output_interface, "move", True, 1),
    "rows are moved, late ones and rejects are not": (output_interface, "move", False, 1),
    "some late ones are moved": (output_interface, "move", False, 2),
    "all is moved, the commit is not written": (FileOutput, "take", False, 1),
    "the commit is about to be written": (RunStore, "commit", True, 1),
    "the commit is written, Spark does not know": (RunStore, "commit", False, 1),
    "the next batch is not told": (batches, "tell", True, 1),
    "the sources are about to be drained": (RunStore, "drain", True, 0),
    "the sources are drained, nobody has answered": (RunStore, "drain", False, 0),
    "the drain is answered, nobody knows": (RunStore, "finish", True, 0),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_point_of_a_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The process ends there; the same command goes on and neither loses nor repeats a row."""
    crash_and_go_on(Job(spark, tmp_path), POINTS[point], monkeypatch)
    assert not list((tmp_path / "out/_tracetypes").glob("*"))


def test_the_test_of_crashes_would_notice(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An output that leaves what a batch without a commit has written behind repeats rows."""
    job = Job(spark, tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(FileOutput, "take", crashing(1, FileOutput.take, first=False))
        with pytest.raises((Crash, RunError)):
            job()
    left = sorted((tmp_path / "out").glob("part-*-00000001-*"))
    assert left
    for part in left:
        shutil.copy(part, part.with_name(part.name.replace("part-", "part-other-")))
    job()
    with pytest.raises(AssertionError):
        job.is_right()


def test_a_disk_error_while_a_batch_is_moved(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(spark, tmp_path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "part-1")

    with monkeypatch.context() as broken:
        broken.setattr(output_interface, "move", full)
        with pytest.raises(RunError, match="output cannot be written: part-1: No space left on device") as failed:
            job()
    assert failed.value.code == "TT209"
    job()
    job.is_right()


OTHER_DISK = Path("/dev/shm")


@pytest.mark.skipif(not os.access(OTHER_DISK, os.W_OK), reason="there is no second file system at /dev/shm")
def test_late_rows_on_another_disk(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    aside = OTHER_DISK / f"tracetypes-test-{os.getpid()}"
    try:
        run(
            spark,
            job.plan,
            {"readings": str(tmp_path / "in")},
            open_output(job.plan, str(tmp_path / "out"), "run", str(aside / "late"), str(aside / "rejects")),
            checkpoint=str(tmp_path / "checkpoint"),
        )
        assert len(side_outputs(aside / "late", "readings")) == 1
        assert len(side_outputs(aside / "rejects", "readings")) == 1
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def test_a_start_that_was_killed_in_the_middle_of_a_log(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    log = tmp_path / "checkpoint" / "spark" / "offsets"
    log.mkdir(parents=True)
    stamp(tmp_path / "checkpoint")
    (log / ".0.6a1c2f5e.tmp").write_text("v1")
    job()
    job.is_right()


# ------------------------------------------------------------------------------------------------- processes


@pytest.mark.nightly
def test_a_python_process_that_is_slow_to_start(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark gives up after ten seconds; the query begins anew, three times without a micro-batch in between."""
    left = [4]
    wait = query._wait

    def slow(*given: Any, **options: Any) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise PySparkException("[STREAM_FAILED] terminated with exception: Python worker failed to connect back.")
        wait(*given, **options)

    monkeypatch.setattr(query, "_wait", slow)
    job = Job(spark, tmp_path)
    with pytest.raises(RunError, match="Python worker failed to connect back") as failed:
        job()
    assert (failed.value.code, left) == ("TT214", [0])
    left[0] = 3
    job()
    job.is_right()


class Process:
    """The command line in a process of its own, in a process group of its own as a shell would make it."""

    def __init__(self, tmp_path: Path, *, count: int = 4) -> None:
        self.path = tmp_path
        self.lines = files(tmp_path / "in", count)
        self.out = tmp_path / "out"

    def start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tracetypes.cli", "run", "tests.spark.flows:slow", "--master", "local[1]"]
        command += ["--files-per-step", "1", "-i", f"readings={self.path / 'in'}", "-o", f"sums={self.out}"]
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def until(self, running: subprocess.Popen[str], said: str) -> str:
        """Read what it says until it says that."""
        assert running.stderr is not None
        heard = ""
        for line in running.stderr:
            heard += line
            if said in line:
                return heard
        raise AssertionError(f"it never said {said!r}: {heard}")

    def finish(self, code: int = 0) -> str:
        """Run the same command to its end."""
        running = self.start()
        _, err = running.communicate(timeout=300)
        assert running.returncode == code, err
        assert "Traceback" not in err
        return err

    def kill_below(self, running: subprocess.Popen[str], victim: bytes, message: str) -> None:
        """Kill the processes of that name below a run, which ends with that message."""
        victims = [pid for pid in children(running.pid) if victim in command_of(pid).replace(b"/", b"\0").split(b"\0")]
        assert victims
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _, err = running.communicate(timeout=120)
        assert running.returncode == 1
        assert "TT214" in err
        assert message in err
        assert "Traceback" not in err

    def is_right(self) -> None:
        expect(check(flows.slow), self.lines, self.out)


def children(pid: int) -> list[int]:
    """The processes below one, from /proc."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found += [int(stat.parent.name), *children(int(stat.parent.name))]
    return found


@pytest.mark.nightly  # tests/local/test_fork_server.py interrupts the local backend every time
def test_ctrl_c(tmp_path: Path) -> None:
    """One command, twice: the second run goes on where the first one stopped."""
    job = Process(tmp_path)
    running = job.start()
    job.until(running, "batch 1:")
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all processes
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "stopped: " in err
    assert "the same command goes on where it stopped" in err
    parts = {part.name for part in job.out.glob("part-*")}
    assert parts
    assert "done: " in job.finish()
    assert parts < {part.name for part in job.out.glob("part-*")}
    job.is_right()


@pytest.mark.nightly
def test_a_kill_of_the_jvm(tmp_path: Path) -> None:
    """The next run goes on. ``tests/spark/test_recovery.py`` kills the driver and a worker every time."""
    job = Process(tmp_path, count=10)  # so many that the run has not ended when it is killed, on a busy machine either
    running = job.start()
    job.until(running, "batch 1:")
    parts = {part.name for part in job.out.glob("part-*")}
    job.kill_below(running, b"java", "Java process has ended")
    err = job.finish()
    assert "done: " in err
    assert parts < {part.name for part in job.out.glob("part-*")}
    job.is_right()


@pytest.mark.nightly
def test_a_driver_that_is_killed_twice(tmp_path: Path) -> None:
    """After its first commit, and when it has gone on."""
    job = Process(tmp_path)
    for text in ("batch 0:", "batch 2:"):
        running = job.start()
        job.until(running, text)
        running.kill()  # its JVM lives on for a moment, as after a real kill
        running.communicate(timeout=60)
    job.finish()
    job.is_right()


@pytest.mark.nightly
def test_a_worker_is_killed(tmp_path: Path) -> None:
    """tests/spark/test_recovery.py kills one in every run of the tests."""
    job = Process(tmp_path, count=3)
    running = job.start()
    job.until(running, "batch 0:")
    job.kill_below(running, b"pyspark.daemon", "Python worker exited unexpectedly")
    job.finish()
    job.is_right()


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
