"""What the clocks of a query's sources have decided, as files that Spark reads.

::

    CHECKPOINT/clock/00000007    a line for each reading of a source; the last line has a checksum of these and of the run

Spark takes each file once. What Python workers get of it has been compared with its checksum by the driver: a query that starts
looks at all files, and writes the others itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import attrs

from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.small_files import apart, damaged, write_lines
from tracetypes.compiler.wire.seals import checksum, seal, unseal

__all__ = ["ClockFiles"]

DECISIONS: Final = 100
"""How many decisions of clocks are kept: Spark has long taken the older ones."""

LOST: Final = "to which time its sources had come with the clock"


@final
@attrs.frozen
class ClockFiles:
    """The files of one query in a directory. ``run``: its name."""

    path: Place
    run: str

    def begin(self, log: SparkLog) -> None:
        """Make the directory, or look at what is there. Raises :class:`RunError` ``TT225`` and ``TT227``."""
        if log.begun < 0:
            self.path.mkdir(exist_ok=True)
        elif not self.path.is_dir():
            raise damaged(self.path, "it is gone", LOST)
        for file in self.files:
            self._look(file)
        listed = max((file for file in log.listed if file.parent == self.path.absolute()), default=None)
        if listed is not None and not listed.exists():
            raise damaged(listed, "it is gone", LOST)

    @property
    def files(self) -> list[Place]:
        """All of them, in order."""
        return sorted(file for file in self.path.iterdir() if file.name.isdigit())

    def add(self, lines: Sequence[str]) -> None:
        """One more, and the oldest one away."""
        files = self.files
        number = int(files[-1].name) + 1 if files else 1
        name = f"{number:08d}"
        write_lines(self.path / name, [*lines, seal({"run": self.run, "lines": checksum(*lines)}, name)])
        for file in files[:-DECISIONS]:
            file.unlink()

    def _look(self, file: Place) -> None:
        """Compare a file with its last line."""
        try:
            *lines, last = file.read_bytes().splitlines() or [b""]
            about = unseal(last, file.name)
            if about["lines"] != checksum(*(line.decode() for line in lines)):
                raise ValueError("its checksum differs")
        except (OSError, ValueError, KeyError) as error:
            raise damaged(file, error, LOST) from error
        if about["run"] != self.run:
            of = f"it is of run {about['run']}, and this is run {self.run}"
            raise apart(file, of, "It says when blocks of other rows close")
