"""Worker processes come from a server that has imported what they need; they know nothing of what it is, and it leaves nothing
behind."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.forkserver import ForkServer
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pytest

from tests.local.test_processes import script
from tracetypes import Dataflow, Emit, OpStateless, U, Unit, every
from tracetypes import run as run_flow
from tracetypes.compiler.local import fork_server, worker_process
from tracetypes.compiler.local.fork_server import ForkedProcess, forks
from tracetypes.compiler.local.placement import has_gil
from tracetypes.errors import RunError

pytestmark = pytest.mark.skipif(not forks() or not has_gil(), reason="worker processes are not forked here")


@contextmanager
def forked() -> Iterator[ForkedProcess]:
    """A worker process that waits for a request until the end."""
    ours, theirs = socket.socketpair()
    read_end, lifeline = os.pipe()
    with ours, theirs:
        process = ForkedProcess(theirs.fileno(), read_end)
        theirs.close()
        os.close(read_end)
        yield process
        os.close(lifeline)
    process.kill()
    process.wait(20)


def server() -> int:
    """The process of the server."""
    pid = fork_server._server[0]._forkserver_pid  # type: ignore[attr-defined]
    return int(pid)


# ------------------------------------------------------------------------------------------------ one process


def test_its_status() -> None:
    with forked() as process:
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert process.pid not in (-1, os.getpid(), server())
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(20) == process.poll() == process.wait(0) == -signal.SIGKILL
    ours, theirs = socket.socketpair()
    read_end, lifeline = os.pipe()
    process = ForkedProcess(theirs.fileno(), read_end)
    theirs.close()
    ours.close()
    assert process.wait(20) == 0
    for one in (read_end, lifeline):
        os.close(one)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def ended(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("seed", range(6))
def test_the_server_dies_at_any_moment(seed: int) -> None:
    """Its processes count as ended, and end; the next one has another server."""
    chance = random.Random(seed)
    with forked() as first:
        assert parent_of(first.pid) == server()
    with forked() as process:
        if chance.random() < 0.5:
            os.kill(server(), signal.SIGKILL)
            pid = process.pid
        else:
            pid = process.pid
            os.kill(server(), signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL
        until(lambda: pid == -1 or ended(pid))
    with forked() as another:
        if chance.random() < 0.5:
            time.sleep(chance.random() * 0.5)
            os.kill(server(), signal.SIGKILL)  # while it imports
            another.wait(20)
        else:
            assert another.poll() is None
            assert parent_of(another.pid) == server()


def test_somebody_else_takes_the_status_of_the_server() -> None:
    """As a program does that waits for all its children."""
    with forked() as first:
        assert first.pid > 0
    before = server()
    os.kill(before, signal.SIGKILL)
    os.waitpid(before, 0)
    with forked() as process:
        assert process.poll() is None
        assert server() != before
        assert parent_of(process.pid) == server()


def test_a_server_that_is_about_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives, but takes no more requests."""
    real, refused = ForkServer.connect_to_new_process, list[int]()

    def connect(self: ForkServer, numbers: list[int]) -> tuple[int, int]:
        if len(refused) < most:
            refused.append(1)
            raise ConnectionRefusedError(111, "Connection refused")
        return real(self, numbers)

    monkeypatch.setattr(ForkServer, "connect_to_new_process", connect)
    most = 2
    with forked() as process:
        assert process.poll() is None
    most = 10
    with pytest.raises(ConnectionRefusedError), forked():
        pass


def test_no_file_descriptor_is_left() -> None:
    with forked() as process:
        assert process.pid > 0
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with forked() as process:
            assert process.poll() is None
        with forked() as process:
            assert process.pid > 0
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_it_has_only_its_own_file_descriptors() -> None:
    """Otherwise the end of one is not seen as long as another one lives."""

    def files(process: ForkedProcess) -> set[str]:
        names = set[str]()
        for one in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                names.add(str(one.readlink()))
        return names

    with forked() as first, forked() as second:
        until(lambda: "/dev/null" in files(first) & files(second))
        shared = {name for name in files(first) & files(second) if name.startswith("socket:")}
        assert shared <= {str(Path(f"/proc/self/fd/{number}").readlink()) for number in (1, 2)}


# ------------------------------------------------------------------------------------------------------ runs


@attrs.frozen
class Hit:
    """A hit of a page."""

    page: str
    ts: int


@attrs.frozen
class Surroundings(OpStateless[Unit, Hit, str, str]):
    """What an operator sees of its process."""

    def on_item(self, key: Unit, value: Hit, emit: Emit[str, str]) -> None:
        emit("variable", str(os.environ.get("SURROUNDINGS")))
        emit("zone", time.strftime("%H", time.localtime(0)))
        emit("folder", os.getcwd())
        emit("path", sys.path[0])
        emit("input", repr(os.read(0, 1)))
        emit("group", str(os.getpgid(0) == os.getpid()))
        emit("pid", str(os.getpid()))
        emit("number", str(np.random.random()))
        emit("interrupts", str(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])))
        emit("imported before", str(gc.get_freeze_count() > 50_000))
        os.write(1, b"written\n")


def surroundings() -> dict[str, set[str]]:
    flow = Dataflow("surroundings")
    source = flow.source("web", U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts))
    flow.sink("out", source.through(Surroundings()))
    out: list[Any] = []
    hits = [Hit("a", n) for n in range(2)]
    run_flow(
        flow, {"web": hits}, {"out": out}, backend="local", parallelism=2, processes="always", drain=True, verify=False
    )
    seen: dict[str, set[str]] = {}
    for key, value in out:
        seen.setdefault(key, set()).add(value)
    return seen


def test_a_process_is_as_the_run_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    numbers = set[str]()
    for turn in range(2):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with monkeypatch.context() as patch:
            patch.setenv("SURROUNDINGS", str(turn))
            patch.setenv("TZ", f"UTC-{turn}")
            patch.chdir(folder)
            patch.syspath_prepend(str(folder))
            seen = surroundings()
        assert seen.pop("pid").isdisjoint({str(os.getpid()), str(server())})
        drawn = seen.pop("number")
        assert numbers.isdisjoint(drawn)
        numbers |= drawn
        assert seen == {
            "variable": {str(turn)},
            "zone": {f"{turn:02}"},
            "folder": {str(folder)},
            "path": {str(folder)},
            "input": {"b''"},
            "group": {"True"},
            "interrupts": {"False"},
            "imported before": {"True"},
        }
        assert capfd.readouterr().out == "written\n" * 2
    assert len(numbers) == 4


def test_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with forked() as process, monkeypatch.context() as patch:
        patch.chdir(gone)
        gone.rmdir()
        with forked() as other:
            assert other.pid > 0
            assert process.poll() is None


def test_where_nothing_can_be_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "forks", lambda: False)
    monkeypatch.setattr(worker_process, "ForkedProcess", None)
    assert surroundings()["group"] == {"True"}


def test_TT223_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(end: int, lifeline: int) -> ForkedProcess:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(worker_process, "ForkedProcess", fails)
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(RunError, match=r"cannot be started: .*temporarily unavailable") as error:
        worker_process.WorkerProcess()
    assert error.value.code == "TT223"
    assert sorted(os.listdir("/proc/self/fd")) == before


# ------------------------------------------------------------------------------------------------- programs

PROGRAM: Final = """
    import os, signal, sys, threading, time
    import attrs
    import tracetypes
    from tracetypes import Dataflow, Emit, OpStateless, U, Unit, every

    @attrs.frozen
    class Hit:
        page: str
        ts: int

    @attrs.frozen
    class Slow(OpStateless[Unit, Hit, str, int]):
        def on_item(self, key: Unit, value: Hit, emit: Emit[str, int]) -> None:
            time.sleep(SLOW)
            emit(value.page, value.ts)

    def run():
        flow = Dataflow("slow")
        source = flow.source("web", U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts))
        flow.sink("out", source.through(Slow()))
        out = []
        hits = [Hit("a", n) for n in (1, 2)]
        tracetypes.run(flow, {"web": hits}, {"out": out}, backend="local", parallelism=2, processes="always")
        return sorted(out)

"""


def program(path: Path, body: str, slow: float = 0.0) -> subprocess.Popen[str]:
    return script(path, textwrap.dedent(PROGRAM).replace("SLOW", str(slow)) + textwrap.dedent(body))


def test_a_program_that_forks_itself(tmp_path: Path) -> None:
    body = """
    print(run(), flush=True)
    child = os.fork()
    print(run(), flush=True)
    if child:
        assert os.waitpid(child, 0)[1] == 0
        print(run())
    """
    with program(tmp_path, body) as one:
        out, err = one.communicate(timeout=60)
    assert (one.returncode, out) == (0, "[('a', 1), ('a', 2)]\n" * 4), err


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.5])
def test_interrupts_reach_only_the_run(tmp_path: Path, delay: float) -> None:
    """Also while the server starts and imports: it prints no traceback, and nobody is left."""
    body = f"""
    from tracetypes.compiler.local import worker_process
    real = worker_process._start

    def start():
        started = real()
        if not hasattr(start, "sent"):
            start.sent = True
            threading.Timer({delay}, os.killpg, (os.getpgid(0), signal.SIGINT)).start()
        return started

    worker_process._start = start
    try:
        run()
    except KeyboardInterrupt:
        print("interrupted")
    """
    with program(tmp_path, body, slow=0.5) as one:
        out, err = one.communicate(timeout=60)  # the end of its output: no child of it is left that has it
    assert "forkserver" not in err
    assert out == "interrupted\n" or one.returncode == 0, err
