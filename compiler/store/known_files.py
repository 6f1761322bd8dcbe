"""Files as a run has read them, and as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, final

import attrs

from tracetypes.compiler.connectors.file_splits import Split, proof, size_and_time
from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.errors import RunError

__all__ = ["KnownFile", "KnownFiles", "coverage", "lost_input"]


Taken: TypeAlias = tuple[int, int, str]
"""Start, end and hash of a split."""


@attrs.frozen
class KnownFile:
    """A file that was read, with its size, time and version then. ``parts`` as in a split. ``splits``: all that were read."""

    size: int
    time: int
    parts: int
    splits: Sequence[Taken]
    version: str = ""

    @property
    def state(self) -> FileState:
        """When it was read."""
        return FileState(self.size, self.time, self.version)

    def is_in(self, path: str, most: int | None = None) -> bool:
        """Whether a file still has what was read. ``most``: compare only this many of the last splits."""
        some = self.splits[:1] if self.parts else self.splits if most is None else self.splits[-most:]
        try:
            return all(proof(path, self.parts, start, end) == hash for start, end, hash in some)
        except (OSError, EOFError):
            return False

    def begun(self, path: str, *, proved: bool) -> KnownFile | None:
        """The same file if a longer one begins with what was read. A run compares all of it once, and once that is ``proved``
        only the last splits. It joins splits of equal size, so that few are kept, and reads a growing file again
        only as often as the logarithm of its size."""
        sizes = [end - start for start, end, _ in self.splits]
        most = 1
        while most < len(sizes) and sizes[-most - 1] <= sum(sizes[-most:]):
            most += 1
        if not self.is_in(path, most if proved else None):
            return None
        if most == 1:
            return self
        start, end = self.splits[-most][0], self.splits[-1][1]
        return attrs.evolve(self, splits=[*self.splits[:-most], (start, end, proof(path, 0, start, end))])


@final
class KnownFiles:
    """What was read, by path. There may be millions, so they are tuples of plain values: small, and nothing that Python's cycle
    collector walks."""

    def __init__(self) -> None:
        self._fields: dict[str, tuple[int, int, int, tuple[Taken, ...], str]] = {}

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __contains__(self, path: object) -> bool:
        return path in self._fields

    def __getitem__(self, path: str) -> KnownFile:
        return KnownFile(*self._fields[path])

    def __setitem__(self, path: str, file: KnownFile) -> None:
        self._fields[path] = file.size, file.time, file.parts, tuple(file.splits), file.version

    def looks(self, path: str) -> tuple[int, int, str] | None:
        """Size, time and version of a file, as a :class:`FileState`; None if it was not read."""
        fields = self._fields.get(path)
        return None if fields is None else (fields[0], fields[1], fields[4])

    def plain(self, path: str) -> list[Any]:
        """A file as plain values, for a record. The version is left out if there is none."""
        *fields, version = self._fields[path]
        return [path, *fields, version] if version else [path, *fields]


def lost_input(split: Split, state: FileState | None, path: str) -> RunError:
    """The error for visible rows that cannot be computed again."""
    now = "is gone" if state is None else f"has changed: it is {size_and_time(state)}"
    return RunError(
        "TT231",
        f"a micro-batch ended before it was committed, and cannot be computed again: {path}, and its input {split.path}, "
        f"{size_and_time(split.state)}, {now}. Nothing was taken back",
        fix="put the file back as it was, with its time, and run again; or start anew with another --checkpoint and output",
    )


def coverage(splits: Sequence[Split]) -> tuple[Any, ...]:
    """The part of a file that some splits of it read."""
    return {(one.size, one.changed, one.version, one.grows) for one in splits}, max((one.end for one in splits), default=0)

