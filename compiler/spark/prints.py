"""Shows what operators print in Spark's Python workers, where the run was started.

Workers and the driver share a file. A worker appends whole lines before its task ends, so everything is there when the
run ends. On a cluster they share no file, and the lines stay in the logs of the executors.
"""

from __future__ import annotations

import atexit
import io
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tracetypes.redaction import redact

__all__ = ["print_to_driver", "share", "show_prints"]

_NAME: Final = "TRACETYPES_PRINTED"
"""The environment variable of workers that names the file."""

_SECONDS: Final = 0.5
"""How often the driver looks."""

_one_reader: Final = threading.Lock()


class Lines(io.RawIOBase):
    """Appends whole lines to a file to which other processes append too."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.unfinished = b""

    def fileno(self) -> int:
        """The number of the file, for processes that an operator starts."""
        return self.file

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:
        """Write the complete lines, and hold the rest."""
        lines, newline, self.unfinished = (self.unfinished + bytes(data)).rpartition(b"\n")
        if newline:
            os.write(self.file, lines + newline)
        return len(data)

    def end(self) -> None:
        """Write a last line without an end. Then restore the output, for what Spark's own process prints between tasks."""
        if self.unfinished:
            self.write(b"\n")
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__


_lines: Final[list[Lines]] = []
"""Where this worker prints, once it does."""


_texts: Final[list[Any]] = []


def print_to_driver() -> Lines | None:
    """In a worker that shares a file with the driver: print to that file from now on."""
    path = os.environ.get(_NAME)
    if path is not None and not _lines:
        try:
            _lines.append(Lines(path))
        except OSError:  # the driver has ended, or is elsewhere
            return None
        _texts.append(io.TextIOWrapper(_lines[0], "utf-8", "replace", write_through=True))
    if _texts:
        sys.stdout = sys.stderr = _texts[0]
    return _lines[0] if _lines else None


def share(context: SparkContext) -> Path | None:
    """The file that workers of a session share with the driver; None if they may be on other machines."""
    if not (context.master or "").startswith("local"):
        return None
    if _NAME not in context.environment:
        folder = tempfile.mkdtemp(prefix="tracetypes-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        context.environment[_NAME] = str(Path(folder) / "printed")
    return Path(context.environment[_NAME])


@contextmanager
def show_prints(spark: SparkSession, show: Callable[[str], None]) -> Iterator[None]:
    """A context in which ``show`` is called with each line that workers print. If several runs go on at once, the first
    one shows all lines."""
    path = share(spark.sparkContext)
    if path is None or not _one_reader.acquire(blocking=False):
        yield
        return
    ended = threading.Event()
    failures: list[BaseException] = []

    def follow() -> None:
        try:
            while not ended.wait(_SECONDS):
                read()
        except BaseException as error:
            failures.append(error)

    try:
        path.touch()
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            rest = b""

            def read() -> None:
                nonlocal rest
                *lines, rest = (rest + file.read()).split(b"\n")
                for line in lines:
                    show(redact(line.decode("utf-8", "replace")))

            thread = threading.Thread(target=follow, name="tracetypes prints", daemon=True)
            thread.start()
            try:
                yield
            finally:
                ended.set()
                thread.join()
                if not failures:
                    read()
            for failure in failures:
                raise failure
    finally:
        _one_reader.release()
