"""Many lines of text in one piece of memory, which a parser of many lines takes without a copy of each.

:class:`LineBlock` is a sequence of lines. Where each of them ends is found once, in numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, final, overload

import numpy as np

__all__ = ["LineBlock", "with_line_ends"]

_END: Final = 10
_SPACE: Final = 32
"""No letter of a blank line is above it."""


def with_line_ends(text: bytes) -> bytes:
    """A text in which each line ends with LF, and there is no CR."""
    if b"\r" in text:
        return b"".join(line + b"\n" for line in text.splitlines())
    return text + b"\n" if text and not text.endswith(b"\n") else text


@final
class LineBlock(Sequence[bytes]):
    """Lines of a text. ``text``: the lines, each with its line end. ``letters``: its bytes. ``ends``: the places of the line
    ends; ``starts``: of the first letters."""

    def __init__(self, text: bytes, ends: Any = None) -> None:
        self.text = text
        self.letters = np.frombuffer(text, np.uint8)
        self.ends = np.flatnonzero(self.letters == _END) if ends is None else ends
        self.starts = np.concatenate((np.zeros(min(1, len(self.ends)), np.int64), self.ends[:-1] + 1))

    @classmethod
    def of(cls, text: bytes) -> LineBlock:
        """The lines of a text that are not blank, as ``bytes.splitlines`` cuts them."""
        lines = cls(with_line_ends(text))
        mask = lines.letters[lines.starts] > _SPACE
        for at in np.flatnonzero(~mask).tolist():
            mask[at] = bool(lines[at].strip())
        return lines.where(mask)

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> LineBlock: ...
    def __getitem__(self, at: int | slice) -> bytes | LineBlock:
        if isinstance(at, int):
            return self.text[self.starts[at] : self.ends[at]]
        start, stop, step = at.indices(len(self))
        if step != 1:
            raise ValueError("lines are cut into pieces that lie together")
        if start >= stop:
            return LineBlock(b"")
        if (start, stop) == (0, len(self)):
            return self
        first = int(self.starts[start])
        return LineBlock(self.text[first : self.ends[stop - 1] + 1], self.ends[start:stop] - first)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.text.split(b"\n")[:-1])

    def where(self, mask: Any) -> LineBlock:
        """The lines for which a mask is true."""
        others = np.flatnonzero(~mask)
        if not len(others):
            return self
        parts, text, start = list[memoryview](), memoryview(self.text), 0
        for end, following in zip(self.starts[others].tolist(), (self.ends[others] + 1).tolist(), strict=True):
            parts.append(text[start:end])
            start = following
        lengths = (self.ends - self.starts + 1)[mask]
        return LineBlock(b"".join([*parts, text[start:]]), np.cumsum(lengths) - 1)
