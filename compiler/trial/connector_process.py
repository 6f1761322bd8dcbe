"""Runs a source or a sink of a connector as a backend does, in processes of its own that are really killed.

::

    JOB/job          what to do, pickled
    JOB/log          a line of JSON for each thing that is done: an epoch is begun, an epoch is there, the run is over
    JOB/rows-12      the rows of epoch 12 that a source gave

``python -m tracetypes.compiler.trial.connector_process MODULE`` reads the names of such directories from its standard input. For
each it forks, and answers with the signal or status with which the fork ended.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import attrs
import cloudpickle
import pyarrow as pa

from tracetypes.connectors import Offset, Sink, SinkRequest, Source, Split
from tracetypes.errors import TraceTypesError
from tracetypes.fencing import Starts

__all__ = ["EPOCHS", "SCHEMA", "Fencing", "Log", "Reading", "Rereading", "Writing", "line_of", "rows_of"]

EPOCHS: Final = 6
"""Of a sink, in one run."""

SCHEMA: Final = pa.schema([pa.field("number", pa.int64(), nullable=False), pa.field("text", pa.string())])
"""Of the rows that a sink gets."""


class Log:
    """What was done in a directory."""

    def __init__(self, place: Path) -> None:
        self.path = place / "log"

    @property
    def entries(self) -> list[dict[str, Any]]:
        """All of it."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def of(self, name: str) -> list[Any]:
        """The values of all entries with a name."""
        return [one[name] for one in self.entries if name in one]

    def add(self, **entry: Any) -> None:
        """One more thing."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def line_of(row: dict[str, Any]) -> str:
    """A row as text, whatever the order of its columns."""
    return repr(sorted(row.items()))


def rows_of(run: int, epoch: int) -> list[dict[str, Any]]:
    """The rows of an epoch of a sink. Some epochs have many."""
    first = run * 1_000_000 + epoch * 1_000
    return [{"number": first + at, "text": None if at % 5 == 4 else f"row {at}"} for at in range(1 + 7 * (epoch % 3))]


@attrs.frozen
class Reading:
    """A source is read to its end, an epoch after the other."""

    source: Source

    def run(self, place: Path) -> None:
        """Go on where the last process was."""
        log = Log(place)
        log.add(identity=self.source.identity)
        while not log.of("finished"):
            begun, number = log.of("begun"), len(log.of("ended"))
            if len(begun) == number:
                since = begun[-1][1] if begun else _plain(self.source.begin())
                until = _plain(self.source.end(since))
                if until == since:
                    log.add(finished=True)
                    return
                log.add(begun=[since, until])
                begun = log.of("begun")
            (place / f"rows-{number}").write_text(json.dumps(rows_between(self.source, *begun[number])), encoding="utf-8")
            log.add(ended=number)


@attrs.frozen
class Rereading:
    """All epochs that were read, and then all of them as one."""

    source: Source

    def run(self, place: Path) -> None:
        """In a process that has planned none of them, the last one first."""
        log = Log(place)
        log.add(identity=self.source.identity)
        begun = log.of("begun")
        for number, (since, until) in reversed(list(enumerate(begun))):
            (place / f"again-{number}").write_text(json.dumps(rows_between(self.source, since, until)), encoding="utf-8")
        whole = rows_between(self.source, begun[0][0], begun[-1][1]) if begun else []
        (place / "whole").write_text(json.dumps(whole), encoding="utf-8")


def rows_between(source: Source, since: Offset, until: Offset) -> list[tuple[int, list[str]]]:
    """The number and the rows of each split."""
    splits = [Split(*_plain(list(one))) for one in source.splits(since, until)]
    return [
        (split.number, [line_of(row) for table in source.read(split) for row in table.to_pylist()]) for split in splits
    ]


def _plain(value: Any) -> Any:
    """As a checkpoint gives it back. Raises TypeError for what JSON has not."""
    return json.loads(json.dumps(value))


@attrs.frozen
class Writing:
    """A run writes its epochs to a sink. ``run``: a number, which is in its rows. ``start``: of this process."""

    open: Callable[[SinkRequest], Sink]
    request: SinkRequest
    run_number: int
    start: int

    def run(self, place: Path) -> None:
        """Go on where the last process was. Each epoch is written twice: the second time nothing may happen."""
        log, choice = Log(place), random.Random(self.start)
        log.add(start=self.start)
        starts = tuple(log.of("start"))
        sink = self.open(self.request)
        log.add(identity=sink.identity)
        sink.last()
        sink.begin(Starts(starts, max(log.of("begun"), default=-1)))
        for epoch in range(len(log.of("ended")), EPOCHS):
            log.add(begun=epoch)
            for _ in range(2):
                rows = rows_of(self.run_number, epoch)
                choice.shuffle(rows)
                sink.write(epoch, pa.Table.from_pylist(rows, SCHEMA))
                log.add(last=[epoch, *sink.last()])
            log.add(ended=epoch)
        sink.close()
        sink.close()
        log.add(finished=True)


@attrs.frozen
class Fencing:
    """Two drivers of one run, and copies of its checkpoint."""

    open: Callable[[SinkRequest], Sink]
    request: SinkRequest
    run_number: int

    def run(self, place: Path) -> None:
        """Log who wrote although he must not."""
        log = Log(place)

        def refused(what: str, do: Callable[[], None]) -> None:
            try:
                do()
            except TraceTypesError:
                return
            log.add(broken=what)

        def write(sink: Sink, epoch: int) -> None:
            sink.write(epoch, pa.Table.from_pylist(rows_of(self.run_number, epoch), SCHEMA))

        def begin(starts: Starts) -> Sink:
            sink = self.open(self.request)
            sink.begin(starts)
            return sink

        first = begin(Starts((1,), -1))
        write(first, 0)
        second = begin(Starts((1, 2), 0))
        refused("a driver still writes behind which the run was started again", lambda: write(first, 1))
        write(second, 1)
        refused("a copy of the checkpoint goes on that does not know who has written", lambda: begin(Starts((1,), 1)).close())
        refused("a copy of the checkpoint goes on that has not begun what is there", lambda: begin(Starts((1, 2), 0)).close())
        first.close()
        second.close()


# ------------------------------------------------------------------------------------------------------- processes


@contextmanager
def counting(module: str, kill_at: tuple[str, int] | None) -> Iterator[Counter[str]]:
    """A context that counts how often each line of the package of a module runs. ``kill_at``: a line, and which time that it runs
    is the last thing that the process would do."""
    lines, root = Counter[str](), module.partition(".")[0]

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            lines[line] += 1
            if kill_at == (line, lines[line]):
                os.kill(os.getpid(), signal.SIGKILL)
        return local

    def called(frame: FrameType, event: str, _: Any) -> Any:
        name, code = frame.f_globals.get("__name__") or "", frame.f_code
        is_of = name.partition(".")[0] == root and code.co_filename != __file__
        return local if is_of and code.co_name != "<module>" else None

    sys.settrace(called)
    threading.settrace(called)
    try:
        yield lines
    finally:
        sys.settrace(None)


def _do(place: Path) -> int:
    """Do a job in this process. The status: 1 if the connector failed."""
    log = Log(place)
    try:
        job, module, kill_at = cloudpickle.loads((place / "job").read_bytes())
        with counting(module, kill_at) as lines:
            job.run(place)
        log.add(lines=lines)
    except BaseException as error:
        log.add(failed=f"{type(error).__name__}: {error}", where="".join(traceback.format_exception(error)[-3:]))
        return 1
    return 0


def main(module: str) -> None:
    """Fork for each directory that is named. ``module``: of the connector. It is imported once."""
    warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a connector prints
    pa.table({"": [""]}).to_pylist()  # with its first rows Arrow imports pandas, if that is there
    with suppress(Exception):  # a fork says why
        importlib.import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(_do(Path(line.rstrip("\n"))))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
