"""What went wrong at an object store, in words without a secret.

A store answers with a text that may have the key id and the string that was signed, and a client shows it. So only known words
are taken from it.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ObjectChanged", "StoreDenied", "StoreError", "StoreLost", "store_error"]


class StoreError(OSError):
    """A request that failed, also after it was sent again."""


class StoreLost(StoreError):
    """There was no answer, or not a whole one."""


class StoreDenied(StoreError):
    """The store does not let these credentials do that."""


class ObjectChanged(StoreError):
    """The object is not the one that was listed."""


_CODE: Final = re.compile(r"<Code>(\w{1,60})</Code>")

_STATUS: Final = re.compile(r"\b(?:status|error)[^0-9<>]{0,20}\b([45]\d\d)\b", re.IGNORECASE)

_DENIED: Final = ("PermissionDeniedError", "UnauthenticatedError")

_WORDS: Final = (
    ("timed out", "it does not answer in time"),
    ("timeout", "it does not answer in time"),
    ("connection refused", "it refuses the connection"),
    ("connection reset", "the connection was lost"),
    ("connection closed", "the connection was lost"),
    ("incompletemessage", "the connection was lost"),
    ("dns error", "its name is unknown"),
    ("certificate", "its certificate is not trusted"),
    ("response body", "the connection was lost"),
    ("error sending request", "it cannot be reached"),
    ("credential", "there are no credentials for it"),
    ("range", "it gives no ranges of bytes"),
)
"""What is looked for in the text of an error, and what it means. The first one counts."""


_LOST: Final = frozenset({"it does not answer in time", "the connection was lost", "it cannot be reached"})


def store_error(error: Exception) -> OSError:
    """The error for one of a client, without its text."""
    kind, text = type(error).__name__, str(error)
    match = _CODE.search(text)
    code = match[1] if match else ""
    if isinstance(error, FileNotFoundError) or code in ("NoSuchBucket", "NoSuchKey"):
        return FileNotFoundError(code or "there is no such object")
    if kind in ("PreconditionError", "NotModifiedError"):
        return ObjectChanged("it has changed since it was listed")
    if kind in _DENIED or code in ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"):
        return StoreDenied(f"the store refuses access ({code or kind.removesuffix('Error')})")
    if kind == "InvalidPathError":
        return StoreError("it has an object with an empty name, '.' or '..' between the slashes of its key, which cannot be read")
    if code:
        return StoreError(f"the store answers {code}")
    message = text.partition("Debug source")[0]  # behind it are settings of the client
    if status := _STATUS.search(message):
        if status[1] in ("401", "403"):
            return StoreDenied(f"the store refuses access (status {status[1]})")
        return StoreError(f"the store answers with status {status[1]}")
    lower = message.lower()
    if "must be specified" in lower:
        return StoreDenied("no account is named")
    if word := next((meaning for word, meaning in _WORDS if word in lower), None):
        return StoreLost(f"the store: {word}") if word in _LOST else StoreError(f"the store: {word}")
    return StoreError(f"the store: {kind}")
