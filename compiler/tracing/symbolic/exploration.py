"""Exploration: every way through a function, or through the body of a loop, as a tree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from typing import Any, TypeAlias

from tracetypes.compiler.tracing.expr import Branch, Call, Emission, Leaf, Loop, Tree, Value, is_same
from tracetypes.compiler.tracing.kinds import BOOLEAN
from tracetypes.compiler.tracing.operations.basic import EQ
from tracetypes.compiler.tracing.symbolic.expressions import Expressions
from tracetypes.compiler.tracing.symbolic.paths import TracePath, reach

__all__ = ["Once", "explored"]

Once: TypeAlias = Callable[[tuple[bool, ...]], Generator[Any, None, tuple[TracePath, Leaf]]]
"""Runs one way: takes the decisions that it is given, and then the outcome True. The body of a loop runs where this yields."""


def explored(
    tracer: Expressions, once: Once, *, sure: Collection[int] = (), what: str = "takes more than {} ways"
) -> Generator[Any, None, Tree]:
    """All ways, depth first, the outcome True before False, each run twice. ``sure``: what surely has a value, by identity;
    ``what``: the reason to refuse more ways than the limit of the tracer."""
    left = tracer.limit

    def from_here(forced: tuple[bool, ...]) -> Generator[Any, None, Tree]:
        nonlocal left
        if not left:
            tracer.refuse(what.format(tracer.limit))
        left -= 1
        path, leaf = yield from once(forced)
        again, other = yield from once(tuple(branch for _, branch in path.trail))
        ended = leaf.raises or len(path.trail) >= len(forced)
        if not ended or [id(c) for c, _ in path.trail] != [id(c) for c, _ in again.trail] or not _same(leaf, other):
            tracer.refuse("is not deterministic: two runs of the same path differ")
        tree = _guarded(tracer, path, leaf, sure)
        for at in reversed(range(len(forced), len(path.trail))):
            before = tuple(branch for _, branch in path.trail[:at])
            tree = Branch(path.trail[at][0], tree, (yield from from_here((*before, False))))
        return tree

    return (yield from from_here(()))


def _guarded(tracer: Expressions, path: TracePath, leaf: Leaf, sure: Collection[int]) -> Tree:
    """What Python computed for nothing may still have raised: then the path must not give an answer."""
    if leaf.raises or not path.partial:
        return leaf
    reached = set(sure)
    for value in (*(condition for condition, _ in path.trail), *_always(leaf)):
        reach(value, reached)
    tree: Tree = leaf
    for expr in reversed(path.partial.values()):
        if id(expr) not in reached:
            reach(expr, reached)
            tree = Branch(tracer.intern(Call(EQ, (expr, expr), BOOLEAN)), tree, tree)
    return tree


def _always(leaf: Leaf) -> Iterable[Value]:
    """What is evaluated whenever a leaf is: of a loop its bounds."""
    for one in leaf.emissions:
        if isinstance(one, Loop):
            yield from (one.start, one.stop, one.step)
            continue
        if one.key is not None:
            yield one.key
        yield one.value
    if leaf.result is not None:
        yield leaf.result


def _same(a: Tree, b: Tree) -> bool:
    match a, b:
        case Branch(), Branch():
            return a.condition is b.condition and _same(a.then, b.then) and _same(a.otherwise, b.otherwise)
        case Leaf(), Leaf():
            emissions = len(a.emissions) == len(b.emissions) and all(map(_same_emission, a.emissions, b.emissions))
            return a.raises == b.raises and emissions and is_same(a.result, b.result)
        case _:
            return False


def _same_emission(a: Emission | Loop, b: Emission | Loop) -> bool:
    match a, b:
        case Emission(), Emission():
            return is_same(a.key, b.key) and is_same(a.value, b.value)
        case Loop(), Loop():
            bounds = a.start is b.start and a.stop is b.stop and a.step is b.step and a.turn is b.turn
            return bounds and _same(a.body, b.body)
        case _:
            return False
