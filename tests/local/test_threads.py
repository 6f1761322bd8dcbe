"""Whatever ends a thread of a run ends the run with its error. Nothing here waits for a clock: the timeouts are guards."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import tracetypes
from tracetypes import Dataflow, Emit, OpStateless, RunError, U, Unit, check, every, text_lines
from tracetypes.compiler.backend.control import Bell, Control
from tracetypes.compiler.backend.supervisor import Supervisor
from tracetypes.compiler.connectors import line_streams, mqtt
from tracetypes.compiler.connectors.arrivals import Arrivals
from tracetypes.compiler.local.inputs import LocalStream
from tracetypes.compiler.local.kernels import SplitTask
from tracetypes.compiler.local.split_source import EarlySplit, SplitSource
from tracetypes.compiler.local.workers import Workers
from tracetypes.compiler.plan.plan import SourceLink, links
from tracetypes.compiler.plan.planner import plan as plan_of
from tracetypes.stdlib import aggregate, count

GUARD = 60.0
"""Seconds after which something hangs."""


class Own(BaseException):
    """Of an author."""


ENDS = [
    *(SystemExit(0), SystemExit("no"), KeyboardInterrupt()),
    *(asyncio.CancelledError(), GeneratorExit(), Own("x"), ValueError("y")),
]


@attrs.frozen
class Row:
    key: str
    ts: int


def failure_of(body: Callable[[], object]) -> BaseException:
    """What a call raises, in a thread that may hang."""
    caught: list[BaseException] = []

    def guarded() -> None:
        try:
            body()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(GUARD)
    assert not thread.is_alive(), "it hangs"
    assert caught, "nothing is raised"
    return caught[0]


def flow_of(operator: Any = None) -> Dataflow:
    flow = Dataflow("rows")
    source = flow.source("rows", U[str, Row], key=lambda row: row.key, markers=every(seconds=10, time=lambda row: row.ts))
    through = source if operator is None else source.through(operator)
    flow.sink("counts", through.through(aggregate(count())))
    return flow


def run(flow: Dataflow, rows: Any, **options: Any) -> Callable[[], object]:
    return lambda: tracetypes.run(flow, {"rows": rows}, {"counts": []}, backend="local", **options)


def refused(error: BaseException, code: str, *parts: str) -> None:
    assert isinstance(error, RunError), repr(error)
    assert error.code == code
    for part in parts:
        assert part in str(error)


@pytest.mark.parametrize("behind", [0, 1, 10_001])
@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_a_generator(end: BaseException, behind: int) -> None:
    def rows() -> Iterator[Row]:
        for ts in range(behind):
            yield Row("a", ts)
        raise end

    error = failure_of(run(flow_of(), rows()))
    refused(error, "TT208", "source 'rows'", type(end).__name__, str(end))
    assert error.__cause__ is end


@attrs.frozen
class Ends(OpStateless[str, Row, str, Row]):
    """Raises at the row of a time."""

    kind: type[BaseException]

    def on_item(self, key: str, value: Row, emit: Emit[str, Row]) -> None:
        if value.ts == 15:
            raise self.kind
        emit(key, value)


@pytest.mark.parametrize("options", [{}, {"parallelism": 2}, {"parallelism": 2, "processes": "always"}], ids=str)
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_an_operator(kind: type[BaseException], options: dict[str, Any], tmp_path: Path) -> None:
    """In the thread of the segment, in a worker, in a process."""
    for number in range(4):
        (tmp_path / f"{number}.jsonl").write_text("".join(f'{{"key": "a", "ts": {ts}}}\n' for ts in range(20)))
    error = failure_of(run(flow_of(Ends(kind)), str(tmp_path), **options))
    assert isinstance(error, tracetypes.TraceTypesError), repr(error)
    assert kind.__name__ in str(error)


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_a_worker_between_two_epochs(end: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads ahead when nobody waits for it. The error is that of the epoch to which the split belongs."""
    for number in range(9):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"key": "a", "ts": {number}}}\n')
    real = Workers.run

    def after(self: Workers, work: Any) -> Any:
        messages = real(self, work)
        assert self.driver is not None
        crew = self.driver.crew
        assert crew is not None
        crew.errors.append(end)  # what a thread of its own does, in the same order
        crew.scheduler.stop()
        crew.failed()
        return messages

    monkeypatch.setattr(Workers, "run", after)
    error = failure_of(run(flow_of(), str(tmp_path), parallelism=2, files_per_step=1))
    assert isinstance(error, RunError), repr(error)
    assert type(end).__name__ in str(error)


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_a_split_that_is_read_early(end: BaseException) -> None:
    source, plan = SplitSource(), plan_of(check(flow_of()))
    stage = plan.stages[0]
    [link] = links(stage.region)
    assert isinstance(link, SourceLink)
    task = SplitTask(stage, link, "split", 0)

    def read(task: SplitTask) -> Any:
        raise end

    source.begin([], [task])
    [_], [early] = source.take(1), source.take(1)
    assert isinstance(early, EarlySplit)
    assert source.answer(early, read) is None
    source.begin([task])
    assert source.take(1) == [early]
    with pytest.raises(type(end)):
        source.answer(early, read)


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_the_end_of_a_segment(end: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise end

    def rows() -> Iterator[Row]:
        yield Row("a", 1)

    monkeypatch.setattr(LocalStream, "leave", fails)
    error = failure_of(run(flow_of(), rows()))
    assert isinstance(error, RunError), repr(error)
    assert type(end).__name__ in str(error)


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_lines(end: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Iterator[bytes]:
        raise end

    monkeypatch.setattr(line_streams, "_blocks", fails)
    with socket.create_server(("127.0.0.1", 0)) as server:
        error = failure_of(run(flow_of(), f"tcp://127.0.0.1:{server.getsockname()[1]}"))
    refused(error, "TT208", "tcp://127.0.0.1", type(end).__name__)
    assert error.__cause__ is end


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_standard_input(end: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Iterator[bytes]:
        raise end

    monkeypatch.setattr(line_streams, "_blocks", fails)
    flow = Dataflow("lines")
    flow.sink("out", flow.source("lines", U[Unit, str], format=text_lines(), markers=every(seconds=10, time=int)))
    leaf = plan_of(check(flow)).sources[0]
    number = os.open(os.devnull, os.O_RDONLY)
    arrivals = line_streams.read_lines(leaf, 1, number)
    error = failure_of(lambda: arrived(arrivals))
    os.close(number)
    refused(error, "TT208", "standard input", type(end).__name__)


def arrived(arrivals: Arrivals) -> None:
    """Take what comes, until the source fails."""
    rung = threading.Event()
    arrivals.alarm(rung)
    while not arrivals.ended:
        rung.wait(GUARD)
        rung.clear()
    arrivals.end_of_epoch(0)


class Broker:
    """A client of MQTT that is played here."""

    def __init__(self, subscribes: BaseException | None) -> None:
        self.subscribes = subscribes

    def subscribe(self, topic: str, qos: int) -> None:
        if self.subscribes is not None:
            raise self.subscribes

    def disconnect(self) -> None:
        pass

    def loop_stop(self) -> None:
        pass


@pytest.mark.parametrize("end", ENDS, ids=repr)
@pytest.mark.parametrize("where", ["connect", "subscribe", "message"])
def test_mqtt(where: str, end: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the thread of the client, which ends with the first error of a callback."""
    client: Any = Broker(end if where == "subscribe" else None)

    def connect(self: Any, failure: Any, prepare: Callable[[Any], None]) -> Any:
        if where == "connect":
            raise end
        def hear() -> None:
            prepare(client)
            client.on_message(client, None, None)

        thread = threading.Thread(target=hear)
        thread.start()
        thread.join()
        return client

    def take(self: Any, *_: object) -> None:
        if where == "message":
            raise end

    monkeypatch.setattr(mqtt.MqttAddress, "connect", connect)
    monkeypatch.setattr(mqtt._Session, "take", take)
    leaf = plan_of(check(flow_of())).sources[0]
    arrivals = mqtt.mqtt_messages(leaf, mqtt.MqttAddress.of("mqtt://127.0.0.1/a?client=x"), 1)
    arrivals.resume("reading", ())
    error = failure_of(lambda: arrived(arrivals))
    arrivals.leave("reading", finished=True)
    refused(error, "TT208", "127.0.0.1", type(end).__name__)


class Failed:
    """A segment that has failed."""

    metrics = None

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure

    def listen(self, bell: Bell) -> None:
        bell.ring()

    def drain(self) -> None: ...

    def stop(self) -> None: ...

    def wait(self, seconds: float | None = None) -> bool:
        return True


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_a_segment_on_any_backend(end: BaseException) -> None:
    """What its thread raised is an error of the run, and no request to the program that called it."""
    supervisor = Supervisor(Control())
    segment: Any = Failed(end)
    supervisor.start("a", lambda: segment)
    error = failure_of(supervisor.watch)
    if isinstance(end, Exception):
        assert error is end
    else:
        refused(error, "TT214", type(end).__name__)
