"""The grammar of Python functions over a row: for each nonterminal what it may be, other nonterminals in angle brackets.

A nonterminal is of one type, so that nearly every program passes. ``plain.txt`` has what expressions say, Spark's too;
``python.txt`` what the functions of Python say that Spark does not have; ``odd.txt`` what columns may refuse, as long as they do
not answer it wrongly. A name begins the productions of a nonterminal, ``- `` one of them, whose further lines are indented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["ODD", "PLAIN", "PYTHON", "Grammar"]

Grammar: TypeAlias = Mapping[str, Sequence[str]]


def _read(name: str) -> Grammar:
    found: dict[str, list[str]] = {}
    options: list[str] = []
    blank = 0
    for line in (Path(__file__).parent / name).read_text("utf-8").splitlines():
        if not line:
            blank += 1
        elif line == "-" or line.startswith("- "):
            options.append(line[2:])
            blank = 0
        elif line.startswith("  "):
            options[-1] += "\n" * (blank + 1) + line[2:]
            blank = 0
        elif not line.startswith("#"):
            options = found.setdefault(line, [])
            blank = 0
    return found


PLAIN: Final[Grammar] = _read("plain.txt")
PYTHON: Final[Grammar] = _read("python.txt")
ODD: Final[Grammar] = _read("odd.txt")
