"""The key of a checkpoint, by which a run compares secrets without storing them.

::

    CHECKPOINT/key             32 bytes that only its owner may read (mode 0600), if the graph has a secret
"""

from __future__ import annotations

from tracetypes.compiler.analysis.secret import SIZE, Key
from tracetypes.compiler.connectors.store_errors import StoreError
from tracetypes.compiler.store.places import Place, replace
from tracetypes.compiler.store.small_files import unreachable
from tracetypes.errors import RunError

__all__ = ["keep_key", "key_of"]


def key_of(checkpoint: Place) -> Key:
    """The key of a checkpoint, or a new one. Raises :class:`RunError` ``TT211`` if its file is damaged."""
    path = checkpoint / "key"
    try:
        secret = path.read_bytes()
    except FileNotFoundError:
        return Key()
    except StoreError as error:
        raise unreachable(path, error) from None
    except OSError as error:
        raise RunError("TT211", f"{path}: {error.strerror}", fix="run as the user whose checkpoint it is") from error
    if len(secret) != SIZE:
        raise RunError("TT211", f"{path} is no key: it has {len(secret)} bytes", fix="give another --checkpoint and output")
    return Key(secret, kept=True)


def keep_key(key: Key, checkpoint: Place) -> None:
    """Store a key if it has hashed anything."""
    path = checkpoint / "key"
    if key.used and not path.exists():
        replace(path, key.secret, private=True)
