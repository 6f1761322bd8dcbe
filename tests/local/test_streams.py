"""Sources that cannot be read again, and sinks that take lines: whole runs, stops, crashes, and the budget of rows."""

from __future__ import annotations

import itertools
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import tracetypes
from tracetypes import (
    ROW_POSITION,
    Dataflow,
    EmitValue,
    Item,
    O,
    OpKeyedOrdered,
    RunError,
    U,
    Unit,
    UsageError,
    check,
    csv,
    every,
    interpret_rows,
    text_lines,
)
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.connectors import iterables, source_rows
from tracetypes.compiler.connectors.arrivals import Arrivals, Part
from tracetypes.compiler.connectors.socket_address import SocketAddress
from tracetypes.compiler.local import streams
from tracetypes.compiler.local.backend import LocalEngine
from tracetypes.compiler.local.kernels import Kernels
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.local.workers import Workers
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.spark.backend import SparkEngine
from tracetypes.compiler.store.outputs import FileOutput
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.results import Result
from tracetypes.stdlib import aggregate, count


@attrs.frozen
class Click:
    page: str
    ts: int


def clicks(format: Any = None) -> Dataflow:
    flow = Dataflow("clicks")
    times = every(seconds=10, time=lambda c: c.ts)
    source = flow.source("clicks", U[str, Click], key=lambda c: c.page, format=format, markers=times)
    flow.sink("counts", source.through(aggregate(count())), marker="until")
    return flow


def line(page: str, ts: int) -> bytes:
    return b'{"page": "%s", "ts": %d}\n' % (page.encode(), ts)


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that talks to each client, in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listens:
        listens.settimeout(20)

        def body() -> None:
            try:
                while True:
                    client, _ = listens.accept()
                    with client:
                        talk(client)
            except OSError:
                pass

        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{listens.getsockname()[1]}"
        listens.shutdown(socket.SHUT_RDWR)
    thread.join(20)


def counted(given: object, *, format: Any = None, **options: Any) -> tuple[list[Any], Result]:
    rows: list[Any] = []
    inputs: Any = {"clicks": given}
    result = tracetypes.run(clicks(format), inputs, {"counts": rows}, backend="local", **options)
    return sorted(rows), result


TEXT = line("a", 1) + b"nonsense\n" + line("b", 2) + line("a", 15) + b"\n" + line("a", 3).rstrip()
COUNTS = [("a", 1), ("a", 1), ("b", 1)]


def right(rows: list[Any], result: Result) -> None:
    assert rows == COUNTS
    assert (result.read, result.late, result.rejects) == ({"clicks": 5}, {"clicks": 1}, {"clicks": 1})
    assert [one.row for one in result.rejected_rows] == ["nonsense"]


def test_lines_of_a_socket_with_late_rows_and_rejects() -> None:
    def talk(client: socket.socket) -> None:
        for at in range(0, len(TEXT), 7):  # lines come in pieces
            client.sendall(TEXT[at : at + 7])

    with server(talk) as address:
        right(*counted(address))


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (csv(), b"\xef\xbb\xbf\r\nts,page\r\n1,a\r\nnonsense\r\n2,b\r\n15,a\r\n\r\n3,a"),
        (csv(columns=["page", "ts"]), b"a,1\nnonsense\nb,2\na,15\n\na,3\n"),
        (None, TEXT),
    ],
    ids=["header", "columns", "json"],
)
def test_standard_input(format: Any, text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    out, into = os.pipe()
    os.write(into, text)
    os.close(into)
    with os.fdopen(out) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        right(*counted("-", format=format))


def test_text_lines_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Dataflow("log")
    log = flow.source("log", U[Unit, str], format=text_lines(), markers=every(seconds=10, time=lambda line: int(line)))
    flow.sink("lines", log)
    out, into = os.pipe()
    os.write(into, b"1\nx\n2")
    os.close(into)
    rows: list[Any] = []
    with os.fdopen(out) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        result = tracetypes.run(flow, {"log": "-"}, {"lines": rows}, backend="local")
    assert sorted(rows) == ["1", "2"]
    assert result.rejects == {"log": 1}


def test_a_socket_that_listens_goes_on_with_the_next_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    rows: list[Any] = []
    run = tracetypes.start(clicks(), {"clicks": f"tcp-listen://127.0.0.1:{port}"}, {"counts": rows}, backend="local")
    for number, one in enumerate([line("a", 1), line("b", 2) + line("a", 15)]):
        until = time.monotonic() + 20
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.sendall(one)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < until
                time.sleep(0.01)
        while run.running and run.metrics["rows"] <= number:
            assert time.monotonic() < until
            time.sleep(0.01)
    result = run.drain()
    assert sorted(rows) == COUNTS
    assert result.read == {"clicks": 3}


def test_stop_and_resume(tmp_path: Path) -> None:
    """Each row that an epoch has taken is there once."""
    given = iter([[line("a", 1), line("b", 2)], [line("a", 15), line("b", 16)]])
    hold = threading.Event()

    def talk(client: socket.socket) -> None:
        client.sendall(b"".join(next(given)))
        hold.wait(20)

    with server(talk) as address:
        out = str(tmp_path / "out")
        run = tracetypes.start(clicks(), {"clicks": address}, {"counts": out}, backend="local", follow=False)
        until = time.monotonic() + 20
        while run.running and run.metrics["rows"] < 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert run.stop().stopped
        hold.set()
        result = tracetypes.run(clicks(), {"clicks": address}, {"counts": out}, backend="local")
    assert result.drained
    assert totals(tmp_path / "out") == {"a": 2, "b": 2}


def totals(out: Path) -> dict[str, int]:
    sums: dict[str, int] = {}
    for file in out.glob("*.jsonl"):
        for one in map(tracetypes_row, file.read_text().splitlines()):
            sums[one[0]] = sums.get(one[0], 0) + one[1]
    return sums


def tracetypes_row(text: str) -> tuple[str, int]:
    import json

    row = json.loads(text)
    return row["key"], row["value"]


# ------------------------------------------------------------------------------------------ splits of an epoch


@attrs.frozen
class Steps(OpKeyedOrdered[str, Click, Click, int]):
    """The time of each click, and the time of the one before it: depends on the order."""

    def initial_state(self) -> int:
        return -1

    def on_item(self, state: int, key: str, value: Click, emit: EmitValue[Click]) -> int:
        emit(Click(str(state), value.ts))
        return value.ts


def stepped() -> Dataflow:
    flow = Dataflow("steps")
    times = every(seconds=10, time=lambda c: c.ts)
    source = flow.source("clicks", O[str, Click], key=lambda c: c.page, ordered_by=ROW_POSITION, markers=times)
    flow.sink("counts", source.through(Steps()))
    return flow


def some_clicks(seed: int, count: int) -> list[Click]:
    """Clicks of which some are late."""
    chance = random.Random(seed)
    return [Click(chance.choice("abc"), at // 2 - chance.choice((0, 0, 0, 3, 25))) for at in range(count)]


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Splits of a few rows. Returns how many each epoch has."""
    numbers: list[int] = []
    splits = streams.StreamSplits.splits

    def counted(self: Any, since: Any, until: Any) -> Any:
        answer = splits(self, since, until)
        numbers.append(len(answer))
        return answer

    monkeypatch.setattr(streams, "SMALLEST", 3)
    monkeypatch.setattr(streams, "LARGEST", 7)
    monkeypatch.setattr(streams.StreamSplits, "splits", counted)
    monkeypatch.setattr(iterables, "TOGETHER", 2)
    return numbers


@pytest.mark.parametrize("make", [clicks, stepped])
@pytest.mark.parametrize("options", [{}, {"parallelism": 2}, {"parallelism": 3, "reorder": "serial"}], ids=str)
def test_an_epoch_of_several_splits_has_the_answer_of_the_interpreter(
    small_splits: list[int], make: Callable[[], Dataflow], options: dict[str, Any]
) -> None:
    for seed in range(5):
        given = some_clicks(seed, 60)
        traces, arranged = interpret_rows(check(make()), {"clicks": given})
        rows: list[Any] = []
        inputs: Any = {"clicks": iter(given)}
        result = tracetypes.run(make(), inputs, {"counts": rows}, backend="local", **options)
        wanted = [element for element in traces["counts"].items if isinstance(element, Item)]
        assert sorted(rows, key=repr) == sorted(((one.key, one.value) for one in wanted), key=repr)
        assert result.late["clicks"] == len(arranged["clicks"].late) > 0
    assert max(small_splits) > 3


@pytest.mark.parametrize("largest", [1, 50_000])
def test_the_thread_of_the_segment_reads_the_only_split_of_an_epoch(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LARGEST", largest)
    names: set[str] = set()
    read = Kernels.read

    def seen(self: Kernels, task: Any, before: Any) -> Any:
        names.add(threading.current_thread().name)
        return read(self, task, before)

    monkeypatch.setattr(Kernels, "read", seen)
    tables = [pa.table({"page": ["a", "b"], "ts": [1, 2]})] * 20
    reader = pa.Table.from_batches([batch for table in tables for batch in table.to_batches()]).to_reader()
    rows, _ = counted(reader, parallelism=2)
    assert rows == [("a", 20), ("b", 20)]
    workers = {name for name in names if name.startswith("worker")}
    assert bool(workers) == (largest == 1)


def test_small_tables_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    take = source_rows.taker

    def counting(*args: Any) -> Any:
        inner = take(*args)

        def of(table: Any) -> Any:
            counts.append(table.num_rows)
            return inner(table)

        return of

    monkeypatch.setattr(iterables, "taker", counting)
    leaf = compile_program(clicks()).plans[0].sources[0]
    tables = [pa.table({"page": ["a"] * 3, "ts": [at] * 3}) for at in range(4)]
    other = pa.table({"page": pa.array(["b"], pa.large_string()), "ts": [5]})
    parts = [Part(iterables.Columns(table), table.num_rows, 1) for table in [*tables, other, tables[0]]]
    assert sum(len(one) for one in iterables.columns_reader(leaf, None)(parts) if isinstance(one, Chunk)) == 16
    assert counts == [12, 1, 3]
    monkeypatch.setattr(iterables, "AT_ONCE", 6)
    counts.clear()
    assert sum(len(one) for one in iterables.columns_reader(leaf, None)(parts) if isinstance(one, Chunk)) == 16
    assert counts == [6, 6, 1, 3]


def test_an_epoch_is_cut_by_rows_and_bytes() -> None:
    parts = [Part(number, rows, 10) for number, rows in enumerate([10_000, 15_000, 10_000, 1, 300_000, 20_000, 20_000])]
    assert streams.cuts(parts) == [0, 1, 2, 4, 5, 6, 7]
    assert streams.cuts([Part(None, 1, 1)] * 3) == [0, 3]
    assert streams.cuts([Part(None, 1, streams.BYTES)] * 3) == [0, 1, 2, 3]


def test_another_process_takes_the_same_splits(tmp_path: Path, small_splits: list[int]) -> None:
    """The second epoch of a process is repeated by another one, which then goes on with what comes to it."""
    first, second = Arrivals(), Arrivals()
    here, there = (streams.StreamSplits(arrivals, "a", tmp_path / "kept", "clicks") for arrivals in (first, second))
    here.resume([])

    def epoch(of: streams.StreamSplits, since: Any, names: str) -> Any:
        for name in names:
            assert of.arrivals.put(Part(name, 1, 1))
        until = of.end(since)
        of.keep(since, until)
        return until

    one = epoch(here, here.begin(), "abcd")
    here.commit(one)
    two = epoch(here, one, "efghi")
    before = here.splits(one, two)
    assert [(number, "".join(part.body for part in parts)) for number, parts in before] == [(4, "efg"), (7, "hi")]
    there.resume([one, two])
    assert there.splits(one, two) == before
    there.commit(two)
    three = epoch(there, two, "jklm")
    assert [(number, len(parts)) for number, parts in there.splits(two, three)] == [(9, 3), (12, 1)]


class Crash(BaseException):
    """As kill -9: nothing is done any more."""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "step",
    [(Workers, "run"), (FileOutput, "take"), (RunStore, "commit"), (LocalLog, "end"), (LocalLog, "begin")],
    ids=str,
)
def test_an_epoch_that_a_crash_interrupts_takes_the_same_rows(tmp_path: Path, step: tuple[Any, str], when: str) -> None:
    """From the checkpoint: the sender does not send them again. What no epoch had begun to take is lost."""
    owner, name = step
    real, calls = getattr(owner, name), list[int]()
    given = iter([[line("a", 1), line("b", 12)], [line("a", 25)]])
    crashed = threading.Event()

    def talk(client: socket.socket) -> None:
        client.sendall(b"".join(next(given)))
        crashed.wait(20)

    def call(*args: Any, **options: Any) -> Any:
        if not calls and when == "before":
            calls.append(0)
            raise Crash
        result = real(*args, **options)
        if not calls:
            calls.append(0)
            raise Crash
        return result

    with server(talk) as address:
        run: Callable[[], Result] = lambda: tracetypes.run(  # noqa: E731
            clicks(), {"clicks": address}, {"counts": str(tmp_path / "out")}, backend="local"
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, call)
            with pytest.raises(RunError, match="Crash"):
                run()
        crashed.set()
        run()
    lost = (name, when) == ("begin", "before")
    assert totals(tmp_path / "out") == ({"a": 1} if lost else {"a": 2, "b": 1})


def test_a_sink_sends_lines(tmp_path: Path) -> None:
    heard: list[bytes] = []

    def hear(client: socket.socket) -> None:
        while block := client.recv(1 << 16):
            heard.append(block)

    path = tmp_path / "in.jsonl"
    path.write_bytes(TEXT)
    with server(hear) as address:
        outputs = {"counts": address}
        options: Any = {"late": str(tmp_path / "late"), "rejects": str(tmp_path / "rejects")}
        result = tracetypes.run(
            clicks(), {"clicks": str(path)}, outputs, backend="local", checkpoint=str(tmp_path / "c"), **options
        )
        assert result.rows == 5
        until = time.monotonic() + 20
        while b"".join(heard).count(b"\n") < 3:
            assert time.monotonic() < until
            time.sleep(0.01)
    assert sorted(map(tracetypes_row, b"".join(heard).decode().splitlines())) == COUNTS


# ------------------------------------------------------------------------------------------- rows of the program


def generated(count: int | None = None) -> Iterator[Click]:
    """Rows a second apart; for ever if no number is given, and then a thousand a second."""
    for at in itertools.count() if count is None else range(count):
        yield Click("ab"[at % 2], at if count is not None else at // 1000)


def test_a_generator_is_read_to_its_end() -> None:
    rows, result = counted(generated(25))
    assert rows == [("a", 3), ("a", 5), ("a", 5), ("b", 2), ("b", 5), ("b", 5)]
    assert result.read == {"clicks": 25}


def test_a_generator_without_an_end_is_read_as_it_comes(tmp_path: Path) -> None:
    """Rows that come slowly are answered when they come; a stop ends the run, and another run goes on."""
    go_on = threading.Event()

    def slow() -> Iterator[Click]:
        yield Click("a", 1)
        yield Click("a", 12)
        go_on.wait(20)
        yield from generated()

    out = str(tmp_path / "out")
    run = tracetypes.start(clicks(), {"clicks": slow()}, {"counts": out}, backend="local", follow=False)
    until = time.monotonic() + 20
    while run.running and run.metrics["rows"] < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert totals(tmp_path / "out") == {"a": 1}
    go_on.set()
    while run.running and run.metrics["rows"] < 20_000:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert run.stop().stopped
    before = totals(tmp_path / "out")
    more = iter([Click("c", 10**5), Click("c", 10**5 + 10)])
    result = tracetypes.run(clicks(), {"clicks": more}, {"counts": out}, backend="local")
    assert result.drained
    after = totals(tmp_path / "out")
    assert after["c"] == 2
    assert after["a"] >= before["a"]


def test_a_generator_that_fails_and_one_of_other_rows() -> None:
    def failing() -> Iterator[Click]:
        yield Click("a", 1)
        raise OSError("no more")

    with pytest.raises(RunError, match=r"(?s)TT208 source 'clicks': its rows cannot be taken: OSError: no more"):
        counted(failing())
    with pytest.raises(UsageError, match=r"(?s)TT402 source 'clicks': 5 is none of its rows"):
        counted(iter([Click("a", 1), 5]))


TABLE = pa.table({"ts": pa.array([1, 2, 15, None, 3], pa.int32()), "page": ["a", "b", "a", "c", "a"], "more": [0] * 5})


@pytest.mark.parametrize(
    "given",
    [
        lambda: TABLE,
        lambda: TABLE.combine_chunks().to_batches()[0],
        lambda: TABLE.to_reader(max_chunksize=2),
        lambda: iter([TABLE.slice(0, 2), Click("a", 15), TABLE.slice(3)]),
    ],
    ids=["table", "record batch", "reader", "iterator"],
)
def test_arrow_data(given: Callable[[], Any]) -> None:
    rows, result = counted(given())
    assert rows == COUNTS
    assert (result.read, result.late, result.rejects) == ({"clicks": 5}, {"clicks": 1}, {"clicks": 1})


def test_arrow_data_that_does_not_fit() -> None:
    with pytest.raises(RunError, match=r"(?s)TT203.*has no column 'ts'; it has 'page'"):
        counted(TABLE.select(["page"]))
    with pytest.raises(RunError, match=r"(?s)TT203.*the column 'ts' is string, expected int"):
        counted(pa.table({"page": ["a"], "ts": ["1"]}))


# ------------------------------------------------------------------------------------------------------- refused


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(RunError, match=r"(?s)TT208.*cannot be read: Connection refused"):
        counted(f"tcp://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tcp://127.0.0.1", "is no address of a socket"),
        ("tcp://127.0.0.1:1/x", "is no address of a socket"),
        ("tcp://127.0.0.1:1?rows=0", "is no address of a socket"),
        ("tcp://10.0.0.1:1", "is not on this machine"),
        ("tcp://example.org:1?rows=5", "is not on this machine"),
    ],
)
def test_addresses_that_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=rf"TT402.*{said}"):
        SocketAddress.of(text)


def test_addresses() -> None:
    assert SocketAddress.of("tcp://10.0.0.1:1?remote=yes").host == "10.0.0.1"
    assert SocketAddress.of("tcp-listen://[::1]:9?rows=5") == SocketAddress(
        "tcp-listen://[::1]:9?rows=5", "::1", 9, True, 5
    )


def test_spark_refuses_them_by_name() -> None:
    said = SparkEngine.unsupported({"clicks": "tcp://127.0.0.1:1"})
    assert list(said) == ["source 'clicks' reads a socket, which Spark cannot read"]
    assert not SparkEngine.unsupported({"clicks": generated(1)})
    said = SparkEngine.unsupported({"clicks": "-"})
    assert list(said) == ["source 'clicks' reads standard input, which Spark cannot read"]
    assert LocalEngine.unsupported({"clicks": "-", "other": "-"}) == [
        "sources 'clicks' and 'other' read the same standard input"
    ]


# ------------------------------------------------------------------------------------------------------- memory


def test_a_source_waits_while_too_many_rows_are_held() -> None:
    arrivals, sent = Arrivals(readings=2, rows=10), []

    def send() -> None:
        for number in range(6):
            assert arrivals.put(Part(number, 4, 1))
            sent.append(number)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()

    def wait_for(number: int) -> None:
        until = time.monotonic() + 20
        while len(sent) < number:
            assert time.monotonic() < until
            time.sleep(0.001)
        thread.join(0.05)
        assert len(sent) == number

    wait_for(2)
    assert arrivals.end_of_epoch(0) == 1  # at most half, so that the source goes on
    arrivals.commit("a", 1)
    wait_for(2)  # the other reading needs it
    arrivals.commit("b", 2)
    wait_for(3)
    assert [part.body for part in arrivals.between(1, 3)] == [1, 2]
    arrivals.leave("a", finished=True)
    wait_for(4)
    arrivals.commit("b", 4)
    thread.join(20)
    assert sent == [0, 1, 2, 3, 4, 5]
    arrivals.leave("b", finished=False)
    assert not arrivals.put(Part(6, 4, 1))
