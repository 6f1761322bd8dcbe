"""Records of a run with a version and a checksum, which whoever reads them compares.

A JSON object gets them as its last field: ``{"run": "0a1b2c3d", "seal": "1:5f3a90c1"}``. Bytes get them as a head. A row of a
database gets a checksum of its values as a column, and whoever names a file of rows names its checksum. The checksum of a record
covers its name, so a record in the place of another one is noticed too.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path
from typing import IO, Any, Final

__all__ = ["VERSION", "checksum", "checksum_of_file", "checksum_of_stream", "seal", "seal_bytes", "unseal", "unseal_bytes"]

VERSION: Final = 1
"""Of what a seal covers, and how."""

_SEAL: Final = re.compile(rb'"seal": "(\d+):([0-9a-f]{8})"\}\s*\Z')

_ENCODERS: Final = {ascii: json.JSONEncoder(ensure_ascii=ascii) for ascii in (True, False)}

_HEAD: Final = struct.Struct("<2sHI")

_MAGIC: Final = b"tt"

_AT_ONCE: Final = 1 << 20


def checksum(*values: Any) -> int:
    """A checksum of plain values."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


def checksum_of_file(path: Path) -> int:
    """A checksum of the bytes of a file."""
    with path.open("rb", buffering=0) as file:
        return checksum_of_stream(file)


def checksum_of_stream(file: IO[bytes]) -> int:
    """A checksum of the bytes of an open file, from where it is."""
    found = 0
    while some := file.read(_AT_ONCE):
        found = zlib.crc32(some, found)
    return found


def seal(content: dict[str, Any], name: str, *, ascii: bool = True) -> str:
    """An object as JSON with its seal. ``name``: of the record. ``ascii``: whether other characters are escaped."""
    body = _ENCODERS[ascii].encode(content)[:-1]
    return f'{body}{", " if content else ""}"seal": "{VERSION}:{_checked(body.encode("utf-8", "surrogatepass"), name)}"}}'


def unseal(data: bytes, name: str) -> dict[str, Any]:
    """The object of :func:`seal`. Raises :class:`ValueError` for anything else."""
    at = data.rfind(b'"seal": "')
    found = _SEAL.match(data, at) if at >= 0 else None
    if found is None:
        raise ValueError("it has no checksum at its end" if data.strip(b"\0 \n") else "it is empty")
    _same_version(int(found[1]))
    body = data[:at].removesuffix(b", ")
    if _checked(body, name).encode() != found[2]:
        raise ValueError("its checksum differs")
    content = json.loads(body + b"}")
    assert isinstance(content, dict)
    return content


def seal_bytes(data: bytes, name: str) -> bytes:
    """Bytes with a seal."""
    return _HEAD.pack(_MAGIC, VERSION, zlib.crc32(data, zlib.crc32(name.encode()))) + data


def unseal_bytes(data: bytes, name: str) -> bytes:
    """The bytes of :func:`seal_bytes`. Raises :class:`ValueError` for anything else."""
    if len(data) < _HEAD.size:
        raise ValueError("it is cut off")
    magic, version, found = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("it has no checksum")
    _same_version(version)
    rest = data[_HEAD.size :]
    if zlib.crc32(rest, zlib.crc32(name.encode())) != found:
        raise ValueError("its checksum differs")
    return rest


def _checked(body: bytes, name: str) -> str:
    return f"{zlib.crc32(body, zlib.crc32(name.encode())):08x}"


def _same_version(version: int) -> None:
    if version != VERSION:
        raise ValueError(f"it has version {version}, not {VERSION}")
