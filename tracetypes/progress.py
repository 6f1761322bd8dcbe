"""What a run prints while it works: a line for each epoch, or a table."""

from __future__ import annotations

import math
import os
import shutil
import sys
import threading
import time

from tracetypes.redaction import redact

__all__ = ["Progress"]


class Progress:
    """Progress on stderr: lines that stay, and below them a table and a status, which are redrawn in place. If stderr
    is not a terminal there is no status, and the table is printed anew every few seconds."""

    SECONDS = 5.0

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.rows: list[str] = []
        self.below = ""
        self.drawn = 0
        """Lines on the terminal that are to be drawn again."""
        self.printed = -math.inf
        self.pending = False
        self.lock = threading.Lock()
        """Queries, and what operators print, come in threads of their own."""

    def line(self, text: str, *, always: bool = False) -> None:
        """Print a line that stays. ``always``: also if the run is quiet."""
        with self.lock:
            self._wipe()
            self._print([text], always=always)
            self._draw()

    def status(self, text: str) -> None:
        """Show what the run is doing."""
        with self.lock:
            self._wipe()
            self.below = f"{text} ..."
            self._draw()

    def table(self, rows: list[str]) -> None:
        """Show the table."""
        with self.lock:
            self._wipe()
            self.rows = rows
            self._draw()
            self.pending = not self.terminal
            if self.pending and time.monotonic() >= self.printed + self.SECONDS:
                self._print_table()

    def end(self) -> None:
        """End the redrawing. The last table stays."""
        with self.lock:
            self._wipe()
            self.below = ""
            self._draw()
            if self.pending:
                self._print_table()
            self.rows, self.drawn = [], 0

    def _print_table(self) -> None:
        self._print(self.rows)
        self.printed, self.pending = time.monotonic(), False

    def _wipe(self) -> None:
        if self.drawn:
            print(f"\x1b[{self.drawn}F\x1b[J", end="", file=sys.stderr, flush=True)
            self.drawn = 0

    def _draw(self) -> None:
        """As much as the terminal has room for: what has left it cannot be wiped."""
        if self.terminal:
            width, height = shutil.get_terminal_size()
            below = [self.below] if self.below else []
            lines = [line[: width - 1] for line in [*self.rows[: max(height - 2, 0)], *below]]
            self._print(lines)
            self.drawn = 0 if self.quiet else len(lines)

    def _print(self, lines: list[str], *, always: bool = False) -> None:
        if lines and (always or not self.quiet):
            print(*map(redact, lines), sep="\n", file=sys.stderr, flush=True)
