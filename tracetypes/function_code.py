"""What the code of a function says of every call of it: whether it runs at all, returns anything, uses an argument.

The answers come from the bytecode. The function is not called. What cannot be decided has the answer that accuses nobody.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

import attrs

from tracetypes.errors import Location

__all__ = ["Plain", "plain", "runs_later"]

_RUN_LATER: Final = {
    inspect.CO_GENERATOR: "a generator",
    inspect.CO_ITERABLE_COROUTINE: "a coroutine",
    inspect.CO_COROUTINE: "a coroutine",
    inspect.CO_ASYNC_GENERATOR: "an asynchronous generator",
}

_SEES_EVERYTHING: Final = {"locals", "vars", "eval", "exec", "_getframe", "currentframe", "stack"}
"""Names of functions that get at the arguments of their caller."""


@attrs.frozen
class Plain:
    """A function in Python that is called. ``bound``: how many of its first parameters have their arguments already; None:
    which of them is not known."""

    function: FunctionType
    bound: int | None

    @property
    def where(self) -> Location:
        """Where it begins."""
        return Location(self.function.__code__.co_filename, self.function.__code__.co_firstlineno)

    @property
    def is_lambda(self) -> bool:
        """Whether it is a lambda."""
        return self.function.__code__.co_name == "<lambda>"

    @property
    def runs_later(self) -> str | None:
        """What a call returns instead of running the code; None if it runs."""
        return next((what for flag, what in _RUN_LATER.items() if self.function.__code__.co_flags & flag), None)

    @property
    def returns_nothing(self) -> bool:
        """Whether every path that returns returns None."""
        results = _results(self.function.__code__)
        return self.runs_later is None and bool(results) and all(one == "nothing" for one in results)

    def forgets(self, argument: int) -> bool:
        """Whether it returns a value that is no call, and neither calls the argument of this number nor passes it on."""
        code, at = self.function.__code__, None if self.bound is None else argument + self.bound
        if at is None or at >= code.co_argcount or self.runs_later is not None:
            return False
        return "value" in _results(code) and code.co_varnames[at] not in _read(code)

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments by their positions."""
        if self.bound is None:
            return True
        function: Any = self.function
        code, optional = function.__code__, len(function.__defaults__ or ())
        names = set(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])
        if names - set(function.__kwdefaults__ or ()):
            return False
        count += self.bound
        return code.co_argcount - optional <= count and (count <= code.co_argcount or bool(code.co_flags & inspect.CO_VARARGS))

    @property
    def parameters(self) -> int:
        """The number of parameters that it has, without those that are bound."""
        return max(0, self.function.__code__.co_argcount - (self.bound or 0))


def plain(called: object) -> Plain | None:
    """The function that runs when ``called`` is called: behind methods, ``partial``, caches and instances with ``__call__``.
    None where it is none of Python. What a decorator makes is the decorator's function."""
    bound: int | None = 0
    more: int | None
    for _ in range(_DEEPEST):
        if isinstance(called, FunctionType):
            return Plain(called, bound)
        if isinstance(called, MethodType):
            called, more = called.__func__, 1
        elif isinstance(called, functools.partial):
            known = not called.keywords and not any(arg is _PLACEHOLDER for arg in called.args)
            more = len(called.args) if known else None
            called = called.func
        elif isinstance(called, functools._lru_cache_wrapper):
            called, more = called.__wrapped__, 0
        elif isinstance(called, (type, *_BUILTIN)):
            return None
        else:
            try:
                called, more = called.__call__, 0  # type: ignore[operator]
            except Exception:
                return None
        bound = None if bound is None or more is None else bound + more
    return None


_DEEPEST: Final = 50
_BUILTIN: Final[tuple[type[object], ...]] = (type(len), type(list.append), type(object().__str__), type(int.__add__))
_PLACEHOLDER: Final = getattr(functools, "Placeholder", object())


def runs_later(result: object) -> str | None:
    """What a call returned instead of running: a generator or coroutine that has not begun. None for anything else.

    A value is asked for its type only: symbols of the tracer answer nothing else."""
    if type(result) is types.GeneratorType:
        return "a generator" if inspect.getgeneratorstate(result) == inspect.GEN_CREATED else None
    if type(result) is types.CoroutineType:
        if inspect.getcoroutinestate(result) != inspect.CORO_CREATED:
            return None
        result.close()  # or Python warns of it
        return "a coroutine"
    if type(result) is types.AsyncGeneratorType:
        begun = result.ag_running or result.ag_frame is None or result.ag_frame.f_lasti > 0
        return None if begun else "an asynchronous generator"
    return None


# ------------------------------------------------------------------------------------------------- bytecode

_VALUES: Final = (
    "BUILD_", "LOAD_FAST", "LOAD_DEREF", "LOAD_ATTR", "LOAD_GLOBAL", "LOAD_CLOSURE", "LOAD_SMALL_INT", "BINARY_", "COMPARE_OP",
    "CONTAINS_OP", "IS_OP", "UNARY_", "LIST_EXTEND", "LIST_TO_TUPLE", "SET_UPDATE", "DICT_UPDATE", "FORMAT_", "CONVERT_VALUE",
)  # fmt: skip
"""Beginnings of the names of instructions that leave a value that is no result of a call."""


@lru_cache(maxsize=4096)
def _results(code: CodeType) -> tuple[str, ...]:
    """What each ``return`` returns: ``nothing`` (None), a ``value`` that is no result of a call, or ``unknown``."""
    results, before = [], None
    for at in dis.get_instructions(code):
        if at.opname == "RETURN_CONST":
            results.append("nothing" if at.argval is None else "value")
        elif at.opname == "RETURN_VALUE":
            results.append("unknown" if at.is_jump_target or before is None else _left_by(before))
        if at.opname not in ("NOP", "EXTENDED_ARG"):
            before = at
    return tuple(results)


def _left_by(at: dis.Instruction) -> str:
    if at.opname == "LOAD_CONST":
        return "nothing" if at.argval is None else "value"
    return "value" if at.opname.startswith(_VALUES) else "unknown"


@lru_cache(maxsize=4096)
def _read(code: CodeType) -> frozenset[str]:
    """The names of local variables that it reads, or functions inside of it."""
    if not _SEES_EVERYTHING.isdisjoint(code.co_names):
        return frozenset(code.co_varnames)
    read: set[str] = set(code.co_cellvars)
    for at in dis.get_instructions(code):
        if "LOAD_FAST" in at.opname:
            read.update(at.argval if isinstance(at.argval, tuple) else (at.argval,))
    return frozenset(read)


