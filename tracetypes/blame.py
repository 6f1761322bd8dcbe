"""What of an operator is to blame for a failure: the part that its author wrote or chose, and the author's line."""

from __future__ import annotations

import functools
import types
from collections.abc import Sequence
from typing import Any

import attrs

from tracetypes.errors import Location, is_ours, is_own
from tracetypes.self_description import SelfDescribing

__all__ = ["Blamed", "Called", "blamed", "called", "calls_in", "owner_of"]


@attrs.frozen(eq=False)
class Called:
    """A call that was under way. ``name``: of the function. ``owner``: the operator or aggregate whose method it is.
    ``file`` and ``line``: what was running. ``code``: that of the function as its author made it, where it is known."""

    name: str
    file: str
    line: int
    owner: SelfDescribing | None = None
    code: types.CodeType | None = None


@attrs.frozen(eq=False)
class Blamed:
    """The part that is to blame. ``text``: `` `variance` in `aggregate(struct(spread=variance))` ``. ``part``: itself, if it is
    of the library. ``inside``: what it called. ``where``: the author's last line."""

    text: str
    part: SelfDescribing | None = None
    inside: Sequence[Called] = ()
    where: Location | None = None


def called(function: Any, line: int | None = None, owner: SelfDescribing | None = None) -> Called:
    """A call of a function that does not run. ``line``: the one to show; None: where the function begins."""
    code = function.__code__
    return Called(_name(code, function.__module__), code.co_filename, line or code.co_firstlineno, owner, code)


def calls_in(traceback: types.TracebackType | None) -> list[Called]:
    """The calls of a traceback, the outermost first, without our own that are of no operator or aggregate."""
    calls = []
    while traceback is not None:
        code, frame = traceback.tb_frame.f_code, traceback.tb_frame
        names = code.co_varnames[: code.co_argcount]
        owner = owner_of(code, frame.f_locals.get(names[0]) if names else None)
        if owner is not None or not is_ours(code.co_filename):
            name = _name(code, frame.f_globals.get("__name__"))
            calls.append(Called(name, code.co_filename, traceback.tb_lineno, owner, code))
        traceback = traceback.tb_next
    return calls


def owner_of(code: types.CodeType, first: Any) -> SelfDescribing | None:
    """The first argument of a function, if it is an operator or aggregate and the function its method."""
    cls = type(first)
    if not issubclass(cls, SelfDescribing):
        return None
    owner: SelfDescribing = first
    return owner if any(_code(vars(base).get(code.co_name)) is code for base in cls.__mro__) else None


def blamed(op: SelfDescribing, calls: Sequence[Called]) -> Blamed:
    """The innermost that the author of an operator wrote or chose: a function or class of theirs, an operator or aggregate of
    the library."""
    last = max((at for at, call in enumerate(calls) if call.owner is not None or is_own(call.file)), default=None)
    if last is None:
        return Blamed(f"`{op._name()}`")
    calls, inside, guilty = calls[: last + 1], calls[last + 1 :], calls[last]
    subject = guilty.name if guilty.owner is None else guilty.owner._name()
    function = next((call for call in _behind(calls) if call.owner is None and is_own(call.file)), None)
    nest = _nest(_owners(op, calls), function)
    text = f"`{subject}`" if nest == subject else f"`{subject}` in `{nest}`"
    return Blamed(text, guilty.owner if is_ours(guilty.file) else None, inside, _where(calls))


def _owners(op: SelfDescribing, calls: Sequence[Called]) -> list[SelfDescribing]:
    """The operator, the part of it whose method was called, a part of that, and so on."""
    parts = [op]
    for call in calls:
        if call.owner is not None:
            at = next((at for at, one in enumerate(parts) if one is call.owner), len(parts))
            parts[at:] = [call.owner]
    inside = [*parts[1:], None]
    return [one for one, inner in zip(parts, inside, strict=True) if inner is None or one._stands_for() is not inner]


def _behind(calls: Sequence[Called]) -> Sequence[Called]:
    """The calls behind the last of a method of an operator or aggregate."""
    return calls[max((at + 1 for at, call in enumerate(calls) if call.owner is not None), default=0) :]


def _where(calls: Sequence[Called]) -> Location | None:
    """The last line that is the author's."""
    own = [call for call in calls if is_own(call.file) or (call.owner is not None and not is_ours(call.file))]
    return Location(own[-1].file, own[-1].line) if own else None


def _nest(owners: Sequence[SelfDescribing], function: Called | None) -> str:
    """The operator with what is to blame in it: ``aggregate(struct(spread=variance))``."""
    text = "" if function is None else function.name
    for at in reversed(range(len(owners))):
        outer, inner = owners[at], owners[at + 1] if at + 1 < len(owners) else function
        text = f"{outer._name()}({_label(outer, inner)}{text})" if text else outer._name()
    return text


def _label(outer: SelfDescribing, inner: SelfDescribing | Called | None) -> str:
    """The name by which an author gave a part: ``spread=``. Empty for the one aggregate of an operator."""
    parts = list(outer._parts())
    if isinstance(inner, Called):
        return next((f"{name}=" for name, part in parts if inner.code is not None and _code(part) is inner.code), "")
    return next((f"{name}=" for name, part in parts if name != "aggregate" and _is(part, inner)), "")


def _is(part: object, inner: SelfDescribing | None) -> bool:
    """Is that what an author gave as a part?"""
    return part is inner or (isinstance(part, SelfDescribing) and part._stands_for() is inner)


def _code(part: Any) -> Any:
    """The code of a function that was given, possibly with arguments, or of a property."""
    while isinstance(part, functools.partial):
        part = part.func
    part = part.fget if isinstance(part, property) else part
    return getattr(getattr(part, "__func__", part), "__code__", None)


def _name(code: types.CodeType, module: object) -> str:
    """A function as people write it; with its module where that is another library."""
    name = code.co_qualname.rpartition("<locals>.")[2]
    if name == "<lambda>":
        return "lambda"
    file = code.co_filename
    return name if is_own(file) or is_ours(file) or "." in name or not module else f"{module}.{name}"
