"""What a run prints while it works: a line for each epoch, or a table; or all of it as JSON, a line for each record."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from tracetypes.errors import TraceTypesError
from tracetypes.redaction import redact

__all__ = ["Progress", "error_record"]

_CODE: Final = re.compile(r"(TT\d\d\d) (warning: )?")


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def _record(text: str) -> str:
    """A line for people as a record of a log. One that begins with a code is a warning."""
    code = _CODE.match(text)
    first, *more = text.splitlines() or [""]
    fields: dict[str, Any] = {"at": _now(), "level": "info" if code is None else "warning"}
    fields |= {} if code is None else {"code": code[1]}
    fields["message"] = first if code is None else first[code.end() :]
    for line in more:
        name, colon, rest = line.strip().partition(":")
        fields |= {name: rest.strip()} if colon and name in ("fix", "because", "at", "line") and name not in fields else {}
    return json.dumps(fields)


def error_record(error: TraceTypesError) -> str:
    """An error as a record of a log."""
    text = redact(str(error))
    message, fix = redact(getattr(error, "message", text)), redact(getattr(error, "fix", ""))
    fields = {"at": _now(), "level": "error", "code": error.code, "message": message, "fix": fix}
    where = getattr(error, "where", None)
    return json.dumps(fields | ({} if where is None else {"line": f"{where}"}))


class Progress:
    """Progress on stderr: lines that stay, and below them a table and a status, which are redrawn in place. If stderr
    is not a terminal there is no status, and the table is printed anew every few seconds."""

    SECONDS = 5.0

    def __init__(self, *, quiet: bool, json: bool = False) -> None:
        self.quiet, self.json = quiet, json
        self.terminal = not json and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.rows: list[str] = []
        self.below = ""
        self.drawn = 0
        """Lines on the terminal that are to be drawn again."""
        self.printed = -math.inf
        self.pending = False
        self.lock = threading.Lock()
        """Queries, and what operators print, come in threads of their own."""

    @property
    def width(self) -> int | None:
        """Columns that a line of the table has room for; None if it goes nowhere that would cut it."""
        return shutil.get_terminal_size().columns - 1 if self.terminal else None

    def line(self, text: str, *, always: bool = False) -> None:
        """Print a line that stays. ``always``: also if the run is quiet."""
        with self.lock:
            self._wipe()
            self._print([_record(text) if self.json else text], always=always)
            self._draw()

    def record(self, what: str, content: Mapping[str, Any]) -> None:
        """Print something that happened, with its numbers; in logs of JSON only."""
        with self.lock:
            self._print([json.dumps({"at": _now(), "level": "info", "event": what, **content})])

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
