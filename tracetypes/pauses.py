"""What operators do at markers over empty blocks that are left out (design, corner 16).

The interpreter and the backends go from one marker of a pause at which an operator may do something to the next one. What the
markers between them would have changed is computed here.
"""

from __future__ import annotations

from typing import Any, NoReturn

from tracetypes.errors import OperatorFailed
from tracetypes.markers import Marker
from tracetypes.plain_values import indistinguishable
from tracetypes.records import show
from tracetypes.self_description import name_of_operator
from tracetypes.templates import EmitValue, OpKeyedOrdered, OpKeyedUnordered

__all__ = ["catch_up", "start_after"]


def start_after(op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], start: Any, count: int) -> Any:
    """The state of keys to come after ``count`` empty blocks. It costs as many updates as it takes until a state repeats."""
    seen, length, until = start, 0, 1
    """A state, how many blocks ago it was, and how many until another one is remembered (Brent, BIT 1980)."""
    while count:
        start = op.update_state(start, op.identity())
        count, length = count - 1, length + 1
        if count and indistinguishable(seen, start):
            count %= length
            while count:
                start, count = op.update_state(start, op.identity()), count - 1
        elif length == until:
            seen, length, until = start, 0, 2 * until
    return start


def catch_up(
    op: OpKeyedOrdered[Any, Any, Any, Any], state: Any, key: Any, last: Marker, emit: EmitValue[Any] | None = None
) -> Any:
    """The state of a key at the last of some markers at which it emits nothing. For operators with ``next_emission``. ``emit``:
    what takes an emission all the same; by default it is an error."""
    due = op.next_due(state, key)
    if due is None or due > last.micros:
        return state

    def refuse(value: Any) -> NoReturn:
        name = name_of_operator(op)
        raise OperatorFailed(
            "TT314",
            f"{name}.next_emission says that it emits nothing at {last} for the key {show(key)}, and it emits {show(value)}",
            fix="let next_emission return the earliest time of a marker at which on_marker may emit",
        )

    return op.on_marker(state, key, last, emit or refuse)
