"""States by key as a log: a commit appends the states that have changed, and what is on disk stays below about twice what counts.

::

    section 7     states of some keys, each by itself, and keys that were removed
    section 8     what the next commit with a change has written
    ...

The last section with a key has its state. So the first section may go when none of its states counts any more. While the sections
have more than twice the bytes of the states that count, a commit writes states of the first section again: at most ``AGAIN``
bytes for each byte that has changed. That bounds both what an epoch writes and what is on disk. (Where keys change at random, few
states of the first section count when its turn comes, and a third is written again, or less.)

A log takes some microseconds for each state, twenty times as long as a pickle of many. So it pays where an epoch changes few
of many states (:meth:`StateLog.pays`); else a checkpoint has them as a dict.

A state counts as changed when its bytes differ, so operators that look at all keys write only some. A log that is read has
its keys in memory; a state is read when somebody asks for it. With a budget, states that were not used lately lie on disk only.

A section is a length (8 bytes), a head of so many bytes, and the states one after the other, each with a checksum behind it. The
head has the keys and the size of each state.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, final
from zlib import crc32

import attrs

from tracetypes.compiler.analysis.pickles import dumps, dumps_each, loads
from tracetypes.compiler.runtime.key_states import KeyStates

__all__ = ["LENGTH", "LogAbout", "LogWrite", "SectionReader", "StateLog"]

PIECE: Final = 4 << 20
"""Bytes of a section, about, where a commit has more to write."""

SPARE: Final = 1 << 20
"""Bytes that may be on disk besides twice what counts."""

AGAIN: Final = 1.5
"""Bytes that are written again for each byte that has changed, at most."""

OBJECT: Final = 200
"""Bytes that a state takes in memory besides its own, about: its key, its place, an entry of a dict."""

LEFT: Final = 0.9
"""How much of a budget is left full when states leave the memory, so that they do not leave one by one."""

PICKLED: Final = 20
"""States that are pickled together in the time of one state of a log, besides what their bytes take."""

BYTES: Final = 2000
"""Bytes that are pickled, compared and written in the time of one state of a log."""

TURNS: Final = 3
"""Commits in a row that a log has to be slower than a dict, twice as slow, before it ends."""

LENGTH: Final = struct.Struct("<Q")
"""How long the head of a section is."""

_CHECK: Final = struct.Struct("<I")

_HALF: Final = (1 << 32) - 1
_HASHED: Final = 64
_HASH: Final = (1 << _HASHED) - 1


@attrs.frozen
class LogAbout:
    """What a checkpoint has in the place of states that lie in a log: sections ``first`` to ``next - 1`` of ``chain``."""

    chain: str
    first: int
    next: int


@attrs.frozen(eq=False)
class LogWrite:
    """What a commit writes. ``operator``: whose states; ``sections``: the last ones; ``size``: bytes of all sections."""

    operator: int
    about: LogAbout
    sections: Sequence[bytes | bytearray | memoryview]
    size: int


class SectionReader(Protocol):
    """Reads the sections of one log. Raises errors of its backend."""

    def head(self, number: int) -> tuple[bytes, int]:
        """The head of a section, and how many bytes the section has."""

    def read(self, number: int, start: int, size: int) -> bytes:
        """Some bytes of a section."""

    def close(self, number: int) -> None:
        """A section will be removed."""

    def damage(self, number: int) -> Exception:
        """The error for a section that is not what was written."""


@attrs.define(eq=False)
class _Section:
    """A section that is written: its keys, how many of its states count, and its bytes."""

    keys: Sequence[Any]
    count: int
    size: int

    @property
    def each(self) -> float:
        """Bytes of a state, about."""
        return self.size / max(1, len(self.keys))


@attrs.define(eq=False)
class _Rows:
    """States of keys as bytes, with the hashes of those that are in memory. (Lists of what the cycle collector does not look
    at: tuples would wake it, and it would walk all states.)"""

    keys: list[Any] = attrs.Factory(list)
    hashes: list[int | None] = attrs.Factory(list)
    states: list[bytes] = attrs.Factory(list)

    def add(self, key: Any, hash: int | None, state: bytes) -> None:
        """One more."""
        self.keys.append(key)
        self.hashes.append(hash)
        self.states.append(state)

    def part(self, first: int, behind: int) -> _Rows:
        """Some of them."""
        return _Rows(self.keys[first:behind], self.hashes[first:behind], self.states[first:behind])


@final
class StateLog:
    """The log of the states of one operator. ``chain``: another one is another log; ``first``: its first section."""

    def __init__(self, chain: str = "", first: int = 0, reader: SectionReader | None = None) -> None:
        self.chain, self.first, self.reader = chain or os.urandom(8).hex(), first, reader
        self.sections: dict[int, _Section] = {}
        """By number, without a gap."""
        self.places: dict[Any, int] = {}
        """Where the states lie that are in memory, section, start (32 bits) and size (32 bits), and the hash (64 bits) of
        their bytes there."""
        self.size, self.live, self.memory = 0, 0.0, 0
        """Bytes of the sections (of the dict, where the log is off), of the states in them that count, and of states in memory,
        about."""
        self.credit = 0.0
        """Bytes that may be written again; below zero if a commit has written more."""
        self.passed = 0
        """How many states of the first section need not be looked at any more."""
        self.is_on = False
        """Whether states are written here, or lie in a dict for now."""
        self.slow = 0
        """Commits in a row that were slow."""
        self.used: set[Any] = set()
        """Keys that have changed since states left the memory."""

    def pays(self, states: KeyStates) -> bool:
        """Whether this commit is faster as a log than as a dict."""
        keys, size = len(states), self.live if self.is_on else self.size
        of_dict = keys / PICKLED + size / BYTES
        of_log = len(states.changes) * (1 + size / BYTES / max(1, keys))
        if not self.is_on:
            return of_log < of_dict
        self.slow = self.slow + 1 if of_log > 2 * of_dict else 0
        return self.slow < TURNS

    def end(self, states: KeyStates) -> KeyStates:
        """The states with another log, which is not on. All are in memory."""
        return KeyStates(dict(states.items()), StateLog(), {})

    @property
    def next(self) -> int:
        """The number of the next section."""
        return self.first + len(self.sections)

    # --------------------------------------------------------------------------------------------- writing

    def write(self, operator: int, states: KeyStates, budget: int | None = None) -> LogWrite:
        """What a commit has to write so that the log has these states. Where it was not on, that is all. ``budget``: bytes
        that they may take in memory; others leave it."""
        if not self.is_on:
            self.is_on, self.size = True, 0
            states.changes.update(states)
        removals = [key for key in states.removals if self._leave(states, key) and key not in states]
        rows = _Rows()
        self._changes(states, rows)
        self.credit = min(self.credit, 0.0) + AGAIN * sum(map(len, rows.states))
        self._first_again(states, rows)
        sections = [self._append(states, some, gone) for some, gone in _pieces(rows, removals)]
        if budget is not None:
            self.used |= states.changes
            self._evict(states, budget)
        states.changes.clear()
        states.removals.clear()
        return LogWrite(operator, LogAbout(self.chain, self.first, self.next), sections, self.size)

    def _changes(self, states: KeyStates, rows: _Rows) -> None:
        """Add the states that have changed."""
        keys = [key for key in states.changes if states.is_in_memory(key)]
        data, ends = dumps_each(list(map(states.__getitem__, keys)))
        place_of, start = self.places.get, 0
        for key, end in zip(keys, ends, strict=True):
            state = data[start:end]
            start, hash_ = end, hash(state) & _HASH
            if (place := place_of(key)) is None or place & _HASH != hash_:
                self._leave(states, key)
                rows.add(key, hash_, state)

    def _leave(self, states: KeyStates, key: Any) -> bool:
        """The state of a key does not count any more where it lies, if it does."""
        place = self.places.pop(key, None)
        if place is not None:
            place >>= _HASHED
            self.memory -= (place & _HALF) + OBJECT
        elif (place := states.cold.pop(key, None)) is None:
            return False
        section = self.sections[place >> 64]
        section.count -= 1
        self.live -= section.each
        return True

    def _first_again(self, states: KeyStates, rows: _Rows) -> None:
        """Remove first sections. Add states of them that count."""
        keys: list[Any] = []
        while self.sections:
            section = self.sections[self.first]
            if section.count and (self.size <= 2 * self.live + SPARE or self.credit <= 0):
                break
            for key in section.keys[self.passed :] if section.count else ():
                self.passed += 1
                place = self.places.get(key, 0) >> _HASHED or states.cold.get(key, 0)
                if not place or place >> 64 != self.first:
                    continue
                if key in self.places:
                    keys.append(key)
                else:
                    rows.add(key, None, self._bytes(place))
                self._leave(states, key)
                self.credit -= section.each
                if self.credit <= 0 or not section.count:
                    break
            if not section.count:
                del self.sections[self.first]
                if self.reader is not None:
                    self.reader.close(self.first)
                self.size -= section.size
                self.first, self.passed = self.first + 1, 0
        data, ends = dumps_each(list(map(states.__getitem__, keys)))
        for key, start, end in zip(keys, [0, *ends], ends, strict=False):
            rows.add(key, hash(state := data[start:end]) & _HASH, state)

    def _append(self, states: KeyStates, rows: _Rows, removals: Sequence[Any]) -> bytes:
        """A section of rows."""
        number, sizes = self.next, list(map(len, rows.states))
        head = pickle.dumps((dumps((rows.keys, removals)), sizes), protocol=5)
        parts = [LENGTH.pack(len(head)), head]
        for state in rows.states:
            parts += (state, _CHECK.pack(crc32(state, number)))
        content = b"".join(parts)
        places, cold, memory = self.places, states.cold, 0
        for key, hash_, place in zip(rows.keys, rows.hashes, _places(number, len(head), sizes), strict=True):
            if hash_ is None:
                cold[key] = place
            else:
                places[key] = place << _HASHED | hash_
                memory += (place & _HALF) + OBJECT
        self.memory += memory
        self.sections[number] = _Section(rows.keys, len(sizes), len(content))
        self.size += len(content)
        self.live += len(content) if sizes else 0
        return content

    # --------------------------------------------------------------------------------------------- reading

    @classmethod
    def read(cls, about: LogAbout, reader: SectionReader) -> KeyStates:
        """The states that a log has. None of them is in memory."""
        log = cls(about.chain, about.first, reader)
        log.is_on = True
        cold: dict[Any, int] = {}
        for number in range(about.first, about.next):
            head, size = reader.head(number)
            data, sizes = pickle.loads(head)
            keys, removals = loads(data)
            for key in removals:
                if (place := cold.pop(key, None)) is not None:
                    log.sections[place >> 64].count -= 1
            for key, place in zip(keys, _places(number, len(head), sizes), strict=True):
                if (before := cold.get(key)) is not None:
                    log.sections[before >> 64].count -= 1
                cold[key] = place
            log.sections[number] = _Section(keys, len(keys), size)
        log.size = sum(one.size for one in log.sections.values())
        log.live = sum(one.each * one.count for one in log.sections.values())
        return KeyStates({}, log, cold)

    def load(self, key: Any, place: int) -> Any:
        """A state that lies at a place. It is in memory from now on."""
        data = self._bytes(place)
        self.places[key] = place << _HASHED | hash(data) & _HASH
        self.memory += (place & _HALF) + OBJECT
        return loads(data)

    def _bytes(self, place: int) -> bytes:
        assert self.reader is not None
        number, size = place >> 64, place & _HALF
        data = self.reader.read(number, place >> 32 & _HALF, size + _CHECK.size)
        state, check = data[:size], data[size:]
        if len(check) < _CHECK.size or _CHECK.unpack(check)[0] != crc32(state, number):
            raise self.reader.damage(number)
        return state

    def _evict(self, states: KeyStates, budget: int) -> None:
        """Let states leave the memory if they take more than some bytes: first those that came long ago and have not changed
        since the last time. All are as the last commit has written them."""
        if self.memory <= budget:
            return
        used, self.used = self.used, set()
        in_memory = states.in_memory()
        for some in ((key for key in in_memory if key not in used), (key for key in in_memory if key in used)):
            for key in some:
                if self.memory <= LEFT * budget:
                    return
                place = self.places.pop(key) >> _HASHED
                self.memory -= (place & _HALF) + OBJECT
                states.evict(key, place)


def _places(number: int, head: int, sizes: Sequence[int]) -> Iterator[int]:
    """Where the states of a section lie."""
    start = LENGTH.size + head
    for size in sizes:
        yield number << 64 | start << 32 | size
        start += size + _CHECK.size


def _pieces(rows: _Rows, removals: Sequence[Any]) -> Iterator[tuple[_Rows, Sequence[Any]]]:
    """Rows in pieces, the first with all removals."""
    first, size = 0, 0
    for at, state in enumerate(rows.states, 1):
        size += len(state)
        if size >= PIECE:
            yield rows.part(first, at), removals
            first, size, removals = at, 0, ()
    if first < len(rows.states) or removals:
        yield rows.part(first, len(rows.states)), removals
