"""MQTT, with a real broker: whole runs, stops, and crashes at which messages were not acknowledged."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tracetypes
from tests.local.test_streams import COUNTS, Click, Crash, clicks, totals
from tests.local.test_types_and_formats import POSITIONS, all_kinds, differences, flow_of, moved
from tracetypes import RunError, UsageError
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.local.workers import Workers
from tracetypes.compiler.spark.backend import SparkEngine
from tracetypes.compiler.store.run_store import RunStore

pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto, the broker of these tests, is not installed")

from paho.mqtt.client import Client  # noqa: E402
from paho.mqtt.enums import CallbackAPIVersion  # noqa: E402


@pytest.fixture(scope="module")
def broker() -> Iterator[int]:
    """The port of a broker."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    assert MOSQUITTO is not None
    with subprocess.Popen([MOSQUITTO, "-p", str(port)], stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
        yield port
        process.kill()


def publish(port: int, topic: str, *payloads: bytes) -> None:
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for one in payloads:
        client.publish(topic, one, qos=1).wait_for_publish(20)
    client.disconnect()
    client.loop_stop()


def started(address: str, out: Path) -> Any:
    return tracetypes.start(clicks(), {"clicks": address}, {"counts": str(out)}, backend="local", follow=False)


def wait(run: Any, rows: int) -> None:
    until = time.monotonic() + 30
    while run.running and run.metrics["rows"] < rows:
        assert time.monotonic() < until, run.metrics
        time.sleep(0.01)


def message(page: str, ts: int) -> bytes:
    return b'{"page": "%s", "ts": %d}' % (page.encode(), ts)


def subscribed(address: str, out: Path) -> None:
    """Have the broker keep the session from now on."""
    run = started(address, out)
    time.sleep(1)
    run.stop()


def test_messages_with_late_ones_and_rejects_over_a_stop(tmp_path: Path, broker: int) -> None:
    address, out = f"mqtt://127.0.0.1:{broker}/a/%23?client=one", tmp_path / "out"
    subscribed(address, out)
    publish(broker, "a/x", message("a", 1), b"nonsense", message("b", 2))
    run = started(address, out)
    wait(run, 3)
    run.stop()
    publish(broker, "a/y", message("a", 15), message("a", 3))
    run = started(address, out)
    wait(run, 2)
    result = run.drain()
    assert (result.late, result.read) == ({"clicks": 1}, {"clicks": 2})
    assert totals(out) == {"a": 2, "b": 1}


@pytest.mark.parametrize("step", [(Workers, "run"), (RunStore, "commit"), (LocalLog, "end")], ids=["run", "commit", "end"])
def test_a_crash_loses_no_message_and_doubles_none(tmp_path: Path, broker: int, step: tuple[Any, str]) -> None:
    owner, name = step
    address, out = f"mqtt://127.0.0.1:{broker}/{name}?client={name}", tmp_path / "out"
    subscribed(address, out)
    real = getattr(owner, name)

    def call(*args: Any, **options: Any) -> Any:
        real(*args, **options)
        raise Crash

    publish(broker, name, message("a", 1), message("b", 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        run = started(address, out)
        with pytest.raises(RunError, match="Crash"):
            run.wait(30)
    publish(broker, name, message("a", 15))
    run = started(address, out)
    until = time.monotonic() + 20
    while time.monotonic() < until and not (run.metrics["rows"] and totals(out)):
        time.sleep(0.01)
    time.sleep(0.5)
    run.drain()
    assert totals(out) == {"a": 2, "b": 1}


def test_a_sink_publishes_a_message_for_each_row(tmp_path: Path, broker: int) -> None:
    heard: list[bytes] = []
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda client, data, message: heard.append(bytes(message.payload))
    client.connect("127.0.0.1", broker)
    client.subscribe("counts", qos=1)
    client.loop_start()
    time.sleep(0.5)
    options: Any = {"late": str(tmp_path / "late"), "rejects": str(tmp_path / "rejects"), "checkpoint": str(tmp_path / "c")}
    rows = [Click("a", 1), Click("b", 2), Click("a", 15)]
    outputs = {"counts": f"mqtt://127.0.0.1:{broker}/counts"}
    tracetypes.run(clicks(), {"clicks": rows}, outputs, backend="local", **options)
    until = time.monotonic() + 20
    while len(heard) < len(COUNTS) and time.monotonic() < until:
        time.sleep(0.01)
    client.disconnect()
    client.loop_stop()
    assert len(heard) == len(COUNTS)


@pytest.mark.parametrize("position", POSITIONS)
def test_a_source_reads_the_values_that_a_sink_published(tmp_path: Path, broker: int, position: str) -> None:
    """Of each type, in each position, at its edges."""
    record, rows = all_kinds(position)
    topic = f"mqtt://127.0.0.1:{broker}/types/{position}"
    found: list[Any] = []
    source: Any = {"rows": f"{topic}?client={position}"}
    run = tracetypes.start(flow_of(record, None), source, {"out": found}, backend="local", follow=False)
    time.sleep(1)  # until the broker knows the subscriber
    more: Any = {what: str(tmp_path / what) for what in ("checkpoint", "late", "rejects")}
    moved(record, rows, topic, **more)
    wait(run, len(rows))
    assert not run.drain().rejected_rows
    assert not differences(rows, sorted(found, key=lambda row: row.at))


def test_what_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for text in (f"mqtt://127.0.0.1:{port}/a", "mqtt://127.0.0.1/?client=x", "mqtt://127.0.0.1/a?client=x&qos=2"):
        with pytest.raises(UsageError, match=r"TT402.*is no address of an MQTT topic"):
            started(text, tmp_path / "out").wait(20)
    with pytest.raises(RunError, match=r"TT208.*cannot be read: Connection refused"):
        started(f"mqtt://127.0.0.1:{port}/a?client=x", tmp_path / "out").wait(20)
    said = SparkEngine.unsupported({"clicks": "mqtt://h/a?client=x"})
    assert list(said) == ["source 'clicks' reads an MQTT broker, which Spark cannot read"]
