"""Why an operator must run in Python: the part that is to blame, in the words of its author, and the author's line."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, final

import attrs

from tracetypes.compiler.tracing.symbolic.paths import Called
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.errors import Location, is_ours, is_own
from tracetypes.typed import Typed

__all__ = ["Opaque", "told"]


@final
@attrs.frozen
class Opaque:
    """What must run in Python, item by item: the reason, and the author's line, if it is another than that of the operator."""

    reason: str
    where: Location | None = None


def told(op: Typed, why: Untraceable) -> Opaque:
    """The reason of an operator. The part to blame is the innermost that its author wrote or chose: a function or class of
    theirs, an operator or aggregate of the library. What that calls is told as what it does, and never where it is."""
    last = max((at for at, call in enumerate(why.calls) if call.owner is not None or is_own(call.file)), default=None)
    if last is None:
        return Opaque(f"`{op._name()}` {why.what}")
    calls, inside, guilty = why.calls[: last + 1], why.calls[last + 1 :], why.calls[last]
    owners = _owners(op, calls)
    if guilty.owner is not None and is_ours(guilty.file):
        subject, what = guilty.owner._name(), guilty.owner._in_python or why.what
    else:
        subject = guilty.name if guilty.owner is None else guilty.owner._name()
        what = f"calls {inside[0].name}, which {why.what}" if inside else why.what
    function = next((call for call in _behind(calls) if call.owner is None and is_own(call.file)), None)
    nest = _nest(owners, function)
    whole = f"`{subject}`" if nest == subject else f"`{subject}` in `{nest}`"
    return Opaque(f"{whole} {what}", _where(calls))


def _owners(op: Typed, calls: Sequence[Called]) -> list[Typed]:
    """The operator, the part of it whose method was called, a part of that, and so on."""
    found = [op]
    for call in calls:
        if call.owner is not None:
            at = next((at for at, one in enumerate(found) if one is call.owner), len(found))
            found[at:] = [call.owner]
    inside = [*found[1:], None]
    return [one for one, inner in zip(found, inside, strict=True) if inner is None or one._stands_for() is not inner]


def _behind(calls: Sequence[Called]) -> Sequence[Called]:
    """The calls behind the last of a method of an operator or aggregate."""
    return calls[max((at + 1 for at, call in enumerate(calls) if call.owner is not None), default=0) :]


def _where(calls: Sequence[Called]) -> Location | None:
    """The last line that is the author's."""
    own = [call for call in calls if is_own(call.file) or (call.owner is not None and not is_ours(call.file))]
    return Location(own[-1].file, own[-1].line) if own else None


def _nest(owners: Sequence[Typed], function: Called | None) -> str:
    """The operator with what is to blame in it: ``aggregate(struct(spread=variance))``."""
    text = "" if function is None else function.name
    for at in reversed(range(len(owners))):
        outer, inner = owners[at], owners[at + 1] if at + 1 < len(owners) else function
        text = f"{outer._name()}({_label(outer, inner)}{text})" if text else outer._name()
    return text


def _label(outer: Typed, inner: Typed | Called | None) -> str:
    """The name by which an author gave a part: ``spread=``. Empty for the one aggregate of an operator."""
    parts = list(outer._parts())
    if isinstance(inner, Called):
        code = None if inner.function is None else inner.function.__code__
        return next((f"{name}=" for name, part in parts if code is not None and _code(part) is code), "")
    return next((f"{name}=" for name, part in parts if name != "aggregate" and _is(part, inner)), "")


def _is(part: object, inner: Typed | None) -> bool:
    """Is that what an author gave as a part?"""
    return part is inner or (isinstance(part, Typed) and part._stands_for() is inner)


def _code(part: Any) -> Any:
    """The code of a function that was given, possibly with arguments."""
    while isinstance(part, functools.partial):
        part = part.func
    return getattr(getattr(part, "__func__", part), "__code__", None)
