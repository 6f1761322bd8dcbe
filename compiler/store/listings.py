"""The listings of one reading of a source: numbered directories with files of splits."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, final

import attrs

from tracetypes.compiler.connectors.file_splits import Split
from tracetypes.compiler.connectors.object_writes import modified_at
from tracetypes.compiler.store.places import Place, on_disk, remove_folder
from tracetypes.compiler.store.small_files import apart, damaged, write_lines

__all__ = ["Listings", "listings_in"]

HOLDS: Final = "the files that a micro-batch reads"


@attrs.frozen
class Listings(ABC):
    """Those below ``home``; ``tasks``: how many read at once; ``run``: the run that writes them."""

    home: Place
    tasks: int
    run: str = ""
    _known: list[int] = attrs.field(init=False, factory=list, eq=False, repr=False)
    """The numbers of those that are there, since :meth:`begin`: epochs ask for them, and there may be many."""
    _recent: dict[int, list[Split]] = attrs.field(init=False, factory=dict, eq=False, repr=False)
    """What one of them names, which is asked for several times."""

    @property
    def path(self) -> Place:
        """The directory of all of them."""
        return self.home / "steps"

    def begin(self) -> None:
        """Make that directory, or mend what a start before this one left."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._mend()
        self._known[:] = sorted(int(one.name) for one in self.path.iterdir())

    def numbers(self, after: int = 0) -> Iterator[int]:
        """Those behind a number that are there, in order. None may be removed meanwhile."""
        at = bisect_right(self._known, after)
        while at < len(self._known):
            yield self._known[at]
            at += 1

    def place(self, number: int) -> Place:
        """The directory of one."""
        return self.path / f"{number:08d}"

    def splits(self, number: int) -> list[Split]:
        """What one names."""
        if number not in self._recent:
            self._recent.clear()
            self._recent[number] = self._read(number)
        return self._recent[number].copy()

    def _read(self, number: int) -> list[Split]:
        place = self.place(number)
        try:
            lines = [line for file in sorted(place.iterdir()) for line in file.read_bytes().splitlines()]
        except OSError as error:
            raise damaged(place, error.strerror or error, HOLDS) from error
        splits = [Split.of(line) for line in lines if line]
        if not lines or any(split.among != len(splits) for split in splits):
            raise damaged(place, "some of its lines are gone", HOLDS)
        if other := next((split.run for split in splits if split.run != self.run), ""):
            raise apart(place, f"it is of run {other}, and this is run {self.run}", "It names other files")
        return splits

    def publish(self, number: int, splits: Sequence[Split]) -> None:
        """Write a new one."""
        self._write(number, splits)
        insort(self._known, number)
        if not self._recent:
            self._recent[number] = list(splits)

    def remove(self, number: int) -> None:
        """Remove one, which is committed."""
        remove_folder(self.place(number))
        self._recent.pop(number, None)
        del self._known[bisect_left(self._known, number)]

    @property
    @abstractmethod
    def parts(self) -> int:
        """How many files one has."""

    @abstractmethod
    def swap(self, number: int, splits: Sequence[Split]) -> None:
        """Write one again, with as many files."""

    @abstractmethod
    def spread(self, number: int) -> None:
        """Write one again if it has files for another number of tasks."""

    @abstractmethod
    def _mend(self) -> None:
        """Mend what a start before this one left."""

    @abstractmethod
    def _write(self, number: int, splits: Sequence[Split]) -> None:
        """Let a new one appear."""


@final
@attrs.frozen
class DirectoryListings(Listings):
    """On a disk a listing has a file for each task, and they appear at once by the name of their directory."""

    @property
    def parts(self) -> int:
        """One for each task."""
        return self.tasks

    @property
    def disk(self) -> Path:
        """The home."""
        return on_disk(self.home)

    def swap(self, number: int, splits: Sequence[Split]) -> None:
        """Write one again, with as many files."""
        self._swap(number, splits, len(os.listdir(on_disk(self.place(number)))))

    def spread(self, number: int) -> None:
        """Write one again if it has files for another number of tasks."""
        if len(os.listdir(on_disk(self.place(number)))) != self.tasks:
            self._swap(number, self.splits(number), self.tasks)

    def _write(self, number: int, splits: Sequence[Split]) -> None:
        os.rename(self._hidden(number, splits, self.tasks), on_disk(self.place(number)))

    def _swap(self, number: int, splits: Sequence[Split], tasks: int) -> None:
        """Write one again. Whoever is killed here is mended by the next start."""
        self._recent.pop(number, None)
        os.rename(self._hidden(number, splits, tasks), self.disk / f"for-{number}")
        os.rename(on_disk(self.place(number)), self.disk / f"old-{number}")
        self._mend()

    def _hidden(self, number: int, splits: Sequence[Split], tasks: int) -> Path:
        """One that is not there yet: a file for each task, with about as much to read."""
        shares: list[list[Split]] = [[] for _ in range(tasks)]
        sizes = [0] * tasks
        for split in sorted(splits, key=lambda one: -one.weight):
            at = sizes.index(min(sizes))
            shares[at].append(split)
            sizes[at] += split.weight + 1
        hidden = self.disk / f"new-{uuid.uuid4().hex}"
        hidden.mkdir()
        for at, share in enumerate(shares):
            file = hidden / f"{at}.jsonl"
            lines = [split.line(len(splits), self.run) for split in share]
            write_lines(file, lines if splits or at else [""])  # an empty line: there are no splits
            os.utime(file, (number, number))  # Spark takes them in this order
        return hidden

    def _mend(self) -> None:
        for old in self.disk.glob("old-*"):
            number = int(old.name.partition("-")[2])
            if not self.place(number).exists():
                os.rename(self.disk / f"for-{number}", on_disk(self.place(number)))
            shutil.rmtree(old)
        for left in [*self.disk.glob("new-*"), *self.disk.glob("for-*")]:
            shutil.rmtree(left)


@final
@attrs.frozen
class ObjectListings(Listings):
    """On a store a listing is one object, which appears at once, and tasks share its lines. Spark takes listings in the order of
    their times, and those of one time by their names."""

    parts = 1

    def swap(self, number: int, splits: Sequence[Split]) -> None:
        """Put it again, and all behind it, whose times must not be earlier."""
        later = [(one, self.splits(one)) for one in self.numbers(number)]
        self._recent.clear()
        for one, some in [(number, splits), *later]:
            write_lines(self._file(one), self._lines(some))

    def spread(self, number: int) -> None:
        """It is for any number of tasks."""

    def _write(self, number: int, splits: Sequence[Split]) -> None:
        file, before = self._file(number), self._file(self._known[-1]) if self._known else None
        write_lines(file, self._lines(splits))
        while before is not None and modified_at(str(file)) < modified_at(str(before)):  # clocks of a store may differ
            time.sleep(0.2)
            write_lines(file, self._lines(splits))

    def _file(self, number: int) -> Place:
        return self.place(number) / "0.jsonl"

    def _lines(self, splits: Sequence[Split]) -> list[str]:
        return [one.line(len(splits), self.run) for one in splits] or [""]

    def _mend(self) -> None:
        """Nothing is in between."""


def listings_in(home: Place, tasks: int, run: str = "") -> Listings:
    """Those of a reading. Parameters as of :class:`Listings`."""
    return DirectoryListings(home, tasks, run) if isinstance(home, Path) else ObjectListings(home, tasks, run)
