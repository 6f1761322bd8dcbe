"""Keeps secrets out of messages, pictures, logs and checkpoints.

Secrets are the values of fields with ``repr=False``, and passwords in connection strings, URLs and files of settings.
The former are known by their values (:func:`conceal`), the latter by how they are written.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cache, partial
from typing import Any, Final

import attrs

__all__ = ["conceal", "hidden_fields", "names_of", "redact", "redact_passwords"]

STARS: Final = "***"

_SHORTEST: Final = 5
"""Shorter texts are no secrets: they would be found everywhere."""

_MOST: Final = 100
"""Larger containers are tables."""

_NAMES: Final = r"(?:password|passwd|pwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)"
_WORDS: Final = (
    *("password", "passwd", "pwd", "passphrase", "secret", "token"),
    *(f"{what}{between}key" for what in ("api", "access", "private") for between in ("", "_", "-")),
)
"""One of these is in every text that the patterns with names find."""
_PARTS: Final = {"p": ("pass", "pwd"), "s": ("secret",), "k": ("token", "key")}
"""One of these is in each of the words, by a letter of it. A letter is looked for in a tenth of the time."""
_VALUE: Final = r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s&;,'"()\[\]{}]+)"""
_URL: Final = re.compile(r"""(://[^\s:/?#@'"]*:)([^\s/'"]+)(?=@)""")
_NAMED: Final = re.compile(rf"(\b[\w.-]*{_NAMES}\s*=\s*){_VALUE}", re.IGNORECASE)
_ENTRY: Final = re.compile(rf"""(["'][\w.-]*{_NAMES}["']\s*:\s*){_VALUE}""", re.IGNORECASE)

_concealed: set[str] = set()


def redact(text: str) -> str:
    """The text without the secrets that this process knows."""
    for secret in sorted(filter(text.__contains__, _concealed), key=len, reverse=True):
        text = text.replace(secret, STARS)
    return redact_passwords(text)


def redact_passwords(text: str) -> str:
    """The text without its passwords: in URLs, after ``password=`` and the like, and in the entries of a table."""
    # The patterns take seconds for the text of a large table, and most texts hold nothing of the kind.
    if "/" in text and "://" in text:
        text = _URL.sub(rf"\1{STARS}", text)
    lower = text.lower()
    parts = (part for letter, some in _PARTS.items() if letter in lower for part in some)
    if any(part in lower for part in parts) and any(word in lower for word in _WORDS):
        for pattern in (_NAMED, _ENTRY):
            text = pattern.sub(rf"\1{STARS}", text)
    return text


@cache
def names_of(cls: Any) -> tuple[str, ...] | None:
    """The fields of an attrs class or dataclass. None for other classes."""
    if attrs.has(cls):
        return tuple(a.name for a in attrs.fields(cls))
    return tuple(f.name for f in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else None


@cache
def hidden_fields(cls: Any) -> frozenset[str]:
    """The fields of a class that its author keeps out of its ``repr``."""
    if attrs.has(cls):
        return frozenset(a.name for a in attrs.fields(cls) if a.repr is False)
    if dataclasses.is_dataclass(cls):
        return frozenset(f.name for f in dataclasses.fields(cls) if not f.repr)
    return frozenset()


def _class_of(value: object) -> Any:
    return type(value)


def conceal(value: object, *, secret: bool = False, depth: int = 6) -> None:
    """Keep the secrets inside a value out of all later messages. ``secret``: the value itself is a secret."""
    if isinstance(value, bytes) and secret:
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        if secret and len(value) >= _SHORTEST:
            _concealed.update((value, repr(value)[1:-1]))
        for pattern in (_URL, _NAMED):
            for match in pattern.finditer(value):
                if len(password := match[2].strip("\"'")) >= _SHORTEST:
                    _concealed.add(password)
    elif depth and isinstance(value, dict | list | tuple | set | frozenset):
        if len(value) <= _MOST:
            for one in (*value.values(),) if isinstance(value, dict) else value:
                conceal(one, secret=secret, depth=depth - 1)
    elif isinstance(value, partial):
        conceal((value.func, value.args, value.keywords), secret=secret, depth=depth)
    elif depth and (names := names_of(cls := _class_of(value))) is not None:
        hidden = hidden_fields(cls)
        for name in names:
            conceal(getattr(value, name, None), secret=name in hidden, depth=depth - 1)
