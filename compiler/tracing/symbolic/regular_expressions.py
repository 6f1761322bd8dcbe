"""Regular expressions with a constant pattern on text that is not known yet."""

from __future__ import annotations

import re
from typing import Any, Final

from tracetypes.compiler.tracing.kinds import INTEGER, STRING
from tracetypes.compiler.tracing.operations import regular_expressions as regular
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.compiler.tracing.symbolic.loops import Loops
from tracetypes.compiler.tracing.symbolic.paths import isa
from tracetypes.compiler.tracing.symbolic.proxies import TracedMatch, TracedParts, TracedSymbol, describe

__all__ = ["RegularExpressions"]


_NO_COUNT: Final = getattr(re, "_ZeroSentinel", None)
"""The type of the count that ``re.sub`` and ``re.split`` pass on from Python 3.13 where their caller gives none."""


class RegularExpressions(Loops):
    """Methods of patterns and of matches."""

    def call_pattern(self, pattern: re.Pattern[Any], name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A method of a pattern that is called with a symbol. Which way a path goes is decided by whether there is a match."""
        args = tuple(0 if type(arg) is _NO_COUNT else arg for arg in map(self.settle, args))
        how = pattern.pattern, pattern.flags
        texts = [arg for arg in args if isa(arg, TracedSymbol)]
        if type(pattern.pattern) is str and len(texts) == 1 and self.kind(texts[0]) == STRING and not keywords:
            match name, args:
                case "search" | "match" | "fullmatch", (text,) if isa(text, TracedSymbol):
                    how = name, *how  # type: ignore[assignment]
                    return TracedMatch(self, text, how) if self.truth(self.applied(regular.TEST, text, *how)) else None
                case "sub", (str() as new, text, *count) if isa(text, TracedSymbol) and len(count) < 2:
                    pattern.sub(new, "")  # raises what is wrong with the replacement
                    result = self.applied(regular.SUB, text, *how, new, *(count or [0]))
                    if result is not None:
                        return result
                case "findall", (text,) if pattern.groups < 2:
                    return TracedParts(self, regular.LISTS[name], text, how)
                case "split", (text, *count) if pattern.groups == 0 and len(count) < 2 and isa(text, TracedSymbol):
                    if not count or self.kind(count[0]) == INTEGER:
                        return TracedParts(self, regular.LISTS[name], text, (*how, *(count or [0])))
                case _:
                    pass
        self.refuse(f"calls Pattern.{name} with {' and '.join(map(describe, args))}")

    def call_method(self, owner: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if not isa(owner, TracedMatch):
            return super().call_method(owner, name, args, keywords)
        args = tuple(map(self.settle, args))
        match name:
            case "group" if not keywords:
                groups = tuple(self.group(owner, at) for at in args or (0,))
                return groups[0] if len(groups) == 1 else groups
            case "groups" if not keywords and len(args) < 2:
                found = [self.group(owner, at + 1) for at in range(self.compiled(owner).groups)]
                return tuple([(*args, None)[0] if one is None else one for one in found])
            case "start" | "end" | "span" if not keywords and len(args) < 2:
                number = self.group_number(owner, args[0] if args else 0)
                ops = [
                    op
                    for op, names in ((regular.START, "start span"), (regular.END, "end span"))
                    if name in names.split()
                ]
                places = [self.of_match(op, owner, number) for op in ops]
                return places[0] if len(places) == 1 else tuple(places)
            case _:
                self.refuse(f"calls Match.{name}")

    def item(self, whole: Any, index: Any) -> Any:
        whole = self.settle(whole)
        return self.group(whole, self.settle(index)) if isa(whole, TracedMatch) else super().item(whole, index)

    def compiled(self, match: TracedMatch) -> re.Pattern[str]:
        _, pattern, flags = match._how
        return re.compile(pattern, flags)

    def group_number(self, match: TracedMatch, group: Any) -> int:
        """The number of a group, which may be given by its name."""
        if type(group) is str:
            group = self.compiled(match).groupindex.get(group, -1)
        if type(group) is not int:
            self.refuse(f"takes a group by {describe(group)}")
        if not 0 <= group <= self.compiled(match).groups:
            raise IndexError("no such group")
        return group

    def group(self, match: TracedMatch, group: Any) -> Any:
        """``match.group(group)``: None if it takes no part in the match."""
        number = self.group_number(match, group)
        _, *pattern = match._how
        may_lack = number not in regular.groups_of_all(*pattern)
        if may_lack and not self.truth(self.applied(regular.HAS_GROUP, match._text, *match._how, number)):
            return None
        return self.of_match(regular.GROUP, match, number)

    def of_match(self, op: Operation, match: TracedMatch, number: int) -> Any:
        """Something of a match that there is."""
        exprs = [self.expr(one) for one in (match._text, *match._how, number)]
        kind = op.signature.gives
        assert kind is not None
        return self.make(op, kind, *exprs)
