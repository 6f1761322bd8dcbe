"""One path through a traced function, and how it ends."""

from __future__ import annotations

from typing import Any, final

import attrs

from tracetypes.blame import Called
from tracetypes.compiler.tracing.expr import Call, Emission, Expr, Loop, Pack, Value
from tracetypes.compiler.tracing.operations.basic import IF

__all__ = ["Raised", "Stop", "TracePath", "Undo", "Untraceable", "isa", "reach"]


class Untraceable(Exception):
    """The function cannot be written as a tree. ``what``: the reason, a sentence without its subject. ``kind``: the same
    without places in structures. ``calls``: the calls under way, the outermost first."""

    def __init__(self, what: str, calls: tuple[Called, ...] = (), *, kind: str | None = None) -> None:
        super().__init__(what)
        self.what, self.calls, self.kind = what, calls, what if kind is None else kind


def isa(value: Any, classes: Any) -> bool:
    """``isinstance`` for the real class of a value: symbols claim the author's classes."""
    return issubclass(type(value), classes)


class Stop(BaseException):
    """Carries an Untraceable out of the author's code, where no ``except Exception`` catches it."""

    def __init__(self, what: str, calls: tuple[Called, ...] = ()) -> None:
        super().__init__(what)
        self.what, self.calls = what, calls


class Raised(BaseException):
    """The path ends in an exception, or must run in Python."""


class Undo(BaseException):
    """An operation that cannot be done on trial."""


@final
@attrs.define(eq=False)
class TracePath:
    """One way through the function."""

    forced: tuple[bool, ...]
    trail: list[tuple[Expr, bool]] = attrs.Factory(list)
    known: dict[int, bool] = attrs.Factory(dict)
    emissions: list[Emission | Loop] = attrs.Factory(list)
    partial: dict[int, Expr] = attrs.Factory(dict)
    """What was computed and may be undefined where Python raises, by identity."""
    owned: dict[int, Any] = attrs.Factory(dict)
    """Containers that the function made itself, by identity."""
    outside: dict[int, Any] | None = None
    """Those of them that were made before the turn of a loop which this path is; None if it is none."""
    loops: int = 0
    """How many loops over ranges of values have begun on the way."""
    trials: int = 0
    pure: bool = False
    """May trials call functions? They are declared to be pure, and are not evaluated again."""
    conditions: int = 0
    ended: BaseException | None = None

    def turn(self, forced: tuple[bool, ...]) -> TracePath:
        """One way through the body of a loop that is on this path."""
        turn = TracePath(forced, known=dict(self.known), owned=dict(self.owned), outside=self.owned)
        turn.loops, turn.pure, turn.conditions = self.loops, self.pure, self.conditions
        return turn

    def is_outside(self, value: Any) -> bool:
        """Whether a container or iterator comes from outside of the turn of a loop which this path is."""
        return self.outside is not None and (id(value) in self.outside or id(value) not in self.owned)


def reach(value: Value, reached: set[int]) -> None:
    """All that is evaluated whenever ``value`` is."""
    pending: list[Value] = [value]
    while pending:
        at = pending.pop()
        if id(at) in reached:
            continue
        reached.add(id(at))
        if isinstance(at, Pack):
            pending.extend(at.parts)
        elif isinstance(at, Call):
            pending.extend(at.args[:1] if at.op is IF else at.args)
