"""The files of a checkpoint: on a disk, or as objects of a store.

Whoever reads a checkpoint gets places, and reads and lists them by the methods of :class:`Place`. Whoever writes one calls the
functions here, each of which has two implementations: for a disk, and for objects (:class:`ObjectPlace`). No other module asks
where a checkpoint lies.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self, final

import attrs

from tracetypes.compiler.connectors.files import open_file
from tracetypes.compiler.connectors.store_address import is_store
from tracetypes.compiler.store.object_place import ObjectPlace

__all__ = [
    "Place",
    "append",
    "create",
    "lines_of",
    "on_disk",
    "opened",
    "place_of",
    "probe",
    "remove_folder",
    "replace",
    "rewrite",
    "scratch",
    "sizes",
    "spark_address",
    "take",
]


class Place(Protocol):
    """A file or a folder. :class:`pathlib.Path` is one, and :class:`ObjectPlace`, whose methods of the same names do the same."""

    @property
    def name(self) -> str: ...

    @property
    def stem(self) -> str: ...

    @property
    def parent(self) -> Self: ...

    def __truediv__(self, name: str, /) -> Self: ...

    def __lt__(self, other: Any, /) -> bool: ...

    def absolute(self) -> Self: ...

    def exists(self) -> bool: ...

    def is_dir(self) -> bool: ...

    def iterdir(self) -> Iterable[Self]: ...

    def glob(self, pattern: str, /) -> Iterable[Self]: ...

    def rglob(self, pattern: str, /) -> Iterable[Self]: ...

    def read_bytes(self) -> bytes: ...

    def read_text(self) -> str: ...

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None: ...

    def unlink(self, missing_ok: bool = False) -> None: ...

    def rmdir(self) -> None: ...


def place_of(address: str | os.PathLike[str]) -> Place:
    """The place of a path, or of an address of objects."""
    text = os.fspath(address)
    return ObjectPlace(text) if is_store(text) else Path(text)


def on_disk(place: Place) -> Path:
    """A place that the local backend has, or that is no store for another reason."""
    assert isinstance(place, Path)
    return place


def spark_address(place: Place) -> str:
    """A place as Spark names it. Its own client of stores is Hadoop's."""
    return f"s3a://{str(place).removeprefix('s3://')}" if isinstance(place, ObjectPlace) else str(place)


# ------------------------------------------------------------------------------------------------------- writing


class _Written(Protocol):
    """What is written at a place."""

    def make(self) -> None: ...

    def replace_content(self, content: bytes, *, private: bool = False) -> None: ...

    def create(self, content: bytes) -> bool: ...

    def append(self, content: bytes) -> None: ...

    def rewrite(self, content: bytes) -> None: ...

    def take(self, file: Place) -> None: ...

    def sizes(self) -> Iterator[tuple[str, int, float]]: ...

    def remove_all(self) -> None: ...

    def parts(self) -> Iterable[Place]: ...

    def probe(self) -> None: ...

    def scratch(self) -> Path: ...


@final
@attrs.frozen
class _OnDisk:
    """A place on a disk. Each file that is written is whole, also after a power cut."""

    path: Path

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def replace_content(self, content: bytes, *, private: bool = False) -> None:
        os.replace(self._hidden(content, 0o600 if private else 0o666), self.path)

    def probe(self) -> None:
        self.make()
        probe = self.path / f"._tracetypes-{uuid.uuid4().hex}"
        probe.write_bytes(b"")
        probe.unlink()

    def create(self, content: bytes) -> bool:
        hidden = self._hidden(content)
        try:
            os.link(hidden, self.path)
        except FileExistsError:
            return False
        finally:
            os.unlink(hidden)
        return True

    def _hidden(self, content: bytes, mode: int = 0o666) -> str:
        """The content in a file beside the place."""
        temporary = os.path.join(self.path.parent, f".{self.path.name}.{uuid.uuid4().hex}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return temporary

    def append(self, content: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def rewrite(self, content: bytes) -> None:
        self.replace_content(content)

    def take(self, file: Place) -> None:
        with on_disk(file).open("rb") as whole:
            os.fsync(whole.fileno())
        self.path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(on_disk(file), self.path)

    def sizes(self) -> Iterator[tuple[str, int, float]]:
        with suppress(FileNotFoundError), os.scandir(self.path) as files:
            for file in files:
                with suppress(FileNotFoundError):  # removed meanwhile
                    about = file.stat()
                    yield file.name, about.st_size, about.st_mtime

    def remove_all(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def parts(self) -> Iterable[Path]:
        return [self.path] if self.path.exists() else []

    def scratch(self) -> Path:
        return self.path


def _written(place: Place) -> _Written:
    return place if isinstance(place, ObjectPlace) else _OnDisk(on_disk(place))


def probe(folder: Place) -> None:
    """Make a folder, and see that it can be written. Raises :class:`OSError`."""
    _written(folder).probe()


def scratch(folder: Place) -> Path:
    """A directory of this machine, from which :func:`take` moves files into a folder; on a disk without copying them."""
    return _written(folder).scratch()


def replace(place: Place, content: bytes, *, above: bool = False, private: bool = False) -> None:
    """Write a small file. It exists whole or not at all. ``above``: make its folder, if need be. ``private``: on a disk, only its
    owner may read it. Raises :class:`OSError`."""
    if above:
        _written(place.parent).make()
    _written(place).replace_content(content, private=private)


def create(place: Place, content: bytes) -> bool:
    """Write a small file likewise, if there is none. Returns whether this one is there now: of several who try at once, one wins.
    Raises :class:`OSError`."""
    return _written(place).create(content)


def append(place: Place, content: bytes) -> None:
    """Append lines to a file. Raises :class:`OSError`."""
    _written(place).append(content)


def rewrite(place: Place, content: bytes) -> None:
    """Write a file anew to which lines are appended. Raises :class:`OSError`."""
    _written(place).rewrite(content)


def lines_of(place: Place) -> list[bytes]:
    """The lines of a file to which lines are appended; none if there is no file. Raises :class:`OSError`."""
    return [line for part in _written(place).parts() for line in part.read_bytes().splitlines()]


def take(file: Place, place: Place) -> None:
    """Let a whole file, of this machine or beside the place, be at a place, and not where it was. Raises :class:`OSError`."""
    _written(place).take(file)


def opened(file: Place) -> BinaryIO:
    """A file that is read at any place. Raises :class:`OSError`."""
    return open_file(str(file))


def sizes(folder: Place) -> Iterator[tuple[str, int, float]]:
    """The files in a folder: the name, the size and the time of each, in seconds since 1970. Those that are removed meanwhile
    may be left out."""
    return _written(folder).sizes()


def remove_folder(place: Place) -> None:
    """Remove a folder and all in it, if it is there. Raises :class:`OSError` for a store."""
    _written(place).remove_all()
