"""Sources of the local backend that cannot be read again: lines of a socket, Arrow data in memory, and the latency of slow rows.

    python -m benchmarks.streams [--rows N] [--events N] [--rate N] [--seconds N]

``socket``: JSON lines of seven fields, one in a thousand of them a reject, which another process sends as fast as they are
taken; the run counts them by key and second. Beside it what the steps take alone: ``receive`` the lines without parsing them,
``parse`` them. ``memory``: record batches of a generator, through the same run. ``latency``: milliseconds from the sending of a
row, ``--rate`` a second, to the commit that has it, with a checkpoint on disk. Rates are by wall clock (``a_second``) and by
seconds of processor time of this process (``a_processor_second``), as other programs may run.
"""

from __future__ import annotations

import argparse
import itertools
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

import attrs
import numpy as np
import pyarrow as pa

from tracetypes import Dataflow, U, every
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.backend.run_request import RunRequest
from tracetypes.compiler.connectors.line_streams import SocketAddress, socket_lines
from tracetypes.compiler.local.streams import lines_reader
from tracetypes.compiler.store.metrics import Batch
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
    sum(1 for _ in read(parts))
    measured("parse", BLOCK, lambda: sum(1 for _ in read(parts)))
    with sending(block, copies) as address:
        result = measured("socket", rows, partial(run, address))
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

    result = measured("memory", events, lambda: run(batches()))
    assert result.read["events"] == events


def latency(rate: int, seconds: float) -> None:
    """From the sending of a row to its commit."""
    sent_at: list[float] = []
    committed_at: list[float] = []

    def serve(server: socket.socket) -> None:
        client, _ = server.accept()
        with client:
            began = time.perf_counter()
            for number in range(int(rate * seconds)):
                time.sleep(max(0.0, began + number / rate - time.perf_counter()))
                row = {"key": 1, "ts": number, "user": "u", "page": "/", "amount": 0.5, "ok": True, "count": 1}
                sent_at.append(time.perf_counter())
                client.sendall(json.dumps(row).encode() + b"\n")

    def committed(batch: Batch) -> None:
        committed_at.extend(itertools.repeat(time.perf_counter(), batch.rows))

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        run(f"tcp://127.0.0.1:{server.getsockname()[1]}", committed)
    late = sorted(1000 * (now - then) for then, now in list(zip(sent_at, committed_at, strict=False))[rate:])
    places = {"p50": len(late) // 2, "p99": len(late) * 99 // 100, "max": len(late) - 1}
    quantiles = {name: round(late[at], 1) for name, at in places.items()}
    print(json.dumps({"benchmark": "latency", "rate": rate, "rows": len(late), **quantiles}), flush=True)


def main() -> None:
    """Run all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000, help="of the socket")
    parser.add_argument("--events", type=int, default=30_000_000, help="in memory")
    parser.add_argument("--rate", type=int, default=100, help="rows a second of the latency")
    parser.add_argument("--seconds", type=float, default=10, help="of the latency")
    arguments = parser.parse_args()
    of_socket(arguments.rows)
    in_memory(arguments.events)
    latency(arguments.rate, arguments.seconds)


if __name__ == "__main__":
    main()
