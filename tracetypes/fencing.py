"""Fences. They let a topic or table tell the drivers of one run apart, if there are two in spite of the locks.

Each start of a run has a number, which is written with the rows. A later start shuts out an earlier one, and a
checkpoint does not go on if a start has written that it does not know.
"""

from __future__ import annotations

import attrs

from tracetypes.errors import RunError

__all__ = ["Starts", "another_driver", "another_one"]


@attrs.frozen
class Starts:
    """The starts of a run. ``begun``: the number of the last micro-batch that its checkpoint has begun, -1 for none."""

    known: tuple[int, ...]
    begun: int

    @property
    def mine(self) -> int:
        """The current start."""
        return self.known[-1]

    def check_writer(self, where: str, writer: int | None) -> None:
        """Check that a start of this run was the last to write, as far as that is known. Raises :class:`RunError`
        ``TT209``."""
        if writer is not None and writer not in self.known:
            raise another_driver(where, "its last writer is a start that is not known here")

    def check(self, where: str, writer: int | None, number: int) -> None:
        """Check that this run was the last to write to a sink. ``writer``: the start that was the last to write, None
        if unknown. ``number``: the last micro-batch in the sink. Raises :class:`RunError` ``TT209``."""
        self.check_writer(where, writer)
        if number > self.begun:
            raise another_driver(where, f"it holds micro-batch {number} of the run, which this checkpoint has not begun")


def another_driver(where: str, why: str) -> RunError:
    """The error of a driver that another driver has shut out."""
    return RunError(
        "TT209",
        f"{where} is written by another driver of the same run: {why}",
        fix="go on with the checkpoint that was used last; for a second run give an own --checkpoint, made anew, and output",
    )


def another_one(where: str, why: str) -> RunError:
    """The error for a topic or table that is not the one that the run began with."""
    return RunError(
        "TT218",
        f"{where} has changed since the run began: {why}",
        fix="give another --checkpoint and output to start anew",
    )
