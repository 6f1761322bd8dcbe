"""What connectors do, as lines of a plan: who finds and reads the rows of a source, who writes those of a sink."""

from __future__ import annotations

from collections.abc import Iterator

from tracetypes.formats import Csv, JsonLines, Kafka, Parquet
from tracetypes.graph import Sink, Source

__all__ = ["reading", "writing"]

PIECES = "in pieces (the pieces are the RR split: no data moves)"


def reading(source: Source, given: object = None, *, files: str) -> Iterator[tuple[str, str]]:
    """Who finds the rows of a source and who reads them. ``given``: its input, if it is known, an address or the rows
    themselves; ``files``: who finds files, which the backend says."""
    address = given if isinstance(given, str) else ""
    if isinstance(source.format, Kafka) or address.startswith("kafka:"):
        yield "Kafka", "find new offsets, a range for each partition (the ranges are the RR split: no data moves)"
        yield "Arrow", "columns of records, which Python parses; key, time, block"
        return
    if address.startswith("delta:"):
        yield "Delta", f"find the files that new versions of the table have added, {PIECES}"
        yield "Arrow", "columns of Parquet; key, time, block"
        return
    if given is not None and not isinstance(given, str):
        yield "Python", f"take rows of the program, {PIECES}"
        yield "Arrow", "columns of these rows; key, time, block"
        return
    yield files, f"find files, {PIECES}"
    match source.format:
        case Csv() | JsonLines():
            columns = "columns of text that Python parses"
        case Parquet():
            columns = "columns of Parquet"
        case _:
            columns = "columns of Parquet, or of text that Python parses"
    yield "Arrow", f"{columns}; key, time, block"


def writing(sink: Sink) -> Iterator[tuple[str, str]]:
    """Who writes the rows of a sink."""
    if isinstance(sink.format, Kafka):
        yield "Kafka", "send rows in a transaction, once with the commit"
    else:
        yield "Arrow", "write rows where they are; files are moved into place with the commit"
