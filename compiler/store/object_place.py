"""A file or folder of a checkpoint as an object of a store.

A folder is the objects whose keys begin with its own. One that must be there before its files has an object with a hidden name.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.compiler.connectors.object_writes import (
    children,
    copy_object,
    object_names,
    object_sizes,
    put,
    put_if,
    read_note,
    remove_objects,
    upload,
)

__all__ = ["ObjectPlace"]

HERE: Final = "_here"
"""The object of a folder without a file."""

PART: Final = 8
"""Digits of the name of a part of a file to which lines are appended."""


def _without_end(address: str) -> str:
    return address.rstrip("/")


@attrs.frozen(order=True, repr=False)
class ObjectPlace:
    """See :class:`tracetypes.compiler.store.places.Place`, whose methods are those of :class:`pathlib.Path`."""

    address: str = attrs.field(converter=_without_end)

    def __str__(self) -> str:
        return self.address

    __repr__ = __str__

    def __truediv__(self, name: str) -> ObjectPlace:
        return ObjectPlace(self.address if name == "." else f"{self.address}/{name}")

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.address.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its ending."""
        head, dot, _ = self.name.rpartition(".")
        return head if dot and head else self.name

    @property
    def parent(self) -> ObjectPlace:
        """The folder."""
        return ObjectPlace(self.address.rpartition("/")[0])

    def absolute(self) -> ObjectPlace:
        """An address is that everywhere."""
        return self

    def is_relative_to(self, other: ObjectPlace) -> bool:
        """Whether it lies in another place."""
        return f"{self.address}/".startswith(f"{other.address}/")

    def relative_to(self, other: ObjectPlace) -> str:
        """The way from another place."""
        return self.address.removeprefix(f"{other.address}/")

    # -------------------------------------------------------------------------------------------------- reading

    def exists(self) -> bool:
        """Whether there is such an object, or one in such a folder."""
        return read_note(self.address) is not None or self.is_dir()

    def is_dir(self) -> bool:
        """Whether there is an object in such a folder."""
        return next(self._all(), None) is not None

    def iterdir(self) -> Iterator[ObjectPlace]:
        """The objects and folders in a folder, in the order of their names."""
        return (self / name for name in sorted(children(self.address)) if name != HERE)

    def glob(self, pattern: str) -> Iterator[ObjectPlace]:
        """Those whose ways from here fit a pattern."""
        first, _, rest = pattern.partition("/")
        for one in self.iterdir():
            if fnmatchcase(one.name, first):
                if rest:
                    yield from one.glob(rest)
                else:
                    yield one

    def rglob(self, pattern: str) -> Iterator[ObjectPlace]:
        """All objects below, whose names fit a pattern."""
        return (one for one in self._all() if fnmatchcase(one.name, pattern) and one.name != HERE)

    def _all(self) -> Iterator[ObjectPlace]:
        return (ObjectPlace(address) for address in object_names(self.address))

    def read_bytes(self) -> bytes:
        """The content. Raises :class:`OSError`."""
        note = read_note(self.address)
        if note is None:
            raise FileNotFoundError(f"{self.address} does not exist")
        return note.content

    def read_text(self) -> str:
        """The content as text."""
        return self.read_bytes().decode()

    # -------------------------------------------------------------------------------------------------- writing

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Let the folder be there, for who looks for it before there is a file in it."""
        put_if(f"{self.address}/{HERE}", b"", None)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; it may be gone."""
        remove_objects([self.address])

    def rmdir(self) -> None:
        """A folder goes with its last object."""

    def make(self) -> None:
        """A folder is there when it has an object."""

    def probe(self) -> None:
        """See :func:`tracetypes.compiler.store.places.probe`."""
        put(f"{self.address}/{HERE}", b"")

    def scratch(self) -> Path:
        """See :func:`tracetypes.compiler.store.places.scratch`."""
        return _scratch(os.getpid())

    def replace_content(self, content: bytes, *, private: bool = False) -> None:
        """See :func:`tracetypes.compiler.store.places.replace`."""
        put(self.address, content)

    def create(self, content: bytes) -> bool:
        """See :func:`tracetypes.compiler.store.places.create`."""
        return put_if(self.address, content, None)

    def parts(self) -> list[ObjectPlace]:
        """The objects of a file to which lines are appended, in order."""
        return [one for one in self.iterdir() if one.name.isdecimal()]

    def append(self, content: bytes) -> None:
        """See :func:`tracetypes.compiler.store.places.append`. An object cannot grow, so each time is an object of its own."""
        before = self.parts()
        (self / f"{int(before[-1].name) + 1 if before else 0:0{PART}d}").replace_content(content)

    def rewrite(self, content: bytes) -> None:
        """See :func:`tracetypes.compiler.store.places.rewrite`. The new part is there before the old ones go."""
        before = self.parts()
        self.append(content)
        remove_objects([str(one) for one in before])

    def take(self, file: Any) -> None:
        """See :func:`tracetypes.compiler.store.places.take`."""
        if isinstance(file, ObjectPlace):
            copy_object(file.address, self.address)
        else:
            upload(file, self.address)
        file.unlink()

    def sizes(self) -> Iterator[tuple[str, int, float]]:
        """See :func:`tracetypes.compiler.store.places.sizes`."""
        return (one for one in object_sizes(self.address) if one[0] != HERE)

    def remove_all(self) -> None:
        """See :func:`tracetypes.compiler.store.places.remove_folder`."""
        remove_objects(object_names(self.address))


@lru_cache(maxsize=1)
def _scratch(process: int) -> Path:
    """A directory of this process."""
    made = tempfile.mkdtemp(prefix="tracetypes-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
