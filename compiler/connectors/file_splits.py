"""Source splits of files: what a task reads, how it reads it, and a hash of what it read.

The driver lists files, and a split says which part of a file a task reads: bytes of text between two ends of lines, or
some row groups of a Parquet file. A task computes a hash while it reads; behind it, or when something goes wrong, it compares the
file with what the driver saw. So a run knows what it has read, and names a file that changes meanwhile.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import PurePath
from typing import Any, BinaryIO, Final

import attrs
import pyarrow as pa

from tracetypes.compiler.connectors.encodings import as_utf8
from tracetypes.compiler.connectors.file_system import BLOCK, FileState
from tracetypes.compiler.connectors.files import expect_file, open_file, range_of, state_of
from tracetypes.compiler.runtime.messages import Message, Piece, TakenSplits
from tracetypes.compiler.wire.seals import seal, unseal
from tracetypes.errors import RunError

__all__ = [
    "Reading",
    "Split",
    "changed_file",
    "decompressed",
    "is_compressed",
    "proof",
    "size_and_time",
    "taken_splits",
    "whole_lines",
]

LEAST = 1 << 13
"""Bytes of a compressed file that are read at once, at least."""

FOLLOWING = 8
"""How many of the next files are asked for while one is read."""

SAMPLES, SAMPLE = 16, 4096
"""How many places of a Parquet file are looked at beside its footer, and how many bytes at each."""

FOOTER = 1 << 24
"""Bytes of a Parquet file's end that are looked at, at most."""


def _zstandard(raw: Any) -> Any:
    return pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")


_OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".zst": _zstandard,
}

_ENDINGS: Final = tuple(_OPENERS)

_LONGEST: Final = max(map(len, _ENDINGS))


def is_compressed(path: str) -> bool:
    """Whether the name is that of a compressed file of text."""
    return path[-_LONGEST:].lower().endswith(_ENDINGS)


def decompressed(path: str, raw: Any) -> Any:
    """The text of a compressed file of this name, from its bytes."""
    return _OPENERS[PurePath(path).suffix.lower()](raw)


@attrs.frozen
class Split:
    """A part of a file.

    ``listing``: which listing names it. ``rank``: the number of its file in there, in the order of the
    source. ``size`` and ``changed``: of the file, as it must be when it is read.
    ``parts``: 0 for text, whose bytes from ``start`` to ``end`` are read; otherwise part ``start`` of this many parts
    of the row groups is read. ``grows``: lines may be appended meanwhile; then ``sample`` is a hash of some places,
    which distinguishes a longer file from another one. ``doubtful``: how many bytes at the start of a part of CSV lie within the
    bound behind a rejected line (:mod:`tracetypes.csv_records`). ``among``: how many splits its listing has, so that one that is
    gone is noticed. ``run``: which one has listed it. ``version``: of the object of a store, as in :class:`FileState`.
    """

    listing: int
    path: str
    rank: int
    size: int
    changed: int
    start: int
    end: int
    parts: int = 0
    grows: bool = False
    sample: str = ""
    doubtful: int = 0
    among: int = attrs.field(default=0, eq=False)
    run: str = attrs.field(default="", eq=False)
    version: str = ""

    def line(self, among: int, run: str) -> str:
        """The split as a line of a listing of a run, which has so many."""
        fields = dict(zip(_FIELDS, _values(self), strict=True))
        if not self.version:
            del fields["version"]
        return seal(fields | {"among": among, "run": run}, "split", ascii=False)

    @classmethod
    def of(cls, line: str | bytes) -> Split:
        """The split of a line of a listing. Raises :class:`RunError` ``TT225``."""
        data = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
        try:
            return cls(**unseal(data, "split"))
        except ValueError as error:
            raise RunError(
                "TT225",
                f"a line of a listing in the checkpoint is not what the run wrote there: {error}",
                fix="put back a copy of the checkpoint and of the output of the same moment, or start anew with another of each",
            ) from error

    @property
    def piece(self) -> Piece:
        """Its place in the source: listing, file, place in the file."""
        return self.listing, self.rank, self.start

    @property
    def weight(self) -> int:
        """Approximately how many bytes are read."""
        return self.size // self.parts if self.parts else self.end - self.start

    @property
    def state(self) -> FileState:
        """Of the file, as it must be."""
        return FileState(self.size, self.changed, self.version)

    def is_as(self, state: FileState | None) -> bool:
        """Whether a file is as it must be. A version says more than a time."""
        if state is None:
            return False
        if self.version:
            return (state.size, state.version) == (self.size, self.version)
        return state == self.state or (self.grows and state.size > self.size)

    def sampled(self) -> Split:
        """The split with its sample. Raises :class:`OSError`."""
        return attrs.evolve(self, sample=_sampled(self.path, self.start, self.end))

    def is_begun_by(self, state: FileState | None) -> bool:
        """Whether a file is as it must be, or has grown. Only a sample can decide this, as possibly no task has read
        the file yet."""
        if state is None or not self.is_as(state):
            return False
        with suppress(OSError):
            return state.size == self.size or self.sample in ("", _sampled(self.path, self.start, self.end))
        return False


_FIELDS: Final = tuple(field.name for field in attrs.fields(Split))

_values: Final = attrgetter(*_FIELDS)


def size_and_time(state: FileState) -> str:
    """Size and time of a file, and its version if it has one, for a message."""
    import datetime as dt

    at = dt.datetime.fromtimestamp(state.modified / 1e9, dt.UTC)
    return f"{state.size:,} bytes of {at:%Y-%m-%d %H:%M:%S.%f} UTC" + (f" (etag {state.version})" if state.version else "")


def changed_file(path: str, was: str, now: str, *, more: str = "") -> RunError:
    """The error for a file that has changed and must not."""
    return RunError(
        "TT230",
        f"{path} has changed: it was {was}, and is {now}{more}",
        fix="put it back as it was, and give what is new a name of its own; for lines that are appended there is --appended read",
    )


class Reading:
    """A split while it is read. ``following``: those that are read next."""

    def __init__(self, split: Split, following: Sequence[Split] = ()) -> None:
        self.split, self.digest, self.following = split, hashlib.blake2b(digest_size=16), following

    @classmethod
    def of_splits(cls, splits: Sequence[Split]) -> list[Reading]:
        """Splits that are read one after the other."""
        return [cls(split, splits[at : at + FOLLOWING]) for at, split in enumerate(splits, 1)]

    @classmethod
    def of_file(cls, path: str) -> Reading:
        """Of a whole file of text as it is now. Raises :class:`FileNotFoundError`."""
        state = state_of(path)
        if state is None:
            raise FileNotFoundError(path)
        return cls(Split(0, path, 0, state.size, state.modified, 0, state.size, version=state.version))

    def check(self) -> None:
        """Raises :class:`RunError` ``TT230`` if the file is not as it was listed."""
        split, state = self.split, state_of(self.split.path)
        if state is None:
            raise RunError(
                "TT230",
                f"{split.path} is gone since it was listed, and nothing was taken from it",
                fix="run again to go on without it",
            )
        if not split.is_begun_by(state):
            was, now = size_and_time(split.state), size_and_time(state)
            raise changed_file(split.path, was, now, more=" since it was listed")

    @contextmanager
    def checked(self) -> Iterator[None]:
        """A context in which the file is read: it must still be as it is when all was read. Raises :class:`RunError` ``TT230``,
        and ``TT208`` if it cannot be read."""
        try:
            for one in self.following:
                expect_file(one.path, one.state)
            yield
            if not self.split.version:  # else the store has compared it with each request
                self.check()
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            self.check()
            raise RunError(
                "TT208",
                f"{self.split.path} cannot be read: {error}",
                fix="see whether the file is whole, or remove it, then run again to go on",
            ) from error

    def texts(self) -> Iterator[bytes]:
        """The text, many whole lines at once."""
        return whole_lines(self.text())

    def text(self, encoding: str = "utf-8") -> Iterator[bytes]:
        """The text in blocks of UTF-8."""
        with self.checked():
            yield from self._blocks() if self.split.start else as_utf8(self._blocks(), encoding)

    def _blocks(self) -> Iterator[bytes]:
        """The text in blocks, as read."""
        split = self.split
        if is_compressed(split.path) and split.size:  # a file of 0 bytes has no rows, whatever its name
            with open_file(split.path, split.state) as file:
                raw = _Hashed(file, self.digest.update)
                buffered = io.BufferedReader(raw, min(BLOCK, max(LEAST, split.size)))
                with decompressed(split.path, buffered) as text:
                    while block := text.read(BLOCK):
                        yield block
                while raw.read(BLOCK):
                    pass
            return
        for block in range_of(split.path, split.start, split.end, split.state):
            self.digest.update(block)
            yield block

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """A context in which a Parquet file is read."""
        with self.checked():
            _sample(self.split.path, self.digest.update, self.split.version)
            yield

    def taken(self) -> dict[str, Any]:
        """What was read, as plain values."""
        split = self.split
        version = {"version": split.version} if split.version else {}
        return {
            "listing": split.listing,
            "path": split.path,
            "size": split.size,
            "changed": split.changed,
            "start": split.start,
            "end": split.end,
            "parts": split.parts,
            "grows": split.grows,
            "hash": self.digest.hexdigest(),
            **version,
        }


def taken_splits(reading: str, read: Iterable[Reading]) -> Message:
    """The report of what was read. ``reading``: which reading of the source."""
    return Message(0, TakenSplits(reading, [one.taken() for one in read]))


class _Hashed(io.RawIOBase):
    """A file that tells what is read of it."""

    def __init__(self, file: BinaryIO, hash: Callable[[Any], None]) -> None:
        super().__init__()
        self.file, self.hash = file, hash

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some = self.file.read(len(buffer))
        buffer[: len(some)] = some
        self.hash(some)
        return len(some)


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks that end where a line ends, but for the last one."""
    parts: list[bytes] = []
    for block in blocks:
        at = block.rfind(b"\n") + 1
        if at:
            yield b"".join([*parts, memoryview(block)[:at]])
            parts = []
        parts.append(block[at:])
    if rest := b"".join(parts):
        yield rest


def _sampled(path: str, start: int, end: int) -> str:
    """The hash of some places of text, the first bytes and the last ones among them."""
    digest = hashlib.blake2b(digest_size=16)
    with open_file(path) as file:
        for at in range(SAMPLES):
            file.seek(start + max(0, end - start - SAMPLE) * at // (SAMPLES - 1))
            digest.update(file.read(min(SAMPLE, end - start)))
    return digest.hexdigest()


def _sample(path: str, tell: Callable[[bytes], None], version: str) -> None:
    """The footer of a Parquet file, and some places before it. Its version if it has one, which is of all its content."""
    if version:
        tell(version.encode())
        return
    with open_file(path) as file:

        def some(start: int, count: int) -> bytes:
            file.seek(start)
            return file.read(count)

        size = file.seek(0, io.SEEK_END)
        footer = min(size, FOOTER, int.from_bytes(some(max(0, size - 8), 4), "little") + 8)
        for at in range(SAMPLES):
            tell(some((size - footer) * at // SAMPLES, SAMPLE))
        tell(some(size - footer, footer))


def proof(path: str, parts: int, start: int, end: int) -> str:
    """The hash of a split of the file as it is now; for Parquet, the same for each part. Raises :class:`OSError` or
    :class:`EOFError`."""
    digest = hashlib.blake2b(digest_size=16)
    if parts:
        state = state_of(path)
        _sample(path, digest.update, "" if state is None else state.version)
    else:
        for block in range_of(path, start, end):
            digest.update(block)
    return digest.hexdigest()
