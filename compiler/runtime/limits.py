"""Sizes: how much the kernels take and send at once, and from which size on columns are faster."""

from __future__ import annotations

__all__ = [
    "AHEAD",
    "BATCH",
    "COMPILED",
    "FEW",
    "FLUSH",
    "HELD",
    "LARGE",
    "LOOK",
    "MANY",
    "MOST_EMITTED",
    "PAUSE",
    "PER_ITEM",
    "PIECES",
    "SLAB",
    "TOGETHER",
    "TURN",
    "YOUNG",
]

BATCH = 50_000
"""Items of one message at most."""

COMPILED = 1_000_000
"""Items of an operator, in this process, from which it pays to compile it to machine code."""

FLUSH = 200_000
"""Rows after which what was collected is sent on, so that a large piece does not fill the memory."""

AHEAD = 4_096
"""Items of one hint to an operator (``prefetch``) at most."""

SLAB = 8_192
"""Items that are objects at a time on their way through Python operators: so many stay in a processor's cache."""

TOGETHER = 128 << 20
"""Bytes of a Parquet file, before they were compressed, that are read as one where they are several row groups."""

TURN = 20
"""Items in Python that cost as much as a turn of a kernel in which few items take part."""

YOUNG = 50_000
"""Objects after which the garbage collector looks while a stage takes and closes blocks."""

PER_ITEM = 8
"""Objects for each item of a block before the garbage collector looks, where these are more."""

MANY = 64
"""Items from which combining columns is worth its calls."""

FEW = 16
"""Idle keys are removed when they are so large a part of all keys (one of so many), or larger."""

LARGE = 16_384
"""Keys from which on they are looked up in a table that is kept."""

PAUSE = 64
"""Markers over empty blocks, one after the other, that are a pause: from so many on it pays to ask which of them matter."""

PIECES = 16
"""Aggregates of open blocks, each from a batch, from which they are combined while their blocks are open."""

LOOK = 1 << 14
"""Emissions of an ordered operator in Python after which it is seen how many there are."""

HELD = 1 << 18
"""Emissions of a block, in Python, that are sent on before it ends where that is possible. A run that is asked to stop ends in
the middle of a key that has emitted so many."""

MOST_EMITTED = 20_000_000
"""Emissions of a block that are held as objects, where they cannot be sent on. They take 4 GB or so."""
