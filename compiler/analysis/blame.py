"""Why an operator must run in Python: the part that is to blame, in the words of its author, and the author's line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import attrs

from tracetypes.blame import Called, blamed, called
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace_method
from tracetypes.errors import Location
from tracetypes.records import Schema
from tracetypes.self_description import SelfDescribing

__all__ = ["Opaque", "method_to_blame", "refusal"]


@final
@attrs.frozen
class Opaque:
    """What must run in Python, item by item: the reason, and the author's line, if it is another than that of the operator."""

    reason: str
    where: Location | None = None


def refusal(op: SelfDescribing, why: Untraceable, subject: str | None = None) -> Opaque:
    """The reason of an operator. What the part to blame calls is told as what it does, and never where it is. ``subject``: the
    part, if it is none of the operator's."""
    guilty = blamed(op, why.calls)
    if guilty.part is not None:
        what = guilty.part._in_python or why.what
    else:
        what = f"calls {guilty.inside[0].name}, which {why.what}" if guilty.inside else why.what
    return Opaque(f"{subject or guilty.text} {what}", guilty.where)


@contextmanager
def method_to_blame(op: Any, method: str, value: Schema) -> Iterator[None]:
    """Where no call is to blame, the method of the operator is, or the aggregate of it that gives such a thing."""
    try:
        yield
    except Untraceable as why:
        if why.calls:
            raise
        calls = (called(getattr(type(op), method), owner=op), *_parts_to_blame(op, value, why.what))
        raise Untraceable(why.what, calls, kind=why.kind) from None


def _parts_to_blame(op: SelfDescribing, value: Schema, what: str) -> tuple[Called, ...]:
    """The aggregate of an operator whose ``lift`` is refused for the same reason, the part of that, and so on."""
    for _, part in op._parts():
        if isinstance(part, SelfDescribing) and hasattr(part, "combine"):
            try:
                trace_method(part, "lift", [Given("value", value)], emits=None)
            except Untraceable as why:
                if why.what == what:
                    return called(type(part).combine, owner=part), *_parts_to_blame(part, value, what)
    return ()
