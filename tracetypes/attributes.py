"""Finds attributes that a function reads of its arguments although no value of their types has them.

The search reads the code of the function and does not call it, because a function may raise for its own reasons, or
have effects. It covers only the code before the first branch of a function without ``try``, which every call executes.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tracetypes.errors import Location
from tracetypes.function_code import plain
from tracetypes.records import Record, Schema

__all__ = ["MissingAttribute", "missing_attribute"]

_RUN_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_BRANCHES = {*dis.hasjrel, *dis.hasjabs}


@attrs.frozen
class MissingAttribute:
    """A function reads ``name`` at the line ``where``, but ``cls`` has no such attribute."""

    cls: type[Any]
    fields: tuple[str, ...]
    name: str
    where: Location


def missing_attribute(function: Callable[..., Any], schemas: Sequence[Schema | None]) -> MissingAttribute | None:
    """The first attribute that a function reads of an argument although no value of its schema has it, or None.

    ``schemas``: those of the arguments; None: anything."""
    one = plain(function)
    if one is None or one.bound is None or not any(isinstance(schema, Record) for schema in schemas):
        return None
    code = one.function.__code__
    if code.co_exceptiontable or code.co_flags & _RUN_LATER:
        return None
    names = code.co_varnames[one.bound : code.co_argcount]
    arguments = dict(zip(names, schemas, strict=False))
    value: Schema | None = None
    for at in dis.get_instructions(code):
        if at.opcode in _BRANCHES or (at.opname.startswith(("STORE_", "DELETE_")) and _names(at) & set(arguments)):
            return None
        if at.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, Record):
            fields = dict(value.fields)
            if at.argval not in fields and not _may_have(value.cls, at.argval):
                line = at.positions.lineno if at.positions is not None else None
                return MissingAttribute(
                    value.cls, tuple(fields), at.argval, Location(code.co_filename, line or code.co_firstlineno)
                )
            value = fields.get(at.argval)
        elif at.opname.startswith("LOAD_FAST"):
            loaded = at.argval[-1] if isinstance(at.argval, tuple) else at.argval
            value = arguments.get(loaded)
        else:
            value = None
    return None


def _names(at: dis.Instruction) -> set[str]:
    """The variables that an instruction is about."""
    return set(at.argval) if isinstance(at.argval, tuple) else {at.argval}


_HOOKS = ("__attrs_pre_init__", "__attrs_post_init__", "__post_init__")


def _may_have(cls: type[Any], name: str) -> bool:
    """A class may compute its attributes, and one with room for more than it declares may get more when it is made."""
    own = any("__getattribute__" in vars(at) for at in cls.__mro__ if at not in (object, tuple))
    computes = own or hasattr(cls, "__getattr__")
    if hasattr(cls, name) or computes:
        return True
    code = getattr(cls.__init__, "__code__", None)
    by_hand = code is not None and not code.co_filename.startswith("<")
    return bool(cls.__dictoffset__) and (by_hand or any(hasattr(cls, hook) for hook in _HOOKS))
