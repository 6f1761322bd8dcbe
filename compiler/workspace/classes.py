"""The class of each operator of a submitted flow. Operators of one class do the same work and give the same stream, so one of
them runs for all flows.

A class is an identity and a start. The identity is a hash of what the operator computes: of its template, code and values, and
of the identities of its inputs. The start is a marker, where a flow asks for states that begin at this marker exactly: for a
copy of its own (``share="exact"``), or for a copy that has read from there again (a backfill). It is None where nothing
upstream keeps a state, because then all starts give the same stream. It is also None where a flow takes a state that runs,
whenever that began.

So the classes of a flow depend on the flow alone, and not on what runs. A copy with a start of its own is a second operator,
even if a shared one has come to the same state: nobody has proved that.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

import attrs

__all__ = ["Class", "ClassifiedOperator", "SubmittedFlow", "SubmittedOperator", "classified", "is_unshared"]


class Class(NamedTuple):
    """What an operator computes. ``start``: the marker (microseconds) at which its states and those upstream begin, if that
    matters."""

    identity: str
    start: int | None = None


@attrs.frozen(eq=False, kw_only=True)
class SubmittedOperator:
    """An operator of a submitted flow, sources and sinks among them.

    ``id``: its number in the flow. ``identity``: None for what cannot be identified, which no other flow shares, nor what lies
    behind it. ``inputs``: the numbers of the operators that it reads, each as often as it reads it. ``in_places``: False where
    the order of the inputs does not matter, as for a merge. ``copy_is_cheaper``: computing its stream again from its inputs
    costs less than sending it through a channel. That is never so for an operator that keeps a state.
    """

    id: int
    identity: str | None
    inputs: tuple[int, ...] = ()
    in_places: bool = True
    keeps_state: bool = False
    is_sink: bool = False
    copy_is_cheaper: bool = False


@attrs.frozen(eq=False, kw_only=True)
class SubmittedFlow:
    """A flow of a user. ``operators``: each behind its inputs. ``start``: the marker at which its states begin exactly; None if
    it takes the states of what runs."""

    name: str
    operators: tuple[SubmittedOperator, ...]
    start: int | None = None


@attrs.frozen(eq=False, kw_only=True)
class ClassifiedOperator:
    """A class that a flow needs. ``ids``: the operators of the flow that are of it; more than one where the flow has
    duplicates. ``inputs``: their classes, in the places of the inputs, or sorted where the order does not matter.
    ``state_upstream``: whether it or anything upstream keeps a state."""

    cls: Class
    ids: tuple[int, ...]
    inputs: tuple[Class, ...]
    state_upstream: bool
    is_sink: bool
    copy_is_cheaper: bool


def classified(flow: SubmittedFlow) -> tuple[ClassifiedOperator, ...]:
    """The classes that the sinks of a flow need, each once, behind its inputs. An operator that no sink needs has none. Raises
    ``ValueError`` if the flow has no sink, or if operators with one identity differ."""
    needed = {one.id for one in flow.operators if one.is_sink}
    if not needed:
        raise ValueError(f"{flow.name} has no sink")
    for one in reversed(flow.operators):
        if one.id in needed:
            needed.update(one.inputs)
    of: dict[int, ClassifiedOperator] = {}
    found: dict[Class, ClassifiedOperator] = {}
    for one in flow.operators:
        if one.id not in needed:
            continue
        above = [of[id] for id in one.inputs]
        inputs = [each.cls for each in above]
        if not one.in_places:
            inputs.sort(key=_by_identity)
        state_upstream = one.keeps_state or any(each.state_upstream for each in above)
        if one.identity is None:
            identity = f"{flow.name} {one.id}"
        elif " " in one.identity:
            raise ValueError(f"the identity {one.identity!r} has a space")
        elif any(map(is_unshared, inputs)):
            identity = f"{flow.name} {sha256(repr((one.identity, inputs)).encode()).hexdigest()}"
        else:
            identity = one.identity
        cls = Class(identity, flow.start if state_upstream else None)
        new = ClassifiedOperator(
            cls=cls,
            ids=(one.id,),
            inputs=tuple(inputs),
            state_upstream=state_upstream,
            is_sink=one.is_sink,
            copy_is_cheaper=one.copy_is_cheaper and not one.keeps_state,
        )
        before = found.get(cls)
        if before is not None:
            if before.inputs != new.inputs or before.state_upstream != new.state_upstream:
                raise ValueError(f"operators {before.ids[0]} and {one.id} of {flow.name} have one identity, and differ")
            new = attrs.evolve(before, ids=(*before.ids, one.id), is_sink=before.is_sink or one.is_sink)
        of[one.id] = found[cls] = new
    return tuple(found.values())


def is_unshared(cls: Class) -> bool:
    """Whether a class is of one flow alone. Its identity has the name of the flow and a space, which no identity of a caller
    has."""
    return " " in cls.identity


def _by_identity(cls: Class) -> tuple[str, int]:
    return cls.identity, -1 if cls.start is None else cls.start
