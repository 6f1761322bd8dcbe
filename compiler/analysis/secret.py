"""The key of a checkpoint. With it a run compares secrets without storing them."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

import attrs

__all__ = ["HIDDEN", "SIZE", "Key"]

HIDDEN: Final = "hidden:"
"""Begins what is shown in the place of a secret."""

SIZE: Final = 32
"""Bytes of a key."""


@attrs.define
class Key:
    """A key. ``kept``: whether the checkpoint has it. ``used``: whether it has hashed anything."""

    secret: bytes = attrs.field(factory=lambda: secrets.token_bytes(SIZE), repr=False)
    kept: bool = False
    used: bool = False

    def hide(self, text: str) -> str:
        """The hash of a secret: the same for the same secret and key."""
        self.used = True
        return HIDDEN + hmac.new(self.secret, text.encode("utf-8", "backslashreplace"), hashlib.sha256).hexdigest()[:32]
