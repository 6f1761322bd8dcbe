"""The listings of one reading of a source: numbered directories that appear at once, a file of splits for each task."""

from __future__ import annotations

import os
import shutil
import uuid
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from tracetypes.compiler.connectors.file_splits import Split
from tracetypes.compiler.store.small_files import apart, damaged, write_lines

__all__ = ["Listings"]

HOLDS: Final = "the files that a micro-batch reads"


@attrs.frozen
class Listings:
    """Those below ``home``; ``tasks``: how many read at once; ``run``: the run that writes them."""

    home: Path
    tasks: int
    run: str = ""
    _known: list[int] = attrs.field(init=False, factory=list, eq=False, repr=False)
    """The numbers of those that are there, since :meth:`begin`: epochs ask for them, and there may be many."""
    _recent: dict[int, list[Split]] = attrs.field(init=False, factory=dict, eq=False, repr=False)
    """What one of them names, which is asked for several times."""

    @property
    def path(self) -> Path:
        """The directory of all of them."""
        return self.home / "steps"

    def begin(self) -> None:
        """Make that directory, or mend what a start before this one left."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._mend()
        self._known[:] = sorted(int(name) for name in os.listdir(self.path))

    def numbers(self, after: int = 0) -> Iterator[int]:
        """Those behind a number that are there, in order. None may be removed meanwhile."""
        at = bisect_right(self._known, after)
        while at < len(self._known):
            yield self._known[at]
            at += 1

    def place(self, number: int) -> Path:
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
        os.rename(self._hidden(number, splits, self.tasks), self.place(number))
        insort(self._known, number)
        if not self._recent:
            self._recent[number] = list(splits)

    def swap(self, number: int, splits: Sequence[Split]) -> None:
        """Write one again, with as many files."""
        self._swap(number, splits, len(os.listdir(self.place(number))))

    def spread(self, number: int) -> None:
        """Write one again if it has files for another number of tasks."""
        if len(os.listdir(self.place(number))) != self.tasks:
            self._swap(number, self.splits(number), self.tasks)

    def remove(self, number: int) -> None:
        """Remove one, which is committed."""
        shutil.rmtree(self.place(number))
        self._recent.pop(number, None)
        del self._known[bisect_left(self._known, number)]

    def _swap(self, number: int, splits: Sequence[Split], tasks: int) -> None:
        """Write one again. Whoever is killed here is mended by the next start."""
        self._recent.pop(number, None)
        os.rename(self._hidden(number, splits, tasks), self.home / f"for-{number}")
        os.rename(self.place(number), self.home / f"old-{number}")
        self._mend()

    def _hidden(self, number: int, splits: Sequence[Split], tasks: int) -> Path:
        """One that is not there yet: a file for each task, with about as much to read."""
        shares: list[list[Split]] = [[] for _ in range(tasks)]
        sizes = [0] * tasks
        for split in sorted(splits, key=lambda one: -one.weight):
            at = sizes.index(min(sizes))
            shares[at].append(split)
            sizes[at] += split.weight + 1
        hidden = self.home / f"new-{uuid.uuid4().hex}"
        hidden.mkdir()
        for at, share in enumerate(shares):
            file = hidden / f"{at}.jsonl"
            lines = [split.line(len(splits), self.run) for split in share]
            write_lines(file, lines if splits or at else [""])  # an empty line: there are no splits
            os.utime(file, (number, number))  # Spark takes them in this order
        return hidden

    def _mend(self) -> None:
        for old in self.home.glob("old-*"):
            number = int(old.name.partition("-")[2])
            if not self.place(number).exists():
                os.rename(self.home / f"for-{number}", self.place(number))
            shutil.rmtree(old)
        for left in [*self.home.glob("new-*"), *self.home.glob("for-*")]:
            shutil.rmtree(left)
