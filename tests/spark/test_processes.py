"""Runs as processes: two on one checkpoint or output, a driver that is killed, Ctrl-C at any moment. Nothing outlives a run."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from pyspark.sql import SparkSession

from tests.spark import flows
from tests.spark.support import Cli, defined, row, rows_at_sink, rows_in, write_lines
from tracetypes import UsageError, check
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.store.compatibility import claim
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.outputs import open_output
from tracetypes.compiler.store.small_files import write_json

ROOT = Path(__file__).parents[2]
PATIENCE = 300


@attrs.define
class Runs:
    """Runs of one flow on the same input, each in a session of its own as a shell would make it."""

    path: Path
    engine: list[str] = attrs.Factory(lambda: ["--master", "local[1]"])
    started: list[subprocess.Popen[str]] = attrs.Factory(list)
    lines: list[str] = attrs.Factory(lambda: [row(id="abc"[n % 3], ts=n, watts=n) for n in range(90)])

    def start(self, checkpoint: str = "checkpoint", out: str = "out", *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tracetypes.cli", "run", "tests.spark.flows:delayed", *self.engine]
        command += ["-i", f"readings={self.path / 'in'}", "-o", f"sums={self.path / out}"]
        command += ["--checkpoint", str(self.path / checkpoint), *more]
        running = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(running)
        return running

    def is_right(self) -> None:
        """Each row is in the output once."""
        trace, _ = defined(flows.delayed, {"readings": self.lines})
        assert rows_in(self.path / "out", "at") == rows_at_sink(flows.delayed, trace)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    for number in range(3):
        write_lines(tmp_path / "in" / f"{number}.jsonl", made.lines[30 * number : 30 * number + 30], at=number + 1)
    yield made
    for running in made.started:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


def until(running: subprocess.Popen[str], text: str) -> None:
    """Read what a run says until it says that."""
    assert running.stderr is not None
    heard = ""
    for line in running.stderr:
        heard += line
        if text in line:
            return
    raise AssertionError(f"it never said {text!r}: {heard}")


def in_session(session: int) -> list[int]:
    """The processes of a session that live."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


def wait_for(processes: list[int]) -> None:
    """Wait until processes that are no children of ours have ended."""
    for pid in processes:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([handle], [], [], PATIENCE)[0], f"process {pid} lives on"
        finally:
            os.close(handle)


ENGINES = [["--backend", "local"], pytest.param(["--master", "local[1]"], marks=pytest.mark.nightly)]


@pytest.mark.parametrize("engine", ENGINES, ids=["local", "spark"])
def test_a_second_run_is_refused_and_a_killed_one_leaves_nothing(runs: Runs, engine: list[str]) -> None:
    runs.engine = engine
    first = runs.start("checkpoint", "out", "--follow")
    until(first, "batch 0:")
    holder = f"is in use by another run, process {first.pid} on {socket.gethostname()}"
    for checkpoint, out, what in (("checkpoint", "other", "checkpoint"), ("other", "out", "output directory")):
        second = runs.start(checkpoint, out)
        _, err = second.communicate(timeout=PATIENCE)
        assert second.returncode == 1
        assert err.startswith(f"tracetypes: TT221 the {what} ")
        assert holder in err
    processes = in_session(first.pid)
    assert processes
    if "--master" in engine:
        assert len(processes) > 2  # the driver, Java, Python workers
    first.kill()
    third = runs.start()
    _, err = third.communicate(timeout=PATIENCE)
    assert third.returncode == 0, err
    runs.is_right()
    wait_for(processes)
    assert in_session(first.pid) == []


@pytest.mark.parametrize("engine", ENGINES, ids=["local", "spark"])
def test_of_two_first_starts_one_wins(runs: Runs, engine: list[str]) -> None:
    runs.engine = engine
    both = {os.pidfd_open(one.pid): one for one in (runs.start("checkpoint", "out", "--follow") for _ in range(2))}
    (over, *_), _, _ = select.select(list(both), [], [], PATIENCE)
    lost, won = both.pop(over), *both.values()
    _, err = lost.communicate(timeout=PATIENCE)
    assert (lost.returncode, won.poll()) == (1, None), err
    assert "TT221" in err
    assert f"process {won.pid} on " in err
    until(won, "batch 0:")
    won.send_signal(signal.SIGINT)
    won.communicate(timeout=PATIENCE)
    for handle in (over, *both):
        os.close(handle)
    goes_on(runs)


CHANCE = random.Random(15)
MOMENTS = [round(CHANCE.uniform(0.0, 12.0), 1) for _ in range(12)]


def stop_at(runs: Runs, moment: float, number: signal.Signals) -> None:
    """Start a run and stop it while it starts. Nothing of it lives on. ``moment``: seconds since it was started."""
    running = runs.start("checkpoint", "out", "--follow")
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(moment)
    processes = in_session(running.pid)
    running.send_signal(number)
    running.communicate(timeout=PATIENCE)  # until nobody holds its pipes
    if number == signal.SIGINT:
        assert running.returncode in (130, -signal.SIGINT)  # the same in a shell
        assert in_session(running.pid) == []
    wait_for([*processes, *in_session(running.pid)])
    assert in_session(running.pid) == []


def goes_on(runs: Runs) -> None:
    """The same command goes on."""
    again = runs.start()
    _, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, err
    runs.is_right()


@pytest.mark.nightly
def test_a_run_that_is_interrupted_while_it_starts(runs: Runs) -> None:
    stop_at(runs, 5.0, signal.SIGINT)
    goes_on(runs)


@pytest.mark.nightly
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_while_it_starts(runs: Runs, moment: float, number: signal.Signals) -> None:
    stop_at(runs, moment, number)
    goes_on(runs)


# ------------------------------------------------------------------------------------- refused before Spark starts


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    write_lines(tmp_path / "in" / "0.jsonl", [row(id="a", ts=1, watts=1)])
    return ["run", "tests.spark.flows:delayed", "-i", f"readings={tmp_path / 'in'}"]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line where Spark must not start."""

    def session(**_: object) -> None:
        raise AssertionError("Spark starts")

    monkeypatch.setattr("tracetypes.compiler.spark.session.session", session)
    return Cli(capsys)


@pytest.mark.parametrize("port", ["0", "65536", "70000"])
def test_TT402_a_number_that_is_no_port(tmp_path: Path, no_spark: Cli, command: list[str], port: str) -> None:
    wrong = no_spark(*command, "-o", f"sums={tmp_path / 'out'}", "--prometheus", port)
    assert (wrong.code, f"TT402 --prometheus {port} is no port" in wrong.err) == (2, True)


def test_TT222_an_output_inside_the_input(tmp_path: Path, no_spark: Cli, command: list[str]) -> None:
    (tmp_path / "alias").symlink_to(tmp_path / "in")
    for more in (
        ["-o", f"sums={tmp_path / 'in' / 'out'}"],
        ["-o", f"sums={tmp_path / 'alias' / 'out'}"],
        ["-o", f"sums={tmp_path / 'out'}", "--checkpoint", str(tmp_path / "alias" / "_kept")],
        ["-o", f"sums={tmp_path / 'out'}", "--late", str(tmp_path / "in" / "late")],
        ["-o", f"sums={tmp_path}"],
    ):
        wrong = no_spark(*command, *more)
        assert (wrong.code, "TT222 source 'readings' reads " in wrong.err) == (2, True)
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["0.jsonl"]


def test_a_checkpoint_that_is_not_local(tmp_path: Path, no_spark: Cli, command: list[str]) -> None:
    wrong = no_spark(*command, "-o", f"sums={tmp_path / 'out'}", "--checkpoint", "hdfs://host/run")
    assert (wrong.code, "TT402 --checkpoint hdfs://host/run is not local" in wrong.err) == (2, True)
    wrong = no_spark(*command, "-o", f"sums={tmp_path / 'out'}", "--checkpoint", "gs://bucket/run")
    assert (wrong.code, "TT402 --checkpoint gs://bucket/run: of all stores, only s3:// keeps" in wrong.err) == (2, True)


def test_a_checkpoint_of_another_format(tmp_path: Path, no_spark: Cli, command: list[str]) -> None:
    (tmp_path / "out" / "_checkpoint").mkdir(parents=True)
    (tmp_path / "out" / "_checkpoint" / "format.json").write_text(json.dumps({"format": 99, "tracetypes": "9.9"}))
    wrong = no_spark(*command, "-o", f"sums={tmp_path / 'out'}")
    assert (wrong.code, "has format 99, written by tracetypes 9.9" in wrong.err) == (1, True)


@pytest.mark.parametrize("scheme", ["", "file://", "delta:"])
def test_TT208_an_input_that_is_not_there(tmp_path: Path, no_spark: Cli, command: list[str], scheme: str) -> None:
    command = [*command[:-1], f"readings={scheme}{tmp_path / 'none'}"]
    wrong = no_spark(*command, "-o", f"sums={tmp_path / 'out'}")
    assert (wrong.code, "TT208 " in wrong.err, str(tmp_path / "none") in wrong.err) == (1, True, True)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_that_does_not_go_on(tmp_path: Path, no_spark: Cli, command: list[str]) -> None:
    """TT211: it is of another graph; TT212: its run is finished."""
    compiled = program(check(flows.delayed))
    checkpoint = tmp_path / "out" / "_checkpoint"
    claimed = claim(checkpoint, compiled.plans[0], SparkLog)
    claimed.write()
    wrong = no_spark(*command, "-o", f"sums={tmp_path / 'out'}", "--key-groups", "5")
    assert (wrong.code, f"TT211 the checkpoint {checkpoint} cannot go on with this graph" in wrong.err) == (1, True)
    write_json(checkpoint / "finished", {"run": claimed.run})
    wrong = no_spark(*command, "-o", f"sums={tmp_path / 'out'}")
    assert (wrong.code, f"TT212 the run of checkpoint {checkpoint} is finished" in wrong.err) == (1, True)


@pytest.mark.parametrize("option", ["--late", "--rejects"])
def test_TT221_a_directory_of_late_items_or_rejects_is_in_use(
    tmp_path: Path, no_spark: Cli, command: list[str], option: str
) -> None:
    with Locks() as other:
        other.take(tmp_path / "aside", "the directory")
        wrong = no_spark(*command, "-o", f"sums={tmp_path / 'out'}", option, str(tmp_path / "aside"))
    what = "late items" if option == "--late" else "rejects"
    assert (wrong.code, f"TT221 the directory of {what} {tmp_path / 'aside'} is in use" in wrong.err) == (1, True)


@pytest.mark.parametrize("where", ["checkpoint", "out", "late"])
def test_TT222_in_Python_before_anything_is_read_or_written(spark: SparkSession, tmp_path: Path, where: str) -> None:
    """As on the command line. What is written there is the lock of a checkpoint that lies apart."""
    write_lines(tmp_path / "in" / "0.jsonl", [row(id="a", ts=1, watts=1)])
    planned = program(check(flows.delayed)).plans[0]
    places = {
        name: str(tmp_path / ("in" if name == where else "apart") / name) for name in ("checkpoint", "out", "late")
    }
    with pytest.raises(UsageError, match="TT222 source 'readings' reads "):
        run(
            spark,
            planned,
            {"readings": str(tmp_path / "in")},
            lambda name: open_output(planned, places["out"], name, places["late"], str(tmp_path / "rejects")),
            checkpoint=places["checkpoint"],
        )
    assert [path.name for path in (tmp_path / "in").rglob("*")] == ["0.jsonl"]
    found = {path.relative_to(tmp_path / "apart").as_posix() for path in (tmp_path / "apart").rglob("*")}
    assert found <= {"checkpoint", "checkpoint/_lock", "checkpoint/_lock/run", "checkpoint/_lock/java"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_TT209_metrics_that_cannot_be_written(tmp_path: Path, cli: Cli, command: list[str]) -> None:
    wrong = cli(*command, "-o", f"sums={tmp_path / 'out'}", "--metrics", "/dev/full")
    assert (wrong.code, "TT209 --metrics /dev/full cannot be written: No space left" in wrong.err) == (1, True)
