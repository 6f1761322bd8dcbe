"""What a run says of itself: which backend it is, and what its sources promise that cannot be replayed."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tracetypes
from tests.local.test_streams import Click, clicks, line, server
from tests.spark.flows import here
from tests.spark.support import Cli, row, write_lines
from tests.spark.test_metrics import Screen
from tracetypes import RunError, cli
from tracetypes.compiler.backend.backend import Opening
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.local.backend import LocalBackend

flow = clicks()
ROWS = [Click("a", 1), Click("a", 12)]

ONCE = "{} cannot be read again; rows that no micro-batch has taken when the run ends are lost, unless they are sent again"
GIVEN = (
    "its rows are not in the checkpoint; a run that goes on takes what the program gives then, and cannot go on if it was killed "
    "while rows of a micro-batch were visible"
)
KEPT = "mqtt://127.0.0.1:{}/shops/# sends messages again that no micro-batch has committed, so none is lost; each counts {}"
ONE, SEVERAL = (
    "once if the broker marks such messages as duplicates, and at least once otherwise",
    "at least once, because the source is read 2 times",
)


def promises(err: str) -> list[str]:
    """The lines of promises, without the source."""
    start = "source 'clicks': "
    return [one.removeprefix(start) for one in err.splitlines() if one.startswith(start)]


@contextmanager
def standard_input(text: bytes) -> Iterator[None]:
    out, into = os.pipe()
    os.write(into, text)
    os.close(into)
    with os.fdopen(out) as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", file)
        yield


# ------------------------------------------------------------------------------------------------- which backend


def test_a_run_says_which_backend_it_is(cli: Cli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [row(id="a", ts=1, watts=5)])
    ran = cli("run", here("sums"), "--backend", "local", "-i", f"readings={path}", "-o", "sums=-")
    (seconds,) = [one for one in ran.err.splitlines() if one.startswith("seconds: ")]
    phases = [part.rpartition(" ")[0] for part in seconds.removeprefix("seconds: ").split(", ")]
    assert phases == [
        *("start of Python", "plan", "checks", "start of the local backend", "start of queries", "micro-batches", "stop")
    ]
    assert "Spark" not in ran.err


def test_a_terminal_shows_it_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "in.jsonl", [row(id="a", ts=1, watts=5)])
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    assert cli.main(["run", here("sums"), "--backend", "local", "-i", f"readings={path}", "-o", f"sums={tmp_path}/out"]) == 0
    assert "starting the local backend ..." in screen.getvalue().splitlines()
    assert "Spark" not in screen.getvalue()


# ------------------------------------------------------------------------------------------------- what is promised


def test_standard_input_and_sockets_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    """Once, and not where files are read."""
    target, text = f"{__name__}:flow", line("a", 1) + line("b", 12)
    with standard_input(text):
        ran = cli("run", target, "-i", "clicks=-", "-o", f"counts={tmp_path}/one")
    assert (ran.code, promises(ran.err)) == (0, [ONCE.format("standard input")])
    with server(lambda client: client.sendall(text)) as address:
        ran = cli("run", target, "-i", f"clicks={address}", "-o", f"counts={tmp_path}/two")
    assert (ran.code, promises(ran.err)) == (0, [ONCE.format(address)])
    (tmp_path / "in.jsonl").write_bytes(text)
    ran = cli("run", target, "-i", f"clicks={tmp_path}/in.jsonl", "-o", f"counts={tmp_path}/three")
    assert (ran.code, promises(ran.err)) == (0, [])


@pytest.mark.parametrize(
    ("given", "promised"),
    [
        (lambda: iter(ROWS), [GIVEN]),
        (lambda: pa.table({"page": ["a", "a"], "ts": [1, 12]}).to_reader(), [GIVEN]),
        (lambda: pa.table({"page": ["a", "a"], "ts": [1, 12]}), []),
        (lambda: ROWS, []),
    ],
    ids=["generator", "Arrow reader", "table", "list"],
)
def test_rows_of_the_program(given: Any, promised: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the checkpoint stays. No run can go on from a temporary one."""
    rows: list[Any] = []
    assert tracetypes.run(flow, {"clicks": given()}, {"counts": rows}, backend="local").backend == "local"
    assert rows == [("a", 1), ("a", 1)]
    assert capsys.readouterr().err == ""
    tracetypes.run(flow, {"clicks": given()}, {"counts": tmp_path / "out"}, backend="local")
    assert promises(capsys.readouterr().err) == promised
    tracetypes.start(flow, {"clicks": given()}, {"counts": rows}, checkpoint=tmp_path / "c", backend="local", follow=False).wait()
    assert promises(capsys.readouterr().err) == promised


def test_standard_input_from_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with standard_input(line("a", 1)):
        tracetypes.run(flow, {"clicks": "-"}, {"counts": tmp_path / "out"}, backend="local")
    assert promises(capsys.readouterr().err) == [ONCE.format("standard input")]


def test_MQTT(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said before the broker is asked, and without the password."""
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"mqtt://me:unsaid-7f3@127.0.0.1:{port}/shops/%23?client=c"
    with pytest.raises(RunError, match="TT208"):
        tracetypes.run(flow, {"clicks": address}, {"counts": tmp_path / "out"}, backend="local")
    assert promises(capsys.readouterr().err) == [KEPT.format(port, ONE)]
    leaf = compile_program(flow).plans[0].sources[0]
    opened = LocalBackend.open(Opening(leaf, address, str(tmp_path), None, "modified", False, 2))
    assert opened.warning == f"source 'clicks': {KEPT.format(port, SEVERAL)}"
