"""The addresses of inputs and outputs, for people: the one list of them. Each connector has its line here."""

from __future__ import annotations

import textwrap
from typing import Final

import attrs

__all__ = ["ADDRESSES", "Address", "address_lines"]


@attrs.frozen
class Address:
    """A kind of address. ``form``: how it is written. ``what``: what it is. ``extra``: what has to be
    installed besides a backend."""

    form: str
    what: str
    reads: bool = True
    writes: bool = True
    extra: str = ""


ADDRESSES: Final = (
    Address("PATH", "files to read, a folder to write: JSON lines, CSV, Parquet, Avro (to read), by the ending"),
    Address("kafka://HOST:PORT/TOPIC", "a topic of Kafka", extra="kafka"),
    Address("delta:DIR", "a Delta table on a local or mounted disk; to write, also delta:s3://", extra="delta"),
    Address("s3://BUCKET/FOLDER", "objects of a store; gs:// and az:// likewise, https:// to read", extra="stores"),
    Address("postgres://USER@HOST/DB?table=T", "a table of PostgreSQL", reads=False, extra="postgres"),
    Address("mqtt://HOST:PORT/TOPIC", "topics of MQTT (local backend)", extra="mqtt"),
    Address("tcp://HOST:PORT", "a socket to connect to, for lines (local backend)"),
    Address("tcp-listen://HOST:PORT", "a socket that listens, for lines (local backend)"),
    Address("-", "standard input (local backend), or standard output, as JSON lines"),
    Address("noop:", "nothing is kept: to measure", reads=False),
)
"""What stands behind ``--input SOURCE=`` and ``--output SINK=``."""


def address_lines(width: int = 78) -> list[str]:
    """The list as lines of this width at most."""
    first = max(len(one.form) for one in ADDRESSES) + 4
    lines: list[str] = []
    for one in ADDRESSES:
        only = "" if one.reads and one.writes else " (output only)" if one.writes else " (input only)"
        extra = f" [extra {one.extra}]" if one.extra else ""
        wrapped = textwrap.wrap(f"{one.what}{only}{extra}", width - first)
        lines += [f"  {one.form}".ljust(first) + wrapped[0], *(" " * first + more for more in wrapped[1:])]
    return lines
