"""The calls under way in rewritten code: whose they are, and where they were written."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping

import attrs

from tracetypes.blame import Called, called, owner_of
from tracetypes.compiler.tracing.syntax import PREFIX, is_rewritten

__all__ = ["calls_of"]


def calls_of(
    places: Iterable[tuple[types.FrameType, int]], functions: Mapping[types.CodeType, types.FunctionType]
) -> tuple[Called, ...]:
    """The calls of these frames and lines, without those of code that is not rewritten. ``functions``: those of
    the authors, by their rewritten code."""
    calls: list[Called] = []
    for frame, line in places:
        code = frame.f_code
        if not is_rewritten(code):
            continue
        file, function = code.co_filename.removeprefix(PREFIX), functions.get(code)
        if function is not None:
            names = code.co_varnames[: code.co_argcount]
            owner = owner_of(function.__code__, frame.f_locals.get(names[0]) if names else None)
            calls.append(called(function, line, owner))
        elif calls and calls[-1].file == file:  # an expression or a function inside of the one before
            calls[-1] = attrs.evolve(calls[-1], line=line)
        else:
            calls.append(Called("lambda", file, line))
    return tuple(calls)
