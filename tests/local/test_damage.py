"""Every file of a checkpoint, damaged in every way: the run is refused with a code, or its answer is right. Never silence, never
a bare traceback. The files are those of real checkpoints, so a new one is damaged by itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import attrs
import pytest
from deltalake import DeltaTable

from tests.local.test_streams import clicks
from tracetypes import Dataflow, RunError, Stream, TraceTypesError, U, every, run
from tracetypes.cli import main
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.connectors.mqtt import MqttAddress
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.store import stream_outputs
from tracetypes.compiler.store.outputs import FileOutput
from tracetypes.gates import sequence
from tracetypes.stdlib import aggregate, count, map_values


@attrs.frozen
class Row:
    key: str
    ts: int


TIMES = every(seconds=10, time=lambda row: row.ts, delay=15)


def source(flow: Dataflow) -> Stream[U[str, Row]]:
    return flow.source("s", U[str, Row], key=lambda row: row.key, markers=TIMES)


def straight() -> Dataflow:
    flow = Dataflow("rows")
    flow.sink("out", source(flow).through(map_values(lambda row: row.ts, to=int)))
    return flow


def keyed() -> Dataflow:
    flow = Dataflow("rows")
    flow.sink("out", source(flow).through(aggregate(count())), marker="at")
    return flow


def channel() -> Dataflow:
    """Two sinks behind a keyed operator: three queries, and a channel between them."""
    flow = Dataflow("rows")
    counts = source(flow).through(aggregate(count()))
    flow.sink("out", counts.through(map_values(lambda n: n, to=int)), marker="at")
    flow.sink("more", counts.through(map_values(lambda n: n + 1, to=int)), marker="at")
    return flow


def parted() -> Dataflow:
    flow = Dataflow("rows")
    flow.sink("out", source(flow), partition_by="key")
    return flow


def gated() -> Dataflow:
    """A gate that lets every third marker through, with all that came before it."""
    flow = Dataflow("rows")
    flow.sink("out", source(flow).through(aggregate(count())).gate(sequence(3)), marker="at")
    return flow


class Crash(BaseException):
    """As kill -9: nothing is done any more."""


@contextmanager
def crash(owner: Any, name: str, of: str, *, after: bool) -> Iterator[None]:
    """A context in which a method of a segment whose checkpoint has ``of`` in its path kills the run."""
    real = getattr(owner, name)

    def call(self: Any, *args: Any, **options: Any) -> Any:
        is_it = of in str(getattr(self, "path", of))
        if is_it and not after:
            raise Crash
        result = real(self, *args, **options)
        if is_it:
            raise Crash
        return result

    with pytest.MonkeyPatch.context() as patch, suppress(TraceTypesError):
        patch.setattr(owner, name, call)
        yield


@attrs.frozen
class Case:
    """Runs of a flow. ``files``: those that are damaged, as a pattern. ``crash``: what the third run dies of, if it does."""

    of: Callable[[], Dataflow]
    files: str = ""
    crash: Callable[[], AbstractContextManager[None]] = nullcontext
    input: str = "files"
    output: str = "files"


def not_ended() -> AbstractContextManager[None]:
    return crash(LocalLog, "end", "", after=False)


OF_EPOCHS = r"epochs\.db|commits|steps"

CASES = {
    "states": Case(keyed),
    "rows that are visible": Case(straight, OF_EPOCHS, lambda: crash(FileOutput, "take", "", after=True)),
    "a commit whose states are not written": Case(keyed, OF_EPOCHS, not_ended),
    "a channel that is not read": Case(
        channel,
        r"ck/\w+\.json|channels|out/local|aggregate/commits",
        lambda: crash(LocalLog, "begin", "queries/out", after=False),
    ),
    "a gate": Case(gated, "channels"),
    "folders": Case(parted, "commits"),
    "a table": Case(keyed, r"epochs\.db|starts|outputs", output="table"),
    "messages": Case(keyed, r"epochs\.db|commits", not_ended, output="messages"),
    "rows that are not sent again": Case(keyed, "arrived", not_ended, input="standard input"),
}


@contextmanager
def standard_input(text: str) -> Iterator[None]:
    """A context in which the standard input is a text."""
    out, into = os.pipe()
    os.write(into, text.encode())
    os.close(into)
    with os.fdopen(out) as stdin, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        yield


@attrs.frozen
class Topic:
    """In place of a publisher: what a broker gets is in a file, which its address names."""

    address: MqttAddress

    def publish(self, messages: Sequence[bytes]) -> None:
        with Path("/", self.address.topic).open("ab") as file:
            file.writelines(message + b"\n" for message in messages)

    def close(self) -> None:
        """It was never open."""


class Life:
    """Runs of a flow in a directory, which can be put back to what it was."""

    def __init__(self, place: Path, case: Case) -> None:
        self.place, self.case, self.flow = place, case, case.of()
        self.checkpoint = place / "ck"
        (place / "in").mkdir(parents=True)
        self.outputs = {sink: place / sink for sink in compile_program(self.flow).sinks}

    def run(self, number: int) -> None:
        """The run with a number, which brings ten rows more. The last one drains."""
        rows = [{"key": "abc"[n % 3], "ts": n} for n in range(10 * number, 10 * number + 10)]
        text, given = "".join(f"{json.dumps(row)}\n" for row in rows), str(self.place / "in")
        if self.case.input == "files":
            (self.place / "in" / f"{number}.jsonl").write_text(text)
        else:
            given = "-"
        outputs: Any = {sink: self.address_of(sink) for sink in self.outputs}
        more: Any = {what: str(self.place / what) for what in ("late", "rejects") if self.case.output == "messages"}
        with standard_input(text), pytest.MonkeyPatch.context() as patch:
            patch.setattr(stream_outputs, "Publisher", Topic)
            drain = number == LAST
            run(self.flow, {"s": given}, outputs, checkpoint=str(self.checkpoint), drain=drain, backend="local", **more)

    def address_of(self, sink: str) -> str:
        """Where a sink writes."""
        before = {"table": "delta:", "messages": "mqtt://broker"}
        return f"{before.get(self.case.output, '')}{self.outputs[sink]}"

    def answer(self) -> Counter[str]:
        """All rows of the outputs."""
        if self.case.output == "table":
            return Counter(map(repr, DeltaTable(self.outputs["out"]).to_pyarrow_table().to_pylist()))
        if self.case.output == "messages":
            return Counter(line for path in self.outputs.values() for line in path.read_text().splitlines())
        files = (file for path in self.outputs.values() for file in path.rglob("part-*"))
        return Counter(f"{file.parent.name} {line}" for file in files for line in file.read_text().splitlines())

    def keep(self, name: str) -> Path:
        """A copy as it is now."""
        kept = self.place.parent / f"{self.place.name}-{name}"
        shutil.copytree(self.place, kept)
        return kept

    def put_back(self, kept: Path) -> None:
        """Be as a copy."""
        shutil.rmtree(self.place)
        shutil.copytree(kept, self.place)


LAST = 3


def prepared(place: Path, case: Case) -> tuple[Life, Path, Path]:
    """A run, with copies as it is after two parts and after three."""
    life = Life(place, case)
    life.run(0)
    life.run(1)
    older = life.keep("older")
    with case.crash():
        life.run(2)
    return life, older, life.keep("newer")


def flipped(data: bytes, at: int) -> bytes:
    """With another bit."""
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] if data else b"x"


def damages(file: Path, old: Path, other: Path) -> Iterator[tuple[str, bytes | None]]:
    """How a file may be afterwards; None if it is gone. ``old``: as it was. ``other``: of another run."""
    data = file.read_bytes()
    yield from [("gone", None), ("empty", b""), ("halved", data[: len(data) // 2]), ("zeroed", bytes(len(data)))]
    lines = data.splitlines(keepends=True)
    if len(lines) > 1:
        yield from [("without its first line", b"".join(lines[1:])), ("without its last line", b"".join(lines[:-1]))]
    at = crc32(file.name.encode() + data[:64]) % max(1, len(data))
    yield f"flipped at {at}", flipped(data, at)
    yield from [(what, one.read_bytes()) for what, one in (("older", old), ("of another run", other)) if one.exists()]


def kinds(kept: Path, pattern: str) -> list[Path]:
    """A file of each kind: the last of those whose names differ by digits only. Files of locks say nothing."""
    files = sorted(one.relative_to(kept) for one in (kept / "ck").rglob("*") if one.is_file() and "_lock" not in one.parts)
    some = {re.sub(r"[0-9a-f]{8,}|\d+", "0", str(file)): file for file in files if re.search(pattern, str(file))}
    assert some
    return list(some.values())


def judged(life: Life, wanted: Counter[str]) -> str | None:
    """What is wrong with a run that goes on; None if it was refused, or is right."""
    try:
        assert main(["state", str(life.checkpoint)]) in (0, 1, 2)
        life.run(LAST)
    except TraceTypesError as error:
        return None if error.code.startswith("TT") and error.code != "TT214" else str(error)
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    found = life.answer()
    if life.case.output == "messages":  # which come at least once
        found &= wanted if found.keys() == wanted.keys() else found
    return None if found == wanted else f"silence: {sum(found.values())} rows of {sum(wanted.values())}"


@pytest.fixture(scope="module")
def wanted() -> Callable[[Case], Counter[str]]:
    """The answer of runs that nothing happens to."""

    @cache
    def answer(of: Callable[[], Dataflow], output: str) -> Counter[str]:
        with tempfile.TemporaryDirectory() as place:
            life = Life(Path(place, "run"), Case(of, output=output))
            for number in range(LAST + 1):
                life.run(number)
            return life.answer()

    return lambda case: answer(case.of, case.output)


@pytest.mark.parametrize("name", CASES)
def test_every_file_damaged_in_every_way(tmp_path: Path, name: str, wanted: Callable[[Case], Counter[str]]) -> None:
    case = CASES[name]
    life, older, newer = prepared(tmp_path / "run", case)
    _, _, other = prepared(tmp_path / "other", case)
    wrong: list[str] = []
    assert (problem := judged(life, wanted(case))) is None, problem
    for file in kinds(newer, case.files):
        for what, content in damages(newer / file, older / file, other / file):
            life.put_back(newer)
            if content is None:
                (life.place / file).unlink()
            else:
                (life.place / file).write_bytes(content)
            if (problem := judged(life, wanted(case))) is not None:
                wrong.append(f"{file} {what}: {problem}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["states", "folders", "a table", "a gate"])
def test_TT227_a_checkpoint_that_is_older_than_its_output(tmp_path: Path, name: str) -> None:
    life, older, _ = prepared(tmp_path / "run", CASES[name])
    before = life.answer()
    shutil.rmtree(life.checkpoint)
    shutil.copytree(older / "ck", life.checkpoint)
    another = "TT209 .*its last writer is a start that is not known here"  # what a table knows by itself
    with pytest.raises(TraceTypesError, match=another if name == "a table" else r"TT227 .*rows of micro-batch \d+"):
        life.run(LAST)
    assert life.answer() == before


def test_TT227_a_query_that_is_older_than_its_readers(tmp_path: Path) -> None:
    life, older, _ = prepared(tmp_path / "run", Case(channel))
    shutil.rmtree(life.checkpoint / "queries" / "aggregate")
    shutil.copytree(older / "ck" / "queries" / "aggregate", life.checkpoint / "queries" / "aggregate")
    with pytest.raises(TraceTypesError, match=r"TT227"):
        life.run(LAST)


def test_TT209_a_full_disk_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a run goes on when there is space again."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"page": "page {n}", "ts": {n}}}\n' for n in range(3000)))
    options: Any = {"backend": "local", "checkpoint": tmp_path / "checkpoint", "drain": False}

    def full(log: LocalLog, connection: Any) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # it stays as large as it is

    with monkeypatch.context() as patch:
        patch.setattr(LocalLog, "_check", full)
        with pytest.raises(RunError) as error:
            run(clicks(), {"clicks": rows}, {"counts": tmp_path / "out"}, **options)
    assert (error.value.code, "disk is full" in str(error.value)) == ("TT209", True)
    assert error.value.fix == "see whether the disk is full or the directory may be written, and run again to go on"
    run(clicks(), {"clicks": rows}, {"counts": tmp_path / "out"}, **{**options, "drain": True})
    lines = [line for part in (tmp_path / "out").glob("part-*") for line in part.read_text().splitlines()]
    assert sorted(json.loads(line)["key"] for line in lines) == sorted(f"page {n}" for n in range(3000))
