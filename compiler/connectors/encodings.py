"""Text of other encodings as UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

__all__ = ["MARK", "as_utf8", "without_mark"]

MARK: Final = b"\xef\xbb\xbf"
"""A byte order mark, which is no part of the first line."""

_NO_TEXT: Final = "tracetypes-no-text"
"""How bytes are decoded that are no text: half a character, which is no UTF-8. So their row is a reject."""

codecs.register_error(_NO_TEXT, lambda error: ("\udcff", getattr(error, "end")))  # noqa: B009  a UnicodeError of any kind


def as_utf8(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Blocks of a text in UTF-8, without the mark at its beginning."""
    return without_mark(blocks if encoding == "utf-8" else _decoded(blocks, encoding))


def _decoded(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(_NO_TEXT)
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", "surrogatepass")
    yield decoder.decode(b"", True).encode("utf-8", "surrogatepass")


def without_mark(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks of a text without the mark at its beginning."""
    head = b""
    blocks = iter(blocks)
    for block in blocks:
        head += block
        if not MARK.startswith(head[: len(MARK)]) or len(head) >= len(MARK):
            break
    yield head.removeprefix(MARK)
    yield from blocks
