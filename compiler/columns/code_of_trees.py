"""Which trees have code (:mod:`.generated`): those that were evaluated a few times. And trees that only put inputs together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

from tracetypes.compiler.columns.arrow import never_refuses
from tracetypes.compiler.columns.column import Column, Columns, Struct, bare_kind, constant
from tracetypes.compiler.columns.generated import NO_PATHS, Code, Inputs, Path, generated
from tracetypes.compiler.tracing.expr import Const, Input, Leaf, Pack, Tree, Value
from tracetypes.records import Record

__all__ = ["code_of", "learn", "plain_result"]

Plain: TypeAlias = Callable[[Inputs], "Columns | None"]

CALLS: Final = 4
"""Evaluations of a tree before it gets code."""


@final
class _Waiting:
    """Counts the evaluations of a tree until it gets code. ``numbers``: paths of the inputs that had one value for all rows in
    each evaluation node by node; ``others``: of those that had not."""

    __slots__ = ("calls", "code", "numbers", "others", "plain", "tree")

    def __init__(self, tree: Tree, plain: Plain | None) -> None:
        self.tree = tree
        self.calls = 0
        self.code: Code | None = None
        self.numbers = self.others = NO_PATHS
        self.plain = plain


_MOST_WAITING: Final = 2048

_all_waiting: dict[int, _Waiting] = {}
"""By the identity of their trees, which they keep alive."""


def _waiting(tree: Tree) -> _Waiting:
    if (waiting := _all_waiting.get(id(tree))) is None:
        is_plain = isinstance(tree, Leaf) and not tree.raises and not tree.emissions and tree.result is not None
        waiting = _Waiting(tree, _plain(tree.result) if is_plain else None)  # type: ignore[union-attr, arg-type]
        if len(_all_waiting) >= _MOST_WAITING:
            _all_waiting.clear()
        _all_waiting[id(tree)] = waiting
    return waiting


def _plain(value: Value) -> Plain | None:
    """What computes a value that is put together from inputs and constants; None for any other."""
    match value:
        case Input() as one:

            def find(inputs: Inputs) -> Column | None:
                column = inputs(one)
                return column if column.undefined is None else None

            return find
        case Const(number, kind):
            column = constant(number, bare_kind(kind))
            return None if column is None else lambda _: column
        case Pack(cls, names, parts) if cls is tuple or never_refuses(Record(cls, ())):
            inner = [_plain(part) for part in parts]

            def together(inputs: Inputs) -> Struct | None:
                columns = tuple([None if one is None else one(inputs) for one in inner])
                return None if None in columns else Struct(cls, names, columns)

            return None if None in inner else together
        case _:
            return None


def plain_result(tree: Tree) -> Plain | None:
    """What computes the result of a tree that only puts inputs and constants together; None for any other tree. It answers with
    None where an input has no value in each row."""
    return _waiting(tree).plain


def code_of(tree: Tree) -> Code | None:
    """The code of a tree; None where it has none, or was not evaluated often enough."""
    waiting = _waiting(tree)
    if waiting.calls <= CALLS:
        waiting.calls += 1
        if waiting.calls > CALLS:
            waiting.code = generated(tree, waiting.numbers)
    return waiting.code


def learn(tree: Tree, columns: Mapping[Path, Column]) -> None:
    """Which inputs have one value for all rows. ``columns``: what was read in an evaluation node by node, by path. Code that took
    an input for something else gave up, and is written anew."""
    waiting = _waiting(tree)
    ones = {path for path, column in columns.items() if column.kind is not None and column.scalar}
    others = waiting.others | (columns.keys() - ones)
    numbers = (waiting.numbers | ones) - others
    waiting.others = others
    if numbers != waiting.numbers:
        waiting.numbers = numbers
        if waiting.code is not None:
            waiting.code = generated(tree, numbers)
