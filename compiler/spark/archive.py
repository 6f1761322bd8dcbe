"""An archive of the classes that Spark's Java process loads: with it the process starts with less than two thirds of the work.

Java makes it at the end of a run that :func:`record` surrounds (JEP 350). It holds for one Java, one Spark and this machine.
Java goes without where its jars are not those that were recorded.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tracetypes.errors import UsageError

__all__ = ["find_archive", "options", "record"]

_recording: list[Path] = []
"""What the next Java process writes."""


def find_archive() -> Path | None:
    """The archive for the Java and the Spark that a session would start, if there is one."""
    for file in _folder().glob(f"java-{_identity()}-*.jsa"):
        # Java ends with a fatal error on half a file, so the name holds the size.
        if file.stat().st_size == int(file.stem.rpartition("-")[2]):
            return file
    return None


def options() -> str:
    """The options of a Java process: to use the archive, or to write one."""
    if _recording:
        return f"-XX:ArchiveClassesAtExit={_recording[0]}"
    file = find_archive()
    if file is None or " " in str(file):
        return ""
    # Java would print a warning where it goes without.
    return f"-XX:SharedArchiveFile={file} -Xlog:disable -Xlog:all=error:stderr"


@contextmanager
def record() -> Iterator[None]:
    """A context in which a Java process starts, runs and ends. Its classes are archived. Raises :class:`UsageError` ``TT402``
    where that is impossible."""
    folder = _folder()
    if " " in str(folder):
        raise UsageError("TT402", f"{folder} has a space in its name", fix="set XDG_CACHE_HOME to another directory")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=folder))
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror}"
        raise UsageError("TT402", message, fix="set XDG_CACHE_HOME to a directory that can be written") from error
    fresh = scratch / "made.jsa"
    _recording.append(fresh)
    try:
        yield
        if not fresh.exists():
            raise UsageError("TT402", "this Java archives no classes", fix="take another Java 17 or 21; runs work without, too")
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(folder / f"java-{_identity()}-{fresh.stat().st_size}.jsa")
    finally:
        _recording.clear()
        shutil.rmtree(scratch, ignore_errors=True)


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "tracetypes"


def _identity() -> str:
    """Names the Java and the jars of Spark."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    spark = Path(os.environ.get("SPARK_HOME") or str(Path(str(pyspark.__file__)).parent))
    files = [Path(java).resolve()] if java and Path(java).exists() else []
    files += sorted((spark.resolve() / "jars").glob("*.jar"))
    about = [(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    return hashlib.sha256(repr(about).encode()).hexdigest()[:16]
