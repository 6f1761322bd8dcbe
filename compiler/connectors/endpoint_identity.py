"""Identities of inputs and outputs, by which a run notices another one."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

import attrs

__all__ = ["EndpointIdentity", "parts_of_address"]


def parts_of_address(text: str) -> SplitResult:
    """The parts of an address. None of them if it cannot be taken apart, as where a bracket stays open."""
    try:
        return urlsplit(text)
    except ValueError:
        return SplitResult("", "", "", "", "")


@attrs.frozen
class EndpointIdentity:
    """The identity of an input or output. ``kind``: of its connector, ``files``, ``topic`` or ``table``. ``name``: of
    the topic, or the directory of the table. ``id``: the id that the broker or table gives it, which changes if it
    is removed and made anew."""

    kind: str
    name: str = ""
    id: str = ""
