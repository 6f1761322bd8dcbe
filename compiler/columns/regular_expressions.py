"""Patterns of Python's ``re`` as patterns of RE2, which Arrow has: those that match the same texts, with the same groups.

A pattern is taken apart by Python's own parser and written again for RE2. What the two may understand differently has no pattern
there: references, looking ahead or behind, ``$`` before the end, classes such as ``\\w`` and case where a text is not ASCII.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

import attrs

__all__ = ["GroupPattern", "groups_of_arrow", "pattern_of_arrow"]

_LAST: Final = 0x10FFFF
_MOST_REPEATS: Final = 1000

_CLASSES: Final[dict[str, list[tuple[int, int]]]] = {
    "DIGIT": [(0x30, 0x39)],
    "WORD": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
    "SPACE": [(0x09, 0x0D), (0x20, 0x20)],
}
"""Of ASCII."""

_SEPARATORS: Final = [(0x09, 0x0D), (0x1C, 0x20)]
"""White space of ASCII where the pattern is one of Unicode."""


class _Differs(Exception):
    """RE2 may not match the same texts."""


@functools.lru_cache(1024)
def pattern_of_arrow(method: str, pattern: str, flags: int, *, ascii_only: bool) -> str | None:
    """The pattern of RE2 that is found in a text where ``method`` finds this one. ``ascii_only``: all texts are ASCII. None
    if there is none."""
    try:
        parser: Any = importlib.import_module("re._parser")
        parsed = parser.parse(pattern, flags)
        written = _Writer(parsed.state.flags, method, ascii_only=ascii_only).sequence(list(parsed), last=True)
    except (_Differs, AttributeError, ImportError, RecursionError):
        return None
    return _anchored(method, f"(?:{written})")


@final
@attrs.frozen
class GroupPattern:
    """A pattern of RE2 whose groups are named ``g1`` and so on, as in the pattern of Python, and ``g0`` for the whole match.

    ``groups``: those that have a name. Each takes part in each match.
    """

    pattern: str
    groups: frozenset[int]


@functools.lru_cache(1024)
def groups_of_arrow(method: str, pattern: str, flags: int, *, ascii_only: bool) -> GroupPattern | None:
    """As :func:`pattern_of_arrow`, with those groups that are the same texts in RE2."""
    try:
        parser: Any = importlib.import_module("re._parser")
        parsed = parser.parse(pattern, flags)
        writer = _Writer(parsed.state.flags, method, ascii_only=ascii_only, names=True)
        written = writer.sequence(list(parsed), last=True)
    except (_Differs, AttributeError, ImportError, RecursionError):
        return None
    # RE2 takes the line break before the end of a text into the match, where Python only looks at it.
    whole = set() if writer.has_end and method != "fullmatch" else {0}
    return GroupPattern(_anchored(method, f"({'?P<g0>' if whole else '?:'}{written})"), frozenset(writer.names | whole))


def _anchored(method: str, written: str) -> str:
    return written if method == "search" else rf"\A{written}" + (r"\z" if method == "fullmatch" else "")


@final
class _Writer:
    """Writes a pattern for RE2."""

    def __init__(self, flags: int, method: str, *, ascii_only: bool, names: bool = False) -> None:
        """``names``: the groups that take part in each match, and in no repeat, get names."""
        self.flags, self.method, self.ascii_only = flags, method, ascii_only
        self.gives_names = self.same_parts = names
        self.names: set[int] = set()
        self.has_end = False
        if flags & re.IGNORECASE:
            self.need(ascii_only)

    def need(self, condition: bool) -> None:
        if not condition:
            raise _Differs

    def sequence(self, items: Sequence[tuple[Any, Any]], *, last: bool = False) -> str:
        """``last``: nothing comes behind it."""
        return "".join(self.item(str(op), value, last and at == len(items) - 1) for at, (op, value) in enumerate(items))

    def item(self, op: str, value: Any, last: bool) -> str:
        match op:
            case "LITERAL":
                return self.ranges([(value, value)])
            case "NOT_LITERAL":
                return self.ranges([(value, value)], negated=True)
            case "ANY":
                return "(?s:.)" if self.flags & re.DOTALL else r"[^\n]"
            case "IN":
                negated = str(value[0][0]) == "NEGATE"
                found = [one for kind, what in value[negated:] for one in self.members(str(kind), what)]
                return self.ranges(found, negated=negated)
            case "MAX_REPEAT" | "MIN_REPEAT":
                with self.without_names():
                    return self.repeat(*value) + ("?" if op == "MIN_REPEAT" and self.same_parts else "")
            case "SUBPATTERN":
                number, added, removed, inner = value
                self.need(not added and not removed)
                end_before, self.has_end = self.has_end, False
                written, is_named = self.sequence(list(inner), last=last), self.gives_names and number is not None
                if self.has_end and self.method != "fullmatch":  # the group would have the line break
                    is_named = False
                self.has_end |= end_before
                if is_named:
                    self.names.add(number)
                return f"({f'?P<g{number}>' if is_named else '?:'}{written})"
            case "BRANCH":
                with self.without_names():
                    return f"(?:{'|'.join(self.sequence(list(one), last=last) for one in value[1])})"
            case "AT":
                return self.place(str(value), last)
            case _:
                raise _Differs

    @contextmanager
    def without_names(self) -> Iterator[None]:
        before, self.gives_names = self.gives_names, False
        yield
        self.gives_names = before

    def repeat(self, least: int, most: Any, inner: Any) -> str:
        unbounded = str(most) == "MAXREPEAT"
        # The two stop at different times if they repeat what may be empty.
        self.need(not self.same_parts or inner.getwidth()[0] > 0)
        self.need(least <= _MOST_REPEATS and (unbounded or most <= _MOST_REPEATS))
        return f"(?:{self.sequence(list(inner))}){{{least},{'' if unbounded else int(most)}}}"

    def place(self, where: str, last: bool) -> str:
        self.need(not self.flags & re.MULTILINE)
        match where:
            case "AT_BEGINNING" | "AT_BEGINNING_STRING":
                return r"\A"
            case "AT_END_STRING":
                return r"\z"
            case "AT_END":
                self.need(last)
                self.has_end = True
                return r"\z" if self.method == "fullmatch" else r"(?:\n?\z)"
            case "AT_BOUNDARY":
                self.need(self.ascii_only)
                return r"\b"
            case _:
                raise _Differs

    def members(self, op: str, value: Any) -> Iterator[tuple[int, int]]:
        """The ranges of characters of a part of a class."""
        match op:
            case "LITERAL":
                yield value, value
            case "RANGE":
                yield value
            case "CATEGORY":
                yield from self.category(str(value).removeprefix("CATEGORY_"))
            case _:
                raise _Differs

    def category(self, name: str) -> Sequence[tuple[int, int]]:
        self.need(self.ascii_only or bool(self.flags & re.ASCII))
        bare = name.removeprefix("NOT_")
        self.need(bare in _CLASSES)
        found = _CLASSES[bare]
        if bare == "SPACE" and not self.flags & re.ASCII:
            found = _SEPARATORS
        return found if bare == name else _others(found)

    def ranges(self, found: Sequence[tuple[int, int]], *, negated: bool = False) -> str:
        ignores = bool(self.flags & re.IGNORECASE)
        for low, high in found:
            self.need(not (low <= 0xDFFF and high >= 0xD800 and (low, high) not in _WIDE))
            self.need(not ignores or high < 0x80)
        inside = "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in found)
        written = f"[{'^' if negated else ''}{inside}]"
        return f"(?i:{written})" if ignores else written


def _others(found: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """All other characters."""
    starts = [0, *(high + 1 for _, high in found)]
    ends = [*(low - 1 for low, _ in found), _LAST]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start <= end]


_WIDE: Final = {_others(found)[-1] for found in (*_CLASSES.values(), _SEPARATORS)}
"""Ranges of other characters that go up to the last."""
