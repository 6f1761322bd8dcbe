"""An ordered operator as machine code: a loop over the items of each key, with its state in registers.

The code takes one key after the other, as the sequential algorithm does, and writes emissions into arrays. It leaves the loop
where an item has no value there, and where the arrays are full; then it gets new ones, and goes on.

What is no number, such as a text, is passed on as a place in a **pool**: all columns of its kind that the trees read, one behind
the other. Two texts are compared by numbers that the pool has for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.analysis.ordered_form import StateKind
from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values, inputs_of
from tracetypes.compiler.columns.conditionals import constant_column
from tracetypes.compiler.columns.evaluation import evaluate
from tracetypes.compiler.columns.machine.code import MachineCode, MachineFunction
from tracetypes.compiler.columns.machine.trees import NotMachine, Operand, Writer, is_number, zero
from tracetypes.compiler.columns.ordering import ranks
from tracetypes.compiler.columns.pending_take import taken
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.tracing.expr import (
    Branch,
    Call,
    Const,
    Emission,
    Exact,
    Expr,
    Input,
    Kind,
    Leaf,
    Loop,
    Pack,
    Tree,
    Undefined,
    Value,
)
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import UNIT, Boolean, Bytes, Float, Integer, Optional, Record, String, UnitValue

__all__ = ["MachineLoop", "machine_loop"]

MARKERS: Final = 1_000_000
"""Markers at once at most."""

TURNS: Final = 50_000_000
"""Turns of a loop at most."""

FULL: Final = 2

NO_VALUE: Final = 1


@attrs.frozen
class Scalar:
    """A part of a state or of what is emitted. ``path``: its places; ``kind``: without Optional."""

    path: tuple[int, ...]
    kind: Kind | None


@attrs.frozen
class Shape:
    """A structure as scalars, and the paths of its optional parts."""

    scalars: tuple[Scalar, ...]
    flags: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, kind: StateKind) -> Shape:
        """Of a kind."""
        scalars: list[Scalar] = []
        flags: list[tuple[int, ...]] = []

        def visit(one: StateKind, path: tuple[int, ...]) -> None:
            if isinstance(one, Optional):
                flags.append(path)
                visit(one.item, path)
            elif isinstance(one, Record):
                for at, (_, inner) in enumerate(one.fields):
                    visit(inner, (*path, at))
            elif one is not None and not isinstance(one, UnitValue):
                scalars.append(Scalar(path, one))

        visit(kind, ())
        return cls(tuple(scalars), tuple(flags))


def _name(prefix: str, path: tuple[int, ...]) -> str:
    return "_".join((prefix, *map(str, path)))


def _type_of(kind: Kind | None) -> str:
    return "float64" if isinstance(kind, Float) else "uint8" if isinstance(kind, Boolean) else "int64"


def _dtype(kind: Kind | None) -> Any:
    return np.dtype(_type_of(kind))


def machine_loop(ordered: Ordered) -> MachineLoop | None:
    """The loop of an operator; None where it has no machine code."""
    try:
        return MachineLoop(ordered)
    except NotMachine:
        return None


@final
class MachineLoop:
    """Machine code of an operator: its source, and the arrays that it takes."""

    def __init__(self, ordered: Ordered) -> None:
        self.ordered = ordered
        self.state, self.out = Shape.of(ordered.state), Shape.of(ordered.gives)
        self.columns: dict[tuple[str, Any], tuple[Input | Call, int]] = {}
        """Inputs that are numbers, and expressions that are computed beforehand: by name and path, or identity."""
        self.variables = 0
        self.pools: dict[Kind, dict[Any, tuple[Expr, str]]] = {}
        """By kind, what a pool has: the expressions, each with the argument that says where its column begins."""
        self.numbers: set[str] = set()
        """How texts are compared: ``q`` for equal ones, ``r`` for their order."""
        self.flags: set[int] = set()
        """Columns whose validity is read."""
        self.source = self._source()
        self.code = MachineCode(self.source, tuple(self._arguments()))

    # ------------------------------------------------------------------------------------------------ source

    def _source(self) -> str:
        ordered = self.ordered
        room = max(_most(ordered.on_item), 0 if ordered.on_marker is None else _most(ordered.on_marker))
        body: list[str] = []
        if ordered.on_marker is not None:
            body += self._markers(ordered.on_marker, ordered.due)
        body += ["            if i >= stop:", "                break"]
        body += [f"            if o + {room} > cap:", "                why = 2", "                break"]
        body += ["            row = i", "            block = ends[i]"]
        body += self._tree(ordered.on_item, 3)
        body += ["            i += 1"]
        names = [_name("s", one.path) for one in self.state.scalars]
        flags = [_name("f", path) for path in self.state.flags]
        pairs = zip(names, self.state.scalars, strict=True)
        load = [f"        {name} = {self._read(f'{name}_', 'k', one.kind)}" for name, one in pairs]
        load += [f"        {flag} = {flag}_[k] != 0" for flag in flags]
        store = [f"        {name}_[k] = {name}" for name in names] + [f"        {flag}_[k] = {flag}" for flag in flags]
        return "\n".join(
            [
                f"def kernel({', '.join(name for name, _ in self._named())}):",
                "    k = at[0]",
                "    i = at[1]",
                "    m = at[2]",
                "    o = int64(0)",
                "    why = int64(0)",
                "    not_a_number = float64(1e308) * 10.0 - float64(1e308) * 10.0",
                "    while k < number and why == 0:",
                "        if i < 0:",
                "            i = starts[k]",
                "            m = int64(0)",
                "            high = markers",
                "            while m < high:",
                "                middle = (m + high) // 2",
                "                if marks[middle] < first[k]:",
                "                    m = middle + 1",
                "                else:",
                "                    high = middle",
                "        stop = starts[k + 1]",
                *load,
                "        while True:",
                *body,
                *store,
                "        if why == 0:",
                "            k += 1",
                "            i = int64(-1)",
                "    at[0] = k",
                "    at[1] = i",
                "    at[2] = m",
                "    at[3] = o",
                "    return why",
                "",
            ]
        )

    @staticmethod
    def _read(column: str, place: str, kind: Kind | None) -> str:
        return f"({column}[{place}] != 0)" if isinstance(kind, Boolean) else f"{column}[{place}]"

    def _markers(self, on_marker: Tree, due: Tree | None) -> list[str]:
        """A marker that lies before the next item, and is due. ``m``: the first marker that is not taken."""
        lines = ["            last = ends[i] if i < stop else int64(9223372036854775807)", "            low = m"]
        if due is not None:
            lines += ["            due = int64(9223372036854775807)", *self._due(due)]
            lines += ["            if why != 0:", "                break", "            if due >= last:"]
            lines += ["                low = markers", "            high = markers", "            while low < high:"]
            lines += ["                middle = (low + high) // 2", "                if marks[middle] < due:"]
            lines += ["                    low = middle + 1", "                else:", "                    high = middle"]
        lines += ["            if low < markers and marks[low] < last:"]
        room = _most(on_marker)
        lines += [f"                if o + {room} > cap:", "                    why = 2", "                    break"]
        lines += ["                block = marks[low]", "                row = int64(-1)"]
        lines += self._tree(on_marker, 4)
        lines += ["                m = low + 1", "                continue"]
        return lines

    def _due(self, due: Tree) -> list[str]:
        """``next_due``: its leaves set ``due``."""

        def leaf(writer: Writer, one: Leaf, known: dict[int, Operand]) -> None:
            assert one.result is not None
            assert not isinstance(one.result, Pack)
            if not (isinstance(one.result, Const) and one.result.value is None):
                operand = writer.expr(one.result, known)
                if operand.there is not None:
                    writer.begin(f"if {operand.there}:")
                writer.put(f"due = int64({operand.text})")
                if operand.there is not None:
                    writer.end()

        writer = Writer(self._input, self._aside, self._text, leaf, 4, self.variables)
        writer.tree(due, {})
        self.variables = writer.count
        # A loop around it, of one turn: giving up leaves that, and then the outer one.
        return ["            while True:", *writer.lines, "                break"]

    def _tree(self, tree: Tree, depth: int) -> list[str]:
        writer = Writer(self._input, self._aside, self._text, self._leaf, depth, self.variables)
        writer.tree(tree, {})
        self.variables = writer.count
        self.numbers |= writer.numbers
        return writer.lines

    def _leaf(self, writer: Writer, leaf: Leaf, known: dict[int, Operand]) -> None:
        """Write emissions, and the new state."""
        if leaf.result is None:
            raise NotMachine("no state")
        state = self._assigned(writer, self.ordered.state, leaf.result, known)
        emitted = [
            self._turns(writer, one, known)
            if isinstance(one, Loop)
            else self._assigned(writer, self.ordered.gives, one.value, known)
            for one in leaf.emissions
        ]
        if any(isinstance(one, Loop) for one in leaf.emissions):
            writer.put("before = o")
        for one, texts in zip(leaf.emissions, emitted, strict=True):
            if isinstance(one, Loop):
                self._loop(writer, one, texts[0], known)
            else:
                self._emit(writer, texts)
        moved = [(name, text) for name, text in state if name != text]
        if len(moved) > 1:
            writer.put(f"{', '.join(name for name, _ in moved)} = {', '.join(text for _, text in moved)}")
        elif moved:
            writer.put(f"{moved[0][0]} = {moved[0][1]}")

    @staticmethod
    def _emit(writer: Writer, texts: Sequence[tuple[str, str]]) -> None:
        for name, text in texts:
            writer.put(f"{'e' if name[0] == 's' else 'g'}{name[1:]}_[o] = {text}")
        writer.put("code[o] = k")
        writer.put("until[o] = block")
        writer.put("o += 1")

    def _turns(self, writer: Writer, loop: Loop, known: dict[int, Operand]) -> Sequence[tuple[str, str]]:
        """Look whether there is room for what a loop emits; its bounds, as text."""
        if not isinstance(loop.step, Const) or type(loop.step.value) is not int or not loop.step.value:
            raise NotMachine("a step that is no constant")
        step, most = loop.step.value, _most(loop.body)
        start, stop = (writer.fresh(writer.present(writer.expr(one, known))) for one in (loop.start, loop.stop))
        low, high = (start, stop) if step > 0 else (stop, start)
        turns = writer.fresh("int64(0)")
        writer.begin(f"if {high} > {low}:")
        writer.put(f"{turns}, over = sub_over({high}, {low})")
        writer.give_up("over")
        writer.put(f"{turns} = ({turns} - 1) // {abs(step)} + 1")
        writer.end()
        writer.give_up(f"{turns} > {TURNS}")
        writer.begin(f"if {turns} * {most} + {_most(self.ordered.on_item)} > cap - o:")
        writer.put("why = 2")
        writer.put("break")
        writer.depth -= 1
        return [(f"range({start}, {stop}, {step})", "")]

    def _loop(self, writer: Writer, loop: Loop, bounds: tuple[str, str], known: dict[int, Operand]) -> None:
        """Write the turns of a loop. Giving up takes back what the item has emitted."""
        writer.begin(f"for turn_{loop.turn.path[1]} in {bounds[0]}:")
        writer.at_leaf = self._turn
        writer.tree(loop.body, dict(known))
        writer.at_leaf = self._leaf
        writer.end()
        writer.begin("if why != 0:")
        writer.put("o = before")
        writer.put("break")
        writer.depth -= 1

    def _turn(self, writer: Writer, leaf: Leaf, known: dict[int, Operand]) -> None:
        """Write the emissions of a turn."""
        for one in leaf.emissions:
            if isinstance(one, Loop):
                raise NotMachine("a loop in a loop")
        texts = [
            self._assigned(writer, self.ordered.gives, one.value, known) for one in leaf.emissions if isinstance(one, Emission)
        ]
        for one_of_them in texts:
            self._emit(writer, one_of_them)

    def _assigned(
        self, writer: Writer, kind: StateKind, value: Value, known: dict[int, Operand]
    ) -> Sequence[tuple[str, str]]:
        """The scalars and flags of a structure, each with what it becomes, as text."""
        scalars: list[tuple[str, str]] = []
        flags: list[tuple[str, str]] = []

        def nothing(one: StateKind, path: tuple[int, ...]) -> None:
            """None: its scalars mean nothing."""
            if isinstance(one, Optional):
                flags.append((_name("f", path), "False"))
                nothing(one.item, path)
            elif isinstance(one, Record):
                for at, (_, inner) in enumerate(one.fields):
                    nothing(inner, (*path, at))
            elif one is not None and not isinstance(one, UnitValue):
                scalars.append((_name("s", path), zero(one)))

        def visit(one: StateKind, path: tuple[int, ...], given: Value) -> None:
            if one is None or isinstance(one, UnitValue):
                return
            if isinstance(one, Optional):
                if isinstance(given, Const) and given.value is None:
                    nothing(one, path)
                    return
                if isinstance(given, Pack):
                    flags.append((_name("f", path), "True"))
                    visit(one.item, path, given)
                    return
                operand = self._scalar(writer, one.item, given, known)
                flags.append((_name("f", path), operand.there or "True"))
                scalars.append((_name("s", path), zero(one.item) if operand.text == "None" else operand.text))
                return
            if isinstance(one, Record):
                if not isinstance(given, Pack) or len(given.parts) != len(one.fields) or given.cls is not one.cls:
                    raise NotMachine("another structure")
                for at, ((_, inner), part) in enumerate(zip(one.fields, given.parts, strict=True)):
                    visit(inner, (*path, at), part)
                return
            if isinstance(given, Pack):
                raise NotMachine("another structure")
            scalars.append((_name("s", path), writer.present(self._scalar(writer, one, given, known))))

        visit(kind, (), value)
        return (*scalars, *flags)

    def _scalar(self, writer: Writer, kind: Any, given: Expr, known: dict[int, Operand]) -> Operand:
        """A scalar for a place of a kind."""
        if isinstance(kind, Record):
            raise NotMachine("a record that is passed on whole")
        bare = given.kind.item if isinstance(given.kind, Optional) else given.kind
        operand = writer.expr(given, known)
        if isinstance(kind, Float) and isinstance(bare, Integer):
            return Operand(f"float64({operand.text})", operand.there)
        if bare is not None and bare != kind:
            raise NotMachine("another kind")
        return operand

    # ------------------------------------------------------------------------------------------------ inputs

    def _input(self, writer: Writer, leaf: Input) -> Operand:
        """An input as an operand."""
        name, *steps = leaf.path
        bare = leaf.kind.item if isinstance(leaf.kind, Optional) else leaf.kind
        if name == "marker":
            return Operand("block")
        if name == "turn":
            return Operand(f"turn_{steps[0]}")
        if name == "state":
            path, kind = self._state_path(steps)
            there = _name("f", path) if path in self.state.flags else None
            if isinstance(kind, Record):
                return Operand("None", there)
            return Operand(_name("s", path), there)
        if isinstance(bare, Record):
            return Operand("None", self._column(leaf, "row" if name == "value" else "k", flag=True).there)
        return self._column(leaf, "row" if name == "value" else "k", flag=isinstance(leaf.kind, Optional))

    def _state_path(self, steps: list[str | int]) -> tuple[tuple[int, ...], StateKind]:
        kind: StateKind = self.ordered.state
        path: tuple[int, ...] = ()
        for step in steps:
            kind = kind.item if isinstance(kind, Optional) else kind
            assert isinstance(kind, Record)
            names = [name for name, _ in kind.fields]
            path = (*path, names.index(step))  # type: ignore[arg-type]
            kind = kind.fields[path[-1]][1]
        return path, kind.item if isinstance(kind, Optional) else kind

    def _column(self, expr: Input | Call, place: str, *, flag: bool) -> Operand:
        key = ("input", expr.path) if isinstance(expr, Input) else ("aside", id(expr))
        if key not in self.columns:
            self.columns[key] = expr, len(self.columns)
        number = self.columns[key][1]
        if flag:
            self.flags.add(number)
        bare = expr.kind.item if isinstance(expr.kind, Optional) else expr.kind
        there = f"(p{number}[{place}] != 0)" if flag else None
        return Operand(self._read(f"c{number}", place, bare) if is_number(bare) else "None", there)

    def _aside(self, writer: Writer, call: Call) -> Operand:
        """An expression of the value alone, computed over columns beforehand."""
        if not _is_of_value(call):
            raise NotMachine("no operation of machine code")
        return self._column(call, "row", flag=isinstance(call.kind, Optional))

    def _text(self, writer: Writer, expr: Expr) -> Operand:
        """What is no number, as a place in the pool of its kind."""
        bare: Any = expr.kind.item if isinstance(expr.kind, Optional) else expr.kind
        if isinstance(expr, Input) and (expr.path[0] == "state" or isinstance(bare, Record)):
            return self._input(writer, expr)
        if isinstance(bare, Record | UnitValue | Exact):
            raise NotMachine("no scalar")
        match expr:
            case Const(value):
                return Operand(self._in_pool(bare, ("constant", value), expr))
            case Input(path):
                base, place = self._in_pool(bare, ("input", path), expr), "row" if path[0] == "value" else "k"
            case Call():
                if not _is_of_value(expr):
                    raise NotMachine("no operation of machine code")
                base, place = self._in_pool(bare, ("aside", id(expr)), expr), "row"
        there = self._column(expr, place, flag=True).there if isinstance(expr.kind, Optional) else None
        return Operand(f"({base} + {place})", there)

    def _in_pool(self, kind: Kind, key: Any, expr: Expr) -> str:
        """The argument that says where the column of an expression begins in the pool of its kind."""
        pool = self.pools.setdefault(kind, {})
        if key not in pool:
            pool[key] = expr, f"b{sum(map(len, self.pools.values()))}"
        return pool[key][1]

    def _named(self) -> Iterator[tuple[str, str]]:
        """The arguments and their types."""
        yield from (("number", "int64"), ("starts", "const int64*"), ("ends", "const int64*"), ("at", "int64*"))
        yield from (("first", "const int64*"), ("markers", "int64"), ("marks", "const int64*"), ("cap", "int64"))
        yield from (("code", "int64*"), ("until", "int64*"))
        for one in self.state.scalars:
            yield _name("s", one.path) + "_", _type_of(one.kind) + "*"
        for path in self.state.flags:
            yield _name("f", path) + "_", "uint8*"
        for one in self.out.scalars:
            yield _name("e", one.path) + "_", _type_of(one.kind) + "*"
        for path in self.out.flags:
            yield _name("g", path) + "_", "uint8*"
        for pool in self.pools.values():
            for _, base in pool.values():
                yield base, "int64"
        for name in sorted(self.numbers):
            yield name, "const int64*"
        for expr, number in self.columns.values():
            bare = expr.kind.item if isinstance(expr.kind, Optional) else expr.kind
            if is_number(bare):
                yield f"c{number}", f"const {_type_of(bare)}*"
            if number in self.flags:
                yield f"p{number}", "const uint8*"

    def _arguments(self) -> list[str]:
        return [type_ for _, type_ in self._named()]

    # --------------------------------------------------------------------------------------------------- run

    def run(
        self, function: MachineFunction, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Any, Any, Columns]:
        """Take items and markers. ``first``: the time (int64) from which each key takes markers. Gives the states afterwards, and
        of each emission the key (int64), the end of its block (int64) and its value. Raises :class:`Undefined`."""
        number, marks = len(first), np.zeros(0, np.int64)
        if self.ordered.on_marker is not None:
            if len(markers) > MARKERS:
                raise Undefined(0)
            marks = np.fromiter(markers, np.int64, len(markers))
        starts = np.full(number + 1, items.count)
        starts[: items.number + 1] = items.starts
        pools = Pools(self._pool_kinds())
        scalars = [_array(states, one.path, one.kind, number, pools) for one in self.state.scalars]
        flags = [_flag(states, path, number) for path in self.state.flags]
        columns: list[Any] = list(self._bases(items, keys, number, pools))
        columns += [pools.numbers(name) for name in sorted(self.numbers)]
        columns += self._read_columns(items, keys, number)
        at = np.array([0, -1, 0, 0], np.int64)
        cap, progress = max(items.count + number, 1024), (0, -1)
        chunks: list[tuple[Any, Any, list[Any], list[Any]]] = []
        while True:
            code, until = np.empty(cap, np.int64), np.empty(cap, np.int64)
            outs = [np.empty(cap, _dtype(one.kind)) for one in self.out.scalars]
            gates = [np.empty(cap, np.uint8) for _ in self.out.flags]
            arrays = *scalars, *flags, *outs, *gates, *columns
            why = function(number, starts, items.ends, at, first, len(marks), marks, cap, code, until, *arrays)
            if why == NO_VALUE:
                raise Undefined(0)
            count = int(at[3])
            chunks.append((code[:count], until[:count], [one[:count] for one in outs], [one[:count] for one in gates]))
            if why != FULL:
                break
            if not count and (int(at[0]), int(at[1])) == progress:  # one item needs more
                cap *= 4
            progress = int(at[0]), int(at[1])
        codes, untils = (np.concatenate([chunk[place] for chunk in chunks]) for place in (0, 1))
        outs = [np.concatenate([chunk[2][place] for chunk in chunks]) for place in range(len(self.out.scalars))]
        gates = [np.concatenate([chunk[3][place] for chunk in chunks]) for place in range(len(self.out.flags))]
        after = _built(self.ordered.state, self.state, scalars, flags, pools)
        return after, codes, untils, _built(self.ordered.gives, self.out, outs, gates, pools)

    def _pool_kinds(self) -> set[Kind]:
        kinds = {one.kind for one in (*self.state.scalars, *self.out.scalars) if one.kind is not None and not is_number(one.kind)}
        return kinds | self.pools.keys()

    def _bases(self, items: OrderedItems, keys: Columns, number: int, pools: Pools) -> Iterator[int]:
        """Where the column of each expression begins in its pool."""
        find = inputs_of({"value": items.values, "key": keys})
        for kind, some in self.pools.items():
            for expr, _ in some.values():
                match expr:
                    case Const():
                        yield pools.add(kind, constant_column(expr, 1), 1)
                    case Input(path):
                        yield pools.add(kind, find(expr), number if path[0] == "key" else items.count)
                    case Call():
                        yield pools.add(kind, evaluate(expr, find, items.count), items.count)

    def _read_columns(self, items: OrderedItems, keys: Columns, number: int) -> Iterator[Any]:
        find = inputs_of({"value": items.values, "key": keys})
        for expr, place in self.columns.values():
            by_key = isinstance(expr, Input) and expr.path[0] == "key"
            count = number if by_key else items.count
            column: Any = find(expr) if isinstance(expr, Input) else evaluate(expr, find, count)
            bare = expr.kind.item if isinstance(expr.kind, Optional) else expr.kind
            if is_number(bare):
                if column.kind is not None and type(column.kind) is not type(bare):
                    raise Undefined(0)
                if column.kind is None:
                    yield np.zeros(count, _dtype(bare))
                else:
                    values = full_values(column, count)
                    yield np.ascontiguousarray(values.view(np.uint8) if values.dtype == np.bool_ else values)
            if place in self.flags:
                if column.kind is None:
                    yield np.zeros(count, np.uint8)
                elif column.valid is None:
                    yield np.ones(count, np.uint8)
                else:
                    yield np.ascontiguousarray(column.valid).view(np.uint8)


def _most(tree: Tree) -> int:
    """The most emissions of a row."""
    if isinstance(tree, Branch):
        return max(_most(tree.then), _most(tree.otherwise))
    return len(tree.emissions)


def _is_of_value(expr: Expr) -> bool:
    """Whether it follows from the value alone."""
    if isinstance(expr, Input):
        return expr.path[0] == "value"
    return not isinstance(expr, Call) or all(map(_is_of_value, expr.args))


# ------------------------------------------------------------------------------------------------------- arrays


def _at(columns: Columns | None, path: tuple[int, ...]) -> Columns | None:
    """The part at a path; None where all around it is None."""
    for step in path:
        if not isinstance(columns, Struct):
            return None
        columns = columns.parts[step]
    return columns


@final
class Pools:
    """Columns of some kinds, one behind the other."""

    def __init__(self, kinds: set[Kind]) -> None:
        self.parts: dict[Kind, list[Any]] = {kind: [] for kind in kinds}
        self.counts = dict.fromkeys(kinds, 0)
        self.whole: dict[Kind, Any] = {}

    def add(self, kind: Kind, columns: Columns, count: int) -> int:
        """Add a column; where it begins."""
        if not isinstance(columns, Column) or (columns.kind is not None and columns.kind != kind):
            raise Undefined(0)
        start = self.counts[kind]
        if columns.kind is not None:
            values = full_values(columns, count)
            self.parts[kind].append(values)
            self.counts[kind] += len(values)
        return start

    def values(self, kind: Kind) -> Any:
        """All of a kind. There is one row at least, for what is None."""
        if kind not in self.whole:
            schema: Any = kind
            parts = self.parts[kind]
            if not self.counts[kind]:
                filler = {String: "", Bytes: b""}.get(type(schema))
                parts = [pa.array([filler], arrow_type(schema))]
            self.whole[kind] = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return self.whole[kind]

    def numbers(self, name: str) -> Any:
        """Numbers (int64) of texts: for ``q`` equal ones have the same, for ``r`` they are in their order."""
        texts = self.values(String())
        if name == "r":
            return ranks(texts)
        return texts.dictionary_encode().indices.to_numpy().astype(np.int64)


def _array(states: Columns, path: tuple[int, ...], kind: Kind | None, count: int, pools: Pools) -> Any:
    """A scalar of states as an array that may be changed."""
    part = _at(states, path)
    if kind is not None and not is_number(kind):
        if not isinstance(part, Column) or part.kind is None:
            return np.zeros(count, np.int64)
        return pools.add(kind, part, count) + np.arange(count)
    if not isinstance(part, Column) or part.kind is None:
        return np.zeros(count, _dtype(kind))
    values = np.array(full_values(part, count))
    return values.view(np.uint8) if values.dtype == np.bool_ else values


def _flag(states: Columns, path: tuple[int, ...], count: int) -> Any:
    """Where an optional part is there, as an array that may be changed."""
    part = _at(states, path)
    if part is None or (isinstance(part, Column) and part.kind is None):
        return np.zeros(count, np.uint8)
    return np.ones(count, np.uint8) if part.valid is None else part.valid.astype(np.uint8)


def _built(kind: StateKind, shape: Shape, scalars: list[Any], flags: list[Any], pools: Pools) -> Columns:
    """Columns of a structure from the arrays of its scalars and flags."""
    arrays = {one.path: (one.kind, values) for one, values in zip(shape.scalars, scalars, strict=True)}
    there = dict(zip(shape.flags, flags, strict=True))

    def build(one: StateKind, path: tuple[int, ...]) -> Columns:
        if one is None:
            return Column(None, None)
        if isinstance(one, Optional):
            valid = there[path].view(np.bool_)
            inner = build(one.item, path)
            return inner if valid.all() else attrs.evolve(inner, valid=valid) if valid.any() else Column(None, None)
        if isinstance(one, Record):
            names = () if one.cls is tuple else tuple(name for name, _ in one.fields)
            return Struct(one.cls, names, tuple(build(inner, (*path, at)) for at, (_, inner) in enumerate(one.fields)))
        if isinstance(one, UnitValue):
            return Column(one, UNIT)
        known, values = arrays[path]
        if known is not None and not is_number(known):
            return Column(known, taken(pools.values(known), values))
        return Column(known, values.view(np.bool_) if isinstance(known, Boolean) else values)

    return build(kind, ())

