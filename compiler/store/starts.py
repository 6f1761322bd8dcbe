"""The starts of a run. By their numbers a topic or table records who wrote last.

::

    CHECKPOINT/starts.json     {"starts": [4611, 873, ...]}: a random number for each start, the last one last

Two drivers may write for one run in spite of the locks: with a copy of its checkpoint, or on a mount without locks.
Each micro-batch is written once all the same, but maybe not with the rows that the other driver expects in it. So the
last start shuts out the one before, and a checkpoint does not go on where another driver has written.
"""

from __future__ import annotations

import secrets

from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.fencing import Starts

__all__ = ["next_start"]

MOST = 100
"""How many starts a checkpoint keeps. Each that comes to its first micro-batch is known to the sink before the next one is."""


def next_start(checkpoint: Place, begun: int) -> Starts:
    """The starts of a checkpoint, with a new one, which is recorded before it is used."""
    note = checkpoint / "starts.json"
    before = (read_json(note) or {"starts": []})["starts"]
    starts = (*before[1 - MOST :], secrets.randbelow(2**60) + 1)
    write_json(note, {"starts": starts})
    return Starts(starts, begun)
