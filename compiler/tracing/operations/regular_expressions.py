"""Operations that are regular expressions of Python with a constant pattern, applied text by text.

Their arguments are a text, the name of a method of a pattern where there are several (``search``, ``match``, ``fullmatch``),
the pattern and its flags.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tracetypes.compiler.tracing.kinds import BOOLEAN as _B
from tracetypes.compiler.tracing.kinds import INTEGER as _I
from tracetypes.compiler.tracing.kinds import STRING as _S
from tracetypes.compiler.tracing.kinds import Kind
from tracetypes.compiler.tracing.operations.functions import Split
from tracetypes.compiler.tracing.operations.operation import Operation, Signature

__all__ = ["END", "GROUP", "HAS_GROUP", "LISTS", "METHODS", "REGULAR_EXPRESSIONS", "START", "SUB", "TEST", "groups_of_all"]

METHODS: Final = ("search", "match", "fullmatch")


@functools.lru_cache(1024)
def _method(name: str, pattern: str, flags: int) -> Callable[..., Any]:
    return getattr(re.compile(pattern, flags), name)  # type: ignore[no-any-return]


def _of(
    name: str,
    meaning: Callable[..., Any],
    takes: Sequence[Kind],
    gives: Kind,
    fixed: tuple[int, ...],
    undefined: str = "",
) -> Operation:
    return Operation(name, meaning, (Signature(tuple(takes), gives),), undefined, is_function=True, fixed=fixed)


def _group(text: str, method: str, pattern: str, flags: int, at: int) -> str | None:
    match = _method(method, pattern, flags)(text)
    return None if match is None else match.group(at)


_MATCH: Final = (_S, _S, _S, _I)
_NO_MATCH: Final = "where the pattern does not match, or the group takes no part in it"

TEST: Final = _of("re.test", lambda text, *how: _method(*how)(text) is not None, _MATCH, _B, (1, 2, 3))
"""Whether there is a match."""

HAS_GROUP: Final = _of("re.has_group", lambda *how: _group(*how) is not None, (*_MATCH, _I), _B, (1, 2, 3, 4))
"""Whether there is a match in which the group takes part."""

GROUP: Final = _of("re.group", _group, (*_MATCH, _I), _S, (1, 2, 3, 4), _NO_MATCH)


@functools.lru_cache(1024)
def groups_of_all(pattern: str, flags: int) -> frozenset[int]:
    """The groups that take part in each match: those that stand in no alternative and in nothing that may be left out."""
    try:
        parser: Any = importlib.import_module("re._parser")
        return frozenset({0, *_always(list(parser.parse(pattern, flags)))})
    except (AttributeError, ImportError, RecursionError):
        return frozenset({0})


def _always(items: Sequence[tuple[Any, Any]]) -> Iterator[int]:
    for op, value in items:
        match str(op):
            case "SUBPATTERN":
                if value[0] is not None:
                    yield value[0]
                yield from _always(list(value[3]))
            case "MAX_REPEAT" | "MIN_REPEAT" if value[0] > 0:
                yield from _always(list(value[2]))
            case _:
                pass


START: Final = _of(
    "re.start", lambda text, *how: _method(*how[:3])(text).start(how[3]), (*_MATCH, _I), _I, (1, 2, 3, 4), _NO_MATCH
)
"""Where a group starts; -1 if it takes no part in the match."""

END: Final = _of(
    "re.end", lambda text, *how: _method(*how[:3])(text).end(how[3]), (*_MATCH, _I), _I, (1, 2, 3, 4), _NO_MATCH
)

SUB: Final = _of(
    "re.sub",
    lambda text, pattern, flags, new, count: _method("sub", pattern, flags)(new, text, count),
    (_S, _S, _I, _S, _I),
    _S,
    (1, 2, 3, 4),
)
"""The text with ``new`` for the first ``count`` matches, or for all if that is 0."""


def _list(name: str) -> Split:
    """``findall``, or ``split`` with how often at most."""
    more: tuple[Kind, ...] = (_I,) if name == "split" else ()

    def parts(text: str, pattern: str, flags: int, *how: int) -> Sequence[str]:
        return _method(name, pattern, flags)(text, *how)  # type: ignore[no-any-return]

    def fixed(first: int) -> tuple[int, ...]:
        return tuple(range(first, first + 2 + len(more)))

    return Split(
        _of(
            f"re.{name}",
            lambda text, place, *how: parts(text, *how)[place],
            (_S, _I, _S, _I, *more),
            _S,
            fixed(2),
            "for a place that there is not",
        ),
        _of(f"re.{name}_length", lambda text, *how: len(parts(text, *how)), (_S, _S, _I, *more), _I, fixed(1)),
        _of(
            f"re.{name}_has", lambda text, part, *how: part in parts(text, *how), (_S, _S, _S, _I, *more), _B, fixed(2)
        ),
    )


LISTS: Final[Mapping[str, Split]] = {name: _list(name) for name in ("findall", "split")}
"""By the name of the method that gives a list of text."""

REGULAR_EXPRESSIONS: Final[tuple[Operation, ...]] = (
    *(TEST, HAS_GROUP, GROUP, START, END, SUB),
    *(op for one in LISTS.values() for op in (one.part, one.length, one.has)),
)
