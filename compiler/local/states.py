"""States as bytes, in parts: a head, and the large buffers of columns beside it.

An epoch writes the parts whose digests differ from what is written. So the keys of an operator are not written again when only
sums change, and nothing but a small head when only the progress of inputs does.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import attrs

from tracetypes.compiler.analysis.pickles import by_name, shipped

__all__ = ["Part", "StateParts", "digest_of", "state_of"]

Part: TypeAlias = bytes | bytearray | memoryview

LEAST: Final = 1 << 14
"""Bytes from which a buffer is a part of its own."""


@attrs.frozen(eq=False)
class StateParts:
    """A state. Its parts are views into it: they are valid until it changes. ``digests``: of the parts."""

    parts: Sequence[Part]
    digests: Sequence[bytes]

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(one) for one in self.parts)

    @classmethod
    def of(cls, state: Any) -> StateParts:
        """Of a state."""
        buffers: list[memoryview] = []

        def inside(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if view.nbytes < LEAST:
                return True
            buffers.append(view)
            return False

        head = by_name(state, inside)
        parts: list[Part] = [shipped(state)] if head is None else [head, *buffers]
        return cls(parts, [digest_of(one) for one in parts])


def digest_of(part: Part) -> bytes:
    """What tells a part from others, and from itself if a byte has changed."""
    return hashlib.blake2b(part, digest_size=16).digest()


def state_of(parts: Sequence[Part]) -> Any:
    """The state of parts that we wrote into a checkpoint. Buffers may change then, as they could before."""
    head, *buffers = parts
    return pickle.loads(head, buffers=[bytearray(one) for one in buffers])
