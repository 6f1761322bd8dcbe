"""Limits of what channels keep for a reader that fails or is slow.

The sender is never stopped: others read from it, and its own source goes on. What is given up is the attachment of the reader. So
the flow cannot go on where it was: it is submitted again, with a backfill if it shall answer what it has missed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from tracetypes.compiler.store.channel import Kept
from tracetypes.errors import RunError

__all__ = ["FIX", "RetentionLimits", "does_not_read_on"]

FIX: Final = "mend what it fails of, and submit it again; with backfill=True it answers what it has missed"


@attrs.frozen
class RetentionLimits:
    """``size``: bytes that a channel keeps for one reader at most; ``age``: seconds that it keeps an entry for."""

    size: int
    age: float

    def exceeded(self, kept: Mapping[str, Kept], now: float | None = None) -> Iterator[tuple[str, str]]:
        """The readers for which too much is kept, each with what is too much. ``now``: seconds since 1970."""
        moment = time.time() if now is None else now
        for reader, one in kept.items():
            if one.size > self.size:
                yield reader, f"{one.size:,} bytes, and at most {self.size:,} are kept"
            elif one.since is not None and moment - one.since > self.age:
                yield reader, f"what came {moment - one.since:,.0f} seconds ago, and it is kept for {self.age:,.0f} at most"


def does_not_read_on(name: str, operator: str, why: str, last: BaseException | None) -> RunError:
    """The error of a flow that is stopped, because a channel keeps too much for it. ``operator``: the one that does not read on;
    ``last``: what it failed of."""
    cause = "" if last is None else f". It failed of: {str(last).splitlines()[0]}"
    return RunError(
        "TT232",
        f"flow {name!r} was stopped: {operator} has not read {why}{cause}",
        fix=FIX,
    )
