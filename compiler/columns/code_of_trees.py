"""Which trees have code (:mod:`.generated`): those that were evaluated a few times. And trees that only put inputs together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

from tracetypes.compiler.columns.column import Column, Columns, Struct, bare_kind, constant, struct_of_column
from tracetypes.compiler.columns.generated import NO_PATHS, Code, Inputs, Path, generated
from tracetypes.compiler.tracing.expr import Const, Input, Leaf, Pack, Tree, Value

__all__ = ["code_of", "learn", "plain_result"]

Plain: TypeAlias = Callable[[Inputs], "Columns | None"]

CALLS: Final = 4
"""Evaluations of a tree before it gets code."""


@final
class _Waiting:
    """Counts the evaluations of a tree until it gets code, and keeps the code. ``numbers``: paths of inputs that had one value
    for all rows in each evaluation node by node; ``others``: of those that once had not. ``version``: the code, and the numbers
    that it is for."""

    __slots__ = ("calls", "numbers", "others", "plain", "tree", "version")

    def __init__(self, tree: Tree, plain: Plain | None) -> None:
        self.tree = tree
        self.calls = 0
        self.version: tuple[frozenset[Path], Code | None] | None = None
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

            def find(inputs: Inputs) -> Columns | None:
                column = inputs(one)
                if column.undefined is not None:
                    return None
                return struct_of_column(column) if one.is_record else column

            return find
        case Const(number, kind):
            column = constant(number, bare_kind(kind))
            return None if column is None else lambda _: column
        case Pack(cls, names, parts):
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
            numbers = waiting.numbers
            waiting.version = numbers, generated(tree, numbers)
    return None if waiting.version is None else waiting.version[1]


def learn(tree: Tree, columns: Mapping[Path, Column]) -> None:
    """Note which inputs have one value for all rows. ``columns``: what an evaluation node by node has read, by path. Code that
    took an input for something else has given up, and is written anew. Of two threads at once, one may be forgotten: the code
    gives up again then, and this is called again."""
    waiting = _waiting(tree)
    single = {path for path, column in columns.items() if column.kind is not None and column.scalar}
    waiting.others |= columns.keys() - single
    waiting.numbers = numbers = (waiting.numbers | single) - waiting.others
    if waiting.version is not None and waiting.version[0] != numbers and waiting.version[1] is not None:
        waiting.version = numbers, generated(tree, numbers)
