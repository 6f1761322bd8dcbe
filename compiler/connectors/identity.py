"""What an input or output is, so that another one is known as such."""

from __future__ import annotations

import attrs

__all__ = ["Identity"]

@attrs.frozen
class Identity:
    """What an input or output is. ``kind``: of its connector, ``files``, ``topic`` or ``table``; ``name``: of the topic, or the
    directory of the table; ``id``: what it is called by itself, which is another one when it was removed and made anew."""

    kind: str
    name: str = ""
    id: str = ""
