"""What an input or output is, so that another one is known as such."""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["Identity"]

_SHOWN: Final = {"files": "files", "topic": "topic {}", "table": "the table in {}"}


@attrs.frozen
class Identity:
    """What an input or output is. ``kind``: ``files``, ``topic`` or ``table``; ``name``: of the topic, or the directory of the
    table; ``id``: what it is called by itself, which is another one when it was removed and made anew."""

    kind: str
    name: str = ""
    id: str = ""

    @property
    def shown(self) -> str:
        """For messages."""
        return _SHOWN[self.kind].format(self.name)

    def difference(self, now: Identity) -> str | None:
        """What is not as it was."""
        if self.kind != now.kind or (self.kind == "topic" and self.name != now.name):
            return f"it began with {self.shown}, and is given {now.shown}"
        if self.id != now.id:
            return f"{self.shown} is another one than it began with: it was removed and made anew, or lies elsewhere"
        return None
