"""Sources of the local backend that cannot be read again: lines of a socket, Arrow data in memory, and the latency of slow rows.

    python -m benchmarks.streams [--rows N] [--events N] [--rate N] [--rate-in-memory N] [--seconds N]

``socket``: JSON lines of seven fields, one in a thousand of them a reject, which another process sends as fast as they are
taken; the run counts them by key and second. Beside it what the steps take alone: ``receive`` the lines without parsing them,
``parse`` them. ``memory``: record batches of a generator, through the same run. ``latency``: milliseconds from the arrival of a
row to the commit that has it, with a checkpoint on disk, and to its emission, before the commit record: of single lines,
``--rate`` a second, and of a record batch each millisecond. Rates are measured with two threads, latencies with one and two.
Rates are by wall clock (``a_second``) and by seconds of processor time of this process (``a_processor_second``), as other
programs may run.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import numpy as np
import pyarrow as pa

from tracetypes import Dataflow, U, every
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.backend.run_request import RunRequest
from tracetypes.compiler.connectors.line_streams import socket_lines
from tracetypes.compiler.connectors.socket_address import SocketAddress
from tracetypes.compiler.connectors.text_reader import SplitNotes
from tracetypes.compiler.local.streams import lines_reader
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.running import engine_of
from tracetypes.stdlib import aggregate, count

SENDER = """
import socket, sys
block, copies = open(sys.argv[1], "rb").read(), int(sys.argv[2])
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    client, _ = server.accept()
    with client:
        for _ in range(copies):
            client.sendall(block)
"""
BLOCK = 100_000
"""Lines that the sender repeats; rows of a record batch."""

START = 2
"""Seconds at the beginning whose latency does not count."""


@attrs.frozen
class Event:
    """``ts``: milliseconds."""

    key: int
    ts: int
    user: str
    page: str
    amount: float
    ok: bool
    count: int


def totals() -> Dataflow:
    """The number of events of each key and second."""
    flow = Dataflow("totals")
    times = every(seconds=1, time=lambda e: e.ts, unit="ms", delay=1)
    events = flow.source("events", U[int, Event], key=lambda e: e.key, markers=times)
    flow.sink("totals", events.through(aggregate(count())), marker="until")
    return flow


def lines() -> bytes:
    """Lines of which one in a thousand is a reject."""
    rows = (
        {"key": n % 100, "ts": n % 1000, "user": f"u{n % 5000}", "page": "/a/b", "amount": n / 4, "ok": n % 3 == 0, "count": n}
        for n in range(BLOCK)
    )
    return b"".join(b"nonsense\n" if at % 1000 == 500 else json.dumps(row).encode() + b"\n" for at, row in enumerate(rows))


@contextmanager
def sending(block: bytes, copies: int) -> Iterator[str]:
    """The address of another process that sends a block several times."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(block)
        file.flush()
        command = [sys.executable, "-c", SENDER, file.name, str(copies)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
            assert sender.stdout is not None
            yield f"tcp://127.0.0.1:{int(sender.stdout.readline())}"
            sender.kill()


def measured(what: str, rows: int, work: Callable[[], Any]) -> Any:
    """Do it, and print a JSON line."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    rates = {"a_second": round(rows / wall), "a_processor_second": round(rows / processor)}
    print(json.dumps({"benchmark": what, "rows": rows, "seconds": round(wall, 2), **rates}), flush=True)
    return result


def run(events: Any, on_batch: Callable[[Batch], None] | None = None, **options: Any) -> Any:
    """A run whose output goes nowhere."""
    with tempfile.TemporaryDirectory() as scratch:
        outputs = {"totals": str(Path(scratch, "out"))}
        request = RunRequest(totals(), {"events": events}, outputs, engine=engine_of("local"), **options)
        return request.run(on_batch=on_batch)


def of_socket(rows: int) -> None:
    """Rates of JSON lines."""
    block, copies = lines(), rows // BLOCK
    leaf = compile_program(totals()).plans[0].sources[0]

    def receive(address: str, *, keep: bool = False) -> list[Any]:
        arrivals, at, parts = socket_lines(leaf, SocketAddress.of(address), 1), 0, list[Any]()
        while not arrivals.is_over(at):
            until = arrivals.end_of_epoch(at)
            if keep:
                parts += arrivals.between(at, until)
            at = until
            arrivals.commit("one", at)
            time.sleep(0.001)
        return parts

    with sending(block, copies) as address:
        measured("receive", rows, partial(receive, address))
    with sending(block, 1) as address:
        parts = receive(address, keep=True)
    read = lines_reader(leaf, None)
    sum(1 for _ in read(parts, SplitNotes()))
    measured("parse", BLOCK, lambda: sum(1 for _ in read(parts, SplitNotes())))
    with sending(block, copies) as address:
        result = measured("socket", rows, partial(run, address, parallelism=2))
    assert result.read["events"] == rows
    assert result.rejects["events"] == rows // 1000


def in_memory(events: int) -> None:
    """The rate of record batches."""
    n = np.arange(BLOCK)
    text = pa.array(["/a/b"] * BLOCK)
    columns = {"key": n % 100, "user": text, "page": text, "amount": n / 4, "ok": n % 3 == 0, "count": n}

    def batches() -> Iterator[Any]:
        for number in range(events // BLOCK):
            yield pa.record_batch({**columns, "ts": number * 100 + n // 1000})

    result = measured("memory", events, lambda: run(batches(), parallelism=2))
    assert result.read["events"] == events


@contextmanager
def emissions() -> Iterator[list[float]]:
    """The times at which the rows of each epoch are in their place, before its commit record."""
    times: list[float] = []
    commit = RunStore.commit

    def timed(self: RunStore, epoch: int, record: dict[str, Any]) -> None:
        times.append(time.perf_counter())
        commit(self, epoch, record)

    with patch.object(RunStore, "commit", timed):
        yield times


def latency(
    what: str, rate: int, seconds: float, part: int, events: Callable[[list[float]], Any], parallelism: int
) -> None:
    """From the arrival of rows to their commit, and to their emission. ``events``: an input that adds the time of each ``part``
    of rows to a list. The first seconds are left out: a run loads
    modules then."""
    arrivals: list[float] = []
    epochs: list[tuple[int, float]] = []
    processor = time.process_time()
    with emissions() as emitted:
        run(events(arrivals), lambda batch: epochs.append((batch.rows, time.perf_counter())), parallelism=parallelism)
    processor = time.process_time() - processor
    ends = np.cumsum([rows for rows, _ in epochs])
    number = np.searchsorted(ends, np.arange(len(arrivals)) * part, side="right")[START * rate // part :]
    began = np.array(arrivals)[START * rate // part :]
    report: dict[str, Any] = {"benchmark": what, "rate": rate, "parallelism": parallelism}
    report |= {"rows": int(ends[-1]), "epochs": len(epochs)}
    for name, times in ("committed", np.array([at for _, at in epochs])), ("emitted", np.array(emitted[: len(epochs)])):
        late = np.sort(1000 * (times[number] - began))
        places = {"p50": len(late) // 2, "p99": len(late) * 99 // 100, "max": len(late) - 1}
        report[name] = {quantile: round(float(late[at]), 1) for quantile, at in places.items()}
    report["processor_seconds_a_second"] = round(processor / seconds, 2)
    print(json.dumps(report), flush=True)


def latency_of_lines(rate: int, seconds: float, parallelism: int) -> None:
    """Of single lines over a socket."""

    def serve(server: socket.socket, sent_at: list[float]) -> None:
        client, _ = server.accept()
        with client:
            began = time.perf_counter()
            for number in range(int(rate * seconds)):
                time.sleep(max(0.0, began + number / rate - time.perf_counter()))
                row = {"key": 1, "ts": number, "user": "u", "page": "/", "amount": 0.5, "ok": True, "count": 1}
                sent_at.append(time.perf_counter())
                client.sendall(json.dumps(row).encode() + b"\n")

    with socket.create_server(("127.0.0.1", 0)) as server:

        def events(sent_at: list[float]) -> str:
            threading.Thread(target=serve, args=(server, sent_at), daemon=True).start()
            return f"tcp://127.0.0.1:{server.getsockname()[1]}"

        latency("latency of lines", rate, seconds, 1, events, parallelism)


def latency_in_memory(rate: int, seconds: float, parallelism: int) -> None:
    """Of record batches, one each millisecond."""
    size = rate // 1000
    n = np.arange(size)
    text = pa.array(["/a/b"] * size)
    columns = {"key": n % 100, "user": text, "page": text, "amount": n / 4, "ok": n % 3 == 0, "count": n}
    batches = [pa.record_batch({**columns, "ts": np.full(size, at)}) for at in range(int(1000 * seconds))]

    def events(arrivals: list[float]) -> Iterator[Any]:
        began = time.perf_counter()
        for at, batch in enumerate(batches):
            if (wait := began + at / 1000 - time.perf_counter()) > 0:
                time.sleep(wait)
            arrivals.append(began + at / 1000)  # when it was due: a source that waits is late
            yield batch

    latency("latency in memory", rate, seconds, size, events, parallelism)


def main() -> None:
    """Run all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000, help="of the socket")
    parser.add_argument("--events", type=int, default=30_000_000, help="in memory")
    parser.add_argument("--rate", type=int, default=100, help="lines a second of the latency of lines")
    parser.add_argument("--rate-in-memory", type=int, default=1_000_000, help="rows a second of the latency in memory")
    parser.add_argument("--seconds", type=float, default=10, help="of the latency")
    arguments = parser.parse_args()
    of_socket(arguments.rows)
    in_memory(arguments.events)
    for parallelism in 1, 2:
        latency_of_lines(arguments.rate, arguments.seconds, parallelism)
        latency_in_memory(arguments.rate_in_memory, arguments.seconds, parallelism)


if __name__ == "__main__":
    main()
