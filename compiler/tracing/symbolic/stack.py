"""The calls under way in rewritten code: whose they are, and where they were written."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any

from tracetypes.compiler.tracing.symbolic.paths import Called, isa
from tracetypes.compiler.tracing.syntax import PREFIX, is_rewritten
from tracetypes.errors import is_ours, is_own
from tracetypes.typed import Typed

__all__ = ["called", "calls_of", "owner_of"]


def called(function: Any, line: int | None = None, owner: Typed | None = None) -> Called:
    """A call of a function that does not run. ``line``: the one to show; None: where the function begins."""
    code = function.__code__
    return Called(_name(function), code.co_filename, line or code.co_firstlineno, owner, function)


def calls_of(
    places: Iterable[tuple[types.FrameType, int]], functions: Mapping[types.CodeType, types.FunctionType]
) -> tuple[Called, ...]:
    """The calls of these frames and lines, without those of code that is not rewritten. ``functions``: those of
    the authors, by their rewritten code."""
    found: list[Called] = []
    for frame, line in places:
        code = frame.f_code
        if not is_rewritten(code):
            continue
        file, function = code.co_filename.removeprefix(PREFIX), functions.get(code)
        if function is not None:
            found.append(Called(_name(function), file, line, _owner(frame, function), function))
        elif found and found[-1].file == file:  # an expression or a function inside of the one before
            found[-1] = Called(found[-1].name, file, line, found[-1].owner, found[-1].function)
        else:
            found.append(Called("lambda", file, line))
    return tuple(found)


def _owner(frame: types.FrameType, function: types.FunctionType) -> Typed | None:
    """The operator or aggregate whose method runs."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return owner_of(function, frame.f_locals.get(names[0]) if names else None)


def owner_of(function: types.FunctionType, first: Any) -> Typed | None:
    """The first argument of a function, if it is an operator or aggregate and the function its method."""
    if not isa(first, Typed):
        return None
    owner: Typed = first
    return owner if any(_unwrapped(vars(cls).get(function.__name__)) is function for cls in type(owner).__mro__) else None


def _unwrapped(member: Any) -> Any:
    return member.fget if isa(member, property) else member


def _name(function: types.FunctionType) -> str:
    """A function as people write it; with its module where that is another library."""
    name = function.__qualname__.rpartition("<locals>.")[2]
    if name == "<lambda>":
        return "lambda"
    file, module = function.__code__.co_filename, function.__module__
    return name if is_own(file) or is_ours(file) or "." in name or not module else f"{module}.{name}"
