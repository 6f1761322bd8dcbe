"""Rewrites the author's functions so that every operation goes to a tracer.

:func:`rewritten` finds the source of a function, makes sure that it is the source, and compiles it again, so that
operations that overloading cannot see (``is``, ``in``, ``and``, conditions, calls, reading of attributes and items,
f-strings) become calls of methods of the global ``TRACER``::

    if a is None or a.x in TABLE:    ->    if TRACER.truth(TRACER.any_of(TRACER.compare("Is", a, None), ...)):
        emit(key, f(a))              ->        TRACER.call(emit, key, TRACER.call(f, a))

Operations on objects from outside (setting attributes, ``nonlocal``) and operations that would hide an exception
(``try``, ``with``) are refused; if possible only when they are reached.
"""

from __future__ import annotations

import ast
import inspect
import types
from functools import lru_cache
from typing import Final

from tracetypes.compiler.tracing.cache_keys import ObjectKey
from tracetypes.compiler.tracing.expression_rewriter import parameters
from tracetypes.compiler.tracing.rewriter import INSIDE, FunctionRewriter
from tracetypes.function_source import FUTURE, NoSource, node_of

__all__ = ["PREFIX", "is_rewritten", "rewritten"]

PREFIX: Final = "<traced>"
"""Begins the file name of rewritten code."""


def is_rewritten(code: types.CodeType) -> bool:
    """Whether :func:`rewritten` made it."""
    return code.co_filename.startswith(PREFIX)


def rewritten(code: types.CodeType) -> types.CodeType:
    """The code that hands its operations to ``TRACER``; the same parameters, the free variables of ``code`` or some
    of them. Raises :class:`NoSource`."""
    return _rewritten(ObjectKey(code))


@lru_cache(maxsize=4096)
def _rewritten(same: ObjectKey) -> types.CodeType:
    """Of the source alone: globals, closures and defaults are those of the function at each call."""
    code, file = same.value, same.value.co_filename
    node = node_of(code)
    owner = code.co_qualname.split(".")[-2:-1]
    function = FunctionRewriter(None if not owner or owner[0] == "<locals>" else owner[0]).function(node)
    outer = ast.FunctionDef(
        name="__outer__",
        args=parameters(code.co_freevars),
        body=[ast.Return(function)] if isinstance(function, ast.Lambda) else [function],
        decorator_list=[],
    )
    ast.copy_location(outer, node)
    program = ast.fix_missing_locations(ast.Module([outer], []))
    compiled = compile(program, PREFIX + file, "exec", flags=code.co_flags & FUTURE, dont_inherit=True)
    (inside,) = (const for const in compiled.co_consts if isinstance(const, types.CodeType))
    own = next(c for c in inside.co_consts if isinstance(c, types.CodeType) and c.co_name in (INSIDE, "<lambda>"))
    if (own.co_flags ^ code.co_flags) & inspect.CO_GENERATOR:
        raise NoSource("yields inside of what cannot be traced")
    return own.replace(co_name=code.co_name, co_qualname=code.co_qualname)
