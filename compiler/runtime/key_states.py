"""States by key, as objects, of which it is known which have changed, and of which some lie on disk only.

A :class:`KeyStates` is the dict of an operator in Python. Whoever lets a key have another state says so with
:func:`mark_changes`; a key that is removed says it itself. :mod:`.state_log` writes what has changed, and reads what is not
in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, final

__all__ = ["KeyStates", "bring", "mark_changes"]


@final
class KeyStates(dict[Any, Any]):
    """States by key. As a dict of Python it has those that are in memory; all methods that are here see the others too, and bring
    into memory what they give. Pickled, it is a dict of all.

    ``cold``: where those lie that are not in memory. ``changes``: keys whose states may be others than before; ``removals``: keys
    that were removed, some of which may have come again."""

    __slots__ = ("changes", "cold", "log", "removals")

    def __init__(self, states: dict[Any, Any], log: Any, cold: dict[Any, int]) -> None:
        """``log``: the :class:`.state_log.StateLog` of these states."""
        super().__init__(states)
        self.log, self.cold = log, cold
        self.changes: set[Any] = set()
        self.removals: set[Any] = set()

    def __missing__(self, key: Any) -> Any:
        state = self.log.load(key, self.cold[key])
        del self.cold[key]
        super().__setitem__(key, state)
        return state

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self.cold

    def __len__(self) -> int:
        return super().__len__() + len(self.cold)

    def __iter__(self) -> Iterator[Any]:
        return iter([*super().__iter__(), *self.cold])

    def __setitem__(self, key: Any, state: Any) -> None:
        if key in self.cold:
            self.__missing__(key)
        super().__setitem__(key, state)

    def __delitem__(self, key: Any) -> None:
        if key in self.cold:
            self.__missing__(key)
        super().__delitem__(key)
        self.removals.add(key)

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self.items()) if self.cold else super().copy(),)

    def keys(self) -> Any:
        """All keys."""
        return dict.fromkeys(self).keys()

    def values(self) -> Any:
        """All states."""
        return [self[key] for key in self]

    def items(self) -> Any:
        """All keys and states."""
        return [(key, self[key]) for key in self]

    def get(self, key: Any, default: Any = None) -> Any:
        """The state of a key, or another value."""
        try:
            return self[key]
        except KeyError:
            return default

    def in_memory(self) -> list[Any]:
        """The keys of states that are in memory, in the order in which they came there."""
        return [*super().__iter__()]

    def is_in_memory(self, key: Any) -> bool:
        """Whether the state of a key is in memory."""
        return super().__contains__(key)

    def evict(self, key: Any, place: int) -> None:
        """Let the state of a key lie on disk only, at a place."""
        super().__delitem__(key)
        self.cold[key] = place


def bring(states: dict[Any, Any], keys: Iterable[Any]) -> None:
    """Bring the states of keys into memory, in the order in which they lie on disk."""
    if type(states) is KeyStates and states.cold:
        places = {key: place for key in keys if (place := states.cold.get(key)) is not None}
        for key in sorted(places, key=places.__getitem__):
            states.__missing__(key)


def mark_changes(states: dict[Any, Any], keys: Iterable[Any]) -> None:
    """Keys have other states now, or the same with other content."""
    if type(states) is KeyStates:
        states.changes.update(keys)
