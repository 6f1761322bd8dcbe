"""The key of a checkpoint. With it a run compares secrets without storing them.

::

    CHECKPOINT/key             32 bytes that only its owner may read (mode 0600), if the graph has a secret
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

import attrs

from tracetypes.errors import RunError

__all__ = ["HIDDEN", "Key"]

HIDDEN: Final = "hidden:"
"""Begins what is shown in the place of a secret."""

SIZE: Final = 32


@attrs.define
class Key:
    """A key. ``kept``: whether the checkpoint has it. ``used``: whether it has hashed anything."""

    secret: bytes = attrs.field(factory=lambda: secrets.token_bytes(SIZE), repr=False)
    kept: bool = False
    used: bool = False

    @classmethod
    def of(cls, checkpoint: Path) -> Key:
        """The key of a checkpoint, or a new one. Raises :class:`RunError` ``TT211`` if its file is damaged."""
        path = checkpoint / "key"
        try:
            secret = path.read_bytes()
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise RunError(
                "TT211", f"{path}: {error.strerror}", fix="run as the user whose checkpoint it is"
            ) from error
        if len(secret) != SIZE:
            raise RunError(
                "TT211", f"{path} is no key: it has {len(secret)} bytes", fix="give another --checkpoint and output"
            )
        return cls(secret, kept=True)

    def hide(self, text: str) -> str:
        """The hash of a secret: the same for the same secret and key."""
        self.used = True
        return HIDDEN + hmac.new(self.secret, text.encode("utf-8", "backslashreplace"), hashlib.sha256).hexdigest()[:32]

    def write(self, checkpoint: Path) -> None:
        """Store the key if it has hashed anything. The file appears whole or not at all."""
        path, new = checkpoint / "key", checkpoint / f".key.{os.getpid()}"
        if not self.used or path.exists():
            return
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(self.secret)
            file.flush()
            os.fsync(descriptor)
        os.replace(new, path)
