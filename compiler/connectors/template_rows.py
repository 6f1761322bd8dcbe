"""Rows of JSON lines by machine code, where there is some.

A run that has read much text looks for code that was kept, and compiles if it reads much more. Until the code is ready, and where
it cannot be made, the usual reader takes all lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.machine.code import MachineFunction
from tracetypes.compiler.columns.machine.compilation import compilation
from tracetypes.compiler.connectors.json_kernel import KERNEL
from tracetypes.compiler.connectors.json_template import ParsedLines, TemplateReader
from tracetypes.compiler.connectors.line_block import with_line_ends
from tracetypes.compiler.connectors.source_rows import Columns
from tracetypes.compiler.connectors.text import AT_ONCE, Dialect, FittedRows, ParsedRows
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.formats import Layout

__all__ = ["TemplateRows"]

LOOK: Final = 16 << 20
"""Bytes of JSON lines from which on code that was kept is worth the 0.1 s that it takes to load."""

COMPILE: Final = 256 << 20
"""Bytes from which on it is worth the seconds of a compiler."""

SHORTEST: Final = 1 << 15
"""Bytes of a text that is read by machine code."""

_seen = 0
"""Bytes of JSON lines that this process has read. Threads may lose some."""


def kernel(text: bytes) -> MachineFunction | None:
    """The code for a text, as soon as there is some."""
    global _seen
    _seen += len(text)
    if _seen < LOOK:
        return None
    code = compilation(KERNEL)
    code.start(only_kept=_seen < COMPILE)
    return code.function if len(text) >= SHORTEST else None


@final
class TemplateRows:
    """Takes texts of JSON lines. ``layout``: with the zone of its times. ``usual``: takes those that machine code does not. What
    comes is in order, except that rejects come first."""

    def __init__(
        self,
        leaf: FromSource,
        layout: Layout,
        dialect: Dialect[bytes],
        usual: Callable[[bytes], Iterator[TakenRow | Chunk]],
        verifier: Verifier | None,
    ) -> None:
        self.layout, self.dialect, self.usual = leaf.layout, dialect, usual
        self.columnar = Columns.of(leaf, verifier)
        self.in_order = leaf.source.output == "rejects"
        self.reader = TemplateReader(layout)

    def take(self, text: bytes) -> Iterator[TakenRow | Chunk]:
        """The rows of a text of whole lines."""
        code = kernel(text) if self.columnar is not None and self.reader.useful else None
        if code is None:
            yield from self.usual(text)
            return
        text, at = with_line_ends(text), 0
        while at < len(text):
            parsed = self.reader.read(code, text, at, AT_ONCE)
            if parsed is None:
                yield from self.usual(text[at:])
                return
            rows = self._rows(parsed)
            yield from self.usual(text[at : parsed.end]) if rows is None else rows
            at = parsed.end

    def _rows(self, parsed: ParsedLines) -> list[TakenRow | Chunk] | None:
        """The rejects and the chunk of some lines. None if there can be no chunk."""
        assert self.columnar is not None
        columns, count, aside = parsed.columns, parsed.num_rows, list[TakenRow]()
        if parsed.others.lines:
            fitted = FittedRows.of(self.dialect, parsed.others.lines)
            others, aside = fitted.columns(self.layout), fitted.aside
            if others is None or (self.in_order and aside):
                return None
            before = np.array(parsed.others.before, np.int64)[fitted.places]
            order = pa.array(np.insert(np.arange(count), before, np.arange(len(before)) + count))
            pairs = zip(columns, others, strict=True)
            columns, count = tuple(pa.concat_arrays(pair).take(order) for pair in pairs), count + len(before)
        if not count:
            return [*aside]
        chunk = self.columnar.chunk(ParsedRows(columns, count))
        return None if chunk is None else [*aside, chunk]
