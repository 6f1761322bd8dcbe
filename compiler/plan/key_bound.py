"""How many keys can come to a stage, as far as the functions of its sources and operators tell: a key that is looked up in a
table of campaigns is one of its campaigns. A tracer that was fooled tells wrong numbers, so nothing but speed depends on them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.plan.plan import FromSource, Link, Stage, links
from tracetypes.compiler.tracing.expr import Branch, Call, Const, Input, Leaf, Loop, Pack, Tree, Value
from tracetypes.compiler.tracing.operations import basic
from tracetypes.records import Boolean, EnumOf, UnitValue

__all__ = ["most_keys"]


def most_keys(stage: Stage) -> int | None:
    """The most different keys that can come to a stage; None if nothing tells."""
    if (few := _of_kind(stage.takes.key)) is not None:
        return few
    return _sum(_of_link(link) for link in links(stage.region))


def _of_link(link: Link) -> int | None:
    for step in reversed(link.path):
        if isinstance(step.traced, Opaque):
            return None
        keys = {id(key): key for key in _keys(step.traced)}
        if not all(isinstance(key, Input) and key.path == ("key",) for key in keys.values()):
            return _sum(map(_of_value, keys.values()))
    leaf = link.leaf
    if not isinstance(leaf, FromSource) or isinstance(leaf.traced_key, Opaque):
        return None
    results = {id(one.result): one.result for one in _leaves(leaf.traced_key) if one.result is not None}
    return _sum(map(_of_value, results.values()))


def _leaves(tree: Tree) -> Iterator[Leaf]:
    pending, before = [tree], set[int]()
    while pending:
        one = pending.pop()
        if id(one) in before:  # branches share what comes behind them
            continue
        before.add(id(one))
        match one:
            case Branch(then=then, otherwise=otherwise):
                pending += [then, otherwise]
            case Leaf() as leaf:
                yield leaf


def _keys(tree: Tree) -> Iterator[Value]:
    """The keys of the emissions of a tree."""
    for leaf in _leaves(tree):
        for one in leaf.emissions:
            if isinstance(one, Loop):
                yield from _keys(one.body)
            elif one.key is not None:
                yield one.key


def _of_value(value: Value) -> int | None:
    """How many values an expression can have."""
    match value:
        case Const():
            return 1
        case Pack(parts=parts):
            return _product(map(_of_value, parts))
        case Call(op=basic.LOOKUP, table=Mapping() as table, path=path):
            return _entries(table, path)
        case Call(op=basic.MOD, args=(_, Const(int() as divisor))):
            return abs(divisor)
        case Call(op=basic.IF, args=(_, then, otherwise)):
            return _sum([_of_value(then), _of_value(otherwise)])
        case _:
            return _of_kind(value.kind)


def _of_kind(kind: Any) -> int | None:
    match kind:
        case UnitValue():
            return 1
        case Boolean():
            return 2
        case EnumOf(cls=cls):
            members: type[enum.Enum] = cls
            return len(members)
        case _:
            return None


def _entries(table: Mapping[Any, Any], path: tuple[str | int, ...]) -> int | None:
    """How many different values a table has at a place in its rows. None of these is one of them, as it is not looked up."""
    try:
        return len({_at(row, path) for row in table.values()} if path else set(table.values()))
    except Exception:  # the author's own, of a value that has no hash
        return len(table)


def _at(row: Any, path: tuple[str | int, ...]) -> Any:
    try:
        for step in path:
            row = getattr(row, step) if isinstance(step, str) else row[step]
    except (AttributeError, LookupError, TypeError):
        return None
    return row


def _sum(some: Iterable[int | None]) -> int | None:
    total = 0
    for one in some:
        if one is None:
            return None
        total += one
    return total


def _product(some: Iterable[int | None]) -> int | None:
    total = 1
    for one in some:
        if one is None:
            return None
        total *= one
    return total
