"""Identities of inputs and outputs, by which a run notices another one."""

from __future__ import annotations

import attrs

__all__ = ["EndpointIdentity"]

@attrs.frozen
class EndpointIdentity:
    """The identity of an input or output. ``kind``: of its connector, ``files``, ``topic`` or ``table``. ``name``: of
    the topic, or the directory of the table. ``id``: the id that the broker or table gives it, which changes if it
    is removed and made anew."""

    kind: str
    name: str = ""
    id: str = ""
