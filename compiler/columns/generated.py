"""Trees as straight-line Python over numpy, written and compiled once: no look at the kinds of operands and results, no column
object for what lies between.

The code of a tree is right for columns in which every value is there: it looks at each column that it reads, and at what each
operation says of its results. Where a value is missing, has no number, or lies in a dictionary, the code gives up and returns
None; then the tree is evaluated node by node, which says what the first such row is. The operations are those of
:mod:`.operations` themselves, so both ways compute the same bits. What has no code (texts, tables) is evaluated within the code.
An input that had one value for all rows in the evaluations before, like the time of a marker, is a number in the code. What is
computed of numbers alone is computed as Python does it (``tracing.expr``).

A tree of two conditions looks like this, where ``rows`` are those that have come so far::

    def node_1(rows, n, leaves):
        c1 = rows.input(input_1)
        if c1.valid is not None or c1.undefined is not None: return False
        v1 = array_of(c1.storage)
        if type(v1) is not ndarray or type(c1.kind) is not type_1: return False
        v2, u = add(call_1, [v1, 1], n)
        if u is not None: return False
        v3, u = lt(call_2, [v2, 10], n)
        (yes,) = v3.nonzero()
        if len(yes) == n: return node_2(rows, n, leaves)
        if not len(yes): return node_3(rows, n, leaves)
        return node_2(rows.part(yes), len(yes), leaves) and node_3(rows.part((~v3).nonzero()[0]), n - len(yes), leaves)

Where nothing is returned, rows that would come to a leaf without emissions are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias, final

import numpy as np

from tracetypes.compiler.columns.column import Column, Struct, bare_kind, constant, struct_of_column
from tracetypes.compiler.columns.expressions import FORMS, Rows, Run
from tracetypes.compiler.columns.operations import act_of
from tracetypes.compiler.columns.pending_take import array_of
from tracetypes.compiler.columns.turns import Reached, turns_of
from tracetypes.compiler.tracing.expr import (
    Branch,
    Call,
    Const,
    Expr,
    Input,
    Kind,
    Leaf,
    Loop,
    Pack,
    Tree,
    Undefined,
    Value,
    result_of,
)
from tracetypes.compiler.tracing.operations.basic import IF
from tracetypes.records import Boolean, Date, Float, Integer, Optional, Timestamp

__all__ = ["NO_PATHS", "Code", "Inputs", "Path", "generated"]

Inputs: TypeAlias = Callable[[Input], Column]

Code: TypeAlias = Callable[[Inputs, int], "list[Reached] | None"]
"""From inputs and a number of rows, more than 0, to the leaves that rows came to; None where it gives up."""

_MOST: Final = 400
"""Nodes of a tree that gets code."""

_PLAIN: Final = (Boolean, Integer, Float, Timestamp, Date)
"""Kinds whose columns are numpy arrays."""

_OF_PYTHON: Final = frozenset({Boolean, Integer, Float})
"""Kinds whose numbers in columns are those of Python."""

_NOTHING: Final = Column(None, None)

Path: TypeAlias = tuple[str | int, ...]

NO_PATHS: Final[frozenset[Path]] = frozenset()


def generated(tree: Tree, numbers: frozenset[Path] = NO_PATHS) -> Code | None:
    """The code of a tree; None if it is too large. ``numbers``: paths of inputs that have one value for all rows."""
    try:
        if sum(1 for _ in islice(_nodes(tree), _MOST + 1)) > _MOST:
            return None
        writer = _Writer(numbers)
        writer.leaves_out = all(leaf.result is None for leaf in _leaves(tree))
        first = writer.node(tree, frozenset())
    except RecursionError:
        return None
    exec(compile("\n".join(writer.lines), "<generated from a tree>", "exec"), writer.space)
    enter = writer.space[first]

    def code(inputs: Inputs, count: int) -> list[Reached] | None:
        run, leaves = Run(inputs), list[Reached]()
        if not enter(Rows(run, count, None, None, None), count, leaves):
            return None
        run.settle(leaves)
        return leaves

    def computation(inputs: Inputs, count: int) -> list[Reached] | None:
        with np.errstate(all="ignore"):
            return code(inputs, count)

    return computation if writer.computes else code


def _nodes(tree: Tree) -> Iterator[Tree | Value]:
    yield tree
    if isinstance(tree, Branch):
        yield from _parts(tree.condition)
        yield from _nodes(tree.then)
        yield from _nodes(tree.otherwise)
        return
    for one in tree.emissions:
        if isinstance(one, Loop):
            yield from _nodes(one.body)
    for value in _values(tree):
        yield from _parts(value)


def _leaves(tree: Tree) -> Iterator[Leaf]:
    return (one for one in _nodes(tree) if isinstance(one, Leaf))


def _emits_nothing(tree: Tree) -> bool:
    """Whether rows come to their end there without an emission."""
    return isinstance(tree, Leaf) and not tree.raises and not tree.emissions


def _values(leaf: Leaf) -> Iterator[Value]:
    for one in leaf.emissions:
        if isinstance(one, Loop):
            yield from (one.start, one.stop, one.step)
            continue
        if one.key is not None:
            yield one.key
        yield one.value
    if leaf.result is not None:
        yield leaf.result


def _parts(value: Value) -> Iterator[Value]:
    yield value
    for part in value.args if isinstance(value, Call) else value.parts if isinstance(value, Pack) else ():
        yield from _parts(part)


def _plain_kind(expr: Expr) -> type[Kind] | None:
    """The kind of an expression whose values are a numpy array or a number; None for others."""
    if isinstance(expr, Call) and isinstance(expr.kind, Optional):
        return None
    kind = type(bare_kind(expr.kind))
    return kind if issubclass(kind, _PLAIN) else None


@final
class _Writer:
    """Writes the functions of a tree, one for each node. ``numbers``: paths of inputs that have one value for all rows."""

    def __init__(self, numbers: frozenset[Path] = NO_PATHS) -> None:
        self.numbers = numbers
        self.lines: list[str] = []
        self.space: dict[str, Any] = {
            "Column": Column,
            "Struct": Struct,
            "struct_of_column": struct_of_column,
            "Boolean": Boolean,
            "Undefined": Undefined,
            "result_of": result_of,
            "ndarray": np.ndarray,
            "array_of": array_of,
            "where": np.where,
            "turns_of": turns_of,
            "nothing": _NOTHING,
        }
        self.names: dict[Any, str] = {}
        self.done: dict[tuple[int, frozenset[int]], str] = {}
        self.computes = False
        """Whether an operation of numpy may warn."""
        self.leaves_out = False
        """Whether rows that come to a leaf without emissions may be left out, since nothing is returned for them."""

    def name(self, prefix: str, value: Any) -> str:
        """The name of an object in the code."""
        at = prefix, id(value)
        if at not in self.names:
            self.names[at] = f"{prefix}_{len(self.names)}"
            self.space[self.names[at]] = value
        return self.names[at]

    def node(self, tree: Tree, before: frozenset[int]) -> str:
        """Write the function of a node. ``before``: calls whose columns the rows have."""
        at = id(tree), before
        if at not in self.done:
            self.done[at] = name = f"node_{len(self.done)}"
            body = _Body(self, before)
            lines = body.branch(tree) if isinstance(tree, Branch) else body.leaf(tree)
            self.lines += [f"def {name}(rows, n, leaves):", *(f"    {line}" for line in lines)]
        return self.done[at]


def _for_some(mask: str, node: str) -> list[str]:
    """Lines that pass the rows of a mask on to a node, and leave out the others."""
    return [
        f"(some,) = {mask}.nonzero()",
        f"if len(some) == n: return {node}(rows, n, leaves)",
        f"return not len(some) or {node}(rows.part(some), len(some), leaves)",
    ]


@final
class _Body:
    """Writes the lines of a function. ``temporaries``: of expressions, by identity, and by operation and operands; ``ones``:
    those that are one value for all rows."""

    def __init__(self, writer: _Writer, before: frozenset[int]) -> None:
        self.writer, self.before = writer, before
        self.lines: list[str] = []
        self.temporaries: dict[Any, str] = {}
        self.ones = set[str]()
        self.columns: dict[Any, str] = {}
        self.computed: dict[int, tuple[str, Call]] = {}
        self.count = 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def give_up(self, when: str) -> None:
        self.lines.append(f"if {when}: return False")

    # ------------------------------------------------------------------------------------------------ nodes

    def branch(self, tree: Branch) -> list[str]:
        """A decision."""
        condition, writer = tree.condition, self.writer
        mask = None
        if _plain_kind(condition) is Boolean and not isinstance(condition, Const):
            mask = self.plain(condition)
        if mask is None or mask in self.ones:
            mask, column = None, self.column(condition)
        shared = self.shared_with(tree.then, tree.otherwise)
        then, otherwise = (writer.node(side, self.before | shared) for side in (tree.then, tree.otherwise))
        if tree.then is tree.otherwise:  # asked only whether it has a value
            return [*self.lines, f"return {then}(rows, n, leaves)"]
        if mask is None:
            self.lines += [
                f"if {column}.scalar:",
                f"    if {column}.values is True: return {then}(rows, n, leaves)",
                f"    return {column}.values is False and {otherwise}(rows, n, leaves)",
            ]
            self.give_up(f"type({column}.kind) is not Boolean")
            mask = self.fresh("v")
            self.lines.append(f"{mask} = {column}.values")
        if writer.leaves_out and _emits_nothing(tree.otherwise):
            return [*self.lines, *_for_some(mask, then)]
        if writer.leaves_out and _emits_nothing(tree.then):
            return [*self.lines, *_for_some(f"(~{mask})", otherwise)]
        return [
            *self.lines,
            f"(yes,) = {mask}.nonzero()",
            f"if len(yes) == n: return {then}(rows, n, leaves)",
            f"if not len(yes): return {otherwise}(rows, n, leaves)",
            f"if not {then}(rows.part(yes), len(yes), leaves): return False",
            f"return {otherwise}(rows.part((~{mask}).nonzero()[0]), n - len(yes), leaves)",
        ]

    def leaf(self, tree: Leaf) -> list[str]:
        """The end of a path."""
        if tree.raises:
            return ["return False"]
        emissions = []
        for one in tree.emissions:
            if isinstance(one, Loop):
                emissions.append(self.loop(one))
                continue
            key = "nothing" if one.key is None else self.columns_of(one.key)
            emissions.append(f"({key}, {self.columns_of(one.value)})")
        result = "None" if tree.result is None else self.columns_of(tree.result)
        whole = f"({self.writer.name('leaf', tree)}, rows, [{', '.join(emissions)}], {result})"
        return [*self.lines, f"leaves.append({whole})", "return True"]

    def loop(self, loop: Loop) -> str:
        """The turns of a loop."""
        bounds = ", ".join(self.column(bound) for bound in (loop.start, loop.stop, loop.step))
        body = self.writer.node(loop.body, self.before | self.shared_with(loop.body))
        turns = self.fresh("t")
        self.lines.append(f"{turns} = turns_of(rows, {self.writer.name('input', loop.turn)}, {bounds})")
        self.give_up(f"{turns}.rows.count and not {body}({turns}.rows, {turns}.rows.count, {turns}.reached)")
        return turns

    def shared_with(self, *trees: Tree) -> set[int]:
        """What is computed here and used in these trees: they find it as columns of the rows."""
        below = {id(one) for tree in trees for one in _nodes(tree)}
        shared = {at for at in self.computed if at in below}
        for at in shared:
            temporary, call = self.computed[at]
            kind = self.writer.name("kind", bare_kind(call.kind))
            self.lines.append(f"rows.known[{at}] = Column({kind}, {temporary})")
        return shared

    # ----------------------------------------------------------------------------------------------- values

    def columns_of(self, value: Value) -> str:
        """The columns of a value."""
        if not isinstance(value, Pack):
            column = self.column(value)
            return f"struct_of_column({column})" if isinstance(value, Input) and value.is_record else column
        parts = "".join(f"{self.columns_of(part)}, " for part in value.parts)
        names = self.writer.name("names", value.names)
        return f"Struct({self.writer.name('cls', value.cls)}, {names}, ({parts}))"

    def column(self, expr: Expr) -> str:
        """The column of an expression, which has a value in each row; it may be missing."""
        at = expr.path if isinstance(expr, Input) else id(expr)
        if at in self.columns:
            return self.columns[at]
        if isinstance(expr, Call) and _plain_kind(expr) is not None and (plain := self.plain(expr)) is not None:
            text = f"Column({self.writer.name('kind', bare_kind(expr.kind))}, {plain})"
        elif isinstance(expr, Input):
            text = f"rows.input({self.writer.name('input', expr)})"
        elif isinstance(expr, Const) and (one := constant(expr.value, bare_kind(expr.kind))) is not None:
            column = self.columns[at] = self.writer.name("column", one)
            return column
        else:
            text, self.writer.computes = f"rows.column({self.writer.name('expr', expr)})", True
        column = self.columns[at] = self.fresh("c")
        self.lines.append(f"{column} = {text}")
        self.give_up(f"{column}.undefined is not None")
        return column

    def plain(self, expr: Expr) -> str | None:
        """The array of an expression, or its number; None if it has no code."""
        kind = _plain_kind(expr)
        if kind is None:
            return None
        match expr:
            case Const(value):
                column = constant(value, bare_kind(expr.kind))
                if column is None or column.kind is None:
                    return None
                number = self.writer.name("const", column.values)
                self.ones.add(number)
                return number
            case Input():
                text = f"rows.input({self.writer.name('input', expr)})"
                content = self.number if expr.path in self.writer.numbers else self.array
                return content(expr.path, text, kind)
            case Call():
                if id(expr) in self.before:
                    return self.array(id(expr), f"rows.look({id(expr)})", kind)
                if id(expr) not in self.temporaries:
                    temporary = self.computation(expr, kind)
                    if temporary is None:
                        return None
                    self.temporaries[id(expr)] = temporary
                    if temporary not in self.ones:
                        self.computed[id(expr)] = temporary, expr
                return self.temporaries[id(expr)]

    def number(self, at: Any, text: str, kind: type[Kind]) -> str:
        """The one value of a column."""
        if ("number", at) not in self.temporaries:
            column, number = self.fresh("c"), self.fresh("v")
            self.lines.append(f"{column} = {text}")
            self.give_up(f"{column}.valid is not None or {column}.undefined is not None")
            self.lines.append(f"{number} = {column}.storage")
            self.give_up(f"not {column}.scalar or type({column}.kind) is not {self.writer.name('type', kind)}")
            self.temporaries["number", at] = number
            self.ones.add(number)
        return self.temporaries["number", at]

    def of_numbers(self, call: Call, kind: type[Kind], args: list[str]) -> str:
        """What an operation gives for numbers."""
        if not {kind, *(_plain_kind(arg) for arg in call.args)} <= _OF_PYTHON:
            self.writer.computes = True
            return self.number(id(call), f"rows.column({self.writer.name('expr', call)})", kind)
        number = self.fresh("v")
        self.lines += [
            f"try: {number} = result_of({self.writer.name('call', call)}, [{', '.join(args)}])",
            "except Undefined: return False",
        ]
        self.ones.add(number)
        return number

    def array(self, at: Any, text: str, kind: type[Kind]) -> str:
        """The array of a column that is there already."""
        if ("array", at) not in self.temporaries:
            column, array = self.fresh("c"), self.fresh("v")
            self.lines.append(f"{column} = {text}")
            self.give_up(f"{column}.valid is not None or {column}.undefined is not None")
            self.lines.append(f"{array} = array_of({column}.storage)")
            self.give_up(f"type({array}) is not ndarray or type({column}.kind) is not {self.writer.name('type', kind)}")
            self.temporaries["array", at] = array
        return self.temporaries["array", at]

    def computation(self, call: Call, kind: type[Kind]) -> str | None:
        """The array that an operation computes."""
        if (call.op in FORMS and call.op is not IF) or all(isinstance(arg, Const) for arg in call.args):
            return None
        kinds = [_plain_kind(arg) for arg in call.args]
        if None in kinds:
            return None
        if call.op is IF:
            if kinds[0] is not Boolean or isinstance(call.args[0], Const) or kinds[1] is not kinds[2]:
                return None
            if self.plain(call.args[0]) in self.ones:
                return None
        elif (call.op.of_one_kind and len(set(kinds)) > 1) or self.act_of(call) is None:
            return None
        args = [self.plain(arg) for arg in call.args]
        if None in args:
            return None
        if self.ones.issuperset(args):
            return self.of_numbers(call, kind, list(map(str, args)))
        equal = call.op, *args, call.kind
        if equal in self.temporaries:
            return self.temporaries[equal]
        array = self.temporaries[equal] = self.fresh("v")
        if call.op is IF:
            self.lines.append(f"{array} = where({', '.join(map(str, args))})")
            return array
        act, node = self.writer.name("act", self.act_of(call)), self.writer.name("call", call)
        self.writer.computes = True
        self.lines.append(f"{array}, u = {act}({node}, [{', '.join(map(str, args))}], n)")
        self.give_up("u is not None")
        return array

    @staticmethod
    def act_of(call: Call) -> Any:
        """The operation of a call, as it is chosen node by node."""
        return act_of(call.op, type(bare_kind(call.args[0].kind)))
