"""What tracetypes says when something is wrong: a code, where, what was found, what was expected, and the fix.

Codes: ``TT1xx`` the graph (all violations of a graph are reported together), ``TT2xx`` data and the run,
``TT3xx`` laws, ``TT4xx`` the command line. Every code has its section in ``docs/errors.md``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

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
]

_OWN = Path(__file__).resolve().parent
_HOUSE: Final = tuple(f"{home}{os.sep}" for home in (_OWN, _OWN.parent / "compiler", _OWN.parent / "stdlib"))


@attrs.frozen
class Location:
    """A line of the author's program."""

    file: str
    line: int

    def __str__(self) -> str:
        path, here = Path(self.file), Path.cwd()
        return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{self.line}"


NOWHERE: Final = Location("<unknown>", 0)


def caller() -> Location:
    """The innermost line on the call stack that is not ours: where the author wrote what is now being built."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_HOUSE) and not name.startswith("<"):
            return Location(name, frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return NOWHERE


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
            f"    found:    {self.found}\n"
            f"    expected: {self.expected}\n"
            f"    fix:      {self.fix}"
        )


class TraceTypesError(Exception):
    """Base of all our errors. ``code`` names a section of ``docs/errors.md``."""

    code: str = "TT000"


class CheckFailed(TraceTypesError):
    """A graph was refused. ``violations`` holds every reason, not the first one only."""

    code = "TT100"

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        count = len(self.violations)
        heading = f"{count} violation{'s' if count != 1 else ''}"
        super().__init__("\n".join([heading, *map(str, self.violations)]))

    def __reduce__(self) -> tuple[object, ...]:
        return CheckFailed, (self.violations,)


class CodedError(TraceTypesError):
    """An error with a message and a fix."""

    def __init__(self, code: str, message: str, *, fix: str = "") -> None:
        self.code = code
        self.message = message = redact(message)
        self.fix = fix = redact(fix)
        super().__init__(f"{code} {message}" + (f"\n    fix:      {fix}" if fix else ""))

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.code, self.message, self.fix))


def _rebuild(cls: type[CodedError], code: str, message: str, fix: str) -> CodedError:
    return cls(code, message, fix=fix)


class RunError(CodedError):
    """A run could not start or go on. Nothing is lost: what was not answered is still in the source."""


class UsageError(CodedError):
    """The command line, or a call of ours, was given something that cannot be meant."""


class DataError(CodedError):
    """A value does not fit its declared type."""


class LawBroken(CodedError):
    """An operator breaks a law of its template; the message holds the smallest counter-example found."""

    def __init__(self, code: str, message: str, *, fix: str = "") -> None:
        super().__init__(code, message, fix=fix)


class OperatorFailed(CodedError):
    """An author's operator raised, or emitted what its type does not allow."""


_MARK: Final = "TRACETYPES-ERROR "


def envelope(error: CodedError) -> str:
    """One line that survives any transport of an exception as text, to be found again by :func:`from_text`."""
    return _MARK + json.dumps(
        {"kind": type(error).__name__, "code": error.code, "message": error.message, "fix": error.fix}
    )


def from_text(text: str) -> CodedError | None:
    """The error that :func:`envelope` put somewhere into ``text``, or None."""
    kinds: dict[str, type[CodedError]] = {
        c.__name__: c for c in (RunError, UsageError, DataError, LawBroken, OperatorFailed)
    }
    at = text.find(_MARK)
    while at >= 0:
        try:
            found, _ = json.JSONDecoder().raw_decode(text[at + len(_MARK) :])
            return kinds[found["kind"]](found["code"], found["message"], fix=found["fix"])
        except (ValueError, KeyError, TypeError):
            at = text.find(_MARK, at + 1)
    return None
