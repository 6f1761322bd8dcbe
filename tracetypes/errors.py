"""Errors of tracetypes. Each has a code, a location, what was found, what was expected, and a fix.

Codes: ``TT1xx`` the graph (all violations of a graph are reported together), ``TT2xx`` data and the run, ``TT3xx``
laws, ``TT4xx`` the command line. Every code has a section in ``docs/errors.md``.
"""

from __future__ import annotations

import json
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import attrs

from tracetypes.redaction import redact

__all__ = [
    "CheckFailed",
    "CodedError",
    "DataError",
    "LawBroken",
    "Location",
    "OperatorFailed",
    "RunError",
    "TraceTypesError",
    "UsageError",
    "Violation",
    "caller",
    "counted",
    "raised_at",
]

_OWN = Path(__file__).resolve().parent
_HOUSE: Final = tuple(f"{home}{os.sep}" for home in (_OWN, _OWN.parent / "compiler", _OWN.parent / "stdlib"))


_LIBRARIES: Final = tuple(
    {f"{os.path.realpath(sysconfig.get_path(name))}{os.sep}" for name in ("stdlib", "purelib", "platlib", "scripts")}
)
_CELL: Final = re.compile(r"<ipython-input-(\d+)-|<python-input-(\d+)>|.*[/\\]ipykernel_\d+[/\\]\d+\.py$")
"""Names that notebooks and terminals give the code of their cells."""


@attrs.frozen
class Location:
    """A line of the author's program, in a file or in a cell of a notebook."""

    file: str
    line: int

    @property
    def is_cell(self) -> bool:
        """Whether this is a line of a cell, which no editor can open."""
        return _CELL.match(self.file) is not None

    @property
    def text(self) -> str:
        """The text of the line. Empty if it cannot be read."""
        linecache.checkcache(self.file)
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        if self.is_cell:
            return f"{_cell(self.file)}:{self.line}"
        path, here = Path(self.file), Path.cwd()
        return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{self.line}"


def _cell(file: str) -> str:
    """The name of a cell, as the notebook numbers it."""
    match = _CELL.match(file)
    number = next(filter(None, match.groups()), None) if match is not None else None
    if number is None and (shell := getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()) is not None:
        number = getattr(shell.compile, "_filename_map", {}).get(file)
    return "In[?]" if number is None else f"In[{number}]"


NOWHERE: Final = Location("<unknown>", 0)


def caller() -> Location:
    """The innermost line on the call stack that is outside of tracetypes: the line of the author that builds something."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if _is_authors(name):
            return Location(name, frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return NOWHERE


def _is_authors(file: str) -> bool:
    """Is a file the author's, as far as its name can tell? Other libraries are theirs, too."""
    return not file.startswith(_HOUSE) and (not file.startswith("<") or _CELL.match(file) is not None)


def is_own(file: str) -> bool:
    """Is a file the author's, and of no library?"""
    return _is_authors(file) and not _is_library(file)


def is_ours(file: str) -> bool:
    """Is a file of tracetypes?"""
    return file.startswith(_HOUSE)


def _is_library(file: str) -> bool:
    return os.path.realpath(file).startswith(_LIBRARIES)


def _here() -> Location | None:
    """The innermost line on the call stack that is the author's and of no library, if there is one."""
    frame = sys._getframe(1).f_back
    while frame is not None:
        name = frame.f_code.co_filename
        if is_own(name):
            return Location(name, frame.f_lineno)
        frame = frame.f_back
    return None


def raised_at(error: BaseException) -> Location | None:
    """The author's last line on the way to the place where an error was raised. Skips lines of tracetypes, and lines of
    libraries unless there are no others."""
    place: Location | None = None
    in_library: Location | None = None
    at: TracebackType | None = error.__traceback__
    while at is not None:
        name = at.tb_frame.f_code.co_filename
        if _is_authors(name):
            here = Location(name, at.tb_lineno)
            if _is_library(name):
                in_library = here
            else:
                place = here
        at = at.tb_next
    return place or in_library


@attrs.frozen
class Violation:
    """One reason why a graph is refused."""

    code: str
    operator: str
    where: Location
    found: str
    expected: str
    fix: str

    def __str__(self) -> str:
        return redact(
            f"{self.code} {self.where}: {self.operator}\n"
            + (f"    line:     {self.where.text}\n" if self.where.is_cell and self.where.text else "")
            + f"    found:    {self.found}\n"
            f"    expected: {self.expected}\n"
            f"    fix:      {self.fix}"
        )


class TraceTypesError(Exception):
    """Base of all errors of tracetypes. ``code`` names a section of ``docs/errors.md``."""

    code: str = "TT000"

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows instead of a traceback: the author's line, then the message."""
        where = self._line
        return [*([] if where is None else [f"{where}: {where.text}", ""]), *str(self).splitlines()]

    @property
    def _line(self) -> Location | None:
        """The author's line to look at first."""
        return raised_at(self)


class CheckFailed(TraceTypesError):
    """A graph was refused. ``violations`` holds all violations, not only the first one."""

    code = "TT100"

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__("\n".join([counted(len(self.violations), "violation"), *map(str, self.violations)]))

    @property
    def _line(self) -> Location | None:
        return self.violations[0].where if self.violations else raised_at(self)

    def __reduce__(self) -> tuple[object, ...]:
        return CheckFailed, (self.violations,)


class CodedError(TraceTypesError):
    """An error with a message and a fix. ``where``: the author's line that caused it, if any. ``line``: the text of
    that line, if only the process that raised the error can read it."""

    def __init__(
        self, code: str, message: str, *, fix: str = "", where: Location | None = None, line: str = ""
    ) -> None:
        self.code = code
        self.message = message = redact(message)
        self.fix = fix = redact(fix)
        self.where = where
        self.line = redact(line or where.text) if where is not None else ""
        line = f"\n    line:     {where}{': ' if self.line else ''}{self.line}" if where is not None else ""
        super().__init__(f"{code} {message}{line}" + (f"\n    fix:      {fix}" if fix else ""))

    @property
    def _line(self) -> Location | None:
        return self.where or raised_at(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.code, self.message, self.fix, self.where, self.line))


def _rebuild(
    cls: type[CodedError], code: str, message: str, fix: str, where: Location | None = None, line: str = ""
) -> CodedError:
    error = cls.__new__(cls)
    CodedError.__init__(error, code, message, fix=fix, where=where, line=line)
    return error


class RunError(CodedError):
    """A run could not start or go on. Nothing is lost: rows without an answer are still in the source."""


class UsageError(CodedError):
    """The command line or a function of tracetypes got an impossible argument. Errors of graph construction (``TT1xx``)
    name the author's line."""

    def __init__(
        self, code: str, message: str, *, fix: str = "", where: Location | None = None, line: str = ""
    ) -> None:
        if where is None and code.startswith("TT1"):
            where = _here()
        super().__init__(code, message, fix=fix, where=where, line=line)


class DataError(CodedError):
    """A value does not fit its declared type."""


class LawBroken(CodedError):
    """An operator breaks a law of its template. The message has the smallest counter-example that was found."""


class OperatorFailed(CodedError):
    """An author's operator raised, or emitted something that its type does not allow."""


_MARK: Final = "TRACETYPES-ERROR "


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number of things, for a message: "1 row", "2,000 rows". ``many``: its plural, if that is not ``one`` and an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def envelope(error: CodedError) -> str:
    """The error as one line of text, which survives any transport of an exception as text. :func:`from_text` finds it
    again."""
    fields: dict[str, Any] = {
        "kind": type(error).__name__, "code": error.code, "message": error.message, "fix": error.fix
    }  # fmt: skip
    if error.where is not None:
        fields["where"] = [error.where.file, error.where.line, error.line]
    return _MARK + json.dumps(fields)


def from_text(text: str) -> CodedError | None:
    """The error of an :func:`envelope` somewhere in ``text``, or None."""
    kinds: dict[str, type[CodedError]] = {
        c.__name__: c for c in (RunError, UsageError, DataError, LawBroken, OperatorFailed)
    }
    at = text.find(_MARK)
    while at >= 0:
        try:
            fields, _ = json.JSONDecoder().raw_decode(text[at + len(_MARK) :])
            kind = kinds[fields["kind"]]
            file, number, line = fields.get("where", ("", 0, ""))
            where = Location(file, number) if file else None
            return _rebuild(kind, fields["code"], fields["message"], fields["fix"], where, line)
        except (ValueError, KeyError, TypeError):
            at = text.find(_MARK, at + 1)
    return None
