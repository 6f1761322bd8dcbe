"""Draws source text from the grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.grammar.productions import ODD, PLAIN, PYTHON, Grammar

__all__ = ["GRAMMARS", "Production", "Text", "reachable", "texts", "written"]

Production: TypeAlias = tuple[str, str]
"""A nonterminal and what it became."""

_HOLE: Final = re.compile(r"<(\w+)>")


def _joined(*grammars: Grammar) -> Mapping[str, Sequence[str]]:
    names = dict.fromkeys(name for grammar in grammars for name in grammar)
    return {name: [text for grammar in grammars for text in grammar.get(name, ())] for name in names}


GRAMMARS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "native": _joined(PLAIN),
    "python": _joined(PLAIN, PYTHON),
    "odd": _joined(PLAIN, PYTHON, ODD),
}
"""By how much of Python there is in it."""


def _holes(text: str) -> Iterator[str]:
    return (hole[1] for hole in _HOLE.finditer(text))


@cache
def _heights(grammar: str) -> Mapping[str, int]:
    """How deep the least deep text of a nonterminal is."""
    rules, found = GRAMMARS[grammar], dict[str, int]()
    while len(found) < len(rules):
        ready = {
            name: min(heights)
            for name, options in rules.items()
            if name not in found
            if (heights := [h for text in options if (h := _height(text, found)) is not None])
        }
        assert ready, f"no end of {sorted(set(rules) - set(found))}"
        found |= ready
    return found


def _height(text: str, known: Mapping[str, int]) -> int | None:
    names = list(_holes(text))
    if any(name not in known for name in names):
        return None
    return 1 + max(map(known.__getitem__, names)) if names else 0


@cache
def _options(grammar: str, name: str, deep: bool) -> Sequence[str]:
    options = GRAMMARS[grammar][name]
    if deep:
        return options
    heights = [_height(text, _heights(grammar)) for text in options]
    low = min(height for height in heights if height is not None)
    return [text for text, height in zip(options, heights, strict=True) if height == low]


@attrs.frozen
class Text:
    """A text of the grammar, and what was taken for it."""

    source: str
    used: frozenset[Production]


def texts(start: str, *, grammar: str = "python", depth: int = 4, choices: int = 320) -> SearchStrategy[Text]:
    """Texts of a nonterminal, at most so deep, as far as that can be.

    All choices are drawn as one string of bytes, where 0 is the simplest: Hypothesis copies parts of what it draws over others to
    get repetition, which leaves few of the productions in a thousand programs.
    """
    return st.binary(min_size=choices, max_size=choices).map(lambda drawn: written(start, grammar, depth, drawn))


def written(start: str, grammar: str, depth: int, drawn: bytes) -> Text:
    """The text that these choices say; the simplest where they end."""
    used: set[Production] = set()
    left = iter(drawn)

    def write(name: str, deep: int) -> str:
        options = _options(grammar, name, deep > 0)
        number = next(left, 0) if len(options) > 1 else 0
        if len(options) > 16:
            number = number * 256 + next(left, 0)
        text = options[number % len(options)]
        used.add((name, text))
        parts: list[str] = []
        end = 0
        for hole in _HOLE.finditer(text):
            before = text[end : hole.start()]
            parts.append(before)
            line = "".join(parts).rpartition("\n")[2]
            indent = line[: len(line) - len(line.lstrip())]
            parts.append(write(hole[1], deep - 1).replace("\n", "\n" + indent))
            end = hole.end()
        return "".join(parts) + text[end:]

    return Text(write(start, depth), frozenset(used))


def reachable(grammar: str, start: str) -> set[Production]:
    """All productions that texts of a nonterminal can take."""
    rules, found, pending = GRAMMARS[grammar], set[Production](), [start]
    seen = {start}
    while pending:
        name = pending.pop()
        for text in rules[name]:
            found.add((name, text))
            more = set(_holes(text)) - seen
            seen |= more
            pending.extend(more)
    return found
