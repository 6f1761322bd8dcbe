"""The source of an ordered operator as machine code: a loop over the items of each key, with its state in registers.

The loop takes one key after the other, as the sequential algorithm does, and writes emissions into arrays. It is left where an
item has no value, and where the arrays are full. Two texts are compared by numbers that their pool has for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.analysis.ordered_form import StateKind
from tracetypes.compiler.columns.machine.trees import NotMachine, Operand, Writer, is_number, zero
from tracetypes.compiler.runtime.ordered_arrays import Shape, name_of, type_of
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
    Value,
)
from tracetypes.records import Boolean, Float, Integer, Optional, Record, UnitValue

__all__ = ["LoopSource"]

TURNS: Final = 50_000_000
"""Turns of a loop at most."""


@final
class LoopSource:
    """The source of the loop of an operator, and what it reads. Raises :class:`NotMachine`."""

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
        self.text = self._source()

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
        names = [name_of("s", one.path) for one in self.state.scalars]
        flags = [name_of("f", path) for path in self.state.flags]
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
            lines += ["            if why != 0:", "                break"]
            # A key may be due before the block of its last item.
            lines += ["            if i > starts[k] and due < ends[i - 1]:", "                due = ends[i - 1]"]
            lines += ["            if due >= last:"]
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

        def nothing(one: Any, path: tuple[int, ...]) -> None:
            """None: its scalars mean nothing."""
            if isinstance(one, Optional):
                flags.append((name_of("f", path), "False"))
                nothing(one.item, path)
            elif isinstance(one, Record):
                for at, (_, inner) in enumerate(one.fields):
                    nothing(inner, (*path, at))
            elif one is not None and not isinstance(one, UnitValue):
                scalars.append((name_of("s", path), zero(one)))

        def visit(one: StateKind, path: tuple[int, ...], given: Value) -> None:
            if one is None or isinstance(one, UnitValue):
                return
            if isinstance(one, Optional):
                if isinstance(given, Const) and given.value is None:
                    nothing(one, path)
                    return
                if isinstance(given, Pack):
                    flags.append((name_of("f", path), "True"))
                    visit(one.item, path, given)
                    return
                operand = self._scalar(writer, one.item, given, known)
                flags.append((name_of("f", path), operand.there or "True"))
                scalars.append((name_of("s", path), zero(one.item) if operand.text == "None" else operand.text))
                return
            if isinstance(one, Record):
                if not isinstance(given, Pack) or len(given.parts) != len(one.fields) or given.cls is not one.cls:
                    raise NotMachine("another structure")
                for at, ((_, inner), part) in enumerate(zip(one.fields, given.parts, strict=True)):
                    visit(inner, (*path, at), part)
                return
            if isinstance(given, Pack):
                raise NotMachine("another structure")
            scalars.append((name_of("s", path), writer.present(self._scalar(writer, one, given, known))))

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
            there = name_of("f", path) if path in self.state.flags else None
            if isinstance(kind, Record):
                return Operand("None", there)
            return Operand(name_of("s", path), there)
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
            yield name_of("s", one.path) + "_", type_of(one.kind) + "*"
        for path in self.state.flags:
            yield name_of("f", path) + "_", "uint8*"
        for one in self.out.scalars:
            yield name_of("e", one.path) + "_", type_of(one.kind) + "*"
        for path in self.out.flags:
            yield name_of("g", path) + "_", "uint8*"
        for pool in self.pools.values():
            for _, base in pool.values():
                yield base, "int64"
        for name in sorted(self.numbers):
            yield name, "const int64*"
        for expr, number in self.columns.values():
            bare = expr.kind.item if isinstance(expr.kind, Optional) else expr.kind
            if is_number(bare):
                yield f"c{number}", f"const {type_of(bare)}*"
            if number in self.flags:
                yield f"p{number}", "const uint8*"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The types of the arguments."""
        return tuple(type_ for _, type_ in self._named())


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
