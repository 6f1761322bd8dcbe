"""What the code of a function says of every call of it: whether it runs at all, returns anything, uses an argument.

The answers come from the bytecode. The function is not called. What cannot be decided has the answer that accuses nobody.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import types
from collections.abc import Iterator, Sequence
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

    def thrown_away(self, owner: type[Any] | None = None) -> Iterator[tuple[str, Location]]:
        """Generators, coroutines and iterators that it makes and throws away at once, so that their code never runs: what each
        is, and its line. ``owner``: the class of its first parameter, if it is a method."""
        function: Any = self.function
        lines = set[int]()  # the code of a ``finally`` is there twice
        for one in _discarded_calls(function.__code__):
            what = "a generator" if one.called is None else _runs_later(_called(one.called, one.attributes, function, owner))
            if what is not None and one.line not in lines:
                lines.add(one.line)
                yield what, Location(function.__code__.co_filename, one.line)

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




_CALLS: Final = ("CALL", "CALL_KW", "CALL_FUNCTION_EX")
_READS: Final = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK")
_SILENT: Final = ("PRECALL", "PUSH_NULL", "KW_NAMES")
_OF_GENERATORS: Final = ("GET_ITER", "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE", "BUILD_TUPLE", "LOAD_CLOSURE")
_UNKNOWN: Final = object()


@attrs.frozen
class _Discarded:
    """A call as a statement, whose result is thrown away. ``called``: what reads the beginning of what is called, of which
    ``attributes`` are read; None for a generator expression."""

    line: int
    called: dis.Instruction | None
    attributes: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def _discarded_calls(code: CodeType) -> tuple[_Discarded, ...]:
    """The calls whose results are thrown away, of which it is known what is called."""
    calls, before = [], list[dis.Instruction]()
    for at in dis.get_instructions(code):
        if at.opname == "POP_TOP" and before and before[-1].opname in _CALLS and (one := _discarded(before)) is not None:
            calls.append(one)
        if at.opname not in ("NOP", "EXTENDED_ARG", "CACHE"):
            before.append(at)
    return tuple(calls)


def _start(at: dis.Instruction) -> tuple[int, int] | None:
    """Where the source of an instruction begins: its line and column."""
    where = at.positions
    if where is None or where.lineno is None or where.col_offset is None:
        return None
    return where.lineno, where.col_offset


def _discarded(before: Sequence[dis.Instruction]) -> _Discarded | None:
    """The last instruction, a call. Of what is called the source begins where that of the call does."""
    call, attributes = before[-1], list[str]()
    start = _start(call)
    if start is None:
        return None
    for at in reversed(before[:-1]):
        if _start(at) != start or at.opname in _SILENT:
            continue
        if at.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.append(str(at.argval))
        elif at.opname in _READS:
            return _Discarded(start[0], at, tuple(reversed(attributes)))
        elif isinstance(at.argval, CodeType):
            is_generator = at.positions == call.positions and at.argval.co_name == "<genexpr>"
            return _Discarded(start[0], None) if is_generator else None
        elif at.opname not in _OF_GENERATORS and not (at.opname == "LOAD_CONST" and isinstance(at.argval, tuple)):
            return None  # it may call what another call returned
    return None


def _called(at: dis.Instruction, names: Sequence[str], function: FunctionType, owner: type[Any] | None) -> object:
    """What is called: what an instruction reads, and attributes of it. Only of modules and classes is it certain."""
    name, code = str(at.argval), function.__code__
    one: object = _UNKNOWN
    if at.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
        one = function.__globals__.get(name, getattr(builtins, name, _UNKNOWN))
    elif at.opname == "LOAD_DEREF" and name in code.co_freevars and function.__closure__ is not None:
        try:
            one = function.__closure__[code.co_freevars.index(name)].cell_contents
        except ValueError:  # it has no value yet
            return _UNKNOWN
    elif code.co_argcount and name == code.co_varnames[0] and owner is not None and names:
        one = owner
    for attribute in names:
        if not isinstance(one, types.ModuleType | type):
            return _UNKNOWN
        try:
            one = inspect.getattr_static(one, attribute)
        except AttributeError:
            return _UNKNOWN
        if isinstance(one, staticmethod | classmethod):
            one = one.__func__
    return one


def _runs_later(called: object) -> str | None:
    """What a call makes whose code runs later; None if it is not certain that it makes such a thing."""
    if isinstance(called, FunctionType):
        return Plain(called, 0).runs_later
    lazy = isinstance(called, type) and issubclass(called, Iterator) and called.__module__ in ("builtins", "itertools")
    return f"an iterator ({called.__name__})" if lazy and isinstance(called, type) else None
