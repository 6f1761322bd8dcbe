"""Locks on directories: one run at a time, none is left by a process that was killed."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tracetypes import RunError
from tracetypes.compiler.store import locks
from tracetypes.compiler.store.locks import Locks

ROOT = Path(__file__).resolve().parent.parent

HOLD = """
import sys
from pathlib import Path
from tracetypes.compiler.store.locks import Locks
from tracetypes.errors import RunError
try:
    with Locks() as locks:
        locks.take(Path(sys.argv[1]), "the checkpoint")
        print("taken", flush=True)
        sys.stdin.read()
except RunError as error:
    print(error.code, flush=True)
"""
"""Takes a lock and holds it until its input ends."""

HOLD_AS_JAVA = """
import fcntl, sys
file = open(sys.argv[1], "a+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("taken", flush=True)
sys.stdin.read()
"""
"""What the Java process of a killed run does."""


@contextmanager
def process(script: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    pipe: Any = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as running:
        try:
            yield running
        finally:
            running.kill()


def said(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def test_a_lock_that_another_process_has_names_it_and_dies_with_it(tmp_path: Path) -> None:
    with process(HOLD, tmp_path) as other:
        assert said(other) == "taken"
        with pytest.raises(RunError) as refused, Locks() as mine:
            mine.take(tmp_path, "the checkpoint")
        assert refused.value.code == "TT221"
        holder = f"process {other.pid} on {socket.gethostname()}"
        assert refused.value.message == f"the checkpoint {tmp_path} is in use by another run, {holder}"
        other.send_signal(signal.SIGKILL)
        other.wait()
    with Locks() as mine:
        mine.take(tmp_path, "the checkpoint")


def test_of_many_first_starts_one_wins(tmp_path: Path) -> None:
    place = tmp_path / "not" / "there"
    with process(HOLD, place) as a, process(HOLD, place) as b, process(HOLD, place) as c:
        assert sorted(map(said, (a, b, c))) == ["TT221", "TT221", "taken"]


def test_two_runs_of_one_process_and_a_directory_by_two_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with Locks() as one, Locks() as other:
        one.take(tmp_path / "there", "the output directory")
        one.take(tmp_path / "link", "the output directory")  # its own
        with pytest.raises(RunError, match=rf"TT221 the output directory .*there is in use .* process {os.getpid()} "):
            other.take(tmp_path / "link", "the output directory")
        other.take(tmp_path, "the checkpoint")
    with Locks() as again:
        again.take(tmp_path / "there", "the output directory")


def test_a_java_process_that_outlives_its_driver_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 0.0)
    with Locks() as killed:  # what it has written stays
        killed.take(tmp_path, "the checkpoint")
        killed.share(lambda path: lambda: None, 4711)
    with process(HOLD_AS_JAVA, tmp_path / "_lock" / "java") as java:
        assert said(java) == "taken"
        with pytest.raises(RunError, match=r"TT221 .* still in use by Java process 4711 on .*\n.* kill process 4711$"):
            Locks().take(tmp_path, "the checkpoint")


def test_a_java_process_that_ends_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_lock").mkdir()
    with process(HOLD_AS_JAVA, tmp_path / "_lock" / "java") as java, Locks() as mine:
        assert said(java) == "taken"
        monkeypatch.setattr("time.sleep", lambda _: java.kill())
        mine.take(tmp_path, "the checkpoint")


def test_locks_are_shared_with_java_and_given_back(tmp_path: Path) -> None:
    events: list[str] = []

    def java(path: Path) -> Callable[[], None] | None:
        events.append(f"lock {path.parent.parent.name}")
        return None if path.parent.parent.name == "taken" else lambda: events.append("release")

    with Locks() as mine:
        mine.take(tmp_path / "a", "the checkpoint")
        mine.share(java, 1)
        mine.take(tmp_path / "b", "the output directory")
        mine.share(java, 1)
        with pytest.raises(RunError, match=r"^TT221 the output directory .*taken is in use"):
            mine.take(tmp_path / "taken", "the output directory")
    assert events == ["lock a", "lock b", "lock taken", "release", "release"]


def test_TT209_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(RunError, match=r"^TT209 the checkpoint .* cannot be locked: No locks available"):
        Locks().take(tmp_path, "the checkpoint")


def test_TT209_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run cannot say who it is. The lock is given back all the same."""

    def full() -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", full)
        with pytest.raises(RunError, match=f"TT209 {tmp_path}/_lock cannot be written: No space left") as error, Locks() as mine:
            mine.take(tmp_path, "the output")
    assert error.value.fix == "free some space there, and run again to go on"
    with Locks() as mine:
        mine.take(tmp_path, "the output")
