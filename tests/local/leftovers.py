"""What epochs of a run leave behind: blocks of Python's allocator that are not freed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping

import attrs
import pytest

from tracetypes.compiler.local import settled
from tracetypes.compiler.local.log import LocalLog, ShardId
from tracetypes.compiler.local.states import StateParts

WARM, APART, LOOKS = 110, 200, 60
"""Epochs after which all that is kept for a while is full (:data:`tracetypes.compiler.local.log.KEPT`), epochs between the two
times, and epochs in a row in which this looks. The least blocks count: sqlite3 drops its references to cursors at every 200th."""

EPOCHS = WARM + APART + LOOKS


@attrs.define
class Leftovers:
    """``first``, ``second``: blocks in use, at the two times."""

    first: int = sys.maxsize
    second: int = sys.maxsize

    @property
    def of_an_epoch(self) -> float:
        """Blocks that an epoch leaves. A run that keeps an object for each epoch is at 1 or more."""
        assert max(self.first, self.second) < sys.maxsize
        return (self.second - self.first) / APART

    def look(self, epoch: int) -> None:
        """Look after an epoch, if it is time."""
        if WARM <= epoch < WARM + LOOKS:
            self.first = min(self.first, _blocks())
        if WARM + APART <= epoch < EPOCHS:
            self.second = min(self.second, _blocks())


def _blocks() -> int:
    gc.collect()
    if sys.version_info < (3, 12):
        sys._clear_type_cache()  # it keeps up to 4,096 names, and ``match`` looks up a new one each time
    elif sys.version_info >= (3, 13):
        sys._clear_internal_caches()
    return sys.getallocatedblocks()


def watch_epochs(monkeypatch: pytest.MonkeyPatch, ended: Callable[[], None] = lambda: None) -> Leftovers:
    """The leftovers of the run that comes. ``ended``: called after each epoch."""
    leftovers, end = Leftovers(), LocalLog.end

    def looks(self: LocalLog, number: int, states: Mapping[ShardId, StateParts]) -> None:
        end(self, number, states)
        leftovers.look(number)
        ended()

    monkeypatch.setattr(LocalLog, "end", looks)
    monkeypatch.setattr(settled, "SETTLING", 0.0)
    return leftovers
