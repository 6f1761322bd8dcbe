"""States by key in a log: whoever reads its sections has the states of the last commit, and neither a commit nor the disk
takes more than what has changed allows."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.runtime import state_log
from tracetypes.compiler.runtime.key_states import KeyStates, mark_changes
from tracetypes.compiler.runtime.state_log import LENGTH, OBJECT, LogAbout, LogWrite, StateLog


class Disk:
    """What a checkpoint has of a log."""

    def __init__(self) -> None:
        self.about = LogAbout("", 0, 0)
        self.sections: dict[int, bytes] = {}
        self.written = self.reads = 0

    def commit(self, write: LogWrite) -> None:
        first = write.about.next - len(write.sections)
        self.sections |= {number: bytes(one) for number, one in enumerate(write.sections, first)}
        self.sections = {number: one for number, one in self.sections.items() if number >= write.about.first}
        self.about, self.written = write.about, self.written + sum(map(len, write.sections))
        assert sorted(self.sections) == list(range(self.about.first, self.about.next))
        assert self.size == write.size

    def of(self, states: dict[Any, Any]) -> KeyStates:
        """States whose log is here."""
        own = KeyStates(states, StateLog(), {})
        own.log.reader = self
        self.commit(own.log.write(0, own))
        return own

    def open(self) -> KeyStates:
        """States as another process finds them."""
        return StateLog.read(self.about, self)

    def head(self, number: int) -> tuple[bytes, int]:
        (length,) = LENGTH.unpack(self.sections[number][: LENGTH.size])
        return self.sections[number][LENGTH.size : LENGTH.size + length], len(self.sections[number])

    def read(self, number: int, start: int, size: int) -> bytes:
        self.reads += 1
        return self.sections[number][start : start + size]

    def close(self, number: int) -> None:
        """Nothing is open."""

    def damage(self, number: int) -> Exception:
        return ValueError(f"section {number}")

    @property
    def size(self) -> int:
        return sum(map(len, self.sections.values()))


@contextmanager
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_log, "PIECE", 100)
        patch.setattr(state_log, "SPARE", 50)
        yield


KEYS = st.one_of(st.integers(0, 12), st.sampled_from("abc"), st.tuples(st.integers(0, 2), st.none()))

STEPS = st.lists(
    st.tuples(
        st.dictionaries(KEYS, st.one_of(st.integers(), st.lists(st.integers(), max_size=3), st.binary(max_size=60)), max_size=8),
        st.sets(KEYS, max_size=4),
        st.booleans(),
    ),
    max_size=25,
)


@given(st.dictionaries(KEYS, st.integers()), STEPS, st.sampled_from([0, OBJECT * 4, 10**9]))
def test_a_log_has_the_states_of_the_last_commit(
    first: dict[Any, Any], steps: list[tuple[dict[Any, Any], set[Any], bool]], budget: int
) -> None:
    """Also where a process goes on that has read it, where a state is changed in place, and where states leave the memory."""
    with small_pieces():
        disk = Disk()
        states, should = disk.of(first), dict(first)
        for puts, removals, again in steps:
            for key, state in puts.items():
                if isinstance(old := states.get(key), list):
                    old.append(state)
                    should[key] = [*should[key], state]
                else:
                    states[key], should[key] = copy(state), state
            mark_changes(states, puts)
            for key in removals & set(should):
                del states[key], should[key]
            assert (len(states), set(states)) == (len(should), set(should))
            disk.commit(states.log.write(0, states, budget))
            assert states.log.memory <= budget
            assert all((key in states) == (key in should) for key in range(13))
            read = disk.open()
            assert (len(read), read.log.size) == (len(should), states.log.size)
            assert read.log.live == pytest.approx(states.log.live)
            assert dict(disk.open().items()) == should
            if again:
                states = read
        assert states == should


@pytest.mark.parametrize("share", [0.001, 0.01, 0.3, 1.0])
def test_what_is_written_and_what_is_on_disk_are_bounded(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "PIECE", 20_000)
    monkeypatch.setattr(state_log, "SPARE", 20_000)
    draw = random.Random(3)
    disk = Disk()
    states = disk.of({key: draw.randbytes(200) for key in range(5000)})
    live, changed = disk.size, 0
    for _ in range(min(int(8 / share), 3000) if share < 1 else 8):
        keys = draw.sample(range(5000), int(5000 * share))
        for key in keys:
            states[key] = draw.randbytes(200)
        mark_changes(states, keys)
        before, changed = disk.written, changed + 220 * len(keys)
        disk.commit(states.log.write(0, states))
        assert disk.written - before < 3 * 220 * len(keys) + 1000
        assert disk.size < 2 * states.log.live + 4 * 20_000 + 220 * len(keys)
        assert states.log.live < 1.3 * live
    assert disk.written - live < 2.2 * changed
    assert disk.open() == states


def test_states_that_stay_are_not_written() -> None:
    disk = Disk()
    states = disk.of({key: [key] for key in range(100)})
    mark_changes(states, states)
    before = disk.written
    disk.commit(states.log.write(0, states))
    assert disk.written == before
    states[7].append(1)
    mark_changes(states, states)
    disk.commit(states.log.write(0, states))
    assert 0 < disk.written - before < 200
    assert disk.open()[7] == [7, 1]


def test_only_the_states_that_are_used_are_read() -> None:
    disk = Disk()
    disk.of({key: [key] for key in range(100)})
    states = disk.open()
    assert (len(states), 5 in states, 100 in states, disk.reads) == (100, True, False, 0)
    assert (states[5], states.get(100), disk.reads) == ([5], None, 1)
    states[5].append(1)
    mark_changes(states, [5])
    disk.commit(states.log.write(0, states))
    assert (states[5], disk.reads) == ([5, 1], 1)
    disk.commit(states.log.write(0, states, 0))
    assert (states[5], disk.reads) == ([5, 1], 2)


def test_states_that_are_used_stay_in_memory() -> None:
    disk = Disk()
    states = disk.of({key: bytes(1000) for key in range(10)})
    disk.commit(states.log.write(0, states, 5000))
    mark_changes(states, [0, 1])
    assert {states[key] for key in (0, 1)} == {bytes(1000)}
    disk.commit(states.log.write(0, states))
    for number in range(20):
        states[number + 10] = bytes(1000)
        mark_changes(states, [0, number + 10])
        disk.commit(states.log.write(0, states, 5000))
        assert states.is_in_memory(0)
        assert len(states.in_memory()) <= 4
    assert len(disk.open()) == 30


@pytest.mark.parametrize("place", [-1, -5, -40])
def test_a_byte_that_has_changed_is_noticed(place: int) -> None:
    disk = Disk()
    disk.of({key: bytes(50) for key in range(3)})
    content = bytearray(disk.sections[0])
    content[place] ^= 1
    disk.sections[0] = bytes(content)
    with pytest.raises(ValueError, match="section 0"):
        disk.open()[2]


def test_a_pickle_has_all_states() -> None:
    disk = Disk()
    disk.of({key: [key] for key in range(3)})
    assert pickle.loads(pickle.dumps(disk.open())) == {key: [key] for key in range(3)}
    assert type(pickle.loads(pickle.dumps(disk.open()))) is dict
