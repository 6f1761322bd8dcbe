"""Files of Avro (object container files): their schema, and their blocks of records, from any place where a block begins.

Sixteen bytes that the header names stand behind it and behind each block. A part of a file has the blocks whose sixteen bytes in
front begin in it, as Hadoop cuts such files.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import attrs
import pyarrow as pa

from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.compiler.connectors.files import open_file
from tracetypes.compiler.connectors.schema_registry import RegisteredSchema

__all__ = ["AvroHeader", "blocks_of", "header_of"]

MAGIC: Final = b"Obj\x01"
SYNC: Final = 16
LARGEST: Final = 1 << 26
"""Bytes of a header at most."""
WINDOW: Final = 1 << 20
"""Bytes in which a marker is looked for at once."""


def _snappy(data: bytes) -> bytes:
    """With the length in front, and a checksum behind."""
    size, _ = _number(io.BytesIO(data[:10]), signed=False)
    text: bytes = pa.decompress(data[:-4], size, codec="snappy", asbytes=True)
    if zlib.crc32(text) != int.from_bytes(data[-4:], "big"):
        raise ValueError("a block has another checksum")
    return text


def _zstandard(data: bytes) -> bytes:
    whole: bytes = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return whole


_CODECS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.decompress(data, -15),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}


@attrs.frozen
class AvroHeader:
    """``end``: where the first block begins. ``sync``: the bytes behind each block."""

    schema: RegisteredSchema
    codec: str
    sync: bytes
    end: int


def header_of(path: str, state: FileState | None = None) -> AvroHeader:
    """The header of a file. ``state``: as it must be, if that is known. Raises ``ValueError`` if that is none of Avro, and
    ``OSError``."""
    with _opened(path, state) as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError("it is no file of Avro")
        meta: dict[str, bytes] = {}
        while count := _number(file)[0]:
            if count < 0:
                count = -count
                _number(file)
            for _ in range(count):
                name = _bytes(file).decode()
                meta[name] = _bytes(file)
        sync = file.read(SYNC)
        if len(sync) != SYNC or "avro.schema" not in meta:
            raise ValueError("its header has no schema, or no end")
        codec = meta.get("avro.codec", b"null").decode()
        if codec not in _CODECS:
            raise ValueError(f"its blocks are packed with {codec}, and are read with {', '.join(_CODECS)}")
        return AvroHeader(RegisteredSchema(0, "AVRO", meta["avro.schema"].decode()), codec, sync, file.tell())


def _opened(path: str, state: FileState | None) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, open_file(path, state)), WINDOW)


def _bytes(file: Any) -> bytes:
    size, _ = _number(file)
    if not 0 <= size <= LARGEST:
        raise ValueError("its header is broken")
    data: bytes = file.read(size)
    if len(data) != size:
        raise ValueError("it ends in its header")
    return data


def _number(file: Any, *, signed: bool = True) -> tuple[int, int]:
    """A number of variable length, and how many bytes it has."""
    zigzag = 0
    for at in range(10):
        one = file.read(1)
        if not one:
            raise ValueError("it ends in a number")
        zigzag |= (one[0] & 0x7F) << (7 * at)
        if one[0] < 0x80:
            return ((zigzag >> 1) ^ -(zigzag & 1) if signed else zigzag), at + 1
    raise ValueError("a number does not end")


def blocks_of(
    path: str, header: AvroHeader, part: int = 0, parts: int = 1, state: FileState | None = None
) -> Iterator[tuple[int, bytes]]:
    """The blocks of a part of a file: how many records, and their bytes. Raises ``ValueError`` for a broken one, and
    ``OSError``."""
    unpack = _CODECS[header.codec]
    with _opened(path, state) as file:
        size = file.seek(0, os.SEEK_END)
        first, behind = size * part // parts, size * (part + 1) // parts
        at = header.end - SYNC if first <= header.end - SYNC else _marker(file, header.sync, first, size)
        while at is not None and at < behind and at + SYNC < size:
            file.seek(at + SYNC)
            count, _ = _number(file)
            length, _ = _number(file)
            if count < 0 or not 0 <= length <= size:
                raise ValueError(f"the block at byte {at + SYNC:,} is broken")
            data = file.read(length)
            at = file.tell()
            if len(data) != length or file.read(SYNC) != header.sync:
                raise ValueError(f"the block that ends at byte {at:,} is broken")
            try:
                yield count, unpack(data)
            except (zlib.error, lzma.LZMAError, EOFError, pa.ArrowException) as error:
                raise ValueError(f"the block that ends at byte {at:,} cannot be unpacked: {error}") from error


def _marker(file: Any, sync: bytes, first: int, size: int) -> int | None:
    """Where the first marker from a place on begins."""
    for start in range(first, size, WINDOW):
        file.seek(start)
        found = file.read(WINDOW + SYNC - 1).find(sync)
        if found >= 0:
            return start + int(found)
    return None
