"""Why an operator must run in Python: the part that is to blame, in the words of its author, and the author's line."""

from __future__ import annotations

from typing import final

import attrs

from tracetypes.blame import blamed
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.errors import Location
from tracetypes.self_description import SelfDescribing

__all__ = ["Opaque", "refusal"]


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
