"""One way through a function that is traced, and how it ends."""

from __future__ import annotations

from typing import Any, final

import attrs

from tracetypes.compiler.tracing.expr import Call, Emission, Expr, Pack, Value

__all__ = ["Raised", "Stop", "Undo", "Untraceable", "Way", "isa", "reach"]


class Untraceable(Exception):
    """The function cannot be written as a tree; the text says why, for a person."""


def isa(value: Any, classes: Any) -> bool:
    """``isinstance`` of what a value really is: symbols say that they are of the author's classes."""
    return issubclass(type(value), classes)


class Stop(BaseException):
    """Untraceable, on its way out; no ``except Exception`` holds it up."""


class Raised(BaseException):
    """This path ends in an exception, or must be done in Python."""


class Undo(BaseException):
    """This cannot be done on trial."""


@final
@attrs.define(eq=False)
class Way:
    """One way through the function."""

    forced: tuple[bool, ...]
    trail: list[tuple[Expr, bool]] = attrs.Factory(list)
    known: dict[int, bool] = attrs.Factory(dict)
    emissions: list[Emission] = attrs.Factory(list)
    partial: dict[int, Expr] = attrs.Factory(dict)
    """What was computed and may be undefined where Python raises, by identity."""
    owned: dict[int, Any] = attrs.Factory(dict)
    """Containers that the function made itself, by identity."""
    trials: int = 0
    conditions: int = 0
    ended: BaseException | None = None


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
            pending.extend(at.args[:1] if at.op == "if" else at.args)
