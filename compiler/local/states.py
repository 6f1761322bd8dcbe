"""States as bytes, in parts: a head, and the large buffers of columns beside it.

An epoch writes the parts whose digests differ from what is written. So the keys of an operator are not written again when only
sums change, and nothing but a small head when only the progress of inputs does. States that are objects lie in a log where
they are many: an epoch writes those that have changed (:mod:`tracetypes.compiler.runtime.state_log`).
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import attrs

from tracetypes.compiler.analysis.pickles import by_name, shipped
from tracetypes.compiler.runtime.key_states import KeyStates
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.runtime.state_log import LogAbout, LogWrite, SectionReader, StateLog

__all__ = ["Part", "StateParts", "digest_of", "state_of"]

Part: TypeAlias = bytes | bytearray | memoryview

LEAST: Final = 1 << 14
"""Bytes from which a buffer is a part of its own."""

LOGGED: Final = 1 << 17
"""Bytes of objects from which a log has them."""


@attrs.frozen(eq=False)
class StateParts:
    """A state. Its parts are views into it: they are valid until it changes. ``digests``: of the parts. ``logs``: what is
    written of states that lie in logs."""

    parts: Sequence[Part]
    digests: Sequence[bytes]
    logs: Sequence[LogWrite] = ()

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(one) for one in self.parts) + sum(one.size for one in self.logs)

    @classmethod
    def of(cls, state: Any) -> StateParts:
        """Of a whole state."""
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

    @classmethod
    def since_last(
        cls, state: StageState, sections: Callable[[int], SectionReader] | None = None, budget: int | None = None
    ) -> StateParts:
        """Of a state; where many states are objects, only those that have changed since the last time. ``sections`` as in
        :func:`state_of`; ``budget``: bytes that such states may take in memory."""
        logs: list[LogWrite] = []
        operators = list(state.operators)
        for at, one in enumerate(state.operators):
            states = _objects(one)
            if type(states) is not KeyStates:
                continue
            if budget is None and not states.log.pays(states):
                if states.log.is_on:
                    states = states.log.end(states)
                    state.operators[at] = operators[at] = _with(one, states)
                states.changes.clear()
                states.removals.clear()
                continue
            if states.log.reader is None and sections is not None:
                states.log.reader = sections(at)
            logs.append(states.log.write(at, states, budget))
            operators[at] = _with(one, logs[-1].about)
        parts = cls.of(attrs.evolve(state, operators=operators))
        if (size := len(parts.parts[0])) >= LOGGED:
            for at, one in enumerate(state.operators):
                states = _objects(one)
                if type(states) is dict and len(states) > 1:
                    state.operators[at] = _with(one, states := KeyStates(states, StateLog(), {}))
                if type(states) is KeyStates and not states.log.is_on:
                    states.log.size = size
        return attrs.evolve(parts, logs=logs)


def digest_of(part: Part) -> bytes:
    """What tells a part from others, and from itself if a byte has changed."""
    return hashlib.blake2b(part, digest_size=16).digest()


def state_of(parts: Sequence[Part], sections: Callable[[int], SectionReader] | None = None) -> Any:
    """The state of parts that we wrote into a checkpoint. Buffers may change then, as they could before. ``sections``: those
    of the log of an operator."""
    head, *buffers = parts
    state = pickle.loads(head, buffers=[bytearray(one) for one in buffers])
    if isinstance(state, StageState):
        for at, one in enumerate(state.operators):
            if isinstance(about := _objects(one), LogAbout):
                assert sections is not None
                state.operators[at] = _with(one, StateLog.read(about, sections(at)))
    return state


def _objects(operator: Any) -> Any:
    """States by key, as objects, or what stands for them."""
    return operator.states if isinstance(operator, UnorderedState) else operator


def _with(operator: Any, states: Any) -> Any:
    """An operator with other states by key, or with what stands for them."""
    return attrs.evolve(operator, states=states) if isinstance(operator, UnorderedState) else states
